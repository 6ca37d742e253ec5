"""One file is a family: laws, leave-one-out, files, SQL, ONNX, columns of a table, sums inside a database."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom, geom

import deciban
from deciban import NaiveBayes
from deciban.engines.base import Question
from deciban.errors import DecibanError
from deciban.families import FAMILIES, Geometric
from deciban.families import geometric as written
from deciban.joint import Block, Joint
from deciban.schema import Columns, Schema


@pytest.fixture(scope="module")
def waits():
    """Numbers of failures in two columns with missing values, and a column of words."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 300)
    frame = pd.DataFrame(
        {
            "tries": rng.geometric(np.where(y == 1, 0.3, 0.6)) - 1.0,
            "days": rng.geometric(np.where(y == 1, 0.05, 0.15)) - 1.0,
            "team": rng.choice(["red", "blue"], 300),
        }
    )
    frame.loc[rng.random(300) < 0.1, "tries"] = np.nan
    return frame, np.where(y == 1, "slow", "quick")


@pytest.fixture(scope="module")
def model(waits):
    return NaiveBayes({"tries": "geometric", "days": "geometric"}).fit(*waits)


def test_it_is_discovered_by_its_file():
    assert FAMILIES["geometric"] is Geometric is deciban.families.Geometric
    assert "Geometric" in deciban.families.__all__
    assert not {"base", "linear", "roots", "covariance", "chow_liu"} & set(FAMILIES)


def test_a_probability_is_successes_over_tries(model, waits):
    frame, y = waits
    slow = frame["days"][y == "slow"]
    params = model.model_.params[0]
    expected = (len(slow) + 1.0) / (len(slow) + 1.0 + slow.sum() + 1.0)  # one pseudo-row with one failure
    assert params.p[1, model.model_.columns(0).names.index("days")] == pytest.approx(expected, rel=1e-12)


def test_densities_are_those_of_scipy():
    columns, x = Columns(1), np.arange(9.0)[:, None]
    plain = Geometric().estimate({"one": np.array([[4.0]]), "x": np.array([[6.0]])}, columns)
    actual = Geometric().log_prob(plain, columns, x)[:, 0]
    np.testing.assert_allclose(actual, geom(0.4, loc=-1).logpmf(x[:, 0]), rtol=1e-12)
    spread = Geometric(predictive=True).estimate({"one": np.array([[4.0]]), "x": np.array([[6.0]])}, columns)
    actual = np.exp(Geometric(predictive=True).log_prob(spread, columns, x)[:, 0])
    chance = [betabinom(i + 1, 4.0, 6.0).pmf(1) / (i + 1) for i in range(9)]  # of the orders of one success, the last
    np.testing.assert_allclose(actual, chance, rtol=1e-10)


@pytest.mark.parametrize("settings", [{}, {"predictive": True}])
def test_leave_one_out_is_refitting(waits, settings):
    frame, y = waits
    law = {("tries", "days"): Geometric(**settings)}
    log_proba = NaiveBayes(law, rest="drop").fit(frame, y).leave_one_out(frame, y).log_proba
    for i in (0, 7, int(np.flatnonzero(frame["tries"].isna())[0])):
        rest = np.delete(np.arange(300), i)
        refit = NaiveBayes(law, rest="drop").fit(frame.iloc[rest], y[rest])
        np.testing.assert_allclose(log_proba[i], refit.predict_log_proba(frame.iloc[[i]])[0], rtol=1e-9)


def test_it_learns_forgets_and_merges(model, waits):
    frame, y = waits
    parts = [NaiveBayes({"tries": "geometric", "days": "geometric"}).fit(frame[i::2], y[i::2]) for i in (0, 1)]
    assert (parts[0] + parts[1]).model_.stats.same_as(model.model_.stats)
    whole = NaiveBayes({"tries": "geometric", "days": "geometric"}).fit(frame, y)
    assert whole.forget(frame[1::2], y[1::2]).model_.stats.same_as(parts[0].model_.stats)


def test_it_is_saved(model, waits, tmp_path):
    model.save(tmp_path / "waits.deciban")
    again = deciban.load(tmp_path / "waits.deciban")
    np.testing.assert_array_equal(again.predict_proba(waits[0]), model.predict_proba(waits[0]))


def test_sql_agrees_with_the_model(model, waits):
    frame = waits[0].assign(key=np.arange(300))
    expected = model.predict_proba(waits[0])
    data = duckdb.connect()
    data.register("data", frame)
    proba = data.sql(model.to_sql(keep=["key"])).df().sort_values("key").iloc[:, 1:]
    np.testing.assert_allclose(proba.to_numpy(), expected, atol=1e-12)
    lite = sqlite3.connect(":memory:")
    frame.to_sql("data", lite, index=False)
    proba = pd.read_sql(model.to_sql(dialect="sqlite", keep=["key"]), lite).sort_values("key").iloc[:, 1:]
    np.testing.assert_allclose(proba.to_numpy(), expected, atol=1e-12)


def test_onnx_agrees_with_the_model(model, waits):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    columns = {name: waits[0][[name]].to_numpy() for name in ("tries", "days")}
    proba = session.run(["probabilities"], {**columns, "team": waits[0][["team"]].to_numpy(dtype=object)})[0]
    np.testing.assert_allclose(proba, model.predict_proba(waits[0]), atol=1e-12)


def test_impossible_waits_are_impossible_in_sql_too():
    table = {"x": [0.0, 0.0, 2.0], "y": ["never", "never", "late"]}
    model = NaiveBayes({"x": "geometric"}, alpha=0.0).fit(table, "y")
    data = duckdb.connect()
    data.register("data", pd.DataFrame({"x": [0.0, 1.0, np.nan]}))
    proba = data.sql(model.to_sql()).df().to_numpy()
    np.testing.assert_allclose(proba, model.predict_proba({"x": [0.0, 1.0, None]}), atol=1e-12)
    assert proba[1].tolist() == [1.0, 0.0]


def test_a_law_that_is_integrated_out_has_no_formula(waits):
    model = NaiveBayes({"days": Geometric(predictive=True)}, rest="drop").fit(*waits)
    with pytest.raises(DecibanError, match="with predictive=True a geometric distribution"):
        model.to_sql()


def test_a_database_adds_it_up(model, waits):
    data = duckdb.connect()
    data.register("frame", waits[0].assign(label=waits[1]))
    data.execute("CREATE TABLE waits AS SELECT * FROM frame")
    pushed = NaiveBayes({"tries": "geometric", "days": "geometric"}).fit(deciban.table(data, "waits"), "label")
    assert pushed.model_.stats.same_as(model.model_.stats)
    data.execute("INSERT INTO waits VALUES (-1, 3, 'red', 'slow')")
    with pytest.raises(DecibanError, match=r"negative.*geometric"):
        NaiveBayes({"tries": "geometric"}).fit(deciban.table(data, "waits"), "label")
    schema = Schema(np.array(["quick", "slow"]), (Columns(1, ("tries",)),))
    with pytest.raises(DecibanError, match="'waits' holds -1, but counts are never negative: a geometric distribution"):
        deciban.table(data, "waits").pushed(Question(Joint((Block(Geometric()),)), schema, {}, "label"))


def test_what_is_below_zero_is_no_wait():
    with pytest.raises(
        DecibanError, match="'x' holds -1 in row 1, but counts are never negative: a geometric distribution"
    ):
        NaiveBayes({"x": "geometric"}).fit({"x": [0, -1], "y": ["a", "b"]}, "y")


@pytest.mark.parametrize("predictive", [False, True])
def test_samples_are_whole_and_wait_as_long(predictive, waits):
    model = NaiveBayes({"days": Geometric(predictive=predictive)}, rest="drop").fit(*waits)
    rows, y = model.sample(20_000, random_state=0)
    days = rows["days"].to_numpy()
    assert (days == np.floor(days)).all()
    assert days.min() == 0
    for label in ("slow", "quick"):
        assert days[np.asarray(y) == label].mean() == pytest.approx(waits[0]["days"][waits[1] == label].mean(), rel=0.1)


def test_the_tutorial_is_this_family():
    """The code in CONTRIBUTING is the file, to the letter: so all tests of the family are tests of it."""
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert Path(written.__file__).read_text(encoding="utf-8") in blocks
