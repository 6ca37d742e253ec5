"""Square roots of inverse covariances, and what is done where a covariance has none.

A class can lack spread in some direction: fewer rows than columns, a column that repeats others, a constant one. Three
things then happen, in this order, and `Repairs` says which:

- a direction in which no class varies and no two classes differ says nothing: it is left out for all of them;
- a direction in which no class varies but classes differ tells them apart for certain: it gets a spread so small
  beside their distance that nothing else counts there;
- a class without spread where others have some takes in one row's worth of the covariance common to all classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deciban._typing import Floats

# A share of a column's spread that rounding alone can leave: scatters are accurate to about 2^-50 of themselves.
TINY = 2.0**-44
# What rounding can leave of the distance between class means, squared, beside their distances in other directions and
# the spread of a column.
APART = 2.0**-36
# Means closer than this share of themselves are the same: doubles are spaced by 2^-52.
SPACED = 2.0**-48


@dataclass(frozen=True, slots=True)
class Repairs:
    """What had to be done: constant columns, directions left out or told apart for certain, classes helped."""

    constant: tuple[int, ...] = ()
    lost: int = 0
    certain: int = 0
    helped: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lost or self.certain or self.helped)


NONE = Repairs()


@dataclass(frozen=True, slots=True, eq=False)
class Roots:
    """RᵀR = Σ⁻¹ with R upper triangular, (m, d, d); log|Σ| (m,) and rank, on the directions kept."""

    covariance: Floats  # (m, d, d), as repaired
    root: Floats
    log_det: Floats
    rank: int
    repairs: Repairs = NONE
    kept: Floats | None = None  # (rank, d): from columns to the directions kept, where some are left out
    volume: float = 0.0  # the part of log|Σ| that is the unit of these directions


def roots(covariance: Floats, weight: Floats, pooled: Floats, mean: Floats, slack: Floats | float = 1.0) -> Roots:
    """Roots of (m, d, d) covariances: m is the number of classes, or 1 where they share one.

    `weight` (m,) is how many rows each was learned from, `pooled` (d, d) what all classes have in common, `mean` (k, d)
    the class means. `slack` (m,) is how many times larger the sums were that they are a difference of: so much larger
    is what rounding left in them.
    """
    d = covariance.shape[1]
    slack = np.broadcast_to(np.asarray(slack, dtype=np.float64), len(covariance))
    found = upper_roots(covariance, slack)
    if found is not None:
        return Roots(covariance, *found, d)
    unit = np.sqrt(np.maximum(np.diagonal(pooled), 0.0))
    gap = mean - mean.mean(axis=0)
    gap = np.where(np.abs(gap) <= SPACED * np.abs(mean).max(axis=0, initial=0.0), 0.0, gap)
    unit = np.where(unit > 0, unit, np.abs(gap).max(axis=0, initial=0.0))
    live = np.flatnonzero(unit > 0)
    constant = tuple(int(j) for j in np.flatnonzero(unit == 0))
    scale = unit[live]
    basis, common, floor, certain = kept_directions(
        pooled[np.ix_(live, live)] / np.outer(scale, scale), gap[:, live] / scale, float(slack.max(initial=1.0))
    )
    inner = basis.T @ (covariance[:, live[:, None], live] / np.outer(scale, scale)) @ basis
    inner[:, floor > 0] = inner[:, :, floor > 0] = 0.0  # no class varies there, whatever rounding says
    inner += np.diag(floor)
    helped = []
    for c in range(len(inner)):
        spread = np.linalg.eigvalsh(inner[c][np.ix_(floor == 0, floor == 0)])
        if spread.size and spread[0] <= d * TINY * slack[c] * spread[-1]:
            inner[c] = (weight[c] * inner[c] + common) / (weight[c] + 1.0)
            if len(inner) > 1:  # one covariance for all is what is common to them already
                helped.append(c)
    small, log_det = sure_roots(inner)
    rank = basis.shape[1]
    back = basis.T / scale  # from columns to the directions kept
    root = np.zeros_like(covariance)
    for c in range(len(inner)):
        if rank:
            wide_root = np.zeros((d, d))
            wide_root[:rank, live] = small[c] @ back
            root[c] = np.linalg.qr(wide_root, mode="r")
    wide = (basis.T * scale).T  # from directions to columns
    repaired = np.zeros_like(covariance)
    repaired[:, live[:, None], live] = wide @ inner @ wide.T
    # The largest rows first, so that columns of very different units cost no digits.
    sides = np.abs(np.diagonal(np.linalg.qr(wide[np.argsort(-scale)], mode="r")))
    volume = 2.0 * float(np.log(np.maximum(sides, np.finfo(float).tiny)).sum())
    kept = np.zeros((rank, d))
    kept[:, live] = back
    repairs = Repairs(constant, d - rank, certain, tuple(helped))
    return Roots(repaired, root, log_det + volume, rank, repairs, kept, volume)


def upper_roots(covariance: Floats, slack: Floats | float = 1.0) -> tuple[Floats, Floats] | None:
    """Upper triangular roots of the inverses and log-determinants, or None where a matrix is singular."""
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    if not ((variance > 0) & np.isfinite(variance)).all():
        return None
    scale = np.sqrt(variance)
    correlation = covariance / (scale[:, :, None] * scale[:, None, :])
    try:
        # From the last column to the first, the factor of Σ is upper triangular, and so is its inverse.
        factor = np.linalg.cholesky(correlation[:, ::-1, ::-1])[:, ::-1, ::-1]
    except np.linalg.LinAlgError:
        return None
    pivots = np.diagonal(factor, axis1=1, axis2=2)
    inverse = np.linalg.inv(factor)
    # 1/tr(Σ⁻¹) is below the least eigenvalue; the pivots alone can miss a matrix that is singular but for rounding.
    if not (1.0 > TINY * slack * (inverse**2).sum(axis=(1, 2))).all():
        return None
    return np.ascontiguousarray(np.triu(inverse / scale[:, None, :])), 2.0 * (np.log(pivots) + np.log(scale)).sum(
        axis=1
    )


def sure_roots(matrices: Floats) -> tuple[Floats, Floats]:
    """Roots of matrices that are positive definite but for rounding: eigenvalues are kept above it."""
    found = upper_roots(matrices)
    if found is not None:
        return found
    root, log_det = np.zeros_like(matrices), np.zeros(len(matrices))
    for c, matrix in enumerate(matrices):
        spread, direction = np.linalg.eigh(matrix)
        spread = np.maximum(spread, np.finfo(float).eps * max(float(spread[-1]), np.finfo(float).tiny))
        root[c] = (direction / np.sqrt(spread)).T
        log_det[c] = np.log(spread).sum()
    return root, log_det


def kept_directions(within: Floats, means: Floats, slack: float) -> tuple[Floats, Floats, Floats, int]:
    """Directions that say something (d, r), the pooled covariance along them, the spread (r,) of those that tell
    classes apart for certain, and how many these are. Columns come scaled to about unit spread."""
    d = len(within)
    spread, direction = np.linalg.eigh(within) if d else (np.zeros(0), np.zeros((0, 0)))
    null = spread <= d * TINY * slack
    basis, floor = direction[:, ~null], np.zeros(int((~null).sum()))
    certain = 0
    if null.any():
        empty = direction[:, null]
        across = means @ empty
        gap, turn = np.linalg.eigh(across.T @ across)
        apart = gap > APART * max(float((means**2).sum()), float(d))
        certain = int(apart.sum())
        basis = np.hstack([basis, empty @ turn[:, apart]])
        floor = np.concatenate([floor, 4.0 * d * TINY * gap[apart]])
    common = np.diag(np.concatenate([spread[~null], floor[len(floor) - certain :]]))
    return basis, common, floor, certain
