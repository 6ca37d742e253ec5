"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from deciban.errors import DecibanError, did_you_mean

FORMATS = ("csv", "tsv", "parquet", "arrow", "jsonl", "xlsx", "ods", "texts", "lines", "mail")
DATA = "Files (CSV, Parquet, Arrow, JSON lines, spreadsheets), globs, '-' for standard input; folders and mail too."
ROWS_FILE = "A file (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx); else the screen."

Model = Annotated[str, typer.Argument(help="A model file that `deciban train` wrote.", metavar="MODEL")]
Data = Annotated[list[str], typer.Argument(help=DATA, metavar="DATA")]
MaybeData = Annotated[list[str] | None, typer.Argument(help=DATA, metavar="DATA")]
Target = Annotated[
    str | None, typer.Option("--target", "-t", metavar="COLUMN", help="The column that holds the classes.")
]
RowsFile = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help=ROWS_FILE)]
OtherModel = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Another file, instead of MODEL itself.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists already.")]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="NUMBER", help="Where drawing begins, to draw the same again.", min=0, max=2**32 - 1
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead, for programs.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help=f"What the data are, if the name does not tell: {', '.join(FORMATS)}."
    ),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHARACTER", help="What is between fields; detected automatically.")
]
Encoding = Annotated[str, typer.Option("--encoding", metavar="NAME", help="How text is written.")]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="VALUE", help="What stands for a missing value (several times for several)."),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names the columns; detected automatically."),
]
Sheet = Annotated[
    str | None,
    typer.Option("--sheet", metavar="NAME", help="The sheet of a spreadsheet; the first with data by default."),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal", metavar="SIGN", help="What separates decimals in numbers, . or a comma; detected automatically."
    ),
]
Thousands = Annotated[
    str | None,
    typer.Option(
        "--thousands",
        metavar="SIGN",
        help="What separates thousands: a comma, . ' a blank, or '' if nothing does; detected automatically.",
    ),
]
DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--day-first/--month-first",
        help="Which comes first in dates such as 5/12/2024; detected automatically in each column.",
    ),
]
EscapeFormulas = Annotated[
    bool,
    typer.Option("--escape-formulas", help="Put ' before texts of CSV that a spreadsheet would run as formulas."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", metavar="NUMBER", help="Threads; as many as processors by default.", min=1)
]
ByClass = Annotated[bool, typer.Option("--by-class", help="Every class is to have that coverage.")]
LeaveOneOut = Annotated[
    bool | None,
    typer.Option(
        "--leave-one-out/--as-new",
        help="Whether the model has learned these very rows, so that each is judged without itself; detected "
        "automatically where DATA are the files that it was trained on.",
    ),
]


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that an option does not have."""
    if value not in choices:
        raise DecibanError(
            "there is no {option} {value!r}: {hint}",
            option=option,
            value=value,
            hint=did_you_mean(value, choices, f"choose one of {', '.join(choices)}"),
        )
