"""The commands, in the order a newcomer needs them. Only the called one is imported, to save time."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from inspect import cleandoc
from typing import Annotated

import typer

COMMANDS = (  # a file each, in commands/
    "train",
    "predict",
    "explain",
    "evaluate",
    "learn",
    "forget",
    "merge",
    "show",
    "sample",
    "compare",
    "report",
    "export",
    "serve",
    "token",
    "filter",
    "mailbox",
    "demo",
    "bench",
)

EPILOG = """A first session:

    deciban train messages.csv --target label      writes messages.deciban

    deciban explain messages.deciban --text "Win a free phone now"

    deciban evaluate messages.deciban more.csv

    deciban report messages.deciban messages.csv -o report.html

Every command has --help. `deciban demo` shows the commands at work."""


def app(arguments: Sequence[str]) -> typer.Typer:
    """The command line: with the command that is called, or with all of them if none is recognised."""
    called = arguments[0] if arguments and arguments[0] in COMMANDS else None
    typer_app = typer.Typer(
        help="Classify texts and tables with models that are sums: they learn, explain, forget and merge.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    typer_app.callback()(deciban)
    for name in COMMANDS if called is None else [called]:
        command = getattr(importlib.import_module(f"deciban.cli.commands.{name}"), name)
        typer_app.command(name, help=unwrapped(command.__doc__ or ""))(command)
    return typer_app


def print_version(requested: bool) -> None:
    if requested:
        import deciban

        typer.echo(f"deciban {deciban.__version__}")
        raise typer.Exit


def deciban(
    show_version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    del show_version


def unwrapped(help_text: str) -> str:
    """Paragraphs as one line each, for the terminal to wrap to its width; examples unchanged."""
    paragraphs = cleandoc(help_text).split("\n\n")
    return "\n\n".join(part if part.startswith("\b") else " ".join(part.split("\n")) for part in paragraphs)
