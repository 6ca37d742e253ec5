"""`deciban compare`: learning curves of a generative model and of logistic regression."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.engines import FileOptions
from deciban.cli.model_choice import choose_model, only_text_column, used_kinds
from deciban.cli.rows import LABEL, TEXT, check_classes, check_target, split_columns
from deciban.cli.terminal import note, pluralize, show, show_json
from deciban.errors import DecibanError

MAX_ROWS_COMPARED = 20_000  # of more rows, learning curves are drawn on a sample


def compare(
    data: options.Data,
    target: options.Target = None,
    repeats: Annotated[int, typer.Option(help="How often rows are drawn anew.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Where drawing begins.")] = 0,
    plot: Annotated[str | None, typer.Option(help="A picture of the curves (.png, .svg, .pdf).")] = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Compare with logistic regression: who needs how many rows.

    A generative model learns what rows of each class look like, logistic regression only where the classes part. With
    few rows the first usually leads; with many, whichever suits the data better. Held-out log loss and accuracy are
    shown for growing numbers of rows.

    \b
    Examples:
      deciban compare customers.csv --target churned
      deciban compare messages.csv --target label --repeats 20 --plot curves.png
    """
    from deciban.estimators.compare import compare_tables, compare_texts

    engine = FileOptions(format, delimiter, encoding, missing).open(data)
    kind = engine.source.kind
    target = check_target(engine, target or (LABEL if kind != "table" else None))
    rows = split_columns(engine, target, TEXT if kind != "table" else None)
    table, all_here = rows.all_or_sample(MAX_ROWS_COMPARED)
    check_classes(table[target], target)
    with rows.labelled(table, all_here) as (X, y):
        if not all_here:
            note("note", f"compared on {pluralize(len(y), 'row')} from all over {rows.name}")
        text = rows.split.text or (only_text_column(X, None) if choose_model(kind, X, y, None) == "text" else None)
        if text is not None:
            texts = split_columns(engine, target, text)
            with texts.labelled(table, all_here) as (documents, _):
                comparison = compare_texts(documents.to_pylist(), y, repeats=repeats, random_state=seed)
        else:
            comparison = compare_tables(X, y, used_kinds(X, None), repeats=repeats, random_state=seed)
    if plot is not None:
        save_picture(comparison, plot)
    if json:
        show_json(comparison.to_dict())
    else:
        show(comparison.details())


def save_picture(result: Any, path: str) -> None:
    """A result's plot in a file."""
    from deciban.show import optional

    optional("matplotlib", "--plot").use("Agg")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise DecibanError("there is no folder for {file!r}", file=path)
    result.plot().figure.savefig(path)
    note("note", f"wrote {path}")
