"""Reliability: the weights are optimal, by the optimality conditions and by another optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from deciban.matrix import mix_bits
from deciban.pool import (
    DOUBT_ROWS,
    MIN_NATS_PER_DECADE,
    MIN_SPREAD_SHARE,
    PRIOR_ONLY,
    ByForm,
    Doubt,
    FoldPart,
    Folds,
    Pool,
    Vectors,
    WeightPrior,
    best_doubt,
    closed_fit,
    cross_fit,
    distinct_marks,
    fit_pool,
    spreads,
)


class Problem:
    """Evidence (n, g, k) of informative and uninformative vectors, in very different units."""

    def __init__(self, seed: int, n: int, g: int, k: int, weighted: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, k, n)
        self.evidence = rng.normal(size=(n, g, k))
        self.evidence[np.arange(n), :, self.y] += rng.uniform(-0.5, 1.5, g)
        self.evidence *= 10.0 ** rng.uniform(-3, 3, g)[:, None]
        self.evidence += 5.0 * rng.normal(size=(n, g, 1))  # the same for all classes: no evidence
        self.weight = rng.uniform(0.1, 3.0, n) if weighted else None
        counts = np.bincount(self.y, self.weight, minlength=k) + 0.5
        self.log_prior = np.log(counts / counts.sum())

    def fit(self):
        return fit_pool(self.evidence.copy(), self.y, self.log_prior, self.weight)

    def loss(self, weights, offsets):
        """The mean log loss, and its gradient by weights and offsets."""
        there = np.bincount(self.y, minlength=self.evidence.shape[2]) > 0  # no row can be of any other class
        scores = np.einsum("ngk,g->nk", self.evidence, weights) + np.where(there, self.log_prior, -np.inf) + offsets
        scores -= logsumexp(scores, axis=1, keepdims=True)
        n = len(self.y)
        share = np.ones(n) / n if self.weight is None else self.weight / self.weight.sum()
        slope = np.exp(scores)
        slope[np.arange(n), self.y] -= 1.0
        slope *= share[:, None]
        gradient = np.einsum("ngk,nk->g", self.evidence, slope), slope.sum(axis=0)
        return -float(share @ scores[np.arange(n), self.y]), *gradient

    def objective(self, z, towards=0.0):
        """With the ridge: z are weights in units of their vectors' spreads, and offsets."""
        g, spread = self.evidence.shape[1], spreads(self.evidence)
        doubt = DOUBT_ROWS / (len(self.y) if self.weight is None else self.weight.sum())
        value, by_weight, by_offset = self.loss(z[:g] / spread, z[g:])
        away = np.concatenate([z[:g] - towards * spread, z[g:]])
        return value + 0.5 * doubt * away @ away, np.concatenate([by_weight / spread, by_offset]) + doubt * away

    def inside(self, pool):
        return np.concatenate([pool.weights * spreads(self.evidence), pool.offsets])


problems = st.builds(
    Problem, st.integers(0, 10_000), st.integers(2, 200), st.integers(1, 10), st.integers(2, 6), st.booleans()
)


@given(problems)
def test_at_the_optimum_no_step_helps(problem):
    pool, loss = problem.fit()
    g = problem.evidence.shape[1]
    z = problem.inside(pool)
    _, gradient = problem.objective(z)
    assert (pool.weights >= 0).all()
    # The loop ends when a Newton step gains less than 1e-9; with curvature h, the gradient is then about
    # √(2h·1e-9) at most, and h is about 1 in units of the spread.
    used = pool.weights > 0
    assert np.abs(gradient[:g][used]).max(initial=0.0) < 5e-5, "a weight in use has no slope"
    assert gradient[:g][~used].min(initial=0.0) > -5e-5, "a weight of 0 has no gain from growing"
    assert np.abs(gradient[g:]).max() < 5e-5
    assert loss == pytest.approx(problem.loss(pool.weights, pool.offsets)[0], rel=1e-9)


@given(problems)
def test_another_optimiser_finds_the_same(problem):
    g, k = problem.evidence.shape[1:]
    pool, _ = problem.fit()
    z = problem.inside(pool)
    best = minimize(
        problem.objective,
        np.zeros(g + k),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * g + [(None, None)] * k,
        options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-9},
    )
    assert problem.objective(z)[0] <= best.fun + 1e-8  # the loop may leave a few steps of 1e-9
    # The ridge bends the objective by `doubt` at least, so points whose values are within 1e-8 are this close.
    doubt = DOUBT_ROWS / (len(problem.y) if problem.weight is None else problem.weight.sum())
    assert np.linalg.norm(z - best.x) <= np.sqrt(2 * 2e-8 / doubt)


@pytest.mark.parametrize("k", [30, 150])
def test_another_optimiser_finds_the_same_of_many_classes(k):
    problem = Problem(k, 4 * k, 4, k)
    pool, _ = problem.fit()
    bounds = [(0, None)] * 4 + [(None, None)] * k
    best = minimize(problem.objective, np.zeros(4 + k), jac=True, method="L-BFGS-B", bounds=bounds)
    assert problem.objective(problem.inside(pool))[0] <= best.fun + 1e-8


def dense_hessian(rows, pool, ridge, offset_ridge):
    """The Hessian by all weights, in units of their spreads, and offsets, from each row's derivatives (k, g + k)."""
    z = np.append(pool.weights * rows.spread, pool.offsets)
    held = np.append(np.full(rows.g, ridge), np.full(rows.k, offset_ridge)) / rows.total
    curve = np.diag(held)
    for x, share in zip(rows.x, rows.share, strict=True):
        slopes = np.hstack([x, np.eye(rows.k)])
        scores = slopes @ z + rows.log_prior
        p = np.exp(scores - logsumexp(scores))
        curve += share * slopes.T @ (np.diag(p) - np.outer(p, p)) @ slopes
    return curve, held


@given(problems, st.integers(0, 100))
def test_the_curvature_is_the_dense_hessian(problem, seed):
    evidence = problem.evidence - problem.evidence.mean(axis=2, keepdims=True)  # large constants would cancel
    rows = Vectors(evidence, problem.y, problem.log_prior, problem.weight)
    rng = np.random.default_rng(seed)
    weights = rng.exponential(0.3, rows.g) * (rng.random(rows.g) < 0.7) / rows.spread
    pool = Pool(weights, 0.3 * rng.normal(size=rows.k))
    at, inverse, freedom = rows.curvature(pool, 3.0, 1.0)
    present = np.isin(np.arange(rows.k), problem.y)
    np.testing.assert_array_equal(at, np.flatnonzero(np.append(weights > 0, present)))
    dense, held = dense_hessian(rows, pool, 3.0, 1.0)
    unit = np.append(rows.spread, np.ones(rows.k))[at]
    inverse = inverse * np.outer(unit, unit) * rows.total
    np.testing.assert_allclose(inverse @ dense[np.ix_(at, at)], np.eye(len(at)), atol=1e-8)
    assert freedom == pytest.approx(np.trace((dense - np.diag(held))[np.ix_(at, at)] @ inverse), abs=1e-8)


@given(problems, st.integers(0, 100))
def test_doubt_pulls_weights_towards_the_prior(problem, seed):
    g, k = problem.evidence.shape[1:]
    believed = np.random.default_rng(seed).exponential(0.5, g) / spreads(problem.evidence)
    believed[::2] = 0.0
    rows = Vectors(problem.evidence, problem.y, problem.log_prior, problem.weight)
    pool, _ = rows.fit(towards=believed)
    best = minimize(
        lambda z: problem.objective(z, believed),
        np.zeros(g + k),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * g + [(None, None)] * k,
        options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-9},
    )
    assert problem.objective(problem.inside(pool), believed)[0] <= best.fun + 1e-8
    certain, _ = rows.fit(1e9, believed)
    np.testing.assert_allclose(certain.weights, believed, atol=1e-5 / spreads(problem.evidence).min())


@given(st.integers(0, 1000), st.booleans())
def test_one_vector_is_temperature_scaling(seed, weighted):
    problem = Problem(seed, 120, 1, 3, weighted)
    problem.log_prior = np.zeros(3)
    pool, _ = fit_pool(problem.evidence.copy(), problem.y, problem.log_prior, problem.weight, ridge=1e-9)
    loss = problem.loss(pool.weights, pool.offsets)[0]
    scale = 1.0 / spreads(problem.evidence)[0]
    best = minimize_scalar(
        lambda t: problem.loss(np.array([t * scale]), pool.offsets)[0], bounds=(0, 20), method="bounded"
    )
    assert loss <= best.fun + 1e-7  # no other temperature does better with these offsets


def test_overconfident_evidence_is_toned_down():
    rng = np.random.default_rng(0)
    n = 4000
    log_odds = 1.5 * rng.normal(size=n)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-log_odds))).astype(int)
    evidence = np.zeros((n, 1, 2))
    evidence[:, 0, 1] = 3.0 * log_odds  # every piece counted three times
    pool, _ = fit_pool(evidence.copy(), y, np.log([0.5, 0.5]))
    # The standard error of a logistic slope on 4000 rows is about 0.05 of it.
    assert pool.weights[0] == pytest.approx(1 / 3, rel=0.15)
    twice = np.concatenate([evidence / 3.0, evidence / 3.0], axis=1)
    together, _ = fit_pool(twice, y, np.log([0.5, 0.5]))
    assert together.weights.sum() == pytest.approx(1.0, rel=0.15), "the same evidence twice counts once"


def test_useless_vectors_get_no_weight():
    rng = np.random.default_rng(1)
    n, k = 300, 3
    y = rng.integers(0, k, n)
    evidence = np.zeros((n, 5, k))
    evidence[np.arange(n), 0, y] = rng.normal(1.0, 1.0, n)
    evidence[np.arange(n), 1, y] = -1.0  # evidence against the true class
    evidence[:, 2] = 4.0  # the same for every class
    evidence[:, 3] = rng.normal(size=(n, 1))  # likewise, different for each row
    pool, _ = fit_pool(evidence, y, np.log(np.full(k, 1 / k)))  # and 4 is all zeros
    assert pool.weights[0] > 0.1
    assert pool.weights[1] == 0.0
    contribution = (
        pool.weights[1:, None, None] * (evidence - evidence.mean(axis=2, keepdims=True)).transpose(1, 0, 2)[1:]
    )
    assert np.abs(contribution).max() < 1e-9, "no evidence, no effect"
    assert np.isfinite(pool.weights).all()


def test_no_vectors_at_all():
    y = np.array([0, 0, 0, 1, 1, 2])
    pool, loss = fit_pool(np.zeros((6, 4, 3)), y, np.log([0.5, 1 / 3, 1 / 6]))
    assert pool.weights.tolist() == [0.0] * 4
    np.testing.assert_allclose(pool.offsets, 0.0, atol=1e-6)  # the prior is right already
    assert loss == pytest.approx(-np.log([0.5, 0.5, 0.5, 1 / 3, 1 / 3, 1 / 6]).mean())
    pool, loss = fit_pool(np.zeros((6, 4, 3)), y, np.log(np.full(3, 1 / 3)))
    assert pool.offsets[0] > pool.offsets[1] > pool.offsets[2], "offsets make up for a prior that is not"


def test_a_class_without_prior_mass_stays_without():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 80)
    evidence = rng.normal(size=(80, 2, 3))
    evidence[np.arange(80), 0, y] += 1.0
    with np.errstate(divide="ignore"):
        log_prior = np.log([0.5, 0.5, 0.0])
    pool, loss = fit_pool(evidence.copy(), y, log_prior)
    assert pool.offsets[2] == 0.0
    two, without = fit_pool(evidence[:, :, :2].copy(), y, log_prior[:2])
    assert np.isfinite(loss)
    # Spreads over three classes are not those over two, so the ridge differs a little; the class itself plays no part.
    assert pool.weights == pytest.approx(two.weights, rel=0.2, abs=0.05)
    assert loss == pytest.approx(without, abs=5e-3)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows_are_doubted(n):
    y = np.arange(n) % 2
    evidence = np.zeros((n, 1, 2))
    evidence[np.arange(n), 0, y] = 5.0
    pool, loss = fit_pool(evidence, y, np.log([0.5, 0.5]))
    assert np.isfinite([*pool.weights, *pool.offsets, loss]).all()
    assert 5.0 * pool.weights[0] < 2.0, "so few rows do not make anything certain"


@given(st.integers(0, 500))
def test_a_weight_is_a_number_of_rows(seed):
    problem = Problem(seed, 30, 3, 3)
    times = np.random.default_rng(seed).integers(1, 4, 30)
    repeated, _ = fit_pool(np.repeat(problem.evidence, times, axis=0), np.repeat(problem.y, times), problem.log_prior)
    weighted, _ = fit_pool(problem.evidence.copy(), problem.y, problem.log_prior, times.astype(float))
    # Spreads are of rows, however often each counts, so the ridge differs; offsets are in the same units.
    scores = [np.einsum("ngk,g->nk", problem.evidence, pool.weights) + pool.offsets for pool in (repeated, weighted)]
    scores = [s - s.mean(axis=1, keepdims=True) for s in scores]
    assert np.abs(scores[0] - scores[1]).max() <= 0.1 * np.abs(scores[0]).max() + 0.05


def test_rows_of_weight_zero_change_nothing():
    problem = Problem(3, 4000, 2, 2)
    weight = np.zeros(4000)
    weight[1::2] = 1.0  # every other row: just those that a sample of 2000 would look at weigh nothing
    some, _ = fit_pool(problem.evidence.copy(), problem.y, problem.log_prior, weight)
    only, _ = fit_pool(problem.evidence[1::2].copy(), problem.y[1::2], problem.log_prior)
    # Spreads are of all rows: the ridge is not quite the same, and it is 3 rows among 2000.
    assert some.weights == pytest.approx(only.weights, rel=0.02)


@pytest.mark.parametrize(("g", "k"), [(1, 3), (4, 1), (3, 3)])
def test_evidence_is_only_read(g, k):
    problem = Problem(0, 40, g, k)
    before = problem.evidence.copy()
    fit_pool(problem.evidence, problem.y, problem.log_prior)
    np.testing.assert_array_equal(problem.evidence, before)


def test_the_evidence_of_parts_is_only_read_unless_it_may_be_overwritten():
    """Boosted trees read it again after the weights are fitted."""
    world = Pairs(2, 300, 20)
    folds = Folds.of(world.mark, world.y, 2, 3)
    every, parts = np.arange(300), list(world.parts(folds))
    before = [(part.inside.copy(), part.outside.copy()) for part in parts]
    about = (world.evidence(every, every), world.y, world.log_prior(every), None, folds, world.mark)
    cross_fit(*about, parts, world.weight_prior())
    doubt = best_doubt(parts[0], world.y, None, world.weight_prior(), (Doubt(100.0, 0.0), Doubt(1.0, 1.0)))
    for part, (inside, outside) in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part.inside, inside)
        np.testing.assert_array_equal(part.outside, outside)
    assert (
        best_doubt(parts[0], world.y, None, world.weight_prior(), (Doubt(100.0, 0.0), Doubt(1.0, 1.0)), overwrite=True)
        == doubt
    )


def test_units_do_not_matter():
    problem = Problem(5, 150, 4, 3)
    problem.evidence /= spreads(problem.evidence)[:, None]
    plain, _ = fit_pool(problem.evidence.copy(), problem.y, problem.log_prior)
    unit = np.array([1e-2, 1.0, 7.0, 3.0])
    scaled, _ = fit_pool(problem.evidence * unit[:, None], problem.y, problem.log_prior)
    # The narrowest vector is 1/700 of the widest, so no spread is raised to the floor of 1/1000.
    np.testing.assert_allclose(scaled.weights * unit, plain.weights, rtol=1e-4, atol=1e-6)


def test_a_vector_that_hardly_varied_has_a_floor():
    rng = np.random.default_rng(0)
    evidence = rng.normal(size=(50, 2, 2)) * np.array([1.0, 1e-9])[:, None]
    spread = spreads(evidence)
    assert spread[1] == pytest.approx(MIN_SPREAD_SHARE * spread[0])
    y = (evidence[:, 1, 1] > evidence[:, 1, 0]).astype(int)
    pool, _ = fit_pool(evidence, y, np.log([0.5, 0.5]))
    assert pool.weights[1] * 1e-9 < 1e-3, "although informative, it is too narrow to get a weight"


def test_a_class_that_no_row_is_of_is_not_ruled_out():
    """A class of one document has no rows to fit on; that is no evidence against the class."""
    problem = Problem(4, 90, 3, 3)
    some = problem.y < 2
    pool, _ = fit_pool(problem.evidence[some], problem.y[some], problem.log_prior)
    assert pool.offsets[2] == 0.0
    assert abs(pool.offsets[:2].sum()) < 0.1, "offsets of the others stay about 0"


# ---------------------------------------------------------------------- evidence that rows give each other


class Pairs:
    """Rows that are evidence about each other: vector g of row i is Σ_j S_gij e_{y_j}, and S_g is symmetric.

    In `telling` vectors, rows of the same class are more similar than others; the rest is noise.
    """

    def __init__(self, seed: int, n: int, g: int, telling: int = 0, k: int = 2, weight: np.ndarray | None = None):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, k, n).astype(np.int32)
        near = rng.normal(size=(g, n, n)) / np.sqrt(n)
        near[:telling] += 0.2 * (self.y[:, None] == self.y) / np.sqrt(n)
        near = (near + near.transpose(0, 2, 1)) / np.sqrt(2)
        near[:, np.arange(n), np.arange(n)] = 0.0  # each row is left out of its own
        self.near, self.k, self.weight = near, k, np.ones(n) if weight is None else weight
        self.mark = rng.permutation(n).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)

    def evidence(self, rows, learned):
        """(n, g, k), by the sums of the rows that were learned."""
        one = np.eye(self.k)[self.y[learned]] * self.weight[learned, None]
        return np.einsum("gij,jk->igk", self.near[:, rows][:, :, learned], one)

    def log_prior(self, rows):
        count = np.bincount(self.y[rows], self.weight[rows], minlength=self.k)
        return np.log(count / count.sum())

    def parts(self, folds):
        fold = folds.which(self.mark, self.y)
        for f in range(folds.count):
            out, rest = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
            yield FoldPart(rest, self.evidence(rest, rest), out, self.evidence(out, rest), self.log_prior(rest))

    def weight_prior(self):
        return WeightPrior(10.0, np.zeros(len(self.near)), 1.0)

    def chosen(self, folds=5):
        every = np.arange(len(self.y))
        cut = Folds.of(self.mark, self.y, self.k, folds)
        about = (self.evidence(every, every), self.y, self.log_prior(every), self.weight, cut, self.mark)
        return about[0], cross_fit(*about, self.parts(cut), self.weight_prior())

    def loss(self, scores):
        scores = scores + self.log_prior(np.arange(len(self.y)))
        return float((logsumexp(scores, axis=1) - scores[np.arange(len(self.y)), self.y]).mean())


def test_with_random_labels_the_stated_loss_is_that_of_a_coin():
    stated, fitted, weights = [], [], []
    for seed in range(12):
        world = Pairs(seed, 60, 20)
        evidence, chosen = world.chosen()
        prior = np.tile(world.log_prior(np.arange(60)), (60, 1))
        stated.append(world.loss(chosen.left_out.pooled(chosen.pool, evidence, world.y, world.mark, prior)))
        wild, _ = fit_pool(evidence, world.y, prior[0], None, 10.0)
        fitted.append(world.loss(wild.pooled(evidence)))
        weights.append(np.linalg.norm(chosen.pool.weights) / np.linalg.norm(wild.weights))
    assert np.mean(fitted) < 0.6, "weights fitted on leave-one-out vectors look better than a coin"
    assert np.log(2) - 0.01 < np.mean(stated) < np.log(2) + 0.05, "and those that never saw the row do not"
    assert np.median(weights) < 0.25, "so weights are small"


def test_informative_vectors_get_weight():
    for seed in range(5):
        world = Pairs(seed, 60, 8, telling=2)
        evidence, chosen = world.chosen()
        prior = np.tile(world.log_prior(np.arange(60)), (60, 1))
        stated = world.loss(chosen.left_out.pooled(chosen.pool, evidence, world.y, world.mark, prior))
        assert stated < 0.6
        assert chosen.pool.weights[:2].min() > chosen.pool.weights[2:].max()


def test_a_row_is_scored_without_its_own_label():
    """With its label changed, its scores are the same, except for the class shares."""
    world = Pairs(3, 40, 6, telling=2)
    _evidence, chosen = world.chosen()
    row = 7
    other = Pairs(3, 40, 6, telling=2)
    cut = chosen.left_out.folds
    other.y = world.y.copy()
    other.y[row] = 1 - other.y[row]
    fold = cut.which(world.mark, world.y)
    # The same folds, whatever the label: only what is learned of the rest may matter.
    edges = Folds(np.tile(cut.edges[world.y[row]], (2, 1)), np.full(2, cut.first[world.y[row]]))
    parts = list(world.parts(edges))
    changed = list(other.parts(edges))
    f = edges.which(world.mark[[row]], world.y[[row]])[0]
    np.testing.assert_array_equal(parts[f].inside, changed[f].inside)
    np.testing.assert_array_equal(parts[f].log_prior, changed[f].log_prior)
    assert fold.max() < cut.count


def test_the_order_of_rows_does_not_matter():
    world = Pairs(0, 50, 5, telling=1, weight=np.random.default_rng(0).uniform(0.5, 2.0, 50))
    evidence, chosen = world.chosen()
    rows = np.random.default_rng(1).permutation(50)
    moved = Pairs(0, 50, 5, telling=1, weight=world.weight[rows])
    moved.y, moved.mark, moved.near = world.y[rows], world.mark[rows], world.near[:, rows][:, :, rows]
    again, same = moved.chosen()
    np.testing.assert_allclose(same.pool.weights, chosen.pool.weights, rtol=1e-4, atol=1e-6)
    prior = np.zeros((50, 2))
    one = chosen.left_out.pooled(chosen.pool, evidence, world.y, world.mark, prior)
    two = same.left_out.pooled(same.pool, again, moved.y, moved.mark, prior)
    np.testing.assert_allclose(two, one[rows], atol=1e-4)


@given(st.integers(0, 1000), st.integers(1, 80), st.integers(1, 6), st.integers(2, 5))
def test_folds_are_even_and_reproducible(seed, n, k, count):
    rng = np.random.default_rng(seed)
    y, mark = rng.integers(0, k, n).astype(np.int32), rng.permutation(10 * n)[:n].astype(np.uint64)
    folds = Folds.of(mark, y, k, count)
    fold = folds.which(mark, y)
    assert ((0 <= fold) & (fold < count)).all()
    for c in range(k):
        sizes = np.bincount(fold[y == c], minlength=count)
        assert sizes.max() - sizes.min() <= 1, "every class is cut into equal parts"
    some = rng.random(n) < 0.5
    np.testing.assert_array_equal(folds.which(mark[some], y[some]), fold[some])


# ---------------------------------------------------------------------- in closed form


@pytest.mark.parametrize("weighted", [False, True])
def test_the_pull_of_a_row_is_a_derivative(weighted):
    """With slightly less weight of a row, its scores move by the closed form times the change."""
    problem = Problem(11, 60, 4, 3, weighted)
    problem.evidence /= spreads(problem.evidence)[:, None]
    weight = np.ones(60) if problem.weight is None else problem.weight
    ridge = np.full(4, 5.0)

    def fit(weight):
        rows = Vectors(problem.evidence, problem.y, problem.log_prior, weight)
        return rows, rows.fit(ridge, None, None, 1e-15, 2.0)[0]

    rows, pool = fit(weight)
    at, inverse, _ = rows.curvature(pool, ridge, 2.0)
    form = ByForm(at[at < 4], at[at >= 4] - 4, inverse, 2**63)
    y, mark, prior = problem.y.astype(np.int32), np.zeros(60, dtype=np.uint64), np.tile(problem.log_prior, (60, 1))
    moved = form.pooled(pool, problem.evidence, y, mark, prior, weight) - pool.pooled(problem.evidence)
    for i in range(0, 60, 7):
        scores, step = [], 0.01
        for share in (1.0 - step, 1.0 + step):
            other = weight.copy()
            other[i] *= share
            scores.append(fit(other)[1].pooled(problem.evidence[i : i + 1])[0])
        # A difference from both sides is right to the square of the step.
        np.testing.assert_allclose((scores[0] - scores[1]) / (2 * step), moved[i], rtol=1e-3, atol=1e-4)


def test_rows_that_had_no_part_are_judged_as_they_are():
    problem = Problem(5, 80, 3, 2)
    rows = Vectors(problem.evidence, problem.y, problem.log_prior)
    pool, _ = rows.fit()
    at, inverse, _ = rows.curvature(pool, DOUBT_ROWS, None)
    form = ByForm(at[at < 3], at[at >= 3] - 3, inverse, 39)
    mark, prior = np.arange(80, dtype=np.uint64), np.tile(problem.log_prior, (80, 1))
    judged = form.pooled(pool, problem.evidence, problem.y.astype(np.int32), mark, prior)
    plain = pool.pooled(problem.evidence)
    np.testing.assert_array_equal(judged[40:], plain[40:])
    assert np.abs(judged[:40] - plain[:40]).max() > 1e-6


def test_many_uninformative_rows_in_closed_form():
    world = Pairs(2, 400, 25)
    every = np.arange(400)
    evidence, prior = world.evidence(every, every), world.log_prior(every)
    doubts = tuple(Doubt(times, 0.0) for times in (0.1, 1.0, 10.0, 100.0, 1000.0))
    chosen, expected = closed_fit(Vectors(evidence, world.y, prior), 2**63, world.weight_prior(), doubts, 2.0)
    wild = world.loss(fit_pool(evidence, world.y, prior, None, 1.0)[0].pooled(evidence))
    assert wild < np.log(2) - 0.02
    assert expected > wild + 0.01
    assert np.linalg.norm(chosen.pool.weights) < 0.3 * np.linalg.norm(fit_pool(evidence, world.y, prior)[0].weights)


@pytest.mark.parametrize("times", [1.0, 2.5])
@pytest.mark.parametrize("wary", [None, 4.0])
def test_the_expected_loss_of_new_rows_adds_the_optimism(times, wary):
    """Akaike: a nat per effective weight, over the number of rows; `wary` only affects the choice of a doubt."""
    world = Pairs(2, 400, 25)
    every = np.arange(400)
    evidence, prior, weight_prior = world.evidence(every, every), world.log_prior(every), world.weight_prior()
    _, expected = closed_fit(Vectors(evidence, world.y, prior), 2**63, weight_prior, (Doubt(10.0, 0.0),), times, wary)
    rows = Vectors(evidence, world.y, prior)
    pool, loss = rows.fit(weight_prior.ridge * 10.0, weight_prior.weights * 0.0, None, 1e-8, weight_prior.offset_ridge)
    freedom = rows.curvature(pool, weight_prior.ridge * 10.0, weight_prior.offset_ridge)[2]
    assert freedom > 0.5
    assert expected == pytest.approx(loss + times * freedom / 400, rel=1e-6)


def test_the_best_doubt_is_chosen_by_a_fold():
    """A higher cost needs a higher gain, and if rows cannot decide, the first is taken."""
    world = Pairs(2, 400, 25)
    part = next(iter(world.parts(Folds.of(world.mark, world.y, 2))))
    doubts = (Doubt(100.0, 0.0), Doubt(1e-9, 0.0))
    assert best_doubt(part, world.y, None, world.weight_prior(), doubts) in (doubts[0], PRIOR_ONLY), "random labels"
    nobody = part._replace(out=part.out[:0], outside=part.outside[:0])
    assert best_doubt(nobody, world.y, None, world.weight_prior(), doubts) == doubts[0]
    assert best_doubt(part, np.zeros_like(world.y), None, world.weight_prior(), doubts) == doubts[0]
    assert Doubt(100.0, 0.0).cost == Doubt(1e9, 0.0).cost == PRIOR_ONLY.cost == 0.0
    assert Doubt(10.0, 0.0).cost == pytest.approx(MIN_NATS_PER_DECADE)
    assert Doubt(1.0, 1.0).cost == pytest.approx(2.0 * MIN_NATS_PER_DECADE)


def test_no_doubt_is_settled_for_where_nothing_was_learned():
    """A worse doubt ends the search if something was learned; otherwise the class shares are tried too."""
    world = Pairs(2, 400, 25)
    every = np.arange(400)
    evidence, prior = world.evidence(every, every), world.log_prior(every)
    doubts = (*(Doubt(times, 0.0) for times in (0.1, 1.0)), PRIOR_ONLY)
    chosen, expected = closed_fit(Vectors(evidence, world.y, prior), 2**63, world.weight_prior(), doubts, 1.5, 2.0)
    assert chosen.doubts == ((PRIOR_ONLY, 1.0),)
    assert not chosen.pool.weights.any()
    assert expected == pytest.approx(-prior[world.y].mean())
    mark = np.zeros(400, dtype=np.uint64)
    np.testing.assert_array_equal(chosen.left_out.pooled(chosen.pool, evidence, world.y, mark, prior), 0.0)


def test_classes_come_and_go():
    pool = Pool(np.array([1.0]), np.array([0.1, 0.2, 0.3]))
    assert pool.in_classes(np.array([2, -1, 0])).offsets.tolist() == [0.3, 0.0, 0.1]
    form = ByForm(np.array([0]), np.array([0, 2]), np.diag([1.0, 2.0, 3.0]), 5)
    moved = form.in_classes(np.array([2, -1, 0]))
    assert moved.classes.tolist() == [0, 2]
    assert np.diagonal(moved.inverse).tolist() == [1.0, 3.0, 2.0]


def test_pooled_is_the_weighted_sum():
    evidence = np.arange(12.0).reshape(2, 3, 2)
    pool = Pool(np.array([1.0, 0.0, 2.0]), np.array([0.5, -0.5]))
    expected = [[row[0][c] + 2 * row[2][c] + pool.offsets[c] for c in range(2)] for row in evidence]
    np.testing.assert_allclose(pool.pooled(evidence), expected)


def test_the_spread_is_about_the_mean_over_classes():
    evidence = np.array([[[1.0, 3.0], [5.0, 5.0]], [[2.0, 2.0], [7.0, 7.0]]])
    assert spreads(evidence).tolist() == pytest.approx([np.sqrt(0.5), MIN_SPREAD_SHARE * np.sqrt(0.5)])
    assert spreads(np.full((2, 3, 2), 4.0)).tolist() == [1.0, 1.0, 1.0]


# ------------------------------------------------------------------ folds of rows that are alike


def test_copies_of_a_row_are_spread_over_folds_whatever_their_class():
    """A fold that takes the copies of one class and leaves those of another turns the evidence around."""
    rng = np.random.default_rng(0)
    value = rng.integers(0, 7, 700).astype(np.uint64)
    y = rng.integers(0, 2, 700).astype(np.int32)
    mark = distinct_marks(mix_bits(value), y)
    assert len(np.unique(mark)) == 700
    fold = Folds.of(mark, y, 2, 3).which(mark, y)
    assert np.bincount(fold).tolist() == pytest.approx([233, 233, 233], abs=3)
    for v in range(7):
        for c in range(2):
            mine = (value == v) & (y == c)
            assert np.bincount(fold[mine], minlength=3).min() > 0.15 * mine.sum()


def test_marks_of_copies_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    value, y = rng.integers(0, 5, 60).astype(np.uint64), rng.integers(0, 3, 60).astype(np.int32)
    order = rng.permutation(60)
    before, after = (
        sorted(zip(a.tolist(), b.tolist(), distinct_marks(a, b).tolist(), strict=True))
        for a, b in ((value, y), (value[order], y[order]))
    )
    assert before == after
