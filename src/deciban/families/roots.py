"""Square roots of inverse covariances, and the repair of singular ones.

A class can have no variance in some direction: fewer rows than columns, a column that repeats others, a constant one.
The repairs, in this order, are recorded in `Repairs`:

- a direction in which no class varies and no two classes differ is no evidence: it is left out for all of them;
- a direction in which no class varies but classes differ separates them with certainty: it gets a variance so small,
  relative to their distance, that it decides;
- a class without variance where others have some gets one pseudo-row of the covariance common to all classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deciban._typing import Floats

# The share of a column's variance that may be rounding: scatters are accurate to a relative 2^-50 or so.
ROUNDING_SHARE = 2.0**-44
# The squared distance between class means that may be rounding, relative to their distances in other directions and to
# the variance of a column.
MIN_SQUARED_GAP = 2.0**-36
MAX_WHOLE_INVERSE = 48  # columns up to which LAPACK's inverse of any matrix is as quick as one by halves
# Means that differ by a smaller share of themselves are equal: doubles are spaced by 2^-52.
EQUAL_MEANS_SHARE = 2.0**-48


@dataclass(frozen=True, slots=True)
class Repairs:
    """What was repaired: constant columns, directions left out (`lost`) or decisive (`certain`), classes `helped`."""

    constant: tuple[int, ...] = ()
    lost: int = 0
    certain: int = 0
    helped: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lost or self.certain or self.helped)


NO_REPAIRS = Repairs()


@dataclass(frozen=True, slots=True, eq=False)
class Roots:
    """RᵀR = Σ⁻¹ with R upper triangular, (m, d, d); log|Σ| (m,) and rank, on the directions kept."""

    covariance: Floats  # (m, d, d), as repaired
    root: Floats
    log_det: Floats
    rank: int
    repairs: Repairs = NO_REPAIRS
    kept: Floats | None = None  # (rank, d): from columns to the directions kept, if some are left out
    volume: float = 0.0  # the part of log|Σ| due to the units of these directions


def roots(covariance: Floats, weight: Floats, pooled: Floats, mean: Floats, slack: Floats | float = 1.0) -> Roots:
    """Roots of (m, d, d) covariances: m is the number of classes, or 1 if they share one.

    `weight` (m,) is the weight of the rows behind each, `pooled` (d, d) the covariance common to all classes, `mean`
    (k, d) the class means. `slack` (m,) is how many times larger the sums were that they are a difference of: their
    rounding error is larger by that factor.
    """
    d = covariance.shape[1]
    slack = np.broadcast_to(np.asarray(slack, dtype=np.float64), len(covariance))
    regular = upper_roots(covariance, slack)
    if regular is not None:
        return Roots(covariance, *regular, d)
    unit = np.sqrt(np.maximum(np.diagonal(pooled), 0.0))
    gap = mean - mean.mean(axis=0)
    gap = np.where(np.abs(gap) <= EQUAL_MEANS_SHARE * np.abs(mean).max(axis=0, initial=0.0), 0.0, gap)
    unit = np.where(unit > 0, unit, np.abs(gap).max(axis=0, initial=0.0))
    live = np.flatnonzero(unit > 0)
    constant = tuple(int(j) for j in np.flatnonzero(unit == 0))
    scale = unit[live]
    basis, common, floor, certain = kept_directions(
        pooled[np.ix_(live, live)] / np.outer(scale, scale), gap[:, live] / scale, float(slack.max(initial=1.0))
    )
    inner = basis.T @ (covariance[:, live[:, None], live] / np.outer(scale, scale)) @ basis
    inner[:, floor > 0] = inner[:, :, floor > 0] = 0.0  # no class varies there: only rounding
    inner += np.diag(floor)
    helped = []
    for c in range(len(inner)):
        spread = np.linalg.eigvalsh(inner[c][np.ix_(floor == 0, floor == 0)])
        if spread.size and spread[0] <= d * ROUNDING_SHARE * slack[c] * spread[-1]:
            inner[c] = (weight[c] * inner[c] + common) / (weight[c] + 1.0)
            if len(inner) > 1:  # a single covariance is the common one already
                helped.append(c)
    small, log_det = clipped_roots(inner)
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
    # The largest rows first, so that columns of very different units lose no digits.
    sides = np.abs(np.diagonal(np.linalg.qr(wide[np.argsort(-scale)], mode="r")))
    volume = 2.0 * float(np.log(np.maximum(sides, np.finfo(float).tiny)).sum())
    kept = np.zeros((rank, d))
    kept[:, live] = back
    repairs = Repairs(constant, d - rank, certain, tuple(helped))
    return Roots(repaired, root, log_det + volume, rank, repairs, kept, volume)


def upper_roots(covariance: Floats, slack: Floats | float = 1.0) -> tuple[Floats, Floats] | None:
    """Upper triangular roots of the inverses and log-determinants, or None if a matrix is singular."""
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    if not ((variance > 0) & np.isfinite(variance)).all():
        return None
    scale = np.sqrt(variance)
    correlation = covariance / (scale[:, :, None] * scale[:, None, :])
    try:
        # From the last column to the first, the factor of Σ is upper triangular, and so is its inverse.
        lower = np.linalg.cholesky(correlation[:, ::-1, ::-1])
    except np.linalg.LinAlgError:
        return None
    pivots = np.diagonal(lower, axis1=1, axis2=2)[:, ::-1]
    inverse = lower_inverse(lower)[:, ::-1, ::-1]
    # 1/tr(Σ⁻¹) is below the least eigenvalue; the pivots alone can miss a matrix that is singular up to rounding.
    if not (1.0 > ROUNDING_SHARE * slack * (inverse**2).sum(axis=(1, 2))).all():
        return None
    return np.ascontiguousarray(np.triu(inverse / scale[:, None, :])), 2.0 * (np.log(pivots) + np.log(scale)).sum(
        axis=1
    )


def lower_inverse(lower: Floats) -> Floats:
    """Inverses of lower triangular matrices (m, d, d): of large ones by halves, at a sixth of the operations."""
    d = lower.shape[1]
    if d <= MAX_WHOLE_INVERSE:
        return np.asarray(np.linalg.inv(lower))
    half = d // 2
    first, last = lower_inverse(lower[:, :half, :half]), lower_inverse(lower[:, half:, half:])
    out = np.zeros_like(lower)
    out[:, :half, :half], out[:, half:, half:] = first, last
    out[:, half:, :half] = -last @ lower[:, half:, :half] @ first
    return out


def clipped_roots(matrices: Floats) -> tuple[Floats, Floats]:
    """Roots of matrices that are positive definite up to rounding: small eigenvalues are raised above it."""
    regular = upper_roots(matrices)
    if regular is not None:
        return regular
    root, log_det = np.zeros_like(matrices), np.zeros(len(matrices))
    for c, matrix in enumerate(matrices):
        spread, direction = np.linalg.eigh(matrix)
        spread = np.maximum(spread, np.finfo(float).eps * max(float(spread[-1]), np.finfo(float).tiny))
        root[c] = (direction / np.sqrt(spread)).T
        log_det[c] = np.log(spread).sum()
    return root, log_det


def kept_directions(within: Floats, means: Floats, slack: float) -> tuple[Floats, Floats, Floats, int]:
    """The directions to keep (d, r), the pooled covariance along them, the variance (r,) of those that separate
    classes with certainty, and how many these are. Columns are scaled to about unit variance."""
    d = len(within)
    spread, direction = np.linalg.eigh(within) if d else (np.zeros(0), np.zeros((0, 0)))
    null = spread <= d * ROUNDING_SHARE * slack
    basis, floor = direction[:, ~null], np.zeros(int((~null).sum()))
    certain = 0
    if null.any():
        empty = direction[:, null]
        across = means @ empty
        gap, turn = np.linalg.eigh(across.T @ across)
        apart = gap > MIN_SQUARED_GAP * max(float((means**2).sum()), float(d))
        certain = int(apart.sum())
        basis = np.hstack([basis, empty @ turn[:, apart]])
        floor = np.concatenate([floor, 4.0 * d * ROUNDING_SHARE * gap[apart]])
    common = np.diag(np.concatenate([spread[~null], floor[len(floor) - certain :]]))
    return basis, common, floor, certain
