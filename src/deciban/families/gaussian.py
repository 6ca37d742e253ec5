"""Gaussian per column: mean and variance from n, Σ(x−p) and Σ(x−p)²; normal–inverse-gamma prior as pseudo-rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deciban._kernel import gaussian as kernel
from deciban._scipy import gammaln, issparse
from deciban._typing import Array, Floats, Matrix, Sums
from deciban.algebra import CANCELLATION_RATIO, add_prior, without
from deciban.families.base import Family, Scorer
from deciban.families.linear import Affine, Product
from deciban.matrix import missing_mask
from deciban.measure import RESIDUE, XX, Measure, One, X, gross, second_moments
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term

LOG_2PI = float(np.log(2.0 * np.pi))
EPSILON = float(np.finfo(np.float64).eps)
ROUNDING = 2.0**-46  # a variance this small relative to the mean square it is a difference of is zero
NEGLIGIBLE_ROUNDING = 2.0**-42  # rounding this small relative to the least known variance of a column does not matter
MAX_SPARSE_SQUARE = 1e6  # of a mean in deviations: a density from zero on would lose more digits than that
MAX_DENSE_ENTRIES = 1 << 22  # of a sparse block made dense at a time


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
    typical_is_evidence: ClassVar[bool] = True
    pivoted: ClassVar[bool] = True
    smoothing: float = 1e-9
    predictive: bool = False
    guess_mean: float | tuple[float, ...] | None = None
    guess_variance: float | tuple[float, ...] | None = None

    @classmethod
    def by_name(cls) -> Mapping[str, Family]:
        """Without a floor that depends on other columns: pseudo-rows ensure that no variance is zero."""
        return {cls.name: cls(smoothing=0.0)}

    @property
    def by_column(self) -> bool:
        """Unless a column's distribution depends on another's spread, or guesses are given by column."""
        guessed = isinstance(self.guess_mean, tuple) or isinstance(self.guess_variance, tuple)
        return self.smoothing == 0.0 and not guessed

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
        floor = self.floor(all_variance[observed])
        n = np.where(seen > 0, seen, 1.0)
        offset = sums["x"] / n
        # A class without any value in a column gets the column's distribution over all classes.
        mean = np.where(seen > 0, columns.pivot + offset, all_mean)
        variance = (
            np.where(seen > 0, spread_of(sums["xx"] / n, offset, ROUNDING * sums["xx"] / n), all_variance) + floor
        )
        # No variance and no floor: for a column constant everywhere any variance will do; the value of a constant
        # class is known only up to the spacing of doubles of that size.
        spaced = np.where(all_variance > 0, EPSILON**2 * (all_mean**2 + all_variance), 1.0)
        variance = np.where(variance > 0, variance, spaced)
        return GaussianParams(mean, variance, floor, seen + 0.0 if self.predictive else None)

    def floor(self, variance: Floats) -> float:
        """What is added to every variance, from those of the columns over all classes."""
        return self.smoothing * float(variance.max(initial=0.0))

    def unknown(self, sums: Sums, columns: Columns) -> Array:
        return unknown_spreads(sums, columns, self.floor)

    def expect(self, params: GaussianParams, columns: Columns) -> Sums:
        assert columns.pivot is not None
        offset = params.mean - columns.pivot
        return {"one": np.ones_like(offset), "x": offset, "xx": params.variance + offset**2}

    def log_prob(self, params: GaussianParams, columns: Columns, X: Matrix) -> Floats:
        k = len(params.mean)
        out = np.empty((X.shape[0], k))
        self.scorer(params, columns)(X, np.zeros(k), out)
        return out

    def scorer(self, params: GaussianParams, columns: Columns, relative: bool = False) -> Scorer:
        del columns
        mean, precision, constant, power = self._kernel_form(params)
        sparse: SparseGaussian | None = None
        affine: Affine | None = None
        if relative and power is None and (precision == precision[:1]).all():
            # −h(x − m)² = −hx² + 2hmx − hm²: classes that share their variances have the first term in common.
            centre = mean.mean(axis=0)
            affine = Affine(2.0 * precision * (mean - centre), -(precision * (mean - centre) ** 2).sum(axis=1), centre)

        def write(X: Matrix, start: Floats, out: Floats) -> None:
            nonlocal sparse
            if affine is not None and affine.write(X, start, out):
                return
            if not issparse(X):
                kernel.log_density(X, mean, precision, constant, start, power, out)
                return
            sparse = SparseGaussian(mean, precision, constant, power) if sparse is None else sparse
            sparse.write(X, start, out)

        return write

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
        # A class without values or variance in a column has the pooled distribution, which every row changes: no
        # downdate.
        n = np.broadcast_to(sums["one"], sums["x"].shape)
        flat = (n <= 0) | ((scatter_of(sums) <= ROUNDING * sums["xx"]) & (params.floor == 0.0))
        widest = np.where(flat.any(axis=1), np.inf, inverse.max(axis=1))
        sums_of = (inverse.sum(axis=1), (inverse**2).sum(axis=1), (inverse**3).sum(axis=1), widest)
        out, slow = np.zeros((X.shape[0], len(mean))), np.zeros(X.shape[0], dtype=np.uint8)
        sparse, doubt = issparse(X), self._doubt(sums, 1.0 if weight is None else float(weight.max(initial=0.0)))
        for rows in dense_blocks(X.shape[0], columns.size) if sparse else [slice(0, X.shape[0])]:
            block = X[rows].toarray().astype(np.float64) if sparse else X
            part = out[rows]
            kernel.log_density(block, mean, precision, constant, np.zeros(len(mean)), power, part)
            w = None if weight is None else np.ascontiguousarray(weight[rows])
            missing = sums["one"].shape[1] > 1
            labels = np.ascontiguousarray(y[rows])
            kernel.leave_one_out(block, labels, w, *shared, missing, mean, precision, *sums_of, doubt, part, slow[rows])
            if kappa > 0.0 and self.guess_mean is not None and self.smoothing == 0.0:
                slow[rows] |= constant_without(block, w, one, x, xx, noise, pivot).any(axis=1)
        for i in np.flatnonzero(slow):
            row = X[i : i + 1].toarray() if sparse else X[i : i + 1]
            w_i = 1.0 if weight is None else float(weight[i])
            out[i] = log_prob_without(self, sums, kappa, columns, row, int(y[i]), w_i)
        return out

    def _doubt(self, sums: Sums, weight: float) -> Floats:
        """The scatter below which a class and column, without a row of at most this weight, needs a closer check.

        −1, for no check, if the scatter of the other classes alone makes a floor that outweighs the rounding.
        """
        n, size = np.broadcast_to(sums["one"], sums["x"].shape), gross(sums)
        scatter = scatter_of(sums)
        others = (scatter.sum(axis=0) - scatter) / max(float(n.sum(axis=0).max(initial=0.0)), 1.0)
        floors = np.array([[self.floor(variance)] for variance in others])
        return np.where((scatter > RESIDUE * size) & (RESIDUE * size > (n - weight) * floors), RESIDUE * size, -1.0)

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
            log_marginal = (
                -0.5 * n * np.log(np.pi)
                + 0.5 * np.log(kappa / (kappa + n))
                + gammaln(0.5 * (kappa + n))
                - gammaln(0.5 * kappa)
                + 0.5 * kappa * np.log(before)
                - 0.5 * (kappa + n) * np.log(after)
            )
        # With a guess without variance (a constant column) all strengths are equally likely: 0.
        return np.asarray(np.where((n > 0) & (before > 0), log_marginal, 0.0).sum(axis=1))

    def terms(self, params: GaussianParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        del columns
        row = np.asarray(X.toarray() if issparse(X) else X, dtype=float).ravel()
        at = np.flatnonzero(~np.isnan(row))
        mean, precision, constant, power = self._kernel_form(params)
        square = precision[:, at] * (row[at] - mean[:, at]) ** 2
        return at, (constant[:, at] - (square if power is None else power[:, at] * np.log1p(square))).T

    def typical(self, params: GaussianParams, columns: Columns) -> tuple[list[str], Floats]:
        """The mean evidence of a value drawn from each class: the mean of KL(class ‖ other) over all classes."""
        mean, variance = params.mean, params.variance
        gap = (mean[:, None] - mean[None]) ** 2
        ratio = variance[:, None] / variance[None]
        divergence = 0.5 * (ratio - 1.0 - np.log(ratio) + gap / variance[None])  # (own, other, column)
        return [columns.name(j) for j in range(columns.size)], divergence.mean(axis=1).T

    def table(self, params: GaussianParams, columns: Columns) -> dict[str, Floats]:
        del columns
        return {"mean": params.mean, "variance": params.variance}

    def term(self, params: GaussianParams, columns: Columns, sketch: Sketch) -> Term:
        from deciban.formula import ColumnGaussians

        return ColumnGaussians(sketch.numbers(columns), *self._kernel_form(params))

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


class SparseGaussian:
    """Densities of sparse rows, prepared once.

    log p(v) − log p(0) = precision·v·(2·mean − v): the stored entries correct an all-zero row. Columns far from zero
    would cancel, and Student-t is not a polynomial: these are made dense.
    """

    __slots__ = ("far", "far_form", "far_power", "near", "slope", "square", "zero")

    def __init__(self, mean: Floats, precision: Floats, constant: Floats, power: Floats | None) -> None:
        far = (precision * mean**2).max(axis=0, initial=0.0) > MAX_SPARSE_SQUARE
        if power is not None:
            far[:] = True
        self.far, self.near = far, ~far
        self.far_form = [np.ascontiguousarray(table[:, far]) for table in (mean, precision, constant)]
        self.far_power = None if power is None else np.ascontiguousarray(power[:, far])
        m, h = mean[:, self.near], precision[:, self.near]
        self.zero = constant[:, self.near] - h * m**2
        self.slope, self.square = Product((2.0 * h * m).T), Product(-h.T)

    def write(self, X: Matrix, start: Floats, out: Floats) -> None:
        close = X[:, self.near] if self.far.any() else X
        missing = missing_mask(close) if self.slope.write(close, start + self.zero.sum(axis=1), out) else None
        squares = np.empty(out.shape)
        self.square.write(close.power(2), np.zeros(len(start)), squares)
        out += squares
        if missing is not None:
            out -= missing @ self.zero.T
        if not self.far.any():
            return
        mean, precision, constant = self.far_form
        for rows in dense_blocks(X.shape[0], int(self.far.sum())):
            block = X[rows][:, self.far].toarray().astype(np.float64)
            part = np.empty((block.shape[0], len(start)))
            kernel.log_density(block, mean, precision, constant, np.zeros(len(start)), self.far_power, part)
            out[rows] += part


def pooled_moments(sums: Sums, columns: Columns) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """n, Σ(x−p), Σ(x−p)², the rounding error of the last, and p: over all classes, about their mean."""
    assert columns.pivot is not None
    seen = np.broadcast_to(sums["one"], sums["x"].shape)
    total = seen.sum(axis=0)
    safe = np.where(total > 0, total, 1.0)
    # Averages of differences from one class's pivot, so that a large common offset loses no digits.
    lead = columns.pivot[np.argmax(seen, axis=0), np.arange(columns.size)] if len(seen) else np.zeros(columns.size)
    pivot = lead + (seen * (columns.pivot - lead) + sums["x"]).sum(axis=0) / safe
    by = columns.pivot - pivot
    x = (sums["x"] + seen * by).sum(axis=0)
    xx = (sums["xx"] + 2.0 * by * sums["x"] + seen * by**2).sum(axis=0)
    noise = ROUNDING * (sums["xx"] + 2.0 * np.abs(by * sums["x"]) + seen * by**2).sum(axis=0)
    return total, x, xx, noise, pivot


def pooled(sums: Sums, columns: Columns) -> tuple[Floats, Floats, Floats]:
    """Weight, mean and variance of every column over all classes; mean 0 and variance 1 for a column without values."""
    total, x, xx, noise, pivot = pooled_moments(sums, columns)
    seen = total > 0
    safe = np.where(seen, total, 1.0)
    offset = x / safe
    variance = np.where(seen, spread_of(xx / safe, offset, noise / safe), 1.0)
    return total, np.where(seen, pivot + offset, 0.0), variance


def spread_of(mean_square: Floats, offset: Floats, noise: Floats) -> Floats:
    """The variance from the mean square about the pivot, zero if the difference is only rounding."""
    variance = mean_square - offset**2
    return np.where(variance <= noise, 0.0, variance)


def doubtful(sums: Sums) -> Array:
    """Where a scatter, by class and column, is below the rounding of all squares that were ever in its sum."""
    n = np.broadcast_to(sums["one"], sums["x"].shape)
    scatter = second_moments(sums) - sums["x"] ** 2 / np.where(n > 0, n, 1.0)
    return np.asarray((n > 0) & (scatter <= RESIDUE * gross(sums)))


def unknown_spreads(sums: Sums, columns: Columns, floor: Callable[[Floats], float]) -> Array:
    """Where a subtraction has left a scatter, by class and column, that may be nonzero but is lost in rounding.

    A `doubtful` scatter may be anything up to RESIDUE of the squares that were ever in the sum. It is negligible if
    that is small relative to the `floor` that is added to a variance, or if the sum has no digit of it and rounding is
    small relative to the least known variance of the column. It is zero if one row is left and its value is known. With
    fractional weights, less than two may be one row: it is taken for one if rounding is small relative to the column's
    variance over all classes, or, if that is zero, to the value.
    """
    assert columns.pivot is not None
    unknown = doubtful(sums)
    if not unknown.any():
        return unknown
    n, size = np.broadcast_to(sums["one"], sums["x"].shape), gross(sums)
    safe = np.where(n > 0, n, 1.0)
    mean, scatter = columns.pivot + sums["x"] / safe, second_moments(sums) - sums["x"] ** 2 / safe
    wide = pooled(*without_residue(sums, columns))[2]
    least = floor(wide)
    error = np.where(n > 0, ROUNDING**2 * size / safe, np.inf)  # squared error of the mean
    within = np.where((n > 0) & ~unknown, scatter / safe, np.inf).min(axis=0, initial=np.inf)
    known = np.minimum(within, least_gaps(mean, error))
    known = np.where(np.isfinite(known), known, 0.0)
    beside = np.where(wide > 0, wide, mean**2)
    alone = (n == 1) & ((error <= RESIDUE * beside) | (beside == 0.0))
    alone |= (n < 2) & (ROUNDING * size <= CANCELLATION_RATIO**-2 * n * beside)
    little = ROUNDING * size <= n * np.maximum(NEGLIGIBLE_ROUNDING * known, least / CANCELLATION_RATIO)
    gone = (scatter <= ROUNDING * size) & (alone | little)
    return np.asarray(unknown & ~gone & (RESIDUE * size > n * least))


def least_gaps(mean: Floats, error: Floats) -> Floats:
    """The least squared distance between classes' means, by column, ignoring those within their errors."""
    order = np.argsort(mean, axis=0)
    mean, error = (np.take_along_axis(table, order, axis=0) for table in (mean, error))
    with np.errstate(invalid="ignore"):
        gaps, doubt = np.diff(mean, axis=0) ** 2, 4.0 * (error[1:] + error[:-1])
        return np.asarray(np.where(gaps > doubt, gaps, np.inf).min(axis=0, initial=np.inf))


def without_residue(sums: Sums, columns: Columns) -> tuple[dict[str, Floats], Columns]:
    """Sums without rounding residue: zero without values; and if a scatter is only rounding, zero about the mean."""
    assert columns.pivot is not None
    if "lost" not in sums:
        return dict(sums), columns
    n = np.broadcast_to(sums["one"], sums["x"].shape)
    offset = np.where(n > 0, sums["x"], 0.0) / np.where(n > 0, n, 1.0)
    still = second_moments(sums) - n * offset**2 <= ROUNDING * gross(sums)
    still = (n <= 0) | (still & (sums["lost"] > 0))
    flat = {2: still, 3: still[:, :, None] | still[:, None, :]}
    out = {name: array if name == "one" else np.where(flat[array.ndim], 0.0, array) for name, array in sums.items()}
    out["lost"] = np.where(n > 0, sums["lost"], 0.0)
    return out, replace(columns, pivot=np.where(still, columns.pivot + offset, columns.pivot))


def constant(sums: Sums) -> Array:
    """Where a scatter is negligible relative to the squares it is a difference of, although nothing was subtracted."""
    n, size = np.broadcast_to(sums["one"], sums["x"].shape), second_moments(sums)
    small = size - sums["x"] ** 2 / np.where(n > 0, n, 1.0) <= RESIDUE * size
    return np.asarray(small & (sums["lost"] == 0.0) if "lost" in sums else small)


def constant_without(
    X: Array, weight: Floats | None, one: Floats, x: Floats, xx: Floats, noise: Floats, pivot: Floats
) -> Array:
    """Which columns, over all classes, are constant without row i, (n, d); the sums are those of `pooled_moments`.

    A class with only a prior then has no variance but for the distance of the guess from these rows.
    """
    w, t = np.ones((len(X), 1)) if weight is None else weight[:, None], X - pivot
    left = without(one, w)
    safe = np.where(left > 0, left, 1.0)
    variance = (xx - w * t**2) / safe - ((x - w * t) / safe) ** 2
    return np.asarray((left > 0) & (variance <= noise / safe))


def scatter_of(sums: Sums) -> Floats:
    """Σ(x − mean)²."""
    n = np.broadcast_to(sums["one"], sums["x"].shape)
    return np.asarray(np.maximum(sums["xx"] - sums["x"] ** 2 / np.where(n > 0, n, 1.0), 0.0))


def dense_blocks(n: int, d: int) -> list[slice]:
    step = max(1, MAX_DENSE_ENTRIES // max(1, d))
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def log_prob_without(
    family: Family, sums: Sums, alpha: Array | float, columns: Columns, row: Array, c: int, weight: float
) -> Floats:
    """log p(x | class) of a row under the sums without it, (k,); NaN if rounding may hide what is left of them."""
    if np.isinf(row).any():
        return np.full(len(sums["x"]), np.nan)
    left = without_row(sums, columns, row, c, weight)
    several = np.broadcast_to(left["one"], left["x"].shape) >= 2
    doubt = (doubtful(left) & several) | family.unknown(left, columns)
    if "xxyy" in left:  # fourth powers lose digits sooner than squares
        before, after = (np.diagonal(part["xxyy"], axis1=1, axis2=2) for part in (sums, left))
        doubt |= several & (after <= RESIDUE * before)
    if (doubt & ~constant(sums))[c].any():  # the other classes are unchanged
        return np.full(len(sums["x"]), np.nan)
    left, columns = without_residue(left, columns)
    params = family.estimate(add_prior(left, family.pseudo(alpha, columns, left)), columns)
    return np.asarray(family.log_prob(params, columns, row)[0])


def without_row(sums: Sums, columns: Columns, row: Array, c: int, weight: float) -> dict[str, Floats]:
    """A block's sums without one row of class c."""
    assert columns.pivot is not None
    left = {name: array.copy() for name, array in sums.items()}
    there = ~np.isnan(row[0])
    if "xy" in left and not there.all():
        return left  # a row with missing values is not in the sums of complete rows
    t = np.where(there, row[0].astype(np.float64) - columns.pivot[c], 0.0)
    moments = {"x": t, "xx": t**2, "xy": np.outer(t, t), "xxy": np.outer(t**2, t), "xxyy": np.outer(t**2, t**2)}
    left["one"][c] = without(left["one"][c], weight * (there if left["one"].shape[1] > 1 else 1.0))
    for name, moment in moments.items():
        if name in left:
            left[name][c] -= weight * moment
    left["lost"] = sums["lost"].copy() if "lost" in sums else np.zeros_like(sums["x"])
    left["lost"][c] += weight * t**2
    return left
