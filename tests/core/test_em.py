"""EM converges to a fixed point, and rows of weight 0 change nothing."""

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
from deciban.errors import InterruptedWarning
from deciban.families import Bernoulli, Gaussian, Multinomial, MultivariateGaussian
from deciban.joint import Block, Joint, Model
from deciban.measure import RESIDUE
from deciban.schema import Columns, Schema

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
    """Plain EM, until only the last digits change."""

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


@pytest.mark.slow_where(r"prior|one|and|entries")
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
def test_the_likelihood_never_falls(seed, missing, together):
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


def counted(x, weight=(1.0,), family=Multinomial):
    """Sums of counts; for a Bernoulli law, of as many rows as the class's weight."""
    schema = Schema(np.arange(len(weight)), (Columns(np.shape(x)[1]),))
    sums = {"x": np.array(x, dtype=float)}
    if family is Bernoulli:
        sums["one"] = np.array(weight, dtype=float)[:, None]
    return Model(Joint((Block(family()),)), Stats(schema, np.array(weight, dtype=float), (sums,)))


def moments(n, x, xx, family=Gaussian):
    """Sums of one class about zero."""
    schema = Schema(np.arange(1), (Columns(len(x), pivot=np.zeros((1, len(x)))),))
    name = "xx" if np.ndim(xx) == 1 else "xy"
    sums = {"one": np.array([[n]]), "x": np.array([x], dtype=float), name: np.array([xx], dtype=float)}
    return Model(Joint((Block(family()),)), Stats(schema, np.array([float(n)]), (sums,)))


def scripted(totals, model):
    """A step of EM that returns these log-likelihoods in turn, and the same sums; and the models it was called with."""
    values, models = iter(totals), []

    def step(now):
        models.append(now)
        total = next(values)
        if isinstance(total, BaseException):
            raise total
        return total, model.stats

    return step, models


def test_a_tolerance_is_a_change_of_the_likelihood_a_row():
    start = counted([[3, 1]])
    step, models = scripted([-100.0, -90.0, -85.0, -80.5, -80.0], start)
    learned = em.learn(start, step, rows=10, tolerance=0.5)
    assert learned.log_likelihood == [-100.0, -90.0, -85.0, -80.5], "5 nats over 10 rows are not less than ½ a row"
    assert learned.converged
    assert len(models) == 4
    step, _ = scripted([-80.0, -70.0], start)
    assert em.learn(start, step, rows=10, tolerance=0.5, before=-84.0).log_likelihood == [-80.0]
    step, _ = scripted([-80.0] * 3, start)
    assert not em.learn(start, step, rows=10, tolerance=0.0, max_iter=3).converged


def test_no_more_steps_than_asked_for():
    start = counted([[3, 1]])
    watched = []
    step, models = scripted(range(-9, 0), start)
    learned = em.learn(
        start, step, rows=1, tolerance=1e-3, max_iter=7, watch=lambda n, total: watched.append((n, total))
    )
    assert len(models) == 7
    assert not learned.converged
    assert watched == [(n, n - 10) for n in range(1, 8)]
    assert em.learn(start, step, rows=1, max_iter=0).model is start


def test_without_a_tolerance_it_stops_close_to_the_limit(monkeypatch):
    distances = iter([np.inf, np.inf, 1.001 * em.SUM_TOLERANCE, em.SUM_TOLERANCE, 0.0])
    monkeypatch.setattr(
        em.Extrapolation, "distance_left", lambda self, sums: self.steps.append(sums) or next(distances)
    )
    monkeypatch.setattr(em.Extrapolation, "next_sums", lambda self: self.steps[-1])
    start = counted([[3, 1]])
    learned = em.learn(start, scripted([-1.0] * 9, start)[0], rows=1)
    assert learned.converged
    assert len(learned.log_likelihood) == 4


def test_interrupted_the_best_so_far_is_kept():
    start = counted([[3, 1]])
    step, models = scripted([-5.0, -3.0, -4.0, KeyboardInterrupt()], start)
    with pytest.warns(InterruptedWarning, match="after 3 steps"):
        learned = em.learn(start, step, rows=1, tolerance=0.0)
    assert learned.model is models[1]
    assert learned.interrupted
    assert not learned.converged
    with pytest.raises(KeyboardInterrupt):
        em.learn(start, scripted([KeyboardInterrupt()], start)[0], rows=1)


def ended(likelihood, rows=1e6, interrupted=False):
    return em.Learned(counted([[1, 1]]), [likelihood], True, rows, interrupted)


def test_the_most_likely_of_several_starts():
    alike = em.SAME_OPTIMUM_NATS * 1e6
    first, same, more = ended(-1.0), ended(-1.0 + alike), ended(-1.0 + 3 * alike)
    assert em.best_of([lambda: first, lambda: same]) is first
    assert em.best_of([lambda: first, lambda: more, lambda: same]) is more
    stopped = ended(-2.0, interrupted=True)
    assert em.best_of([lambda: first, lambda: stopped, lambda: more]) is first, "no other is tried"

    def interrupt():
        raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning, match="between two starts"):
        assert em.best_of([lambda: first, interrupt, lambda: more]) is first
    with pytest.raises(KeyboardInterrupt):
        em.best_of([interrupt, lambda: first])


@pytest.mark.parametrize(
    ("extrapolated", "trace", "total", "too_far"),
    [
        (True, [-10.0, -8.0], -8.5, True),
        (True, [-10.0, -8.0], -8.0, False),
        (True, [-10.0, -8.0], -8.0 - 4e-12, False),  # rounding
        (True, [-10.0, -8.0], -8.0 - 1e-10, True),
        (True, [-8.0], -9.0, True),
        (True, [-10.0, -8.0], float("nan"), True),
        (True, [-8.0, -9.0], -9.5, False),  # under a prior, plain steps fall too
        (True, [-8.0, -8.0], -9.5, True),
        (False, [-10.0, -8.0], -9.0, False),
    ],
)
def test_a_guess_under_which_rows_are_less_likely_is_one_too_far(extrapolated, trace, total, too_far):
    extrapolation = em.Extrapolation(counted([[1]]).joint)
    extrapolation.extrapolated = extrapolated
    assert extrapolation.overshot(total, trace) == too_far


def test_the_distance_left_is_that_to_the_limit():
    """Steps that halve the distance to a limit: S, S + 1/2, S + 3/4 are 1/4 from it."""
    X, y = blobs(0)
    whole, part = (GaussianNB().fit(X[rows], y[rows]).model_.stats for rows in (slice(None), slice(0, 40)))
    extrapolation = em.Extrapolation(GaussianNB().fit(X, y).model_.joint)
    sums = [whole + part.scale(-(2.0**-t)) for t in range(3)]
    assert extrapolation.distance_left(sums[0]) == extrapolation.distance_left(sums[1]) == np.inf
    distance = extrapolation.distance_left(sums[2])
    assert distance == pytest.approx(np.abs(np.diff(em.in_units([whole, sums[2]]), axis=0)).max(), rel=1e-6)
    assert extrapolation.next_sums().same_as(whole, 1e-6)


def test_the_distance_left_follows_the_slowest_of_the_last_rates():
    stats = counted([[1000.0]], [1000.0]).stats
    extrapolation = em.Extrapolation(counted([[1]]).joint)
    for share in (0.0, 0.5, 0.75):
        extrapolation.distance_left(stats.scale(1.0 + 0.1 * share))
    assert list(extrapolation.rates) == [pytest.approx(0.5)]
    extrapolation.steps = extrapolation.steps[1:]
    distance = extrapolation.distance_left(
        stats.scale(1.0 + 0.1 * (0.75 + 0.025))
    )  # a tenth of the last step: a faster direction
    assert distance == pytest.approx(0.0025 / 1.0775, rel=1e-3)
    extrapolation.rates.extend([0.9] * em.N_RATES)
    extrapolation.steps = extrapolation.steps[1:]
    assert extrapolation.distance_left(extrapolation.steps[-1]) == 0.0
    extrapolation.steps = extrapolation.steps[1:]
    assert extrapolation.distance_left(extrapolation.steps[-1].scale(1.0 + 1e-13)) == 0.0, "rounding"
    extrapolation.steps = extrapolation.steps[1:]
    assert extrapolation.distance_left(extrapolation.steps[-1].scale(1.0 + 1e-10)) > 1e-4, "ever longer steps: no limit"


def test_a_guess_is_no_further_than_rows_can_be():
    """Steps of equal length have no limit: a + 2·far steps, or half of that until it is possible."""
    law = counted([[1]]).joint
    extrapolation = em.Extrapolation(law)
    extrapolation.steps = [counted([[n]], [n]).stats for n in (1e6, 1e6 + 1, 1e6 + 2)]
    assert extrapolation.next_sums().weight[0] == pytest.approx(1e6 + 2.0 * em.MAX_STEPS_AHEAD, abs=1e-3)
    assert extrapolation.extrapolated
    extrapolation.steps = [counted([[n]], [n]).stats for n in (100.0, 99.0, 98.0)]
    far = em.MAX_STEPS_AHEAD
    while 2.0 * far > 100.0:
        far = 0.5 * (1.0 + far)
    assert extrapolation.next_sums().weight[0] == pytest.approx(100.0 - 2.0 * far, abs=1e-6)
    extrapolation.extrapolated, extrapolation.steps = False, [counted([[n]], [n]).stats for n in (2.0, 1.0, 0.0)]
    assert extrapolation.next_sums().weight[0] == 0.0, "there is nothing beyond"
    assert not extrapolation.extrapolated
    assert len(extrapolation.steps) == 1
    extrapolation.steps = [
        counted([[n]], [n]).stats for n in (0.0, 4.0, 3.0)
    ]  # beyond the end and back: no further than a step
    assert extrapolation.next_sums().weight[0] == 3.0


def test_undo_returns_to_the_last_step_before_the_guess():
    extrapolation = em.Extrapolation(counted([[1]]).joint)
    last, guess = counted([[3]], [3]).stats, counted([[9]], [9]).stats
    extrapolation.extrapolated, extrapolation.steps = True, [last, guess]
    assert extrapolation.undo() is last
    assert not extrapolation.extrapolated
    assert extrapolation.steps == [last]


def test_units_of_sums():
    """Counts as shares of a class's largest; moments in deviations: n, √n·s, s²."""
    units = em.units_of({"x": np.array([[0.2, 0.05], [0.0, 0.0]])})["x"]
    np.testing.assert_array_equal(units, [[0.2, 0.2], [np.inf, np.inf]])
    # Of 4 rows, Σx = 4 and Σx² = 20: the scatter is 16. The second column does not vary.
    units = em.units_of(dict(moments(4.0, [4.0, 8.0], [20.0, 16.0]).stats.sums[0]))
    np.testing.assert_array_equal(units["one"], [[4.0, 4.0]])
    np.testing.assert_array_equal(units["x"], [[8.0, np.inf]])
    np.testing.assert_array_equal(units["xx"], [[16.0, np.inf]])
    units = em.units_of(dict(moments(4.0, [4.0, 0.0], [[20.0, 1.0], [1.0, 9.0]]).stats.sums[0]))
    np.testing.assert_array_equal(units["xy"], [[[16.0, 12.0], [12.0, 9.0]]])


def test_what_rows_can_add_up_to():
    def can(model):
        return em.possible(model.stats, model.joint)

    assert can(counted([[0, 0]], [0]))
    assert not can(counted([[-1e-9, 3]]))
    assert not can(counted([[1, 3], [1, 1]], [1.0, -1e-9]))
    assert can(counted([[2, 0]], [2], Bernoulli))
    assert not can(counted([[2.5, 0]], [2], Bernoulli))
    assert can(moments(4.0, [4.0], [4.0])), "no spread at all"
    assert not can(moments(4.0, [4.0], [3.99]))
    assert can(moments(0.0, [0.0], [0.0]))
    assert not can(moments(-1.0, [0.0], [0.0]))
    for beyond, sound in ((0.0, True), (0.5 * RESIDUE, True), (2.5 * RESIDUE, False)):
        xy = [[4.0, 4.0 * (1.0 + beyond)], [4.0 * (1.0 + beyond), 4.0]]  # eigenvalues 2 + and − what is beyond
        assert can(moments(4.0, [0.0, 0.0], xy, MultivariateGaussian)) == sound


@pytest.mark.slow
@pytest.mark.slow_where(r"GaussianNB")
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


@pytest.mark.slow_where(r"mixture a class|clusters, entries")
@pytest.mark.parametrize("what", WEIGHTLESS)
def test_rows_of_weight_zero_change_nothing(what):
    """Not even one bit: neither the start of EM, nor its end, nor the choices."""
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


def test_rows_of_weight_zero_do_not_count_as_hidden():
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
