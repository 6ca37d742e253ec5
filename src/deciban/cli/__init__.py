"""The command line: `deciban`, or `python -m deciban`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code: 0 done, 1 a bug in deciban, 2 wrong input."""
    try:
        from deciban.cli.run import run

        raise SystemExit(run(arguments))
    except KeyboardInterrupt:  # before the command started
        raise SystemExit(130) from None
