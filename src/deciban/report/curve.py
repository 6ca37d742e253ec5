"""The learning curve: would more rows help? The model is refitted on growing numbers of rows."""

from __future__ import annotations

import copy
import time
import warnings
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.reading.given import Rows
from deciban.report.markup import Markup, NoSection, count, figure, number, paragraph, percent, pluralize, table, tag
from deciban.report.rows import Material
from deciban.report.svg import Plane
from deciban.results.comparison import (
    MIN_ROWS_PER_CLASS,
    ByNumber,
    Comparison,
    learning_curves,
    mean_over_draws,
    standard_error,
)

MAX_ROWS_OF_CURVE = 2000  # a larger table is sampled
MIN_ROWS_OF_CURVE = 60  # fewer rows give no meaningful curve
N_SIZES = 4
MANY_ROWS = 500  # of more, two draws differ little
MANY_DRAWS, FEW_DRAWS = 3, 2
ROWS_TIMED_OF = 4  # one row in this many is learned, to estimate the time for all
SLOW_SECONDS, TOO_SLOW_SECONDS = 1.0, 5.0  # of one fit
MAX_LOSS_RATIO = 2.0  # of the class shares: losses above this are drawn at the edge
MODEL_NAME, SHARES_NAME = "the model", "class shares alone"


class ClassShares:
    """The baseline: class shares alone, smoothed by one row per class."""

    def fit(self, X: Any, y: Array) -> ClassShares:
        del X
        self.classes_, rows = np.unique(y, return_counts=True)
        self.log_shares: Floats = np.log((rows + 1.0) / (rows + 1.0).sum())
        return self

    def predict_log_proba(self, X: Any) -> Floats:
        return np.tile(self.log_shares, (len(X), 1))

    def predict_proba(self, X: Any) -> Floats:
        return np.exp(self.predict_log_proba(X))


def curve_section(material: Material, requested: bool) -> list[Markup]:
    """A learning curve on some of the rows, or why there is none."""
    if not requested:
        return [NoSection("it was not requested")]
    if material.rows is None or material.labels is None or material.judged is None:
        return [NoSection("there are no rows with labels")]
    if not hasattr(material.model, "get_params"):
        return [NoSection("this model predicts, but does not learn")]
    truth, k = material.judged.truth, len(material.judged.classes)
    rows = sample_rows(truth, k)
    present = len(np.unique(truth[rows]))
    if present < 2 or len(rows) < max(MIN_ROWS_OF_CURVE, 6 * present):
        available = f"{pluralize(len(rows), 'row')} of {pluralize(present, 'class', 'classes')} that have three or more"
        return [NoSection(f"there are too few rows of each class ({available})")]
    labels = np.array([material.labels[i] for i in rows])
    try:
        comparison, note = learning_curve(material.model, Rows.of(material.rows.take(rows)), labels, present)
    except ValueError as error:  # such as a prior for classes that are not among these rows
        return [NoSection(f"the model could not learn from some of the rows ({error})")]
    if comparison is None:
        return [NoSection(note)]
    if len(rows) < material.size:
        note += f" Drawn on {count(len(rows))} of the {count(material.size)} rows."
    return curve_markup(comparison, note)


def sample_rows(truth: Array, k: int) -> Array:
    """At most MAX_ROWS_OF_CURVE random rows, of classes that have enough of them."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(truth))[:MAX_ROWS_OF_CURVE]
    class_counts = np.bincount(truth[rows], minlength=k)
    return np.sort(rows[class_counts[truth[rows]] > MIN_ROWS_PER_CLASS])


def learning_curve(model: Any, rows: Rows, labels: Array, k: int) -> tuple[Comparison | None, str]:
    """The learning curve of a model, and a note on it. The number of fits depends on how long one takes."""
    held_out = rows.size // 3
    n_train = rows.size - held_out
    refit = ByNumber(type(model)(**model.get_params(deep=False)), rows.take)  # the same settings, nothing learned
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few rows, which are intended here
        start = time.perf_counter()
        some = np.arange(0, n_train, ROWS_TIMED_OF)
        copy.deepcopy(refit).fit(some, labels[some])
        seconds = (time.perf_counter() - start) * ROWS_TIMED_OF
        if seconds > TOO_SLOW_SECONDS:
            return None, f"to learn {pluralize(n_train, 'row')} once takes about {number(seconds, 2)} seconds"
        slow = seconds >= SLOW_SECONDS
        sizes = 3 if slow else N_SIZES
        train_sizes = np.unique(
            np.geomspace(max(MIN_ROWS_PER_CLASS * k, n_train // 2 ** (sizes + 1)), n_train, sizes).astype(int)
        ).tolist()
        draws = [1 if slow else FEW_DRAWS if size > MANY_ROWS else MANY_DRAWS for size in train_sizes]
        comparison = learning_curves(
            {MODEL_NAME: refit, SHARES_NAME: ClassShares()},
            np.arange(rows.size),
            labels,
            train_sizes,
            held_out=held_out,
            repeats=draws,
            rng=np.random.default_rng(0),
            show_progress=False,
        )
    several = f"{draws[-1]} to {draws[0]}" if draws[-1] < draws[0] else f"{draws[0]}"
    error_note = "one draw" if slow else f"the band is one standard error of {several} draws"
    return comparison, f"Evaluated on {pluralize(held_out, 'row')} that were held out; {error_note}."


def curve_markup(comparison: Comparison, note: str) -> list[Markup]:
    """The curve, its conclusion, and its numbers."""
    loss, error = mean_over_draws(comparison.log_loss), standard_error(comparison.log_loss)
    accuracy = mean_over_draws(comparison.accuracy)
    x = np.array(comparison.sizes, dtype=float)
    finite = loss[np.isfinite(loss)]
    high = min(float(finite.max(initial=0.0)), MAX_LOSS_RATIO * float(loss[1].max())) * 1.1 or 1.0
    plane = Plane((x[0], x[-1]), (0.0, high), "rows learned", "log loss", log_x=True, width=520, height=240)
    for m, (name, style) in enumerate(((MODEL_NAME, "s0"), (SHARES_NAME, "s1 dashed"))):
        visible = np.minimum(loss[m], high)
        if np.isfinite(error[m]).all():
            plane.band(x, np.clip(loss[m] - error[m], 0.0, high), np.clip(loss[m] + error[m], 0.0, high), f"c{m}")
        plane.line(x, visible, style)
        plane.dots(x, visible, f"c{m}", m)
        plane.label(x[-1], float(visible[-1]), name, f"name s{m}", "end", -9.0)
    if (loss > high).any():
        note += " Values above the plot are drawn at its edge."
    description = "; ".join(f"{n} rows: {number(value)}" for n, value in zip(comparison.sizes, loss[0], strict=True))
    picture = plane.to_svg("Learning curve", description, x_ticks=x.tolist())
    lines = [
        (pluralize(n, "row"), number(loss[0, s]), number(loss[1, s]), percent(float(accuracy[0, s])))
        for s, n in enumerate(comparison.sizes)
    ]
    return [
        paragraph(conclusion(loss[0], error[0])),
        figure(picture, note),
        tag(
            "details",
            tag("summary", "The numbers"),
            table(("learned from", "log loss", "class shares alone", "accuracy"), lines, "Learning curve"),
        ),
    ]


def conclusion(loss: Floats, error: Floats) -> str:
    """Whether more rows would help."""
    if len(loss) < 2 or not np.isfinite(loss[-2:]).all():
        return "With few rows, some classes get probability 0: more rows help."
    gain = float(loss[-2] - loss[-1])
    noise = 2.0 * float(np.nan_to_num(np.hypot(error[-1], error[-2])))
    share = gain / max(float(loss[-2]), 1e-12)
    if gain > noise and share > 0.03:
        return (
            f"The curve still falls: the last increase in rows reduced the log loss by {percent(share, 0)}. More "
            "rows of this kind would improve the model."
        )
    if gain < -noise:
        return "More rows did not improve the model here. Check whether all rows come from the same source."
    return "The curve has levelled off: more rows of this kind would help little. Other columns might help more."
