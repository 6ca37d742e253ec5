"""Charts: positions and labels."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban.report import svg
from deciban.report.markup import count, cut, data, decibans, number, percent, table, tag, text


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_ticks_are_few_round_and_inside(low, width):
    high = low + width
    values = svg.tick_values(low, high)
    assert 0 < len(values) <= 6 or not high > low or width < 1e-9 * abs(low)
    slack = 1e-6 * width + 1e-11 * max(abs(low), abs(high))  # a tick is written to twelve digits
    assert all(low - slack <= tick <= high + slack for tick in values)


def test_a_plane_puts_points_where_they_belong():
    plane = svg.Plane((10.0, 1000.0), (0.0, 1.0), "x", "y", log_x=True)
    x, y = plane.at([10.0, 100.0, 1000.0], [0.0, 0.5, 1.0])
    assert x[0] == svg.LEFT_MARGIN
    assert x[2] == svg.CHART_WIDTH - svg.RIGHT_MARGIN
    assert x[1] == pytest.approx((x[0] + x[2]) / 2), "even ratios are even steps"
    assert y.tolist() == sorted(y, reverse=True), "up is more"
    flat = svg.Plane((2.0, 2.0), (0.0, 0.0), "x", "y")
    assert np.isfinite(flat.at(2.0, 0.0)).all(), "nothing between the ends"


def test_a_line_is_broken_where_a_number_is_not_finite():
    assert (
        svg.path_through(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, np.inf, 2.0, 3.0]))
        == "M0.0 0.0M2.0 2.0L3.0 3.0"
    )


def test_a_curve_is_thinned_and_keeps_its_ends():
    x = np.linspace(0, 1, 100_000)
    a, b = svg.thinned(x, x**2)
    assert len(a) < 900
    assert (a[0], a[-1], b[-1]) == (0.0, 1.0, 1.0)
    assert np.abs(np.interp(x, a, b) - x**2).max() < 3 / svg.MAX_POINTS_PER_SIDE, "off by less than can be seen"
    assert [len(part) for part in svg.thinned(x[:0], x[:0])] == [0, 0]


def test_regions_cover_the_plane_once():
    plane = svg.Plane((0.0, 6.0), (0.0, 4.0), "x", "y")
    rng = np.random.default_rng(0)
    classes, sure = rng.integers(0, 3, (4, 6)), rng.uniform(0.4, 1.0, (4, 6))
    area = 0.0
    for drawn in svg.regions(plane, classes, sure, 3):
        for left, bottom, right, top in re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)", drawn):
            area += (float(right) - float(left)) * (float(bottom) - float(top))
    whole = (svg.CHART_WIDTH - svg.LEFT_MARGIN - svg.RIGHT_MARGIN) * (
        svg.CHART_HEIGHT - svg.TOP_MARGIN - svg.BOTTOM_MARGIN
    )
    assert area == pytest.approx(whole, rel=5e-3), "coordinates have one decimal"


def test_a_bar_has_its_length():
    assert 'width="25.00"' in svg.bar(0.25)
    assert 'width="100.00"' in svg.bar(7.0)
    assert 'x="25.00"' in svg.signed_bar(-0.5)
    assert "against" in svg.signed_bar(-0.5)
    assert 'x="50.00"' in svg.signed_bar(0.5)


# ------------------------------ markup


@given(st.text())
def test_text_never_becomes_markup(content):
    for written in (text(content), data(content), tag("p", content), tag("p", title=content)):
        inside = re.sub(r"</?(bdi|p|i)( title=\"[^\"<>]*\")?>", "", written)
        assert not set(inside) & set("<>\"'"), written
    cell = table(("a", "b"), [(content, content)], content)
    assert cell.count("<td") == 1
    cell.encode("utf-8")


@given(st.text(), st.integers(4, 50))
def test_what_is_cut_is_as_long_as_it_may_be(content, max_characters):
    assert len(cut(content, max_characters)) == min(len(content), max_characters)


@given(st.floats(0, 1))
def test_only_all_is_all(share):
    text = percent(share)
    assert (text == "100\N{NO-BREAK SPACE}%") == (share == 1.0)
    assert (text == "0\N{NO-BREAK SPACE}%") == (share == 0.0)
    assert not re.search(r"\b100\.0\s%|^0\.0\s%", text)


def test_numbers_are_written_as_people_do():
    assert number(float("nan")) == "–"
    assert number(-0.5) == "−0.5"
    assert decibans(float("inf")) == "+∞"
    assert count(1234.5) == "1,234.5"
