"""Regularised Gaussians over parts: the classes themselves, or the pieces of each class (a mixture without EM).

    Σ₀ = (1−g) S_w/N + g·D,   Σ_p = (S_p + κ Σ₀)/(n_p + κ),   p(x | part) = Student-t_ν(μ_p, Σ_p)

D is a fixed diagonal, κ = ∞ gives every part Σ₀, ν = ∞ is the normal distribution. Leaving a row out is a rank-one
change of S_p and S_w, so its density under every part follows exactly from two quadratic forms (Sherman–Morrison). In
the axes where S_p and Σ₀ are both diagonal, the forms for every κ are weighted sums of the same squares.

If a column's value was never seen, its coordinates are missing: the marginal distribution of the others is used, which
has fewer rows and columns of Σ_p.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from deciban._kernel import marginals
from deciban._kernel import scatter as kernel
from deciban._typing import Array, Codes, Floats
from deciban.bayes import log_evidence
from deciban.errors import FileError
from deciban.measure import RESIDUE, is_scatter
from deciban.reading.columns import Levels, Numbers
from deciban.storage.arrays import CheckedArrays, positive
from deciban.tables.encode import MAX_DEVIATIONS, UNSEEN, Cuts, EncodedRows, Encoding
from deciban.tables.experts.base import MAX_EVIDENCE_NATS, Expert, pseudo_rows
from deciban.tables.experts.columns import ROUNDING_ROWS

if TYPE_CHECKING:
    from deciban.formula import Absent, Sketch, Term

LEANS = (0.1, 0.5, 2.0, 8.0, np.inf)
DIAGONALS = (0.01, 0.1, 0.4)
TAILS = (4.0, 20.0, np.inf)
MIN_PIECE_ROWS = 12  # in a piece of a class, or as many as there are coordinates


@dataclass(frozen=True, slots=True)
class Shape:
    """How far a part's covariance shrinks to the common one (κ), that to its diagonal, and the tails."""

    lean: float  # κ/D; inf: one covariance for all
    diagonal: float  # g
    tails: float  # ν
    limit: float = MAX_EVIDENCE_NATS  # see `Expert.limit`

    def __str__(self) -> str:
        own = "one covariance"
        if not np.isinf(self.lean):
            own = f"own covariances + {pseudo_rows(self.lean)} a column"
        tails = "" if np.isinf(self.tails) else f", heavy tails (t, {self.tails:g} degrees)"
        return f"{own}, {self.diagonal:.0%} diagonal{tails}".replace("%", " %")


# These suit most tables of few rows.
DEFAULT_SHAPE, DEFAULT_SHAPE_OF_PIECES = Shape(np.inf, 0.1, 20.0), Shape(8.0, 0.1, 20.0)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """How each class is cut: repeatedly through a piece's mean, perpendicular to an axis that all classes share."""

    owner: Codes  # (p,) each piece's class
    first: Codes  # (k,) where each class begins: a cut ≥ 0, or −1 − piece
    axis: Floats  # (cuts, D)
    at: Floats  # (cuts,)
    sides: Codes  # (cuts, 2) where each side goes: a cut, or −1 − piece

    @classmethod
    def whole(cls, k: int, D: int) -> Pieces:
        """Every class in one piece."""
        each = np.arange(k, dtype=np.int32)
        return cls(each, -1 - each, np.zeros((0, D)), np.zeros(0), np.zeros((0, 2), dtype=np.int32))

    def of(self, X: Floats, y: Codes) -> Codes:
        """The piece of every row, given its class."""
        where = self.first[y]
        while True:
            open_ = np.flatnonzero(where >= 0)
            if not len(open_):
                return -1 - where
            cut = where[open_]
            beyond = np.einsum("nd,nd->n", X[open_], self.axis[cut]) > self.at[cut]
            where[open_] = self.sides[cut, beyond.astype(np.intp)]

    def in_classes(self, where: Array, k: int) -> Pieces:
        """With other classes added, each in one piece."""
        new = np.setdiff1d(np.arange(k), where)
        first = np.empty(k, dtype=np.int32)
        first[where] = self.first
        first[new] = -1 - (len(self.owner) + np.arange(len(new)))
        owner = np.concatenate([where[self.owner], new]).astype(np.int32)
        return replace(self, owner=owner, first=first)


def cut_classes(X: Floats, y: Codes, k: int, max_pieces: int, known: dict[str, Floats] | None = None) -> Pieces:
    """Each class in up to `max_pieces` pieces, none with fewer rows than coordinates (or MIN_PIECE_ROWS).

    `known` keeps the axes, by the sides of the cuts before, for more pieces of the same rows.

    All classes are cut along the same axes, each through its own mean. With axes of its own, a class would be cut where
    its learned rows happen to differ most. A row that is left out has still helped to choose them, for its own class
    alone, and so rows without any information would seem to have some.
    """
    D = X.shape[1]
    least = max(MIN_PIECE_ROWS, D)
    owner: list[int] = []
    axes: list[Floats] = []
    at: list[float] = []
    sides: list[list[int]] = []
    first = [0] * k
    # Parts that are cut along the same axis: each with its class, its rows, and where to note what becomes of it.
    waiting = [(max_pieces, "", [(c, np.flatnonzero(y == c), first, c) for c in range(k)])]
    known = {} if known is None else known
    while waiting:
        most, path, parts = waiting.pop()
        cut = [most > 1 and len(rows) >= 2 * least for _, rows, _, _ in parts]
        if any(cut) and path not in known:
            known[path] = longest_axis([X[rows] for _, rows, _, _ in parts])
        axis = known[path] if any(cut) else np.zeros(D)
        low, high = [], []
        for (c, rows, note, i), can_be in zip(parts, cut, strict=True):
            along = X[rows] @ axis if can_be else np.zeros(len(rows))
            middle = along.mean() if can_be else 0.0
            beyond = along > middle
            if least <= beyond.sum() <= len(rows) - least:
                note[i] = len(axes)
                axes.append(axis)
                at.append(float(middle))
                sides.append([0, 0])
                low.append((c, rows[~beyond], sides[-1], 0))
                high.append((c, rows[beyond], sides[-1], 1))
            else:
                owner.append(c)
                note[i] = -len(owner)
        waiting += [(most // 2, path + side, half) for side, half in (("0", low), ("1", high)) if half]
    return Pieces(
        np.array(owner, dtype=np.int32),
        np.array(first, dtype=np.int32),
        np.array(axes).reshape(len(axes), D),
        np.array(at),
        np.array(sides, dtype=np.int32).reshape(len(sides), 2),
    )


def longest_axis(parts: Sequence[Floats]) -> Floats:
    """The direction in which rows differ most from the means of their parts."""
    from scipy.linalg import eigh

    D = parts[0].shape[1]
    scatter = np.zeros((D, D))
    for rows in parts:
        if len(rows):
            Z = rows - rows.mean(axis=0)
            scatter += Z.T @ Z
    return np.asarray(eigh(scatter, subset_by_index=[D - 1, D - 1], check_finite=False)[1][:, 0])


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """n, Σx and Σxxᵀ by part. Coordinates lie about zero, so that zero is their pivot."""

    one: Floats  # (p,)
    x: Floats  # (p, D)
    xy: Floats  # (p, D, D)

    @classmethod
    def of(cls, X: Floats, part: Codes, weight: Floats | None, parts: int) -> Moments:
        D = X.shape[1]
        one, x, xy = np.zeros((parts, 1)), np.zeros((parts, D)), np.zeros((parts, D, D))
        kernel.class_scatter(X, part, weight, np.zeros((parts, D)), one, x, xy)
        return cls(one[:, 0], x, xy)

    def plus(self, other: Moments, sign: float = 1.0) -> Moments:
        one = self.one + sign * other.one
        is_empty = np.abs(one) <= RESIDUE * self.one  # only rounding residue
        x, xy = self.x + sign * other.x, self.xy + sign * other.xy
        one[is_empty], x[is_empty], xy[is_empty] = 0.0, 0.0, 0.0
        return Moments(one, x, xy)

    def centred(self) -> tuple[Floats, Floats]:
        """Means, and scatters about them."""
        mean = self.x / np.where(self.one > 0, self.one, 1.0)[:, None]
        return mean, self.xy - self.x[:, :, None] * mean[:, None, :]


def shrunk(scatter: Floats, rows: float, diagonal: float, target: Floats) -> Floats:
    """The common covariance Σ₀ of a scatter of so many rows, shrunk to a diagonal."""
    sigma = scatter * ((1.0 - diagonal) / rows)
    sigma[np.diag_indices(len(sigma))] += diagonal * target
    return np.asarray(sigma)


class Axes:
    """Learned rows in the axes of each part: what leaving each out has in common for every κ, at one g.

    `own` is the part of each row, `row_weight` the weight of every row.
    """

    def __init__(
        self, X: Floats, moments: Moments, diagonal: float, target: Floats, own: Codes, row_weight: float = 1.0
    ) -> None:
        from scipy.linalg import solve_triangular

        self.moments, self.diagonal, self.own = moments, diagonal, own
        self.row_weight = row_weight
        self.mean, scatters = moments.centred()
        self.D = X.shape[1]
        self.total = max(float(moments.one.sum()) - self.row_weight, 1.0)
        base = shrunk(scatters.sum(axis=0), self.total, diagonal, target)
        root = np.linalg.cholesky(base)
        self.base_det = 2.0 * float(np.log(np.diagonal(root)).sum())
        inverse_root = solve_triangular(root, np.eye(self.D), lower=True, check_finite=False)
        self.X = X @ inverse_root.T
        self.means = self.mean @ inverse_root.T
        self.scatters = inverse_root @ scatters @ inverse_root.T
        self.rate = (1.0 - diagonal) / self.total

    def forms(self, leans: Sequence[float]) -> list[tuple[Floats, Floats]]:
        """For each lean, without the row: quadratic forms, and log-determinants of Σ, (n, p) each."""
        out: list[tuple[Floats, Floats]] = [(np.empty(0), np.empty(0))] * len(leans)
        common = [i for i, lean in enumerate(leans) if np.isinf(lean)]
        others = [i for i, lean in enumerate(leans) if not np.isinf(lean)]
        how = self.moments.one, self.own, self.row_weight, self.rate
        if common:
            by = np.ones((len(self.means), 1, self.D))
            (out[common[0]],) = rows_left_out(self.X, self.means, None, by, [np.inf], *how, self.base_det)
        if others:
            spread, axes = np.linalg.eigh(self.scatters)
            kappas = [leans[i] * self.D for i in others]
            by = 1.0 / (np.maximum(spread, 0.0)[:, None] + np.array(kappas)[:, None])
            found = rows_left_out(self.X, self.means, axes, by, kappas, *how, self.base_det)
            for i, one in zip(others, found, strict=True):
                out[i] = one
        return out


def side_by_side(arrays: Array, parts: int) -> Array:
    """Arrays of parts as `marginals` reads them: groups of them, with their numbers side by side."""
    wide = marginals.WIDTH
    which = np.minimum(np.arange(-(-parts // wide) * wide), parts - 1)  # past the last part, that one again
    some = arrays[which % len(arrays)].reshape(-1, wide, *arrays.shape[1:])
    return np.ascontiguousarray(np.moveaxis(some, 1, -1))


def rows_left_out(
    X: Floats, means: Floats, axes: Floats | None, by: Floats, kappas: Sequence[float], one: Floats, own: Codes,
    row_weight: float, rate: float, base_det: float, triangular: bool = False,
) -> list[tuple[Floats, Floats]]:  # fmt: skip
    """What `Axes.forms` returns, given the axes (p, D, D) in which A_p = S_p + κΣ₀ is diagonal and what A_p⁻¹ is along
    them, `by` (p, leans, D); `base_det` is log |A_p| less the logarithms of that. `triangular` axes are 0 above the
    diagonal.

    With z = x − μ_own, leaving a row out takes a multiple of zzᵀ from A_p, and moves the mean of its own part. By the
    Sherman–Morrison formula, three products under A_p⁻¹ are all that is needed of a row: x − μ_p with itself, with z,
    and z with itself.
    """
    (P, D), n, common = means.shape, len(X), np.isinf(kappas[0])
    before = one[own]
    after = before - row_weight
    after[after <= RESIDUE * before] = 0.0  # a part of this row alone is empty without it
    grown = np.divide(before, after, out=np.zeros(n), where=after > 0)
    strength = np.zeros(1) if common else np.array(kappas)
    shared, own_share = rate * np.where(common, 1.0, strength), 0.0 if common else 1.0
    whole = base_det - np.log(by).sum(axis=2)  # (P, leans) log-determinants of A
    if common:
        count, own_count = np.ones((P, 1)), np.ones((1, n))
    else:
        count, own_count = one[:, None] + strength, after + strength[:, None]
    q, log_det = np.empty((len(strength), n, P)), np.empty((len(strength), n, P))
    marginals.forms_without(
        X, means, own, axes, triangular, by, shared, own_share, RESIDUE, row_weight * grown, grown, count,
        whole - D * np.log(count), own_count, whole[own].T - D * np.log(own_count), q, log_det,
    )  # fmt: skip
    return list(zip(q, log_det, strict=True))


def forms_without(
    X: Floats, moments: Moments, shape: Shape, target: Floats, own: Codes, row_weight: float
) -> tuple[Floats, Floats]:
    """What `Axes.forms` returns for one shape, of rows of one weight and these parts."""
    mean, scatters = moments.centred()
    P, D = mean.shape
    total = max(float(moments.one.sum()) - row_weight, 1.0)
    rate = (1.0 - shape.diagonal) / total
    base = shrunk(scatters.sum(axis=0), total, shape.diagonal, target)
    how = moments.one, own, row_weight, rate
    if np.isinf(shape.lean):
        root = np.linalg.cholesky(np.linalg.inv(base))
        log_det = -2.0 * float(np.log(np.diagonal(root)).sum())
        return rows_left_out(X @ root, mean @ root, None, np.ones((P, 1, D)), [np.inf], *how, log_det)[0]
    kappa = shape.lean * D
    roots = np.linalg.cholesky(np.linalg.inv(scatters + kappa * base))
    by = np.diagonal(roots, axis1=1, axis2=2)[:, None] ** 2
    return rows_left_out(X, mean, roots / np.sqrt(by), by, [kappa], *how, 0.0, True)[0]


def density(q: Floats, log_det: Floats, tails: float, D: int) -> Floats:
    """log p(x | part) without the constant (2π)^(−D/2), (n, p); log_det is (n, p), or (1, p) for all rows."""
    constant, out = 0.0, np.empty(q.shape)
    if not np.isinf(tails):
        constant = math.lgamma((tails + D) / 2) - math.lgamma(tails / 2) - 0.5 * D * np.log(tails / 2)
    marginals.densities(np.ascontiguousarray(q), np.ascontiguousarray(log_det), tails, D, constant, out)
    return out


def log_shares(one: Floats, owner: Codes, k: int) -> Floats:
    """log n_p/n_y of every part, (p,); −∞ if it has no rows."""
    total = np.bincount(owner, one, minlength=k)[owner]
    return np.log(
        np.divide(one, total, out=np.zeros(len(one)), where=one > 0), out=np.full(len(one), -np.inf), where=one > 0
    )


class SharesWithout(NamedTuple):
    """log n_p/n_y of every part, and how it changes if a row is left out."""

    log_share: Floats  # (p,) with all rows
    own: Codes  # (n,) the part of each row
    own_share: Floats  # (n,) that of its part without the row,
    shift: Floats  # (n,) and what is added to those of the other parts of its class


def log_shares_without(one: Floats, owner: Codes, k: int, own: Codes, row_weight: float) -> SharesWithout:
    """The same without each row."""
    count = one - row_weight
    count[count <= RESIDUE * one] = 0.0
    before = np.bincount(owner, one, minlength=k)[owner]
    after = before - one + count  # by part, if the row is one of it
    some, other = count > 0, after > 0
    own_share = np.log(np.where(some, count, 1.0) / np.where(some, after, 1.0))
    shift = np.log(np.where(other, before, 1.0) / np.where(other, after, 1.0))
    return SharesWithout(log_shares(one, owner, k), own, np.where(some, own_share, -np.inf)[own], shift[own])


def by_class(log_density: Floats, shares: Floats | SharesWithout, owner: Codes, k: int) -> Floats:
    """log Σ_p (n_p/n_y) p(x | part) for every class, (n, k); −∞ if no part has rows."""
    log_share, own, own_share, shift = shares if isinstance(shares, SharesWithout) else (shares, None, None, None)
    if len(owner) == k and (owner[1:] > owner[:-1]).all():  # every class in one part
        out = log_density + log_share
        if own is not None and own_share is not None:
            alone = np.flatnonzero(np.isinf(own_share))
            out[alone, own[alone]] = -np.inf
        return np.asarray(out)
    out = np.empty((len(log_density), k))
    marginals.by_class(np.ascontiguousarray(log_density), log_share, owner, own, own_share, shift, out)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Gaussians(Expert):
    """Regularised Gaussians on the coordinates (`view`: "real", or "scores")."""

    view: str
    shape: Shape
    pieces: Pieces
    target: Floats  # (D,) the diagonal D
    moments: Moments
    owner: Array  # (D,) the column of each coordinate
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    name: ClassVar[str] = "gaussians"
    changing: ClassVar[tuple[str, ...]] = ("one", "x", "xy", "owner", "first")

    @property
    def k(self) -> int:
        return len(self.pieces.first)

    @property
    def coordinates(self) -> str:
        return self.view

    @property
    def kind(self) -> str:
        return "pieces" if len(self.pieces.owner) > self.k else self.view

    @property
    def is_default(self) -> bool:
        usual, mine = DEFAULT_SHAPE_OF_PIECES if self.kind == "pieces" else DEFAULT_SHAPE, self.shape
        return (mine.lean, mine.diagonal, mine.tails) == (usual.lean, usual.diagonal, usual.tails)

    @property
    def limit(self) -> float:
        return self.shape.limit

    @property
    def settings(self) -> str:
        what = "numbers" if self.view == "real" else "normal scores"
        parts = len(self.pieces.owner)
        return f"{what}, {self.shape}" + (f", {parts} pieces" if parts > self.k else "")

    def _rows(self, rows: EncodedRows) -> Floats:
        return rows.real if self.view == "real" else rows.scores

    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Gaussians:
        X = self._rows(rows)
        part = self.pieces.of(X, y)
        return replace(self, moments=self.moments.plus(Moments.of(X, part, weight, len(self.pieces.owner))))

    def plus(self, other: Gaussians, sign: float = 1.0) -> Gaussians:
        return replace(self, moments=self.moments.plus(other.moments, sign))

    def scaled(self, factor: float) -> Gaussians:
        m = self.moments
        return replace(self, moments=Moments(m.one * factor, m.x * factor, m.xy * factor))

    def in_classes(self, where: Array, k: int) -> Gaussians:
        pieces = self.pieces.in_classes(where, k)
        new = len(pieces.owner) - len(self.pieces.owner)
        m, D = self.moments, self.moments.x.shape[1]
        moments = Moments(
            np.append(m.one, np.zeros(new)),
            np.vstack([m.x, np.zeros((new, D))]),
            np.concatenate([m.xy, np.zeros((new, D, D))]),
        )
        return replace(self, pieces=pieces, moments=moments)

    def is_valid(self) -> bool:
        m = self.moments
        if (m.one < -ROUNDING_ROWS).any():
            return False
        mean, scatter = m.centred()
        spread, raw = np.diagonal(scatter, axis1=1, axis2=2), np.diagonal(m.xy, axis1=1, axis2=2)
        if (spread < -ROUNDING_ROWS * (1.0 + np.abs(raw))).any() or (
            np.abs(mean) > MAX_DEVIATIONS * (1.0 + ROUNDING_ROWS)
        ).any():
            return False
        try:
            self._factors()
        except np.linalg.LinAlgError:
            return False
        return True

    def _covariances(self) -> tuple[Floats, Floats]:
        """Means, and Σ by part (one, if it is common)."""
        mean, S = self.moments.centred()
        D, shape = mean.shape[1], self.shape
        total = max(float(self.moments.one.sum()), 1.0)
        base = shrunk(S.sum(axis=0), total, shape.diagonal, self.target)
        if np.isinf(shape.lean):
            return mean, base[None]
        kappa = shape.lean * D
        return mean, (S + kappa * base) / (self.moments.one + kappa)[:, None, None]

    def _factors(self) -> tuple[Floats, Floats, Floats]:
        """Means, upper triangular roots of Σ⁻¹ (one, if it is common), and log-determinants of Σ."""
        if "ready" not in self._cache:
            mean, sigma = self._covariances()
            roots = np.ascontiguousarray(np.linalg.cholesky(np.linalg.inv(sigma)).transpose(0, 2, 1))
            log_det = -2.0 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
            log_det = np.broadcast_to(log_det, len(mean)).copy()
            self._cache["ready"] = (mean, roots, log_det)
        return self._cache["ready"]  # type: ignore[no-any-return]  # put there above

    def _grouped_covariances(self) -> tuple[Floats, Floats, Floats]:
        """Means, Σ and Σ⁻¹ as the kernel reads them, some parts side by side; needed only if columns are missing."""
        if "side by side" not in self._cache:
            mean, sigma = self._covariances()
            arrays = mean, sigma, np.linalg.inv(sigma)
            self._cache["side by side"] = tuple(side_by_side(one, len(mean)) for one in arrays)
        return self._cache["side by side"]  # type: ignore[no-any-return]  # put there above

    def _present_patterns(self, rows: EncodedRows) -> tuple[Array, Array]:
        """Which coordinates are present, (patterns, D), and each row's pattern.

        Those of a column are missing if its value was never seen when bins and categories were chosen: nothing is
        known about such a value, so the distribution of the other coordinates is used.
        """
        never = rows.small == UNSEEN
        if not (never.any() and len(self.owner)):
            return np.ones((1, len(self.owner)), dtype=bool), np.zeros(len(rows), dtype=np.intp)
        is_missing = np.ascontiguousarray(never[:, self.owner])
        bits = np.packbits(is_missing, axis=1)
        _, first, which = np.unique(bits.view(f"V{bits.shape[1]}").ravel(), return_index=True, return_inverse=True)
        return ~is_missing[first], which

    def marginal(self, present: Array) -> Gaussians:
        """The marginal distribution of the coordinates that are `present`, (D,)."""
        if present.all():
            return self
        m, D = self.moments, len(self.target)
        return replace(
            self,
            shape=replace(
                self.shape, lean=self.shape.lean * D / max(1, present.sum())
            ),  # the same κ as with all of them
            target=self.target[present],
            moments=Moments(m.one, np.ascontiguousarray(m.x[:, present]), m.xy[:, present][:, :, present]),
            owner=self.owner[present],
        )

    def evidence(self, rows: EncodedRows) -> Floats:
        X = self._rows(rows)
        present, which = self._present_patterns(rows)
        if present.all():
            return self._evidence(X)
        _, _, log_det = self._factors()
        P, n_present = len(log_det), present.sum(axis=1)
        order, start = np.argsort(which, kind="stable"), np.append(0, np.cumsum(np.bincount(which)))
        q, dets, log_density = np.empty((len(X), P)), np.empty((len(present), P)), np.empty((len(X), P))
        marginals.forms(X, order, start, present.view(np.uint8), *self._grouped_covariances(), log_det, q, dets)
        for size in np.unique(n_present):
            at = np.flatnonzero(n_present[which] == size)
            log_density[at] = density(q[at], dets[which[at]], self.shape.tails, int(size))
        out = by_class(log_density, self._log_shares(), self.pieces.owner, self.k)
        out[n_present[which] == 0] = 0.0  # no coordinate, no evidence
        return out

    def _log_shares(self) -> Floats:
        if "log shares" not in self._cache:
            self._cache["log shares"] = log_shares(self.moments.one, self.pieces.owner, self.k)
        return self._cache["log shares"]  # type: ignore[no-any-return]  # put there above

    def _density_arguments(self) -> tuple[Floats, Floats, Floats, Floats | None, Floats | None]:
        """What the kernel needs for the density of a row with all coordinates, cached: one row is scored in less time
        than this takes."""
        if "density" not in self._cache:
            mean, roots, log_det = self._factors()
            (P, D), nu = mean.shape, self.shape.tails
            constant = np.ascontiguousarray(density(np.zeros((1, P)), log_det[None], nu, D)[0])
            tails = (None, None) if np.isinf(nu) else (np.full(P, 1.0 / nu), np.full(P, 0.5 * (nu + D)))
            self._cache["density"] = (mean, roots, constant, *tails)
        return self._cache["density"]  # type: ignore[no-any-return]  # put there above

    def _evidence(self, X: Floats) -> Floats:
        out = np.empty((len(X), len(self.moments.one)))
        kernel.log_density(X, *self._density_arguments(), out)
        return by_class(out, self._log_shares(), self.pieces.owner, self.k)

    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        X = self._rows(rows)
        part, out = self.pieces.of(X, y), np.zeros((len(X), self.k))
        removed = np.ones(len(X)) if weight is None else weight
        patterns, which = self._present_patterns(rows)
        for i, present in enumerate(patterns):
            at = np.flatnonzero(which == i)
            if present.any():
                out[at] = self.marginal(present)._evidence_without(X[at][:, present], part[at], removed[at])
        return out

    def _evidence_without(self, X: Floats, part: Codes, removed: Floats) -> Floats:
        """The same for rows of these parts and weights."""
        out, D = np.empty((len(X), self.k)), X.shape[1]
        for row_weight in np.unique(removed):
            at = np.flatnonzero(removed == row_weight)
            own, weight = part[at], float(row_weight)
            forms = forms_without(X[at], self.moments, self.shape, self.target, own, weight)
            share = log_shares_without(self.moments.one, self.pieces.owner, self.k, own, weight)
            out[at] = by_class(density(*forms, self.shape.tails, D), share, self.pieces.owner, self.k)
        return out

    def terms(self, rows: EncodedRows, unlearned: Codes | None = None) -> tuple[Floats, Floats]:
        """A form is Σ_j z_j (Σ⁻¹z)_j, a share per coordinate; the parts of a class are averaged by their posterior."""
        del unlearned  # no structure but the pieces is chosen on rows
        X, (n, d) = self._rows(rows), rows.codes.shape
        out, rest = np.zeros((n, d, self.k)), np.zeros((n, self.k))
        patterns, which = self._present_patterns(rows)
        for i, present in enumerate(patterns):
            at = np.flatnonzero(which == i)
            if present.any():
                marginal = self.marginal(present)
                shares, total = marginal._shares(X[at][:, present])
                by_column = np.zeros((d, len(at), self.k))
                np.add.at(by_column, marginal.owner, np.moveaxis(shares, 2, 0))
                out[at] = by_column.transpose(1, 0, 2)
                rest[at] = total - out[at].sum(axis=1)
        return out, rest

    def _shares(self, X: Floats) -> tuple[Floats, Floats]:
        """What each coordinate adds to the log-density of each class, (n, k, D), and the evidence, (n, k)."""
        mean, roots, log_det = self._factors()
        (P, D), n = mean.shape, len(X)
        log_density, shares = np.empty((n, P)), np.empty((n, P, D))
        flat = density(np.zeros((1, P)), log_det[None], self.shape.tails, D)[0]
        for p in range(P):
            Z, root = X - mean[p], roots[p % len(roots)]
            share = Z * (Z @ root.T @ root)  # adds up to q
            q = share.sum(axis=1)
            log_density[:, p] = density(q[:, None], log_det[None, p : p + 1], self.shape.tails, D)[:, 0]
            by = np.where(q > 0, (log_density[:, p] - flat[p]) / np.where(q > 0, q, 1.0), 0.0)
            shares[:, p] = by[:, None] * share
        out = np.zeros((n, self.k, D))
        for c in range(self.k):
            at = np.flatnonzero((self.pieces.owner == c) & (self.moments.one > 0))
            if len(at):
                weighed = log_density[:, at] + np.log(self.moments.one[at])
                likely = np.exp(weighed - log_evidence(weighed)[:, None])
                out[:, c] = np.einsum("np,npd->nd", likely, shares[:, at])
        return out, self._evidence(X)

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        s, p, m = self.shape, self.pieces, self.moments
        about: dict[str, Any] = {"view": self.view, "shape": [s.lean, s.diagonal, s.tails, s.limit]}
        arrays: dict[str, Array] = {"owner": p.owner, "first": p.first, "axis": p.axis, "at": p.at, "sides": p.sides}
        return about, arrays | {"target": self.target, "one": m.one, "x": m.x, "xy": m.xy}

    @classmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> Gaussians:
        lean, diagonal, tails, *limit = settings["shape"]  # files of older versions have no limit
        view, D = settings["view"], len(encoding.owner)
        if view not in ("real", "scores"):
            raise FileError(f"a view {view!r} is unknown")
        owner, first = arrays.whole("owner", np.int32, None), arrays.whole("first", np.int32, k)
        P, at = len(owner), arrays.row("at")
        sides = arrays.whole("sides", np.int32, len(at), 2)
        if not each_class_cut(owner, first, sides):
            raise FileError("the cuts of its classes are inconsistent")
        pieces = Pieces(owner, first, arrays.floats("axis", (len(at), D)), at, sides)
        one, x, xy = arrays.counts("one", P), arrays.floats("x", (P, D)), arrays.floats("xy", (P, D, D))
        if not np.allclose(xy, xy.transpose(0, 2, 1)) or not is_scatter(one[:, None], x, xy):
            raise FileError("its sums of squares are impossible")
        target = arrays.floats("target", (D,))
        if (target <= 0).any():
            raise FileError("a variance is not positive")
        shape = Shape(positive(lean, np.inf), positive(diagonal, 1.0), positive(tails, np.inf), *map(positive, limit))
        return cls(view, shape, pieces, target, Moments(one, x, xy), encoding.owner)

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Term:
        from deciban.formula import QuadraticForms

        mean, roots, log_det = self._factors()
        tails, D = self.shape.tails, mean.shape[1]
        constant = density(np.zeros((1, len(mean))), log_det[None], tails, D)[0]
        seen = np.flatnonzero(self.moments.one > 0)
        owner, rows = self.pieces.owner[seen], self.moments.one[seen]
        total = np.bincount(owner, rows, minlength=self.k)[owner]
        student = not np.isinf(tails)
        roots = roots if len(roots) == 1 else roots[seen]
        absent = [
            self._absent(roots, log_det[seen], at, places[j], encoding.small_by_place(j) == UNSEEN)
            for j in range(len(encoding.columns))
            if len(at := np.flatnonzero(self.owner == j))
        ]
        return QuadraticForms(
            coordinate_terms(self.view, encoding, places, sketch),
            mean[seen],
            roots,
            constant[seen],
            owner,
            np.log(rows) - np.log(total),
            np.full(len(seen), 1.0 / tails) if student else None,
            np.full(len(seen), 0.5 * (tails + D)) if student else None,
            tuple(one for one in absent if one.never.any()),
        )

    def _absent(self, roots: Floats, log_det: Floats, at: Array, place: int, never: Array) -> Absent:
        """The distribution of the coordinates other than those `at`."""
        from deciban.formula import Absent

        precision = roots.transpose(0, 2, 1) @ roots
        lower = np.linalg.cholesky(precision[:, at[:, None], at])
        turn = np.linalg.solve(lower, precision[:, at])
        n_present, tails = roots.shape[1] - len(at), self.shape.tails
        log_det = log_det + 2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        constant = density(np.zeros((1, len(log_det))), log_det[None], tails, n_present)[0]
        power = None if np.isinf(tails) else np.full(len(log_det), 0.5 * (tails + n_present))
        return Absent(place, never, turn, constant, power)


def coordinate_terms(view: str, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> tuple[int, ...]:
    """Coordinates in a formula: numbers as they are or as normal scores, and indicators of categories and of missing
    values."""
    from deciban.formula import ColumnPlace, PiecewiseLinear, PlaceValues, Scaled

    out = []
    for j, coded in enumerate(encoding.columns):
        codes = np.append(np.arange(coded.size), -1).astype(np.int32)
        if isinstance(coded, Cuts):
            one = sketch.places[places[j]]
            assert isinstance(one, ColumnPlace)
            if view == "real":
                out.append(sketch.coordinate(Scaled(one.input, coded.mean, coded.scale, MAX_DEVIATIONS)))
            else:
                out.append(sketch.coordinate(PiecewiseLinear(one.input, coded.knots, coded.scores)))
            if coded.width == 1:
                continue
            codes = codes[:-1]
        table = np.empty((len(codes), coded.width))
        shown = Numbers(np.zeros(len(codes))) if isinstance(coded, Cuts) else Levels(codes, ())
        coded.coordinates(shown, codes, table)
        first = 1 if isinstance(coded, Cuts) else 0
        columns = [np.ascontiguousarray(table[:, i]) for i in range(first, coded.width)]
        out += [sketch.coordinate(PlaceValues(places[j], values)) for values in columns]
    return tuple(out)


def each_class_cut(owner: Array, first: Array, sides: Array) -> bool:
    """Whether every class is cut into pieces of its own, and every piece and cut is reached once."""
    pieces, cuts = [-1] * len(owner), [False] * len(sides)
    for c, begin in enumerate(first.tolist()):
        waiting = [begin]
        while waiting:
            at = waiting.pop()
            if not -len(pieces) <= at < len(cuts) or (cuts[at] if at >= 0 else pieces[-1 - at] >= 0):
                return False
            if at >= 0:
                cuts[at] = True
                waiting += sides[at].tolist()
            else:
                pieces[-1 - at] = c
    return pieces == owner.tolist() and all(cuts)
