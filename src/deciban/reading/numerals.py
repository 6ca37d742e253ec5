"""Numbers as people write them: 5,123.45 and 5.123,45, $27,887, 12.5 %, (1,234), 1 234, 3.2M, 70 kg.

How a column writes its numbers is inferred from all of its values: what separates decimals, what separates thousands,
and what is written next to the digits. One value is often not enough: 1.234 may be a thousand or a fraction.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

SPACES = " \u00a0\u2009\u202f"  # blanks that may separate thousands
APOSTROPHES = "'\u2019"
MINUS = "-\u2212\u2013"  # a hyphen, a minus sign, a dash
SEPARATORS = {"": "", ".": r"\.", ",": ",", " ": f"[{SPACES}]", "'": f"[{APOSTROPHES}]"}

SIGN_NAMES = {".": "a dot", ",": "a comma", " ": "a blank", "'": "an apostrophe"}

Locale = tuple[str, str]  # the sign before decimals, and the one between thousands
PLAIN: Locale = (".", "")
LOCALES: tuple[Locale, ...] = (PLAIN, (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"), (",", ""))

SCALES = (
    dict.fromkeys(("k", "K", "tsd", "thousand"), 1e3)
    | dict.fromkeys(("m", "M", "mn", "mio", "mln", "million"), 1e6)
    | dict.fromkeys(("b", "B", "bn", "mrd", "billion"), 1e9)
    | dict.fromkeys(("T", "tn", "trillion"), 1e12)
)
DOUBTFUL_SCALES = {"m", "b", "B", "T"}  # 3 m may be metres and 12B a seat: they multiply next to others and currencies
CURRENCY_WORDS = """AUD BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR JPY KRW MXN MYR NGN NOK NZD PEN
    PHP PKR PLN RMB RON RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR Fr SFr kr Kč zł Ft lei Rs Rp RM"""
CURRENCIES = frozenset(CURRENCY_WORDS.split())
UNIT = re.compile(r"[%‰°]|[µ°]?[^\W\d_]{1,12}[²³]?(?:/[^\W\d_]{1,8}[²³]?)?")
NUMBER = re.compile(
    rf"""
    (?P<open>\()? \s* (?P<sign>[+{re.escape(MINUS)}])? \s*
    (?P<before> (?: [^\W\d_]{{0,3}} [^\w\s().,+'’:/%#*&@-] | [^\W\d_]{{1,4}} ) \.? )? \s*
    (?P<inner>[{re.escape(MINUS)}])? \s*
    (?P<digits> [0-9] (?: [0-9.,{APOSTROPHES}{re.escape(SPACES)}]* [0-9] )? [.,]? | [.,][0-9]+ )
    (?P<exponent> [eE][+-]?[0-9]+ )? \s*
    (?P<after> [^\d\s().,:+{re.escape(MINUS)}] [^\d():]{{0,20}}? )? \s*
    (?P<trailing>[{re.escape(MINUS)}])? \s* (?P<close>\))?
    """,
    re.VERBOSE,
)
MAX_CHARACTERS = 64  # of a number with all that is written next to it
MAX_WORDS = 5  # among numbers: with more of them, the column holds names
MIN_VALUES_BESIDE_WORDS = 20  # different numbers
MAX_VALUES = 5000  # different ones, enough to infer a format from
ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
MIN_DIGITS_OF_CODES = 7  # in groups with blanks between, all of the same length: telephone numbers


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How a column writes its numbers.

    `unit` is written next to them and changes nothing. With `scaled`, k, M and bn multiply. `words` mean that the
    number is unknown.

    >>> NumberFormat(",", ".", "€").parse("€ 1.234,50"), NumberFormat(scaled=True).parse("3.2M")
    (1234.5, 3200000.0)
    >>> NumberFormat().parse("(1,234)"), NumberFormat().parse("12 kg"), NumberFormat(words=("closed",)).parse("closed")
    (-1234.0, None, nan)
    """

    decimal: str = "."
    thousands: str = ","
    unit: str = ""
    scaled: bool = False
    words: tuple[str, ...] = ()

    def parse(self, text: str) -> float | None:
        """A text as a number; NaN for a word that means missing, None if it is something else."""
        parts = written(text)
        if parts is None:
            return math.nan if text.strip() in self.words else None
        if not in_locale(self.decimal, self.thousands).fullmatch(parts.digits):
            return None
        scale, unit = parts.scale_and_unit() if self.scaled else (1.0, parts.beside)
        if unit and unit != self.unit and not (is_currency(unit) and is_currency(self.unit)):
            return None
        return parts.number(self.decimal) * scale

    def spelled(self, number: float) -> str:
        """A number as this format writes it: what `parse` reads again.

        >>> NumberFormat(",", ".", "€").spelled(1234.5), NumberFormat().spelled(1234.0)
        ('1234,5', '1234')
        """
        text = str(int(number)) if float(number).is_integer() else f"{number!r}"
        return text.replace(".", self.decimal)

    def in_words(self, examples: Sequence[str]) -> str:
        """An example, one with separators if there is any, and what they mean.

        >>> NumberFormat(",", ".", "€").in_words(["12 €", "1.234,50 €"]), NumberFormat(unit="kg").in_words(["70 kg"])
        ("'1.234,50 €', with a dot between thousands and a comma before decimals", "'70 kg'")
        """
        between = {" ": SPACES, "'": APOSTROPHES}.get(self.thousands, self.thousands)
        for example in examples:
            parts = written(example)
            digits = set() if parts is None else set(parts.digits)
            signs = [f"{SIGN_NAMES[self.thousands]} between thousands"] if digits & set(between) else []
            signs += [f"{SIGN_NAMES[self.decimal]} before decimals"] if self.decimal in digits else []
            if signs:
                return f"{example!r}, with {' and '.join(signs)}"
        return repr(examples[0])


class Written(NamedTuple):
    """A parsed number: its digits with their separators, and what is written next to them."""

    negative: bool
    digits: str
    exponent: str
    beside: str

    def number(self, decimal: str) -> float:
        kept = "".join(c for c in self.digits if c.isdigit() or c == decimal)
        size = float(kept.replace(",", ".") + self.exponent)
        return -size if self.negative else size

    def scale_and_unit(self) -> tuple[float, str]:
        """What letters multiply by, and what is left of them: in "M€" 1e6 and "€"."""
        first, _, rest = self.beside.partition(" ")
        for word, unit in ((first.rstrip("."), rest), (self.beside[:1], self.beside[1:])):
            if word in SCALES and (not unit or is_currency(unit.strip())):
                return SCALES[word], unit.strip()
            if word.lower() in SCALES and len(word) > 1:
                return SCALES[word.lower()], unit.strip()
        return 1.0, self.beside


def written(text: str) -> Written | None:
    """A text as a number, possibly with something next to it; None if it is something else."""
    text = text.strip()
    if text.endswith((".-", ",-")):  # francs without cents
        text = text[:-2]
    match = NUMBER.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None or bool(match["open"]) != bool(match["close"]):
        return None
    signs = [match[part] for part in ("sign", "inner", "trailing") if match[part]]
    before, after = (match["before"] or "").strip(), (match["after"] or "").strip()
    if len(signs) + bool(match["open"]) > 1 or (before and not is_currency(before)):
        return None
    if before and after and not is_scale(after):
        return None
    negative = bool(match["open"]) or any(sign in MINUS for sign in signs)
    return Written(negative, match["digits"], match["exponent"] or "", f"{after} {before}".strip())


def is_scale(word: str) -> bool:
    return word in SCALES or (len(word) > 1 and word.rstrip(".").lower() in SCALES)


def is_currency(unit: str) -> bool:
    """Whether this is a currency: a sign of one, alone or with letters (US$), or a word for one."""
    return unit.rstrip(".") in CURRENCIES or (
        0 < len(unit) <= 3 and unicodedata.category(unit[-1]) == "Sc" and (len(unit) == 1 or unit[:-1].isalpha())
    )


@cache
def in_locale(decimal: str, thousands: str) -> re.Pattern[str]:
    """Digits as a locale writes them: in groups of three, or as in India of two and then three."""
    gap, point = SEPARATORS[thousands], SEPARATORS[decimal]
    whole = rf"\d+|\d{{1,3}}(?:{gap}\d{{3}})+|\d{{1,2}}(?:{gap}\d\d)+{gap}\d{{3}}" if gap else r"\d+"
    return re.compile(rf"(?:{whole})(?:{point}\d*)?|{point}\d+")


# ---------------------------------------------------------------------- formats that fit a column


@dataclass(frozen=True, slots=True)
class Look:
    """What the values of a column have in common: the locales they may be of, and what is written next to the
    digits."""

    locales: tuple[Locale, ...]
    unit: str
    scaled: bool
    words: tuple[str, ...]
    example: str  # a value that shows the format: with a separator, if any has one

    @property
    def decimals(self) -> set[str]:
        """The possible decimal separators."""
        return {decimal for decimal, _ in self.locales}

    def is_plain(self, decimal: str | None = None) -> bool:
        """Whether `float` reads them correctly if `decimal` is the decimal separator."""
        if PLAIN not in self.locales or self.unit or self.scaled or self.words:
            return False
        return decimal != "," or self.example.isdigit() or (",", ".") not in self.locales

    def format(self, decimal: str | None = None, thousands: str | None = None) -> tuple[NumberFormat, str]:
        """The format, and a note if it is uncertain; `decimal` and `thousands` decide between several."""
        possible = list(self.locales)
        for place, sign in enumerate((decimal, thousands)):
            possible = [own for own in possible if sign in (None, own[place])] or possible
        chosen, note = possible[0], ""
        is_money, is_grouped = is_currency(self.unit), not self.example.isdigit()
        if chosen == PLAIN and (",", ".") in possible and is_money and is_grouped:  # money has two decimals, not three
            chosen = (",", ".")
        elif chosen in (PLAIN, (",", "")):  # thousands may still occur
            chosen = (".", ",") if chosen == PLAIN else (",", ".")
        elif {(".", ","), (",", "")} <= set(possible) and not is_money:
            note = f"{self.example} may have a thousands or a decimal separator; it is read with a thousands separator"
        return NumberFormat(*chosen, self.unit, self.scaled, self.words), note


def look(texts: Iterable[str]) -> Look | None:
    """The formats that fit the distinct values of a column; None if they are not numbers, or codes.

    A few words among many numbers mean that a number is unknown.

    >>> look(["1.234,5", "12", "€ 3"])
    Look(locales=((',', '.'),), unit='€', scaled=False, words=(), example='1.234,5')
    >>> look(["1,234", "5,678"]).format()[1]
    '1,234 may have a thousands or a decimal separator; it is read with a thousands separator'
    >>> look(["12 kg", "3 cm"]), look(["0171 5550101", "0172 5550199"])
    (None, None)
    """
    values: list[Written] = []
    words: list[str] = []
    for text in texts:
        parts = written(text)
        if parts is not None:
            values.append(parts)
        elif any(map(str.isdigit, text)) or len(words) == MAX_WORDS:
            return None
        else:
            words.append(text.strip())
        if len(values) == MAX_VALUES:
            break
    if not values or are_codes([own.digits for own in values]) or (words and len(values) < MIN_VALUES_BESIDE_WORDS):
        return None
    beside = beside_all(values)
    locales = tuple(own for own in LOCALES if all(in_locale(*own).fullmatch(parts.digits) for parts in values))
    if beside is None or not locales:
        return None
    example = next((own.digits for own in values if not own.digits.isdigit()), values[0].digits)
    return Look(locales, *beside, tuple(sorted(words)), example)


def beside_all(values: Sequence[Written]) -> tuple[str, bool] | None:
    """The unit of a column and whether it is scaled by letters; None if units differ or some numbers have none.

    Currencies may differ, and may be left out, as may the percent sign.
    """
    words = {own.beside for own in values if own.beside}
    if not words:
        return "", False
    parts = {word: Written(False, "", "", word).scale_and_unit() for word in words}
    scaling = {word for word, (scale, _) in parts.items() if scale != 1.0}
    scaled = bool(scaling - DOUBTFUL_SCALES)
    units = {unit for _, unit in parts.values()} - {""} if scaled else words
    if all(map(is_currency, units)) or units == {"%"}:
        return min(units, default=""), scaled
    if len(units) > 1 or not UNIT.fullmatch(unit := min(units)) or not all(own.beside for own in values):
        return None  # in 2, 3, 4, 5more the last is a name
    return unit, scaled


def are_codes(digits: Sequence[str]) -> bool:
    """Whether groups of digits are IP addresses, telephone numbers or similar, not quantities."""
    if all(map(ADDRESS.fullmatch, digits)):
        return True
    sizes = {sum(map(str.isdigit, own)) for own in digits}
    spaced = all(any(c in SPACES for c in own) and not set(own) & set(".,") for own in digits)
    return spaced and len(sizes) == 1 and min(sizes) >= MIN_DIGITS_OF_CODES and len(digits) > 1


def common_decimal(looks: Iterable[Look | None]) -> str | None:
    """The decimal separator of a table, from the columns that are unambiguous; None if there are none."""
    certain = [min(own.decimals) for own in looks if own is not None and len(own.decimals) == 1]
    return max(set(certain), key=certain.count) if certain else None
