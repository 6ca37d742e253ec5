"""Complement naive Bayes (Rennie et al. 2003): a class is scored by how little its complement explains the words.

Its counts are exactly total − class, so they add and subtract; but its score is not a log-density, so there is no p(x)
and no sampling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deciban._typing import Array, Floats, Matrix, Sums
from deciban.algebra import without
from deciban.errors import DecibanError
from deciban.families.base import Family, Scorer
from deciban.families.linear import Product, dot, finite, score, spread
from deciban.families.multinomial import Multinomial, MultinomialParams
from deciban.matrix import entries, row_length, row_sums
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term

CERTAIN = float(np.finfo(np.float64).max) / 4  # a finite score that outweighs any other


@dataclass(frozen=True, slots=True)
class Complement(Multinomial):
    """−log of the complement's smoothed word frequencies; `norm` divides them by their sum, as the paper does."""

    name: ClassVar[str] = "complement"
    generative: ClassVar[bool] = False
    apart: ClassVar[bool] = False
    norm: bool = False

    @classmethod
    def by_name(cls) -> Mapping[str, Family]:
        return {}

    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        return {"x": np.zeros_like(sums["x"]), "complement": spread(alpha, len(sums["x"]), columns.size)}

    def estimate(self, sums: Sums, columns: Columns) -> MultinomialParams:
        """`log_theta` here holds the weights w = −log θ̃ (or normalised), which score like a log θ."""
        del columns
        counts = sums["x"]
        return MultinomialParams(self._weights(counts.sum(axis=0) - counts + sums.get("complement", 0.0)))

    def _weights(self, complement: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(complement / complement.sum(axis=1, keepdims=True))
            weights = logs / logs.sum(axis=1, keepdims=True) if self.norm else -logs
        return np.where(np.isnan(weights), 0.0, weights)

    def log_prob(self, params: MultinomialParams, columns: Columns, X: Matrix) -> Floats:
        k = len(params.log_theta)
        out = np.empty((X.shape[0], k))
        self.scorer(params, columns)(X, np.zeros(k), out)
        return out

    def scorer(self, params: MultinomialParams, columns: Columns, relative: bool = False) -> Scorer:
        del columns, relative
        endless = np.isposinf(params.log_theta)
        product, certain = Product(np.where(endless, 0.0, params.log_theta).T), bool(endless.any())

        def write(X: Matrix, start: Floats, out: Floats) -> None:
            product.write(X, start, out)
            if certain:  # a word that only this class has, without smoothing
                out[np.asarray((X > 0) @ endless.astype(float).T) > 0.5] = CERTAIN

        return write

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        """Taking a row out of class y changes the complement of every other class, but not of y."""
        prior = self.pseudo(alpha, columns, sums)["complement"]
        counts = sums["x"]
        others = counts.sum(axis=0) - counts
        complement = others + prior
        out = self.log_prob(MultinomialParams(self._weights(complement)), columns, X)
        rows, at, values = entries(X)
        length = row_length(X)
        w = np.ones(len(y)) if weight is None else weight
        taken = w[rows] * values
        # Most words occur once, in a row of weight one: these share a table, log (complement − 1).
        once = (values == 1.0) & (taken == 1.0)
        often = np.flatnonzero(~once)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows[once], minlength=len(y)))])
        import scipy.sparse as sp

        words = sp.csr_matrix((values[once], at[once], starts), shape=X.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(complement)
            # Never read for a complement without the word.
            fewer = without(others, 1.0)
            left = np.where(fewer >= 0, np.log(fewer + prior), 0.0)
        log_without = score(words, None, left)
        change, emptied = log_without, log_without
        if self.norm:
            change = dot(words, (finite(left) - finite(logs)).T)[0]
            emptied = dot(words, np.isneginf(left).astype(float).T)[0]
        for c in range(len(counts)):
            with np.errstate(divide="ignore", invalid="ignore"):
                after = np.log(without(others[c, at[often]], taken[often]) + prior[c, at[often]])
                total = without(others[c].sum(), w * length) + prior[c].sum()
                mine = log_without[:, c] + row_sums(values[often] * after, rows[often], len(y)) - length * np.log(total)
                if self.norm:
                    norm = logs[c].sum() + change[:, c] + row_sums(after - logs[c, at[often]], rows[often], len(y))
                    mine = mine / (norm - columns.size * np.log(total))
                    # A word the complement lacks, without smoothing, has infinite norm: divided by it, the score is 0.
                    mine = np.where((emptied[:, c] > 0) | ~np.isfinite(norm), 0.0, mine)
                else:
                    mine = -mine
            mine = np.where(np.isposinf(mine), CERTAIN, np.where(np.isnan(mine), 0.0, mine))
            mine = np.where(total > 0, mine, 0.0)  # the complement is empty: the score is 0
            changed = (y != c) & (y >= 0)
            out[changed, c] = mine[changed]
        return out

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        del sums, prior, columns
        raise TypeError("complement naive Bayes is not a generative model: it has no marginal likelihood")

    def term(self, params: MultinomialParams, columns: Columns, sketch: Sketch) -> Term:
        if np.isposinf(params.log_theta).any():
            raise DecibanError(
                "a word that occurs in only one class is infinite evidence for it, which cannot be added up: use "
                "alpha > 0"
            )
        return Multinomial.term(self, params, columns, sketch)
