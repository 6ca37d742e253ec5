"""The expert of trees: the leaf of a decision tree that a row falls in is used as a category.

Once grown, a tree is a fixed function of x. What is learned are counts of its leaves by class; the distribution of a
node is shrunk to that of its parent, up to the root. In terms of the class given the node,

    p_node = (C_node + s p_parent) / (n_node + s),   evidence = log p_leaf − log π

and the evidence is the mean over the trees. A value that was never seen stops a row at the node that splits on it,
which is then its leaf.

Growing uses labels, so each tree grows on a part of the rows (by a row's mark), and a learned row is evaluated by the
trees that never saw it, exactly as a new row is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from deciban._kernel import forest as kernel
from deciban._typing import Array, Codes, Floats
from deciban.matrix import mix_bits
from deciban.measure import RESIDUE
from deciban.storage.arrays import CheckedArrays, positive
from deciban.tables.encode import UNSEEN, EncodedRows, Encoding
from deciban.tables.experts.base import Expert, pseudo_rows
from deciban.tables.experts.columns import ROUNDING_ROWS
from deciban.text.parallel import in_threads

if TYPE_CHECKING:
    from deciban.formula import Sketch, SplitTrees, Term

TREE_LIMITS = (24, 40)  # the least and the greatest number of trees,
ROWS_TIMES_TREES = 400_000  # fewer if there are many rows
N_PILOT_TREES = 8  # to choose how many columns to try at a split
GROWING_SHARE = 0.7  # of the rows that a tree grows on: it is evaluated on the others
STRENGTHS, DEFAULT_STRENGTH = (0.5, 2.0, 8.0), 2.0
MAX_DEPTH = 40
MIN_LEAF_SHARE = 1 / 1000  # of the rows of a class: finer leaves of large tables take time, and predict no better
SMALLEST_DOUBLE = np.finfo(np.float64).tiny
MAX_CELLS = 1 << 22  # counts by node and class: with many rows and classes leaves are larger


class Trees(NamedTuple):
    """Flat arrays of nodes, as the kernel grows them."""

    column: Codes
    left: Codes
    right: Codes
    parent: Codes
    cut: Array
    mask: Array
    start: Codes

    @classmethod
    def joined(cls, parts: Sequence[Trees]) -> Trees:
        """All trees of several forests, their nodes renumbered."""
        sizes = np.cumsum([0, *(len(part.column) for part in parts)])
        moved = []
        for part, by in zip(parts, sizes[:-1].astype(np.int32), strict=True):
            left, right, parent = (np.where(nodes >= 0, nodes + by, -1).astype(np.int32) for nodes in part[1:4])
            start = part.start[:-1] + by
            moved.append(Trees(part.column, left, right, parent, part.cut, part.mask, start))
        whole = (np.concatenate(arrays) for arrays in zip(*moved, strict=True))
        trees = cls(*whole)
        return trees._replace(start=np.append(trees.start, np.int32(sizes[-1])).astype(np.int32))

    @classmethod
    def unpack(cls, arrays: CheckedArrays, columns: int) -> Trees:
        """The trees of a file, over so many columns; checked."""
        column = arrays.whole("column", np.int32, None)
        m = len(column)
        left, right, parent = (arrays.whole(name, np.int32, m) for name in ("left", "right", "parent"))
        cut, mask = arrays.whole("cut", np.uint8, m), arrays.whole("mask", np.uint64, m, 4)
        start = arrays.whole("start", np.int32, None)
        kernel.check_forest(column, left, right, parent, start, columns)
        return cls(column, left, right, parent, cut, mask, start)

    @property
    def n_trees(self) -> int:
        return len(self.start) - 1

    def leaves(self, rows: EncodedRows, levels: Codes, ordered: Array) -> Codes:
        """Where each row ends in each tree, (n, trees): in a leaf, or at the first split on a value that was never
        seen."""
        out = np.empty((len(rows), self.n_trees), dtype=np.int32)
        kernel.leaves(rows.small, levels, ordered, *self.walked, out)
        return out

    @property
    def walked(self) -> tuple[Codes, Codes, Codes, Array, Array, Codes]:
        """The arrays that determine where a row ends."""
        return self.column, self.left, self.right, self.cut, self.mask, self.start

    def term(self, values: Floats, encoding: Encoding, ordered: Array, places: Sequence[int]) -> SplitTrees:
        """The sum over the trees of the values (nodes, k) where a row ends, as a formula."""
        from deciban.formula import SplitTrees

        nodes = len(self.column)
        small = [encoding.small_by_place(j) for j in range(len(encoding.columns))]
        bits = np.unpackbits(self.mask.view(np.uint8).reshape(nodes, 32), axis=1, bitorder="little").astype(bool)
        lefts = []
        for node, j in enumerate(self.column):
            if j < 0:
                lefts.append(np.zeros(0, dtype=bool))
            else:
                lefts.append(small[j] <= self.cut[node] if ordered[j] else bits[node][small[j]])
        at = np.append(np.array(places, dtype=np.int32), np.int32(-1))  # −1, a leaf, is the last one
        ends = {place: own == UNSEEN for place, own in zip(places, small, strict=True)}
        start = tuple(self.start.tolist())
        return SplitTrees(start, at[self.column], self.left, self.right, tuple(lefts), ends, values)


def members(mark: Array, trees: int) -> Array:
    """(n, trees): 1 if a tree grows on a row."""
    seeds = mix_bits(np.arange(2, trees + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    out = np.empty((len(mark), trees), dtype=np.uint8)
    kernel.members(np.ascontiguousarray(mark), seeds, int(GROWING_SHARE * 2**53), out)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Forest(Expert):
    """Trees over small codes."""

    trees: Trees
    levels: Codes
    ordered: Array
    counts: Floats  # (nodes, k)
    strength: float
    tries: int
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    name: ClassVar[str] = "trees"
    changing: ClassVar[tuple[str, ...]] = ("counts",)

    @classmethod
    def grown(
        cls,
        rows: EncodedRows,
        y: Codes,
        k: int,
        levels: Codes,
        ordered: Array,
        tries: int,
        weight: Floats | None = None,
        trees: int = TREE_LIMITS[0],
        workers: int = 1,
        begin: Forest | None = None,
    ) -> Forest:
        """Trees grown on these rows, with nothing learned yet; `begin` has the first of them."""
        member, grown = members(rows.mark, trees), [] if begin is None else [begin.trees]
        least = max(1.0, len(rows) * MIN_LEAF_SHARE / max(1, k), TREE_LIMITS[1] * len(rows) * k / MAX_CELLS)
        first_tree = 0 if begin is None else begin.trees.n_trees
        parts = min(trees - first_tree, 2 * workers if workers > 1 else 1)
        edges = np.linspace(first_tree, trees, parts + 1).astype(int)

        def work(i: int) -> Trees:
            mine, first = member[:, edges[i] : edges[i + 1]], int(edges[i])
            settings = (k, tries, least, MAX_DEPTH, 0, first)
            return Trees(*kernel.grow_forest(rows.small, levels, ordered, y, weight, mine, *settings))

        whole = Trees.joined([*grown, *in_threads(work, len(edges) - 1, workers)])
        return cls(whole, levels, ordered, np.zeros((len(whole.column), k)), 1.0, tries)

    @property
    def is_default(self) -> bool:
        return self.strength == DEFAULT_STRENGTH

    @property
    def settings(self) -> str:
        return f"{self.trees.n_trees} trees, the best of {self.tries} columns at a split, {pseudo_rows(self.strength)}"

    def leaves(self, rows: EncodedRows) -> Codes:
        known = rows.remembered(self.trees)
        return self.trees.leaves(rows, self.levels, self.ordered) if known is None else known

    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Forest:
        return self.counted(self.leaves(rows), y, weight)

    def counted(self, leaves: Codes, y: Codes, weight: Floats | None) -> Forest:
        """With rows in these leaves added."""
        counts = self.counts.copy() if self.counts.any() else np.zeros(self.counts.shape)
        kernel.node_counts(leaves, y, weight, self.trees.parent, counts)
        return replace(self, counts=counts)

    def plus(self, other: Forest, sign: float = 1.0) -> Forest:
        counts, at = self.counts.copy(), np.flatnonzero(other.counts.any(axis=1))
        before = counts[at]
        after = before + sign * other.counts[at]
        after[np.abs(after) <= RESIDUE * before] = 0.0
        counts[at] = after
        return replace(self, counts=counts)

    def without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Forest:
        counts, removed = self.counts.copy(), np.ones(len(y)) if weight is None else weight
        kernel.node_counts(self.leaves(rows), y, -removed, self.trees.parent, counts)
        if weight is not None:
            counts[np.abs(counts) <= RESIDUE * self.counts] = 0.0
        return replace(self, counts=counts)

    def scaled(self, factor: float) -> Forest:
        return replace(self, counts=self.counts * factor)

    def in_classes(self, where: Array, k: int) -> Forest:
        counts = np.zeros((len(self.counts), k))
        counts[:, where] = self.counts
        return replace(self, counts=counts)

    def is_valid(self) -> bool:
        return bool((self.counts >= -ROUNDING_ROWS).all())

    def prior(self) -> Floats:
        """The classes' shares of all rows: the first tree's root counts every row."""
        total = self.counts[0]
        return total / total.sum() if total.sum() > 0 else np.full(len(total), 1.0 / max(1, len(total)))

    def evidence(self, rows: EncodedRows) -> Floats:
        return self._evidence(rows, None)

    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        out, leaves = np.zeros((len(rows), self.counts.shape[1])), self.leaves(rows)
        how, rest = (self.trees.parent, self.counts, self.prior(), self.strength), float(self.counts[0].sum())
        kernel.evidence(leaves, *how, members(rows.mark, leaves.shape[1]), y, weight, True, out, prior_rows=rest)
        return out

    def evidence_unlearned(self, rows: EncodedRows, y: Codes) -> Floats:
        del y
        return self._evidence(rows, members(rows.mark, self.trees.n_trees))

    def _evidence(self, rows: EncodedRows, member: Array | None) -> Floats:
        """Evidence about rows that are not in the sums, without the trees that a row is a `member` of."""
        if "table" not in self._cache:
            table = np.empty_like(self.counts)
            kernel.probabilities(self.trees.parent, self.counts, self.prior(), self.strength, table)
            self._cache["table"] = table
        out = np.zeros((len(rows), self.counts.shape[1]))
        how = (self.trees.parent, self.counts, self.prior(), self.strength)
        kernel.evidence(self.leaves(rows), *how, member, None, None, True, out, self._cache["table"])
        return out

    def terms(self, rows: EncodedRows, unlearned: Codes | None = None) -> tuple[Floats, Floats]:
        t, n, k = self.trees, len(rows), self.counts.shape[1]
        out, rest = np.zeros((n, len(self.levels), k)), np.zeros((n, k))
        member = members(rows.mark, t.n_trees) if unlearned is not None else None
        how = (self.counts, self.prior(), self.strength, member)
        kernel.terms(self.leaves(rows), t.column, t.parent, *how, out, rest)
        return out, rest

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        arrays = {**self.trees._asdict(), "counts": self.counts}
        return {"strength": self.strength, "tries": self.tries}, arrays

    @classmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> Forest:
        trees = Trees.unpack(arrays, len(encoding.columns))
        strength, tries = positive(settings["strength"]), int(positive(settings["tries"]))
        counts = arrays.counts("counts", len(trees.column), k)
        return cls(trees, encoding.levels, encoding.ordered, counts, strength, tries)

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Term:
        """The mean over the trees of log P(class | where a row ends), less log P(class)."""
        del sketch
        table, prior = np.empty_like(self.counts), self.prior()
        kernel.probabilities(self.trees.parent, self.counts, prior, self.strength, table)
        has_rows = prior > 0  # a class without rows has evidence 0
        safe = np.where(has_rows, np.maximum(prior, SMALLEST_DOUBLE), 1.0)
        values = np.where(has_rows, np.log(np.maximum(table, SMALLEST_DOUBLE)) - np.log(safe), 0.0)
        return self.trees.term(values / self.trees.n_trees, encoding, self.ordered, places)
