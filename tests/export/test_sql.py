"""SQL that scores rows is run, in DuckDB and SQLite (and PostgreSQL, where there is one), and says what the model says.

Tolerance: scores are sums of the same doubles in another order, of a few hundred terms up to a few hundred nats, each
rounded to 2⁻⁵² of itself; a probability is off by as much as its log-odds. That is below 1e-10.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban import (
    CategoricalNB,
    Classifier,
    ComplementNB,
    GaussianDiscriminant,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MultinomialNB,
    NaiveBayes,
    NearestCentroid,
    QuadraticDiscriminantAnalysis,
    TextClassifier,
    TreeAugmentedNB,
)
from deciban.dialects import FORMULAS
from deciban.errors import DecibanError
from deciban.estimators.exported import formula_of
from deciban.export import sql
from deciban.families import Multinomial
from deciban.pool import Pool

from .cases import BASES, MAKERS, case, in_duckdb, in_sqlite, reals, strange

pytestmark = [
    pytest.mark.filterwarnings("ignore::deciban.errors.ZeroEvidenceWarning"),
    pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning"),
]
CLOSE = 1e-10


def with_key(frame):
    return frame.assign(key=np.arange(len(frame))[::-1])


def answers(model, frame, base, run=None, **how):
    """Probabilities and labels in the order of the rows."""
    statement = model.to_sql("data", base, output="all", keep=["key"], **how)
    found = (run or BASES[base])(statement, with_key(frame)).sort_values("key", ascending=False)
    assert found.columns.tolist() == ["key", *(f"proba_{label}" for label in model.classes_), "label"]
    return found.iloc[:, 1:-1].to_numpy(dtype=float), found["label"].to_numpy()


def check(model, X, frame, base, run=None, **how):
    """Probabilities to the tolerance, the same labels where two are not as likely; nothing where rows are `strange`."""
    said, labels = answers(model, frame, base, run, **how)
    expected, none = model.predict_proba(X), strange(model, X)
    assert np.isnan(said[none]).all()
    assert np.abs(said - expected)[~none].max(initial=0.0) <= CLOSE
    top = np.sort(expected, axis=1)
    clear = (top[:, -1] - top[:, -2] > CLOSE) if expected.shape[1] > 1 else np.ones(len(expected), dtype=bool)
    clear &= ~none
    assert (labels[clear].astype(model.classes_.dtype) == model.predict(X)[clear]).all()
    return none


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", MAKERS)
def test_a_database_says_what_the_model_says(name, base):
    one = case(name)
    check(one.model, one.X, one.frame, base)


TABLES = [
    (GaussianNB(), "letter", "numbers"),
    (LinearDiscriminantAnalysis(), "vehicle", "numbers"),
    (QuadraticDiscriminantAnalysis(), "pima", "numbers"),
    (GaussianDiscriminant(), "glass", "numbers"),
    (MultinomialNB(), "spambase", "numbers"),
    (CategoricalNB(), "mushroom", "categories"),
    (TreeAugmentedNB(), "voting", "categories"),
    (NaiveBayes(), "adult", "both"),
    (NaiveBayes(), "credit_approval", "both"),
    (Classifier(n_jobs=1), "hepatitis", "both"),
    pytest.param(Classifier(n_jobs=1), "heart_cleveland", "both", marks=pytest.mark.slow),
    pytest.param(Classifier(n_jobs=1), "zoo", "both", marks=pytest.mark.slow),
]


@pytest.mark.slow_where("letter|vehicle|pima|spambase|credit")  # models of every kind are asked above
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("model", "name", "what"), TABLES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_on_real_tables(table, model, name, what, base):
    """Learned from half of the rows, asked about others: with holes, and with categories that were never seen."""
    data, rng = table(name), np.random.default_rng(0)
    parts = []
    if what != "categories" and data.numbers is not None:
        parts.append(pd.DataFrame(data.numbers, columns=data.numeric))
    if what != "numbers" and data.nominal:
        parts.append(pd.DataFrame(data.categories, columns=data.nominal))
    frame = pd.concat(parts, axis=1)
    rows = rng.permutation(len(frame))[:900]
    some = len(rows) * 2 // 3
    learn, ask = frame.iloc[rows[:some]], frame.iloc[rows[some:]].reset_index(drop=True)
    words = [name for name in data.nominal if not str(frame[name].dropna().iloc[0]).isdigit()]
    if what != "numbers" and words:
        ask.loc[::5, words[0]] = "never seen"
    if isinstance(model, NaiveBayes | Classifier):
        check(model.fit(learn, data.y[rows[:some]]), ask, ask, base)
    else:
        X = ask.to_numpy()
        named = {f"x{j}": column for j, column in enumerate(frame.columns)}
        check(model.fit(learn.to_numpy(), data.y[rows[:some]]), X, ask, base, columns=named)


# ------------------------------------------------------------------ what is missing, and what is impossible


@pytest.mark.parametrize("base", BASES)
def test_where_columns_depend_on_each_other_a_gap_has_no_answer(base):
    X, y = reals(np.random.default_rng(0))
    model = LinearDiscriminantAnalysis().fit(X, y)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])
    frame.loc[3, "x2"] = np.nan
    said, labels = answers(model, frame, base)
    assert np.isnan(said[3]).all()
    assert pd.isna(labels[3])
    assert np.isfinite(np.delete(said, 3, axis=0)).all()


@pytest.mark.parametrize("base", BASES)
def test_what_no_class_can_have_said_is_answered_by_the_prior(base):
    model = MultinomialNB(alpha=0.0).fit([[1, 0, 2], [0, 1, 0], [1, 1, 0]], ["a", "b", "b"])
    said, labels = answers(model, pd.DataFrame([[0, 1, 1]], columns=["x0", "x1", "x2"]), base)
    np.testing.assert_allclose(said, [[1 / 3, 2 / 3]])
    assert labels.tolist() == ["b"]


def test_what_says_that_nothing_is_there():
    """A NaN in DuckDB is missing as a NULL is; so are texts that the table's own rules call missing."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 9.0] * 10, "c": ["a", "b", "b", None] * 10})
    model = Classifier(n_jobs=1).fit(frame, np.arange(40) % 2)
    asked = pd.DataFrame({"x": [np.nan, 2.0, 2.0, 2.0], "c": ["a", "?", " NaN\n", ""]})
    check(model, asked, asked, "duckdb")
    statement = model.to_sql("t")
    values = "(VALUES ('nan'::DOUBLE, 'a'), (NULL, 'a')) AS t(x, c)"
    one, two = duckdb.sql(statement.replace('"t" AS t', f"(SELECT * FROM {values}) AS t")).fetchall()
    assert one == two


# ------------------------------------------------------------------ hostile names

NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=8)
HOSTILE = [
    '"',
    "''",
    "\\",
    "a\\'b",
    "x; DROP TABLE data; --",
    "\n",
    "step1",
    "c0",
    "t",
    "label",
    "select",
    "é",
    "雪",
    "🦆",
]


@given(
    columns=st.lists(NAMES | st.sampled_from(HOSTILE), min_size=2, max_size=3, unique_by=str.lower),
    values=st.lists(st.text(max_size=6) | st.sampled_from(HOSTILE), min_size=2, max_size=4, unique=True),
    labels=st.lists(NAMES | st.sampled_from(HOSTILE), min_size=2, max_size=3, unique_by=str.lower),
    name=NAMES | st.sampled_from(HOSTILE),
)
def test_names_cannot_break_out(columns, values, labels, name):
    """Whatever columns, categories, labels and the table are called."""
    held = [v for v in values if "\0" not in v and v.isprintable()] or ["a"]
    rng = np.random.default_rng(0)
    X = rng.choice(np.array(values, dtype=object), (12, len(columns)))
    y = np.array(labels, dtype=object)[np.arange(12) % len(labels)]
    model = CategoricalNB().fit(X, y)
    asked = rng.choice(np.array([*held, "never"], dtype=object), (6, len(columns)))
    frame = pd.DataFrame(asked, columns=columns)
    for run, base in ((in_duckdb, "duckdb"), (in_sqlite, "sqlite")):
        statement = model.to_sql(name, base, columns=columns, output="all")
        found = run(statement, frame, name)
        assert np.abs(found.iloc[:, :-1].to_numpy(dtype=float) - model.predict_proba(asked)).max() <= CLOSE
        assert set(found["label"]) <= set(labels)


@pytest.mark.parametrize("bad", ["", "a\0b", "\ud800"])
def test_names_that_no_database_has(bad):
    model = GaussianNB().fit([[1.0], [2.0]], [0, 1])
    for how in ({"columns": {"x0": bad}}, {"table": bad}, {"keep": [bad]}):
        with pytest.raises(DecibanError, match="cannot be the name"):
            model.to_sql(**how)


@pytest.mark.parametrize("base", BASES)
def test_a_category_that_a_statement_cannot_hold_as_it_is(base):
    model = CategoricalNB().fit(np.array([["a\0b"], ["\ud800"], ["c"]], dtype=object), [0, 1, 2])
    asked = np.array([["a\0b"], ["c"]], dtype=object)
    check(model, asked, pd.DataFrame(asked, columns=["x0"]), base)


# ------------------------------------------------------------------ large models


@pytest.mark.parametrize("base", ["sqlite", pytest.param("duckdb", marks=pytest.mark.slow)])
def test_deep_trees(base):
    """Labels that are mere noise make trees as deep as they get, and SQLite's parser is not."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    model = only(Classifier(n_jobs=1).fit(frame, rng.random(200) < 0.5), "trees")
    forest = formula_of(model).scores.parts[1].term
    assert max(depths(forest)) > FORMULAS["sqlite"].deepest
    check(model, frame, frame, base)


def only(model, name):
    """The model with one of its experts alone."""
    weights = [float(expert.name == name) for expert in model.model_.experts]
    weights += [0.0] * len(model.model_.encoding.names)
    model.model_ = replace(model.model_, pool=Pool(np.array(weights), model.model_.pool.offsets))
    return model


def depths(forest):
    deep = np.zeros(len(forest.place), dtype=int)
    for node in np.flatnonzero(forest.place >= 0):  # parents come first
        deep[forest.left[node]] = deep[forest.right[node]] = deep[node] + 1
    return deep


def test_models_too_large_are_refused_before_they_are_written():
    model = GaussianNB().fit(np.random.default_rng(0).normal(size=(4, sql.MOST_NUMBERS // 6 + 1)), [0, 1, 0, 1])
    with pytest.raises(DecibanError, match=r"about 400,00\d numbers .* fewer columns"):
        model.to_sql()


def test_sums_are_never_deep():
    """Databases stop at expressions a thousand deep: many words are added up in a balanced way."""
    X = np.random.default_rng(0).poisson(0.2, (6, 400))
    model = MultinomialNB().fit(X, np.arange(6) % 2)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(400)])
    with duckdb.connect(config={"threads": 1}) as base:
        base.register("data", frame)
        base.execute("SET max_expression_depth TO 60")
        said = np.array(base.execute(model.to_sql()).fetchall())
    assert np.abs(said - model.predict_proba(X)).max() <= CLOSE


# ------------------------------------------------------------------ asking wrongly


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"dialect": "oracle"}, "dialect is 'oracle': it must be one of 'duckdb', 'postgresql', 'sqlite'"),
        ({"output": "everything"}, "output is 'everything'"),
        ({"columns": ["a", "b"]}, "columns must be 1 names"),
        ({"columns": {"y": "a"}}, "'y', which is no feature"),
        ({"keep": ["id", "ID"]}, "same name"),
    ],
)
def test_what_cannot_be_asked_for(how, message):
    with pytest.raises(DecibanError, match=message):
        GaussianNB().fit([[1.0], [2.0]], [0, 1]).to_sql(**how)


def test_models_that_cannot_be_put_into_sql():
    X, y = [[1, 0], [0, 2], [3, 1]], [0, 1, 1]
    predictive = NaiveBayes({(0, 1): Multinomial(predictive=True)}).fit(np.array(X), y)
    with pytest.raises(DecibanError, match="predictive=False"):
        predictive.to_sql()
    with pytest.raises(DecibanError, match="alpha > 0"):
        ComplementNB(alpha=0.0).fit([[1, 0], [0, 2]], [0, 1]).to_sql()
    with pytest.raises(DecibanError, match="metric='euclidean'"):
        NearestCentroid(metric="manhattan").fit(X, y).to_sql()
    with pytest.raises(DecibanError, match="TextClassifier reads texts"):
        TextClassifier().fit(["a good one", "a bad one"] * 5, [0, 1] * 5).to_sql()


def test_an_expert_that_cannot_be_put_into_sql_is_named():
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(["good", "bad", "fine", "awful", "nice", "day"], 6)) for _ in range(60)]
    y = ["good" in text for text in words]
    model = Classifier(n_jobs=1, schema={"review": "text"}).fit({"review": words, "n": np.arange(60) % 7}, y)
    with pytest.raises(DecibanError, match=r"expert of words .* schema=\{'review': 'skip'\}"):
        model.to_sql()


def test_a_table_in_a_schema():
    model = GaussianNB().fit([[1.0], [2.0]], [0, 1])
    assert 'FROM "main"."data" AS t' in model.to_sql(["main", "data"])
