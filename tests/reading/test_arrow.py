"""Arrow's columns as arrays and back, the same as pyarrow converts them, and without importing pandas."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from deciban.reading.arrow import column_of, floats, integers, strings

TYPES = [pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.uint8(), pa.int8()]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("missing", [False, True])
def test_numbers_are_what_pyarrow_makes_of_them(kind, missing):
    values = [1, 2, None, 4, 5, None, 7, 8, 9, None, 11] if missing else list(range(11))
    for column in (pa.array(values, kind), pa.chunked_array([values[:4], [], values[4:]], kind)):
        for part in (column, column.slice(1), column.slice(3, 5), column.slice(2, 0)):
            expected = [np.nan if value is None else float(value) for value in part.to_pylist()]
            np.testing.assert_array_equal(floats(part), np.array(expected, dtype=np.float64))
            if pa.types.is_integer(kind):
                assert integers(part, missing=-1).tolist() == [-1 if v is None else v for v in part.to_pylist()]


def test_booleans_are_zero_and_one():
    column = pa.chunked_array([[True, None], [False, True]])
    np.testing.assert_array_equal(floats(column), [1.0, np.nan, 0.0, 1.0])
    np.testing.assert_array_equal(floats(column.slice(1, 2)), [np.nan, 0.0])


def test_arrays_may_be_changed():
    column = pa.array([1.0, 2.0])
    values = floats(column)
    values[0] = 5.0
    assert column.to_pylist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.5, np.nan, -np.inf]),
        np.array([1.5, 2.5], dtype=np.float32),
        np.array([3, -4]),
        np.array([3, 4], dtype=np.uint8),
        np.arange(20)[::2],
        np.array([True, False, True] * 7),
        np.array(["ham", "späm", ""]),
        np.array(["ham", "späm"], dtype=object),
        np.array([], dtype="U4"),
        np.array([], dtype=float),
        np.array([1, "a", None], dtype=object)[:1],
        [1, 2],
        [True, False],
        ["a", "b"],
        [],
    ],
    ids=repr,
)
def test_columns_hold_the_values(values):
    column = column_of(values)
    expected = values.tolist() if isinstance(values, np.ndarray) else values
    np.testing.assert_array_equal(column.to_pylist(), expected)
    assert [type(one) for one in column.to_pylist()] == [type(one) for one in expected]
    column.validate(full=True)


def test_strings_of_both_sizes():
    for kind in (pa.string(), pa.large_string()):
        column = strings(["", "a", "Grüße"], kind)
        column.validate(full=True)
        assert (column.type, column.to_pylist()) == (kind, ["", "a", "Grüße"])


def test_pandas_is_not_imported():
    code = """
import sys
import numpy as np, pyarrow as pa, pyarrow.csv
from deciban.reading.arrow import column_of, floats, integers
table = pa.csv.read_csv(pa.BufferReader(b"a,b\\n1,2.5\\n,\\n"))
print(floats(table["b"]), integers(table["a"]), column_of(np.array(["x"])), column_of([1.5]))
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
