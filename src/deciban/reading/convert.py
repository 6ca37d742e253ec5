"""A column converted to its kind: strings to numbers or dates, numbers that are names to levels.

The same conversion serves learning and prediction, so that "12" is the number 12 in both.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DataWarning, DecibanError, FileError, warn
from deciban.reading.columns import (
    Column,
    Level,
    Levels,
    Numbers,
    as_name,
    days_of_object,
    finite_numbers,
    levels_from_codes,
)
from deciban.reading.dates import DateFormat
from deciban.reading.native import moments
from deciban.reading.numerals import SEPARATORS, NumberFormat

MISSING_NUMBERS = {"", "?", "na", "n/a", "nan", "null", "none", "-"}  # words for a missing number or date
MISSING_NAMES = {"", "?", "nan", "null"}  # words for a missing name: "none" and "-" may be names, and "NA" is Namibia
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?")
WHOLE = re.compile(r"\s*[+-]?\d+\s*")


Format: TypeAlias = NumberFormat | DateFormat


def as_kind(
    column: Column,
    kind: str,
    name: str = "",
    strict: bool = False,
    known: Sequence[Level] = (),
    format: Format | None = None,  # noqa: A002 - the word for it
) -> Column:
    """A column converted to `kind`. A value that cannot be is missing, with a warning; an error if `strict`.

    `known` are the levels that a category was learned with: the number 3 is the level "3" if it was a string then.
    `format` is how strings write numbers or dates.

    >>> as_kind(Levels(np.array([0, 1, 2], dtype=np.int32), ("1.5", "?", "3")), "number").values
    array([1.5, nan, 3. ])
    >>> as_kind(Numbers(np.array([2.0, np.nan, 1.0])), "category").levels
    (1, 2)
    """
    if kind in ("number", "count"):
        return _as_numbers(column, name, strict, format if isinstance(format, NumberFormat) else None)
    if kind == "date":
        return _as_dates(column, name, strict, format if isinstance(format, DateFormat) else None)
    if kind in ("category", "boolean"):
        names = _as_names(column)
        return _as_known(names, known) if known else names
    return column


def format_from_dict(about: Any) -> Format:
    """The format from `dataclasses.asdict`, as a model file stores it; everything is checked."""
    try:
        if "order" in about and about["order"] in ("day", "month"):
            return DateFormat(about["order"])
        decimal, thousands, unit = (str(about[name]) for name in ("decimal", "thousands", "unit"))
        form = NumberFormat(decimal, thousands, unit, about["scaled"] is True, tuple(map(str, about["words"])))
    except (KeyError, TypeError):
        raise FileError("a format of numbers or dates is unknown") from None
    if form.decimal not in (".", ",") or form.thousands not in SEPARATORS or form.decimal == form.thousands:
        raise FileError("a format of numbers is unknown")
    return form


def number(level: Level, format: NumberFormat | None = None) -> float | None:  # noqa: A002 - as above
    """A level as a number; NaN if it means missing, None if it is not a number.

    If a format is given it decides: in "1.234" the dot may separate thousands.

    >>> [number(level) for level in ("-2.5", " 7", "NA", "1_000", "x", True)]
    [-2.5, 7.0, nan, None, None, 1.0]
    >>> number("$1.234", NumberFormat(",", ".", "$")), number("0.5", NumberFormat(",", "."))
    (1234.0, 0.5)
    """
    if not isinstance(level, str):
        return float(level)
    if is_missing_word(level):
        return np.nan
    if format is not None and (value := format.parse(level)) is not None:
        return value
    try:
        return None if "_" in level else float(level)
    except ValueError:
        return None


def date(level: Level, format: DateFormat | None = None) -> float | None:  # noqa: A002 - as above
    """Days since 1970 of an ISO date or timestamp; NaN if it means missing, None for anything else.

    Other ways to write a date are read if a format is given.

    >>> [date(level) for level in ("1970-01-03", "1970-01-01T12:00Z", "", "yesterday")]
    [2.0, 0.5, nan, None]
    >>> date("3.1.1970"), date("3.1.1970", DateFormat("day"))
    (None, 2.0)
    """
    if not isinstance(level, str):
        return None
    if is_missing_word(level):
        return np.nan
    try:
        match = DATE.fullmatch(level.strip())
        if match:
            return days_of_object(datetime.datetime.fromisoformat(match[0]))
    except (ValueError, OverflowError):  # such as the 30th of February
        return None
    return None if format is None else format.parse(level)


def is_missing_word(level: Level, words: set[str] = MISSING_NUMBERS) -> bool:
    return isinstance(level, str) and len(level) < 12 and level.strip().lower() in words


def _as_numbers(column: Column, name: str, strict: bool, format: NumberFormat | None) -> Numbers:  # noqa: A002
    if isinstance(column, Numbers):
        return column
    values = _parsed(column, lambda level: number(level, format), "a number", name, strict)
    whole = all(not isinstance(v, str) or bool(WHOLE.fullmatch(v)) or is_missing_word(v) for v in column.levels)
    whole = whole and not any(isinstance(v, float) for v in column.levels)
    return finite_numbers(values, name, whole)


def _as_dates(column: Column, name: str, strict: bool, format: DateFormat | None) -> Numbers:  # noqa: A002 - as above
    if isinstance(column, Numbers):
        if column.dates is not None or column.missing.all():
            return column
        days = days_of_digits(column.values)
        wrong = np.isnan(days) & ~column.missing
        if wrong.any():
            row = int(np.argmax(wrong))
            if strict:
                raise DecibanError(
                    "column {column!r} holds numbers, not dates ({value:g} in row {row}): give its kind as 'number', "
                    "or make it dates",
                    row=row,
                    column=name,
                    value=float(column.values[row]),
                )
            warn(
                DataWarning(
                    "column {column!r} holds numbers, not dates ({value:g} in row {row}), which are treated as "
                    "missing: give dates, or strings such as 2021-12-31",
                    row=row,
                    column=name,
                    value=float(column.values[row]),
                )
            )
        return Numbers(days, dates="days")
    return Numbers(_parsed(column, lambda level: date(level, format), "a date", name, strict), dates="days")


def days_of_digits(values: Floats) -> Floats:
    """Days since 1970 of dates written as whole numbers, 20211231; NaN if there is no such day.

    >>> days_of_digits(np.array([19700103.0, 19700230.0, 5.0]))
    array([ 2., nan, nan])
    """
    whole = np.where((values >= 18000101) & (values < 22010101), values, 0.0)
    year, month, day = whole // 10000, whole // 100 % 100, whole % 100
    sound = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (whole == np.floor(whole))
    months = np.where(sound, (year - 1970) * 12 + month - 1, 0).astype(np.int64).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + np.where(sound, day - 1, 0).astype(np.int64)
    sound &= days.astype("datetime64[D]").astype("datetime64[M]") == months
    return np.where(sound, days.astype(np.float64), np.nan)


def _parsed(column: Levels, parse: Callable[[Level], float | None], what: str, name: str, strict: bool) -> Array:
    """The number of each row's level; each level is parsed once."""
    parsed = [parse(level) for level in column.levels]
    values = np.array([*(np.nan if v is None else v for v in parsed), np.nan])[column.codes]
    wrong = [code for code, v in enumerate(parsed) if v is None]
    if wrong and (rows := np.flatnonzero(np.isin(column.codes, wrong))).size:
        first = int(rows[0])
        example = {"row": first, "column": name, "value": column.levels[column.codes[first]], "what": what}
        if strict:
            raise DecibanError(
                "column {column!r} holds {value!short} in row {row}, which is not {what}: give the column another "
                "kind, or use None if the value is missing",
                command_line="column {column!r} holds {value!short} in row {row}, which is not {what}: give the "
                "column another kind, as in --schema {column}=category, or give --missing {value} if it "
                "means a missing value",
                **example,
            )
        times = "1 value is" if len(rows) == 1 else f"{len(rows):,} values are"
        warn(
            DataWarning(
                "column {column!r}: {times} not {what} ({value!short} in row {row}) and treated as missing",
                times=times,
                **example,
            )
        )
    return values


def _as_names(column: Column) -> Levels:
    if isinstance(column, Levels):
        if any(is_missing_word(level, MISSING_NAMES) for level in column.levels):
            names = [None if is_missing_word(level, MISSING_NAMES) else level for level in column.levels]
            return levels_from_codes(column.codes, names, fresh=False)
        return column
    present = ~column.missing
    values, codes = np.unique(column.values[present], return_inverse=True)
    out = np.full(len(column), -1, dtype=np.int32)
    out[present] = codes
    if column.dates is not None:
        return Levels(out, tuple(map(str, moments(Numbers(values, dates=column.dates)).tolist())))
    return Levels(out, tuple(int(v) if v.is_integer() else v for v in values.tolist()))


def _as_known(column: Levels, known: Sequence[Level]) -> Levels:
    """Levels as they were learned, if they differ only by type: 3 and "3", True and "True"."""
    if {type(level) for level in column.levels} <= {type(level) for level in known}:
        return column
    by_name, strings = {as_name(level): level for level in known}, all(isinstance(level, str) for level in known)
    levels = [by_name.get(as_name(level), as_name(level) if strings else level) for level in column.levels]
    return levels_from_codes(column.codes, levels, fresh=False)
