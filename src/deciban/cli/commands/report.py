"""`deciban report`: an HTML page about a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from deciban.cli import options
from deciban.cli.engines import FileOptions
from deciban.cli.models import class_of, forgotten_in_part, kind_of, learned_before, origin_of, rows_for
from deciban.cli.output_files import checked_output
from deciban.cli.terminal import format_bytes, note, pluralize, print_line, show_json
from deciban.errors import DecibanError
from deciban.show import bar

MAX_ROWS_IN_REPORT = 20_000  # of more rows, a sample is used


def report(
    model: options.Model,
    data: options.MaybeData = None,
    target: options.Target = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.")] = "report.html",
    force: options.Force = False,
    leave_one_out: options.LeaveOneOut = None,
    curve: Annotated[bool, typer.Option(help="Draw a learning curve, which takes longest.")] = True,
    positive: Annotated[
        str | None,
        typer.Option(metavar="CLASS", help="Class to show thresholds for; by default the second of two."),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(metavar="FP:FN", help="Cost of a false positive and of a false negative, as in 1:10."),
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Heading of the page.")] = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    header: options.Header = None,
    sheet: options.Sheet = None,
    json: options.Json = False,
) -> None:
    """Write an HTML page that shows what was learned, how good the model is, and why rows are predicted as they are.

    It is one file that needs no network. Without DATA it describes the model; with labelled rows it adds accuracy,
    calibration, confusions, the most unusual rows and a learning curve.

    \b
    Examples:
      deciban report churn.deciban customers.csv -o report.html
      deciban report churn.deciban customers.csv --positive yes --cost 1:10
      deciban report spam.deciban
    """
    from deciban.estimators.load import load
    from deciban.report import N_STEPS, is_report, page
    from deciban.storage.files import write_atomically

    written = checked_output(output, force, "report.html", [model, *(data or [])], replaceable=is_report)
    estimator = load(model)
    origin = origin_of(estimator)
    about = {
        "predicts": origin.get("target"),
        "from texts in": origin.get("text"),
        "learned from": origin.get("names"),
        "its SHA-256": [digest.split()[0] for digest in origin.get("learned", [])[:3]],
        "model file": os.path.basename(model),
    }
    X = y = None
    learned, caution = False, ""
    if data:
        rows = rows_for(estimator, data, FileOptions(format, delimiter, encoding, missing, header, sheet), target)
        learned = learned_before(estimator, rows) if leave_one_out is None else leave_one_out
        caution = "" if learned else forgotten_in_part(estimator, rows)
        table, all_here = rows.all_or_sample(MAX_ROWS_IN_REPORT)
        about["rows from"] = rows.name
        with rows.labelled(table, all_here) as (X, y):
            if not all_here:
                note("note", f"the report uses a sample of {pluralize(len(y), 'row')} from {rows.name}")
            X = X.to_pylist() if rows.split.text is not None else X
    positive_class = None if positive is None else class_of(estimator, positive)
    costs = None if cost is None else costs_of(cost)
    written.check_free()
    with bar("writing the report", N_STEPS, "parts") as watch:
        content = page(
            estimator,
            X,
            y,
            title=title or f"{Path(model).stem}: a {kind_of(estimator)}",
            learned=learned,
            origin=about,
            curve=curve,
            positive=positive_class,
            costs=costs,
            watch=watch,
            caution=caution,
        )
    write_atomically(Path(output), content.encode())
    size = os.path.getsize(output)
    if json:
        show_json({"file": output, "bytes": size, "rows": 0 if y is None else len(y)})
    else:
        print_line(f"Wrote {output} ({format_bytes(size)}): open it in a browser.")


def costs_of(text: str) -> tuple[float, float]:
    """The costs of a false positive and of a false negative, from FP:FN."""
    try:
        false_positive, false_negative = map(float, text.split(":"))
    except ValueError:
        raise DecibanError("--cost {value!r}: write FP:FN, two numbers, as in --cost 1:10", value=text) from None
    return false_positive, false_negative
