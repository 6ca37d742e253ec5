"""How SQL differs between databases: names, texts, numbers, types, functions, and limits of one statement.

Every database can compute sums (`engines.sql`); some can also score rows with a model (`export.sql`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from deciban.errors import DecibanError, did_you_mean
from deciban.formula import Input
from deciban.show import one_line, plain

MONTHS, DAYS = "JanFebMarAprMayJunJulAugSepOctNovDec", "SunMonTueWedThuFriSat"
SPACES = " \t\r\n"
QUOTE = "'"


class SqlDialect:
    """A kind of database. `name` is our name for it, `aliases` those that drivers and others use."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    max_result_columns: ClassVar[int] = 1000
    max_selects: ClassVar[int] = 500  # in one statement
    grouping_sets: ClassVar[bool] = True  # whether GROUPING SETS count by several columns in one scan
    has_booleans: ClassVar[bool] = True  # whether there are TRUE and FALSE, rather than 1 and 0
    nan: ClassVar[str] = ""  # how to test for NaN: "equal" (it equals itself), "function" (IS_NAN), "" (there is none)
    exact_collation: ClassVar[str] = ""  # in which only identical texts are equal; "" if it is the default
    double: ClassVar[str] = "DOUBLE"
    string: ClassVar[str] = "TEXT"
    random: ClassVar[str] = "RANDOM()"
    quotes: ClassVar[tuple[str, str]] = ('"', '"')  # around a name
    backslashes: ClassVar[bool] = False  # whether a backslash escapes the next character of a text

    # ------------------------------------------------------------------ names and values

    def identifier(self, name: str) -> str:
        """A name in quotes, whatever is in it."""
        if "\0" in name or not sendable(name):
            raise DecibanError(f"{one_line(name)!r} cannot be the name of a table or column in a database")
        first, last = self.quotes
        return f"{first}{self.escaped(name)}{last}"

    def escaped(self, name: str) -> str:
        """A name as it is written between its quotes."""
        return name.replace(self.quotes[1], 2 * self.quotes[1])

    def text(self, value: str) -> str | None:
        """A text in quotes; None if it may not be read back unchanged."""
        return self.quoted(value) if sendable(value) and not set("\\\0") & set(value) else None

    def quoted(self, value: str) -> str:
        return f"'{backslashed(value, QUOTE) if self.backslashes else value.replace(QUOTE, 2 * QUOTE)}'"

    def as_double(self, value: str) -> str:
        return f"CAST({value} AS {self.double})"

    def as_string(self, value: str) -> str:
        return f"CAST({value} AS {self.string})"

    def constant(self, value: float) -> str:
        """A double, to its last digit: in some databases 1.5 would be an exact decimal, 1.5e0 is not."""
        digits = repr(float(value))
        return self.as_double(digits if "e" in digits else digits + "e0")

    def limited(self, selected: str, rows: int) -> str:
        """The first `rows` rows of a SELECT; `selected` is everything after the word SELECT."""
        return f"SELECT {selected} LIMIT {rows}"


class MySQL(SqlDialect):
    name = "mysql"
    aliases = ("mariadb",)
    max_result_columns = 4_000
    max_selects = 60
    grouping_sets = False
    has_booleans = False
    exact_collation = "utf8mb4_0900_bin"
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
    aliases = ("tsql",)
    has_booleans = False
    exact_collation = "Latin1_General_100_BIN2"
    double = "FLOAT"
    string = "NVARCHAR(MAX)"
    random = "NEWID()"
    quotes = ("[", "]")

    def limited(self, selected: str, rows: int) -> str:
        return f"SELECT TOP {rows} {selected}"


class FormulaDialect(SqlDialect):
    """DuckDB's SQL, in which formulas can be written too; the base of the other such dialects."""

    name = "duckdb"
    max_result_columns = 10_000
    nan = "equal"
    exact_collation = '"binary"'
    fence: ClassVar[str] = ""  # keeps a step from being inlined wherever it is used
    max_step_columns: ClassVar[int] = 100_000
    max_case_depth: ClassVar[int] = 200  # of nested CASEs
    greatest: ClassVar[str] = "greatest"
    trim: ClassVar[str] = "trim"
    nul: ClassVar[str | None] = "chr(0)"  # the character that no literal can contain

    def text(self, value: str) -> str | None:
        """A text in quotes, whatever is in it; None if no column can contain it."""
        if not sendable(value) or ("\0" in value and self.nul is None):
            return None
        parts = [self.quoted(part) for part in value.split("\0")]
        return parts[0] if len(parts) == 1 else "(" + f" || {self.nul} || ".join(parts) + ")"

    def number(self, value: float) -> str:
        """A double, to its last digit. (1.5 is an exact decimal in DuckDB, 1.5e0 a double.)"""
        if math.isinf(value):
            return f"'{'-' if value < 0 else ''}infinity'::DOUBLE"
        digits = repr(float(value))
        return digits if "e" in digits else digits + "e0"

    def whole(self, value: int) -> str:
        """A 64-bit integer."""
        return f"{value}::BIGINT"

    def label(self, value: Any) -> str:
        """A label as a literal of its own type."""
        value = plain(value)
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return self.number(value)
        text = self.text(str(value))
        if text is None:
            raise DecibanError(f"the label {one_line(str(value))!r} has a character that {self.name} cannot store")
        return text

    def best(self, values: Sequence[str]) -> str:
        """The greatest of several values; functions take a limited number of arguments."""
        expressions = list(values)
        while len(expressions) > 1:
            expressions = [
                f"{self.greatest}({', '.join(group)})" if len(group) > 1 else group[0]
                for group in (expressions[i : i + 50] for i in range(0, len(expressions), 50))
            ]
        return expressions[0]

    def feature(self, name: str) -> str:
        """The name of a table, a feature or an output column, in quotes."""
        if not name or "\0" in name or not sendable(name):
            raise DecibanError(
                f"{one_line(name)!r} cannot be the name of a table or column in a database: give another with "
                "columns={feature: name}"
            )
        return self.identifier(name)

    # ------------------------------------------------------------------ reading columns

    def read(self, one: Input, column: str) -> str:
        """A column as the model reads it: a number or a text; NULL if it is missing."""
        by_kind: dict[str, Callable[[str], str]] = {
            "number": self.as_number,
            "boolean": self.as_boolean,
            "date": self.as_days,
            "month": self.as_month,
            "weekday": self.as_weekday,
            "text": self.as_text,
        }
        value = by_kind[one.kind](f"t.{self.feature(column)}")
        if not one.missing_texts:
            return value
        words = " ".join(f"WHEN {self.quoted(word)} THEN NULL" for word in one.missing_texts)
        return f"CASE lower({self.trim}({value}, {self.quoted(SPACES)})) {words} ELSE {value} END"

    def as_number(self, column: str) -> str:
        return f"nullif(TRY_CAST({column} AS DOUBLE), 'nan'::DOUBLE)"

    def as_boolean(self, column: str) -> str:
        return f"CAST(TRY_CAST({column} AS BOOLEAN) AS DOUBLE)"

    def as_text(self, column: str) -> str:
        return f"CAST({column} AS VARCHAR)"

    def as_days(self, column: str, moment: str = "CAST({} AS TIMESTAMP)") -> str:
        """Days since 1970; `moment` is how the column is cast to a timestamp, "{}" if it already is one."""
        return f"epoch({moment.format(column)}) / 86400e0"

    def as_month(self, column: str) -> str:
        return f"strftime(CAST({column} AS TIMESTAMP), '%b')"

    def as_weekday(self, column: str) -> str:
        return f"strftime(CAST({column} AS TIMESTAMP), '%a')"


class PostgreSQL(FormulaDialect):
    """PostgreSQL 12 and later."""

    name = "postgresql"
    aliases = ("postgres",)
    max_result_columns = 1_600
    exact_collation = '"C"'
    double = "DOUBLE PRECISION"
    fence = "MATERIALIZED "
    max_step_columns = 1600
    trim = "btrim"
    nul = None  # no text can contain it

    def quoted(self, value: str) -> str:
        """Backslashes are doubled in an E'…' literal, which means the same under any server setting."""
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
    aliases = ("sqlite3",)
    max_result_columns = 1_900
    max_selects = 400
    grouping_sets = False
    has_booleans = False
    nan = ""
    exact_collation = '"BINARY"'
    double = "REAL"
    fence = "MATERIALIZED "
    max_step_columns = 1900
    max_case_depth = 10  # its parser's stack holds a hundred symbols
    greatest = "max"
    nul = "char(0)"

    def number(self, value: float) -> str:
        if math.isinf(value):
            return "-9e999" if value < 0 else "9e999"  # numbers that are too large become infinite
        digits = repr(float(value))
        return digits if "e" in digits or "." in digits else digits + ".0"

    def whole(self, value: int) -> str:
        return str(value)

    def as_number(self, column: str) -> str:
        """A text that is not a number is missing; SQLite itself would read it as 0."""
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


FORMULA_DIALECTS: dict[str, FormulaDialect] = {one.name: one for one in (FormulaDialect(), PostgreSQL(), SQLite())}
SUM_DIALECTS: tuple[SqlDialect, ...] = (MySQL(), Snowflake(), BigQuery(), SQLServer())
DIALECTS: dict[str, SqlDialect] = {**FORMULA_DIALECTS, **{one.name: one for one in SUM_DIALECTS}}


def dialect_of(name: str) -> SqlDialect:
    """The dialect of a database, by its name or an alias."""
    for dialect in DIALECTS.values():
        if name in (dialect.name, *dialect.aliases):
            return dialect
    known = f"it must be one of {', '.join(map(repr, DIALECTS))}"
    raise DecibanError("dialect is {value!r}: {hint}", value=name, hint=did_you_mean(name, DIALECTS, known))


def backslashed(text: str, quote: str) -> str:
    """A text between such quotes, with backslashes as escapes."""
    for raw, escaped in (("\\", "\\\\"), (quote, "\\" + quote), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(raw, escaped)
    return text


def sendable(text: str) -> bool:
    """Whether a text can be sent to a database at all: lone surrogates cannot."""
    return not any("\ud800" <= c <= "\udfff" for c in text)
