"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from deciban.errors import DecibanError, did_you_mean

FORMATS = ("csv", "tsv", "parquet", "arrow", "jsonl", "xlsx", "ods", "texts", "lines", "mail")
DATA = "Files (CSV, Parquet, Arrow, JSON lines, spreadsheets), globs, '-' for standard input, folders, mail."
ROWS_FILE = "Write to this file (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx) instead of the screen."

Model = Annotated[str, typer.Argument(help="A model file written by `deciban train`.", metavar="MODEL")]
Data = Annotated[list[str], typer.Argument(help=DATA, metavar="DATA...")]
MaybeData = Annotated[list[str] | None, typer.Argument(help=DATA, metavar="DATA...")]
Target = Annotated[str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Column that holds the classes.")]
RowsFile = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help=ROWS_FILE)]
OtherModel = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of MODEL.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="NUMBER", help="Random seed, for a reproducible result.", min=0, max=2**32 - 1),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help=f"Format of the data, if the name does not show it: {', '.join(FORMATS)}."
    ),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHARACTER", help="Separator of fields; detected automatically.")
]
Encoding = Annotated[str, typer.Option("--encoding", metavar="NAME", help="Encoding of text.")]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="VALUE", help="Value that means missing; repeat the option for several."),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names the columns; detected automatically."),
]
Sheet = Annotated[
    str | None,
    typer.Option("--sheet", metavar="NAME", help="Sheet of a spreadsheet; the first with data by default."),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal", metavar="SIGN", help="Decimal separator in numbers, . or a comma; detected automatically."
    ),
]
Thousands = Annotated[
    str | None,
    typer.Option(
        "--thousands",
        metavar="SIGN",
        help="Thousands separator: a comma, . ' a blank, or '' for none; detected automatically.",
    ),
]
DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--day-first/--month-first",
        help="Which comes first in dates such as 5/12/2024; detected for each column.",
    ),
]
EscapeFormulas = Annotated[
    bool,
    typer.Option("--escape-formulas", help="Put ' before text in CSV that a spreadsheet would run as a formula."),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="NUMBER", help="Number of threads; all processors by default.", min=1),
]
ByClass = Annotated[bool, typer.Option("--by-class", help="Guarantee the coverage for every class.")]
LeaveOneOut = Annotated[
    bool | None,
    typer.Option(
        "--leave-one-out/--as-new",
        help="Whether the model has learned these rows, so that each is predicted by the model without it; detected "
        "automatically if DATA are the files it was trained on.",
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
