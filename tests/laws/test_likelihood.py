"""Likelihoods: parameters and expectations are inverse, probabilities sum to one, missing entries integrate out."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import multivariate_normal
from worlds import GENERATIVE, make, worlds

from deciban import bayes
from deciban.algebra import add_prior
from deciban.families import FAMILIES, Gaussian
from deciban.schema import Columns


@given(worlds(GENERATIVE, least_rows=2))
def test_estimate_inverts_expect(world):
    family = Gaussian(smoothing=0.0) if world.family.name == "gaussian" else world.family
    columns, sums = world.schema.blocks[0], world.collect().sums[0]
    params = family.estimate(add_prior(sums, family.pseudo(world.alpha, columns, sums)), columns)
    again = family.estimate(family.expect(params, columns), columns)
    for field in fields(params):
        first, second = getattr(params, field.name), getattr(again, field.name)
        # Not what only the prior knows, what is unset, and how much was seen.
        if field.name not in ("log_unseen", "floor", "rows", "pseudo", "weight", "pooled", "roots", "repairs", "shape"):
            np.testing.assert_allclose(second, first, rtol=1e-6, atol=1e-9 * np.abs(first).max(initial=1.0))


@pytest.mark.parametrize("name", GENERATIVE)
@pytest.mark.parametrize("predictive", [False, True])
def test_probabilities_sum_to_one(name, predictive):
    settings = {"predictive": predictive} if hasattr(FAMILIES[name], "predictive") else {}
    world = make(name, 5, 12, 2, 2, False, False, 1.0, **settings)
    columns = world.schema.blocks[0]
    params = world.model().params[0]

    def log_prob(rows):
        return world.family.log_prob(params, columns, np.array(rows, dtype=float))

    if world.family.pivoted:
        variances = params.variance if name == "gaussian" else np.diagonal(params.covariance, axis1=1, axis2=2)
        for c in range(2):
            centre = params.mean[c]
            for j in range(2):
                row = centre.copy()

                def density(v, row=row, j=j, c=c):
                    row[j] = v
                    other = row.copy()
                    other[1 - j] = np.nan
                    return float(np.exp(log_prob([other])[0, c]))

                width = 60.0 * np.sqrt(variances[c, j])
                mass = quad(density, centre[j] - width, centre[j] + width, limit=400, points=[centre[j]])[0]
                assert mass == pytest.approx(1.0, abs=1e-6)
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


@given(worlds(least_rows=3), st.integers(0, 100))
def test_a_missing_entry_contributes_nothing(world, seed):
    """log p of a row with entries missing is that of the row with those columns taken out of the model."""
    model, columns = world.model(), world.schema.blocks[0]
    params = model.params[0]
    X = world.X.copy()
    whole = world.family.log_prob(params, columns, X)
    empty = world.family.log_prob(params, columns, np.full_like(X, np.nan))
    np.testing.assert_allclose(empty, 0.0, atol=1e-9)
    if world.family.whole_rows:  # some of the columns, and the model of these alone
        kept = np.sort(np.random.default_rng(seed).permutation(columns.size)[: 1 + seed % columns.size])
        full = world.X[~np.isnan(world.X).any(axis=1)]
        assume(len(full) > columns.size + 1 and len(world.schema.classes) == 1 and world.weight is None)
        assume(params.repairs == type(params.repairs)())
        hidden = full.copy()
        hidden[:, np.setdiff1d(np.arange(columns.size), kept)] = np.nan
        law = multivariate_normal(params.mean[0][kept], params.covariance[0][np.ix_(kept, kept)], allow_singular=True)
        expected = np.atleast_1d(law.logpdf(full[:, kept]))
        found = world.family.log_prob(params, columns, hidden)[:, 0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        return
    if world.family.name == "tree":  # a value that is hidden may be any
        hidden = seed % columns.size
        each = []
        for value in columns.categories[hidden]:
            X[:, hidden] = value
            each.append(world.family.log_prob(params, columns, X))
        X[:, hidden] = np.nan
        summed = np.logaddexp.reduce(each, axis=0)
        np.testing.assert_allclose(world.family.log_prob(params, columns, X), summed, rtol=1e-9, atol=1e-9)
        return
    total = np.zeros_like(whole)
    for j in range(columns.size):
        alone = np.full_like(X, np.nan)
        alone[:, j] = X[:, j]
        total += world.family.log_prob(params, columns, alone)
    np.testing.assert_allclose(total, whole, rtol=1e-9, atol=1e-7 * (1 + np.abs(whole).max(initial=0)))


@given(worlds(least_rows=1))
def test_posteriors_sum_to_one(world):
    model = world.model()
    log_joint = model.log_joint([world.X])
    assert not np.isnan(log_joint).any()
    proba = bayes.posterior(log_joint.copy(), model.log_prior)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    logs = bayes.posterior(log_joint, model.log_prior, logs=True)
    np.testing.assert_allclose(np.exp(logs), proba, atol=1e-12)


@pytest.mark.parametrize("name", GENERATIVE)
def test_the_log_marginal_is_the_chain_of_predictions(name):
    """log p(x_1..x_n) = Σ log p(x_i | x_1..x_{i−1}) with the parameters integrated out."""
    settings = {
        "gaussian": {"predictive": True, "smoothing": 0.0, "guess_mean": 0.5, "guess_variance": 2.0},
        "multinomial": {"predictive": True},
        "multivariate_gaussian": {
            "predictive": True,
            "guess_mean": 0.5,
            "guess_covariance": ((2.0, 0.5, 0.0), (0.5, 1.0, 0.3), (0.0, 0.3, 1.5)),
        },
        "poisson": {"predictive": True, "guess": 1.3},
    }.get(name, {"predictive": True} if hasattr(FAMILIES[name], "predictive") else {})
    missing = name not in (
        "multivariate_gaussian",
        "tree",
    )  # where columns depend on each other, there is no closed form with holes
    world = make(name, 11, 9, 3, 1, missing, False, 1.7, **settings)
    if world.family.pivoted:
        world.X -= np.nanmean(world.X)
        world.schema = type(world.schema)(world.schema.classes, (Columns(3, pivot=np.zeros((1, 3))),))
    columns = world.schema.blocks[0]
    chain = 0.0
    for i in range(len(world.y)):
        model = world.model(slice(0, i))
        chain += float(world.family.log_prob(model.params[0], columns, world.X[i : i + 1])[0, 0])
    if name == "poisson":
        from scipy.special import gammaln

        chain += float(np.nansum(gammaln(world.X + 1.0)))  # Σ log x!, which the closed form leaves out
    sums = world.collect().sums[0]
    closed = world.family.log_marginal(sums, world.family.pseudo(world.alpha, columns, sums), columns)
    assert closed.sum() == pytest.approx(chain, rel=1e-9)
