"""In scikit-learn's pipelines, searches, ensembles, inspection and displays, with pandas frames and string labels."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from conftest import version_of
from sklearn import config_context, set_config
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - which makes HalvingGridSearchCV available
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import DecisionBoundaryDisplay, partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from deciban import (
    BernoulliNB,
    Classifier,
    CountVectorizer,
    GaussianDiscriminant,
    GaussianMixture,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MultinomialNB,
    NaiveBayes,
    TextClassifier,
)


@pytest.fixture(scope="module")
def rows():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[::3, :4], y.iloc[::3].map({0: "malignant", 1: "benign"})
    return X, y


@pytest.fixture(scope="module")
def classifier(rows):
    return Classifier().fit(*rows)


def test_a_search_over_parameters_chooses_by_held_out_rows(rows):
    X, y = rows
    grid = {"gaussiandiscriminant__shrinkage": [0.0, 0.2, 0.9], "gaussiandiscriminant__covariance": ["full", "tied"]}
    pipe = make_pipeline(StandardScaler(), GaussianDiscriminant())
    search = GridSearchCV(pipe, grid, cv=3, scoring="neg_log_loss", error_score="raise").fit(X, y)
    best = {name.partition("__")[2]: value for name, value in search.best_params_.items()}
    again = make_pipeline(StandardScaler(), GaussianDiscriminant(**best))
    assert search.best_score_ == pytest.approx(cross_val_score(again, X, y, cv=3, scoring="neg_log_loss").mean())
    assert search.cv_results_["mean_test_score"].std() > 0, "the parameters matter"


def test_a_halving_search_is_over_ours_too(rows):
    X, y = rows
    search = HalvingGridSearchCV(NaiveBayes(), {"alpha": [0.1, 1.0, 10.0]}, cv=3, random_state=0).fit(X, y)
    assert search.best_params_["alpha"] in (0.1, 1.0, 10.0)
    assert search.n_iterations_ > 1


@pytest.mark.parametrize("method", ["sigmoid", "temperature"] if version_of("scikit-learn") >= (1, 8) else ["sigmoid"])
def test_calibration_of_an_overconfident_model_lowers_its_loss(rows, method):
    """Columns of radius and area repeat each other: naive Bayes counts them twice."""
    X, y = rows
    model = CalibratedClassifierCV(GaussianNB(), method=method, cv=3)
    loss = log_loss(y, cross_val_predict(model, X, y, method="predict_proba", cv=3))
    assert loss < log_loss(y, cross_val_predict(GaussianNB(), X, y, method="predict_proba", cv=3))


def test_a_fitted_model_is_calibrated_as_it_is(rows):
    X, y = rows
    fitted = GaussianNB().fit(X[::2], y[::2])
    model = CalibratedClassifierCV(FrozenEstimator(fitted), cv=2).fit(X[1::2], y[1::2])
    assert model.calibrated_classifiers_[0].estimator.estimator is fitted
    assert model.classes_.tolist() == ["benign", "malignant"]


def test_a_vote_is_the_mean_of_probabilities(rows):
    X, y = rows
    theirs = make_pipeline(StandardScaler(), LogisticRegression())
    models = [("ours", GaussianNB()), ("table", NaiveBayes()), ("theirs", theirs)]
    vote = VotingClassifier(models, voting="soft").fit(X, y)
    mean = np.mean([clone(model).fit(X, y).predict_proba(X) for _, model in models], axis=0)
    np.testing.assert_allclose(vote.predict_proba(X), mean, atol=1e-9)
    assert vote.score(X, y) > 0.85


def test_a_stack_learns_from_held_out_probabilities(rows):
    X, y = rows
    models = [("nb", GaussianNB()), ("lda", LinearDiscriminantAnalysis())]
    stack = StackingClassifier(models, cv=3).fit(X, y)
    np.testing.assert_allclose(stack.transform(X)[:, 0], GaussianNB().fit(X, y).predict_proba(X)[:, 1])
    assert stack.score(X, y) > 0.85
    assert BaggingClassifier(GaussianNB(), 3, random_state=0).fit(X, y).score(X, y) > 0.85


def test_columns_of_several_kinds_through_a_transformer(rows):
    """The same model as on columns that were encoded by hand; text columns by our counts of words."""
    X, y = rows
    table = X.assign(size=np.where(X["mean radius"] > 14, "large", "small"))
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["size"]), remainder="drop")
    piped = make_pipeline(encode, BernoulliNB()).fit(table, y)
    by_hand = np.column_stack([table["size"] == "large", table["size"] == "small"]).astype(float)
    np.testing.assert_allclose(piped.predict_proba(table), BernoulliNB().fit(by_hand, y).predict_proba(by_hand))
    words = make_pipeline(make_column_transformer((CountVectorizer(), "note")), MultinomialNB())
    notes = pd.DataFrame({"note": ["win cash now", "lunch at noon"] * 3})
    assert words.fit(notes, ["spam", "ham"] * 3).predict(pd.DataFrame({"note": ["cash"]})).tolist() == ["spam"]


def test_frames_pass_through_a_pipeline(rows):
    """`set_output` of a pipeline is about transformers, as in scikit-learn; of the model, about probabilities."""
    X, y = rows
    pipe = make_pipeline(StandardScaler(), GaussianNB().set_output(transform="pandas"))
    pipe.set_output(transform="pandas").fit(X, y)
    assert pipe[-1].feature_names_in_.tolist() == X.columns.tolist()
    frame = pipe.predict_proba(X)
    assert frame.index.equals(X.index)
    assert frame.columns.tolist() == ["benign", "malignant"]
    assert isinstance(clone(pipe).fit(X, y).predict_proba(X), pd.DataFrame)


def test_weights_are_routed_through_meta_estimators(rows):
    X, y = rows
    weight = np.where(np.arange(len(y)) % 4 == 0, 3.0, 0.0)
    some, kept = weight > 0, X[weight > 0]
    with config_context(enable_metadata_routing=True):
        asked = GaussianNB().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        piped = make_pipeline(scaler, asked).set_score_request(sample_weight=True)  # it scores itself before 1.8
        grid = GridSearchCV(piped, {"gaussiannb__var_smoothing": [1e-9]}, cv=3)
        grid.fit(X, y, sample_weight=weight)
        vote = VotingClassifier([("a", asked)], voting="soft").fit(X, y, sample_weight=weight)
        calibrated = CalibratedClassifierCV(asked, cv=3).fit(X, y, sample_weight=weight)
    expected = make_pipeline(StandardScaler(), GaussianNB()).fit(kept, y[some]).predict_proba(X)
    np.testing.assert_allclose(grid.predict_proba(X), expected, atol=1e-9)
    np.testing.assert_allclose(vote.predict_proba(X), GaussianNB().fit(kept, y[some]).predict_proba(X), atol=1e-9)
    assert calibrated.score(X, y) > 0.8


def test_a_learning_curve_learns_in_batches(rows):
    X, y = rows
    sizes = [20, 60, 120]
    how = {"train_sizes": sizes, "cv": 3, "shuffle": True, "random_state": 0}
    batches = learning_curve(GaussianNB(), X, y, exploit_incremental_learning=True, **how)[2]
    np.testing.assert_allclose(batches, learning_curve(GaussianNB(), X, y, **how)[2])


def test_importance_by_permutation_finds_the_column_that_decides():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["noise", "signal", "more"])
    y = np.where(X["signal"] + 0.3 * rng.normal(size=200) > 0, "high", "low")
    for model in (GaussianNB().fit(X, y), Classifier().fit(X, y)):
        found = permutation_importance(model, X, y, n_repeats=3, random_state=0, scoring="neg_log_loss")
        assert X.columns[found.importances_mean.argmax()] == "signal"
        assert model.importance(X, y).items[0].name == "signal", "as does ours"
        average = partial_dependence(model, X, ["signal"], grid_resolution=8)["average"][0]
        assert average[0] * 2 < average[-1] or average[-1] * 2 < average[0]


def test_displays_draw_our_probabilities(rows, classifier):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    X, y = rows
    two = X.iloc[:, :2]
    model = GaussianNB().fit(two, y)
    how = {"response_method": "predict_proba", "class_of_interest": "benign", "grid_resolution": 5, "eps": 0}
    drawn = DecisionBoundaryDisplay.from_estimator(model, two, **how)
    grid = pd.DataFrame({two.columns[0]: drawn.xx0.ravel(), two.columns[1]: drawn.xx1.ravel()})
    np.testing.assert_allclose(drawn.response.ravel(), model.predict_proba(grid)[:, 0])
    curve = CalibrationDisplay.from_estimator(classifier, X, y, n_bins=5, pos_label="malignant")
    np.testing.assert_allclose(np.sort(curve.y_prob), np.sort(classifier.predict_proba(X)[:, 1]))
    tuned = TunedThresholdClassifierCV(GaussianNB(), scoring="f1_macro", thresholds=8, cv=3).fit(X, y)
    assert tuned.best_threshold_ > 0


class TestHtml:
    """A notebook's view of an estimator: scikit-learn's diagram, and what was learned."""

    def test_a_fitted_one_says_what_was_learned(self, rows):
        X, y = rows
        model = GaussianNB().fit(X, y)
        for page in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
            learned = page.rpartition("</style>")[2].rpartition("</script>")[2]
            assert f"GaussianNB: {len(y)} rows of 4 columns, 2 classes." in learned
            assert re.search(r"benign</td><td[^>]*>\d+</td><td[^>]*>\d+\.\d %", learned)
            assert "sk-container" in page, "scikit-learn's diagram"

    def test_one_that_chooses_says_how_good_it_is_on_left_out_rows(self, classifier):
        page, summary = classifier._repr_html_(), classifier.summary()
        assert f"log loss {summary.loss:.4g} nats (class frequencies alone: {summary.baseline:.4g})" in page
        assert "mean radius" in page, "what decides"

    def test_others_and_hostile_labels(self):
        assert "<p>TextClassifier: 4 rows, 2 classes.</p>" in (
            TextClassifier(reliability=None).fit(["a b", "c d", "b a", "d c"], list("xyxy"))._repr_html_()
        )
        page = GaussianNB().fit([[1.0], [2.0]], ["<script>alert(1)</script>", "b"])._repr_html_()
        assert "<script>alert" not in page
        assert GaussianMixture(2, random_state=0).fit(np.arange(9.0)[:, None])._repr_html_()

    def test_an_unfitted_one_has_learned_nothing(self):
        assert "rows" not in GaussianNB()._repr_html_().rpartition("</script>")[2]

    def test_where_diagrams_are_switched_off(self, rows):
        set_config(display="text")
        try:
            model = GaussianNB().fit(*rows)
            assert not hasattr(model, "_repr_html_")
            assert list(model._repr_mimebundle_()) == ["text/plain"]
        finally:
            set_config(display="diagram")
