"""Print the requirements of an extra, one per line: `pip` itself reports them only after building.

With `--build`, print the build requirements; with `--oldest` before the extras, the oldest versions that are allowed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

FILE = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
PROJECT, BUILD = FILE["project"], FILE["build-system"]


def requirements(extras: list[str]) -> Iterator[str]:
    """Requirements of extras, including nested ones."""
    for one in extras:
        own = re.fullmatch(r"deciban\[(.+)\]", one)
        if own is None:
            yield one
        else:
            yield from requirements([r for extra in own[1].split(",") for r in PROJECT["optional-dependencies"][extra]])


if __name__ == "__main__":
    if sys.argv[1:] == ["--build"]:
        print(*BUILD["requires"], "ninja", sep="\n")  # meson runs ninja, and would fetch it into each build
    elif sys.argv[1:2] == ["--oldest"]:
        allowed = requirements([*PROJECT["dependencies"], *(f"deciban[{extra}]" for extra in sys.argv[2:])])
        print(*sorted({re.sub(r">=([\w.]+)[^;]*", r"==\1", one) for one in allowed}), sep="\n")
    else:
        print(*requirements([*PROJECT["dependencies"], *(f"deciban[{extra}]" for extra in sys.argv[1:])]), sep="\n")
