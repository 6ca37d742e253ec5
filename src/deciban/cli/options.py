"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

FORMATS = ("csv", "tsv", "parquet", "arrow", "jsonl")
DATA = "Files (CSV, TSV, Parquet, Arrow, JSON lines), globs, '-' for standard input; folders and mail too."

Model = Annotated[str, typer.Argument(help="A model file that `deciban train` wrote.", metavar="MODEL")]
Data = Annotated[list[str], typer.Argument(help=DATA, metavar="DATA")]
MaybeData = Annotated[list[str] | None, typer.Argument(help=DATA, metavar="DATA")]
Target = Annotated[str | None, typer.Option("--target", "-t", help="The column that holds the classes.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead, for programs.")]
Format = Annotated[
    str | None, typer.Option("--format", help=f"What the data are, if the name does not tell: {', '.join(FORMATS)}.")
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="What is between fields; detected automatically.")]
Encoding = Annotated[str, typer.Option("--encoding", help="How text is written.")]
Missing = Annotated[
    list[str] | None, typer.Option("--missing", help="What stands for a missing value (several times for several).")
]
EscapeFormulas = Annotated[
    bool,
    typer.Option("--escape-formulas", help="Put ' before texts of CSV that a spreadsheet would run as formulas."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; as many as processors by default.")]
LeaveOneOut = Annotated[
    bool | None,
    typer.Option(
        "--leave-one-out/--as-new",
        help="Whether the model has learned these very rows, so that each is judged without itself; known by itself "
        "where DATA are the files that it was trained on.",
    ),
]
