"""`deciban evaluate`, `compare` and `report`: by leave-one-out where rows were learned, as new rows otherwise."""

from __future__ import annotations

import contextlib
import io
import re

import numpy as np
import pandas as pd
import pytest

import deciban as api
from deciban.cli.run import run

from .customers import people, read_people, write_people
from .shell import copied_to, deciban, succeeded


def printed_figures(done) -> tuple[str, float, float]:
    """How rows were judged, accuracy and log loss, parsed from the output."""
    numbers = [float(re.search(rf"^{name} +([\d.]+)", done.out, re.MULTILINE)[1]) for name in ("accuracy", "log loss")]
    return done.out.partition(":")[0], *numbers


def left_out(model, path):
    frame = read_people(path)
    return api.load(model).leave_one_out(frame.drop(columns="leaves"), frame["leaves"])


def as_new(model, path) -> tuple[float, float]:
    frame, model = read_people(path), api.load(model)
    log_proba = model.predict_log_proba(frame.drop(columns="leaves"))
    truth = np.searchsorted(model.classes_, frame["leaves"])
    right = model.classes_[log_proba.argmax(axis=1)] == frame["leaves"]
    return float(right.mean()), float(-log_proba[np.arange(len(frame)), truth].mean())


def test_rows_that_were_learned_are_left_out_one_by_one(shop, inside):
    done = succeeded(inside("evaluate", shop.churn, shop.customers))
    expected = left_out(shop.churn, shop.customers)
    assert printed_figures(done) == (
        "cross-fitted leave-one-out",
        float(f"{expected.accuracy:.4g}"),
        float(f"{expected.log_loss:.4g}"),
    )
    document = succeeded(inside("evaluate", shop.churn, shop.customers, "--json")).json()
    assert document["accuracy"] == expected.accuracy
    assert document["log_loss"] == pytest.approx(expected.log_loss, abs=1e-12)


def test_a_file_is_known_by_what_it_holds_not_by_its_name(shop, inside):
    (inside.folder / "copy.csv").write_bytes(shop.customers.read_bytes())
    assert printed_figures(succeeded(inside("evaluate", shop.churn, "copy.csv")))[0] == "cross-fitted leave-one-out"


def test_other_rows_are_judged_as_they_are(shop, inside):
    path = write_people(people(90, seed=8), inside.folder / "other.csv")
    done = succeeded(inside("evaluate", shop.churn, path))
    accuracy, log_loss = as_new(shop.churn, path)
    assert printed_figures(done) == ("new rows", float(f"{accuracy:.4g}"), float(f"{log_loss:.4g}"))
    document = succeeded(inside("evaluate", shop.churn, path, "--json")).json()
    assert document["accuracy"] == accuracy
    assert document["log_loss"] == pytest.approx(log_loss, abs=1e-12)


def test_a_model_without_learned_files_gets_a_note(inside):
    path = write_people(people(120, seed=3), inside.folder / "people.csv")
    frame = read_people(path)
    api.Classifier().fit(frame.drop(columns="leaves"), frame["leaves"]).save(inside.folder / "m.deciban")
    assert "assumed to be new" in succeeded(inside("evaluate", "m.deciban", path, "-t", "leaves")).err
    done = succeeded(inside("evaluate", "m.deciban", path, "-t", "leaves", "--leave-one-out"))
    assert printed_figures(done)[0] == "cross-fitted leave-one-out"
    assert "assumed to be new" not in done.err


def test_a_filter_is_judged_by_its_three_answers(inside):
    rng = np.random.default_rng(0)
    words = np.array(["win", "cash", "prize", "lunch", "noon", "room", "the", "a", "of", "you"])
    y = rng.integers(0, 2, 60)
    share = [[1, 1, 1, 3, 3, 3, 2, 2, 2, 2], [3, 3, 3, 1, 1, 1, 2, 2, 2, 2]]
    mails = [" ".join(rng.choice(words, 6, p=np.array(share[c]) / 20)) for c in y]
    frame = pd.DataFrame({"text": mails, "label": np.array(["ham", "spam"])[y]})
    frame.to_csv(inside.folder / "mails.csv", index=False)
    succeeded(inside("train", "mails.csv", "-t", "label", "--model", "spam", "-o", "m.deciban"))
    done = succeeded(inside("evaluate", "m.deciban", "mails.csv", "--json")).json()
    expected = api.load(inside.folder / "m.deciban")
    left = expected.leave_one_out(mails, frame["label"])
    costs = np.stack([left.proba[:, 1], np.full(60, 0.2), 20 * left.proba[:, 0]])
    answers = np.array(["ham", "unsure", "spam"])[costs.argmin(axis=0)]
    for label in ("ham", "spam"):
        assert done["answers"][label] == {
            answer: int(((frame["label"] == label) & (answers == answer)).sum()) for answer in ("ham", "unsure", "spam")
        }
    hams, spams = (int((frame["label"] == label).sum()) for label in ("ham", "spam"))
    assert done["answers"]["ham_unsure"] == pytest.approx(done["answers"]["ham"]["unsure"] / hams)
    assert done["answers"]["spam_missed"] == pytest.approx(done["answers"]["spam"]["ham"] / spams)
    lines = succeeded(inside("evaluate", "m.deciban", "mails.csv")).out.splitlines()
    assert lines[0] == "predictions of the filter: 60 mails", "at the top"
    shown = {line[:27].strip(): line[27:].split() for line in lines[2:7]}
    assert shown["ham lost (predicted spam)"][0] == str(done["answers"]["ham"]["spam"])
    assert shown["spam caught"][0] == str(done["answers"]["spam"]["spam"])
    assert shown["spam unsure"] == [
        str(done["answers"]["spam"]["unsure"]),
        f"{100 * done['answers']['spam_unsure']:.1f}",
        "%",
        "of",
        "spam",
    ]


def test_options_override_the_detection_of_learned_rows(shop, inside):
    how, accuracy, log_loss = printed_figures(succeeded(inside("evaluate", shop.churn, shop.customers, "--as-new")))
    assert (how, accuracy) == ("new rows", float(f"{as_new(shop.churn, shop.customers)[0]:.4g}"))
    assert log_loss < left_out(shop.churn, shop.customers).log_loss, "it has seen them"
    head = shop.customers.read_text().splitlines(keepends=True)[:51]
    (inside.folder / "some.csv").write_text("".join(head))
    assert printed_figures(succeeded(inside("evaluate", shop.churn, "some.csv")))[0] == "new rows", (
        "some of the rows are another file"
    )
    assert (
        printed_figures(succeeded(inside("evaluate", shop.churn, "some.csv", "--leave-one-out")))[0]
        == "cross-fitted leave-one-out"
    )


def test_what_is_learned_later_is_left_out_too_and_what_is_forgotten_is_new(shop, inside):
    model = copied_to(shop.churn, inside.folder)
    path = write_people(people(40, seed=5), inside.folder / "more.csv")
    succeeded(inside("learn", model, path))
    assert printed_figures(succeeded(inside("evaluate", model, path)))[0] == "cross-fitted leave-one-out"
    succeeded(inside("forget", model, path))
    assert printed_figures(succeeded(inside("evaluate", model, path)))[0] == "new rows"
    assert printed_figures(succeeded(inside("evaluate", model, shop.customers)))[0] == "cross-fitted leave-one-out"


def test_a_pipe_is_judged_as_new(shop, inside):
    """A pipe's digest is known only after its rows were judged."""
    done = inside("evaluate", shop.churn, "-", "--json", given=shop.customers.read_bytes())
    assert succeeded(done).json()["accuracy"] == as_new(shop.churn, shop.customers)[0]


@pytest.mark.slow
def test_a_pipe_is_judged_by_leave_one_out_on_request(shop, tmp_path):
    done = deciban(
        "evaluate", shop.churn, "-", "--leave-one-out", "--json", cwd=tmp_path, given=shop.customers.read_bytes()
    )
    assert succeeded(done).json()["accuracy"] == left_out(shop.churn, shop.customers).accuracy


def test_texts_are_judged_by_leave_one_out(shop, inside):
    frame = pd.read_csv(shop.messages, comment="#")
    judged = api.load(shop.spam).leave_one_out(frame["message"].tolist(), frame["label"].tolist())
    document = succeeded(inside("evaluate", shop.spam, shop.messages, "--json")).json()
    assert (document["accuracy"], document["log_loss"]) == (judged.accuracy, pytest.approx(judged.log_loss, abs=1e-12))


def test_another_column_may_hold_the_labels(shop, inside):
    frame = pd.read_csv(shop.messages, comment="#").rename(columns={"label": "truth"})
    frame.to_csv(inside.folder / "t.csv", index=False)
    assert inside("evaluate", shop.spam, "t.csv").code == 2
    assert succeeded(inside("evaluate", shop.spam, "t.csv", "-t", "truth", "--json")).json()["accuracy"] > 0.9


def test_a_partly_forgotten_file_is_judged_as_new_with_a_note(shop, inside):
    head = shop.customers.read_text().splitlines(keepends=True)[:3]
    (inside.folder / "two.csv").write_text("".join(head))
    succeeded(inside("forget", shop.churn, "two.csv", "-o", "without.deciban"))
    done = succeeded(inside("evaluate", "without.deciban", shop.customers))
    assert printed_figures(done)[0] == "new rows"
    assert "forgotten some" in done.err


# ------------------------------------------------------------------ compare


def test_both_models_are_shown_by_the_number_of_rows(shop, inside):
    document = succeeded(inside("compare", shop.customers, "-t", "leaves", "--repeats", 1, "--json")).json()
    assert document["models"] == ["Classifier", "LogisticRegression"]
    assert document["sizes"][-1] == 200 - document["held_out"]
    assert 0.6 < document["accuracy"]["Classifier"][-1][0] <= 1
    assert 0.6 < document["accuracy"]["LogisticRegression"][-1][0] <= 1
    out = succeeded(inside("compare", shop.customers, "-t", "leaves", "--repeats", 1)).out
    losses = [row.split()[:3] for row in out.partition("log loss, in nats\n")[2].partition("\n\n")[0].splitlines()]
    assert losses[0] == ["rows", "Classifier", "LogisticRegression"]
    for row, size, *loss in zip(losses[1:], document["sizes"], *document["log_loss"].values(), strict=True):
        assert row == [str(size), *(f"{one[0]:.4g}" for one in loss)], "the same seed draws the same rows"


# ------------------------------------------------------------------ report


def test_a_report_without_data_is_of_the_model(shop, inside):
    document = succeeded(inside("report", shop.spam, "--json")).json()
    page = (inside.folder / "report.html").read_bytes()
    assert document == {"file": "report.html", "bytes": len(page), "rows": 0}
    assert page.startswith(b"<!doctype html>")
    assert b"claim" in page


def test_a_report_is_one_page_that_needs_no_network(shop, inside):
    succeeded(inside("report", shop.churn, shop.customers, "--no-curve", "--title", "Who <leaves>?"))
    page = (inside.folder / "report.html").read_text()
    assert "Who &lt;leaves&gt;?" in page
    assert "Who <leaves>" not in page
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    assert "leave-one-out" in page.lower()


def test_a_report_shows_what_thresholds_of_a_class_cost(shop, inside):
    given = ("report", shop.churn, shop.customers, "--no-curve")
    succeeded(inside(*given, "--positive", "no", "--cost", "1:4.5"))
    page = (inside.folder / "report.html").read_text()
    assert "a false negative 4.5" in page
    assert "A row counts as <bdi>no</bdi>" in page
    for wrong, named in (("--cost", "1"), ("--cost", "a:b"), ("--cost", "-1:2"), ("--positive", "nno")):
        done = inside(*given, wrong, named)
        assert done.code == 2
        assert named.split(":")[0] in done.err


def test_a_report_replaces_the_one_before(shop, inside):
    page = inside.folder / "report.html"
    page.write_text("not a page of ours")
    done = inside("report", shop.spam)
    assert (done.code, page.read_text()) == (2, "not a page of ours")
    assert "--force" in done.err
    succeeded(inside("report", shop.spam, "--force", "--title", "the first"))
    succeeded(inside("report", shop.spam, "--title", "the second"))
    assert "the second" in page.read_text()


def test_prediction_sets_are_judged_too(shop, inside):
    done = succeeded(inside("evaluate", shop.churn, shop.customers))
    assert "Prediction sets of 90 %" in done.out
    sets = succeeded(inside("evaluate", shop.churn, shop.customers, "--coverage", "0.8", "--json")).json()[
        "prediction_sets"
    ]
    assert sets["requested_coverage"] == sets["asked"] == 0.8
    assert 0.75 <= sets["coverage"] <= 0.85  # each row beside all others
    path = write_people(people(300, seed=8), inside.folder / "other.csv")
    new = succeeded(inside("evaluate", shop.churn, path, "--json")).json()["prediction_sets"]
    frame, model = read_people(path), api.load(shop.churn)
    expected = model.predict_set(frame.drop(columns="leaves")).evaluate(frame["leaves"])
    assert (new["coverage"], new["mean_size"]) == (expected.coverage, expected.mean_size)
    assert inside("evaluate", shop.churn, path, "--coverage", "0").code == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            ("report", "churn.deciban", "customers.csv", "--no-curve", "-o", "page.html", "--force"),
            "writing the report",
        ),
        (("compare", "customers.csv", "-t", "leaves", "--repeats", "1"), "comparing"),
    ],
    ids=["report", "compare"],
)
def test_what_takes_long_says_what_it_does(command, says, shop, tmp_path, monkeypatch):
    """On a terminal; in a pipe it is quiet."""
    for path in (shop.churn, shop.customers):
        copied_to(path, tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    for screen in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", screen)
        with contextlib.chdir(tmp_path):
            assert run(command) == 0
        assert (says in screen.getvalue()) == screen.isatty()
