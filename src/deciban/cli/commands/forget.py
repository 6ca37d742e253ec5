"""`deciban forget`: unlearn rows."""

from __future__ import annotations

from deciban.cli import options
from deciban.cli.engines import FileOptions
from deciban.cli.update import update


def forget(
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
    """Forget rows: the model then has the sums of a model that never saw them.

    If the sums show that the rows were never learned, that is an error, and MODEL does not change.

    \b
    Examples:
      deciban forget churn.deciban customer_4711.csv
      deciban forget filter.deciban ham=mistaken.eml
    """
    update(
        model,
        data,
        target,
        output,
        force,
        FileOptions(format, delimiter, encoding, missing, header, sheet),
        json,
        forget=True,
    )
