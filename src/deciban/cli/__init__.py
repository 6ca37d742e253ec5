"""The command line: `deciban`, or `python -m deciban`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from deciban.cli.filter_program import is_for_program, program


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code: 0 done, 1 a bug in deciban, 2 wrong input."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        if given[:2] == ["filter", "--alone"]:  # it starts for every mail
            from deciban.cli.alone import main as score_one

            raise SystemExit(score_one(given[1:]))
        if arguments is None and is_for_program(given) and (path := program()) is not None:
            os.execv(path, [path, *given[1:]])  # noqa: S606 - it is ours
        from deciban.cli.run import run

        raise SystemExit(run(given))
    except KeyboardInterrupt:  # before the command started
        raise SystemExit(130) from None
