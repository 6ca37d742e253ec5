"""Missing entries: None, NaN, NA and masks all become NaN, which is left out of every sum."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from deciban._typing import Array


def is_missing(value: Any) -> bool:
    """None, NaN, pandas' NA and NaT.

    >>> [is_missing(v) for v in (None, float("nan"), 0, "", "nan")]
    [True, True, False, False, False]
    """
    if value is None:
        return True
    if isinstance(value, str | bytes):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas' NA has no truth value
        return True


def missing_where(values: Array) -> Array:
    """Which entries of an array of any type are missing."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    flat = np.fromiter((is_missing(v) for v in values.ravel()), dtype=bool, count=values.size)
    return flat.reshape(values.shape)


def unmask(X: Any) -> Any:
    """A masked array as floats with NaN under the mask, and Arrow's dictionary columns as plain values.

    NumPy would see the values under the mask, and a missing code of Arrow's as the last category. Anything else is
    returned as it is.
    """
    if type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "schema"):
        return decoded(X)
    if "numpy.ma" in sys.modules and isinstance(X, np.ma.MaskedArray):  # looking it up in NumPy would import it
        kind = object if X.dtype.kind == "O" else X.dtype if X.dtype.kind == "f" else np.float64
        out = np.array(X.data, dtype=kind)
        out[np.ma.getmaskarray(X)] = None if kind is object else np.nan
        return out
    return X


def decoded(table: Any) -> Any:
    """An Arrow table with dictionary columns replaced by plain ones."""
    import pyarrow as pa

    if not any(pa.types.is_dictionary(kind) for kind in table.schema.types):
        return table
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return type(table).from_arrays(columns, names=table.schema.names)
