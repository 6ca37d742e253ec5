"""scikit-learn's checks of estimators."""

from __future__ import annotations

import re

import numpy as np
import pytest
from every import READS, made
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from deciban import CategoricalNB, Classifier, GaussianDiscriminant, GaussianNB, MixtureDiscriminant, MultinomialNB

CHOSEN = "a row of weight 2 leaves as one, two rows leave one by one: leave-one-out may choose otherwise"

LOOKED_AT = "bins and scales look at each row once, whatever it weighs: sums are the same only under the same choices"


def expected(estimator):
    """Checks that must fail, and why."""
    if isinstance(estimator, GaussianDiscriminant | MixtureDiscriminant) and estimator.shrinkage == "loo":
        return {f"check_sample_weight_equivalence_on_{kind}_data": CHOSEN for kind in ("dense", "sparse")}
    if isinstance(estimator, Classifier):
        return {f"check_sample_weight_equivalence_on_{kind}_data": LOOKED_AT for kind in ("dense", "sparse")}
    return {}


pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::deciban.SingularWarning"),
]


# Those that read rows of text, or columns by their names, have tests of their own; those that choose, below.
CHECKED = [way for way in READS if way not in ("columns of any kind", "texts", "mail", "documents")]
CHOOSING = ("MixtureDiscriminant", "Classifier")


@parametrize_with_checks([made(READS[way][0]) for way in CHECKED], expected_failed_checks=expected)
def test_estimator(estimator, check):
    """One estimator for each way of reading rows."""
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [made(name) for way in CHECKED for name in READS[way][1:] if name not in CHOOSING], expected_failed_checks=expected
)
def test_estimator_that_reads_as_others_do(estimator, check):
    check(estimator)


# What comes in several kinds: of memory that is read only, and of sparse rows.
KINDS = "memmap|sparse_matrix|equivalence_on_sparse"


# Of how rows and weights are taken and refused before anything is chosen.
AS_GIVEN = "sparse_array|dtype|not_an_array|sample_weight|n_features_in|complex|1d|2d|nan|empty|unfitted|feature_names"


def fewer(checks, late=KINDS):
    """Those that are called so are slow."""
    names, cases = checks.mark.args
    thinned = []
    for case in cases:
        values, marks = (case.values, case.marks) if hasattr(case, "marks") else (case, ())
        slow = [pytest.mark.slow] if re.search(late, str(values[1])) else []
        thinned.append(pytest.param(*values, marks=[*marks, *slow]))
    return pytest.mark.parametrize(names, thinned, **checks.mark.kwargs)


@fewer(parametrize_with_checks([Classifier()], expected_failed_checks=expected))
def test_estimator_that_chooses(estimator, check):
    """Estimators that choose something at every fit of every check."""
    check(estimator)


@fewer(
    parametrize_with_checks(
        [GaussianDiscriminant(), MixtureDiscriminant(max_components=2, n_init=1, shrinkage=0.1)],
        expected_failed_checks=expected,
    ),
    f"{KINDS}|{AS_GIVEN}",
)
def test_discriminant_that_chooses(estimator, check):
    """They read rows as other discriminants do, which have all checks above: fewer are repeated."""
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([MixtureDiscriminant(max_components=2)], expected_failed_checks=expected)
def test_estimator_that_chooses_everything(estimator, check):
    """How many components and how far covariances move, at every fit of every check."""
    check(estimator)


@pytest.mark.parametrize("model", [GaussianNB(), MultinomialNB(), CategoricalNB()])
def test_sample_weights_are_routed(model):
    """Metadata routing: a pipeline hands sample_weight on to a model that asked for it."""
    rng = np.random.default_rng(0)
    X, y, weight = rng.integers(0, 3, (60, 3)), rng.integers(0, 2, 60), rng.random(60)
    with config_context(enable_metadata_routing=True):
        model = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        piped = Pipeline([("same", FunctionTransformer()), ("model", model)]).fit(X, y, sample_weight=weight)
        scores = cross_validate(model, X, y, params={"sample_weight": weight}, cv=3)["test_score"]
    np.testing.assert_allclose(piped.predict_proba(X), clone(model).fit(X, y, weight).predict_proba(X))
    assert scores.shape == (3,)


def test_parameters_are_searched():
    rng = np.random.default_rng(0)
    X, y = rng.poisson(2, (80, 4)), np.repeat(["a", "b"], 40)
    grid = {"alpha": [0.1, 1.0, "empirical", "loo", np.ones(4)], "fit_prior": [True, False]}
    search = GridSearchCV(MultinomialNB(), grid, cv=3, error_score="raise").fit(X, y)
    assert set(search.best_params_) == {"alpha", "fit_prior"}
