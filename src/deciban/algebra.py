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
from deciban.schema import Columns, Schema, category_positions, find

# Sums of up to 2^22 weights, each within 2^-52 of itself, are off by less than this share of themselves.
RESIDUE = 2.0**-30
CANCELLED = 2.0**10  # squares that a move of the pivot makes as many times smaller have lost ten of a double's 53 bits


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
            block = {name: operation(mine[name], theirs[name]) for name in mine if name != "lost"}
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
            if old.categories != new.categories:
                moved["is"] = move_cells(moved["is"], old, new)
            if "pair" in moved and (old.categories != new.categories or old.parents != new.parents):
                at = pair_positions(old, new)
                pairs = np.zeros((k, int(new.pair_offsets[-1])))
                pairs[:, at] = moved["pair"]
                moved["pair"] = pairs
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
            pairs += [(block[name], same[name]) for name in block if name != "lost"]
        return all(
            bool(np.all(np.abs(a - b) <= tolerance * (1.0 + np.maximum(np.abs(a), np.abs(b))))) for a, b in pairs
        )


def second_moments(sums: Sums) -> Floats:
    """Σ(x − pivot)² by class and column, of a block that has second moments."""
    return sums["xx"] if "xx" in sums else np.diagonal(sums["xy"], axis1=1, axis2=2)


def gross(sums: Sums) -> Floats:
    """The squares that were ever in a block's second moments: rounding is a share of them."""
    return second_moments(sums) + sums.get("lost", 0.0)


def lost_by(operation: Callable[[Array, Array], Array], mine: Sums, theirs: Sums) -> dict[str, Floats]:
    """What second moments have lost by now: what either side had, and what is taken away."""
    parts = [side["lost"] for side in (mine, theirs) if "lost" in side]
    if operation is np.subtract and ("xx" in mine or "xy" in mine):
        parts.append(second_moments(theirs))
    return {"lost": np.add.reduce(parts)} if parts else {}


def without(total: Floats, part: Floats | float) -> Floats:
    """total − part, where what is left of a subtraction by rounding alone counts as nothing."""
    left = total - part
    return np.where(np.abs(left) <= np.abs(total) * RESIDUE, 0.0, left)


def column_totals(cells: Floats, columns: Columns) -> Floats:
    """Counts by category, summed over each column's categories: (k, d)."""
    offsets = columns.offsets
    filled = np.flatnonzero(np.diff(offsets) > 0)
    out = np.zeros((len(cells), columns.size))
    if len(filled):
        out[:, filled] = np.add.reduceat(cells, offsets[filled], axis=1)
    return out


def add_prior(sums: Sums, pseudo: Sums) -> Sums:
    """A block's sums with the prior's pseudo-statistics added; what only one of them has comes along."""
    both = {**sums, **pseudo, **{name: sums[name] + pseudo[name] for name in sums if name in pseudo}}
    if "lost" in sums:  # squares that are exactly nothing have no rounding
        both["lost"] = np.where(second_moments(sums) > 0, sums["lost"], 0.0)
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


def move_cells(cells: Floats, old: Columns, new: Columns) -> Floats:
    """Counts by category, moved to where the categories stand in the larger schema."""
    assert old.categories is not None
    assert new.categories is not None
    positions = [
        start + category_positions(a, b)
        for a, b, start in zip(old.categories, new.categories, new.offsets, strict=False)
    ]
    out = np.zeros((len(cells), int(new.offsets[-1])))
    if positions:
        out[:, np.concatenate(positions).astype(np.intp)] = cells
    return out


def pair_positions(old: Columns, new: Columns) -> Array:
    """Where each pair of categories of a column and its parent stands in another schema that has all of them."""
    if old.parents is None or old.categories is None or new.categories is None:
        return np.zeros(0, dtype=np.intp)
    places = [category_positions(a, b) for a, b in zip(old.categories, new.categories, strict=True)]
    found, starts = [np.zeros(0, dtype=np.intp)], new.pair_offsets
    for j, parent in enumerate(old.parents):
        if parent >= 0:
            pairs = places[parent][:, None] * len(new.categories[j]) + places[j]
            found.append(starts[j] + pairs.ravel())
    return np.concatenate(found).astype(np.intp)


def shift(sums: Sums, by: Floats) -> dict[str, Floats]:
    """Moments about the pivot p, moved to the pivot p − by: linear, so it adds and subtracts as they do."""
    if not np.any(by):
        return dict(sums)
    one, x = sums["one"], sums["x"]
    moved = {"one": one, "x": x + one * by}
    if "xx" in sums:
        moved["xx"] = sums["xx"] + 2.0 * by * x + one * by**2
    if "xy" in sums:
        moved["xy"] = shift_scatter(one[..., None], x, sums["xy"], by)
    if "xxyy" in sums:
        moved |= shift_fourth(sums, by)
    if "xx" in moved or "xy" in moved:
        before = second_moments(sums) + 2.0 * np.abs(by * x) + one * by**2
        cancelled = np.where(before > CANCELLED * second_moments(moved), before, 0.0)
        if "lost" in sums or cancelled.any():
            moved["lost"] = sums.get("lost", 0.0) + cancelled
    return moved


def shift_scatter(one: Floats, x: Floats, xy: Floats, by: Floats) -> Floats:
    """Σ(t + b)(t + b)ᵀ from n, Σt and Σttᵀ, class by class."""
    cross = x[:, :, None] * by[:, None, :]
    return np.asarray(xy + cross + cross.transpose(0, 2, 1) + one * by[:, :, None] * by[:, None, :])


def shift_fourth(sums: Sums, by: Floats) -> dict[str, Floats]:
    """Σ(t + b)²(t + b)ᵀ and Σ(t + b)²((t + b)²)ᵀ: binomials, term by term."""
    one, x, xy = sums["one"][..., None], sums["x"], sums["xy"]
    squares = np.diagonal(xy, axis1=1, axis2=2)  # Σt²
    u, v = by[:, :, None], by[:, None, :]  # the shift of the row's column, and of the column's
    xu, xv = x[:, :, None], x[:, None, :]
    mixed = sums["xxy"] + 2 * u * xy + u**2 * xv + v * (squares[:, :, None] + 2 * u * xu + one * u**2)
    # (t_j + u)² (t_l + v)² = (t_j² + 2ut_j + u²)(t_l² + 2vt_l + v²)
    other = sums["xxy"].transpose(0, 2, 1)  # Σ t_j t_l²
    fourth = (
        sums["xxyy"]
        + 2 * v * sums["xxy"]
        + v**2 * squares[:, :, None]
        + 2 * u * (other + 2 * v * xy + v**2 * xu)
        + u**2 * (squares[:, None, :] + 2 * v * xv + one * v**2)
    )
    return {"xxy": np.asarray(mixed), "xxyy": np.asarray(fourth)}
