"""Categorical: column i takes value c with probability θ_ic given the class (S7); Laplace (#+α)/(n+α|X_i|) (S9).

Rows are category codes: a negative code or NaN is missing, a code past the known ones is a category that was never
seen, which has the prior's probability: that of a known category without counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deciban._kernel import scores as kernel
from deciban._typing import Array, Categories, Floats, Matrix, Sums
from deciban.algebra import add_prior, without
from deciban.families.base import Family, Scorer, Values
from deciban.families.linear import by_code, spread
from deciban.families.multinomial import dirichlet_log_marginal
from deciban.measure import Is, Measure, column_totals
from deciban.schema import Bins, Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term


@dataclass(frozen=True, slots=True)
class CategoricalParams:
    log_theta: Floats  # (k, cells)
    log_unseen: Floats  # (k, d) a category not in the schema


@dataclass(frozen=True, slots=True)
class Categorical(Family):
    """One table of category probabilities per column and class."""

    name: ClassVar[str] = "categorical"
    values: ClassVar[Values] = "categories"
    apart: ClassVar[bool] = True

    def measures(self, columns: Columns) -> tuple[Measure, ...]:
        return (Is(tuple(columns.offsets.tolist())),)

    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        table = spread(alpha, len(sums["is"]), columns.size)
        return {"is": np.repeat(table, np.diff(columns.offsets), axis=1), "unseen": table}

    def estimate(self, sums: Sums, columns: Columns) -> CategoricalParams:
        counts = sums["is"]
        total = column_totals(counts, columns)
        sizes = np.diff(columns.offsets)
        unseen = sums.get("unseen", np.zeros((len(counts), columns.size)))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_theta = np.log(counts) - np.log(np.repeat(total, sizes, axis=1))
            log_unseen = np.log(unseen) - np.log(total + unseen)
            even = -np.log(np.maximum(sizes, 1))  # a class without values in a column: uniform
        log_theta = np.where(np.repeat(total > 0, sizes, axis=1), log_theta, np.repeat(even, sizes))
        log_unseen = np.where(total + unseen > 0, log_unseen, -np.log(sizes + 1.0))
        return CategoricalParams(log_theta, log_unseen)

    def expect(self, params: CategoricalParams, columns: Columns) -> Sums:
        del columns
        return {"is": np.exp(params.log_theta)}

    def log_prob(self, params: CategoricalParams, columns: Columns, X: Matrix) -> Floats:
        k = len(params.log_theta)
        out = np.empty((X.shape[0], k))
        self.scorer(params, columns)(X, np.zeros(k), out)
        return out

    def scorer(self, params: CategoricalParams, columns: Columns, relative: bool = False) -> Scorer:
        del relative
        table, offsets = by_code(params.log_theta.T, params.log_unseen.T), columns.offsets

        def write(X: Matrix, start: Floats, out: Floats) -> None:
            kernel.code_scores(X, offsets, table, start, out)

        return write

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        prior = self.pseudo(alpha, columns, sums)
        out = self.log_prob(self.estimate(add_prior(sums, prior), columns), columns, X)
        offsets, counts = columns.offsets, sums["is"]
        sizes = np.diff(offsets)
        total = column_totals(counts, columns)
        y = np.ascontiguousarray(y, dtype=np.int32)
        weights = np.ones(1) if weight is None else np.unique(weight)
        for w in weights:  # rows of one weight share a table: log θ of each cell without such a row
            table = log_theta_without(counts, total, prior, sizes, w)
            rows = np.flatnonzero(y >= 0 if weight is None else (y >= 0) & (weight == w))
            own = np.zeros(len(rows))
            everything = len(rows) == len(y)
            kernel.code_own(
                X if everything else X[rows], y if everything else y[rows], offsets, np.ascontiguousarray(table), own
            )
            out[rows, y[rows]] = own
        return out

    def without_each(self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix) -> Floats:
        table = log_theta_without(
            sums["is"],
            column_totals(sums["is"], columns),
            self.pseudo(alpha, columns, sums),
            np.diff(columns.offsets),
            1.0,
        )
        k = len(table)
        out = np.empty((X.shape[0], k))
        kernel.code_scores(X, columns.offsets, by_code(table.T, np.zeros((columns.size, k))), np.zeros(k), out)
        return out

    def sample(
        self, params: CategoricalParams, columns: Columns, y: Array, rng: np.random.Generator, length: Array
    ) -> Floats:
        del length
        out = np.empty((len(y), columns.size))
        draws = rng.random((len(y), columns.size))
        for j, (start, stop) in enumerate(zip(columns.offsets[:-1], columns.offsets[1:], strict=True)):
            if start == stop:  # a column that was always missing
                out[:, j] = -1.0
                continue
            ladder = np.cumsum(np.exp(params.log_theta[:, start:stop]), axis=1)
            ladder /= ladder[:, -1:]
            out[:, j] = (draws[:, j, None] >= ladder[y]).sum(axis=1)
        return out

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        total = np.zeros(len(sums["is"]))
        for start, stop in zip(columns.offsets[:-1], columns.offsets[1:], strict=True):
            total += dirichlet_log_marginal(sums["is"][:, start:stop], prior["is"][:, start:stop])
        return total

    def terms(self, params: CategoricalParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        row = np.asarray(X, dtype=float).ravel()
        at = np.flatnonzero(~np.isnan(row) & (row >= 0))
        code = row[at].astype(np.intp)
        seen = code < np.diff(columns.offsets)[at]
        cell = np.where(seen, columns.offsets[at] + code, 0)
        return at, np.where(seen[:, None], params.log_theta.T[cell], params.log_unseen.T[at])

    def typical(self, params: CategoricalParams, columns: Columns) -> tuple[list[str], Floats]:
        return self._cells(columns), params.log_theta.T

    def table(self, params: CategoricalParams, columns: Columns) -> dict[str, Floats]:
        del columns
        return {"probability": np.exp(params.log_theta)}

    def linear(self, params: CategoricalParams, columns: Columns) -> tuple[list[str], Floats, Floats]:
        """Linear in the indicators 1[x_i = c], one for every cell."""
        return self._cells(columns), params.log_theta, np.zeros(len(params.log_theta))

    def term(self, params: CategoricalParams, columns: Columns, sketch: Sketch) -> Term:
        from deciban.formula import Walks, independent_column

        assert columns.categories is not None
        cells = np.split(params.log_theta, columns.offsets[1:-1], axis=1)
        unseen = np.split(params.log_unseen, columns.size, axis=1)
        tables = map(by_own_place, cells, unseen, columns.categories)
        return Walks(tuple(map(independent_column, sketch.categories(columns), tables)))

    @staticmethod
    def _cells(columns: Columns) -> list[str]:
        assert columns.categories is not None
        return [f"{columns.name(j)}={value}" for j, values in enumerate(columns.categories) for value in values]


def by_own_place(cells: Floats, unseen: Floats, known: Categories) -> Floats:
    """The evidence of a column in each of its places, (places, k), from that of its categories, (k, categories).

    The first place is that of a missing value, which is 0; the last that of an unseen category, unless the categories
    are intervals, which cover every number.
    """
    last = () if isinstance(known, Bins) else (unseen,)
    return np.hstack([np.zeros((len(cells), 1)), cells, *last]).T


def log_theta_without(counts: Floats, total: Floats, prior: Sums, sizes: Array, weight: float) -> Floats:
    """log θ of every cell, (k, cells), without a row of this weight that was counted in it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        left = without(counts, weight)
        rest = without(total, weight) + prior["unseen"] * sizes
        log_theta = np.log((left + prior["is"]) / np.repeat(rest, sizes, axis=1))
    log_theta = np.where(np.repeat(rest > 0, sizes, axis=1), log_theta, np.repeat(-np.log(np.maximum(sizes, 1)), sizes))
    return np.where(left < 0, 0.0, log_theta)  # no such row is in that cell: never read
