"""Likelihoods: estimate and expect are inverse, probabilities sum to one, missing values integrate out."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.special import gammaln
from scipy.stats import multivariate_normal, multivariate_t
from worlds import CASES, GENERATIVE, Case, law

from deciban import bayes
from deciban.algebra import add_prior
from deciban.schema import Columns


def as_it_is(family):
    """Whether parameters are those of the sums: a floor or shrinkage would be applied a second time."""
    return not any(getattr(family, name, 0.0) for name in ("smoothing", "tie", "sphere"))


@law([case for case in GENERATIVE if as_it_is(case.law)], rows=(2, 30))
def test_estimate_inverts_expect(world):
    family = world.family
    columns, sums = world.schema.blocks[0], world.collect().sums[0]
    if getattr(family, "covariance", "") == "EEV":  # with fewer rows than columns, axes may point anywhere
        assume((sums["one"] > columns.size).all())
    params = family.estimate(add_prior(sums, family.pseudo(world.alpha, columns, sums)), columns)
    again = family.estimate(family.expect(params, columns), columns)
    for field in fields(params):
        first, second = getattr(params, field.name), getattr(again, field.name)
        # Not what only the prior knows, what is unset, and how much was seen.
        if field.name not in ("log_unseen", "floor", "rows", "pseudo", "weight", "pooled", "roots", "repairs", "shape"):
            np.testing.assert_allclose(second, first, rtol=1e-6, atol=1e-9 * np.abs(first).max(initial=1.0))


@pytest.mark.parametrize("case", GENERATIVE, ids=str)
def test_probabilities_sum_to_one(case):
    world, name = case.make(5, 12, 2, 2, False, False, 1.0), case.family
    columns = world.schema.blocks[0]
    params = world.model().params[0]

    def log_prob(rows):
        return world.family.log_prob(params, columns, np.array(rows, dtype=float))

    if world.family.pivoted:
        variances = world.family.table(params, columns)["variance"]
        u = np.linspace(-12.0, 12.0, 2001)  # x = μ + σ sinh u: tails of a Student-t are long
        for c, j in itertools.product(range(2), range(2)):
            deviation = np.sqrt(variances[c, j])
            rows = np.full((len(u), 2), np.nan)  # the other column is missing
            rows[:, j] = params.mean[c, j] + deviation * np.sinh(u)
            density = np.exp(log_prob(rows)[:, c])
            assert trapezoid(density * deviation * np.cosh(u), u) == pytest.approx(1.0, abs=1e-6)
    elif name == "multinomial":  # all orders of documents of three words
        orders = [np.bincount(order, minlength=2) for order in itertools.product(range(2), repeat=3)]
        assert np.exp(log_prob(orders)).sum(axis=0) == pytest.approx(1.0, abs=1e-9)
    else:  # every value of one column, the other missing
        values = {
            "bernoulli": np.arange(2),
            "categorical": np.arange(5),
            "poisson": np.arange(200),
            "tree": np.arange(5),
        }.get(name, np.arange(100_000))
        for j in range(2):
            rows = np.full((len(values), 2), np.nan)
            rows[:, j] = values
            if columns.categories is not None:
                rows = rows[: len(columns.categories[j])]
            assert np.exp(log_prob(rows)).sum(axis=0) == pytest.approx(1.0, abs=1e-9)


@law(rows=(1, 30))
def test_a_row_of_missing_values_is_no_evidence(world):
    nothing = np.full_like(world.X, np.nan)
    params, columns = world.model().params[0], world.schema.blocks[0]
    np.testing.assert_allclose(world.family.log_prob(params, columns, nothing), 0.0, atol=1e-9)


@law([case for case in CASES if not case.law.whole_rows and case.family != "tree"], rows=(1, 30))
def test_independent_columns_add_up(world):
    """log p of a row is the sum over its entries; with parameters integrated out, a missing value is no word."""
    params, columns, X = world.model().params[0], world.schema.blocks[0], world.X
    whole = world.family.log_prob(params, columns, X)
    if world.family.name == "multinomial" and world.family.predictive:
        total = world.family.log_prob(params, columns, np.nan_to_num(X))
    else:
        total = np.zeros_like(whole)
        for j in range(columns.size):
            alone = np.full_like(X, np.nan)
            alone[:, j] = X[:, j]
            total += world.family.log_prob(params, columns, alone)
    np.testing.assert_allclose(total, whole, rtol=1e-9, atol=1e-7 * (1 + np.abs(whole).max(initial=0)))


@law([case for case in CASES if case.family == "tree"], rows=(1, 30), which=st.integers(0, 100))
def test_a_hidden_value_may_be_any(world, which):
    params, columns, X = world.model().params[0], world.schema.blocks[0], world.X.copy()
    hidden, each = which % columns.size, []
    for value in columns.categories[hidden]:
        X[:, hidden] = value
        each.append(world.family.log_prob(params, columns, X))
    X[:, hidden] = np.nan
    summed = np.logaddexp.reduce(each, axis=0)
    np.testing.assert_allclose(world.family.log_prob(params, columns, X), summed, rtol=1e-9, atol=1e-9)


@law(
    [case for case in CASES if case.law.whole_rows],
    rows=(30, 60),  # so many that covariances are those of the rows
    columns=4,
    classes=2,
    which=st.integers(0, 100),
)
def test_hidden_columns_are_integrated_out(world, which):
    """A row with missing values has the marginal law of the present columns."""
    params, columns = world.model().params[0], world.schema.blocks[0]
    assume(params.repairs == type(params.repairs)())
    kept = np.sort(np.random.default_rng(which).permutation(columns.size)[: 1 + which % columns.size])
    full = world.X[~np.isnan(world.X).any(axis=1)]
    hidden = full.copy()
    hidden[:, np.setdiff1d(np.arange(columns.size), kept)] = np.nan
    log_prob = world.family.log_prob(params, columns, hidden)
    for c in range(len(params.mean)):
        mean = params.mean[c][kept]
        spread = params.covariance[c if len(params.covariance) > 1 else 0][np.ix_(kept, kept)]
        if world.family.predictive:
            marginal = multivariate_t(mean, spread * (1.0 + 1.0 / params.weight[c]), df=params.rows[c])
        else:
            marginal = multivariate_normal(mean, spread)
        np.testing.assert_allclose(log_prob[:, c], np.atleast_1d(marginal.logpdf(full[:, kept])), rtol=1e-5, atol=1e-5)


@law(rows=(1, 30))
def test_posteriors_sum_to_one(world):
    model = world.model()
    log_joint = model.log_joint([world.X])
    assert not np.isnan(log_joint).any()
    proba = bayes.posterior(log_joint.copy(), model.log_prior)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    logs = bayes.posterior(log_joint, model.log_prior, logs=True)
    np.testing.assert_allclose(np.exp(logs), proba, atol=1e-12)


INTEGRATED = [
    Case("gaussian", {"predictive": True, "smoothing": 0.0, "guess_mean": 0.5, "guess_variance": 2.0}),
    Case("multinomial", {"predictive": True}),
    Case(
        "multivariate_gaussian",
        {
            "predictive": True,
            "guess_mean": 0.5,
            "guess_covariance": ((2.0, 0.5, 0.0), (0.5, 1.0, 0.3), (0.0, 0.3, 1.5)),
        },
    ),
    Case("poisson", {"predictive": True, "guess": 1.3}),
    Case("geometric", {"predictive": True, "guess": 1.3}),
    *(Case(name) for name in ("bernoulli", "categorical", "tree")),
]


def test_every_marginal_is_tested():
    assert {case.family for case in INTEGRATED} == {case.family for case in GENERATIVE}


@pytest.mark.parametrize("case", INTEGRATED, ids=lambda case: case.family)
def test_the_log_marginal_is_the_chain_of_predictions(case):
    """log p(x_1..x_n) = Σ log p(x_i | x_1..x_{i−1}) with the parameters integrated out."""
    name = case.family
    # Where columns depend on each other, there is no closed form with gaps.
    missing = name not in ("multivariate_gaussian", "tree")
    world = case.make(11, 9, 3, 1, missing, False, 1.7)
    if world.family.pivoted:
        world.X -= np.nanmean(world.X)
        world.schema = type(world.schema)(world.schema.classes, (Columns(3, pivot=np.zeros((1, 3))),))
    columns = world.schema.blocks[0]
    chain = 0.0
    for i in range(len(world.y)):
        model = world.model(slice(0, i))
        chain += float(world.family.log_prob(model.params[0], columns, world.X[i : i + 1])[0, 0])
    if name == "poisson":
        chain += float(np.nansum(gammaln(world.X + 1.0)))  # Σ log x!, which the closed form leaves out
    sums = world.collect().sums[0]
    closed = world.family.log_marginal(sums, world.family.pseudo(world.alpha, columns, sums), columns)
    assert closed.sum() == pytest.approx(chain, rel=1e-9)
