"""Bernoulli: word j is present or not, p(x_j = 1 | class) = φ_j (S8). An absent word is evidence too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deciban._scipy import betaln, issparse
from deciban._typing import Array, Floats, Matrix, Sums
from deciban.algebra import add_prior, without
from deciban.families.base import Family, Scorer, Values
from deciban.families.linear import Linear, groups, score, spread
from deciban.measure import Above, Measure, One
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term


@dataclass(frozen=True, slots=True)
class BernoulliParams:
    log_present: Floats  # (k, d) log φ
    log_absent: Floats  # (k, d) log (1 − φ)


@dataclass(frozen=True, slots=True)
class Bernoulli(Family):
    """Presence and absence. x counts as present above `threshold` (None: it is 0 or 1 already)."""

    name: ClassVar[str] = "bernoulli"
    values: ClassVar[Values] = "truths"
    apart: ClassVar[bool] = True
    threshold: float | None = 0.0

    def measures(self, columns: Columns) -> tuple[Measure, ...]:
        del columns
        return (One(), Above(self.threshold))

    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        table = spread(alpha, len(sums["x"]), columns.size)
        return {"one": 2.0 * table, "x": table, "alpha": table}

    def estimate(self, sums: Sums, columns: Columns) -> BernoulliParams:
        del columns
        present, alpha = sums["x"], sums.get("alpha", np.zeros(1))
        seen = np.broadcast_to(sums["one"], present.shape)
        # Rounding is relative to the counts: a small alpha must not be taken for the residue of a large count.
        absent = without(seen - 2.0 * alpha, present - alpha) + alpha
        with np.errstate(divide="ignore", invalid="ignore"):
            log_present, log_absent = np.log(present / seen), np.log(absent / seen)
        never = seen <= 0  # no row of this class has a value: both are equally likely
        half = -np.log(2.0)
        return BernoulliParams(np.where(never, half, log_present), np.where(never, half, log_absent))

    def expect(self, params: BernoulliParams, columns: Columns) -> Sums:
        del columns
        return {"one": np.ones_like(params.log_present), "x": np.exp(params.log_present)}

    def log_prob(self, params: BernoulliParams, columns: Columns, X: Matrix) -> Floats:
        del columns
        return score(X, params.log_absent, params.log_present, above=self.threshold)

    def scorer(self, params: BernoulliParams, columns: Columns, relative: bool = False) -> Scorer:
        del columns, relative
        return Linear(params.log_absent, params.log_present, above=self.threshold)

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        prior = self.pseudo(alpha, columns, sums)
        params = self.estimate(add_prior(sums, prior), columns)
        out = score(X, params.log_absent, params.log_present, above=self.threshold)
        seen = np.broadcast_to(sums["one"], sums["x"].shape)
        for c, w, rows in groups(y, weight):
            log_present, log_absent = log_probabilities_without(sums["x"][c], seen[c], prior["x"][c], w)
            out[rows, c] = score(X[rows], log_absent[None], log_present[None], above=self.threshold)[:, 0]
        return out

    def without_each(self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix) -> Floats:
        seen = np.broadcast_to(sums["one"], sums["x"].shape)
        log_present, log_absent = log_probabilities_without(
            sums["x"], seen, self.pseudo(alpha, columns, sums)["x"], 1.0
        )
        return score(X, log_absent, log_present, above=self.threshold)

    def sample(
        self, params: BernoulliParams, columns: Columns, y: Array, rng: np.random.Generator, length: Array
    ) -> Floats:
        del length
        return (rng.random((len(y), columns.size)) < np.exp(params.log_present)[y]).astype(np.float64)

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        del columns
        a, b = prior["x"], prior["one"] - prior["x"]
        present, absent = sums["x"], without(np.broadcast_to(sums["one"], sums["x"].shape), sums["x"])
        return np.asarray((betaln(a + present, b + absent) - betaln(a, b)).sum(axis=1))

    def terms(self, params: BernoulliParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        del columns
        row = np.asarray(X.toarray() if issparse(X) else X, dtype=float).ravel()
        at = np.flatnonzero(~np.isnan(row))
        there = row[at, None] > (self.threshold or 0.0)
        return at, np.where(there, params.log_present[:, at].T, params.log_absent[:, at].T)

    def typical(self, params: BernoulliParams, columns: Columns) -> tuple[list[str], Floats]:
        return [columns.name(j) for j in range(columns.size)], params.log_present.T

    def table(self, params: BernoulliParams, columns: Columns) -> dict[str, Floats]:
        del columns
        return {"probability": np.exp(params.log_present)}

    def linear(self, params: BernoulliParams, columns: Columns) -> tuple[list[str], Floats, Floats]:
        """log p = Σ_j log (1−φ_j) + Σ_j x_j log φ_j/(1−φ_j)."""
        if np.isneginf(params.log_absent).any() or np.isneginf(params.log_present).any():
            raise ValueError("a probability is exactly 0 or 1, so its weight would be infinite: use alpha > 0")
        names = [columns.name(j) for j in range(columns.size)]
        return names, params.log_present - params.log_absent, params.log_absent.sum(axis=1)

    def term(self, params: BernoulliParams, columns: Columns, sketch: Sketch) -> Term:
        """A word is missing, absent or present: three places."""
        from deciban.formula import ColumnPlace, Walks, independent_column

        cuts = np.array([self.threshold or 0.0])
        places = [sketch.place(ColumnPlace(one, cuts=cuts)) for one in sketch.numbers(columns)]
        table = np.stack([np.zeros_like(params.log_absent), params.log_absent, params.log_present])  # (3, k, d)
        return Walks(tuple(independent_column(place, table[:, :, j]) for j, place in enumerate(places)))


def log_probabilities_without(present: Floats, seen: Floats, pseudo: Floats, weight: float) -> tuple[Floats, Floats]:
    """log φ without a row of this weight that has the word, and log (1 − φ) without one that does not."""
    present_left, absent_left = without(present, weight), without(without(seen, present), weight)
    left = without(seen, weight) + 2.0 * pseudo
    with np.errstate(divide="ignore", invalid="ignore"):
        # If the count is below the weight, there is no such row: the entry is never read.
        log_present = np.where(present_left < 0, 0.0, np.log((present_left + pseudo) / left))
        log_absent = np.where(absent_left < 0, 0.0, np.log((absent_left + pseudo) / left))
    half = -np.log(2.0)
    return np.where(left > 0, log_present, half), np.where(left > 0, log_absent, half)
