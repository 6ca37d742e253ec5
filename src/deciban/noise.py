"""Noise for differential privacy, drawn by OpenDP: the only module that imports it.

Sums are whole numbers here, and so is the noise: the discrete Laplace and the discrete Gaussian distribution are exact
on integers, so that the rounding of floats reveals nothing. OpenDP draws from the operating system's secure generator,
which has no seed. It also states the privacy loss of each release (`map`), which is never above the budget.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from deciban._typing import Array

MIN_EPSILON = 1e-6  # with less, noise could exceed 64 bits
BISECTIONS = 40  # of the interval that ρ is in


def opendp() -> Any:
    """OpenDP, with its constructors enabled; an error that explains how to install it."""
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError as error:
        raise ImportError(
            "private needs opendp, which is not installed: pip install 'deciban[private]', or only opendp"
        ) from error
    dp.enable_features("contrib")
    return dp


def laplace(totals: Array, sensitivity: int, epsilon: float) -> tuple[Array, float]:
    """Integers with noise, and the scale b of it, P(z) ∝ exp(−|z|/b): ε-private if a row changes them by at most
    `sensitivity` in all (L1)."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    scale = sensitivity / epsilon
    while dp.m.make_laplace(*space, scale=scale).map(sensitivity) > epsilon:
        scale = math.nextafter(scale * (1.0 + 2.0**-50), math.inf)
    return drawn(dp.m.make_laplace(*space, scale=scale), totals), scale


def gaussian(totals: Array, sensitivity: float, rho: float) -> tuple[Array, float]:
    """Integers with noise, and the scale σ of it, P(z) ∝ exp(−z²/2σ²): ρ-zero-concentrated private if a row changes
    them by at most `sensitivity` in Euclidean length (L2)."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    scale = sensitivity / math.sqrt(2.0 * rho)
    while dp.m.make_gaussian(*space, scale=scale).map(sensitivity) > rho:
        scale = math.nextafter(scale * (1.0 + 2.0**-50), math.inf)
    return drawn(dp.m.make_gaussian(*space, scale=scale), totals), scale


def drawn(measurement: Any, totals: Array) -> Array:
    """The totals with noise, in their shape."""
    if totals.size == 0:
        return totals.astype(np.float64)
    return np.array(measurement(totals.ravel().tolist()), dtype=np.float64).reshape(totals.shape)


@lru_cache(64)
def rho_of(epsilon: float, delta: float) -> float:
    """The largest ρ whose zero-concentrated privacy OpenDP converts to (ε, δ)."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")

    def epsilon_of(rho: float) -> float:
        measurement = dp.m.make_gaussian(*space, scale=1.0 / math.sqrt(2.0 * rho))
        return float(dp.c.make_zCDP_to_approxDP(measurement).map(1.0).epsilon(delta))

    low, high = 0.0, epsilon  # δ > 0, yet ρ ≥ ε would be too much for any useful δ
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if epsilon_of(middle) <= epsilon else (low, middle)
    return low
