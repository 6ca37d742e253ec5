"""EM ends where it would stay, and rows that weigh nothing are as good as not there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deciban import (
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminant,
    GaussianMixture,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminant,
    MultinomialNB,
    NaiveBayes,
    NearestCentroid,
    QuadraticDiscriminantAnalysis,
    TreeAugmentedNB,
    em,
)
from deciban.algebra import Stats
from deciban.joint import Model

pytestmark = [
    pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def blobs(seed, n=90, d=3, missing=0.0, together=0.7):
    """Two correlated clouds, with columns of very different units."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky((1 - together) * np.eye(d) + together)
    y = np.arange(n) % 2
    X = (rng.normal(size=(n, d)) @ root.T + 1.5 * y[:, None]) * 10.0 ** rng.integers(-2, 3, d)
    gone = rng.random(X.shape) < missing
    gone[:, 0] &= ~gone.all(axis=1)
    return np.where(gone, np.nan, X), y


def far_on(monkeypatch, steps=400):
    """EM without any rule, until nothing changes but the last digits."""

    def learn(start, step, *, joint=None, **_):
        model = start
        for _ in range(steps):
            total, sums = step(model)
            model = Model(joint or start.joint, sums)
        return em.Learned(model, [total], True, 1.0)

    monkeypatch.setattr(em, "learn", learn)


def spread(model):
    return model.var_[:, :, None] * np.eye(model.var_.shape[1]) if hasattr(model, "var_") else model.covariances_


HIDDEN = {
    "entries, own covariances": (QuadraticDiscriminantAnalysis, {}, 0.4, 0.0),
    "entries, one covariance": (GaussianDiscriminant, {"covariance": "tied", "shrinkage": None}, 0.3, 0.0),
    "entries, a prior": (GaussianDiscriminant, {"shrinkage": None, "alpha": 2.0}, 0.3, 0.0),
    "entries and labels": (GaussianDiscriminant, {"shrinkage": None}, 0.2, 0.4),
    "labels": (GaussianNB, {}, 0.1, 0.8),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_covariances_are_those_that_em_ends_at(what, monkeypatch):
    Model_, options, missing, unlabelled = HIDDEN[what]
    X, y = blobs(3, 60, 2, missing, 0.8)
    labels = np.where(np.random.default_rng(0).random(len(y)) < unlabelled, None, y.astype(object))
    model = Model_(**options).fit(X, labels)
    assert model.em_.converged
    far_on(monkeypatch)
    end = spread(Model_(**options).fit(X, labels))
    deviation = np.sqrt(np.diagonal(end, axis1=1, axis2=2))
    assert np.abs((spread(model) - end) / (deviation[:, :, None] * deviation[:, None, :])).max() < 1e-6


@settings(max_examples=8)
@given(st.integers(0, 1000), st.floats(0.05, 0.4), st.floats(0.0, 0.95))
def test_the_likelihood_never_falls_on_the_way(seed, missing, together):
    X, y = blobs(seed, 120, missing=missing, together=together)
    trace = np.array(QuadraticDiscriminantAnalysis().fit(X, y).em_.log_likelihood)
    assert (np.diff(trace) >= -1e-9 * np.abs(trace[1:])).all()


def test_a_guess_that_is_no_sum_of_rows_is_not_followed():
    X, y = blobs(0)
    model = QuadraticDiscriminantAnalysis().fit(X, y).model_
    assert em.possible(model.stats, model.joint)
    assert not em.possible(model.stats.scale(-1.0), model.joint)
    one, other = (QuadraticDiscriminantAnalysis().fit(X[i::2] * [1, 1, 1 - 2 * i], y[i::2]).model_ for i in (0, 1))
    turned = Stats(one.stats.schema, other.stats.weight, other.stats.sums)
    assert not em.possible(one.stats.scale(3.0) + turned.scale(-2.0), model.joint)
    words = BernoulliNB().fit(X > 1, y).model_
    assert em.possible(words.stats, words.joint)
    assert not em.possible(words.stats.scale(-1.0), words.joint)
    too_many = {**words.stats.sums[0], "x": words.stats.sums[0]["one"] + np.ones((2, 3))}
    assert not em.possible(Stats(words.stats.schema, words.stats.weight, (too_many,)), words.joint)


def test_what_is_left_is_what_is_left():
    """Steps that halve the distance to a limit: S, S + 1/2, S + 3/4 are 1/4 from it."""
    X, y = blobs(0)
    whole, part = (GaussianNB().fit(X[rows], y[rows]).model_.stats for rows in (slice(None), slice(0, 40)))
    way = em.Way(GaussianNB().fit(X, y).model_.joint)
    sums = [whole + part.scale(-(2.0**-t)) for t in range(3)]
    assert way.left(sums[0]) == way.left(sums[1]) == np.inf
    left = way.left(sums[2])
    assert left == pytest.approx(np.abs(np.diff(em.in_units([sums[2], whole]), axis=0)).max(), rel=0.2)
    assert way.onwards().same_as(whole, 1e-6)


@pytest.mark.parametrize("Model_", [GaussianNB, GaussianDiscriminant])
@pytest.mark.filterwarnings("ignore:no row has a label")
def test_clusters_are_found_wherever_zero_is(Model_):
    rng = np.random.default_rng(4)
    X = np.vstack([rng.normal(c, 1.0, (60, 2)) for c in rng.normal(0, 2.5, (4, 2))])
    X = np.round(X * 1024) / 1024
    near, far = (Model_().fit(X + offset, clusters=3).predict_proba(X + offset) for offset in (0.0, 1e8))
    np.testing.assert_allclose(far, near, atol=1e-5)


# ------------------------------------------------------------------ rows of weight zero

CODES, TWO = {"alpha": 0.5}, {"n_components": 2, "random_state": 0}
WEIGHTLESS = {
    "entries": (GaussianDiscriminant, {"shrinkage": None}, {}, 0.2, 0.0),
    "entries, chosen": (GaussianDiscriminant, {}, {}, 0.2, 0.0),
    "entries, linear": (LinearDiscriminantAnalysis, {"solver": "lsqr", "shrinkage": 0.1}, {}, 0.2, 0.0),
    "labels, real": (GaussianNB, {}, {}, 0.1, 0.5),
    "labels, centroids": (NearestCentroid, {"priors": "empirical"}, {}, 0.1, 0.5),
    "labels and entries": (GaussianDiscriminant, {"shrinkage": None}, {}, 0.2, 0.5),
    "labels, mixed": (NaiveBayes, {}, {}, 0.1, 0.5),
    "labels, a block": (NaiveBayes, {"columns": {0: "gaussian"}, "rest": "full"}, {}, 0.1, 0.5),
    "labels, categories": (CategoricalNB, CODES, {}, 0.1, 0.5),
    "labels, tree": (TreeAugmentedNB, CODES, {}, 0.1, 0.5),
    "labels, words": (MultinomialNB, CODES, {}, 0.0, 0.5),
    "labels, present or not": (BernoulliNB, CODES, {}, 0.0, 0.5),
    "labels of little weight": (GaussianNB, {}, {"unlabelled_weight": 0.3}, 0.0, 0.5),
    "clusters, real": (GaussianNB, {}, {"clusters": 2}, 0.1, None),
    "clusters, entries": (GaussianDiscriminant, {"shrinkage": None}, {"clusters": 2}, 0.1, None),
    "clusters, words": (MultinomialNB, CODES, {"clusters": 2}, 0.0, None),
    "mixture": (GaussianMixture, TWO, {}, 0.1, None),
    "mixture, k-means++": (GaussianMixture, {**TWO, "init_params": "k-means++"}, {}, 0.0, None),
    "mixture, random": (GaussianMixture, {**TWO, "init_params": "random"}, {}, 0.0, None),
    "mixture a class": (MixtureDiscriminant, {"components": 2}, {}, 0.1, 0.2),
    "mixture a class, chosen": (MixtureDiscriminant, {"components": "loo", "max_components": 2}, {}, 0.0, 0.2),
}


@pytest.mark.parametrize("what", WEIGHTLESS)
def test_rows_of_weight_zero_change_nothing(what):
    """Not even a bit: neither where EM starts, nor where it stops, nor what is chosen."""
    Model_, options, how, missing, unlabelled = WEIGHTLESS[what]
    X, y = blobs(5, 60, missing=missing)
    if Model_ in (CategoricalNB, MultinomialNB, BernoulliNB):
        X = np.where(np.isnan(X), np.nan, np.floor(np.abs(X) / np.nanmax(np.abs(X), axis=0) * 4))
    labels = y.astype(object)
    rng = np.random.default_rng(1)
    weight = rng.random(60) + 0.1
    if unlabelled:
        labels = np.where(rng.random(60) < unlabelled, None, labels)
    strange = np.abs(X[rng.permutation(60)[:25]]) * (1 if "words" in what or "categories" in what else 1000)
    at = np.sort(rng.integers(0, 61, 25))
    more, longer = np.insert(X, at, strange, axis=0), np.insert(weight, at, 0.0)
    others = np.insert(labels, at, np.where(np.arange(25) % 3 == 0, None if unlabelled else 0, 1))
    models = []
    for rows, own, each in ((X, labels, weight), (more, others, longer)):
        model = Model_(**options)
        models.append(model.fit(rows, None if unlabelled is None else own, sample_weight=each, **how).model_)
    one, two = models
    assert one.joint.blocks == two.joint.blocks or repr(one.joint) == repr(two.joint)
    np.testing.assert_array_equal(one.stats.weight, two.stats.weight)
    for a, b in zip(one.stats.sums, two.stats.sums, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def test_what_weighs_nothing_hides_nothing():
    """Then nothing was guessed, and rows can be forgotten."""
    X, y = blobs(2, 40)
    X[3, 1] = np.nan
    labels = y.astype(object)
    labels[7] = None
    weight = np.where(np.isin(np.arange(40), [3, 7]), 0.0, 1.0)
    model = QuadraticDiscriminantAnalysis().fit(X, labels, sample_weight=weight)
    there = weight > 0
    plain = QuadraticDiscriminantAnalysis().fit(X[there], y[there])
    assert model.model_.stats.same_as(plain.model_.stats)
    model.forget(X[:1], y[:1])
