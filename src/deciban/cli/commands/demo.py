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

FILES = ("messages.csv", "one.csv", "spam.deciban", "without.deciban", "report.html")
EXAMPLE_TEXT = "Free tickets for the meeting, claim your prize now"


def demo(
    folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where its files go; a new temporary folder by default.")
    ] = None,
    force: options.Force = False,
) -> None:
    """See deciban at work: train on 400 messages written for it, evaluate, explain, forget, draw, and write a report.

    Every step is a command that is shown before it runs. Nothing is downloaded.

    \b
    Examples:
      deciban demo
      deciban demo --folder demo
    """
    directory = Path(tempfile.mkdtemp(prefix="deciban-demo-")) if folder is None else checked_folder(folder, force)
    messages = resources.files("deciban").joinpath("demo/messages.csv").read_text(encoding="utf-8")
    (directory / "messages.csv").write_text(messages, encoding="utf-8")
    lines = messages.splitlines()
    header = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    (directory / "one.csv").write_text(f"{lines[header]}\n{lines[header + 2]}\n", encoding="utf-8")
    print_line("400 short messages, written for this project, half of them spam. What deciban does with them:")
    overwrite = " --force" if force else ""
    for explanation, command in (
        (
            "Learn them: one pass, one sum for every word and class.",
            f"train messages.csv --target label -o spam.deciban{overwrite}",
        ),
        ("How good is it? Each message is judged by the model without it.", "evaluate spam.deciban messages.csv"),
        (
            "Why is this one spam? Evidence adds up, in decibans: 10 dB is ten to one.",
            f'explain spam.deciban --text "{EXAMPLE_TEXT}"',
        ),
        (
            "Forget one message, as if it had never been seen.",
            f"forget spam.deciban one.csv -o without.deciban{overwrite}",
        ),
        (
            "What would a spam look like? Words drawn from what was learned.",
            "sample spam.deciban -n 2 --given spam --seed 4",
        ),
        ("And all of it on one page.", f"report spam.deciban messages.csv -o report.html{overwrite}"),
    ):
        step(explanation, command, directory)
    print_line()
    print_line(f"The page is {directory / 'report.html'}. Try your own: deciban train FILE.csv --target COLUMN")


def checked_folder(folder: str, force: bool) -> Path:
    """The folder, made if need be, with none of the demo's files in it unless they may be overwritten."""
    directory = Path(folder)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = "it is a file" if os.path.isfile(folder) else str(error.strerror).lower()
        raise DecibanError("--folder {file!r} cannot be made: {problem}", file=folder, problem=problem) from None
    existing = [name for name in FILES if (directory / name).exists()]
    if existing and not force:
        raise DecibanError(
            "{file!r} exists already: give another folder with --folder, or --force to overwrite it",
            file=str(directory / existing[0]),
        )
    return directory


def step(explanation: str, command: str, directory: Path) -> None:
    """A command, shown and run as a person would run it."""
    bold, end = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    typer.echo(f"\n{explanation}\n{bold}$ deciban {command}{end}")
    sys.stdout.flush()
    argv = [sys.executable, "-m", "deciban", *shlex.split(command)]
    finished = subprocess.run(argv, cwd=directory, check=False)  # noqa: S603 - a command of our own
    if finished.returncode:
        raise typer.Exit(finished.returncode)
