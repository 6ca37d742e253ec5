"""Reliability: evidence vectors are weighted before they are added, since they may be redundant or weak.

    log P(k | x) = log π_k + b_k + Σ_g r_g F_gk(x) − log Z,   r ≥ 0

F_g are evidence vectors of experts, or of one expert's graded parts. The weights r and offsets b are fitted on
leave-one-out vectors: evidence about a row from sums without the row. The problem is convex and small. With one vector
it is temperature scaling. The result is still a sum, so that it can be explained term by term.

A single leave-one-out vector is like that of a new row; weights fitted on many of them are optimistic. Row j's label
enters row i's vector just as i's enters j's, so the rows that weights are evaluated on have shaped the vectors that
these were fitted on. Hence `cross_fit`: with few rows, a fold of them is taken out of the *sums* before anything is
fitted. The doubt about the weights, and whether they are useful at all, is then evaluated on rows that had no part in
them; and a learned row is scored by the weights of the other folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from deciban._kernel import pool as kernel
from deciban._scipy import logsumexp
from deciban._typing import Array, Codes, Floats
from deciban.matrix import mix_bits

DOUBT_ROWS = 3.0  # the ridge of every weight in pseudo-rows, in units of its vector's spread
MIN_SPREAD_SHARE = 1e-3  # of the widest vector: a floor for the spread, since a vector may vary more on other rows
MAX_NEWTON_STEPS = 100  # Newton needs about eight
MAX_ROWS_OF_CURVATURE = 2000  # rows used for the Hessian,
MAX_ROWS_OF_CURVATURE_IN_FOLD = 250  # and if weights are only fitted for comparison
MIN_PROBABILITY = 1e-3  # classes below this probability are left out of a row's Hessian
MAX_LOSS_SHARE = 0.98  # something was learned if the loss is at most this share of that of the class shares
MIN_ROWS_FOR_CLOSED_FORM = 1000  # with fewer rows, folds correct for fitting and evaluating on the same rows
# Below this a weight is 0: what a large ridge leaves of one is about 1e-12, and none under 1e-5 changes an answer.
NEGLIGIBLE_WEIGHT = 1e-9
N_FOLDS = 5
AVERAGING_NATS = 2.0  # scale of the softmax over losses: all candidates are evaluated on the same rows
MIN_NATS_PER_DECADE = 2.0  # that ten times less doubt must gain


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The weight of each evidence vector (`weights`, ≥ 0), and an offset for each class (`offsets`)."""

    weights: Floats  # (g,)
    offsets: Floats  # (k,), in addition to the log prior

    def pooled(self, evidence: Floats) -> Floats:
        """b_k + Σ_g r_g F_gk, (n, k), of evidence (n, g, k)."""
        return np.asarray(self.weights @ evidence + self.offsets)

    def in_classes(self, places: Array) -> Pool:
        """For other classes: class c there is class places[c] here, or −1 if it is new and has no offset."""
        return replace(self, offsets=np.append(self.offsets, 0.0)[places])

    def spread(self, places: Array, g: int) -> Pool:
        """The same among g weights: these are at `places`, the others are 0."""
        weights = np.zeros(g)
        weights[places] = self.weights
        return replace(self, weights=weights)

    def narrowed(self, places: Array) -> Pool:
        """The same without the weights that are not at these places."""
        return replace(self, weights=self.weights[places])

    @classmethod
    def zero(cls, g: int, k: int) -> Pool:
        """All weights 0: the posterior is the class shares."""
        return cls(np.zeros(g), np.zeros(k))

    @classmethod
    def mean(cls, pools: Sequence[Pool], shares: Floats) -> Pool:
        """The weighted mean of pools."""
        weights = shares @ np.array([pool.weights for pool in pools])
        return cls(np.asarray(weights), np.asarray(shares @ np.array([pool.offsets for pool in pools])))


class Doubt(NamedTuple):
    """A strength of the prior of the weights: `times` the ridge, centred on `share` times the default weights."""

    times: float
    share: float

    @property
    def cost(self) -> float:
        """Nats that it must gain over using the class shares only."""
        return MIN_NATS_PER_DECADE * float(np.log10(100.0 / min(self.times, 100.0)))


PRIOR_ONLY = Doubt(np.inf, 0.0)  # all weights 0: only the class shares are used
DOUBTS = tuple(Doubt(times, share) for share in (0.0, 1.0) for times in (10.0, 1.0))  # by share, the strongest first


class Vectors:
    """Evidence (n, g, k) of rows of classes y, prepared for fitting pools.

    Classes without any of the rows are excluded: nothing is learned about them. With `overwrite`, the evidence may be
    overwritten: it can be most of the memory that is used.
    """

    def __init__(
        self, evidence: Floats, y: Array, log_prior: Floats, weight: Floats | None = None, overwrite: bool = False
    ) -> None:
        if weight is not None and not weight.all():  # rows of weight 0 are dropped
            some = np.flatnonzero(weight)
            evidence, y, weight = evidence[some], y[some], weight[some]
        self.n, self.g, self.k = evidence.shape
        self.y = np.ascontiguousarray(y, dtype=np.int32)
        self.total = float(self.n) if weight is None else float(weight.sum())
        self.share = (np.ones(self.n) if weight is None else weight) / max(self.total, 1e-300)
        evidence = np.ascontiguousarray(evidence, dtype=np.float64)
        self.spread = spreads(evidence)
        shape = self.n, self.k, self.g
        self.x = evidence.reshape(shape) if overwrite else np.empty(shape)
        kernel.arrange(evidence, self.spread, self.x)
        self.log_prior = np.full(self.k, -np.inf)
        there = np.unique(self.y)
        self.log_prior[there] = log_prior[there]
        self.can_tell = len(there) > 1

    def fit(
        self,
        ridge: float | Floats = DOUBT_ROWS,
        towards: Floats | None = None,
        begin: Pool | None = None,
        tolerance: float = 1e-9,
        offset_ridge: float | None = None,
        rows: int = MAX_ROWS_OF_CURVATURE,
    ) -> tuple[Pool, float]:
        """The weights and offsets with the least log loss on these rows, and that log loss.

        The ridge pulls weights `towards` their prior (by default 0), and offsets to 0. It is a number, in units of each
        vector's spread, or an absolute one for every weight. The Hessian uses at most `rows` rows.
        """
        start = np.zeros(self.g) if towards is None else towards * self.spread
        if not self.can_tell:
            return Pool(start / self.spread, np.zeros(self.k)), 0.0
        doubt, tie = self._doubt(ridge, offset_ridge)
        r = (start if begin is None else begin.weights * self.spread).copy()
        b = np.zeros(self.k) if begin is None else begin.offsets.copy()
        loss = kernel.fit(
            self.x,
            self.y,
            self.share,
            self.log_prior,
            doubt,
            start,
            tie,
            r,
            b,
            MAX_NEWTON_STEPS,
            tolerance,
            rows,
            MIN_PROBABILITY,
        )
        return Pool(r / self.spread, b), loss

    def _doubt(self, ridge: float | Floats, offset_ridge: float | None) -> tuple[Floats, float]:
        doubt = np.full(self.g, ridge / self.total) if np.ndim(ridge) == 0 else ridge / self.spread**2 / self.total
        return doubt, (float(doubt[0]) if self.g else 0.0) if offset_ridge is None else offset_ridge / self.total

    def curvature(self, pool: Pool, ridge: float | Floats, offset_ridge: float | None) -> tuple[Array, Floats, float]:
        """Which weights and offsets are free, the inverse of the Hessian H + Λ in these, per row, and their effective
        number, tr H(H + Λ)⁻¹: how many the rows rather than the ridge determine."""
        doubt, tie = self._doubt(ridge, offset_ridge)
        at = np.flatnonzero(np.append(pool.weights > 0, np.isfinite(self.log_prior))).astype(np.int64)
        curve = np.zeros((len(at), len(at)))
        kernel.curvature(
            self.x, self.y, self.share, self.log_prior, doubt, tie, pool.weights * self.spread, pool.offsets, at, curve
        )
        held = np.append(doubt, np.full(self.k, tie))[at]
        inverse = np.linalg.inv(curve + np.tril(curve, -1).T)
        freedom = float(len(at) - held @ np.diagonal(inverse))
        unit = np.append(self.spread, np.ones(self.k))[at]
        return at, inverse / np.outer(unit, unit) / self.total, freedom


def fit_pool(
    evidence: Floats, y: Array, log_prior: Floats, weight: Floats | None = None, ridge: float | Floats = DOUBT_ROWS
) -> tuple[Pool, float]:
    """The pool of evidence (n, g, k) of rows of classes y, and its log loss on them: `Vectors.fit`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 500)
    >>> informative = (2 * y - 1) * 1.0 + rng.normal(size=500)  # its log-odds are twice its value
    >>> noise = rng.normal(size=500)
    >>> evidence = np.stack([np.zeros((500, 2)), np.column_stack([informative, noise])], axis=2)
    >>> pool, loss = fit_pool(evidence, y, np.log([0.5, 0.5]))
    >>> pool.weights.round(1).tolist()
    [1.8, 0.1]
    """
    return Vectors(evidence, y, log_prior, weight).fit(ridge)


# ---------------------------------------------------------------------- rows that pools were fitted on


class LeftOut(Protocol):
    """Scores of rows that pools were fitted on, by weights fitted without them."""

    def pooled(
        self, pool: Pool, evidence: Floats, y: Codes, mark: Array, log_prior: Floats, weight: Floats | None = None
    ) -> Floats:
        """b_k + Σ_g r_g F_gk, (n, k), of leave-one-out evidence (n, g, k) of rows of classes y."""

    def marks(self, mark: Array, y: Codes) -> Array:
        """The marks that `pooled` takes, of rows of classes y with these hashes."""

    def in_classes(self, places: Array) -> LeftOut:
        """For other classes: class c there is class places[c] here, or −1 if it is new."""

    def spread(self, places: Array, g: int) -> LeftOut:
        """The same among g weights: these are at `places`."""

    def narrowed(self, places: Array) -> LeftOut:
        """The same with only the weights at these ascending places, which must include all that it uses."""

    def used(self, pool: Pool) -> Array:
        """Which weights it needs to score a row."""


def distinct_marks(mark: Array, y: Codes) -> Array:
    """A mark for each row from its hash, its class, and how many equal rows of that class came before it.

    Folds by these marks spread the copies of a row, whatever their classes. By the hash alone they would not: all rows
    with the same values would be removed together, or those of one class and not of the other, and what is left would
    contradict the rows.
    """
    order = np.lexsort((mark, y))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (mark[order][1:] != mark[order][:-1]) | (y[order][1:] != y[order][:-1])
    first = np.flatnonzero(is_new)
    copy = np.empty(len(order), dtype=np.uint64)
    copy[order] = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    which = (copy << np.uint64(32)) + y.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)  # so that none is 0
    return mix_bits(mix_bits(mark) + mix_bits(which))


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """The fold of a row, by its class and its mark: parts of equal size of every class.

    A mark depends on what is in the row, so that a fold does not depend on the order of the rows, and is reproducible.
    """

    edges: Array  # (k, folds − 1) the marks at which each class's folds end
    first: Codes  # (k,) each class's first fold, so that small classes are not all in the same one

    @classmethod
    def of(cls, mark: Array, y: Codes, k: int, folds: int = N_FOLDS) -> Folds:
        size = np.bincount(y, minlength=k)
        before, by_class = np.cumsum(size) - size, mark[np.lexsort((mark, y))]
        edges, some = np.zeros((k, folds - 1), dtype=np.uint64), np.flatnonzero(size)
        last = np.ceil(np.arange(1, folds) * size[some, None] / folds).astype(np.intp) - 1
        edges[some] = by_class[before[some, None] + last]
        return cls(edges, (before % folds).astype(np.int32))

    @property
    def count(self) -> int:
        return int(self.edges.shape[1]) + 1

    def which(self, mark: Array, y: Codes) -> Array:
        """The fold of every row."""
        beyond = (mark[:, None] > self.edges[y]).sum(axis=1)
        return np.asarray((beyond + self.first[y]) % self.count)


@dataclass(frozen=True, slots=True, eq=False)
class ByFold:
    """A row is scored by the pool that was fitted without its fold."""

    folds: Folds
    pools: tuple[Pool, ...]
    by_copy: bool = True  # whether copies of a row have their own marks; not in models of older versions

    def marks(self, mark: Array, y: Codes) -> Array:
        return distinct_marks(mark, y) if self.by_copy else mark

    def pooled(
        self, pool: Pool, evidence: Floats, y: Codes, mark: Array, log_prior: Floats, weight: Floats | None = None
    ) -> Floats:
        del pool, log_prior, weight
        out, fold = np.empty((len(y), evidence.shape[2])), self.folds.which(mark, y)
        for f, mine in enumerate(self.pools):
            at = np.flatnonzero(fold == f)
            out[at] = mine.pooled(evidence[at])
        return out

    def in_classes(self, places: Array) -> ByFold:
        folds = Folds(self.folds.edges[places], self.folds.first[places])  # any values will do for a new class
        return replace(self, folds=folds, pools=tuple(pool.in_classes(places) for pool in self.pools))

    def spread(self, places: Array, g: int) -> ByFold:
        return replace(self, pools=tuple(pool.spread(places, g) for pool in self.pools))

    def narrowed(self, places: Array) -> ByFold:
        return replace(self, pools=tuple(pool.narrowed(places) for pool in self.pools))

    def used(self, pool: Pool) -> Array:
        del pool
        return np.flatnonzero(np.any([pool.weights > 0 for pool in self.pools], axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class ByForm:
    """A row's influence on the weights is removed in closed form.

    With s the scores of a row, p its posterior, J its vectors and the identity, and H the Hessian of the loss of all
    rows, leaving the row out of the fit is a step of H⁻¹ Jᵀ(p − e_y). So without it the scores of the row would be

        s + t J H⁻¹ Jᵀ (p − e_y)

    t is 1 if a row only had a part in the fit. If its label also entered the vectors of the other rows, symmetrically
    with theirs in its own, it is 2.
    """

    weights: Array  # the weights that are free,
    classes: Array  # and the classes whose offsets are
    inverse: Floats  # H⁻¹ of these
    last: int  # the greatest mark of a row that was used in the fit
    times: float = 1.0

    def marks(self, mark: Array, y: Codes) -> Array:
        del y
        return mark

    def pooled(
        self, pool: Pool, evidence: Floats, y: Codes, mark: Array, log_prior: Floats, weight: Floats | None = None
    ) -> Floats:
        scores, rows, a = pool.pooled(evidence), np.arange(len(y)), len(self.weights)
        posterior = scores + log_prior
        away = np.exp(posterior - logsumexp(posterior, axis=1, keepdims=True))
        away[rows, y] -= 1.0
        away *= (mark <= np.uint64(self.last))[:, None] * (1.0 if weight is None else weight[:, None])
        parts = evidence[:, self.weights]
        pull = np.concatenate([np.einsum("nak,nk->na", parts, away), away[:, self.classes]], axis=1) @ self.inverse
        scores += self.times * np.einsum("nak,na->nk", parts, pull[:, :a])
        scores[:, self.classes] += self.times * pull[:, a:]
        return scores

    def in_classes(self, places: Array) -> ByForm:
        there = np.flatnonzero(np.isin(places, self.classes))
        at = np.append(np.arange(len(self.weights)), len(self.weights) + np.searchsorted(self.classes, places[there]))
        return replace(self, classes=there, inverse=self.inverse[np.ix_(at, at)])

    def spread(self, places: Array, g: int) -> ByForm:
        del g
        return replace(self, weights=places[self.weights])

    def narrowed(self, places: Array) -> ByForm:
        return replace(self, weights=np.searchsorted(places, self.weights))

    def used(self, pool: Pool) -> Array:
        return np.flatnonzero(pool.weights > 0)


# ---------------------------------------------------------------------- choosing


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A pool, how rows that it was fitted on are scored without them, and the doubts."""

    pool: Pool
    left_out: LeftOut | None
    doubts: tuple[tuple[Doubt, float], ...]  # with the share of each in the pool

    def in_classes(self, places: Array) -> Chosen:
        """For other classes: class c there is class places[c] here, or −1 if it is new."""
        left_out = None if self.left_out is None else self.left_out.in_classes(places)
        return replace(self, pool=self.pool.in_classes(places), left_out=left_out)


class FoldPart(NamedTuple):
    """Rows when a fold is removed from the sums: evidence of the `rest`, each without itself, and of those `out`."""

    rest: Array
    inside: Floats
    out: Array
    outside: Floats
    log_prior: Floats  # of the rest


class WeightPrior(NamedTuple):
    """The prior of the weights: a ridge, the default weights, and a ridge for offsets."""

    ridge: float | Floats
    weights: Floats
    offset_ridge: float

    def fit(
        self, vectors: Vectors, doubts: Sequence[Doubt], tolerance: float, rows: int = MAX_ROWS_OF_CURVATURE
    ) -> list[Pool]:
        """A pool for every doubt; each fit starts from that of the stronger doubt before it."""
        out: list[Pool] = []
        for i, doubt in enumerate(doubts):
            if np.isinf(doubt.times):
                out.append(Pool.zero(vectors.g, vectors.k))
                continue
            begin = out[-1] if i and doubts[i - 1].share == doubt.share else None
            ridge, default = self.ridge * doubt.times, self.weights * doubt.share
            out.append(vectors.fit(ridge, default, begin, tolerance, self.offset_ridge, rows)[0])
        return out


def cross_fit(
    evidence: Floats,
    y: Codes,
    log_prior: Floats,
    weight: Floats | None,
    folds: Folds,
    mark: Array,
    parts: Iterable[FoldPart],
    weight_prior: WeightPrior,
    doubts: Sequence[Doubt] = DOUBTS,
) -> Chosen:
    """The pool of few rows, with the doubts that predict held-out rows best.

    `evidence` is (n, g, k), of rows without themselves; `parts` has each fold in turn removed from the sums. The pools
    of all doubts, and the class shares alone, are averaged by how well they predict the folds: to pick the best one
    would be unstable. The pool that scores a row does not use the row's own fold.
    """
    n, fold = len(y), folds.which(mark, y)
    amount, doubts = np.ones(n) if weight is None else weight, (*doubts, PRIOR_ONLY)
    losses, evaluated, by_fold = np.zeros((len(doubts), n)), np.zeros(n, dtype=bool), []
    for part in parts:
        rows = Vectors(part.inside, y[part.rest], part.log_prior, amount[part.rest])
        pools_of_fold = weight_prior.fit(rows, doubts, 1e-5, MAX_ROWS_OF_CURVATURE_IN_FOLD)
        if rows.can_tell:
            at = np.arange(len(part.out))
            for j, pool in enumerate(pools_of_fold):
                scores = pool.pooled(part.outside) + part.log_prior
                losses[j, part.out] = np.logaddexp.reduce(scores, axis=1) - scores[at, y[part.out]]
            evaluated[part.out] = True
        by_fold.append(pools_of_fold)
    cost = np.array([doubt.cost for doubt in doubts])

    def shares(rows: Array) -> Floats:
        """The share of each doubt, by how well it predicted these rows."""
        total = (losses[:, rows] @ amount[rows] + cost) / AVERAGING_NATS
        out = np.exp(total.min() - total)
        return np.asarray(out / out.sum())

    left_out = [
        Pool.mean(pools_of_fold, shares(np.flatnonzero(evaluated & (fold != f))))
        for f, pools_of_fold in enumerate(by_fold)
    ]
    share = shares(np.flatnonzero(evaluated))
    pools = weight_prior.fit(Vectors(evidence, y, log_prior, weight), doubts, 1e-7)
    return Chosen(
        Pool.mean(pools, share), ByFold(folds, tuple(left_out)), tuple(zip(doubts, share.tolist(), strict=True))
    )


def best_doubt(
    part: FoldPart,
    y: Codes,
    weight: Floats | None,
    weight_prior: WeightPrior,
    doubts: Sequence[Doubt],
    overwrite: bool = False,
) -> Doubt:
    """The doubt under which the other rows best predict a fold that is removed from the sums.

    With `overwrite`, the evidence inside the part may be overwritten: see `Vectors`.
    """
    amount, doubts = np.ones(len(y)) if weight is None else weight, (*doubts, PRIOR_ONLY)
    rows = Vectors(part.inside, y[part.rest], part.log_prior, amount[part.rest], overwrite)
    if not rows.can_tell or not len(part.out):
        return doubts[0]
    at, losses = np.arange(len(part.out)), []
    for doubt, pool in zip(doubts, weight_prior.fit(rows, doubts, 1e-5, MAX_ROWS_OF_CURVATURE_IN_FOLD), strict=True):
        scores = pool.pooled(part.outside) + part.log_prior
        each = np.logaddexp.reduce(scores, axis=1) - scores[at, y[part.out]]
        losses.append(float(amount[part.out] @ each) + doubt.cost)
    return doubts[int(np.argmin(losses))]


def closed_fit(
    rows: Vectors,
    last: int,
    weight_prior: WeightPrior,
    doubts: Sequence[Doubt],
    times: float,
    cautious_times: float | None = None,
    begin: Pool | None = None,
) -> tuple[Chosen, float]:
    """The pool of many rows, and the expected log loss of new rows.

    The optimism of the fit, in nats in all, is the effective number of weights (Akaike) times `times`: see `ByForm`.
    With that correction (or `cautious_times` the effective number) the doubts are compared in ascending order until one
    is worse; all of them are tried if the best is hardly better than the class shares. The first fit starts at `begin`.
    """
    best, before = None, begin
    shares = float(-rows.share @ rows.log_prior[rows.y])
    for doubt in doubts:
        if doubt == PRIOR_ONLY:
            none = np.zeros(0, dtype=np.intp)
            candidate = shares, shares, Pool.zero(rows.g, rows.k), none, np.zeros((0, 0)), doubt
        else:
            ridge, default = weight_prior.ridge * doubt.times, weight_prior.weights * doubt.share
            before, loss = rows.fit(ridge, default, before, 1e-8, weight_prior.offset_ridge)
            before.weights[before.weights < NEGLIGIBLE_WEIGHT] = 0.0  # held at 0 by a large ridge
            at, inverse, freedom = rows.curvature(before, ridge, weight_prior.offset_ridge)
            optimism = freedom / rows.total
            candidate = (
                loss + (times if cautious_times is None else cautious_times) * optimism,
                loss + times * optimism,
                before,
                at,
                inverse,
                doubt,
            )
        if best is None or candidate[0] < best[0]:
            best = candidate
        elif best[0] < MAX_LOSS_SHARE * shares:
            break
    assert best is not None
    _, expected, pool, at, inverse, doubt = best
    left_out = ByForm(at[at < rows.g], at[at >= rows.g] - rows.g, inverse, last, times)
    return Chosen(pool, left_out, ((doubt, 1.0),)), expected


def spreads(evidence: Floats) -> Floats:
    """Each vector's standard deviation about its mean over the classes, with a floor."""
    n, g, k = evidence.shape
    square, centre = np.zeros(g), np.zeros(g)
    kernel.spread(np.ascontiguousarray(evidence, dtype=np.float64), square, centre)
    spread = np.sqrt(np.maximum(square / max(1, n * k) - centre / max(1, n), 0.0))
    widest = float(spread.max(initial=0.0))
    return np.maximum(spread, MIN_SPREAD_SHARE * widest) if widest > 0 else np.ones(g)
