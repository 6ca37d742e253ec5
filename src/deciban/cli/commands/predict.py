"""`deciban predict`: predict the class of each row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.engines import FileOptions
from deciban.cli.models import learned_before, open_model, rows_for
from deciban.cli.output_files import checked_output, report_written
from deciban.cli.rows import ModelRows
from deciban.cli.screen import screen_table
from deciban.cli.terminal import note, pluralize, show
from deciban.errors import DecibanError
from deciban.results.answers import PREDICTION, PREDICTION_SET, PROBABILITY, p_value_column, proba_column
from deciban.show import Table, bar

if TYPE_CHECKING:
    from deciban.corollaries.conformal import PredictionSets
    from deciban.sources import Batch

MAX_ROWS_SHOWN = 20  # on a terminal


def predict(
    model: options.Model,
    data: options.Data,
    output: options.RowsFile = None,
    force: options.Force = False,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add a column with the probability of each class: proba_CLASS.")
    ] = False,
    only: Annotated[bool, typer.Option("--only", help="Only the predictions, without the columns of DATA.")] = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Add a column `set`: the classes that cannot be ruled out, with the true one in this share of rows.",
        ),
    ] = None,
    by_class: options.ByClass = False,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            "--rows", metavar="DATA", help="With --coverage: the data the model was trained on, for exact sets."
        ),
    ] = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    header: options.Header = None,
    sheet: options.Sheet = None,
    escape_formulas: options.EscapeFormulas = False,
    json: options.Json = False,
) -> None:
    """Predict the class of every row, and its probability.

    Adds the columns `prediction` and `probability` to the data: as CSV in a pipe, the first few rows as a table on a
    terminal, all rows in a file with -o. Rows are processed in batches.

    \b
    Examples:
      deciban predict churn.deciban new.csv -o predicted.csv
      deciban predict churn.deciban new.parquet --proba -o predicted.parquet
      cat new.csv | deciban predict churn.deciban - --only | sort | uniq -c
      deciban predict filter.deciban Inbox.mbox
      deciban predict churn.deciban new.csv --coverage 0.95 --rows customers.csv
    """
    written = checked_output(output, force, "predicted.csv", [model, *data, *(rows or [])], screen=True)
    loaded, files = open_model(model), FileOptions(format, delimiter, encoding, missing, header, sheet)
    new = rows_for(loaded, data, files, labelled=False)
    sets = prediction_set_function(loaded, model, coverage, by_class, rows, files)
    written.check_free()
    answers = Answers(loaded, new, not only, proba, sets)
    if output is None and not json and sys.stdout.isatty():
        n_answers = (2 + (sets is not None)) + proba * len(loaded.classes_) * (1 + (sets is not None))
        show(first_rows(answers.tables(), n_answers, new.engine.source.whole))
        return
    from deciban.sources.write import is_csv

    new.engine.source.keeps_texts = not only and (not json if output in (None, "-") else is_csv(str(output)))
    with bar("predicting", new.engine.size) as watch:
        n_rows = write_answers(output, new, partial(answers.tables, watch), json, escape_formulas)
    report_written(output, n_rows, json)


def write_answers(
    output: str | None, rows: ModelRows, tables: Callable[[], Iterator[Any]], json: bool, escape: bool
) -> int:
    """Write rows with their answers. Integer columns of the data, which are read as floats, are integers again.

    Which columns are integers is known from a sample. A file with a type for each column is written again if a row
    has a fraction after all.
    """
    from deciban.sources import write_rows
    from deciban.sources.write import FractionError, is_typed

    on_screen = output in (None, "-")
    whole = rows.engine.source.whole
    if rows.engine.once and not on_screen and is_typed(str(output)) and rows.all_rows() is None:
        whole = frozenset()  # a pipe has too many rows to look at all of them first
    while True:
        try:
            format_ = "jsonl" if json and on_screen else None
            return write_rows(output, tables(), format=format_, whole=whole, escape=escape)
        except FractionError as error:
            whole -= {str(error.column)}


def prediction_set_function(
    loaded: Any, path: str, coverage: float | None, by_class: bool, rows: list[str] | None, files: FileOptions
) -> Callable[[Any], PredictionSets] | None:
    """A function from rows to prediction sets, or None without --coverage; notes the guarantee once."""
    if coverage is None:
        if rows or by_class:
            raise DecibanError(
                "--rows and --by-class need --coverage, the share of rows whose class is in the set, such as 0.9"
            )
        return None
    from deciban.corollaries.conformal import STORED, check_coverage, promise

    check_coverage(coverage)
    if not rows:
        if loaded.calibration_ is None:
            raise DecibanError(
                "{file!r} has no scores for prediction sets: give the data it was trained on with --rows",
                file=path,
            )
        note("note", promise(STORED, coverage, by_class, loaded.calibration_.rows))
        return lambda X: loaded.predict_set(X, coverage, by_class=by_class)
    from deciban.estimators.load import load
    from deciban.estimators.prediction_sets import MAX_KEPT_ROWS

    estimator = load(path)
    learned = rows_for(estimator, rows, files)
    table, all_here = learned.all_or_sample(MAX_KEPT_ROWS)
    if not all_here and not estimator._sums_decide():
        raise DecibanError(
            f"{{rows}} has more than {MAX_KEPT_ROWS:,} rows, too many to refit the model without a part of them: "
            "leave out --rows",
            rows=learned.name,
        )
    if not learned_before(estimator, learned):
        note("note", f"the model was not trained on {learned.name}: the sets have no guarantee")
    with learned.labelled(table, all_here) as (X, y):
        prepared = estimator.compared_with((X, y))
    note("note", promise(prepared.way, coverage, by_class, prepared.rows, prepared.folds))
    return lambda X: estimator.predict_set(X, coverage, by_class=by_class, rows=prepared)


@dataclass(frozen=True)
class Answers:
    """Rows with their predictions."""

    model: Any
    rows: ModelRows
    keep_columns: bool  # whether to keep the columns of the rows
    proba: bool = False
    sets: Callable[[Any], PredictionSets] | None = None

    def tables(self, watch: Callable[[int], None] | None = None) -> Iterator[Any]:
        """A table per batch; without any rows, one empty table with the columns."""
        table = None
        for table in self.rows.engine.each(self.table, watch):
            yield table
        if table is None:
            from deciban.sources import Batch

            yield self.table(Batch(self.rows.engine.schema.empty_table(), 0, self.rows.name))

    def table(self, batch: Batch) -> Any:
        import pyarrow as pa

        from deciban.reading.arrow import column_of, strings

        model, X = self.model, self.rows.split.inputs(batch.table)
        proba = model.predict_proba(X)
        predictions = model.answers(proba) if hasattr(model, "answers") else model.predict(X)
        columns: dict[str, Any] = {}
        if self.keep_columns:
            columns = {name: batch.table[name] for name in batch.table.column_names}
            if batch.texts is not None:
                columns |= {name: batch.texts[name] for name in batch.texts.column_names}
            if batch.names is not None:
                columns.pop(self.rows.split.text or "", None)
                columns = {"file": strings(batch.names, pa.string()), **columns}
        # Without rows, the column is of the type that classes have.
        columns[unused(PREDICTION, columns)] = column_of(predictions if len(X) else model.classes_).slice(0, len(X))
        columns[unused(PROBABILITY, columns)] = column_of(proba.max(axis=1, initial=0.0))
        if self.proba:
            for c, label in enumerate(model.classes_):
                columns[unused(proba_column(label), columns)] = column_of(proba[:, c])
        if self.sets is not None:
            sets = self.sets(X)
            texts = ["|".join(map(str, one)) for one in sets.sets]
            columns[unused(PREDICTION_SET, columns)] = strings(texts, pa.string())
            for c, label in enumerate(model.classes_) if self.proba else ():
                columns[unused(p_value_column(label), columns)] = column_of(sets.p_values[:, c])
        return pa.table(columns)


def unused(name: str, columns: dict[str, Any]) -> str:
    """The name, with underscores appended until no column has it."""
    while name in columns:
        name += "_"
    return name


def first_rows(tables: Iterator[Any], n_answers: int, whole: Collection[str]) -> Table:
    """The first rows as a table for the terminal; the last `n_answers` columns are the predictions."""
    from deciban.sources.column_types import as_written

    first = next(tables)
    more = first.num_rows > MAX_ROWS_SHOWN or next(tables, None) is not None
    shown = first.slice(0, MAX_ROWS_SHOWN)
    title = f"the first {MAX_ROWS_SHOWN} rows; -o FILE writes all of them" if more else pluralize(shown.num_rows, "row")
    return screen_table(as_written(shown, whole), title, first.column_names[-n_answers:])
