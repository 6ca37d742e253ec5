"""The page: its sections in order, in one file that loads nothing from the network."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from deciban.errors import DecibanError, ForgetError
from deciban.report.boundary import boundary_section
from deciban.report.chosen import chosen_section, summary_of
from deciban.report.curve import curve_section
from deciban.report.data import data_section
from deciban.report.evidence import example_section, mistakes_section, strongest_section, untypical_section
from deciban.report.goodness import calibration_section, confusion_section, figures, goodness_section, verdict
from deciban.report.importance import importance_of, importance_section
from deciban.report.markup import Markup, NoSection, cut, data, joined, listed, paragraph, pluralize, tag
from deciban.report.rows import Material, read_rows, with_columns
from deciban.report.thresholds import checked_costs, checked_positive, threshold_section
from deciban.results.evaluation import ONE_CLASS, Judged, evaluate
from deciban.show import plain

GENERATOR = tag("meta", name="generator", content="deciban report")  # marks pages that may be overwritten
MAX_BYTES_BEFORE_GENERATOR = 200
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

Section = Callable[[Material], list[Markup]]

SECTIONS = {
    "goodness": "How good the model is",
    "importance": "Importance: what decides",
    "confusions": "Confusion matrix",
    "calibration": "Calibration of the probabilities",
    "thresholds": "Which threshold to use",
    "data": "The data",
    "structure": "What the model is made of",
    "evidence": "Strongest evidence for each class",
    "example": "One row, explained",
    "mistakes": "Worst mistakes",
    "untypical": "Least typical rows",
    "curve": "Learning curve: would more rows help?",
    "boundary": "Decision boundary",
    "decibans": "How to read decibans",
    "origin": "How this page was made",
}
N_STEPS = 1 + len(SECTIONS)  # rows are evaluated first


def page(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    learned: bool = False,
    origin: Mapping[str, Any] | None = None,
    curve: bool = True,
    positive: Any = None,
    costs: Any = None,
    names: Sequence[Any] | None = None,
    watch: Callable[[int], object] = lambda done: None,  # noqa: ARG005 - nobody watches
    caution: str = "",
) -> str:
    """A page of HTML about a model: what it learned, how good it is, and the evidence behind its predictions.

    It is one file: no scripts, and no fonts or pictures from the network. Values from the data are escaped. Of more
    than 20,000 rows, a random sample of that size is used, and the page states it.

    Parameters
    ----------
    model : a fitted deciban classifier
        A section that the model cannot fill, such as one on p(x), is absent; a line at the end lists them, with
        reasons.
    X : rows as the model takes them, optional
        Without rows, the page shows what the model itself stores.
    y : labels, or the name of a column of X, optional
        Rows without a label are left out. Without any labels, nothing is evaluated.
    title : str, optional
    learned : bool, default=False
        Whether the model has learned these rows, so that each is evaluated by leave-one-out.
    origin : mapping, optional
        How the page was made, such as {"data": "customers.csv", "date": "2026-07-01"}; shown as it is.
    curve : bool, default=True
        Whether to draw a learning curve, for which the model is refitted on some of the rows; takes some seconds.
    positive : label, optional
        The class that thresholds on its probability are shown for; by default the second of two. With more classes,
        it is compared with all the others.
    costs : pair of numbers, optional
        What a false positive and a false negative cost; by default the same.
    names : sequence, optional
        Names of the columns, if X has none.
    watch : function, optional
        Called with the number of parts that are done so far, of N_STEPS.
    caution : str, optional
        Shown at the top: why the figures may mislead.

    Examples
    --------
    >>> from deciban import GaussianNB
    >>> from deciban.report import page
    >>> X, y = [[1.0], [2.0], [6.0], [7.0]], ["small", "small", "large", "large"]
    >>> written = page(GaussianNB().fit(X, y), X, y, learned=True, names=["size"])
    >>> written[:15], "P(large) = " in written.replace("<bdi>", "").replace("</bdi>", "")
    ('<!doctype html>', True)
    """
    if not hasattr(model, "classes_") or not hasattr(model, "predict_log_proba"):
        raise DecibanError(f"a report needs a fitted classifier, and this is {model!r}")
    chosen = {"positive": checked_positive(positive, model.classes_), "costs": checked_costs(costs)}
    material = replace(read_material(model, X, y, learned, None if names is None else tuple(map(str, names))), **chosen)
    watch(1)
    importance = importance_of(material)
    makers: dict[str, Section] = {
        "goodness": goodness_section,
        "importance": lambda m: importance_section(importance, summary_of(m.model)),
        "confusions": confusion_section,
        "calibration": calibration_section,
        "thresholds": threshold_section,
        "data": data_section,
        "structure": chosen_section,
        "evidence": lambda m: strongest_section(m, importance),
        "example": example_section,
        "mistakes": mistakes_section,
        "untypical": untypical_section,
        "curve": lambda m: curve_section(m, curve),
        "boundary": boundary_section,
        "decibans": lambda _: DECIBAN_SCALE,
        "origin": lambda m: origin_section(m, origin or {}, left_out),
    }
    sections: dict[str, Markup] = {}
    left_out: dict[str, Markup] = {}
    for done, (key, name) in enumerate(SECTIONS.items(), 1):
        parts = makers[key](material)
        if parts and isinstance(parts[0], NoSection):
            left_out[key] = parts[0]
        else:
            sections[key] = section(key, name, parts)
        watch(1 + done)
    heading = title or f"{material.name} of {pluralize(len(material.classes), 'class', 'classes')}"
    body = [
        tag(
            "header",
            paragraph("deciban report", class_="eyebrow"),
            tag("h1", cut(heading, 120)),
            *([paragraph(tag("b", "Caution: "), data(caution, 600), ".")] if caution else []),
            paragraph(verdict(material), class_="lead"),
            figures(material),
            tag("nav", *(tag("a", SECTIONS[key], href=f"#{key}") for key in sections), aria_label="Contents"),
        ),
        tag("main", *sections.values()),
    ]
    return document(heading, body)


def is_report(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a page that `page` made."""
    with open(path, "rb") as file:
        return GENERATOR.encode() in file.read(MAX_BYTES_BEFORE_GENERATOR)


def read_material(model: Any, X: Any, y: Any, learned: bool, names: tuple[str, ...] | None) -> Material:
    """Rows, labels, and the model's predictions for them."""
    if X is None:
        return Material(model, names=names)
    rows, labels, where, given, unlabelled = read_rows(X, y)
    judged: Judged | None = None
    why = ""
    if labels is None:
        why = "The rows have no labels, so the model cannot be evaluated on them."
    elif len(labels) == 0:
        why = "No row has a label."
    elif learned:
        try:
            judged = model.leave_one_out(rows.X, labels)
        except ForgetError as error:  # e.g. a mixture, whose rows share responsibilities
            why = f"Rows cannot be left out one by one: {error}."
    else:
        judged = evaluate(model, rows.X, labels)
    if judged is not None and len(judged.classes) == 1:
        judged, why = None, ONE_CLASS
    return with_columns(Material(model, rows, where, labels, judged, names, given, unlabelled, learned, why))


def section(key: str, name: str, parts: list[Markup]) -> Markup:
    return tag("section", tag("h2", name), tag("div", *parts, class_="content"), id=key)


DECIBAN_SCALE = [
    paragraph(
        "A deciban (dB) is a weight of evidence: ten times the logarithm of odds. Evidence adds up, like weights on "
        "a pair of scales. 0 dB is an even chance; 3 dB is two to one (67\N{NO-BREAK SPACE}%), 10 dB ten to one "
        "(91\N{NO-BREAK SPACE}%), 20 dB a hundred to one (99\N{NO-BREAK SPACE}%), and 30 dB a thousand to one "
        "(99.9\N{NO-BREAK SPACE}%). A minus sign is evidence for the other class, of the same strength. About 1 dB is "
        "the smallest difference that people notice."
    ),
]


def origin_section(material: Material, origin: Mapping[str, Any], left_out: Mapping[str, Markup]) -> list[Markup]:
    """How the page was made, and which sections are not on it. A date must come from the caller, so that the same input
    makes the same page."""
    facts: list[tuple[str, Any]] = [("made by", f"deciban {version('deciban')}"), ("model", material.name)]
    facts.append(("classes", listed([plain(label) for label in material.classes], 6)))
    learned = float(np.sum(getattr(material.model, "class_count_", 0.0)))
    facts += [("rows learned", f"{learned:,.6g}")] if learned else []
    if material.rows is not None:
        how = "not evaluated" if material.judged is None else material.judged.how
        facts.append(("rows on this page", f"{material.size:,} of {material.given:,} given, {how}"))
    facts += [(str(key), value) for key, value in origin.items() if is_printable(value)]
    lines = [tag("div", tag("dt", data(key, 40)), tag("dd", fact_markup(value))) for key, value in facts]
    absent = "; ".join(f"{SECTIONS[key]} ({why})" for key, why in left_out.items())
    return [
        tag("dl", *lines, class_="facts"),
        *([paragraph(f"Not on this page: {absent}.", class_="note")] if absent else []),
    ]


def is_printable(value: Any) -> bool:
    """Whether a value can be shown in a line: a text, a number, a date, or a list of these."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(is_printable, value))
    return isinstance(value, str | int | float | datetime.date) and str(value) != ""


def fact_markup(value: Any) -> Markup:
    if isinstance(value, Markup):
        return value
    return listed(value) if isinstance(value, list | tuple) else data(value, 200)


def document(title: str, body: Sequence[Markup]) -> str:
    """The whole file. The empty icon keeps browsers from requesting one."""
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        GENERATOR,
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", cut(title, 120)),
        tag("style", Markup(style)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', joined(body)), lang='en')}\n"
