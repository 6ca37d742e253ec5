"""`deciban compare`: learning curves of a generative model and of logistic regression."""

from __future__ import annotations

from typing import Annotated

import typer

from deciban.cli import options
from deciban.cli.engines import FileOptions
from deciban.cli.model_choice import choose_model, only_text_column, used_kinds
from deciban.cli.output_files import OutputFile, checked_output
from deciban.cli.rows import LABEL, TEXT, check_classes, check_target, split_columns
from deciban.cli.terminal import note, pluralize, show, show_json
from deciban.errors import DecibanError

PICTURES = (".png", ".svg", ".pdf")
MAX_ROWS_COMPARED = 20_000  # of more rows, learning curves are drawn on a sample


def compare(
    data: options.Data,
    target: options.Target = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the curves to this file (.png, .svg, .pdf).")
    ] = None,
    force: options.Force = False,
    repeats: Annotated[
        int,
        typer.Option(metavar="NUMBER", help="How often each size is repeated; sizes above 1,000 less often.", min=1),
    ] = 5,
    seed: options.Seed = 0,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    header: options.Header = None,
    sheet: options.Sheet = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    day_first: options.DayFirst = None,
    json: options.Json = False,
) -> None:
    """Compare a generative model with logistic regression, on growing numbers of rows.

    A generative model learns what the rows of each class look like; logistic regression learns only the boundary
    between them. With few rows the first is usually better; with many, it depends on the data. The table shows log loss
    and accuracy on held-out rows.

    \b
    Examples:
      deciban compare customers.csv --target churned
      deciban compare messages.csv --target label --repeats 20 --plot curves.png
    """
    picture = check_picture(plot, force, data)
    from deciban.estimators.compare import compare_tables, compare_texts

    engine = FileOptions(format, delimiter, encoding, missing, header, sheet, decimal, thousands, day_first).open(data)
    kind, how = engine.source.kind, engine.conventions
    target = check_target(engine, target or (LABEL if kind != "table" else None))
    rows = split_columns(engine, target, TEXT if kind != "table" else None)
    table, all_here = rows.all_or_sample(MAX_ROWS_COMPARED)
    check_classes(table[target], target)
    picture.check_free()
    with rows.labelled(table, all_here) as (X, y):
        if not all_here:
            note("note", f"compared on a sample of {pluralize(len(y), 'row')} from {rows.name}")
        text = rows.split.text or (only_text_column(X, None) if choose_model(kind, X, y, None, how) == "text" else None)
        if text is not None:
            texts = split_columns(engine, target, text)
            with texts.labelled(table, all_here) as (documents, _):
                comparison = compare_texts(documents.to_pylist(), y, repeats=repeats, random_state=seed)
        else:
            kinds = used_kinds(X, None, how)
            if not kinds:
                raise DecibanError(
                    "no column of {rows} can be used: each is constant, or different in every row", rows=rows.name
                )
            comparison = compare_tables(X, y, kinds, repeats=repeats, random_state=seed)
    if plot is not None:
        comparison.plot().figure.savefig(plot)
        note("note", f"wrote {plot}")
    if json:
        show_json(comparison.to_dict())
    else:
        show(comparison.details())


def check_picture(path: str | None, force: bool, data: list[str]) -> OutputFile:
    """Refuse a picture that could not be written, before anything is computed."""
    from deciban.show import optional

    written = checked_output(path, force, "curves.png", data, option="--plot")
    if path is None:
        return written
    optional("matplotlib", "--plot").use("Agg")
    if not path.lower().endswith(PICTURES):
        raise DecibanError(
            "--plot {file!r}: give a name that ends in {endings}",
            file=path,
            endings=" or ".join(PICTURES),
        )
    return written
