"""Packed arrays are lossless, small, and checked before they are unpacked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deciban.errors import FileError
from deciban.storage import packing

KINDS = st.sampled_from([np.float64, np.int64, np.int32, np.uint64])


def check_round_trip(array):
    packing_result = packing.pack(array)
    if packing_result is None:
        return None
    how, parts = packing_result
    back = packing.unpack(how, parts)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == np.ascontiguousarray(array).tobytes()
    return sum(part.nbytes for part in parts.values()) / array.nbytes


@given(KINDS.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(max_dims=3, max_side=6))), st.integers(1, 200))
def test_whatever_it_is_it_comes_back_bit_for_bit(array, times):
    """NaN with its payload, −0.0, infinities, subnormal numbers and the ends of every type."""
    check_round_trip(np.tile(array, times))


@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 254.0, 255.0, 256.0, 65535.0, 2.0**32, 0.5, -1.0, 2.0**-30]), min_size=1),
    st.integers(128, 300),
)
def test_values_at_the_edge_of_a_code_come_back(values, times):
    check_round_trip(np.array(values * times))
    check_round_trip(np.array(values * times).astype(np.int64))


def test_each_kind_of_sum_is_small():
    rng = np.random.default_rng(0)
    words = rng.poisson(0.1, (20, 5000)).astype(float)
    words[:, :10] = rng.poisson(2000, (20, 10))  # those that every text has
    assert check_round_trip(words) < 1 / 25  # a bit a cell, a byte for one in ten, and a few large ones
    damped = np.round(rng.random(5000) * 2**30) / 2**30
    assert check_round_trip(damped) <= 1 / 2
    assert check_round_trip(np.cumsum(rng.integers(0, 9, 5000))) <= 1 / 8
    assert check_round_trip(rng.integers(-1, 200, 5000).astype(np.int32)) <= 1 / 4
    assert check_round_trip(np.full(5000, 2**64 - 1, dtype=np.uint64)) < 1 / 60  # all equal to the minimum
    assert check_round_trip(rng.normal(size=5000)) is None
    assert check_round_trip(np.zeros(100)) is None  # too few to be worth a description


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda how, _: how.update(shape=[10**9, 10**9]), "bits"),
        (lambda how, _: how.update(shape=[-1, -400]), "no shape"),
        (lambda how, _: how.update(shape=[400.0]), "no shape"),
        (lambda how, _: how.update(places=10**6), "places"),
        (lambda how, _: how.update(places=-3), "places"),
        (lambda _, parts: parts.update(small=parts["small"][1:]), "number of cells"),
        (lambda _, parts: parts.update(rest=parts["rest"][1:]), "number of cells"),
        (lambda _, parts: parts.update(bits=parts["bits"][1:]), "bits"),
        (lambda _, parts: parts.update(bits=~parts["bits"]), "number of cells"),
        (lambda _, parts: parts.update(small=parts["small"].astype(float)), "types"),
        (lambda _, parts: parts.update(rest=parts["rest"].astype(np.float32)), "types"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, message):
    array = np.zeros(400)
    array[::3] = 7.0
    array[5] = 1e6
    how, parts = packing.pack(array)
    change(how, parts)
    with pytest.raises(FileError, match=message):
        packing.unpack(how, parts)
