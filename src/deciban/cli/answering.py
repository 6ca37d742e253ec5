"""`deciban predict` and `deciban explain`: what a model says of rows, and why."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.data import Reading, Rows, check_not_among
from deciban.cli.models import TEXT_MODELS, kind_of, learned_before, open_model, rows_for
from deciban.cli.screen import on_screen
from deciban.cli.terminal import note, several, show, show_json
from deciban.errors import DecibanError
from deciban.show import Table, bar, plain

if TYPE_CHECKING:
    from deciban.corollaries.conformal import PredictionSets

SHOWN = 20  # rows of predictions on a terminal


def predict(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A file (.csv, .tsv, .parquet, .arrow, .jsonl); else the screen."),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="A column with the probability of every class.")] = False,
    only: Annotated[bool, typer.Option("--only", help="The predictions alone, without the columns of DATA.")] = False,
    coverage: Annotated[
        float | None,
        typer.Option(help="A column `set`: classes that cannot be ruled out, with the true one in this share of rows."),
    ] = None,
    by_class: Annotated[
        bool, typer.Option("--by-class", help="With --coverage: in this share of the rows of every class.")
    ] = False,
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", help="With --coverage: the data that the model was trained on, for exact sets."),
    ] = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Say the class of every row, and how probable it is.

    The rows come out with the columns `prediction` and `probability` beside them: as CSV in a pipe, the first few as a
    table on a terminal, all of them in a file with -o. Rows are read, judged and written in batches.

    \b
    Examples:
      deciban predict churn.deciban new.csv -o judged.csv
      deciban predict churn.deciban new.parquet --proba -o judged.parquet
      cat new.csv | deciban predict churn.deciban - --only | sort | uniq -c
      deciban predict filter.deciban Inbox.mbox
      deciban predict churn.deciban new.csv --coverage 0.95 --rows customers.csv
    """
    from deciban.sources import write_rows

    check_not_among(output, [model, *data, *(rows or [])])
    found, reading = open_model(model), Reading(format, delimiter, encoding, missing)
    new = rows_for(found, data, reading, labelled=False)
    sets = sets_of(found, model, coverage, by_class, rows, reading)
    names = None if only else new.source.columns
    if output is None and not json and sys.stdout.isatty():
        answers = (2 + (sets is not None)) + proba * len(found.classes_) * (1 + (sets is not None))
        show(first_rows(judged(found, new, names, proba, sets), answers))
        return
    with bar("judging", new.source.size) as watch:
        tables = judged(found, new, names, proba, sets, watch)
        write_rows(output, tables, format="jsonl" if json and output is None else None)


def sets_of(
    found: Any, path: str, coverage: float | None, by_class: bool, rows: list[str] | None, reading: Reading
) -> Callable[[Any], PredictionSets] | None:
    """What gives prediction sets of rows, where they are asked for; what they promise is said once."""
    if coverage is None:
        if rows or by_class:
            raise DecibanError("--rows and --by-class go with --coverage, the share of rows whose class is in the set")
        return None
    from deciban.corollaries.conformal import STORED, check_coverage, promise

    check_coverage(coverage)
    if not rows:
        if found.calibration_ is None:
            raise DecibanError(
                f"{path!r} has no scores for prediction sets: name the data that it was trained on, with --rows"
            )
        note("note", promise(STORED, coverage, by_class, found.calibration_.rows))
        return lambda X: found.predict_set(X, coverage, by_class=by_class)
    from deciban.estimators.load import load
    from deciban.estimators.prediction_sets import KEPT_ROWS

    estimator = load(path)
    learned = rows_for(estimator, rows, reading)
    X, y, all_here = learned.sample(KEPT_ROWS)
    if not all_here and not estimator._sums_decide():
        raise DecibanError(
            f"{learned.source.name} has more than {KEPT_ROWS:,} rows, too many to fit the model anew without a part of "
            "them: leave out --rows"
        )
    if not learned_before(estimator, learned):
        note("note", f"the model was not trained on {learned.source.name}: sets promise nothing for other rows")
    with learned.numbered():
        compared = estimator.compared_with((X, y))
    note("note", promise(compared.way, coverage, by_class, compared.rows, compared.folds))
    return lambda X: estimator.predict_set(X, coverage, by_class=by_class, rows=compared)


def judged(
    model: Any, rows: Rows, names: tuple[str, ...] | None, proba: bool, sets: Any = None, watch: Any = None
) -> Iterator[Any]:
    """Tables of rows with what is predicted of them."""
    import pyarrow as pa

    with rows.numbered():
        for X, batch in rows.unlabelled_batches(watch):
            said = model.predict_proba(X)
            answers = model.answers(said) if hasattr(model, "answers") else model.predict(X)
            columns: dict[str, Any] = {}
            if names is not None:
                columns = {name: batch.table[name] for name in names}
                if batch.names is not None:
                    columns = {
                        "file": pa.array(batch.names),
                        **{name: c for name, c in columns.items() if name != rows.text},
                    }
            columns[unused("prediction", columns)] = pa.array([plain(answer) for answer in answers.tolist()])
            columns[unused("probability", columns)] = pa.array(said.max(axis=1) if len(said) else [], pa.float64())
            if proba:
                for c, label in enumerate(model.classes_):
                    columns[unused(f"P({plain(label)})", columns)] = pa.array(said[:, c])
            if sets is not None:
                found = sets(X)
                columns[unused("set", columns)] = pa.array(["|".join(map(str, one)) for one in found.sets], pa.string())
                for c, label in enumerate(model.classes_) if proba else ():
                    columns[unused(f"p-value({plain(label)})", columns)] = pa.array(found.p_values[:, c])
            yield pa.table(columns)


def unused(name: str, columns: dict[str, Any]) -> str:
    """A name that no column has."""
    while name in columns:
        name += "_"
    return name


def first_rows(tables: Iterator[Any], answers: int) -> Table:
    """The first rows of all, to look at; so many columns at the end are what was asked for."""
    first = next(tables)
    more = first.num_rows > SHOWN or next(tables, None) is not None
    shown = first.slice(0, SHOWN)
    title = f"the first {SHOWN} rows; -o FILE writes all of them" if more else several(shown.num_rows, "row")
    return on_screen(shown, title, first.column_names[-answers:])


def explain(
    model: options.Model,
    data: options.MaybeData = None,
    row: Annotated[int, typer.Option(help="Which row of DATA, from 1; the header is none.", min=1)] = 1,
    text: Annotated[str | None, typer.Option(help="A text to explain.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="COLUMN=VALUE of a row; columns that are not named are missing.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="The class that evidence is for.")] = None,
    against: Annotated[str | None, typer.Option(help="The class that it is against.")] = None,
    by: Annotated[str, typer.Option(help="column, or expert: what each way to look at the row came to.")] = "column",
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Say why: the evidence of every column or word, in decibans, which adds up to the decision.

    10 dB make the odds ten times as high, 20 dB a hundred times, and -10 dB a tenth. Without --target and --against it
    is explained why the likeliest class is likelier than the next.

    \b
    Examples:
      deciban explain spam.deciban --text "Claim your free prize now"
      deciban explain churn.deciban customers.csv --row 17
      deciban explain churn.deciban --set plan=basic --set months=3
      deciban explain churn.deciban customers.csv --row 17 --target yes --json
    """
    if sum(given is not None and given != [] for given in (data, text, set_)) != 1:
        raise DecibanError("give one of: DATA (and --row), --text, or --set COLUMN=VALUE")
    if by not in ("column", "expert"):
        raise DecibanError(f"--by is {by!r}: it must be column or expert")
    found = open_model(model)
    texts = kind_of(found) in TEXT_MODELS
    if text is not None:
        X = text if texts else text_row(found, text)
    elif set_:
        if texts:
            raise DecibanError(f"{model!r} is a model of texts: give one with --text")
        X = row_of(found, set_)
    else:
        rows = rows_for(found, data or [], Reading(format, delimiter, encoding, missing), labelled=False)
        X = rows.inputs(rows.source.row(row - 1))
        X = X.to_pylist()[0] if texts else X.to_pydict()  # as arrays, pyarrow would import pandas first
    if by == "expert" and kind_of(found) != "Classifier":
        raise DecibanError(f"{model!r} has no experts: --by expert is for a model of a table that weighs several")
    labels = [None if label is None else class_of(found, label) for label in (target, against)]
    if target is not None and target == against:
        raise DecibanError(f"--target and --against are both {target!r}: give two classes, or one of the two options")
    why = found.explain(X, *labels, by=by)
    if json:
        show_json(why.to_dict())
    else:
        show(why)


def class_of(model: Any, label: str) -> Any:
    """A class by how it is spelled."""
    for known in map(plain, model.classes_):
        if str(known) == label or (isinstance(known, bool) and str(known).lower() == label.lower()):
            return known
    raise DecibanError(f"{label!r} is not one of the classes: {', '.join(str(plain(c)) for c in model.classes_)}")


def columns_of(model: Any) -> dict[str, str | None]:
    """The columns that a model of a table looks at, and what they are."""
    if hasattr(model, "model") and hasattr(model.model, "reader"):
        return {kind.name: kind.kind for kind in model.model.reader.used}
    return dict.fromkeys(map(str, getattr(model, "feature_names_in_", ())))


def text_row(model: Any, text: str) -> dict[str, list[Any]]:
    """A row of which only the text is known, where the table has one column of texts."""
    columns = columns_of(model)
    found = [name for name, kind in columns.items() if kind == "text"]
    if len(found) != 1:
        raise DecibanError(
            "the model looks at a table"
            + (" with several texts" if found else " without texts")
            + ": name columns with --set COLUMN=VALUE"
        )
    return {name: [text if name == found[0] else None] for name in columns}


def row_of(model: Any, said: list[str]) -> dict[str, list[Any]]:
    """A row from COLUMN=VALUE; what is not named is missing."""
    columns = columns_of(model)
    row: dict[str, list[Any]] = {name: [None] for name in columns}
    for item in said:
        name, equals, value = item.partition("=")
        while equals and name not in columns and "=" in value:  # a column may have the sign in its name
            more, equals, value = value.partition("=")
            name = f"{name}={more}"
        if not equals:
            raise DecibanError(f"--set {item!r}: write COLUMN=VALUE, as in --set age=41")
        if name not in columns:
            from deciban.reading.frames import unknown_column

            raise DecibanError(f"--set {item!r}: {unknown_column(name, columns)}")
        row[name] = [value_of(name, value, columns[name])]
    return row


def value_of(name: str, value: str, kind: str | None) -> Any:
    """A value as its column has it; what kind the column is, a simple model does not say."""
    if kind == "boolean" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind not in ("number", "count", None):
        return value
    try:
        return float(value)
    except ValueError:
        if kind is None:
            return value
        raise DecibanError(f"--set {name}={value}: the column holds numbers, and {value!r} is none") from None
