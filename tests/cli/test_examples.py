"""Every example of every help runs as it stands; options that commands share have one name, one help and one order."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import shlex
import shutil
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import typer

from deciban.cli.app import COMMANDS, EPILOG, app
from deciban.cli.run import run

from .shell import InProcess, deciban, succeeded

WORDS = {"ham": "lunch noon room agenda see you there", "spam": "win cash prize claim now free phone"}


def message(label: str, number: int, rng) -> str:
    return f"Subject: {label} {number}\n\n{' '.join(rng.choice(WORDS[label].split(), 6))}\n"


def write_mailbox(path, label: str, rng, start: int = 0) -> None:
    mails = [f"From a@b Mon Jan  1 00:00:00 2024\n{message(label, start + i, rng)}\n" for i in range(15)]
    path.write_text("".join(mails))


def furnish(folder) -> None:
    """Files of the names that examples use."""
    rng = np.random.default_rng(0)
    n = 40
    churned = np.arange(n) % 2 == 1
    customers = pd.DataFrame(
        {
            "id": np.arange(1000, 1000 + n),
            "plan": rng.choice(["basic", "plus"], n),
            "months": rng.poisson(np.where(churned, 5, 20)),
            "churned": np.where(churned, "yes", "no"),
        }
    )
    customers.to_csv(folder / "customers.csv", index=False)
    customers[:10].to_csv(folder / "customer_4711.csv", index=False)
    customers[:20].to_csv(folder / "new.csv", index=False)
    for name in ("held_out", "november"):
        customers.sample(frac=1.0, random_state=1).assign(months=lambda t: t["months"] + 1).to_csv(
            folder / f"{name}.csv", index=False
        )
    customers[:20].to_parquet(folder / "new.parquet", index=False)
    if SPREADSHEETS:
        orders = customers.rename(columns={"churned": "returned"}).assign(
            when=[f"5/{1 + i % 12}/2024" for i in range(n)]
        )
        orders.to_excel(folder / "shop.xlsx", sheet_name="orders", index=False, engine="xlsxwriter")
    for name, target in (("sales", "returned"), ("huge", "y")):
        (folder / name).mkdir()
        for part in range(2):
            table = customers[part::2].rename(columns={"churned": target})
            table.assign(**{target: np.where(rng.random(n // 2) < 0.5, "no", "yes")}).to_parquet(
                folder / name / f"part{part}.parquet", index=False
            )
    with gzip.open(folder / "big.csv.gz", "wt") as file:
        customers.rename(columns={"churned": "label"}).to_csv(file, index=False)
    for name, half in (("a", customers[::2]), ("b", customers[1::2])):
        shuffled = half.assign(churned=np.where(np.arange(len(half)) % 3 == 0, "no", "yes"))
        shuffled.rename(columns={"churned": "y"}).to_csv(folder / f"{name}.csv", index=False)
    labels = ["ham", "spam"] * 30
    texts = [" ".join(rng.choice(WORDS[label].split(), 5)) for label in labels]
    for name in ("messages", "more"):
        pd.DataFrame({"label": labels, "message": texts}).to_csv(folder / f"{name}.csv", index=False)
    write_mailbox(folder / "Junk.mbox", "spam", rng)
    write_mailbox(folder / "NewJunk.mbox", "spam", rng, 100)
    write_mailbox(folder / "Inbox.mbox", "ham", rng)
    for part in ("cur", "new", "tmp"):
        (folder / "Maildir" / part).mkdir(parents=True)
    for i in range(15):
        (folder / "Maildir" / "cur" / f"{i}:2,S").write_text(message("ham", i, rng))
    for name in ("mistaken", "new", "missed"):
        (folder / f"{name}.eml").write_text((folder / "Maildir" / "cur" / "0:2,S").read_text())


MODELS = (
    "train customers.csv --target churned -o churn.deciban --schema id=skip",
    "train messages.csv --target label -o spam.deciban",
    "train spam=Junk.mbox ham=Maildir/ -o filter.deciban",
    "train a.csv --target y --model naive-bayes -o monday.deciban",
    "train b.csv --target y --model naive-bayes -o tuesday.deciban",
    "train a.csv --target y -o a.deciban",
    "train spam=Junk.mbox ham=Maildir/ -o mail.deciban",
)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    furnish(folder)
    with contextlib.chdir(folder):
        for line in MODELS:
            assert run(shlex.split(line)) == 0, line
    return folder


def examples(name: str) -> list[str]:
    text = getattr(importlib.import_module(f"deciban.cli.commands.{name}"), name).__doc__
    return [line.strip() for line in text.partition("Examples:\n")[2].splitlines() if line.strip()]


SLOW = ("bench", "demo", "--repeats 20", "export churn.deciban -o churn.onnx")
SPREADSHEETS = find_spec("xlsxwriter") is not None and find_spec("python_calamine") is not None
NEEDS_DATABASE = "postgresql://"
NEED_SERVERS = ("serve", "mailbox")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
        for name in COMMANDS
        if name not in NEED_SERVERS
    ],
)  # what serves does not end; tests/server starts servers
def test_every_example_runs(name, furnished, tmp_path, capsys):
    folder = tmp_path / "here"
    shutil.copytree(furnished, folder, ignore=shutil.ignore_patterns("*.deciban" if name == "train" else ""))
    inside = InProcess(capsys, folder)
    for line in examples(name):
        if NEEDS_DATABASE in line or (".xlsx" in line and not SPREADSHEETS):
            continue
        if line.startswith("deciban token key") and find_spec("cryptography") is None:
            continue
        if "|" in line or any(word in line for word in SLOW if name not in SLOW):
            continue
        if name == "filter":  # it starts a program, which reads standard input itself
            command, _, mail = line.partition(" < ")
            if "--model" in command:  # the others ask a server
                done = deciban(*shlex.split(command)[1:], cwd=folder, given=(folder / mail).read_bytes())
                assert done.code == ("--verdict" in command), done.err  # 1 is ham
            continue
        succeeded(inside(*shlex.split(line)[1:]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [line for name in COMMANDS for line in examples(name) if "|" in line or line.endswith(SLOW[-2:])]
)
def test_examples_in_a_pipe_run(line, furnished, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(furnished, folder)
    command = next(part for part in line.split("|") if "deciban " in part)
    packed, plain = folder / "big.csv.gz", folder / "new.csv"
    given = gzip.decompress(packed.read_bytes()) if "zcat" in line else plain.read_bytes()
    succeeded(deciban(*shlex.split(command)[1:], cwd=folder, given=given))


def test_the_first_session_runs(furnished, tmp_path, capsys):
    folder = tmp_path / "here"
    shutil.copytree(furnished, folder)
    inside = InProcess(capsys, folder)
    for line in (line.strip() for line in EPILOG.splitlines() if line.startswith("    deciban ")):
        succeeded(inside(*shlex.split(line.partition("      writes")[0])[1:]))


# ------------------------------------------------------------------ options that commands share


def options_of_commands() -> dict[str, list]:
    commands = typer.main.get_command(app([])).commands
    return {name: [one for one in commands[name].params if one.opts[0].startswith("-")] for name in COMMANDS}


OWN_MEANING = {
    "--output": "what is written differs",
    "--target": "explain asks for a class",
    "--text": "train asks for a column",
    "--table": "a table to learn from, or to score",
    "--coverage": "predict adds a column",
    "--model": "train asks for a kind of model, the others for one on the server",
    "--evidence": "of the model, or of a mail",
    "--port": "of the filter, or of a mail server",
    "--socket": "serve listens on it",
    "--learn": "a mail, or the mails of a folder",
    "--max-size": "what happens to larger mails differs",
}


def test_options_that_commands_share_say_the_same():
    helps: dict[str, set] = {}
    for one in (one for options in options_of_commands().values() for one in options):
        helps.setdefault(one.opts[0], set()).add((tuple(one.opts), one.help, one.metavar))
    several = {name for name, ways in helps.items() if len(ways) > 1}
    assert several == set(OWN_MEANING)


def test_options_that_commands_share_have_one_order():
    order = ["--target", "--output", "--plot", "--folder", "--force", "--leave-one-out", "--coverage", "--by-class"]
    order += ["--seed", "--jobs", "--format", "--delimiter", "--encoding", "--missing", "--header", "--sheet"]
    order += ["--decimal", "--thousands", "--day-first", "--escape-formulas", "--json"]
    for name, options in options_of_commands().items():
        if name == "explain":
            continue  # its --target is another
        shared = [one.opts[0] for one in options if one.opts[0] in order]
        assert shared == sorted(shared, key=order.index), name


def test_every_value_is_named_in_the_help():
    """COLUMN, FILE or NUMBER rather than <str>."""
    for options in options_of_commands().values():
        assert not [one.opts[0] for one in options if not one.is_flag and one.metavar is None]


def test_whatever_writes_a_file_knows_force():
    writing = {"--output", "--plot", "--folder"}
    for name, options in options_of_commands().items():
        names = {one.opts[0] for one in options}
        assert ("--force" in names) == bool(writing & names), name
