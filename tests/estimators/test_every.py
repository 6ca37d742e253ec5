"""What holds for every public estimator in `deciban.__all__`."""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter

import numpy as np
import pytest
from every import ESTIMATORS, READS, made, rows_for
from sklearn.base import clone

import deciban
from deciban.errors import DecibanError, ForgetError

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
    values = list(row.values())  # in the order of the columns: no warning that they have no names
    for explain in (model.explain, deciban.read(tmp_path / "model").explain):
        for one in (frame.iloc[5], with_label.iloc[5], row, frame.iloc[5:6], values, tuple(values)):
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
    pd = pytest.importorskip("pandas")
    row = {"text": X[5], "label": "ham"}
    for one in (X[5], X[5].encode(), [X[5]], row, {"message": X[5]}, {"text": [X[5]]}, pd.Series(row)):
        assert model.explain(one).total == pytest.approx(model.explain(X[5:7])[0].total)
    assert len(model.explain(pd.Series(X[5:7], index=["a", "b"]))) == 2, "a column of texts, whatever its index"


@pytest.mark.parametrize("name", ["TextClassifier", "Classifier", "NaiveBayes", "GaussianNB"])
def test_what_cannot_be_explained_is_named(name, tmp_path):
    X, y = rows_for(name)
    given = X if name == "TextClassifier" else frame_of(X)
    model = made(name).fit(given, y)
    model.save(tmp_path / "model")
    if name == "TextClassifier":
        wrong = {"no text": [], "3, a int": 3, "None": None, "'a', 'b'": {"a": "x", "b": "y"}}
    else:
        row = {column: given[column].iloc[5] for column in given}
        first, second, *_ = row
        rest = {column: value for column, value in row.items() if column != first}
        wrong = {"no row": given.iloc[:0], f"{first!r} is [1, 2], but {second!r}": {**row, first: [1, 2]}}
        wrong |= {f"{len(row) - 1} value": list(rest.values()), first: rest, "of type object": {**row, first: object()}}
    for explain in (model.explain, deciban.read(tmp_path / "model").explain):
        for message, one in wrong.items():
            with pytest.raises(ValueError, match=re.escape(message)):
                explain(one)


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


def test_probabilities_of_a_column_of_texts_are_of_its_library():
    texts, y = rows_for("TextClassifier")
    model = made("TextClassifier").fit(texts, y)
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for library, column in (("polars", pl.Series(texts)), ("pyarrow", pa.array(texts)), ("pandas", texts)):
        frame = model.predict_proba(column, as_frame=True)
        assert type(frame).__module__.partition(".")[0] == library
        np.testing.assert_array_equal(np.asarray(frame["spam"]), model.predict_proba(texts)[:, 1])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("name", ["Classifier", "TextClassifier", "SpamFilter", "GaussianNB"])
def test_frames_can_be_the_default(name, library):
    pytest.importorskip(library)
    X, y = rows_for(name)
    model = made(name).fit(X, y)
    expected = model.predict_proba(X)
    asked = clone(model).set_output(transform=library).fit(X, y)
    frame = asked.predict_proba(X)
    assert type(frame).__module__.partition(".")[0] == library
    np.testing.assert_array_equal(np.column_stack([np.asarray(frame[c]) for c in ("ham", "spam")]), expected)
    assert type(clone(asked).fit(X, y).predict_proba(X)) is type(frame), "a clone's, too"
    assert asked.decide(X).tolist() == model.decide(X).tolist()
    assert asked.predict(X).tolist() == model.predict(X).tolist()
    np.testing.assert_array_equal(asked.adapt_prior(X).model_.log_prior, model.adapt_prior(X).model_.log_prior)
    assert isinstance(asked.set_output().predict_proba(X), type(frame)), "None changes nothing"
    assert isinstance(asked.set_output(transform="default").predict_proba(X), np.ndarray)
    with pytest.raises(DecibanError, match="did you mean 'pandas'"):
        asked.set_output(transform="panda")


def test_a_transformer_keeps_the_meaning_of_set_output():
    """Linear discriminants transform: there it is about that, as in scikit-learn."""
    pytest.importorskip("pandas")
    X, y = rows_for("LinearDiscriminantAnalysis")
    model = made("LinearDiscriminantAnalysis").set_output(transform="pandas").fit(X, y)
    assert hasattr(model.transform(X), "columns")
    assert isinstance(model.predict_proba(X), np.ndarray)
