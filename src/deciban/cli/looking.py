"""`deciban show`, `sample` and `export`: look inside a model, draw from it, take it elsewhere."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.answering import class_of, columns_of
from deciban.cli.data import check_not_among
from deciban.cli.models import TEXT_MODELS, kind_of, open_model, origin_of
from deciban.cli.screen import on_screen
from deciban.cli.terminal import bytes_in_words, counted, say, several, show_json
from deciban.cli.terminal import show as show_result
from deciban.cli.training import output_path
from deciban.errors import DecibanError
from deciban.show import Table, plain, visible


def show(
    model: options.Model,
    evidence: Annotated[int, typer.Option(help="How many items of evidence for each class.", min=0)] = 5,
    json: options.Json = False,
) -> None:
    """Show what a model is: its classes, columns and laws, what speaks most for each class, and how it was chosen.

    \b
    Examples:
      deciban show churn.deciban
      deciban show spam.deciban --evidence 20
    """
    found = open_model(model)
    strongest = found.top_evidence(evidence)
    summary = found.summary() if kind_of(found) == "Classifier" else None
    counts = [(plain(label), counted(n)) for label, n in zip(found.classes_, found.class_count_, strict=True)]
    origin = origin_of(found)
    if json:
        show_json(
            {
                "file": model,
                "model": kind_of(found),
                "bytes": os.path.getsize(model),
                "classes": {str(label): n for label, n in counts},
                "origin": {key: value for key, value in origin.items() if key != "learned"},
                "evidence": strongest.to_dict(),
                "summary": None if summary is None else summary.to_dict(),
            }
        )
        return
    size = bytes_in_words(os.path.getsize(model))
    total = sum(n for _, n in counts)
    say(f"{model}: a {kind_of(found)} ({size}) that has learned {several(total, 'row')}.")
    if origin.get("names"):
        what = f"column {origin.get('target')!r}" + (
            f" from the texts in {origin['text']!r}" if origin.get("text") else ""
        )
        say(f"It tells {what}; learned from {', '.join(map(str, origin['names'][:5]))}.")
    say()
    rows = [(label, n, f"{n / total:.1%}" if total else "") for label, n in counts]
    show_result(Table("classes", ("class", "rows", "share"), rows, right=("share",)))
    if summary is not None:
        say()
        show_result(summary)
    elif hasattr(found, "blocks_"):
        say()
        show_result(found.blocks_)
    if evidence:
        say()
        said = [(label, item, f"{decibans:+.1f}") for label, item, decibans in strongest.rows]
        show_result(replace(strongest, rows=said, right=("dB",)))


def sample(
    model: options.Model,
    n: Annotated[int, typer.Option("-n", "--rows", help="How many rows to draw.", min=0)] = 5,
    given: Annotated[str | None, typer.Option(help="The class that they are of.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Where drawing begins, to draw the same again.", min=0, max=2**32 - 1)
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A file (.csv, .tsv, .parquet, .arrow, .jsonl); else the screen."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Draw rows as the model imagines them: a class, then a row of that class.

    \b
    Examples:
      deciban sample churn.deciban -n 1000 -o like_customers.csv
      deciban sample spam.deciban -n 3 --given spam --seed 1
    """
    import pyarrow as pa

    from deciban.estimators.load import load
    from deciban.sources import write_rows

    check_not_among(output, [model])
    found = load(model)
    if not hasattr(found, "sample"):
        raise DecibanError(f"a {type(found).__name__} is not a generative model: it has no rows to draw")
    origin = origin_of(found)
    X, y = found.sample(n, None if given is None else class_of(found, given), random_state=seed)
    if kind_of(found) in TEXT_MODELS:
        columns: dict[str, Any] = {origin.get("text") or "text": list(X)}
    else:
        from deciban.reading.frames import read_frame
        from deciban.reading.native import to_native

        frame = read_frame(X)
        # What is drawn as an array has no names of its own.
        names = frame.names if hasattr(X, "columns") or isinstance(X, dict) else columns_of(found) or frame.names
        columns = dict(to_native("dict", tuple(names), frame.columns))
    target = origin.get("target") or "label"
    table = pa.table({**columns, target: [plain(label) for label in y.tolist()]})
    if output is None and not json and sys.stdout.isatty():
        show_result(on_screen(table, several(n, "row") + " as the model imagines them", [target]))
        return
    write_rows(output, [table], format="jsonl" if json and output is None else None)


def export(
    model: options.Model,
    output: Annotated[str, typer.Option("--output", "-o", help="A file: .onnx, or .sql; - prints SQL.")],
    table: Annotated[str, typer.Option(help="SQL: the table that is scored.")] = "data",
    dialect: Annotated[str, typer.Option(help="SQL: duckdb, postgresql or sqlite.")] = "duckdb",
    keep: Annotated[
        list[str] | None, typer.Option(help="SQL: a column of the table to keep beside the answers, such as a key.")
    ] = None,
) -> None:
    """Take a model elsewhere: as ONNX, or as an SQL query that scores rows where they are.

    \b
    Examples:
      deciban export churn.deciban -o churn.onnx
      deciban export churn.deciban -o churn.sql --table customers --keep id
      deciban export churn.deciban -o - --dialect postgresql
    """
    from deciban.estimators.load import load
    from deciban.storage.files import write_atomically

    found = load(model)
    if output == "-" or output.endswith(".sql"):
        written = found.to_sql(table, dialect, output="all", keep=tuple(keep or ()))
        if output == "-":
            typer.echo(visible(written) if sys.stdout.isatty() else written)  # labels may hold control characters
            return
        content = written.encode()
    elif output.endswith(".onnx"):
        content = found.to_onnx().SerializeToString()
    else:
        raise DecibanError(f"{output!r}: the name ends in .onnx or .sql, which says what to write")
    path = output_path(output, [model])
    write_atomically(Path(path), content)
    say(f"Wrote {path} ({bytes_in_words(len(content))}).")
