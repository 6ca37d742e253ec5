"""Statistics: a commutative group. Learning and merging are `+`, forgetting is `−`, decay is `scale`.

>>> import numpy as np
>>> from deciban.schema import Columns, Schema
>>> schema = Schema(np.array(["ham", "spam"]), (Columns(2),))
>>> a = Stats(schema, np.array([3.0, 1.0]), ({"x": np.array([[4.0, 0.0], [1.0, 2.0]])},))
>>> (a + a - a).same_as(a)
True
>>> a.scale(0.5).weight
array([1.5, 0.5])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from deciban._typing import Array, Floats, Sums
from deciban.measure import MEASURES, RESIDUE, Lost, has_squares, second_moments
from deciban.schema import Columns, Schema, find

CANCELLATION_RATIO = 2.0**10  # squares that shrink by this factor when a pivot moves lose ten of a double's 53 bits
MAX_PIVOT_DISTANCE = 100.0  # squared, in variances: at ten deviations a variance loses seven of a double's 53 bits


@dataclass(frozen=True, slots=True, eq=False)
class Stats:
    """Sums of T(x) by class: `weight` is n_y, `sums` has one mapping (measure → array) per block of columns.

    Every array's first axis is the class. `one` may have a single column if no entry was missing. Once something was
    subtracted from second moments there is also `lost`: the squares, by class and column, that were subtracted. The
    rounding error of a moment is relative to these as well as to itself.
    """

    schema: Schema
    weight: Floats
    sums: tuple[Sums, ...]

    @property
    def classes(self) -> Array:
        return self.schema.classes

    def __add__(self, other: Stats) -> Stats:
        return self._combine(other, np.add)

    def __sub__(self, other: Stats) -> Stats:
        return self._combine(other, np.subtract)

    def scale(self, factor: float) -> Stats:
        """Every sum times a number: a weight, or decay."""
        sums = tuple({name: array * factor for name, array in block.items()} for block in self.sums)
        return replace(self, weight=self.weight * factor, sums=sums)

    def _combine(self, other: Stats, operation: Callable[[Array, Array], Array]) -> Stats:
        schema = self.schema if self.schema is other.schema else common_schema(self, other)
        a, b = self.embed(schema), other.embed(schema)
        sums = []
        for mine, theirs in zip(a.sums, b.sums, strict=True):
            block = {name: operation(mine[name], theirs[name]) for name in mine if name != Lost.name}
            sums.append(block | lost_by(operation, mine, theirs))
        return Stats(schema, operation(a.weight, b.weight), tuple(sums))

    def embed(self, schema: Schema) -> Stats:
        """The same sums in a larger schema: new classes and categories are zero, moments move to its pivots."""
        if schema is self.schema:
            return self
        rows = find(self.classes, schema.classes)
        k = len(schema.classes)
        same = len(self.classes) == k
        weight = self.weight if same else scatter(self.weight, rows, k)
        sums = []
        for block, old, new in zip(self.sums, self.schema.blocks, schema.blocks, strict=True):
            moved = dict(block) if same else {name: scatter(array, rows, k) for name, array in block.items()}
            if old.categories != new.categories or old.parents != new.parents:
                moved = {name: MEASURES[name].embedded(array, old, new) for name, array in moved.items()}
            if new.pivot is not None and old.pivot is not None:
                moved = shift(moved, (old.pivot if same else scatter(old.pivot, rows, k)) - new.pivot)
            sums.append(moved)
        return Stats(schema, weight, tuple(sums))

    def same_as(self, other: Stats, tolerance: float = 1e-9) -> bool:
        """Whether two sums agree up to rounding, whatever their pivots and the order of their categories."""
        if not np.array_equal(self.classes, other.classes):
            return False
        for mine, theirs in zip(self.schema.blocks, other.schema.blocks, strict=True):
            if [set(c) for c in mine.categories or ()] != [set(c) for c in theirs.categories or ()]:
                return False
        other = other.embed(self.schema)
        pairs = [(self.weight, other.weight)]
        for block, same in zip(self.sums, other.sums, strict=True):
            pairs += [(block[name], same[name]) for name in block if name != Lost.name]
        return all(
            bool(np.all(np.abs(a - b) <= tolerance * (1.0 + np.maximum(np.abs(a), np.abs(b))))) for a, b in pairs
        )


def lost_by(operation: Callable[[Array, Array], Array], mine: Sums, theirs: Sums) -> dict[str, Floats]:
    """What second moments have lost so far: the losses of either side, and what is subtracted now."""
    parts = [side[Lost.name] for side in (mine, theirs) if Lost.name in side]
    if operation is np.subtract and has_squares(mine):
        parts.append(second_moments(theirs))
    return {Lost.name: np.add.reduce(parts)} if parts else {}


def without(total: Floats, part: Floats | float) -> Floats:
    """total − part, with rounding residue set to zero."""
    remaining = total - part
    return np.where(np.abs(remaining) <= np.abs(total) * RESIDUE, 0.0, remaining)


def add_prior(sums: Sums, pseudo: Sums) -> Sums:
    """A block's sums with the prior's pseudo-statistics added; sums that only one of them has are kept."""
    both = {**sums, **pseudo, **{name: sums[name] + pseudo[name] for name in sums if name in pseudo}}
    if Lost.name in sums:  # squares that are exactly zero have no rounding error
        both[Lost.name] = np.where(second_moments(sums) > 0, sums[Lost.name], 0.0)
    return both


def common_schema(a: Stats, b: Stats) -> Schema:
    """The union of two schemas, with each pivot from a side that has data there, preferably a."""
    schema = a.schema.union(b.schema)
    k = len(schema.classes)
    blocks = []
    for i, columns in enumerate(schema.blocks):
        if columns.pivot is not None:
            pivot, known = columns.pivot, np.zeros(columns.pivot.shape, dtype=bool)
            for stats in (b, a):
                mine = stats.schema.blocks[i].pivot
                assert mine is not None
                rows = find(stats.classes, schema.classes)
                seen = scatter(np.broadcast_to(stats.sums[i]["one"], mine.shape) > 0, rows, k) > 0
                pivot, known = np.where(seen, scatter(mine, rows, k), pivot), known | seen
            if not known.all():  # for a class without data, the pivot of another class, near the prior's mean
                pivot = np.where(known, pivot, np.take_along_axis(pivot, known.argmax(axis=0)[None], axis=0))
            columns = replace(columns, pivot=pivot)
        blocks.append(columns)
    return replace(schema, blocks=tuple(blocks))


def scatter(array: Array, rows: Array, k: int) -> Floats:
    """An array's rows placed among k classes, the others zero."""
    out = np.zeros((k, *array.shape[1:]))
    out[rows] = array
    return out


# ---------------------------------------------------------------------- pivots


def shift(sums: Sums, by: Floats) -> dict[str, Floats]:
    """Moments about the pivot p, moved to the pivot p − by: a linear map, so it commutes with + and −."""
    if not np.any(by):
        return dict(sums)
    moved = {name: MEASURES[name].shifted(sums, by) for name in sums}
    if has_squares(sums):
        before = second_moments(sums) + 2.0 * np.abs(by * sums["x"]) + sums["one"] * by**2
        cancelled = np.where(before > CANCELLATION_RATIO * second_moments(moved), before, 0.0)
        if Lost.name in sums or cancelled.any():
            moved[Lost.name] = sums.get(Lost.name, 0.0) + cancelled
    return moved


def about_the_means(stats: Stats) -> Stats:
    """The same with pivots moved to the means if these are so far off that a variance would lose digits.

    That can happen through decay, and during EM. The sooner a pivot follows, the fewer digits its move costs.
    """
    blocks = tuple(
        with_pivots_at_means(columns, sums) for columns, sums in zip(stats.schema.blocks, stats.sums, strict=True)
    )
    if all(new is old for new, old in zip(blocks, stats.schema.blocks, strict=True)):
        return stats
    return stats.embed(replace(stats.schema, blocks=blocks))


def with_pivots_at_means(columns: Columns, sums: Sums) -> Columns:
    """Columns with pivots at the means where these are farther than MAX_PIVOT_DISTANCE."""
    pivot = columns.pivot
    if pivot is None:
        return columns
    n = np.broadcast_to(sums["one"], pivot.shape)
    mean = np.divide(sums["x"], n, out=np.zeros(pivot.shape), where=n > 0)
    with np.errstate(over="ignore", invalid="ignore"):  # values so large that they overflow are not far
        is_far = n * mean**2 > MAX_PIVOT_DISTANCE * np.maximum(second_moments(sums) - n * mean**2, 0.0)
    is_far &= np.abs(mean) > RESIDUE * np.abs(pivot)  # more than the rounding of a constant column
    return replace(columns, pivot=np.where(is_far, pivot + mean, pivot)) if is_far.any() else columns
