"""Tables of few rows, of one class, of a class with one row: a sentence where there is no figure, never inf or nan."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from .shell import succeeded

NO_FIGURE = re.compile(r"\binf\b|\bnan\b|∞", re.IGNORECASE)

LABELS = {
    "one row": ["a"],
    "two rows": ["a", "b"],
    "two rows of a class": ["a", "a"],
    "three rows": ["a", "b", "a"],
    "five rows": ["a", "b", "a", "b", "a"],
    "a class with one row": ["a", "a", "a", "a", "b"],
    "every row a class": ["a", "b", "c", "d", "e"],
    "one class": ["a"] * 5,
    "one class of many rows": ["a"] * 30,
    "many rows, a class with one": ["a"] * 29 + ["b"],
}


def write_table(path, labels) -> None:
    rng = np.random.default_rng(len(labels))
    n = len(labels)
    columns = {"x": rng.normal(size=n).round(2), "c": rng.choice(["u", "v"], n)}
    pd.DataFrame({**columns, "y": labels}).to_csv(path, index=False)


def text_of(page) -> str:
    return re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.DOTALL)


@pytest.mark.crossed(5)
@pytest.mark.parametrize("model", ["classifier", "naive-bayes", "tree"])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_no_figure_is_infinite_or_missing(model, labels, inside):
    write_table(inside.folder / "t.csv", labels)
    trained = succeeded(inside("train", "t.csv", "-t", "y", "--model", model, "-o", "m.deciban"))
    outputs = [trained.out, trained.err]
    for command in (
        ("evaluate",),
        ("evaluate", "--as-new"),
        ("evaluate", "--json"),
        ("report",),
        ("report", "--as-new"),
    ):
        done = succeeded(inside(command[0], "m.deciban", "t.csv", *command[1:]))
        outputs += [done.out, done.err]
        if command[0] == "report":
            outputs.append(text_of(inside.folder / "report.html"))
    outputs += [succeeded(inside("show", "m.deciban", *more)).out for more in ((), ("--json",))]
    assert not [text for text in outputs if NO_FIGURE.search(text)]


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_a_comparison_says_what_is_lacking(labels, inside):
    write_table(inside.folder / "t.csv", labels)
    done = inside("compare", "t.csv", "-t", "y", "--repeats", "1")
    assert done.code == 2
    assert re.search("two classes|too few rows|no column .* can be used", done.err)
    assert len(done.err.splitlines()) == 1


def test_one_class_is_said_in_a_sentence(inside):
    write_table(inside.folder / "t.csv", ["a"] * 5)
    for model in ("classifier", "naive-bayes"):
        succeeded(inside("train", "t.csv", "-t", "y", "--model", model, "-o", "m.deciban", "--force"))
        for how in ("--as-new", "--leave-one-out"):
            out = " ".join(succeeded(inside("evaluate", "m.deciban", "t.csv", how)).out.split())
            assert out.startswith("There is only one class")
            assert "accuracy" not in out
        succeeded(inside("report", "m.deciban", "t.csv"))
        assert "There is only one class" in text_of(inside.folder / "report.html")
        assert "There is only one class" in re.sub(r"\s+", " ", succeeded(inside("show", "m.deciban")).out).replace(
            "there is only one class", "There is only one class"
        )


@pytest.mark.parametrize("model", ["classifier", "naive-bayes", "tree"])
def test_rows_of_classes_never_learned(model, inside):
    """Some of them: there is no log loss, and the other rows have one. All of them: an error."""
    write_table(inside.folder / "t.csv", ["a", "b"] * 15)
    succeeded(inside("train", "t.csv", "-t", "y", "--model", model, "-o", "m.deciban"))
    write_table(inside.folder / "new.csv", ["a", "b"] * 10 + ["z"] * 3)
    done = succeeded(inside("evaluate", "m.deciban", "new.csv"))
    out = " ".join(done.out.split())
    assert "because 3 rows" in out
    assert "… of the others" in out
    assert "3 rows with labels unknown to the model (z): they count as mistakes." in out
    assert not NO_FIGURE.search(done.out)
    document = succeeded(inside("evaluate", "m.deciban", "new.csv", "--json")).json()
    assert (document["log_loss"], document["impossible_rows"]) == (None, 3)
    assert np.isfinite(document["possible_log_loss"])
    succeeded(inside("report", "m.deciban", "new.csv"))
    page = text_of(inside.folder / "report.html")
    assert "for 3 rows" in page
    assert not NO_FIGURE.search(page)
    write_table(inside.folder / "none.csv", ["z"] * 3)
    for command in ("evaluate", "report"):
        done = inside(command, "m.deciban", "none.csv")
        assert done.code == 2
        assert "it learned 'a', 'b'" in done.err
        assert "--target" in done.err


def test_a_model_that_has_forgotten_everything_is_shown(inside):
    (inside.folder / "t.csv").write_text("label,message\nham,hello there\nspam,win now\n")
    succeeded(inside("train", "t.csv", "-t", "label", "--model", "text", "--text", "message"))
    succeeded(inside("forget", "t.deciban", "t.csv"))
    done = succeeded(inside("show", "t.deciban"))
    assert " 0 rows" in done.out
    assert "The model has no classes" in done.out
    assert json.loads(succeeded(inside("show", "t.deciban", "--json")).out)["classes"] == {}
