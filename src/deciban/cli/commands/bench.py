"""`deciban bench`: speed on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from deciban.cli import options
from deciban.cli.terminal import show, show_json


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Less data: about ten seconds.")] = False,
    json: options.Json = False,
) -> None:
    """Measure deciban and scikit-learn on this machine: times, ratios, and the accuracy of the models.

    \b
    Examples:
      deciban bench
      deciban bench --quick --json
    """
    from deciban.cli.benchmark import bench as measure

    results = measure(quick)
    if json:
        show_json(results.to_dict())
    else:
        show(results)
