"""Files that commands write: their paths, and checks that nothing is overwritten by accident."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from deciban.errors import DecibanError


def output_path(output: str | None, data: list[str]) -> str:
    """The path to write to. A default name never overwrites a file, and no name overwrites the data."""
    if output is not None:
        check_not_among(output, data)
        if os.path.isdir(output):
            raise DecibanError(
                "{file!r} is a folder: give the model file a name, as in {example}",
                file=output,
                example=os.path.join(output, "model.deciban"),
            )
        parent = os.path.dirname(output) or "."
        if not os.path.isdir(parent):
            raise DecibanError(
                "there is no folder {folder!r} to write {file!r} into", folder=parent, file=os.path.basename(output)
            )
        return output
    named = [Path(path.partition("=")[2] or path) for path in data]
    stem = named[0].name.partition(".")[0] if len(data) == 1 and data != ["-"] and "*" not in data[0] else "model"
    path = f"{stem or 'model'}.deciban"
    if os.path.exists(path):
        raise DecibanError(
            "{file!r} is there already: name the model file with -o (-o {file} overwrites it)", file=path
        )
    return path


def check_not_among(output: str | None, inputs: Sequence[str]) -> None:
    """Refuse an output that is one of the inputs."""
    for path in inputs:
        for name in (path, path.partition("=")[2]):
            if output and name and os.path.exists(output) and os.path.exists(name) and os.path.samefile(output, name):
                raise DecibanError(
                    "{file!r} is what is read, and would be lost: write to another file with -o", file=output
                )


def without_folders(name: str) -> str:
    """The name of a source as stored in a model file: without its folders, which are private."""
    return os.path.basename(name.rstrip("/")) or name
