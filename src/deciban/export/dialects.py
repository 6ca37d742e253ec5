"""What databases say differently: names, texts, numbers, and how a column is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from deciban.errors import DecibanError
from deciban.formula import Input
from deciban.show import one_line, plain

MONTHS, DAYS = "JanFebMarAprMayJunJulAugSepOctNovDec", "SunMonTueWedThuFriSat"
SPACES = " \t\r\n"


class Dialect:
    """DuckDB's SQL, of which the others are variations."""

    name: ClassVar[str] = "duckdb"
    fence: ClassVar[str] = ""  # what keeps a step from being written out wherever it is used
    widest: ClassVar[int] = 100_000  # columns of a step
    deepest: ClassVar[int] = 200  # CASE inside of CASE
    greatest: ClassVar[str] = "greatest"
    trim: ClassVar[str] = "trim"
    zero: ClassVar[str | None] = "chr(0)"  # the character that no text in a statement can have

    def identifier(self, name: str) -> str:
        """A name in quotes, whatever is in it."""
        if not name or "\0" in name or not sendable(name):
            raise DecibanError(
                f"{one_line(name)!r} cannot be the name of a table or column in a database: give another with "
                "columns={feature: name}"
            )
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str | None:
        """A text in quotes, whatever is in it; None where no column can hold it."""
        if not sendable(value) or ("\0" in value and self.zero is None):
            return None
        parts = [self.quoted(part) for part in value.split("\0")]
        return parts[0] if len(parts) == 1 else "(" + f" || {self.zero} || ".join(parts) + ")"

    def quoted(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def number(self, value: float) -> str:
        """A double, to its last digit. (1.5 is an exact decimal in DuckDB, 1.5e0 a double.)"""
        if math.isinf(value):
            return f"'{'-' if value < 0 else ''}infinity'::DOUBLE"
        said = repr(float(value))
        return said if "e" in said else said + "e0"

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
        said = self.text(str(value))
        if said is None:
            raise DecibanError(f"the label {one_line(str(value))!r} has a character that {self.name} cannot hold")
        return said

    def best(self, values: Sequence[str]) -> str:
        """The greatest of several; a function takes only so many arguments."""
        named = list(values)
        while len(named) > 1:
            named = [
                f"{self.greatest}({', '.join(some)})" if len(some) > 1 else some[0]
                for some in (named[i : i + 50] for i in range(0, len(named), 50))
            ]
        return named[0]

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
        said = ways[one.kind](f"t.{self.identifier(column)}")
        if not one.nothing:
            return said
        words = " ".join(f"WHEN {self.quoted(word)} THEN NULL" for word in one.nothing)
        return f"CASE lower({self.trim}({said}, {self.quoted(SPACES)})) {words} ELSE {said} END"

    def as_number(self, column: str) -> str:
        return f"nullif(TRY_CAST({column} AS DOUBLE), 'nan'::DOUBLE)"

    def as_boolean(self, column: str) -> str:
        return f"CAST(TRY_CAST({column} AS BOOLEAN) AS DOUBLE)"

    def as_text(self, column: str) -> str:
        return f"CAST({column} AS VARCHAR)"

    def as_days(self, column: str) -> str:
        return f"epoch(CAST({column} AS TIMESTAMP)) / 86400e0"

    def as_month(self, column: str) -> str:
        return f"strftime(CAST({column} AS TIMESTAMP), '%b')"

    def as_weekday(self, column: str) -> str:
        return f"strftime(CAST({column} AS TIMESTAMP), '%a')"


class PostgreSQL(Dialect):
    """PostgreSQL 12 and later."""

    name = "postgresql"
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

    def as_days(self, column: str) -> str:
        return f"CAST(extract(epoch FROM CAST({column} AS timestamp)) AS float8) / 86400"

    def as_month(self, column: str) -> str:
        return f"to_char(CAST({column} AS timestamp), 'Mon')"

    def as_weekday(self, column: str) -> str:
        return f"to_char(CAST({column} AS timestamp), 'Dy')"


class SQLite(Dialect):
    """SQLite 3.35 and later, built with its mathematical functions, as Python's and the command line's are."""

    name = "sqlite"
    fence = "MATERIALIZED "
    widest = 1900
    deepest = 10  # its parser's stack is a hundred symbols high
    greatest = "max"
    zero = "char(0)"

    def number(self, value: float) -> str:
        if math.isinf(value):
            return "-9e999" if value < 0 else "9e999"  # what is too large is infinite
        said = repr(float(value))
        return said if "e" in said or "." in said else said + ".0"

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

    def as_days(self, column: str) -> str:
        return f"(julianday({column}) - 2440587.5)"

    def as_month(self, column: str) -> str:
        return f"substr('{MONTHS}', 3 * CAST(strftime('%m', {column}) AS INTEGER) - 2, 3)"

    def as_weekday(self, column: str) -> str:
        return f"substr('{DAYS}', 3 * CAST(strftime('%w', {column}) AS INTEGER) + 1, 3)"


DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (Dialect(), PostgreSQL(), SQLite())}


def sendable(text: str) -> bool:
    """Whether a text can be sent to a database at all: halves of characters cannot."""
    return not any("\ud800" <= c <= "\udfff" for c in text)
