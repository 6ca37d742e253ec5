"""SQL that scores rows gives the model's probabilities in DuckDB and SQLite (and PostgreSQL, where there is one).

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
from deciban.dialects import FORMULA_DIALECTS
from deciban.errors import DecibanError
from deciban.estimators.exported import formula_of
from deciban.export import sql
from deciban.families import Multinomial
from deciban.pool import Pool

from .cases import DATABASES, MAKERS, case, in_duckdb, in_sqlite, reals, unscorable

pytestmark = [
    pytest.mark.filterwarnings("ignore::deciban.errors.ZeroEvidenceWarning"),
    pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning"),
]
TOLERANCE = 1e-10


def with_key(frame):
    return frame.assign(key=np.arange(len(frame))[::-1])


def answers(model, frame, base, run=None, **how):
    """Probabilities and labels in the order of the rows."""
    statement = model.to_sql("data", base, output="all", keep=["key"], **how)
    result = (run or DATABASES[base])(statement, with_key(frame)).sort_values("key", ascending=False)
    assert result.columns.tolist() == ["key", *(f"proba_{label}" for label in model.classes_), "prediction"]
    return result.iloc[:, 1:-1].to_numpy(dtype=float), result["prediction"].to_numpy()


def check(model, X, frame, base, run=None, **how):
    """Probabilities to the tolerance, the same labels unless two are as likely; NULL where rows are `unscorable`."""
    proba, labels = answers(model, frame, base, run, **how)
    expected, unscored = model.predict_proba(X), unscorable(model, X)
    assert np.isnan(proba[unscored]).all()
    assert np.abs(proba - expected)[~unscored].max(initial=0.0) <= TOLERANCE
    top = np.sort(expected, axis=1)
    clear = (top[:, -1] - top[:, -2] > TOLERANCE) if expected.shape[1] > 1 else np.ones(len(expected), dtype=bool)
    clear &= ~unscored
    assert (labels[clear].astype(model.classes_.dtype) == model.predict(X)[clear]).all()
    return unscored


@pytest.mark.parametrize("base", DATABASES)
@pytest.mark.parametrize("name", MAKERS)
def test_a_database_gives_the_models_probabilities(name, base):
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
    pytest.param(Classifier(n_jobs=1), "hepatitis", "both", marks=pytest.mark.slow),  # one is asked above
    pytest.param(Classifier(n_jobs=1), "heart_cleveland", "both", marks=pytest.mark.slow),
    pytest.param(Classifier(n_jobs=1), "zoo", "both", marks=pytest.mark.slow),
]


@pytest.mark.slow_where("letter|vehicle|pima|spambase|credit")  # models of every kind are asked above
@pytest.mark.parametrize("base", DATABASES)
@pytest.mark.parametrize(("model", "name", "what"), TABLES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_on_real_tables(table, model, name, what, base):
    """Learned from half of the rows, scored on others, with missing values and categories never seen."""
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


@pytest.mark.parametrize("base", DATABASES)
def test_where_columns_depend_on_each_other_a_gap_has_no_answer(base):
    X, y = reals(np.random.default_rng(0))
    model = LinearDiscriminantAnalysis().fit(X, y)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])
    frame.loc[3, "x2"] = np.nan
    proba, labels = answers(model, frame, base)
    assert np.isnan(proba[3]).all()
    assert pd.isna(labels[3])
    assert np.isfinite(np.delete(proba, 3, axis=0)).all()


@pytest.mark.parametrize("base", DATABASES)
def test_rows_impossible_in_every_class_get_the_prior(base):
    model = MultinomialNB(alpha=0.0).fit([[1, 0, 2], [0, 1, 0], [1, 1, 0]], ["a", "b", "b"])
    proba, labels = answers(model, pd.DataFrame([[0, 1, 1]], columns=["x0", "x1", "x2"]), base)
    np.testing.assert_allclose(proba, [[1 / 3, 2 / 3]])
    assert labels.tolist() == ["b"]


def test_texts_and_numbers_that_mean_missing():
    """A NaN in DuckDB is missing as a NULL is; so are texts that the table's own rules call missing."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 9.0] * 10, "c": ["a", "b", "b", None] * 10})
    model = Classifier(n_jobs=1).fit(frame, np.arange(40) % 2)
    scored = pd.DataFrame({"x": [np.nan, 2.0, 2.0, 2.0], "c": ["a", "?", " NaN\n", ""]})
    check(model, scored, scored, "duckdb")
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
    storable = [v for v in values if "\0" not in v and v.isprintable()] or ["a"]
    rng = np.random.default_rng(0)
    X = rng.choice(np.array(values, dtype=object), (12, len(columns)))
    y = np.array(labels, dtype=object)[np.arange(12) % len(labels)]
    model = CategoricalNB().fit(X, y)
    scored = rng.choice(np.array([*storable, "never"], dtype=object), (6, len(columns)))
    frame = pd.DataFrame(scored, columns=columns)
    for run, base in ((in_duckdb, "duckdb"), (in_sqlite, "sqlite")):
        statement = model.to_sql(name, base, columns=columns, output="all")
        result = run(statement, frame, name)
        assert np.abs(result.iloc[:, :-1].to_numpy(dtype=float) - model.predict_proba(scored)).max() <= TOLERANCE
        assert set(result["prediction"]) <= set(labels)


@pytest.mark.parametrize("bad", ["", "a\0b", "\ud800"])
def test_names_that_no_database_has(bad):
    model = GaussianNB().fit([[1.0], [2.0]], [0, 1])
    for how in ({"columns": {"x0": bad}}, {"table": bad}, {"keep": [bad]}):
        with pytest.raises(DecibanError, match="cannot be the name"):
            model.to_sql(**how)


@pytest.mark.parametrize("base", DATABASES)
def test_a_category_that_a_statement_cannot_hold_as_it_is(base):
    model = CategoricalNB().fit(np.array([["a\0b"], ["\ud800"], ["c"]], dtype=object), [0, 1, 2])
    scored = np.array([["a\0b"], ["c"]], dtype=object)
    check(model, scored, pd.DataFrame(scored, columns=["x0"]), base)


# ------------------------------------------------------------------ large models


@pytest.mark.parametrize("base", ["sqlite", pytest.param("duckdb", marks=pytest.mark.slow)])
def test_deep_trees(base):
    """Labels that are mere noise make trees as deep as they get, and SQLite's parser is not."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    model = only(Classifier(n_jobs=1).fit(frame, rng.random(200) < 0.5), "trees")
    forest = formula_of(model).scores.parts[1].term
    assert max(depths(forest)) > FORMULA_DIALECTS["sqlite"].max_case_depth
    check(model, frame, frame, base)


def only(model, name):
    """The model with only one of its experts."""
    weights = [float(expert.name == name) for expert in model.model_.experts]
    weights += [0.0] * len(model.model_.encoding.names)
    model.model_ = replace(model.model_, pool=Pool(np.array(weights), model.model_.pool.offsets))
    return model


def depths(forest):
    depth = np.zeros(len(forest.place), dtype=int)
    for node in np.flatnonzero(forest.place >= 0):  # parents come first
        depth[forest.left[node]] = depth[forest.right[node]] = depth[node] + 1
    return depth


def test_models_too_large_are_refused_before_they_are_written():
    model = GaussianNB().fit(np.random.default_rng(0).normal(size=(4, sql.MAX_NUMBERS // 6 + 1)), [0, 1, 0, 1])
    with pytest.raises(DecibanError, match=r"about 400,00\d numbers,.* fewer columns"):
        model.to_sql()


def test_sums_are_never_deep():
    """Databases stop at expressions a thousand deep: many words are added up in a balanced way."""
    X = np.random.default_rng(0).poisson(0.2, (6, 400))
    model = MultinomialNB().fit(X, np.arange(6) % 2)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(400)])
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("data", frame)
        connection.execute("SET max_expression_depth TO 60")
        proba = np.array(connection.execute(model.to_sql()).fetchall())
    assert np.abs(proba - model.predict_proba(X)).max() <= TOLERANCE


# ------------------------------------------------------------------ asking wrongly


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"dialect": "oracle"}, "dialect is 'oracle': it must be one of 'duckdb', 'postgresql', 'sqlite'"),
        ({"output": "everything"}, "output is 'everything'"),
        ({"columns": ["a", "b"]}, "columns must be 1 names"),
        ({"columns": {"y": "a"}}, "names 'y'"),
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
