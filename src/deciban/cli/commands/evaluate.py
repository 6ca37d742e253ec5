"""`deciban evaluate`: measure a model on labelled rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from deciban.cli import options
from deciban.cli.engines import FileOptions
from deciban.cli.models import kind_of, learned_before, open_model, origin_of, rows_for
from deciban.cli.rows import ModelRows
from deciban.cli.terminal import note, pluralize, show, show_json
from deciban.errors import DecibanError
from deciban.show import bar

if TYPE_CHECKING:
    from deciban._typing import Array, Floats
    from deciban.results.mail import MailAnswers


def evaluate(
    model: options.Model,
    data: options.Data,
    target: options.Target = None,
    leave_one_out: options.LeaveOneOut = None,
    coverage: Annotated[
        float, typer.Option(metavar="SHARE", help="Coverage of the prediction sets to evaluate.")
    ] = 0.9,
    by_class: options.ByClass = False,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    header: options.Header = None,
    sheet: options.Sheet = None,
    json: options.Json = False,
) -> None:
    """Measure a model on rows whose classes are known.

    Files that the model was trained on are evaluated by leave-one-out: each row is predicted by the model without it,
    exactly. So the figures are honest on training data, too. Other rows are assumed to be new to the model; if it has
    learned them in another way (in Python, or as part of another file), give --leave-one-out.

    \b
    Examples:
      deciban evaluate churn.deciban held_out.csv
      deciban evaluate churn.deciban customers.csv --json
      deciban evaluate filter.deciban spam=NewJunk.mbox ham=Inbox.mbox
    """
    loaded = open_model(model)
    rows = rows_for(loaded, data, FileOptions(format, delimiter, encoding, missing, header, sheet), target)
    from deciban.corollaries.conformal import check_coverage, judged_sets
    from deciban.results.evaluation import Details

    check_coverage(coverage)
    judged = judge(loaded, model, rows, leave_one_out)
    unlabelled = rows.engine.rows_read - len(judged.proba)
    sets = judged_sets(judged, getattr(loaded, "calibration_", None), coverage, by_class)
    if unlabelled:
        note("note", f"skipped {pluralize(unlabelled, 'row')} without a label")
    answers = mail_answers(loaded, judged) if kind_of(loaded) == "SpamFilter" else None
    if json:
        figures = {**judged.to_dict(), "prediction_sets": None if sets is None else sets.to_dict()}
        show_json(figures if answers is None else {"answers": answers.to_dict(), **figures})
        return
    parts = list(judged.details().parts)
    if answers is not None:
        below = "Below, each mail counts as the more probable of ham and spam, whatever mistakes cost."
        parts = [answers.to_table(), below, *parts]
    show(Details((*parts, *([] if sets is None else [sets.in_words()]))))


def mail_answers(loaded: Any, judged: Any) -> MailAnswers:
    """The filter's answers to these mails: the answer of least expected cost, as in `predict`."""
    from deciban.results.mail import MailAnswers

    # A label that the filter does not know is a class after ham and spam, of probability 0.
    proba = judged.proba[judged.counted, : len(loaded.classes_)]
    return MailAnswers.of(judged.classes[judged.truth[judged.counted]], loaded.answers(proba))


def judge(loaded: Any, path: str, rows: ModelRows, leave_one_out: bool | None) -> Any:
    """Evaluate the model on labelled rows, by leave-one-out if it has learned them."""
    if leave_one_out is None:
        leave_one_out = learned_before(loaded, rows)
        if not leave_one_out and not (origin_of(loaded).get("learned") or origin_of(loaded).get("partly")):
            note(
                "note",
                "the model does not record which files it has learned, so these rows are assumed to be new; "
                "if it has learned them, give --leave-one-out",
            )
    with bar("evaluating", rows.engine.size) as watch:
        if leave_one_out:
            from deciban.corollaries.leave_one_out import merged
            from deciban.estimators.load import load

            parts = list(rows.each(load(path).leave_one_out, watch))
        else:
            parts = list(rows.each(JudgedBatch(loaded), watch))
    if not parts:
        raise DecibanError("{rows} has no rows with a label: give data whose classes are known", rows=rows.name)
    if leave_one_out:
        return merged(parts)
    from deciban.results.evaluation import evaluate

    log_proba, labels = zip(*parts, strict=True)
    return evaluate(LogProba(loaded.classes_, np.vstack(log_proba)), None, np.concatenate(labels))


class JudgedBatch:
    """Log-probabilities and true labels of a batch."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, X: Any, y: Any) -> tuple[Floats, Array]:
        from deciban.reading.labels import label_array

        return self.model.predict_log_proba(X), label_array(y)


class LogProba:
    """Log-probabilities computed before, wrapped as a model for `evaluate`."""

    def __init__(self, classes: Array, log_proba: Floats) -> None:
        self.classes_, self.log_proba = classes, log_proba

    def predict_log_proba(self, X: Any) -> Floats:
        del X
        return self.log_proba
