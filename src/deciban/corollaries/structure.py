"""The tree of columns and its information, as a table and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._typing import Floats
from deciban.families.chow_liu import information_in
from deciban.families.tree import by_parent, parents_of
from deciban.joint import Model
from deciban.schema import parents_first
from deciban.show import FOR, NEITHER, Result, Table, axes, label


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Structure(Result):
    """Columns, the parent of each, and information in bits, from the counts so far.

    `given_class` is the information between a column and its parent given the class, I(x; x_parent | y); `of_class` is
    that between the column and the class, I(x; y).
    """

    columns: tuple[str, ...]
    parents: tuple[int, ...]
    given_class: Floats  # (d,)
    of_class: Floats  # (d,)

    def to_table(self) -> Table:
        rows = []
        for j in parents_first(self.parents):
            on = self.parents[j]
            given = float(self.given_class[j]) if on >= 0 else None
            rows.append((self.columns[j], self.columns[on] if on >= 0 else None, given, float(self.of_class[j])))
        return Table("dependencies between columns", ("column", "parent", "bits given class", "bits of class"), rows)

    def to_dict(self) -> dict[str, Any]:
        return self.to_table().to_dict()

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency)."""
        return self.to_table().to_frame()

    def plot(self, ax: Any = None) -> Any:
        """The tree, with each column below its parent, with matplotlib (an optional dependency); returns the axes.
        The width of a line is the information between the two columns."""
        order, depth = places(self.parents)
        height = {j: line for line, j in enumerate(order)}
        ax = axes(ax, len(self.columns))
        widest = max(float(self.given_class.max(initial=0.0)), np.finfo(float).tiny)
        for j, on in enumerate(self.parents):
            if on >= 0:
                width = 0.5 + 5.5 * self.given_class[j] / widest
                across, down = [depth[on], depth[on], depth[j]], [height[on], height[j], height[j]]
                ax.plot(across, down, color=NEITHER, linewidth=width, solid_capstyle="butt", zorder=1)
        ax.scatter(depth, [height[j] for j in range(len(depth))], s=36, color=FOR, zorder=2)
        for j, name in enumerate(self.columns):
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
            ax.annotate(
                label(name), (depth[j], height[j]), (8, 0), textcoords="offset points", va="center", bbox=box, zorder=3
            )
        ax.set_xlim(-0.2, max(depth, default=0) + 1.5)
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.set_axis_off()
        return ax


def places(parents: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """The columns in drawing order, each before its children, and the depth of each column."""
    children: dict[int, list[int]] = {j: [] for j in range(-1, len(parents))}
    depth = [0] * len(parents)
    for j in parents_first(parents):
        children[parents[j]].append(j)
        depth[j] = depth[parents[j]] + 1 if parents[j] >= 0 else 0
    path, order = list(reversed(children[-1])), []
    while path:  # without recursion: a tree may be a chain of any length
        order.append(path.pop())
        path += reversed(children[order[-1]])
    return order, depth


def structure(model: Model, block: int = 0) -> Structure:
    """The tree of a block of columns, with the information from its counts."""
    columns, sums = model.columns(block), model.stats.sums[block]
    given, of_class = np.zeros(columns.size), np.zeros(columns.size)
    for j, on in enumerate(parents_of(columns)):
        of_class[j] = information_in(sums["is"][:, columns.offsets[j] : columns.offsets[j + 1]][None])
        given[j] = information_in(by_parent(sums["pair"], columns, j)) if on >= 0 else 0.0
    names = tuple(columns.name(j) for j in range(columns.size))
    return Structure(names, parents_of(columns), given / np.log(2.0), of_class / np.log(2.0))
