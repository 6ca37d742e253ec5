"""Thinning of a quick run (`crossed` in conftest.py) drops combinations, but never a value."""

from __future__ import annotations

import pytest


@pytest.mark.crossed(3)
@pytest.mark.parametrize("letter", ["x", "y"])
@pytest.mark.parametrize(("number", "square"), [(n, n * n) for n in range(5)])
def test_a_law_in_every_circumstance(letter, number, square):
    assert letter in "xy"
    assert square == number**2


@pytest.mark.crossed(9)
@pytest.mark.parametrize("number", range(7))
def test_a_law_of_values_that_meet_no_others(number):
    assert number < 7


def test_every_value_is_met_in_a_quick_run(request):
    ran = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    crossed = [item.callspec.params for item in ran if item.originalname == "test_a_law_in_every_circumstance"]
    alone = [item.callspec.params for item in ran if item.originalname == "test_a_law_of_values_that_meet_no_others"]
    if not crossed or not alone:
        pytest.skip("the tests that this one looks at were not selected")
    assert {given["letter"] for given in crossed} == {"x", "y"}
    assert {given["number"] for given in crossed} == set(range(5))
    assert {given["number"] for given in alone} == set(range(7))
    quick = "not slow" in request.config.getoption("markexpr")
    assert len(crossed) == (5 if quick else 10)
