"""Dates as people write them: 2021-12-23, 23.12.2021, 12/23/21 4:05 PM, 23 Dec 2021, December 23, 2021, 20211223.

Whether the day or the month comes first is inferred from all values of a column: 5/12 may be either, 23/12 may not.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from deciban.reading.numerals import MAX_VALUES

Order = Literal["day", "month"]  # which comes first if both are numbers and the year is last

EPOCH = datetime.datetime(1970, 1, 1)
DAY = datetime.timedelta(days=1)
MAX_CHARACTERS = 48
YEARS = range(1800, 2201)  # of dates written in eight digits: other numbers of eight digits are not dates
PIVOT_YEAR = 69  # two digits from here on belong to the last century, as in POSIX

MONTHS = tuple(
    tuple(names.split())
    for names in (  # in English, German, French, Spanish, Italian, Portuguese and Dutch
        "january januar jänner janvier enero gennaio janeiro januari",
        "february februar février fevrier febrero febbraio fevereiro februari",
        "march märz maerz mars marzo março maart mrt",
        "april avril abril aprile",
        "may mai mayo maggio maio mei",
        "june juni juin junio giugno junho",
        "july juli juillet julio luglio julho",
        "august août aout agosto augustus",
        "september septembre septiembre setembro settembre",
        "october oktober octobre octubre ottobre outubro",
        "november novembre noviembre novembro",
        "december dezember décembre decembre diciembre dicembre dezembro",
    )
)
MONTH = r"(?P<name>[^\W\d_]{3,10})\.?"
TIME = re.compile(
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|z|UTC|GMT|[+-]\d\d:?(?:\d\d)?)?"
)
SPLIT = re.compile(r"(?P<date>.*?\d)(?:[Tt]|[\s,]+(?:at\s+)?)(?P<time>\d{1,2}[:.]\d\d.*)")
WEEKDAY = re.compile(r"[^\W\d_]{2,10}\.?,?\s+(?=\d|[^\W\d_]{3})")
DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<year>\d{4})(?P<gap>[-/.])(?P<month>\d{1,2})(?P=gap)(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})(?P<gap>[-/. ])(?P<second>\d{1,2})(?P=gap)(?P<year>\d{4}|\d\d)",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.|º)?[-\s./]*(?:de\s+)?{MONTH}[-\s.,/]*(?:de\s+)?(?P<year>\d{{4}}|\d\d)",
        rf"{MONTH}[-\s./]*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,\s*|\s+|-)(?P<year>\d{{4}})",
        rf"{MONTH}[-\s./,]*(?P<year>\d{{4}})",
        rf"(?P<year>\d{{4}})[-\s]{MONTH}[-\s](?P<day>\d{{1,2}})",
        r"(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])",
    )
)


class Moment(NamedTuple):
    """A date taken apart. Of `first` and `second` one is the day and one the month, if `month` is unknown."""

    year: int
    month: int
    day: int
    first: int
    second: int
    time: float  # in days

    def days(self, order: Order) -> float | None:
        """Days since 1970; None if there is no such day."""
        month, day = self.month, self.day
        if not month:
            day, month = (self.first, self.second) if order == "day" else (self.second, self.first)
        try:
            return (datetime.datetime(self.year, month, day) - EPOCH) / DAY + self.time
        except ValueError:  # such as the 30th of February
            return None


@dataclass(frozen=True, slots=True)
class DateFormat:
    """How a column writes its dates: what comes first if day and month are numbers and the year is last.

    >>> DateFormat("day").parse("3.1.1970"), DateFormat("month").parse("01/03/70 6:00 PM")
    (2.0, 2.75)
    >>> DateFormat().parse("1970-01-01T01:00+01:00"), DateFormat().parse("3 Jan 1970"), DateFormat().parse("Friday")
    (0.0, 2.0, None)
    """

    order: Order = "day"

    def parse(self, text: str) -> float | None:
        """Days since 1970 of a date, in UTC if it names a zone; None if a text is something else."""
        moment = written(text)
        return None if moment is None else moment.days(self.order)


def written(text: str) -> Moment | None:
    """A text as a date, with or without a time of day; None if it is something else."""
    text = text.strip()
    if len(text) > MAX_CHARACTERS or not any(c.isdigit() for c in text):
        return None
    time = 0.0
    if parts := SPLIT.fullmatch(text):
        of_day = time_of_day(parts["time"])
        if of_day is None:
            return None
        text, time = parts["date"], of_day
    for pattern in DATES:
        match = pattern.fullmatch(text) or pattern.fullmatch(WEEKDAY.sub("", text, count=1))
        if match and (moment := taken_apart(match.groupdict(), time)):
            return moment
    return None


def taken_apart(parts: dict[str, str | None], time: float) -> Moment | None:
    year = int(parts["year"] or 0)
    if len(parts["year"] or "") == 2:
        year += 1900 if year >= PIVOT_YEAR else 2000
    if "first" in parts:
        return Moment(year, 0, 0, int(parts["first"] or 0), int(parts["second"] or 0), time)
    name = parts.get("name")
    month = month_called(name) if name else int(parts.get("month") or 0)
    if not 1 <= month <= 12 or (parts.get("gap") is None and name is None and year not in YEARS):
        return None
    return Moment(year, month, int(parts.get("day") or 1), 0, 0, time)


@cache
def month_called(name: str) -> int:
    """The number of a month by its name or the start of it, 0 if there is none."""
    name = name.lower()
    return next((i for i, names in enumerate(MONTHS, 1) if any(own.startswith(name) for own in names)), 0)


def time_of_day(text: str) -> float | None:
    """A time in days, in UTC if it names a zone; None if there is no such time."""
    match = TIME.fullmatch(text.strip())
    if match is None:
        return None
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["half"][0] in "pP")
    if hour > 23 or minute > 59 or second > 60:
        return None
    seconds = 3600 * hour + 60 * minute + second + float(f"0.{match['fraction'] or 0}")
    zone = match["zone"] or ""
    if zone[:1] in ("+", "-"):
        digits = zone[1:].replace(":", "")
        away = 3600 * int(digits[:2]) + 60 * int(digits[2:] or 0)
        seconds -= away if zone[0] == "+" else -away
    return seconds / 86_400


def dates_in_words(texts: Sequence[str], form: DateFormat) -> str:
    """An example of a column's dates, and whether the day or the month comes first if both are numbers.

    >>> dates_in_words(["23/1/2020", "5/12/2019"], DateFormat("day")), dates_in_words(["23 Dec 2021"], DateFormat())
    ("'23/1/2020', with the day first", "'23 Dec 2021'")
    """
    moments = ((text, written(text)) for text in texts[:MAX_VALUES])
    ordered = next((text for text, moment in moments if moment is not None and not moment.month), None)
    return f"{texts[0].strip()!r}" if ordered is None else f"{ordered.strip()!r}, with the {form.order} first"


def infer_dates(texts: Iterable[str], day_first: bool | None = None) -> tuple[DateFormat, str] | None:
    """How a column writes dates, and a note if that is uncertain; None if one of its values is not a date.

    >>> infer_dates(["5/12/2019", "23/1/2020"])
    (DateFormat(order='day'), '')
    >>> infer_dates(["5/12/2019", "6/1/2020"])
    (DateFormat(order='month'), '5/12/2019 may start with the day or the month; it is read with the month first')
    """
    moments: list[Moment] = []
    doubtful = ""
    for text in texts:
        moment = written(text)
        if moment is None:
            return None
        moments.append(moment)
        doubtful = doubtful or (text.strip() if not moment.month else "")
        if len(moments) == MAX_VALUES:
            break
    if not moments:
        return None
    possible: list[Order] = [order for order in ("day", "month") if all(own.days(order) is not None for own in moments)]
    if day_first is not None:
        possible = [order for order in possible if (order == "day") == day_first]
    if not possible:
        return None
    if len(possible) == 1 or not doubtful:
        return DateFormat(possible[0]), ""
    order: Order = "month" if "/" in doubtful else "day"
    if "." in doubtful:  # used where the day comes first
        return DateFormat(order), ""
    return DateFormat(order), f"{doubtful} may start with the day or the month; it is read with the {order} first"
