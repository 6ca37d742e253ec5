"""Gaussian over a block of columns: means and covariances of every shape from n, Σ(x−p) and Σ(x−p)(x−p)ᵀ (S10–S13).

Axis-aligned shapes use only the diagonal, Σ(x−p)², and so take sparse rows and skip missing values. The others
marginalise over a missing value in prediction and use its expectation in learning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from deciban._kernel import scatter as kernel
from deciban._scipy import gammaln, multigammaln
from deciban._typing import Array, Floats, Matrix, Sums
from deciban.algebra import CANCELLATION_RATIO, add_prior
from deciban.families import covariance as shapes
from deciban.families.base import Family, Scorer
from deciban.families.gaussian import (
    LOG_2PI,
    ROUNDING,
    Gaussian,
    GaussianParams,
    log_prob_without,
    pooled_moments,
    spread_of,
    unknown_spreads,
)
from deciban.families.linear import Affine
from deciban.families.roots import NO_REPAIRS, ROUNDING_SHARE, Repairs, Roots, roots
from deciban.matrix import has_missing
from deciban.measure import RESIDUE, XX, XXY, XXYY, XY, Measure, One, X, gross, incomplete, second_moments
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term

Nested = tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class MultivariateParams:
    """Means, covariances and their roots; axis-aligned shapes have variances (k, d) instead, and no roots."""

    mean: Floats  # (k, d)
    covariance: Floats  # (m, d, d), m = 1 where shared; or (k, d)
    weight: Floats  # (k,) rows, prior included
    pooled: Floats  # the covariance common to all classes: (d, d), or (d,)
    roots: Roots | None = None
    rows: Floats | None = None  # (k,) degrees of freedom of the posterior predictive
    repairs: Repairs = NO_REPAIRS
    shape: str = ""  # the shape in use (that chosen by "bic"), in letters


@dataclass(frozen=True, slots=True)
class MultivariateGaussian(Family):
    """A mean per class, and covariances of a given shape.

    `covariance` is one of the fourteen shapes, an alias of one, "unit", or "bic". With "full", `tie` shrinks every
    class's covariance to the shared one, and with any shape `sphere` (a number, "auto" or "oas") shrinks it to a
    sphere, of columns in units of `scale`: regularised discriminant analysis. `unit` is the share of an identity
    matrix, `ridge` is added to every variance. The prior is `alpha` pseudo-rows per class with mean `guess_mean` and
    covariance `guess_covariance` (None: the overall mean, and the covariance common to all classes): a
    normal–inverse-Wishart distribution. `predictive` integrates mean and covariance out under it: Student-t.
    `threshold` moves means towards the overall mean by that many of their standard errors (shrunken centroids). `given`
    are fixed covariances.
    """

    name: ClassVar[str] = "multivariate_gaussian"
    typical_is_evidence: ClassVar[bool] = True
    pivoted: ClassVar[bool] = True
    covariance: str = "full"
    tie: float = 0.0
    sphere: float | str = 0.0
    unit: float = 0.0
    ridge: float = 0.0
    unbiased: bool = False
    predictive: bool = False
    threshold: float = 0.0
    guess_mean: float | tuple[float, ...] | None = None
    guess_covariance: tuple[tuple[float, ...], ...] | None = None
    given: Nested | None = None
    dense: bool = False  # keep full scatter matrices, whatever the shape
    scale: tuple[float, ...] | None = None  # units of the columns for `sphere`; None: as they are

    def __post_init__(self) -> None:
        """Check the settings, which may come from files."""
        good = (
            self.shape in (*shapes.SHAPES, "bic")
            and all(isinstance(v, float | int) and 0 <= v <= 1 for v in (self.tie, self.unit))
            and (self.sphere in ("auto", "oas") if isinstance(self.sphere, str) else 0 <= float(self.sphere) <= 1)
            and all(isinstance(v, float | int) and 0 <= v < np.inf for v in (self.ridge, self.threshold))
            and all(isinstance(v, bool) for v in (self.unbiased, self.predictive, self.dense))
            and (self.scale is None or all(isinstance(v, float | int) and 0 < v < np.inf for v in self.scale))
        )
        if not good:
            raise ValueError(f"these settings contradict each other: {self!r}")

    @property
    def shape(self) -> str:
        """The covariance's shape in letters, or "unit" or "bic"."""
        return shapes.ALIASES.get(self.covariance, self.covariance)

    @property
    def aligned(self) -> bool:
        """Whether only variances are needed. If only volume or form is shared, missing values would affect other
        columns, so these shapes use complete rows."""
        return self.shape in ("unit", "EII", "VII", "EEI", "VVI") and not self.dense

    @classmethod
    def by_name(cls) -> Mapping[str, Family]:
        return {shape: cls(covariance=shape) for shape in (*shapes.ALIASES, *shapes.SHAPES)}

    @property
    def by_column(self) -> bool:
        return False

    @property
    def whole_rows(self) -> bool:
        return not self.aligned

    def measures(self, columns: Columns) -> tuple[Measure, ...]:
        del columns
        if self.aligned:
            return (One(), X(), XX())
        whole: tuple[Measure, ...] = (One(whole=True), X(whole=True), XY())
        return (*whole, XXY(), XXYY()) if self.sphere == "auto" else whole

    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        assert columns.pivot is not None
        k = len(sums["x"])
        strength = np.broadcast_to(np.asarray(alpha, dtype=np.float64).reshape(-1, 1)[:k], (k, 1))
        if not strength.any():
            return {name: np.zeros_like(array) for name, array in sums.items()}
        moments = self.moments(sums, columns)
        mean = moments.overall if self.guess_mean is None else np.broadcast_to(self.guess_mean, columns.size)
        offset = mean - columns.pivot
        prior = {"one": strength + 0.0, "x": strength * offset}
        if self.aligned:
            variance = moments.common if self.guess_covariance is None else np.diagonal(np.array(self.guess_covariance))
            return prior | {"xx": strength * (variance + offset**2)}
        spread = moments.common if self.guess_covariance is None else np.array(self.guess_covariance)
        prior["xy"] = strength[..., None] * (spread + offset[:, :, None] * offset[:, None, :])
        if "xxyy" in sums:
            each = zip(offset, strength, strict=True)
            higher = [gaussian_moments(at[None], spread, share) for at, share in each]
            prior["xxy"], prior["xxyy"] = (np.array(part) for part in zip(*higher, strict=True))
        return prior

    def estimate(self, sums: Sums, columns: Columns) -> MultivariateParams:
        moments = self.moments(sums, columns)
        if self.aligned:
            return self._estimate_aligned(moments)
        weight = moments.weight[:, 0]
        shape, covariance = self.covariances(moments, sums)
        if self.unit:
            covariance = (1.0 - self.unit) * covariance + self.unit * np.eye(columns.size)
        if self.ridge:
            covariance = covariance + self.ridge * np.eye(columns.size)
        each = weight if len(covariance) > 1 else weight.sum(keepdims=True)
        slack = moments.slack if len(covariance) > 1 else moments.slack.max(keepdims=True)
        rooted = roots(covariance, each, moments.common, moments.mean, slack)
        rows = None
        if self.predictive:
            tie = 1.0 if shape == "EEE" else self.tie
            rows = (1.0 - tie) * weight + tie * weight.sum()
            rows = np.where(rows > 0, rows, 1.0)
        return MultivariateParams(
            moments.mean, rooted.covariance, weight, moments.common, rooted, rows, rooted.repairs, shape
        )

    def unknown(self, sums: Sums, columns: Columns) -> Array:
        """Single columns, and if they are all known, the directions of covariances that are not diagonal.

        If classes share a covariance, only the shared one must be known.
        """
        unknown = unknown_spreads({**sums, "xx": second_moments(sums)}, columns, lambda _: self.ridge + self.unit)
        n, size = np.where(sums["one"] > 0, sums["one"], 1.0), gross(sums)
        spread = np.where(sums["one"] > 0, second_moments(sums) - sums["x"] ** 2 / n, 0.0)
        shared = self.shape in ("EEE", "EEI", "EII")
        if shared:
            size, spread = size.sum(axis=0, keepdims=True), spread.sum(axis=0, keepdims=True)
            unknown &= spread <= RESIDUE * size
        if "xxyy" in sums:  # fourth powers lose twice as many digits
            unknown |= (spread > ROUNDING * size) & (spread <= RESIDUE**0.5 * size)
        if self.aligned or unknown.any():
            return unknown
        times = np.divide(size, spread, out=np.ones_like(size), where=spread > ROUNDING * size)
        free = np.maximum(
            sums["one"][:, 0] - 1.0, 0.0
        )  # with fewer degrees of freedom than columns a scatter is singular anyway
        for c in np.flatnonzero(times.max(axis=1, initial=1.0) > CANCELLATION_RATIO):
            if (free.sum() if shared else free[c]) < columns.size:
                continue
            scatter = central(sums)[slice(None) if shared else slice(c, c + 1)].sum(axis=0)
            live = np.flatnonzero(spread[c] > ROUNDING * size[c])
            unit = np.sqrt(spread[c, live])
            least = np.linalg.eigvalsh(scatter[np.ix_(live, live)] / np.outer(unit, unit))[0]
            if least <= RESIDUE * times[c].max():
                unknown[slice(None) if shared else c, int(np.argmax(times[c]))] = True
        return unknown

    def expect(self, params: MultivariateParams, columns: Columns) -> Sums:
        assert columns.pivot is not None
        offset = params.mean - columns.pivot
        one = np.ones((len(offset), 1))
        if params.roots is None:
            return {"one": one, "x": offset, "xx": params.covariance + offset**2}
        return {"one": one, "x": offset, "xy": params.covariance + offset[:, :, None] * offset[:, None, :]}

    def scorer(self, params: MultivariateParams, columns: Columns, relative: bool = False) -> Scorer:
        if params.roots is None:
            return Gaussian().scorer(self.columnwise(params), columns, relative)
        whole = Family.scorer(self, params, columns)
        if not relative or len(params.roots.root) > 1 or params.rows is not None:
            return whole
        # Classes that share a covariance have what is quadratic in x in common.
        centre, root = params.mean.mean(axis=0), params.roots.root[0]
        gap = params.mean - centre
        weights = gap @ root.T @ root
        affine = Affine(weights, -0.5 * (gap * weights).sum(axis=1), centre)

        def write(X: Matrix, start: Floats, out: Floats) -> None:
            if not affine.write(X, start, out):
                whole(X, start, out)

        return write

    def log_prob(self, params: MultivariateParams, columns: Columns, X: Matrix) -> Floats:
        if params.roots is None:
            return Gaussian().log_prob(self.columnwise(params), columns, X)
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        out = np.empty((X.shape[0], len(params.mean)))
        self._density(X, params.mean, params.roots, params, out)
        if np.isnan(out.sum()) and has_missing(X):  # a row with NaN has a NaN score: no separate pass over X
            for rows, present in patterns(X):
                out[rows] = 0.0
                if len(present):
                    part, part_out = self._marginal(params, present), np.empty((len(rows), len(params.mean)))
                    mine = np.ascontiguousarray(X[np.ix_(rows, present)])
                    self._density(mine, params.mean[:, present], part, params, part_out)
                    out[rows] = part_out
        return out

    def first_guess(self, columns: Columns, X: Matrix, shares: Floats) -> MultivariateParams:
        """The distribution as if columns were independent, from all values that are not missing: the start of EM."""
        present = ~np.isnan(X)
        centre = np.nanmean(np.where(present.any(axis=0), X, 0.0), axis=0)
        t = np.where(present, X - centre, 0.0)
        sums = {"one": shares.T @ present.astype(float), "x": shares.T @ t, "xx": shares.T @ t**2}
        aligned = MultivariateGaussian(covariance="diag", ridge=self.ridge)
        loose = aligned.estimate(sums, Columns(columns.size, pivot=np.tile(centre, (len(sums["x"]), 1))))
        covariance = loose.covariance[:, :, None] * np.eye(columns.size)
        common = np.diag(loose.covariance.mean(axis=0))
        return replace(
            loose, covariance=covariance, pooled=common, roots=roots(covariance, loose.weight, common, loose.mean)
        )

    def expected_sums(self, params: MultivariateParams, columns: Columns, X: Matrix, shares: Floats) -> Sums:
        """E[T] with missing values given the present ones: E[x] in their place, plus their conditional covariance."""
        assert columns.pivot is not None
        k, d = params.mean.shape
        sums = {"one": np.zeros((k, 1)), "x": np.zeros((k, d)), "xy": np.zeros((k, d, d))}
        higher = {name: np.zeros((k, d, d)) for name in ("xxy", "xxyy")} if self.sphere == "auto" else {}
        for rows, present in patterns(X):
            for c, missing, filled, conditional_covariance in self._missing_given_present(params, X[rows], present):
                w = np.ascontiguousarray(shares[rows, c])
                codes = np.zeros(len(rows), dtype=np.int32)
                mine = [array[c : c + 1] for array in sums.values()]
                kernel.class_scatter(filled, codes, w, np.ascontiguousarray(columns.pivot[c : c + 1]), *mine)
                covariance = np.zeros((d, d))
                covariance[np.ix_(missing, missing)] = conditional_covariance
                sums["xy"][c] += w.sum() * covariance
                if higher:
                    third, fourth = gaussian_moments(filled - columns.pivot[c], covariance, w)
                    higher["xxy"][c] += third
                    higher["xxyy"][c] += fourth
        return sums | higher

    def fill(self, params: MultivariateParams, X: Array, shares: Floats) -> Floats:
        """Rows with E[x] in place of missing values, averaged over the classes by `shares` (n, k)."""
        out = np.array(X, dtype=np.float64)
        for rows, present in patterns(X):
            guess = np.zeros((len(rows), out.shape[1]))
            for c, _, filled, _ in self._missing_given_present(params, X[rows], present):
                guess += shares[rows, c][:, None] * filled
            out[rows] = guess
        return out

    def _missing_given_present(
        self, params: MultivariateParams, X: Array, present: Array
    ) -> Iterator[tuple[int, Array, Floats, Floats]]:
        """For every class: the missing columns, the rows with E[x] in them, and their conditional covariance."""
        missing = np.setdiff1d(np.arange(X.shape[1]), present)
        part = self._marginal(params, present)
        for c in range(len(params.mean)):
            full = params.covariance[c if len(params.covariance) > 1 else 0]
            root = part.root[c if len(part.root) > 1 else 0]
            slope = full[np.ix_(missing, present)] @ root.T @ root  # Σ_mo Σ_oo⁻¹
            filled = np.empty(X.shape)
            filled[:, present] = X[:, present]
            filled[:, missing] = params.mean[c, missing] + (filled[:, present] - params.mean[c, present]) @ slope.T
            yield c, missing, filled, full[np.ix_(missing, missing)] - slope @ full[np.ix_(present, missing)]

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        if self.shape == "bic":  # the chosen shape is kept
            chosen = self.estimate(add_prior(sums, self.pseudo(alpha, columns, sums)), columns).shape
            fixed = replace(self, covariance=chosen, dense=True)
            return fixed.leave_one_out(sums, alpha, columns, X, y, weight)
        n, k = X.shape[0], len(sums["x"])
        out = np.full((n, k), np.nan)
        slow = np.ones(n, dtype=np.uint8)
        if self.downdates(alpha):
            self._downdated(sums, columns, X, y, weight, out, slow)
            slow[incomplete(X)] = 1
        for i in np.flatnonzero(slow):  # no downdate for these: an estimate from the sums without the row
            row = X[i : i + 1].toarray() if hasattr(X, "toarray") else X[i : i + 1]
            out[i] = log_prob_without(self, sums, alpha, columns, row, int(y[i]), 1.0 if weight is None else weight[i])
        return out

    def downdates(self, alpha: Array | float | str) -> bool:
        plain = isinstance(self.sphere, float | int) and self.shape in ("EEE", "VVV") and not self.aligned
        moved = self.unit or self.ridge or self.threshold or self.given is not None
        return plain and not moved and not isinstance(alpha, str) and not np.any(alpha)

    def _downdated(
        self, sums: Sums, columns: Columns, X: Array, y: Array, weight: Floats | None, out: Floats, slow: Array
    ) -> None:
        """Leave-one-out by rank-one downdates of every class's scatter, at about the cost of prediction.

        If columns repeat others, within the directions that are kept; not at all if a class was repaired.
        """
        moments, rooted = self.moments(sums, columns), self.estimate(sums, columns).roots
        assert rooted is not None
        repairs = rooted.repairs
        if not (moments.weight > 0).all() or repairs.helped or repairs.certain or rooted.rank == 0:
            return
        if rooted.kept is not None and self.sphere:  # the sphere applies before directions are left out
            return
        tie = 1.0 if self.shape == "EEE" else self.tie
        scatter, mean = self._tied_scatter(moments, tie), moments.mean
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        volume = rooted.volume
        if rooted.kept is not None:
            centre = mean.mean(axis=0)
            along = np.empty((len(X), rooted.rank))
            kernel.project(X, centre, np.ascontiguousarray(rooted.kept), along)
            X, mean = along, (mean - centre) @ rooted.kept.T
            scatter = rooted.kept @ scatter @ rooted.kept.T
        # The units of the sphere, or without one, units in which columns have similar variances.
        units = np.sqrt(np.diagonal(scatter.sum(axis=0))) if not self.sphere else np.ones(scatter.shape[1])
        if self.sphere and self.scale is not None:
            units = np.array(self.scale)
        volume += 2.0 * float(np.log(units).sum())
        spread, basis = np.linalg.eigh(scatter / np.outer(units, units))
        basis /= units[:, None]
        slow[:] = 0
        kernel.leave_one_out(
            X,
            np.ascontiguousarray(y, dtype=np.int32),
            weight,
            np.ascontiguousarray(moments.weight[:, 0]),
            np.ascontiguousarray(mean),
            np.ascontiguousarray(basis.transpose(0, 2, 1)),
            np.ascontiguousarray(spread),
            tie,
            float(self.sphere),
            self.unbiased,
            self.predictive,
            out,
            slow,
        )
        out -= 0.5 * volume

    def sample(
        self, params: MultivariateParams, columns: Columns, y: Array, rng: np.random.Generator, length: Array
    ) -> Floats:
        if params.roots is None:
            return Gaussian().sample(self.columnwise(params), columns, y, rng, length)
        noise = rng.standard_normal((len(y), columns.size))
        if params.rows is not None:
            dof = params.rows[y]
            noise *= np.sqrt((1.0 + 1.0 / params.weight[y]) * dof / rng.chisquare(dof))[:, None]
        spread, direction = np.linalg.eigh(params.covariance)
        wide = direction * np.sqrt(np.maximum(spread, 0.0))[:, None, :]
        out = np.empty((len(y), columns.size))
        for c in range(len(params.mean)):
            rows = np.flatnonzero(y == c)
            out[rows] = params.mean[c] + noise[rows] @ wide[c if len(wide) > 1 else 0].T
        return out

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        if self.aligned:
            return Gaussian().log_marginal(sums, prior, columns)
        d, n, kappa = columns.size, sums["one"][:, 0], prior["one"][:, 0]
        after = add_prior(sums, prior)
        with np.errstate(divide="ignore", invalid="ignore"):
            start, end = (np.linalg.slogdet(central(part))[1] for part in (prior, after))
            nu, last = kappa + d - 1.0, kappa + n + d - 1.0
            log_marginal = (
                -0.5 * n * d * np.log(np.pi)
                + 0.5 * d * np.log(kappa / (kappa + n))
                + np.array([multigammaln(0.5 * b, d) - multigammaln(0.5 * a, d) for a, b in zip(nu, last, strict=True)])
                + 0.5 * nu * start
                - 0.5 * last * end
            )
        return np.asarray(np.where((n > 0) & np.isfinite(log_marginal), log_marginal, 0.0))

    def terms(self, params: MultivariateParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        """−½(x−μ)ᵀΣ⁻¹(x−μ), split by column as −½(x_j−μ_j)[Σ⁻¹(x−μ)]_j: it adds up, whatever the order of columns.

        The evidence of correlated columns has no unique split; this one gives each column half of every joint term.
        """
        if params.roots is None:
            return Gaussian().terms(self.columnwise(params), columns, X)
        present, row, part = self._roots_of_row(params, X)
        gap = row - params.mean[:, present]
        whitened = np.einsum("cij,cj->ci", np.broadcast_to(part.root, (len(gap), *part.root.shape[1:])), gap)
        pull = np.einsum("cij,ci->cj", np.broadcast_to(part.root, (len(gap), *part.root.shape[1:])), whitened)
        shares = gap * pull  # (k, m)
        if params.rows is None:
            return present, -0.5 * shares.T
        _, scale, power = self._student(params, part)
        square = shares.sum(axis=1)
        sound = (square > 0) & np.isfinite(square)
        total = -power * np.log1p(scale * np.where(sound, square, 0.0))
        split = shares * (total / np.where(sound, square, 1.0))[:, None]
        return present, np.where(np.isinf(shares), -np.inf, np.where(sound[:, None], split, 0.0)).T

    def rest(self, params: MultivariateParams, columns: Columns, X: Matrix) -> tuple[str, Any, Floats] | None:
        """The normalising constant of each class: the wider a class, the lower its density at the mean."""
        del columns
        if params.roots is None:
            return None
        return "(spread of the class)", "", self._constant(params, self._roots_of_row(params, X)[2])

    def _roots_of_row(self, params: MultivariateParams, X: Array) -> tuple[Array, Floats, Roots]:
        """The columns of one row that are not missing, their values, and the distribution of these columns."""
        row = np.asarray(X, dtype=float).ravel()
        present = np.flatnonzero(~np.isnan(row))
        roots = params.roots
        if roots is None or len(present) < len(row):
            roots = self._marginal(params, present)
        return present, row[present], roots

    def typical(self, params: MultivariateParams, columns: Columns) -> tuple[list[str], Floats]:
        """The mean evidence of a value drawn from each class, for each column alone."""
        return Gaussian().typical(self.columnwise(params), columns)

    def table(self, params: MultivariateParams, columns: Columns) -> dict[str, Floats]:
        return Gaussian().table(self.columnwise(params), columns)

    def linear(self, params: MultivariateParams, columns: Columns) -> tuple[list[str], Floats, Floats]:
        """θ = Σ⁻¹μ_y and θ_0 = −½μ_yᵀΣ⁻¹μ_y, if Σ is shared (S11, S14), up to what all classes have in common."""
        names = [columns.name(j) for j in range(columns.size)]
        centre = params.mean.mean(axis=0)  # relative to it, so that columns far from zero lose few digits
        gap = params.mean - centre
        if params.roots is None:
            if not (params.covariance == params.covariance[:1]).all():
                raise TypeError(
                    "the model is not linear in x, because each class has its own variances: use a shared covariance"
                )
            weights = gap / params.covariance
        elif len(params.roots.root) > 1:
            raise TypeError(
                "the model is not linear in x, because each class has its own covariance: use covariance='tied'"
            )
        else:
            root = params.roots.root[0]
            weights = gap @ root.T @ root
        return names, weights, -0.5 * (gap * weights).sum(axis=1) - weights @ centre

    def term(self, params: MultivariateParams, columns: Columns, sketch: Sketch) -> Term:
        if params.roots is None:
            return Gaussian().term(self.columnwise(params), columns, sketch)
        from deciban.formula import AsIs, QuadraticForms

        coordinates = tuple(sketch.coordinate(AsIs(one)) for one in sketch.numbers(columns))
        k, scale, power = len(params.mean), None, None
        if params.rows is not None:
            _, scale, power = self._student(params, params.roots)
        constant, own = self._constant(params, params.roots), np.arange(k, dtype=np.int32)
        return QuadraticForms(coordinates, params.mean, params.roots.root, constant, own, np.zeros(k), scale, power)

    # ------------------------------------------------------------------ implementation

    def moments(self, sums: Sums, columns: Columns) -> ClassMoments:
        """Means, scatters about them, and the covariance common to all classes."""
        assert columns.pivot is not None
        one, d = sums["one"], columns.size
        seen = np.broadcast_to(one, sums["x"].shape)
        n = np.where(seen > 0, seen, 1.0)
        offset = sums["x"] / n
        diagonal = second_moments(sums)
        total, x, xx, noise, pivot = pooled_moments({**sums, "xx": diagonal}, columns)
        safe = np.where(total > 0, total, 1.0)
        overall = np.where(total > 0, pivot + x / safe, 0.0)
        spread = np.where(total > 0, spread_of(xx / safe, x / safe, noise / safe), 1.0)  # of all rows, by column
        mean = np.where(seen > 0, columns.pivot + offset, overall)
        rest = total - (np.asarray((one > 0).sum(axis=0)) if self.unbiased else 0.0)
        degrees = np.where(rest > 0, rest, 1.0)
        if self.aligned:
            scatter = np.where(diagonal - offset**2 * n <= ROUNDING * diagonal, 0.0, diagonal - offset**2 * n)
            within = scatter.sum(axis=0) / degrees
            return ClassMoments(np.asarray(one), mean, scatter, within, overall, spread, np.ones(len(mean)))
        scatter = sums["xy"] - n[..., None] * offset[:, :, None] * offset[:, None, :]
        still = np.diagonal(scatter, axis1=1, axis2=2) <= ROUNDING * diagonal
        if still.any():
            scatter = np.where(still[:, :, None] | still[:, None, :], 0.0, scatter)
        within = scatter.sum(axis=0) / degrees[:1, None] if d else np.zeros((d, d))
        left = np.diagonal(scatter, axis1=1, axis2=2)
        slack = np.where(left > 0, gross(sums) / np.where(left > 0, left, 1.0), 1.0).max(axis=1, initial=1.0)
        return ClassMoments(np.asarray(one), mean, scatter, within, overall, spread, slack)

    def units(self, sums: Sums, columns: Columns) -> tuple[float, ...]:
        """A unit for each column: its standard deviation within classes, or over all rows if that is 0, or 1."""
        moments = self.moments(sums, columns)
        within = moments.common if moments.common.ndim == 1 else np.diagonal(moments.common)
        variance = np.where(within > 0, within, np.where(moments.spread > 0, moments.spread, 1.0))
        return tuple(np.sqrt(variance).tolist())

    def _tied_scatter(self, moments: ClassMoments, tie: float) -> Floats:
        """(1 − tie)·W_c + tie·W, (k, d, d), or (1, d, d) if tie is 1."""
        if tie == 0.0:
            return moments.scatter
        whole = moments.scatter.sum(axis=0)
        return np.asarray(whole[None] if tie == 1.0 else (1.0 - tie) * moments.scatter + tie * whole)

    def covariances(self, moments: ClassMoments, sums: Sums) -> tuple[str, Floats]:
        """The shape in use and covariances (m, d, d), before singular ones are repaired."""
        n, shape = moments.weight[:, 0], self.shape
        k, d = moments.mean.shape
        if self.given is not None:
            return shape, np.array(self.given, dtype=np.float64).reshape(-1, d, d)
        if shape == "bic":
            usable = {name: shapes.bic(name, n, moments.scatter) for name in shapes.SHAPES if name != "unit"}
            shape = min(usable, key=lambda name: usable[name])
        if shape not in ("EEE", "VVV"):
            covariance = shapes.shape(shape, n, moments.scatter)
            return shape, self._rounded(covariance)
        tie = 1.0 if shape == "EEE" else self.tie
        scatter = self._tied_scatter(moments, tie)
        b = 1.0 if self.unbiased else 0.0
        own, everyone = n - b * (n > 0), float((n - b * (n > 0)).sum())
        degrees = np.array([everyone]) if tie == 1.0 else (1.0 - tie) * own + tie * everyone
        covariance = np.where(
            (degrees > 0)[:, None, None], scatter / np.where(degrees > 0, degrees, 1.0)[:, None, None], moments.common
        )
        if self.sphere == "auto":
            fourth = shapes.central_fourth(n, sums["x"], sums["xy"], sums["xxy"], sums["xxyy"])
            each = np.array(
                [
                    shapes.standardised_ledoit_wolf(n[c], moments.scatter[c], fourth[c]) if n[c] > 0 else moments.common
                    for c in range(k)
                ]
            )
            if tie == 1.0:
                share = n / n.sum() if n.any() else np.full(k, 1.0 / k)
                return shape, (share[:, None, None] * each).sum(axis=0)[None]
            return shape, each
        if self.sphere == "oas":
            weight = n.sum(keepdims=True) if tie == 1.0 else n
            return shape, np.array(
                [
                    shapes.shrink(s, shapes.oas_intensity(float(w), s * w)) if w > 0 else s
                    for s, w in zip(covariance, weight, strict=True)
                ]
            )
        return shape, self._rounded(covariance)

    def _rounded(self, covariance: Floats) -> Floats:
        """Covariances shrunk to a sphere by the number `sphere`."""
        if isinstance(self.sphere, str):
            raise TypeError(f"shrinkage {self.sphere!r} needs covariance 'full' or 'tied'")
        if not self.sphere:
            return covariance
        if self.scale is None:
            return np.asarray(shapes.shrink(covariance, float(self.sphere)))
        units = np.outer(self.scale, self.scale)
        return np.asarray(shapes.shrink(covariance / units, float(self.sphere)) * units)

    def _estimate_aligned(self, moments: ClassMoments) -> MultivariateParams:
        k, d = moments.mean.shape
        n = np.broadcast_to(moments.weight, (k, d))
        scatter, rows = moments.scatter, n.max(axis=1) if d else np.zeros(k)
        if self.shape in ("EEI", "EII", "unit") or self.unbiased:
            common = moments.common
            if self.shape == "EII":
                total = n.sum(axis=0)
                common = np.full(d, (common * total).sum() / total.sum() if total.any() else 1.0)
            variance = np.tile(np.ones(d) if self.shape == "unit" else common, (k, 1))
        else:
            # The scatter of a column with missing values is scaled up to all rows of the class.
            even = scatter * np.where(n > 0, rows[:, None] / np.where(n > 0, n, 1.0), 0.0)
            variance = shapes.diagonal_shape(self.shape, rows, even)
            if self.shape == "VII":  # the mean square of the values that are not missing
                values = n.sum(axis=1, keepdims=True)
                variance = np.where(
                    values > 0, scatter.sum(axis=1, keepdims=True) / np.where(values > 0, values, 1.0), variance
                )
            variance = np.where(n > 0, variance, moments.common) if self.shape == "VVI" else variance
        if self.sphere:
            if isinstance(self.sphere, str):
                raise TypeError(f"shrinkage {self.sphere!r} needs covariance 'full' or 'tied'")
            variance = (1.0 - self.sphere) * variance + self.sphere * variance.mean(axis=1, keepdims=True)
        variance = (1.0 - self.unit) * variance + self.unit + self.ridge
        mean = moments.mean
        if self.threshold:
            mean = self._shrunken(moments)
        variance, repairs = repair_variances(variance, rows, moments)
        return MultivariateParams(
            mean, variance, rows, moments.common, None, rows + 0.0 if self.predictive else None, repairs, self.shape
        )

    def _shrunken(self, moments: ClassMoments) -> Floats:
        """Means moved towards the overall mean by `threshold` of their standard errors (Tibshirani et al. 2002)."""
        n = np.broadcast_to(moments.weight, moments.mean.shape)
        total = n.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(1.0 / n - 1.0 / total)
            deviation = np.sqrt(moments.common)
            unit = error * (deviation + np.median(deviation))
            shift = (moments.mean - moments.overall) / unit
            kept = np.sign(shift) * np.maximum(np.abs(shift) - self.threshold, 0.0) * unit
        return np.asarray(np.where(np.isfinite(kept) & (n > 0), moments.overall + kept, moments.mean))

    def columnwise(self, params: MultivariateParams) -> GaussianParams:
        """The distribution of each column alone."""
        variance = params.covariance
        if params.roots is not None:
            variance = np.diagonal(variance, axis1=1, axis2=2)
            variance = np.broadcast_to(variance, params.mean.shape)
            variance = np.where(variance > 0, variance, 1.0)
            return GaussianParams(params.mean, variance, 0.0)
        rows = None if params.rows is None else np.broadcast_to(params.rows[:, None], params.mean.shape) + 0.0
        return GaussianParams(params.mean, variance, 0.0, rows)

    def _density(self, X: Array, mean: Floats, part: Roots, params: MultivariateParams, out: Floats) -> None:
        constant = self._constant(params, part)
        scale = power = None
        if params.rows is not None:
            _, scale, power = self._student(params, part)
        kernel.log_density(X, np.ascontiguousarray(mean), part.root, constant, scale, power, out)

    def _constant(self, params: MultivariateParams, part: Roots) -> Floats:
        """The log-density at the mean, by class."""
        if params.rows is not None:
            return self._student(params, part)[0]
        return np.ascontiguousarray(np.broadcast_to(-0.5 * (part.rank * LOG_2PI + part.log_det), len(params.mean)))

    def _student(self, params: MultivariateParams, part: Roots) -> tuple[Floats, Floats, Floats]:
        """constant, scale and power of constant − power·log(1 + scale·q): a new row's distribution, by class."""
        assert params.rows is not None
        dof, r = params.rows, part.rank
        spread = dof * (1.0 + 1.0 / np.where(params.weight > 0, params.weight, 1.0))
        log_det = np.broadcast_to(part.log_det, len(dof)) + r * np.log(spread)
        constant = gammaln(0.5 * (dof + r)) - gammaln(0.5 * dof) - 0.5 * (r * np.log(np.pi) + log_det)
        return np.ascontiguousarray(constant), 1.0 / spread, 0.5 * (dof + r)

    def _marginal(self, params: MultivariateParams, present: Array) -> Roots:
        """The marginal distribution of some of the columns."""
        at = np.ix_(present, present)
        covariance = np.ascontiguousarray(params.covariance[:, present[:, None], present])
        weight = params.weight if len(covariance) > 1 else params.weight.sum(keepdims=True)
        return roots(covariance, weight, params.pooled[at], params.mean[:, present])


@dataclass(frozen=True, slots=True, eq=False)
class ClassMoments:
    """Moments from the sums: weights, means and scatters by class; the common covariance, overall mean and variance."""

    weight: Floats  # (k, 1), or (k, d) where entries are missing
    mean: Floats  # (k, d)
    scatter: Floats  # (k, d, d), or (k, d)
    common: Floats  # (d, d), or (d,)
    overall: Floats  # (d,)
    spread: Floats  # (d,): the variance of each column over all rows
    slack: Floats  # (k,): how many times larger the sums are that the scatters are a difference of


def central(sums: Sums) -> Floats:
    """Σ(x − mean)(x − mean)ᵀ by class."""
    n = np.where(sums["one"] > 0, sums["one"], 1.0)[..., None]
    return np.asarray(sums["xy"] - sums["x"][:, :, None] * sums["x"][:, None, :] / n)


def repair_variances(variance: Floats, rows: Floats, moments: ClassMoments) -> tuple[Floats, Repairs]:
    """The axis-aligned form of `roots`: constant columns are ignored, classes without variance repaired."""
    flat = variance <= 0
    if not flat.any():
        return variance, Repairs()
    constant = tuple(int(j) for j in np.flatnonzero(moments.spread <= 0))
    certain = (moments.common <= 0) & (moments.spread > 0)
    common = np.where(moments.common > 0, moments.common, np.where(certain, 4.0 * ROUNDING_SHARE * moments.spread, 1.0))
    own = rows[:, None]
    helped = flat & ~certain & (moments.spread > 0)
    variance = np.where(helped, common / (own + 1.0), np.where(flat, common, variance))
    return variance, Repairs(
        constant, len(constant), int(certain.sum()), tuple(int(c) for c in np.flatnonzero(helped.any(axis=1)))
    )


def gaussian_moments(mean: Floats, covariance: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Σ w E[t²tᵀ] and Σ w E[t²(t²)ᵀ] of Gaussian rows t with these means (n, d) and one covariance."""
    squares = mean**2 + np.diagonal(covariance)
    weighted = weight[:, None] * mean
    third = (weight[:, None] * squares).T @ mean + 2.0 * covariance * weighted.sum(axis=0)[:, None]
    fourth = (weight[:, None] * squares).T @ squares + 4.0 * covariance * (weighted.T @ mean)
    return third, fourth + 2.0 * float(weight.sum()) * covariance**2


def patterns(X: Array) -> list[tuple[Array, Array]]:
    """Rows with missing values, grouped by which columns are present."""
    missing = np.isnan(X)
    rows = np.flatnonzero(missing.any(axis=1))
    packed = np.packbits(missing[rows], axis=1)
    _, which = np.unique(packed, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    cuts = np.flatnonzero(np.diff(which.ravel()[order])) + 1
    groups = np.split(rows[order], cuts) if len(rows) else []
    return [(group, np.flatnonzero(~missing[group[0]])) for group in groups]
