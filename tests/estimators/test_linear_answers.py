"""Answers that are tables times rows: the same as scikit-learn's, however the rows are stored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.discriminant_analysis
import sklearn.mixture
import sklearn.naive_bayes
from conftest import BEFORE_SKLEARN_1_9, DIVISOR

import deciban
from deciban.errors import DecibanError

PEERS = (sklearn.naive_bayes, sklearn.discriminant_analysis)
GAUSSIANS = ("GaussianNB", "LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis")
COUNTS = ("MultinomialNB", "BernoulliNB", "ComplementNB")
MODELS = (*GAUSSIANS, *COUNTS, "CategoricalNB")
N, D = 700, 6


def rows_for(name, k, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(N) % k
    if name in GAUSSIANS:
        return rng.normal(size=(N, D)) + 0.6 * rng.normal(size=(k, D))[y], y
    if name == "CategoricalNB":
        X = rng.integers(0, 5, (N, D))
        X[: 5 * k] = np.repeat(np.arange(5), k)[:, None]  # every class has every value
        return X.astype(np.float64), y
    return rng.poisson(rng.gamma(0.5, 1.0, size=(k, D))[y]).astype(np.float64), y


def peer_of(name):
    return next(getattr(module, name) for module in PEERS if hasattr(module, name))()


@pytest.mark.parametrize("k", [2, 3, 13, 30])
@pytest.mark.parametrize("name", MODELS)
def test_posteriors_are_those_of_scikit_learn(name, k):
    if BEFORE_SKLEARN_1_9 and name.endswith("DiscriminantAnalysis"):
        pytest.skip(DIVISOR)
    X, y = rows_for(name, k)
    ours, theirs = getattr(deciban, name)().fit(X, y), peer_of(name).fit(X, y)
    expected = theirs.predict_proba(X)
    np.testing.assert_allclose(ours.predict_proba(X), expected, rtol=1e-10, atol=1e-200)
    chosen = expected[np.arange(N), ours.predict(X)]  # two classes may be equally probable, up to rounding
    np.testing.assert_allclose(chosen, expected.max(axis=1), rtol=1e-10)
    if name != "LinearDiscriminantAnalysis":  # scikit-learn takes logarithms of rounded probabilities
        np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), rtol=1e-10, atol=1e-12)
    if name in COUNTS:
        S = sp.csr_matrix(X)
        np.testing.assert_allclose(ours.predict_proba(S), theirs.predict_proba(S), rtol=1e-10, atol=1e-200)


@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
def test_responsibilities_are_those_of_scikit_learn(shape):
    X, y = rows_for("GaussianNB", 3)
    units = {
        "full": np.tile(np.eye(D), (3, 1, 1)),
        "tied": np.eye(D),
        "diag": np.ones((3, D)),
        "spherical": np.ones(3),
    }
    options = {
        "n_components": 3,
        "covariance_type": shape,
        "max_iter": 1,
        "weights_init": np.full(3, 1 / 3),
        "means_init": np.array([X[y == c].mean(axis=0) for c in range(3)]),
        "precisions_init": units[shape],
    }
    with pytest.warns(Warning, match="converge"):
        ours = deciban.GaussianMixture(**options).fit(X)
    with pytest.warns(Warning, match="converge"):
        theirs = sklearn.mixture.GaussianMixture(**options).fit(X)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 13])
@pytest.mark.parametrize("name", MODELS)
def test_how_rows_are_stored_does_not_matter(name, k):
    X, y = rows_for(name, k)
    model = getattr(deciban, name)().fit(X, y)
    fixed = X.copy()
    fixed.flags.writeable = False
    stored = {
        "Fortran": np.asfortranarray(X),
        "every other column": np.repeat(X, 2, axis=1)[:, ::2],
        "every other row": np.repeat(X, 2, axis=0)[::2],
        "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
        "read-only": fixed,
        "other byte order": X.astype(">f8"),
        "a list": X.tolist(),
    }
    expected = model.predict_proba(X)
    for how, rows in stored.items():
        np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-12, err_msg=how)
        np.testing.assert_array_equal(model.predict(rows), model.predict(X), err_msg=how)
    single = X.astype(np.float32)
    np.testing.assert_allclose(model.predict_proba(single), model.predict_proba(single.astype(np.float64)), rtol=1e-12)
    each = np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(each, expected[:20], rtol=1e-12, err_msg="row by row")


@pytest.mark.parametrize("name", COUNTS)
def test_how_sparse_rows_are_stored_does_not_matter(name):
    X, y = rows_for(name, 3)
    S = sp.csr_matrix(X)
    model = getattr(deciban, name)().fit(S, y)

    def with_indices(change_indices, change_ends):
        other = S.copy()
        other.indices, other.indptr = change_indices(other.indices), change_ends(other.indptr)
        return other

    def long(a):
        return a.astype(np.int64)

    def strided(a):
        return np.repeat(a, 2)[::2]

    fixed = S.copy()
    for part in (fixed.data, fixed.indices, fixed.indptr):
        part.flags.writeable = False
    twice = sp.csr_matrix((np.repeat(S.data / 2, 2), np.repeat(S.indices, 2), 2 * S.indptr), shape=S.shape)
    stored = [with_indices(long, long), with_indices(np.copy, long), with_indices(strided, strided), fixed]
    stored += [
        sp.csr_array(S),
        S.tocsc(),
        S.tocoo(),
        S.astype(np.int64),
        S.astype(np.int8),
        S.astype(np.float32),
        twice,
    ]
    expected = model.predict_proba(X)
    for rows in stored:
        np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-12)


@pytest.mark.parametrize("far", [1e6, 1e9])
@pytest.mark.parametrize("name", GAUSSIANS)
def test_far_from_zero(name, far):
    """Rows that are whole numbers are moved without rounding, so nothing may change but what the moved sums round."""
    X, y = rows_for(name, 3)
    X = np.round(X * 64)
    near, moved = getattr(deciban, name)().fit(X, y), getattr(deciban, name)().fit(X + far, y)
    np.testing.assert_allclose(moved.predict_proba(X + far), near.predict_proba(X), rtol=1e-6, atol=1e-300)
    if name == "LinearDiscriminantAnalysis":
        expected = near.decision_function(X)
        np.testing.assert_allclose(moved.decision_function(X + far), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["GaussianNB", "LinearDiscriminantAnalysis", "BernoulliNB", "MultinomialNB"])
def test_a_row_without_values_has_the_prior_exactly(name):
    X, y = rows_for(name, 2)
    model = getattr(deciban, name)().fit(X, y)
    rows = X[:50].copy()
    rows[::7] = np.nan
    assert (model.predict_proba(rows)[::7] == 0.5).all()
    assert (model.predict(rows)[::7] == 0).all(), "the first of equals"


def test_words_that_only_some_classes_have():
    """Without smoothing, log 0 is counted and not multiplied; a row that no class can have gets the prior."""
    X = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 3.0, 1.0], [0.0, 1.0, 1.0]])
    y = np.array([0, 0, 1, 1, 1])
    model = deciban.MultinomialNB(alpha=0.0, force_alpha=True).fit(X, y)
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
    for stored in (rows, sp.csr_matrix(rows)):
        with pytest.warns(deciban.errors.ZeroEvidenceWarning):
            posterior = model.predict_proba(stored)
        np.testing.assert_allclose(posterior, [[1, 0], [0, 1], [0.4, 0.6], [0.4, 0.6]], rtol=1e-12)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "transform"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_refused(method, bad):
    X, y = rows_for("GaussianNB", 3)
    model = deciban.LinearDiscriminantAnalysis().fit(X, y)
    X[17, 2] = bad
    with pytest.raises(DecibanError, match=r"row 17, column 'x2'"):
        getattr(model, method)(X)


def test_small_frames_are_checked_by_name():
    X, y = rows_for("GaussianNB", 2)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = deciban.GaussianNB().fit(frame, y)
    expected = model.predict_proba(frame)[:1]
    np.testing.assert_allclose(model.predict_proba(frame[:1]), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(frame[:1][list("abcdfe")])
    for rows in (X[:1], X[:1].tolist()):
        with pytest.warns(UserWarning, match="valid feature names"):
            np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-12)
