"""`deciban sample`: draw rows from a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.column_forms import in_form
from deciban.cli.models import TEXT_MODELS, class_of, columns_of, formats_of, kind_of, origin_of
from deciban.cli.output_files import checked_output, report_written
from deciban.cli.screen import screen_table
from deciban.cli.terminal import pluralize, show
from deciban.show import plain

if TYPE_CHECKING:
    from deciban.reading.convert import Format


def sample(
    model: options.Model,
    output: options.RowsFile = None,
    force: options.Force = False,
    n: Annotated[int, typer.Option("--number", "-n", metavar="NUMBER", help="Number of rows.", min=0)] = 5,
    given: Annotated[str | None, typer.Option(metavar="CLASS", help="Class of the rows.")] = None,
    seed: options.Seed = None,
    escape_formulas: options.EscapeFormulas = False,
    json: options.Json = False,
) -> None:
    """Draw rows from a model: first a class, then a row of that class.

    \b
    Examples:
      deciban sample churn.deciban -n 1000 -o like_customers.csv
      deciban sample spam.deciban -n 3 --given spam --seed 1
    """
    import pyarrow as pa

    from deciban.estimators.load import load
    from deciban.sources import write_rows
    from deciban.sources.write import is_csv

    written = checked_output(output, force, "drawn.csv", [model], screen=True)
    loaded = load(model)
    draw = loaded.sample  # an error if the model is not generative
    origin = origin_of(loaded)
    drawn_class = None if given is None else class_of(loaded, given)
    written.check_free()
    X, y = draw(n, drawn_class, random_state=seed)
    if kind_of(loaded) in TEXT_MODELS:
        columns: dict[str, Any] = {origin.get("text") or "text": list(X)}
    else:
        from deciban.reading.frames import read_frame
        from deciban.reading.native import to_native

        frame = read_frame(X)
        # What is drawn as an array has no names of its own.
        names = frame.names if hasattr(X, "columns") or isinstance(X, dict) else columns_of(loaded) or frame.names
        forms = origin.get("forms", {})
        drawn = to_native("dict", tuple(names), frame.columns)
        columns = {name: in_form(values, forms.get(name)) for name, values in drawn.items()}
        if is_csv(output) if output not in (None, "-") else not json:
            columns = with_own_decimals(columns, formats_of(loaded))
    target = origin.get("target") or "label"
    table = pa.table({**columns, target: [plain(label) for label in y.tolist()]})
    if output is None and not json and sys.stdout.isatty():
        show(screen_table(table, pluralize(n, "row") + " drawn from the model", [target]))
        return
    format_ = "jsonl" if json and output in (None, "-") else None
    report_written(output, write_rows(output, [table], format=format_, escape=escape_formulas), json)


def with_own_decimals(columns: dict[str, list[Any]], formats: Mapping[str, Format]) -> dict[str, list[Any]]:
    """Numbers of columns that have a comma before decimals, so written: the model would read 1.234 as a thousand."""
    from deciban.reading.numerals import NumberFormat

    commas = {name: form for name, form in formats.items() if isinstance(form, NumberFormat) and form.decimal == ","}
    return columns | {
        name: [None if value is None else form.spelled(value) for value in columns[name]]
        for name, form in commas.items()
        if name in columns
    }
