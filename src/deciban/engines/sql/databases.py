"""What databases say differently where they add up: how a column is read, and how much one statement may hold.

Expressions are sqlglot's trees, so that names and texts are quoted as each database has it, whatever is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from deciban.errors import DecibanError
from deciban.export.dialects import sendable
from deciban.show import one_line

Tree: TypeAlias = Any  # a sqlglot expression

ROWS = "t"  # what the rows are called inside of a statement


@dataclass(frozen=True, slots=True)
class Database:
    """A kind of database.

    `name` is what `to_sql` and people call it, `dialect` what sqlglot does.
    """

    name: str
    dialect: str
    widest: int = 1000  # columns of a result
    parts: int = 500  # SELECTs in one statement
    sets: bool = True  # whether it counts by several columns in one scan: GROUPING SETS
    nan: str = ""  # how NaN is told: "equal" where it equals itself, "function" where IS_NAN says so, "" without any
    exact: str = ""  # the collation under which only what is the same text is equal; "" where it is the usual one
    booleans: bool = True  # whether there are true and false, rather than 1 and 0
    days: Callable[[Tree, bool], Tree] | None = None  # days since 1970 of a date; with a time zone?

    def sql(self, tree: Tree) -> str:
        return str(tree.sql(dialect=self.dialect, comments=False))

    # ------------------------------------------------------------------ reading columns

    def number(self, column: str, kind: pa.DataType) -> Tree:
        """A column as a double; NULL where it is missing or NaN."""
        exp, value = sqlglot_trees(), name_of(column)
        if is_date(kind):
            if self.days is None:
                raise DecibanError(f"dates of {self.name} are not known here")  # `unreadable` says so before
            return self.days(value, getattr(kind, "tz", None) is not None)
        if self.name == "sqlite":  # any column may hold a text, which CAST would take for 0
            text = exp.In(this=exp.Typeof(this=value), expressions=[exp.Literal.string(t) for t in ("text", "blob")])
            return exp.Case(ifs=[exp.If(this=text, true=exp.null())], default=double(value.copy()))
        if pa.types.is_boolean(kind) and self.booleans:
            yes, no = exp.If(this=value, true=literal(1.0)), exp.If(this=exp.Not(this=value.copy()), true=literal(0.0))
            return exp.Case(ifs=[yes, no])
        said = double(value)
        if not pa.types.is_floating(kind) or not self.nan:
            return said
        if self.nan == "function":
            return exp.Case(ifs=[exp.If(this=exp.IsNan(this=said), true=exp.null())], default=said.copy())
        return exp.Nullif(this=said, expression=double(exp.Literal.string("NaN")))

    def text(self, column: str) -> Tree:
        """A column as a text that equals no other."""
        exp, said = sqlglot_trees(), self.as_text(name_of(column))
        if not self.exact:
            return said
        bare = self.dialect in ("mysql", "tsql")  # whose collations are words and not names
        word = exp.Var(this=self.exact) if bare else exp.to_identifier(self.exact, quoted=True)
        return exp.Collate(this=said, expression=word)

    def as_text(self, tree: Tree) -> Tree:
        exp = sqlglot_trees()
        return exp.cast(tree, exp.DataType.build("NVARCHAR(MAX)", dialect="tsql") if self.name == "mssql" else "text")

    def label(self, column: str, kind: pa.DataType) -> Tree:
        """A label as what it is."""
        if is_text(kind):
            return self.text(column)
        if pa.types.is_floating(kind):
            return self.number(column, kind)
        return name_of(column)

    def unreadable(self, column: str, kind: pa.DataType) -> str | None:
        """Why a column cannot be read as numbers here, if so."""
        if is_date(kind):
            return None if self.days is not None else f"{self.name} counts days in a way that is not known here"
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return None
        return f"column {one_line(column)!r} is of type {kind}, and is to be read as numbers"


def duckdb_days(value: Tree, zoned: bool) -> Tree:
    exp = sqlglot_trees()
    moment = value if zoned else exp.cast(value, "timestamp")
    return exp.Div(this=exp.Anonymous(this="EPOCH", expressions=[moment]), expression=literal(86_400.0))


def postgresql_days(value: Tree, zoned: bool) -> Tree:
    exp = sqlglot_trees()
    moment = value if zoned else exp.cast(value, "timestamp")
    seconds = double(exp.Extract(this=exp.Var(this="EPOCH"), expression=moment))
    return exp.Div(this=seconds, expression=literal(86_400.0))


def sqlite_days(value: Tree, zoned: bool) -> Tree:
    del zoned  # a time zone is part of the text there
    exp = sqlglot_trees()
    julian = exp.Anonymous(this="JULIANDAY", expressions=[value])
    return exp.Paren(this=exp.Sub(this=julian, expression=literal(2_440_587.5)))


DATABASES: dict[str, Database] = {
    one.name: one
    for one in (
        Database("duckdb", "duckdb", 10_000, nan="equal", exact="binary", days=duckdb_days),
        Database("postgresql", "postgres", 1_600, nan="equal", exact="C", days=postgresql_days),
        Database("sqlite", "sqlite", 1_900, 400, sets=False, exact="BINARY", booleans=False, days=sqlite_days),
        Database("mysql", "mysql", 4_000, 60, sets=False, exact="utf8mb4_0900_bin", booleans=False),
        Database("snowflake", "snowflake", nan="equal"),
        Database("bigquery", "bigquery", nan="function"),
        Database("mssql", "tsql", exact="Latin1_General_100_BIN2", booleans=False),
    )
}
ALSO = {"postgres": "postgresql", "tsql": "mssql", "mariadb": "mysql", "sqlite3": "sqlite"}


def database_of(name: str) -> Database:
    """The database of that name, ours or another's for it."""
    found = DATABASES.get(ALSO.get(name, name))
    if found is None:
        raise DecibanError(f"dialect is {name!r}: it must be one of {', '.join(map(repr, DATABASES))}")
    return found


# ---------------------------------------------------------------------- trees


def sqlglot_trees() -> Any:
    """sqlglot's expressions, an optional package."""
    try:
        from sqlglot import exp
    except ImportError:
        raise DecibanError("rows in a database are added up there with sqlglot: pip install 'deciban[sql]'") from None
    return exp


def identifier(name: str) -> Tree:
    """A name that is quoted, whatever is in it."""
    if "\0" in name or not sendable(name):
        raise DecibanError(f"{one_line(name)!r} cannot be the name of a table or column in a database")
    return sqlglot_trees().to_identifier(name, quoted=True)


def name_of(column: str) -> Tree:
    """A column of the rows."""
    return sqlglot_trees().Column(this=identifier(column), table=sqlglot_trees().to_identifier(ROWS))


def double(tree: Tree) -> Tree:
    return sqlglot_trees().cast(tree, "double")


def literal(value: float) -> Tree:
    """A double, to its last digit: 1.5 would be an exact decimal in some databases, 1.5e0 is none."""
    said = repr(float(value))
    return double(sqlglot_trees().Literal(this=said if "e" in said else said + "e0", is_string=False))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
