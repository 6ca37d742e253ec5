"""Columns of Arrow as NumPy's arrays, and back, without pandas.

pyarrow's own conversions (`to_numpy`, `pa.array`, `pa.scalar`) import pandas if it is installed, which takes longer
than most commands of the command line.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from deciban._typing import Array, Floats

if TYPE_CHECKING:
    import pyarrow as pa


def floats(column: pa.Array | pa.ChunkedArray) -> Floats:
    """A column of numbers or booleans as floats, NaN where missing.

    >>> import pyarrow as pa
    >>> floats(pa.chunked_array([[1, None], [3]]))
    array([ 1., nan,  3.])
    """
    return _values(column, np.float64, np.nan)


def integers(column: pa.Array | pa.ChunkedArray, missing: int = 0) -> Array:
    """A column of integers as 64-bit integers."""
    return _values(column, np.int64, missing)


def _values(column: pa.Array | pa.ChunkedArray, dtype: type, missing: float) -> Array:
    import pyarrow as pa

    kind = pa.from_numpy_dtype(dtype)
    out: list[Array] = [np.empty(0, dtype=dtype)]
    for chunk in getattr(column, "chunks", [column]):
        if not len(chunk):
            continue
        # Integers beyond 2⁵³ lose digits as floats, which does not matter for numbers.
        stored = chunk if chunk.type == kind else chunk.cast(kind, safe=False)
        validity, data = stored.buffers()
        values: Array = np.frombuffer(data, dtype, len(stored), stored.offset * dtype().itemsize)
        if stored.null_count:
            bits = np.frombuffer(validity, np.uint8)
            present = np.unpackbits(bits, count=stored.offset + len(stored), bitorder="little")[stored.offset :]
            values = np.where(present, values, dtype(missing))
        out.append(values)
    return np.concatenate(out)


def strings(texts: Sequence[str], kind: pa.DataType) -> pa.Array:
    """Strings as a column (string or large_string)."""
    import pyarrow as pa

    raw = [text.encode() for text in texts]
    offsets = array("q" if pa.types.is_large_string(kind) else "i", accumulate(map(len, raw), initial=0))
    return pa.Array.from_buffers(kind, len(raw), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(raw))])


def column_of(values: Array | Sequence[Any]) -> pa.Array:
    """Floats, integers, booleans or strings as a column; values of other types are left to pyarrow.

    >>> column_of(np.array(["ham", "spam"])).to_pylist(), column_of([True, False]).to_pylist()
    (['ham', 'spam'], [True, False])
    """
    import pyarrow as pa

    if not isinstance(values, np.ndarray):
        types = set(map(type, values))
        values = np.array(values, dtype=types.pop() if len(types) == 1 and types <= {int, float, bool} else object)
    kind = values.dtype.kind
    if kind in "fiu" and values.dtype.itemsize <= 8 and values.dtype != np.uint64:
        dtype: type = np.float64 if kind == "f" else np.int64
        data: Array = np.ascontiguousarray(values, dtype=dtype)
        return pa.Array.from_buffers(pa.from_numpy_dtype(dtype), len(data), [None, pa.py_buffer(data)])
    if kind == "b":
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    texts = values.tolist()
    if set(map(type, texts)) <= {str} and (texts or kind == "U"):
        return strings(texts, pa.string())
    return pa.array(texts)
