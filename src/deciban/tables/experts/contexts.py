"""The expert of contexts: k-dependence Bayes, each column given the class and a few other columns (S21).

Columns are ordered by their mutual information with the class, and the parents of each are the earlier ones that it
depends on most. What is learned are counts of a value with its parents' values, by class; counts with fewer parents
are sums of these.

    p_t(v) = (C_t(v) + s p_{t−1}(v)) / (C_t + s),   t parents deep

The structure depends on labels. So there are two, each chosen on one half of the rows (by a row's mark), and the
evidence is their mean; a learned row is evaluated by the one that never saw it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from deciban._kernel import contexts as kernel
from deciban._typing import Array, Codes, Floats
from deciban.deferred import Deferred
from deciban.errors import FileError
from deciban.matrix import mix_bits
from deciban.measure import RESIDUE
from deciban.storage.arrays import CheckedArrays, positive
from deciban.tables.encode import UNSEEN, EncodedRows, Encoding
from deciban.tables.experts.base import Expert, pseudo_rows
from deciban.tables.experts.columns import ROUNDING_ROWS

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term

MAX_PARENTS = 4
STRENGTHS, DEFAULT_STRENGTH = (2.0, 8.0), 8.0
COLUMN_SHIFT = np.uint64(48)  # a key holds the column's number above this many bits


@dataclass(frozen=True, slots=True, eq=False)
class ContextSums:
    """Counts by class (m, k) of a column's value and its parents', under keys in ascending order."""

    keys: Array  # (m,) uint64: the column, then the codes
    counts: Floats

    @classmethod
    def of(cls, codes: Array, parents: Codes, y: Codes, weight: Floats | None, k: int) -> ContextSums:
        ptr, keys, counts = kernel.count(codes, parents, y, weight, k)
        columns = np.repeat(np.arange(len(parents), dtype=np.uint64), np.diff(ptr))
        return cls(keys | columns << COLUMN_SHIFT, counts)

    @classmethod
    def total(cls, parts: Sequence[ContextSums], signs: Sequence[float]) -> ContextSums:
        """The sum of several, each with its sign."""
        keys = np.concatenate([part.keys for part in parts])
        order = np.argsort(keys, kind="stable")  # a merge of sorted runs
        keys = keys[order]
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, dtype=np.intp)
        counts = np.concatenate([sign * part.counts for part, sign in zip(parts, signs, strict=True)])[order]
        if len(first) < len(keys):
            whole = np.add.reduceat(counts, first, axis=0)
            if min(signs) < 0:  # rounding residue is set to zero
                whole[np.abs(whole) <= RESIDUE * np.add.reduceat(np.abs(counts), first, axis=0)] = 0.0
            counts = whole
        keys = keys[first]
        if min(signs) < 0:
            some = counts.any(axis=1)
            keys, counts = keys[some], counts[some]
        return cls(keys, counts)

    def plus(self, other: ContextSums, sign: float = 1.0) -> ContextSums:
        if not len(other.keys):
            return self
        if sign < 0 and len(self.keys):
            at = np.minimum(np.searchsorted(self.keys, other.keys), len(self.keys) - 1)
            if (self.keys[at] == other.keys).all():
                return self._less(other, at, sign)
        return other if not len(self.keys) and sign > 0 else ContextSums.total([self, other], [1.0, sign])

    def _less(self, other: ContextSums, at: Array, sign: float) -> ContextSums:
        """`total` if every key of the other is among these: no sorting needed."""
        before, change, counts = self.counts[at], sign * other.counts, self.counts.copy()
        after = before + change
        after[np.abs(after) <= RESIDUE * (np.abs(before) + np.abs(change))] = 0.0
        counts[at] = after
        gone = at[~after.any(axis=1)]
        return ContextSums(np.delete(self.keys, gone), np.delete(counts, gone, axis=0))

    def tree(self, parents: Codes, levels: Codes, k: int) -> kernel.Contexts:
        ptr = np.searchsorted(self.keys, np.arange(len(parents) + 1, dtype=np.uint64) << COLUMN_SHIFT).astype(np.int64)
        return kernel.Contexts(
            ptr, self.keys & ((np.uint64(1) << COLUMN_SHIFT) - np.uint64(1)), self.counts, parents, levels, k
        )


def choose_parents(codes: Array, levels: Codes, y: Codes, weight: Floats | None, k: int) -> Codes:
    """Each column's parents among those with more information on the class, the strongest first: (d, MAX_PARENTS)."""
    d = codes.shape[1]
    with_class, between = np.zeros(d), np.zeros((d, d))
    kernel.pair_information(codes, levels, y, weight, k, with_class, between)
    order = np.argsort(-with_class, kind="stable")
    parents = np.full((d, MAX_PARENTS), -1, dtype=np.int32)
    for i, j in enumerate(order):
        before = order[:i]
        chosen = before[np.argsort(-between[j, before], kind="stable")][:MAX_PARENTS]
        parents[j, : len(chosen)] = chosen
    return parents


def half_of(rows: EncodedRows) -> Array:
    """Which of the two structures was chosen on a row."""
    return (mix_bits(rows.mark + np.uint64(1)) & np.uint64(1)).astype(np.intp)


def no_sums(k: int) -> Deferred[tuple[ContextSums, ContextSums]]:
    """The sums of no rows."""
    empty = ContextSums(np.zeros(0, dtype=np.uint64), np.zeros((0, k)))
    return Deferred.of((empty, empty))


@dataclass(frozen=True, slots=True, eq=False)
class ContextTrees(Expert):
    """Two k-dependence networks over coarse codes."""

    maps: Array  # (d, 256) small codes to coarse ones
    levels: Codes  # (d,) how many coarse codes there are
    parents: tuple[Codes, Codes]  # (d, MAX_PARENTS) each
    later: Deferred[tuple[ContextSums, ContextSums]]
    k: int
    depth: int = 1
    strength: float = 2.0
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    name: ClassVar[str] = "contexts"
    changing: ClassVar[tuple[str, ...]] = ("keys0", "counts0", "keys1", "counts1")

    @classmethod
    def chosen(
        cls, rows: EncodedRows, y: Codes, k: int, maps: Array, levels: Codes, weight: Floats | None = None
    ) -> ContextTrees:
        """The structures chosen on these rows, with nothing learned yet."""
        bare = cls(maps, levels, (np.zeros((0, 0), dtype=np.int32),) * 2, no_sums(k), k)
        codes, side = bare.codes(rows), half_of(rows)
        parents = []
        for s in (0, 1):
            at = np.flatnonzero(side == s)
            parents.append(choose_parents(codes[at], levels, y[at], None if weight is None else weight[at], k))
        return replace(bare, parents=(parents[0], parents[1]))

    def trimmed(self) -> ContextTrees:
        """Without the unused parents, and with nothing learned: far fewer contexts to count."""
        one, two = (np.where(np.arange(p.shape[1]) < self.depth, p, -1).astype(np.int32) for p in self.parents)
        return replace(self.scaled(0.0), parents=(one, two))

    @property
    def is_default(self) -> bool:
        return self.depth == 1 and self.strength == DEFAULT_STRENGTH

    @property
    def settings(self) -> str:
        cells = f"{int(self.levels.sum())} values in all"
        others = f"each column given {self.depth} other{'s' * (self.depth > 1)}"
        return f"{others}, {cells}, {pseudo_rows(self.strength)}"

    @property
    def sums(self) -> tuple[ContextSums, ContextSums]:
        return self.later.value

    def _of(self, one: ContextSums, two: ContextSums) -> ContextTrees:
        """The same networks with other sums."""
        return replace(self, later=Deferred.of((one, two)))

    def codes(self, rows: EncodedRows) -> Array:
        out = np.empty_like(rows.small)
        kernel.recode(rows.small, self.maps, out)
        return out

    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> ContextTrees:
        codes = self.codes(rows)
        one, two = (
            sums.plus(ContextSums.of(codes, parents, y, weight, self.k))
            for sums, parents in zip(self.sums, self.parents, strict=True)
        )
        return self._of(one, two)

    def plus(self, other: ContextTrees, sign: float = 1.0) -> ContextTrees:
        one, two = (a.plus(b, sign) for a, b in zip(self.sums, other.sums, strict=True))
        return self._of(one, two)

    def without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> ContextTrees:
        """As `Expert.without`. Counts are taken out of copies of the trees, which is quicker than to subtract the sums
        and grow trees again. Evidence needs only the trees, so the sums wait until somebody asks for them."""
        codes = self.codes(rows)
        removed = [kernel.count(codes, parents, y, weight, self.k) for parents in self.parents]
        one, two = (tree.without(*counted, RESIDUE) for tree, counted in zip(self.trees(), removed, strict=True))
        rest = replace(self, later=Deferred(lambda: Expert.without(self, rows, y, weight).sums))
        rest._cache["trees"] = one, two
        return rest

    def with_settings(self, depth: int, strength: float) -> ContextTrees:
        """The same sums, and so the same trees, in other settings."""
        out = replace(self, depth=depth, strength=strength)
        out._cache.update(self._cache)
        return out

    def added(self, others: Sequence[ContextTrees]) -> ContextTrees:
        all_ = [self, *others]
        one, two = (ContextSums.total([e.sums[s] for e in all_], [1.0] * len(all_)) for s in (0, 1))
        return self._of(one, two)

    def scaled(self, factor: float) -> ContextTrees:
        if not factor:
            return replace(self, later=no_sums(self.k))
        one, two = (ContextSums(s.keys, s.counts * factor) for s in self.sums)
        return self._of(one, two)

    def in_classes(self, where: Array, k: int) -> ContextTrees:
        moved = []
        for sums in self.sums:
            counts = np.zeros((len(sums.keys), k))
            counts[:, where] = sums.counts
            moved.append(ContextSums(sums.keys, counts))
        return replace(self, later=Deferred.of((moved[0], moved[1])), k=k)

    def is_valid(self) -> bool:
        return all(bool((sums.counts >= -ROUNDING_ROWS).all()) for sums in self.sums)

    def trees(self) -> tuple[kernel.Contexts, kernel.Contexts]:
        if "trees" not in self._cache:
            one, two = (s.tree(p, self.levels, self.k) for s, p in zip(self.sums, self.parents, strict=True))
            self._cache["trees"] = (one, two)
        return self._cache["trees"]  # type: ignore[no-any-return]  # put there above

    def evidence(self, rows: EncodedRows) -> Floats:
        codes, out = self.codes(rows), np.zeros((len(rows), self.k))
        for tree in self.trees():
            tree.score(codes, self.depth, self.strength, out)
        return out / 2

    def evidence_grid_without(
        self, rows: EncodedRows, y: Codes, weight: Floats | None, depths: Codes, strengths: Floats
    ) -> Floats:
        """Evidence about learned rows, each without itself, by depth and strength: (n, depths, strengths, k)."""
        codes, side = self.codes(rows), half_of(rows)
        out = np.zeros((len(rows), len(depths), len(strengths), self.k))
        for s, tree in enumerate(self.trees()):
            at = np.flatnonzero(side != s)
            evidence = np.zeros((len(at), *out.shape[1:]))
            tree.score_each(codes[at], depths, strengths, evidence, y[at], None if weight is None else weight[at])
            out[at] = evidence
        return out

    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        depth, strength = np.array([self.depth], dtype=np.int32), np.array([self.strength])
        return self.evidence_grid_without(rows, y, weight, depth, strength)[:, 0, 0]

    def evidence_unlearned(self, rows: EncodedRows, y: Codes) -> Floats:
        return self.evidence_without(rows, y, np.zeros(len(rows)))

    def terms(self, rows: EncodedRows, unlearned: Codes | None = None) -> tuple[Floats, Floats]:
        codes, out = self.codes(rows), np.zeros((2, len(rows), len(self.maps), self.k))
        for tree, mine in zip(self.trees(), out, strict=True):
            tree.terms(codes, self.depth, self.strength, mine)
        by_column = out[1 - half_of(rows), np.arange(len(rows))] if unlearned is not None else out.mean(axis=0)
        return by_column, np.zeros((len(rows), self.k))

    def order(self, side: int) -> Codes:
        """Columns, parents first."""
        parents = self.parents[side]
        done: list[int] = []
        remaining = set(range(len(parents)))
        while remaining:
            ready = [j for j in sorted(remaining) if all(p < 0 or p not in remaining for p in parents[j])]
            if not ready:
                raise ValueError(f"column {min(remaining)} depends on itself through its parents")
            done += ready
            remaining -= set(ready)
        return np.array(done, dtype=np.int32)

    def sample(self, y: Codes, rng: np.random.Generator) -> Array:
        """Coarse codes (n, d) of rows of classes y, each drawn from one of the two networks."""
        side, out = rng.integers(0, 2, len(y)), np.empty((len(y), len(self.maps)), dtype=np.uint8)
        for s, tree in enumerate(self.trees()):
            at = np.flatnonzero(side == s)
            drawn = np.empty((len(at), len(self.maps)), dtype=np.uint8)
            tree.sample(self.order(s), y[at], self.depth, self.strength, rng.random((len(at), len(self.maps))), drawn)
            out[at] = drawn
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the cache: the kernel's trees are rebuilt from the sums."""
        return ContextTrees, (self.maps, self.levels, self.parents, self.later, self.k, self.depth, self.strength)

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        arrays = {"maps": self.maps, "levels": self.levels}
        for s, (parents, sums) in enumerate(zip(self.parents, self.sums, strict=True)):
            arrays |= {f"parents{s}": parents, f"keys{s}": sums.keys, f"counts{s}": sums.counts}
        return {"depth": self.depth, "strength": self.strength}, arrays

    @classmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> ContextTrees:
        d = len(encoding.columns)
        maps, levels = arrays.whole("maps", np.uint8, d, 256), arrays.whole("levels", np.int32, d)
        if ((maps >= levels[:, None]) & (maps != UNSEEN)).any():
            raise FileError("a column's codes are outside its range")
        parents, sums = [], []
        for s in (0, 1):
            own = arrays.whole(f"parents{s}", np.int32, d, MAX_PARENTS)
            if d and not (-1 <= own.min() and own.max() < d):
                raise FileError("a column's parent does not exist")
            keys = arrays.whole(f"keys{s}", np.uint64, None)
            if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
                raise FileError("contexts are not sorted")
            parents.append(own)
            sums.append(ContextSums(keys, arrays.counts(f"counts{s}", len(keys), k)))
        depth, strength = int(positive(settings["depth"], MAX_PARENTS)), positive(settings["strength"])
        trees = cls(maps, levels, (parents[0], parents[1]), Deferred.of((sums[0], sums[1])), k, depth, strength)
        trees.trees()  # the kernel checks the keys
        trees.order(0), trees.order(1)
        return trees

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Term:
        """The mean of two networks: each column given its parents, backing off from longer contexts to shorter ones."""
        from deciban.formula import Regrouped, Walk, Walks

        grouped = []
        for j, table in enumerate(self.maps):
            groups, last = table[encoding.small_by_place(j)].astype(np.int32), int(self.levels[j])
            groups[groups == UNSEEN] = last  # a value never seen adds 0, and ends a context
            grouped.append(sketch.place(Regrouped(places[j], groups, last + 1)))
        walks = []
        for parents, sums in zip(self.parents, self.sums, strict=True):
            most = parents.shape[1]
            columns = (sums.keys >> COLUMN_SHIFT).astype(np.int64)
            codes = np.stack([(sums.keys >> np.uint64(8 * t)) & np.uint64(255) for t in range(most, -1, -1)], axis=1)
            for j, mine in enumerate(parents):
                at = np.flatnonzero(columns == j)
                given = [int(p) for p in mine[: self.depth] if p >= 0]
                tables = node_tables(codes[at].astype(np.int64), sums.counts[at], given, self.levels, j, self.strength)
                walks.append(Walk(tuple(grouped[p] for p in given), grouped[j], tables[0], tables[1] / 2))
        return Walks(tuple(walks))


def node_tables(
    codes: Codes, counts: Floats, given: list[int], levels: Codes, own: int, strength: float
) -> tuple[tuple[Codes, ...], Floats]:
    """log p of a column's values at every node of its context tree, and the edges between the nodes.

    p_t(v) = (C_t(v) + s p_{t−1}(v))/(C_t + s), where C_t counts rows of a context of t parents. `codes` are those of
    the parents, then the column's own; `counts` are (m, k).
    """
    k, size = counts.shape[1], int(levels[own])
    value = codes[:, -1]
    first = np.zeros((1, size, k))
    np.add.at(first[0], value, counts)
    seen = first[0].sum(axis=1)
    share = seen / max(float(seen.sum()), np.finfo(np.float64).tiny)
    distributions = [(first + strength * share[None, :, None]) / (first.sum(axis=1, keepdims=True) + strength)]
    node, steps, n_nodes = np.zeros(len(codes), dtype=np.int64), [], 1
    for t, parent in enumerate(given):
        known = np.flatnonzero((node >= 0) & (codes[:, t] < levels[parent]))
        pairs, where = np.unique(np.stack([node[known], codes[known, t]], axis=1), axis=0, return_inverse=True)
        here = np.zeros((len(pairs), size, k))
        np.add.at(here, (where.ravel(), value[known]), counts[known])
        above = np.concatenate(distributions)[pairs[:, 0]] if len(pairs) else here
        distributions.append((here + strength * above) / (here.sum(axis=1, keepdims=True) + strength))
        node = np.full(len(codes), -1, dtype=np.int64)
        node[known] = n_nodes + where.ravel()
        steps.append((pairs, n_nodes))
        n_nodes += len(pairs)
    ways = []
    for (pairs, start), parent in zip(steps, given, strict=True):
        way = np.full((n_nodes, int(levels[parent]) + 1), -1, dtype=np.int32)
        way[pairs[:, 0], pairs[:, 1]] = start + np.arange(len(pairs))
        ways.append(way)
    values = np.zeros((n_nodes, size + 1, k))  # the last is a value that was never seen
    some = np.flatnonzero(seen > 0)
    values[:, some] = np.log(np.concatenate(distributions)[:, some])
    return tuple(ways), values
