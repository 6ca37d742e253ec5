"""Explanation: log-odds are a sum, so every column's share of a decision is a number of decibans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats
from deciban.bayes import DECIBANS, log_evidence
from deciban.joint import Model
from deciban.schema import Columns
from deciban.show import AGAINST, FOR, Result, Table, axes, bars, label, number, plain

BARS = 20  # of a picture


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evidence(Result):
    """Why one row is `target` rather than `against`: prior + Σ evidence = total, all in decibans (dB).

    10 dB is ten to one, 3 dB about two to one, negative speaks for `against`. `items` are (name, value, dB), the
    strongest first. `probability` is the posterior of `target` among all classes.
    """

    target: Any
    against: Any
    prior: float
    items: tuple[tuple[str, Any, float], ...]
    probability: float

    @property
    def total(self) -> float:
        """10·log₁₀ of the posterior odds of `target` over `against`.

        Where one column rules out one class and another the other, 0/0 is answered by the prior.
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
        rows: list[tuple[Any, ...]] = [("prior odds", "", f"{self.prior:+.2f}", _bar(self.prior))]
        rows += [(name, _value(value), f"{db:+.2f}", _bar(db)) for name, value, db in shown]
        for what, db in self._rest(self.items[most:]):
            rows.append((what, "", f"{db:+.2f}", _bar(db)))
        rows.append(("total", f"P = {self.probability:.4f}", f"{self.total:+.2f}", _bar(self.total)))
        odds = f"{self.target} rather than {self.against}: {self.total:+.2f} dB"
        title = f"{odds}, P({self.target}) = {self.probability:.4f}"
        colours = ["green" if db.startswith("+") else "red" for _, _, db, _ in rows]
        return Table(title, ("evidence", "value", "dB", ""), rows, len(rows), right=("dB",), colours=colours)

    def _rest(self, items: Sequence[tuple[str, Any, float]]) -> list[tuple[str, float]]:
        """What the items that are not shown come to; ∞ − ∞ speaks for neither class."""
        total = float(sum(db for _, _, db in items))
        return [(f"{len(items)} more", 0.0 if np.isnan(total) else total)] if items else []

    def to_frame(self) -> Any:
        """A pandas data frame of the items (an optional dependency)."""
        return Table("", ("name", "value", "decibans"), list(self.items)).to_frame()

    def plot(self, ax: Any = None) -> Any:
        """Bars of evidence, with matplotlib (an optional dependency); returns the axes."""
        names, values = zip(*self.steps(BARS), strict=True)
        ax = axes(ax, len(names))
        bars(ax, names, values, [FOR if db >= 0 else AGAINST for db in values])
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel(label(f"evidence for {self.target} over {self.against} (dB)"))
        return ax

    def steps(self, most: int = BARS) -> list[tuple[str, float]]:
        """What adds up to the total, by name: the prior odds, the strongest items, and what all others come to."""
        said = [("prior odds", self.prior)]
        said += [(self._called(name, value), db) for name, value, db in self.items[:most]]
        return said + self._rest(self.items[most:])

    def _called(self, name: str, value: Any) -> str:
        """An item in a line."""
        return f"{name} = {_value(value)}" if _value(value) else name


def _value(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _bar(decibans: float) -> str:
    """A bar, one mark for 2 dB, twelve at most."""
    size = min(12, round(abs(decibans) / 2)) if np.isfinite(decibans) else 12
    return ("+" if decibans >= 0 else "-") * int(size)


def explain(model: Model, data: Data, target: int | None = None, against: int | None = None) -> Evidence:
    """One row's evidence for a class over another; without them, for the likeliest over the runner-up."""
    log_joint = model.log_joint(data)[0]
    target, against = sides(log_joint, model.classes, target, against)
    prior = 0.0
    if model.generative:
        prior = float((model.log_prior[target] - model.log_prior[against]) * DECIBANS)
    items: list[tuple[str, Any, float]] = []
    for b, X in enumerate(data):
        columns = model.columns(b)
        row = X.toarray().ravel() if issparse(X) else np.asarray(X).ravel()
        at, said = model.joint.blocks[b].family.terms(model.params[b], columns, X)
        for j, db in zip(at, difference(said, target, against) * DECIBANS, strict=True):
            value = plain(row[j])
            if columns.categories is not None:
                known = columns.categories[j]
                value = known[int(value)] if int(value) < len(known) else "(never seen)"
            items.append((called(columns, row, int(j)), plain(value), float(db)))
        rest = model.joint.blocks[b].family.rest(model.params[b], columns, X)
        if rest is not None:
            items.append((rest[0], rest[1], float(rest[2][target] - rest[2][against]) * DECIBANS))
    items.sort(key=lambda item: -abs(item[2]))
    evidence = log_evidence(log_joint[None])[0]
    probability = np.exp(log_joint[target] - evidence) if np.isfinite(evidence) else np.exp(model.log_prior[target])
    names = model.classes
    return Evidence(plain(names[target]), plain(names[against]), prior, tuple(items), float(probability))


def called(columns: Columns, row: Array, j: int) -> str:
    """What a column's item is called: where its parent's value is known, that is part of what speaks."""
    on = columns.parents[j] if columns.parents is not None else -1
    if on < 0 or columns.categories is None or not 0 <= row[on] < len(columns.categories[on]):
        return columns.name(j)
    return f"{columns.name(j)} given {columns.item(on, int(row[on]))}"


def sides(log_joint: Floats, classes: Array, target: int | None, against: int | None) -> tuple[int, int]:
    """The two classes to weigh: those that were named, or else the likeliest."""
    if len(classes) < 2:
        raise ValueError("there is only one class, so there is nothing to explain it against")
    order = np.argsort(-log_joint, kind="stable")
    target = int(next(c for c in order if c != against)) if target is None else target
    against = int(next(c for c in order if c != target)) if against is None else against
    if target == against:
        raise ValueError(f"evidence for {classes[target]} over itself is always 0: name another class")
    return target, against


def difference(said: Floats, target: int, against: int) -> Floats:
    """log-odds of every term; where both classes call it impossible (or certain), it speaks for neither."""
    a, b = said[:, target], said[:, against]
    neither = np.isinf(a) & (a == b)
    return np.asarray(np.where(neither, 0.0, a) - np.where(neither, 0.0, b))


def strongest(model: Model, target: int, most: int) -> list[tuple[str, float]]:
    """What speaks most for a class: each item's evidence for it against the other classes, in decibans.

    For words and categories: log P(item | class) over the others' average probability. For Gaussian columns:
    what a value drawn from the class says on average.
    """
    if len(model.classes) < 2:
        raise ValueError("there is only one class, so nothing speaks for it against another")
    items: list[tuple[str, float]] = []
    others = np.arange(len(model.classes)) != target
    weights = np.exp(model.log_prior[others])
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1.0 / len(weights))
    for b, block in enumerate(model.joint.blocks):
        names, said = block.family.typical(model.params[b], model.columns(b))
        if block.family.says_evidence:
            evidence = said[:, target]
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                evidence = said[:, target] - np.log(np.exp(said[:, others]) @ weights)
        evidence = np.nan_to_num(evidence, nan=0.0, posinf=np.inf, neginf=-np.inf)
        items += [(names[int(j)], float(evidence[j] * DECIBANS)) for j in np.argsort(-evidence)[:most]]
    return sorted(items, key=lambda item: -item[1])[:most]
