"""Priors as pseudo-statistics. Their strength is given, or learned from the statistics.

`alpha` is pseudo-counts added to counts: (n + α)/Σ(n + α) is the mode under the notes' prior Π θ^α, a
Dirichlet(α + 1), and the mean under Dirichlet(α) (S6). α = 1 is Laplace's rule, α = ½ Jeffreys', α = 0 plain
maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from deciban._typing import Array, Sums
from deciban.families import Family
from deciban.schema import Columns

Alpha: TypeAlias = "float | Array | str"

# The range in which strengths are searched: from almost no prior to one that outweighs the data.
MIN_ALPHA, MAX_ALPHA = 1e-6, 1e6


def empirical(family: Family, sums: Sums, columns: Columns) -> float:
    """The strength that makes the statistics most likely: argmax over α of the log marginal likelihood.

    >>> import numpy as np
    >>> from deciban.families import Multinomial
    >>> from deciban.schema import Columns
    >>> alike = {"x": np.array([[52.0, 48.0], [49.0, 51.0]])}
    >>> apart = {"x": np.array([[97.0, 3.0], [2.0, 98.0]])}
    >>> empirical(Multinomial(), alike, Columns(2)) > 100 > 1 > empirical(Multinomial(), apart, Columns(2))
    True
    """

    def log_marginal(alpha: float) -> float:
        return float(family.log_marginal(sums, family.pseudo(alpha, columns, sums), columns).sum())

    return search(lambda alpha: -log_marginal(alpha))


def search(loss: Callable[[float], float], points: int = 13, tolerance: float = 1e-6) -> float:
    """The α in [MIN_ALPHA, MAX_ALPHA] with the least loss: a coarse grid in log α, then Brent around its best point."""
    ladder = np.geomspace(MIN_ALPHA, MAX_ALPHA, points)
    losses = np.array([loss(float(a)) for a in ladder])
    losses[np.isnan(losses)] = np.inf
    least = losses.min()
    if not np.isfinite(least):
        return 1.0  # all strengths are equally bad
    # Of equally good strengths, the one closest to one pseudo-row.
    equal = np.flatnonzero(losses <= least + 1e-12 * (1.0 + abs(least)))
    best = int(equal[np.argmin(np.abs(np.log(ladder[equal])))])
    if len(equal) == points:
        return float(ladder[best])
    low, high = ladder[max(0, best - 1)], ladder[min(points - 1, best + 1)]
    from scipy.optimize import minimize_scalar

    result = minimize_scalar(
        lambda log_alpha: loss(float(np.exp(log_alpha))),
        bounds=(float(np.log(low)), float(np.log(high))),
        method="bounded",
        options={"xatol": tolerance},
    )
    return float(np.exp(result.x)) if result.fun <= losses[best] else float(ladder[best])
