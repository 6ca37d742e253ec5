"""The Arrow types of a database's columns, and values of a driver as Arrow arrays."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deciban.dialects import DIALECTS, SqlDialect
from deciban.engines.sql.expressions import column_of_rows
from deciban.errors import EngineError
from deciban.show import one_line

ROWS_LOOKED_AT = 1000  # rows whose values decide a column's type, if the database has none
TIMESTAMP = pa.timestamp("us")
UTC = datetime.UTC

POSTGRESQL_TYPES: dict[int, pa.DataType] = {  # by type OID, which never changes
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    25: pa.string(),
    700: pa.float32(),
    701: pa.float64(),
    1043: pa.string(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: TIMESTAMP,
    1184: pa.timestamp("us", tz="UTC"),
    1186: pa.duration("us"),
}
POSTGRESQL_NUMERIC = 1700  # its OID


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column: its name and type, the cast in SELECT, and how its values are converted."""

    name: str
    kind: pa.DataType
    cast: Callable[[SqlDialect, str], str] | None = None
    read: Callable[[Any], Any] | None = None

    def selected(self, dialect: SqlDialect) -> str:
        value = column_of_rows(dialect, self.name)
        if self.cast is not None:
            value = self.cast(dialect, value)
        return f"{value} AS {dialect.identifier(self.name)}"

    def array(self, values: Sequence[Any], rows_named: str) -> pa.Array:
        """Values as an Arrow array of exactly this type."""
        read = self.read
        try:
            return pa.array(values if read is None else [None if v is None else read(v) for v in values], self.kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise EngineError(
                f"{rows_named}: column {one_line(self.name)!r} holds a value that does not fit its type {self.kind} "
                f"({one_line(str(error))}): CAST it in query=, or leave the column out"
            ) from None


def columns_of(cursor: Any, database: str, source: str, parts: Sequence[str]) -> list[TypedColumn]:
    """The columns of a table or a SELECT, with types from the catalogue or from the values of the first rows."""
    try:
        if database == "postgresql":
            cursor.execute(f"SELECT * FROM {source} AS t LIMIT 0")
            return [postgresql_column(about[0], about[1]) for about in cursor.description]
        cursor.execute(DIALECTS[database].limited(f"* FROM {source} AS t", ROWS_LOOKED_AT))
        names, rows = [about[0] for about in cursor.description], cursor.fetchall()
        values = [[row[j] for row in rows if row[j] is not None] for j in range(len(names))]
        if database == "sqlite":
            types = declared(cursor, parts) if parts else {}
            return [sqlite_column(n, types.get(n, ""), v) for n, v in zip(names, values, strict=True)]
        return [column_by_values(name, own) for name, own in zip(names, values, strict=True)]
    finally:
        cursor.close()


def postgresql_column(name: str, oid: int) -> TypedColumn:
    """Types that Arrow does not have are read as text: enumerations, UUIDs, JSON."""
    if oid == POSTGRESQL_NUMERIC:
        return TypedColumn(name, pa.float64(), SqlDialect.as_double)
    if oid in POSTGRESQL_TYPES:
        return TypedColumn(name, POSTGRESQL_TYPES[oid])
    return TypedColumn(name, pa.string(), SqlDialect.as_string)


def column_by_values(name: str, values: Sequence[Any]) -> TypedColumn:
    """The type of the driver's values; text if there are none."""
    types = {type(value) for value in values}
    for kinds, kind, read in (
        ({bool}, pa.bool_(), None),
        ({int}, pa.int64(), None),
        ({int, float, decimal.Decimal}, pa.float64(), float),
        ({datetime.date}, pa.date32(), None),
        ({datetime.date, datetime.datetime}, TIMESTAMP, as_timestamp),
        ({datetime.timedelta}, pa.duration("us"), None),
        ({bytes, bytearray}, pa.binary(), bytes),
    ):
        if types and types <= kinds:
            return TypedColumn(name, kind, read=read)
    return TypedColumn(name, pa.string(), read=as_text)


# ---------------------------------------------------------------------- SQLite: any column may hold any value


def declared(cursor: Any, parts: Sequence[str]) -> dict[str, str]:
    """The types that columns were declared with."""
    name = DIALECTS["sqlite"].identifier
    schema = f"{name(parts[0])}." if len(parts) > 1 else ""
    cursor.execute(f"PRAGMA {schema}table_xinfo({name(parts[-1])})")
    return {row[1]: row[2].upper() for row in cursor.fetchall()}


def sqlite_column(name: str, declared: str, values: Sequence[Any]) -> TypedColumn:
    """By its declared type, which is only advice to SQLite, and by the values of the first rows."""
    types = {type(value) for value in values}
    dated = bool(values) and all(as_timestamp(value) is not None for value in values)
    if ("DATE" in declared or "TIME" in declared) and (dated or not values):
        return TypedColumn(name, TIMESTAMP, read=as_timestamp)
    if "BOOL" in declared and all(value in (0, 1) for value in values):
        return TypedColumn(name, pa.bool_(), read=as_boolean)
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return TypedColumn(name, pa.string(), read=as_text)
    if "INT" in declared and types <= {int, str, bytes}:
        return TypedColumn(name, pa.int64(), read=as_integer)
    if any(word in declared for word in ("INT", "REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        return TypedColumn(name, pa.float64(), read=as_number)
    if types and types <= {int}:
        return TypedColumn(name, pa.int64(), read=as_integer)
    if types and types <= {int, float}:
        return TypedColumn(name, pa.float64(), read=as_number)
    if types and types <= {bytes}:
        return TypedColumn(name, pa.binary())
    return TypedColumn(name, pa.string(), read=as_text)


def as_number(value: Any) -> float | None:
    """A number; a text among numbers is missing, as in statements."""
    return None if isinstance(value, str | bytes) else float(value)


def as_integer(value: Any) -> int | None:
    if isinstance(value, str | bytes):
        return None
    if value != int(value):
        raise ValueError(f"{value!r} is not a whole number")
    return int(value)


def as_boolean(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError(f"{value!r} is neither 0 nor 1")
    return bool(value)


def as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def as_timestamp(value: Any) -> datetime.datetime | None:
    """A date or a timestamp of a driver or in a text, in UTC if it has a time zone; None for anything else."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if not isinstance(value, datetime.datetime):
        return None
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
