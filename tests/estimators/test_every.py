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


def frame_of(X):
    """Rows as a pandas frame with columns of names."""
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(X if isinstance(X, dict) else {f"c{j}": column for j, column in enumerate(X.T)})


@pytest.mark.parametrize("name", [name for name in LABELLED if name not in ("TextClassifier", "SpamFilter")])
def test_one_row_in_any_form_is_explained(name, tmp_path):
    """A Series, a dict, values alone, a table of one row: all the same, from the estimator and from its file."""
    X, y = rows_for(name)
    frame = frame_of(X)
    model = made(name).fit(frame, y)
    model.save(tmp_path / "model")
    expected = model.explain(frame.iloc[5:6])
    with_label = frame.assign(label=y)
    row = {column: frame[column].iloc[5] for column in frame}
    for explain in (model.explain, deciban.read(tmp_path / "model").explain):
        for one in (frame.iloc[5], with_label.iloc[5], row, frame.iloc[5:6]):
            why = explain(one)
            assert why.total == pytest.approx(expected.total, rel=1e-9), type(one)
            assert [item for item, *_ in why.items] == [item for item, *_ in expected.items]
        assert len(explain(frame.iloc[5:7])) == 2
    if isinstance(X, dict):
        return
    unnamed = made(name).fit(X, y)
    unnamed.save(tmp_path / "model")
    for explain in (unnamed.explain, deciban.read(tmp_path / "model").explain):
        for one in (X[5], list(X[5]), tuple(X[5]), X[5:6], frame.iloc[5].rename(dict(zip(frame, "abc", strict=True)))):
            assert explain(one).total == pytest.approx(expected.total, rel=1e-9), type(one)


@pytest.mark.parametrize("name", ["TextClassifier", "SpamFilter"])
def test_one_text_in_any_form_is_explained(name, learned):
    model, X, _ = learned(name)
    for one in (X[5], X[5].encode(), [X[5]]):
        assert model.explain(one).total == pytest.approx(model.explain(X[5:7])[0].total)


@pytest.mark.parametrize("name", LABELLED)
def test_what_evidence_is_listed_by(name, learned):
    model, X, _ = learned(name)
    first = {key: column[:1] for key, column in X.items()} if isinstance(X, dict) else X[:1]
    assert (
        model.explain(first, by="column").items == model.explain(first, by="word").items == model.explain(first).items
    )
    assert model.explain(first, by="item").total == pytest.approx(model.explain(first).total, abs=1e-9)
    with pytest.raises(ValueError, match="'pair'"):
        model.explain(first, by="pair")
    if name == "Classifier":
        assert model.explain(first, by="expert").total == pytest.approx(model.explain(first).total)
    else:
        with pytest.raises(ValueError, match="no experts"):
            model.explain(first, by="expert")


@pytest.mark.parametrize("name", LABELLED)
def test_probabilities_as_a_frame_have_the_classes_as_names(name, learned, tmp_path):
    pd = pytest.importorskip("pandas")
    model, X, y = learned(name)
    model.save(tmp_path / "model")
    for answer in (model.predict_proba, deciban.read(tmp_path / "model").predict_proba):
        assert isinstance(answer(X), np.ndarray)
        frame = answer(X, as_frame=True)
        assert frame.columns.tolist() == ["ham", "spam"]
        np.testing.assert_array_equal(frame.to_numpy(), model.predict_proba(X))
    index = pd.Index([f"r{i}" for i in range(len(y))])
    given = pd.Series(X, index=index) if isinstance(X, list) else frame_of(X).set_index(index)
    own = made(name).fit(given, y).predict_proba(given, as_frame=True)
    assert own.index.equals(index)


def test_probabilities_as_a_frame_are_of_the_library_of_the_rows():
    X, y = rows_for("Classifier")
    model = made("Classifier").fit(X, y)
    for library, make in (("polars", "DataFrame"), ("pyarrow", "table")):
        module = pytest.importorskip(library)
        frame = model.predict_proba(getattr(module, make)(X), as_frame=True)
        assert type(frame).__module__.partition(".")[0] == library
        np.testing.assert_array_equal(np.asarray(frame["spam"]), model.predict_proba(X)[:, 1])
