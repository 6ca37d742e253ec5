"""Where the plane is cut: what is predicted for every value of two numbers."""

from __future__ import annotations

import numpy as np

from deciban._typing import Array, Floats
from deciban.reading.columns import Numbers
from deciban.reading.native import native_kind, to_native
from deciban.report.markup import Markup, cut, data, figure, joined, paragraph, several, tag
from deciban.report.rows import Material, Seen, positional
from deciban.report.svg import N_COLOURS, Plane, regions, sign
from deciban.show import plain

GRID_COLUMNS, GRID_ROWS = 84, 60  # cells of the grid
MAX_POINTS = 300
TAIL_SHARE = 0.005  # of the values on either side may lie outside of the picture


def boundary_section(material: Material) -> list[Markup]:
    """A picture where there are two columns of numbers, or why there is none."""
    seen = [own for own in material.seen if own.used]
    if material.rows is None:
        return [left_out("no rows were given")]
    if len(seen) != 2 or not all(own.kind in ("number", "count") and isinstance(own.column, Numbers) for own in seen):
        return [left_out("it is drawn where a model has two columns, both of numbers")]
    if len(material.classes) > N_COLOURS:
        return [left_out(f"there are more than {N_COLOURS} classes")]
    x, y = (own.column.values for own in seen if isinstance(own.column, Numbers))
    there = np.isfinite(x) & np.isfinite(y)
    if np.count_nonzero(there) < 3:
        return [left_out("there are too few rows with both values")]
    ends = (edges(x[there]), edges(y[there]))
    try:
        codes, sure = grid_predictions(material, seen, ends)
    except ValueError as error:  # such as of a model of counts, which takes no fractions
        return [left_out(f"the model cannot be asked for any two numbers ({error})")]
    return drawn(material, seen, ends, codes, sure, there)


def left_out(why: str) -> Markup:
    return paragraph(f"Left out: {why}.", class_="note")


def edges(values: Floats) -> tuple[float, float]:
    """Where the picture ends: around nearly all values, with some room."""
    low, high = (float(v) for v in np.quantile(values, [TAIL_SHARE, 1.0 - TAIL_SHARE]))
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def grid_predictions(
    material: Material, seen: list[Seen], ends: tuple[tuple[float, float], ...]
) -> tuple[Array, Floats]:
    """The prediction in the middle of each cell of a grid, and its probability."""
    middles = [
        low + (high - low) * (np.arange(n) + 0.5) / n
        for (low, high), n in zip(ends, (GRID_COLUMNS, GRID_ROWS), strict=True)
    ]
    grid = [values.ravel() for values in np.meshgrid(*middles)]
    assert material.rows is not None
    like = "numpy" if positional(material) else native_kind(material.rows.X)
    rows = to_native(like, [own.name for own in seen], [Numbers(values) for values in grid])
    proba = np.asarray(material.model.predict_proba(rows))
    return proba.argmax(axis=1).reshape(GRID_ROWS, GRID_COLUMNS), proba.max(axis=1).reshape(GRID_ROWS, GRID_COLUMNS)


def drawn(
    material: Material,
    seen: list[Seen],
    ends: tuple[tuple[float, float], tuple[float, float]],
    codes: Array,
    sure: Floats,
    there: Array,
) -> list[Markup]:
    """Regions with some of the rows on them."""
    k = len(material.classes)
    plane = Plane(*ends, cut(seen[0].name, 40), cut(seen[1].name, 40), width=560, height=420)
    plane.drawn += regions(plane, codes, sure, k)
    x, y = (own.column.values for own in seen if isinstance(own.column, Numbers))
    inside = there & (x >= ends[0][0]) & (x <= ends[0][1]) & (y >= ends[1][0]) & (y <= ends[1][1])
    rows = np.flatnonzero(inside)
    if len(rows) > MAX_POINTS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MAX_POINTS, replace=False))
    truth = material.judged.truth[rows] if material.judged is not None else None
    for c in range(k) if truth is not None else ():
        mine = rows[truth == c]
        plane.dots(x[mine], y[mine], f"c{c} point", c, 3.4)
    names = [plain(name) for name in material.classes]
    key = joined(tag("span", sign(c), " ", data(name, 30), class_="key") for c, name in enumerate(names))
    about = f"Regions of {', '.join(cut(name, 40) for name in names)}"
    points = f"; {several(len(rows), 'row')} are drawn as points" if truth is not None else ""
    note = f"The stronger the colour, the surer it is: from 75% and from 95% on{points}."
    return [figure(plane.finished("Decision boundary", about), key, tag("br"), note)]
