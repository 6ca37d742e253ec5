"""Intervals: of about equal weight, heavy values alone, every number between the right cuts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban.reading.bins import bins_at, quantile_bins
from deciban.schema import Bins

numbers = st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=60).map(np.array)


@given(numbers, st.integers(1, 12))
def test_cuts_lie_between_values_and_rise(values, most):
    bins = quantile_bins(values, np.ones(len(values)), most)
    assert (np.diff(bins.cuts) > 0).all()
    codes = bins.codes(values)
    assert set(codes) == set(range(len(bins)))  # none is empty
    assert codes.tolist() == [sum(cut < v for cut in bins.cuts) for v in values]
    assert bins.codes(np.array(bins.middles)).tolist() == list(range(len(bins)))  # what stands for one lies in it


@given(numbers, st.integers(1, 12), st.integers(0, 1000))
def test_a_row_of_weight_two_is_two_rows_and_of_weight_zero_is_none(values, most, seed):
    times = np.random.default_rng(seed).integers(0, 4, len(values))
    repeated = np.repeat(values, times)
    if len(repeated):
        some = times > 0
        one = quantile_bins(values[some], times[some].astype(float), most)
        two = quantile_bins(repeated, np.ones(len(repeated)), most)
        assert one == two
        assert one.middles == two.middles


def test_intervals_weigh_about_the_same():
    values = np.random.default_rng(0).normal(size=1000)
    for most in (2, 5, 12):
        counts = np.bincount(quantile_bins(values, np.ones(1000), most).codes(values))
        assert len(counts) == most
        assert counts.max() - counts.min() <= 2  # a boundary may fall on either side of a value


def test_a_heavy_value_has_its_own_interval():
    values = np.concatenate([np.zeros(500), np.random.default_rng(0).normal(size=500) + 3.0, np.full(300, 9.0)])
    bins = quantile_bins(values, np.ones(len(values)), 6)
    codes = bins.codes(values)
    for atom in (0.0, 9.0):
        assert set(values[codes == bins.codes(np.array([atom]))[0]]) == {atom}


def test_few_values_have_one_each():
    bins = quantile_bins(np.array([0.5, 1.0, 0.5, 7.0]), np.ones(4), 5)
    assert bins.cuts == (0.75, 4.0)
    assert bins.middles == (0.5, 1.0, 7.0)
    one = quantile_bins(np.array([3.0, 3.0]), np.ones(2), 5)
    assert (one.cuts, one.middles, list(one)) == ((), (3.0,), ["any"])


def test_cuts_that_are_given_stand_even_where_nothing_lies():
    bins = bins_at(np.array([0.0, 1.0, 2.0]), np.array([-5.0, 1.5, 1.7, 1.9]), np.array([1.0, 1.0, 1.0, 5.0]))
    assert bins.middles == (-5.0, 1.0, 1.9, 2.0)
    assert list(bins) == ["≤ 0", "0 to 1", "1 to 2", "> 2"]


def test_values_that_differ_in_the_last_digit_are_separated():
    low = 1.0
    high = np.nextafter(low, 2.0)
    assert quantile_bins(np.array([low, high]), np.ones(2), 4).codes(np.array([low, high])).tolist() == [0, 1]


def test_bins_are_a_sequence():
    bins = Bins((1.0, 2.0), (0.0, 1.5, 3.0))
    assert (bins[0], bins[-1], bins[1:]) == ("≤ 1", "> 2", ["1 to 2", "> 2"])
    with pytest.raises(IndexError, match="no bin 3 among 3"):
        bins[3]
