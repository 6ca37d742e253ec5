"""Linear models as scikit-learn's logistic regression (S5, S11, S14): the same probabilities, from two vectors.

Tolerance: a score is x·θ + θ_0 in one order or another, of a few terms of a few nats; 1e-10 is far above its rounding.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from deciban import (
    BernoulliNB,
    CategoricalNB,
    Classifier,
    ComplementNB,
    GaussianDiscriminant,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminant,
    MultinomialNB,
    NaiveBayes,
    NearestCentroid,
    PoissonNB,
    QuadraticDiscriminantAnalysis,
    TextClassifier,
)
from deciban.errors import DecibanError

from .cases import counts, reals

pytestmark = pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning")
TIED = GaussianDiscriminant(covariance="tied", shrinkage=None, predictive=False)
SPHERE = GaussianDiscriminant(covariance="tied_spherical", shrinkage=None, predictive=False)


def rows(model, k):
    rng = np.random.default_rng(1)
    if isinstance(model, LinearDiscriminantAnalysis | GaussianDiscriminant | NearestCentroid):
        return reals(rng, k=k)
    X, y = counts(rng, k=3)
    chosen = np.isin(y, ["red", "green", "blue"][:k])
    return (X[chosen] > 0 if isinstance(model, BernoulliNB) else X[chosen]).astype(float), y[chosen]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "model",
    [MultinomialNB(), ComplementNB(), PoissonNB(), BernoulliNB(), LinearDiscriminantAnalysis(), TIED, SPHERE,
     NearestCentroid(priors="empirical")],
    ids=str,
)  # fmt: skip
def test_the_same_probabilities(model, k):
    X, y = rows(model, k)
    model = clone(model).fit(X, y)
    other = model.to_logistic_regression()
    assert isinstance(other, LogisticRegression)
    assert other.coef_.shape == (1 if k == 2 else k, X.shape[1])
    assert other.n_features_in_ == X.shape[1]
    assert np.abs(other.predict_proba(X) - model.predict_proba(X)).max() <= 1e-10
    assert (other.predict(X) == model.predict(X)).all()
    assert other.classes_.tolist() == model.classes_.tolist()


def test_it_is_the_logistic_of_the_linear_form():
    """S14: 1/(1 + exp(−θᵀx − θ_0)), θ and θ_0 those of the pair."""
    X, y = reals(np.random.default_rng(0), k=2)
    model = LinearDiscriminantAnalysis().fit(X, y)
    theta, offset = model.linear_form().pair(10, 0)
    other = model.to_logistic_regression()
    np.testing.assert_allclose(other.coef_[0], theta)
    np.testing.assert_allclose(other.intercept_, offset)


def test_columns_in_the_order_of_the_table():
    """Blocks of a table stand in another order than its columns, and some are dropped."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"z": rng.poisson(2, 60), "b": rng.poisson(1, 60), "a": rng.poisson(3, 60)}).astype(float)
    model = NaiveBayes({"z": "poisson", "a": ("poisson", 0.3), "b": "drop"}).fit(frame, np.arange(60) % 3)
    other = model.to_logistic_regression()
    assert other.feature_names_in_.tolist() == ["z", "b", "a"]
    assert not other.coef_[:, 1].any()
    assert np.abs(other.predict_proba(frame) - model.predict_proba(frame)).max() <= 1e-10


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (GaussianNB(), TypeError, "not linear in x"),
        (QuadraticDiscriminantAnalysis(), TypeError, "covariance='tied'"),
        (MixtureDiscriminant(), TypeError, "several components"),
        (Classifier(n_jobs=1), TypeError, "a Classifier is not linear"),
        (CategoricalNB(), DecibanError, "indicators of categories"),
        (MultinomialNB(alpha=0.0), ValueError, "alpha > 0"),
    ],
    ids=str,
)
def test_what_is_not_linear_says_so(model, error, message):
    X, y = counts(np.random.default_rng(0))
    X[:, 0] = np.where(y == "red", 0.0, X[:, 0])
    with pytest.raises(error, match=message):
        model.fit(X, y).to_logistic_regression()


def test_texts_and_a_single_class():
    with pytest.raises(TypeError, match="TextClassifier is not linear"):
        TextClassifier().fit(["a good one", "a bad one"] * 5, [0, 1] * 5).to_logistic_regression()
    with pytest.raises(DecibanError, match="only one class"):
        MultinomialNB().fit([[1, 2]], ["a"]).to_logistic_regression()
