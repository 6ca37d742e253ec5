"""Tree: a column takes value v with probability θ_(v|u) given the class and its parent's value u (S21).

P(x | y) = Π_j P(x_j | x_parent(j), y), where the columns' parents form a forest. It is between naive Bayes, where no
column has a parent, and the full chain rule, which has too many parameters to learn.

Each column has a distribution for every value of its parent, and one without. Every distribution is smoothed by
Laplace's rule, θ_(v|u) = (n_uv + α)/(n_u + α|V|). Rows are category codes, as for `Categorical`. Missing values are
summed out, from the leaves to the roots. A value that was never seen is treated as known without counts: as a value it
has α/(n_u + α(|V| + 1)), and as the parent's value it makes all values of the column equally likely, 1/|V|.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deciban._kernel import scores as kernel
from deciban._typing import Array, Codes, Floats, Matrix, Sums
from deciban.algebra import add_prior, without
from deciban.families.base import Family, Values
from deciban.families.categorical import Categorical, CategoricalParams, by_own_place, log_theta_without
from deciban.families.linear import by_code, spread
from deciban.families.multinomial import dirichlet_log_marginal
from deciban.measure import Is, Measure, Pairs, column_totals
from deciban.schema import Columns, parents_first

if TYPE_CHECKING:
    from deciban.formula import HiddenParent, Sketch, Term, Walk


@dataclass(frozen=True, slots=True)
class Tree(Family):
    """Tables of category probabilities, one per class, column and value of the column's parent.

    The parents are part of the schema, since the statistics depend on them: `Columns.parents`. Parameters are those of
    `Categorical` over all distributions, in the order of `distributions_of`.
    """

    name: ClassVar[str] = "tree"
    values: ClassVar[Values] = "categories"
    apart: ClassVar[bool] = True
    counts_missing: ClassVar[bool] = False

    @classmethod
    def by_name(cls) -> Mapping[str, Family]:
        return {}

    @property
    def by_column(self) -> bool:
        return False

    def measures(self, columns: Columns) -> tuple[Measure, ...]:
        return (Is(tuple(columns.offsets.tolist())), pairs_of(columns))

    def pseudo(self, alpha: Array | float, columns: Columns, sums: Sums) -> Sums:
        table = spread(alpha, len(sums["is"]), columns.size)
        return {
            "is": np.repeat(table, np.diff(columns.offsets), axis=1),
            "pair": np.repeat(table, np.diff(columns.pair_offsets), axis=1),
            "unseen": table[:, owners(columns)],
        }

    def estimate(self, sums: Sums, columns: Columns) -> CategoricalParams:
        return Categorical().estimate(all_counts(sums), distributions_of(columns))

    def expect(self, params: CategoricalParams, columns: Columns) -> Sums:
        """E[T] of a row: counts of a column by its own distribution, of pairs by the parent's times that given it.

        Without smoothing and missing values, the own distribution is the others summed over the parent.
        """
        offsets, theta = columns.offsets, np.exp(params.log_theta)
        alone, given, sizes = theta[:, : offsets[-1]], theta[:, offsets[-1] :], np.diff(offsets)
        above = [np.zeros((len(alone), 0))]
        for j, parent in enumerate(parents_of(columns)):
            if parent >= 0:
                u = alone[:, offsets[parent] : offsets[parent + 1]]
                above.append(np.repeat(u, sizes[j], axis=1))
        return {"is": alone, "pair": np.hstack(above) * given}

    def log_prob(self, params: CategoricalParams, columns: Columns, X: Matrix) -> Floats:
        pairs, k = pairs_of(columns), len(params.log_theta)
        codes = pairs.codes(X)
        whole, table = pairs.whole(codes), by_place(params.log_theta, params.log_unseen, columns)
        places, out = read_places(codes, pairs, whole), np.empty((X.shape[0], k))
        wide = by_code(table.T, np.zeros((columns.size, k)))
        kernel.code_scores(places, pairs.offsets, wide, np.zeros(k), out)
        if not whole:
            rows = pairs.loose(codes)
            out[rows] += log_sum_over_missing(codes[rows], pairs, table)
        return out

    def leave_one_out(
        self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix, y: Array, weight: Floats | None
    ) -> Floats:
        prior = self.pseudo(alpha, columns, sums)
        params = self.estimate(add_prior(sums, prior), columns)
        out = self.log_prob(params, columns, X)
        pairs, distributions = pairs_of(columns), distributions_of(columns)
        counts, prior = all_counts(sums)["is"], all_counts(prior)
        total, sizes = column_totals(counts, distributions), np.diff(distributions.offsets)
        codes, y = pairs.codes(X), np.ascontiguousarray(y, dtype=np.int32)
        whole, tables = pairs.whole(codes), by_place(params.log_theta, params.log_unseen, columns)
        places, gaps = read_places(codes, pairs, whole), np.zeros(len(y), dtype=bool)
        if not whole:
            gaps[pairs.loose(codes)] = True
        for w in np.ones(1) if weight is None else np.unique(weight):  # rows of one weight share a table
            log_theta = log_theta_without(counts, total, prior, sizes, float(w))
            # A value that is not in the schema was not counted, and nothing changes without it. Nor do distributions
            # that are summed over: the row was not counted in them.
            table = np.ascontiguousarray(by_place(log_theta, params.log_unseen, columns))
            rows = np.flatnonzero(y >= 0 if weight is None else (y >= 0) & (weight == w))
            own = np.zeros(len(rows))
            kernel.code_own(places[rows], y[rows], pairs.offsets, table, own)
            out[rows, y[rows]] = own
            for c in np.unique(y[rows[gaps[rows]]]):
                some = rows[gaps[rows] & (y[rows] == c)]
                out[some, c] += log_sum_over_missing(codes[some], pairs, tables[[c]])[:, 0]
        return out

    def without_each(self, sums: Sums, alpha: Array | float, columns: Columns, X: Matrix) -> Floats:
        pairs, distributions, k = pairs_of(columns), distributions_of(columns), len(sums["is"])
        counts, prior = all_counts(sums)["is"], all_counts(self.pseudo(alpha, columns, sums))
        log_theta = log_theta_without(
            counts, column_totals(counts, distributions), prior, np.diff(distributions.offsets), 1.0
        )
        table = by_place(log_theta, np.zeros((k, distributions.size)), columns)
        out, wide = np.empty((X.shape[0], k)), by_code(table.T, np.zeros((columns.size, k)))
        kernel.code_scores(pairs.places(X), pairs.offsets, wide, np.zeros(k), out)
        return out

    def sample(
        self, params: CategoricalParams, columns: Columns, y: Array, rng: np.random.Generator, length: Array
    ) -> Floats:
        del length
        out, draws = np.full((len(y), columns.size), -1.0), rng.random((len(y), columns.size))
        theta, offsets, parents = np.exp(params.log_theta), columns.offsets, parents_of(columns)
        sizes = np.diff(offsets)
        for j in parents_first(parents):
            start, size = int(offsets[j]), int(sizes[j])
            if size == 0:  # a column that was always missing
                continue
            probabilities = theta[:, None, start : start + size]
            which = np.zeros(len(y), dtype=np.intp)
            if parents[j] >= 0 and sizes[parents[j]] > 0:
                probabilities, which = (
                    by_parent(theta[:, offsets[-1] :], columns, j),
                    out[:, parents[j]].astype(np.intp),
                )
            ladder = np.cumsum(probabilities, axis=2)
            ladder /= ladder[:, :, -1:]
            out[:, j] = (draws[:, j, None] >= ladder[y, which]).sum(axis=1)
        return out

    def log_marginal(self, sums: Sums, prior: Sums, columns: Columns) -> Floats:
        """By column: of the distributions given its parent, and of its own for rows in which the parent is missing."""
        total = np.zeros(len(sums["is"]))
        for j, (start, stop) in enumerate(pairwise(columns.offsets)):
            alone = sums["is"][:, start:stop]
            if parents_of(columns)[j] >= 0:
                beside = by_parent(sums["pair"], columns, j)
                total += dirichlet_log_marginal(beside, by_parent(prior["pair"], columns, j)).sum(axis=1)
                alone = np.maximum(without(alone, beside.sum(axis=1)), 0.0)
            total += dirichlet_log_marginal(alone, prior["is"][:, start:stop])
        return total

    def terms(self, params: CategoricalParams, columns: Columns, X: Matrix) -> tuple[Array, Floats]:
        """The term of each column given its parent's value, if that is known.

        If it is not, given all values of the columns before it, from the roots to the leaves.
        """
        pairs = pairs_of(columns)
        codes = pairs.codes(np.asarray(X).reshape(1, -1))
        if not len(pairs.loose(codes)):
            at, places = np.flatnonzero(codes[0] >= 0), read_places(codes, pairs, False)[0]
            table = by_place(params.log_theta, params.log_unseen, columns)
            return at, np.ascontiguousarray(table[:, pairs.offsets[at] + places[at]].T)
        at = np.array([j for j in parents_first(pairs.parents) if codes[0, j] >= 0], dtype=np.intp)
        growing = np.full((len(at) + 1, columns.size), -1, dtype=np.int32)
        for i, j in enumerate(at):
            growing[i + 1 :, j] = codes[0, j]
        so_far = self.log_prob(params, columns, growing)
        with np.errstate(invalid="ignore"):  # impossible already: further terms are 0
            return at, np.where(np.isneginf(so_far[:-1]), 0.0, np.diff(so_far, axis=0))

    def typical(self, params: CategoricalParams, columns: Columns) -> tuple[list[str], Floats]:
        """A value of a column for every value of its parent, or alone if it has none."""
        names, at = items_of(columns)
        return names, params.log_theta[:, at].T

    def table(self, params: CategoricalParams, columns: Columns) -> dict[str, Floats]:
        return {"probability": np.exp(params.log_theta[:, items_of(columns)[1]])}

    def term(self, params: CategoricalParams, columns: Columns, sketch: Sketch) -> Term:
        """Categories, each given its parent's; and messages to a parent that is missing.

        For a missing parent, a column's own term is the maximum over the parent's values; the ratios to the maximum go
        into the sum over these values.
        """
        from deciban.formula import Walk, Walks

        assert columns.categories is not None
        places = sketch.categories(columns)
        pairs, table = pairs_of(columns), by_place(params.log_theta, params.log_unseen, columns)
        k, walks, probabilities = len(table), [], []
        for j, (place, known, parent) in enumerate(zip(places, columns.categories, pairs.parents, strict=True)):
            own = table[:, pairs.offsets[j] : pairs.offsets[j + 1]].reshape(k, -1, pairs.sizes[j] + 1)
            each = np.stack([by_own_place(own[:, u, :-1], own[:, u, -1:], known) for u in range(own.shape[1])])
            even = -np.log([[max(1.0, len(known))] * len(known) + [len(known) + 1.0]] * k)
            above = sketch.places[places[parent]].size if parent >= 0 else 1
            several = each.shape[0] > 1  # the parent is missing, has a known value, or an unseen one
            each = np.concatenate([each, by_own_place(even[:, :-1], even[:, -1:], known)[None]])[:above]
            probabilities.append(np.exp(each[:, 1 : 1 + len(known)]))
            if several:
                each[0] = each[1 : 1 + pairs.sizes[parent]].max(axis=0)
            ways = np.arange(above, dtype=np.int32)
            ways[0] = -1
            given = ((places[parent],), (np.tile(ways, (above, 1)),)) if parent >= 0 else ((), ())
            walks.append(Walk(given[0], place, given[1], each))
        return Walks(tuple(walks), hidden_parents(pairs, places, walks, probabilities))


def hidden_parents(
    pairs: Pairs, places: tuple[int, ...], walks: list[Walk], probabilities: list[Floats]
) -> tuple[HiddenParent, ...]:
    """The terms of a formula for missing columns that have children, from the leaves to the roots."""
    from deciban.formula import ChildOfHidden, HiddenParent

    hanging: dict[int, list[int]] = {}
    for j, parent in enumerate(pairs.parents):
        if parent >= 0 and pairs.sizes[parent]:
            hanging.setdefault(parent, []).append(j)
    order = [j for j in reversed(parents_first(pairs.parents)) if j in hanging]
    hidden = []
    for j in order:
        below = [
            ChildOfHidden(places[i], shares_of(walks[i].values, pairs.sizes[j]), order.index(i) if i in hanging else -1)
            for i in hanging[j]
        ]
        parent = pairs.parents[j]
        passes = parent >= 0 and pairs.sizes[parent] > 0
        hidden.append(
            HiddenParent(places[j], places[parent] if parent >= 0 else -1, probabilities[j], passes, tuple(below))
        )
    return tuple(hidden)


def shares_of(values: Floats, size: int) -> Floats:
    """The likelihood of each of the parent's values, relative to the maximum over them: (size, places, k)."""
    with np.errstate(invalid="ignore"):  # impossible under all of them: the maximum has that already
        return np.asarray(np.nan_to_num(np.exp(values[1 : 1 + size] - values[0]), nan=1.0))


def parents_of(columns: Columns) -> tuple[int, ...]:
    """The columns' parents; −1 for all before a tree is chosen."""
    return columns.parents if columns.parents is not None else (-1,) * columns.size


def pairs_of(columns: Columns) -> Pairs:
    return Pairs(tuple(np.diff(columns.offsets).tolist()), parents_of(columns))


def owners(columns: Columns) -> Array:
    """The column of each distribution: first each column's own, then those given its parent's values, by column."""
    sizes = np.diff(columns.offsets)
    given = [int(sizes[parent]) if parent >= 0 else 0 for parent in parents_of(columns)]
    return np.concatenate([np.arange(columns.size), np.repeat(np.arange(columns.size), given)]).astype(np.intp)


def distributions_of(columns: Columns) -> Columns:
    """All distributions as columns of categories, in the order of `owners`: cells are those of `is`, then of `pair`."""
    assert columns.categories is not None
    sizes = [len(values) for values in columns.categories]
    owner_columns = owners(columns).tolist()
    return Columns(len(owner_columns), categories=tuple(range(sizes[j]) for j in owner_columns))


def all_counts(sums: Sums) -> Sums:
    """The counts of all distributions, from a block's sums or its prior."""
    seen = {"is": np.hstack([sums["is"], sums["pair"]])}
    return seen if "unseen" not in sums else seen | {"unseen": sums["unseen"]}


def by_place(cells: Floats, unseen: Floats, columns: Columns) -> Floats:
    """Numbers by cell (k, cells) and by distribution (k, distributions) in the order of `Pairs.places`, (k, places)."""
    offsets, parents = columns.offsets, parents_of(columns)
    sizes, pairs = np.diff(offsets), offsets[-1] + columns.pair_offsets
    at, places = columns.size, [np.zeros(0, dtype=np.intp)]
    for j, size in enumerate(sizes):
        above = sizes[parents[j]] if parents[j] >= 0 else 0
        starts = np.concatenate([[offsets[j]], pairs[j] + np.arange(above) * size])
        last = cells.shape[1] + np.concatenate([[j], at + np.arange(above)])
        places.append(np.hstack([starts[:, None] + np.arange(size), last[:, None]]).ravel())
        at += above
    return np.hstack([cells, unseen])[:, np.concatenate(places).astype(np.intp)]


def read_places(codes: Codes, pairs: Pairs, whole: bool) -> Codes:
    """The place of each value among the distributions, −1 if it is missing, or its parent's value is missing or unseen.

    A missing column without any known value is treated as no parent.
    """
    if whole:
        return pairs.beside(codes, whole, codes)
    otherwise = np.full_like(codes, -1)
    for j, parent in enumerate(pairs.parents):
        if parent >= 0 and pairs.sizes[parent] == 0:
            otherwise[:, j] = np.where(codes[:, parent] < 0, codes[:, j], -1)
    return pairs.beside(codes, whole, otherwise)


def log_sum_over_missing(codes: Codes, pairs: Pairs, table: Floats) -> Floats:
    """log Σ over missing values of the terms whose parent is missing or unseen, (n, k), from distributions (k, places).

    From the leaves to the roots, each column sends its parent the likelihood of the parent's values under itself and
    its descendants (Pearl's message passing).
    """
    n, k = len(codes), len(table)
    out, at = np.zeros((n, k)), np.empty(codes.shape, dtype=np.intp)  # at: place among the column's missing values
    waiting: dict[int, Floats] = {}  # messages to the values of a missing column, (m, k, values)

    def send(parent: int, rows: Array, message: Floats) -> None:
        if parent not in waiting:
            missing = np.flatnonzero(codes[:, parent] < 0)
            at[missing, parent] = np.arange(len(missing))
            waiting[parent] = np.zeros((len(missing), k, pairs.sizes[parent]))
        waiting[parent][at[rows, parent]] += message

    for j in reversed(parents_first(pairs.parents)):
        size, parent = pairs.sizes[j], pairs.parents[j]
        tables = table[:, pairs.offsets[j] : pairs.offsets[j + 1]].reshape(
            k, -1, size + 1
        )  # without a parent, then by its value
        alike = -np.log(max(1, size))
        above = codes[:, parent] if parent >= 0 else np.full(n, -1)
        values = pairs.sizes[parent] if parent >= 0 else 0
        up, new, present = (above < 0) & (values > 0), (above == values) & (parent >= 0), codes[:, j] >= 0
        out[new & present] += np.where(codes[new & present, j] < size, alike, -np.log(size + 1.0))[:, None]
        rows = np.flatnonzero(up & present)
        if len(rows):
            send(parent, rows, tables[:, 1:, codes[rows, j]].transpose(2, 0, 1))
        if j in waiting:  # otherwise it has no observed descendant, and its values sum to one
            message, rows = waiting.pop(j), np.flatnonzero(~present)
            on = up[rows]
            top = rows[~on]
            given = tables[:, np.where(new[top], 0, above[top] + 1), :size].transpose(1, 0, 2)
            out[top] += log_sum(np.where(new[top, None, None], alike, given) + message[~on])
            if on.any():
                send(parent, rows[on], log_sum(tables[:, 1:, :size] + message[on, :, None, :]))
    return out


def log_sum(logs: Floats) -> Floats:
    """log Σ exp over the last axis; −∞ if all are −∞."""
    top = logs.max(axis=-1, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - safe).sum(axis=-1)) + safe[..., 0])


def by_parent(pairs: Floats, columns: Columns, j: int) -> Floats:
    """A column's pairs as a (k, parent's categories, own categories) array."""
    sizes = np.diff(columns.offsets)
    own = pairs[:, columns.pair_offsets[j] : columns.pair_offsets[j + 1]]
    return own.reshape(len(pairs), int(sizes[parents_of(columns)[j]]), int(sizes[j]))


def items_of(columns: Columns) -> tuple[list[str], Array]:
    """Names of the cells used by complete rows, and their places among all cells."""
    assert columns.categories is not None
    offsets, pairs = columns.offsets, columns.offsets[-1] + columns.pair_offsets
    names, at = [], [np.zeros(0, dtype=np.intp)]
    items = [[columns.item(j, code) for code in range(len(known))] for j, known in enumerate(columns.categories)]
    for j, parent in enumerate(parents_of(columns)):
        if parent < 0:
            names += items[j]
            at.append(np.arange(offsets[j], offsets[j + 1]))
        else:
            names += [f"{one} given {other}" for other in items[parent] for one in items[j]]
            at.append(np.arange(pairs[j], pairs[j + 1]))
    return names, np.concatenate(at).astype(np.intp)
