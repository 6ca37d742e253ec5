"""What a private model cost: the noise in each statistic, and what it does and does not protect."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from deciban.errors import FileError, SchemaError
from deciban.show import Result, Table, number

MAX_ENTRIES = 1 << 20
PROTECTED = "Protected: whether any one row was learned, and its values and label. Neighbours differ by one row."
NOT_PROTECTED = (
    "Not protected: names of columns, bounds, categories, classes and parameters, which were declared; a person with "
    "several rows (ε grows with their number); rows that other releases were made from, too (their ε add up)."
)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The noise in one statistic of one column, in the units of the data."""

    statistic: str
    column: str  # "" if it is about rows
    sensitivity: float  # the most that one row changes it
    budget: float  # ε of Laplace noise, ρ of Gaussian noise
    scale: float  # of the noise: b of Laplace noise, σ of Gaussian noise


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ledger(Result):
    """The privacy budget of a model, statistic by statistic.

    Neighbouring data differ by one row, added or removed. A row is in one class, so statistics of several classes cost
    as much as those of one (parallel composition); those of several columns add up (sequential composition).
    `models` has the pair (ε, δ) of every model that was merged into this one; if no row is in two of them, the largest
    holds, `epsilon` and `delta`. Merged noise has the scale of the root of the sum of squares.

    >>> Ledger(((1.0, 0.0),), (LedgerEntry("rows", "", 1, 0.5, 2.0), LedgerEntry("Σx", "age", 50, 0.5, 100.0)))
    differential privacy: ε = 1, δ = 0, Laplace noise
    <BLANKLINE>
    statistic  column  sensitivity    ε  noise scale
    rows                         1  0.5            2
    Σx         age              50  0.5          100
    <BLANKLINE>
    Protected: whether any one row was learned, and its values and label. Neighbours
    differ by one row.
    <BLANKLINE>
    Not protected: names of columns, bounds, categories, classes and parameters,
    which were declared; a person with several rows (ε grows with their number);
    rows that other releases were made from, too (their ε add up).
    """

    models: tuple[tuple[float, float], ...]
    entries: tuple[LedgerEntry, ...]

    @property
    def epsilon(self) -> float:
        return max(epsilon for epsilon, _ in self.models)

    @property
    def delta(self) -> float:
        return max(delta for _, delta in self.models)

    @property
    def mechanism(self) -> str:
        return "Gaussian" if self.delta else "Laplace"

    def __add__(self, other: Ledger) -> Ledger:
        """The ledger of merged sums: the noise of both."""
        mine, theirs = ([(e.statistic, e.column, e.sensitivity) for e in one.entries] for one in (self, other))
        if mine != theirs or self.mechanism != other.mechanism:
            raise SchemaError(
                "cannot merge private models with different bounds or kinds of noise: make both with the same bounds, "
                "categories and classes, and delta=0 or delta > 0 in both"
            )
        both = (
            replace(a, budget=max(a.budget, b.budget), scale=math.hypot(a.scale, b.scale))
            for a, b in zip(self.entries, other.entries, strict=True)
        )
        return Ledger(self.models + other.models, tuple(both))

    def scaled(self, share: float) -> Ledger:
        """The ledger of sums times a number, such as after decay."""
        both = (replace(e, sensitivity=e.sensitivity * share, scale=e.scale * share) for e in self.entries)
        return replace(self, entries=tuple(both))

    def to_dict(self) -> dict[str, Any]:
        names = [field.name for field in fields(LedgerEntry)]
        return {
            "models": [list(pair) for pair in self.models],
            "entries": [{name: getattr(entry, name) for name in names} for entry in self.entries],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Ledger:
        """The inverse of `to_dict`, with everything checked."""
        models = tuple((checked(epsilon), checked(delta)) for epsilon, delta in stored["models"])
        if not models or len(stored["entries"]) > MAX_ENTRIES:
            raise FileError("its privacy ledger has no model, or too many entries")
        entries = []
        for entry in stored["entries"]:
            if not isinstance(entry["statistic"], str) or not isinstance(entry["column"], str):
                raise FileError("its privacy ledger has a statistic without a name")
            numbers = (checked(entry[name]) for name in ("sensitivity", "budget", "scale"))
            entries.append(LedgerEntry(entry["statistic"], entry["column"], *numbers))
        return cls(models, tuple(entries))

    def to_table(self) -> Table:
        rows = [(e.statistic, e.column, float(e.sensitivity), e.budget, e.scale) for e in self.entries]
        budget = "ρ" if self.delta else "ε"
        return Table("", ("statistic", "column", "sensitivity", budget, "noise scale"), rows)

    def _parts(self) -> list[Table | str]:
        # number() rather than :g, so that the title is as the table
        title = f"differential privacy: ε = {number(self.epsilon)}, δ = {number(self.delta)}, {self.mechanism} noise"
        merged = []
        if len(self.models) > 1:
            title += f", {len(self.models)} models merged"
            total = number(sum(epsilon for epsilon, _ in self.models))
            merged = [
                f"ε holds for rows that only one of the models has learned; for rows that all have, ε is {total}."
            ]
        return [title, self.to_table(), PROTECTED, *merged, NOT_PROTECTED]

    def to_frame(self) -> Any:
        """A pandas data frame of the entries (an optional dependency)."""
        return self.to_table().to_frame()


def checked(value: Any) -> float:
    """A number from a file: finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise FileError(f"{value!r} in its privacy ledger is not a budget, a sensitivity or a scale")
    return float(value)
