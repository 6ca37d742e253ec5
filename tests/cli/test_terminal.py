"""On terminals, in pipes and under signals: widths, colours, help, completion, and clean exits."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import deciban as api
from deciban.cli.app import COMMANDS
from deciban.cli.screen import fit_columns, screen_table

from .customers import people, write_people
from .shell import (
    ANSI_CODE,
    TIMEOUT_SECONDS,
    command,
    environment,
    folder_contents,
    on_a_terminal,
    succeeded,
    visible_lines,
)

TEXT = "Free tickets for the meeting tomorrow! Click here and claim them now, or bring them along on Saturday."
COMMANDS_SHOWN = {
    "show": ("show", "churn.deciban"),
    "explain a row": ("explain", "churn.deciban", "customers.csv", "--row", "3"),
    "explain a text": ("explain", "spam.deciban", "--text", TEXT),
    "evaluate": ("evaluate", "churn.deciban", "customers.csv", "--as-new"),
    "predict": ("predict", "churn.deciban", "customers.csv", "--proba"),
    "predict texts": ("predict", "spam.deciban", "messages.csv"),
    "sample": ("sample", "churn.deciban", "-n", "3", "--seed", "1"),
}


SLOW_CASES = [
    ("explain a row", 80),
    ("predict texts", 80),
    ("sample", 80),
    *((name, 200) for name in COMMANDS_SHOWN),
]


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("show", 80),
        ("explain a text", 80),
        ("evaluate", 80),
        ("predict", 80),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW_CASES),
    ],
)
def test_everything_fits_the_terminal(name, width, shop):
    code, screen = on_a_terminal(*COMMANDS_SHOWN[name], cwd=shop.folder, width=width)
    lines = visible_lines(screen)
    assert code == 0, screen
    assert max(map(len, lines)) <= width
    assert ANSI_CODE.search(screen), "in colour, or bold at least"
    assert len(lines) > 4
    assert "e+0" not in screen


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 200])
def test_curves_fit_the_terminal_with_whole_names(width, shop):
    code, screen = on_a_terminal("compare", "messages.csv", "-t", "label", "--repeats", 2, cwd=shop.folder, width=width)
    assert code == 0
    assert max(map(len, visible_lines(screen))) <= width
    assert "…" not in screen
    assert screen.count("LogisticRegression") >= 2


def test_long_work_shows_a_bar_that_goes_away(shop, tmp_path):
    """And sentences are wrapped between words."""
    code, screen = on_a_terminal("train", shop.messages, "-t", "label", "-o", "m.deciban", cwd=tmp_path, width=60)
    assert code == 0
    assert "learning" in screen
    left = " ".join(visible_lines(screen)[-5:])
    assert "Cross-fitted leave-one-out: accuracy 92.2 %, log loss" in re.sub(r"\s+", " ", left)
    assert max(map(len, visible_lines(screen)[-5:])) <= 60


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
@pytest.mark.parametrize("name", ["explain a text", "show"])
@pytest.mark.slow_where("show|text-NO_COLOR")  # help_is_plain has NO_COLOR
def test_colours_are_left_out_where_they_are_not_wanted(name, variables, shop):
    code, screen = on_a_terminal(*COMMANDS_SHOWN[name], cwd=shop.folder, width=80, **variables)
    assert code == 0
    assert "\x1b" not in screen
    assert max(map(len, visible_lines(screen))) <= 80


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, pytest.param({"TERM": "dumb"}, marks=pytest.mark.slow)])
def test_help_is_plain_where_colours_are_not_wanted(variables, tmp_path):
    code, screen = on_a_terminal("show", "--help", cwd=tmp_path, width=80, **variables)
    assert code == 0
    assert "\x1b" not in screen


def test_an_error_is_red_on_a_terminal_and_plain_without_colour(tmp_path):
    code, screen = on_a_terminal("show", "missing.deciban", cwd=tmp_path, width=80)
    assert code == 2
    assert screen.startswith("\x1b[31mdeciban: error: \x1b[0mthere is no model file")
    _, screen = on_a_terminal("show", "missing.deciban", cwd=tmp_path, width=80, NO_COLOR="1")
    assert screen.startswith("deciban: error: there is no model file")


# ------------------------------------------------------------------ columns of a table


def test_what_was_asked_for_is_shown_where_room_is_short():
    import pyarrow as pa

    columns = {f"column {i}": ["some longer text"] * 3 for i in range(9)}
    table = pa.table({**columns, "prediction": ["yes", "no", "yes"], "probability": [0.5, 0.123456, 1.0]})
    shown = screen_table(table, "3 rows", ["prediction", "probability"], width=80)
    assert shown.columns[0] == "row"
    assert shown.columns[-2:] == ("prediction", "probability")
    assert [row[-1] for row in shown.rows] == ["0.5000", "0.1235", "1.0000"]
    assert re.fullmatch(r"3 rows \(\d more columns\)", shown.title)
    wide = screen_table(table, "3 rows", ["prediction", "probability"], width=400)
    assert wide.title == "3 rows"
    assert wide.columns == ("row", *table.column_names)
    assert wide.rows[0][1] == "some longer text"


@pytest.mark.parametrize("width", [25, 40, 80, 120, 300])
def test_columns_never_take_more_than_there_is(width):
    wanted = {"row": 3, "a": 50, "bee": 9, "a long name of a column": 5, "c": 1, "answer": 12}
    given = fit_columns(wanted, ("row", "answer"), width)
    assert sum(given.values()) + 3 * len(given) + 1 <= width
    assert {"row", "answer"} <= set(given)
    assert all(len(name) <= given[name] <= wanted[name] or given[name] == len(name) for name in given)


# ------------------------------------------------------------------ help


def help_of(inside, *arguments) -> str:
    done = inside(*arguments, "--help")
    assert (done.code, done.err) == (0, "")
    return done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_by_example(name, inside, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    help_text = help_of(inside, name)
    assert max(map(len, help_text.splitlines())) <= 80
    examples = re.search(r"Examples:\s*\n((?: +.*deciban .*\n)+)", help_text)
    assert examples, "a block of commands"
    lines = [line.strip() for line in examples[1].splitlines()]
    assert lines == [line.strip() for line in documented(name)], "none is broken in two"
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_text.replace("\n", " ")))
    for line in lines:
        own = line.partition(f"deciban {name}")[2].partition("|")[0]
        assert set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", own)) <= known, "options that there are"


def test_help_says_which_arguments_may_be_several(inside):
    usages = {name: help_of(inside, name).strip().splitlines()[0] for name in ("train", "predict", "explain", "merge")}
    assert "{DATA...}" in usages["train"]
    assert "{MODEL} {DATA...}" in usages["predict"]
    assert "{MODEL} [DATA...]" in usages["explain"]
    assert "{MODEL...}" in usages["merge"]


def documented(name: str) -> list[str]:
    import importlib

    text = getattr(importlib.import_module(f"deciban.cli.commands.{name}"), name).__doc__
    return [line for line in text.partition("Examples:\n")[2].splitlines() if line.strip()]


def test_the_first_page_names_every_command(inside):
    help_text = help_of(inside)
    assert max(map(len, help_text.splitlines())) <= 80
    for name in COMMANDS:
        assert re.search(rf"^. {name} +[A-Z]", help_text, re.MULTILINE)
    assert help_text.index(" train ") < help_text.index(" explain ") < help_text.index(" bench ")


def test_without_arguments_the_first_page_is_shown(inside):
    done = inside()
    assert done.code == 2
    assert "deciban train messages.csv" in done.out + done.err
    assert "Traceback" not in done.err


def test_the_version(inside):
    for option in ("--version", "-V"):
        done = inside(option)
        assert (done.code, done.out) == (0, f"deciban {api.__version__}\n")


def test_the_script_is_the_same_command(inside, tmp_path):
    script = Path(sys.executable).with_name("deciban")
    if not script.exists():
        pytest.skip("the script `deciban` is not installed beside this Python")
    for arguments in (["--version"], ["show", "missing.deciban"]):
        done = subprocess.run(
            [script, *arguments],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        other = inside(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (other.code, other.out, other.err)


# ------------------------------------------------------------------ completion


def completed(line: str, tmp_path) -> list[str]:
    done = subprocess.run(
        command(),
        cwd=tmp_path,
        env=environment(_DECIBAN_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_commands_and_options(tmp_path):
    assert completed("deciban ex", tmp_path) == ["explain", "export"]
    assert {"--text", "--target"} <= set(completed("deciban explain --t", tmp_path))


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to complete for")
def test_shell_completion_script(tmp_path):
    pytest.importorskip("shellingham", reason="which shell it is, shellingham finds out")
    done = subprocess.run(
        ["bash", "-c", '"$@"; exit $?', "bash", *command("--show-completion")],
        cwd=tmp_path,
        env=environment(SHELL="/bin/bash"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "_DECIBAN_COMPLETE" in done.stdout


# ------------------------------------------------------------------ ends


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "churn.deciban", "customers.csv"),
        *(pytest.param(a, marks=pytest.mark.slow) for a in (("show", "churn.deciban"), ("--help",))),
    ],
)
def test_a_closed_pipe_is_no_error(arguments, shop):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command(*arguments),
            cwd=shop.folder,
            env=environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 0


def test_a_reader_that_has_seen_enough_is_no_error(shop, tmp_path):
    """As in `deciban predict … | head -1`, with more rows than a pipe holds."""
    write_people(people(4000, seed=1), tmp_path / "many.csv")
    with subprocess.Popen(
        command("predict", shop.churn, "many.csv"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout.readline().startswith(b"age,spent")
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=TIMEOUT_SECONDS) == 0


@pytest.fixture
def interruptible():
    """Processes that are started react to SIGINT, even if these tests run in the background of a shell, ignoring it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(child) -> None:
    """While the process that writes to its input goes on."""
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=TIMEOUT_SECONDS) == 130
    assert child.stderr.read() == b"deciban: error: interrupted; nothing was written\n"
    assert child.stdout.read() == b""


def started(folder, *arguments):
    """A running command: it has begun to read an input that never ends."""
    child = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    child.stdin.write(b"x,y\n" + b"1,a\n2,b\n" * 20_000)  # more than a pipe holds: so the reader has started
    child.stdin.flush()
    return child


@pytest.mark.parametrize(
    "arguments",
    [("learn", "m.deciban", "-"), pytest.param(("train", "-", "-t", "y", "-o", "new.deciban"), marks=pytest.mark.slow)],
)
@pytest.mark.usefixtures("interruptible")
def test_who_is_interrupted_leaves_everything_as_it_was(arguments, inside):
    if arguments[0] == "learn":
        (inside.folder / "t.csv").write_text("x,y\n1,a\n2,b\n")
        succeeded(inside("train", "t.csv", "-t", "y", "--model", "naive-bayes", "-o", "m.deciban"))
    before = folder_contents(inside.folder)
    with started(inside.folder, *arguments) as child:
        interrupted(child)
    assert folder_contents(inside.folder) == before


# Learning restarts when done, so that the command is busy when the signal comes, however fast the machine.
NEVER_DONE = """
import os, sys
from deciban.cli.run import run
from deciban.estimators import tables
learn = tables.choose
def forever(*given, **named):
    os.write(1, b".")
    while True:
        learn(*given, **named)
tables.choose = forever
sys.exit(run(["train", "t.csv", "-t", "leaves"]))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_long_computing_is_interrupted(tmp_path):
    """In the middle of learning, where most time is spent outside of Python."""
    write_people(people(2000, seed=2), tmp_path / "t.csv")
    before = folder_contents(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", NEVER_DONE],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout.read(1) == b".", child.stderr.read()
        interrupted(child)
    assert folder_contents(tmp_path) == before
