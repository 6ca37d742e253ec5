"""Labels as codes, missing ones (None, NaN) as −1; soft labels (a matrix) as weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._kernel import counts
from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError, KindError, warn
from deciban.reading.arrow import integers
from deciban.reading.missing import missing_where
from deciban.show import plain

MAX_EXACT_INTEGER = 2.0**53  # every integer up to here is exact as a float
MAX_LABEL_RANGE = 1 << 16  # integer labels this close together are looked up in a table instead of sorted


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The distinct labels, sorted, and each row's code (−1: missing); or `soft` labels, (n, k)."""

    classes: Array
    codes: Codes
    soft: Floats | None = None
    any_missing: bool = False

    @property
    def shares(self) -> Array:
        """What sums are taken by: class codes, or the soft labels' weights."""
        return self.codes if self.soft is None else self.soft

    def placed(self, classes: Array) -> Labels:
        """The same labels in a larger, sorted set of classes; soft labels have their classes already."""
        return self if self.soft is not None else Labels(classes, self.among(classes), any_missing=self.any_missing)

    def take(self, rows: Array) -> Labels:
        """The labels of some rows."""
        if self.soft is not None:
            return Labels(self.classes, self.codes, self.soft[rows])
        codes = self.codes[rows]
        return Labels(self.classes, codes, any_missing=self.any_missing and bool((codes < 0).any()))

    def among(self, classes: Array) -> Codes:
        """The codes in a larger, sorted set of classes."""
        if len(self.classes) == len(classes):
            return self.codes
        place = np.append(np.searchsorted(classes, self.classes), -1).astype(np.int32)
        return place[self.codes]


def read_labels(y: Any, n: int, classes: Array | None = None) -> Labels:
    """Labels of any type: arrays, lists, series; strings, numbers, booleans; one column, or a weight for each class."""
    if type(y).__module__.partition(".")[0] == "pyarrow":
        column = read_arrow(y)
        if len(column.codes) != n:
            raise DecibanError(f"X has {n} rows, y has {len(column.codes)}")
        return column
    y = as_array(y)
    if y.ndim == 2 and y.shape[1] > 1:
        return read_soft(y, n, classes)
    if y.ndim == 2:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got one of dim {y.ndim}, shape {y.shape}.")
    if len(y) != n:
        raise DecibanError(
            f"Found input variables with inconsistent numbers of samples: X has {n} rows, y has {len(y)}"
        )
    if y.dtype.kind in "biu" and n:
        labels_of_integers = read_integers(y)
        if labels_of_integers is not None:
            return labels_of_integers
    if y.dtype.kind in "UO" and n:
        return read_objects(y)
    missing = missing_where(y)
    present = y[~missing] if missing.any() else y
    if present.dtype.kind == "f":
        if np.isinf(present).any():
            raise DecibanError(
                "Input y contains infinity: row {row}", row=(row := int(np.argmax(np.isinf(y)))), value=float(y[row])
            )
        if (value := fraction_among(present)) is not None:
            raise continuous(value, int(np.argmax(y == value)))
    labels, inverse = np.unique(present, return_inverse=True)
    if present.dtype.kind == "f" and len(present) > 20 and len(labels) > round(0.5 * len(present)):
        warn(
            "more than half of the rows are the only row of their class: check that y holds classes, not a quantity",
            UserWarning,
        )
    codes = np.full(n, -1, dtype=np.int32)
    codes[~missing] = inverse.ravel()
    return Labels(labels, codes, any_missing=bool(missing.any()))


def fraction_among(values: Array) -> float | None:
    """The first number that is not an integer, as class labels must be; None if all are."""
    if values.dtype.kind != "f" or not (fractional := values != np.floor(values)).any():
        return None
    return float(values[fractional][0])


def continuous(value: float, row: int) -> DecibanError:
    return DecibanError(
        "Unknown label type: continuous. y holds {value:g}, but a class must be a name or a whole number: divide the "
        "quantity into ranges first",
        row=row,
        value=value,
        command_line="the column of classes holds {value:g} in row {row}, but a class must be a name or a whole "
        "number: divide the numbers into ranges first, or give another column with --target",
    )


def read_arrow(y: Any) -> Labels:
    """An Arrow column, by its codes: no row becomes a Python object.

    Floats that are all integers become integers, as in files; dates become strings.

    >>> import pyarrow as pa
    >>> labels = read_arrow(pa.array([2.0, None, 1.0, 2.0]))
    >>> labels.classes.tolist(), labels.codes.tolist(), labels.any_missing
    ([1, 2], [1, -1, 0, 1], True)
    """
    import pyarrow as pa

    column = y if isinstance(y, pa.ChunkedArray) else pa.chunked_array([y])
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    coded = column.unify_dictionaries().combine_chunks()
    if isinstance(coded, pa.ChunkedArray):  # of no chunk at all
        coded = pa.array([], pa.string()).dictionary_encode()
    values = coded.dictionary.to_pylist()
    missing = [value is None or value != value for value in values]
    indices = integers(coded.indices, -1)
    used = np.zeros(len(values) + 1, dtype=bool)
    used[indices] = True  # −1 is the last
    present = [i for i, is_missing in enumerate(missing) if used[i] and not is_missing]
    labels = [values[i] for i in present]
    if all(isinstance(value, float) for value in labels):
        infinite = next((i for i in present if np.isinf(values[i])), None)
        if infinite is not None:
            row = int(np.argmax(indices == infinite))
            raise DecibanError(
                "Input y contains infinity: row {row}",
                row=row,
                value=values[infinite],
                command_line="the column of classes holds an infinite number in row {row}: leave it empty, or give "
                "another column with --target",
            )
        if (value := fraction_among(np.array(labels, dtype=np.float64))) is not None:
            raise continuous(value, int(np.argmax(indices == values.index(value))))
        if all(abs(value) <= MAX_EXACT_INTEGER for value in labels):  # beyond, neighbouring integers are the same float
            labels = [int(value) for value in labels]
    elif not all(isinstance(value, bool | int | str) for value in labels):
        labels = [str(value) for value in labels]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    code_of = np.full(len(values) + 1, -1, dtype=np.int32)
    for code, i in enumerate(order):
        code_of[present[i]] = code
    codes = code_of[indices]
    ordered = [labels[i] for i in order]
    return Labels(np.array(ordered) if ordered else np.zeros(0), codes, any_missing=bool((codes < 0).any()))


def like_classes(column: Any, classes: Array) -> Any:
    """An Arrow column with labels of the type of a model's classes: 1 becomes "1" if they are strings.

    >>> import numpy as np, pyarrow as pa
    >>> like_classes(pa.chunked_array([[2.0, None, 7.0]]), np.array(["1", "2"])).to_pylist()
    ['2', None, '7']
    """
    labels = read_arrow(column)
    spelled = {str(plain(label)): label for label in classes.tolist()}
    distinct, known = labels.classes.tolist(), set(spelled.values())
    if all(label in known and isinstance(label, str) == (classes.dtype.kind in "UO") for label in distinct):
        return column
    are_strings = classes.dtype.kind in "UO"
    values = [spelled.get(str(plain(label)), str(plain(label)) if are_strings else label) for label in distinct]
    unknown = next((code for code, value in enumerate(values) if isinstance(value, str) and not are_strings), None)
    if unknown is not None:
        raise DecibanError(
            "{value!r} is a label, but the model's classes are {classes}: check the column of labels",
            row=int(np.argmax(labels.codes == unknown)),
            value=values[unknown],
            classes=", ".join(spelled),
        )
    import pyarrow as pa

    codes = pa.array(labels.codes, mask=labels.codes < 0)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, pa.array(values))])


def label_array(column: Any, classes: Array | None = None) -> Array:
    """The labels of an Arrow column without missing ones, as an array; of the type of `classes`, if given."""
    labels = read_arrow(column if classes is None else like_classes(column, classes))
    return np.asarray(labels.classes[labels.codes])


def read_integers(y: Array) -> Labels | None:
    """Labels of integers in a small range, by a lookup table; None if the range is large."""
    numbers = y.view(np.uint8) if y.dtype == bool else y
    if numbers.dtype not in (np.uint8, np.int32, np.int64):
        if int(numbers.max()) > np.iinfo(np.int64).max:
            return None
        numbers = numbers.astype(np.int64)
    numbers = np.ascontiguousarray(numbers)
    codes = np.empty(len(y), dtype=np.int32)
    low, seen = 0, np.zeros(MAX_LABEL_RANGE, dtype=np.uint8)
    used = counts.label_codes(numbers, low, seen, codes)
    if not used:  # most labels start at 0 or 1; these do not
        low, high = counts.label_range(numbers)
        if high - low >= MAX_LABEL_RANGE:
            return None
        seen[:] = 0
        used = counts.label_codes(numbers, low, seen, codes)
    distinct = np.flatnonzero(seen[:used])
    if distinct[-1] != len(distinct) - 1:  # labels with gaps between them, or before the first
        codes = (np.cumsum(seen, dtype=np.int32) - 1).astype(np.int32)[codes]
    return Labels((distinct + low).astype(y.dtype), codes)


def as_array(y: Any) -> Array:
    """y as an array that keeps types.

    NumPy would turn the missing label of ["a", nan] into the string "nan", and integers beside a null into floats.
    """
    if isinstance(y, np.ma.MaskedArray):
        out = np.array(y.data, dtype=object)
        out[np.ma.getmaskarray(y)] = None
        return out
    array = np.asarray(y)
    changed = array.dtype.kind == "f" and str(getattr(y, "dtype", "")).lower().startswith(("int", "uint"))
    if array.dtype.kind == "U" and isinstance(y, list | tuple):
        changed = not all(isinstance(v, str) for v in y)
    if changed:
        array = np.empty(len(y), dtype=object)
        array[:] = list(y)
    return array


def without_mark(y: Any, mark: Any) -> Array:
    """y with None in place of `mark`, which means a missing label.

    >>> without_mark([1, -1, 2], -1).tolist(), without_mark(["a", "?"], "?").tolist()
    ([1, None, 2], ['a', None])
    """
    array = as_array(y)
    if array.ndim != 1:
        raise ValueError("unlabelled= is for one label per row, not for a matrix of weights")
    out = array.astype(object)
    out[np.asarray(array == mark, dtype=bool)] = None
    return out


def read_objects(y: Array) -> Labels:
    """Labels of strings and objects, by a dictionary, which is faster than sorting them all."""
    missing = missing_where(y)
    values = (y[~missing] if missing.any() else y).tolist()
    distinct = set(values)
    try:
        ordered = sorted(distinct)
    except TypeError:
        kinds = sorted({type(v).__name__ for v in distinct})
        other = next(row for row, v in enumerate(y.tolist()) if not missing[row] and type(v) is not type(values[0]))
        raise KindError(
            "labels must all be strings or all be numbers, got {kinds}",
            row=other,
            value=y[other],
            kinds=" and ".join(kinds),
        ) from None
    if y.dtype.kind == "O" and not all(isinstance(v, str) for v in distinct):
        not_a_label = next((v for v in ordered if not isinstance(v, int | float | np.generic)), None)
        if not_a_label is not None:
            raise KindError(
                "labels must be strings or numbers, got {value!r} of type {type}",
                row=y.tolist().index(not_a_label),
                value=not_a_label,
                type=type(not_a_label).__name__,
            )
        if (value := fraction_among(np.array(ordered))) is not None:
            raise continuous(value, y.tolist().index(value))
    code_of = {value: code for code, value in enumerate(ordered)}
    codes = np.full(len(y), -1, dtype=np.int32)
    codes[~missing] = np.fromiter((code_of[v] for v in values), dtype=np.int32, count=len(values))
    if y.dtype.kind == "U":
        return Labels(np.array(ordered, dtype=y.dtype), codes)
    return Labels(np.array(ordered) if ordered else np.zeros(0), codes, any_missing=bool(missing.any()))


def read_soft(y: Array, n: int, classes: Array | None) -> Labels:
    """An (n, k) matrix: row i belongs to class c to the degree y[i, c]."""
    if len(y) != n:
        raise DecibanError(f"Found input variables with inconsistent numbers of samples: X has {n} rows, y {len(y)}")
    soft = np.ascontiguousarray(y, dtype=np.float64)
    if not np.isfinite(soft).all() or (soft < 0).any() or not np.allclose(soft.sum(axis=1), 1.0, atol=1e-6):
        wrong = ~np.isfinite(soft).all(axis=1) | (soft < 0).any(axis=1) | ~np.isclose(soft.sum(axis=1), 1.0, atol=1e-6)
        row = int(np.argmax(wrong))
        raise DecibanError(
            "soft labels must be a matrix of weights ≥ 0 with one column per class, whose rows sum to 1: bad input "
            "shape {shape}",
            row=row,
            value=y[row].tolist(),
            shape=y.shape,
        )
    names = np.arange(soft.shape[1]) if classes is None else classes
    if len(names) != soft.shape[1]:
        raise ValueError(f"soft labels have {soft.shape[1]} columns, but there are {len(names)} classes")
    return Labels(names, np.zeros(0, dtype=np.int32), soft)


def read_weights(weights: Any, n: int) -> Floats:
    """A weight for each row: an array, a list, a series, or one number for all."""
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"sample_weight.shape == {array.shape}, expected {(n,)}!")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise DecibanError(
            "Input sample_weight contains NaN or infinity: row {row}",
            row=row,
            column="sample_weight",
            value=float(array[row]),
        )
    return np.ascontiguousarray(array)
