"""`deciban evaluate`, `compare` and `report`: how good a model is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from deciban.cli import options
from deciban.cli.data import LABEL, TEXT, Reading, Rows, check_classes
from deciban.cli.models import kind_of, learned_before, open_model, origin_of, rows_for
from deciban.cli.terminal import note, say, several, show, show_json
from deciban.cli.training import guess, output_path, the_text_column, used_kinds
from deciban.errors import DecibanError
from deciban.show import bar

if TYPE_CHECKING:
    from deciban._typing import Array, Floats
    from deciban.corollaries.leave_one_out import LeaveOneOut as LeftOut

IN_REPORT = 20_000  # rows of data that a report looks at
COMPARED = 20_000  # rows that learning curves are drawn on

LeaveOneOut = Annotated[
    bool | None,
    typer.Option(
        "--leave-one-out/--as-new",
        help="Whether the model has learned these very rows, so that each is judged without itself; known by itself "
        "where DATA are the files that it was trained on.",
    ),
]


def evaluate(
    model: options.Model,
    data: options.Data,
    target: options.Target = None,
    leave_one_out: LeaveOneOut = None,
    coverage: Annotated[float, typer.Option(help="The coverage of the prediction sets that are judged too.")] = 0.9,
    by_class: Annotated[bool, typer.Option("--by-class", help="Whether each class is to have that coverage.")] = False,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Say how good a model is on rows whose classes are known.

    Files that the model was trained on are judged by leave-one-out: each row by the model without it, exactly. So the
    figures are honest on training data too. Other rows are taken to be new to the model; if it has learned them by
    another way (in Python, or as a part of another file), say --leave-one-out.

    \b
    Examples:
      deciban evaluate churn.deciban held_out.csv
      deciban evaluate churn.deciban customers.csv --json
      deciban evaluate filter.deciban spam=Junk.mbox ham=Inbox.mbox
    """
    found = open_model(model)
    rows = rows_for(found, data, Reading(format, delimiter, encoding, missing), target)
    from deciban.corollaries.conformal import check_coverage, judged_sets
    from deciban.results.evaluation import Details

    check_coverage(coverage)
    judged = judge(found, model, rows, leave_one_out)
    sets = judged_sets(judged, getattr(found, "calibration_", None), coverage, by_class)
    if rows.unlabelled:
        note("note", f"{several(rows.unlabelled, 'row')} without a label were left out")
    unsure = None
    if kind_of(found) == "SpamFilter":
        unsure = float(np.mean(found.answers(judged.proba[judged.counted]) == "unsure"))
    if json:
        facts = {**judged.to_dict(), "prediction_sets": None if sets is None else sets.to_dict()}
        show_json(facts if unsure is None else {**facts, "unsure": unsure})
        return
    words = [] if sets is None else [sets.in_words()]
    if unsure is not None:
        words.append(
            f"The filter is unsure of {unsure:.1%} of these mails; above, each counts as the likelier of ham and spam."
        )
    show(Details((*judged.details().parts, *words)))


def judge(found: Any, path: str, rows: Rows, leave_one_out: bool | None) -> Any:
    """What the model says of rows whose class is known, each without itself where it has learned them."""
    from deciban.results import evaluation as judged

    parts: list[Floats] = []
    labels: list[Array] = []
    left: list[LeftOut] = []
    if leave_one_out is None:
        leave_one_out = learned_before(found, rows)
        if not leave_one_out and not origin_of(found).get("learned"):
            note(
                "note",
                "the model does not say which files it has learned, so these rows are taken to be new; "
                "if it has learned them, say --leave-one-out",
            )
    estimator = None
    if leave_one_out:
        from deciban.estimators.load import load

        estimator = load(path)
    with bar("judging", rows.source.size) as watch, rows.numbered():
        for X, y in rows.batches(watch):
            if estimator is None:
                parts.append(found.predict_log_proba(X))
            else:
                left.append(estimator.leave_one_out(X, y))
            labels.append(y)
    if not labels:
        raise DecibanError(f"{rows.source.name} has no rows with a label: there is nothing to judge by")
    y = np.concatenate(labels)
    if estimator is None:
        return judged.evaluate(Said(found.classes_, np.vstack(parts)), None, y)
    from deciban.corollaries.leave_one_out import together

    return together(left)


class Said:
    """What was said already, as a model that says it."""

    def __init__(self, classes: Array, log_proba: Floats) -> None:
        self.classes_, self.log_proba = classes, log_proba

    def predict_log_proba(self, X: Any) -> Floats:
        del X
        return self.log_proba


def compare(
    data: options.Data,
    target: options.Target = None,
    repeats: Annotated[int, typer.Option(help="How often rows are drawn anew.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Where drawing begins.")] = 0,
    plot: Annotated[str | None, typer.Option(help="A picture of the curves (.png, .svg, .pdf).")] = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Compare with logistic regression: who needs how many rows.

    A generative model learns what rows of each class look like, logistic regression only where the classes part. With
    few rows the first usually leads; with many, whichever suits the data better. Held-out log loss and accuracy are
    shown for growing numbers of rows.

    \b
    Examples:
      deciban compare customers.csv --target churned
      deciban compare messages.csv --target label --repeats 20 --plot curves.png
    """
    from deciban.estimators.compare import compare_tables, compare_texts

    source = Reading(format, delimiter, encoding, missing).open(data)
    target = target or (LABEL if source.kind != "table" else None)
    if target is None:
        raise DecibanError(
            f"name the column that holds the classes, with --target: {source.name} has {', '.join(source.columns)}"
        )
    rows = Rows(source, target, TEXT if source.kind != "table" else None)
    X, y, all_here = rows.sample(COMPARED)
    check_classes(y, target)
    if not all_here:
        note("note", f"compared on {several(len(y), 'row')} from all over {source.name}")
    if rows.text is None and guess(source.kind, X, y, None) == "text":
        column = the_text_column(X, None)
        rows = Rows(source, target, column)
        X, y, _ = rows.sample(COMPARED)
    if rows.text is not None:
        found = compare_texts(X.to_pylist(), y, repeats=repeats, random_state=seed)
    else:
        found = compare_tables(X, y, used_kinds(X, None), repeats=repeats, random_state=seed)
    if plot is not None:
        save_picture(found, plot)
    if json:
        show_json(found.to_dict())
    else:
        show(found.details())


def save_picture(result: Any, path: str) -> None:
    """A result's plot in a file."""
    from deciban.show import optional

    optional("matplotlib", "--plot").use("Agg")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise DecibanError(f"there is no folder for {path!r}")
    result.plot().figure.savefig(path)
    note("note", f"wrote {path}")


def report(
    model: options.Model,
    data: options.MaybeData = None,
    output: Annotated[str, typer.Option("--output", "-o", help="The page.")] = "report.html",
    target: options.Target = None,
    leave_one_out: LeaveOneOut = None,
    curve: Annotated[bool, typer.Option(help="Whether to draw a learning curve, which takes longest.")] = True,
    title: Annotated[str | None, typer.Option(help="The heading.")] = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Write a page that shows what was learned, how good it is, and why rows are judged as they are.

    One HTML file that needs no network. Without DATA it shows what the model knows of itself; with labelled rows also
    accuracy, calibration, confusions, the strangest rows and a learning curve.

    \b
    Examples:
      deciban report churn.deciban customers.csv -o report.html
      deciban report spam.deciban
    """
    from deciban.estimators.load import load
    from deciban.report import page
    from deciban.storage.files import write_atomically

    output = output_path(output, [model, *(data or [])])
    estimator = load(model)
    origin = origin_of(estimator)
    about = {**origin, "file": os.path.basename(model)}
    X = y = None
    learned = False
    if data:
        rows = rows_for(estimator, data, Reading(format, delimiter, encoding, missing), target)
        learned = learned_before(estimator, rows) if leave_one_out is None else leave_one_out
        X, y, all_here = rows.sample(IN_REPORT)
        if not all_here:
            note("note", f"the report looks at {several(len(y), 'row')} from all over {rows.source.name}")
        X = X.to_pylist() if rows.text is not None else X
        about["data"] = rows.source.name
    from pathlib import Path

    written = page(
        estimator,
        X,
        y,
        title=title or f"{Path(model).stem}: a {kind_of(estimator)}",
        learned=learned,
        origin=about,
        curve=curve,
    )
    write_atomically(Path(output), written.encode())
    if json:
        show_json({"file": output, "bytes": os.path.getsize(output), "rows": 0 if y is None else len(y)})
    else:
        say(f"Wrote {output}: open it in a browser.")
