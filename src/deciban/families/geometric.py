"""Geometric: failures before the first success, P(x) = p (1 − p)^x; Beta prior as pseudo-rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deciban._scipy import betaln, issparse, xlogy  # imported when called: a saved model starts quickly
from deciban._typing import Array, Floats, Matrix, Sums
from deciban.algebra import add_prior, without
from deciban.families.base import Family, Values
from deciban.families.linear import integrated_out, slopes, spread
from deciban.measure import Measure, One, X
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term


@dataclass(frozen=True, slots=True)
class GeometricParams:
    p: Floats  # (k, d)
    rows: Floats | None = None  # (k, d) rows behind p, for the posterior predictive


@dataclass(frozen=True, slots=True)
class Geometric(Family):
    """Waiting. The prior is `alpha` pseudo-rows with `guess` failures each: Beta(alpha, alpha·guess).

    `predictive` integrates p out.
    """

    name: ClassVar[str] = "geometric"
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

    def estimate(self, sums: Sums, columns: Columns) -> GeometricParams:
        del columns
        rows = np.broadcast_to(sums["one"], sums["x"].shape)
        total = np.where(rows > 0, rows + sums["x"], 1.0)
        p = np.where(rows > 0, rows / total, 1.0 / (1.0 + self.guess))
        return GeometricParams(p, np.where(rows > 0, rows, 0.0) if self.predictive else None)

    def expect(self, params: GeometricParams, columns: Columns) -> Sums:
        del columns
        return {"one": np.ones_like(params.p), "x": (1.0 - params.p) / params.p}

    def log_prob(self, params: GeometricParams, columns: Columns, X: Matrix) -> Floats:
        del columns
        x = dense(X)
        out = np.empty((len(x), len(params.p)))
        for c in range(len(params.p)):
            out[:, c] = np.nansum(log_density(x, params.p[c], None if params.rows is None else params.rows[c]), axis=1)
        return out

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        prior = self.pseudo(alpha, columns, sums)
        out = self.log_prob(self.estimate(add_prior(sums, prior), columns), columns, X)
        known = np.flatnonzero(y >= 0)
        own, x = y[known], dense(X[known])
        w = np.ones((len(known), 1)) if weight is None else weight[known, None]
        rows = np.broadcast_to(sums["one"], sums["x"].shape)[own]
        remaining = {
            "one": without(rows, w) + prior["one"][own],
            "x": without(sums["x"][own], w * np.nan_to_num(x)) + prior["x"][own],
        }
        params = self.estimate(remaining, columns)  # one distribution per row: that of its class without it
        out[known, own] = np.nansum(log_density(x, params.p, params.rows), axis=1)
        return out

    def sample(
        self, params: GeometricParams, columns: Columns, y: Array, rng: np.random.Generator, length: Array
    ) -> Floats:
        del columns, length
        p = params.p[y]
        if params.rows is not None:  # a p for every entry, from its posterior
            failures = params.rows[y] * (1.0 - p) / p
            some = failures > 0
            p = np.where(some, rng.beta(np.where(some, params.rows[y], 1.0), np.where(some, failures, 1.0)), p)
        return rng.geometric(p).astype(np.float64) - 1.0

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        del columns
        a, b = prior["one"], prior["x"]
        return np.asarray((betaln(a + sums["one"], b + sums["x"]) - betaln(a, b)).sum(axis=1))

    def terms(self, params: GeometricParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        del columns
        row = dense(X)[0]
        at = np.flatnonzero(~np.isnan(row))
        rows = None if params.rows is None else params.rows[:, at]
        return at, log_density(row[at], params.p[:, at], rows).T

    def typical(self, params: GeometricParams, columns: Columns) -> tuple[list[str], Floats]:
        with np.errstate(divide="ignore"):
            return [columns.name(j) for j in range(columns.size)], np.log((1.0 - params.p) / params.p).T

    def table(self, params: GeometricParams, columns: Columns) -> dict[str, Floats]:
        del columns
        return {"p": params.p}

    def linear(self, params: GeometricParams, columns: Columns) -> tuple[list[str], Floats, Floats]:
        """log p(x) = Σ_j x_j log (1 − p_j) + Σ_j log p_j."""
        return [columns.name(j) for j in range(columns.size)], log_failure(params), np.log(params.p).sum(axis=1)

    def term(self, params: GeometricParams, columns: Columns, sketch: Sketch) -> Term:
        """The linear form, for SQL and ONNX."""
        if params.rows is not None:
            raise integrated_out(self.name)
        return slopes(sketch, columns, np.log(params.p), log_failure(params))


def dense(X: Matrix) -> Floats:
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)


def log_failure(params: GeometricParams) -> Floats:
    """log (1 − p); −∞ if no row has failures."""
    with np.errstate(divide="ignore"):
        return np.log1p(-params.p)


def log_density(x: Floats, p: Floats, rows: Floats | None) -> Floats:
    """log P(x), entry by entry; with `rows`, p is integrated out under Beta(rows, failures)."""
    plain = np.log(p) + xlogy(x, 1.0 - p)
    if rows is None:
        return np.asarray(plain)
    failures = rows * (1.0 - p) / p
    integrable = failures > 0  # otherwise p = 1, or there is only the guess: p is used as it is
    a, b = np.where(integrable, rows, 1.0), np.where(integrable, failures, 1.0)
    return np.asarray(np.where(integrable, betaln(a + 1.0, b + x) - betaln(a, b), plain))
