"""Reliability: the weights are the best there are, by their own conditions and by another optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from deciban.pool import ENOUGH, FLOOR, RIDGE, Pool, choose_pool, fit_pool, spreads


class Problem:
    """Evidence (n, g, k) of vectors that tell something, or nothing, in units of very different sizes."""

    def __init__(self, seed: int, n: int, g: int, k: int, weighted: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, k, n)
        self.evidence = rng.normal(size=(n, g, k))
        self.evidence[np.arange(n), :, self.y] += rng.uniform(-0.5, 1.5, g)
        self.evidence *= 10.0 ** rng.uniform(-3, 3, g)[:, None]
        self.evidence += 5.0 * rng.normal(size=(n, g, 1))  # what all classes share says nothing
        self.weight = rng.uniform(0.1, 3.0, n) if weighted else None
        counts = np.bincount(self.y, self.weight, minlength=k) + 0.5
        self.log_prior = np.log(counts / counts.sum())

    def fit(self):
        return fit_pool(self.evidence.copy(), self.y, self.log_prior, self.weight)

    def loss(self, weights, offsets):
        """The mean log loss, and its gradient by weights and offsets."""
        scores = np.einsum("ngk,g->nk", self.evidence, weights) + self.log_prior + offsets
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
        doubt = RIDGE / (len(self.y) if self.weight is None else self.weight.sum())
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
    # The loop ends when a Newton step gains less than 1e-9; where the loss bends by h, the gradient is then about
    # √(2h·1e-9) at most, and h is about 1 in units of the spread.
    used = pool.weights > 0
    assert np.abs(gradient[:g][used]).max(initial=0.0) < 5e-5, "a weight in use has no slope"
    assert gradient[:g][~used].min(initial=0.0) > -5e-5, "a weight at nothing does not want to grow"
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
    doubt = RIDGE / (len(problem.y) if problem.weight is None else problem.weight.sum())
    assert np.linalg.norm(z - best.x) <= np.sqrt(2 * 2e-8 / doubt)


@given(problems, st.integers(0, 100))
def test_doubt_leans_towards_what_is_believed_already(problem, seed):
    g, k = problem.evidence.shape[1:]
    believed = np.random.default_rng(seed).exponential(0.5, g) / spreads(problem.evidence)
    believed[::2] = 0.0
    pool, _ = fit_pool(problem.evidence.copy(), problem.y, problem.log_prior, problem.weight, towards=believed)
    best = minimize(
        lambda z: problem.objective(z, believed),
        np.zeros(g + k),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * g + [(None, None)] * k,
        options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-9},
    )
    assert problem.objective(problem.inside(pool), believed)[0] <= best.fun + 1e-8
    certain, _ = fit_pool(
        problem.evidence.copy(), problem.y, problem.log_prior, problem.weight, ridge=1e9, towards=believed
    )
    np.testing.assert_allclose(certain.weights, believed, atol=1e-5 / spreads(problem.evidence).min())


@given(st.integers(0, 1000), st.booleans())
def test_one_vector_is_temperature_scaling(seed, weighted):
    problem = Problem(seed, 120, 1, 3, weighted)
    problem.log_prior = np.zeros(3)
    pool, _ = fit_pool(problem.evidence.copy(), problem.y, problem.log_prior, problem.weight, ridge=1e-9)
    found = problem.loss(pool.weights, pool.offsets)[0]
    scale = 1.0 / spreads(problem.evidence)[0]
    best = minimize_scalar(
        lambda t: problem.loss(np.array([t * scale]), pool.offsets)[0], bounds=(0, 20), method="bounded"
    )
    assert found <= best.fun + 1e-7  # no other temperature does better with these offsets


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
    assert together.weights.sum() == pytest.approx(1.0, rel=0.15), "the same said twice counts once"


def test_useless_vectors_are_not_believed():
    rng = np.random.default_rng(1)
    n, k = 300, 3
    y = rng.integers(0, k, n)
    evidence = np.zeros((n, 5, k))
    evidence[np.arange(n), 0, y] = rng.normal(1.0, 1.0, n)
    evidence[np.arange(n), 1, y] = -1.0  # speaks against the truth
    evidence[:, 2] = 4.0  # says the same of every class
    evidence[:, 3] = rng.normal(size=(n, 1))  # likewise, of each row something else
    pool, _ = fit_pool(evidence, y, np.log(np.full(k, 1 / k)))  # and 4 says nothing at all
    assert pool.weights[0] > 0.1
    assert pool.weights[1] == 0.0
    said = pool.weights[1:, None, None] * (evidence - evidence.mean(axis=2, keepdims=True)).transpose(1, 0, 2)[1:]
    assert np.abs(said).max() < 1e-9, "what says nothing moves nothing"
    assert np.isfinite(pool.weights).all()


def test_nothing_was_said():
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
    said = [np.einsum("ngk,g->nk", problem.evidence, pool.weights) + pool.offsets for pool in (repeated, weighted)]
    said = [s - s.mean(axis=1, keepdims=True) for s in said]
    assert np.abs(said[0] - said[1]).max() <= 0.1 * np.abs(said[0]).max() + 0.05


def test_rows_that_weigh_nothing_change_nothing():
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
    assert spread[1] == pytest.approx(FLOOR * spread[0])
    y = (evidence[:, 1, 1] > evidence[:, 1, 0]).astype(int)
    pool, _ = fit_pool(evidence, y, np.log([0.5, 0.5]))
    assert pool.weights[1] * 1e-9 < 1e-3, "telling as it is, it is too narrow to be believed"


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_is_nothing(seed):
    problem = Problem(seed, 60, 5, 3, weighted=bool(seed))
    pool = choose_pool(problem.evidence, problem.y, problem.log_prior, problem.weight)
    rows = np.random.default_rng(seed).permutation(60)
    weight = None if problem.weight is None else problem.weight[rows]
    again = choose_pool(problem.evidence[rows], problem.y[rows], problem.log_prior, weight)
    np.testing.assert_allclose(again.weights, pool.weights, rtol=1e-5, atol=1e-9 * pool.weights.max())
    np.testing.assert_allclose(again.offsets, pool.offsets, atol=1e-5)


def test_few_rows_are_doubted_as_far_as_it_helps():
    """Weights that only chance has asked for are shrunk; those of many rows are what they are."""
    chance = Problem(7, 80, 40, 2)
    chance.evidence = np.random.default_rng(0).normal(size=chance.evidence.shape)
    wild, _ = fit_pool(chance.evidence, chance.y, chance.log_prior)
    tame = choose_pool(chance.evidence, chance.y, chance.log_prior)
    assert np.linalg.norm(tame.weights) < 0.5 * np.linalg.norm(wild.weights)
    many = Problem(7, ENOUGH, 4, 2)
    plain, _ = fit_pool(many.evidence, many.y, many.log_prior)
    np.testing.assert_array_equal(choose_pool(many.evidence, many.y, many.log_prior).weights, plain.weights)


def test_pooled_is_the_weighted_sum():
    evidence = np.arange(12.0).reshape(2, 3, 2)
    pool = Pool(np.array([1.0, 0.0, 2.0]), np.array([0.5, -0.5]))
    expected = [[row[0][c] + 2 * row[2][c] + pool.offsets[c] for c in range(2)] for row in evidence]
    np.testing.assert_allclose(pool.pooled(evidence), expected)


def test_the_spread_is_about_the_mean_over_classes():
    evidence = np.array([[[1.0, 3.0], [5.0, 5.0]], [[2.0, 2.0], [7.0, 7.0]]])
    assert spreads(evidence).tolist() == pytest.approx([np.sqrt(0.5), FLOOR * np.sqrt(0.5)])
    assert spreads(np.full((2, 3, 2), 4.0)).tolist() == [1.0, 1.0, 1.0]
