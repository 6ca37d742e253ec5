"""The evidence behind a prediction: items that add up, in decibans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban.show import AGAINST, FOR, Result, Table, axes, bars, label, number

MAX_BARS = 20  # of a picture


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evidence(Result):
    """Why one row is `target` rather than `against`: prior + Σ evidence = total, all in decibans (dB).

    10 dB is ten to one, 3 dB about two to one; negative values favour `against`. `items` are (name, value, dB), the
    strongest first, with None for a missing value. `probability` is the posterior of `target` among all classes.
    """

    target: Any
    against: Any
    prior: float
    items: tuple[tuple[str, Any, float], ...]
    probability: float

    @property
    def total(self) -> float:
        """10·log₁₀ of the posterior odds of `target` over `against`.

        If one column rules out one class and another the other, the odds are 0/0 and the prior is returned.
        """
        total = float(self.prior + sum(db for _, _, db in self.items))
        return self.prior if np.isnan(total) else total

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "against": self.against,
            "prior": self.prior,
            "evidence": [{"name": name, "value": value, "decibans": db} for name, value, db in self.items],
            "total": self.total,
            "probability": self.probability,
        }

    def to_table(self, most: int = 12) -> Table:
        shown = list(self.items[:most])
        rows: list[tuple[Any, ...]] = [("prior odds", "", signed(self.prior), _bar(self.prior))]
        rows += [(name, _value(value), signed(db), _bar(db)) for name, value, db in shown]
        for what, db in self._rest(self.items[most:]):
            rows.append((what, "", signed(db), _bar(db)))
        rows.append(("total", f"P = {self.probability:.4f}", signed(self.total), _bar(self.total)))
        odds = f"{self.target} rather than {self.against}: {signed(self.total)} dB"
        title = f"{odds}, P({self.target}) = {self.probability:.4f}"
        colours = ["green" if db.startswith("+") else "red" for _, _, db, _ in rows]
        return Table(title, ("evidence", "value", "dB", ""), rows, len(rows), right=("dB",), colours=colours)

    def _rest(self, items: Sequence[tuple[str, Any, float]]) -> list[tuple[str, float]]:
        """The sum of items that are not shown; ∞ − ∞ counts as 0."""
        total = float(sum(db for _, _, db in items))
        return [(f"{len(items)} more", 0.0 if np.isnan(total) else total)] if items else []

    def to_frame(self) -> Any:
        """A pandas data frame of the items (an optional dependency)."""
        return Table("", ("name", "value", "decibans"), list(self.items)).to_frame()

    def plot(self, ax: Any = None) -> Any:
        """Bars of evidence, with matplotlib (an optional dependency); returns the axes."""
        names, values = zip(*self.steps(MAX_BARS), strict=True)
        ax = axes(ax, len(names))
        bars(ax, names, values, [FOR if db >= 0 else AGAINST for db in values])
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel(label(f"evidence for {self.target} over {self.against} (dB)"))
        return ax

    def steps(self, most: int = MAX_BARS) -> list[tuple[str, float]]:
        """Named terms that add up to the total: the prior odds, the strongest items, and the sum of the others."""
        named = [("prior odds", self.prior)]
        named += [(self._item_label(name, value), db) for name, value, db in self.items[:most]]
        return named + self._rest(self.items[most:])

    def _item_label(self, name: str, value: Any) -> str:
        """An item as one line of text."""
        return f"{name} = {_value(value)}" if _value(value) else name


def _value(value: Any) -> str:
    if value is None:
        return "missing"
    return number(value) if isinstance(value, float) else str(value)


def signed(decibans: float) -> str:
    """Decibans with their sign.

    >>> signed(3.0), signed(-float("inf"))
    ('+3.00', '-∞')
    """
    return f"{decibans:+.2f}".replace("inf", "∞")


def _bar(decibans: float) -> str:
    """A bar, one mark for 2 dB, twelve at most."""
    size = min(12, round(abs(decibans) / 2)) if np.isfinite(decibans) else 12
    return ("+" if decibans >= 0 else "-") * int(size)
