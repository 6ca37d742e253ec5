"""Reliability: evidence that was counted twice, or is weak, is weighed before it is added up.

    log P(k | x) = log π_k + b_k + Σ_g r_g F_gk(x) − log Z,   r ≥ 0

F_g are evidence vectors of experts, or of one expert's graded parts. The weights r and offsets b are fitted on
leave-one-out vectors: evidence about a row from sums without the row. The problem is convex and small. One vector is
temperature scaling. What comes out is still a sum, so that it can be explained term by term.

One leave-one-out vector is as good as that of a new row; weights fitted on many of them are not. What row i gains from
row j is what j gains from i, so the rows that judge weights have helped to make the vectors that these were fitted on.
Hence `cross_fit`: where rows are few, a fold of them is taken out of the *sums* before anything is fitted. How much
doubt there is about the weights, and whether they are worth anything at all, is then judged by rows that had no part in
them; and what is said of a row that was learned comes from the weights of the other folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from deciban._kernel import pool as kernel
from deciban._scipy import logsumexp
from deciban._typing import Array, Codes, Floats

DOUBT_ROWS = 3.0  # pseudo-rows' worth of doubt about every weight, in units of its vector's spread
MIN_SPREAD_SHARE = (
    1e-3  # a vector that hardly varied here may vary elsewhere: its spread counts as this share of the widest
)
MAX_NEWTON_STEPS = 100  # Newton needs about eight
MAX_ROWS_OF_CURVATURE = 2000  # rows that show how the loss bends,
MAX_ROWS_OF_CURVATURE_IN_FOLD = 250  # and where weights are fitted to be compared
MIN_PROBABILITY = 1e-3  # a class's probability below which it does not bend the loss enough to matter for a step
MAX_LOSS_SHARE = 0.98  # of the log loss of the class shares, or less: then something was learned
MIN_ROWS_FOR_CLOSED_FORM = (
    1000  # rows, from which on what weights owe to them is found in closed form, and not by folds
)
N_FOLDS = 5
MIN_NATS_APART = (
    2.0  # nats by which losses of several candidates must differ to count as one: rows judge all of them alike
)
MIN_NATS_PER_DECADE = 2.0  # nats that ten times less doubt must gain


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """How far each evidence vector is to be believed (`weights`, ≥ 0), and what is added for each class (`offsets`)."""

    weights: Floats  # (g,)
    offsets: Floats  # (k,), beside the log prior

    def pooled(self, evidence: Floats) -> Floats:
        """b_k + Σ_g r_g F_gk, (n, k), of evidence (n, g, k)."""
        return np.asarray(self.weights @ evidence + self.offsets)

    def in_classes(self, places: Array) -> Pool:
        """Of other classes, of which places[c] says where each is here; −1 where it is not: it has no offset."""
        return replace(self, offsets=np.append(self.offsets, 0.0)[places])

    def spread(self, places: Array, g: int) -> Pool:
        """The same among g weights, of which its own are at these places; the others are nothing."""
        weights = np.zeros(g)
        weights[places] = self.weights
        return replace(self, weights=weights)

    def narrowed(self, places: Array) -> Pool:
        """The same without the weights that are not at these places."""
        return replace(self, weights=self.weights[places])

    @classmethod
    def nothing(cls, g: int, k: int) -> Pool:
        """Believes nothing: what is left are the class shares."""
        return cls(np.zeros(g), np.zeros(k))

    @classmethod
    def mean(cls, pools: Sequence[Pool], shares: Floats) -> Pool:
        """Their mean, each with its share."""
        weights = shares @ np.array([pool.weights for pool in pools])
        return cls(np.asarray(weights), np.asarray(shares @ np.array([pool.offsets for pool in pools])))


class Doubt(NamedTuple):
    """What is believed of weights before any row is seen: `times` the usual doubt about this `share` of the default."""

    times: float
    share: float

    @property
    def cost(self) -> float:
        """Nats that it must gain over no belief at all."""
        return MIN_NATS_PER_DECADE * float(np.log10(100.0 / min(self.times, 100.0)))


NOTHING = Doubt(np.inf, 0.0)  # is worth anything: the class shares are left
DOUBTS = tuple(Doubt(times, share) for share in (0.0, 1.0) for times in (10.0, 1.0))  # by share, the most first


class Vectors:
    """Evidence (n, g, k) of rows of classes y, made ready to fit pools on.

    Classes that none of the rows is of are not among those that a row can be of: nothing is learned about them.
    """

    def __init__(self, evidence: Floats, y: Array, log_prior: Floats, weight: Floats | None = None) -> None:
        if weight is not None and not weight.all():  # what weighs nothing says nothing
            some = np.flatnonzero(weight)
            evidence, y, weight = evidence[some], y[some], weight[some]
        self.n, self.g, self.k = evidence.shape
        self.y = np.ascontiguousarray(y, dtype=np.int32)
        self.total = float(self.n) if weight is None else float(weight.sum())
        self.share = (np.ones(self.n) if weight is None else weight) / max(self.total, 1e-300)
        self.spread = spreads(evidence)
        self.x = np.ascontiguousarray((evidence / self.spread[:, None]).transpose(0, 2, 1))
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

        The ridge pulls weights `towards` what is believed of them without any rows (nothing, unless it is said), and
        offsets to the log prior. It is a number, in units of each vector's spread, or one for every weight as it
        stands. At most `rows` rows show which way to go.
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

    def bend(self, pool: Pool, ridge: float | Floats, offset_ridge: float | None) -> tuple[Array, Floats, float]:
        """Which of the weights and offsets the rows have set, the inverse of how their loss bends there, in rows, and
        how many of them the rows rather than the ridge have set: tr H(H + Λ)⁻¹."""
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
    >>> telling = (2 * y - 1) * 1.0 + rng.normal(size=500)  # its log-odds are 2 for every 1 it says
    >>> noise = rng.normal(size=500)
    >>> evidence = np.stack([np.zeros((500, 2)), np.column_stack([telling, noise])], axis=2)
    >>> pool, loss = fit_pool(evidence, y, np.log([0.5, 0.5]))
    >>> pool.weights.round(1).tolist()
    [1.8, 0.1]
    """
    return Vectors(evidence, y, log_prior, weight).fit(ridge)


# ---------------------------------------------------------------------- rows that had a part in the choice


class LeftOut(Protocol):
    """What is said of rows that pools were fitted on, by weights that they had no part in."""

    def pooled(
        self, pool: Pool, evidence: Floats, y: Codes, mark: Array, log_prior: Floats, weight: Floats | None = None
    ) -> Floats:
        """b_k + Σ_g r_g F_gk, (n, k), of leave-one-out evidence (n, g, k) of rows of classes y."""

    def in_classes(self, places: Array) -> LeftOut:
        """Of other classes, of which places[c] says where each is here; −1 where it is not."""

    def spread(self, places: Array, g: int) -> LeftOut:
        """The same among g weights, of which its own are at these places."""

    def narrowed(self, places: Array) -> LeftOut:
        """The same without the weights that are not at these places, ascending: it must use no other."""

    def used(self, pool: Pool) -> Array:
        """Which weights it takes to judge a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Which fold a row is in, by its class and its mark: parts of equal size of every class.

    A mark is a number that depends on nothing but the row, so that a fold does not depend on the order of the rows, and
    is found again.
    """

    edges: Array  # (k, folds − 1) the marks at which each class's folds end
    first: Codes  # (k,) the fold that they begin with, so that small classes are not all in the same one

    @classmethod
    def of(cls, mark: Array, y: Codes, k: int, folds: int = N_FOLDS) -> Folds:
        edges, first, before = np.zeros((k, folds - 1), dtype=np.uint64), np.zeros(k, dtype=np.int32), 0
        for c in range(k):
            mine = np.sort(mark[y == c])
            first[c] = before % folds
            if len(mine):
                edges[c] = mine[np.ceil(np.arange(1, folds) * len(mine) / folds).astype(np.intp) - 1]
            before += len(mine)
        return cls(edges, first)

    @property
    def count(self) -> int:
        return int(self.edges.shape[1]) + 1

    def which(self, mark: Array, y: Codes) -> Array:
        """The fold of every row."""
        beyond = (mark[:, None] > self.edges[y]).sum(axis=1)
        return np.asarray((beyond + self.first[y]) % self.count)


@dataclass(frozen=True, slots=True, eq=False)
class ByFold:
    """A row is judged by the pool that was chosen without its fold."""

    folds: Folds
    pools: tuple[Pool, ...]

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
        folds = Folds(self.folds.edges[places], self.folds.first[places])  # of a class that is new, any will do
        return ByFold(folds, tuple(pool.in_classes(places) for pool in self.pools))

    def spread(self, places: Array, g: int) -> ByFold:
        return replace(self, pools=tuple(pool.spread(places, g) for pool in self.pools))

    def narrowed(self, places: Array) -> ByFold:
        return replace(self, pools=tuple(pool.narrowed(places) for pool in self.pools))

    def used(self, pool: Pool) -> Array:
        del pool
        return np.flatnonzero(np.any([pool.weights > 0 for pool in self.pools], axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class ByForm:
    """A row's pull is taken out of the weights in closed form.

    With s the scores of a row, p its posterior and J its vectors beside the identity, what the fit owes to the row is a
    step H⁻¹ Jᵀ(p − e_y) away, H being how the loss of all rows bends. So without it the row would be given

        s + t J H⁻¹ Jᵀ (p − e_y)

    t is 1 where a row has a part in the fit alone. Where its label has also helped to make the vectors of the others,
    and they gain from it what it gains from them, it is 2.
    """

    weights: Array  # those that the rows have set,
    classes: Array  # and the classes whose offsets they have set
    inverse: Floats  # H⁻¹ of these
    last: int  # the greatest mark of a row that had a part in the fit
    times: float = 1.0

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
    """A pool, what judges the rows that it was chosen by, and how it was chosen."""

    pool: Pool
    left_out: LeftOut | None
    doubts: tuple[tuple[Doubt, float], ...]  # what was believed beforehand, with the share that each has in the pool


class FoldPart(NamedTuple):
    """Rows, a fold of which is out of the sums: evidence of the `rest`, each without itself, and of those `out`."""

    rest: Array
    inside: Floats
    out: Array
    outside: Floats
    log_prior: Floats  # of the rest


class Usual(NamedTuple):
    """What is believed of weights beforehand: a ridge, weights that it may pull to, and a ridge for offsets."""

    ridge: float | Floats
    weights: Floats
    offset_ridge: float

    def fit(
        self, vectors: Vectors, doubts: Sequence[Doubt], tolerance: float, rows: int = MAX_ROWS_OF_CURVATURE
    ) -> list[Pool]:
        """A pool for every doubt; each begins where one with more of the same kind ended."""
        out: list[Pool] = []
        for i, doubt in enumerate(doubts):
            if np.isinf(doubt.times):
                out.append(Pool.nothing(vectors.g, vectors.k))
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
    usual: Usual,
    doubts: Sequence[Doubt] = DOUBTS,
) -> Chosen:
    """The pool of rows that are few, with as much doubt as predicts rows best that had no part in it.

    `evidence` is (n, g, k), of rows without themselves; `parts` has the same of each fold in turn, out of sums. The
    pools of all doubts, and the class shares alone, are averaged by how well they predict the folds: the best of them
    jumps from one sample to the next. A row's own fold has no say in the pool that judges the row.
    """
    n, fold = len(y), folds.which(mark, y)
    amount, doubts = np.ones(n) if weight is None else weight, (*doubts, NOTHING)
    losses, judged, by_fold = np.zeros((len(doubts), n)), np.zeros(n, dtype=bool), []
    for part in parts:
        rows = Vectors(part.inside, y[part.rest], part.log_prior, amount[part.rest])
        found = usual.fit(rows, doubts, 1e-5, MAX_ROWS_OF_CURVATURE_IN_FOLD)
        if rows.can_tell:
            at = np.arange(len(part.out))
            for j, pool in enumerate(found):
                scores = pool.pooled(part.outside) + part.log_prior
                losses[j, part.out] = np.logaddexp.reduce(scores, axis=1) - scores[at, y[part.out]]
            judged[part.out] = True
        by_fold.append(found)
    cost = np.array([doubt.cost for doubt in doubts])

    def shares(rows: Array) -> Floats:
        """What each has to say, by how well it predicted these rows."""
        total = (losses[:, rows] @ amount[rows] + cost) / MIN_NATS_APART
        out = np.exp(total.min() - total)
        return np.asarray(out / out.sum())

    left_out = [Pool.mean(found, shares(np.flatnonzero(judged & (fold != f)))) for f, found in enumerate(by_fold)]
    share = shares(np.flatnonzero(judged))
    pools = usual.fit(Vectors(evidence, y, log_prior, weight), doubts, 1e-7)
    return Chosen(
        Pool.mean(pools, share), ByFold(folds, tuple(left_out)), tuple(zip(doubts, share.tolist(), strict=True))
    )


def best_doubt(part: FoldPart, y: Codes, weight: Floats | None, usual: Usual, doubts: Sequence[Doubt]) -> Doubt:
    """The doubt under which a fold that is out of the sums is predicted best by the other rows."""
    amount, doubts = np.ones(len(y)) if weight is None else weight, (*doubts, NOTHING)
    rows = Vectors(part.inside, y[part.rest], part.log_prior, amount[part.rest])
    if not rows.can_tell or not len(part.out):
        return doubts[0]
    at, losses = np.arange(len(part.out)), []
    for doubt, pool in zip(doubts, usual.fit(rows, doubts, 1e-5, MAX_ROWS_OF_CURVATURE_IN_FOLD), strict=True):
        scores = pool.pooled(part.outside) + part.log_prior
        each = np.logaddexp.reduce(scores, axis=1) - scores[at, y[part.out]]
        losses.append(float(amount[part.out] @ each) + doubt.cost)
    return doubts[int(np.argmin(losses))]


def closed_fit(
    evidence: Floats,
    y: Codes,
    log_prior: Floats,
    weight: Floats | None,
    last: int,
    usual: Usual,
    doubts: Sequence[Doubt],
    times: float,
    wary: float | None = None,
) -> tuple[Chosen, float]:
    """The pool of rows that are many, and the log loss that new rows would have.

    What the fit owes to its rows, in nats in all, is the number of weights that they have set (Akaike), `times` over:
    see `ByForm`. By that (or by `wary` times that) the best of the doubts is found, in ascending order, until one is
    worse; all of them are tried where the best is hardly better than the class shares.
    """
    rows, best, before = Vectors(evidence, y, log_prior, weight), None, None
    shares = float(-rows.share @ log_prior[rows.y])
    for doubt in doubts:
        if doubt == NOTHING:
            none = np.zeros(0, dtype=np.intp)
            found = shares, shares, Pool.nothing(rows.g, rows.k), none, np.zeros((0, 0)), doubt
        else:
            ridge, default = usual.ridge * doubt.times, usual.weights * doubt.share
            before, loss = rows.fit(ridge, default, before, 1e-8, usual.offset_ridge)
            at, inverse, freedom = rows.bend(before, ridge, usual.offset_ridge)
            owed = freedom / rows.total
            found = loss + (times if wary is None else wary) * owed, loss + times * owed, before, at, inverse, doubt
        if best is None or found[0] < best[0]:
            best = found
        elif best[0] < MAX_LOSS_SHARE * shares:
            break
    assert best is not None
    _, expected, pool, at, inverse, doubt = best
    g = evidence.shape[1]
    left_out = ByForm(at[at < g], at[at >= g] - g, inverse, last, times)
    return Chosen(pool, left_out, ((doubt, 1.0),)), expected


def spreads(evidence: Floats) -> Floats:
    """Each vector's standard deviation about its mean over the classes: what it can move a decision by."""
    n, g, k = evidence.shape
    centre = evidence.mean(axis=2)
    square = np.einsum("ngk,ngk->g", evidence, evidence) / max(1, n * k)
    spread = np.sqrt(np.maximum(square - np.einsum("ng,ng->g", centre, centre) / max(1, n), 0.0))
    widest = float(spread.max(initial=0.0))
    return np.maximum(spread, MIN_SPREAD_SHARE * widest) if widest > 0 else np.ones(g)
