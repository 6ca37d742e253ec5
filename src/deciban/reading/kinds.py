"""The kinds of a table's columns, inferred without labels, and the reason for each.

A kind is a guess that can be overruled (`given`), so the rules are few and simple, and each states its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast, get_args

import numpy as np

from deciban._kernel import text as kernel
from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.reading.columns import Column, Levels, Numbers
from deciban.reading.convert import MISSING_NAMES, Format, as_kind, date, days_of_digits, is_missing_word, number
from deciban.reading.dates import DateFormat, dates_in_words, infer_dates
from deciban.reading.frames import Frame, no_such_column
from deciban.reading.numerals import MAX_VALUES, SEPARATORS, Look, NumberFormat, common_decimal, look, written
from deciban.show import Table

__all__ = ["LEFT_OUT", "ColumnKind", "Kind", "as_kind", "infer", "kinds_table"]

Kind: TypeAlias = Literal["number", "count", "category", "boolean", "text", "date", "constant", "identifier", "skip"]
LEFT_OUT = ("constant", "identifier", "skip")  # kinds that are useless for new rows

GIVEN = "given"  # the reason for a kind that was not inferred
MIN_ROWS_OF_IDENTIFIERS = 20  # with fewer rows all values may differ by chance
MIN_DISTINCT_SHARE = 0.95  # of the values differ: they identify rows
MIN_DATES = 3  # distinct ones, for whole numbers such as 20211231 to be dates
MAX_SPAN = 2.0  # distinct integers that fill at least half of their range were assigned, not measured
MIN_WORDS_OF_TEXT, MIN_CHARACTERS_OF_TEXT = (
    3.0,
    60.0,
)  # words or characters per value, on average, from which strings are texts
MIN_WORDS_OF_FORM, MIN_LEVELS_OF_FORM, MIN_SHARE_OF_FORM = (
    8.0,
    50,
    0.1,
)  # repeated texts, such as forms, are texts too

MIN_WORDS_OF_NAMES, MIN_DISTINCT_OF_NAMES = 1.5, 0.2  # from which strings may be texts: words, or share of all rows
MIN_DISTINCT_OF_TEXTS = 0.9  # of the values differ: none is frequent enough to be a category
MAX_CODES = 0.5  # of the strings look like codes: they are not texts

BOOLEAN_WORDS = ({"yes", "no"}, {"true", "false"}, {"t", "f"}, {"y", "n"}, {"on", "off"})
IDENTIFIERS = {"id", "ids", "uuid", "guid", "identifier", "rowid", "pk"}
IDENTIFIERS_AT_END = IDENTIFIERS | {"key", "no", "nr", "serial"}
CODE_WORDS = IDENTIFIERS | {"code", "zip", "zipcode", "postcode", "plz"}
TIME_WORDS = {"year", "years", "month", "week", "day", "days", "hour", "minute", "second", "time", "age", "date"}
NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
CODE = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{12,}|\S+@\S+\.\S+|\S*\d\S*")
DIGITS_ONLY = re.compile(r"[^\w]*\d[\d\W]*")  # telephone numbers, IP addresses, versions
PADDED = re.compile(r"0\d+")
LETTERS_OF_UNSPACED_WORD = 2  # of a word in scripts without spaces between words, about


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A column's kind and the reason; how many different values it has, and how many are missing.

    `format` is how strings write numbers or dates, if they are not plain. `doubt` describes what could be read
    differently.
    """

    name: str
    kind: Kind
    why: str
    distinct: int
    missing: int
    format: Format | None = None
    doubt: str = ""
    maybe_text: bool = False  # names whose words may be more informative, or repeated texts: labels decide
    surprising: bool = False  # read differently from how it looks: digits as names, names as texts

    @property
    def is_obvious(self) -> bool:
        """Whether the kind is what anyone would expect, or was given."""
        return self.why == GIVEN or not (self.kind in LEFT_OUT or self.format is not None or self.surprising)


@dataclass(frozen=True, slots=True)
class Conventions:
    """How a table writes numbers and dates, as far as known: it decides if values are ambiguous."""

    decimal: str | None = None
    thousands: str | None = None
    day_first: bool | None = None

    def __post_init__(self) -> None:
        for name, value in (("decimal", self.decimal), ("thousands", self.thousands)):
            if value is not None and value not in SEPARATORS:
                raise DecibanError(
                    "{name} is {value!r}: it must be one of {choices}",
                    command_line="--{name} is {value!r}: it must be one of {choices}",
                    name=name,
                    value=value,
                    choices=", ".join(map(repr, (".", ",") if name == "decimal" else tuple(SEPARATORS))),
                )
        if self.decimal is not None and self.decimal not in (".", ","):
            raise DecibanError(
                "decimal is {value!r}: it must be '.' or ','",
                command_line="--decimal is {value!r}: it must be '.' or ','",
                value=self.decimal,
            )
        if self.decimal is not None and self.decimal == self.thousands:
            raise DecibanError(
                "decimal and thousands are both {value!r}: they must differ",
                command_line="--decimal and --thousands are both {value!r}: they must differ",
                value=self.decimal,
            )


UNKNOWN = Conventions()  # all is inferred from the values


def infer(
    frame: Frame, given: Mapping[str, str] | None = None, conventions: Conventions = UNKNOWN
) -> tuple[ColumnKind, ...]:
    """The kind of each column: as `given` by name, otherwise inferred from its values.

    The decimal separator is a property of the whole table: if one column leaves it open, others decide.

    >>> from deciban.reading.frames import read_frame
    >>> table = read_frame({"age": [31, 4, 31], "weight": ["70.5", "?", "81"], "smokes": ["yes", "no", "no"]})
    >>> [(column.name, column.kind) for column in infer(table, {"smokes": "category"})]
    [('age', 'count'), ('weight', 'number'), ('smokes', 'category')]
    """
    given = dict(given or {})
    for name, kind in given.items():
        if name not in frame.names:
            raise no_such_column(name, frame.names)
        if kind not in get_args(Kind):
            raise DecibanError(
                "column {column!r} was given the kind {kind!r}: choose one of {kinds}",
                column=name,
                kind=kind,
                kinds=", ".join(get_args(Kind)),
            )
    looks = {
        name: look(_strings(column))
        for name, column in zip(frame.names, frame.columns, strict=True)
        if isinstance(column, Levels) and given.get(name, "number") in ("number", "count")
    }
    if conventions.decimal is None:
        conventions = replace(conventions, decimal=common_decimal(looks.values()))
    return tuple(
        _as_given(column, name, cast("Kind", given[name]), looks.get(name), conventions)
        if name in given
        else _inferred(column, name, looks.get(name), conventions)
        for name, column in zip(frame.names, frame.columns, strict=True)
    )


def _strings(column: Levels) -> list[str]:
    """The different strings of a column that are not words for a missing number; none if it holds something else."""
    if column.declared or not all(isinstance(level, str) for level in column.levels):
        return []
    return [level for level in cast("tuple[str, ...]", column.levels) if not is_missing_word(level)]


def kinds_table(kinds: Sequence[ColumnKind]) -> Table:
    """The columns' kinds, as a table to display."""
    rows = [(own.name, own.kind, own.distinct, own.missing, own.why) for own in kinds]
    return Table("columns", ("column", "kind", "distinct", "missing", "why"), rows, most=max(60, len(rows)))


def _as_given(column: Column, name: str, kind: Kind, seen: Look | None, conventions: Conventions) -> ColumnKind:
    """The kind that was given, if the values allow it."""
    form: tuple[Format, str] | None = None
    if isinstance(column, Levels):
        if kind in ("number", "count"):
            seen = seen or look(text for text in _strings(column) if written(text))  # the others are named below
            if seen is not None and not seen.is_plain(conventions.decimal):
                form = seen.format(conventions.decimal, conventions.thousands)
        elif kind == "date":
            form = infer_dates(_strings(column), conventions.day_first)
    read = as_kind(column, kind, name, strict=True, format=form[0] if form else None)
    distinct, missing = _distinct(read), int(read.missing.sum())
    problem, where = "", {}
    if kind == "text" and (isinstance(read, Numbers) or not all(isinstance(v, str) for v in read.levels)):
        problem = "" if missing == len(read) else "does not hold strings"
    elif kind == "boolean" and distinct > 2:
        problem = f"has {distinct:,} different values"
    elif kind == "count" and isinstance(read, Numbers):
        wrong = np.flatnonzero((read.values < 0) | (read.values != np.floor(read.values)) & ~read.missing)
        if wrong.size:
            problem, where = "holds {value:g} in row {row}", {"row": wrong[0], "value": float(read.values[wrong[0]])}
    if problem:
        message = f"column {{column!r}} {problem}, and so cannot be of kind {kind!r}: "
        raise DecibanError(
            f"{message}give another kind, or none",
            command_line=f"{message}give another kind, as in --schema {{column}}=category, or leave out its --schema",
            column=name,
            **where,
        )
    return ColumnKind(name, kind, GIVEN, distinct, missing, *(form or ()))


def _inferred(column: Column, name: str, seen: Look | None, conventions: Conventions) -> ColumnKind:
    """The kind inferred from the values."""
    form: tuple[Format, str] | None = None
    if isinstance(column, Levels):
        kind, why, form = _levels_kind(column, name, seen, conventions)
    else:
        kind, why = _numbers_kind(column, name)
    read, n = as_kind(column, kind, name, format=form[0] if form else None), len(column)
    distinct, missing = _distinct(read), int(read.missing.sum())
    if distinct == 0:
        kind, why = "constant", "every value is missing" if n else "there are no rows"
    elif distinct == 1 and not missing:
        kind, why = "constant", "every value is the same"
    elif distinct == 1 and kind != "boolean":
        read = as_kind(column, "category", name)  # a word for a missing number, such as "none", may be a name
        kind, distinct, missing = "category", _distinct(read), int(read.missing.sum())
        why = f"one value, missing in {missing:,} of {n:,} rows: whether it is missing may be evidence"
        why = why if distinct == 1 else f"{distinct:,} distinct values in {n:,} rows"
    maybe_text = isinstance(column, Levels) and _maybe_text(column, kind)
    form_used, doubt = form or (None, "")
    surprising = kind == "category" and _are_digits(column)
    return ColumnKind(name, kind, why, distinct, missing, form_used, doubt, maybe_text, surprising)


def _numbers_kind(column: Numbers, name: str, what: str = "") -> tuple[Kind, str]:
    """The kind of numbers, or of strings that are all numbers (`what`)."""
    if column.dates is not None:
        return "date", "dates by type"
    values = column.values[~column.missing]
    if not values.size or not np.array_equal(values, np.floor(values)):
        return "number", f"{what or 'numbers'} with fractions"
    distinct = _distinct(column)
    if column.whole and distinct >= MIN_DATES and not np.isnan(days_of_digits(values)).any():
        return "date", f"{what or 'whole numbers'} that are dates, such as {values[0]:.0f}"
    if column.whole and (reason := _why_identifier(values, distinct, name)):
        return "identifier", reason
    if column.whole and distinct < len(values) and _has_word(name, CODE_WORDS):
        return (
            "category",
            f"{distinct:,} distinct whole numbers in {len(column):,} rows, and the column's name suggests codes",
        )
    if values.min() < 0:
        return "number", f"{what or 'whole numbers'}, some below zero"
    if distinct == 2 and values.max() == 1:
        return "count", f"{what or 'numbers'} that are 0 or 1"
    return "count", f"{what or 'whole numbers'} from {values.min():.0f} to {values.max():.0f}"


def _why_identifier(values: Array, distinct: int, name: str) -> str:
    """Why integers are identifiers; "" if they may be measurements: that all differ is not enough."""
    if distinct < len(values) or distinct < MIN_ROWS_OF_IDENTIFIERS or _has_word(name, TIME_WORDS):
        return ""
    span = values.max() - values.min() + 1
    if span == distinct:
        return f"every value is different, and they run from {values.min():.0f} to {values.max():.0f} without gaps"
    if span <= MAX_SPAN * distinct:
        return "every value is different, and they fill most of their range, like serial numbers"
    if (
        _has_word(name, IDENTIFIERS)
        or (_parts(name) or [""])[-1] in IDENTIFIERS_AT_END
        or name.lower() in ("index", "idx")
    ):
        return "every value is different, and the column's name suggests identifiers"
    return ""


def _levels_kind(
    column: Levels, name: str, seen: Look | None, conventions: Conventions
) -> tuple[Kind, str, tuple[Format, str] | None]:
    """The kind of strings, booleans, and categories by type; and how they write numbers or dates."""
    levels = [level for level in column.levels if not is_missing_word(level, MISSING_NAMES)]
    if all(isinstance(level, bool) for level in levels):
        return "boolean", "booleans by type", None
    if column.declared or not all(isinstance(level, str) for level in levels):
        return "category", f"categories by type, {len(levels):,} of them", None
    names = cast("list[str]", levels)
    if any({v.strip().lower() for v in names} == pair for pair in BOOLEAN_WORDS):
        return "boolean", f"{names[0]} or {names[1]}", None
    if seen is not None and _padded(names):
        return *_string_kind(column, names, "digits with leading zeros, which are codes rather than numbers"), None
    if seen is not None and seen.is_plain(conventions.decimal) and _all_parse(names, number):
        kind, why = _numbers_kind(cast("Numbers", as_kind(column, "number", name)), name, "strings that are numbers")
        return kind, why, (DateFormat(), "") if kind == "date" else None
    if _all_parse(names, date):
        return "date", "strings that are ISO dates", None
    if dates := infer_dates(_strings(column), conventions.day_first):
        return "date", f"strings that are dates, such as {dates_in_words(_strings(column), dates[0])}", dates
    if seen is not None:
        form, doubt = seen.format(conventions.decimal, conventions.thousands)
        if _all_parse(names, lambda level: number(level, form)):
            return *_written_kind(column, name, form), (form, doubt)
    return *_string_kind(column, names, ""), None


def format_of(column: Column, kind: Kind) -> Format | None:
    """How strings write the numbers or dates of a column that had none when it was learned, as in a spreadsheet.

    None if they are plain, if they are something else, and if there is any doubt.
    """
    if not isinstance(column, Levels) or kind not in ("number", "count", "date"):
        return None
    names = _strings(column)
    if not names or _all_parse(names, date if kind == "date" else number):
        return None
    if kind == "date":
        form, doubt = infer_dates(names) or (None, "")
        return None if doubt else form
    seen = look(names)
    if seen is None or seen.words:
        return None
    written_as, doubt = seen.format()
    return None if doubt or not _all_parse(names, lambda name: number(name, written_as)) else written_as


def _written_kind(column: Levels, name: str, form: NumberFormat) -> tuple[Kind, str]:
    """The kind of numbers that are written with separators, units or words."""
    numbers = [text.strip() for text in _strings(column) if text.strip() not in form.words]
    read = cast("Numbers", as_kind(column, "number", name, format=form))
    kind, why = _numbers_kind(read, name, "strings that are numbers")
    why += f", such as {form.in_words(numbers[:MAX_VALUES])}"
    if form.words:
        why += f"; {' and '.join(map(repr, form.words))} {'means' if len(form.words) == 1 else 'mean'} missing"
    if form.unit == "%" and (bare := [text for text in numbers if "%" not in text]):
        why += f"; some lack the percent sign, and {bare[0]} is read as {bare[0]} %"
    return kind, why


def _string_kind(column: Levels, names: list[str], why: str) -> tuple[Kind, str]:
    """The kind of other strings: text, identifier or category."""
    place = {level: code for code, level in enumerate(column.levels)}
    times = np.bincount(column.codes[column.codes >= 0], minlength=len(column.levels))[[place[v] for v in names]]
    present, distinct = int(times.sum()), len(names)
    if not why and (digits := _share_of_digits(names[:1000])) > MAX_CODES:
        codes = "digits in groups, which are codes rather than numbers"
        why = codes if digits == 1 else "mostly digits, but not numbers of one kind"
    words, length = (0.0, 0.0) if why else _average(names, times)
    long = words >= MIN_WORDS_OF_TEXT or length > MIN_CHARACTERS_OF_TEXT
    if (long and distinct > present / 2) or (
        words >= MIN_WORDS_OF_FORM and distinct >= MIN_LEVELS_OF_FORM and distinct > MIN_SHARE_OF_FORM * present
    ):
        return "text", f"{words:.0f} words per value on average, {distinct:,} distinct in {present:,}"
    if present >= MIN_ROWS_OF_IDENTIFIERS and distinct >= MIN_DISTINCT_SHARE * present:
        code_like = why or np.mean([bool(CODE.fullmatch(v)) for v in names[:1000]]) > 0.9
        all_differ = "every value is different" if distinct == present else "nearly every value is different"
        return "identifier", f"{all_differ}{' and they look like codes' if code_like else ': they identify rows'}"
    counted = f"{distinct:,} distinct values in {len(column):,} rows"
    return "category", f"{counted}; {why}" if why else counted


def _share_of_digits(names: list[str]) -> float:
    return float(np.mean([bool(DIGITS_ONLY.fullmatch(v)) for v in names])) if names else 0.0


def _are_digits(column: Column) -> bool:
    """Whether these are numbers, or strings of digits."""
    if isinstance(column, Numbers):
        return True
    names = _strings(column)[:1000]
    return _share_of_digits(names) > MAX_CODES


def _maybe_text(column: Levels, kind: Kind) -> bool:
    """Whether strings may be names or texts: names of several words, or nearly all different; repeated texts."""
    names = _strings(column)
    if len(names) < MIN_ROWS_OF_IDENTIFIERS or kind not in ("category", "identifier", "text"):
        return False
    if kind == "text":
        return len(names) < MIN_DISTINCT_OF_TEXTS * len(column)
    if np.mean([bool(CODE.fullmatch(v) or DIGITS_ONLY.fullmatch(v)) for v in names[:1000]]) > MAX_CODES:
        return False
    words, _ = _average(names, np.ones(len(names)))
    return words >= MIN_WORDS_OF_NAMES or len(names) > MIN_DISTINCT_OF_NAMES * len(column)


def _average(names: list[str], times: Array) -> tuple[float, float]:
    """Mean words and characters per value, over rows; the first thousand levels are enough."""
    some, weight = names[:1000], times[:1000]
    _, indptr = kernel.stretches(kernel.Documents(some), 0, len(some), kernel.Vocabulary(), True, 1, 1)
    words = np.maximum([len(v.split()) for v in some], np.diff(indptr) / LETTERS_OF_UNSPACED_WORD)
    return float(np.average(words, weights=weight)), float(np.average([len(v) for v in some], weights=weight))


def _all_parse(names: list[str], parse: Callable[[str], float | None]) -> bool:
    """Whether every string is a number (or a date) or means missing; and at least one is not missing."""
    any_parsed = False
    for name in names:
        value = parse(name)
        if value is None:
            return False
        any_parsed = any_parsed or value == value
    return any_parsed


def _padded(names: list[str]) -> bool:
    """Whether numbers of the same length start with zeros, as postcodes do."""
    digits = [v for v in names if v.isdigit()]
    return any(map(PADDED.fullmatch, digits)) and len(digits) > 1 and len(set(map(len, digits))) == 1


def _distinct(column: Column) -> int:
    """How many distinct values there are, not counting missing ones."""
    if isinstance(column, Levels):
        return int(np.count_nonzero(np.bincount(column.codes[column.codes >= 0], minlength=1)))
    values = column.values[~np.isnan(column.values)]
    if not values.size:
        return 0
    low, high = values.min(), values.max()
    if high - low < 4 * len(values) + 1000 and np.array_equal(values, np.floor(values)):
        return int(np.count_nonzero(np.bincount((values - low).astype(np.intp))))  # no need to sort
    return len(np.unique(values))


def _has_word(name: str, words: set[str]) -> bool:
    """Whether a part of a column's name is among the words.

    >>> _has_word("customerId", IDENTIFIERS), _has_word("humidity", IDENTIFIERS)
    (True, False)
    """
    return not words.isdisjoint(_parts(name))


def _parts(name: str) -> list[str]:
    return [part.lower() for part in NAME_PART.findall(name)]
