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

CANCELLED = 2.0**10  # squares that a move of the pivot makes as many times smaller have lost ten of a double's 53 bits
FAR = 100.0  # variances: a mean ten deviations from its pivot costs its variance seven of a double's 53 bits


@dataclass(frozen=True, slots=True, eq=False)
class Stats:
    """Sums of T(x) by class: `weight` is n_y, `sums` has one mapping (measure → array) per block of columns.

    Every array's first axis is the class. `one` may have a single column where no entry was missing. Beside second
    moments stands `lost` once something was taken away from them: the squares, by class and column, that they were
    larger by. What rounding has left in a moment is a share of these as well as of itself.
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
        """Whether two sums agree up to rounding, wherever their pivots are and however their categories are ordered."""
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
    """What second moments have lost by now: what either side had, and what is taken away."""
    parts = [side[Lost.name] for side in (mine, theirs) if Lost.name in side]
    if operation is np.subtract and has_squares(mine):
        parts.append(second_moments(theirs))
    return {Lost.name: np.add.reduce(parts)} if parts else {}


def without(total: Floats, part: Floats | float) -> Floats:
    """total − part, where what is left of a subtraction by rounding alone counts as nothing."""
    left = total - part
    return np.where(np.abs(left) <= np.abs(total) * RESIDUE, 0.0, left)


def add_prior(sums: Sums, pseudo: Sums) -> Sums:
    """A block's sums with the prior's pseudo-statistics added; what only one of them has comes along."""
    both = {**sums, **pseudo, **{name: sums[name] + pseudo[name] for name in sums if name in pseudo}}
    if Lost.name in sums:  # squares that are exactly nothing have no rounding
        both[Lost.name] = np.where(second_moments(sums) > 0, sums[Lost.name], 0.0)
    return both


def common_schema(a: Stats, b: Stats) -> Schema:
    """The union of two schemas, each pivot from the side that has seen something there: a's first."""
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
            if not known.all():  # where a class has nothing yet, a point near the others', where the prior will be
                pivot = np.where(known, pivot, np.take_along_axis(pivot, known.argmax(axis=0)[None], axis=0))
            columns = replace(columns, pivot=pivot)
        blocks.append(columns)
    return replace(schema, blocks=tuple(blocks))


def scatter(array: Array, rows: Array, k: int) -> Floats:
    """Spread an array's rows over k classes, the others zero."""
    out = np.zeros((k, *array.shape[1:]))
    out[rows] = array
    return out


# ---------------------------------------------------------------------- pivots


def shift(sums: Sums, by: Floats) -> dict[str, Floats]:
    """Moments about the pivot p, moved to the pivot p − by: linear, so it adds and subtracts as they do."""
    if not np.any(by):
        return dict(sums)
    moved = {name: MEASURES[name].shifted(sums, by) for name in sums}
    if has_squares(sums):
        before = second_moments(sums) + 2.0 * np.abs(by * sums["x"]) + sums["one"] * by**2
        cancelled = np.where(before > CANCELLED * second_moments(moved), before, 0.0)
        if Lost.name in sums or cancelled.any():
            moved[Lost.name] = sums.get(Lost.name, 0.0) + cancelled
    return moved


def about_the_means(stats: Stats) -> Stats:
    """The same about pivots that follow the means, where these have gone too far for a variance to keep its digits.

    So they may by decay, and during EM. The sooner a pivot follows, the fewer digits its move costs.
    """
    blocks = tuple(following(columns, sums) for columns, sums in zip(stats.schema.blocks, stats.sums, strict=True))
    if all(new is old for new, old in zip(blocks, stats.schema.blocks, strict=True)):
        return stats
    return stats.embed(replace(stats.schema, blocks=blocks))


def following(columns: Columns, sums: Sums) -> Columns:
    """Columns whose pivots are at the means where those are `FAR` off."""
    pivot = columns.pivot
    if pivot is None:
        return columns
    n = np.broadcast_to(sums["one"], pivot.shape)
    mean = np.divide(sums["x"], n, out=np.zeros(pivot.shape), where=n > 0)
    with np.errstate(over="ignore", invalid="ignore"):  # of what is as large as that, nothing is far
        far = n * mean**2 > FAR * np.maximum(second_moments(sums) - n * mean**2, 0.0)
    far &= np.abs(mean) > RESIDUE * np.abs(pivot)  # more than what rounding makes of a column that does not vary
    return replace(columns, pivot=np.where(far, pivot + mean, pivot)) if far.any() else columns
