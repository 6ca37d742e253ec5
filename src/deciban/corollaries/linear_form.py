"""Naive Bayes is a linear classifier: log-odds = Σ x·θ + θ_0 (S5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.bayes import DECIBANS
from deciban.joint import Model
from deciban.show import AGAINST, FOR, Result, Table, axes, bars, label, plain

MAX_BARS = 20  # of a picture


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinearForm(Result):
    """log p(x, y) = x·weights[y] + offsets[y], up to a constant per row.

    `weights` is (k, items) and `offsets` (k,), the log prior included. `pair(a, b)` is the form for two classes.

    >>> from deciban import MultinomialNB
    >>> form = MultinomialNB(alpha=0).fit([[3, 1], [1, 3]], ["a", "b"]).linear_form()
    >>> form.weights.round(3).tolist(), form.offsets.round(3).tolist()
    ([[-0.288, -1.386], [-1.386, -0.288]], [-0.693, -0.693])
    """

    classes: Array
    items: list[str]
    weights: Floats
    offsets: Floats

    def pair(self, positive: Any, negative: Any) -> tuple[Floats, float]:
        """θ and θ_0 of log P(positive | x)/P(negative | x) = x·θ + θ_0."""
        a, b = (self._index(label) for label in (positive, negative))
        return self.weights[a] - self.weights[b], float(self.offsets[a] - self.offsets[b])

    def _index(self, label: Any) -> int:
        where = np.flatnonzero(self.classes == label)
        if len(where) == 0:
            raise ValueError(f"{label!r} is not one of the classes {self.classes.tolist()}")
        return int(where[0])

    def to_dict(self) -> dict[str, Any]:
        return {
            "classes": self.classes.tolist(),
            "items": list(self.items),
            "weights": self.weights.tolist(),
            "offsets": self.offsets.tolist(),
        }

    def to_table(self) -> Table:
        names = ("item", *(str(plain(c)) for c in self.classes))
        rows: list[tuple[Any, ...]] = [("(offset)", *self.offsets.tolist())]
        rows += [(item, *column) for item, column in zip(self.items, self.weights.T.tolist(), strict=True)]
        return Table("linear form: weights in nats", names, rows)

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency): a row per item, a column per class."""
        return self.to_table().to_frame()

    def plot(self, ax: Any = None, positive: Any = None, negative: Any = None) -> Any:
        """Bars of the evidence of one unit of each item, with matplotlib (an optional dependency); returns the axes.

        In decibans, for `positive` (by default the last class) over `negative` (by default the mean of all others).
        The offset comes first; of many items the strongest are shown.
        """
        if len(self.classes) < 2:
            raise ValueError("there is only one class, so there is no evidence for it against another")
        target = len(self.classes) - 1 if positive is None else self._index(positive)
        others = np.arange(len(self.classes)) != target if negative is None else [self._index(negative)]
        theta = (self.weights[target] - self.weights[others].mean(axis=0)) * DECIBANS
        offset = float(self.offsets[target] - self.offsets[others].mean()) * DECIBANS
        strongest = np.argsort(-np.abs(theta), kind="stable")[:MAX_BARS]
        values = [offset, *theta[strongest].tolist()]
        ax = axes(ax, len(values))
        names = ["(offset)", *(self.items[j] for j in strongest)]
        bars(ax, names, values, [FOR if db >= 0 else AGAINST for db in values])
        ax.axvline(0.0, color="black", linewidth=0.8)
        rivals = self.classes[others]
        over = f"over {plain(rivals[0])}" if len(rivals) == 1 else "over the mean of the others"
        ax.set_xlabel(label(f"evidence of one unit for {plain(self.classes[target])} {over} (dB)"))
        return ax


def linear_form(model: Model) -> LinearForm:
    """The linear forms of all blocks, with the class prior in the offset."""
    items: list[str] = []
    weights = []
    offsets = model.log_prior.copy() if model.generative else np.zeros(len(model.classes))
    for b, block in enumerate(model.joint.blocks):
        if getattr(block.family, "predictive", False):
            raise TypeError("with predictive=True the parameters are integrated out, and the form is not linear")
        names, table, offset = block.family.linear(model.params[b], model.columns(b))
        if not (np.isfinite(table).all() and np.isfinite(offset).all()):
            raise ValueError("a probability is exactly 0, so its weight would be infinite: use alpha > 0")
        items += names
        weights.append(table)
        offsets = offsets + offset
    return LinearForm(model.classes, items, np.hstack(weights), offsets)
