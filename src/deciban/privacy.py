"""Sums with noise: rows are cut to declared bounds, summed as whole numbers, and noise is added to every sum.

Bounds, categories and classes are declared, never taken from rows, and every row is treated without regard to the
others. So one row, added or removed, changes each sum by at most what its `Statistic` states. A row is in one class,
and adds to no sum of another: noise for one class is enough for all (parallel composition). It adds to every column, so
the budget is shared among columns and their statistics (sequential composition). What is done with noisy sums after
that costs nothing: counts are made positive, means and variances possible (post-processing).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from deciban import noise
from deciban._scipy import issparse
from deciban._typing import Array, Codes, Floats, Matrix, Sums
from deciban.algebra import Stats
from deciban.families import Bernoulli, Categorical, Family, Gaussian, Geometric, Multinomial, Poisson
from deciban.families.gaussian import dense_blocks
from deciban.joint_model import JointModel
from deciban.results.ledger import Ledger, LedgerEntry
from deciban.schema import Columns

GRID = 1 << 20  # a number is rounded to this many steps on either side of the middle of its bounds, so sums are exact
WORD_GRID = 1 << 10  # a word of a document that is cut to its bound is rounded down to this share
MAX_COUNT = 1e100  # of a word in a document, so that its length is finite
BAG_SHARE = 9.0  # the budget of a group of words, relative to that of the class counts
SLACK = 1.0 - 2.0**-40  # of the budget is used: its shares add up to no more than the whole, however they are rounded


class Draw(NamedTuple):
    """A statistic with noise."""

    totals: Floats  # (k, m) in the units of the statistic
    deviation: float  # the noise's standard deviation, in the same units


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """Sums of whole numbers by class, (k, m), and how much one row changes them."""

    name: str
    columns: tuple[str, ...]  # a row adds to each; its budget is shared equally
    totals: Array
    most: int  # what one row adds to one of the columns at most, over all entries of the column
    units: Floats  # what 1 means, by column, in the units of the data
    share: float  # of the budget, relative to the other statistics

    def released(self, budget: float, delta: float) -> tuple[Draw, list[LedgerEntry]]:
        """The statistic with noise, and what that costs: ε if δ is 0, otherwise ρ."""
        d = len(self.columns)
        if delta:
            totals, scale = noise.gaussian(self.totals, self.most * math.sqrt(d), budget)
        else:
            totals, scale = noise.laplace(self.totals, self.most * d, budget)
        entries = [
            LedgerEntry(self.name, column, float(self.most * unit), budget / d, float(scale * unit))
            for column, unit in zip(self.columns, self.units.tolist(), strict=True)
        ]
        return Draw(totals, scale if delta else scale * math.sqrt(2.0)), entries


@dataclass(frozen=True, slots=True, eq=False)
class Declared(ABC):
    """A block of columns, and what was declared about them. `gappy` columns may have missing values."""

    columns: Columns
    gappy: Array  # (d,)

    @abstractmethod
    def statistics(self, X: Matrix, codes: Codes, k: int) -> list[Statistic]:
        """The sums of these rows."""

    @abstractmethod
    def sums(self, draws: Mapping[str, Draw], weight: Floats) -> Sums:
        """Possible sums of the family's measures, given those with noise and the rows of each class."""

    def names(self, among: Array | None = None) -> tuple[str, ...]:
        places = range(self.columns.size) if among is None else np.flatnonzero(among).tolist()
        return tuple(self.columns.name(j) for j in places)

    def present(self, X: Matrix, codes: Codes, k: int) -> list[Statistic]:
        """How many values are not missing, for columns in which some may be."""
        if not self.gappy.any():
            return []
        counts = totals(X, codes, k, lambda x: (~np.isnan(x[:, self.gappy])).astype(np.int64))
        d = int(self.gappy.sum())
        return [Statistic("values", self.names(self.gappy), counts, 1, np.ones(d), float(d))]

    def rows(self, draws: Mapping[str, Draw], weight: Floats) -> Floats:
        """The number of values of each class and column: (k, 1) if none is missing."""
        if not self.gappy.any():
            return weight[:, None]
        out = np.repeat(weight[:, None], self.columns.size, axis=1)
        out[:, self.gappy] = np.clip(draws["values"].totals, 1.0, weight[:, None])
        return out


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredNumbers(Declared):
    """Numbers between bounds, about the middle of them: t = (x − middle)/half is from −1 to 1.

    A row adds at most 1 to Σt, and to Σ(2t² − 1), which needs half the noise of Σt²: they differ by a number of rows,
    which is known with its own noise. In the ledger they are Σx and Σx².
    """

    low: Floats
    high: Floats
    squares: bool  # whether second moments are needed, about a pivot

    @property
    def middle(self) -> Floats:
        return self.low / 2.0 + self.high / 2.0

    @property
    def half(self) -> Floats:
        return self.high / 2.0 - self.low / 2.0

    def statistics(self, X: Matrix, codes: Codes, k: int) -> list[Statistic]:
        d, names = self.columns.size, self.names()

        def contribution(x: Floats) -> Array:
            t, counts = self.scaled(x)
            first = np.where(counts, np.rint(t * GRID), 0.0)
            if not self.squares:
                return first.astype(np.int64)
            second = np.where(counts, np.rint((2.0 * t**2 - 1.0) * GRID), 0.0)
            return np.hstack([first, second]).astype(np.int64)

        both = totals(X, codes, k, contribution)
        out = [Statistic("Σx", names, both[:, :d], GRID, self.half / GRID, float(d))]
        if self.squares:
            units = self.half**2 / (2.0 * GRID)
            out.append(Statistic("Σx²", names, both[:, d:], GRID, units, float(d)))
        return out + self.present(X, codes, k)

    def scaled(self, x: Floats) -> tuple[Floats, Array]:
        """t of each value, and which values count; a missing one is in the middle, or does not count."""
        missing = np.isnan(x)
        t = np.clip((np.where(missing, self.middle, x) - self.middle) / self.half, -1.0, 1.0)
        return t, ~(missing & self.gappy)

    def sums(self, draws: Mapping[str, Draw], weight: Floats) -> Sums:
        n = self.rows(draws, weight)
        first = draws["Σx"]
        mean = np.clip(first.totals / (GRID * n), -1.0, 1.0)
        if not self.squares:
            return {"one": n, "x": n * (self.middle + mean * self.half)}
        second = draws["Σx²"]
        raw = second.totals / (2.0 * GRID * n) + 0.5
        # A variance below its own noise is not known to be smaller; noise in the mean lowers raw − mean² on average.
        least, lowered = second.deviation / (2.0 * GRID * n), (first.deviation / (GRID * n)) ** 2
        variance = np.minimum(np.maximum(raw - mean**2 + lowered, least), 1.0)
        return {"one": n, "x": n * mean * self.half, "xx": n * (variance + mean**2) * self.half**2}


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredTruths(Declared):
    """Features that are present or absent: 2·1[x > t] − 1 is −1 or 1, so Σ1[x > t] needs half the noise."""

    threshold: float | None

    def statistics(self, X: Matrix, codes: Codes, k: int) -> list[Statistic]:
        def contribution(x: Floats) -> Array:
            above = (x > (0.5 if self.threshold is None else self.threshold)).astype(np.int64)
            return np.where(np.isnan(x) & self.gappy, 0, 2 * above - 1)

        d = self.columns.size
        counts = Statistic("Σ1[x]", self.names(), totals(X, codes, k, contribution), 1, np.full(d, 0.5), d)
        return [counts, *self.present(X, codes, k)]

    def sums(self, draws: Mapping[str, Draw], weight: Floats) -> Sums:
        n = self.rows(draws, weight)
        return {"one": n, "x": n * (np.clip(draws["Σ1[x]"].totals / n, -1.0, 1.0) + 1.0) / 2.0}


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredCategories(Declared):
    """Declared categories: a row adds 1 to one of a column's counts. Others, and missing values, add nothing."""

    def statistics(self, X: Matrix, codes: Codes, k: int) -> list[Statistic]:
        d, offsets = self.columns.size, self.columns.offsets.tolist()
        counts = np.zeros((k, offsets[-1]), dtype=np.int64)
        for j, (start, stop) in enumerate(pairwise(offsets)):
            known = (X[:, j] >= 0) & (X[:, j] < stop - start)  # no number is greater or less than NaN
            np.add.at(counts, (codes[known], start + X[known, j].astype(np.intp)), 1)
        return [Statistic("Σ1[x = category]", self.names(), counts, 1, np.ones(d), float(d))]

    def sums(self, draws: Mapping[str, Draw], weight: Floats) -> Sums:
        del weight
        counts = draws["Σ1[x = category]"].totals
        columns = [counts[:, start:stop] for start, stop in pairwise(self.columns.offsets.tolist())]
        return {"is": np.hstack([with_total(column, column.sum(axis=1)) for column in columns])}


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredWords(Declared):
    """Counts of words: a document with more than `max_words` is scaled down to as many."""

    max_words: float

    def statistics(self, X: Matrix, codes: Codes, k: int) -> list[Statistic]:
        most = math.ceil(self.max_words * WORD_GRID)

        def contribution(x: Floats) -> Array:
            x = np.clip(np.nan_to_num(x), 0.0, MAX_COUNT)
            length = np.maximum(x.sum(axis=1, keepdims=True), self.max_words)
            cut = np.floor(x * (self.max_words / length) * WORD_GRID)
            over = cut.sum(axis=1, keepdims=True) / most  # by rounding, if at all
            return np.asarray(np.where(over > 1.0, np.floor(cut / np.maximum(over, 1.0) * SLACK), cut).astype(np.int64))

        columns = (f"{self.columns.size:,} words",)
        counts = totals(X, codes, k, contribution)
        return [Statistic("Σx", columns, counts, most, np.array([1.0 / WORD_GRID]), BAG_SHARE)]

    def sums(self, draws: Mapping[str, Draw], weight: Floats) -> Sums:
        counts = draws["Σx"].totals / WORD_GRID
        return {"x": with_total(counts, np.minimum(counts.sum(axis=1), weight * self.max_words))}


def declared(
    family: Family, columns: Columns, gappy: Array, low: Floats, high: Floats, max_words: float | None
) -> Declared | None:
    """What a block needs, by its family; None if its sums cannot be released."""
    if isinstance(family, Multinomial):  # complement, too
        return None if max_words is None else DeclaredWords(columns, gappy, max_words)
    if isinstance(family, Categorical):
        return DeclaredCategories(columns, gappy)
    if isinstance(family, Bernoulli):
        return DeclaredTruths(columns, gappy, family.threshold)
    if isinstance(family, Gaussian | Poisson | Geometric):
        return DeclaredNumbers(columns, gappy, low, high, isinstance(family, Gaussian))
    return None


def release(
    empty: JointModel,
    blocks: tuple[Declared, ...],
    data: Iterable[Matrix],
    codes: Codes,
    epsilon: float,
    delta: float = 0.0,
) -> JointModel:
    """The model of these rows with noise in every sum; `codes` are of declared classes."""
    k = len(empty.classes)
    rows = Statistic("rows", ("",), np.bincount(codes, minlength=k).astype(np.int64)[:, None], 1, np.ones(1), 1.0)
    by_block = [block.statistics(X, codes, k) for block, X in zip(blocks, data, strict=True)]
    whole = SLACK * (noise.rho_of(epsilon, delta) if delta else epsilon)
    unit = whole / (rows.share + sum(one.share for statistics in by_block for one in statistics))
    counts, entries = rows.released(unit * rows.share, delta)
    weight = np.maximum(counts.totals[:, 0], 1.0)  # a declared class is possible
    sums = []
    for block, statistics in zip(blocks, by_block, strict=True):
        draws = {}
        for one in statistics:
            draws[one.name], cost = one.released(unit * one.share, delta)
            entries += cost
        sums.append(block.sums(draws, weight))
    stats = Stats(empty.schema, weight, tuple(sums))
    return replace(empty, stats=stats, privacy=Ledger(((epsilon, delta),), tuple(entries)))


def totals(X: Matrix, codes: Codes, k: int, contribution: Callable[[Floats], Array]) -> Array:
    """Whole numbers of each row, (n, m), summed by class, (k, m)."""
    out = np.zeros((k, contribution(np.zeros((0, X.shape[1]))).shape[1]), dtype=np.int64)
    for rows in dense_blocks(X.shape[0], X.shape[1]):
        block, own = X[rows].toarray() if issparse(X) else np.asarray(X[rows]), codes[rows]
        values = contribution(block.astype(np.float64))
        for c in np.unique(own).tolist():
            out[c] += values[own == c].sum(axis=0)
    return out


def with_total(counts: Floats, total: Floats) -> Floats:
    """The counts nearest to these, row by row, that are not negative and have this total, or 0 if it is negative.

    >>> with_total(np.array([[5.0, 3.0, -2.0], [-1.0, -4.0, 1.0]]), np.array([6.0, -4.0]))
    array([[4., 2., 0.],
           [0., 0., 0.]])
    """
    total = np.maximum(total, 0.0)[:, None]
    if counts.shape[1] == 0:
        return counts
    ordered = -np.sort(-counts, axis=1)
    size = np.arange(1, counts.shape[1] + 1)
    excess = (np.cumsum(ordered, axis=1) - total) / size  # what is taken from each of the largest ones
    kept = np.maximum((ordered > excess).sum(axis=1), 1)
    return np.where(total > 0, np.maximum(counts - np.take_along_axis(excess, kept[:, None] - 1, axis=1), 0.0), 0.0)
