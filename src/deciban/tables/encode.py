"""Fixed functions of a row, chosen without labels: codes for counts, coordinates for Gaussians.

Code 0 is a missing value, 1, 2, … are bins or categories, −1 is a category that was never seen. Coordinates are numbers
in standard deviations from their mean (or as normal scores), and an indicator for every category. Once chosen they
stay the same, so that statistics of coded rows add up and subtract.

Structures treat all categories of a single row as one, the rare ones, and a category that was never seen as one of
these. Without its row, such a category would not have been seen either: so a row that is left out is treated as a new
row is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

from deciban._kernel import counts as kernel
from deciban._scipy import ndtri
from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError
from deciban.matrix import MAX_VALUE, mix_bits
from deciban.reading.columns import Column, Levels, Numbers, as_name
from deciban.reading.frames import Frame
from deciban.reading.native import decimals
from deciban.show import number

MIN_BINS = 4
USUAL_BINS = 32  # with up to as many rows as the square of this; with more, the square root of the rows,
MAX_BINS = 200  # up to this
ROWS_PER_BIN = 4  # with few rows: a row that is alone in its bin has no evidence when it is left out
N_KNOTS = 129  # quantiles between which normal scores are interpolated
MAX_DEVIATIONS = 20.0  # standard deviations at which coordinates are clipped
MAX_INDICATORS = 20  # categories of a column that get a coordinate of their own
MAX_COORDINATES = 150  # in all, or as many as there are columns of numbers
MIN_INDICATOR_SHARE = 0.02  # rarer categories are scaled as if they had this share: otherwise they would dominate
N_SMALL_CODES = 254  # values of a column that trees distinguish
UNSEEN = 255  # the code of a value that trees never saw
ALL_VIEWS = frozenset(("real", "scores"))  # ways in which numbers are coordinates: as they are, as normal scores


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """A column of numbers: the ends of its bins, its mean and its scale."""

    cuts: Floats  # (bins − 1,) ascending: x ≤ cuts[0] is bin 1
    low: Floats  # (bins,) the smallest value seen in each bin
    high: Floats  # (bins,) the largest
    mass: Floats  # (bins,) shares of the entries that are not missing
    knots: Floats  # values, ascending, whose
    scores: Floats  # normal scores are these
    mean: float
    scale: float
    missing: float  # share of rows
    whole: bool  # whether values are whole numbers
    dates: str | None = None  # the unit, if they are dates

    @property
    def size(self) -> int:
        return len(self.low) + 1

    @property
    def distinct(self) -> int:
        """How many codes trees distinguish."""
        return self.size

    @property
    def never_seen(self) -> int:
        """The small code of a value that was never seen."""
        return UNSEEN

    @property
    def width(self) -> int:
        """How many coordinates the column has."""
        return 2 if self.missing > 0 else 1

    @property
    def decimals(self) -> int | None:
        """How many decimals the values seen have; None if they are not rounded."""
        return decimals(np.concatenate([self.low, self.high, self.knots]))

    def codes(self, column: Column) -> Codes:
        values = np.ascontiguousarray(numbers(column))
        out = np.empty(len(values), dtype=np.int32)
        kernel.bins(values, self.cuts, out)
        return out

    def code(self, value: Any) -> int | None:
        """The code of a single value; None if it must be read first, as a string or a date must."""
        if value is None:
            return 0
        if self.dates is not None or not isinstance(value, float | int | np.floating | np.integer):
            return None
        value = float(value) if isinstance(value, np.floating) else value
        if -MAX_VALUE <= value <= MAX_VALUE:
            return int(self.cuts.searchsorted(float(value))) + 1
        return 0 if value != value else None

    def coordinates_of(self, value: Any, code: int, out: Floats) -> None:
        """The coordinates of a single value."""
        out[0] = min(max((float(value) - self.mean) / self.scale, -MAX_DEVIATIONS), MAX_DEVIATIONS) if code else 0.0
        if self.width > 1:
            out[1] = indicator(np.asarray(code == 0), self.missing)

    def coordinates(self, column: Column, codes: Codes, out: Floats) -> None:
        np.subtract(numbers(column), self.mean, out=out[:, 0])
        out[:, 0] /= self.scale
        np.clip(out[:, 0], -MAX_DEVIATIONS, MAX_DEVIATIONS, out=out[:, 0])
        if self.width > 1:
            is_missing = codes == 0
            out[is_missing, 0] = 0.0
            out[:, 1] = indicator(is_missing, self.missing)
        elif len(codes) and not codes.min():
            out[codes == 0, 0] = 0.0

    def label(self, code: int, last: int | None = None) -> str:
        """The name of a bin, or of all from it to the `last`."""
        if code == 0:
            return "missing"
        low, high = self._value_text(self.low[code - 1]), self._value_text(self.high[(last or code) - 1])
        return low if low == high else f"{low} to {high}"

    def _value_text(self, value: float) -> str:
        return number(value) if self.dates is None else str(np.datetime64(int(np.floor(value)), "D"))

    def normal_scores(self, values: Floats, out: Floats) -> None:
        """The normal scores of values, (n,); 0 for a missing one."""
        kernel.heights(np.ascontiguousarray(values), self.knots, self.scores, out)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A column of categories: which are known, and which of them have a coordinate."""

    levels: tuple[Any, ...]  # by frequency; those learned later are appended
    mass: Floats  # shares of rows, of the levels known when this was chosen
    indicator_levels: tuple[int, ...]  # levels with a coordinate of their own
    missing: float
    frequent: int | None = None  # how many categories have two rows or more; None if all of them do
    _place: dict[Any, int] = field(init=False, repr=False)
    _points: Floats = field(init=False, repr=False)  # the coordinates that categories can have,
    _point: Array = field(init=False, repr=False)  # and which of them a code has; the last is one never seen

    def __post_init__(self) -> None:
        object.__setattr__(self, "_place", {level: i for i, level in enumerate(self.levels)})
        places = [level + 1 for level in self.indicator_levels]
        shares = [float(self.mass[level]) for level in self.indicator_levels]
        if self.gap:
            places, shares = [*places, 0], [*shares, self.missing]
        points = np.zeros((len(places) + 2, len(places)))  # a point per coordinate, then one of no coordinate, the mean
        for i, share in enumerate(shares):
            points[:-1, i] = indicator(np.arange(len(points) - 1) == i, share)
        point = np.full(len(self.mass) + 2, len(places), dtype=np.int32)
        point[places] = np.arange(len(places))
        point[-1] = len(places) + (self.frequent is None)
        if not self.missing:
            point[0] = len(places) + 1
        object.__setattr__(self, "_points", points)
        object.__setattr__(self, "_point", point)

    @property
    def size(self) -> int:
        return len(self.levels) + 1

    @property
    def distinct(self) -> int:
        return min((len(self.mass) if self.frequent is None else self.frequent + 1) + 1, N_SMALL_CODES)

    @property
    def never_seen(self) -> int:
        """The small code of a category that was never seen: that of rare ones, if there are any."""
        return UNSEEN if self.frequent is None else self.distinct - 1

    @property
    def width(self) -> int:
        return len(self.indicator_levels) + self.gap

    @property
    def gap(self) -> bool:
        """Whether a missing value has a coordinate, in addition to those of some categories."""
        return self.missing > 0 and bool(self.indicator_levels)

    def codes(self, column: Column) -> Codes:
        if not isinstance(column, Levels):
            raise TypeError("categories are read as levels")
        table = np.array([0, *(self._place.get(level, -2) + 1 for level in column.levels)], dtype=np.int32)
        return np.asarray(table[column.codes + 1])

    def code(self, value: Any) -> int | None:
        """The code of a single value; None if it must be read first, as a category that was never seen must."""
        if value is None or (isinstance(value, float) and value != value):
            return 0
        value = value.item() if isinstance(value, np.integer | np.bool_) else value
        if not isinstance(value, str | int):
            return None
        place = self._place.get(value)
        # True == 1, but they are different categories
        return place + 1 if place is not None and type(self.levels[place]) is type(value) else None

    def coordinates_of(self, value: Any, code: int, out: Floats) -> None:
        """The coordinates of a single value."""
        del value
        out[:] = self._points[self._point[min(code, len(self._point) - 1)]]

    def coordinates(self, column: Column, codes: Codes, out: Floats) -> None:
        del column
        out[:] = self._points[self._point[np.minimum(codes, len(self._point) - 1)]]

    def label(self, code: int) -> str:
        return "missing" if code == 0 else str(self.levels[code - 1])

    def with_new(self, column: Levels) -> Known:
        """With the categories of this column that were not known."""
        new = [
            column.levels[i] for i in np.unique(column.codes[column.codes >= 0]) if column.levels[i] not in self._place
        ]
        return replace(self, levels=(*self.levels, *new)) if new else self


Coded = Cuts | Known


def numbers(column: Column) -> Floats:
    if not isinstance(column, Numbers):
        raise TypeError("numbers are read as numbers")
    return column.values


def indicator(is_level: Array, share: float) -> Floats:
    """1 or 0, in standard deviations from its mean."""
    share = min(max(share, MIN_INDICATOR_SHARE), 1.0 - MIN_INDICATOR_SHARE)
    return np.asarray((is_level - share) / np.sqrt(share * (1.0 - share)))


def n_bins(rows: int) -> int:
    """How many bins a column of so many rows has."""
    return int(min(max(min(rows / ROWS_PER_BIN, max(USUAL_BINS, math.sqrt(rows))), MIN_BINS), MAX_BINS))


def choose_cuts(column: Numbers, name: str) -> Cuts:
    """A bin for each value if they are few. Otherwise frequent values have bins of their own, and the remaining rows
    are divided into bins of about equal weight.

    Frequent values come first because they may take nearly all rows: of 92 % zeros, bins of equal weight would leave
    the other 8 % of the rows hardly any.
    """
    bins = n_bins(len(column.values))
    present = np.sort(column.values)  # missing values come last
    n = int(np.searchsorted(present, np.nan)) if len(present) and np.isnan(present[-1]) else len(present)
    missing, present = 1.0 - n / max(1, len(present)), present[:n]
    if n == 0:
        one = np.zeros(1)
        return Cuts(np.zeros(0), one, one, np.ones(1), one, one, 0.0, 1.0, missing, column.whole, column.dates)
    if max(-present[0], present[-1]) > MAX_VALUE:
        value = present[-1] if present[-1] > MAX_VALUE else present[0]
        raise DecibanError(
            f"column {name!r} holds {value}: numbers past {MAX_VALUE:g} cannot be squared and summed; scale the "
            "column, or make them missing"
        )
    starts = np.concatenate(([0], (present[1:] > present[:-1]).nonzero()[0] + 1, [n]))
    new, count = starts[:-1], starts[1:] - starts[:-1]
    distinct = present[new]
    first = first_of_bins(count, bins) if len(distinct) > bins else np.arange(len(distinct))
    low, high = distinct[first], distinct[np.concatenate((first[1:], [len(distinct)])) - 1]
    mean = float(present.mean())
    scale = float((present - mean).std())
    whole = column.whole or bool((distinct == np.floor(distinct)).all())
    at = knots(len(distinct))
    rank = (new[at] + count[at] / 2) / n  # the middle of a value's rows
    return Cuts(
        midpoints(high[:-1], low[1:]),
        low,
        high,
        np.add.reduceat(count, first) / n,
        distinct[at],
        ndtri((rank * n + 0.5) / (n + 1.0)),
        mean,
        scale if scale > 0 else 1.0,
        missing,
        whole,
        column.dates,
    )


@lru_cache(maxsize=256)
def knots(n: int) -> Array:
    """Positions spread evenly over n sorted values."""
    return np.unique(np.linspace(0, n - 1, N_KNOTS).astype(np.intp))


def first_of_bins(count: Array, bins: int) -> Array:
    """Where each bin begins among sorted values with these counts: a frequent value is a bin, and the others fill
    the remaining bins evenly."""
    out = np.empty(len(count), dtype=np.int64)
    return out[: kernel.first_of_bins(np.ascontiguousarray(count, dtype=np.int64), bins, N_SMALL_CODES, out)]


def midpoints(low: Floats, high: Floats) -> Floats:
    """The midpoint; for adjacent numbers, which have none, the lower: a value up to a cut is below it."""
    middle = low + (high - low) / 2
    return np.where(middle < high, middle, low)


def choose_known(column: Levels) -> Known:
    """The categories in the column, the most frequent first, and equally frequent ones by their names."""
    count = np.bincount(column.codes[column.codes >= 0], minlength=len(column.levels))
    order = sorted(np.flatnonzero(count).tolist(), key=lambda i: (-count[i], str(column.levels[i])))
    n = max(1, len(column.codes))
    missing = float((column.codes < 0).sum()) / n
    frequent = int((count > 1).sum())
    indicator_levels = list(range(min(frequent, MAX_INDICATORS)))
    if len(indicator_levels) == len(order) and not missing:
        indicator_levels = indicator_levels[1:]  # the others imply it
    levels = tuple(column.levels[i] for i in order)
    rest = frequent if frequent < len(order) else None
    return Known(levels, count[order] / n, tuple(indicator_levels), missing, rest)


@dataclass(frozen=True, slots=True, eq=False)
class Strings:
    """A column of text, in which strings may be repeated."""

    distinct: list[str]
    which: Array  # (n,) the string of each row

    @classmethod
    def of(cls, column: Column) -> Strings:
        """A column as text; a missing value is ""."""
        if not isinstance(column, Levels):  # every text is missing, so the column was not read as one of texts
            texts = ["" if np.isnan(value) else as_name(value) for value in column.values.tolist()]
            return cls(texts, np.arange(len(texts)))
        distinct = [*map(str, column.levels), ""]
        return cls(distinct, np.where(column.codes < 0, len(distinct) - 1, column.codes))

    def take(self, rows: Array | slice) -> Strings:
        return Strings(self.distinct, self.which[rows])

    def all(self) -> list[str]:
        """The string of each row."""
        return [self.distinct[i] for i in self.which.tolist()]

    def used(self) -> Strings:
        """The same, of the distinct strings only those that a row has."""
        used, which = np.unique(self.which, return_inverse=True)
        return Strings([self.distinct[i] for i in used.tolist()], which)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """Rows as experts read them."""

    codes: Codes  # (n, d)
    small: Array  # (n, d) uint8: as trees read them
    real: Floats  # (n, D) coordinates
    scores: Floats  # (n, D) with normal scores in the place of numbers
    mark: Array  # (n,) uint64: a hash of the row that decides which trees may see it; empty if not needed
    texts: tuple[Strings, ...] = ()  # the columns of text
    found: dict[int, tuple[object, Array]] = field(default_factory=dict)  # see `remember`

    def remember(self, structure: object, places: Array) -> None:
        """Keep where the rows are in a structure, such as in the leaves of trees: it is asked for several times."""
        self.found[id(structure)] = structure, places

    def remembered(self, structure: object) -> Array | None:
        return self.found[id(structure)][1] if id(structure) in self.found else None

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, which: Array | slice) -> EncodedRows:
        scores = self.scores if self.scores is self.real else np.ascontiguousarray(self.scores[which])
        real = np.ascontiguousarray(self.real[which])
        return EncodedRows(
            np.ascontiguousarray(self.codes[which]),
            np.ascontiguousarray(self.small[which]),
            real,
            real if self.scores is self.real else scores,
            self.mark[which] if len(self.mark) else self.mark,
            tuple(texts.take(which) for texts in self.texts),
            {key: (structure, places[which]) for key, (structure, places) in self.found.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """How every column is coded."""

    names: tuple[str, ...]
    columns: tuple[Coded, ...]
    texts: tuple[str, ...] = ()  # columns of text, which are read as they are
    starts: tuple[int, ...] = field(init=False, repr=False)  # where each column's coordinates begin
    n_coordinates: int = field(init=False, repr=False)
    _seen_codes: Codes = field(init=False, repr=False)  # (2, d) the first and last code known when trees were chosen
    _small_codes: Codes = field(init=False, repr=False)  # (2, d) the largest small code, and that of a value never seen

    def __post_init__(self) -> None:
        *starts, total = np.cumsum([0, *(c.width for c in self.columns)]).tolist()
        seen = [(0 if c.missing > 0 else 1, len(c.mass)) for c in self.columns]
        object.__setattr__(self, "starts", tuple(starts))
        object.__setattr__(self, "n_coordinates", total)
        small = [(c.distinct - 1, c.never_seen) for c in self.columns]
        object.__setattr__(self, "_seen_codes", np.array(seen, dtype=np.int32).reshape(-1, 2).T.copy())
        object.__setattr__(self, "_small_codes", np.array(small, dtype=np.int32).reshape(-1, 2).T.copy())

    @property
    def owner(self) -> Array:
        """The column of each coordinate, (D,)."""
        return np.repeat(np.arange(len(self.columns)), [c.width for c in self.columns])

    @property
    def levels(self) -> Codes:
        return np.array([c.distinct for c in self.columns], dtype=np.int32)

    @property
    def ordered(self) -> Array:
        return np.array([isinstance(c, Cuts) for c in self.columns], dtype=np.uint8)

    @property
    def offsets(self) -> Array:
        """Where each column's cells begin in a flat row of counts."""
        return np.concatenate([[0], np.cumsum([c.size for c in self.columns], dtype=np.intp)]).astype(np.intp)

    def with_new(self, frame: Frame) -> Encoding:
        """With the categories of this table that were not known."""
        columns: list[Coded] = []
        by_name = dict(zip(frame.names, frame.columns, strict=True))
        for name, coded in zip(self.names, self.columns, strict=True):
            column = by_name[name]
            columns.append(coded.with_new(column) if isinstance(coded, Known) and isinstance(column, Levels) else coded)
        same = all(a is b for a, b in zip(columns, self.columns, strict=True))
        return self if same else replace(self, columns=tuple(columns))

    def rows(self, frame: Frame, marked: bool = False, views: frozenset[str] = ALL_VIEWS) -> EncodedRows:
        """Rows as experts read them, with the coordinates of these views; `marked` if it must be known which structures
        never saw a row."""
        n = frame.size
        by_name = dict(zip(frame.names, frame.columns, strict=True))
        read = [by_name[name] for name in self.names]
        codes = np.empty((n, len(self.columns)), dtype=np.int32)
        for j, (column, coded) in enumerate(zip(read, self.columns, strict=True)):
            codes[:, j] = coded.codes(column)
        real = np.empty((n, self.n_coordinates if views or marked else 0))
        if real.shape[1]:
            for j, (at, coded) in enumerate(zip(self.starts, self.columns, strict=True)):
                coded.coordinates(read[j], codes[:, j], real[:, at : at + coded.width])
        scores = real
        if "scores" in views and any(isinstance(c, Cuts) for c in self.columns):
            scores = real.copy()
            for column, at, coded in zip(read, self.starts, self.columns, strict=True):
                if isinstance(coded, Cuts):
                    coded.normal_scores(numbers(column), scores[:, at])
        texts = tuple(Strings.of(by_name[name]) for name in self.texts)
        mark = marks(codes, real, texts) if marked else np.zeros(0, dtype=np.uint64)
        return EncodedRows(codes, self.small(codes), real, scores, mark, texts)

    def row(self, values: Mapping[str, Any], views: frozenset[str] = ALL_VIEWS) -> EncodedRows | None:
        """A single row of plain values, by column; None if one of them must be read first, as texts and dates must.

        The result is that of `rows`, in a fraction of the time.
        """
        if self.texts or not self.names or not all(map(values.__contains__, self.names)):
            return None
        given = [values[name] for name in self.names]
        known: list[int] = []
        for value, coded in zip(given, self.columns, strict=True):
            if (code := coded.code(value)) is None:
                return None
            known.append(code)
        codes, real = np.array([known], dtype=np.int32), np.empty((1, self.n_coordinates if views else 0))
        if real.shape[1]:
            for value, code, at, coded in zip(given, known, self.starts, self.columns, strict=True):
                coded.coordinates_of(value, code, real[0, at : at + coded.width])
        scores = real
        if "scores" in views:
            scores = real.copy()
            for value, code, at, coded in zip(given, known, self.starts, self.columns, strict=True):
                if isinstance(coded, Cuts):
                    coded.normal_scores(np.array([value if code else np.nan], dtype=np.float64), scores[:, at])
        return EncodedRows(codes, self.small(codes), real, scores, np.zeros(0, dtype=np.uint64))

    def small(self, codes: Codes) -> Array:
        """Codes that fit in a byte: rare categories share the last, and a value never seen is one of them, or 255."""
        return small_codes(codes, self._seen_codes, self._small_codes)

    def small_of(self, column: int, codes: Codes) -> Array:
        """The same for the codes of one column."""
        return small_codes(codes, self._seen_codes[:, column], self._small_codes[:, column])

    def small_by_place(self, column: int) -> Codes:
        """The same for every place of a column in a formula: its codes, and for categories one never seen."""
        coded = self.columns[column]
        codes = np.arange(coded.size, dtype=np.int32)
        if isinstance(coded, Known):
            codes = np.append(codes, np.int32(-1))
        return self.small_of(column, codes).astype(np.int32)


def small_codes(codes: Codes, seen: Codes, small: Codes) -> Array:
    """See `Encoding.small`."""
    (first, last), (most, never) = seen, small
    out = np.minimum(codes, most)
    late = (codes < first) | (codes > last)
    if late.any():
        out = np.where(late, np.where(codes == 0, UNSEEN, never), out)  # a missing value is no category
    return np.asarray(out, dtype=np.uint8)


def marks(codes: Codes, real: Floats, texts: tuple[Strings, ...]) -> Array:
    """A hash of each row, which depends on nothing else."""
    mark = np.zeros(len(codes), dtype=np.uint64)
    for table in (codes.astype(np.int64).view(np.uint64), (real + 0.0).view(np.uint64)):
        odd = mix_bits(np.arange(table.shape[1], dtype=np.uint64)) | np.uint64(1)
        mark = mix_bits(mark + mix_bits(table) @ odd) if table.shape[1] else mark
    for column in texts:
        hashes = [crc32(text.encode("utf-8", "surrogatepass")) for text in column.distinct]
        mark = mix_bits(mark + np.array(hashes, dtype=np.uint64)[column.which])
    return mark


def choose_encoding(frame: Frame, texts: tuple[str, ...] = ()) -> Encoding:
    """Bins, scales and categories of a table's columns, from the rows given."""
    left_out = set(texts)
    pairs = [(name, column) for name, column in zip(frame.names, frame.columns, strict=True) if name not in left_out]
    columns = [choose_cuts(own, name) if isinstance(own, Numbers) else choose_known(own) for name, own in pairs]
    return Encoding(tuple(name for name, _ in pairs), tuple(with_fewer_coordinates(columns)), texts)


def with_fewer_coordinates(columns: list[Coded]) -> list[Coded]:
    """The columns with fewer indicators per column, if there would be too many coordinates."""
    room = MAX_COORDINATES - sum(c.width for c in columns if isinstance(c, Cuts))
    limit = MAX_INDICATORS
    while limit > 0 and sum(min(len(c.indicator_levels), limit) + 1 for c in columns if isinstance(c, Known)) > max(
        0, room
    ):
        limit -= 1
    if limit == MAX_INDICATORS:
        return columns
    return [replace(c, indicator_levels=c.indicator_levels[:limit]) if isinstance(c, Known) else c for c in columns]


def coarse_codes(encoding: Encoding, bins: int, max_categories: int = 60) -> tuple[Array, Codes]:
    """Maps from small codes to fewer, (d, 256), and their number by column: neighbouring bins and rare categories are
    merged."""
    maps = np.full((len(encoding.columns), 256), UNSEEN, dtype=np.uint8)
    for table, coded in zip(maps, encoding.columns, strict=True):
        if isinstance(coded, Cuts):
            middle = coded.mass.cumsum() - coded.mass / 2
            group = np.minimum((middle * bins).astype(np.intp), bins - 1)
            table[:2] = 0, 1
            table[2 : coded.size] = 1 + (group[1:] > group[:-1]).cumsum()  # without empty groups
        else:
            table[: coded.distinct] = np.minimum(np.arange(coded.distinct), max_categories)
    levels = np.where(maps == UNSEEN, 0, maps).max(axis=1).astype(np.int32) + 1
    return maps, levels
