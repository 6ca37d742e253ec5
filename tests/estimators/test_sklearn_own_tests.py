"""scikit-learn's own tests of its models, with their names pointed at deciban.

They come from the installed package. A test that we fail is listed here with the reason, and must go on failing.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass, field

import pytest
from conftest import BEFORE_SKLEARN_1_9, DIVISOR

import deciban

# They warn where scikit-learn's own settings let them.
pytestmark = pytest.mark.filterwarnings("ignore", "error::RuntimeWarning")


@dataclass
class Suite:
    tests: str  # scikit-learn's module of tests
    home: str  # where it imports the models from
    names: list[str]
    different: dict[str, str] = field(default_factory=dict)  # why a test must fail here
    perhaps: dict[str, str] = field(default_factory=dict)  # why a test may fail here, as where it may be skipped: slow
    theirs: tuple[str, ...] = ()  # what tests are called that are of models we have not: slow, they say little of us


PRIVATE = "tests a private method of scikit-learn's class"
ARRAYS = "arrays of other libraries (PyTorch, CuPy) are not dispatched to"
SINGULAR = "deciban works where a covariance is singular, and says in a warning what was done"
LOST_DIGITS = "before version 1.9 it expects differences of log-joints near 0 without an absolute tolerance"
DIVIDED = ("test_lda_orthogonality", "test_qda_priors", "test_qda_store_covariance") if BEFORE_SKLEARN_1_9 else ()

SUITES = [
    Suite(
        "sklearn.tests.test_naive_bayes",
        "sklearn.naive_bayes",
        ["BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MultinomialNB"],
        {
            "test_gnb_check_update_with_no_data": f"{PRIVATE} (_update_mean_variance)",
            "test_NB_partial_fit_no_first_classes": (
                "deciban needs no classes= on the first partial_fit: the set of classes is then open"
            ),
        },
        {
            "test_gnb_array_api_compliance": ARRAYS,
            **({"test_predict_joint_proba": LOST_DIGITS} if BEFORE_SKLEARN_1_9 else {}),
        },
    ),
    Suite(
        "sklearn.tests.test_discriminant_analysis",
        "sklearn.discriminant_analysis",
        ["LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"],
        {
            "test_qda": f"{SINGULAR}: its last lines ask for an error on a class of one row",
            "test_qda_regularization": SINGULAR,
            "test_raises_value_error_on_one_sample_per_class": SINGULAR,
            "test_raises_value_error_on_same_number_of_classes_and_samples": SINGULAR,
            **dict.fromkeys(DIVIDED, DIVISOR),
        },
    ),
    Suite("sklearn.neighbors.tests.test_nearest_centroid", "sklearn.neighbors", ["NearestCentroid"]),
    Suite(
        "sklearn.mixture.tests.test_gaussian_mixture",
        "sklearn.mixture",
        ["GaussianMixture"],
        {
            "test_gaussian_mixture_precisions_init": f"{PRIVATE} (_set_parameters, _initialize)",
            "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters": (
                "counts calls of a private function of scikit-learn's module"
            ),
            "test_regularisation": f"{SINGULAR}: it asks for an error on collapsed components",
        },
        {
            "test_gaussian_mixture_array_api_compliance": ARRAYS,
            "test_gaussian_mixture_raises_where_array_api_not_implemented": ARRAYS,
        },
    ),
    Suite(
        "sklearn.feature_extraction.tests.test_text",
        "sklearn.feature_extraction.text",
        ["CountVectorizer"],
        theirs=("tfidf", "hashing"),
    ),
]


def load_with_our_names(suite):
    home = importlib.import_module(suite.home)
    originals = {name: getattr(home, name) for name in suite.names}
    spec = importlib.util.find_spec(suite.tests)
    module = importlib.util.module_from_spec(spec)
    sys.modules[suite.tests] = module  # where pickle looks for the functions that some tests pickle
    try:
        for name in suite.names:
            setattr(home, name, getattr(deciban, name))
        spec.loader.exec_module(module)
    finally:
        for name, original in originals.items():
            setattr(home, name, original)
    return module


_modules = [load_with_our_names(suite) for suite in SUITES]
for _suite, _module in zip(SUITES, _modules, strict=True):
    for _name, _function in inspect.getmembers(_module, inspect.isfunction):
        if _name.startswith("test_"):
            if _name in _suite.different:
                _function = pytest.mark.xfail(reason=_suite.different[_name], strict=True)(_function)
            elif _name in _suite.perhaps:
                _function = pytest.mark.slow(pytest.mark.xfail(reason=_suite.perhaps[_name], strict=False)(_function))
            elif any(word in _name for word in _suite.theirs):
                _function = pytest.mark.slow(_function)
            globals()[f"test_{_suite.home.split('.')[1]}_{_name.removeprefix('test_')}"] = _function


@pytest.mark.parametrize(
    ("suite", "module"), list(zip(SUITES, _modules, strict=True)), ids=lambda part: getattr(part, "home", "")
)
def test_the_names_are_ours(suite, module):
    for name in suite.names:
        assert getattr(module, name) is getattr(deciban, name)
    if not BEFORE_SKLEARN_1_9:  # earlier versions lack some of these tests
        assert set(suite.different) | set(suite.perhaps) <= set(dir(module))
