"""What an extra of this project needs, one requirement a line: `pip` itself would only say so once all is built.

With `--build`, what it takes to build it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

FILE = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
PROJECT, BUILD = FILE["project"], FILE["build-system"]


def requirements(asked: list[str]) -> Iterator[str]:
    """With the extras that extras are made of."""
    for one in asked:
        own = re.fullmatch(r"deciban\[(.+)\]", one)
        if own is None:
            yield one
        else:
            yield from requirements([r for extra in own[1].split(",") for r in PROJECT["optional-dependencies"][extra]])


if __name__ == "__main__":
    if sys.argv[1:] == ["--build"]:
        print(*BUILD["requires"], "ninja", sep="\n")  # meson runs ninja, and would fetch it into each build
    else:
        print(*requirements([*PROJECT["dependencies"], *(f"deciban[{extra}]" for extra in sys.argv[1:])]), sep="\n")
