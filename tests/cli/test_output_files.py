"""Files that exist are overwritten with --force alone; what cannot be written is refused before any work is done."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

import deciban as api

from .customers import people, write_people
from .shell import folder_contents, succeeded


@pytest.fixture
def desk(shop, inside, request):
    """A folder with data, a model, and a file that nobody wants to lose."""
    if hasattr(request.node, "callspec") and "--plot" in request.node.callspec.params.get("line", ""):
        pytest.importorskip("matplotlib")
    (inside.folder / "churn.deciban").write_bytes(shop.churn.read_bytes())
    write_people(people(40, seed=2), inside.folder / "more.csv")
    for name in ("old.deciban", "old.csv", "old.html", "old.sql", "old.png", "report.html", "more.deciban"):
        (inside.folder / name).write_text("precious")
    return inside


OVERWRITING = {
    "train": "train more.csv -t leaves --model naive-bayes -o old.deciban",
    "train, default name": "train more.csv -t leaves --model naive-bayes",
    "predict": "predict churn.deciban more.csv -o old.csv",
    "learn": "learn churn.deciban more.csv -o old.deciban",
    "merge": "merge churn.deciban churn.deciban -o old.deciban",
    "sample": "sample churn.deciban -o old.csv",
    "report": "report churn.deciban -o old.html",
    "report, default name": "report churn.deciban",
    "export": "export churn.deciban -o old.sql",
    "compare": "compare more.csv -t leaves --repeats 1 --plot old.png",
}


@pytest.mark.parametrize("line", OVERWRITING.values(), ids=OVERWRITING)
def test_a_file_that_exists_is_kept_without_force(line, desk):
    before = folder_contents(desk.folder)
    done = desk(*shlex.split(line))
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert "already exists" in done.err
    assert "--force" in done.err
    assert folder_contents(desk.folder) == before


MISTAKES_BESIDE = {  # each with what is wrong besides
    "train more.csv -t leavs -o old.deciban": "leavs",
    "train more.csv -t leaves --schema agee=number -o old.deciban": "agee",
    "train more.csv -t leaves --model naive-byes -o old.deciban": "naive-byes",
    "predict churn.deciban more.csv --by-class -o old.csv": "--coverage",
    "predict churn.deciban mor.csv -o old.csv": "mor.csv",
    "learn churn.deciban more.csv -t leavs -o old.deciban": "leavs",
    "merge churn.deciban old.deciban -o old.csv": "old.deciban",
    "sample churn.deciban --given maybe -o old.csv": "maybe",
    "report churn.deciban --positive maybe -o old.html": "maybe",
    "report churn.deciban --cost 1-10 -o old.html": "1-10",
    "export churn.deciban -o old.sql --dialect klingon": "klingon",
    "compare more.csv -t leavs --plot old.png": "leavs",
}


@pytest.mark.parametrize(("line", "mistake"), MISTAKES_BESIDE.items())
def test_a_file_that_exists_hides_no_other_mistake(line, mistake, desk):
    before = folder_contents(desk.folder)
    done = desk(*shlex.split(line))
    assert done.code == 2
    assert mistake in done.err
    assert "already exists" not in done.err
    assert folder_contents(desk.folder) == before


@pytest.mark.parametrize("line", OVERWRITING.values(), ids=OVERWRITING)
def test_force_overwrites_it(line, desk):
    before = folder_contents(desk.folder)
    succeeded(desk(*shlex.split(line), "--force"))
    after = folder_contents(desk.folder)
    assert set(after) == set(before)
    assert len([name for name in before if before[name] != after[name]]) == 1


def test_forgetting_into_another_file_needs_force_too(desk):
    succeeded(desk("learn", "churn.deciban", "more.csv", "-o", "both.deciban"))
    forget = ("forget", "both.deciban", "more.csv", "-o", "old.deciban")
    assert desk(*forget).code == 2
    succeeded(desk(*forget, "--force"))
    assert api.load(desk.folder / "old.deciban").class_count_.sum() == 200


def test_learning_replaces_the_model_itself(desk):
    """However it is named: that is what the command is for."""
    succeeded(desk("learn", "churn.deciban", "more.csv", "-o", "./churn.deciban"))
    assert api.load(desk.folder / "churn.deciban").class_count_.sum() == 240
    succeeded(desk("forget", "churn.deciban", "more.csv"))
    assert api.load(desk.folder / "churn.deciban").class_count_.sum() == 200


def test_a_sum_may_replace_one_of_its_parts_by_force(desk):
    succeeded(desk("merge", "churn.deciban", "churn.deciban", "-o", "churn.deciban", "--force"))
    assert api.load(desk.folder / "churn.deciban").class_count_.sum() == 400


@pytest.mark.parametrize("command", ["predict churn.deciban more.csv", "sample churn.deciban"])
def test_a_device_has_nothing_to_lose(command, desk):
    (desk.folder / "nothing.csv").symlink_to("/dev/null")
    done = succeeded(desk(*shlex.split(command), "-o", "nothing.csv"))
    assert done.out == ""


def test_a_demo_keeps_what_is_in_its_folder(desk):
    (desk.folder / "messages.csv").write_text("precious")
    before = folder_contents(desk.folder)
    done = desk("demo", "--folder", ".")
    assert (done.code, "--force" in done.err) == (2, True)
    assert folder_contents(desk.folder) == before


def test_example_data_is_written_and_nothing_else_runs(desk):
    succeeded(desk("demo", "--data", "examples"))
    assert set(folder_contents(desk.folder / "examples")) == {"customers.csv", "messages.csv"}
    again = desk("demo", "--data", "examples")
    assert (again.code, "--force" in again.err) == (2, True)
    succeeded(desk("demo", "--data", "examples", "--force"))
    assert "--folder" in desk("demo", "--data", "examples", "--folder", "x").err


UNWRITABLE = [
    *(
        f"{line} -o folder"
        for line in ("predict churn.deciban more.csv", "sample churn.deciban", "report churn.deciban")
    ),
    *(f"{line} -o more.csv/x" for line in ("predict churn.deciban more.csv", "merge churn.deciban churn.deciban")),
    "train more.csv -t leaves --checkpoint folder -o new.deciban",
    "train more.csv -t leaves --checkpoint nowhere/part -o new.deciban",
    "train more.csv -t leaves --like folder -o new.deciban",
    "compare more.csv -t leaves --plot folder",
    "compare more.csv -t leaves --plot nowhere/a.png",
    "compare more.csv -t leaves --plot a.exe",
    "predict churn.deciban more.csv --coverage 0.9 --rows folder",
    "demo --folder more.csv",
    "demo --folder more.csv/inside",
    "demo --data more.csv",
]


@pytest.mark.parametrize("line", UNWRITABLE)
def test_a_path_that_cannot_be_used_is_refused_in_one_line(line, desk, monkeypatch):
    """Before anything is computed: learning may take hours."""
    monkeypatch.setattr("deciban.results.comparison.fitted_log_proba", lambda *_: pytest.fail("too late"))
    (desk.folder / "folder").mkdir()
    before = folder_contents(desk.folder)
    done = desk(*shlex.split(line))
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert str(desk.folder) not in done.err, "the path as it was given"
    assert folder_contents(desk.folder) == before


# ------------------------------------------------------------------ what was written


def test_rows_that_were_written_are_counted(desk):
    done = succeeded(desk("predict", "churn.deciban", "more.csv", "-o", "judged.csv"))
    size = (desk.folder / "judged.csv").stat().st_size
    assert done.out == f"Wrote judged.csv (40 rows, {size / 1000:.3g} kB).\n"
    document = succeeded(desk("predict", "churn.deciban", "more.csv", "-o", "again.csv", "--json")).json()
    assert document == {"file": "again.csv", "rows": 40, "bytes": size}
    document = succeeded(desk("sample", "churn.deciban", "-n", 7, "-o", "drawn.jsonl", "--json")).json()
    assert (document["file"], document["rows"]) == ("drawn.jsonl", 7)
    assert document["bytes"] == (desk.folder / "drawn.jsonl").stat().st_size
    document = succeeded(desk("export", "churn.deciban", "-o", "new.sql", "--json")).json()
    assert document == {"file": "new.sql", "bytes": (desk.folder / "new.sql").stat().st_size}


def test_standard_output_holds_rows_alone(desk):
    lines = succeeded(desk("predict", "churn.deciban", "more.csv", "-o", "-")).out.splitlines()
    assert len(lines) == 41
    assert lines == succeeded(desk("predict", "churn.deciban", "more.csv")).out.splitlines()


def test_a_page_of_ours_is_recognised(desk):
    from deciban.report import is_report

    succeeded(desk("report", "churn.deciban", "-o", "page.html"))
    assert is_report(desk.folder / "page.html")
    (desk.folder / "other.html").write_text("<!doctype html>\n<html><title>deciban report</title></html>")
    assert not is_report(desk.folder / "other.html")
    rng = np.random.default_rng(0)
    (desk.folder / "noise.html").write_bytes(rng.bytes(50))
    assert not is_report(desk.folder / "noise.html")
