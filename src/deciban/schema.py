"""What statistics are about: classes, columns, categories, pivots. Union first, then embed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deciban._typing import Array, Categories, Floats
from deciban.errors import SchemaError


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A block of columns that share one family, and what the family fixed for them when it first saw data."""

    size: int
    names: tuple[str, ...] | None = None
    categories: tuple[Categories, ...] | None = None
    pivot: Floats | None = None  # (k, d): moments are kept about it, so that far offsets cost no digits

    def name(self, column: int) -> str:
        """What to call a column when speaking to a person."""
        return self.names[column] if self.names is not None else f"x{column}"

    @property
    def offsets(self) -> Array:
        """Where each column's categories begin in a flat row of cells; the last entry is how many there are."""
        if self.categories is None:
            raise SchemaError("these columns have no categories")
        return np.concatenate([[0], np.cumsum([len(c) for c in self.categories], dtype=np.intp)]).astype(np.intp)

    def union(self, other: Columns) -> Columns:
        """The columns that hold both; `pivot` is left to Schema.union, which knows the classes."""
        if self.size != other.size:
            raise SchemaError(f"cannot merge a block of {self.size} columns with one of {other.size}")
        if self.names is not None and other.names is not None and self.names != other.names:
            at = next(i for i, (a, b) in enumerate(zip(self.names, other.names, strict=True)) if a != b)
            raise SchemaError(
                f"cannot merge models over different columns: column {at} is called "
                f"{self.names[at]!r} in one and {other.names[at]!r} in the other"
            )
        categories = self.categories
        if self.categories is not None and other.categories is not None:
            categories = tuple(union_categories(a, b) for a, b in zip(self.categories, other.categories, strict=True))
        return replace(self, names=self.names or other.names, categories=categories)


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
                    f"the classes were declared as {one.classes.tolist()}, so {new} cannot be added; "
                    "leave out classes= to keep the set open"
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
    """Both sets of labels, sorted; labels of kinds that do not compare cannot be merged."""
    if len(a) == 0 or len(b) == 0:
        return b if len(a) == 0 else a
    if a.shape == b.shape and a.dtype == b.dtype and bool(np.all(a == b)):
        return a
    numeric = "biuf"
    if (a.dtype.kind in numeric) != (b.dtype.kind in numeric) and "O" not in (a.dtype.kind, b.dtype.kind):
        raise SchemaError(f"labels {a.tolist()[:5]} and {b.tolist()[:5]} are of kinds that do not compare")
    return np.union1d(a, b)


def find(labels: Array, classes: Array) -> Array:
    """Where each label stands among the (sorted) classes."""
    return np.searchsorted(classes, labels) if len(classes) else np.zeros(0, dtype=np.intp)


def union_categories(a: Categories, b: Categories) -> Categories:
    """Integer codes stay codes; otherwise what the first has, then what only the second has."""
    if isinstance(a, range) and isinstance(b, range):
        return a if len(a) >= len(b) else b
    if a == b:
        return a
    return tuple(dict.fromkeys([*a, *b]))


def category_positions(old: Sequence[Any], new: Sequence[Any]) -> Array:
    """Where each of the old categories stands among the new."""
    if isinstance(old, range) and isinstance(new, range):
        return np.arange(len(old))
    position = {value: i for i, value in enumerate(new)}
    return np.array([position[value] for value in old], dtype=np.intp)
