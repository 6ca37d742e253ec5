"""Graphs run by onnxruntime give the model's probabilities, in double precision.

Tolerance: 1e-5 is promised. Everything is added up in doubles, in another order, and trees only return the node where a
row ends; so 1e-10 is required, as of SQL.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from deciban import (
    BernoulliNB,
    CategoricalNB,
    Classifier,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MultinomialNB,
    NaiveBayes,
)
from deciban.errors import DecibanError
from deciban.export.onnx import to_onnx
from deciban.formula import Formula, Input, Scores, SplitTrees, WeightedTerm

from .cases import MAKERS, case, reals, unscorable

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

pytestmark = [
    pytest.mark.filterwarnings("ignore::deciban.errors.ZeroEvidenceWarning"),
    pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning"),
]
TOLERANCE = 1e-10
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def run(model, frame, **how):
    """Labels and probabilities of a table's rows."""
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = 1
    graph = model.to_onnx(**how)
    session = runtime.InferenceSession(graph.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    assert [one.name for one in session.get_outputs()] == ["label", "probabilities"]
    if [one.name for one in inputs] == ["X"]:
        assert inputs[0].type == "tensor(double)"
        feed = {"X": frame.to_numpy(dtype=float)}
    else:
        feed = {one.name: input_values(frame, one) for one in inputs}
    return session.run(["label", "probabilities"], feed)


def input_values(frame, node):
    """A column as an input takes it, (n, 1)."""
    name, _, part = node.name.partition(" (")
    column = frame[name]
    if part:  # of a date
        names, at = (MONTHS, column.dt.month - 1) if part == "month)" else (DAYS, column.dt.day_of_week)
        values = ["" if pd.isna(i) else names[int(i)] for i in at]
    elif column.dtype.kind == "M":
        values = (column - pd.Timestamp(0)) / pd.Timedelta(1, "D")
    elif node.type == "tensor(string)":
        values = ["" if pd.isna(value) else str(value) for value in column]
    else:
        values = (
            column.astype(float)
            if column.dtype != "boolean"
            else column.astype("Float64").to_numpy(float, na_value=np.nan)
        )
    kind = object if node.type == "tensor(string)" else np.float64
    return np.asarray(values, dtype=kind).reshape(-1, 1)


def check(model, X, frame, **how):
    labels, proba = run(model, frame, **how)
    expected, unscored = model.predict_proba(X), unscorable(model, X)
    assert np.isnan(proba[unscored]).all()
    assert np.abs(proba - expected)[~unscored].max(initial=0.0) <= TOLERANCE
    top = np.sort(expected, axis=1)
    clear = (top[:, -1] - top[:, -2] > TOLERANCE) if expected.shape[1] > 1 else np.ones(len(expected), dtype=bool)
    clear &= ~unscored
    assert (labels.astype(model.classes_.dtype)[clear] == model.predict(X)[clear]).all()


@pytest.mark.parametrize("name", MAKERS)
def test_a_graph_gives_the_models_probabilities(name):
    one = case(name)
    check(one.model, one.X, one.frame)


REAL = [
    (GaussianNB(), "letter"),
    (NaiveBayes(), "credit_approval"),
    (Classifier(n_jobs=1), "heart_cleveland"),
    (Classifier(n_jobs=1), "hepatitis"),
    (Classifier(n_jobs=1), "car"),
    (Classifier(n_jobs=1), "adult"),
]


@pytest.mark.slow_where("letter|heart|adult|car")  # models of every kind are asked above
@pytest.mark.parametrize(("model", "name"), REAL, ids=str)
def test_on_real_tables(table, model, name):
    data, rng = table(name), np.random.default_rng(0)
    parts = [pd.DataFrame(data.numbers, columns=data.numeric)] if data.numeric else []
    words = [] if isinstance(model, GaussianNB) else data.nominal
    parts += [pd.DataFrame(data.categories, columns=data.nominal)] if words else []
    frame = pd.concat(parts, axis=1)
    rows = rng.permutation(len(frame))[:900]
    some = len(rows) * 2 // 3
    learn, ask = frame.iloc[rows[:some]], frame.iloc[rows[some:]].reset_index(drop=True)
    words = [column for column in words if not str(frame[column].dropna().iloc[0]).isdigit()]
    if words:
        ask.loc[::5, words[0]] = "never seen"
    if isinstance(model, GaussianNB):
        check(model.fit(learn.to_numpy(), data.y[rows[:some]]), ask.to_numpy(), ask)
    else:
        check(model.fit(learn, data.y[rows[:some]]), ask, ask)


@pytest.mark.parametrize("make", [BernoulliNB, CategoricalNB])
def test_columns_of_the_same_kind_share_nodes(make):
    """A runtime takes seconds to open a graph with nodes for each of hundreds of columns."""
    X = np.random.default_rng(0).integers(0, 3, (40, 300)).astype(float)
    X[:, 10::2] = X[:, 10::2] > 0  # with fewer values
    few, many = (make().fit(X[:, :d], np.arange(40) % 3) for d in (30, 300))
    assert len(many.to_onnx().graph.node) == len(few.to_onnx().graph.node)
    X[::7, ::5] = np.nan
    check(many, X, pd.DataFrame(X))


def test_far_from_zero_no_digits_are_lost():
    """A mean of 1e9 and a spread of 1: single precision could not distinguish any two rows."""
    X, y = reals(np.random.default_rng(0), far=1e9)
    for model in (GaussianNB(), LinearDiscriminantAnalysis()):
        _, proba = run(model.fit(X, y), pd.DataFrame(X))
        assert np.abs(proba - model.predict_proba(X)).max() <= TOLERANCE
        assert proba.max(axis=0).min() > 0.9


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(["a", "é", "雪"], "tensor(string)"), ([3, 5, -1], "tensor(int64)"), ([False, True], "tensor(bool)"),
     ([0.0, 1.0], "tensor(double)")],
)  # fmt: skip
def test_labels_keep_their_type(labels, kind):
    rng = np.random.default_rng(0)
    y = np.array(labels)[np.arange(30) % len(labels)]
    X = rng.normal(size=(30, 2)) + 3 * (np.arange(30) % len(labels))[:, None]
    model = GaussianNB().fit(X, y)
    session = runtime.InferenceSession(model.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].type == kind
    assert run(model, pd.DataFrame(X))[0].tolist() == model.predict(X).tolist()


def test_a_gap_where_columns_depend_on_each_other_has_no_answer():
    X, y = reals(np.random.default_rng(0))
    model = LinearDiscriminantAnalysis().fit(X, y)
    X[3, 2] = np.nan
    _, proba = run(model, pd.DataFrame(X))
    assert np.isnan(proba[3]).all()
    assert np.isfinite(np.delete(proba, 3, axis=0)).all()


def test_rows_impossible_in_every_class_get_the_prior():
    model = MultinomialNB(alpha=0.0).fit([[1, 0, 2], [0, 1, 0], [1, 1, 0]], ["a", "b", "b"])
    labels, proba = run(model, pd.DataFrame([[0, 1, 1]]))
    np.testing.assert_allclose(proba, [[1 / 3, 2 / 3]])
    assert labels.tolist() == ["b"]


def test_trees_without_a_split():
    """Two trees of one leaf each give every row the same score."""
    values = np.log([[0.5, 0.2], [0.4, 0.5]])
    none = np.full(2, -1, dtype=np.int32)
    trees = SplitTrees((0, 1, 2), none, none, none, (np.zeros(0, dtype=bool),) * 2, {}, values)
    scores = Scores((WeightedTerm(trees),), np.zeros(2))
    formula = Formula(np.array(["a", "b"]), (Input("x"),), (), (), scores, np.log([0.5, 0.5]), ("x",))
    session = runtime.InferenceSession(to_onnx(formula).SerializeToString(), providers=["CPUExecutionProvider"])
    _, proba = session.run(None, {"X": np.zeros((3, 1))})
    np.testing.assert_allclose(proba, [[2 / 3, 1 / 3]] * 3)


def test_inputs_can_be_called_something_else():
    frame = pd.DataFrame({"label": ["a", "b"] * 5, "_v1": [1.0, 2.0] * 5})
    model = NaiveBayes().fit(frame, [0, 1] * 5)
    with pytest.raises(DecibanError, match="called 'label', as an output of the graph is"):
        model.to_onnx()
    check(model, frame, frame.rename(columns={"label": "what"}), columns={"label": "what"})
    with pytest.raises(DecibanError, match="name of an input"):
        model.to_onnx(columns={"label": ""})


def test_categories_with_lone_surrogates_are_left_out():
    model = CategoricalNB().fit(np.array([["\ud800"], ["b"]], dtype=object), [0, 1])
    check(model, np.array([["b"], ["c"]], dtype=object), pd.DataFrame({"x0": ["b", "c"]}))


def test_without_onnx_it_says_how_to_get_it(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "onnx":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.delitem(__import__("sys").modules, "onnx", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(ImportError, match=r"to_onnx needs onnx.*pip install"):
        GaussianNB().fit([[1.0], [2.0]], [0, 1]).to_onnx()
