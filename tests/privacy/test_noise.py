"""The noise that OpenDP draws has the stated scale, and the budget is never exceeded."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from deciban import noise

DRAWS = 3000


def test_laplace_noise_has_its_scale():
    drawn, scale = noise.laplace(np.full((DRAWS, 1), 7), 3, 0.5)
    assert scale == pytest.approx(6.0)
    assert drawn.shape == (DRAWS, 1)
    # E|z| of a discrete Laplace, P(z) ∝ q^|z| with q = exp(−1/b), is 2q/(1 − q²); five standard errors on either side
    q, z = math.exp(-1.0 / scale), drawn - 7
    assert abs(np.abs(z).mean() - 2 * q / (1 - q * q)) < 5 * scale / math.sqrt(DRAWS)
    assert abs(z.mean()) < 5 * math.sqrt(2) * scale / math.sqrt(DRAWS)
    assert (z == np.rint(z)).all()


def test_gaussian_noise_has_its_scale():
    drawn, scale = noise.gaussian(np.zeros((DRAWS, 1), dtype=np.int64), 4.0, 0.02)
    assert scale == pytest.approx(20.0)
    assert abs((drawn**2).mean() / scale**2 - 1.0) < 5 * math.sqrt(2 / DRAWS)
    assert abs(drawn.mean()) < 5 * scale / math.sqrt(DRAWS)


def test_noise_has_no_seed():
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global generator, which must not be used
    first, second = (noise.laplace(np.zeros((20, 1), dtype=np.int64), 1, 0.01)[0] for _ in range(2))
    assert (first != second).any()
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002 - likewise


def test_rho_keeps_to_epsilon_and_delta():
    """No less than the textbook's ε = ρ + 2√(ρ log 1/δ) allows; and the exact δ of Gaussian noise (Balle and Wang 2018)
    is no more than asked for."""
    for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-5), (10.0, 1e-5)):
        rho, log = noise.rho_of(epsilon, delta), math.log(1 / delta)
        assert rho >= (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
        sigma = 1 / math.sqrt(2 * rho)
        exact = ndtr(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * ndtr(-0.5 / sigma - epsilon * sigma)
        assert delta / 50 < exact <= delta


def test_a_count_of_neighbours_is_as_probable_within_e_to_the_epsilon():
    """Both sides of a membership test: P(release | n rows) against P(release | n + 1 rows), for every value."""
    epsilon, n = 1.0, 15_000
    without, _ = noise.laplace(np.full(n, 10), 1, epsilon)
    with_one, _ = noise.laplace(np.full(n, 11), 1, epsilon)
    ratios = []
    for value in range(8, 14):
        a, b = (without == value).sum(), (with_one == value).sum()
        error = 5 * math.sqrt(1 / a + 1 / b)  # of the log of their ratio
        ratios.append(math.log(b / a))
        assert abs(ratios[-1]) <= epsilon + error
    assert max(ratios) > epsilon / 2  # the test could fail: neighbours do differ, by nearly ε
