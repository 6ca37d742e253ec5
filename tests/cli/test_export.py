"""`deciban export`: SQL in DuckDB and ONNX in onnxruntime predict what the model predicts."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

import deciban as api

from .customers import read_people
from .shell import succeeded

SQL_TOLERANCE = 1e-10  # the same doubles added up in another order: see tests/interchange
ONNX_TOLERANCE = 1e-5  # single precision inside


def scored(query: str, frame, name: str):
    """Rows with the answers beside them, in the order of `frame`."""
    with duckdb.connect(config={"threads": 1}) as base:
        base.register("rows", frame)
        base.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
        return base.execute(query).df()


@pytest.fixture(scope="module")
def simple(shop, tmp_path_factory):
    """A naive Bayes model of the table: few enough terms for any database."""
    from deciban.cli.run import run

    path = tmp_path_factory.mktemp("simple") / "nb.deciban"
    assert run(["train", str(shop.customers), "-t", "leaves", "--model", "naive-bayes", "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize("kind", [pytest.param("classifier", marks=pytest.mark.slow), "naive-bayes"])
def test_duckdb_predicts_what_the_model_predicts(kind, shop, simple, inside):
    path = shop.churn if kind == "classifier" else simple
    succeeded(inside("export", path, "-o", "model.sql", "--table", "customers"))
    frame, model = read_people(shop.customers).drop(columns="leaves"), api.load(path)
    scores = scored((inside.folder / "model.sql").read_text(), frame, "customers")
    expected = model.predict_proba(frame)
    proba = scores[[f"proba_{label}" for label in model.classes_]].to_numpy()
    np.testing.assert_allclose(proba, expected, rtol=0, atol=SQL_TOLERANCE)


def test_sql_is_printed_where_it_is_asked_for(simple, inside):
    done = succeeded(inside("export", simple, "-o", "-", "--dialect", "sqlite", "--table", "somewhere"))
    assert "somewhere" in done.out
    assert done.out.lstrip().upper().startswith(("SELECT", "WITH"))
    assert list(inside.folder.iterdir()) == []


def test_onnxruntime_predicts_what_the_model_predicts(shop, simple, inside):
    runtime = pytest.importorskip("onnxruntime")
    succeeded(inside("export", simple, "-o", "model.onnx"))
    session = runtime.InferenceSession(inside.folder / "model.onnx", providers=["CPUExecutionProvider"])
    frame, model = read_people(shop.customers).drop(columns="leaves"), api.load(simple)
    feeds = model_inputs(session, frame)
    proba = next(out for out in session.run(None, feeds) if getattr(out, "ndim", 0) == 2 and out.shape[1] == 2)
    np.testing.assert_allclose(proba, model.predict_proba(frame), rtol=0, atol=ONNX_TOLERANCE)


def model_inputs(session, frame):
    """Columns as the session takes them: (n, 1), strings with "" and numbers with NaN where missing."""
    feeds = {}
    for wanted in session.get_inputs():
        column = frame[wanted.name]
        if "string" in wanted.type:
            values = column.map(lambda v: "" if v is None or v != v else str(v)).to_numpy(dtype=object)
        elif column.dtype.kind == "M":
            values = (column - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
            values = values.to_numpy(dtype=np.float64 if "double" in wanted.type else np.float32)
        else:
            values = column.to_numpy(dtype=np.float64 if "double" in wanted.type else np.float32)
        feeds[wanted.name] = values.reshape(-1, 1)
    return feeds


def test_sql_cannot_split_texts(shop, inside):
    done = inside("export", shop.spam, "-o", "model.sql")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("deciban: error: ")
    assert "TextClassifier" in done.err
    assert list(inside.folder.iterdir()) == []


def test_onnx_reads_texts(shop, inside):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    succeeded(inside("export", shop.spam, "-o", "model.onnx"))
    texts = ["Claim your free prize now!", "lunch at noon?", ""]
    session = runtime.InferenceSession(str(inside.folder / "model.onnx"))
    labels, proba = session.run(None, {"text": np.array(texts, dtype=object)[:, None]})
    model = api.load(shop.spam)
    np.testing.assert_allclose(proba, model.predict_proba(texts), rtol=1e-9, atol=1e-12)
    assert labels.tolist() == model.predict(texts).tolist()
