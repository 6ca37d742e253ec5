"""Arrays of a part of a file: each has the type and shape requested, or the file is damaged."""

from __future__ import annotations

import numpy as np
import pytest

from deciban.errors import FileError
from deciban.storage.arrays import CheckedArrays, positive

ARRAYS = CheckedArrays(
    {
        "a.counts": np.array([[1.0, 0.0]]),
        "a.below": np.array([[1.0, -1.0]]),
        "a.gone": np.array([np.nan]),
        "a.codes": np.array([1, 2], dtype=np.int32),
        "b.codes": np.array([3], dtype=np.int32),
    },
    "a.",
)


def test_what_fits_is_given():
    assert ARRAYS.counts("counts", 1, 2).tolist() == [[1.0, 0.0]]
    assert ARRAYS.floats("below", (1, 2)).tolist() == [[1.0, -1.0]]
    assert ARRAYS.whole("codes", np.int32, None).tolist() == [1, 2]
    assert set(ARRAYS.all()) == {"counts", "below", "gone", "codes"}
    assert positive(2) == 2.0


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda: ARRAYS.counts("below", 1, 2), "a.below has a negative count"),
        (lambda: ARRAYS.counts("counts", 2, 1), r"a.counts is float64\(1, 2\), expected float64 of \(2, 1\)"),
        (lambda: ARRAYS.row("gone"), "a.gone holds a value that is not a number"),
        (lambda: ARRAYS.whole("codes", np.int64, 2), "a.codes is int32"),
        (lambda: ARRAYS.whole("codes", np.int32, 3), r"a.codes has shape \(2,\), expected \(3,\)"),
        (lambda: positive(0), "a setting is 0: it should be a number above 0"),
        (lambda: positive(2.0, 1.0), "a setting is 2.0"),
    ],
)
def test_what_does_not_fit_is_damage(ask, why):
    with pytest.raises(FileError, match=why):
        ask()
