"""The schema of statistics: classes, columns, categories, trees, pivots. Union first, then embed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from deciban._typing import Array, Categories, Codes, Floats
from deciban.errors import SchemaError
from deciban.show import number


@dataclass(frozen=True, slots=True)
class Bins(Sequence[str]):
    """The categories of a column of numbers: fixed intervals. Bin b holds cuts[b − 1] < x ≤ cuts[b].

    >>> bins = Bins((1.5, 4.0), (1.0, 3.0, 7.0))
    >>> list(bins), bins.codes(np.array([1.5, 1.6, 99.0, np.nan])).tolist()
    (['≤ 1.5', '1.5 to 4', '> 4'], [0, 1, 2, -1])
    """

    cuts: tuple[float, ...]
    middles: tuple[float, ...] = field(compare=False)  # a number for each bin: the median of those it was cut from

    def __len__(self) -> int:
        return len(self.cuts) + 1

    def __getitem__(self, place: Any) -> Any:
        """The name of a bin."""
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no bin {place} among {len(self)}")
        place %= len(self)
        if not self.cuts:
            return "any"
        if place == 0:
            return f"≤ {number(self.cuts[0])}"
        if place == len(self.cuts):
            return f"> {number(self.cuts[-1])}"
        return f"{number(self.cuts[place - 1])} to {number(self.cuts[place])}"

    def codes(self, values: Floats) -> Codes:
        """Each number's bin, −1 if it is missing."""
        return np.where(np.isnan(values), -1, np.searchsorted(self.cuts, values)).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A block of columns that share one family, and what the family fixed for them when it first saw data."""

    size: int
    names: tuple[str, ...] | None = None
    categories: tuple[Categories, ...] | None = None
    pivot: Floats | None = None  # (k, d): moments are kept about it, so that far offsets cost no digits
    parents: tuple[int, ...] | None = None  # each column's parent, −1 for none; None: not chosen yet

    def name(self, column: int) -> str:
        """The name of a column, for display."""
        return self.names[column] if self.names is not None else f"x{column}"

    def item(self, column: int, code: int) -> str:
        """The name of a column's category: colour=red, or age > 40 for an interval."""
        known = (self.categories or ())[column]
        return f"{self.name(column)}{' ' if isinstance(known, Bins) else '='}{known[code]}"

    @property
    def offsets(self) -> Array:
        """Where each column's categories start in a flat row of cells; the last entry is the number of cells."""
        if self.categories is None:
            raise SchemaError("these columns have no categories")
        return np.concatenate([[0], np.cumsum([len(c) for c in self.categories], dtype=np.intp)]).astype(np.intp)

    @property
    def pair_offsets(self) -> Array:
        """Where each column's pairs with its parent's categories start in a flat row of cells, parent first."""
        sizes, parents = np.diff(self.offsets), np.array(self.parents or [-1] * self.size, dtype=np.intp)
        pairs = np.where(parents >= 0, sizes[parents] * sizes, 0) if self.size else sizes
        return np.concatenate([[0], np.cumsum(pairs)]).astype(np.intp)

    def union(self, other: Columns) -> Columns:
        """The union of both; `pivot` is left to Schema.union, which knows the classes."""
        if self.size != other.size:
            raise SchemaError(f"cannot merge a block of {self.size} columns with one of {other.size}")
        if self.names is not None and other.names is not None and self.names != other.names:
            at = next(i for i, (a, b) in enumerate(zip(self.names, other.names, strict=True)) if a != b)
            raise SchemaError(
                "cannot merge models over different columns: column {place} is called {column!r} in one and {other!r} "
                "in the other",
                column=self.names[at],
                place=at,
                other=other.names[at],
            )
        parents = self._same_tree(other)
        categories = self.categories
        if self.categories is not None and other.categories is not None:
            for at, (a, b) in enumerate(zip(self.categories, other.categories, strict=True)):
                if len(a) and len(b) and a != b and (isinstance(a, Bins) or isinstance(b, Bins)):
                    raise SchemaError(
                        "cannot merge models with different bins for column {column!r}: fit one with bins=other.cuts_",
                        column=self.name(at),
                    )
            categories = tuple(union_categories(a, b) for a, b in zip(self.categories, other.categories, strict=True))
        return replace(self, names=self.names or other.names, categories=categories, parents=parents)

    def _same_tree(self, other: Columns) -> tuple[int, ...] | None:
        """The common tree; SchemaError if they differ, since their pairs differ."""
        if self.parents is None or other.parents is None:
            return self.parents if other.parents is None else other.parents
        for at, (a, b) in enumerate(zip(self.parents, other.parents, strict=True)):
            if a != b:
                on = [f"on {self.name(p)!r}" if p >= 0 else "on none" for p in (a, b)]
                raise SchemaError(
                    "cannot merge models with different trees: column {column!r} depends {one} in one and {other} in "
                    "the other. Fit one with parents=other.parents_",
                    column=self.name(at),
                    one=on[0],
                    other=on[1],
                )
        return self.parents


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The classes and the blocks of columns of a model. A `closed` set of classes admits no new ones."""

    classes: Array
    blocks: tuple[Columns, ...]
    closed: bool = False

    def union(self, other: Schema) -> Schema:
        """The smallest schema that both embed into."""
        if len(self.blocks) != len(other.blocks):
            raise SchemaError(f"cannot merge {len(self.blocks)} blocks of columns with {len(other.blocks)}")
        classes = union_classes(self.classes, other.classes)
        for one, two in ((self, other), (other, self)):
            if one.closed and len(classes) > len(one.classes):
                new = [c for c in two.classes.tolist() if c not in set(one.classes.tolist())]
                raise SchemaError(
                    f"the classes were declared as {one.classes.tolist()}, so {new} cannot be added; leave out "
                    f"classes= to allow new classes"
                )
        blocks = []
        for a, b in zip(self.blocks, other.blocks, strict=True):
            block = a.union(b)
            if a.pivot is not None and b.pivot is not None:
                pivot = np.zeros((len(classes), block.size))
                pivot[find(other.classes, classes)] = b.pivot
                pivot[find(self.classes, classes)] = a.pivot
                block = replace(block, pivot=pivot)
            blocks.append(block)
        return Schema(classes, tuple(blocks), self.closed or other.closed)


def union_classes(a: Array, b: Array) -> Array:
    """The union of both sets of labels, sorted; SchemaError if their types cannot be compared."""
    if len(a) == 0 or len(b) == 0:
        return b if len(a) == 0 else a
    if a.shape == b.shape and a.dtype == b.dtype and bool(np.all(a == b)):
        return a
    numeric = "biuf"
    if (a.dtype.kind in numeric) != (b.dtype.kind in numeric) and "O" not in (a.dtype.kind, b.dtype.kind):
        raise SchemaError(f"labels {a.tolist()[:5]} and {b.tolist()[:5]} are of types that cannot be compared")
    return np.union1d(a, b)


def find(labels: Array, classes: Array) -> Array:
    """The position of each label among the (sorted) classes."""
    return np.searchsorted(classes, labels) if len(classes) else np.zeros(0, dtype=np.intp)


def union_categories(a: Categories, b: Categories) -> Categories:
    """The categories of both: the longer range of integer codes, or those of `a`, then those that only `b` has."""
    if isinstance(a, range) and isinstance(b, range):
        return a if len(a) >= len(b) else b
    if a == b or len(b) == 0:
        return a
    if len(a) == 0:
        return b
    return tuple(dict.fromkeys([*a, *b]))


def category_positions(old: Sequence[Any], new: Sequence[Any]) -> Array:
    """The position of each of the old categories among the new."""
    if (isinstance(old, range) and isinstance(new, range)) or isinstance(old, Bins):
        return np.arange(len(old))
    position = {value: i for i, value in enumerate(new)}
    return np.array([position[value] for value in old], dtype=np.intp)


def is_forest(parents: Sequence[int]) -> bool:
    """Whether the parents (−1: none) form a forest: in range, and without cycles."""
    if not all(-1 <= parent < len(parents) for parent in parents):
        return False
    return len(parents_first(parents)) == len(parents)


def parents_first(parents: Sequence[int]) -> list[int]:
    """The columns, parents before children; columns in a cycle are left out."""
    order = [j for j, parent in enumerate(parents) if parent < 0]
    for above in order:
        order += [j for j, parent in enumerate(parents) if parent == above]
    return order
