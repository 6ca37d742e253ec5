"""Mixtures of Gaussians: scikit-learn's steps from the same start, and what only sums can do."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.mixture import GaussianMixture as Theirs

import deciban
from deciban import ForgetError, GaussianMixture, InterruptedWarning, SchemaError, expect

pytestmark = [
    pytest.mark.crossed(4),
    pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

KINDS = ["full", "tied", "diag", "spherical"]
SHAPES = "EII VII EEI VEI EVI VVI EEE VEE EVE VVE EEV VEV EVV VVV".split()  # noqa: SIM905 - a list to read


def heaps(n=300, d=2, k=3, seed=0, apart=5.0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    turn = np.eye(d) + 0.4 * rng.normal(size=(k, d, d))
    return apart * rng.normal(size=(k, d))[truth] + np.einsum("nij,nj->ni", turn[truth], rng.normal(size=(n, d)))


def start(X, kind, k=3):
    """A complete start: weights, means and precisions."""
    rng = np.random.default_rng(1)
    d = X.shape[1]
    spread = np.cov(X.T) if d > 1 else np.atleast_2d(X.var())
    precision = np.linalg.inv(spread)
    shaped = {
        "full": np.tile(precision, (k, 1, 1)),
        "tied": precision,
        "diag": np.tile(1 / np.diagonal(spread), (k, 1)),
        "spherical": np.full(k, 1 / np.trace(spread) * d),
    }[kind]
    weights = np.array([0.5, 0.3, 0.2])[:k]
    means = X[rng.choice(len(X), k, replace=False)]
    return {"weights_init": weights / weights.sum(), "means_init": means, "precisions_init": shaped}


def never_down(model):
    trace = model.em_.log_likelihood
    assert len(trace) > 1
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(trace)), trace


# ---------------------------------------------------------------------- as scikit-learn


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 12])
@pytest.mark.parametrize("how", ["said", "kmeans", "random", "k-means++", "random_from_data"])
def test_the_same_steps_from_the_same_start(kind, steps, how):
    if how in ("k-means++", "random_from_data") and (steps == 1 or kind == "tied"):
        pytest.skip("there the shares of the first step are one row each, and not divided by their sum")
    X = heaps()
    options = {"n_components": 3, "covariance_type": kind, "max_iter": steps, "tol": 0.0, "random_state": 0}
    options |= start(X, kind) if how == "said" else {"init_params": how}
    ours, theirs = GaussianMixture(**options).fit(X), Theirs(**options).fit(X)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=1e-8)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-8)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=name)
    assert ours.bic(X) == pytest.approx(theirs.bic(X))
    assert ours.aic(X) == pytest.approx(theirs.aic(X))
    assert ours.n_iter_ == theirs.n_iter_
    assert (ours.predict(X) == theirs.predict(X)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["glass", "pima", "vehicle"])
def test_on_real_tables(table, kind, name):
    X = table(name).numbers
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    options = {"n_components": 3, "covariance_type": kind, "max_iter": 20, "tol": 1e-4, "reg_covar": 1e-3}
    options |= start(X, kind)
    ours, theirs = GaussianMixture(**options).fit(X), Theirs(**options).fit(X)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=1e-7)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-7)
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter_, theirs.converged_)


@pytest.mark.parametrize("part", ["weights_init", "means_init", "precisions_init"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_start_said_in_part(kind, part):
    X = heaps()
    options = {"n_components": 3, "covariance_type": kind, "max_iter": 3, "tol": 0.0, "random_state": 0}
    options[part] = start(X, kind)[part]
    ours, theirs = GaussianMixture(**options).fit(X), Theirs(**options).fit(X)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=1e-6)


def test_float32_keeps_its_type_and_its_digits():
    X = heaps().astype(np.float32) + np.float32(100.0)
    for kind in KINDS:
        options = {"n_components": 3, "covariance_type": kind, "random_state": 0, "tol": 1e-6}
        single, double = GaussianMixture(**options).fit(X), GaussianMixture(**options).fit(X.astype(float))
        for name in ("weights_", "means_", "covariances_", "precisions_"):
            assert getattr(single, name).dtype == np.float32
        assert single.predict_proba(X).dtype == single.score_samples(X).dtype == np.float32
        assert single.score(X) == pytest.approx(double.score(X), rel=1e-3)


# ---------------------------------------------------------------------- the equations


@pytest.mark.parametrize("kind", [*KINDS, "VEE", "EVI"])
def test_the_density_is_the_sum_of_its_components(kind):
    X = heaps()
    model = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    d = X.shape[1]
    covariances = {
        "tied": lambda c: np.tile(c, (3, 1, 1)),
        "spherical": lambda c: c[:, None, None] * np.eye(d),
    }.get(kind, lambda c: c if c.ndim == 3 else c[:, :, None] * np.eye(d))(model.covariances_)
    parts = [multivariate_normal(m, s).logpdf(X) for m, s in zip(model.means_, covariances, strict=True)]
    joint = np.column_stack(parts) + np.log(model.weights_)
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), np.exp(joint - logsumexp(joint, axis=1)[:, None]), atol=1e-9)
    assert model.weights_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_climbs(shape):
    X = heaps(200, d=3)
    model = GaussianMixture(3, covariance_type=shape, reg_covar=0.0, tol=1e-7, max_iter=60, random_state=0).fit(X)
    never_down(model)
    assert np.isfinite(model.score(X))
    assert model.score(X) >= model.lower_bound_ - 1e-9
    assert np.isfinite(model.covariances_).all()
    assert np.isfinite(model.precisions_).all()


@pytest.mark.parametrize("shape", ["unit", "tied_diag", "tied_spherical"])
def test_shapes_by_other_names(shape):
    X = heaps(200, d=3)
    model = GaussianMixture(3, covariance_type=shape, random_state=0).fit(X)
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.bic(X))
    assert np.isfinite(model.covariances_).all()


def test_a_narrower_shape_is_no_likelier():
    X = heaps(400)
    options = {"n_components": 3, "reg_covar": 0.0, "tol": 1e-9, "max_iter": 300, "random_state": 0}
    scores = {s: GaussianMixture(covariance_type=s, **options).fit(X).score(X) for s in ("VVV", "EEE", "EEI", "EII")}
    assert scores["VVV"] > scores["EEE"] > scores["EEI"] > scores["EII"]


def test_samples_come_back():
    X = heaps(3000)
    model = GaussianMixture(3, random_state=0).fit(X)
    rows, labels = model.sample(30000)
    assert (np.diff(labels) >= 0).all()
    for c in range(3):
        mine = rows[labels == c]
        assert len(mine) / 30000 == pytest.approx(model.weights_[c], abs=0.015)
        np.testing.assert_allclose(mine.mean(axis=0), model.means_[c], atol=0.1)
        np.testing.assert_allclose(np.cov(mine.T), model.covariances_[c], atol=0.15)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)


# ---------------------------------------------------------------------- weights, gaps, batches


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_repetitions(kind):
    X = heaps(120)
    times = np.random.default_rng(0).integers(0, 4, 120)
    options = {"n_components": 3, "covariance_type": kind, "tol": 1e-9, "max_iter": 25}
    options |= start(X, kind)
    weighted = GaussianMixture(**options).fit(X, sample_weight=times)
    repeated = GaussianMixture(**options).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-7)
    np.testing.assert_allclose(weighted.lower_bounds_, repeated.lower_bounds_, rtol=1e-9)
    half = GaussianMixture(**options).fit(X, sample_weight=times * 0.5)
    np.testing.assert_allclose(half.score_samples(X), repeated.score_samples(X), rtol=1e-6)


@pytest.mark.parametrize("init", ["kmeans", "random", "k-means++", "random_from_data"])
def test_weightless_rows_do_not_matter(init):
    """Rows of weight zero far away do not become components."""
    X = np.r_[heaps(120), np.full((20, 2), 1e4)]
    weight = np.r_[np.ones(120), np.zeros(20)]
    model = GaussianMixture(3, init_params=init, random_state=0).fit(X, sample_weight=weight)
    assert np.abs(model.means_[model.weights_ > 1e-9]).max() < 100
    assert np.isfinite(model.score_samples(X[:120])).all()


@pytest.mark.parametrize("kind", [*KINDS, "VEE", "EEI"])
def test_missing_entries(kind):
    X = heaps(300, d=3)
    rows = X.copy()
    rows[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    rows[5] = np.nan
    model = GaussianMixture(3, covariance_type=kind, random_state=0, reg_covar=0.0, tol=1e-8, max_iter=60).fit(rows)
    if kind not in ("diag", "spherical", "EEI"):  # there an entry that is missing is left out of the columns' sums
        never_down(model)
    assert np.isfinite(model.score_samples(rows)).all()
    assert model.score_samples(rows[5:6]) == pytest.approx([0.0], abs=1e-9)
    np.testing.assert_allclose(model.predict_proba(rows[5:6])[0], model.weights_, rtol=1e-9)
    whole = GaussianMixture(3, covariance_type=kind, random_state=0, reg_covar=0.0, tol=1e-8, max_iter=60).fit(X)
    assert model.score(X) > whole.score(X) - 0.5
    np.testing.assert_allclose(model.weights_.sum(), 1.0)


@pytest.mark.parametrize("kind", ["diag", "spherical", "EEI", "VEI"])
def test_missing_entries_of_aligned_shapes_do_not_lower_the_likelihood(kind):
    rows = heaps(300, d=3)
    rows[np.random.default_rng(0).random(rows.shape) < 0.15] = np.nan
    model = GaussianMixture(3, covariance_type=kind, random_state=0, reg_covar=0.0, tol=1e-8, max_iter=60).fit(rows)
    never_down(model)


def test_missing_entries_are_marginalised():
    X = heaps(300, d=3)
    model = GaussianMixture(3, random_state=0).fit(X)
    rows = X[:20].copy()
    rows[:, 1] = np.nan
    kept = [0, 2]
    parts = [
        np.log(w) + multivariate_normal(m[kept], s[np.ix_(kept, kept)]).logpdf(rows[:, kept])
        for w, m, s in zip(model.weights_, model.means_, model.covariances_, strict=True)
    ]
    np.testing.assert_allclose(model.score_samples(rows), logsumexp(parts, axis=0), rtol=1e-9)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_a_column_without_any_value(kind):
    X = heaps(100, d=3)
    X[:, 1] = np.nan
    model = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    assert np.isfinite(model.score_samples(X)).all()


@pytest.mark.parametrize("kind", [*KINDS, "VEV"])
def test_batches_and_merges(kind):
    X = heaps(600)
    model = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X[:300])
    before = model.score(X)
    more = copy.deepcopy(model).partial_fit(X[300:])
    assert more.model_.stats.weight.sum() == pytest.approx(600)
    assert more.score(X) > before - 0.05
    shares = model.predict_proba(X[300:])
    np.testing.assert_allclose(more.model_.stats.weight, model.model_.stats.weight + shares.sum(axis=0), rtol=1e-9)
    assert GaussianMixture(3, random_state=0).partial_fit(X).score(X) == pytest.approx(
        GaussianMixture(3, random_state=0).fit(X).score(X)
    )
    other = GaussianMixture(3, covariance_type=kind, random_state=5).fit(X[300:])
    merged, whole = model + other, GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    assert merged.score(X) == pytest.approx(whole.score(X), abs=0.05)
    assert merged.model_.stats.weight.sum() == pytest.approx(600)
    np.testing.assert_allclose(np.sort((other + model).means_, axis=0), np.sort(merged.means_, axis=0), rtol=1e-9)
    assert sum([model, other]).score(X) == pytest.approx(merged.score(X))
    empty = copy.deepcopy(model).partial_fit(X[:0])
    np.testing.assert_allclose(empty.score_samples(X), model.score_samples(X), rtol=1e-12)


def test_what_a_mixture_cannot_do():
    X = heaps()
    model = GaussianMixture(3, random_state=0).fit(X)
    for act in (lambda: model.forget(X[:1]), lambda: model.leave_one_out(X)):
        with pytest.raises(ForgetError, match="mixture"):
            act()
    for other in (
        GaussianMixture(2).fit(X),
        GaussianMixture(3).fit(X[:, :1]),
        GaussianMixture(3, covariance_type="diag").fit(X),
    ):
        with pytest.raises(SchemaError):
            _ = model + other
    with pytest.raises(TypeError):
        _ = model + 3


@pytest.mark.parametrize("kind", [*KINDS, "EVE"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_saved_mixtures_come_back(kind, dtype, tmp_path):
    X = heaps().astype(dtype)
    model = GaussianMixture(3, covariance_type=kind, random_state=0, means_init=X[:3]).fit(X)
    model.save(tmp_path / "m.deciban")
    back = deciban.load(tmp_path / "m.deciban")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(back.covariances_, model.covariances_)
    assert back.covariances_.dtype == dtype
    assert (back.n_iter_, back.converged_, back.lower_bound_) == (model.n_iter_, model.converged_, model.lower_bound_)
    np.testing.assert_array_equal(back.partial_fit(X).means_, model.partial_fit(X).means_)
    for state in (np.random.RandomState(0), None):
        GaussianMixture(2, random_state=state).fit(X).save(tmp_path / "n.deciban")
        assert np.isfinite(deciban.load(tmp_path / "n.deciban").score(X))


def test_going_on_from_the_last_fit():
    X = heaps(apart=1.0)
    model = GaussianMixture(3, warm_start=True, max_iter=2, tol=0.0, random_state=0)
    bounds = [model.fit(X).lower_bound_ for _ in range(6)]
    assert all(b >= a - 1e-12 for a, b in pairwise(bounds))
    assert bounds[-1] > bounds[0]
    once = GaussianMixture(3, max_iter=12, tol=0.0, random_state=0).fit(X)
    assert model.lower_bound_ == pytest.approx(once.lower_bound_, rel=1e-9)


def test_more_starts_are_no_worse():
    X = heaps(apart=1.0, k=3)
    one = GaussianMixture(3, init_params="random", random_state=0).fit(X)
    many = GaussianMixture(3, init_params="random", random_state=0, n_init=6).fit(X)
    assert many.lower_bound_ >= one.lower_bound_ - 1e-9


# ---------------------------------------------------------------------- collapse


DEGENERATE = {
    "two points": np.array([[0.0, 0.0], [1.0, 1.0]]),
    "one point many times": np.ones((10, 2)),
    "two points many times": np.repeat([[0.0, 0.0], [5.0, 1.0]], 10, axis=0),
    "a line": np.c_[np.arange(20.0), 2 * np.arange(20.0)],
    "a constant column": np.c_[heaps(40), np.ones(40)],
    "an outlier": np.r_[heaps(40), [[1e6, 1e6]]],
    "far": heaps(60) + 1e8,
    "more columns than rows": np.random.default_rng(0).normal(size=(6, 12)),
}


@pytest.mark.crossed(3)
@pytest.mark.parametrize("what", DEGENERATE)
@pytest.mark.parametrize("kind", [*KINDS, "VEE", "EEV"])
@pytest.mark.parametrize("ridge", [1e-6, 0.0])
def test_collapsing_components(what, kind, ridge):
    X = DEGENERATE[what]
    model = GaussianMixture(2, covariance_type=kind, reg_covar=ridge, random_state=0).fit(X)
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.covariances_).all()
    assert model.weights_.sum() == pytest.approx(1.0)
    assert np.isfinite(model.sample(5)[0]).all()
    if ridge:
        assert np.isfinite(model.precisions_).all()


def test_a_component_that_starts_empty_does_no_harm():
    X = heaps(100)
    options = {"weights_init": [1.0, 0.0], "means_init": [X.mean(axis=0), [1e3, 1e3]]}
    options["precisions_init"] = np.tile(np.eye(2), (2, 1, 1))
    model = GaussianMixture(2, **options).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.means_).all()
    far = GaussianMixture(2, **(options | {"weights_init": [0.5, 0.5]})).fit(X)
    assert np.isfinite(far.score_samples(X)).all()
    assert np.isfinite(far.means_).all()
    assert far.weights_.sum() == pytest.approx(1.0)


def test_as_many_components_as_rows():
    X = heaps(6)
    model = GaussianMixture(6, random_state=0).fit(X)
    assert np.isfinite(model.score(X))
    assert len(set(model.predict(X).tolist())) == 6


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


def test_interrupted_the_model_is_the_best_so_far(monkeypatch):
    X = heaps(apart=1.0)
    calls = interrupt_on(monkeypatch, 3)
    with pytest.warns(InterruptedWarning, match="2 steps"):
        model = GaussianMixture(3, tol=0.0, random_state=0).fit(X)
    assert len(calls) == 3
    assert model.n_iter_ == 2
    assert not model.converged_
    assert np.isfinite(model.score(X))
    assert model.score(X) >= model.lower_bounds_[0] - 1e-9
    assert model.predict_proba(X).shape == (300, 3)


def test_interrupted_no_other_start_is_tried(monkeypatch):
    """Ctrl-C means stop."""
    X = heaps(apart=1.0)
    calls = interrupt_on(monkeypatch, 3)
    with pytest.warns(InterruptedWarning):
        model = GaussianMixture(3, tol=0.0, random_state=0, n_init=4, max_iter=5).fit(X)
    assert len(calls) == 3
    assert np.isfinite(model.score(X))


def test_interrupted_in_a_later_start_the_earlier_ones_count(monkeypatch):
    X = heaps(apart=1.0)
    interrupt_on(monkeypatch, 6)  # the first step of the second start
    try:
        with pytest.warns(InterruptedWarning):
            model = GaussianMixture(3, tol=0.0, random_state=0, n_init=2, max_iter=5).fit(X)
    except KeyboardInterrupt:  # it would end the whole run of tests
        pytest.fail("what the first start had found is lost")
    assert np.isfinite(model.score(X))


def test_interrupted_at_once_nothing_is_lost(monkeypatch):
    X = heaps()
    model = GaussianMixture(3, random_state=0).fit(X)
    before = model.score_samples(X)
    interrupt_on(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    np.testing.assert_array_equal(model.score_samples(X), before)


def test_interrupted_classifiers_are_usable(monkeypatch):
    from deciban import GaussianDiscriminant

    X = heaps(apart=1.0)
    calls = interrupt_on(monkeypatch, 3)
    try:
        with pytest.warns(InterruptedWarning):
            model = GaussianDiscriminant(shrinkage=None).fit(X, clusters=3)
    except KeyboardInterrupt:
        pytest.fail("what was found is lost")
    assert len(calls) == 3, "Ctrl-C means stop, not another start"
    assert np.isfinite(model.predict_proba(X)).all()


# ---------------------------------------------------------------------- the rest


def test_clones_are_unfitted_and_parameters_stay():
    X = heaps()
    model = GaussianMixture(3, means_init=X[:3], random_state=0).fit(X)
    again = clone(model)
    assert not hasattr(again, "model_")
    np.testing.assert_array_equal(again.fit(X).means_, model.means_)
    assert (model.fit_predict(X) == model.predict(X)).all()


def test_frames_name_their_columns():
    frames = pytest.importorskip("pandas")
    X = heaps()
    model = GaussianMixture(3, random_state=0).fit(frames.DataFrame(X, columns=["p", "q"]))
    assert model.feature_names_in_.tolist() == ["p", "q"]
    why = model.explain(frames.DataFrame(X[:1], columns=["p", "q"]))
    assert {"p", "q"} <= {name for name, _, _ in why.items}


def test_one_component_is_a_gaussian():
    X = heaps()
    model = GaussianMixture(reg_covar=0.0).fit(X)
    np.testing.assert_allclose(model.means_[0], X.mean(axis=0))
    np.testing.assert_allclose(model.covariances_[0], np.cov(X.T, bias=True))


@pytest.mark.crossed(4)
@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("offset", [1e8, -(2.0**30)])
def test_where_zero_is_makes_no_difference(init, missing, offset):
    """Rows that are moved by a constant have the same clusters, moved: starts are computed from exact differences."""
    rng = np.random.default_rng(3)
    X = np.vstack([rng.normal(c, 1.0, (50, 2)) for c in rng.normal(0, 2.5, (4, 2))])
    X = np.round(X * 1024) / 1024  # so that the offset costs no digits
    X[rng.random(X.shape) < 0.1 * missing] = np.nan
    near, far = (GaussianMixture(3, init_params=init, n_init=3, random_state=0).fit(rows) for rows in (X, X + offset))
    np.testing.assert_allclose(far.means_ - offset, near.means_, atol=1e-5)
    np.testing.assert_allclose(far.covariances_, near.covariances_, atol=1e-5)
    assert far.lower_bound_ == pytest.approx(near.lower_bound_, abs=1e-7)
