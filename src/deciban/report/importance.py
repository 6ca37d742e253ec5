"""What decides: columns or words ranked by their mean evidence, with curves of the first ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from deciban.errors import DecibanError
from deciban.report.markup import (
    PERCENT,
    Markup,
    NoSection,
    Number,
    columns,
    count,
    cut,
    data,
    decibans,
    heading,
    joined,
    paragraph,
    pluralize,
    table,
    tag,
)
from deciban.report.rows import Material
from deciban.report.svg import BOTTOM_MARGIN, Plane, bar, legend_mark, path, signed_bar
from deciban.results.importance import Curve, Importance, Point
from deciban.results.summary import Summary, decisive_sentence
from deciban.show import plain

MAX_ITEMS, MAX_CURVES, MAX_BARS = 12, 6, 8  # ranked, drawn, and values of a category
CURVE_HEIGHT, DENSITY_HEIGHT = 190, 22
MAX_CLASSES_IN_RANKING = 3


def importance_of(material: Material) -> Importance | str:
    """Importance as stored with the model, or on the rows of the page; or why there is none."""
    compute = getattr(material.model, "importance", None)
    if len(material.classes) < 2:
        return "there is only one class"
    if compute is None:  # a model without evidence
        return "this model has no evidence to show"
    try:
        found: Importance = compute()
    except DecibanError:  # none is stored
        if material.judged is None or material.labels is None or material.rows is None:
            return "it is not stored with the model, and there are no labelled rows to compute it on"
        known = np.flatnonzero(np.isin(material.labels, material.classes))
        named = material.names is not None and not hasattr(material.model, "kinds_")
        options = {"names": list(material.names or ())} if named else {}
        try:
            rows, labels = material.rows.take(known), material.labels[known]
            found = compute(rows, labels, learned=material.learned, **options)
        except DecibanError as error:  # such as rows so extreme that they cannot be left out
            return str(error)
    return found


def importance_section(importance: Importance | str, summary: Summary | None = None) -> list[Markup]:
    """The ranking, and the curves of the most important columns."""
    if isinstance(importance, str):
        return [NoSection(importance)]
    questions = [] if summary is None else map(decisive_sentence, summary.decisive)
    asked = [question.replace(" %", PERCENT).rpartition(": it") for question in questions]
    drawn = [curve for curve in importance.curves if len(curve.points) > 1][:MAX_CURVES]
    parts = [
        paragraph(
            f"The evidence of each {importance.what}, as in explanations: for a row's class over the most probable "
            f"other class, in decibans, on average over {pluralize(importance.rows, 'row')} {importance.how}. Bars "
            "show the mean size; signed numbers are the mean evidence for the true class."
        ),
        *(paragraph(tag("b", first[:1].upper(), cut(first[1:], 200)), colon, rest) for first, colon, rest in asked),
        ranking(importance),
        *(paragraph(sentence, class_="note") for sentence in importance.sentences()),
    ]
    if drawn:
        parts += [curves_legend(importance), columns(*(curve_card(importance, curve) for curve in drawn))]
    return parts


def ranking(importance: Importance) -> Markup:
    shown = importance.ranked[:MAX_ITEMS]
    longest = max((item.size for item in shown), default=0.0) or 1.0
    classes = importance.classes if len(importance.classes) <= MAX_CLASSES_IN_RANKING else ()
    head = (importance.what, "mean |dB|", "", "for the truth", *(joined(["rows of ", data(c, 20)]) for c in classes))
    lines = [
        (
            data(item.name, 50),
            Number(f"{item.size:.1f}"),
            bar(item.size / longest),
            decibans(item.decibans),
            *(decibans(db) for db in item.by_class[: len(classes)]),
        )
        for item in shown
    ]
    return table(head, lines, f"Importance by {importance.what}", "bars")


def curves_legend(importance: Importance) -> Markup:
    """What the curves are evidence for."""
    if len(importance.sides) == 1:
        other = next(c for c in importance.classes if c not in importance.sides)
        words: list[Any] = [
            "Evidence by value: above zero for ",
            data(importance.sides[0], 40),
            ", below for ",
        ]
        return paragraph(*words, data(other, 40), ". Grey bars show how many rows have the value.", class_="note")
    marks = [tag("span", legend_mark(i), " ", data(side, 30), class_="key") for i, side in enumerate(importance.sides)]
    sentence = "Evidence by value, for a class against the mean of the others; grey bars show how many rows have it. "
    return paragraph(sentence, *marks, class_="note")


def curve_card(importance: Importance, curve: Curve) -> Markup:
    numbers = [point for point in curve.points if point.at is not None]
    body = number_curve(importance, curve, numbers) if len(numbers) > 1 else category_bars(importance, curve)
    return tag("div", heading(data(curve.name, 40)), body, class_="card")


def number_curve(importance: Importance, curve: Curve, points: list[Point]) -> Markup:
    """Lines of evidence by value, over bars of the number of rows."""
    x = np.array([point.at for point in points], dtype=np.float64)
    y = np.array([point.decibans for point in points])
    low, high = min(0.0, float(y.min())), max(0.0, float(y.max()))
    room = 0.35 * (high - low or 1.0)  # for the bars
    plane = Plane((float(x[0]), float(x[-1])), (low - room, high), cut(curve.name, 24), "dB", height=CURVE_HEIGHT)
    left, _ = plane.at(x, np.zeros(len(x)))
    most, floor = max(point.rows for point in points), CURVE_HEIGHT - BOTTOM_MARGIN
    tall = [DENSITY_HEIGHT * point.rows / most for point in points]
    bars = "".join(f"M{a - 4:.1f} {floor}v-{up:.1f}h8v{up:.1f}z" for a, up in zip(left.tolist(), tall, strict=True))
    plane.drawn.append(path(bars, "density"))
    plane.line(np.array([x[0], x[-1]]), np.zeros(2), "guide")
    for i in range(y.shape[1]):
        plane.line(x, y[:, i], f"s{i}")
        plane.dots(x, y[:, i], f"c{i}", i, 2.5)
    missing = [point for point in curve.points if point.at is None]
    note = ""
    if missing:
        each = ", ".join(decibans(db) for db in missing[0].decibans)
        note = f"Missing in {pluralize(missing[0].rows, 'row')}: {each} dB."
    about = f"From {points[0].value} to {points[-1].value}, with {pluralize(importance.rows, 'row')}."
    drawing = plane.to_svg(f"Evidence of {cut(curve.name, 40)} by value", about)
    return joined([drawing, paragraph(note, class_="note") if note else tag("span", "")])


def category_bars(importance: Importance, curve: Curve) -> Markup:
    """Bars of the evidence of each value; of several classes, the strongest evidence among them."""
    points = sorted(curve.points, key=lambda point: -point.rows)[:MAX_BARS]
    several = len(importance.sides) > 1
    longest = max((abs(db) for point in points for db in point.decibans), default=0.0) or 1.0
    lines = []
    for point in points:
        best = int(np.argmax(point.decibans)) if several else 0
        db = point.decibans[best]
        class_ = (data(plain(importance.sides[best]), 20),) if several else ()
        lines.append((data(point.value, 30), *class_, decibans(db), signed_bar(db / longest), count(point.rows)))
    head = ("value", *(("class",) if several else ()), "dB", "", "rows")
    return table(head, lines, f"Evidence of {cut(curve.name, 40)} by value", "bars")
