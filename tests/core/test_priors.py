"""The strength of a prior: the least loss on a grid and between its points, and flat or undefined losses."""

from __future__ import annotations

import numpy as np
import pytest

from deciban.priors import MAX_ALPHA, MIN_ALPHA, search


@pytest.mark.parametrize("best", [3e-6, 0.7, 1.0, 42.0, 3e5])
def test_the_least_loss_may_lie_between_the_steps(best):
    asked = []

    def loss(alpha):
        asked.append(alpha)
        return (np.log(alpha) - np.log(best)) ** 2

    assert search(loss) == pytest.approx(best, rel=1e-5)
    ladder = np.geomspace(MIN_ALPHA, MAX_ALPHA, 13)
    np.testing.assert_allclose(asked[:13], ladder)
    near = ladder[np.abs(np.log(ladder / best)).argmin()]
    assert all(near / 10.01 <= alpha <= near * 10.01 for alpha in asked[13:]), "between its neighbours"


@pytest.mark.parametrize(("slope", "end"), [(1.0, 1e-6), (-1.0, 1e6)])
def test_the_ends_are_ends(slope, end):
    assert search(lambda alpha: slope * np.log(alpha)) == pytest.approx(end, rel=1e-5)


def test_what_makes_no_difference_is_one():
    assert search(lambda alpha: 5.0 + 0.0 * alpha) == 1.0
    assert search(lambda alpha: np.inf + alpha) == 1.0
    assert search(lambda alpha: np.nan * alpha) == 1.0
    below = search(lambda alpha: 5.0 if alpha < 1e-3 else 7.0)
    assert 1e-4 <= below < 1e-3, "of those that are as good, what is nearest to one"


def test_losses_that_are_no_numbers_are_passed_over():
    assert search(lambda alpha: np.nan if alpha < 1.0 else np.log(alpha)) == pytest.approx(1.0, rel=1e-5)


def test_a_difference_of_rounding_is_none():
    assert search(lambda alpha: -1e6 - 1e-8 * (alpha > 1e3)) == 1.0
    assert search(lambda alpha: -1e6 - 1e-4 * (alpha > 1e3)) > 1e3


def test_no_worse_than_the_ladder():
    """Where the loss jumps, values between the grid points may be worse than these."""
    ladder = np.geomspace(MIN_ALPHA, MAX_ALPHA, 13)

    def loss(alpha):
        return -1.0 if np.isclose(alpha, ladder[8], rtol=1e-9) else 0.0

    assert search(loss) == pytest.approx(ladder[8], rel=1e-9)
