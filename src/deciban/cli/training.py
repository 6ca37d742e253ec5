"""`deciban train`: from files to a model."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.data import LABEL, TEXT, Reading, Rows, check_classes, check_not_among
from deciban.cli.elsewhere import Where
from deciban.cli.models import digests_of
from deciban.cli.terminal import bytes_in_words, counted, note, say, several, show_json
from deciban.errors import DecibanError, ForgetError
from deciban.show import bar, plain

if TYPE_CHECKING:
    from deciban._typing import Array

MODELS = ("auto", "classifier", "naive-bayes", "tree", "text", "spam")
IN_MEMORY = 200_000  # rows that are learned at once; more are learned in batches, with choices made on a sample
GUESSED = 2000  # rows by which a model is chosen, where rows are elsewhere
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

    The columns are found out by themselves: numbers, categories, texts, dates, with values missing anywhere. Data
    larger than memory are learned in batches. Folders with a subfolder for each class, and mail or texts given as
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
    where = Where(engine, table, query, checkpoint)
    if where.asked(data):
        if like is not None:
            raise DecibanError("--like is for rows that are read here: leave out --engine and the like")
        path = output_path(output, data if all("://" not in one for one in data) else ["model"])
        reading = {"format": format, "delimiter": delimiter, "encoding": encoding, "missing": missing or None}
        finish(*learn_elsewhere(where, data, target, model, text, schema, jobs, reading), path, 0, json)
        return
    source = Reading(format, delimiter, encoding, missing).open(data)
    if source.kind != "table":
        target, text = target or LABEL, text or TEXT
    path = output_path(output, data)
    if target is None:
        raise DecibanError(
            f"name the column that holds the classes, with --target: {source.name} has {', '.join(source.columns)}"
        )
    rows = Rows(source, target, text if source.kind != "table" or model in ("text", "spam") else None)
    X, y, all_here = rows.sample(IN_MEMORY)
    check_classes(y, target)
    if like is not None:
        from deciban.estimators.load import load

        estimator = load(like)
        if not hasattr(estimator, "empty"):
            raise DecibanError(f"{like!r} holds a {type(estimator).__name__}, which needs no --like: merge it as it is")
        estimator, how = estimator.empty(), "like"
    else:
        named = text is not None and source.kind == "table"
        how = model if model != "auto" else "text" if named else guess(source.kind, X, y, schema)
        if how in ("text", "spam") and rows.text is None:
            rows = Rows(source, target, text or the_text_column(X, schema))
            X, y, all_here = rows.sample(IN_MEMORY)
        estimator = make(how, read_schema(schema, source.columns), jobs)
    estimator, judged = learn_all(estimator, rows, X, y, all_here, how)
    estimator.origin_ = {
        "target": target,
        "text": rows.text,
        "kind": source.kind,
        "names": [called(source.name)],
        "learned": digests_of(rows),
    }
    finish(estimator, judged, path, rows.unlabelled, json)


def learn_elsewhere(
    where: Where,
    data: list[str],
    target: str | None,
    model: str,
    text: str | None,
    schema: list[str] | None,
    jobs: int | None,
    reading: dict[str, Any],
) -> tuple[Any, Any]:
    """The estimator that has learned rows where they are, and how good it is where it found that out."""
    from deciban.estimators import anywhere

    engine = where.open(data, jobs, **reading)
    columns = tuple(engine.schema.names)
    if target is None:
        raise DecibanError(
            f"name the column that holds the classes, with --target: {engine.rows_named} has {', '.join(columns)}"
        )
    wanted = model
    if model == "auto":
        if target not in columns:
            from deciban.reading.frames import unknown_column

            raise DecibanError(f"{engine.rows_named}: {unknown_column(target, columns)}")
        some = engine.sample(GUESSED)
        there = some.drop_columns([target])
        wanted = "text" if text is not None else guess("table", there, some[target], schema)
    estimator = make(wanted, read_schema(schema, columns), jobs)
    anywhere.fit(estimator, engine, target, None, text if wanted in ("text", "spam") else None, labelled=True)
    estimator.origin_ = {
        "target": target,
        "text": getattr(estimator, "text_", None),
        "kind": "table",
        "names": [called(engine.rows_named)],
        "learned": [],
    }
    return estimator, judge(estimator, None, estimator.classes_) if wanted == "classifier" else None


def finish(estimator: Any, judged: Any, path: str, unlabelled: int, json: bool) -> None:
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


def called(name: str) -> str:
    """What a source is called in a model file: without the folders, which are nobody's business there."""
    return os.path.basename(name.rstrip("/")) or name


def output_path(output: str | None, data: list[str]) -> str:
    """Where the model goes. A name that was not asked for overwrites nothing, and no name the data."""
    if output is not None:
        check_not_among(output, data)
        if os.path.isdir(output):
            raise DecibanError(
                f"{output!r} is a folder: give the model file a name, as in {os.path.join(output, 'model.deciban')}"
            )
        parent = os.path.dirname(output) or "."
        if not os.path.isdir(parent):
            raise DecibanError(f"there is no folder {parent!r} to write {os.path.basename(output)!r} into")
        return output
    named = [Path(path.partition("=")[2] or path) for path in data]
    stem = named[0].name.partition(".")[0] if len(data) == 1 and data != ["-"] and "*" not in data[0] else "model"
    path = f"{stem or 'model'}.deciban"
    if os.path.exists(path):
        raise DecibanError(f"{path!r} is there already: name the model file with -o (-o {path} overwrites it)")
    return path


def read_schema(said: list[str] | None, columns: tuple[str, ...]) -> dict[str, str]:
    """COLUMN=KIND as a mapping."""
    schema = {}
    for item in said or []:
        column, equals, kind = item.rpartition("=")
        if not equals or column not in columns:
            known = (
                f"the columns are {', '.join(columns)}" if equals else "write COLUMN=KIND, as in --schema age=number"
            )
            raise DecibanError(f"--schema {item!r}: {known}")
        schema[column] = kind
    return schema


def guess(kind: str, X: Any, y: Array, schema: list[str] | None) -> str:
    """The model that suits the data."""
    if kind == "mail" and set(y.tolist()) <= {"ham", "spam"}:
        return "spam"
    if kind != "table":
        return "text"
    used = used_kinds(X, schema)
    return "text" if used and set(used.values()) == {"text"} and len(used) == 1 else "classifier"


def used_kinds(X: Any, schema: list[str] | None) -> dict[str, str]:
    """What the columns are that a model of the table would look at."""
    from deciban.reading.frames import read_frame
    from deciban.reading.table import Reader

    reader = Reader.of(read_frame(X), read_schema(schema, tuple(X.column_names)))
    return {kind.name: kind.kind for kind in reader.used}


def the_text_column(X: Any, schema: list[str] | None) -> str:
    found = [name for name, kind in used_kinds(X, schema).items() if kind == "text"]
    if len(found) != 1:
        has = f"there are {len(found)} of them" if found else "no column holds texts"
        raise DecibanError(f"name the column of texts, with --text: {has}")
    return found[0]


def make(how: str, schema: dict[str, str], jobs: int | None) -> Any:
    """An estimator that has learned nothing."""
    if schema and how in ("text", "spam", "tree"):
        raise DecibanError("--schema is for tables: leave it out, or give --model classifier")
    if how == "classifier":
        from deciban.estimators.tables import Classifier

        return Classifier(schema=schema or None, n_jobs=jobs)
    if how == "naive-bayes":
        from deciban.estimators.naive_bayes.mixed import NaiveBayes

        laws = {"number": "gaussian", "count": "poisson", "category": "categorical", "boolean": "categorical"}
        odd = [kind for kind in schema.values() if kind not in (*laws, "skip")]
        if odd:
            raise DecibanError(f"naive-bayes takes no column of kind {odd[0]!r}: give {', '.join(laws)} or skip")
        return NaiveBayes({name: laws.get(kind, "drop") for name, kind in schema.items()}, n_jobs=jobs)
    if how == "tree":
        from deciban.estimators.naive_bayes.tree_augmented import TreeAugmentedNB

        return TreeAugmentedNB(n_jobs=jobs)
    if how == "spam":
        from deciban.estimators.spam import SpamFilter

        return SpamFilter(n_jobs=jobs)
    from deciban.estimators.text import TextClassifier

    return TextClassifier(n_jobs=jobs)


def learn_all(estimator: Any, rows: Rows, X: Any, y: Array, all_here: bool, how: str) -> tuple[Any, Any]:
    """The estimator with everything learned, and how good it is where that is at hand."""
    with bar("learning", rows.source.size) as watch, rows.numbered():
        if all_here and how != "like":
            if rows.source.size is None:  # of what is piped in, the digest is known when all was read
                for _ in rows.source.batches():
                    pass
            estimator.fit(X, y)
            return calibrated(estimator, X, y), judge(estimator, X, y)
        if how == "classifier":
            known = set(y.tolist())
            estimator.fit_batches(X, y, rows.batches(watch))
            later = [plain(label) for label in estimator.classes_ if plain(label) not in known]
            if later:
                note(
                    "note",
                    f"class {later[0]!r} was not in the sample that the choices were made on: put the rows in random "
                    "order, or give files instead of a pipe",
                )
            return calibrated(estimator, X, y), judge(estimator, None, y)
        for part, labels in rows.batches(watch):
            estimator.partial_fit(part, labels)
    if how in ("text", "spam"):
        estimator.refit_reliability()
    return calibrated(estimator, X, y), None


def calibrated(estimator: Any, X: Any, y: Array) -> Any:
    """The estimator with scores for prediction sets, by leave-one-out over some of the rows, where that can be done."""
    with contextlib.suppress(ForgetError):
        estimator.calibrate(X, y)
    return estimator


def judge(estimator: Any, X: Any, y: Array) -> Any:
    """What new rows would see: as `fit` found it, or found now where that is quick."""
    if len(estimator.classes_) < 2:
        return None
    if type(estimator).__name__ == "Classifier" and (found := estimator.summary()).judged:
        return {"accuracy": found.accuracy, "log_loss": found.loss, "how": found.how}
    if len(y) > JUDGED:
        return None
    left = estimator.leave_one_out(X, y)
    said = {"accuracy": left.accuracy, "log_loss": left.log_loss} if left.judged else {}
    return {**said, "how": left.how, **({"note": left.note} if left.note else {})}


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
        found = facts["leave_one_out"]
        if "log_loss" in found:
            way = found["how"].capitalize()
            say(f"{way}: accuracy {found['accuracy']:.1%}, log loss {found['log_loss']:.4g} nats.")
        if "note" in found:
            say(found["note"])
    say(f"Wrote {facts['file']} ({facts['model']}, {bytes_in_words(facts['bytes'])}).")
