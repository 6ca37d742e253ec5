"""A single row of plain values has the answer that it has in a table, however it is given."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import deciban
from deciban import Classifier, DecibanError
from deciban.reading.given import single_values

N = 400


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": np.where(rng.random(N) < 0.1, np.nan, rng.normal(size=N)),
            "rooms": rng.integers(1, 9, N),
            "flag": rng.random(N) < 0.5,
            "code": pd.Categorical(rng.integers(0, 5, N)),
            "town": rng.choice(["Ulm", "Bern", "Nice", None], N),
            "float": rng.normal(size=N).astype(np.float32),
        }
    )


@pytest.fixture(scope="module")
def model(frame):
    y = np.where(frame["size"].fillna(0) + (frame["town"] == "Ulm") + 0.3 * frame["rooms"] > 1.7, "yes", "no")
    return Classifier().fit(frame, y)


@pytest.fixture(scope="module")
def scorer(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "single.deciban"
    model.save(path)
    return deciban.read(path)


def forms(row):
    """The same row in every form in which a single row is taken."""
    series = row.iloc[0]
    yield row
    yield series
    yield series.to_dict()
    yield tuple(series)
    yield {name: value.item() if isinstance(value, np.generic) else value for name, value in series.items()}


def test_the_answers_are_those_of_the_table(model, scorer, frame):
    expected = model.predict_proba(frame[:60])
    for one in (model, scorer):
        for i in range(60):
            for row in forms(frame.iloc[[i]]):
                assert np.array_equal(one.predict_proba(row), expected[i : i + 1])
        assert one.predict(frame.iloc[3]).tolist() == model.predict(frame[3:4]).tolist()
        assert np.array_equal(one.predict_log_proba(frame.iloc[3]), model.predict_log_proba(frame[:60])[3:4])


def test_plain_values_are_read_without_a_table(model, frame):
    assert all(model.model_.single(row) is not None for i in range(20) for row in forms(frame.iloc[[i]]))


@pytest.mark.parametrize(
    "values",
    [
        {"size": "1.5"},
        {"town": "Oslo"},
        {"town": ""},
        {"town": np.nan},
        {"code": 4.0},
        {"code": "4"},
        {"code": 17},
        {"flag": 1},
        {"size": None},
        {"size": True},
        {"size": np.float32(0.1)},
        {"size": pd.NA},
        {"rooms": 10**6},
        {"town": np.str_("Ulm")},
    ],
)
def test_unusual_values_are_read_as_in_a_table(model, scorer, frame, values):
    row = {**frame.iloc[0].to_dict(), **values}
    table = {name: [value] for name, value in row.items()}
    for one in (model, scorer):
        assert np.array_equal(one.predict_proba(row), one.predict_proba(table))


@pytest.mark.parametrize("size", [np.inf, -np.inf, 10**400, 1e200])
def test_numbers_that_a_table_cannot_have_are_the_same_error(model, scorer, frame, size):
    row = {**frame.iloc[0].to_dict(), "size": size}
    for one in (model, scorer):
        answers = []
        for X in (row, {name: [value] for name, value in row.items()}):
            try:
                answers.append(one.predict_proba(X).tolist())
            except (DecibanError, ValueError, OverflowError) as error:
                answers.append(str(error))
        assert answers[0] == answers[1]


def test_a_missing_column_is_named(model, scorer, frame):
    row = frame.iloc[0].to_dict()
    del row["town"]
    for one in (model, scorer):
        with pytest.raises(DecibanError, match="'town'"):
            one.predict_proba(row)


def test_a_tuple_of_another_length_is_an_error(model, scorer):
    for one in (model, scorer):
        with pytest.raises((DecibanError, ValueError)):
            one.predict_proba((1.0, 2.0))


def test_dates_and_texts_are_read_as_columns():
    rng = np.random.default_rng(1)
    days = pd.date_range("2020-01-01", periods=300)
    y = np.where(days.month < 7, "first", "second")
    notes = [f"{word} in the {half} half" for word, half in zip(rng.choice(["a", "b"], 300), y, strict=True)]
    frame = pd.DataFrame({"day": days, "note": notes, "x": rng.normal(size=300)})
    model = Classifier(schema={"note": "text"}).fit(frame, y)
    expected = model.predict_proba(frame[:5])
    for i in range(5):
        for row in (frame.iloc[[i]], frame.iloc[i], frame.iloc[i].to_dict()):
            assert np.allclose(model.predict_proba(row), expected[i], atol=1e-12)


def test_explanations_are_those_of_the_table(model, scorer, frame):
    for one in (model, scorer):
        expected = one.explain(frame[:2])[1]
        for row in forms(frame.iloc[[1]]):
            found = one.explain(row)
            assert (found.target, found.prior, found.items) == (expected.target, expected.prior, expected.items)


def test_names_are_compared_as_in_scikit_learn():
    X = np.random.default_rng(2).normal(size=(50, 2))
    model = Classifier().fit(X, X[:, 0] > 0)
    with pytest.warns(UserWarning, match="feature names"):
        model.predict_proba(pd.DataFrame(X[:1], columns=["x0", "x1"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(model.predict_proba(tuple(X[0])), model.predict_proba(X[:1]))


def test_repeated_names_are_not_taken_for_a_row():
    assert single_values(pd.DataFrame([[1, 2]], columns=["a", "a"]), ["a", "a"]) is None
    assert single_values(pd.DataFrame({"a": [1, 2]}), ["a"]) is None
    assert single_values(pd.DataFrame({"a": [1]}), ["a"]) == {"a": 1}
