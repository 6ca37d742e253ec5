"""Files that commands write. One rule for all: a file that exists is not overwritten without --force."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deciban.cli.terminal import format_bytes, pluralize, print_line, show_json
from deciban.errors import DecibanError

MAX_NAMES_STORED = 100  # of data, in a model file: the last ones


@dataclass(frozen=True)
class OutputFile:
    """A file that a command will write."""

    path: str  # empty: the screen
    force: bool = True
    option: str = ""
    replaceable: Callable[[str], bool] = lambda path: False  # noqa: ARG005 - the rule; a command may have an exception

    def check_free(self) -> None:
        """Refuse to overwrite an existing file. The last check before the work, so that it hides no other mistake."""
        if os.path.isfile(self.path) and not self.force and not self.replaceable(self.path):  # a pipe loses nothing
            raise DecibanError(
                "{file!r} already exists: give another name with {option}, or --force to overwrite it",
                file=self.path,
                option=self.option,
            )


def checked_output(
    path: str | None,
    force: bool,
    example: str,
    inputs: Sequence[str] = (),
    option: str = "-o",
    replaceable: Callable[[str], bool] | None = None,
    screen: bool = False,
) -> OutputFile:
    """A file that can be written to. Checked before any work is done, so that none is lost; whether it exists is
    checked by `check_free`. None is the screen, and so is "-" of a command that writes to the `screen`.

    `example` is a file name for the message if the path is a folder. No input is overwritten, not even with --force;
    an existing file that is `replaceable` needs no --force.
    """
    if path is None or (path == "-" and screen):
        return OutputFile("")
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise DecibanError(
            "{file!r} is a folder: give the name of a file, as in {option} {example}",
            file=path,
            option=option,
            example=os.path.join(path, example),
        )
    if not os.path.isdir(folder):
        raise DecibanError(
            "{file!r} cannot be written: {folder!r} is {what}, so create the folder first or give another name",
            file=path,
            folder=folder,
            what="a file" if os.path.exists(folder) else "missing",
        )
    check_not_among(path, inputs, option)
    if not os.path.exists(path) and not os.access(
        folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids
    ):
        raise DecibanError("{file!r} cannot be written: you have no permission to write to its folder", file=path)
    return OutputFile(path, force, option, replaceable or OutputFile.replaceable)


def default_model_path(data: Sequence[str]) -> str:
    """The name of a new model file: that of the data, if they are one file."""
    named = [Path(path.partition("=")[2] or path) for path in data]
    stem = named[0].name.partition(".")[0] if len(data) == 1 and "*" not in data[0] and data != ["-"] else "model"
    return f"{stem or 'model'}.deciban"


def check_not_among(output: str, inputs: Sequence[str], option: str) -> None:
    """Refuse an output that is one of the inputs."""
    for path in inputs:
        for name in (path, path.partition("=")[2]):
            if name and same_file(output, name):
                raise DecibanError(
                    "{file!r} is an input and would be lost: write to another file with {option}",
                    file=output,
                    option=option,
                )


def same_file(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def report_written(path: str | None, rows: int, json: bool) -> None:
    """Print what was written to a file of rows; not for standard output, a pipe or a device, which the rows go to."""
    if path is None or not os.path.isfile(path):
        return
    size = os.path.getsize(path)
    if json:
        show_json({"file": path, "rows": rows, "bytes": size})
    else:
        print_line(f"Wrote {path} ({pluralize(rows, 'row')}, {format_bytes(size)}).")


def without_folders(path: str) -> str:
    """The name of data as stored in a model file: without folders, which are private.

    >>> without_folders("spam=Mail/Junk/"), without_folders("-")
    ('spam=Junk', 'standard input')
    """
    label, equals, rest = path.partition("=")
    if equals and not os.path.dirname(label):
        return f"{label}={without_folders(rest)}"
    return "standard input" if path == "-" else os.path.basename(path.rstrip("/")) or path
