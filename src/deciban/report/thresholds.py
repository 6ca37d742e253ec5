"""Which threshold to use: the mistakes of each threshold on the probability of a class, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError, did_you_mean
from deciban.report.markup import (
    Markup,
    NoSection,
    Number,
    columns,
    count,
    data,
    figure,
    joined,
    number,
    paragraph,
    percent,
    table,
    tag,
)
from deciban.report.rows import Material
from deciban.report.svg import Plane
from deciban.results.evaluation import Evaluation, Judged
from deciban.show import plain

THRESHOLDS = (0.1, 0.25, 0.5, 0.75, 0.9)
N_POINTS = 200  # of the curve
TIMES_LOWEST = 8.0  # what costs more is not drawn


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdCounts:
    """Rows by truth and prediction, for each threshold: a row counts as positive from it on."""

    threshold: Floats
    true_positive: Floats
    false_positive: Floats
    positive: float  # rows of the positive class
    rows: float

    @classmethod
    def of(cls, proba: Floats, is_positive: Array, weight: Floats, thresholds: Sequence[float]) -> ThresholdCounts:
        """From each row's probability of the positive class."""
        at = np.asarray(thresholds, dtype=np.float64)
        order = np.argsort(proba, kind="stable")
        above = np.searchsorted(proba[order], at, side="left")  # of the rows in order, the first that is positive
        true, false = (
            np.append(np.cumsum((weight * mask)[order][::-1])[::-1], 0.0)[above] for mask in (is_positive, ~is_positive)
        )
        return cls(at, true, false, float(weight @ is_positive), float(weight.sum()))

    @property
    def false_negative(self) -> Floats:
        return np.asarray(self.positive - self.true_positive)

    def cost(self, costs: tuple[float, float]) -> Floats:
        """The cost of all mistakes, given that of a false positive and that of a false negative."""
        return np.asarray(costs[0] * self.false_positive + costs[1] * self.false_negative)


def checked_positive(positive: Any, classes: Array) -> Any:
    """The positive class: the one that was given, else the second of two, else none."""
    known = list(map(plain, classes))
    if positive is None:
        return known[1] if len(known) == 2 else None
    if positive not in known:
        raise DecibanError(
            "positive is {value!r}, which is not a class: {hint}",
            value=positive,
            hint=did_you_mean(
                str(positive), list(map(str, known)), f"the classes are {', '.join(map(str, known[:20]))}"
            ),
        )
    return positive


def checked_costs(costs: Any) -> tuple[float, float] | None:
    """The cost of a false positive and of a false negative."""
    if costs is None:
        return None
    values = np.asarray(costs, dtype=np.float64)
    if values.shape != (2,) or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise DecibanError(
            "costs are {value!r}: give the cost of a false positive and that of a false negative, such as (1, 10)",
            value=costs,
        )
    return float(values[0]), float(values[1])


def threshold_section(material: Material) -> list[Markup]:
    """What each threshold on the probability of the positive class costs."""
    judged = material.judged
    if judged is None or not judged.evaluated_rows:
        return [NoSection("there are no rows with labels")]
    of_known: Judged = judged.known() if isinstance(judged, Evaluation) and judged.unknown else judged
    if material.positive is None:
        return [NoSection("there are more than two classes, and no positive class was given")]
    classes = list(map(plain, of_known.classes))
    if material.positive not in classes:
        return [NoSection("no row is of the positive class")]
    code = classes.index(material.positive)
    proba, is_positive = of_known.proba[:, code], of_known.truth == code
    weight = np.ones(len(proba)) if of_known.weight is None else of_known.weight
    if not 0.0 < float(weight @ is_positive) < float(weight.sum()):
        return [NoSection("all rows are of the positive class, or none is")]
    costs = material.costs or (1.0, 1.0)
    fine = np.unique([*np.linspace(0.0, 1.0, N_POINTS + 1), costs[0] / sum(costs)])
    curve = ThresholdCounts.of(proba, is_positive, weight, fine.tolist())
    neutral, cost = costs[0] / sum(costs), curve.cost(costs)
    cheapest = fine[cost == cost.min()]
    best = float(cheapest[np.argmin(np.abs(cheapest - neutral))])  # of several, the least surprising
    shown = ThresholdCounts.of(proba, is_positive, weight, sorted({*THRESHOLDS, neutral, best}))
    priced = material.costs is not None
    return [
        paragraph(*introduction(material, costs, best, curve)),
        columns(cost_figure(curve, costs, best, priced), threshold_table(shown, costs, priced, best), class_="pair"),
    ]


def introduction(
    material: Material, costs: tuple[float, float], best: float, curve: ThresholdCounts
) -> list[str | Markup]:
    """What the positive class is, what mistakes cost, and which threshold is cheapest."""
    neutral = costs[0] / sum(costs)
    lowest = float(curve.cost(costs).min())
    at_neutral = float(curve.cost(costs)[int(np.searchsorted(curve.threshold, neutral))])
    name = data(material.positive, 40)
    if material.costs is None:
        priced = "Every mistake costs the same here; give costs to weigh a false positive against a false negative. "
    else:
        priced = f"A false positive costs {number(costs[0])}, a false negative {number(costs[1])}. "
    return [
        joined(["A row counts as ", name, " if its probability of it reaches the threshold. "]),
        priced,
        f"If the probabilities are calibrated, {number(neutral, 2)} is the threshold of least cost; on these rows it "
        f"costs {amount(at_neutral)}, "
        + ("and no other costs less." if best == neutral else f"and {number(best, 2)} costs least, {amount(lowest)}."),
    ]


def amount(cost: float) -> Number:
    """A cost: whole numbers in full."""
    return count(cost) if cost.is_integer() else number(cost)


def cost_figure(curve: ThresholdCounts, costs: tuple[float, float], best: float, priced: bool) -> Markup:
    """The cost of all mistakes by threshold."""
    total = curve.cost(costs)
    # Above the cost of one answer for all rows, or far above the lowest, no threshold is of interest.
    one_answer = min(costs[0] * (curve.rows - curve.positive), costs[1] * curve.positive)
    top = min(1.1 * one_answer, max(TIMES_LOWEST * float(total.min()), 0.1 * one_answer)) or float(total.max()) or 1.0
    plane = Plane((0.0, 1.0), (0.0, top), "threshold", "cost of all mistakes" if priced else "mistakes")
    for cost, style in (
        (costs[0] * curve.false_positive, "s1 dashed"),
        (costs[1] * curve.false_negative, "guide"),
        (total, "s0"),
    ):
        plane.line(curve.threshold, np.where(cost <= top, cost, np.nan), style)
    plane.dots(np.array([best]), np.array([total.min()]), "c0")
    about = f"Lowest at {number(best, 2)}: {amount(float(total.min()))}"
    return figure(
        plane.to_svg("Cost by threshold", about),
        "All mistakes (solid), false positives (orange dashes) and false negatives (grey dashes).",
    )


def threshold_table(shown: ThresholdCounts, costs: tuple[float, float], priced: bool, best: float) -> Markup:
    """Mistakes, precision and recall at some thresholds; the cheapest is marked."""
    lines: list[tuple[Any, ...]] = []
    for i, threshold in enumerate(shown.threshold.tolist()):
        true, false = float(shown.true_positive[i]), float(shown.false_positive[i])
        cells = [
            tag("b", f"{threshold:.2g} ✓") if threshold == best else f"{threshold:.2g}",
            count(true + false),
            count(false),
            count(float(shown.false_negative[i])),
            percent(true / (true + false) if true + false else None),
            percent(true / shown.positive),
        ]
        lines.append((*cells, amount(float(shown.cost(costs)[i]))) if priced else tuple(cells))
    head = ["threshold", "positive", "false pos.", "false neg.", "precision", "recall"]
    inside = table([*head, "cost"] if priced else head, lines, "Mistakes by threshold", "narrow")
    return tag("div", inside, paragraph("✓ costs least. Positive: rows that reach the threshold.", class_="note"))
