"""Reliability: evidence that was counted twice, or is weak, is weighed before it is added up.

    log P(k | x) = log π_k + b_k + Σ_g r_g F_gk(x) − log Z,   r ≥ 0

F_g are evidence vectors of experts, or of one expert's graded parts. The weights r and offsets b are fitted on
leave-one-out vectors: evidence about a row from sums without the row. The problem is convex and small. One vector is
temperature scaling. What comes out is still a sum, so that it can be explained term by term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deciban._kernel import scatter
from deciban._scipy import logsumexp
from deciban._typing import Array, Floats

RIDGE = 3.0  # pseudo-rows' worth of doubt about every weight, in units of its vector's spread
MORE = (1.0, 3.0, 10.0, 30.0)  # times as much doubt that is tried where rows are few
FEW = 15.0  # rows a vector: with fewer, doubt begins in proportion to what is missing
ENOUGH = 1000  # rows: from so many on the least doubt is right
FOLDS = 5
FLOOR = 1e-3  # a vector that hardly varied here may vary elsewhere: its spread counts as this share of the widest
STEPS = 100  # Newton needs about eight
ROWS = 2000  # rows that show how the loss bends
RULED_OUT = 1e-3  # a class's probability below which it does not bend the loss enough to matter for a step


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """How far each evidence vector is to be believed (`weights`, ≥ 0), and what is added for each class (`offsets`)."""

    weights: Floats  # (g,)
    offsets: Floats  # (k,), beside the log prior

    def pooled(self, evidence: Floats) -> Floats:
        """b_k + Σ_g r_g F_gk, (n, k), of evidence (n, g, k)."""
        return np.asarray(self.weights @ evidence + self.offsets)


def choose_pool(
    evidence: Floats, y: Array, log_prior: Floats, weight: Floats | None = None, towards: Floats | None = None
) -> Pool:
    """The pool of these rows, with as much doubt as predicts rows best that it was not fitted on.

    Few rows and many vectors find weights that only chance has asked for: each fifth of the rows is predicted by the
    weights of the others, under more and more doubt.
    """
    n = len(y)
    if n >= ENOUGH:
        return fit_pool(evidence, y, log_prior, weight, RIDGE, towards)[0]
    ridges = [more * max(RIDGE, FEW * evidence.shape[1] / n) for more in MORE]
    # Every fifth row of each class, by what the rows say: folds do not depend on the order in which rows came.
    order = np.lexsort((np.round(evidence.sum(axis=(1, 2)), 9), y))
    fold = np.empty(n, dtype=np.intp)
    fold[order] = np.arange(n) % FOLDS
    losses = np.zeros(len(ridges))
    for f in range(FOLDS):
        out, rest = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
        if not len(out) or not len(rest):
            continue
        w_out, w_rest = (None, None) if weight is None else (weight[out], weight[rest])
        pool = None  # each begins where one with more doubt ended
        for i in reversed(range(len(ridges))):
            pool, _ = fit_pool(evidence[rest], y[rest], log_prior, w_rest, ridges[i], towards, pool, 1e-5)
            scores = pool.pooled(evidence[out]) + log_prior
            said = logsumexp(scores, axis=1) - scores[np.arange(len(out)), y[out]]
            losses[i] += said.sum() if w_out is None else float(w_out @ said)
    return fit_pool(evidence, y, log_prior, weight, ridges[int(np.argmin(losses))], towards)[0]


def fit_pool(
    evidence: Floats,
    y: Array,
    log_prior: Floats,
    weight: Floats | None = None,
    ridge: float | Floats = RIDGE,
    towards: Floats | None = None,
    begin: Pool | None = None,
    tolerance: float = 1e-9,
    offset_ridge: float | None = None,
) -> tuple[Pool, float]:
    """The weights and offsets with the least log loss on these rows, and that log loss.

    `evidence` is (n, g, k), `y` class codes. The ridge pulls weights `towards` what is
    believed of them without any rows (nothing, unless it is said), and offsets to the log prior. It is a number, in
    units of each vector's spread, or one for every weight as it stands.

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
    if weight is not None and not weight.all():  # what weighs nothing says nothing
        some = np.flatnonzero(weight)
        evidence, y, weight = evidence[some], y[some], weight[some]
    (n, g, k), rows = evidence.shape, np.arange(len(evidence))
    total = float(n) if weight is None else float(weight.sum())
    share = np.full(n, 1.0 / total) if weight is None else weight / total
    spread = spreads(evidence)
    doubt = np.full(g, ridge / total) if np.ndim(ridge) == 0 else ridge / spread**2 / total
    tie = (float(doubt[0]) if g else 0.0) if offset_ridge is None else offset_ridge / total
    flat = (evidence / spread[:, None]).transpose(0, 2, 1).reshape(n * k, g)  # a row and class, a vector each
    known = np.isfinite(log_prior)  # a class without any weight stays without
    start = np.zeros(g) if towards is None else towards * spread
    r, shift = (start, np.zeros(k)) if begin is None else (begin.weights * spread, begin.offsets)

    def loss(r: Floats, shift: Floats) -> tuple[float, Floats]:
        scores = (flat @ r).reshape(n, k) + log_prior + shift
        scores -= logsumexp(scores, axis=1, keepdims=True)
        doubted = float(doubt @ (r - start) ** 2 + tie * shift @ shift)
        return -float(share @ scores[rows, y]) + 0.5 * doubted, scores

    value, scores = loss(r, shift)
    for _ in range(STEPS):
        p = np.exp(scores)
        slope = p * share[:, None]
        slope[rows, y] -= share
        down = np.concatenate([slope.ravel() @ flat + doubt * (r - start), slope.sum(axis=0) + tie * shift])
        free = np.concatenate([(r > 0) | (down[:g] < 0), known])
        step = newton_step(curvature(flat, p, share, free, np.append(doubt, np.full(k, tie))), down, free, r)
        size = 1.0
        while True:
            new_r, new_shift = np.maximum(0.0, r + size * step[:g]), shift + size * step[g:]
            new_value, new_scores = loss(new_r, new_shift)
            if new_value <= value or size < 1e-9:
                break
            size /= 2
        gain = value - new_value
        if gain > 0:
            r, shift, value, scores = new_r, new_shift, new_value, new_scores
        if gain < tolerance * max(1.0, value):
            break
    return Pool(r / spread, shift), -float(share @ scores[rows, y])


def freedom(
    pool: Pool, evidence: Floats, log_prior: Floats, weight: Floats | None, ridge: Floats, offset_ridge: float
) -> float:
    """How many weights and offsets the rows, rather than the ridge, have set: tr H(H + Λ)⁻¹.

    On the rows it was fitted on, a pool looks better by about this many nats in all than on others (Akaike).
    """
    (n, g, k), spread = evidence.shape, spreads(evidence)
    total = float(n) if weight is None else float(weight.sum())
    share = np.full(n, 1.0 / total) if weight is None else weight / total
    flat = (evidence / spread[:, None]).transpose(0, 2, 1).reshape(n * k, g)
    scores = pool.pooled(evidence) + log_prior
    p = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    doubt = np.append(ridge / spread**2, np.full(k, offset_ridge)) / total
    free = np.append(pool.weights > 0, np.isfinite(log_prior))
    at = np.flatnonzero(free)
    curve = curvature(flat, p, share, free, doubt)[np.ix_(at, at)]
    return float(len(at) - doubt[at] @ np.diagonal(np.linalg.inv(curve)))


def curvature(flat: Floats, p: Floats, share: Floats, free: Array, doubt: Floats) -> Floats:
    """The second derivatives, (g + k, g + k), where they are free.

    They are only a guide to the step, so some of the rows do, and classes that a row all but rules out are left out.
    """
    (n, k), g = p.shape, flat.shape[1]
    used, some = np.flatnonzero(free[:g]), np.arange(0, n, max(1, n // ROWS))
    share = share[some] / share[some].sum()
    row, c = np.nonzero(p[some] >= np.minimum(RULED_OUT, p[some].max(axis=1, keepdims=True)))
    q = p[some][row, c]
    q /= np.bincount(row, q, minlength=len(some))[row]
    columns = np.zeros((len(row), len(used) + k))
    columns[:, : len(used)] = flat[some[row] * k + c][:, used]
    columns[np.arange(len(row)), len(used) + c] = 1.0
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    mean = np.add.reduceat(columns * q[:, None], starts, axis=0)
    at = np.concatenate([used, g + np.arange(k)])
    out = np.zeros((g + k, g + k))
    out[np.ix_(at, at)] = products(columns, q * share[row]) - products(mean, share)
    out[np.diag_indices(g + k)] += doubt
    return out


def products(X: Floats, weight: Floats) -> Floats:
    """Σ w x xᵀ, by our own kernel: BLAS would wait for threads that others keep busy."""
    d = X.shape[1]
    one, x, xy = np.zeros((1, 1)), np.zeros((1, d)), np.zeros((1, d, d))
    scatter.class_scatter(X, np.zeros(len(X), dtype=np.int32), weight, np.zeros((1, d)), one, x, xy)
    return np.asarray(xy[0])


def newton_step(curve: Floats, down: Floats, free: Array, r: Floats) -> Floats:
    """Newton's step in the free coordinates; weights at nothing that would go below it are held there."""
    g = len(r)
    while True:
        at, step = np.flatnonzero(free), np.zeros(len(down))
        step[at] = -np.linalg.solve(curve[np.ix_(at, at)], down[at])
        stuck = free[:g] & (r <= 0) & (step[:g] < 0)
        if not stuck.any():
            return step
        free = np.concatenate([free[:g] & ~stuck, free[g:]])


def spreads(evidence: Floats) -> Floats:
    """Each vector's standard deviation about its mean over the classes: what it can move a decision by."""
    n, g, k = evidence.shape
    centre = evidence.mean(axis=2)
    square = np.einsum("ngk,ngk->g", evidence, evidence) / max(1, n * k)
    spread = np.sqrt(np.maximum(square - np.einsum("ng,ng->g", centre, centre) / max(1, n), 0.0))
    widest = float(spread.max(initial=0.0))
    return np.maximum(spread, FLOOR * widest) if widest > 0 else np.ones(g)
