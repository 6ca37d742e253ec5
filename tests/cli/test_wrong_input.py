"""Bad input to every command: one line that says what to do, exit code 2, and nothing is written."""

from __future__ import annotations

import contextlib
import os
import re
import shlex

import numpy as np
import pytest

from deciban import ComplementNB
from deciban.cli.run import run

from .customers import people, write_people
from .shell import deciban, folder_contents

TABLE = "age,spent,plan,active,joined,leaves\n"


def furnish(folder, shop) -> None:
    """Files with all kinds of errors, by name."""
    rng = np.random.default_rng(0)
    (folder / "churn.deciban").write_bytes(shop.churn.read_bytes())
    (folder / "spam.deciban").write_bytes(shop.spam.read_bytes())
    write_people(people(20), folder / "good.csv")
    (folder / "texts.csv").write_text("label,message\nham,hello there\nspam,win now\n")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text(TABLE)
    (folder / "other.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "ragged.csv").write_text(TABLE + "1,2,basic,true,2020-01-01,no\n1,2,basic\n")
    (folder / "latin.csv").write_bytes(TABLE.encode() + b"1,2,caf\xe9 \x81,true,2020-01-01,no\n")
    (folder / "unlabelled.csv").write_text(TABLE + "1,2,basic,true,2020-01-01,\n")
    (folder / "numbers.csv").write_text("a,y\n" + "".join(f"{i},{i + 0.5}\n" for i in range(80)))
    for name in ("junk.csv", "junk.parquet", "junk.arrow", "junk.deciban"):
        (folder / name).write_bytes(rng.bytes(3000))
    (folder / "junk.jsonl").write_text('{"a": 1}\n{"a": \n')
    (folder / "empty.deciban").write_bytes(b"")
    whole = shop.churn.read_bytes()
    (folder / "cut.deciban").write_bytes(whole[: len(whole) // 2])
    (folder / "flipped.deciban").write_bytes(whole[:-50] + bytes([whole[-50] ^ 4]) + whole[-49:])
    (folder / "folder").mkdir()
    (folder / "unknown.csv").write_text("label,message\neggs,hello there\n")
    (folder / "never.csv").write_text(TABLE + "1,2,platinum,true,2020-01-01,no\n")
    (folder / "inf.csv").write_text(TABLE + "1,inf,basic,true,2020-01-01,no\n2,3,gold,false,2020-01-02,yes\n")
    (folder / "odd.csv").write_text(TABLE + "old,2,basic,true,2020-01-01,no\n3,4,gold,false,yesterday,yes\n")
    (folder / "halves.csv").write_text("a,y\n" + "".join(f"{i % 7},{i % 3 + 0.5}\n" for i in range(30)))
    (folder / "infinite_label.csv").write_text(
        "a,y\n" + "".join(f"{i},{'inf' if i == 4 else i % 3}\n" for i in range(30))
    )
    (folder / "negative.csv").write_text("a,y\n" + "".join(f"{i % 7 - 3},{'xz'[i % 2]}\n" for i in range(30)))
    (folder / "texts").mkdir()
    (folder / "texts" / "one.txt").write_text("hello there\n")
    with contextlib.chdir(folder):
        for model in SIMPLE:
            assert run(["train", "good.csv", "-t", "leaves", "--model", model, "-o", f"{model}.deciban"]) == 0


BAD_TABLES = (
    "missing.csv",
    "empty.csv",
    "ragged.csv",
    "junk.csv",
    "junk.parquet",
    "junk.arrow",
    "junk.jsonl",
    "latin.csv",
    "folder",
)
BAD_MODELS = (
    "missing.deciban",
    "junk.deciban",
    "empty.deciban",
    "cut.deciban",
    "flipped.deciban",
    "good.csv",
    "folder",
)
SIMPLE = ("naive-bayes", "tree")
WITH_MODEL_AND_DATA = ("predict", "explain", "evaluate", "learn", "forget", "report")

CASES = [
    # every command without anything, and with an option that it does not have
    *(f"{name}" for name in ("train", "predict", "explain", "evaluate", "learn", "forget", "merge", "show", "sample")),
    *(f"{name}" for name in ("compare", "report", "export")),
    *(
        f"{name} --frobnicate"
        for name in ("train", "predict", "explain", "evaluate", "learn", "forget", "merge", "show")
    ),
    *(f"{name} --frobnicate" for name in ("sample", "compare", "report", "export", "demo", "bench")),
    "frobnicate",
    "--frobnicate",
    "demo extra",
    "demo --folder good.csv",
    "bench extra",
    # data that cannot be read
    *(f"train {bad} -t leaves -o new.deciban" for bad in (*BAD_TABLES, "header.csv", "unlabelled.csv")),
    *(f"compare {bad} -t leaves" for bad in (*BAD_TABLES, "header.csv", "unlabelled.csv")),
    *(f"{name} churn.deciban {bad}" for name in WITH_MODEL_AND_DATA for bad in BAD_TABLES),
    *(f"{name} churn.deciban header.csv" for name in ("explain", "evaluate", "learn", "forget", "report")),
    *(f"{name} churn.deciban unlabelled.csv" for name in ("evaluate", "learn", "forget", "report")),
    "train 'none*.csv' -t leaves",
    "train spam=missing ham=folder -o new.deciban",
    "train good.csv texts.csv -t leaves -o new.deciban",
    "train - -t leaves -o new.deciban",
    # models that cannot be read
    *(f"{name} {bad} good.csv" for name in WITH_MODEL_AND_DATA for bad in BAD_MODELS),
    *(f"{name} {bad}" for name in ("show", "sample") for bad in BAD_MODELS),
    *(f"merge churn.deciban {bad} -o new.deciban" for bad in BAD_MODELS),
    *(f"export {bad} -o new.sql" for bad in BAD_MODELS),
    "train good.csv -t leaves --like junk.deciban -o new.deciban",
    # a model for other columns
    *(f"{name} churn.deciban other.csv" for name in WITH_MODEL_AND_DATA),
    *(f"{name} churn.deciban other.csv -t b" for name in ("evaluate", "learn", "forget", "report")),
    *(f"{name} spam.deciban good.csv" for name in WITH_MODEL_AND_DATA),
    *(f"{name} spam.deciban good.csv -t leaves" for name in ("evaluate", "learn", "forget", "report")),
    "train good.csv -t leaves --like spam.deciban -o new.deciban",
    "merge churn.deciban spam.deciban -o new.deciban",
    # a target that is none
    "train good.csv",
    "train good.csv -t nothing",
    "train numbers.csv -t y",
    "train numbers.csv -t a",
    "compare good.csv",
    "compare good.csv -t nothing",
    "compare numbers.csv -t y",
    *(f"{name} churn.deciban good.csv -t nothing" for name in ("evaluate", "learn", "forget", "report")),
    # classes and rows that are not there
    "explain churn.deciban good.csv --target perhaps",
    "explain churn.deciban good.csv --against perhaps",
    "explain churn.deciban good.csv --target yes --against yes",
    "explain churn.deciban good.csv --row 0",
    "explain churn.deciban good.csv --row 21",
    "explain churn.deciban good.csv --row one",
    "sample churn.deciban --given perhaps",
    "evaluate spam.deciban unknown.csv",
    "evaluate spam.deciban unknown.csv --leave-one-out",
    "forget spam.deciban unknown.csv",
    "forget spam.deciban texts.csv",
    "forget churn.deciban never.csv",
    "evaluate churn.deciban never.csv --leave-one-out",
    # paths that cannot be written
    "train good.csv -t leaves -o folder",
    "train good.csv -t leaves -o nowhere/new.deciban",
    "train good.csv -t leaves -o good.csv/new.deciban",
    *(f"{name} churn.deciban good.csv -o {bad}" for name in ("learn", "forget") for bad in ("folder", "nowhere/new")),
    "merge churn.deciban churn.deciban -o folder",
    "merge churn.deciban churn.deciban -o nowhere/new.deciban",
    *(
        f"{name} -o {bad}"
        for name in ("predict churn.deciban good.csv", "sample churn.deciban")
        for bad in ("folder", "nowhere/a.csv", "a.exe", "folder/a.b.c")
    ),
    "report churn.deciban -o folder",
    "report churn.deciban -o nowhere/page.html",
    *(f"export churn.deciban -o {bad}" for bad in ("folder", "nowhere/a.sql", "nowhere/a.onnx", "a.exe")),
    "compare texts.csv -t label --plot nowhere/a.png",
    # options that do not fit together
    "explain churn.deciban",
    "explain churn.deciban good.csv --text hello",
    "explain churn.deciban --text hello",
    "explain churn.deciban --set nothing=1",
    "explain churn.deciban --set age",
    "explain churn.deciban --set age=old",
    "explain churn.deciban --set age=1 --by guess",
    "explain spam.deciban --set age=1",
    "explain spam.deciban --text hello --by expert",
    "train good.csv -t leaves --model guess",
    "train good.csv -t leaves --model text",
    "train good.csv -t leaves --text nothing",
    "train good.csv -t leaves --schema nothing=number",
    "train good.csv -t leaves --schema age=guess",
    "train good.csv -t leaves --schema age",
    "train good.csv -t leaves --model tree --schema age=count",
    "train good.csv -t leaves --format guess",
    "train good.csv -t leaves --delimiter ab",
    "train good.csv -t leaves --encoding guess",
    "train good.csv -t leaves --jobs few",
    "merge churn.deciban -o new.deciban",
    "merge churn.deciban churn.deciban",
    "export churn.deciban",
    "export churn.deciban -o new.sql --dialect klingon",
    "show churn.deciban --evidence -1",
    "show churn.deciban good.csv",
    "sample churn.deciban -n -1",
    "sample churn.deciban --seed -1",
    "compare good.csv -t leaves --repeats 0",
    "train good.csv -t leaves --jobs 0",
    "train good.csv -t leaves --like churn.deciban --engine stream",
    # values that do not fit a column, in every model
    "train inf.csv -t leaves",
    "train halves.csv -t y",
    "train infinite_label.csv -t y",
    "train negative.csv -t y --model naive-bayes --schema a=count",
    "train negative.csv -t y --schema a=count",
    *(f"train good.csv -t leaves --schema plan={kind}" for kind in ("number", "count", "date", "boolean")),
    "train good.csv -t leaves --model naive-bayes --schema plan=number",
    "train good.csv -t leaves --model naive-bayes --schema plan=text",
    *(
        f"{name} {model}.deciban {bad}.csv"
        for name in ("predict", "learn")
        for model in SIMPLE
        for bad in ("odd", "inf")
    ),
    *(f"{name} {model}.deciban other.csv" for name in ("predict", "explain") for model in SIMPLE),
    *(
        f"{name} {model}.deciban other.csv -t b"
        for name in ("learn", "forget", "evaluate", "report")
        for model in SIMPLE
    ),
    *(f"forget {model}.deciban never.csv" for model in SIMPLE),
    *(f"explain {model}.deciban --set {pair}" for model in SIMPLE for pair in ("nothing=1", "age", "agee=3")),
    "explain naive-bayes.deciban --set age=old",
    "explain churn.deciban --set age=inf",
    "evaluate naive-bayes.deciban never.csv --leave-one-out",
    *(f"{name} churn.deciban good.csv --coverage {bad}" for name in ("predict", "evaluate") for bad in ("0", "2", "x")),
    "train texts.csv -t label --like churn.deciban -o new.deciban",
    "train spam=texts ham=texts --like churn.deciban -o new.deciban",
    "train numbers.csv -t a --model spam --text y",
    "export spam.deciban -o new.sql",
]
# Words of Python that mean nothing on a command line.
PYTHON = re.compile(
    r"\b(None|NaN|True|NULL|ravel|reshape|dtype|predict_proba|partial_fit|calibrate|fit\(|features|in memory)\b"
    r"|\b[a-z_]+=[\[\('\"{]|\b(schema|y|columns|engine|checkpoint|query|n_jobs)=| y | X |\by has\b|of y\b|int\b"
)


@pytest.fixture(scope="module")
def room(shop, tmp_path_factory):
    """Nothing in it ever changes, so that one is enough."""
    folder = tmp_path_factory.mktemp("room")
    furnish(folder, shop)
    return folder


@pytest.fixture(scope="module")
def content(room):
    return folder_contents(room)


def check(done, room, content) -> None:
    assert done.out == ""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("deciban: error: ")
    assert len(lines[0]) > len("deciban: error: ") + 10, "it says something"
    assert "Traceback" not in done.err
    assert "row 0" not in done.err, "people count from 1"
    assert not PYTHON.search(done.err), done.err
    assert done.code == 2
    assert folder_contents(room) == content


@pytest.mark.parametrize("line", CASES)
def test_wrong_input_is_refused_in_one_line(line, room, content, inside, monkeypatch):
    inside.folder = room
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        check(inside(*shlex.split(line)), room, content)


@pytest.mark.parametrize(
    "line",
    [
        "train ragged.csv -t leaves -o new.deciban",
        "predict flipped.deciban good.csv -o out.csv",
        pytest.param("learn churn.deciban other.csv", marks=pytest.mark.slow),
        pytest.param("explain churn.deciban good.csv --row 21", marks=pytest.mark.slow),
        pytest.param("report junk.deciban", marks=pytest.mark.slow),
    ],
)
def test_so_it_is_in_a_process_of_its_own(line, room, content):
    check(deciban(*shlex.split(line), cwd=room), room, content)


WORDS = {
    "train ragged.csv -t leaves": ("row 2 of ragged.csv", "line 3", "--delimiter"),
    "train latin.csv -t leaves": ("row 1 of latin.csv", "--encoding latin-1"),
    "train good.csv": ("--target", "age", "leaves"),
    "train good.csv -t leave": ("did you mean 'leaves'",),
    "explain churn.deciban good.csv --row 21": ("20 rows",),
    "explain churn.deciban --set agee=3": ("did you mean 'age'",),
    "merge churn.deciban -o new.deciban": ("two or more model files",),
    "forget churn.deciban never.csv": ("row 1", "column"),
    "explain churn.deciban good.csv --target perhaps": ("'perhaps'", "no, yes"),
    "train": ("DATA", "deciban train --help"),
    "frobnicate": ("frobnicate", "deciban --help"),
    "predict cut.deciban good.csv": ("cut short",),
    "predict flipped.deciban good.csv": ("checksum",),
}


@pytest.mark.parametrize("line", WORDS)
def test_errors_name_the_place_and_the_remedy(line, room, inside):
    inside.folder = room
    message = inside(*shlex.split(line)).err
    for word in WORDS[line]:
        assert word in message


@pytest.mark.skipif(os.geteuid() == 0, reason="to root every folder can be written to")
@pytest.mark.parametrize(
    "line",
    [
        "train good.csv -t leaves -o locked/new.deciban",
        "predict churn.deciban good.csv -o locked/out.csv",
        "report churn.deciban -o locked/page.html",
        "export churn.deciban -o locked/a.sql",
    ],
)
def test_a_folder_that_is_locked_stays_as_it_is(line, shop, tmp_path, inside):
    furnish(tmp_path, shop)
    (tmp_path / "locked").mkdir(mode=0o500)
    check(inside(*shlex.split(line)), tmp_path, folder_contents(tmp_path))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc, where nobody can make files")
@pytest.mark.parametrize(
    "line",
    [
        "train good.csv -t leaves --model naive-bayes -o /proc/m.deciban",
        "predict churn.deciban good.csv -o /proc/a.csv",
        "report churn.deciban -o /proc/a.html",
    ],
)
def test_a_folder_that_is_not_writable(line, room, content, inside):
    inside.folder = room
    check(inside(*shlex.split(line)), room, content)


def test_a_bug_is_distinguished_from_wrong_input(room, inside, monkeypatch):
    """Exit code 1, and where it happened."""
    monkeypatch.setattr("deciban.cli.commands.predict.open_model", lambda path: path.frobnicate())
    inside.folder = room
    done = inside("predict", "churn.deciban", "good.csv")
    assert done.code == 1
    assert "Traceback" in done.err
    assert "bug in deciban" in done.err.splitlines()[-1]


def test_what_a_model_does_not_have_is_a_mistake(inside):
    ComplementNB().fit([[1, 2], [3, 0]], ["a", "b"]).save(inside.folder / "c.deciban")
    done = inside("sample", "c.deciban")
    assert done.code == 2
    assert "not a generative model" in done.err


def test_developers_can_ask_for_tracebacks(room, inside, monkeypatch):
    monkeypatch.setenv("DECIBAN_TRACEBACK", "1")
    inside.folder = room
    with pytest.raises(ValueError, match="cut short"):
        inside("predict", "cut.deciban", "good.csv")
