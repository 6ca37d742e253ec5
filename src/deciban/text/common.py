"""A joint Gaussian of the most common items, so that correlated items are not counted twice.

Graded evidence treats one item at a time. In addition, the most common words and pairs of a document are one vector x
(u^−½ if the item is present, of u distinct items, otherwise 0), which is modelled as normal in every class, with a
covariance shared by all classes:

    F_k = −½ N (x − m_k)ᵀ (S + R)⁻¹ (x − m_k),    m_k = (Σ_k x + A μ) / (n_k + A)

S is the scatter within classes, μ the mean of all, and R the ridge, which is pseudo-scatter; each of several ridges
gives a vector of evidence. All of it follows from n_k, Σ x by class and Σ x xᵀ, which add, subtract and scale. Without
a row S changes by a matrix of rank one, so that leave-one-out is exact. A document with none of the items has no such
evidence: it is far from all classes.

x is rounded to multiples of 2^−10, so that these sums are exact until one of them passes 2^33.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from deciban._kernel import common as kernel
from deciban._scipy import inverse_half
from deciban._typing import Array, Codes, Floats
from deciban.errors import ForgetError
from deciban.measure import RESIDUE
from deciban.text.items import BLOCKS, MAX_TABULATED_SIZE, Items, Rows, by_size
from deciban.text.parallel import in_pieces
from deciban.text.updates import ItemProducts, Recent, Solved, Update, without_residue
from deciban.threads import threads

COMMON = ("words", "pairs")  # the blocks whose items are modelled jointly
MAX_COMMON_ITEMS = 1024
MIN_DOCUMENTS, DOCUMENTS_PER_ITEM = 200, 3  # documents needed to choose any items, and for each of them
MIN_ITEMS_OF_LONG_DOCUMENT = 128  # documents with more of these items on average are long
COMMON_GRAIN = 2.0**10
FEW_DOCUMENTS = 16  # whose vectors are kept beside their sums, so that these are added to others in less time
RIDGES = (0.1, 1.0)  # times the mean variance of an item within classes, for as many rows as there are
MEAN_PSEUDO_DOCUMENTS = 5.0  # A: pseudo-documents at the mean of all classes, added to each class
MAX_SOLVER_STEPS, SOLVER_TOLERANCE = 8, 1e-12  # of conjugate gradients; the tolerance is relative to the solution


@dataclass(frozen=True, slots=True, eq=False)
class CommonItems:
    """The items that are modelled jointly, and the sums of their x."""

    items: Items  # these items, and the words that they are made of
    block: Codes  # (d,) the place of each one's block in BLOCKS
    number: Codes  # (d,) each one's number in `items`
    by_class: Floats  # (k, d) Σ x
    summed: ItemProducts  # (d, d) Σ x xᵀ
    # Earlier solutions by ridge, which speed up solving for these sums and for similar ones: see `System.solved`.
    known: dict[float, SolvedSystem] = field(default_factory=dict, repr=False, compare=False)
    recent: Recent | None = field(default=None, repr=False, compare=False)  # if its Σ x are those of these sums
    _inverses: dict[float, tuple[Floats, Floats]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (self.items, self.block, self.number, self.by_class, self.products)

    @property
    def products(self) -> Floats:
        """(d, d) Σ x xᵀ."""
        return self.summed.matrix

    @classmethod
    def chosen(cls, lexicon: Items, share: dict[str, Floats], documents: int, k: int) -> CommonItems | None:
        """The most common items, given the share of documents that have each, by block; None with too few documents.

        With long documents, items that more than half of them have are left out: they are weak evidence, and cost most.
        """
        blocks, max_items = (
            [block for block in COMMON if block in share],
            min(MAX_COMMON_ITEMS, documents // DOCUMENTS_PER_ITEM),
        )
        all_shares = np.concatenate([share[block] for block in blocks])
        top = np.argsort(-all_shares, kind="stable")[:max_items]
        if all_shares[top].sum() > MIN_ITEMS_OF_LONG_DOCUMENT:
            all_shares = np.where(all_shares <= 0.5, all_shares, 0.0)
            top = np.argsort(-all_shares, kind="stable")[:max_items]
        top = np.sort(top[all_shares[top] > 0])
        if documents < MIN_DOCUMENTS or not len(top):
            return None
        keep = {block: np.zeros(lexicon.size(block), dtype=bool) for block in BLOCKS}
        first = 0
        for block in blocks:
            last = first + len(share[block])
            keep[block][top[(top >= first) & (top < last)] - first] = True
            first = last
        items, which = lexicon.kept(keep)
        items = items.copy()  # the lexicon may grow
        places = [np.flatnonzero(keep[block][which[block]]).astype(np.int32) for block in blocks]
        owner = [np.full(len(mine), BLOCKS.index(block), np.int32) for block, mine in zip(blocks, places, strict=True)]
        d = len(top)
        return restored(items, np.concatenate(owner), np.concatenate(places), np.zeros((k, d)), np.zeros((d, d)))

    @property
    def size(self) -> int:
        return len(self.number)

    def none(self, k: int) -> CommonItems:
        """The same items for k classes, with nothing learned."""
        by_class, nothing = np.zeros((k, self.size)), ItemProducts(None, (), self.size)
        return replace(self, by_class=by_class, summed=nothing, known={}, recent=None)  # solutions are of other sums

    # ------------------------------------------------------------------ rows

    def columns(self, lexicon: Items) -> dict[str, Codes]:
        """By block, the column of x of each item of the lexicon; −1 if it has none."""
        few = lexicon.size("words") < self.items.size("words")  # the smaller is looked up in the larger
        to, columns = self.items.places(lexicon) if few else lexicon.places(self.items), {}
        for block in [block for b, block in enumerate(BLOCKS) if (self.block == b).any()]:
            at = np.flatnonzero(self.block == BLOCKS.index(block)).astype(np.int32)
            if few:
                of_item = np.full(self.items.size(block) + 1, -1, dtype=np.int32)  # the last is that of −1
                of_item[self.number[at]] = at
                columns[block] = of_item[to[block]]
            else:
                place = to[block][self.number[at]]
                columns[block] = np.full(lexicon.size(block), -1, dtype=np.int32)
                columns[block][place[place >= 0]] = at[place >= 0]
        return columns

    def vectors(self, columns: dict[str, Codes], rows: dict[str, Rows]) -> ItemVectors:
        """x of rows whose items are numbered by the lexicon of these columns."""
        mine = list(columns)
        n = len(next(iter(rows.values()))[0]) - 1
        ends = np.zeros(n + 1, dtype=np.int64)
        for block in mine:
            kernel.gather(*rows[block], columns[block], ends, None)
        indptr = np.cumsum(ends)
        column: Codes = np.empty(indptr[-1], dtype=np.int32)
        x, ends = np.empty(indptr[-1]), indptr.copy()
        for block in mine:
            before = ends.copy()
            kernel.gather(*rows[block], columns[block], ends, column)
            amount = amounts(rows[block])
            own = (ends - before)[:-1]
            place = np.arange(own.sum()) + np.repeat(before[:-1] - (np.cumsum(own) - own), own)
            x[place] = np.repeat(amount, own)
        return ItemVectors(indptr, column, x, self.size)

    def of(self, vectors: ItemVectors, y: Codes, weight: Floats, k: int, n_jobs: int | None = 1) -> CommonItems:
        """The sums of these rows, of classes y."""
        if len(y) <= FEW_DOCUMENTS:
            return self._of_few(vectors, y, weight, k)
        workers = threads(n_jobs, 4 * int((np.diff(vectors.indptr) ** 2).sum()))
        edges, d = np.linspace(0, len(y), workers + 1).astype(int), self.size
        parts = [(np.zeros((k, d)), np.zeros((d, d))) for _ in range(workers)]

        def work(first: int, last: int) -> None:
            for w in range(first, last):
                kernel.sums(*vectors.arrays, y, weight, *parts[w], edges[w], edges[w + 1])

        in_pieces(workers, workers, work)
        (by_class, products), *others = parts
        for part in others:
            np.add(by_class, part[0], out=by_class)
            np.add(products, part[1], out=products)
        kernel.mirror(products)
        return replace(self, by_class=by_class, summed=ItemProducts(products), known={}, recent=None)

    def _of_few(self, vectors: ItemVectors, y: Codes, weight: Floats, k: int) -> CommonItems:
        """The same for few rows, whose products are not added up yet."""
        by_class, rows = np.zeros((k, self.size)), []
        for i in np.flatnonzero((y >= 0) & (weight != 0)).tolist():
            first, last = vectors.indptr[i], vectors.indptr[i + 1]
            rows.append(Update(vectors.at[first:last], vectors.x[first:last], float(weight[i]), int(y[i])))
            by_class[y[i], vectors.at[first:last]] += weight[i] * vectors.x[first:last]
        return replace(
            self, by_class=by_class, summed=ItemProducts(None, tuple(rows), self.size), known={}, recent=None
        )

    # ------------------------------------------------------------------ the group

    def has_items_of(self, other: CommonItems) -> bool:
        """Whether both have the same items in the same order, as parts of one model have."""
        if other.items is self.items:
            return True
        if not np.array_equal(self.block, other.block) or not np.array_equal(self.number, other.number):
            return False
        if any(self.items.size(block) != other.items.size(block) for block in BLOCKS):
            return False
        return all((to == np.arange(len(to))).all() for to in self.items.places(other.items).values())

    def plus(self, other: CommonItems, sign: float = 1.0) -> CommonItems | None:
        """The sum over the items that both have, or with sign −1 the difference; None if they share no item."""
        if self.has_items_of(other):
            if sign > 0 and self.summed.base is None and other.summed.base is None:
                together = self.summed.plus(other.summed.rows)
                return replace(self, by_class=self.by_class + other.by_class, summed=together)
            both = mine = theirs = np.arange(self.size)
        else:
            to = self.items.places(other.items)
            place = np.full(other.size, -1)
            for b, block in enumerate(BLOCKS):
                own, others = np.flatnonzero(self.block == b), np.flatnonzero(other.block == b)
                if len(own) and len(others):
                    where = np.full(self.items.size(block) + 1, -1)
                    where[self.number[own]] = own
                    place[others] = where[to[block][other.number[others]]]
            theirs = np.flatnonzero(place >= 0)
            theirs = theirs[np.argsort(place[theirs])]
            mine = place[theirs]
            both = mine
        if not len(both):
            return None
        kept = self if len(mine) == self.size else self.only(mine)
        by_class = kept.by_class + sign * other.by_class[:, theirs]
        products = kept.products + sign * other.products[np.ix_(theirs, theirs)]
        if sign < 0:
            by_class = np.where(np.abs(by_class) <= kept.by_class * RESIDUE, 0.0, by_class)
            products = without_residue(products, kept.products)
        return replace(kept, by_class=by_class, summed=ItemProducts(products))

    def changed(self, updates: tuple[Update, ...], before: Floats) -> CommonItems:
        """With documents learned, or forgotten if their weight is negative; `before` is the weight of each class."""
        by_class, after = self.by_class.copy(), before.copy()
        for at, x, w, code in updates:
            sums = by_class[code, at]
            by_class[code, at] = without_residue(sums + w * x, sums) if w < 0 else sums + w * x
            after[code] += w
        recent = self.recent_of(before)
        if recent is None:
            known = {r: one for r, (n, one) in self._inverses.items() if np.array_equal(n, before)}
            found = {r: (0, Solved.of(one, self.by_class, before)) for r, one in known.items()}
            recent = Recent(self.by_class, before, (), found)
        recent = recent.plus(by_class, after, updates)
        return replace(self, by_class=by_class, summed=self.summed.plus(updates), recent=recent)

    def updates(self, to: Array, sign: float) -> tuple[Update, ...] | None:
        """The documents whose sums these are, class c as class to[c]; None if there were too many to keep them."""
        if self.summed.base is not None:
            return None
        return tuple(Update(at, x, sign * weight, int(to[code])) for at, x, weight, code in self.summed.rows)

    def recent_of(self, weight: Floats) -> Recent | None:
        """What single documents have changed, if these sums, and weights of classes, came about so."""
        recent = self.recent
        if recent is None or recent.by_class is not self.by_class or not np.array_equal(recent.weight, weight):
            return None
        return recent

    def only(self, which: Array) -> CommonItems:
        """Some of the items, without the words that only the others are made of."""
        keep = {block: np.zeros(self.items.size(block), dtype=bool) for block in BLOCKS}
        for b, block in enumerate(BLOCKS):
            keep[block][self.number[which[self.block[which] == b]]] = True
        items, kept = self.items.kept(keep)
        number = np.empty(len(which), dtype=np.int32)
        for b, block in enumerate(BLOCKS):
            mine = np.flatnonzero(self.block[which] == b)
            number[mine] = np.searchsorted(kept[block], self.number[which[mine]])
        products = self.products[np.ix_(which, which)]
        return restored(items, self.block[which], number, self.by_class[:, which], products)

    def without_empty(self) -> CommonItems | None:
        """Without items whose sums are zero; None if all are."""
        some = np.flatnonzero(np.diagonal(self.products) > 0)
        return self if len(some) == self.size else self.only(some) if len(some) else None

    def known_in(self, lexicon: Items) -> CommonItems | None:
        """Without items that the lexicon does not have; None if it has none of them."""
        to = lexicon.places(self.items)
        place = np.array([to[BLOCKS[b]][n] for b, n in zip(self.block.tolist(), self.number.tolist(), strict=True)])
        some = np.flatnonzero(place >= 0)
        return self if len(some) == self.size else self.only(some) if len(some) else None

    def scale(self, share: float) -> CommonItems:
        return replace(self, by_class=self.by_class * share, summed=ItemProducts(self.products * share))

    def in_classes(self, to: Array, k: int) -> CommonItems:
        """The same with class c as class to[c] of k."""
        by_class = np.zeros((k, self.size))
        by_class[to] = self.by_class
        return replace(self, by_class=by_class, summed=self.summed.in_classes(to))


def restored(items: Items, block: Codes, number: Codes, by_class: Floats, products: Floats) -> CommonItems:
    return CommonItems(items, block, number, by_class, ItemProducts(products))


def amounts(rows: Rows) -> Floats:
    """u^−½ of each row with u distinct items, rounded to a multiple of 2^−10: x of the items that it has."""
    return by_size(rows, AMOUNTS, amount_of)


def amount_of(u: Array) -> Floats:
    return np.asarray(np.round(np.maximum(u, 1) ** -0.5 * COMMON_GRAIN) / COMMON_GRAIN)


AMOUNTS = amount_of(np.arange(MAX_TABULATED_SIZE))


@dataclass(frozen=True, slots=True, eq=False)
class ItemVectors:
    """x of rows, kept sparse."""

    indptr: Array
    at: Codes
    x: Floats
    size: int

    @property
    def arrays(self) -> tuple[Array, Codes, Floats]:
        return self.indptr, self.at, self.x

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def centred(self, scores: Floats) -> Floats:
        """Scores less their mean over the classes; 0 for rows that have none of the items."""
        scores = scores - scores.mean(axis=-1, keepdims=True)
        scores[np.diff(self.indptr) == 0] = 0.0
        return np.asarray(scores)

    def times(self, matrix: Floats, n_jobs: int | None) -> Floats:
        """x · matrix, (n, m)."""
        out = np.empty((len(self), matrix.shape[1]))
        matrix = np.ascontiguousarray(matrix)
        in_pieces(
            len(self),
            threads(n_jobs, len(self.x) * matrix.shape[1]),
            lambda first, last: kernel.project(*self.arrays, matrix, out, first, last),
        )
        return out

    def squared(self, matrices: Sequence[Floats], n_jobs: int | None) -> Floats:
        """xᵀ · matrix · x, (n, matrices)."""
        parts = []
        for i in range(0, len(matrices), 2):  # two at a time, so that each lookup serves both
            side_by_side = np.empty((self.size, self.size, 2))
            side_by_side[:, :, 0], side_by_side[:, :, 1] = matrices[i], matrices[min(i + 1, len(matrices) - 1)]
            parts.append(np.empty((len(self), 2)))
            in_pieces(
                len(self),
                threads(n_jobs, int((np.diff(self.indptr) ** 2).sum())),
                partial(kernel.square, *self.arrays, side_by_side, parts[-1]),
            )
        return np.hstack(parts)[:, : len(matrices)]


class SolvedSystem(NamedTuple):
    """The inverse of an S + R, or its product with the classes' Σ x; of these sums, or of earlier ones."""

    inverse: Floats | None = None  # (d, d)
    solution: Floats | None = None  # (d, k)


class System(NamedTuple):
    """S + R as an operator: the matrix itself is only formed to invert it."""

    sums: CommonItems
    weight: Floats
    ridge: float
    tolerance: float = SOLVER_TOLERANCE

    def times(self, x: Floats) -> Floats:
        f = self.sums.by_class
        return np.asarray(self.sums.products @ x - f.T @ (per_row(self.weight)[:, None] * (f @ x)) + self.ridge * x)

    def inverted(self, scatter: Floats | None = None) -> Floats:
        matrix = within_classes(self.sums, self.weight) if scatter is None else scatter.copy()
        matrix[np.diag_indices(self.sums.size)] += self.ridge
        try:
            inverse = np.ascontiguousarray(inverse_half(matrix))
        except np.linalg.LinAlgError as error:  # sums of rows and a ridge are positive definite
            raise ForgetError("the sums of items that are modelled together cannot come from any documents") from error
        kernel.mirror(inverse)
        self.sums.known[self.ridge] = SolvedSystem(inverse)
        self.sums._inverses[self.ridge] = self.weight, inverse
        return inverse

    def solved(self) -> Floats:
        """The inverse times each class's Σ x, (d, k).

        A few documents more or less change S by a matrix of rank one each. So the earlier inverse is a good
        preconditioner, and conjugate gradients need about one step per document. A step takes 2 d² operations for each
        class, and inverting again about 2 d³, so with many classes it is inverted.
        """
        recent = self.sums.recent_of(self.weight)
        if recent is not None:
            return self._kept_up(recent)
        goal, known = np.ascontiguousarray(self.sums.by_class.T), self.sums.known.get(self.ridge, SolvedSystem())
        if known.solution is not None and known.solution.shape == goal.shape and self.is_solved(known.solution):
            return known.solution
        if known.inverse is not None and MAX_SOLVER_STEPS * len(self.weight) <= 2 * self.sums.size:
            solution = self._stepwise(goal, known.inverse)
            if solution is not None:
                return solution
        return np.asarray(self.inverted() @ goal, dtype=np.float64)

    def _kept_up(self, recent: Recent) -> Floats:
        """The same where single documents have changed the sums since a solution was known."""
        found = recent.up_to_date(self.ridge)
        if found is not None:
            solved, multiplied = found
            if multiplied:
                error = self.sums.by_class.T - self.times(solved.solution)
                solved = replace(solved, solution=solved.solution + solved.times(error))
                found = (solved, False) if self.is_solved(solved.solution) else None
        if found is None:
            solved = Solved.of(self.inverted(), self.sums.by_class, self.weight)
        recent.solved[self.ridge] = 0, solved
        return solved.solution

    def is_solved(self, solution: Floats) -> bool:
        """Whether these are the equations' solution, but for rounding."""
        goal, size = self.sums.by_class.T, np.abs(solution)
        scale = (self.sums.products @ size + self.ridge * size).max(axis=0)
        return bool((np.abs(self.times(solution) - goal).max(axis=0) <= SOLVER_TOLERANCE * scale).all())

    def _stepwise(self, goal: Floats, inverse: Floats) -> Floats | None:
        """Preconditioned conjugate gradients for every class; None if they do not converge in MAX_SOLVER_STEPS."""
        x = inverse @ goal
        residual = goal - self.times(x)
        preconditioned = step = inverse @ residual
        gain = np.einsum("dk,dk->k", residual, preconditioned)
        for _ in range(MAX_SOLVER_STEPS):
            image = self.times(step)
            curvature = np.einsum("dk,dk->k", step, image)
            length = np.divide(gain, curvature, out=np.zeros_like(gain), where=curvature > 0)
            x = x + length * step
            if (np.abs(length * step).max(axis=0) <= self.tolerance * np.abs(x).max(axis=0)).all():
                return np.asarray(x)
            residual = residual - length * image
            preconditioned = inverse @ residual
            before, gain = gain, np.einsum("dk,dk->k", residual, preconditioned)
            step = preconditioned + np.divide(gain, before, out=np.zeros_like(gain), where=before > 0) * step
        return None


@dataclass(frozen=True, slots=True, eq=False)
class ItemGaussian:
    """What is derived from the sums for one ridge: products of the classes' Σ x under the inverse of S + R."""

    weight: Floats  # (k,) n
    solved: Floats  # (d, k) the inverse times each class's Σ x
    by_class: Floats  # (k, d) Σ x
    inverse: Floats | None  # (d, d), for rows that are left out
    total: float  # Σ n of all classes,
    solved_total: Floats  # (d,) the inverse times their Σ x,
    square_total: float  # and the product of their Σ x with itself

    @classmethod
    def of(
        cls,
        sums: CommonItems,
        weight: Floats,
        ridge: float,
        scatter: Floats | None,
        tolerance: float = SOLVER_TOLERANCE,
    ) -> ItemGaussian:
        system = System(sums, weight, ridge, tolerance)
        inverse = None if scatter is None else system.inverted(scatter)
        solved = system.solved() if inverse is None else np.asarray(inverse @ sums.by_class.T, dtype=np.float64)
        everything = solved.sum(axis=1)
        square = float(sums.by_class.sum(axis=0) @ everything)
        return cls(weight, solved, sums.by_class, inverse, float(weight.sum()), everything, square)

    def of_classes(self, classes: Codes) -> ItemGaussian:
        """For these classes only; the means of all classes stay."""
        solved = np.ascontiguousarray(self.solved[:, classes])
        return replace(self, weight=self.weight[classes], solved=solved, by_class=self.by_class[classes])

    def squares(self) -> Floats:
        """(k,) the product of each class's Σ x with itself."""
        return np.asarray(np.einsum("kd,dk->k", self.by_class, self.solved))

    def weights(self) -> tuple[Floats, Floats]:
        """F_k = x · w_k + c_k, up to a constant per row: w (d, k) and c (k,)."""
        alpha, beta = (
            1.0 / (self.weight + MEAN_PSEUDO_DOCUMENTS),
            MEAN_PSEUDO_DOCUMENTS / max(self.total, 1e-300),
        )  # m_k = α_k (Σ_k x + β Σ x)
        solved = alpha * (self.solved + beta * self.solved_total[:, None])
        everything = self.by_class @ self.solved_total
        square = alpha**2 * (self.squares() + 2.0 * beta * everything + beta**2 * self.square_total)
        return self.total * solved, -0.5 * self.total * square

    def evidence_without(self, p: Floats, p_all: Floats, q: Floats, y: Codes, w: Floats) -> Floats:
        """F of learned rows of classes y and weights w, each under the sums without it.

        `p` are their products with the classes' Σ x, (n, k), `p_all` with that of all classes, (n,), and `q` with
        themselves, (n,), all under the inverse.
        """
        i, own, square = np.arange(len(y)), self.weight[y], self.squares()
        everything = self.by_class @ self.solved_total
        of_rows, place = np.unique(y, return_inverse=True)
        gram = (self.by_class[of_rows] @ self.solved)[place]  # products of the row's class with all
        remaining = np.maximum(self.total - w, 1e-300)
        # m_k = α f_k + β f + γ x, with f_k = Σ_k x and f = Σ x, the row still among them.
        alpha = np.broadcast_to(1.0 / (self.weight + MEAN_PSEUDO_DOCUMENTS), p.shape).copy()
        alpha[i, y] = 1.0 / (np.maximum(own - w, 0.0) + MEAN_PSEUDO_DOCUMENTS)
        beta = alpha * (MEAN_PSEUDO_DOCUMENTS / remaining)[:, None]
        gamma = -w[:, None] * beta
        gamma[i, y] -= w * alpha[i, y]
        x_m = alpha * p + beta * p_all[:, None] + gamma * q[:, None]
        m_m = alpha**2 * square + beta**2 * self.square_total + gamma**2 * q[:, None]
        m_m += 2.0 * (alpha * beta * everything + alpha * gamma * p + beta * gamma * p_all[:, None])
        # S loses b d dᵀ, d = x − f_y / n_y; a row that is alone in its class adds nothing to S.
        rest = own - w > 1e-9 * own
        b = np.where(rest, w * own / np.where(rest, own - w, 1.0), 0.0)
        n = np.where(own > 0, own, 1.0)
        d_x = q - p[i, y] / n
        d_m = alpha * (p - gram / n[:, None]) + beta * (p_all - everything[y] / n)[:, None] + gamma * d_x[:, None]
        d_d = q - 2.0 * p[i, y] / n + square[y] / n**2
        square = m_m - 2.0 * x_m + (b / (1.0 - b * d_d))[:, None] * (d_x[:, None] - d_m) ** 2
        return np.asarray(-0.5 * remaining[:, None] * square)


@dataclass(frozen=True, slots=True, eq=False)
class RidgeGaussians:
    """An ItemGaussian for every ridge."""

    parts: tuple[ItemGaussian, ...]
    slopes: Floats  # (d, ridges · k)
    constants: Floats  # (ridges · k,)

    @classmethod
    def of(
        cls,
        sums: CommonItems,
        weight: Floats,
        ridge_values: Floats,
        left_out: bool,
        tolerance: float = SOLVER_TOLERANCE,
    ) -> RidgeGaussians:
        scatter = within_classes(sums, weight) if left_out else None
        return cls.joined([ItemGaussian.of(sums, weight, float(ridge), scatter, tolerance) for ridge in ridge_values])

    @classmethod
    def joined(cls, gaussians: Sequence[ItemGaussian]) -> RidgeGaussians:
        slopes, constants = zip(*(gaussian.weights() for gaussian in gaussians), strict=True)
        return cls(tuple(gaussians), np.hstack(slopes), np.hstack(constants))

    def evidence(self, rows: ItemVectors, n_jobs: int | None = None) -> Floats:
        """F of new rows, (n, ridges, k), less its mean over the classes."""
        scores = rows.times(self.slopes, n_jobs) + self.constants
        return rows.centred(scores.reshape(len(rows), len(self.parts), -1))

    def evidence_without(
        self,
        rows: ItemVectors,
        y: Codes,
        weight: Floats,
        n_jobs: int | None = None,
        classes: Codes | None = None,
    ) -> Floats:
        """The same for learned rows of classes y and these weights, each under the sums without it; if ascending
        `classes` are given, which have all rows, for these only."""
        parts = self.parts if classes is None else tuple(part.of_classes(classes) for part in self.parts)
        y = y if classes is None else np.searchsorted(classes, y).astype(np.int32)
        columns = [np.column_stack([part.solved, part.solved_total]) for part in parts]
        p = rows.times(np.hstack(columns), n_jobs).reshape(len(rows), len(parts), -1)
        q = rows.squared([part.inverse for part in parts if part.inverse is not None], n_jobs)
        each = (part.evidence_without(p[:, r, :-1], p[:, r, -1], q[:, r], y, weight) for r, part in enumerate(parts))
        return rows.centred(np.stack(list(each), axis=1))


def within_classes(sums: CommonItems, weight: Floats) -> Floats:
    """S: Σ x xᵀ about the classes' means."""
    return np.asarray(sums.products - (sums.by_class.T * per_row(weight)) @ sums.by_class)


def per_row(weight: Floats) -> Floats:
    """1 / n, and 0 for a class without rows."""
    return np.asarray(np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0))


def ridges(sums: CommonItems, weight: Floats) -> Floats:
    """RIDGES in units of the mean variance of an item within classes."""
    mean = float(np.maximum(np.diagonal(sums.products) - per_row(weight) @ sums.by_class**2, 0.0).mean())
    return np.array(RIDGES) * (mean or 1.0)
