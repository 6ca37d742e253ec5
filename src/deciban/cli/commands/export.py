"""`deciban export`: write a model as ONNX or SQL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from deciban.cli import options
from deciban.cli.output_files import output_path
from deciban.cli.terminal import format_bytes, print_line
from deciban.errors import DecibanError
from deciban.show import visible


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

    loaded = load(model)
    if output == "-" or output.endswith(".sql"):
        sql = loaded.to_sql(table, dialect, output="all", keep=tuple(keep or ()))
        if output == "-":
            typer.echo(visible(sql) if sys.stdout.isatty() else sql)  # labels may hold control characters
            return
        content = sql.encode()
    elif output.endswith(".onnx"):
        content = loaded.to_onnx().SerializeToString()
    else:
        raise DecibanError("{file!r}: the name ends in .onnx or .sql, which says what to write", file=output)
    path = output_path(output, [model])
    write_atomically(Path(path), content)
    print_line(f"Wrote {path} ({format_bytes(len(content))}).")
