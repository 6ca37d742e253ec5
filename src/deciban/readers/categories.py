"""Rows of categories: integer codes as they are, or labels of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array, Categories, Data, Floats
from deciban.collect import CODE_TYPES
from deciban.errors import DecibanError
from deciban.matrix import value_range
from deciban.readers.base import Reader
from deciban.reading.categories import check_codes, code_sizes, find_labels, from_codes, learn_labels
from deciban.reading.entries import Entries
from deciban.reading.labels import Labels
from deciban.schema import Columns


@dataclass(frozen=True, slots=True)
class CategoryReader(Reader):
    """Categories. `least` is the smallest number of integer codes of each column, if given."""

    names: tuple[str, ...] | None
    model_name: str
    least: tuple[int, ...] | None = None

    form: ClassVar[str] = "objects"
    strings: ClassVar[bool] = True

    def learn(self, X: Any, known: Any, labels: Labels, weight: Floats | None) -> Entries:
        del labels, weight
        d = X.shape[1]
        before = None if known is None else known.columns().categories
        if is_codes(X) and (before is None or all(isinstance(values, range) for values in before)):
            codes = as_codes(X)
            least = np.zeros(d, dtype=np.int64) if self.least is None else np.array(self.least, dtype=np.int64)
            sizes = code_sizes(codes, self.model_name, least)
            categories: tuple[Categories, ...] = tuple(range(int(size)) for size in sizes)
            return Entries([codes], (Columns(d, self.names, categories),))
        if self.least is not None:
            raise DecibanError("min_categories is for integer codes, but these columns hold labels: leave it out")
        X = X.toarray() if issparse(X) else X
        matrix = np.empty((len(X), d), dtype=np.int32, order="F")
        learned: list[Categories] = []
        for j in range(d):
            matrix[:, j], values = learn_labels(X[:, j], before[j] if before is not None else ())
            learned.append(values)
        return Entries([matrix], (Columns(d, self.names, tuple(learned)),))

    def score(self, X: Any, model: Any) -> Entries:
        columns = model.columns()
        if is_codes(X) and all(isinstance(values, range) for values in columns.categories):
            codes = as_codes(X)
            check_codes(codes, self.model_name)
            return Entries([codes], (columns,))
        X = X.toarray() if issparse(X) else X
        matrix = np.empty((X.shape[0], columns.size), dtype=np.int32, order="F")
        for j, values in enumerate(columns.categories):
            matrix[:, j] = find_labels(X[:, j], values)
        return Entries([matrix], (columns,))

    def native(self, rows: Data, model: Any) -> Array:
        return from_codes(rows[0], model.columns().categories)

    def kinds(self, names: tuple[str, ...], model: Any) -> dict[str, str]:
        known = model.columns().categories or ()
        return {
            name: "code" if isinstance(values, range) else "category" for name, values in zip(names, known, strict=True)
        }


def is_codes(X: Any) -> bool:
    return issparse(X) or X.dtype.kind in "biuf"


def as_codes(X: Any) -> Array:
    """Numbers of a type that the kernels count, without gaps, since they are read twice.

    Sparse rows become dense, of the smallest type.
    """
    if issparse(X):
        low, high = value_range(X.data) if X.nnz else (0.0, 0.0)
        small = 0 <= low <= high < 256 and not np.isnan(X.data.sum())
        return np.asarray(X.astype(np.uint8 if small else np.float64).toarray())
    X = X if X.flags.forc else np.ascontiguousarray(X)
    if X.dtype == bool:
        return np.asarray(X.view(np.uint8))
    return np.asarray(X if X.dtype.type in CODE_TYPES else X.astype(np.float64 if X.dtype.kind == "f" else np.int64))
