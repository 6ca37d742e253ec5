"""`deciban learn`: update a model with more rows."""

from __future__ import annotations

from deciban.cli import options
from deciban.cli.engines import FileOptions
from deciban.cli.update import update


def learn(
    model: options.Model,
    data: options.Data,
    target: options.Target = None,
    output: options.OtherModel = None,
    force: options.Force = False,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    header: options.Header = None,
    sheet: options.Sheet = None,
    json: options.Json = False,
) -> None:
    """Learn more rows: the model then has the sums of a model that saw them from the start.

    MODEL is replaced once all rows are learned. The choices made by `train` (distributions, bins, weights) stay: train
    again if the data have changed much.

    \b
    Examples:
      deciban learn churn.deciban november.csv
      deciban learn filter.deciban spam=NewJunk.mbox
    """
    update(
        model,
        data,
        target,
        output,
        force,
        FileOptions(format, delimiter, encoding, missing, header, sheet),
        json,
        forget=False,
    )
