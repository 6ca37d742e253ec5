"""Gaussian per column: n, Σ(x−p) and Σ(x−p)² give mean and variance; normal–inverse-gamma prior as pseudo-rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deciban._kernel import gaussian as kernel
from deciban._scipy import gammaln, issparse
from deciban._typing import Array, Floats, Matrix, Sums
from deciban.algebra import add_prior
from deciban.families.base import Family
from deciban.families.linear import dot
from deciban.measure import XX, Measure, One, X
from deciban.rows import missing_mask
from deciban.schema import Columns

LOG_2PI = float(np.log(2.0 * np.pi))
EPSILON = float(np.finfo(np.float64).eps)
ROUNDING = 2.0**-46  # a variance this small beside the mean square it is a difference of is zero
DENSE = 1 << 22  # entries of a sparse block spelled out at a time


@dataclass(frozen=True, slots=True)
class GaussianParams:
    mean: Floats  # (k, d)
    variance: Floats  # (k, d), floor included
    floor: float  # what was added to every variance
    rows: Floats | None = None  # (k, d) degrees of freedom of the posterior predictive


@dataclass(frozen=True, slots=True)
class Gaussian(Family):
    """A mean and a variance per column and class.

    Every variance is raised by `smoothing` times the largest variance of a column over all rows. The prior is
    `alpha` pseudo-rows per class whose mean and variance are `guess_mean` and `guess_variance` (None: those of
    the column over all classes), so means and variances shrink towards them. `predictive` integrates both out
    under that prior (alpha → 0 is Jeffreys' σ⁻³): Student-t with n + alpha degrees of freedom.
    """

    name: ClassVar[str] = "gaussian"
    says_evidence: ClassVar[bool] = True
    pivoted: ClassVar[bool] = True
    smoothing: float = 1e-9
    predictive: bool = False
    guess_mean: float | tuple[float, ...] | None = None
    guess_variance: float | tuple[float, ...] | None = None

    def measures(self, columns: Columns) -> tuple[Measure, ...]:
        del columns
        return (One(), X(), XX())

    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        k = len(sums["x"])
        strength = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (k, columns.size))
        _, mean, variance = pooled(sums, columns)
        mean = self._guess(self.guess_mean, mean, columns)
        variance = self._guess(self.guess_variance, variance, columns)
        assert columns.pivot is not None
        offset = mean - columns.pivot
        return {"one": strength + 0.0, "x": strength * offset, "xx": strength * (variance + offset**2)}

    def estimate(self, sums: Sums, columns: Columns) -> GaussianParams:
        assert columns.pivot is not None
        seen = np.broadcast_to(sums["one"], sums["x"].shape)
        total, all_mean, all_variance = pooled(sums, columns)
        observed = total > 0
        floor = self.smoothing * float(all_variance[observed].max()) if observed.any() else 0.0
        n = np.where(seen > 0, seen, 1.0)
        offset = sums["x"] / n
        # A class without a value in some column has the column's law over all classes.
        mean = np.where(seen > 0, columns.pivot + offset, all_mean)
        variance = (
            np.where(seen > 0, spread_of(sums["xx"] / n, offset, ROUNDING * sums["xx"] / n), all_variance) + floor
        )
        # No spread and no floor: a column constant everywhere tells classes apart by nothing, whatever its
        # variance; a class constant at a value is known no better than doubles of that size are spaced.
        spaced = np.where(all_variance > 0, EPSILON**2 * (all_mean**2 + all_variance), 1.0)
        variance = np.where(variance > 0, variance, spaced)
        return GaussianParams(mean, variance, floor, seen + 0.0 if self.predictive else None)

    def expect(self, params: GaussianParams, columns: Columns) -> Sums:
        assert columns.pivot is not None
        offset = params.mean - columns.pivot
        return {"one": np.ones_like(offset), "x": offset, "xx": params.variance + offset**2}

    def log_prob(self, params: GaussianParams, columns: Columns, X: Matrix) -> Floats:
        del columns
        mean, precision, constant, power = self._kernel_form(params)
        out = np.zeros((X.shape[0], len(mean)))
        if not issparse(X):
            kernel.log_density(X, mean, precision, constant, constant.sum(axis=1), power, out)
            return out
        # log p(v) − log p(0) = precision·v·(2·mean − v): the stored entries correct an all-zero row. Columns that
        # lie far from zero would cancel, and Student-t is not a polynomial: those are spelled out.
        far = (precision * mean**2).max(axis=0) > 1e6
        if power is not None:
            far[:] = True
        near = ~far
        if far.any():
            m, h, c = (np.ascontiguousarray(t[:, far]) for t in (mean, precision, constant))
            p = None if power is None else np.ascontiguousarray(power[:, far])
            for rows in dense_blocks(X.shape[0], int(far.sum())):
                block = X[rows][:, far].toarray().astype(np.float64)
                part = np.zeros((block.shape[0], len(mean)))
                kernel.log_density(block, m, h, c, c.sum(axis=1), p, part)
                out[rows] += part
        if near.any():
            m, h = mean[:, near], precision[:, near]
            zero = constant[:, near] - h * m**2
            close = X[:, near] if far.any() else X
            first, some_missing = dot(close, (2.0 * h * m).T)
            out += zero.sum(axis=1) + first - dot(close.power(2), h.T)[0]
            gone = missing_mask(close) if some_missing else None
            if gone is not None:
                out -= gone @ zero.T
        return out

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        assert columns.pivot is not None
        kappa = float(np.asarray(alpha).reshape(-1)[0]) if np.ndim(alpha) else float(np.asarray(alpha))
        if np.ndim(alpha) and np.ptp(np.asarray(alpha)) > 0:
            raise ValueError("leave-one-out of Gaussians takes one alpha for all classes and columns")
        prior = self.pseudo(kappa, columns, sums)
        params = self.estimate(add_prior(sums, prior), columns)
        mean, precision, constant, power = self._kernel_form(params)
        one, x, xx, noise, pivot = pooled_moments(sums, columns)
        seen = one > 0
        safe = np.where(seen, one, 1.0)
        variance = np.where(seen, spread_of(xx / safe, x / safe, noise / safe), 0.0)
        inverse = 2.0 * precision
        shared = (
            np.ascontiguousarray(sums["one"]),
            np.ascontiguousarray(sums["x"]),
            np.ascontiguousarray(sums["xx"]),
            np.ascontiguousarray(columns.pivot),
            one,
            x,
            xx,
            noise,
            pivot,
            np.argsort(-variance, kind="stable").astype(np.intp),
            variance,
            kappa,
            self._fixed(self.guess_mean, columns),
            self._fixed(self.guess_variance, columns),
            self.smoothing,
            params.floor,
            self.predictive,
        )
        # A class without a value in some column follows the pooled law, which every row moves: never the short way.
        gaps = (np.broadcast_to(sums["one"], sums["x"].shape) <= 0).any(axis=1)
        widest = np.where(gaps, np.inf, inverse.max(axis=1))
        sums_of = (inverse.sum(axis=1), (inverse**2).sum(axis=1), (inverse**3).sum(axis=1), widest)
        out = np.zeros((X.shape[0], len(mean)))
        sparse = issparse(X)
        for rows in dense_blocks(X.shape[0], columns.size) if sparse else [slice(0, X.shape[0])]:
            block = X[rows].toarray().astype(np.float64) if sparse else X
            part = out[rows]
            kernel.log_density(block, mean, precision, constant, constant.sum(axis=1), power, part)
            w = None if weight is None else np.ascontiguousarray(weight[rows])
            missing = sums["one"].shape[1] > 1
            labels = np.ascontiguousarray(y[rows])
            kernel.leave_one_out(block, labels, w, *shared, missing, mean, precision, *sums_of, part)
        return out

    def sample(
        self, params: GaussianParams, columns: Columns, y: Array, rng: np.random.Generator, length: Array
    ) -> Floats:
        del length
        deviation = np.sqrt(params.variance)[y]
        if params.rows is not None:
            dof = np.where(params.rows > 0, params.rows, 1.0)[y]
            spread = np.sqrt((dof + 1.0) / dof)
            return params.mean[y] + deviation * spread * rng.standard_t(dof)
        return params.mean[y] + deviation * rng.standard_normal((len(y), columns.size))

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        del columns
        n = np.broadcast_to(sums["one"], sums["x"].shape)
        kappa = prior["one"]
        before, after = scatter_of(prior), scatter_of({m: sums[m] + prior[m] for m in prior})
        with np.errstate(divide="ignore", invalid="ignore"):
            said = (
                -0.5 * n * np.log(np.pi)
                + 0.5 * np.log(kappa / (kappa + n))
                + gammaln(0.5 * (kappa + n))
                - gammaln(0.5 * kappa)
                + 0.5 * kappa * np.log(before)
                - 0.5 * (kappa + n) * np.log(after)
            )
        # A guess without spread (a constant column) makes any strength as likely as any other: it says nothing.
        return np.asarray(np.where((n > 0) & (before > 0), said, 0.0).sum(axis=1))

    def terms(self, params: GaussianParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        del columns
        row = np.asarray(X.toarray() if issparse(X) else X, dtype=float).ravel()
        at = np.flatnonzero(~np.isnan(row))
        mean, precision, constant, power = self._kernel_form(params)
        square = precision[:, at] * (row[at] - mean[:, at]) ** 2
        return at, (constant[:, at] - (square if power is None else power[:, at] * np.log1p(square))).T

    def typical(self, params: GaussianParams, columns: Columns) -> tuple[list[str], Floats]:
        """What a value drawn from each class says for it on average: the mean of KL(class ‖ other) over all classes."""
        mean, variance = params.mean, params.variance
        gap = (mean[:, None] - mean[None]) ** 2
        ratio = variance[:, None] / variance[None]
        divergence = 0.5 * (ratio - 1.0 - np.log(ratio) + gap / variance[None])  # (own, other, column)
        return [columns.name(j) for j in range(columns.size)], divergence.mean(axis=1).T

    def table(self, params: GaussianParams, columns: Columns) -> dict[str, Floats]:
        del columns
        return {"mean": params.mean, "variance": params.variance}

    def _kernel_form(self, params: GaussianParams) -> tuple[Floats, Floats, Floats, Floats | None]:
        """mean, precision, constant and (Student-t) power of constant − precision·t² or power·log(1 + …)."""
        mean, variance = np.ascontiguousarray(params.mean), params.variance
        if params.rows is None:
            return mean, 0.5 / variance, -0.5 * (LOG_2PI + np.log(variance)), None
        dof = np.where(params.rows > 0, params.rows, 1.0)
        scale = variance * (dof + 1.0)  # ν·σ²(ν + 1)/ν
        constant = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof) - 0.5 * (np.log(np.pi) + np.log(scale))
        return mean, 1.0 / scale, constant, 0.5 * (dof + 1.0)

    def _fixed(self, guess: float | tuple[float, ...] | None, columns: Columns) -> Floats | None:
        return None if guess is None else np.array(np.broadcast_to(np.asarray(guess, dtype=float), columns.size))

    def _guess(self, guess: float | tuple[float, ...] | None, default: Floats, columns: Columns) -> Floats:
        fixed = self._fixed(guess, columns)
        return default if fixed is None else fixed


def pooled_moments(sums: Sums, columns: Columns) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """n, Σ(x−p), Σ(x−p)², how far rounding may have moved the last, and p: over all classes, about their mean."""
    assert columns.pivot is not None
    seen = np.broadcast_to(sums["one"], sums["x"].shape)
    total = seen.sum(axis=0)
    safe = np.where(total > 0, total, 1.0)
    # Averages of differences from one class's pivot, so that a far common offset costs no digits.
    lead = columns.pivot[np.argmax(seen, axis=0), np.arange(columns.size)] if len(seen) else np.zeros(columns.size)
    pivot = lead + (seen * (columns.pivot - lead) + sums["x"]).sum(axis=0) / safe
    by = columns.pivot - pivot
    x = (sums["x"] + seen * by).sum(axis=0)
    xx = (sums["xx"] + 2.0 * by * sums["x"] + seen * by**2).sum(axis=0)
    noise = ROUNDING * (sums["xx"] + 2.0 * np.abs(by * sums["x"]) + seen * by**2).sum(axis=0)
    return total, x, xx, noise, pivot


def pooled(sums: Sums, columns: Columns) -> tuple[Floats, Floats, Floats]:
    """Weight, mean and variance of every column over all classes; 0 and 1 where a column was never seen."""
    total, x, xx, noise, pivot = pooled_moments(sums, columns)
    seen = total > 0
    safe = np.where(seen, total, 1.0)
    offset = x / safe
    variance = np.where(seen, spread_of(xx / safe, offset, noise / safe), 1.0)
    return total, np.where(seen, pivot + offset, 0.0), variance


def spread_of(mean_square: Floats, offset: Floats, noise: Floats) -> Floats:
    """The variance from the mean square about the pivot, zero where only rounding is left of the difference."""
    variance = mean_square - offset**2
    return np.where(variance <= noise, 0.0, variance)


def scatter_of(sums: Sums) -> Floats:
    """Σ(x − mean)²."""
    n = np.broadcast_to(sums["one"], sums["x"].shape)
    return np.asarray(np.maximum(sums["xx"] - sums["x"] ** 2 / np.where(n > 0, n, 1.0), 0.0))


def dense_blocks(n: int, d: int) -> list[slice]:
    step = max(1, DENSE // max(1, d))
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]
