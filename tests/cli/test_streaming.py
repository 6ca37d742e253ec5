"""Data larger than memory: choices are made on a sample, and every row is learned."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import deciban as api
from deciban.cli import rows as model_rows
from deciban.engines import learn

from .customers import people, people_frame, read_people, write_people
from .shell import deciban, succeeded

ROWS, AT_ONCE = 3000, 600


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_people(people(ROWS, seed=21), tmp_path_factory.mktemp("large") / "large.csv")


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    frame = read_people(write_people(people(2000, seed=22), tmp_path_factory.mktemp("held") / "out.csv"))
    return frame.drop(columns="leaves"), frame["leaves"].to_numpy()


def loss(model, X, y) -> float:
    return float(-model.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)].mean())


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(model_rows, "MAX_ROWS_IN_MEMORY", AT_ONCE)
    monkeypatch.setattr(learn, "SAMPLE_ROWS", AT_ONCE)


@pytest.mark.usefixtures("little_memory")
def test_a_streamed_model_has_learned_every_row(large, held_out, inside):
    """With choices made on a fifth of the rows, and counts of all of them."""
    facts = succeeded(inside("train", large, "-t", "leaves", "-o", "m.deciban", "--json")).json()
    frame, model = read_people(large), api.load(inside.folder / "m.deciban")
    assert facts["rows"] == ROWS
    assert facts["classes"] == frame["leaves"].value_counts().to_dict()
    X, y = held_out
    at_once = api.Classifier(n_jobs=1).fit(frame.drop(columns="leaves"), frame["leaves"])
    few = api.Classifier(n_jobs=1).fit(frame.drop(columns="leaves")[:AT_ONCE], frame["leaves"][:AT_ONCE])
    # 0.02 nats: coarser choices may cost a little; columns are worth tenths.
    assert loss(model, X, y) < loss(at_once, X, y) + 0.02
    assert loss(model, X, y) < loss(few, X, y) + 0.005, "not worse than the sample alone"
    right = np.mean(model.predict(X) == y)
    assert abs(right - np.mean(at_once.predict(X) == y)) < 0.02


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("kind", ["naive-bayes", "tree"])
def test_simple_models_are_the_same_in_batches(kind, large, held_out, inside, monkeypatch):
    """A sum of batches is the sum."""
    succeeded(inside("train", large, "-t", "leaves", "--model", kind, "-o", "streamed.deciban"))
    streamed = api.load(inside.folder / "streamed.deciban")
    assert streamed.class_count_.sum() == ROWS
    monkeypatch.setattr(model_rows, "MAX_ROWS_IN_MEMORY", 10 * ROWS)
    succeeded(inside("train", large, "-t", "leaves", "--model", kind, "-o", "whole.deciban"))
    whole = api.load(inside.folder / "whole.deciban")
    X, y = held_out
    # Bins of a tree are cut from the first batch; the sums of naive Bayes differ by rounding.
    assert abs(loss(streamed, X, y) - loss(whole, X, y)) < (1e-9 if kind == "naive-bayes" else 0.02)


@pytest.mark.usefixtures("little_memory")
def test_streamed_texts_are_weighed_in_the_end(shop, inside, monkeypatch):
    monkeypatch.setattr(model_rows, "MAX_ROWS_IN_MEMORY", 100)
    monkeypatch.setattr(learn, "SAMPLE_ROWS", 100)
    succeeded(inside("train", shop.messages, "-t", "label", "-o", "m.deciban"))
    model, texts = api.load(inside.folder / "m.deciban"), pd.read_csv(shop.messages, comment="#")
    assert model.class_count_.tolist() == [200, 200]
    whole = api.load(shop.spam)
    judged = [m.leave_one_out(texts["message"].tolist(), texts["label"].tolist()) for m in (model, whole)]
    assert judged[0].log_loss < judged[1].log_loss + 0.02


@pytest.mark.slow
@pytest.mark.usefixtures("little_memory")
def test_a_class_that_comes_late_is_learned_with_a_note(inside):
    """From a pipe the sample is the first rows, which lack the class."""
    frame = people_frame(1500, seed=3)
    frame.loc[1400:, "leaves"] = "perhaps"
    path = write_people(frame, inside.folder / "t.csv")
    code = f"""
import sys
from deciban.cli import rows as model_rows
from deciban.cli.run import run
from deciban.engines import learn
model_rows.MAX_ROWS_IN_MEMORY = learn.SAMPLE_ROWS = {AT_ONCE}
sys.exit(run(["train", "-", "-t", "leaves", "-o", "m.deciban"]))
"""
    done = deciban_with(code, inside.folder, path.read_bytes())
    assert succeeded(done).err.startswith("deciban: note: class 'perhaps' was not in the sample")
    model = api.load(inside.folder / "m.deciban")
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.class_count_.sum() == 1500
    assert model.class_count_[1] == 100


def deciban_with(code, folder, given):
    import subprocess
    import sys

    from .shell import TIMEOUT_SECONDS, CommandResult, environment

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(),
        input=given,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.slow
def test_more_rows_than_are_learned_at_once(tmp_path):
    """The limit as it is, in a process of its own."""
    rows = model_rows.MAX_ROWS_IN_MEMORY + 50_000
    y = np.arange(rows) % 2
    x = np.random.default_rng(0).normal(size=rows) + y
    with open(tmp_path / "t.csv", "w") as file:
        file.write("x,y\n")
        file.writelines(f"{value:.4f},{label}\n" for value, label in zip(x, y, strict=True))
    facts = succeeded(deciban("train", "t.csv", "-t", "y", "--json", cwd=tmp_path)).json()
    assert facts["rows"] == rows
    # Two Gaussians a standard deviation apart: the best accuracy is Φ(½).
    figures = succeeded(deciban("evaluate", "t.deciban", "t.csv", "--json", cwd=tmp_path)).json()
    assert figures["accuracy"] == pytest.approx(0.6915, abs=0.005)
