"""Gaussian discriminants: leave-one-out is a refit, scikit-learn where it can, a model is a sum, and the equations.

Numbers agree to a tolerance of the largest log-joint of their row: a posterior is a difference of log-joints.
"""

from __future__ import annotations

import contextlib
import copy
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import BEFORE_SKLEARN_1_9, DIVISOR, version_of
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t
from sklearn import discriminant_analysis as reference
from sklearn.base import clone
from sklearn.neighbors import NearestCentroid as TheirCentroid

import deciban
from deciban import (
    ForgetError,
    GaussianDiscriminant,
    GaussianMixture,
    GaussianNB,
    LinearDiscriminantAnalysis,
    NaiveBayes,
    NearestCentroid,
    QuadraticDiscriminantAnalysis,
    SingularWarning,
)
from deciban.corollaries.leave_one_out import merged
from deciban.matrix import marks
from deciban.pool import Folds, distinct_marks

pytestmark = [
    pytest.mark.crossed(4),
    pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning"),
    pytest.mark.filterwarnings("ignore::deciban.errors.ZeroEvidenceWarning"),
]

LDA, QDA, GD = LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, GaussianDiscriminant


def plugged(**options):
    """With estimates plugged in, as the notes' equations have it."""
    return GD(predictive=False, **options)


SHAPES = "EII VII EEI VEI EVI VVI EEE VEE EVE VVE EEV VEV EVV VVV unit".split()  # noqa: SIM905 - a list to read
EARLY = ("EII", "VEI", "EVE", "VVV")  # every letter at every place


def of_shapes(**options):
    """A model of every shape, which the family's own tests cover as well; those that are not early are slow."""
    return [
        pytest.param(GD, {**options, "covariance": shape}, marks=[] if shape in EARLY else pytest.mark.slow)
        for shape in SHAPES
    ]


TABLES = [
    "adult",
    "anneal",
    "cmc",
    "credit_approval",
    "glass",
    "heart_cleveland",
    "hepatitis",
    "ionosphere",
    "letter",
    "page_blocks",
    "pendigits",
    "pima",
    "satimage",
    "spambase",
    "vehicle",
    "zoo",
]


def take(table, name, n=None, seed=0):
    """Numeric columns without missing entries, rows in random order."""
    data = table(name)
    rows = np.random.default_rng(seed).permutation(len(data.y))[:n]
    complete = ~np.isnan(data.numbers).any(axis=0)
    return data.numbers[rows][:, complete].copy(), data.y[rows]


def blobs(n=60, d=3, k=3, seed=0, apart=1.5):
    """Classes with means and covariances of their own, rows mixed."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    turn = np.eye(d) + 0.5 * rng.normal(size=(k, d, d))
    means = apart * rng.normal(size=(k, d))
    X = means[y] + np.einsum("nij,nj->ni", turn[y], rng.normal(size=(n, d)))
    return X, np.array(list("abcdefgh"))[y]


def close(actual, expected, scale=1.0, tolerance=1e-8):
    """Equal to `tolerance` of themselves or of `scale`; infinities in the same places."""
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape
    with np.errstate(invalid="ignore"):
        gap = np.where(actual == expected, 0.0, np.abs(actual - expected))
        good = gap <= tolerance * np.maximum(np.abs(expected), np.maximum(scale, 1.0))
    good &= np.isfinite(expected) | (actual == expected)
    assert good.all(), f"off by up to {gap[~good].max()} in {(~good).sum()} of {good.size}"


def row_scale(log_joint):
    return np.abs(np.where(np.isfinite(log_joint), log_joint, 0.0)).max(axis=-1, keepdims=True)


def same(a, b, X, tolerance=1e-8):
    """Models with the same scores, including densities."""
    assert a.classes_.tolist() == b.classes_.tolist()
    expected = b.predict_joint_log_proba(X)
    close(a.predict_joint_log_proba(X), expected, row_scale(expected), tolerance)


def weights(n, seed=1):
    return np.random.default_rng(seed).choice([0.25, 0.7, 1.0, 3.0], n)


def named(value):
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items()) or "default"
    return str(value)


# ------------------------------ 1. leave-one-out is a refit

LEFT_OUT = [
    (LDA, {}),
    (QDA, {}),
    *[(GD, {"covariance": c, "shrinkage": s}) for c in ("full", "tied") for s in (None, 0.1, (0.3, 0.1))],
]
LEFT_OUT_ON = ["pima", "vehicle", "glass", "ionosphere"]


def assert_left_out(model, X, y, weight, rows, tolerance=1e-6):
    whole = clone(model).fit(X, y, weight)
    rows = np.asarray(rows)
    left_out = whole.leave_one_out(X[rows], y[rows], None if weight is None else weight[rows]).log_proba
    assert left_out.shape == (len(rows), len(whole.classes_))
    by_row = dict(zip(rows.tolist(), left_out, strict=True))
    bad = []
    for i in rows.tolist():
        rest = np.delete(np.arange(len(y)), i)
        refit = clone(model).fit(X[rest], y[rest], None if weight is None else weight[rest])
        expected = np.full(len(whole.classes_), -np.inf)
        expected[np.isin(whole.classes_, refit.classes_)] = refit.predict_log_proba(X[i : i + 1])[0]
        scale = row_scale(refit.predict_joint_log_proba(X[i : i + 1]))[0]
        with np.errstate(invalid="ignore"):
            gap = np.where(by_row[i] == expected, 0.0, np.abs(by_row[i] - expected))
        if not (gap <= tolerance * np.maximum(np.abs(expected), np.maximum(scale, 1.0))).all():
            bad.append((i, y[i], by_row[i].round(4).tolist(), expected.round(4).tolist()))
    assert not bad, f"{len(bad)} of {len(rows)} rows, first: {bad[0]}"


@pytest.mark.crossed(8)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("name", LEFT_OUT_ON)
@pytest.mark.parametrize(("Model", "options"), LEFT_OUT, ids=named)
def test_leave_one_out_is_a_refit(table, Model, options, name, weighted):
    X, y = take(table, name)
    rows = np.random.default_rng(2).choice(len(y), 30, replace=False)
    small = [np.flatnonzero(y == label)[:2] for label in np.unique(y) if (y == label).sum() < 20]
    rows = np.unique(np.concatenate([rows, *small]))
    assert_left_out(Model(**options), X, y, weights(len(y)) if weighted else None, rows)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("name", LEFT_OUT_ON)
@pytest.mark.parametrize(("Model", "options"), LEFT_OUT, ids=named)
def test_leave_one_out_is_a_refit_for_every_row(table, Model, options, name, weighted):
    X, y = take(table, name)
    assert_left_out(Model(**options), X, y, weights(len(y)) if weighted else None, range(len(y)))


OTHERS = [
    *of_shapes(shrinkage=None),
    *[(GD, {"covariance": shape, "shrinkage": 0.2}) for shape in ("VVI", "EEI", "VEE", "EVV")],
    *[(GD, {"covariance": c, "shrinkage": s}) for c in ("full", "tied") for s in ("auto", "oas", 1.0, (1.0, 0.0))],
    *[(GD, {"covariance": c, "shrinkage": None, "alpha": 2.0}) for c in ("full", "tied", "diag")],
    *[(GD, {"covariance": c, "shrinkage": None, "predictive": True}) for c in ("full", "tied", "diag")],
    (GD, {"covariance": "full", "shrinkage": None, "alpha": 1.5, "predictive": True}),
    (GD, {"covariance": "full", "shrinkage": None, "alpha": 1.5, "prior_mean": 0.5, "prior_cov": np.eye(3) * 2.0}),
    (GD, {"covariance": "full", "shrinkage": None, "priors": [0.2, 0.3, 0.5]}),
    (GD, {"covariance": "bic", "shrinkage": None}),
    *[(LDA, {"solver": "lsqr", "shrinkage": s}) for s in (0.3, "auto")],
    *[(QDA, {"solver": "eigen", "shrinkage": s}) for s in (0.3, "auto")],
    (QDA, {"reg_param": 0.1}),
    (NearestCentroid, {}),
    (NearestCentroid, {"shrink_threshold": 0.4, "priors": "empirical"}),
]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("Model", "options"), OTHERS, ids=named)
def test_leave_one_out_is_a_refit_whatever_the_shape(Model, options, weighted):
    X, y = blobs(40)
    slow = options.get("covariance") in ("bic", "EVE", "VVE")
    rows = range(0, 40, 13 if slow else 5)
    assert_left_out(Model(**options), X, y, weights(len(y)) if weighted else None, rows, 1e-5)


@pytest.mark.parametrize("shrinkage", [None, 0.1, (0.3, 0.1), (0.3, 0.0)], ids=named)
@pytest.mark.parametrize("covariance", ["full", "tied"])
@pytest.mark.parametrize("few", [1, 2, 3, 4, 5])
def test_leave_one_out_where_a_class_is_nearly_singular(covariance, shrinkage, few):
    """A class of d + 1 rows has a covariance, and without any of them it has none."""
    X, y = blobs(40)
    keep = np.sort(np.r_[np.flatnonzero(y == "a")[:few], np.flatnonzero(y != "a")])
    model = GD(covariance=covariance, shrinkage=shrinkage)
    assert_left_out(model, X[keep], y[keep], None, np.unique(np.r_[np.flatnonzero(y[keep] == "a"), 0:12]), 1e-5)


@pytest.mark.parametrize("Model", [LDA, QDA])
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_leave_one_out_far_from_zero(Model, offset):
    X, y = blobs(40)
    moved = X + offset
    left_out = Model().fit(moved, y).leave_one_out(moved, y).log_proba
    near = moved - offset
    close(left_out, Model().fit(near, y).leave_one_out(near, y).log_proba, 10.0, 1e-7)


def test_leave_one_out_of_what_was_chosen():
    """The default chooses its shrinkage: given all rows, by the other folds; given some, as it was chosen."""
    X, y = blobs(60)
    model = GD().fit(X, y)
    left_out = held(model, X, y)
    assert left_out.how == "leave-one-out, choices held"
    for i in range(0, 60, 7):
        left = copy.deepcopy(model).forget(X[i : i + 1], y[i : i + 1])
        close(left_out.log_proba[i : i + 1], left.predict_log_proba(X[i : i + 1]))
    left_out = model.leave_one_out(X, y)
    assert left_out.how == "cross-fitted leave-one-out"
    code = np.unique(y, return_inverse=True)[1].astype(np.int32)
    mark = distinct_marks(marks([X]), code)
    fold = Folds.of(mark, code, 3).which(mark, code)
    for i in range(0, 60, 13):
        chosen = GD().fit(X[fold != fold[i]], y[fold != fold[i]]).model_.joint
        left = copy.deepcopy(model).forget(X[i : i + 1], y[i : i + 1])
        left.model_ = left.model_.with_joint(chosen)
        close(left_out.log_proba[i : i + 1], left.predict_log_proba(X[i : i + 1]))


def held(model, X, y):
    """Leave-one-out under the choice of all rows: each half is some of the rows, and chooses nothing."""
    half = len(y) // 2
    return merged([model.leave_one_out(X[:half], y[:half]), model.leave_one_out(X[half:], y[half:])])


@pytest.mark.parametrize("covariance", ["full", "tied"])
@pytest.mark.parametrize("name", ["glass", "vehicle", "pima"])
def test_chosen_shrinkage_has_the_least_loss(table, covariance, name):
    """Least among pairs that need no repair."""
    X, y = take(table, name, 150)
    within = np.sqrt(np.diagonal(LDA(store_covariance=True).fit(X, y).covariance_))
    X = X / np.where(within > 0, within, 1.0)  # units in which the chosen sphere is round
    model = GD(covariance=covariance).fit(X, y)
    chosen = held(model, X, y)
    others = {}
    for pair in [(0.0, 0.001), (0.05, 0.05), (0.2, 0.01), (0.5, 0.2), (0.95, 0.001), (0.8, 0.0)]:
        given = pair if covariance == "full" else pair[1]
        losses = GD(covariance=covariance, shrinkage=given).fit(X, y).leave_one_out(X, y)
        others[pair] = losses.log_loss
    assert chosen.log_loss <= min(others.values()) + 1e-9, (model.shrinkage_, chosen.log_loss, others)


# ------------------------------ 2. as scikit-learn, where it can

SOLVERS = [
    {"solver": "svd"},
    *[{"solver": s, "shrinkage": a} for s in ("lsqr", "eigen") for a in (None, 0.3, "auto")],
]


def theirs_or_none(Model, X, y, **options):
    """scikit-learn's model, or None where it fails or warns that it is ill-conditioned."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = Model(**options).fit(X, y)
            proba = model.predict_proba(X)
        except Exception:
            return None
    return model if np.isfinite(proba).all() else None


def skip_other_divisors(options):
    if BEFORE_SKLEARN_1_9 and options.get("solver", "svd") == "svd":
        pytest.skip(DIVISOR)


def condition(X, y):
    """How far the within-class correlation matrix is from being singular."""
    centred = X - np.array([X[y == label].mean(axis=0) for label in np.unique(y)])[np.unique(y, return_inverse=True)[1]]
    deviation = centred.std(axis=0)
    if (deviation <= 1e-12 * np.abs(X).max(axis=0)).any():
        return np.inf
    return np.linalg.cond(np.corrcoef((centred / deviation).T)) if X.shape[1] > 1 else 1.0


@pytest.mark.crossed(6)
@pytest.mark.parametrize("options", SOLVERS, ids=named)
@pytest.mark.parametrize("name", TABLES)
def test_lda_says_what_sklearn_says(table, name, options):
    X, y = take(table, name, 1500)
    ours = LDA(**options).fit(X, y)
    proba = ours.predict_proba(X)
    assert np.isfinite(proba).all()
    skip_other_divisors(options)
    theirs = theirs_or_none(reference.LinearDiscriminantAnalysis, X, y, **options)
    bad = condition(X, y)
    if theirs is None or (options.get("shrinkage") is None and bad > 1e9):
        return  # a singular covariance: no reference
    close(proba, theirs.predict_proba(X), tolerance=1e-6)
    close(ours.means_, theirs.means_, np.abs(X).max(axis=0))
    close(ours.priors_, theirs.priors_)
    decision = theirs.decision_function(X)
    if decision.ndim == 2:  # what all classes share is nobody's
        close(np.diff(ours.decision_function(X), axis=1), np.diff(decision, axis=1), np.abs(decision).max(), 1e-6)
    else:
        close(ours.decision_function(X), decision, np.abs(decision).max(), 1e-6)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    if options["solver"] != "svd":
        close(ours.covariance_, theirs.covariance_, np.abs(theirs.covariance_).max(axis=0), 1e-7)


@pytest.mark.parametrize(
    "options",
    [{}, {"reg_param": 0.3}, *[{"solver": "eigen", "shrinkage": a} for a in (None, 0.3, "auto")]],
    ids=named,
)
@pytest.mark.parametrize("name", TABLES)
def test_qda_says_what_sklearn_says(table, name, options):
    X, y = take(table, name, 1500)
    ours = QDA(**options).fit(X, y)
    proba = ours.predict_proba(X)
    assert np.isfinite(proba).all()
    if min((y == label).sum() for label in np.unique(y)) <= X.shape[1]:
        return  # scikit-learn has no reference with fewer rows than columns
    skip_other_divisors(options)
    theirs = theirs_or_none(reference.QuadraticDiscriminantAnalysis, X, y, **options)
    classes = [X[y == label] for label in np.unique(y)]
    worst = max(condition(rows, np.zeros(len(rows))) for rows in classes)
    if theirs is None or (not any(options.get(o) for o in ("reg_param", "shrinkage")) and worst > 1e7):
        return
    close(proba, theirs.predict_proba(X), tolerance=1e-5)
    close(ours.means_, theirs.means_, np.abs(X).max(axis=0))


@pytest.mark.parametrize("options", SOLVERS, ids=named)
def test_lda_has_sklearns_coefficients(table, options):
    skip_other_divisors(options)
    X, y = take(table, "vehicle")
    ours, theirs = LDA(**options).fit(X, y), reference.LinearDiscriminantAnalysis(**options).fit(X, y)
    close(ours.coef_, theirs.coef_, np.abs(theirs.coef_).max(), 1e-6)
    close(ours.intercept_, theirs.intercept_, np.abs(theirs.intercept_).max(), 1e-6)


@pytest.mark.parametrize("name", ["pima", "vehicle", "pendigits", "letter"])
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "tied_diag", "spherical", "tied_spherical", "unit"])
def test_says_what_the_equations_say(table, name, covariance):
    X, y = take(table, name, 1500)
    labels = np.unique(y)
    own = [np.cov(X[y == c].T, bias=True) for c in labels]
    share = np.array([(y == c).mean() for c in labels])
    pooled = np.einsum("c,cij->ij", share, own)
    d = X.shape[1]
    covariances = {
        "full": own,
        "tied": [pooled] * len(labels),
        "diag": [np.diag(np.diag(s)) for s in own],
        "tied_diag": [np.diag(np.diag(pooled))] * len(labels),
        "spherical": [np.eye(d) * np.trace(s) / d for s in own],
        "tied_spherical": [np.eye(d) * np.trace(pooled) / d] * len(labels),
        "unit": [np.eye(d)] * len(labels),
    }[covariance]
    if any(np.linalg.cond(np.cov(X[y == c].T)) > 1e14 for c in labels):
        pytest.skip("some class is singular")
    expected = np.column_stack(
        [
            multivariate_normal(X[y == c].mean(axis=0), s, allow_singular=False).logpdf(X)
            for c, s in zip(labels, covariances, strict=True)
        ]
    ) + np.log(share)
    model = plugged(covariance=covariance, shrinkage=None).fit(X, y)
    close(model.predict_joint_log_proba(X), expected, row_scale(expected), 1e-7)
    close(model.score_samples(X), logsumexp(expected, axis=1), row_scale(expected)[:, 0], 1e-7)
    close(model.covariances_, np.array(covariances), np.abs(covariances).max(), 1e-9)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("options", [{}, {"shrink_threshold": 0.5}, {"priors": "empirical"}], ids=named)
def test_nearest_centroids_say_what_sklearn_says(table, name, options):
    X, y = take(table, name, 2000)
    ours = NearestCentroid(**options).fit(X, y)
    assert np.isfinite(ours.predict_proba(X)).all()
    theirs = theirs_or_none(TheirCentroid, X, y, **options)
    if theirs is None:
        return
    close(ours.centroids_, theirs.centroids_, np.abs(X).max(axis=0))
    close(ours.within_class_std_dev_, theirs.within_class_std_dev_, np.abs(X).max(axis=0))
    if "priors" in options:
        assert (ours.predict(X) == theirs.predict(X)).mean() > 0.99  # ties apart
        return
    distance = ((X[:, None] - theirs.centroids_) ** 2).sum(axis=2)
    mine = distance[np.arange(len(X)), np.searchsorted(ours.classes_, ours.predict(X))]
    assert (mine <= distance.min(axis=1) * (1 + 1e-9) + 1e-9).all(), "another centroid is nearer"


@pytest.mark.slow_where(r"spambase-GaussianDiscriminant")
@pytest.mark.crossed(3)
@pytest.mark.parametrize("Model", [LDA, QDA, GD, NearestCentroid])
@pytest.mark.parametrize("name", TABLES)
def test_never_fails_on_a_real_table(table, Model, name):
    X, y = take(table, name, 60 if Model is GD else 400)
    model = Model().fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert not np.isnan(model.leave_one_out(X[:20], y[:20]).log_proba).any()
    assert np.isfinite(model.sample(5, random_state=0)[0]).all()


@pytest.mark.parametrize("name", ["glass", "pima", "vehicle", "pendigits", "satimage"])
@pytest.mark.parametrize(
    "options", [{"solver": "svd"}, {"solver": "eigen"}, {"solver": "eigen", "shrinkage": 0.3}], ids=named
)
def test_transform_is_sklearns_up_to_sign(table, name, options):
    skip_other_divisors(options)
    X, y = take(table, name, 1500)
    ours, theirs = LDA(**options).fit(X, y), reference.LinearDiscriminantAnalysis(**options).fit(X, y)
    a, b = ours.transform(X), theirs.transform(X)
    assert a.shape == b.shape
    sign = np.sign((a * b).sum(axis=0))
    if options["solver"] == "eigen":  # its rows are not centred, here or there
        a, b = a - a.mean(axis=0), b - b.mean(axis=0)
        sign = np.sign((a * b).sum(axis=0))
    close(a * sign, b, np.abs(b).max(axis=0), 1e-5)
    close(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, tolerance=1e-6)
    two = LDA(n_components=1, **options).fit(X, y).transform(X)
    close(np.abs(two[:, 0]), np.abs(ours.transform(X)[:, 0]), tolerance=1e-9)


# ------------------------------ 3. known defects of peers


def test_qda_with_a_duplicated_column_is_qda_without_it():
    X, y = blobs(90)
    twice = np.c_[X, X[:, 1]]
    with pytest.warns(SingularWarning):
        model = QDA().fit(twice, y)
    close(model.predict_log_proba(twice), QDA().fit(X, y).predict_log_proba(X), 10.0, 1e-7)
    three = np.c_[X, X @ [1.0, -2.0, 0.5]]
    close(QDA().fit(three, y).predict_log_proba(three), QDA().fit(X, y).predict_log_proba(X), 10.0, 1e-6)


@pytest.mark.parametrize("solver", ["svd", "lsqr", "eigen"])
def test_lda_of_classes_without_spread(solver):
    X, y = np.array([[0.0], [1.0], [1.0]]), np.array([0, 1, 1])
    model = LDA(solver=solver).fit(X, y)
    assert model.predict(X).tolist() == [0, 1, 1]
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_float32_spherical_mixture_keeps_its_ridge():
    X = np.array([[9999.0], [0.0]], dtype=np.float32)
    model = GaussianMixture(2, covariance_type="spherical", reg_covar=0.1, random_state=0).fit(X)
    assert model.covariances_.dtype == np.float32
    np.testing.assert_allclose(model.covariances_, [0.1, 0.1], rtol=1e-6)


@pytest.mark.parametrize("covariance", ["tied", "full", "diag", "spherical"])
def test_a_rare_class_keeps_its_prior_at_the_midpoint(covariance):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(10, 2))
    half = np.r_[half, -half]
    X = np.r_[np.tile(half, (99, 1)), half + np.array([4.0, 2.0])]
    y = np.r_[np.zeros(20 * 99, int), np.ones(20, int)]
    model = plugged(covariance=covariance, shrinkage=None).fit(X, y)
    np.testing.assert_allclose(model.predict_proba([[2.0, 1.0]]), [[0.99, 0.01]], rtol=1e-9)


@pytest.mark.parametrize("Model", [LDA, QDA, GD, NearestCentroid])
def test_sixty_deviations_into_the_tail(Model):
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(-1, 1, (500, 1)), rng.normal(1, 1, (500, 1))]
    y = np.repeat(["left", "right"], 500)
    model = Model().fit(X, y) if Model is not QDA else QDA().fit(np.r_[X[:500], -X[:500]], y)
    rows = [[-60.0], [60.0]]
    assert model.predict(rows).tolist() == ["left", "right"]
    assert np.isfinite(model.predict_log_proba(rows)).all()
    assert np.isfinite(model.score_samples(rows)).all()


# ------------------------------ 4. a model is a sum

SUMS = [
    (LDA, {}),
    (LDA, {"solver": "lsqr", "shrinkage": "auto"}),
    (LDA, {"solver": "eigen", "shrinkage": 0.2}),
    (QDA, {}),
    (QDA, {"solver": "eigen", "shrinkage": "auto"}),
    (QDA, {"reg_param": 0.1}),
    (NearestCentroid, {}),
    (NearestCentroid, {"shrink_threshold": 0.3}),
    (GD, {"shrinkage": None}),
    (GD, {"shrinkage": "auto"}),
    (GD, {"shrinkage": "oas"}),
    (GD, {"shrinkage": (0.3, 0.1)}),
    (GD, {"shrinkage": None, "alpha": 2.0}),
    (GD, {"shrinkage": None, "alpha": "empirical"}),
    (GD, {"shrinkage": None, "predictive": True}),
    (GD, {"shrinkage": "auto", "covariance": "tied"}),
    (GD, {"shrinkage": "auto", "alpha": 2.0}),
    (GD, {"shrinkage": None, "covariance": "bic"}),
    *of_shapes(shrinkage=None),
]
every_sum = pytest.mark.parametrize(("Model", "options"), SUMS, ids=named)


@pytest.mark.crossed(4)
@every_sum
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_batches_merges_and_forgetting_are_a_fit(Model, options, weighted, offset):
    X, y = blobs(90)
    X = X + offset
    w = weights(90) if weighted else np.ones(90)
    tolerance = 1e-5 if options.get("alpha") == "empirical" or options.get("shrinkage") == "auto" else 1e-7
    whole = Model(**options).fit(X, y, w)
    batches = Model(**options)
    for part in np.array_split(np.argsort(y, kind="stable"), [25, 26, 26, 50]):  # classes come one after the other
        batches.partial_fit(X[part], y[part], sample_weight=w[part])
    same(batches, whole, X, tolerance)
    a, b = (Model(**options).fit(X[p], y[p], w[p]) for p in (np.s_[:40], np.s_[40:]))
    same(a + b, whole, X, tolerance)
    same(b + a, whole, X, tolerance)
    same(sum([a, b]), whole, X, tolerance)
    extra, labels = blobs(40, seed=5)
    extra = extra + offset
    longer = copy.deepcopy(whole).partial_fit(extra, labels).forget(extra, labels)
    same(longer, whole, X, tolerance)
    same(copy.deepcopy(whole).forget(X[40:], y[40:], w[40:]), a, X, tolerance)


@every_sum
def test_weights_are_repetitions_and_order_does_not_matter(Model, options):
    X, y = blobs(60)
    rng = np.random.default_rng(3)
    times = rng.integers(0, 4, 60)
    times[:12] = 2
    repeated = np.repeat(np.arange(60), times)
    twice = Model(**options).fit(X, y, times)
    tolerance = 1e-5 if options.get("alpha") == "empirical" else 1e-8
    same(twice, Model(**options).fit(X[repeated], y[repeated]), X, tolerance)
    mixed = rng.permutation(60)
    same(Model(**options).fit(X[mixed], y[mixed]), Model(**options).fit(X, y), X, tolerance)


@every_sum
def test_forgetting_a_class_is_never_having_seen_it(Model, options):
    X, y = blobs(60)
    model = Model(**options).fit(X, y).forget(X[y == "b"], y[y == "b"])
    tolerance = 1e-5 if options.get("alpha") == "empirical" else 1e-8
    same(model, Model(**options).fit(X[y != "b"], y[y != "b"]), X, tolerance)
    model.forget(X[y != "b"], y[y != "b"])
    assert len(model.classes_) == 0
    same(model.partial_fit(X, y), Model(**options).fit(X, y), X, max(tolerance, 1e-7))


GD_AS_GIVEN = partial(GD, shrinkage=(0.0, 0.1))
FAR_MODELS = [
    GaussianNB,
    NaiveBayes,
    LDA,
    QDA,
    GD,
    partial(NearestCentroid, priors="empirical"),
    partial(GD, covariance="diag", shrinkage=None),
    partial(GD, covariance="VEI", shrinkage=None),
]


@pytest.mark.crossed(3)
@pytest.mark.parametrize("Model", FAR_MODELS)
@pytest.mark.parametrize("far", [1e7, 1e9, 1e15])
@pytest.mark.parametrize("ways", ["at once", "in turn", "saved between"])
def test_what_a_far_value_has_swallowed_is_not_made_up(Model, far, ways, tmp_path):
    """(1e9)² takes all digits of 0, 1, 2 from their sum of squares: without it their variance is lost."""
    X = np.array([[0.0], [1.0], [2.0], [far], [far / 3e3], [5.0], [6.0], [7.0]])
    y = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    model = Model().fit(X, y)
    if ways != "at once":
        model.forget(X[3:4], y[3:4])  # what is left is as wide as far/3000, and that is known
        wide = X[np.arange(8) != 3], y[np.arange(8) != 3]
        np.testing.assert_allclose(means_of(model), means_of(Model().fit(*wide)), rtol=1e-6)
    if ways == "saved between":
        model.save(tmp_path / "model")
        model = deciban.load(tmp_path / "model")
    gone = slice(4, 5) if ways != "at once" else slice(3, 5)
    before = model.predict_joint_log_proba(X) if hasattr(model, "predict_joint_log_proba") else model.predict(X)
    with pytest.raises(ForgetError, match=r"column 'x0' in class 0 .* rounding .* Fit again without these rows"):
        model.forget(X[gone], y[gone])
    after = model.predict_joint_log_proba(X) if hasattr(model, "predict_joint_log_proba") else model.predict(X)
    np.testing.assert_array_equal(before, after)


def means_of(model):
    return model.theta_ if isinstance(model, GaussianNB) else model.model_.params[0].mean


def test_far_rows_are_left_out_of_choices_too():
    X, y = blobs(60)
    X[3, 0] = 1e12
    left_out = GD().fit(X, y).leave_one_out(X, y)
    assert left_out.how == "cross-fitted leave-one-out"
    assert np.isfinite(left_out.log_proba[3]).all()


@pytest.mark.crossed(3)
@pytest.mark.parametrize("Model", [GD_AS_GIVEN if Model is GD else Model for Model in FAR_MODELS])
@pytest.mark.parametrize("far", [1e4, 1e9, 1e15])
def test_far_rows_are_left_out_as_by_refitting(Model, far):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2)) + np.arange(24)[:, None] % 2, np.arange(24) % 2
    X[3, 0], X[8, 1] = far, -3 * far
    model = Model().fit(X, y)
    left_out = model.leave_one_out(X, y).proba
    for i in range(24):
        left = Model().fit(np.delete(X, i, axis=0), np.delete(y, i))
        np.testing.assert_allclose(left_out[i], left.predict_proba(X[i : i + 1])[0], atol=1e-6)
    if far > 1e5 and not isinstance(model, GaussianNB):  # whose floor is wider than the doubt as long as one is far
        with pytest.raises(ForgetError, match=r"row 3 is so extreme .* all rows of the class"):
            model.leave_one_out(X[:9], y[:9])


@pytest.mark.parametrize("Model", FAR_MODELS)
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_forgetting_nearly_all_rows_is_no_far_value(Model, offset):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 2)) + offset, np.arange(20_000) % 2
    model = Model().fit(X, y).forget(X[:-20], y[:-20])
    left = Model().fit(X[-20:], y[-20:])
    left.model_ = left.model_.with_joint(model.model_.joint)
    np.testing.assert_allclose(model.predict_proba(X[-20:]), left.predict_proba(X[-20:]), atol=1e-6)


@pytest.mark.parametrize("Model", FAR_MODELS)
def test_a_mark_that_one_row_of_a_class_had_can_be_forgotten(Model):
    """The class is constant afterwards, which shows relative to the column's variance in the other."""
    rng = np.random.default_rng(0)
    X, y = np.c_[rng.random(60) < 0.3, rng.normal(size=60)].astype(float), np.arange(60) % 2
    X[y == 0, 0] = 0.0
    X[6, 0] = 1.0
    rest = np.arange(60) != 6
    model = Model().fit(X, y).forget(X[6:7], y[6:7])
    left = Model().fit(X[rest], y[rest])
    left.model_ = left.model_.with_joint(model.model_.joint)
    np.testing.assert_allclose(model.predict_proba(X), left.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(("Model", "options"), [(LDA, {}), (QDA, {}), (GD, {})], ids=named)
def test_what_was_never_learned_is_not_forgotten(Model, options):
    X, y = blobs(60)
    model = Model(**options).fit(X, y)
    before = model.predict_proba(X)
    for act in (
        lambda: model.forget(X[:1] + 1e6, y[:1]),
        lambda: model.forget(X[:1], ["z"]),
        lambda: model.forget(np.r_[X, X], np.r_[y, y]),
        lambda: model.leave_one_out(np.r_[X, X], np.r_[y, y]),
    ):
        with pytest.raises(ForgetError):
            act()
        np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("Model", [LDA, QDA, GD, NearestCentroid])
def test_far_offsets(Model):
    """1e9 ± 1: two digits after the point are lost, no more."""
    X, y = blobs(60)
    far = X + 1e9
    near = far - 1e9  # the same digits
    a, b = Model().fit(far, y), Model().fit(near, y)
    close(a.predict_log_proba(far), b.predict_log_proba(near), 10.0, 1e-5)
    close(held(a, far, y).log_proba, held(b, near, y).log_proba, 10.0, 1e-5)
    halves = Model().fit(far[:30], y[:30]) + Model().fit(far[30:], y[30:])
    if Model is not GD:  # which chooses by leave-one-out
        close(halves.predict_log_proba(far), b.predict_log_proba(near), 10.0, 1e-5)


@pytest.mark.parametrize("offset", [1e3, 1e5])
@pytest.mark.parametrize(
    "Model",
    [
        LDA,
        lambda: plugged(covariance="tied", shrinkage=None),
        lambda: plugged(covariance="tied_spherical", shrinkage=None),
    ],
    ids=["LDA", "tied", "tied_spherical"],
)
def test_the_linear_form_keeps_its_digits_far_from_zero(Model, offset):
    X, y = blobs(60, k=2)
    far = X + offset
    model = Model().fit(far, y)
    theta, zero = model.linear_form().pair("b", "a")
    odds = np.diff(model.predict_joint_log_proba(far), axis=1)[:, 0]
    close(far @ theta + zero, odds, 10.0, 1e-8)


@pytest.mark.parametrize("Model", [LDA, QDA, GD, NearestCentroid])
def test_constant_columns_say_nothing(Model):
    X, y = blobs(60)
    rows = np.c_[np.full(60, 7.0), X[:, :2], np.zeros(60), X[:, 2:]]
    options = {"shrinkage": None} if Model is GD else {}
    with_them, without = Model(**options).fit(rows, y), Model(**options).fit(X, y)
    close(with_them.predict_log_proba(rows), without.predict_log_proba(X), 10.0)
    close(with_them.leave_one_out(rows, y).log_proba, without.leave_one_out(X, y).log_proba, 10.0)
    moved = rows + np.array([1.0, 0, 0, -5.0, 0])
    assert np.isfinite(with_them.predict_log_proba(moved)).all()
    close(with_them.predict_log_proba(moved), without.predict_log_proba(X), 10.0)


ODD = {
    "more columns than rows": lambda: blobs(12, d=30, k=2),
    "one class": lambda: (blobs(20)[0], np.full(20, "a")),
    "one row": lambda: (blobs(1)[0], np.array(["a"])),
    "one row a class": lambda: (blobs(3)[0], np.array(list("abc"))),
    "one column": lambda: blobs(30, d=1),
    "two rows a class": lambda: blobs(6),
    "the same row always": lambda: (np.ones((6, 2)), np.array(list("ab") * 3)),
    "a class without spread": lambda: (np.r_[np.ones((5, 3)), blobs(20)[0]], np.array(["a"] * 5 + ["b"] * 20)),
    "a class in a plane": lambda: (
        np.r_[blobs(10)[0] * [1, 1, 0], blobs(20, seed=2)[0]],
        np.array(["a"] * 10 + ["b"] * 20),
    ),
    "columns of very different size": lambda: (blobs(60)[0] * [1e-8, 1.0, 1e8], blobs(60)[1]),
    "nearly collinear": lambda: (np.c_[blobs(60)[0], blobs(60)[0].sum(axis=1) * (1 + 1e-12)], blobs(60)[1]),
    "counts": lambda: (np.random.default_rng(0).poisson(0.3, (40, 6)).astype(float), np.arange(40) % 3),
}


@pytest.mark.slow_where(r"covariance=loo-counts")
@pytest.mark.crossed(8)
@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize(
    ("Model", "options"),
    [
        (LDA, {}),
        (LDA, {"solver": "lsqr", "shrinkage": "auto"}),
        (LDA, {"solver": "eigen"}),
        (QDA, {}),
        (QDA, {"solver": "eigen", "shrinkage": "auto"}),
        (GD, {}),
        (GD, {"covariance": "tied"}),
        (GD, {"shrinkage": None, "predictive": True}),
        (GD, {"covariance": "tied", "shrinkage": None, "predictive": True}),
        (GD, {"shrinkage": None, "alpha": 1.0}),
        (GD, {"alpha": "empirical", "shrinkage": None}),
        (GD, {"alpha": "loo", "shrinkage": None}),
        (GD, {"covariance": "bic"}),
        (GD, {"covariance": "loo"}),
        (GD, {"shrinkage": "auto"}),
        (GD, {"shrinkage": "oas"}),
        (NearestCentroid, {}),
        *of_shapes(),
    ],
    ids=named,
)
def test_odd_tables_have_answers(Model, options, what):
    X, y = ODD[what]()
    if {"bic", "loo", "EVE", "VVE"} & {options.get("covariance"), options.get("alpha")}:
        few = 15 if options.get("covariance") == "loo" else 30
        X, y = X[:few], y[:few]
        X = X[:, :14] if "more columns" in what else X
    try:
        model = Model(**options).fit(X, y)
    except ValueError as error:
        allowed = ("zero variance",) if Model is NearestCentroid else ()
        assert any(part in str(error) for part in allowed), error  # noqa: PT017 - only there
        return
    log_proba = model.predict_log_proba(X)
    assert not np.isnan(log_proba).any()
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1.0)
    assert not np.isnan(model.predict_joint_log_proba(X)).any()
    few = np.random.default_rng(0).permutation(len(y))[: 8 if options.get("covariance") == "bic" else 20]
    assert not np.isnan(model.leave_one_out(X[few], y[few]).log_proba).any()
    assert np.isfinite(model.sample(3, random_state=0)[0]).all()
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.covariances_).all()
    if len(model.classes_) > 1:
        assert np.isfinite(model.explain(X[:1]).total)
    if Model is LDA and options.get("solver") != "lsqr":
        assert np.isfinite(model.transform(X)).all()
    if Model is QDA:
        assert len(model.scalings_) == len(model.rotations_) == len(model.classes_)


def test_units_do_not_matter():
    X, y = blobs(60)
    scale = np.array([1e-6, 1.0, 1e7])
    for model in (LDA(), QDA(), GD(shrinkage=None)):
        close(clone(model).fit(X * scale, y).predict_log_proba(X * scale), clone(model).fit(X, y).predict_log_proba(X))


def test_classes_told_apart_for_certain():
    """A column that is constant in every class but differs between them."""
    X, y = blobs(60)
    code = np.unique(y, return_inverse=True)[1].astype(float)
    rows = np.c_[X, code]
    for Model in (LDA, QDA, GD):
        model = Model().fit(rows, y)
        assert (model.predict(rows) == y).all(), Model
        assert np.isfinite(model.predict_proba(rows)).all()


@pytest.mark.parametrize("Model", [LDA, QDA, GD, NearestCentroid])
def test_types_of_numbers(Model):
    X, y = blobs(60)
    options = {"shrinkage": (0.2, 0.1)} if Model is GD else {}
    coarse = (X * 8).round()
    expected = Model(**options).fit(coarse, y)
    for kind in (np.float32, np.int64, np.int32, np.int8, np.float16, ">f8"):
        rows = coarse.astype(kind)
        model = Model(**options).fit(rows, y)
        close(model.predict_log_proba(rows), expected.predict_log_proba(coarse), 10.0, 1e-9)
        close(model.leave_one_out(rows, y).log_proba, expected.leave_one_out(coarse, y).log_proba, 10.0, 1e-8)
        assert model.means_.dtype == (np.float32 if kind is np.float32 else np.float64)
    for rows in (np.asfortranarray(coarse), coarse[::-1][::-1], coarse.tolist(), np.repeat(coarse, 2, axis=1)[:, ::2]):
        model = Model(**options).fit(rows, y)
        close(model.predict_log_proba(rows), expected.predict_log_proba(coarse), 10.0, 1e-12)
        close(model.leave_one_out(rows, y).log_proba, expected.leave_one_out(coarse, y).log_proba, 10.0, 1e-9)
    for rows in (sp.csr_array(coarse), sp.csc_matrix(coarse)):
        model = Model(**options).fit(rows, y)
        close(model.predict_log_proba(rows), expected.predict_log_proba(coarse), 10.0, 1e-9)
        close(model.leave_one_out(rows, y).log_proba, expected.leave_one_out(coarse, y).log_proba, 10.0, 1e-8)
    booleans = coarse > 0
    close(
        Model(**options).fit(booleans, y).predict_proba(booleans),
        Model(**options).fit(booleans.astype(float), y).predict_proba(booleans.astype(float)),
    )


@pytest.mark.slow_where(r"GaussianDiscriminant-pandas|GaussianDiscriminant-polars")
@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("Model", [LDA, QDA, GD, NearestCentroid])
def test_frames(Model, library):
    frames = pytest.importorskip(library)
    X, y = blobs(60)
    frame = frames.DataFrame({name: X[:, j] for j, name in enumerate(["p", "q", "r"])})
    model = Model().fit(frame, y)
    assert model.feature_names_in_.tolist() == ["p", "q", "r"]
    close(model.predict_log_proba(frame), Model().fit(X, y).predict_log_proba(X))
    close(model.leave_one_out(frame, y).log_proba, Model().fit(X, y).leave_one_out(X, y).log_proba)
    names = {name for name, _, _ in model.explain(frame[:1]).items}
    assert {"p", "q", "r"} <= names


SAVED = [
    *SUMS,
    (GD, {}),
    (GD, {"covariance": "tied"}),
    (GD, {"covariance": "loo"}),
    (GD, {"alpha": "loo", "shrinkage": None}),
    (GD, {"alpha": 1.0, "prior_mean": np.zeros(3), "prior_cov": np.eye(3), "shrinkage": None}),
    (GD, {"priors": np.array([0.2, 0.3, 0.5])}),
    (LDA, {"priors": [0.2, 0.3, 0.5], "n_components": 1}),
    (NearestCentroid, {"metric": "manhattan"}),
]


@pytest.mark.slow_where(r"covariance=(loo|bic)")
@pytest.mark.parametrize(("Model", "options"), SAVED, ids=named)
def test_saved_models_come_back(Model, options, tmp_path):
    X, y = blobs(18 if "loo" in (options.get("covariance"), options.get("alpha")) else 60)  # which is dear to choose
    model = Model(**options).fit(X, y)
    path = tmp_path / "model.deciban"
    model.save(path)
    back = deciban.load(path)
    assert type(back) is Model
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    if options.get("metric") == "manhattan":
        return
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    if Model is GD:
        assert back.shrinkage_ == model.shrinkage_
        assert back.covariance_shape_ == model.covariance_shape_
    more, labels = blobs(30, seed=4)
    same(back.partial_fit(more, labels), copy.deepcopy(model).partial_fit(more, labels), X, 1e-12)
    same(back.forget(more, labels), model, X, 1e-7)


@pytest.mark.slow_where(r"covariance=loo")
@pytest.mark.parametrize(
    ("Model", "options"), [(GD, {}), (GD, {"covariance": "tied"}), (GD, {"covariance": "loo"})], ids=named
)
def test_what_was_chosen_stays_until_the_next_fit(Model, options):
    X, y = blobs(18, d=2)
    model = Model(**options).fit(X, y)
    chosen = model.shrinkage_, model.covariance_shape_
    model.partial_fit(*blobs(18, d=2, seed=4)).forget(*blobs(18, d=2, seed=4))
    assert (model.shrinkage_, model.covariance_shape_) == chosen
    same(model, Model(**options).fit(X, y), X, 1e-7)
    other = Model(**options).fit(*blobs(15, d=2, seed=9))
    close((model + other).predict_proba(X), (other + model).predict_proba(X))


def test_an_estimator_of_covariances():
    from sklearn.covariance import OAS, LedoitWolf

    X, y = blobs(60)
    quadratic = ("eigen",) if version_of("scikit-learn") >= (1, 8) else ()  # there it has no solvers before
    for ours, theirs in ((LDA, reference.LinearDiscriminantAnalysis), (QDA, reference.QuadraticDiscriminantAnalysis)):
        for solver in ("lsqr", "eigen") if ours is LDA else quadratic:
            a, b = (M(solver=solver, covariance_estimator=OAS()).fit(X, y) for M in (ours, theirs))
            close(a.predict_proba(X), b.predict_proba(X), tolerance=1e-7)
        model = ours(solver="eigen", covariance_estimator=LedoitWolf()).fit(X, y)
        for act in (
            lambda m=model: m.forget(X[:1], y[:1]),
            lambda m=model: m.leave_one_out(X, y),
            lambda m=model: m.partial_fit(X, y),
            lambda m=model: m + m,
        ):
            with pytest.raises(ValueError, match="covariance_estimator"):
                act()
        labels = np.unique(y, return_inverse=True)[1]
        rows = sp.csr_array(X)
        close(
            ours(solver="eigen", covariance_estimator=OAS()).fit(rows, labels).predict_proba(rows),
            ours(solver="eigen", covariance_estimator=OAS()).fit(X, labels).predict_proba(X),
        )


# ------------------------------ 5. missing entries


def with_missing(X, share, seed=0):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


WHOLE = ["full", "tied", "VEE", "EVV"]


@pytest.mark.parametrize("covariance", [*WHOLE, "diag", "tied_diag", "spherical", "unit"])
def test_prediction_marginalises_what_is_missing(covariance):
    X, y = blobs(80, d=4)
    model = plugged(covariance=covariance, shrinkage=None).fit(X, y)
    rows = with_missing(X, 0.4, 3)
    rows[0] = np.nan
    expected = np.tile(np.log(model.priors_), (len(rows), 1))
    for i, row in enumerate(rows):
        there = np.flatnonzero(~np.isnan(row))
        for c in range(3) if len(there) else ():
            block = model.covariances_[c][np.ix_(there, there)]
            expected[i, c] += multivariate_normal(model.means_[c, there], block).logpdf(row[there])
    close(model.predict_joint_log_proba(rows), expected, row_scale(expected), 1e-9)
    np.testing.assert_allclose(model.predict_proba(rows[:1])[0], model.priors_)
    for i in (1, 2, 3):
        why = model.explain(rows[i : i + 1], "b", "a")
        assert why.total == pytest.approx(10 / np.log(10) * (expected[i, 1] - expected[i, 0]), abs=1e-7)


@pytest.mark.parametrize(
    ("Model", "options"),
    [(LDA, {}), (QDA, {}), *[(GD, {"covariance": c, "shrinkage": None, "predictive": False}) for c in WHOLE]],
    ids=named,
)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_em_over_missing_entries_never_goes_down(Model, options, weighted):
    X, y = blobs(90, d=4)
    rows = with_missing(X, 0.25)
    model = Model(**options).fit(rows, y, weights(90) if weighted else None)
    trace = model.em_.log_likelihood
    assert len(trace) > 2
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(trace)), trace
    assert model.n_incomplete_ == np.isnan(rows).any(axis=1).sum()
    w = weights(90) if weighted else np.ones(90)
    assert model.class_count_.sum() == pytest.approx(w.sum())
    joint = model.predict_joint_log_proba(rows)[np.arange(90), np.searchsorted(model.classes_, y)]
    assert w @ joint >= trace[-1] - 1e-6 * abs(trace[-1]), "the model is at least as likely as the last step"
    for act in (lambda: model.forget(rows[:1], y[:1]), lambda: model.leave_one_out(rows, y)):
        with pytest.raises(ForgetError, match="EM"):
            act()


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_em_recovers_what_complete_cases_lose(covariance):
    """x₀ is missing where x₁ is large: complete rows are biased, EM is not."""
    rng = np.random.default_rng(0)
    truth = np.array([[1.0, 0.8], [0.8, 1.0]])
    X = rng.multivariate_normal([0, 0], truth, 4000)
    y = np.arange(4000) % 2
    X[y == 1] += [2.0, 1.0]
    rows = X.copy()
    rows[(X[:, 1] > 0.5 + y) & (rng.random(4000) < 0.9), 0] = np.nan
    model = GD(covariance=covariance, shrinkage=None).fit(rows, y)
    complete = ~np.isnan(rows).any(axis=1)
    plain = GD(covariance=covariance, shrinkage=None).fit(rows[complete], y[complete])
    for attribute, expected in (("means_", [[0, 0], [2, 1]]), ("covariances_", [truth, truth])):
        errors = [np.abs(getattr(m, attribute) - np.array(expected)).max() for m in (model, plain)]
        assert errors[0] < 0.1 < errors[1], (attribute, errors)


def test_em_finds_the_maximum_likelihood_of_a_monotone_pattern():
    """With one column complete, maximum likelihood has a closed form: regression on it (Anderson 1957)."""
    rng = np.random.default_rng(1)
    X = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 2]], 300)
    X[100:, 1] = np.nan
    model = GD(shrinkage=None).fit(X, np.zeros(300))
    x, seen = X[:, 0], X[:100]
    slope = np.cov(seen.T, bias=True)[0, 1] / seen[:, 0].var()
    mean = [x.mean(), seen[:, 1].mean() + slope * (x.mean() - seen[:, 0].mean())]
    residual = (seen[:, 1] - seen[:, 1].mean() - slope * (seen[:, 0] - seen[:, 0].mean())).var()
    np.testing.assert_allclose(model.means_[0], mean, atol=2e-3)
    cov = [[x.var(), slope * x.var()], [slope * x.var(), residual + slope**2 * x.var()]]
    np.testing.assert_allclose(model.covariances_[0], cov, atol=5e-3)


@pytest.mark.slow_where("bic|empirical|covariance=[VE]|oas")
@pytest.mark.parametrize(("Model", "options"), SUMS, ids=named)
def test_rows_with_gaps_can_be_learned_whatever_the_options(Model, options):
    X, y = blobs(60)
    rows = with_missing(X, 0.1)
    model = Model(**options).fit(rows, y)
    assert np.isfinite(model.predict_proba(rows)).all()
    model.partial_fit(with_missing(X, 0.1, 7), y)
    assert np.isfinite(model.predict_proba(rows)).all()
    assert model.class_count_.sum() == pytest.approx(120)
    other = Model(**options).fit(X, y)
    assert np.isfinite((other + model).predict_proba(rows)).all()


@pytest.mark.parametrize("Model", [LDA, QDA, GD])
def test_a_gap_that_says_nothing_new_changes_nothing(Model):
    """A row with all entries missing counts only for the class prior."""
    X, y = blobs(60)
    options = {"shrinkage": None} if Model is GD else {}
    more = Model(**options).fit(np.r_[X, np.full((3, 3), np.nan)], np.r_[y, ["a"] * 3])
    less = Model(**options).fit(X, y)
    np.testing.assert_allclose(more.priors_, (less.class_count_ + np.array([3, 0, 0])) / 63)
    np.testing.assert_allclose(more.means_, less.means_, atol=1e-3)
    if Model is not LDA:
        np.testing.assert_allclose(more.covariances_, less.covariances_, atol=1e-2)


@pytest.mark.filterwarnings("ignore:EM did not converge")  # where one value is left, its variance never stops shrinking
@pytest.mark.crossed(3)
@pytest.mark.parametrize("Model", [LDA, QDA, GD, NearestCentroid])
@pytest.mark.parametrize("what", ["column of a class", "column", "rows", "class", "first rows", "all but one"])
def test_whatever_is_missing_there_is_a_posterior(Model, what):
    X, y = blobs(60)
    where = {
        "column of a class": (y == "a", 1),
        "column": (slice(None), 1),
        "rows": (slice(3, 9), slice(None)),
        "class": (y == "b", slice(None)),
        "first rows": (slice(0, 30), 0),
        "all but one": (slice(1, None), 2),
    }[what]
    rows = X.copy()
    rows[where] = np.nan
    model = Model().fit(rows, y)
    for given in (rows, X):
        proba = model.predict_proba(given)
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.covariances_).all()


@pytest.mark.parametrize("Model", [LDA, QDA])
def test_masks_and_none_are_missing_too(Model):
    X, y = blobs(60)
    rows = with_missing(X, 0.1)
    expected = Model().fit(rows, y).predict_proba(rows)
    masked = np.ma.array(np.nan_to_num(rows), mask=np.isnan(rows))
    close(Model().fit(masked, y).predict_proba(masked), expected)
    objects = np.where(np.isnan(rows), None, rows.astype(object))
    close(Model().fit(objects, y).predict_proba(objects), expected)
    sparse = sp.csr_array(rows)
    close(Model().fit(sparse, y).predict_proba(sparse), expected, tolerance=1e-6)


# ------------------------------ 6. parameters integrated out, priors


def test_the_predictive_law_of_full_covariances_by_hand():
    """A normal–inverse-Wishart posterior of n pseudo- and real rows: Student-t with n degrees of freedom."""
    X, y = blobs(40)
    for alpha in (0.0, 2.5):
        model = GD(shrinkage=None, predictive=True, alpha=alpha, prior_mean=0.3, prior_cov=np.eye(3) * 1.7).fit(X, y)
        log_joint = model.predict_joint_log_proba(X)
        for c, label in enumerate("abc"):
            mine = X[y == label]
            n = len(mine) + alpha
            mean = (mine.sum(axis=0) + alpha * 0.3) / n
            gap = mine - mean
            scatter = gap.T @ gap + alpha * (1.7 * np.eye(3) + np.outer(0.3 - mean, 0.3 - mean))
            law = multivariate_t(mean, scatter / n * (n + 1) / n, df=n)
            close(log_joint[:, c], law.logpdf(X) + np.log((y == label).mean()), 10.0, 1e-9)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)).sum(axis=1), 1.0)
        rows = X.copy()
        rows[:, 1] = np.nan
        mean, scale = law.loc[[0, 2]], law.shape[np.ix_([0, 2], [0, 2])]
        close(
            model.predict_joint_log_proba(rows)[:, 2],
            multivariate_t(mean, scale, df=n).logpdf(X[:, [0, 2]]) + np.log((y == "c").mean()),
            10.0,
            1e-9,
        )


def test_the_predictive_law_of_a_shared_covariance_is_coherent():
    """Whatever the degrees of freedom ν of the scatter W, the scale is W/ν·(1 + 1/n_y)."""
    X, y = blobs(40)
    model = GD(covariance="tied", shrinkage=None, predictive=True).fit(X, y)
    log_joint = model.predict_joint_log_proba(X)
    gap = X - np.array([X[y == label].mean(axis=0) for label in y])
    W, N = gap.T @ gap, len(y)
    errors = []
    for dof in (N, N - 2, N - 3):
        laws = [multivariate_t(X[y == c].mean(axis=0), W / dof * (1 + 1 / (y == c).sum()), df=dof) for c in "abc"]
        expected = np.column_stack(
            [law.logpdf(X) + np.log((y == c).mean()) for law, c in zip(laws, "abc", strict=True)]
        )
        errors.append(np.abs(log_joint - expected).max())
    assert min(errors) < 1e-8, errors


def test_pseudo_rows_by_hand():
    X, y = blobs(40)
    prior_cov = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]])
    model = GD(shrinkage=None, alpha=3.0, prior_mean=[1.0, 2.0, 3.0], prior_cov=prior_cov).fit(X, y)
    for c, label in enumerate("abc"):
        mine = X[y == label]
        n = len(mine) + 3.0
        mean = (mine.sum(axis=0) + 3.0 * np.array([1.0, 2.0, 3.0])) / n
        off = np.array([1.0, 2.0, 3.0]) - mean
        cov = ((mine - mean).T @ (mine - mean) + 3.0 * (prior_cov + np.outer(off, off))) / n
        close(model.means_[c], mean)
        close(model.covariances_[c], cov)
    np.testing.assert_allclose(model.priors_, [(y == c).mean() for c in "abc"])
    far = GD(shrinkage=None, alpha=1e9, prior_mean=[1.0, 2.0, 3.0], prior_cov=prior_cov).fit(X, y)
    close(far.means_, np.tile([1.0, 2.0, 3.0], (3, 1)), tolerance=1e-6)


def test_empirical_alpha_makes_the_data_most_likely():
    """log p(X) by the chain rule: every row under the predictive law of those before it."""
    X, y = blobs(30, k=2, d=2)
    overall, labels = X.mean(axis=0), np.unique(y)
    common = sum(np.cov(X[y == c].T, bias=True) * (y == c).mean() for c in labels)

    def evidence(alpha):
        total = 0.0
        for c in labels:
            rows, n = X[y == c], alpha
            mean, scatter = overall, alpha * common
            for x in rows:
                total += multivariate_t(mean, scatter / n * (n + 1) / n, df=n).logpdf(x)
                gap = x - mean
                mean, scatter, n = mean + gap / (n + 1), scatter + np.outer(gap, gap) * n / (n + 1), n + 1
        return total

    alpha = GD(shrinkage=None, alpha="empirical").fit(X, y).alpha_
    best = evidence(alpha)
    assert best >= max(evidence(a) for a in [*np.geomspace(1e-2, 1e2, 15), alpha * 1.05, alpha / 1.05]) - 1e-6


# ------------------------------ 7. samples, explanations, decisions


@pytest.mark.parametrize(
    ("Model", "options"),
    [
        (LDA, {}),
        (QDA, {}),
        (GD, {"predictive": False}),
        *[(GD, {"covariance": s, "shrinkage": None, "predictive": False}) for s in ("diag", "VEE", "unit")],
    ],
    ids=named,
)
def test_samples_have_the_models_moments(Model, options):
    X, y = blobs(60)
    model = Model(**options).fit(X, y)
    rows, labels = model.sample(60000, random_state=1)
    for c, label in enumerate(model.classes_):
        mine = rows[labels == label]
        assert len(mine) / 60000 == pytest.approx(model.priors_[c], abs=0.01)
        spread = np.sqrt(np.diagonal(model.covariances_[c]))
        assert (np.abs(mine.mean(axis=0) - model.means_[c]) < 5 * spread / np.sqrt(len(mine))).all()
        error = np.abs(np.cov(mine.T) - model.covariances_[c]) / np.outer(spread, spread)
        assert error.max() < 0.06
    assert set(model.sample(10, given="b", random_state=0)[1]) == {"b"}


def test_predictive_samples_have_heavier_tails():
    X, y = blobs(24)
    model = GD(shrinkage=None, predictive=True).fit(X, y)
    rows, _ = model.sample(60000, given="a", random_state=1)
    n = 8
    expected = model.covariances_[0] * (n + 1) / n * n / (n - 2)
    np.testing.assert_allclose(np.diagonal(np.cov(rows.T)), np.diagonal(expected), rtol=0.1)


EXPLAINED = [
    (LDA, {}),
    (QDA, {}),
    (GD, {}),
    (NearestCentroid, {}),
    (GD, {"shrinkage": None, "predictive": True}),
    (GD, {"shrinkage": None, "covariance": "tied", "predictive": True}),
    (GD, {"shrinkage": None, "covariance": "diag", "predictive": True}),
    *[(GD, {"covariance": s}) for s in SHAPES],
]


@pytest.mark.parametrize(("Model", "options"), EXPLAINED, ids=named)
def test_explanations_add_up(Model, options):
    X, y = blobs(60)
    model = Model(**options).fit(X, y)
    for rows in (X[:6], with_missing(X, 0.3)[:6]):
        joint = model.predict_joint_log_proba(rows)
        for i, why in enumerate(model.explain(rows, "c", "a")):
            assert why.total == pytest.approx(10 / np.log(10) * (joint[i, 2] - joint[i, 0]), rel=1e-8, abs=1e-8)
            assert why.probability == pytest.approx(model.predict_proba(rows[i : i + 1])[0, 2])
            assert why.total == pytest.approx(why.prior + sum(db for _, _, db in why.items))
    table = model.top_evidence(2)
    assert len(table.rows) == 6
    assert np.isfinite([row[2] for row in table.rows]).all()
    assert len(model.params.rows) == 3


@pytest.mark.parametrize(
    ("Model", "options"),
    [
        (LDA, {}),
        (LDA, {"solver": "lsqr", "shrinkage": 0.4}),
        *[
            (GD, {"covariance": c, "shrinkage": s, "predictive": False})
            for c in ("tied", "tied_diag", "tied_spherical")
            for s in (None, 0.3)
        ],
        (GD, {"covariance": "unit", "shrinkage": None}),
        (GD, {"covariance": "full", "shrinkage": (1.0, 0.0), "predictive": False}),
    ],
    ids=named,
)
@pytest.mark.parametrize("k", [2, 3])
def test_shared_covariances_are_linear(Model, options, k):
    """S11, S14: P(y=1|x) = 1/(1 + exp(−θᵀx − θ₀))."""
    X, y = blobs(60, k=k)
    model = Model(**options).fit(X, y)
    form = model.linear_form()
    scores = X @ form.weights.T + form.offsets
    expected = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    close(model.predict_proba(X), expected)
    theta, zero = form.pair("b", "a")
    inverse = np.linalg.inv(model.covariances_[0])
    close(theta, inverse @ (model.means_[1] - model.means_[0]))
    quadratic = [m @ inverse @ m for m in model.means_[:2]]
    close(zero, -0.5 * (quadratic[1] - quadratic[0]) + np.log(model.priors_[1] / model.priors_[0]))
    if k == 2:
        close(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-X @ theta - zero)))
        close(model.decision_function(X), X @ theta + zero, 10.0)


@pytest.mark.parametrize("Model", [QDA, lambda: GD(covariance="diag"), lambda: GD(covariance="spherical")])
def test_other_covariances_are_not(Model):
    X, y = blobs(60)
    with pytest.raises(TypeError, match="linear"):
        Model().fit(X, y).linear_form()


@pytest.mark.parametrize("Model", [LDA, QDA, GD, NearestCentroid])
def test_decisions_priors_and_odds(Model):
    X, y = blobs(60, apart=0.7)
    model = Model().fit(X, y)
    proba = model.predict_proba(X)
    costs = np.array([[0.0, 1.0, 3.0], [3.0, 0.5, 1.0], [2.0, 2.0, 0.0]])
    assert (model.decide(X, costs) == model.classes_[(proba @ costs).argmin(axis=1)]).all()
    unsure = model.decide(X, reject=0.4)
    assert ((unsure == None) == (1 - proba.max(axis=1) > 0.4)).all()  # noqa: E711 - elementwise
    close(model.score_samples(X), logsumexp(model.predict_joint_log_proba(X), axis=1))
    shifted = model.with_prior({"a": 0.1, "b": 0.2, "c": 0.7})
    expected = proba * np.array([0.1, 0.2, 0.7]) / model.class_prior_
    close(shifted.predict_proba(X), expected / expected.sum(axis=1, keepdims=True))
    decision = model.decision_function(X)
    gaps = np.diff(decision, axis=1) / (2 if Model is NearestCentroid else 1)
    close(gaps, np.diff(model.predict_joint_log_proba(X), axis=1), 10.0)
    two = Model().fit(X[y != "c"], y[y != "c"])
    odds = two.decision_function(X) / (2 if Model is NearestCentroid else 1)
    close(odds, np.diff(two.predict_log_proba(X), axis=1)[:, 0], 10.0)


def test_s10_the_rule_of_rocchio():
    """argmax log P(y) − ½‖x−μ_y‖²."""
    X, y = blobs(60)
    model = GD(covariance="unit", shrinkage=None).fit(X, y)
    means = np.array([X[y == c].mean(axis=0) for c in "abc"])
    rule = np.log(model.priors_) - 0.5 * ((X[:, None] - means) ** 2).sum(axis=2)
    assert (model.predict(X) == model.classes_[rule.argmax(axis=1)]).all()
    near = NearestCentroid().fit(X, y)
    close(near.centroids_, means)
    assert (near.predict(X) == model.classes_[((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)]).all()


def test_medians():
    X, y = blobs(61)
    ours, theirs = (M(metric="manhattan").fit(X, y) for M in (NearestCentroid, TheirCentroid))
    close(ours.centroids_, theirs.centroids_)
    assert (ours.predict(X) == theirs.predict(X)).all()
    with pytest.raises(ValueError, match="medians"):
        ours.partial_fit(X, y)
    for what in ("predict_proba", "decision_function"):
        assert not hasattr(ours, what)


# ------------------------------ 8. shapes chosen, labels missing


def shaped(name, n=2000, d=3, k=3):
    """Rows whose class covariances have a clear shape: λ_c · D_c A_c D_cᵀ."""
    rng = np.random.default_rng(3)

    def turned(angle):
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]])

    volume = [1.0, 1.0, 1.0] if name[0] == "E" else [1.0, 3.0, 0.3]
    forms = {
        "I": [np.ones(3)] * 3,
        "E": [np.array([4.0, 1.0, 0.25])] * 3,
        "V": [np.array([4.0, 1.0, 0.25]), np.array([8.0, 0.25, 0.5]), np.array([1.5, 1.0, 1 / 1.5])],
    }[name[1]]
    axes = {"I": [np.eye(3)] * 3, "E": [turned(0.5)] * 3, "V": [turned(0.5), turned(1.2), turned(2.1)]}[name[2]]
    y = np.arange(n) % k
    roots = [np.sqrt(v) * (D * np.sqrt(A)) for v, A, D in zip(volume, forms, axes, strict=True)]
    X = rng.normal(size=(n, d))
    X = np.einsum("nij,nj->ni", np.array(roots)[y], X) + 3.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]])[y]
    return X, y


@pytest.mark.parametrize("name", SHAPES[:-1])
def test_bic_finds_the_true_shape(name):
    X, y = shaped(name)
    model = GD(covariance="bic", shrinkage=None).fit(X, y)
    assert model.covariance_shape_ == name
    assert model.score(X, y) > 0.5


@pytest.mark.slow
def test_leave_one_out_chooses_a_shape():
    X, y = shaped("EEI", 60)
    model = GD(covariance="loo", shrinkage=None).fit(X, y)
    assert model.covariance_shape_ in SHAPES
    loss = held(model, X, y).log_loss
    for other in ("VVV", "EII", "EEE", "VVI", "EEI", "unit"):
        assert loss <= GD(covariance=other, shrinkage=None).fit(X, y).leave_one_out(X, y).log_loss + 1e-9


FEW = [
    (LDA, {}),
    (QDA, {}),
    (GD, {}),
    (GD, {"shrinkage": None}),
    (NearestCentroid, {}),
    *[(GD, {"covariance": s, "shrinkage": None}) for s in ("tied", "diag", "VEE", "unit")],
]


@pytest.mark.crossed(3)
@pytest.mark.parametrize(("Model", "options"), FEW, ids=named)
@pytest.mark.parametrize("mark", [None, np.nan, "?"])
def test_missing_labels(Model, options, mark):
    X, y = blobs(200, apart=4.0)
    hidden = np.random.default_rng(0).random(200) < 0.6
    partly = y.astype(object)
    partly[hidden] = mark
    model = Model(**options).fit(X, partly, unlabelled="?" if mark == "?" else None)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.n_unlabelled_ == hidden.sum()
    assert model.score(X, y) > 0.85
    assert model.class_count_.sum() == pytest.approx(200)
    ignored = Model(**options).fit(X, partly, unlabelled="?" if mark == "?" else None, unlabelled_weight=0.0)
    fewer = Model(**options).fit(X[~hidden], y[~hidden])
    same(ignored, fewer, X, 1e-7)
    with pytest.raises(ForgetError, match="EM"):
        model.forget(X[:1], y[:1])


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "tied_diag", "VEE"])
def test_em_over_labels_never_goes_down(covariance):
    X, y = blobs(200, apart=2.0)
    partly = np.where(np.random.default_rng(0).random(200) < 0.7, -1, np.unique(y, return_inverse=True)[1])
    model = GD(covariance=covariance, shrinkage=None).fit(X, partly, unlabelled=-1)
    assert model.classes_.tolist() == [0, 1, 2]
    trace = model.em_.log_likelihood
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(trace))
    both = GD(covariance=covariance, shrinkage=None).fit(with_missing(X, 0.2), partly, unlabelled=-1)
    trace = both.em_.log_likelihood
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(trace))
    half = GD(covariance=covariance, shrinkage=None).fit(X, partly, unlabelled=-1, unlabelled_weight=0.5)
    expected = (partly >= 0).sum() + 0.5 * (partly < 0).sum()
    assert half.class_count_.sum() == pytest.approx(expected)


@pytest.mark.parametrize(("Model", "options"), FEW, ids=named)
@pytest.mark.parametrize("gaps", [0.0, 0.1])
def test_clusters(Model, options, gaps):
    rng = np.random.default_rng(0)
    truth = np.arange(240) % 3
    X = rng.normal(size=(240, 2)) + 12 * np.array([[0, 0], [1, 0], [0, 1]])[truth]
    rows = with_missing(X, gaps)
    model = Model(**options).fit(rows, clusters=3)
    assert model.classes_.tolist() == [0, 1, 2]
    predicted = model.predict(X)
    assert all(len(set(predicted[truth == c])) == 1 for c in range(3))
    np.testing.assert_allclose(np.sort(model.class_count_), [80, 80, 80], atol=8)


def test_soft_labels():
    X, y = blobs(60)
    soft = np.eye(3)[np.unique(y, return_inverse=True)[1]]
    for Model in (LDA, QDA, NearestCentroid):
        model = Model().fit(X, soft)
        close(model.predict_log_proba(X), Model().fit(X, y).predict_log_proba(X))
    shared = np.random.default_rng(0).dirichlet([1, 1, 1], 60)
    model = QDA().fit(X, shared)
    for c in range(3):
        close(model.means_[c], np.average(X, axis=0, weights=shared[:, c]))
        close(model.covariances_[c], np.cov(X.T, aweights=shared[:, c], bias=True))
    with contextlib.suppress(ValueError):
        assert np.isfinite(QDA(solver="eigen", shrinkage="auto").fit(X, shared).predict_proba(X)).all()
