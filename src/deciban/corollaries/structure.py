"""Which columns hang on which, and how much they tell: a tree as a table and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._typing import Floats
from deciban.families.chow_liu import told
from deciban.families.tree import by_parent, parents_of
from deciban.joint import Model
from deciban.schema import downwards
from deciban.show import Result, Table, axes, label


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Structure(Result):
    """Columns, the column that each hangs on, and information in bits, from what was counted so far.

    `given_class` is what a column and its parent tell of each other in a class, I(x; x_parent | y); `of_class` is what
    the column alone tells of the class, I(x; y).
    """

    columns: tuple[str, ...]
    parents: tuple[int, ...]
    given_class: Floats  # (d,)
    of_class: Floats  # (d,)

    def to_table(self) -> Table:
        rows = []
        for j in downwards(self.parents):
            on = self.parents[j]
            given = float(self.given_class[j]) if on >= 0 else None
            rows.append((self.columns[j], self.columns[on] if on >= 0 else None, given, float(self.of_class[j])))
        return Table("what hangs on what", ("column", "parent", "bits given class", "bits of class"), rows)

    def to_dict(self) -> dict[str, Any]:
        return self.to_table().to_dict()

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency)."""
        return self.to_table().to_frame()

    def plot(self, ax: Any = None) -> Any:
        """The tree from left to right, lines as thick as they tell, with matplotlib (an optional dependency)."""
        depth, height = places(self.parents)
        ax = axes(ax, len(self.columns))
        widest = max(float(self.given_class.max(initial=0.0)), np.finfo(float).tiny)
        for j, on in enumerate(self.parents):
            if on >= 0:
                width = 0.5 + 4.0 * self.given_class[j] / widest
                ax.plot([depth[on], depth[j]], [height[on], height[j]], color="tab:grey", linewidth=width, zorder=1)
        for j, name in enumerate(self.columns):
            box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "tab:grey"}
            ax.text(depth[j], height[j], label(name), va="center", ha="center", fontsize="small", bbox=box, zorder=2)
        ax.set_xlim(-0.5, max(depth, default=0) + 0.5)
        ax.set_ylim(max(height, default=0.0) + 0.7, -0.7)
        ax.set_axis_off()
        return ax


def places(parents: tuple[int, ...]) -> tuple[list[int], list[float]]:
    """How deep each column is, and how far down: leaves one below the other, a parent in the middle of its children."""
    order = downwards(parents)
    children: dict[int, list[int]] = {j: [] for j in (-1, *order)}
    depth, height, leaves = [0] * len(parents), [0.0] * len(parents), 0
    for j in order:
        children[parents[j]].append(j)
        depth[j] = depth[parents[j]] + 1 if parents[j] >= 0 else 0
    path, onward = list(reversed(children[-1])), []
    while path:  # children before parents, without recursion: a tree may be a chain of any length
        onward.append(path.pop())
        path += reversed(children[onward[-1]])
    for j in onward:
        if not children[j]:
            height[j], leaves = float(leaves), leaves + 1
    for j in reversed(onward):
        if children[j]:
            height[j] = float(np.mean([height[child] for child in children[j]]))
    return depth, height


def structure(model: Model, block: int = 0) -> Structure:
    """The tree of a block of columns, with the information that its counts hold."""
    columns, sums = model.columns(block), model.stats.sums[block]
    given, of_class = np.zeros(columns.size), np.zeros(columns.size)
    for j, on in enumerate(parents_of(columns)):
        of_class[j] = told(sums["is"][:, columns.offsets[j] : columns.offsets[j + 1]][None])
        given[j] = told(by_parent(sums["pair"], columns, j)) if on >= 0 else 0.0
    names = tuple(columns.name(j) for j in range(columns.size))
    return Structure(names, parents_of(columns), given / np.log(2.0), of_class / np.log(2.0))
