"""Accuracy and calibration of the model: in words first, then in numbers and pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from deciban.bayes import DECIBANS
from deciban.corollaries.conformal import judged_sets
from deciban.report.chosen import summary_of
from deciban.report.markup import (
    Markup,
    NoSection,
    columns,
    count,
    data,
    figure,
    heading,
    joined,
    listed,
    number,
    paragraph,
    percent,
    pluralize,
    table,
    tag,
)
from deciban.report.rows import Material
from deciban.report.svg import Plane, thinned
from deciban.results.evaluation import Evaluation, Judged
from deciban.results.ways import CROSS_FITTED, EXACT, HELD
from deciban.show import plain

MAX_CLASSES_IN_MATRIX = 100  # more make the page too large; the most confused are listed
MAX_CLASSES_WITH_SHARES = 12  # in the matrix: with more, cells have only counts, and it scrolls
MAX_PAIRS_SHOWN = 6  # of most confused classes
MAX_CLASSES_WITHOUT_SCROLLING = 20  # in the table of precision and recall
SMALL_CALIBRATION_ERROR = 0.03  # below this, an error is called small
SET_COVERAGE = 0.9  # of the prediction sets
# How rows that the model has learned were evaluated.
JUDGED_HOW = {
    EXACT: "Every row is predicted by the model without it (leave-one-out). ",
    CROSS_FITTED: "Every row is predicted by the model without it, and choices are made without it, too (cross-fitted "
    "leave-one-out). ",
    HELD: "Every row is predicted by the model without it, but it took part in the choices (leave-one-out, choices "
    "held): new rows may do a little worse. ",
}
MAX_EXCESS_LOSS = 0.02  # relative to the class shares: up to here, probabilities are as good as those
MIN_TIMES_CHANCE = 1.5  # a calibration error below this multiple of its expectation by chance counts as none


def verdict(material: Material) -> Markup:
    """The accuracy in two sentences."""
    judged, summary = material.judged, summary_of(material.model)
    if judged is not None and judged.evaluated_rows:
        how = "each predicted by the model without it" if material.learned else "assumed to be new to it"
        majority = int(np.argmax(judged.shares))
        return joined(
            [
                f"Accuracy {percent(judged.accuracy)} on {pluralize(judged.evaluated_rows, 'row')}, {how}. Always "
                "predicting ",
                data(plain(judged.classes[majority]), 40),
                f" would be correct for {percent(judged.shares[majority])}.",
            ]
        )
    if summary is not None and math.isfinite(summary.accuracy):
        return joined(
            [f"Accuracy {percent(summary.accuracy)} on the rows of the fit, each predicted by the model without it."]
        )
    return joined(["A model of ", listed([plain(c) for c in material.classes]), "."])


def figures(material: Material) -> Markup | None:
    """The main measures."""
    judged, summary = material.judged, summary_of(material.model)
    entries: list[tuple[str, Any, str]] = []
    if judged is not None and judged.evaluated_rows:
        entries = [
            ("accuracy", percent(judged.accuracy), f"± {percent(standard_error(judged))}"),
            *log_loss_figure(judged),
            ("probabilities are off by", percent(judged.calibration_error), "on average"),
        ]
        if judged.auc is not None and math.isfinite(judged.auc):
            entries.append(("AUC", number(judged.auc, 3), "0.5 is chance, 1 is perfect"))
    elif summary is not None and math.isfinite(summary.loss):
        entries = [
            ("accuracy", percent(summary.accuracy), f"by {summary.how}, when it was fitted"),
            ("log loss", number(summary.loss, 3), f"{number(summary.baseline, 3)} by class shares alone"),
        ]
    if not entries:
        return None
    cells = [
        tag("div", tag("dt", name), tag("dd", tag("b", value), tag("span", note))) for name, value, note in entries
    ]
    return tag("dl", *cells, class_="figures")


def log_loss_figure(judged: Judged) -> list[tuple[str, Any, str]]:
    """The log loss; that of the other rows, if some row's class was given no probability."""
    if not judged.impossible:
        return [("log loss", number(judged.log_loss, 3), f"{number(judged.baseline, 3)} by class shares alone")]
    if not math.isfinite(judged.possible_log_loss):
        return []
    without = f"without {pluralize(judged.impossible, 'row')} of no probability"
    return [("log loss", number(judged.possible_log_loss, 3), without)]


def standard_error(judged: Judged) -> float:
    """The standard error of the accuracy."""
    n = max(1, judged.evaluated_rows)
    return math.sqrt(judged.accuracy * (1.0 - judged.accuracy) / n)


def goodness_section(material: Material) -> list[Markup]:
    """Accuracy in words, measures, and each class."""
    judged = material.judged
    if judged is None or not judged.evaluated_rows:
        return summary_paragraphs(material)
    out = [paragraph(*accuracy_sentences(judged, material.learned)), paragraph(*calibration_sentences(judged))]
    if isinstance(judged, Evaluation) and judged.unknown:
        out.append(
            paragraph(
                f"{pluralize(judged.unknown_rows, 'row')} of classes that the model does not know (",
                listed(judged.unknown),
                ") count as mistakes; measures without them are in brackets.",
                class_="note",
            )
        )
    out.append(measure_table(judged, material.model))
    k = len(judged.classes)
    scrolls = [paragraph(f"All {count(k)} classes; the table scrolls.", class_="note")]
    return [*out, heading("Class by class"), *scrolls * (k > MAX_CLASSES_WITHOUT_SCROLLING), class_table(judged)]


def summary_paragraphs(material: Material) -> list[Markup]:
    """The figures that the model stored when it was fitted."""
    summary = summary_of(material.model)
    why = material.why_not_judged or "No rows were given to evaluate it on."
    if summary is None or not math.isfinite(summary.loss):
        return [paragraph(why, class_="note")]
    gain = (summary.baseline - summary.loss) * DECIBANS if summary.baseline is not None else math.nan
    return [
        paragraph(
            f"When it was fitted, each row was predicted by the model without it ({summary.how}). The prediction "
            f"was correct for {percent(summary.accuracy)} of them, at a log loss of {number(summary.loss)} nats"
            + (f"; the class shares alone have {number(summary.baseline)}. " if summary.baseline else ". ")
            + (
                f"So a row carries {number(gain, 3)} dB of evidence about its class on average."
                if math.isfinite(gain)
                else ""
            )
        ),
        paragraph(f"{why} Confusions, calibration and curves need rows with labels.", class_="note"),
    ]


def accuracy_sentences(judged: Judged, learned: bool) -> list[Any]:
    """Accuracy and log loss in plain words."""
    mistakes = int(np.count_nonzero(~judged.right & judged.counted))
    sentences: list[Any] = [
        JUDGED_HOW.get(judged.how, "") if learned else "The rows are assumed to be new to the model. ",
        f"It is wrong on {count(mistakes)} of {pluralize(judged.evaluated_rows, 'row')}, "
        f"one in {judged.evaluated_rows / mistakes:,.0f}. "
        if mistakes
        else "It is wrong on none of them. ",
    ]
    loss = judged.log_loss if math.isfinite(judged.log_loss) else judged.possible_log_loss
    gain = (judged.baseline - loss) * DECIBANS
    if math.isfinite(gain):
        worse = loss > judged.baseline * (1.0 + MAX_EXCESS_LOSS)
        sentences.append(
            f"A row carries {number(gain, 3)} dB of evidence about its class, on average."
            if loss < judged.baseline * (1.0 - 1e-9)
            else "Its probabilities are worse than the class shares alone: do not use them as they are."
            if worse
            else "Its probabilities are the class shares: no column predicts the class."
        )
    return sentences


def calibration_sentences(judged: Judged) -> list[Any]:
    """Whether probabilities are calibrated, in words."""
    confidence, accuracy, rows, error = judged.reliability()
    if not len(confidence):
        return []
    calibration_error, total = judged.calibration_error, rows.sum()
    expected_error = float(np.sum(rows * error) / total) * math.sqrt(2.0 / math.pi)  # the mean of |a normal deviate|
    overconfidence = float(np.sum(rows * (confidence - accuracy)) / total)
    if calibration_error <= MIN_TIMES_CHANCE * expected_error:
        return [f"Its probabilities are well calibrated, as far as {pluralize(judged.evaluated_rows, 'row')} can show."]
    degree = "a little " if calibration_error < SMALL_CALIBRATION_ERROR else ""
    tendency = (
        f"{degree}overconfident"
        if overconfidence > calibration_error / 2
        else f"{degree}underconfident"
        if overconfidence < -calibration_error / 2
        else ""
    )
    return [
        f"Its probabilities are off by {percent(calibration_error)} on average",
        f": it is {tendency}." if tendency else ", sometimes too high and sometimes too low.",
    ]


def measure_table(judged: Judged, model: Any) -> Markup:
    """Every measure, with its meaning."""
    known = judged.known() if isinstance(judged, Evaluation) and judged.unknown else None
    top = int(np.argmax(judged.shares))

    def with_known(measure: str, share: bool = False) -> str:
        """A measure, and in brackets that of the rows whose label the model knows."""
        write = percent if share else number
        own = write(getattr(judged, measure))
        return f"{own} ({write(getattr(known, measure))})" if known is not None else own

    lines: list[tuple[Any, ...]] = [
        (
            "Accuracy",
            with_known("accuracy", True),
            joined(
                [
                    "the share of rows that are predicted correctly; always ",
                    data(plain(judged.classes[top]), 30),
                    f" has {percent(judged.shares[top])}",
                ]
            ),
        ),
        *log_loss_lines(judged),
        ("Brier score", with_known("brier"), "the squared error of the probabilities; lower is better, 0 is best"),
        (
            "Calibration error",
            with_known("calibration_error", True),
            "mean distance between the probability of the prediction and the share that is correct, over ten groups",
        ),
    ]
    of_two = known if known is not None and known.auc is not None else judged
    if of_two.auc is not None and math.isfinite(of_two.auc):
        first, second = (data(plain(name), 30) for name in of_two.classes)
        explanation = joined(
            ["how often a row of ", second, " has a higher probability of ", second, " than a row of ", first]
        )
        lines.append(("AUC", number(of_two.auc), explanation))
    sets = judged_sets(judged, getattr(model, "calibration_", None), SET_COVERAGE, by_class=False)
    if sets is not None:
        size = (
            f"classes in a prediction set of {percent(SET_COVERAGE, 0)} coverage; the true class is among them in "
            f"{percent(sets.coverage)} of rows, and {percent(sets.single)} of the sets name a single class"
        )
        lines.append(("Mean set size", number(sets.mean_size, 3), size))
    return table(("measure", "value", "what it is"), lines, "Measures", "measures")


def log_loss_lines(judged: Judged) -> list[tuple[Any, ...]]:
    """The log loss, or why there is none, and that of the other rows."""
    meaning = (
        f"−log of the probability of the true class, in nats; the class shares alone have {number(judged.baseline)}, "
        "lower is better"
    )
    if not judged.impossible:
        return [("Log loss", number(judged.log_loss), meaning)]
    lines = [("Log loss", "none", f"for {pluralize(judged.impossible, 'row')} the true class was given no probability")]
    if math.isfinite(judged.possible_log_loss):
        lines.append(("… of the others", number(judged.possible_log_loss), meaning))
    return lines


def class_table(judged: Judged) -> Markup:
    """How many rows each class has, precision and recall, the largest classes first; many classes scroll."""
    rows = sorted(judged.per_class.rows, key=lambda row: -row[1])
    total = sum(n for _, n, *_ in rows) or 1.0
    lines = [
        (data(name, 60), count(n), percent(n / total), percent(precision), percent(recall), number(f1, 3))
        for name, n, precision, recall, f1 in rows
    ]
    head = ("class", "rows", "share", "precision", "recall", "F1")
    return table(head, lines, "Class by class", tall=len(rows) > MAX_CLASSES_WITHOUT_SCROLLING)


# ------------------------------------------------------------------ confusions


def confusion_section(material: Material) -> list[Markup]:
    """The confusion matrix."""
    judged = material.judged
    if judged is None or not judged.evaluated_rows:
        return [NoSection("there are no rows with labels")]
    k = len(judged.classes)
    out = []
    if k <= MAX_CLASSES_IN_MATRIX:
        out += [
            paragraph("Each line is a true class, each column a predicted one. Mistakes are off the diagonal."),
            confusion_table(judged),
        ]
    pairs = judged.most_confused().rows[:MAX_PAIRS_SHOWN]
    if k > 2 and pairs:
        lines = [(data(a, 40), data(b, 40), count(n), percent(share)) for a, b, n, share in pairs]
        out += [
            heading("Most confused"),
            table(("class", "predicted as", "rows", "of the class"), lines, "Most confused"),
        ]
    elif not pairs:
        out.append(paragraph("Every row was predicted correctly."))
    return out


def confusion_table(judged: Judged) -> Markup:
    """The confusion matrix as numbers in shaded cells; of many classes, counts in small ones that scroll."""
    confusion = judged.confusion
    total, small = confusion.sum(axis=1), len(confusion) > MAX_CLASSES_WITH_SHARES
    names = [data(plain(name), 12 if small else 24) for name in judged.classes]
    head = tag(
        "tr",
        tag("th", tag("span", "prediction →"), tag("span", "truth ↓")),
        *(tag("th", name, scope="col") for name in names),
    )
    body = []
    for i, name in enumerate(names):
        cells = []
        for j, n in enumerate(confusion[i].tolist()):
            share = n / total[i] if total[i] else 0.0
            what = "right" if i == j else "wrong"
            shade = f"--shade:{100 * (share if i == j else math.sqrt(share)):.0f}%" if n else None  # few, but visible
            shown_share = None if small else tag("span", percent(share, 0))
            content = (tag("b", count(n)), shown_share) if n else (tag("b", "" if small else "·"),)
            cells.append(tag("td", *content, class_=what, style=shade))
        body.append(tag("tr", tag("th", name, scope="row"), *cells))
    inner = tag(
        "table",
        tag("caption", "Confusions"),
        tag("thead", head),
        tag("tbody", *body),
        class_="confusion small" if small else "confusion",
    )
    return tag(
        "div", inner, class_="scroll tall" if small else "scroll", tabindex="0", role="region", aria_label="Confusions"
    )


# ------------------------------------------------------------------ curves


def calibration_section(material: Material) -> list[Markup]:
    """Calibration; and for two classes, the ROC curve."""
    judged = material.judged
    if judged is None or not judged.evaluated_rows:
        return [NoSection("there are no rows with labels")]
    of_two = judged.known() if isinstance(judged, Evaluation) and judged.unknown else judged
    return [columns(reliability_figure(judged), *roc_figure(of_two), class_="pair")]


def reliability_figure(judged: Judged) -> Markup:
    confidence, accuracy, rows, error = judged.reliability()
    low = min(float(min(confidence.min(), (accuracy - error).min())), 0.9)
    low = max(0.0, math.floor(low * 10.0) / 10.0)
    plane = Plane((low, 1.0), (low, 1.0), "probability of the prediction", "share that is correct")
    plane.line(np.array([low, 1.0]), np.array([low, 1.0]), "guide")
    plane.error_bars(confidence, np.maximum(low, accuracy - 2 * error), np.minimum(1.0, accuracy + 2 * error), "error")
    plane.line(confidence, np.maximum(low, accuracy), "s0")
    plane.dots(confidence, np.maximum(low, accuracy), "c0")
    description = "; ".join(
        f"predicted {percent(s)}, correct {percent(f)}" for s, f in zip(confidence, accuracy, strict=True)
    )
    drawing = plane.to_svg("Reliability", description, share=True)
    group_size = pluralize(float(rows[0]), "row") if len(rows) else "rows"
    return figure(
        drawing,
        "On the dashed line probabilities are calibrated; below it, they are too high. Each point is about "
        f"{group_size}; bars are two standard errors.",
    )


def roc_figure(judged: Judged) -> list[Markup]:
    """The ROC curve of two classes."""
    if judged.auc is None or not math.isfinite(judged.auc):
        return []
    first, second = (data(plain(name), 30) for name in judged.classes)
    false, true = thinned(*judged.roc()[:2])
    plane = Plane((0.0, 1.0), (0.0, 1.0), "false positive rate", "true positive rate")
    plane.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "guide")
    plane.line(false, true, "s0")
    roc = figure(
        plane.to_svg("ROC curve", f"Area under the curve {number(judged.auc)}", share=True),
        tag("b", f"ROC, area {number(judged.auc, 3)}. "),
        "The share of ",
        second,
        " predicted as such, against the share of ",
        first,
        " predicted as it. The dashed line is chance.",
    )
    return [roc]
