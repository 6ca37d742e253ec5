"""`deciban train`: learn a model from data."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.column_forms import column_forms
from deciban.cli.column_notes import as_facts, column_kinds, to_check
from deciban.cli.engines import EngineOptions, FileOptions
from deciban.cli.model_choice import (
    MODELS,
    SIMPLE_MODELS,
    choose_model,
    new_estimator,
    only_text_column,
    read_schema,
)
from deciban.cli.models import TEXT_MODELS, kind_of, origin_of, written_columns
from deciban.cli.output_files import MAX_NAMES_STORED, OutputFile, checked_output, default_model_path, without_folders
from deciban.cli.rows import LABEL, TEXT, ModelRows, check_classes, check_column, check_target, split_columns
from deciban.cli.terminal import format_bytes, int_if_whole, note, pluralize, print_line, show, show_json
from deciban.errors import DecibanError, ForgetError
from deciban.results.summary import Decisive, decisive_sentence
from deciban.show import bar, plain

if TYPE_CHECKING:
    from deciban._typing import Array
    from deciban.engines.base import Engine
    from deciban.reading.kinds import ColumnKind, Conventions
    from deciban.show import Table

MAX_ROWS_TO_CHOOSE_MODEL = 2000  # of a database or a cluster
MAX_GROUPS_NOTED = 5  # of classes with nearly the same name
MAX_ROWS_JUDGED = 20_000  # of more rows, leave-one-out takes too long


def train(
    data: options.Data,
    target: options.Target = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Model file to write; named after DATA by default."),
    ] = None,
    force: options.Force = False,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto: `text` for a single column of text, `spam` for mail that is ham or spam, otherwise "
            "`classifier`, which combines many small models. naive-bayes and tree (tree-augmented) are simpler "
            "and faster.",
        ),
    ] = "auto",
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="Text column to use, for a text model.")] = None,
    max_features: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Words that a text model keeps, and pairs and so on; of more, the least used are dropped. "
            "4,194,304 of each by default.",
        ),
    ] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=KIND",
            help="Kind of a column: number, count, category, boolean, text, date or skip; repeat it for several.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Reuse the choices of this model, so that the two can be merged."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where the sums are computed: stream, duckdb, dask or spark for files; sql for a database URL.",
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Table of a database; SCHEMA.TABLE if needed.")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="SELECT", help="A SELECT instead of a table.")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Save progress to this file; a run that was stopped continues from it.",
        ),
    ] = None,
    jobs: options.Jobs = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    header: options.Header = None,
    sheet: options.Sheet = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    day_first: options.DayFirst = None,
    json: options.Json = False,
) -> None:
    """Learn a model from data.

    The kinds of columns are detected automatically: numbers, categories, texts, dates, with missing values anywhere.
    Data larger than memory are learned in batches. Folders with a subfolder for each class, and mail or texts given as
    CLASS=PATH, need no --target. Databases and clusters (--engine) add up the rows where they are stored.

    \b
    Examples:
      deciban train customers.csv --target churned
      deciban train 'sales/*.parquet' --target returned -o returns.deciban
      deciban train spam=Junk.mbox ham=Maildir/ -o filter.deciban
      zcat big.csv.gz | deciban train - --target label -o big.deciban
      deciban train 'huge/*.parquet' --target y --checkpoint part -o huge.deciban
      deciban train postgresql://me@db/shop --table orders --target returned
      deciban train shop.xlsx --sheet orders --target returned --day-first
    """
    options.check_choice("--model", model, MODELS)
    where = EngineOptions(engine, table, query, checkpoint)
    files = FileOptions(format, delimiter, encoding, missing, header, sheet, decimal, thousands, day_first)
    if like is not None and max_features is not None:
        raise DecibanError("--max-features is taken over from the model of --like: leave it out")
    if like is not None and where.any_given(data):
        raise DecibanError("--like works only with files: leave out the options for engines and databases")
    files_read = [path for path in data if "://" not in path]
    written = checked_output(output or default_model_path(files_read), force, "model.deciban", files_read)
    like_model = None if like is None else LikeModel(like, empty_like(like))
    opened = where.open(data, jobs, files, like_model.strings if like_model else ())
    if opened.name == "stream":
        how = like_model, written, checkpoint is None, max_features
        training = learn_files(opened, target, text, model, schema, jobs, *how)
        training.estimator.origin_["names"] = [without_folders(path) for path in data][-MAX_NAMES_STORED:]
    else:
        training = learn_with_engine(opened, target, text, model, schema, jobs, written, max_features)
    save_and_report(training, written.path, json)


@dataclass(frozen=True)
class LikeModel:
    """A model whose choices are reused."""

    path: str
    estimator: Any

    @property
    def strings(self) -> list[str]:
        """The columns whose strings it reads as numbers or dates."""
        return [*written_columns(self.estimator), *self.formats]

    @property
    def formats(self) -> dict[str, Any]:
        return dict(origin_of(self.estimator).get("formats", {}))


@dataclass(frozen=True)
class Training:
    """The result: the estimator, its leave-one-out figures if they are cheap, and notes on the rows."""

    estimator: Any
    figures: Any
    unlabelled: int  # rows without a label
    kinds: Sequence[ColumnKind] = ()

    @property
    def decisive(self) -> Sequence[Decisive]:
        """Columns that almost decide alone."""
        return self.estimator.summary().decisive if hasattr(self.estimator, "summary") else ()


def learn_files(
    engine: Any,
    target: str | None,
    text: str | None,
    model: str,
    schema: list[str] | None,
    jobs: int | None,
    like: LikeModel | None,
    output: OutputFile,
    at_once: bool,
    max_features: int | None = None,
) -> Training:
    """Learn from files.

    Files are read once if their rows fit in memory (`at_once`); otherwise a sample is read first, since choices are
    made before rows are added up.
    """
    from deciban.engines import learn

    kind = engine.source.kind
    if kind != "table":
        target, text = target or LABEL, text or TEXT
    target = check_target(engine, target)
    named = text is not None and kind == "table"
    rows = split_columns(engine, target, text if kind != "table" or model in ("text", "spam") else None)
    table = rows.all_rows() if at_once else None
    all_here = table is not None
    table = engine.sample(learn.SAMPLE_ROWS) if table is None else table
    check_classes(table[target], target)
    written: list[ColumnKind] = []
    with rows.labelled(table, all_here) as (X, y):
        if like is not None:
            estimator, chosen_model = like.estimator, "like"
            text = text_column_like(estimator, like.path, rows, text)
            rows = split_columns(engine, target, text, formats=like.formats)
        else:
            how = engine.conventions
            chosen_model = model if model != "auto" else "text" if named else choose_model(kind, X, y, schema, how)
            if chosen_model in ("text", "spam") and rows.split.text is None:
                rows = split_columns(engine, target, text or only_text_column(X, schema))
            kinds_given = read_schema(schema, tuple(engine.schema.names))
            if chosen_model in SIMPLE_MODELS:
                rows, kinds_given, written = for_simple_model(rows, X, kinds_given, how)
            estimator = new_estimator(chosen_model, kinds_given, jobs, how, max_features)
    output.check_free()
    note_thousands(engine.source.maybe_thousands - {target})
    with rows.labelled(table, all_here) as (X, y):
        if all_here and chosen_model != "like":
            with bar("learning", engine.size):
                estimator.fit(X, y)
        else:
            learn_in_batches(estimator, rows, chosen_model, y)
        calibrate(estimator, X, y)
        figures = leave_one_out_figures(
            estimator, X, y, chosen_model == "classifier" or (all_here and chosen_model != "like")
        )
    learned = table.num_rows if all_here else engine.rows_read
    estimator.origin_ = origin(engine, target, rows.split.text, kind, rows.digests(), column_forms(table))
    if rows.split.formats:
        estimator.origin_["formats"] = {name: asdict(form) for name, form in rows.split.formats.items()}
    kinds = () if like is not None else written or column_kinds(estimator)
    return Training(estimator, figures, round(learned - estimator.class_count_.sum()), kinds)


def note_thousands(columns: Collection[str]) -> None:
    """Note columns of numbers such as 1.234, which are read as fractions."""
    if columns:
        names = ", ".join(map(repr, sorted(columns)))
        note("note", f"numbers like 1.234 in {names} are read as fractions: if they are thousands, give --decimal ,")


def for_simple_model(
    rows: ModelRows, X: Any, kinds_given: dict[str, str], conventions: Conventions | None
) -> tuple[ModelRows, dict[str, str], list[ColumnKind]]:
    """Rows for a model that does not infer kinds: strings read as numbers and dates, identifiers left out.

    Returns the rows, the kinds given for the columns that are left, and the columns that were treated so.
    """
    from deciban.engines.split import inferred_kinds

    inferred = inferred_kinds(X, conventions)
    written = [own for own in inferred if own.format is not None]
    codes = [own for own in inferred if own.kind == "identifier" and own.name not in kinds_given]
    skipped = {own.name for own in codes} | {name for name, kind in kinds_given.items() if kind == "skip"}
    used = tuple(own.name for own in inferred if own.name not in skipped)
    if not used:
        raise DecibanError(
            "{rows} has no column to learn from: all but {column!r} identify rows, or are left out; add columns",
            rows=rows.name,
            column=rows.target,
        )
    formats = {own.name: own.format for own in written if own.format is not None}
    kinds = {name: kind for name, kind in kinds_given.items() if name not in skipped}
    return rows.with_formats(formats).of_columns(used), kinds, [*written, *codes]


def empty_like(path: str) -> Any:
    """An estimator with the choices of a saved model and no rows."""
    from deciban.estimators.load import load

    estimator = load(path)
    if not hasattr(estimator, "empty"):
        raise DecibanError(
            "{file!r} holds a {model}, which can be merged without --like: leave it out",
            file=path,
            model=type(estimator).__name__,
        )
    return estimator.empty()


def text_column_like(estimator: Any, path: str, rows: ModelRows, text: str | None) -> str | None:
    """The column of texts for a model like another one; None if that is a model of tables."""
    columns = rows.engine.schema.names
    if kind_of(estimator) not in TEXT_MODELS:
        if rows.engine.source.kind != "table":
            raise DecibanError(
                "{rows} holds texts, but {model!r} is a model of tables: leave out --like", rows=rows.name, model=path
            )
        return None
    text = text or rows.split.text or origin_of(estimator).get("text")
    if text not in columns:
        raise DecibanError(
            "{model!r} is a model of texts: give the text column of {rows} with --text",
            model=path,
            rows=rows.name,
        )
    return str(text)


def learn_in_batches(estimator: Any, rows: ModelRows, chosen_model: str, y: Array) -> None:
    """Learn all rows in batches; y are the labels of the sample on which choices are made."""
    from deciban.estimators import on_engines

    how: dict[str, Any] = {"text": rows.split.text, "labelled": True}
    if chosen_model == "like":
        on_engines.learn_more(estimator, rows.engine, rows.target, **how)
    else:
        on_engines.fit(estimator, rows.engine, rows.target, columns=rows.split.columns, **how)
    unseen = [plain(label) for label in estimator.classes_ if label not in y] if chosen_model == "classifier" else []
    if unseen:
        note(
            "note",
            f"class {unseen[0]!r} was not in the sample on which the choices were made: shuffle the rows, or give "
            "files instead of a pipe",
        )


def learn_with_engine(
    engine: Engine,
    target: str | None,
    text: str | None,
    model: str,
    schema: list[str] | None,
    jobs: int | None,
    output: OutputFile,
    max_features: int | None = None,
) -> Training:
    """The same for a database or a cluster; rows without a label are not counted."""
    from deciban.estimators import on_engines

    target = check_target(engine, target)
    check_column(engine, target)
    sampled = engine.sample(MAX_ROWS_TO_CHOOSE_MODEL) if model == "auto" else engine.schema.empty_table()
    if model == "auto":
        model = (
            "text"
            if text is not None
            else choose_model("table", sampled.drop_columns([target]), sampled[target], schema)
        )
    kinds_given = read_schema(schema, tuple(engine.schema.names))
    estimator = new_estimator(model, kinds_given, jobs, max_features=max_features)
    output.check_free()
    on_engines.fit(estimator, engine, target, text=text if model in ("text", "spam") else None, labelled=True)
    estimator.origin_ = origin(engine, target, getattr(estimator, "text_", None), "table", [], column_forms(sampled))
    figures = leave_one_out_figures(estimator, None, estimator.classes_, model == "classifier")
    return Training(estimator, figures, 0, column_kinds(estimator))


def origin(
    engine: Engine, target: str, text: str | None, kind: str, digests: list[str], forms: dict[str, int | str]
) -> dict[str, Any]:
    """Where the rows came from and how their columns are written, as stored in the model file."""
    name = without_folders(engine.rows_named)
    return {"target": target, "text": text, "kind": kind, "names": [name], "learned": digests, "forms": forms}


def calibrate(estimator: Any, X: Any, y: Array) -> None:
    """Scores for prediction sets, by leave-one-out over some of the rows, if possible."""
    with contextlib.suppress(ForgetError):
        estimator.calibrate(X, y)


def leave_one_out_figures(estimator: Any, X: Any, y: Array, cheap: bool) -> Any:
    """Accuracy and log loss to expect on new rows: from `fit`, or computed now if that is quick."""
    from deciban.corollaries.leave_one_out import alone_in_their_class

    if len(estimator.classes_) < 2 or not cheap:
        return None
    if hasattr(estimator, "summary") and (summary := estimator.summary()).evaluated:
        stored = {"accuracy": summary.accuracy, "log_loss": summary.loss, "rows": summary.evaluated_rows}
        alone = int((estimator.class_count_ == 1).sum())
        note = {"note": alone_in_their_class(alone, summary.rows)} if alone else {}
        return {**stored, "how": summary.how, **frequencies(summary.baseline, summary.baseline_accuracy), **note}
    if X is None or len(y) > MAX_ROWS_JUDGED:
        return None
    judged = estimator.leave_one_out(X, y)
    figures: dict[str, Any] = {"how": judged.how}
    if rows := judged.evaluated_rows:
        figures = {"accuracy": judged.accuracy, "log_loss": judged.log_loss, "rows": rows, **figures}
        figures |= frequencies(judged.baseline, float(judged.shares.max()))
    if judged.impossible:
        figures["impossible_rows"] = judged.impossible
    return {**figures, "note": judged.note} if judged.note else figures


def frequencies(log_loss: float | None, accuracy: float | None) -> dict[str, float | None]:
    """What the class frequencies alone give, for the same rows: the accuracy is that of naming the largest class."""
    return {"baseline_accuracy": accuracy, "baseline_log_loss": log_loss}


def save_and_report(training: Training, path: str, json: bool) -> None:
    """Write the model, and print what was learned."""
    estimator = training.estimator
    estimator.save(path)
    facts, target = training_facts(training, path), estimator.origin_["target"]
    if len(estimator.classes_) < 2:
        note(
            "note",
            f"column {target!r} holds only one class, so every row is predicted to be of it until others are learned",
        )
    for group in nearly_same_classes(estimator.classes_)[:MAX_GROUPS_NOTED]:
        names = f"{', '.join(map(repr, group[:-1]))} and {group[-1]!r}"
        note("note", f"classes {names} differ only in case or spaces: if they are one class, write it in one way")
    for column in training.decisive:
        remedy = f"train without it: --schema {shlex.quote(f'{column.column}=skip')}"
        note("note", decisive_sentence(column, remedy).removesuffix("."))
    if training.unlabelled:
        note("note", f"skipped {pluralize(training.unlabelled, 'row')} without a label in column {target!r}")
    if json:
        show_json(facts)
    else:
        print_facts(facts, to_check(training.kinds))


def nearly_same_classes(classes: Iterable[Any]) -> list[list[str]]:
    """Groups of classes whose names differ only in case, or in spaces around or between words.

    >>> nearly_same_classes([" yes", "Yes", "no", "yes"])
    [[' yes', 'Yes', 'yes']]
    """
    groups: dict[str, list[str]] = {}
    for label in map(str, classes):
        groups.setdefault(" ".join(label.casefold().split()), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def training_facts(training: Training, path: str) -> dict[str, Any]:
    """What was learned, for --json."""
    estimator = training.estimator
    counts = {
        str(plain(label)): int_if_whole(n) for label, n in zip(estimator.classes_, estimator.class_count_, strict=True)
    }
    facts = {
        "model": type(estimator).__name__,
        "file": path,
        "bytes": os.path.getsize(path),
        "rows": int_if_whole(sum(counts.values())),
        "classes": counts,
        "target": estimator.origin_["target"],
        "text": estimator.origin_["text"],
    }
    if training.figures is not None:
        facts["leave_one_out"] = training.figures
    if training.kinds:
        facts["columns"] = as_facts(training.kinds)
    if training.decisive:
        facts["decisive"] = [column._asdict() for column in training.decisive]
    return facts


def print_facts(facts: dict[str, Any], columns: Table | None) -> None:
    by_size = sorted(facts["classes"].items(), key=lambda item: -item[1])
    shares = ", ".join(f"{label} {n:,.10g}" for label, n in by_size[:8])
    rest = f" and {len(by_size) - 8} more" if len(by_size) > 8 else ""
    print_line(f"Learned {pluralize(facts['rows'], 'row')} of {pluralize(len(by_size), 'class')}: {shares}{rest}.")
    if columns is not None:
        print_line()
        show(columns)
        print_line()
    if "leave_one_out" in facts:
        figures = facts["leave_one_out"]
        if "log_loss" in figures:
            impossible = figures.get("impossible_rows", 0)
            loss = f"log loss {figures['log_loss']:.4g} nats"
            if impossible:
                loss = f"no log loss, because the true class of {pluralize(impossible, 'row')} has probability 0"
            n = figures["rows"] or facts["rows"]  # older models do not record it
            of_rows = f" of {n:,} rows" if n < facts["rows"] else ""
            print_line(f"{figures['how'].capitalize()}{of_rows}: accuracy {100 * figures['accuracy']:.1f} %, {loss}.")
            alone = f"{100 * figures['baseline_accuracy']:.1f} %, {figures['baseline_log_loss']:.4g} nats"
            print_line(f"The class frequencies alone: {alone}.")
        if "note" in figures:
            print_line(figures["note"])
    print_line(f"Wrote {facts['file']} ({facts['model']}, {format_bytes(facts['bytes'])}).")
