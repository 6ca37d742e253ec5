"""`deciban train`: from rows to a model."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.engines import EngineOptions, FileOptions
from deciban.cli.model_choice import MODELS, guess, make, read_schema, the_text_column
from deciban.cli.output_files import output_path, without_folders
from deciban.cli.rows import LABEL, TEXT, ModelRows, check_classes, check_column, check_target, split_columns
from deciban.cli.terminal import bytes_in_words, counted, note, say, several, show_json
from deciban.errors import DecibanError, ForgetError
from deciban.show import bar, plain

if TYPE_CHECKING:
    from deciban._typing import Array
    from deciban.engines.base import Engine

GUESSED = 2000  # rows of a database or a cluster by which a model is chosen
JUDGED = 20_000  # texts that are left one out to say how good the model is


def train(
    data: options.Data,
    target: options.Target = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="The model file; DATA's name with .deciban by default.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="auto: `text` for one column of text, `spam` for mail that is ham or spam, else `classifier`, which "
            "weighs several laws. naive-bayes and tree (tree-augmented) are simpler, and faster."
        ),
    ] = "auto",
    text: Annotated[str | None, typer.Option(help="The column of texts, for a model of texts.")] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=KIND: number, count, category, boolean, text, date or skip; several times."),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(help="A model whose choices to take over, so that both can be merged afterwards."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="What adds up: stream, duckdb, dask or spark for files; sql for a database, given as a URL."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="The table of a database; SCHEMA.TABLE if need be.")] = None,
    query: Annotated[str | None, typer.Option(help="A SELECT instead of a table.")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="A file that keeps what was added up so far: started again, learning goes on from there."),
    ] = None,
    jobs: options.Jobs = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Learn a model from data.

    What columns hold is detected: numbers, categories, texts, dates, with values missing anywhere. Data larger than
    memory are learned in batches. Folders with a subfolder for each class, and mail or texts given as
    CLASS=PATH, need no --target. With --engine, the rows are added up where they are.

    \b
    Examples:
      deciban train customers.csv --target churned
      deciban train 'sales/*.parquet' --target returned -o returns.deciban
      deciban train spam=Junk.mbox ham=Maildir/ -o filter.deciban
      zcat big.csv.gz | deciban train - --target label -o big.deciban
      deciban train 'huge/*.parquet' --target y --checkpoint part -o huge.deciban
      deciban train postgresql://me@db/shop --table orders --target returned
    """
    if model not in MODELS:
        raise typer.BadParameter(f"{model!r} is none of {', '.join(MODELS)}", param_hint="--model")
    where, files = EngineOptions(engine, table, query, checkpoint), FileOptions(format, delimiter, encoding, missing)
    if like is not None and where.given(data):
        raise DecibanError("--like is for rows that are read here: leave out --engine and the like")
    opened = where.open(data, jobs, files)
    path = output_path(output, data if all("://" not in one for one in data) else ["model"])
    if opened.name == "stream":
        learned = learn_files(opened, target, text, model, schema, jobs, like, at_once=checkpoint is None)
    else:
        learned = learn_there(opened, target, text, model, schema, jobs)
    finish(*learned, path, json)


def learn_files(
    engine: Any,
    target: str | None,
    text: str | None,
    model: str,
    schema: list[str] | None,
    jobs: int | None,
    like: str | None,
    at_once: bool,
) -> tuple[Any, Any, int]:
    """The estimator that has learned files, how good it is where that is at hand, and how many rows have no label.

    Files are read once where memory holds their rows (`at_once`); otherwise a sample is read first, since choices are
    made before rows are added up.
    """
    from deciban.engines import learn

    kind = engine.source.kind
    if kind != "table":
        target, text = target or LABEL, text or TEXT
    target = check_target(engine, target)
    named = text is not None and kind == "table"
    rows = split_columns(engine, target, text if kind != "table" or model in ("text", "spam") else None)
    table = rows.whole() if at_once else None
    all_here = table is not None
    table = engine.sample(learn.SAMPLE) if table is None else table
    check_classes(table[target], target)
    with rows.labelled(table, all_here) as (X, y):
        if like is not None:
            estimator, how = without_rows(like), "like"
        else:
            how = model if model != "auto" else "text" if named else guess(kind, X, y, schema)
            if how in ("text", "spam") and rows.split.text is None:
                rows = split_columns(engine, target, text or the_text_column(X, schema))
            estimator = make(how, read_schema(schema, tuple(engine.schema.names)), jobs)
    with rows.labelled(table, all_here) as (X, y):
        if all_here and how != "like":
            with bar("learning", engine.size):
                estimator.fit(X, y)
        else:
            add_up(estimator, rows, how, y)
        calibrate(estimator, X, y)
        judged = judge(estimator, X, y, how == "classifier" or (all_here and how != "like"))
    learned = table.num_rows if all_here else engine.rows_read
    estimator.origin_ = origin(engine, target, rows.split.text, kind, rows.digests())
    return estimator, judged, round(learned - estimator.class_count_.sum())


def without_rows(path: str) -> Any:
    """The choices of a model, with nothing learned."""
    from deciban.estimators.load import load

    estimator = load(path)
    if not hasattr(estimator, "empty"):
        raise DecibanError(
            "{file!r} holds a {model}, which needs no --like: merge it as it is",
            file=path,
            model=type(estimator).__name__,
        )
    return estimator.empty()


def add_up(estimator: Any, rows: ModelRows, how: str, y: Array) -> None:
    """Learn all rows batch by batch; y are the labels of the sample that choices are made on."""
    from deciban.estimators import on_engines

    learn = on_engines.learn_more if how == "like" else on_engines.fit
    learn(estimator, rows.engine, rows.target, text=rows.split.text, labelled=True)
    later = [plain(label) for label in estimator.classes_ if label not in y] if how == "classifier" else []
    if later:
        note(
            "note",
            f"class {later[0]!r} was not in the sample that the choices were made on: put the rows in random "
            "order, or give files instead of a pipe",
        )


def learn_there(
    engine: Engine, target: str | None, text: str | None, model: str, schema: list[str] | None, jobs: int | None
) -> tuple[Any, Any, int]:
    """The same for rows of a database or a cluster, which says nothing of those without a label."""
    from deciban.estimators import on_engines

    target = check_target(engine, target)
    check_column(engine, target)
    if model == "auto":
        some = engine.sample(GUESSED)
        model = "text" if text is not None else guess("table", some.drop_columns([target]), some[target], schema)
    estimator = make(model, read_schema(schema, tuple(engine.schema.names)), jobs)
    on_engines.fit(estimator, engine, target, text=text if model in ("text", "spam") else None, labelled=True)
    estimator.origin_ = origin(engine, target, getattr(estimator, "text_", None), "table", [])
    return estimator, judge(estimator, None, estimator.classes_, model == "classifier"), 0


def origin(engine: Engine, target: str, text: str | None, kind: str, digests: list[str]) -> dict[str, Any]:
    """Where the rows came from: what a model file says of it."""
    name = without_folders(engine.rows_named)
    return {"target": target, "text": text, "kind": kind, "names": [name], "learned": digests}


def calibrate(estimator: Any, X: Any, y: Array) -> None:
    """Scores for prediction sets, by leave-one-out over some of the rows, where that can be done."""
    with contextlib.suppress(ForgetError):
        estimator.calibrate(X, y)


def judge(estimator: Any, X: Any, y: Array, at_hand: bool) -> Any:
    """What new rows would see: as `fit` found it, or found now where that is quick."""
    if len(estimator.classes_) < 2 or not at_hand:
        return None
    if hasattr(estimator, "summary") and (summary := estimator.summary()).judged:
        return {"accuracy": summary.accuracy, "log_loss": summary.loss, "how": summary.how}
    if X is None or len(y) > JUDGED:
        return None
    left = estimator.leave_one_out(X, y)
    figures = {"accuracy": left.accuracy, "log_loss": left.log_loss} if left.judged else {}
    return {**figures, "how": left.how, **({"note": left.note} if left.note else {})}


def finish(estimator: Any, judged: Any, unlabelled: int, path: str, json: bool) -> None:
    """Write the model, and say what was learned."""
    estimator.save(path)
    facts, target = described(estimator, path, judged), estimator.origin_["target"]
    if len(estimator.classes_) < 2:
        note("note", f"column {target!r} holds one class only: until others are learned, it is the answer to every row")
    if unlabelled:
        note("note", f"{several(unlabelled, 'row')} without a label in column {target!r} were left out")
    if json:
        show_json(facts)
    else:
        tell(facts)


def described(estimator: Any, path: str, judged: Any) -> dict[str, Any]:
    """What was learned, in facts."""
    counts = {
        str(plain(label)): counted(n) for label, n in zip(estimator.classes_, estimator.class_count_, strict=True)
    }
    facts = {
        "model": type(estimator).__name__,
        "file": path,
        "bytes": os.path.getsize(path),
        "rows": counted(sum(counts.values())),
        "classes": counts,
        "target": estimator.origin_["target"],
        "text": estimator.origin_["text"],
    }
    if judged is not None:
        facts["leave_one_out"] = judged
    return facts


def tell(facts: dict[str, Any]) -> None:
    most = sorted(facts["classes"].items(), key=lambda item: -item[1])
    shares = ", ".join(f"{label} {n:,.10g}" for label, n in most[:8])
    more = f" and {len(most) - 8} more" if len(most) > 8 else ""
    say(f"Learned {several(facts['rows'], 'row')} of {several(len(most), 'class')}: {shares}{more}.")
    if "leave_one_out" in facts:
        figures = facts["leave_one_out"]
        if "log_loss" in figures:
            way = figures["how"].capitalize()
            say(f"{way}: accuracy {figures['accuracy']:.1%}, log loss {figures['log_loss']:.4g} nats.")
        if "note" in figures:
            say(figures["note"])
    say(f"Wrote {facts['file']} ({facts['model']}, {bytes_in_words(facts['bytes'])}).")
