"""`deciban explain`: the evidence behind a prediction."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.engines import FileOptions
from deciban.cli.models import (
    TEXT_MODELS,
    categories_of,
    class_of,
    columns_of,
    formats_of,
    kind_of,
    open_model,
    rows_for,
)
from deciban.cli.terminal import note, show, show_json
from deciban.errors import DecibanError, did_you_mean, numbered

if TYPE_CHECKING:
    from deciban.reading.convert import Format
    from deciban.results.evidence import Evidence


def explain(
    model: options.Model,
    data: options.MaybeData = None,
    row: Annotated[
        int, typer.Option(metavar="NUMBER", help="Row of DATA, counted from 1, not counting the header.", min=1)
    ] = 1,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="Text to explain.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=VALUE", help="Value of a column; columns not set are missing."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="CLASS", help="Class to show evidence for.")
    ] = None,
    against: Annotated[str | None, typer.Option(metavar="CLASS", help="Class to compare it with.")] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Evidence by column or word, by item (words, pairs, characters), or by expert (each small model).",
        ),
    ] = "column",
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    header: options.Header = None,
    sheet: options.Sheet = None,
    json: options.Json = False,
) -> None:
    """Explain a prediction: the evidence of every column or word, in decibans, which adds up to the prediction.

    10 dB make the odds ten times as high, 20 dB a hundred times, and -10 dB a tenth. Without --target and --against,
    the most probable class is compared with the second.

    \b
    Examples:
      deciban explain spam.deciban --text "Claim your free prize now"
      deciban explain churn.deciban customers.csv --row 17
      deciban explain churn.deciban --set plan=basic --set months=3
      deciban explain churn.deciban customers.csv --row 17 --target yes --json
    """
    if sum(given is not None and given != [] for given in (data, text, set_)) != 1:
        raise DecibanError("give one of: DATA (and --row), --text, or --set COLUMN=VALUE")
    options.check_choice("--by", by, ("column", "word", "item", "expert"))
    loaded = open_model(model)
    texts = kind_of(loaded) in TEXT_MODELS
    if text is not None:
        X = text if texts else text_row(loaded, text)
    elif set_:
        if texts:
            raise DecibanError("{file!r} is a model of texts: give a text with --text", file=model)
        X = row_of(loaded, set_)
    else:
        from deciban.sources.column_types import as_written

        rows = rows_for(
            loaded, data or [], FileOptions(format, delimiter, encoding, missing, header, sheet), labelled=False
        )
        source = rows.engine.source
        X = rows.split.inputs(as_written(source.row(row - 1), source.whole))
        X = X.to_pylist()[0] if texts else X.to_pydict()
    if by == "expert" and kind_of(loaded) != "Classifier":
        raise DecibanError(
            "{file!r} has no experts: leave out --by expert, which is for models trained with --model classifier",
            file=model,
        )
    labels = [None if label is None else class_of(loaded, label) for label in (target, against)]
    if target is not None and target == against:
        raise DecibanError(
            "--target and --against are both {value!r}: give two classes, or one of the two options", value=target
        )
    with numbered([row]):
        why = loaded.explain(X, *labels, by=by)
    if isinstance(X, dict):
        why = with_values_of(why, X)
    if json:
        show_json(why.to_dict())
    else:
        show(why)


def with_values_of(why: Evidence, row: dict[str, list[Any]]) -> Evidence:
    """The evidence with numbers and dates as the row has them: simple models read 35 as 35.0, and dates as days."""

    def value_of(name: str, value: Any) -> Any:
        own = row[name][0] if name in row else None
        if isinstance(own, datetime.date) and isinstance(value, float):
            if isinstance(own, datetime.datetime) and own.time() == datetime.time():
                own = own.date()
            return own.isoformat()
        return own if isinstance(own, int) and isinstance(value, float) and own == value else value

    return replace(why, items=tuple((name, value_of(name, value), db) for name, value, db in why.items))


def text_row(model: Any, text: str) -> dict[str, list[Any]]:
    """A row with a text and nothing else, for a table with one text column."""
    columns = columns_of(model)
    texts = [name for name, kind in columns.items() if kind == "text"]
    if len(texts) != 1:
        raise DecibanError(
            "the model is of a table"
            + (" with several columns of text" if texts else " without columns of text")
            + ": give values with --set COLUMN=VALUE"
        )
    return {name: [text if name == texts[0] else None] for name in columns}


def row_of(model: Any, given: list[str]) -> dict[str, list[Any]]:
    """A row from COLUMN=VALUE; other columns are missing."""
    columns, categories, formats = columns_of(model), categories_of(model), formats_of(model)
    row: dict[str, list[Any]] = {name: [None] for name in columns}
    for item in given:
        name, equals, value = item.partition("=")
        while equals and name not in columns and "=" in value:  # a column may have the sign in its name
            rest, equals, value = value.partition("=")
            name = f"{name}={rest}"
        if not equals:
            raise DecibanError("--set {value!r}: write COLUMN=VALUE, as in --set age=41", value=item)
        if name not in columns:
            from deciban.reading.frames import unknown_column

            raise DecibanError(
                "--set {value!r}: {problem}", value=item, column=name, problem=unknown_column(name, columns)
            )
        row[name] = [value_of(name, value, columns[name], formats.get(name))]
        known = categories.get(name, [str(row[name][0])])
        if str(row[name][0]) not in known:
            hint = did_you_mean(value, known, f"it has learned {', '.join(known[:10])}")
            note("note", f"the model has never seen {name} = {value}: {hint}")
    return row


def value_of(name: str, value: str, kind: str | None, form: Format | None = None) -> Any:
    """A value parsed for its column, which may have a format of its own; simple models have no kinds."""
    if form is not None:
        return value_in_format(name, value, form)
    if kind == "boolean" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind not in ("number", "count", None):
        return value
    try:
        number = int(value) if value.strip().lstrip("+-").isdecimal() else float(value)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    if kind is None:
        return value
    raise DecibanError(
        "--set {column}={value}: the column holds numbers, but {value!r} is not a number", column=name, value=value
    )


def value_in_format(name: str, value: str, form: Format) -> Any:
    """A number or a date in the format of its column: $5,000 or 5/12/2024; None if it means missing."""
    from deciban.reading.convert import date, number
    from deciban.reading.dates import EPOCH, DateFormat

    is_date = isinstance(form, DateFormat)
    read = date(value, form) if isinstance(form, DateFormat) else number(value, form)
    if read is None or math.isinf(read):
        raise DecibanError(
            "--set {column}={value}: the column holds {what}s, but {value!r} is not a {what}",
            column=name,
            value=value,
            what="date" if is_date else "number",
        )
    if math.isnan(read):
        return None
    return EPOCH + datetime.timedelta(days=read) if is_date else int(read) if read.is_integer() else read
