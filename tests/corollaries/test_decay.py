"""Decay is a weight: half-lives add up, later batches merge, what is left can be forgotten, and drift is tracked."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from worlds import law

import deciban
from deciban import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    DecibanError,
    ForgetError,
    GaussianDiscriminant,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminant,
    MultinomialNB,
    NearestCentroid,
    PoissonNB,
    QuadraticDiscriminantAnalysis,
    TextClassifier,
)
from deciban.corollaries.decay import decay, share_left
from deciban.corollaries.forget import forget, prune
from deciban.joint import Model

# Where next to nothing is left of the rows, covariances are singular, and this is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning")

half_lives = st.floats(0.5, 1e4)
some_rows = st.floats(0.0, 30.0)  # at most 60 half-lives: 2^−60 of a row is a number like any other


# ------------------------------ the sums, whatever the family


@law(half_life=half_lives, first=some_rows, then=some_rows)
def test_half_lives_add_up(world, half_life, first, then):
    twice = decay(decay(world.model(), half_life, first), half_life, then)
    once = decay(world.model(), half_life, first + then)
    # In units of what is left, which may be little.
    left = 1.0 / share_left(half_life, first + then)
    assert twice.stats.scale(left).same_as(once.stats.scale(left))


@law(rows_since=some_rows)
def test_without_end_nothing_decays(world, rows_since):
    model = world.model()
    assert decay(model, np.inf, rows_since) is model
    assert decay(model, 10.0, 0) is model


@law(rows=(2, 30), half_life=half_lives, since=some_rows, cut=st.integers(0, 30))
def test_decay_is_a_weight_of_the_rows_before(world, half_life, since, cut):
    cut = min(cut, len(world.y))
    before, after = np.arange(cut), np.arange(cut, len(world.y))
    decayed = decay(world.model(before), half_life, since).stats + world.collect(after)
    weight = np.ones(len(world.y)) if world.weight is None else world.weight.copy()
    weight[:cut] *= share_left(half_life, since)
    world.weight = weight
    assert decayed.same_as(world.collect())


@law(rows=(2, 30), since=st.integers(1, 20), cut=st.integers(0, 30))
def test_what_is_left_of_rows_can_be_forgotten(world, since, cut):
    """With the weight that they have now; with the original one, more would be forgotten than there is."""
    cut = max(1, min(cut, len(world.y)))
    before, after = np.arange(cut), np.arange(cut, len(world.y))
    assume(world.collect(before).weight.any())
    faded = decay(world.model(before), 10.0, since)
    model = Model(world.joint, faded.stats + world.collect(after))
    share = share_left(10.0, since)
    left = forget(model, world.collect(before).scale(share))
    assert left.stats.same_as(prune(world.collect(after), None), tolerance=1e-7)
    with pytest.raises(ForgetError):
        forget(faded, world.collect(before))


@law(rows=(1, 30), since=st.sampled_from([1e3, 1e6, 1e300]))
def test_of_the_distant_past_nothing_is_left_but_its_classes(world, since):
    model = decay(world.model(), 1.0, since)
    assert model.classes.tolist() == world.schema.classes.tolist()
    assert not model.stats.weight.any()
    assert not any(array.any() for array in model.stats.sums[0].values())
    np.testing.assert_allclose(np.exp(model.log_prior).sum(), 1.0)


@pytest.mark.parametrize("half_life", [0, 0.0, -1, np.nan, -np.inf, None, "10", 1j])
def test_a_half_life_is_more_than_nothing(half_life):
    with pytest.raises(DecibanError, match="half_life is "):
        share_left(half_life, 1)


@pytest.mark.parametrize("rows", [-1, np.nan, np.inf, None, "10"])
def test_rows_do_not_come_backwards(rows):
    with pytest.raises(DecibanError, match=r"^rows is "):
        share_left(10, rows)


# ------------------------------ every estimator

rng = np.random.default_rng(0)
LABELS = np.array(["a", "b", "c"])[np.arange(90) % 3]
NUMBERS = rng.normal(size=(90, 4)) + np.arange(90)[:, None] % 3 * [1.0, 0.5, 0.0, -1.0]
COUNTS = rng.poisson(1.0 + np.arange(90)[:, None] % 3 * [1.0, 0.5, 0.0, 0.2], size=(90, 4)).astype(float)
MODELS = {
    "GaussianNB": (GaussianNB(), NUMBERS),
    "GaussianNB, a prior": (GaussianNB(alpha=2.0), NUMBERS),
    "GaussianNB, missing": (GaussianNB(), np.where(rng.random(NUMBERS.shape) < 0.2, np.nan, NUMBERS)),
    "MultinomialNB": (MultinomialNB(), COUNTS),
    "MultinomialNB, empirical": (MultinomialNB(alpha="empirical"), COUNTS),
    "BernoulliNB": (BernoulliNB(binarize=1.5), COUNTS),
    "CategoricalNB": (CategoricalNB(), np.minimum(COUNTS, 3).astype(int).astype(str)),
    "ComplementNB": (ComplementNB(), COUNTS),
    "PoissonNB": (PoissonNB(predictive=True), COUNTS),
    "GaussianDiscriminant": (GaussianDiscriminant(shrinkage=0.1), NUMBERS),
    "GaussianDiscriminant, auto": (GaussianDiscriminant(shrinkage="auto"), NUMBERS),
    "GaussianDiscriminant, diag": (GaussianDiscriminant(covariance="diag", shrinkage=None), NUMBERS),
    "LinearDiscriminantAnalysis": (LinearDiscriminantAnalysis(), NUMBERS),
    "QuadraticDiscriminantAnalysis": (QuadraticDiscriminantAnalysis(), NUMBERS),
    "NearestCentroid": (NearestCentroid(priors="empirical"), NUMBERS),
}


@pytest.fixture(params=MODELS)
def case(request):
    model, X = MODELS[request.param]
    return copy.deepcopy(model), X


def test_a_stream_is_a_fit_with_weights(case):
    model, X = case
    stream = copy.deepcopy(model)
    for start in (0, 30, 60):
        part = slice(start, start + 30)
        assert stream.decay(half_life=20, rows=30).partial_fit(X[part], LABELS[part]) is stream
    age = np.repeat([60, 30, 0], 30)
    whole = model.fit(X, LABELS, sample_weight=2.0 ** (-age / 20))
    np.testing.assert_allclose(stream.class_count_, whole.class_count_)
    np.testing.assert_allclose(stream.predict_proba(X), whole.predict_proba(X), rtol=1e-6, atol=1e-9)


def test_leave_one_out_takes_weights_as_they_are(case):
    model, X = case
    model.fit(X, LABELS).decay(10, 5)
    weight = np.full(90, 2.0**-0.5)
    with pytest.raises(ForgetError, match=r"21\.2132.* 30 "):
        model.leave_one_out(X, LABELS)
    result = model.leave_one_out(X, LABELS, weight)
    model.forget(X[:1], LABELS[:1], weight[:1])
    if model.get_params().get("alpha") != "empirical":  # which leave-one-out keeps, and a model anew chooses anew
        np.testing.assert_allclose(result.proba[:1], model.predict_proba(X[:1]), rtol=1e-6)


def test_classes_stay_known_and_answers_stay_numbers(case):
    model, X = case
    model.fit(X, LABELS)
    for rows in (3, 6, 30, 300, 3000):
        proba = copy.deepcopy(model).decay(1, rows).predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    model.decay(1, 1e6)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.class_count_.tolist() == [0.0, 0.0, 0.0]
    again = model.partial_fit(X, LABELS)
    expected = copy.deepcopy(model).fit(X, LABELS)
    np.testing.assert_allclose(again.predict_proba(X), expected.predict_proba(X), rtol=1e-6, atol=1e-9)


def test_a_decayed_model_is_kept_in_files(case, tmp_path):
    model, X = case
    model.fit(X, LABELS).decay(7, 3).save(tmp_path / "model")
    loaded = deciban.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    a, b = loaded.decay(7, 4), model.decay(7, 4)
    np.testing.assert_array_equal(a.class_count_, b.class_count_)


def test_what_is_wrong_changes_nothing(case):
    model, X = case
    with pytest.raises(DecibanError, match="half_life"):
        copy.deepcopy(model).decay(0)
    model.fit(X, LABELS)
    before = model.model_
    for half_life, rows in ((np.nan, 1), (-1, 1), (10, -1)):
        with pytest.raises(DecibanError, match="it must be"):
            model.decay(half_life, rows)
    assert model.decay(np.inf, 5).model_ is before


def test_mixtures_decay_too():
    model = MixtureDiscriminant(components=2, random_state=0).fit(NUMBERS, LABELS)
    before, proba = model.class_count_, model.predict_proba(NUMBERS)
    assert model.decay(10, 10) is model
    np.testing.assert_allclose(model.class_count_, before / 2)
    assert np.abs(model.predict_proba(NUMBERS) - proba).max() < 0.3, "slightly less certain"


def test_what_is_not_a_sum_cannot_decay():
    from sklearn.covariance import LedoitWolf

    centroid = NearestCentroid(metric="manhattan").fit(NUMBERS, LABELS)
    with pytest.raises(DecibanError, match="medians"):
        centroid.decay(10)
    linear = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=LedoitWolf()).fit(NUMBERS, LABELS)
    with pytest.raises(DecibanError, match="covariance_estimator uses rows"):
        linear.decay(10)


# ------------------------------ drift


@pytest.mark.slow_where(r"block")
@pytest.mark.parametrize("block", [False, True], ids=["columns", "block"])
def test_variances_are_seen_however_far_the_mean_drifts(block):
    """Batches that end up 10⁷ deviations off. About the first pivot, the rounding of squares would be 2^−52 · 10¹⁴
    of a variance, some percent; pivots that follow are a batch behind, 25,000 deviations, and leave 10⁻⁷ of it."""
    draw = np.random.default_rng(1)
    y, size = np.arange(40) % 2, 40
    model = GaussianDiscriminant(shrinkage=None, predictive=False) if block else GaussianNB(var_smoothing=0.0)
    batches = [draw.normal(size=(size, 2)) + 25_000.0 * t + y[:, None] for t in range(401)]
    for X in batches:
        model.decay(half_life=1.0, rows=size).partial_fit(X, y)
    for c in (0, 1):  # the batch before has the weight 2^−40, and adds 25,000² · 2^−40 to a variance
        rows = np.concatenate([batches[-2][y == c], batches[-1][y == c]]) - 1e7
        weight = np.repeat([2.0**-size, 1.0], size // 2)
        expected = np.cov(rows.T, aweights=weight, ddof=0)
        covariance = model.covariances_[c] if block else np.diag(model.var_[c])
        np.testing.assert_allclose(np.diag(covariance), np.diag(expected), rtol=1e-5)


def test_a_column_that_does_not_vary_keeps_its_pivot():
    model = GaussianNB().fit([[0.1, 5.0], [0.1, 6.0], [0.1, 7.0]], ["a", "a", "b"])
    schema, variances = model.model_.schema, model.var_
    for _ in range(50):
        model.decay(1.0)
    assert model.model_.schema is schema
    np.testing.assert_array_equal(model.var_, variances)


def stream_of(size: int, seed: int):
    """Two classes opposite each other, whose means move around a circle: after half a turn they have swapped."""
    draw = np.random.default_rng(seed)
    angle = np.linspace(0.0, 2 * np.pi, size)[:, None]
    y = draw.integers(0, 2, size)
    centre = np.where(y[:, None] == 1, 1.0, -1.0) * np.hstack([np.cos(angle), np.sin(angle)])
    return draw.normal(size=(size, 2)) + centre, y


@pytest.mark.slow
@pytest.mark.parametrize("model", [GaussianNB(), LinearDiscriminantAnalysis()], ids=["columns", "block"])
def test_in_a_drifting_stream_decay_wins(model):
    """Each batch is predicted before it is learned. A rule that knows the angle has an accuracy of Φ(1) = 84 %."""
    X, y = stream_of(6000, 0)
    right = {}
    for half_life in (np.inf, 200.0):
        learned, hits = copy.deepcopy(model), []
        for start in range(0, 6000, 50):
            part = slice(start, start + 50)
            if start:
                hits.append(np.mean(learned.predict(X[part]) == y[part]))
            learned.decay(half_life, rows=50).partial_fit(X[part], y[part])
        right[half_life] = np.mean(hits)
    assert right[200.0] > 0.8
    assert right[np.inf] < 0.7


def test_texts_whose_words_change_sides_are_followed():
    draw = np.random.default_rng(0)

    def batch(flip: bool):
        y = draw.integers(0, 2, 60)
        texts = [" ".join(draw.choice(["cash", "win"] if bool(c) != flip else ["noon", "room"], 3)) for c in y]
        return texts, np.array(["ham", "spam"])[y]

    scores = {}
    for half_life in (np.inf, 60.0):
        for settings in ({}, {"reliability": None}):
            model = TextClassifier(**settings)
            for t in range(12):
                texts, labels = batch(flip=t >= 8)
                model.decay(half_life, rows=60).partial_fit(texts, labels)
            texts, labels = batch(flip=True)
            scores[half_life, len(settings)] = model.score(texts, labels)
    assert all(score == (half_life < np.inf) for (half_life, _), score in scores.items())
