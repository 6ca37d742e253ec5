"""Every command from end to end: the numbers are those of the Python API.

In a process of its own: where that costs seconds because all of scikit-learn is imported, in `make test-all`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import deciban as api
from deciban.cli.run import run

from .customers import people, read_people, write_people
from .shell import deciban, folder_contents, succeeded


def call(*arguments, **how):
    return succeeded(deciban(*arguments, **how))


@pytest.fixture(params=["here", pytest.param("apart", marks=pytest.mark.slow)])
def either(request, inside):
    """A command in this process, and in one of its own."""

    def run_it(*arguments):
        return succeeded(inside(*arguments)) if request.param == "here" else call(*arguments, cwd=inside.folder)

    return run_it


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_train_prints_a_summary_and_writes_a_model(shop, either, tmp_path):
    done = either("train", shop.messages, "--target", "label")
    assert list(folder_contents(tmp_path)) == ["messages.deciban"]
    assert done.err == "", "in a pipe no progress is shown"
    assert not set(done.out) & {"\x1b", "\r"}
    assert "Learned 400 rows of 2 classes: ham 200, spam 200." in done.out
    model = api.load(tmp_path / "messages.deciban")
    assert type(model).__name__ == "TextClassifier"
    frame = pd.read_csv(shop.messages, comment="#")
    judged = model.leave_one_out(frame["message"].tolist(), frame["label"].tolist())
    assert f"Cross-fitted leave-one-out: accuracy {100 * judged.accuracy:.1f} %" in done.out
    assert f"log loss {judged.log_loss:.4g} nats" in done.out
    largest = frame["label"].value_counts(normalize=True).max()
    alone = f"The class frequencies alone: {100 * largest:.1f} %, {judged.baseline:.4g} nats."
    assert alone in done.out, "what the figures are to be compared with"


def test_train_prints_the_same_as_json(shop, either, tmp_path):
    facts = either("train", shop.customers, "-t", "leaves", "-o", "m.deciban", "--json").json()
    frame = read_people(shop.customers)
    assert facts["model"] == "Classifier"
    assert facts["file"] == "m.deciban"
    assert facts["bytes"] == (tmp_path / "m.deciban").stat().st_size
    assert facts["rows"] == len(frame)
    assert facts["classes"] == frame["leaves"].value_counts().to_dict()
    assert facts["target"] == "leaves"
    summary = api.load(tmp_path / "m.deciban").summary()
    assert facts["leave_one_out"] == {
        "accuracy": summary.accuracy,
        "log_loss": summary.loss,
        "rows": 200,
        "how": "cross-fitted leave-one-out",
        "baseline_accuracy": pytest.approx(frame["leaves"].value_counts(normalize=True).max()),
        "baseline_log_loss": pytest.approx(summary.baseline),
    }
    assert "decisive" not in facts
    assert (tmp_path / "m.deciban").read_bytes() == shop.churn.read_bytes(), "the same choices, in any process"


def test_naive_bayes_does_not_learn_who_somebody_is(either, tmp_path):
    lines = [f"A-{10_000 + i},{i % 7},{'yes' if i % 7 > 3 else 'no'}" for i in range(60)]
    (tmp_path / "orders.csv").write_text("\n".join(["OrderID,x,y", *lines]))
    options = ("train", "orders.csv", "-t", "y", "--model", "naive-bayes", "--force")
    out = " ".join(either(*options).out.split())
    assert "OrderID left out every value is different" in out
    assert b"A-10000" not in (tmp_path / "orders.deciban").read_bytes()
    either(*options, "--schema", "OrderID=category")
    assert b"A-10000" in (tmp_path / "orders.deciban").read_bytes()


def test_rows_alone_in_their_class_are_in_no_figure(either, tmp_path):
    """Forty rows of one class, and twenty others: nothing can be learned of these, and the figures say so."""
    rng = np.random.default_rng(0)
    labels = ["big"] * 40 + [f"k{i}" for i in range(20)]
    lines = ["x,z,y", *(f"{rng.normal():.3f},{rng.normal():.3f},{label}" for label in labels)]
    (tmp_path / "single.csv").write_text("\n".join(lines))
    out = either("train", "single.csv", "-t", "y").out
    assert "Leave-one-out of 40 rows: accuracy 100.0 %, log loss 0.414 nats." in out
    assert "The class frequencies alone: 100.0 %, 0.414 nats." in out
    assert "20 rows are alone in their class and cannot be evaluated; about 33 % of new rows" in out


def test_predict_prints_what_the_model_predicts(shop, either, tmp_path):
    done = either("predict", shop.churn, shop.customers, "--proba")
    rows, model, frame = rows_of(done.out), api.load(shop.churn), read_people(shop.customers)
    proba = model.predict_proba(frame.drop(columns="leaves"))
    assert list(rows[0]) == [*frame.columns, "prediction", "probability", "proba_no", "proba_yes"]
    assert [row["prediction"] for row in rows] == model.predict(frame).tolist()
    assert [[float(row["proba_no"]), float(row["proba_yes"])] for row in rows] == proba.tolist(), "bit for bit"
    assert [float(row["probability"]) for row in rows] == proba.max(axis=1).tolist()
    assert folder_contents(tmp_path) == {}


def test_predict_reads_standard_input(shop, tmp_path):
    done = call("predict", shop.spam, "-", "--only", cwd=tmp_path, given=shop.messages.read_bytes())
    frame, model = pd.read_csv(shop.messages, comment="#"), api.load(shop.spam)
    rows = rows_of(done.out)
    assert list(rows[0]) == ["prediction", "probability"]
    assert [row["prediction"] for row in rows] == model.predict(frame["message"].tolist()).tolist()
    assert [float(row["probability"]) for row in rows] == model.predict_proba(frame["message"].tolist()).max(1).tolist()


def test_explain_prints_the_evidence(shop, either):
    text = "Free tickets for the meeting, claim them now"
    done = either("explain", shop.spam, "--text", text)
    expected = api.load(shop.spam).explain(text)
    assert done.out == repr(expected) + "\n"
    document = either("explain", shop.churn, shop.customers, "--row", 7, "--json").json()
    frame = read_people(shop.customers)
    expected = api.load(shop.churn).explain(frame.drop(columns="leaves").iloc[[6]])
    assert document == json.loads(json.dumps(expected.to_dict())), "rows are counted from 1"
    assert document["prior"] + sum(item["decibans"] for item in document["evidence"]) == pytest.approx(
        document["total"], abs=1e-9
    )


def test_evaluate_judges_by_leave_one_out_or_as_new(shop, either, tmp_path):
    seen = either("evaluate", shop.churn, shop.customers)
    assert seen.out.startswith("cross-fitted leave-one-out: 200 rows")
    other = write_people(people(80, seed=9), tmp_path / "other.csv")
    new = either("evaluate", shop.churn, other)
    assert new.out.startswith("new rows: 80 rows")
    frame, model = read_people(other), api.load(shop.churn)
    assert f"{np.mean(model.predict(frame) == frame['leaves']):.4g}" in new.out


def test_learn_forget_and_merge_change_what_is_known(shop, either, tmp_path):
    (tmp_path / "spam.deciban").write_bytes(shop.spam.read_bytes())
    (tmp_path / "more.csv").write_text('label,message\nham,"See you at the lake, bring towels."\nspam,Win a lake now\n')
    learned = either("learn", "spam.deciban", "more.csv")
    assert learned.out == "Learned 2 rows; spam.deciban has learned 402 rows.\n"
    assert api.load(tmp_path / "spam.deciban").class_count_.tolist() == [201, 201]
    document = either("forget", "spam.deciban", "more.csv", "--json").json()
    assert document == {"file": "spam.deciban", "rows": 2, "before": 402, "after": 400}
    merged = either("merge", "spam.deciban", shop.spam, "-o", "both.deciban")
    assert merged.out == "Wrote both.deciban: 2 models, 800 rows.\n"
    assert api.load(tmp_path / "both.deciban").class_count_.tolist() == [400, 400]


def test_show_describes_a_model(shop, either):
    done = either("show", shop.churn, "--evidence", 3)
    model = api.load(shop.churn)
    importance, *sentences = model.importance().brief()
    assert repr(replace(model.summary(), importance=None)) in done.out
    assert done.out.index(repr(importance)) < done.out.index("classes\n")
    assert all(sentence in done.out for sentence in sentences)
    assert "'leaves'" in done.out
    assert "customers.csv" in done.out
    for _, item, rows, decibans in model.top_evidence(3).rows:
        assert re.search(rf"{re.escape(item)} +{rows} +{re.escape(f'{decibans:+.1f}')}\n", done.out)


def test_sample_draws_the_same_again(shop, either, inside):
    how = ("sample", shop.churn, "-n", 20, "--given", "yes", "--seed")
    once = either(*how, 1).out
    assert once == inside(*how, 1).out
    assert once != inside(*how, 2).out
    rows = rows_of(once)
    assert len(rows) == 20
    assert {row["leaves"] for row in rows} == {"yes"}


def test_compare_shows_both_models_as_rows_grow(shop, either, tmp_path):
    done = either("compare", shop.messages, "--target", "label", "--repeats", 1, "--plot", "curves.svg")
    assert "TextClassifier" in done.out
    assert "LogisticRegression" in done.out
    assert (tmp_path / "curves.svg").read_bytes().startswith(b"<?xml")
    assert done.err == "deciban: note: wrote curves.svg\n"


def test_report_writes_a_page_with_the_probability_of_a_row(shop, either, tmp_path):
    done = either("report", shop.churn, shop.customers, "-o", "page.html", "--no-curve")
    assert re.fullmatch(r"Wrote page\.html \([\d.]+ kB\): open it in a browser\.\n", done.out)
    page = (tmp_path / "page.html").read_text()
    frame = read_people(shop.customers)
    judged = api.load(shop.churn).leave_one_out(frame.drop(columns="leaves"), frame["leaves"])
    least = int(np.argmin(judged.log_proba[np.arange(len(frame)), judged.truth]))
    assert re.search(rf"\b{least + 1}\b", page), "the row that surprises most, by its number from 1"
    assert f"{100 * judged.accuracy:.1f}\N{NO-BREAK SPACE}%" in page


@pytest.mark.parametrize("ending", ["sql", pytest.param("onnx", marks=pytest.mark.slow)])
def test_export_writes_a_file(ending, shop, either, tmp_path):
    done = either("export", shop.churn, "-o", f"churn.{ending}")
    assert done.out.startswith(f"Wrote churn.{ending} (")
    assert list(folder_contents(tmp_path)) == [f"churn.{ending}"]


def test_the_tour_step_by_step(inside, monkeypatch):
    """Its steps in this process: six subprocesses take long to start."""

    def here(given, cwd, check):
        assert given[:3] == [sys.executable, "-m", "deciban"]
        assert not check
        with contextlib.chdir(cwd):
            return SimpleNamespace(returncode=run([*given[3:], *["--no-curve"] * (given[3] == "report")]))

    monkeypatch.setattr("deciban.cli.commands.demo.subprocess.run", here)
    done = succeeded(inside("demo", "--folder", "tour"))
    assert {"tour/messages.csv", "tour/spam.deciban", "tour/report.html"} <= set(folder_contents(inside.folder))
    assert "P(spam) = " in done.out
    assert "has learned 399 rows" in done.out
    assert api.load(inside.folder / "tour" / "without.deciban").class_count_.sum() == 399


def test_the_tour_stops_where_a_step_fails(inside, monkeypatch):
    monkeypatch.setattr("deciban.cli.commands.demo.subprocess.run", lambda *_, **__: SimpleNamespace(returncode=2))
    assert inside("demo", "--folder", "tour").code == 2


@pytest.mark.slow
def test_the_tour_runs_from_beginning_to_end(tmp_path):
    done = call("demo", "--folder", "tour", cwd=tmp_path)
    assert {"tour/messages.csv", "tour/spam.deciban", "tour/report.html"} <= set(folder_contents(tmp_path))
    for name in ("train", "evaluate", "explain", "forget", "sample", "report"):
        assert f"$ deciban {name} " in done.out
    assert done.out.count("leave-one-out") >= 1


@pytest.mark.slow
def test_the_bench_measures(tmp_path):
    document = call("bench", "--quick", "--json", cwd=tmp_path).json()
    assert {pair["what"] for pair in document["pairs"]}
    assert folder_contents(tmp_path) == {}
