"""The command line: `deciban`, or `python -m deciban`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code: 0 done, 1 a fault of ours, 2 something wrong with what was given."""
    try:
        from deciban.cli.run import run

        raise SystemExit(run(arguments))
    except KeyboardInterrupt:  # before there was a command to interrupt
        raise SystemExit(130) from None
