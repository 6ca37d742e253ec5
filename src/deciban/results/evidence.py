"""The evidence behind a prediction: items that add up, in decibans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban.errors import DecibanError
from deciban.show import AGAINST, FOR, Result, Table, axes, bars, label, number, signed, signed_bars, value_text

MAX_BARS = 20  # of a picture
MAX_STEPS = 200  # items that are listed step by step
MAX_DECIBANS = 3000.0  # beyond which odds are infinite in double precision
MIN_LISTED, MAX_LISTED = 12, 24  # items of a table,
MAX_SHARE_UNLISTED = 0.25  # of all evidence, above which more items are listed
MIN_DECIBANS_EXPLAINED = 0.5  # of an item that is not a column or word: weaker ones are not explained
MIN_DECIBANS_APART = 1.0  # for and against, of items that are not shown, to be listed separately
CORRECTION = "class balance (correction)"
ABSENT = "(common words that are absent)"
TOGETHER = "together"
CONSTANTS = (CORRECTION, ABSENT)  # the same in every text
# Evidence that belongs to no single column or word, explained.
MEANINGS = {
    CORRECTION: "a constant fitted on left-out rows, because the other evidence favours one class on average.",
    ABSENT: "the evidence of common words that are absent from this text.",
    TOGETHER: "the evidence of columns in combination, and a constant that corrects the class balance.",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evidence(Result):
    """Why one row is `target` rather than `against`: prior + Σ evidence = total, all in decibans (dB).

    10 dB is ten to one, 3 dB about two to one; negative values favour `against`. `items` are (name, value, dB), the
    strongest first, with None for a missing value. `probability` is the posterior of `target` among all classes.

    >>> from deciban import BernoulliNB
    >>> why = BernoulliNB(alpha=0).fit([[1], [1], [1], [0]], ["a", "a", "b", "b"]).explain([[1]], names=["wings"])
    >>> why.target, why.against, round(why.total, 2), round(why.probability, 2)
    ('a', 'b', 3.01, 0.67)
    >>> [(name, value, round(db, 2)) for name, value, db in why.items]
    [('wings', 1, 3.01)]
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

    def to_table(self, most: int | None = None) -> Table:
        """The strongest items, with bars on one scale; the others summed, and the total, without bars.

        By default 12 items are listed, or up to 24 if the others are more than a quarter of all evidence.
        """
        most = self._enough() if most is None else most
        terms: list[tuple[str, Any, float]] = [("prior odds", "", self.prior), *self.items[:most]]
        rows: list[tuple[Any, ...]] = [
            (name, self.shown_value(value), signed(db, 2), bar)
            for (name, value, db), bar in zip(terms, signed_bars([db for _, _, db in terms]), strict=True)
        ]
        rows += [(what, "", signed(db, 2), "") for what, db in self.rest(self.items[most:])]
        rows.append(("total", f"P = {self.probability:.4f}", signed(self.total, 2), ""))
        odds = f"{self.target} rather than {self.against}: {signed(self.total, 2)} dB"
        title = f"{odds}, P({self.target}) = {self.probability:.4f}"
        colours = [{"+": "green", "-": "red"}.get(row[2][0], "") for row in rows]
        return Table(title, ("evidence", "value", "dB", ""), rows, len(rows), right=("dB",), colours=colours)

    def _enough(self) -> int:
        """How many items to list, so that the others are little."""
        sizes = np.nan_to_num([abs(db) for _, _, db in self.items], posinf=0.0)
        listed = np.cumsum(sizes)
        enough = int(np.searchsorted(listed, (1.0 - MAX_SHARE_UNLISTED) * sizes.sum())) + 1
        return int(np.clip(enough, MIN_LISTED, MAX_LISTED))

    def _parts(self) -> list[Table | str]:
        return [self.to_table(), *self.meanings()]

    def _repr_html_(self) -> str:
        """In a notebook, all evidence step by step can be unfolded: how each item changes the odds."""
        steps = self.step_table()._repr_html_()
        return f"{Result._repr_html_(self)}<details><summary>Step by step</summary>{steps}</details>"

    def step_table(self) -> Table:
        """From the prior odds on, the strongest first: how each item multiplies the odds, and the odds after it."""
        rows, so_far = [], 0.0
        for name, value, db in [("prior odds", "", self.prior), *self.items]:
            so_far += db
            rows.append((name, self.shown_value(value), signed(db, 2), f"× {number(ratio(db))}", odds(so_far)))
        columns = ("evidence", "value", "dB", "times", "odds so far")
        return Table(f"odds of {self.target} to {self.against}", columns, rows, MAX_STEPS, right=columns[2:])

    def meanings(self) -> list[str]:
        """Explanations of items that belong to no single column or word, a sentence each."""
        own = {  # in a column of text, they are "column: item"
            name.rpartition(": ")[2]: name for name, _, db in self.items if abs(db) >= MIN_DECIBANS_EXPLAINED
        }
        return [f"{own[name]}: {meaning}" for name, meaning in MEANINGS.items() if name in own]

    def rest(self, items: Sequence[tuple[str, Any, float]], what: str = "") -> list[tuple[str, float]]:
        """The sum of items that are not shown; of those for and those against, where both are more than a little."""
        pro, con = ([db for _, _, db in items if (db > 0) == side] for side in (True, False))
        total = float(sum(pro) + sum(con))
        if sum(pro) >= MIN_DECIBANS_APART and -sum(con) >= MIN_DECIBANS_APART and np.isfinite(total):
            sides = ((pro, self.target), (con, self.against))
            return [(f"{len(side)} more{what} for {label}", float(sum(side))) for side, label in sides]
        return [(f"{len(items)} more{what}", 0.0 if np.isnan(total) else total)] if items else []  # ∞ − ∞ counts as 0

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
        named += [(self.item_label(name, value), db) for name, value, db in self.items[:most]]
        return named + self.rest(self.items[most:])

    def item_label(self, name: str, value: Any) -> str:
        """An item as one line of text."""
        shown = self.shown_value(value)
        return f"{name} = {shown}" if shown else name

    def shown_value(self, value: Any) -> str:
        """The value of an item, as people write it."""
        if value is None:
            return "missing"
        return value_text(value) if isinstance(value, float) else str(value)


def ratio(db: float) -> float:
    """Decibans as a ratio."""
    return 10.0 ** (db / 10.0) if abs(db) <= MAX_DECIBANS else db if np.isnan(db) else np.inf if db > 0 else 0.0


def odds(db: float) -> str:
    """Decibans as odds.

    >>> odds(10.0), odds(-3.0), odds(-np.inf)
    ('10 : 1', '1 : 1.995', '1 : ∞')
    """
    return f"1 : {number(ratio(-db))}" if db < 0 else f"{number(ratio(db))} : 1"


def grouping(by: str | None, experts: bool) -> str:
    """What evidence is listed by: "column" (in a text, that is "word"), "item" or "expert", if there are any."""
    if by is None or by in ("column", "word"):
        return "column"
    if by == "expert" and not experts:
        raise DecibanError("the model has no experts: by='expert' is for a model of a table that combines several")
    if by not in ("item", "expert"):
        raise DecibanError("by is {by!r}: it must be 'column', 'word', 'item' or 'expert'", by=by)
    return by
