"""The decision boundary: the predicted class for every pair of values of two columns."""

from __future__ import annotations

import numpy as np

from deciban._typing import Array, Floats
from deciban.reading.columns import Numbers
from deciban.reading.native import native_kind, to_native
from deciban.report.markup import Markup, NoSection, cut, data, figure, joined, pluralize, tag
from deciban.report.rows import Material, ReadColumn, positional
from deciban.report.svg import N_COLOURS, Plane, legend_mark, regions
from deciban.show import plain

GRID_COLUMNS, GRID_ROWS = 84, 60  # cells of the grid
MAX_POINTS = 300
TAIL_SHARE = 0.005  # of the values on either side may lie outside the picture


def boundary_section(material: Material) -> list[Markup]:
    """A picture if there are two columns of numbers, or why there is none."""
    read_columns = [col for col in material.read_columns if col.used]
    if material.rows is None:
        return [NoSection("no rows were given")]
    if len(read_columns) != 2 or not all(
        col.kind in ("number", "count") and isinstance(col.column, Numbers) for col in read_columns
    ):
        return [NoSection("it is drawn only for models with two columns, both of numbers")]
    if len(material.classes) > N_COLOURS:
        return [NoSection(f"there are more than {N_COLOURS} classes")]
    x, y = (col.column.values for col in read_columns if isinstance(col.column, Numbers))
    complete = np.isfinite(x) & np.isfinite(y)
    if np.count_nonzero(complete) < 3:
        return [NoSection("there are too few rows with both values")]
    ranges = (padded_range(x[complete]), padded_range(y[complete]))
    try:
        codes, confidence = grid_predictions(material, read_columns, ranges)
    except ValueError as error:  # e.g. a model of counts, which takes no fractions
        return [NoSection(f"the model does not accept every pair of numbers ({error})")]
    return boundary_figure(material, read_columns, ranges, codes, confidence, complete)


def padded_range(values: Floats) -> tuple[float, float]:
    """The range of nearly all values, with a margin."""
    low, high = (float(v) for v in np.quantile(values, [TAIL_SHARE, 1.0 - TAIL_SHARE]))
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def grid_predictions(
    material: Material, read_columns: list[ReadColumn], ranges: tuple[tuple[float, float], ...]
) -> tuple[Array, Floats]:
    """The prediction in the middle of each cell of a grid, and its probability."""
    centres = [
        low + (high - low) * (np.arange(n) + 0.5) / n
        for (low, high), n in zip(ranges, (GRID_COLUMNS, GRID_ROWS), strict=True)
    ]
    grid = [values.ravel() for values in np.meshgrid(*centres)]
    assert material.rows is not None
    kind = "numpy" if positional(material) else native_kind(material.rows.X)
    rows = to_native(kind, [col.name for col in read_columns], [Numbers(values) for values in grid])
    proba = np.asarray(material.model.predict_proba(rows))
    return proba.argmax(axis=1).reshape(GRID_ROWS, GRID_COLUMNS), proba.max(axis=1).reshape(GRID_ROWS, GRID_COLUMNS)


def boundary_figure(
    material: Material,
    read_columns: list[ReadColumn],
    ranges: tuple[tuple[float, float], tuple[float, float]],
    codes: Array,
    confidence: Floats,
    complete: Array,
) -> list[Markup]:
    """Decision regions with some of the rows as points."""
    k = len(material.classes)
    plane = Plane(*ranges, cut(read_columns[0].name, 40), cut(read_columns[1].name, 40), width=560, height=420)
    plane.drawn += regions(plane, codes, confidence, k)
    x, y = (col.column.values for col in read_columns if isinstance(col.column, Numbers))
    inside = complete & (x >= ranges[0][0]) & (x <= ranges[0][1]) & (y >= ranges[1][0]) & (y <= ranges[1][1])
    rows = np.flatnonzero(inside)
    if len(rows) > MAX_POINTS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MAX_POINTS, replace=False))
    truth = material.judged.truth[rows] if material.judged is not None else None
    for c in range(k) if truth is not None else ():
        of_class = rows[truth == c]
        plane.dots(x[of_class], y[of_class], f"c{c} point", c, 3.4)
    names = [plain(name) for name in material.classes]
    legend = joined(tag("span", legend_mark(c), " ", data(name, 30), class_="key") for c, name in enumerate(names))
    description = f"Regions of {', '.join(cut(name, 40) for name in names)}"
    points = f"; {pluralize(len(rows), 'row')} are drawn as points" if truth is not None else ""
    note = f"The stronger the colour, the higher the probability: from 75 % and from 95 % on{points}."
    return [figure(plane.to_svg("Decision boundary", description), legend, tag("br"), note)]
