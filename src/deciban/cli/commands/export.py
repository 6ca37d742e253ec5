"""`deciban export`: write a model as ONNX or SQL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from deciban.cli import options
from deciban.cli.output_files import checked_output
from deciban.cli.terminal import format_bytes, print_line, show_json
from deciban.dialects import FORMULA_DIALECTS
from deciban.errors import DecibanError
from deciban.show import visible

DIALECTS = tuple(FORMULA_DIALECTS)


def export(
    model: options.Model,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, .onnx or .sql; - prints SQL.")
    ],
    force: options.Force = False,
    table: Annotated[str, typer.Option(metavar="TABLE", help="SQL: table to score.")] = "data",
    dialect: Annotated[str, typer.Option(metavar="NAME", help=f"SQL dialect: {', '.join(DIALECTS)}.")] = "duckdb",
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="SQL: column of the table to return with the predictions, such as a key."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Export a model to ONNX, or to an SQL query that scores rows inside a database.

    \b
    Examples:
      deciban export churn.deciban -o churn.onnx
      deciban export churn.deciban -o churn.sql --table customers --keep id
      deciban export churn.deciban -o - --dialect postgresql
    """
    from deciban.estimators.load import load
    from deciban.storage.files import write_atomically

    options.check_choice("--dialect", dialect, DIALECTS)
    written = checked_output(output, force, "model.sql", [model], screen=True)
    if output != "-" and not output.endswith((".sql", ".onnx")):
        raise DecibanError("{file!r}: give a name that ends in .onnx or .sql", file=output)
    loaded = load(model)
    if output == "-" or output.endswith(".sql"):
        sql = loaded.to_sql(table, dialect, output="all", keep=tuple(keep or ()))
        if output == "-":
            typer.echo(visible(sql) if sys.stdout.isatty() else sql)  # labels may hold control characters
            return
        content = sql.encode()
    else:
        content = loaded.to_onnx().SerializeToString()
    written.check_free()
    write_atomically(Path(output), content)
    if json:
        show_json({"file": output, "bytes": len(content)})
    else:
        print_line(f"Wrote {output} ({format_bytes(len(content))}).")
