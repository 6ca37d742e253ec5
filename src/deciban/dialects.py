"""What databases say differently, once: names, texts, numbers, types, functions, and what one statement may hold.

Every database is asked to add up (`engines.sql`); in some of them a model can answer as well (`export.sql`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from deciban.errors import DecibanError
from deciban.formula import Input
from deciban.show import one_line, plain

MONTHS, DAYS = "JanFebMarAprMayJunJulAugSepOctNovDec", "SunMonTueWedThuFriSat"
SPACES = " \t\r\n"
QUOTE = "'"


class SqlDialect:
    """A kind of database. `name` is what people call it, `also` what drivers and others do."""

    name: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()
    widest_result: ClassVar[int] = 1000  # columns of a result
    parts: ClassVar[int] = 500  # SELECTs in one statement
    sets: ClassVar[bool] = True  # whether it counts by several columns in one scan: GROUPING SETS
    booleans: ClassVar[bool] = True  # whether there are true and false, rather than 1 and 0
    nan: ClassVar[str] = ""  # how NaN is told: "equal" where it equals itself, "function" by IS_NAN, "" without any
    exact: ClassVar[str] = ""  # the collation by which only what is the same text is equal; "" where it is the usual
    double: ClassVar[str] = "DOUBLE"
    string: ClassVar[str] = "TEXT"
    random: ClassVar[str] = "RANDOM()"
    quotes: ClassVar[tuple[str, str]] = ('"', '"')  # around a name
    backslashes: ClassVar[bool] = False  # whether in a text a backslash escapes what comes after it

    # ------------------------------------------------------------------ names and values

    def identifier(self, name: str) -> str:
        """A name in quotes, whatever is in it."""
        if "\0" in name or not sendable(name):
            raise DecibanError(f"{one_line(name)!r} cannot be the name of a table or column in a database")
        first, last = self.quotes
        return f"{first}{self.escaped(name)}{last}"

    def escaped(self, name: str) -> str:
        """A name as it stands between its quotes."""
        return name.replace(self.quotes[1], 2 * self.quotes[1])

    def text(self, value: str) -> str | None:
        """A text in quotes; None where it is not sure to be read as the same."""
        return self.quoted(value) if sendable(value) and not set("\\\0") & set(value) else None

    def quoted(self, value: str) -> str:
        return f"'{backslashed(value, QUOTE) if self.backslashes else value.replace(QUOTE, 2 * QUOTE)}'"

    def as_double(self, value: str) -> str:
        return f"CAST({value} AS {self.double})"

    def as_string(self, value: str) -> str:
        return f"CAST({value} AS {self.string})"

    def constant(self, value: float) -> str:
        """A double, to its last digit: 1.5 would be an exact decimal in some databases, 1.5e0 is none."""
        digits = repr(float(value))
        return self.as_double(digits if "e" in digits else digits + "e0")

    def limited(self, selected: str, rows: int) -> str:
        """The first so many rows of a SELECT, `selected` being all that comes after the word."""
        return f"SELECT {selected} LIMIT {rows}"


class MySQL(SqlDialect):
    name = "mysql"
    also = ("mariadb",)
    widest_result = 4_000
    parts = 60
    sets = False
    booleans = False
    exact = "utf8mb4_0900_bin"
    string = "CHAR"
    random = "RAND()"
    quotes = ("`", "`")


class Snowflake(SqlDialect):
    name = "snowflake"
    nan = "equal"
    string = "VARCHAR"
    backslashes = True


class BigQuery(SqlDialect):
    name = "bigquery"
    nan = "function"
    double = "FLOAT64"
    string = "STRING"
    random = "RAND()"
    quotes = ("`", "`")
    backslashes = True

    def escaped(self, name: str) -> str:
        return backslashed(name, "`")


class SQLServer(SqlDialect):
    name = "mssql"
    also = ("tsql",)
    booleans = False
    exact = "Latin1_General_100_BIN2"
    double = "FLOAT"
    string = "NVARCHAR(MAX)"
    random = "NEWID()"
    quotes = ("[", "]")

    def limited(self, selected: str, rows: int) -> str:
        return f"SELECT TOP {rows} {selected}"


class FormulaDialect(SqlDialect):
    """DuckDB's SQL, in which formulas are written too, and of which others are variations."""

    name = "duckdb"
    widest_result = 10_000
    nan = "equal"
    exact = '"binary"'
    fence: ClassVar[str] = ""  # what keeps a step from being written out wherever it is used
    widest: ClassVar[int] = 100_000  # columns of a step
    deepest: ClassVar[int] = 200  # CASE inside of CASE
    greatest: ClassVar[str] = "greatest"
    trim: ClassVar[str] = "trim"
    zero: ClassVar[str | None] = "chr(0)"  # the character that no text in a statement can have

    def text(self, value: str) -> str | None:
        """A text in quotes, whatever is in it; None where no column can hold it."""
        if not sendable(value) or ("\0" in value and self.zero is None):
            return None
        parts = [self.quoted(part) for part in value.split("\0")]
        return parts[0] if len(parts) == 1 else "(" + f" || {self.zero} || ".join(parts) + ")"

    def number(self, value: float) -> str:
        """A double, to its last digit. (1.5 is an exact decimal in DuckDB, 1.5e0 a double.)"""
        if math.isinf(value):
            return f"'{'-' if value < 0 else ''}infinity'::DOUBLE"
        digits = repr(float(value))
        return digits if "e" in digits else digits + "e0"

    def whole(self, value: int) -> str:
        """A whole number of 64 bits."""
        return f"{value}::BIGINT"

    def label(self, value: Any) -> str:
        """A label as what it is."""
        value = plain(value)
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return self.number(value)
        text = self.text(str(value))
        if text is None:
            raise DecibanError(f"the label {one_line(str(value))!r} has a character that {self.name} cannot hold")
        return text

    def best(self, values: Sequence[str]) -> str:
        """The greatest of several; a function takes only so many arguments."""
        named = list(values)
        while len(named) > 1:
            named = [
                f"{self.greatest}({', '.join(some)})" if len(some) > 1 else some[0]
                for some in (named[i : i + 50] for i in range(0, len(named), 50))
            ]
        return named[0]

    def feature(self, name: str) -> str:
        """The name of a table, a feature or an answer, in quotes."""
        if not name or "\0" in name or not sendable(name):
            raise DecibanError(
                f"{one_line(name)!r} cannot be the name of a table or column in a database: give another with "
                "columns={feature: name}"
            )
        return self.identifier(name)

    # ------------------------------------------------------------------ reading columns

    def read(self, one: Input, column: str) -> str:
        """What is in a column, as the model reads it: a number, or a text; NULL where it is missing."""
        ways: dict[str, Callable[[str], str]] = {
            "number": self.as_number,
            "boolean": self.as_boolean,
            "date": self.as_days,
            "month": self.as_month,
            "weekday": self.as_weekday,
            "text": self.as_text,
        }
        value = ways[one.kind](f"t.{self.feature(column)}")
        if not one.nothing:
            return value
        words = " ".join(f"WHEN {self.quoted(word)} THEN NULL" for word in one.nothing)
        return f"CASE lower({self.trim}({value}, {self.quoted(SPACES)})) {words} ELSE {value} END"

    def as_number(self, column: str) -> str:
        return f"nullif(TRY_CAST({column} AS DOUBLE), 'nan'::DOUBLE)"

    def as_boolean(self, column: str) -> str:
        return f"CAST(TRY_CAST({column} AS BOOLEAN) AS DOUBLE)"

    def as_text(self, column: str) -> str:
        return f"CAST({column} AS VARCHAR)"

    def as_days(self, column: str, moment: str = "CAST({} AS TIMESTAMP)") -> str:
        """Days since 1970; `moment` is how the column is made a point in time, "{}" where it is one already."""
        return f"epoch({moment.format(column)}) / 86400e0"

    def as_month(self, column: str) -> str:
        return f"strftime(CAST({column} AS TIMESTAMP), '%b')"

    def as_weekday(self, column: str) -> str:
        return f"strftime(CAST({column} AS TIMESTAMP), '%a')"


class PostgreSQL(FormulaDialect):
    """PostgreSQL 12 and later."""

    name = "postgresql"
    also = ("postgres",)
    widest_result = 1_600
    exact = '"C"'
    double = "DOUBLE PRECISION"
    fence = "MATERIALIZED "
    widest = 1600
    trim = "btrim"
    zero = None  # no text here has it

    def quoted(self, value: str) -> str:
        """With backslashes doubled in a text that says so, whatever the server is set to."""
        return ("E" if "\\" in value else "") + "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    def number(self, value: float) -> str:
        if math.isinf(value):
            return f"'{'-' if value < 0 else ''}infinity'::float8"
        return f"{float(value)!r}::float8"

    def as_number(self, column: str) -> str:
        return f"nullif(CAST({column} AS float8), 'nan'::float8)"

    def as_boolean(self, column: str) -> str:
        return f"CAST(CAST(CAST({column} AS boolean) AS integer) AS float8)"

    def as_text(self, column: str) -> str:
        return f"CAST({column} AS text)"

    def as_days(self, column: str, moment: str = "CAST({} AS timestamp)") -> str:
        return f"CAST(extract(epoch FROM {moment.format(column)}) AS float8) / 86400"

    def as_month(self, column: str) -> str:
        return f"to_char(CAST({column} AS timestamp), 'Mon')"

    def as_weekday(self, column: str) -> str:
        return f"to_char(CAST({column} AS timestamp), 'Dy')"


class SQLite(FormulaDialect):
    """SQLite 3.35 and later, built with its mathematical functions, as Python's and the command line's are."""

    name = "sqlite"
    also = ("sqlite3",)
    widest_result = 1_900
    parts = 400
    sets = False
    booleans = False
    nan = ""
    exact = '"BINARY"'
    double = "REAL"
    fence = "MATERIALIZED "
    widest = 1900
    deepest = 10  # its parser's stack is a hundred symbols high
    greatest = "max"
    zero = "char(0)"

    def number(self, value: float) -> str:
        if math.isinf(value):
            return "-9e999" if value < 0 else "9e999"  # what is too large is infinite
        digits = repr(float(value))
        return digits if "e" in digits or "." in digits else digits + ".0"

    def whole(self, value: int) -> str:
        return str(value)

    def as_number(self, column: str) -> str:
        """A text that is no number is missing; SQLite itself would take it for 0."""
        odd = f"typeof({column}) = 'text' AND ({column} GLOB '*[^-+.0-9eE ]*' OR {column} NOT GLOB '*[0-9]*')"
        return f"CASE WHEN {odd} THEN NULL ELSE CAST({column} AS REAL) END"

    def as_boolean(self, column: str) -> str:
        return self.as_number(column)

    def as_text(self, column: str) -> str:
        return f"CAST({column} AS TEXT)"

    def as_days(self, column: str, moment: str = "{}") -> str:
        del moment  # a time zone is part of the text here
        return f"(julianday({column}) - 2440587.5)"

    def as_month(self, column: str) -> str:
        return f"substr('{MONTHS}', 3 * CAST(strftime('%m', {column}) AS INTEGER) - 2, 3)"

    def as_weekday(self, column: str) -> str:
        return f"substr('{DAYS}', 3 * CAST(strftime('%w', {column}) AS INTEGER) + 1, 3)"


FORMULAS: dict[str, FormulaDialect] = {one.name: one for one in (FormulaDialect(), PostgreSQL(), SQLite())}
OTHERS: tuple[SqlDialect, ...] = (MySQL(), Snowflake(), BigQuery(), SQLServer())
DIALECTS: dict[str, SqlDialect] = {**FORMULAS, **{one.name: one for one in OTHERS}}


def dialect_of(name: str) -> SqlDialect:
    """The dialect of a database, by our name for it or another's."""
    for dialect in DIALECTS.values():
        if name in (dialect.name, *dialect.also):
            return dialect
    raise DecibanError(f"dialect is {name!r}: it must be one of {', '.join(map(repr, DIALECTS))}")


def backslashed(text: str, quote: str) -> str:
    """A text between such quotes, where backslashes escape."""
    for plain_one, escaped in (("\\", "\\\\"), (quote, "\\" + quote), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain_one, escaped)
    return text


def sendable(text: str) -> bool:
    """Whether a text can be sent to a database at all: halves of characters cannot."""
    return not any("\ud800" <= c <= "\udfff" for c in text)
