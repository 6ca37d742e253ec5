"""Closed forms of what `full_conformal` computes row by row, for blocks of new rows.

For most distributions, adding a row to a class changes the log-densities of that class only; and its log-density of a
learned row without itself follows from values computed once. If a closed form loses too many digits, or does not
apply, it returns NaN, and `full_conformal` computes the row directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deciban import collect
from deciban._kernel import conformal as kernel
from deciban._scipy import gammaln, issparse
from deciban._typing import Array, Codes, Data, Floats, Matrix, Sums
from deciban.algebra import add_prior
from deciban.families import Family, Gaussian, MultivariateGaussian
from deciban.families.gaussian import ROUNDING, pooled, spread_of
from deciban.joint import Model, log_class_prior_without
from deciban.schema import Columns

MIN_REMAINING_SHARE = 1e-6  # of a covariance once a row is left out: with less, digits are lost
MAX_SQUARED_DISTANCE = 1e10  # in standard deviations
MIN_EIGENVALUE = 1e-10  # of a correlation matrix, approximately, for which closed forms are accurate


class ClosedForm(Protocol):
    """Counts the learned rows that are at least as strange as new ones."""

    @property
    def size(self) -> int:
        """How many numbers it holds at a time for one new row."""

    def at_least(self, new: Data, limit: Floats, weight: Floats | None, by_class: bool) -> Floats:
        """The weight of rows that reach limit[t, y] with new row t in class y, (m, k)."""


class BlockUpdate(Protocol):
    """Log-densities of learned rows under a block of columns, once a new row is in the sums of a class."""

    @property
    def size(self) -> int:
        """How many numbers it holds at a time for one new row."""

    def log_prob_with_row(self, new: Matrix, c: int, own_only: bool) -> Floats:
        """log p(z | c) without row z and with each new row in c, (m, n); with `own_only`, of rows of c only."""


def closed_form(model: Model, data: Data, codes: Codes) -> ClosedForm | None:
    """The closed form of this model, or None."""
    blocks = model.joint.blocks
    if len(model.classes) < 2 or any(isinstance(block.alpha, str) for block in blocks):
        return None
    first = blocks[0].family
    if len(blocks) == 1 and isinstance(first, MultivariateGaussian) and first.shape == "EEE":
        return Tied.of(model, data[0], codes)
    gaussian_blocks = [b for b, block in enumerate(blocks) if isinstance(block.family, Gaussian)]
    if len(gaussian_blocks) > 1 or any(issparse(data[b]) for b in gaussian_blocks):
        return None
    updates: list[BlockUpdate] = []
    for b, (block, X) in enumerate(zip(blocks, data, strict=True)):
        if b in gaussian_blocks:
            continue
        if block.family.apart:
            updates.append(Apart(block.family, model.stats.sums[b], model.alpha(b), model.columns(b), X, codes))
        elif (quadratic := Quadratic.of(model, b, X, codes)) is not None:
            updates.append(quadratic)
        else:
            return None
    return ByClass.of(model, data, codes, gaussian_blocks, updates)


# ------------------------------------------------------------------ distributions in which a class depends only on its
# own rows


@dataclass(frozen=True, slots=True, eq=False)
class ByClass:
    """Blocks in which a new row changes its class only, and perhaps Gaussian columns, whose variance floor depends on
    all rows."""

    others: tuple[int, ...]  # blocks that are not Gaussian columns
    updates: tuple[BlockUpdate, ...]  # of these
    slots: Array  # (B, WIDTH): the row in each place of the tiles
    real: Array  # (B, WIDTH): whether it is a row or padding
    owner: Codes  # (B,)
    base: Floats  # (B, k, WIDTH)
    prior: Floats  # (k, k, k)
    normals: GaussianColumns

    @classmethod
    def of(
        cls, model: Model, data: Data, codes: Codes, gaussian_blocks: Sequence[int], updates: Sequence[BlockUpdate]
    ) -> ByClass | None:
        k = len(model.classes)
        others = tuple(b for b in range(len(data)) if b not in gaussian_blocks)
        base = np.zeros((len(codes), k))
        for b in others:
            family, columns = model.joint.blocks[b].family, model.columns(b)
            base += family.leave_one_out(model.stats.sums[b], model.alpha(b), columns, data[b], codes, None)
        if not np.isfinite(base).all():
            return None
        slots, real, owner = tiled(codes, k)
        normals = GaussianColumns.none(len(slots), k)
        if gaussian_blocks:
            b = gaussian_blocks[0]
            columns_form = GaussianColumns.of(model, b, data[b], slots)
            if columns_form is None:
                return None
            normals = columns_form
        base = np.ascontiguousarray(base[slots].transpose(0, 2, 1))
        return cls(others, tuple(updates), slots, real, owner, base, priors_with(model), normals)

    @property
    def size(self) -> int:
        return int(self.base.size) + sum(update.size for update in self.updates)

    def at_least(self, new: Data, limit: Floats, weight: Floats | None, by_class: bool) -> Floats:
        m, (tiles, k, width) = len(limit), self.base.shape
        log_prob = np.zeros((m, tiles, k, width))
        for b, update in zip(self.others, self.updates, strict=True):
            for c in range(k):
                part = update.log_prob_with_row(new[b], c, by_class)
                if by_class:
                    mine = self.owner == c
                    tiled_part = np.zeros((m, int(mine.sum()), width))
                    tiled_part[:, self.real[mine]] = part
                    log_prob[:, mine, c] += tiled_part
                else:
                    log_prob[:, :, c] += part[:, self.slots]
        mass = np.where(self.real, 1.0 if weight is None else weight[self.slots], 0.0)
        counts = np.empty((m, k))
        self.normals.at_least(new, self.owner, mass, self.base, log_prob, self.prior, limit, by_class, counts)
        return counts


def tiled(codes: Codes, k: int) -> tuple[Array, Array, Codes]:
    """Rows in tiles of one class each, (B, WIDTH), whether each is a row or padding, and the tiles' classes."""
    slots, real, owner = [], [], []
    for c in range(k):
        rows = np.flatnonzero(codes == c)
        spare = np.zeros(-len(rows) % kernel.WIDTH, dtype=np.intp)  # padding: any row
        slots.append(np.append(rows, spare))
        real.append(np.append(np.ones(len(rows), dtype=bool), spare.astype(bool)))
        owner += [c] * (len(slots[-1]) // kernel.WIDTH)
    shape = (-1, kernel.WIDTH)
    return np.concatenate(slots).reshape(shape), np.concatenate(real).reshape(shape), np.array(owner, dtype=np.int32)


def priors_with(model: Model) -> Floats:
    """log P(c) without a row of class `own` and with one more of class y, [y, own, c]."""
    k, class_prior, closed = len(model.classes), model.joint.class_prior, model.schema.closed
    priors = np.empty((k, k, k))
    for y in range(k):
        weight = model.stats.weight + (np.arange(k) == y)
        table, which = log_class_prior_without(class_prior, weight, np.arange(k), None, closed)
        priors[y] = table[which]
    if not model.generative:
        priors = np.where(np.isneginf(priors) & (model.stats.weight > 0) & (not closed), -np.inf, 0.0)
    return priors


# ------------------------------------------------------------------ Gaussian columns


@dataclass(frozen=True, slots=True, eq=False)
class GaussianColumns:
    """Independent Gaussian columns in units of their standard deviations: their sums, and the learned rows in tiles."""

    block: int
    tiles: Floats  # (B, d, WIDTH)
    gaps: Array  # (B,) whether an entry is missing
    centre: Floats  # (d,)
    scale: Floats  # (d,)
    class_sums: Floats  # (3, k, d): rows, means and scatters of the classes
    everything: Floats  # (3, 1, d): of all rows
    smoothing: float = 0.0
    kappa: float = 0.0

    @classmethod
    def none(cls, tiles: int, k: int) -> GaussianColumns:
        """No such columns."""
        empty_row = np.zeros(0)
        empty, flags = np.zeros((tiles, 0, kernel.WIDTH)), np.zeros(tiles, dtype=np.uint8)
        return cls(-1, empty, flags, empty_row, empty_row, np.zeros((3, k, 0)), np.zeros((3, 1, 0)))

    @classmethod
    def of(cls, model: Model, block: int, X: Array, slots: Array) -> GaussianColumns | None:
        """The columns of a block, if its parameters are plugged in and every class has two values of each."""
        family, sums, columns = model.joint.blocks[block].family, model.stats.sums[block], model.columns(block)
        assert isinstance(family, Gaussian)
        alpha, seen = np.unique(model.alpha(block)), np.broadcast_to(sums["one"], sums["x"].shape)
        fixed = family.guess_mean is not None or family.guess_variance is not None
        if family.predictive or len(alpha) > 1 or (alpha[0] > 0 and fixed) or (seen < 2.0).any():
            return None
        total, centre, variance = pooled(sums, columns)
        scale = np.where(variance > 0, np.sqrt(variance), 1.0)
        assert columns.pivot is not None
        offset, square = sums["x"] / seen, sums["xx"] / seen
        mean = (columns.pivot - centre + offset) / scale
        scatter = seen * spread_of(square, offset, ROUNDING * square) / scale**2
        class_sums = np.ascontiguousarray(np.stack([seen, mean, scatter]))
        everything = np.stack([total, np.zeros_like(total), total * variance / scale**2])[:, None]
        tiles = ((X - centre) / scale)[slots].transpose(0, 2, 1)
        gaps = np.asarray(np.isnan(tiles).any(axis=(1, 2)), dtype=np.uint8)
        return cls(
            block,
            np.ascontiguousarray(tiles),
            gaps,
            centre,
            scale,
            class_sums,
            everything,
            family.smoothing,
            float(alpha[0]),
        )

    def at_least(
        self,
        new: Data,
        owner: Codes,
        mass: Floats,
        base: Floats,
        log_prob: Floats,
        prior: Floats,
        limit: Floats,
        by_class: bool,
        counts: Floats,
    ) -> None:
        rows = np.zeros((len(limit), 0))
        if self.block >= 0:
            dense = new[self.block].toarray() if issparse(new[self.block]) else new[self.block]
            rows = np.ascontiguousarray((dense - self.centre) / self.scale)
        kernel.at_least(
            self.tiles,
            owner,
            self.gaps,
            mass,
            base,
            log_prob,
            rows,
            self.class_sums,
            self.everything,
            np.empty_like(self.class_sums),
            np.empty_like(self.everything),
            self.scale**2,
            self.smoothing,
            self.kappa,
            prior,
            np.ascontiguousarray(limit),
            by_class,
            counts,
        )


# ------------------------------------------------------------------ distributions of counts


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """A distribution whose classes are independent: a class with each of m new rows is computed as m classes."""

    family: Family
    sums: Sums
    alpha: Array | float
    columns: Columns
    rows: Matrix
    codes: Codes

    @property
    def size(self) -> int:
        return 4 * sum(int(array[0].size) for array in self.sums.values())

    def log_prob_with_row(self, new: Matrix, c: int, own_only: bool) -> Floats:
        m, family, columns = new.shape[0], self.family, self.columns
        labels = np.arange(m, dtype=np.int32)
        new_sums = collect.collect_block(family.measures(columns), columns, new, labels, None, m, 1)
        sums = {name: array[c] + new_sums[name] for name, array in self.sums.items()}
        alpha = np.asarray(self.alpha)
        own_alpha = alpha[c] if alpha.ndim == 2 else self.alpha
        own = np.flatnonzero(self.codes == c)
        left_out = family.without_each(sums, own_alpha, columns, self.rows[own]).T
        if own_only:
            return left_out
        out = family.log_prob(
            family.estimate(add_prior(sums, family.pseudo(own_alpha, columns, sums)), columns), columns, self.rows
        ).T
        out[:, own] = left_out
        return out


# ------------------------------------------------------------------ covariances


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """A covariance for every class: adding a row and leaving one out changes it by rank two (Sherman–Morrison)."""

    rows: Floats  # (k,)
    mean: Floats  # (k, d)
    root: Floats  # (k, d, d)
    log_det: Floats  # (k,)
    predictive: bool
    white: tuple[Floats, ...]  # by class: all learned rows about its mean, whitened by its covariance
    own: tuple[Array, ...]  # by class: its rows

    @property
    def size(self) -> int:
        return 4 * len(self.white[0])

    @classmethod
    def of(cls, model: Model, block: int, X: Array, codes: Codes) -> Quadratic | None:
        family, alpha = model.joint.blocks[block].family, model.alpha(block)
        if not isinstance(family, MultivariateGaussian) or family.shape != "VVV" or family.tie or family.sphere:
            return None
        coordinates = round_coordinates(model, block) if family.downdates(alpha) and not family.unbiased else None
        if coordinates is None:
            return None
        mean, root, log_det = coordinates
        white = tuple((X - m) @ r.T for m, r in zip(mean, root, strict=True))
        own = tuple(np.flatnonzero(codes == c) for c in range(len(mean)))
        return cls(model.stats.weight, mean, root, log_det, family.predictive, white, own)

    def log_prob_with_row(self, new: Matrix, c: int, own_only: bool) -> Floats:
        """With u = x − μ and e = z − μ'', μ'' the mean with x: Σ'' = n/(n+1)·(I + uuᵀ/(n+1)), and without z as well
        Σ' = I + uuᵀ/(n+1) − (n+1)/n²·eeᵀ, all in the coordinates of the class."""
        n, own = float(self.rows[c]), self.own[c]
        white = self.white[c][own] if own_only else self.white[c]
        u = (new - self.mean[c]) @ self.root[c].T
        along, length = u @ white.T, (u**2).sum(axis=1)[:, None]
        across = along - length / (n + 1.0)  # e·u
        form = (white**2).sum(axis=1) - 2.0 * along / (n + 1.0) + length / (n + 1.0) ** 2
        form -= across**2 / (n + 1.0 + length)  # eᵀ(I + uuᵀ/(n+1))⁻¹e
        grown = self.log_det[c] + np.log1p(length / (n + 1.0))
        own_rows = slice(None) if own_only else own
        f = (n + 1.0) / n**2
        rest = 1.0 - f * form[:, own_rows]
        rest = np.where(rest > MIN_REMAINING_SHARE, rest, np.nan)
        without = density(
            ((n + 1.0) / n) ** 2 * form[:, own_rows] / rest, grown + np.log(rest), n, n, u.shape[1], self.predictive
        )
        if own_only:
            return without
        shrunk = grown + u.shape[1] * np.log(n / (n + 1.0))
        out = density((n + 1.0) / n * form, shrunk, n + 1.0, n + 1.0, u.shape[1], self.predictive)
        out[:, own] = without
        return out


def round_coordinates(model: Model, block: int) -> tuple[Floats, Floats, Floats] | None:
    """Means, roots and log-determinants of a Gaussian block; None if a covariance is singular or nearly so."""
    params = model.params[block]
    roots = params.roots
    if roots is None or roots.repairs or (model.stats.weight < 2.0).any():
        return None
    deviation = np.sqrt(np.diagonal(roots.covariance, axis1=1, axis2=2))
    if not (1.0 > MIN_EIGENVALUE * ((roots.root * deviation[:, None, :]) ** 2).sum(axis=(1, 2))).all():
        return None
    return params.mean, roots.root, roots.log_det


def density(
    form: Floats, log_det: Floats | float, dof: float, weight: Floats | float, d: int, predictive: bool
) -> Floats:
    """The log-density at a squared distance, as in `MultivariateGaussian`: Gaussian, or Student-t."""
    if not predictive:
        return np.asarray(-0.5 * (d * np.log(2.0 * np.pi) + log_det + form))
    spread = dof * (1.0 + 1.0 / weight)
    constant = gammaln(0.5 * (dof + d)) - gammaln(0.5 * dof) - 0.5 * (d * np.log(np.pi * spread) + log_det)
    return np.asarray(constant - 0.5 * (dof + d) * np.log1p(form / spread))


@dataclass(frozen=True, slots=True, eq=False)
class Tied:
    """One covariance for all classes: adding a row and leaving one out changes it by rank two, for every class."""

    rows: Floats  # (k,)
    codes: Codes
    centre: Floats  # (d,)
    root: Floats  # (d, d): to whitened coordinates, which everything below is in
    mean: Floats  # (k, d)
    own: Floats  # (n, d): learned rows, less the mean of their class
    squares: Floats  # (n, k): their squared distances from the means
    offsets: Floats  # (n, k): (z − μ_c)·(z − μ_own)
    prior: Floats  # (k, k, k)
    predictive: bool

    @classmethod
    def of(cls, model: Model, X: Array, codes: Codes) -> Tied | None:
        family = model.joint.blocks[0].family
        assert isinstance(family, MultivariateGaussian)
        if family.sphere or family.unbiased or not family.downdates(model.alpha()):
            return None
        coordinates = round_coordinates(model, 0)
        if coordinates is None:
            return None
        centre, root = coordinates[0].mean(axis=0), coordinates[1][0]
        points, mean = (X - centre) @ root.T, (coordinates[0] - centre) @ root.T
        if (mean**2).sum(axis=1).max() > MAX_SQUARED_DISTANCE:
            return None
        own = points - mean[codes]
        squares = np.stack([((points - m) ** 2).sum(axis=1) for m in mean], axis=1)
        offsets = np.stack([((points - m) * own).sum(axis=1) for m in mean], axis=1)
        prior = priors_with(model)
        return cls(model.stats.weight, codes, centre, root, mean, own, squares, offsets, prior, family.predictive)

    @property
    def size(self) -> int:
        return len(self.own) + len(self.mean) ** 2

    def at_least(self, new: Data, limit: Floats, weight: Floats | None, by_class: bool) -> Floats:
        x, total, counts = (new[0] - self.centre) @ self.root.T, float(self.rows.sum()), np.empty(limit.shape)
        gap = x[:, None] - self.mean  # (m, k, d)
        kernel.tied_at_least(
            x @ self.own.T,
            self.own @ self.mean.T,
            gap @ self.mean.T,
            (gap**2).sum(axis=2),
            self.squares,
            self.offsets,
            self.codes,
            weight,
            self.rows,
            total,
            0.5 * (total + x.shape[1]) if self.predictive else 0.0,
            MIN_REMAINING_SHARE,
            self.prior,
            np.ascontiguousarray(limit),
            by_class,
            counts,
        )
        counts[(x**2).sum(axis=1) > MAX_SQUARED_DISTANCE] = np.nan  # so far from the centre, products lose digits
        return counts
