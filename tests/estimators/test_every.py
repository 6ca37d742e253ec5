"""What holds for every public estimator in `deciban.__all__`."""

from __future__ import annotations

import copy
import pickle
from collections import Counter

import numpy as np
import pytest
from every import ESTIMATORS, READS, made, rows_for
from sklearn.base import clone

import deciban
from deciban.errors import ForgetError

MODELS = sorted(set(ESTIMATORS) - {"CountVectorizer"})  # which answers with counts, and has no file
# A centroid is nearest in plain units, a filter may be unsure, and a mixture's classes are numbers.
OTHERWISE = ("NearestCentroid", "SpamFilter", "GaussianMixture")
LABELLED = sorted(set(MODELS) - {"GaussianMixture"})


@pytest.fixture(scope="module")
def learned():
    """learned(name) is a model, its rows and labels; it is learned once, and not to be changed."""
    kept = {}

    def get(name):
        if name not in kept:
            X, y = rows_for(name)
            kept[name] = made(name).fit(X, y), X, y
        return kept[name]

    return get


def test_every_estimator_is_looked_at():
    """A new one is listed in tests/every.py, once."""
    assert Counter(list(ESTIMATORS)) == Counter(name for names in READS.values() for name in names)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_an_estimator_and_nothing_in_between(name):
    own = [kind.__name__ for kind in getattr(deciban, name).__mro__ if kind.__module__.startswith("deciban.")]
    assert own == [name, "Estimator"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_is_a_value_of_its_parameters(name):
    model = made(name)
    again = clone(model)
    assert again is not model
    assert repr(again) == repr(model)
    assert type(model)(**model.get_params()).get_params().keys() == model.get_params().keys()


@pytest.mark.parametrize("name", MODELS)
def test_it_answers_in_probabilities(name, learned):
    model, X, y = learned(name)
    proba = model.predict_proba(X)
    assert proba.shape == (60, len(model.classes_) if name in LABELLED else proba.shape[1])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (proba >= 0).all()
    if name in LABELLED:
        assert model.classes_.tolist() == ["ham", "spam"]
        assert (model.classes_[proba.argmax(axis=1)] == y).mean() > 0.7, "there is something to learn"
    if name not in OTHERWISE:
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_copied_pickled_and_saved_it_is_the_same(name, learned, tmp_path):
    model, X, _ = learned(name)
    model.save(tmp_path / "model")
    expected = model.predict_proba(X)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), deciban.load(tmp_path / "model")):
        assert type(again) is type(model)
        np.testing.assert_array_equal(again.predict_proba(X), expected)


@pytest.mark.parametrize("name", LABELLED)
def test_it_says_why(name, learned):
    model, X, _ = learned(name)
    first = {key: column[:1] for key, column in X.items()} if isinstance(X, dict) else X[:1]
    why = model.explain(first)
    assert "ham" in repr(why)
    assert "dB" in repr(why)


@pytest.mark.parametrize("name", LABELLED)
def test_learning_changes_no_rows(name):
    X, y = rows_for(name)
    before = copy.deepcopy(X), y.copy()
    made(name).fit(X, y)
    np.testing.assert_array_equal(y, before[1])
    if isinstance(X, dict):
        assert X == before[0]
    else:
        np.testing.assert_array_equal(X, before[0])


@pytest.mark.parametrize("name", LABELLED)
def test_what_was_learned_apart_can_be_taken_away_again(name, learned):
    model, X, y = learned(name)
    some = {key: column[:6] for key, column in X.items()} if isinstance(X, dict) else X[:6]
    if model.model_.why_inexact:
        with pytest.raises(ForgetError, match="subtracted"):
            _ = model - model
        return
    part = model.empty().partial_fit(some, y[:6])
    both = model + part
    rest = both - part
    np.testing.assert_allclose(rest.class_count_, model.class_count_)
    np.testing.assert_allclose(rest.predict_proba(X), model.predict_proba(X), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose((model - part).predict_proba(X), copy.copy(model).forget(some, y[:6]).predict_proba(X))
    np.testing.assert_allclose(both.class_count_.sum(), model.class_count_.sum() + 6)
    with pytest.raises(ForgetError):
        _ = part - model
    with pytest.raises(TypeError):
        _ = model - 1
