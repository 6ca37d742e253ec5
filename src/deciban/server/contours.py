"""Contour lines of values on a grid, by marching squares."""

from __future__ import annotations

import numpy as np

from deciban._typing import Array, Floats

DIGITS = 9  # significant ones of coordinates
# Which edges of a cell a line connects, by which of its corners are above 0 (bits 1, 2, 4, 8, counterclockwise from the
# lower left). Edges: 0 lower, 1 right, 2 upper, 3 left. A saddle has two lines.
LINES: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((3, 0),),
    2: ((0, 1),),
    3: ((3, 1),),
    4: ((1, 2),),
    5: ((3, 0), (1, 2)),
    6: ((0, 2),),
    7: ((3, 2),),
}


def contour(values: Floats, x: Floats, y: Floats) -> list[list[float]]:
    """The line on which values are 0, as segments [x, y, x, y]. Values are (rows, columns), at y and x.

    >>> contour(np.array([[-1.0, 1.0], [-1.0, 3.0]]), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    [[0.5, 0.0, 0.25, 1.0]]
    """
    above = values > 0
    cells = above[:-1, :-1] + 2 * above[:-1, 1:] + 4 * above[1:, 1:] + 8 * above[1:, :-1]
    cells = np.where(cells > 7, 15 - cells, cells)  # the line is the same if all signs change
    out: list[list[float]] = []
    for case, lines in LINES.items():
        rows, columns = np.nonzero(cells == case)
        for start, end in lines:
            ends = [crossing(values, x, y, rows, columns, edge) for edge in (start, end)]
            out += np.concatenate(ends, axis=1).tolist()
    return [[float(f"{v:.{DIGITS}g}") for v in segment] for segment in out]


def crossing(values: Floats, x: Floats, y: Floats, rows: Array, columns: Array, edge: int) -> Floats:
    """Where lines cross an edge of some cells, (n, 2), by linear interpolation."""
    first = {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (0, 0)}[edge]
    second = {0: (0, 1), 1: (1, 1), 2: (1, 1), 3: (1, 0)}[edge]
    a, b = (values[rows + row, columns + column] for row, column in (first, second))
    share = a / (a - b)
    at = [
        y_or_x[i + one] + share * (y_or_x[i + two] - y_or_x[i + one])
        for y_or_x, i, one, two in ((x, columns, first[1], second[1]), (y, rows, first[0], second[0]))
    ]
    return np.stack(at, axis=1)
