"""`deciban demo`: a guided example."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from deciban.cli import options
from deciban.cli.terminal import print_line
from deciban.errors import DecibanError

EXAMPLE_DATA = ("customers.csv", "messages.csv")  # what ships with the package
TOUR_FILES = ("messages.csv", "one.csv", "spam.deciban", "without.deciban", "report.html")
EXAMPLE_TEXT = "Free tickets for the meeting, claim your prize now"


def demo(
    folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder for its files; a new temporary folder by default.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Only write the example data to this folder: customers.csv, messages.csv."),
    ] = None,
    force: options.Force = False,
) -> None:
    """See deciban at work: train on 400 example messages, evaluate, explain, forget, sample, and write a report.

    Each command is printed before it runs. Nothing is downloaded.

    \b
    Examples:
      deciban demo
      deciban demo --folder demo
      deciban demo --data examples
    """
    if data is not None:
        if folder is not None:
            raise DecibanError("--data writes the example data and stops: leave out --folder")
        directory = checked_folder("--data", data, EXAMPLE_DATA, force)
        for name in EXAMPLE_DATA:
            (directory / name).write_text(example(name), encoding="utf-8")
        print_line(f"Wrote {' and '.join(EXAMPLE_DATA)} to {directory}")
        return
    if folder is None:
        directory = Path(tempfile.mkdtemp(prefix="deciban-demo-"))
    else:
        directory = checked_folder("--folder", folder, TOUR_FILES, force)
    messages = example("messages.csv")
    (directory / "messages.csv").write_text(messages, encoding="utf-8")
    lines = messages.splitlines()
    header = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    (directory / "one.csv").write_text(f"{lines[header]}\n{lines[header + 2]}\n", encoding="utf-8")
    print_line("400 short messages, written for this project, half of them spam. This is what deciban does with them:")
    overwrite = " --force" if force else ""
    for explanation, command in (
        (
            "Learn them in one pass: a sum for every word and class.",
            f"train messages.csv --target label -o spam.deciban{overwrite}",
        ),
        ("How good is it? Each message is predicted by the model without it.", "evaluate spam.deciban messages.csv"),
        (
            "Why is this message spam? Evidence adds up, in decibans: 10 dB is ten to one.",
            f'explain spam.deciban --text "{EXAMPLE_TEXT}"',
        ),
        (
            "Forget one message, as if it had never been seen.",
            f"forget spam.deciban one.csv -o without.deciban{overwrite}",
        ),
        (
            "What does spam look like? Messages sampled from the model.",
            "sample spam.deciban -n 2 --given spam --seed 4",
        ),
        ("Write it all to one page.", f"report spam.deciban messages.csv -o report.html{overwrite}"),
    ):
        step(explanation, command, directory)
    print_line()
    print_line(f"The page is {directory / 'report.html'}. Try your own: deciban train FILE.csv --target COLUMN")


def example(name: str) -> str:
    """A file that ships with the package, as text."""
    return resources.files("deciban").joinpath("demo", name).read_text(encoding="utf-8")


def checked_folder(option: str, folder: str, names: tuple[str, ...], force: bool) -> Path:
    """The folder, created if necessary, without files of these names unless they may be overwritten."""
    directory = Path(folder)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = "it is a file" if os.path.isfile(folder) else str(error.strerror).lower()
        raise DecibanError(
            "cannot create {option} {file!r}: {problem}", option=option, file=folder, problem=problem
        ) from None
    existing = [name for name in names if (directory / name).exists()]
    if existing and not force:
        raise DecibanError(
            "{file!r} already exists: give another folder with {option}, or --force to overwrite it",
            file=str(directory / existing[0]),
            option=option,
        )
    return directory


def step(explanation: str, command: str, directory: Path) -> None:
    """A command, printed and run as a user would run it."""
    bold, end = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    typer.echo(f"\n{explanation}\n{bold}$ deciban {command}{end}")
    sys.stdout.flush()
    argv = [sys.executable, "-m", "deciban", *shlex.split(command)]
    finished = subprocess.run(argv, cwd=directory, check=False)  # noqa: S603 - a command of our own
    if finished.returncode:
        raise typer.Exit(finished.returncode)
