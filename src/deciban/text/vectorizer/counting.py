"""Documents to counts, in threads: a block of documents is a partial sum, and sums merge.

Kernels release the GIL, so threads suffice. Each numbers terms in a set of its own; the sets are merged at the end, and
columns are in sorted order, so that a result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from deciban._kernel import text
from deciban._typing import Array, Codes, Matrix
from deciban.errors import DecibanError
from deciban.text.parallel import in_threads, map_with_own_state, over_blocks
from deciban.text.vectorizer.terms import Recipe, Terms, TermStream
from deciban.threads import threads

MAX_INT32 = int(np.iinfo(np.int32).max)

Returned = TypeVar("Returned")
DocumentRange: TypeAlias = tuple[Array, Codes, Array]  # counts, columns, and where each document starts
NumberedCounts: TypeAlias = tuple[
    Array | None, Codes, Array
]  # the same by number; without counts, a number for each occurrence


@dataclass(slots=True)
class TermCounts:
    """The terms of documents, in how many documents each occurs, and how often. These counts add up."""

    terms: Terms
    documents: int = 0
    holders: list[Array] = field(default_factory=list)  # by level: how many documents have each term
    times: list[Array] = field(default_factory=list)  # by level: how often each term occurs

    def __post_init__(self) -> None:
        self._make_room()

    def read(self, documents: Any, start: int, stop: int) -> None:
        """Count documents[start:stop]."""
        for level, stream in enumerate(self._streams(documents, start, stop)):
            size = len(self.times[level])
            self.holders[level] += np.bincount(text.count(*stream, size)[1], minlength=size)

    def count_by_number(self, documents: Any, start: int, stop: int) -> tuple[int, list[NumberedCounts]]:
        """The same without `holders`, which are counted by column later: the number of documents, and their terms."""
        streams = self._streams(documents, start, stop)
        if not self.terms.repetitive:
            return stop - start, [(None, ids, indptr) for ids, indptr in streams]
        parts = [text.count(*stream, size) for stream, size in zip(streams, self.terms.sizes(), strict=True)]
        return stop - start, [(counts.astype(np.int32), ids, indptr) for counts, ids, indptr in parts]

    def merge(self, other: TermCounts) -> list[Codes]:
        """Add other counts of the same recipe; by level, the numbers that their terms have here."""
        to = self.terms.merge(other.terms)
        self._make_room()
        self.documents += other.documents
        for level, where in enumerate(to):
            self.holders[level][where] += other.holders[level]
            self.times[level][where] += other.times[level]
        return to

    def ranks(self) -> list[Codes]:
        """By level, the place of each term in sorted order; −1 for a term that no document has."""
        return self.terms.ranks([times > 0 for times in self.times])

    def copy(self) -> TermCounts:
        return TermCounts(self.terms.copy(), self.documents, [*map(np.copy, self.holders)], [*map(np.copy, self.times)])

    def _streams(self, documents: Any, start: int, stop: int) -> list[TermStream]:
        streams = self.terms.read(documents, start, stop, grow=True)
        self._make_room()
        self.documents += stop - start
        for times, (ids, _) in zip(self.times, streams, strict=True):
            times += np.bincount(ids, minlength=len(times))
        return streams

    def _make_room(self) -> None:
        for sums in (self.holders, self.times):
            for level, size in enumerate(self.terms.sizes()):
                if level == len(sums):
                    sums.append(np.zeros(0, dtype=np.int64))
                more = np.zeros(size - len(sums[level]), dtype=np.int64)
                sums[level] = np.concatenate([sums[level], more]) if len(more) else sums[level]


@dataclass(frozen=True, slots=True)
class TermColumns:
    """Terms that have columns."""

    terms: Terms
    columns: list[Codes]  # by level: the column of each term, −1 if it has none
    size: int
    by_number: list[Codes] = field(init=False, repr=False)  # the same, and last −1, for a term that is not known

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_number", [np.append(own, np.int32(-1)) for own in self.columns])

    def names(self) -> Array:
        """The terms in the order of their columns, as objects; None if no document can have the term."""
        which = []
        for columns in self.columns:  # created in order, they are in order in memory, which is faster to use
            number = np.full(self.size, -1, dtype=np.int32)
            number[columns[columns >= 0]] = np.flatnonzero(columns >= 0)
            which.append(number)
        out = np.full(self.size, None, dtype=object)
        for number, strings in zip(which, self.terms.strings([n[n >= 0] for n in which]), strict=True):
            out[number >= 0] = strings
        return out


def fixed(recipe: Recipe, columns: dict[Any, int]) -> TermColumns:
    """The vocabulary in which these terms have these columns."""
    terms = recipe.terms()
    level, number = terms.add(list(columns))
    to = np.fromiter(columns.values(), dtype=np.int32, count=len(columns))
    if not np.array_equal(np.sort(to), np.arange(len(to))):
        raise DecibanError(f"the columns of a vocabulary of {len(to)} terms are the numbers from 0 to {len(to) - 1}")
    out = [np.full(size, -1, dtype=np.int32) for size in terms.sizes()]
    for k in range(len(out)):
        out[k][number[level == k]] = to[level == k]
    return TermColumns(terms, out, len(columns))


def choose(
    tally: TermCounts,
    ranks: Sequence[Codes],
    least: float,
    most: float,
    limit: int | None = None,
    once: bool = False,
    kind: npt.DTypeLike = np.int64,
) -> Codes:
    """By rank, the columns of the terms that from `least` to `most` documents have; −1 for the others.

    With a limit, only the most frequent ones (with `once`: those in most documents), compared as numbers of `kind`.
    """
    size = sum(int((rank >= 0).sum()) for rank in ranks)
    if size == 0:
        raise DecibanError("empty vocabulary; perhaps the documents only contain stop words")
    if most < least:
        raise DecibanError("max_df corresponds to < documents than min_df")
    holders = in_order(tally.holders, ranks, size)
    keep = (holders >= least) & (holders <= most)
    if limit is not None and keep.sum() > limit:
        # Ties are broken as in scikit-learn: by the same unstable sort of the same numbers.
        often = (holders if once else in_order(tally.times, ranks, size)).astype(kind)
        best = np.flatnonzero(keep)[(-often[keep]).argsort()[:limit]]
        keep = np.zeros(size, dtype=bool)
        keep[best] = True
    if not keep.any():
        raise DecibanError("After pruning, no terms remain. Try a lower min_df or a higher max_df.")
    return np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)


def vocabulary_of(terms: Terms, ranks: Sequence[Codes], columns: Codes) -> TermColumns:
    """The vocabulary in which terms have columns by rank."""
    with_none = np.append(columns, np.int32(-1))  # for rank −1
    return TermColumns(terms, [with_none[rank] for rank in ranks], int(columns.max(initial=-1)) + 1)


def in_order(sums: Sequence[Array], ranks: Sequence[Codes], size: int) -> Array:
    """Sums by level and number as sums by rank."""
    out = np.zeros(size, dtype=np.int64)
    for mine, rank in zip(sums, ranks, strict=True):
        out[rank[rank >= 0]] = mine[rank >= 0]
    return out


def learn(batches: Iterable[Any], recipe: Recipe, n_jobs: int | None) -> TermCounts:
    """The tally of all documents."""
    return sum_of(over_counts(batches, recipe, n_jobs, TermCounts.read)[0])[0]


def learn_and_count(
    batches: Iterable[Any], recipe: Recipe, dtype: npt.DTypeLike, n_jobs: int | None
) -> tuple[TermCounts, list[Codes], Matrix]:
    """The tally of all documents, the ranks of its terms, and counts by rank: CSR, columns ascending in a row."""
    tallies, blocks = over_counts(batches, recipe, n_jobs, TermCounts.count_by_number)
    total, to = sum_of(tallies)
    pending: list[Any] = [block for _, block in blocks]
    owners = [mine for mine, _ in blocks]
    del blocks
    ranks = total.ranks()
    size = sum(int((rank >= 0).sum()) for rank in ranks)
    columns = [[rank[where] for rank, where in zip(ranks, mine, strict=False)] for mine in to]

    def work(block: int) -> DocumentRange:
        rows, parts = pending[block]
        pending[block] = None  # frees memory
        # Longer terms may occur only later, or in other threads' counts: levels missing at the end are empty.
        placed = [place(part, own, size) for part, own in zip(parts, columns[owners[block]], strict=False)]
        return side_by_side(placed, rows, size)

    entries, rows = sum(len(part[1]) for _, parts in pending for part in parts), total.documents
    X = stack(in_threads(work, len(pending), threads(n_jobs, entries)), size, dtype, entries, rows)
    holders = np.append(np.bincount(X.indices, minlength=size), 0)  # for rank −1
    total.holders = [holders[rank] for rank in ranks]
    return total, ranks, X


def over_counts(
    batches: Iterable[Any], recipe: Recipe, n_jobs: int | None, work: Callable[[TermCounts, Any, int, int], Returned]
) -> tuple[list[TermCounts], list[tuple[int, Returned]]]:
    """work(counts, documents, start, stop) for all blocks, with counts per thread; see `map_with_own_state`."""
    tallies, done = map_with_own_state(batches, n_jobs, lambda: TermCounts(recipe.terms()), work)
    for tally in tallies:
        tally.terms.finish()
    return tallies, done


def sum_of(tallies: list[TermCounts]) -> tuple[TermCounts, list[list[Codes]]]:
    """All counts merged into the first; by counts and level, the numbers that their terms have there."""
    total, to = tallies[0], []
    while len(tallies) > 1:
        to.append(total.merge(tallies.pop(1)))
    return total, [[np.arange(size, dtype=np.int32) for size in total.terms.sizes()], *to]


def count(batches: Iterable[Any], vocabulary: TermColumns, dtype: npt.DTypeLike, n_jobs: int | None) -> Matrix:
    """How often the terms of the vocabulary occur in each document: CSR, columns ascending in a row."""

    def work(documents: Any, start: int, stop: int) -> DocumentRange:
        streams = vocabulary.terms.read(documents, start, stop, grow=False)
        return counted(streams, vocabulary.by_number, stop - start, vocabulary.size)

    parts = [part for documents in batches for part in over_blocks(documents, n_jobs, work)]
    return stack_all(parts, vocabulary.size, dtype)


def count_hashed(batches: Iterable[Any], recipe: Recipe, size: int, dtype: npt.DTypeLike, n_jobs: int | None) -> Matrix:
    """The same for terms whose column is |MurmurHash3| mod size: no state is kept between blocks."""

    def work(documents: Any, start: int, stop: int) -> DocumentRange:
        terms = recipe.terms()
        streams = terms.read(documents, start, stop, grow=True)
        columns = [(np.abs(level.astype(np.int64)) % size).astype(np.int32) for level in terms.hashes()]
        return counted(streams, columns, stop - start, size)

    parts = [part for documents in batches for part in over_blocks(documents, n_jobs, work)]
    return stack_all(parts, size, dtype)


def counted(streams: Sequence[TermStream], columns: Sequence[Codes], rows: int, size: int) -> DocumentRange:
    parts = [text.count(own[ids], indptr, size) for (ids, indptr), own in zip(streams, columns, strict=True)]
    return side_by_side(parts, rows, size)


def place(part: NumberedCounts, columns: Codes, size: int) -> DocumentRange:
    """Counts (or occurrences) by term number as counts by column, ascending in a row."""
    counts, ids, indptr = part
    if counts is None:
        return text.count(columns[ids], indptr, size)
    import scipy.sparse as sp

    matrix = sp.csr_array((counts, columns[ids], indptr.astype(np.int32)), shape=(len(indptr) - 1, size))
    matrix = matrix.tocsc().tocsr()  # this sorts in linear time
    return matrix.data, matrix.indices, matrix.indptr


def prune(X: Matrix, columns: Codes) -> Matrix:
    """Only the entries whose rank has a column, in the same order."""
    size = int(columns.max(initial=-1)) + 1
    if size == X.shape[1]:
        return X
    to = columns[X.indices]
    keep = to >= 0
    begin = np.append(0, np.cumsum(keep))[X.indptr]
    return stack_all([(X.data[keep], to[keep], begin)], size, X.dtype)


def side_by_side(parts: Sequence[DocumentRange], rows: int, size: int) -> DocumentRange:
    """The sum of several levels' counts of the same documents."""
    narrow = [(counts.astype(np.int32, copy=False), columns, indptr) for counts, columns, indptr in parts]
    if len(parts) == 1:
        return narrow[0]
    import scipy.sparse as sp

    levels = [sp.csr_array((c, columns, indptr.astype(np.int32)), shape=(rows, size)) for c, columns, indptr in narrow]
    total = sum(levels[1:], levels[0]) if levels else sp.csr_array((rows, size), dtype=np.int32)
    return total.data, total.indices, total.indptr


def stack(parts: Iterable[DocumentRange], size: int, dtype: npt.DTypeLike, stored: int, rows: int) -> Matrix:
    """Blocks of rows as one matrix of at most `stored` entries; each block is freed once it is copied."""
    import scipy.sparse as sp

    index = np.int32 if max(stored, size) <= MAX_INT32 else np.int64
    data, indices, indptr = np.empty(stored, dtype), np.empty(stored, index), np.zeros(rows + 1, index)
    row = at = 0
    for counts, columns, begin in parts:
        data[at : at + len(counts)] = counts
        indices[at : at + len(counts)] = columns
        indptr[row + 1 : row + len(begin)] = begin[1:] + at
        row, at = row + len(begin) - 1, at + len(counts)
    for entries in (data, indices):  # returns unused memory
        entries.resize(at, refcheck=False)
    out = sp.csr_matrix((data, indices, indptr), shape=(rows, size))
    out.has_sorted_indices = out.has_canonical_format = True
    return out


def stack_all(parts: list[DocumentRange], size: int, dtype: npt.DTypeLike) -> Matrix:
    """Blocks of rows as one matrix; the list is emptied."""
    stored, rows = sum(len(columns) for _, columns, _ in parts), sum(len(begin) - 1 for _, _, begin in parts)
    return stack((parts.pop(0) for _ in range(len(parts))), size, dtype, stored, rows)
