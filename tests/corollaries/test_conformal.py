"""Prediction sets: p-values are those of literal refits, and the coverage is as promised."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import deciban
from deciban.corollaries.conformal import CROSS, FULL, cross_bound, strangeness
from deciban.corollaries.full_conformal import FullConformal
from deciban.estimators.prediction_sets import fold_of
from deciban.reading.given import Rows

NUMBERS = {
    "gaussian": deciban.GaussianNB(),
    "gaussian_large_floor": deciban.GaussianNB(var_smoothing=0.1),
    "gaussian_no_floor": deciban.GaussianNB(var_smoothing=0.0),
    "gaussian_prior": deciban.GaussianNB(alpha=0.7),
    "gaussian_given_prior": deciban.GaussianNB(priors=[0.3, 0.7], alpha=0.5, prior_mean=0.1),
    "student": deciban.GaussianNB(predictive=True, alpha=1.0),
    "quadratic": deciban.QuadraticDiscriminantAnalysis(),
    "quadratic_student": deciban.GaussianDiscriminant(shrinkage=None),
    "regularised": deciban.GaussianDiscriminant(shrinkage=(0.3, 0.1)),
    "linear": deciban.LinearDiscriminantAnalysis(),
    "linear_shrunk": deciban.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2),
    "linear_student": deciban.GaussianDiscriminant(covariance="tied", shrinkage=None, priors=[0.3, 0.7]),
    "diagonal": deciban.GaussianDiscriminant(covariance="diag", shrinkage=None),
    "centroids": deciban.NearestCentroid(),
    "naive_bayes": deciban.NaiveBayes({0: "poisson", 1: "categorical", 2: "bernoulli"}),
    "naive_bayes_group": deciban.NaiveBayes({(0, 1): "full", 2: "categorical"}, rest="drop"),
}
COUNTS = {
    "bernoulli": deciban.BernoulliNB(alpha=0.3),
    "categorical": deciban.CategoricalNB(min_categories=9),
    "categorical_unsmoothed": deciban.CategoricalNB(alpha=0.0, min_categories=9),
    "categorical_by_class": deciban.CategoricalNB(alpha=np.linspace(0.1, 2.0, 8).reshape(2, 4), min_categories=9),
    "multinomial": deciban.MultinomialNB(alpha=0.5),
    "multinomial_uniform": deciban.MultinomialNB(fit_prior=False),
    "poisson": deciban.PoissonNB(),
    "complement": deciban.ComplementNB(),
    "tree": deciban.TreeAugmentedNB(parents=[-1, 0, 0, 2], bins=[[0.5, 1.5]] * 4),
}


def numbers(n=11, k=2, still=False):
    """Difficult rows: duplicates, different units; `still`: columns that are constant in all classes, or in one."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    X = rng.normal(size=(n, 4)) + 0.8 * rng.normal(size=(k, 4))[y]
    X[:, :3] = np.abs(np.round(2.0 * X[:, :3]))
    X[:, 3] *= 1000.0
    X[5] = X[3]  # the same row of the same class
    new = np.vstack([X[4], [3.0, 1.0, 2.0, 9e3]])
    if still:
        X[y == 1, 2] = 1.0
        X, new = np.hstack([X, np.full((n, 1), 7.0)]), np.hstack([new, [[7.0], [8.0]]])
    return X, y, new


def counts(n=11, k=2):
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    X = rng.poisson(1.0 + rng.random((k, 4))[y])
    X[5] = X[3]
    return X, y, np.vstack([X[4], [0, 0, 1, X[:, 3].max() + 1]])  # the last value was never learned


def literal(model, X, y, new):
    """p-values by a refit for every new row, class and row that is left out: among all rows, and class by class."""
    classes = np.unique(y)
    marginal, by_class = np.empty((len(new), len(classes))), np.empty((len(new), len(classes)))
    for t, x in enumerate(new):
        own = score(model, X, y, x, classes)
        for c, label in enumerate(classes):
            rows, labels = np.vstack([X, x]), np.append(y, label)
            own_scores = []
            for i in range(len(y)):
                rest = np.arange(len(labels)) != i
                scores = score(model, rows[rest], labels[rest], rows[i], classes)
                own_scores.append(scores[np.searchsorted(classes, labels[i])])
            limit = own[c] - (1e-8 * (1.0 + abs(own[c])) if np.isfinite(own[c]) else 0.0)
            reached = np.array(own_scores) >= limit
            marginal[t, c] = (reached.sum() + 1) / (len(y) + 1)
            by_class[t, c] = (reached[y == label].sum() + 1) / ((y == label).sum() + 1)
    return marginal, by_class


def score(model, X, y, x, classes):
    """The strangeness of x in every class, under a model of these rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = deciban_clone(model).fit(X, y)
        log_proba_of_seen = fitted.predict_log_proba(x[None])
    log_proba = np.full((1, len(classes)), -np.inf)
    log_proba[:, np.searchsorted(classes, fitted.classes_)] = log_proba_of_seen
    return strangeness(log_proba)[0]


def deciban_clone(model):
    from sklearn.base import clone

    return clone(model)


def full(model, X, y, weight=None):
    """The two ways to the same numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = deciban_clone(model).fit(X, y, weight)
        rows, codes, weight = fitted._learned_rows(X, y, weight)
        conformal = FullConformal.of(fitted.model_, rows.data, codes, weight)
    return fitted, conformal, replace(conformal, closed=None)


@pytest.mark.slow_where("_(student|floor|prior|shrunk|uniform|unsmoothed|by_class|group)$")  # each with one like it
@pytest.mark.parametrize("name", [*NUMBERS, *COUNTS])
def test_p_values_are_those_of_literal_refits(name):
    model, (X, y, new) = (NUMBERS[name], numbers()) if name in NUMBERS else (COUNTS[name], counts())
    compare(model, X, y, new)


@pytest.mark.parametrize("name", ["gaussian", "gaussian_no_floor", "student", "quadratic", "linear", "naive_bayes"])
def test_columns_that_do_not_vary(name):
    compare(NUMBERS[name], *numbers(still=True))


def compare(model, X, y, new):
    expected = literal(model, X, y, new)
    fitted, quick, slow = full(model, X, y)
    rows = fitted._rows(new).data
    for by_class in (False, True):
        np.testing.assert_allclose(slow.p_values(rows, by_class), expected[by_class], rtol=0, atol=1e-12)
        np.testing.assert_allclose(quick.p_values(rows, by_class), expected[by_class], rtol=0, atol=1e-12)


def test_a_class_of_one_row_and_rows_that_are_not_possible():
    X, y, new = counts()
    y = np.where(np.arange(len(y)) == 0, 3, y)  # class 3 has one row
    for model in (COUNTS["categorical"], deciban.MultinomialNB(alpha=0.0), deciban.GaussianNB()):
        compare(model, X, y, new)


WORDS = np.array([["a", "u"], ["a", "v"], ["b", "u"], ["b", None], ["a", "u"], ["c", "v"], ["b", "v"]], dtype=object)


def test_categories_that_were_never_learned_and_missing_ones():
    X, y, new = WORDS, np.array([0, 1, 0, 1, 0, 1, 1]), np.array([["z", "u"], [None, "w"], ["a", "u"]], dtype=object)
    for model in (deciban.CategoricalNB(alpha=0.7), deciban.NaiveBayes(alpha=0.7)):
        expected = literal(model, X, y, new)
        fitted = deciban_clone(model).fit(X, y)
        for by_class in (False, True):
            sets = fitted.predict_set(new, by_class=by_class)
            assert sets.way == FULL
            np.testing.assert_allclose(sets.p_values, expected[by_class], atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "linear_shrunk", "complement", "tree_of_words", "empirical", "alone"])
def test_each_row_of_a_bag_has_a_rank_of_its_own(name):
    """Whichever of n rows is the new one, the ranks are the same: so at most j of n p-values are j/n or less."""
    model, (X, y, _) = (NUMBERS[name], numbers()) if name in NUMBERS else (COUNTS.get(name), counts(12, 3))
    if name == "tree_of_words":  # most values of the parent are those of one row
        rng = np.random.default_rng(3)
        model, y = deciban.TreeAugmentedNB(parents=[-1, 0, 0], alpha=0.5), np.arange(12) % 2
        X = np.array([[f"v{rng.integers(9)}", "ab"[a], "ab"[b]] for a, b in rng.integers(0, 2, (12, 2))], dtype=object)
    elif name == "empirical":  # the strength of the prior is that of all rows, whichever is the new one
        rng = np.random.default_rng(0)
        model, X = deciban.MultinomialNB(alpha="empirical"), rng.poisson(1.0 + rng.random((3, 4))[y])
    elif name == "alone":  # a column in which one row has a value that no other has
        model, X = deciban.CategoricalNB(), X.copy()
        X[3, 1] = X[7, 2] = 9
    marginal, by_class = np.empty(len(y)), np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        fitted, quick, _ = full(model, X[rest], y[rest])
        row, own = fitted._rows(X[i : i + 1]).data, np.searchsorted(fitted.classes_, y[i])
        marginal[i], by_class[i] = quick.p_values(row)[0, own], quick.p_values(row, by_class=True)[0, own]
    for p in (marginal, *(by_class[y == label] for label in np.unique(y))):
        assert (np.sort(p) >= np.arange(1, len(p) + 1) / len(p) - 1e-12).all()


# ------------------------------------------------------------------ closed forms


def world(n, d, k, seed=0, gaps=0.0, far=0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=(k, d))[y]
    X = (X + far) * 10.0 ** rng.integers(-2, 3, d)
    X[rng.random(X.shape) < gaps] = np.nan
    new = X[:4].copy()
    new[2:] += rng.normal(size=(2, d)) * np.nanstd(X, axis=0)
    new[3] += 50.0 * np.nanstd(X, axis=0)  # far from all others
    return X, y, new, rng.poisson(1.0 + rng.random((k, d))[y])


def test_closed_forms_are_the_literal_way():
    n, d, k = 130, 5, 4
    X, y, new, words = world(n, d, k)
    gaps = world(n, d, k, gaps=0.15)
    far = world(n, d, k, far=1e6)
    mixed = np.hstack([words[:, :2], X])
    seldom = sp.csr_matrix(words * (np.random.default_rng(1).random(words.shape) < 0.3))
    cases = [
        (deciban.GaussianNB(), X, new),
        (deciban.GaussianNB(alpha=2.0, var_smoothing=1e-3), X, new),
        (deciban.GaussianNB(), far[0], far[2]),
        (deciban.GaussianNB(), gaps[0], gaps[2]),
        (deciban.NaiveBayes(), gaps[0], gaps[2]),
        (deciban.NaiveBayes({0: "categorical", 1: "poisson"}, class_prior="uniform"), mixed, mixed[:5]),
        (deciban.NaiveBayes({(0, 1): ("full", 0.0)}), X, new),
        (deciban.QuadraticDiscriminantAnalysis(), X, new),
        (deciban.QuadraticDiscriminantAnalysis(), far[0], far[2]),
        (deciban.GaussianDiscriminant(shrinkage=None), X, new),
        (deciban.LinearDiscriminantAnalysis(), X, new),
        (deciban.GaussianDiscriminant(covariance="tied", shrinkage=None), X, new),
        (deciban.CategoricalNB(), words, words[:4]),
        (deciban.BernoulliNB(), seldom, seldom[:4]),
        (deciban.MultinomialNB(), words, words[:4]),
        (deciban.MultinomialNB(alpha=np.linspace(0.1, 1.0, d)), seldom, seldom[:4]),
        (deciban.PoissonNB(predictive=True), words, words[:4]),
        (deciban.TreeAugmentedNB(parents=[-1, *range(d - 1)], bins=[[0.5, 1.5]] * d), words, words[:4]),
    ]
    for model, rows, some in cases:
        fitted, quick, slow = full(model, rows, y)
        assert quick.closed is not None, model
        data = fitted._rows(some).data
        for by_class in (False, True):
            with np.errstate(all="raise", under="ignore"):
                p = quick.p_values(data, by_class)
            assert np.array_equal(p, slow.p_values(data, by_class)), model


def test_a_row_of_weight_two_is_two_rows():
    X, y, new, words = world(60, 3, 3)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    again = np.repeat(np.arange(len(y)), weight.astype(int))
    for model, rows, some in (
        (deciban.GaussianNB(), X, new),
        (deciban.LinearDiscriminantAnalysis(), X, new),
        (deciban.QuadraticDiscriminantAnalysis(), X, new),
        (deciban.BernoulliNB(), words, words[:5]),
        (deciban.ComplementNB(), words, words[:5]),
        (deciban.GaussianDiscriminant(), X, new),  # cross-conformal: the same folds, and the same weights
    ):
        weighted = deciban_clone(model).fit(rows, y, weight).predict_set(some)
        repeated = deciban_clone(model).fit(rows[again], y[again]).predict_set(some)
        if weighted.way == FULL:
            np.testing.assert_allclose(weighted.p_values, repeated.p_values, atol=1e-12)
        assert weighted.rows.tolist() == repeated.rows.tolist()


# ------------------------------------------------------------------ guaranteed coverage


def draws(times, n, law, model, coverage, by_class=False, tested=4):
    """The share of new rows whose class is in the set, in each of many small worlds; and p-values of true classes."""
    rng = np.random.default_rng(0)
    hits, ps = [], []
    for _ in range(times):
        X, y = law(rng, n + tested)
        sets = deciban_clone(model).fit(X[:n], y[:n]).predict_set(X[n:], coverage, by_class=by_class)
        known = np.isin(y[n:], sets.classes)
        codes = np.searchsorted(sets.classes, y[n:][known])
        hits.append(sets.mask[known][np.arange(len(codes)), codes].mean() if known.any() else 1.0)
        ps += sets.p_values[known][np.arange(len(codes)), codes].tolist()
    return np.array(hits), np.array(ps)


def skewed(rng, n):
    """Not at all Gaussian: long tails, columns that repeat each other, classes of unequal size."""
    y = (rng.random(n) < 0.3).astype(int)
    x = rng.exponential(1.0 + 2.0 * y[:, None], (n, 1)) ** 2
    return np.hstack([x, x + 0.01 * rng.normal(size=(n, 1)), rng.standard_t(1.5, (n, 1)) + y[:, None]]), y


def repeated(rng, n):
    """Categories that repeat each other, so that naive Bayes is overconfident; many rows are the same."""
    y = rng.integers(0, 3, n)
    x = (y[:, None] + (rng.random((n, 1)) < 0.4)) % 3
    return np.hstack([x, x, x]), y


@pytest.mark.parametrize(
    ("law", "model"),
    [
        (skewed, deciban.GaussianNB()),
        (skewed, deciban.LinearDiscriminantAnalysis()),
        (repeated, deciban.CategoricalNB(min_categories=3)),
    ],
)
@pytest.mark.parametrize("by_class", [False, True])
def test_full_conformal_sets_hold_what_they_promise(law, model, by_class):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hits, p = draws(120, 29, law, model, 0.8, by_class)
    assert hits.mean() >= 0.8 - 3.0 * hits.std() / np.sqrt(len(hits))
    for level in (0.1, 0.3, 0.5):  # p-values of true classes are never too small too often
        assert np.mean(p <= level) <= level + 3.0 * np.sqrt(level / 120)


@pytest.mark.slow
def test_cross_conformal_sets_hold_what_they_promise():
    hits, _ = draws(60, 40, skewed, deciban.TreeAugmentedNB(), 0.8)
    assert hits.mean() >= cross_bound(0.8, 40, 5)
    assert hits.mean() >= 0.8 - 3.0 * hits.std() / np.sqrt(len(hits))  # as it usually is


def test_cross_conformal_p_values_are_those_of_the_folds():
    rng = np.random.default_rng(0)
    (X, y), (new, _) = skewed(rng, 43), skewed(rng, 5)
    model = deciban.TreeAugmentedNB()
    fitted = deciban_clone(model).fit(X, y)
    part = fold_of(Rows.of(X).digests(), y, 5)
    for by_class in (False, True):
        counts = np.zeros((5, 2))
        for f in range(5):
            refit = deciban_clone(model).fit(X[part != f], y[part != f])
            seen, new_scores = strangeness(refit.predict_log_proba(X)), strangeness(refit.predict_log_proba(new))
            for c in range(2):
                rows = np.flatnonzero((part == f) & ((y == c) | (not by_class)))
                counts[:, c] += (seen[rows, y[rows]] >= new_scores[:, c, None] - 1e-9).sum(axis=1)
        total = np.bincount(y) if by_class else len(y)
        sets = fitted.predict_set(new, by_class=by_class)
        assert sets.way == CROSS
        np.testing.assert_allclose(sets.p_values, (counts + 1) / (total + 1))


def test_some_rows_of_many_are_enough_to_compare_with():
    """Sums of all rows, and a random subset to compare with: the guarantee is the same."""
    rng, hits = np.random.default_rng(0), []
    for _ in range(120):
        X, y = skewed(rng, 124)
        model = deciban.GaussianNB().fit(X[:120], y[:120])
        sets = model.predict_set(X[120:], 0.8, rows=(X[:19], y[:19]))
        assert sets.rows.sum() == 19
        hits.append(sets.evaluate(y[120:]).coverage)
    assert np.mean(hits) >= 0.8 - 3.0 * np.std(hits) / np.sqrt(len(hits))
    assert np.mean(hits) <= 0.9
