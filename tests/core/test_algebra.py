"""Edge cases of sums: rounding residue is zero, and the cost of moving a pivot is recorded."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import make

from deciban.algebra import CANCELLATION_RATIO, Stats, add_prior, lost_by, shift, without
from deciban.measure import RESIDUE, column_totals, gross
from deciban.schema import Columns, Schema


@pytest.mark.parametrize(("left", "counts"), [(0.5, 0.0), (1.0, 0.0), (1.25, 1.25), (-0.5, 0.0), (-2.0, -2.0)])
def test_what_rounding_leaves_is_nothing(left, counts):
    """The bound is that of 2^22 weights, each accurate to 2^-52."""
    assert RESIDUE == 2.0**22 / 2.0**52
    assert without(np.array([8.0]), 8.0 - left * 8.0 * RESIDUE)[0] == counts * 8.0 * RESIDUE
    assert without(np.array([-8.0]), -8.0 - left * 8.0 * RESIDUE)[0] == counts * 8.0 * RESIDUE


def test_squares_that_are_taken_away_are_recorded():
    mine = {"one": np.ones((1, 1)), "x": np.ones((1, 1)), "xx": np.full((1, 1), 5.0)}
    theirs = {"one": np.ones((1, 1)), "x": np.ones((1, 1)), "xx": np.full((1, 1), 3.0), "lost": np.full((1, 1), 2.0)}
    assert lost_by(np.add, mine, mine) == {}
    assert lost_by(np.subtract, {"x": np.ones((1, 1))}, {"x": np.ones((1, 1))}) == {}
    assert lost_by(np.subtract, mine, {**mine, "xx": np.full((1, 1), 3.0)})["lost"] == 3.0
    assert lost_by(np.add, mine, theirs)["lost"] == 2.0
    assert lost_by(np.subtract, theirs, theirs)["lost"] == 7.0
    assert gross(mine) == 5.0
    assert gross(theirs) == 5.0


@pytest.mark.parametrize("times", [0.98, 1.02])
def test_a_pivot_that_moves_far_loses_digits(times):
    """n values near v, moved from pivot 0 to v: n·v² squares before, CANCELLATION_RATIO times less after."""
    n, v = 4.0, 1.0
    spread = n * (4.0 * v**2) / CANCELLATION_RATIO / times  # before is Σx² + 2|b·Σx| + n·b² = 4nv²
    sums = {"one": np.array([[n]]), "x": np.array([[n * v]]), "xx": np.array([[n * v**2 + spread]])}
    moved = shift(sums, np.array([[-v]]))
    assert moved["xx"][0, 0] == pytest.approx(spread)
    assert ("lost" in moved) == (times > 1)
    if times > 1:
        assert moved["lost"][0, 0] == pytest.approx(4.0 * n * v**2 + spread)
        again = shift(moved, np.array([[-v]]))
        assert again["lost"][0, 0] == moved["lost"][0, 0], "and stays recorded"
    assert "lost" not in shift(sums, np.zeros((1, 1)))


def test_squares_that_are_exactly_nothing_have_no_rounding():
    sums = {"one": np.ones((2, 1)), "x": np.ones((2, 1)), "xx": np.array([[0.0], [1.0]]), "lost": np.full((2, 1), 3.0)}
    both = add_prior(sums, {"one": np.ones((2, 1)), "xx": np.ones((2, 1))})
    assert both["lost"].tolist() == [[0.0], [3.0]]
    assert both["xx"].tolist() == [[1.0], [2.0]]
    assert both["x"] is sums["x"]


def test_a_column_without_categories_has_no_total():
    columns = Columns(4, categories=((), range(2), (), range(3)))
    np.testing.assert_array_equal(
        column_totals(np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), columns), [[0.0, 3.0, 0.0, 12.0]]
    )
    np.testing.assert_array_equal(column_totals(np.zeros((2, 0)), Columns(1, categories=((),))), [[0.0], [0.0]])


def test_sums_are_the_same_up_to_a_tolerance_of_their_size():
    def stats(weight, x, classes=(0,)):
        schema = Schema(np.array(classes), (Columns(1),))
        return Stats(schema, np.array([weight]), ({"x": np.array([[x]])},))

    big = stats(1.0, 1e6)
    assert big.same_as(stats(1.0, 1e6 * (1 + 0.9e-9)))
    assert not big.same_as(stats(1.0, 1e6 * (1 + 2e-9)))
    assert not big.same_as(stats(1.0 + 3e-9, 1e6))
    assert not big.same_as(stats(1.0, 1e6, (1,)))
    assert big.same_as(stats(1.0, 1e6 * (1 + 5e-4)), tolerance=1e-3)
    red, green = (
        Stats(Schema(np.arange(1), (Columns(1, categories=((name,),)),)), np.ones(1), ({"is": np.ones((1, 1))},))
        for name in ("red", "green")
    )
    assert not red.same_as(green)


def test_where_a_class_has_nothing_its_pivot_is_near_the_others():
    world = make("gaussian", 3, 12, 2, 2, False, False, 1.0)
    here, nowhere = world.collect(world.y == 0, labels=world.y[world.y == 0]), world.joint.zero(world.schema)
    moved = Schema(np.arange(3), (Columns(2, pivot=np.full((3, 2), -1e12)),))
    both = here + Stats(moved, np.zeros(3), ({m: np.zeros((3, a.shape[1])) for m, a in nowhere.sums[0].items()},))
    np.testing.assert_array_equal(both.schema.blocks[0].pivot, np.stack([world.schema.blocks[0].pivot[0]] * 3))
