"""Columns of a database as SQL expressions, to be summed: as a number, a text, or a label."""

from __future__ import annotations

import pyarrow as pa

from deciban.dialects import FormulaDialect, SqlDialect
from deciban.errors import DecibanError
from deciban.show import one_line

ROWS_ALIAS = "t"  # the name of the rows in a statement


def column_of_rows(dialect: SqlDialect, column: str) -> str:
    return f"{ROWS_ALIAS}.{dialect.identifier(column)}"


def as_number(dialect: SqlDialect, column: str, kind: pa.DataType) -> str:
    """A column as a double; NULL if it is missing or NaN."""
    value = column_of_rows(dialect, column)
    double = dialect.as_double(value)
    if is_date(kind):
        if not isinstance(dialect, FormulaDialect):
            raise DecibanError(f"dates of {dialect.name} are not supported")  # `unreadable` reports it before
        return dialect.as_days(value, "{}") if getattr(kind, "tz", None) is not None else dialect.as_days(value)
    if dialect.name == "sqlite":  # any column may contain a text, which CAST would read as 0
        return f"CASE WHEN TYPEOF({value}) IN ('text', 'blob') THEN NULL ELSE {double} END"
    if pa.types.is_boolean(kind) and dialect.has_booleans:
        return f"CASE WHEN {value} THEN {dialect.constant(1.0)} WHEN NOT {value} THEN {dialect.constant(0.0)} END"
    if not pa.types.is_floating(kind) or not dialect.nan:
        return double
    if dialect.nan == "function":
        return f"CASE WHEN IS_NAN({double}) THEN NULL ELSE {double} END"
    return f"NULLIF({double}, {dialect.as_double(dialect.quoted('NaN'))})"


def as_exact_text(dialect: SqlDialect, column: str) -> str:
    """A column as a text that equals only identical texts."""
    text = dialect.as_string(column_of_rows(dialect, column))
    return f"{text} COLLATE {dialect.exact_collation}" if dialect.exact_collation else text


def as_label(dialect: SqlDialect, column: str, kind: pa.DataType) -> str:
    """A label of its own type."""
    if is_text(kind):
        return as_exact_text(dialect, column)
    return as_number(dialect, column, kind) if pa.types.is_floating(kind) else column_of_rows(dialect, column)


def unreadable(dialect: SqlDialect, column: str, kind: pa.DataType) -> str | None:
    """Why a column cannot be read as numbers; None if it can."""
    if is_date(kind):
        known = isinstance(dialect, FormulaDialect)
        return None if known else f"{dialect.name} counts days in an unsupported way"
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return None
    return f"column {one_line(column)!r} is of type {kind}, but numbers are needed"


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
