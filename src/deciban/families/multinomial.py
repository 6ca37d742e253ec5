"""Multinomial: a bag of words, P(D | class) = Π_w θ_w^n(w) (S3, S4); Dirichlet pseudo-counts (S6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deciban._kernel import scores as kernel
from deciban._scipy import gammaln, issparse, xlogy
from deciban._typing import Array, Floats, Matrix, Sums
from deciban.algebra import without
from deciban.families.base import Family, Scorer, Values
from deciban.families.linear import Linear, integrated_out, score, slopes, spread
from deciban.matrix import as_value, entries, row_length, row_sums
from deciban.measure import RESIDUE, Measure, X
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term

MAX_DISTINCT_COUNTS = 32  # of words in documents, for which a table each is made


@dataclass(frozen=True, slots=True)
class MultinomialParams:
    log_theta: Floats  # (k, d)
    pseudo: Floats | None = None  # (k, d) Dirichlet parameters, for the posterior predictive


@dataclass(frozen=True, slots=True)
class Multinomial(Family):
    """Counts of words. `predictive` integrates θ out: the Dirichlet-multinomial distribution of a whole document."""

    name: ClassVar[str] = "multinomial"
    values: ClassVar[Values] = "counts"
    apart: ClassVar[bool] = True
    predictive: bool = False

    @property
    def by_column(self) -> bool:
        return False

    def measures(self, columns: Columns) -> tuple[Measure, ...]:
        del columns
        return (X(),)

    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        return {"x": spread(alpha, len(sums["x"]), columns.size)}

    def estimate(self, sums: Sums, columns: Columns) -> MultinomialParams:
        counts = sums["x"]
        total = counts.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_theta = np.log(counts) - np.log(total)
        # A class without any word: all words are equally likely.
        log_theta = np.where(total > 0, log_theta, -np.log(max(1, columns.size)))
        return MultinomialParams(log_theta, counts if self.predictive else None)

    def expect(self, params: MultinomialParams, columns: Columns) -> Sums:
        del columns
        return {"x": np.exp(params.log_theta)}

    def log_prob(self, params: MultinomialParams, columns: Columns, X: Matrix) -> Floats:
        del columns
        if params.pseudo is not None:
            rows, at, values = entries(X)
            length = row_length(X)
            out = np.empty((X.shape[0], len(params.pseudo)))
            for c, pseudo in enumerate(params.pseudo):
                out[:, c] = dirichlet_multinomial(pseudo[at], values, rows, pseudo.sum(), length, len(pseudo))
            return out
        return score(X, None, params.log_theta)

    def scorer(self, params: MultinomialParams, columns: Columns, relative: bool = False) -> Scorer:
        if params.pseudo is not None:
            return Family.scorer(self, params, columns, relative)
        return Linear(None, params.log_theta)

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        prior = self.pseudo(alpha, columns, sums)["x"]
        counts = sums["x"]
        out = self.log_prob(self.estimate({"x": counts + prior}, columns), columns, X)
        length = row_length(X)
        w = np.ones(len(y)) if weight is None else weight
        total = without(counts.sum(axis=1)[y], w * length) + prior.sum(axis=1)[y]
        if self.predictive:
            rows, at, values = entries(X)
            left = without(counts[y[rows], at], w[rows] * values) + prior[y[rows], at]
            log_prob = dirichlet_multinomial(left, values, rows, total, length, columns.size)
        else:
            import scipy.sparse as sp

            log_prob = np.zeros(len(y))
            words = X if issparse(X) else sp.csr_matrix(X)
            with np.errstate(divide="ignore", invalid="ignore"):
                # `once` is never read if no row of a class has the word.
                fewer = without(counts, 1.0)
                once = np.where(fewer >= 0, np.log(fewer + prior), 0.0)
                kernel.csr_own_logs(
                    as_value(words.data),
                    words.indices,
                    words.indptr,
                    y,
                    weight,
                    counts,
                    prior,
                    once,
                    RESIDUE,
                    log_prob,
                )
                log_prob = np.where(total > 0, log_prob - xlogy(length, total), -length * np.log(max(1, columns.size)))
        known = y >= 0
        out[known, y[known]] = log_prob[known]
        return out

    def without_each(self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix) -> Floats:
        values = np.unique(entries(X)[2])
        if self.predictive or len(values) > MAX_DISTINCT_COUNTS:
            return Family.without_each(self, sums, alpha, columns, X)  # super() does not work with slots
        counts, prior, length = sums["x"], self.pseudo(alpha, columns, sums)["x"], row_length(X)[:, None]
        out = np.zeros((X.shape[0], len(counts)))
        for value in values:  # words with the same count in a document share a table
            left = without(counts, value)
            with np.errstate(divide="ignore", invalid="ignore"):
                table = np.where(left < 0, 0.0, np.log(left + prior))
            out += value * score((X == value).astype(np.float64), None, table)
        total = without(counts.sum(axis=1), length) + prior.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_prob = np.where(total > 0, out - xlogy(length, total), -length * np.log(max(1, columns.size)))
        return np.asarray(log_prob)

    def sample(
        self, params: MultinomialParams, columns: Columns, y: Array, rng: np.random.Generator, length: Array
    ) -> Floats:
        out = np.zeros((len(y), columns.size))
        for c in np.unique(y):
            rows = np.flatnonzero(y == c)
            theta = np.exp(params.log_theta[c])
            theta = np.tile(theta / theta.sum(), (len(rows), 1))
            if params.pseudo is not None and params.pseudo[c].any():  # a θ for every document
                theta[:] = 0.0
                some = params.pseudo[c] > 0
                theta[:, some] = rng.dirichlet(params.pseudo[c][some], len(rows))
            out[rows] = rng.multinomial(length[rows], theta)
        return out

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        del columns
        return dirichlet_log_marginal(sums["x"], prior["x"])

    def terms(self, params: MultinomialParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        del columns
        _, at, values = entries(X)
        if params.pseudo is not None:  # the document's length is evidence too: see `rest`
            pseudo = params.pseudo[:, at].T
            return at, gammaln(np.where(pseudo > 0, pseudo, 1.0) + values[:, None]) - log_gamma(pseudo)
        return at, values[:, None] * params.log_theta[:, at].T

    def rest(self, params: MultinomialParams, columns: Columns, X: Matrix) -> tuple[str, float, Floats] | None:
        """With θ integrated out, the length of the document is evidence too: Γ(A)/Γ(A + N)."""
        del columns
        if params.pseudo is None:
            return None
        length, strength = float(row_length(X)[0]), params.pseudo.sum(axis=1)
        safe = np.where(strength > 0, strength, 1.0)
        return "(length)", length, gammaln(safe) - gammaln(safe + length)

    def typical(self, params: MultinomialParams, columns: Columns) -> tuple[list[str], Floats]:
        return [columns.name(j) for j in range(columns.size)], params.log_theta.T

    def table(self, params: MultinomialParams, columns: Columns) -> dict[str, Floats]:
        del columns
        return {"probability": np.exp(params.log_theta)}

    def linear(self, params: MultinomialParams, columns: Columns) -> tuple[list[str], Floats, Floats]:
        """S5: log P(D | class) = Σ_w n(w) log θ_w, with no offset of its own."""
        names = [columns.name(j) for j in range(columns.size)]
        return names, params.log_theta, np.zeros(len(params.log_theta))

    def term(self, params: MultinomialParams, columns: Columns, sketch: Sketch) -> Term:
        """The evidence of each word is multiplied by its count."""
        if params.pseudo is not None:
            raise integrated_out(self.name)
        return slopes(sketch, columns, np.zeros_like(params.log_theta), params.log_theta)


def dirichlet_log_marginal(counts: Floats, pseudo: Floats) -> Floats:
    """log of the Dirichlet-multinomial integral of each row of counts (a sequence of draws, in order)."""
    total, strength = counts.sum(axis=-1), pseudo.sum(axis=-1)
    inside = np.zeros(np.broadcast_shapes(counts.shape, pseudo.shape))
    some = np.nonzero(counts > 0)  # most words are not in most classes
    inside[some] = gammaln(counts[some] + pseudo[some]) - log_gamma(pseudo[some])
    safe = np.where(total > 0, strength, 1.0)
    log_prob = inside.sum(axis=-1) + gammaln(safe) - gammaln(safe + total)
    return np.asarray(np.where(total > 0, log_prob, 0.0), dtype=np.float64)


def log_gamma(pseudo: Floats) -> Floats:
    """log Γ, with Γ(0) = ∞: a word with no pseudo-count has probability zero."""
    return np.asarray(np.where(pseudo > 0, gammaln(np.where(pseudo > 0, pseudo, 1.0)), np.inf))


def dirichlet_multinomial(
    pseudo: Floats, values: Floats, rows: Array, strength: Floats | float, length: Floats, size: int
) -> Floats:
    """log p of each document's words in order, θ integrated out: Γ(A)/Γ(A+N) Π Γ(a_w+n_w)/Γ(a_w).

    With neither counts nor pseudo-counts (A = 0), all of `size` words are equally likely.
    """
    some = np.asarray(strength) > 0
    safe = np.where(some, strength, 1.0)
    log_prob = row_sums(gammaln(np.where(pseudo > 0, pseudo, 1.0) + values) - log_gamma(pseudo), rows, len(length))
    log_prob = np.where(some, log_prob + gammaln(safe) - gammaln(safe + length), -length * np.log(max(1, size)))
    return np.asarray(np.where(length > 0, log_prob, 0.0), dtype=np.float64)
