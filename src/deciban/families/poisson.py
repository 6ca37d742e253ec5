"""Poisson: counts with a rate per column and class; Gamma prior as pseudo-rows at a guessed rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deciban._scipy import gammaln, xlogy
from deciban._typing import Array, Floats, Matrix, Sums
from deciban.algebra import add_prior, without
from deciban.families.base import Family, Values
from deciban.families.linear import finite, groups, integrated_out, score, slopes, spread
from deciban.matrix import entries, missing_mask, row_sums
from deciban.measure import Measure, One, X
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term


@dataclass(frozen=True, slots=True)
class PoissonParams:
    rate: Floats  # (k, d)
    rows: Floats | None = None  # (k, d) rows behind the rate, for the posterior predictive


@dataclass(frozen=True, slots=True)
class Poisson(Family):
    """Counts. The prior is `alpha` pseudo-rows with `guess` events each: Gamma(alpha·guess, alpha).

    `predictive` integrates the rate out, which gives the negative binomial.
    """

    name: ClassVar[str] = "poisson"
    values: ClassVar[Values] = "counts"
    apart: ClassVar[bool] = True
    predictive: bool = False
    guess: float = 1.0

    def measures(self, columns: Columns) -> tuple[Measure, ...]:
        del columns
        return (One(), X())

    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        table = spread(alpha, len(sums["x"]), columns.size)
        return {"one": table, "x": table * self.guess}

    def estimate(self, sums: Sums, columns: Columns) -> PoissonParams:
        del columns
        events = sums["x"]
        seen = np.broadcast_to(sums["one"], events.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(seen > 0, events / np.where(seen > 0, seen, 1.0), self.guess)
        return PoissonParams(rate, np.where(seen > 0, seen, 0.0) if self.predictive else None)

    def expect(self, params: PoissonParams, columns: Columns) -> Sums:
        del columns
        return {"one": np.ones_like(params.rate), "x": params.rate}

    def log_prob(self, params: PoissonParams, columns: Columns, X: Matrix) -> Floats:
        del columns
        rows, at, values = entries(X)
        n = X.shape[0]
        if params.rows is None:
            zero, log_rate = -params.rate, _log(params.rate)
            out = score(X, zero, log_rate, finite(log_rate))
            return out - row_sums(gammaln(values + 1.0), rows, n)[:, None]
        out = np.empty((n, len(params.rate)))
        zero = _predictive(np.zeros(params.rate.shape), params.rate, params.rows)
        missing = missing_mask(X)
        for c in range(len(params.rate)):
            log_density = _predictive(values, params.rate[c, at], params.rows[c, at]) - zero[c, at]
            out[:, c] = row_sums(log_density, rows, n) + zero[c].sum()
            if missing is not None:
                out[:, c] -= missing @ zero[c]
        return out

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        prior = self.pseudo(alpha, columns, sums)
        out = self.log_prob(self.estimate(add_prior(sums, prior), columns), columns, X)
        for c, w, rows in groups(y, weight):
            block = X[rows]
            events, seen = sums["x"][c], np.broadcast_to(sums["one"], sums["x"].shape)[c]
            left = without(seen, w) + prior["one"][c]
            at_row, at, values = entries(block)
            # Without a row in which the column is zero, the events stay and the rows are fewer. If no other row is
            # left, there are no events either: any in the sum belong to a row that had some.
            stay = np.where(without(seen, w) <= 0, 0.0, events) + prior["x"][c]
            zero = self.estimate({"x": stay[None], "one": left[None]}, columns)
            remain = without(events[at], w * values) + prior["x"][c, at]
            there = self.estimate({"x": remain[None], "one": left[at][None]}, columns)
            if self.predictive:
                assert zero.rows is not None
                assert there.rows is not None
                base = _predictive(np.zeros(columns.size), zero.rate[0], zero.rows[0])
                log_density = _predictive(values, there.rate[0], there.rows[0])
            else:
                base = -zero.rate[0]
                log_density = xlogy(values, there.rate[0]) - there.rate[0] - gammaln(values + 1.0)
            total = row_sums(log_density - base[at], at_row, len(rows)) + base.sum()
            missing = missing_mask(block)
            if missing is not None:
                total -= missing @ base
            out[rows, c] = total
        return out

    def sample(
        self, params: PoissonParams, columns: Columns, y: Array, rng: np.random.Generator, length: Array
    ) -> Floats:
        del columns, length
        rate = params.rate[y]
        if params.rows is not None:  # a rate for every entry, from its posterior
            rows = params.rows[y]
            shape = np.where(rows > 0, rate * rows, 0.0)
            rate = np.where(shape > 0, rng.gamma(shape, 1.0 / np.where(rows > 0, rows, 1.0)), rate)
        return rng.poisson(rate).astype(np.float64)

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        """Up to Σ log x!, which does not depend on the prior and is not in the sums."""
        del columns
        a, b = prior["x"], prior["one"]
        return np.asarray(
            (gammaln(a + sums["x"]) - gammaln(a) + xlogy(a, b) - (a + sums["x"]) * np.log(b + sums["one"])).sum(axis=1)
        )

    def terms(self, params: PoissonParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        del columns
        row = np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=float).ravel()
        at = np.flatnonzero(~np.isnan(row))
        value, rate = row[at, None], params.rate[:, at].T
        if params.rows is not None:
            return at, _predictive(np.broadcast_to(value, rate.shape), rate, params.rows[:, at].T)
        return at, xlogy(value, rate) - rate - gammaln(value + 1.0)

    def typical(self, params: PoissonParams, columns: Columns) -> tuple[list[str], Floats]:
        return [columns.name(j) for j in range(columns.size)], _log(params.rate).T

    def table(self, params: PoissonParams, columns: Columns) -> dict[str, Floats]:
        del columns
        return {"rate": params.rate}

    def linear(self, params: PoissonParams, columns: Columns) -> tuple[list[str], Floats, Floats]:
        """log p = Σ_j x_j log λ_j − Σ_j λ_j, without log x!, which is the same for every class."""
        return [columns.name(j) for j in range(columns.size)], _log(params.rate), -params.rate.sum(axis=1)

    def term(self, params: PoissonParams, columns: Columns, sketch: Sketch) -> Term:
        """The linear form: log x! is left out, which is the same for every class."""
        if params.rows is not None:
            raise integrated_out(self.name)
        return slopes(sketch, columns, -params.rate, _log(params.rate))


def _log(rate: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(rate)


def _predictive(values: Floats, rate: Floats, rows: Floats) -> Floats:
    """log of the negative binomial: x events in one more row, after `rate·rows` events in `rows` rows."""
    shape = rate * rows
    safe = np.where(shape > 0, shape, 1.0)
    log_density = (
        gammaln(safe + values)
        - gammaln(safe)
        - gammaln(values + 1.0)
        + xlogy(safe, rows / (rows + 1.0))
        - values * np.log1p(rows)
    )
    plain = xlogy(values, rate) - rate - gammaln(values + 1.0)  # no rows: only the guess
    return np.asarray(np.where(shape > 0, log_density, np.where(rows > 0, np.where(values > 0, -np.inf, 0.0), plain)))
