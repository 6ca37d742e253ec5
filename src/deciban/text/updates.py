"""What follows from the sums of common items, kept up with single documents.

A document x of weight w that is learned into class k (forgotten: w < 0) adds w x to f_k, the class's Σ x, and b d dᵀ to
S, the scatter within classes:

    d = x − f_k / n_k,    b = w n_k / (n_k + w)

By Sherman and Morrison, H = (S + R)⁻¹ changes by −β u uᵀ, with u = H d and β = b / (1 + b d·u), and so H f of every
class follows in a time that is linear in the number of items. H itself is kept as an earlier inverse and the u since.
After MAX_RANK of these they are multiplied out, and the solution is checked against the sums, and corrected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deciban._kernel import common as kernel
from deciban._typing import Array, Codes, Floats
from deciban.measure import RESIDUE

MAX_RANK = 128  # vectors beside an inverse
MAX_BEHIND = 128  # documents that a solution is brought up to date with one by one: inverting takes as long as more
MIN_REMAINDER = 1e-6  # of 1 + b d·u: with less, digits are lost, and the matrix is inverted instead
PENDING_PRODUCTS = 64  # documents whose products are not yet added to the matrix


class Update(NamedTuple):
    """A document that was learned, or forgotten if its weight is negative."""

    at: Codes  # the items that it has
    x: Floats
    weight: float
    code: int


class ItemProducts:
    """Σ x xᵀ, (d, d): a matrix (None: zeros), and documents that are added to it when it is asked for."""

    __slots__ = ("_matrix", "base", "rows", "size")

    def __init__(self, base: Floats | None, rows: tuple[Update, ...] = (), size: int = 0) -> None:
        self.base, self.rows, self.size = base, rows, size if base is None else len(base)
        self._matrix: Floats | None = None if rows else base

    def plus(self, rows: tuple[Update, ...]) -> ItemProducts:
        if self._matrix is not None:
            return ItemProducts(self._matrix, rows)
        together = ItemProducts(self.base, self.rows + rows, self.size)
        return together if len(together.rows) < PENDING_PRODUCTS else ItemProducts(together.matrix)

    def in_classes(self, to: Array) -> ItemProducts:
        """The same with class c as class to[c]."""
        if not self.rows:
            return self
        return ItemProducts(self.base, tuple(row._replace(code=int(to[row.code])) for row in self.rows), self.size)

    @property
    def matrix(self) -> Floats:
        matrix = self._matrix
        if matrix is None:
            base = np.zeros((self.size, self.size)) if self.base is None else self.base
            matrix = self._matrix = self._added(base.copy(), base) if self.rows else base
        return matrix

    def _added(self, matrix: Floats, before: Floats) -> Floats:
        ends = np.cumsum([0, *(len(row.at) for row in self.rows)])
        at, x = (np.concatenate([row[i] for row in self.rows]) for i in (0, 1))
        weight, nothing = np.array([row.weight for row in self.rows]), np.zeros((1, self.size))
        codes = np.zeros(len(weight), dtype=np.int32)
        kernel.sums(ends, at.astype(np.int32), x, codes, weight, nothing, matrix, 0, len(weight))
        kernel.mirror(matrix)
        return without_residue(matrix, before) if (weight < 0).any() else matrix


def without_residue(after: Floats, before: Floats) -> Floats:
    """Zero where a subtraction has left rounding alone."""
    return np.where(np.abs(after) <= before * RESIDUE, 0.0, after)


class Rank:
    """Vectors and factors of changes of an inverse; solutions that follow each other share them."""

    __slots__ = ("factors", "used", "vectors")

    def __init__(self, d: int) -> None:
        self.vectors, self.factors, self.used = np.empty((MAX_RANK, d)), np.empty(MAX_RANK), 0

    def with_vector(self, n: int, vector: Floats, factor: float) -> Rank:
        """The first n of these, and another one; a copy if there are others after those already."""
        rank = self
        if self.used > n:
            rank = Rank(len(vector))
            rank.vectors[:n], rank.factors[:n] = self.vectors[:n], self.factors[:n]
        rank.vectors[n], rank.factors[n], rank.used = vector, factor, n + 1
        return rank


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """H times each class's Σ x, and H as an inverse and the first n changes of it."""

    inverse: Floats  # (d, d)
    rank: Rank
    n: int
    solution: Floats  # (d, k)
    by_class: Floats  # (k, d) Σ x
    weight: Floats  # (k,)

    @classmethod
    def of(cls, inverse: Floats, by_class: Floats, weight: Floats) -> Solved:
        return cls(inverse, Rank(len(inverse)), 0, np.asarray(inverse @ by_class.T), by_class, weight)

    def after(self, update: Update) -> Solved | None:
        """With a document more, or less; None if a change of H does not give it."""
        at, x, w, code = update
        n, own, vectors = self.weight[code], self.solution[:, code], self.rank.vectors[: self.n]
        image = x @ self.inverse[at]  # H x
        image = image - (self.rank.factors[: self.n] * (vectors[:, at] @ x)) @ vectors
        by_class, weight = self.by_class.copy(), self.weight.copy()
        by_class[code, at] += w * x
        weight[code] += w
        if weight[code] <= 0:
            return None
        solution, rank, used = self.solution, self.rank, self.n
        b = w * n / (n + w)
        if b and n > 0:
            u = image - own / n
            along = x @ solution[at] - self.by_class[code] @ solution / n  # d · H f of every class
            remainder = 1.0 + b * float(x @ u[at] - self.by_class[code] @ u / n)
            if remainder < MIN_REMAINDER:
                return None
            factor = b / remainder
            solution = solution - np.multiply.outer(factor * u, along)
            image = image - (factor * float(u[at] @ x)) * u
            rank, used = rank.with_vector(used, u, factor), used + 1
        else:
            solution = solution.copy()
        solution[:, code] += w * image
        return Solved(self.inverse, rank, used, solution, by_class, weight)

    def times(self, matrix: Floats) -> Floats:
        """H · matrix, (d, m)."""
        vectors = self.rank.vectors[: self.n]
        return np.asarray(self.inverse @ matrix - (vectors * self.rank.factors[: self.n, None]).T @ (vectors @ matrix))

    def multiplied_out(self) -> Solved:
        """The same with H as one matrix."""
        vectors = self.rank.vectors[: self.n]
        inverse = self.inverse - (vectors * self.rank.factors[: self.n, None]).T @ vectors
        return replace(self, inverse=inverse, rank=Rank(len(inverse)), n=0)


@dataclass(slots=True, eq=False)
class Recent:
    """What single documents have changed: the sums as they are now, and solutions that lack the last few of them."""

    by_class: Floats
    weight: Floats
    updates: tuple[Update, ...]
    solved: dict[float, tuple[int, Solved]]  # by ridge: how many updates are missing in it

    def plus(self, by_class: Floats, weight: Floats, updates: tuple[Update, ...]) -> Recent:
        solved = {r: (behind + len(updates), one) for r, (behind, one) in self.solved.items()}
        solved = {r: (behind, one) for r, (behind, one) in solved.items() if behind <= MAX_BEHIND}
        longest = max((behind for behind, _ in solved.values()), default=0)
        together = self.updates + updates
        return Recent(by_class, weight, together[len(together) - longest :], solved)

    def up_to_date(self, ridge: float) -> tuple[Solved, bool] | None:
        """The solution for a ridge, and whether it was multiplied out; None if it must be computed again."""
        if ridge not in self.solved:
            return None
        behind, solved = self.solved[ridge]
        multiplied = False
        for update in self.updates[len(self.updates) - behind :]:
            if solved.n == MAX_RANK:
                solved, multiplied = solved.multiplied_out(), True
            following = solved.after(update)
            if following is None:
                return None
            solved = following
        return solved, multiplied
