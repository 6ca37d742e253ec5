"""`deciban learn`, `forget` and `merge`: sums are added and subtracted, and concurrent changes are not lost."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess

import numpy as np
import pytest

import deciban as api

from .customers import people, people_frame, read_people, write_people
from .shell import TIMEOUT_SECONDS, command, copied_to, environment, folder_contents, succeeded

TOLERANCE = 1e-12  # counts are exact; sums of squares come back up to a rounding of 2⁻⁵² each, a few hundred of them


@pytest.fixture
def more(tmp_path):
    return write_people(people(40, seed=5), tmp_path / "more.csv")


@pytest.mark.parametrize("kind", ["classifier", "naive-bayes", "tree"])
def test_what_is_learned_and_forgotten_leaves_no_trace(kind, shop, inside, more):
    X = read_people(more).drop(columns="leaves")
    model = copied_to(shop.churn, inside.folder)
    if kind != "classifier":
        succeeded(inside("train", shop.customers, "-t", "leaves", "--model", kind, "-o", model, "--force"))
    before = api.load(model).predict_proba(X)
    succeeded(inside("learn", model, more))
    assert api.load(model).class_count_.sum() == 240
    assert np.abs(api.load(model).predict_proba(X) - before).max() > 1e-3, "something was learned"
    succeeded(inside("forget", model, more))
    np.testing.assert_allclose(api.load(model).predict_proba(X), before, rtol=0, atol=TOLERANCE)


def test_texts_that_are_forgotten_leave_no_trace(shop, inside):
    model, texts = copied_to(shop.spam, inside.folder), ["Claim a boat", "meeting at the harbour", "never seen"]
    before = api.load(model).predict_proba(texts)
    (inside.folder / "more.csv").write_text("label,message\nspam,a harbour boat for free\nham,the boat meeting\n")
    succeeded(inside("learn", model, "more.csv"))
    assert np.abs(api.load(model).predict_proba(texts) - before).max() > 1e-3
    succeeded(inside("forget", model, "more.csv"))
    np.testing.assert_allclose(api.load(model).predict_proba(texts), before, rtol=0, atol=TOLERANCE)


def test_learning_is_what_the_api_does(shop, inside, more):
    model, frame = copied_to(shop.churn, inside.folder), read_people(more)
    succeeded(inside("learn", model, more))
    X, y = frame.drop(columns="leaves"), frame["leaves"]
    expected = api.load(shop.churn).partial_fit(X, y)
    assert np.array_equal(api.load(model).predict_proba(X), expected.predict_proba(X))


def test_another_file_takes_the_change_instead(shop, inside, more):
    before = shop.churn.read_bytes()
    document = succeeded(inside("learn", shop.churn, more, "-o", "new.deciban", "--json")).json()
    assert document == {"file": "new.deciban", "rows": 40, "before": 200, "after": 240}
    assert shop.churn.read_bytes() == before
    assert api.load(inside.folder / "new.deciban").class_count_.sum() == 240


def test_a_new_class_gets_a_note(shop, inside):
    model = copied_to(shop.spam, inside.folder)
    (inside.folder / "new.csv").write_text("label,message\neggs,a dozen of them\n")
    assert succeeded(inside("learn", model, "new.csv")).err == "deciban: note: class 'eggs' is new to the model\n"
    assert api.load(model).classes_.tolist() == ["eggs", "ham", "spam"]


def test_rows_that_were_never_learned_are_not_forgotten(shop, inside):
    model = copied_to(shop.churn, inside.folder)
    (inside.folder / "odd.csv").write_text(
        "age,spent,plan,active,joined,leaves\n36,9000,basic,true,2020-01-01,no\n36,9000,platinum,true,2020-01-01,no\n"
    )
    before = folder_contents(inside.folder)
    done = inside("forget", model, "odd.csv")
    assert (done.code, done.out) == (2, "")
    assert "row 2" in done.err, "the second one, as people count"
    assert folder_contents(inside.folder) == before


def test_rows_are_numbered_over_batches_and_gaps(shop, inside, monkeypatch):
    """Batches of two rows, and two rows without a label before the bad one."""
    from deciban.sources.base import Source

    whole = Source.batches
    monkeypatch.setattr(Source, "batches", lambda self, rows=2, watch=None: whole(self, min(rows, 2), watch))
    row = "36,9000,basic,true,2020-01-01,"
    lines = [
        "age,spent,plan,active,joined,leaves",
        row + "no",
        row + "?",
        row + "no",
        row + "?",
        "old" + row[2:] + "no",
    ]
    (inside.folder / "t.csv").write_text("\n".join(lines) + "\n")
    notes = succeeded(inside("learn", copied_to(shop.churn, inside.folder), "t.csv")).err.splitlines()
    assert "'old' in row 5" in notes[0]
    assert notes[1] == "deciban: note: skipped 2 rows without a label"
    assert "'old' in row 5" in succeeded(inside("predict", shop.churn, "t.csv")).err


def test_models_that_learned_apart_add_up_under_the_same_choices(inside):
    """The sum is the model that learns both files in turn."""
    first, second = write_people(people(120, seed=2), inside.folder / "a.csv"), inside.folder / "b.csv"
    write_people(people(90, seed=3), second)
    succeeded(inside("train", first, "-t", "leaves", "-o", "a.deciban"))
    succeeded(inside("train", second, "-t", "leaves", "--like", "a.deciban", "-o", "b.deciban"))
    assert api.load(inside.folder / "b.deciban").class_count_.sum() == 90
    document = succeeded(inside("merge", "a.deciban", "b.deciban", "-o", "ab.deciban", "--json")).json()
    assert document == {"file": "ab.deciban", "rows": 210, "models": 2}
    succeeded(inside("learn", "a.deciban", "b.csv", "-o", "both.deciban"))
    X = people_frame(50, seed=4).drop(columns="leaves")
    merged, learned = (api.load(inside.folder / f"{name}.deciban").predict_proba(X) for name in ("ab", "both"))
    np.testing.assert_allclose(merged, learned, rtol=0, atol=TOLERANCE)
    seen = succeeded(inside("evaluate", "ab.deciban", "a.csv"))
    assert seen.out.startswith("cross-fitted leave-one-out"), "it has learned both files"


def test_merging_models_with_different_choices_is_refused_with_advice(shop, inside):
    write_people(people(60, seed=3), inside.folder / "b.csv")
    succeeded(inside("train", "b.csv", "-t", "leaves", "-o", "b.deciban"))
    done = inside("merge", shop.churn, "b.deciban", "-o", "ab.deciban")
    assert done.code == 2
    assert "--like" in done.err
    assert not (inside.folder / "ab.deciban").exists()


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_two_that_learn_at_once_are_both_learned(times, shop, inside):
    model = copied_to(shop.spam, inside.folder)
    for name, label in (("a.csv", "ham"), ("b.csv", "spam")):
        (inside.folder / name).write_text("label,message\n" + f"{label},a {name} of the {label}\n" * 3)
    for i in range(times):
        both = [
            subprocess.Popen(
                command("learn", model, name, "--json"),
                cwd=inside.folder,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for name in ("a.csv", "b.csv")
        ]
        documents = [json.loads(child.communicate(timeout=TIMEOUT_SECONDS)[0]) for child in both]
        assert [child.returncode for child in both] == [0, 0]
        assert sorted(one["after"] for one in documents) == [403 + 6 * i, 406 + 6 * i], "one after the other"
    assert api.load(model).class_count_.tolist() == [200 + 3 * times, 200 + 3 * times]
    assert set(folder_contents(inside.folder)) == {"a.csv", "b.csv", "spam.deciban"}


@pytest.mark.parametrize(("verb", "done", "rows"), [("learn", "learned", 240), ("forget", "forgotten", 160)])
def test_a_model_that_is_written_though_not_safely_is_changed_once(shop, inside, more, monkeypatch, verb, done, rows):
    """A retry would learn twice: so it is a note, and no error."""

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        return original(descriptor)

    original = os.fsync
    data = more if verb == "learn" else write_people(people_frame(200)[:40], inside.folder / "some.csv")
    model = copied_to(shop.churn, inside.folder)
    monkeypatch.setattr(os, "fsync", fsync)
    result = succeeded(inside(verb, model, data))
    assert f"note: the rows are {done}: " in result.err
    assert "was written" in result.err
    assert api.load(model).class_count_.sum() == rows


def test_a_full_disk_loses_nothing_and_is_named(shop, inside, more, monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    model = copied_to(shop.churn, inside.folder)
    before = model.read_bytes()
    monkeypatch.setattr(os, "fsync", fsync)
    for command_line in (("learn", model, more), ("predict", model, more, "-o", "judged.csv")):
        result = inside(*command_line)
        assert result.code == 2
        assert f"{command_line[-1] if command_line[0] == 'predict' else model}': No space left on device" in result.err
        assert "nothing was lost" in result.err
        assert "\n" not in result.err.strip()
    assert model.read_bytes() == before
    assert folder_contents(inside.folder).keys() == {model.name, more.name}
