"""SHAP values of naive Bayes are its evidence: compared with the shap package, which computes them from predictions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from deciban import (
    BernoulliNB,
    CategoricalNB,
    Classifier,
    ComplementNB,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MultinomialNB,
    NaiveBayes,
    PoissonNB,
)
from deciban.errors import DecibanError
from deciban.explanations import to_shap


@pytest.fixture(scope="module")
def shap():
    """Imported where it is needed: that takes seconds, and its first explanation is compiled."""
    return pytest.importorskip("shap", reason="shap is not installed: make ecosystem")


def log_odds(model, target=1, against=0):
    """In decibans, as a function of an array of rows."""

    def of(X):
        log_proba = model.predict_log_proba(X)
        return 10 / np.log(10) * (log_proba[:, target] - log_proba[:, against])

    return of


@cache
def models():
    return {name: (model, X) for name, model, X in fitted()}


def fitted():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [0, 1, 4, 6, 8]]
    bins = np.stack([np.digitize(column, np.quantile(column, [0.25, 0.5, 0.75])) for column in X.T], axis=1)
    yield "Gaussian", GaussianNB().fit(X, y), X
    yield "categories", CategoricalNB().fit(bins, y), bins.astype(float)
    yield "truths", BernoulliNB().fit(bins > 1, y), (bins > 1).astype(float)
    yield "counts", MultinomialNB().fit(bins, y), bins.astype(float)
    yield "rates", PoissonNB().fit(bins, y), bins.astype(float)
    columns = {0: "poisson", 1: "bernoulli", 2: "geometric"}
    yield "mixed", NaiveBayes(columns).fit(bins.astype(float), y), bins.astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Gaussian", "categories", "truths", "counts", "rates", "mixed"])
def test_with_a_background_of_independent_columns(name, shap):
    """shap's exact explainer, which asks for the predictions of all 32 sets of columns."""
    model, X = models()[name]
    rows, background = X[:4], X[100:120]
    expected = shap.explainers.Exact(log_odds(model), shap.maskers.Independent(background, max_samples=100))(rows)
    found = to_shap(model, rows, background=background)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    np.testing.assert_allclose(found.base_values, expected.base_values, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Gaussian", "rates", "mixed"])
def test_of_columns_that_are_left_out(name, shap):
    """A missing value is ignored by the model: with columns removed this way, SHAP values are the evidence itself."""
    model, X = models()[name]
    rows = X[:4]
    masked = lambda mask, x: np.where(mask, x, np.nan)[None]  # noqa: E731
    expected = shap.explainers.Exact(log_odds(model), masked)(rows)
    found = to_shap(model, rows)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    np.testing.assert_allclose(found.base_values, expected.base_values, atol=1e-6)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, log_odds(model)(rows), atol=1e-6)


@pytest.mark.slow
def test_by_permutations_too(shap):
    model, X = models()["Gaussian"]
    background = X[100:110]
    expected = shap.explainers.Permutation(log_odds(model), shap.maskers.Independent(background), seed=0)(X[:2])
    np.testing.assert_allclose(to_shap(model, X[:2], background=background).values, expected.values, atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("shap")
def test_several_classes_are_compared_in_pairs():
    X, y = load_iris(return_X_y=True, as_frame=True)
    y = y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
    model = GaussianNB().fit(X, y)
    found = to_shap(model, X[:3], "virginica", "versicolor")
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, log_odds(model, 2, 1)(X[:3]), atol=1e-6)
    assert found.feature_names == X.columns.tolist()
    np.testing.assert_allclose(found.data, X[:3].to_numpy())
    with pytest.raises(DecibanError, match="target= and against="):
        to_shap(model, X[:3])


@pytest.mark.slow
def test_its_plots_draw_decibans(shap):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    model, X = models()["Gaussian"]
    explanation = to_shap(model, X[:20], background=X)
    for plot, what in ((shap.plots.waterfall, explanation[0]), (shap.plots.bar, explanation)):
        plot(what, show=False)
        plt.close("all")


@pytest.mark.parametrize("make", [Classifier, LinearDiscriminantAnalysis, ComplementNB])
def test_where_columns_depend_on_each_other_it_is_refused(make):
    X = np.random.default_rng(0).random((20, 3))
    with pytest.raises(DecibanError, match="not independent given the class"):
        to_shap(make().fit(X, np.arange(20) % 2), X)
