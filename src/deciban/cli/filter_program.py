"""The program `deciban-filter`, which `deciban filter` is. Imports nothing that takes time."""

from __future__ import annotations

import os
import sys

PROGRAM = "deciban-filter"
HELP = ("--help", "-h")


def is_for_program(arguments: list[str]) -> bool:
    """Whether the command is the filter, and not a question about it."""
    return arguments[:1] == ["filter"] and not any(one in HELP for one in arguments)


def program() -> str | None:
    """Where it is: beside the program that runs, or on the path."""
    for folder in (os.path.dirname(os.path.abspath(sys.argv[0])), os.path.dirname(sys.executable)):
        if os.access(path := os.path.join(folder, PROGRAM), os.X_OK):
            return path
    from shutil import which

    return which(PROGRAM)
