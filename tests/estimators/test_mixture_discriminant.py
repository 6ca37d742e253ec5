"""Classes that are mixtures, clusters, and rows without labels: one EM under different constraints."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import save
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import deciban
from deciban import (
    CategoricalNB,
    ForgetError,
    GaussianDiscriminant,
    GaussianNB,
    InterruptedWarning,
    MixtureDiscriminant,
    MultinomialNB,
    QuadraticDiscriminantAnalysis,
    SchemaError,
    collect,
    expect,
)
from deciban.errors import DecibanError, FileError
from deciban.storage import files

pytestmark = pytest.mark.crossed(4)

DECIBANS = 10 / np.log(10)


def heaps(n=60, seed=0, apart=4.0, d=2):
    """Class "a" is two heaps, class "b" a third between them; n rows each, shuffled."""
    rng = np.random.default_rng(seed)
    centres = apart * np.eye(3, d) * [[1.0], [-1.0], [0.5]]
    turn = np.eye(d) + 0.3 * rng.normal(size=(3, d, d))
    which = rng.permutation(np.repeat(np.arange(3), n))
    X = centres[which] + np.einsum("nij,nj->ni", turn[which], rng.normal(size=(3 * n, d)))
    return X, np.array(["a", "a", "b"])[which]


def plugged_in(**options):
    """Parameters as EM leaves them, neither shrunk nor integrated out."""
    return MixtureDiscriminant(shrinkage=None, predictive=False, **options)


def with_gaps(X, share=0.15, seed=0):
    rows = X.copy()
    rows[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return rows


def brute_force(model, X):
    """log p(x, y) from the published parameters alone, entries that are missing integrated out."""
    out = np.full((len(X), len(model.classes_)), -np.inf)
    for i, x in enumerate(X):
        there = np.flatnonzero(~np.isnan(x))
        for c, label in enumerate(model.classes_):
            parts = [np.log(model.class_prior_[c])]
            mine = np.flatnonzero(model.component_classes_ == label)
            if len(there):
                laws = [(model.means_[m][there], model.covariances_[m][np.ix_(there, there)]) for m in mine]
                parts.append(
                    logsumexp([multivariate_normal(*law).logpdf(x[there]) for law in laws], b=model.weights_[mine])
                )
            out[i, c] = sum(parts)
    return out


def never_down(model):
    trace = model.em_.log_likelihood
    assert len(trace) > 1
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(trace)), trace


def same(one, other, X, **tolerance):
    np.testing.assert_allclose(one.predict_joint_log_proba(X), other.predict_joint_log_proba(X), **tolerance)


# ---------------------------------------------------------------------- the equations


def test_one_component_a_class_is_quadratic_discriminant_analysis():
    X, y = heaps(d=3)
    ours = plugged_in(components=1, reg_covar=0.0).fit(X, y)
    peer = QuadraticDiscriminantAnalysis().fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), rtol=1e-9, atol=1e-12)
    same(ours, peer, X, rtol=1e-9)
    np.testing.assert_allclose(ours.means_, peer.means_)
    np.testing.assert_allclose(ours.covariances_, peer.covariances_)
    assert ours.n_components_ == {"a": 1, "b": 1}


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical", "VEV"])
def test_densities_are_those_of_the_published_parameters(covariance):
    X, y = heaps(d=3)
    model = plugged_in(components={"a": 2, "b": 1}, covariance=covariance).fit(X, y)
    rows = np.r_[X[:30], with_gaps(X[30:50], 0.4)]
    expected = brute_force(model, rows)
    np.testing.assert_allclose(model.predict_joint_log_proba(rows), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.score_samples(rows), logsumexp(expected, axis=1), rtol=1e-9, atol=1e-9)
    posterior = np.exp(expected - logsumexp(expected, axis=1)[:, None])
    np.testing.assert_allclose(model.predict_proba(rows), posterior, atol=1e-9)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(rows)), posterior, atol=1e-9)
    assert (model.predict(rows) == model.classes_[posterior.argmax(axis=1)]).all()
    np.testing.assert_allclose([model.weights_[model.component_classes_ == c].sum() for c in "ab"], 1.0)
    np.testing.assert_allclose(model.class_count_, [120, 60])
    np.testing.assert_allclose(model.priors_, [2 / 3, 1 / 3])


def test_components_of_a_class_are_learned_from_its_rows_alone():
    """With every label known, a class's components are scikit-learn's mixture of its rows."""
    from sklearn.mixture import GaussianMixture

    X, y = heaps(apart=6.0)
    model = plugged_in(components={"a": 2}, reg_covar=0.0, tol=1e-9).fit(X, y)
    peer = GaussianMixture(2, reg_covar=0.0, tol=1e-9, n_init=3, random_state=0).fit(X[y == "a"])
    mine = model.component_classes_ == "a"
    ours, theirs = np.argsort(model.means_[mine][:, 0]), np.argsort(peer.means_[:, 0])
    np.testing.assert_allclose(model.means_[mine][ours], peer.means_[theirs], atol=1e-4)
    np.testing.assert_allclose(model.covariances_[mine][ours], peer.covariances_[theirs], atol=1e-3)
    np.testing.assert_allclose(model.weights_[mine][ours], peer.weights_[theirs], atol=1e-4)


@pytest.mark.crossed(3)
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical", "EVI"])
@pytest.mark.parametrize("hidden", ["nothing", "entries", "labels"])
def test_the_likelihood_never_decreases(covariance, hidden):
    X, y = heaps(100, apart=3.0, d=2)
    y = y.astype(object)
    if hidden == "entries":
        X = with_gaps(X)
    if hidden == "labels":
        y[::3] = None
    options = {"components": 2, "covariance": covariance, "reg_covar": 0.0, "tol": 1e-9, "max_iter": 40, "n_init": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = plugged_in(**options).fit(X, y)
    never_down(model)
    assert model.n_iter_ == len(model.em_.log_likelihood)


def test_a_sphere_is_as_likely_as_can_be_where_entries_are_missing():
    """σ² is the mean square of the entries that are there, not of the columns' variances, however few a column has."""
    X = heaps(d=3)[0] * [1.0, 2.0, 5.0]
    X[np.random.default_rng(0).random(len(X)) < 0.7, 2] = np.nan
    model = plugged_in(components=1, covariance="spherical", reg_covar=0.0).fit(X, np.zeros(len(X), dtype=int))
    best = np.nanmean((X - np.nanmean(X, axis=0)) ** 2)
    assert model.covariances_[0, 0, 0] == pytest.approx(best, rel=1e-3)


# ---------------------------------------------------------------------- how many components


def inside_and_outside(seed):
    """One Gaussian for the class outside covers the one inside: two are better by either criterion."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(m, 1.0, (80, 2)) for m in (-4.0, 4.0, 0.0)])
    return X, np.repeat(["outside", "outside", "inside"], 80)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", ["bic", "loo"])
def test_the_number_of_components_is_found(how, seed):
    X, y = inside_and_outside(seed)
    model = MixtureDiscriminant(components=how, max_components=3, n_init=1).fit(X, y)
    assert model.n_components_ == {"inside": 1, "outside": 2}


def test_leave_one_out_adds_only_what_lowers_its_loss():
    X, y = inside_and_outside(0)
    chosen = MixtureDiscriminant(components="loo", max_components=3, n_init=1).fit(X, y)
    assert chosen.n_components_["outside"] >= 2
    one = MixtureDiscriminant(components="loo", max_components=1).fit(X, y)
    assert one.n_components_ == {"inside": 1, "outside": 1}
    assert log_loss(y, chosen.predict_proba(X)) < log_loss(y, one.predict_proba(X))


def test_clear_heaps_are_counted_even_where_nothing_contests_them():
    for seed in range(3):
        X, y = heaps(80, seed=seed, apart=6.0)
        assert plugged_in(max_components=3, n_init=1).fit(X, y).n_components_ == {"a": 2, "b": 1}, seed


@cache
def held_out_loss(load, components):
    """Log loss over five folds."""
    X, y = load(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = MixtureDiscriminant(components=components, max_components=2, n_init=1)
    return log_loss(y, cross_val_predict(model, X, y, cv=folds, method="predict_proba"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning")
@pytest.mark.parametrize("how", ["bic", pytest.param("loo", marks=pytest.mark.slow)])
@pytest.mark.parametrize("load", [pytest.param(load_iris, marks=pytest.mark.slow), load_wine])
def test_choosing_does_no_harm_on_real_tables(how, load):
    assert held_out_loss(load, how) <= 1.1 * held_out_loss(load, 1)


def test_components_said_in_numbers():
    X, y = heaps()
    assert plugged_in(components=2).fit(X, y).n_components_ == {"a": 2, "b": 2}
    assert plugged_in(components=np.int64(3)).fit(X, y).n_components_ == {"a": 3, "b": 3}
    assert plugged_in(components={"a": 3}).fit(X, y).n_components_ == {"a": 3, "b": 1}
    model = plugged_in(components={1: 2, 0: 1}).fit(X, (y == "a").astype(int))
    assert model.n_components_ == {0: 1, 1: 2}
    assert model.component_classes_.tolist() == [0, 1, 1]
    assert plugged_in(components={True: 2}).fit(X, y == "a").n_components_ == {False: 1, True: 2}
    assert max(plugged_in(max_components=1).fit(X, y).n_components_.values()) == 1


def test_classes_of_two_heaps_are_better_told_apart_than_by_one_gaussian_each():
    """Heaps of two classes in turn along a line: one Gaussian per class can hardly separate them."""

    def draw(n, seed):
        rng = np.random.default_rng(seed)
        heap = rng.integers(0, 4, n)
        return np.array([[-6.0, 0], [-2, 1], [2, 0], [6, 1]])[heap] + rng.normal(size=(n, 2)), heap % 2

    X, y = draw(200, 0)
    new, truth = draw(1000, 1)
    ours, one_each = (
        log_loss(truth, model.fit(X, y).predict_proba(new))
        for model in (MixtureDiscriminant(max_components=3), QuadraticDiscriminantAnalysis())
    )
    assert ours < 0.5 * one_each


# ---------------------------------------------------------------------- weights, gaps, missing labels


def test_weights_are_repetitions():
    X, y = heaps()
    times = np.random.default_rng(1).integers(0, 4, len(X))
    again = np.repeat(np.arange(len(X)), times)
    for options in ({"components": 1}, {"components": {"a": 2}, "n_init": 6, "tol": 1e-9}):
        weighted = plugged_in(**options).fit(X, y, sample_weight=times)
        repeated = plugged_in(**options).fit(X[again], y[again])
        same(weighted, repeated, X, rtol=1e-6)
        np.testing.assert_allclose(weighted.class_count_, repeated.class_count_)
        assert weighted.em_.log_likelihood[-1] == pytest.approx(repeated.em_.log_likelihood[-1], rel=1e-9)
        assert weighted.em_.rows == repeated.em_.rows == len(again)


def test_a_class_without_weight_has_no_component():
    X, y = heaps()
    model = MixtureDiscriminant(max_components=2).fit(X, y, sample_weight=(y == "a").astype(float))
    assert model.n_components_ == {"a": 2, "b": 0}
    np.testing.assert_allclose(model.predict_proba(X), np.tile([1.0, 0.0], (len(X), 1)))


@pytest.mark.slow_where(r"bic")
@pytest.mark.parametrize("components", [{"a": 2}, "bic"])
def test_missing_entries(components):
    X, y = heaps(60, apart=6.0, d=3)
    rows = with_gaps(X)
    rows[0] = np.nan
    model = plugged_in(components=components, max_components=2).fit(rows, y)
    whole = plugged_in(components=components, max_components=2).fit(X, y)
    assert model.n_components_ == whole.n_components_ == {"a": 2, "b": 1}
    np.testing.assert_allclose(np.sort(model.means_, axis=0), np.sort(whole.means_, axis=0), atol=0.3)
    assert model.score_samples(rows[:1]) == pytest.approx([0.0], abs=1e-9)
    np.testing.assert_allclose(model.predict_proba(rows[:1])[0], model.class_prior_)
    assert model.score(X, y) > 0.95
    masked = plugged_in(components=components, max_components=2).fit(np.ma.masked_invalid(rows), y)
    same(masked, model, rows, rtol=1e-12)


def test_choosing_by_leave_one_out_where_every_row_has_a_gap():
    X, y = heaps()
    X[np.arange(len(X)), np.arange(len(X)) % 2] = np.nan
    model = plugged_in(components="loo", max_components=2).fit(X, y)
    assert np.isfinite(model.score_samples(X)).all()


def marked(y, mark):
    """Every third label replaced by this mark of a missing one."""
    out = y.astype(object)
    out[::3] = mark
    return out


def test_missing_labels_by_any_mark():
    X, y = heaps(apart=6.0)
    options = {"components": {"a": 2, "b": 1}}
    model = plugged_in(**options).fit(X, marked(y, None))
    assert model.score(X, y) > 0.97
    assert model.class_count_.sum() == pytest.approx(len(X))
    assert model.n_unlabelled_ == 60
    for mark, unlabelled in ((np.nan, None), ("?", "?"), (-1, -1)):
        other = plugged_in(**options).fit(X, marked(y, mark), unlabelled=unlabelled)
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    numbers = np.where(y == "a", 0, 1)
    numbers[::3] = -1
    other = plugged_in(components={0: 2}).fit(X, numbers, unlabelled=-1)
    assert other.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))


def test_what_a_missing_label_counts():
    X, y = heaps(apart=2.0)
    labels, known = marked(y, None), np.arange(len(X)) % 3 > 0
    options = {"components": {"a": 2, "b": 1}, "tol": 1e-8, "max_iter": 2000}
    alone = plugged_in(**options).fit(X[known], y[known])
    none = plugged_in(**options).fit(X, labels, unlabelled_weight=0)
    same(none, alone, X, rtol=1e-9)
    half = plugged_in(**options).fit(X, labels, unlabelled_weight=0.5)
    assert half.class_count_.sum() == pytest.approx(known.sum() + 0.5 * (~known).sum())
    never_down(half)
    weighted = plugged_in(**options).fit(X, labels, sample_weight=np.where(known, 1.0, 0.5))
    same(half, weighted, X, rtol=1e-9)
    full = plugged_in(**options).fit(X, labels)
    assert np.abs(full.means_ - alone.means_).max() > np.abs(half.means_ - alone.means_).max() > 1e-3


# ---------------------------------------------------------------------- batches, merges, and what cannot be


def test_batches_and_new_classes():
    X, y = heaps(100)
    model = plugged_in(components={"a": 2}).fit(X[:150], y[:150])
    before = copy.deepcopy(model)
    shares = np.exp(
        before.model_.parts.log_joint([X[150:]]) + np.where(before.component_classes_ == y[150:, None], 0, -np.inf)
    )
    shares /= shares.sum(axis=1, keepdims=True)
    model.partial_fit(X[150:], y[150:])
    np.testing.assert_allclose(model.model_.stats.weight, before.model_.stats.weight + shares.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        model.means_,
        (before.means_ * before.model_.stats.weight[:, None] + shares.T @ X[150:]) / model.model_.stats.weight[:, None],
    )
    new = np.random.default_rng(0).normal(20.0, 1.0, (30, 2))
    model.partial_fit(np.r_[new, X[:5]], np.r_[["A new one"] * 30, y[:5]])
    assert model.classes_.tolist() == ["A new one", "a", "b"]
    assert model.n_components_ == {"A new one": 1, "a": 2, "b": 1}
    assert model.class_count_.sum() == pytest.approx(335)
    assert (model.predict(new) == "A new one").all()
    assert model.score(X, y) > before.score(X, y) - 0.02
    mine = model.component_classes_ == "A new one"
    np.testing.assert_allclose(model.means_[mine][0], new.mean(axis=0))
    np.testing.assert_allclose(model.predict_joint_log_proba(X[:9]), brute_force(model, X[:9]), rtol=1e-9)


def test_batches_that_add_nothing_or_fail_leave_the_model():
    X, y = heaps()
    model = plugged_in(components={"a": 2}).fit(X, y)
    before = model.predict_joint_log_proba(X)
    model.partial_fit(X[:0], y[:0])
    model.partial_fit(X[:9], y[:9], sample_weight=np.zeros(9))
    np.testing.assert_allclose(model.predict_joint_log_proba(X), before, rtol=1e-12)
    for rows, labels in (
        (X[:2], ["a", None]),
        (X[:2, :1], ["a", "b"]),
        ([[np.inf, 0.0]], ["a"]),
        ([[np.inf, 0.0]], ["c"]),
        (X[:2], np.eye(2)),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each says something else
            model.partial_fit(rows, labels)
    assert model.classes_.tolist() == ["a", "b"]
    np.testing.assert_allclose(model.predict_joint_log_proba(X), before, rtol=1e-12)
    with pytest.raises(ValueError, match="changed"):
        copy.deepcopy(model).set_params(covariance="diag").partial_fit(X, y)


def test_a_first_batch_is_a_fit():
    X, y = heaps()
    first, fitted = MixtureDiscriminant(components=2).partial_fit(X, y), MixtureDiscriminant(components=2).fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), fitted.predict_proba(X))


def test_declared_classes_wait_for_their_rows():
    X, y = heaps()
    model = plugged_in(components=1).partial_fit(X, y, classes=["a", "b", "c"])
    assert model.n_components_ == {"a": 1, "b": 1, "c": 0}
    assert (model.predict_proba(X)[:, 2] == 0.0).all()
    model.partial_fit(X[:20] + 30.0, ["c"] * 20, classes=["a", "b", "c"])
    assert model.n_components_["c"] == 1
    assert (model.predict(X[:20] + 30.0) == "c").all()


def test_declared_classes_are_all_there_are():
    """As in every other model: with `classes` on the first call another label is an error."""
    X, y = heaps()
    model = plugged_in(components=1).partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(ValueError, match="do not exist"):
        model.partial_fit(X[:5], ["c"] * 5)
    with pytest.raises(ValueError, match="not the same"):
        model.partial_fit(X[:5], y[:5], classes=["a", "z"])


def test_a_new_class_without_weight():
    X, y = heaps()
    model = plugged_in(components=1).fit(X, y)
    before = model.predict_proba(X)
    model.partial_fit(X[:4], ["c"] * 4, sample_weight=np.zeros(4))
    np.testing.assert_allclose(model.predict_proba(X)[:, :2], before)


def test_the_sum_is_the_mixture_of_both():
    X, y = heaps(80, d=3)
    parts = plugged_in(components=2).fit(X[:90], y[:90]), plugged_in(components=1).fit(X[90:], y[90:])
    merged = parts[0] + parts[1]
    shares = np.log([90 / 240, 150 / 240])
    expected = logsumexp([part.predict_joint_log_proba(X) + w for part, w in zip(parts, shares, strict=True)], axis=0)
    np.testing.assert_allclose(merged.predict_joint_log_proba(X), expected, rtol=1e-9)
    assert merged.n_components_ == {"a": 3, "b": 3}
    same(parts[1] + parts[0], merged, X, rtol=1e-9)
    same(sum(parts), merged, X, rtol=1e-12)
    assert parts[0].n_components_ == {"a": 2, "b": 2}, "the parts stay as they were"
    grown = copy.deepcopy(merged).partial_fit(X, y)
    assert grown.class_count_.sum() == pytest.approx(480)
    gaps = plugged_in(components=1, covariance="diag").fit(with_gaps(X), y)
    without = plugged_in(components=1, covariance="diag").fit(X, y)
    for both in (gaps + without, without + gaps):
        expected = logsumexp([p.predict_joint_log_proba(X) for p in (gaps, without)], axis=0) - np.log(2)
        np.testing.assert_allclose(both.predict_joint_log_proba(X), expected, rtol=1e-9)


def test_the_sum_does_not_depend_on_the_order():
    """Shrinkage that each chose for itself included."""
    X, y = heaps(80, d=3, apart=1.5)
    one, two = (MixtureDiscriminant(components=1).fit(X[rows], y[rows]) for rows in (slice(20), slice(20, None)))
    same(one + two, two + one, X, rtol=1e-9)


def test_evidence_adds_up_as_the_model_is_by_default():
    X, y = heaps(apart=1.5, d=3)
    model = MixtureDiscriminant(components=2).fit(X, y)
    rows = np.r_[X[:10], with_gaps(X[10:30], 0.4)]
    scores = model.predict_joint_log_proba(rows) * DECIBANS
    for why, score in zip(model.explain(rows, "a", "b"), scores, strict=True):
        assert why.total == pytest.approx(score[0] - score[1], abs=1e-6)


def test_what_leave_one_out_shrinks_is_no_worse_than_plain_estimates():
    """Few rows for many columns: that is what shrinkage and integrating out are for."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    X = rng.normal(size=(1000, 8)) + 1.0 * y[:, None]
    few = slice(0, 40)
    ours, bare = (m.fit(X[few], y[few]) for m in (MixtureDiscriminant(components=1), plugged_in(components=1)))
    assert log_loss(y[40:], ours.predict_proba(X[40:])) < log_loss(y[40:], bare.predict_proba(X[40:]))
    assert ours.shrinkage_ != (0.0, 0.0)


def test_sums_of_other_classes_names_and_kinds():
    frames = pytest.importorskip("pandas")
    X, y = heaps()
    plain = plugged_in(components=1).fit(X, y)
    other = plugged_in(components=2).fit(X + 20, np.where(y == "a", "longer", "b"))
    merged = plain + other
    assert merged.n_components_ == {"a": 1, "b": 3, "longer": 2}
    expected = np.full((len(X), 2, 3), -np.inf)
    expected[:, 0, :2] = plain.predict_joint_log_proba(X)
    expected[:, 1, 1:] = other.predict_joint_log_proba(X)
    np.testing.assert_allclose(merged.predict_joint_log_proba(X), logsumexp(expected, axis=1) - np.log(2), rtol=1e-9)
    named = plugged_in(components=1).fit(frames.DataFrame(X, columns=["p", "q"]), y)
    for both in (named + plain, plain + named):
        assert both.feature_names_in_.tolist() == ["p", "q"]
    for theirs in (
        plugged_in(components=1).fit(X[:, :1], y),
        plugged_in(components=1, covariance="diag").fit(X, y),
        plugged_in(components=1, reg_covar=0.1).fit(X, y),
        plugged_in(components=1, priors=[0.5, 0.5]).fit(X, y),
        plugged_in(components=1).fit(X, np.arange(len(X)) % 2),
    ):
        with pytest.raises(SchemaError):
            _ = plain + theirs
    for theirs in (3, GaussianNB().fit(X, y)):
        with pytest.raises(TypeError):
            _ = plain + theirs


def test_what_a_mixture_cannot_do():
    X, y = heaps()
    model = MixtureDiscriminant(components={"a": 2}).fit(X, y)
    for act in (lambda: model.forget(X[:1], y[:1]), lambda: model.leave_one_out(X, y)):
        with pytest.raises(ForgetError, match="in a mixture"):
            act()
    with pytest.raises(TypeError, match="not linear"):
        model.linear_form()


# ---------------------------------------------------------------------- answers


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_evidence_adds_up_in_every_row(covariance):
    X, y = heaps(apart=1.5, d=3)
    third = np.r_[X, X[:40] + 3.0], np.r_[y, ["c"] * 40]
    model = plugged_in(components=2, covariance=covariance).fit(*third)
    rows = np.r_[X[:20], with_gaps(X[20:40], 0.4), np.full((1, 3), np.nan), X[:2] * 10]
    scores, proba = model.predict_joint_log_proba(rows) * DECIBANS, model.predict_proba(rows)
    for i, why in enumerate(model.explain(rows)):
        order = np.argsort(-scores[i], kind="stable")
        assert [why.target, why.against] == model.classes_[order[:2]].tolist()
        assert why.total == pytest.approx(scores[i, order[0]] - scores[i, order[1]], abs=1e-6)
        assert why.probability == pytest.approx(proba[i, order[0]])
        named = {name: value for name, value, _ in why.items if name.startswith("x")}
        assert set(named) == {f"x{j}" for j in np.flatnonzero(~np.isnan(rows[i]))}
    for i in range(0, len(rows), 5):
        why = model.explain(rows[i : i + 1], "c", "a")
        assert why.total == pytest.approx(scores[i, 2] - scores[i, 0], abs=1e-6)
        back = model.explain(rows[i : i + 1], target="a", against="c")
        assert back.total == pytest.approx(-why.total, abs=1e-6)
        assert model.explain(rows[i : i + 1], against=model.predict(rows[i : i + 1])[0]).total <= 1e-9


def test_evidence_of_one_component_is_quadratic_discriminant_analysis():
    X, y = heaps(d=3)
    ours = plugged_in(components=1, reg_covar=0.0).fit(X, y).explain(X[:1])
    peer = QuadraticDiscriminantAnalysis().fit(X, y).explain(X[:1])
    expected = {name: db for name, _, db in peer.items}
    assert ours.prior == pytest.approx(peer.prior)
    for name, _, db in ours.items:
        assert db == pytest.approx(expected.get(name, 0.0), abs=1e-8), name


def test_evidence_that_makes_no_sense_is_refused():
    X, y = heaps()
    model = MixtureDiscriminant(components=2).fit(X, y)
    with pytest.raises(ValueError, match="itself"):
        model.explain(X[:1], "a", "a")
    with pytest.raises(ValueError, match="not one of the classes"):
        model.explain(X[:1], "z")
    with pytest.raises(ValueError, match="no row"):
        model.explain(X[:0])
    with pytest.raises(ValueError, match="infinity"):
        model.explain([[np.inf, 0.0]])


def test_strongest_evidence_names_components():
    X, y = heaps(apart=6.0)
    table = MixtureDiscriminant(components={"a": 2}).fit(X, y).top_evidence(1, names=["p", "q"])
    assert [row[0] for row in table.rows] == ["a #1", "a #2", "b #1"]
    assert {row[1] for row in table.rows} <= {"p", "q"}


def test_samples_come_back():
    X, y = heaps(100, apart=3.0)
    model = plugged_in(components={"a": 2}, priors=[0.3, 0.7]).fit(X, y)
    rows, labels = model.sample(40000, random_state=0)
    assert rows.shape == (40000, 2)
    assert np.isin(labels, ["a", "b"]).all()
    assert (labels == "a").mean() == pytest.approx(0.3, abs=0.01)
    for label in "ab":
        given, sampled_labels = model.sample(40000, given=label, random_state=1)
        assert (sampled_labels == label).all()
        mine = model.component_classes_ == label
        weights, means = model.weights_[mine], model.means_[mine]
        mean = weights @ means
        spread = np.einsum(
            "m,mij->ij", weights, model.covariances_[mine] + (means - mean)[:, :, None] * (means - mean)[:, None]
        )
        for drawn in (given, rows[labels == label]):
            np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.12)
            np.testing.assert_allclose(np.cov(drawn.T), spread, atol=0.25)
    np.testing.assert_array_equal(model.sample(5, random_state=3)[0], model.sample(5, random_state=3)[0])
    assert model.sample(0)[0].shape == (0, 2)
    for bad in (lambda: model.sample(-1), lambda: model.sample(1, given="z")):
        with pytest.raises(ValueError, match=r"negative|not one of the classes"):
            bad()


def test_other_priors():
    X, y = heaps(apart=2.0)
    model = plugged_in(components={"a": 2}).fit(X, y)
    given = plugged_in(components={"a": 2}, priors=[0.1, 0.9]).fit(X, y)
    odds = np.log([0.1, 0.9]) - np.log([2 / 3, 1 / 3])
    for other in (model.with_prior([0.1, 0.9]), model.with_prior({"b": 0.9, "a": 0.1}), given):
        np.testing.assert_allclose(other.class_prior_, [0.1, 0.9])
        np.testing.assert_allclose(other.predict_joint_log_proba(X), model.predict_joint_log_proba(X) + odds, rtol=1e-9)
        np.testing.assert_allclose(other.weights_, model.weights_, rtol=1e-12)
        np.testing.assert_allclose(other.partial_fit(X, y).class_prior_, [0.1, 0.9])
    np.testing.assert_allclose(model.with_prior("uniform").class_prior_, 0.5)
    np.testing.assert_allclose(model.class_prior_, [2 / 3, 1 / 3])
    for bad in ([0.5, 0.2], [0.2, 0.3, 0.5], {"a": 1.0}, "even"):
        with pytest.raises(ValueError, match="prior"):
            model.with_prior(bad)
    for bad in ([0.5, 0.2, 0.3], [-0.5, 1.5], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="priors"):
            plugged_in(components=1, priors=bad).fit(X, y)


def test_negative_priors_are_refused():
    X, y = heaps()
    model = MixtureDiscriminant(components=1).fit(X, y)
    with pytest.raises(ValueError, match="non-negative"):
        model.with_prior([1.5, -0.5])


def test_a_prior_is_adapted_to_unlabelled_rows():
    X, y = heaps(200, apart=6.0)
    model = MixtureDiscriminant(components={"a": 2}).fit(X, y)
    new = np.r_[X[y == "a"][:20], X[y == "b"][:180]]
    adapted = model.adapt_prior(new)
    np.testing.assert_allclose(adapted.class_prior_, [0.1, 0.9], atol=0.03)
    assert adapted.score_samples(new).sum() > model.score_samples(new).sum()


def test_decisions_by_their_cost():
    X, y = heaps(apart=1.5)
    model = MixtureDiscriminant(components={"a": 2}).fit(X, y)
    proba = model.predict_proba(X)
    assert (model.decide(X) == model.predict(X)).all()
    dear = model.decide(X, costs={"b": {"a": 20.0}})
    assert (dear == np.where(proba[:, 0] > 20 * proba[:, 1], "a", "b")).all()
    unsure = model.decide(X, reject=0.1)
    assert [answer is None for answer in unsure] == (proba.max(axis=1) < 0.9).tolist()
    assert 0 < sum(answer is None for answer in unsure) < len(X)
    np.testing.assert_allclose(
        model.decision_function(X), np.log(proba[:, 1]) - np.log(proba[:, 0]), rtol=1e-6, atol=1e-9
    )


def test_rows_unlike_any_other_score_low():
    X, y = heaps(apart=6.0)
    model = MixtureDiscriminant(components={"a": 2}).fit(X, y)
    assert model.score_samples([[-6.0, 6.0]]) < np.quantile(model.score_samples(X), 0.01)
    assert model.score_samples(X).sum() == pytest.approx(logsumexp(model.predict_joint_log_proba(X), axis=1).sum())


def test_explaining_a_row_that_is_impossibly_far():
    X, y = heaps()
    model = MixtureDiscriminant(components={"a": 2}).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not np.isnan(model.explain([[1e170, 0.0]]).total)


# ---------------------------------------------------------------------- keeping


@pytest.mark.slow_where(r"loo")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "options",
    [
        {"components": {"a": 2, "b": 1}},
        {"components": np.int64(2), "covariance": "diag"},
        {"components": 2, "covariance": "VEV", "priors": np.array([0.2, 0.8])},
        {"components": "loo", "random_state": np.random.RandomState(0), "max_components": 2},
        {"components": "bic", "random_state": None, "max_components": 2},
    ],
    ids=["dict", "diag", "VEV", "loo", "bic"],
)
def test_saved_models_come_back(options, dtype, tmp_path):
    X, y = heaps()
    X = X.astype(dtype)
    model = MixtureDiscriminant(**options).fit(X, y)
    model.save(tmp_path / "m.deciban")
    back = deciban.load(tmp_path / "m.deciban")
    assert type(back) is MixtureDiscriminant
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.n_components_ == model.n_components_
    assert back.classes_.dtype == model.classes_.dtype
    for name in ("means_", "covariances_", "weights_", "class_prior_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
        assert getattr(back, name).dtype == dtype
    np.testing.assert_array_equal(back.partial_fit(X, y).means_, model.partial_fit(X, y).means_)
    for key, value in options.items():
        if key != "random_state":
            np.testing.assert_array_equal(getattr(back, key), value)
    assert clone(back).set_params(random_state=0).fit(X, y).score(X, y) > 0.5


def test_saved_models_of_any_labels(tmp_path):
    X, y = heaps()
    for labels in (np.where(y == "a", 5, -3), y == "a", np.where(y == "a", 1.0, 2.0), y.astype(object)):
        model = MixtureDiscriminant(components=2).fit(X, labels)
        model.save(tmp_path / "m")
        back = deciban.load(tmp_path / "m")
        assert back.classes_.dtype == model.classes_.dtype
        np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_a_model_whose_parameters_changed_is_not_saved(tmp_path):
    X, y = heaps()
    with pytest.raises(ValueError, match="changed"):
        MixtureDiscriminant(components=1).fit(X, y).set_params(covariance="diag").save(tmp_path / "m")
    with pytest.raises(ValueError, match="not fitted"):
        MixtureDiscriminant().save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def put(name, **change):
    """A forgery of one array of the components."""

    def forge(document):
        document["components"][name.rstrip("_")].update(change)

    return forge


def parameter(name, value):
    def forge(document):
        kept = document["about"]["parameters"]
        pairs = kept["dict"] if "dict" in kept else list(kept.items())
        matches = [pair for pair in pairs if pair[0] == name]
        assert matches, "the forgery must find what it changes"
        matches[0][1] = value

    return forge


FORGERIES = {
    "too few owners": put("owner_", values=[0, 1]),
    "an owner that is not there": put("owner_", values=[0, 0, 2]),
    "a negative owner": put("owner_", values=[0, -1, 1]),
    "owners that are no numbers": put("owner_", values=[0.5, 0.5, 1.0], dtype="<f8"),
    "labels that repeat": put("labels_", values=["a", "a"]),
    "labels out of order": put("labels_", values=["b", "a"]),
    "too few labels": put("labels_", values=["a"]),
    "no labels": put("labels_", values=[]),
    "another covariance": parameter("covariance", "diag"),
    "a covariance there is not": parameter("covariance", "round"),
    "components that cannot be": parameter("components", 0),
    "priors for other classes": parameter("priors", [0.2, 0.3, 0.5]),
    "negative priors": parameter("priors", [-0.5, 1.5]),
    "another model": lambda d: d["about"].update(model="GaussianMixture"),
    "a model of one Gaussian a class": lambda d: d["about"].update(model="QuadraticDiscriminantAnalysis"),
    "features": lambda d: d["about"].update(n_features=3),
    "prior of another shape": lambda d: d.update(class_prior={"dtype": "<f8", "values": [0.5, 0.5]}),
}


def rewrite(path, forge=bool, change=bool):
    """The file again, its document and sums changed, with a right checksum."""
    with safe_open(path, "numpy") as file:
        document = json.loads(file.metadata()["deciban"])
        tensors = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118 - not a mapping
    forge(document)
    change(tensors)
    text = json.dumps(document)
    path.write_bytes(save(tensors, metadata={"deciban": text, "sha256": files.checksum(text, tensors)}))


@cache
def of_two_heaps():
    return MixtureDiscriminant(components={"a": 2}).fit(*heaps())


@pytest.fixture
def saved(tmp_path):
    of_two_heaps().save(tmp_path / "m.deciban")
    return tmp_path / "m.deciban"


@pytest.mark.parametrize("what", FORGERIES)
def test_forged_files_are_refused(what, saved):
    rewrite(saved)
    assert deciban.load(saved).n_components_ == {"a": 2, "b": 1}, "unforged it is read"
    rewrite(saved, FORGERIES[what])
    with pytest.raises(FileError):
        deciban.load(saved)


@pytest.mark.parametrize(("name", "value"), [("weight", -1.0), ("0.one", -1.0), ("0.xy", np.nan), ("0.xy", -1e9)])
def test_sums_that_cannot_be_are_refused(name, value, saved):
    rewrite(saved, change=lambda tensors: tensors[name].flat.__setitem__(0, value))
    with pytest.raises(FileError):
        deciban.load(saved)


def test_pickles_and_clones():
    X, y = heaps()
    model = MixtureDiscriminant(components={"a": 2}, priors=[0.5, 0.5]).fit(X, y)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.n_components_ == model.n_components_
    again = clone(model)
    assert not hasattr(again, "model_")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.fit(X, y).predict_proba(X), model.predict_proba(X))


def test_frames_keep_their_names(tmp_path):
    frames = pytest.importorskip("pandas")
    X, y = heaps()
    frame = frames.DataFrame(X, columns=["p", "q"])
    model = MixtureDiscriminant(components=2).fit(frame, frames.Series(y))
    model.save(tmp_path / "m")
    grown = copy.deepcopy(model).partial_fit(frame[:9], ["new"] * 9)
    for one in (model, grown, deciban.load(tmp_path / "m"), model.with_prior("uniform"), model + model):
        assert one.feature_names_in_.tolist() == ["p", "q"]
        assert {"p", "q"} <= {name for name, _, _ in one.explain(frame[:1]).items}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"p": "r"}))
    with pytest.raises(DecibanError, match="'q'"):
        model.predict(frame.assign(q=np.inf))


def test_float32_keeps_its_type_and_its_digits():
    X, y = heaps()
    X = X.astype(np.float32) + np.float32(100.0)
    single = plugged_in(components={"a": 2}).fit(X, y)
    double = plugged_in(components={"a": 2}).fit(X.astype(float), y)
    for name in ("means_", "covariances_", "weights_", "class_prior_", "class_count_"):
        assert getattr(single, name).dtype == np.float32
        assert getattr(double, name).dtype == np.float64
        np.testing.assert_allclose(getattr(single, name), getattr(double, name), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=1e-3)


def test_far_from_zero_no_digits_are_lost():
    X, y = heaps()
    near = plugged_in(components={"a": 2}, tol=1e-9).fit(X, y)
    far = plugged_in(components={"a": 2}, tol=1e-9).fit(X + 1e7, y)
    np.testing.assert_allclose(far.predict_proba(X + 1e7), near.predict_proba(X), atol=1e-5)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60000, 20)) + 3.0 * rng.integers(0, 2, (60000, 1))  # more than a block for each thread
    y = marked(np.where(rng.random(60000) < 0.5, "a", "b"), None)
    options = {"components": 2, "max_iter": 1, "n_init": 1, "init_params": "random_from_data"}
    assert collect.threads(2, X.size) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, two = (plugged_in(**options, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict_joint_log_proba(X), two.predict_joint_log_proba(X))
    np.testing.assert_array_equal(one.covariances_, two.covariances_)
    assert one.em_.log_likelihood == two.em_.log_likelihood


def test_sparse_rows_are_read():
    X, y = heaps()
    dense = MixtureDiscriminant(components=2).fit(X, y)
    np.testing.assert_array_equal(
        MixtureDiscriminant(components=2).fit(sp.csr_array(X), y).predict_proba(sp.csc_array(X)), dense.predict_proba(X)
    )


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"components": 0}, "components"),
        ({"components": -1}, "components"),
        ({"components": 1.5}, "components"),
        ({"components": "aic"}, "components"),
        ({"components": {"unknown": 2}}, "unknown"),
        ({"components": {"a": 0}}, "at least 1"),
        ({"components": {"a": "two"}}, "whole numbers"),
        ({"components": 61}, "class 'b' has 60 rows"),
        ({"components": {"a": 121}}, "class 'a' has 120 rows"),
        ({"max_components": 0}, "max_components"),
        ({"covariance": "round"}, "covariance"),
        ({"reg_covar": -1.0}, "reg_covar"),
        ({"tol": -1.0}, "tol"),
        ({"n_init": 0}, "n_init"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be(options, match):
    X, y = heaps()
    model = MixtureDiscriminant(**options)
    with pytest.raises(ValueError, match=match):
        model.fit(X, y)
    assert not hasattr(model, "model_")
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("components", [1, 2, "bic", "loo"])
@pytest.mark.parametrize("label", ["a", "b", None])
def test_infinities_are_named_by_their_place(components, label):
    X, y = heaps()
    y = y.astype(object)
    row = int(np.flatnonzero(y == (label or "b"))[7])
    X[row, 1], y[row] = np.inf, label
    with pytest.raises(ValueError, match=rf"row {row}, column 'x1' is inf"):
        plugged_in(components=components, max_components=2).fit(X, y)


def test_infinities_in_rows_to_answer():
    X, y = heaps()
    model = MixtureDiscriminant(components=2).fit(X, y)
    for act in (model.predict, model.predict_proba, model.score_samples, model.explain):
        with pytest.raises(ValueError, match="row 1, column 'x0' is -inf"):
            act([[0.0, 0.0], [-np.inf, 1.0]])


def test_one_class():
    X, y = heaps()
    model = plugged_in(components=2).fit(X, np.full(len(y), "only"))
    assert (model.predict(X) == "only").all()
    np.testing.assert_allclose(model.predict_proba(X), 1.0)
    assert model.n_components_ == {"only": 2}
    np.testing.assert_allclose(model.score_samples(X), brute_force(model, X)[:, 0], rtol=1e-9)
    with pytest.raises(ValueError, match="only one class"):
        model.explain(X[:1])


def test_labels_that_cannot_be():
    X, y = heaps()
    with pytest.raises(ValueError, match="requires y"):
        MixtureDiscriminant().fit(X)
    with pytest.raises(ValueError, match="label"):
        MixtureDiscriminant().fit(X, [None] * len(X))
    with pytest.raises(ValueError, match="matrix"):
        MixtureDiscriminant().fit(X, np.eye(2)[np.arange(len(X)) % 2])
    with pytest.raises(ValueError, match="GaussianMixture"):
        MixtureDiscriminant().fit(X, clusters=2)
    with pytest.raises(ValueError, match="inconsistent"):
        MixtureDiscriminant().fit(X, y[:-1])
    with pytest.raises(ValueError, match="weight"):
        MixtureDiscriminant().fit(X, y, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="forget"):
        MixtureDiscriminant().fit(X, y, sample_weight=-np.ones(len(X)))


@pytest.mark.slow_where(r"loo")
@pytest.mark.parametrize("components", [1, 2, "bic", "loo"])
def test_degenerate_rows(components):
    X, y = heaps(12)
    tables = {
        "a constant column": (np.c_[X, np.ones(len(X))], y),
        "one point many times": (np.r_[X, np.ones((20, 2))], np.r_[y, ["c"] * 20]),
        "a line": (np.c_[X[:, 0], 2 * X[:, 0]], y),
        "two rows a class": (X[:4], np.array(["a", "a", "b", "b"])),
        "more columns than rows": (np.random.default_rng(0).normal(size=(8, 12)), np.array(list("aabbaabb"))),
        "an outlier": (np.r_[X, [[1e6, 1e6]]], np.r_[y, ["a"]]),
    }
    for what, (rows, labels) in tables.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", deciban.errors.SingularWarning)
            model = plugged_in(components=components, max_components=2).fit(rows, labels)
        proba = model.predict_proba(rows)
        assert np.isfinite(proba).all(), what
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, err_msg=what)
        assert np.isfinite(model.score_samples(rows)).all(), what


# ---------------------------------------------------------------------- Ctrl-C


def interrupt_on(monkeypatch, nth):
    """The nth step of EM is interrupted; returns how many were begun."""
    calls, real = [], expect.expect

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == nth:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(expect, "expect", interrupted)
    return calls


def steps_of(monkeypatch, options, X, y):
    """How many steps of EM a fit takes, and how many of them over all classes together."""
    with monkeypatch.context() as patch:
        calls = interrupt_on(patch, 0)
        model = plugged_in(**options).fit(X, y)
    return len(calls), model.n_iter_


def interrupted_fit(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
        except KeyboardInterrupt:  # it would end the whole run of tests
            pytest.fail("what was found is lost")
    return [warning.category for warning in caught]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_interrupted_over_all_classes_the_model_is_the_best_so_far(monkeypatch):
    X, y = heaps(apart=1.5)
    labels = marked(y, None)
    options = {"components": 2, "tol": 1e-8, "max_iter": 30}
    total, last = steps_of(monkeypatch, options, X, labels)
    assert last >= 4
    calls = interrupt_on(monkeypatch, total - last + 3)
    model = plugged_in(**options)
    categories = interrupted_fit(model, X, labels)
    assert InterruptedWarning in categories
    assert ConvergenceWarning not in categories, "it was stopped: more steps are not what was wanting"
    assert len(calls) == total - last + 3
    assert model.em_.interrupted
    assert model.n_iter_ == 2
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.n_components_ == {"a": 2, "b": 2}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "components", [2, pytest.param("bic", marks=pytest.mark.slow), pytest.param("loo", marks=pytest.mark.slow)]
)
def test_interrupted_anywhere_the_model_is_usable_or_as_before(monkeypatch, components):
    X, y = heaps(30, apart=1.5)
    options = {"components": components, "max_components": 2, "n_init": 2}
    total, _ = steps_of(monkeypatch, options, X, y)
    before = plugged_in(components=1).fit(X, y)
    kept, usable = before.predict_proba(X), 0
    for nth in np.unique(np.linspace(1, total, 6).astype(int)):
        model = copy.deepcopy(before).set_params(**options)
        with monkeypatch.context() as patch:
            interrupt_on(patch, nth)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InterruptedWarning)
                try:
                    model.fit(X, y)
                    usable += 1
                except KeyboardInterrupt:
                    np.testing.assert_array_equal(model.predict_proba(X), kept)
                    continue
        assert np.isfinite(model.predict_proba(X)).all()
        assert model.score(X, y) > 0.5
        np.testing.assert_allclose(model.class_count_, [60, 30])
    assert usable > 1


@pytest.mark.parametrize("how", ["bic", "loo"])
def test_interrupted_while_choosing_what_was_found_is_kept(monkeypatch, how):
    """The first step of a second component: the class has a Gaussian already, and the others can have one."""
    X, y = heaps(apart=1.5)
    total, last = steps_of(monkeypatch, {"components": 1}, X, y)
    before = total - last if how == "loo" else (total - last) // 2  # "bic" goes on to a second class by class
    interrupt_on(monkeypatch, before + 1)
    model = plugged_in(components=how, max_components=2)
    assert InterruptedWarning in interrupted_fit(model, X, y)
    assert model.n_components_ == {"a": 1, "b": 1}
    assert np.isfinite(model.predict_proba(X)).all()


def test_interrupted_at_once_nothing_is_lost(monkeypatch):
    X, y = heaps()
    model = plugged_in(components=2).fit(X, y)
    before = model.predict_proba(X)
    interrupt_on(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X + 1, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)


# ---------------------------------------------------------------------- clusters


def worlds(seed=0, n=300):
    """Rows of three classes that lie well apart, for each kind of model."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 3)
    real = 8.0 * np.eye(3, 4)[truth] + rng.normal(size=(n, 4))
    chances = np.full((3, 9), 0.02)
    for c in range(3):
        chances[c, 3 * c : 3 * c + 3] = 0.88 / 3
    words = np.array([rng.multinomial(60, chances[c]) for c in truth])
    codes = np.where(rng.random((n, 8)) < 0.9, truth[:, None], rng.integers(0, 3, (n, 8)))
    return truth, {"real": real, "words": words, "codes": codes}


CLUSTERING = {
    "GaussianNB": (lambda: GaussianNB(var_smoothing=0.0), "real"),
    "MultinomialNB": (lambda: MultinomialNB(alpha=0.0), "words"),
    "CategoricalNB": (lambda: CategoricalNB(alpha=0.0), "codes"),
    "GaussianDiscriminant": (lambda: GaussianDiscriminant(shrinkage=None), "real"),
}


@pytest.mark.parametrize("name", CLUSTERING)
def test_clusters_are_the_classes(name):
    make, kind = CLUSTERING[name]
    for seed in range(2):
        truth, tables = worlds(seed, n=150)
        model = make().fit(tables[kind], clusters=3)
        assert model.classes_.tolist() == [0, 1, 2]
        assert adjusted_rand_score(truth, model.predict(tables[kind])) > 0.9
        never_down(model)
        assert model.class_count_.sum() == pytest.approx(len(truth))
        np.testing.assert_allclose(np.sort(model.class_count_), [50, 50, 50], atol=5)
        assert model.n_unlabelled_ == len(truth)


@pytest.mark.parametrize("name", CLUSTERING)
def test_clusters_are_drawn_again_from_the_same_seed(name):
    make, kind = CLUSTERING[name]
    rows = worlds()[1][kind][:60]
    first, again = (make().fit(rows, clusters=3, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(rows), again.predict_proba(rows))
    default, zero = make().fit(rows, clusters=3), make().fit(rows, clusters=3, random_state=0)
    np.testing.assert_array_equal(default.predict_proba(rows), zero.predict_proba(rows))
    state = np.random.RandomState(5)
    np.testing.assert_array_equal(
        make().fit(rows, clusters=3, random_state=state).predict_proba(rows), first.predict_proba(rows)
    )


@pytest.mark.parametrize("name", CLUSTERING)
def test_clusters_default_settings_weights_and_gaps(name):
    make, kind = CLUSTERING[name]
    truth, tables = worlds(n=150)
    rows = tables[kind].astype(float)
    model = type(make())(**({"shrinkage": None} if name == "GaussianDiscriminant" else {}))
    assert adjusted_rand_score(truth, clone(model).fit(rows, clusters=3).predict(rows)) > 0.9
    weight = np.where(truth == 2, 0.0, 2.0)
    weighted = clone(model).fit(rows, clusters=2, sample_weight=weight)
    assert weighted.class_count_.sum() == pytest.approx(weight.sum())
    assert adjusted_rand_score(truth[truth < 2], weighted.predict(rows[truth < 2])) > 0.9
    gaps = with_gaps(rows, 0.1)
    assert adjusted_rand_score(truth, clone(model).fit(gaps, clusters=3).predict(gaps)) > 0.8


def test_clusters_of_sparse_rows_and_frames():
    frames = pytest.importorskip("pandas")
    _, tables = worlds()
    words = tables["words"]
    dense = MultinomialNB().fit(words, clusters=3)
    np.testing.assert_allclose(
        MultinomialNB().fit(sp.csr_array(words), clusters=3).predict_proba(words), dense.predict_proba(words), atol=1e-6
    )
    frame = frames.DataFrame(tables["real"], columns=list("pqrs"))
    named = GaussianNB().fit(frame, clusters=3)
    assert named.feature_names_in_.tolist() == list("pqrs")
    np.testing.assert_allclose(
        named.predict_proba(frame), GaussianNB().fit(tables["real"], clusters=3).predict_proba(tables["real"])
    )


def test_one_cluster_is_one_class():
    X = worlds()[1]["real"]
    one = GaussianNB().fit(X, clusters=1)
    same(one, GaussianNB().fit(X, np.zeros(len(X), dtype=int)), X, rtol=1e-6)


@pytest.mark.parametrize("name", CLUSTERING)
def test_clusters_that_cannot_be(name):
    make, kind = CLUSTERING[name]
    truth, tables = worlds()
    rows = tables[kind]
    with pytest.raises(ValueError, match="clusters= is for y=None"):
        make().fit(rows, truth, clusters=3)
    for clusters in (0, -1, 2.5, "3", True):
        with pytest.raises(ValueError, match="clusters is"):
            make().fit(rows, clusters=clusters)
    with pytest.raises(ValueError, match="only 4 rows"):
        make().fit(rows[:4], clusters=5)
    with pytest.raises(ValueError, match="only 4 rows"):
        make().fit(rows[:4].tolist(), clusters=5)
    with pytest.raises(ValueError, match="clusters="):
        make().fit(rows)
    for labels in ([None] * len(rows), np.full(len(rows), np.nan)):
        with pytest.raises(ValueError, match="label"):
            make().fit(rows, labels)
    model = make().fit(rows, clusters=3)
    with pytest.raises(ForgetError, match="EM"):
        model.forget(rows[:1], [0])


@pytest.mark.parametrize("name", CLUSTERING)
def test_as_many_clusters_as_rows(name):
    make, kind = CLUSTERING[name]
    rows = worlds()[1][kind][:5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = make().fit(rows, clusters=5)
        proba = model.predict_proba(rows)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


# ---------------------------------------------------------------------- marks and weights of missing labels


HALF_KNOWN = {
    "GaussianNB": (GaussianNB, "real"),
    "MultinomialNB": (lambda: MultinomialNB(alpha=1), "words"),
    "CategoricalNB": (lambda: CategoricalNB(alpha=1), "codes"),
    "QuadraticDiscriminantAnalysis": (QuadraticDiscriminantAnalysis, "real"),
}


def half_known(kind, n=240):
    """Rows, their labels as numbers, and which are known."""
    truth, tables = worlds(n=n)
    rows = tables[kind].astype(float)
    if kind == "real":
        rows = rows + 4.0 * np.random.default_rng(1).normal(size=rows.shape)  # so that guesses are not sure
    return rows, truth, np.random.default_rng(0).random(n) < 0.5


@pytest.mark.parametrize("name", HALF_KNOWN)
def test_marks_of_missing_labels_are_all_the_same(name):
    make, kind = HALF_KNOWN[name]
    rows, truth, known = half_known(kind)
    expected = make().fit(rows, np.where(known, truth.astype(object), None))
    assert expected.n_unlabelled_ == (~known).sum()
    words = np.array(["u", "v", "w"])[truth]
    for labels, mark in (
        (np.where(known, truth, -1), -1),
        (np.where(known, truth, -1).tolist(), -1),
        (np.where(known, truth, -1.0), -1),
        (np.where(known, truth, np.nan), None),
        (np.where(known, truth.astype(object), "?"), "?"),
        (np.where(known, words, "?"), "?"),
        (np.where(known, words, "?").tolist(), "?"),
        (np.where(known, words.astype(object), None), None),
        (np.where(known, words.astype(object), None), "?"),
    ):
        model = make().fit(rows, labels, unlabelled=mark)
        np.testing.assert_array_equal(model.predict_proba(rows), expected.predict_proba(rows))
        assert model.classes_.tolist() in ([0, 1, 2], ["u", "v", "w"])
        assert model.n_unlabelled_ == expected.n_unlabelled_
    never = make().fit(rows, truth, unlabelled=-1)
    np.testing.assert_array_equal(never.predict_proba(rows), make().fit(rows, truth).predict_proba(rows))
    assert never.classes_.tolist() == [0, 1, 2]
    kept = make().fit(rows, np.where(known, truth, -1))
    assert kept.classes_.tolist() == [-1, 0, 1, 2], "without the mark, -1 is a label as any other"


@pytest.mark.parametrize("name", HALF_KNOWN)
def test_missing_labels_that_count_nothing(name):
    make, kind = HALF_KNOWN[name]
    rows, truth, known = half_known(kind)
    alone = make().fit(rows[known], truth[known])
    labels = np.where(known, truth, -1)
    none = make().fit(rows, labels, unlabelled=-1, unlabelled_weight=0)
    np.testing.assert_allclose(none.predict_proba(rows), alone.predict_proba(rows), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(none.class_count_, alone.class_count_)
    full = make().fit(rows, labels, unlabelled=-1)
    gap = full.predict_joint_log_proba(rows) - alone.predict_joint_log_proba(rows)
    assert np.abs(gap).max() > 1e-3, "rows that count change it"


@pytest.mark.parametrize("name", HALF_KNOWN)
def test_what_missing_labels_count_beside_weights(name):
    make, kind = HALF_KNOWN[name]
    rows, truth, known = half_known(kind)
    labels = np.where(known, truth, -1)
    times = np.random.default_rng(3).integers(1, 3, len(rows))
    again = np.repeat(np.arange(len(rows)), times)
    weighted = make().fit(rows, labels, sample_weight=times, unlabelled=-1, unlabelled_weight=1)
    repeated = make().fit(rows[again], labels[again], unlabelled=-1)
    np.testing.assert_allclose(weighted.predict_proba(rows), repeated.predict_proba(rows), atol=2e-3)
    assert weighted.class_count_.sum() == pytest.approx(times.sum())
    quarter = make().fit(rows, labels, sample_weight=times, unlabelled=-1, unlabelled_weight=0.25)
    product = make().fit(rows, labels, sample_weight=np.where(known, 1.0, 0.25) * times, unlabelled=-1)
    np.testing.assert_allclose(quarter.predict_proba(rows), product.predict_proba(rows), rtol=1e-9)
    assert quarter.class_count_.sum() == pytest.approx(times[known].sum() + 0.25 * times[~known].sum())
    default = make().fit(rows, labels, sample_weight=times, unlabelled=-1)
    np.testing.assert_array_equal(weighted.predict_proba(rows), default.predict_proba(rows))


def test_missing_labels_help_where_the_model_is_right():
    truth, tables = worlds(n=600)
    rows = tables["real"]
    known = np.zeros(600, dtype=bool)
    known[[np.flatnonzero(truth == c)[i] for c in range(3) for i in range(3)]] = True
    labels = np.where(known, truth, -1)
    alone = GaussianNB().fit(rows[known], truth[known])
    helped = GaussianNB().fit(rows, labels, unlabelled=-1)
    assert log_loss(truth, helped.predict_proba(rows)) < log_loss(truth, alone.predict_proba(rows))
    assert helped.score_samples(rows).sum() > alone.score_samples(rows).sum()


@pytest.mark.parametrize("make", [GaussianNB, MultinomialNB, QuadraticDiscriminantAnalysis, MixtureDiscriminant])
@pytest.mark.parametrize("weight", [-1.0, -1e-9, np.inf, -np.inf, np.nan])
def test_weights_of_missing_labels_that_cannot_be(make, weight):
    rows, truth, known = half_known("words")
    model = make()
    with pytest.raises(ValueError, match="unlabelled_weight"):
        model.fit(rows, np.where(known, truth, -1), unlabelled=-1, unlabelled_weight=weight)
    assert not hasattr(model, "model_")


def test_marks_that_cannot_be():
    rows, truth, _ = half_known("real")
    with pytest.raises(ValueError, match="label"):
        GaussianNB().fit(rows, np.full(len(rows), -1), unlabelled=-1)
    with pytest.raises(ValueError, match="matrix"):
        GaussianNB().fit(rows, np.eye(3)[truth], unlabelled=-1)


@pytest.mark.slow
@pytest.mark.slow_where(r"k-means")
@pytest.mark.parametrize("init", ["kmeans", "k-means++"])
@pytest.mark.parametrize("offset", [1e8, -(2.0**30)])
def test_where_zero_is_makes_no_difference(init, offset):
    """Components are those of the rows moved by a constant, moved."""
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(c, 1.0, (30, 2)) for c in rng.normal(0, 2.5, (4, 2))])
    X, y = np.round(X * 1024) / 1024, np.arange(120) // 60
    near, far = (MixtureDiscriminant(init_params=init).fit(rows, y) for rows in (X, X + offset))
    assert far.n_components_ == near.n_components_
    np.testing.assert_allclose(far.means_ - offset, near.means_, atol=1e-5)
    np.testing.assert_allclose(far.predict_proba(X + offset), near.predict_proba(X), atol=1e-6)
