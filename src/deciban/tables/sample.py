"""The rows that a model of a table is chosen on, and those of them that choices are evaluated on."""

from __future__ import annotations

import copy

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.joint import log_class_prior
from deciban.tables.encode import EncodedRows, Encoding
from deciban.tables.experts.base import Expert
from deciban.tables.model import WORK_PER_ENTRY
from deciban.threads import threads

SAMPLE_ROWS = 20_000  # structures are chosen on at most so many rows
MIN_EVAL_ROWS, MAX_EVAL_ROWS = 3000, 4000  # rows that choices are evaluated on lie between these,
EVAL_ROWS_TIMES_CLASSES = 30_000  # and are fewer the more classes there are
MAX_EVAL_ENTRIES = 1 << 24  # of their evidence, but never fewer rows than
MIN_EVAL_ROWS_OF_WIDE_TABLES = 500
EXPECTED_EXPERTS = 10
MIN_ROWS_TO_CHOOSE = 40  # with fewer rows only the default settings are tried: the best of many wins by chance


def sample(n: int) -> Array:
    """Row numbers spread evenly over the table, enough to choose structures by."""
    return np.arange(n) if n <= SAMPLE_ROWS else np.linspace(0, n - 1, SAMPLE_ROWS).astype(np.intp)


class Sample:
    """Encoded rows of classes y, in the order of their marks.

    The order makes every choice independent of the order of the table; but above SAMPLE_ROWS rows, which ones are in
    the sample depends on it. `eval_rows` are the first of them, except rows that are alone in their class: without such
    a row there is no such class.
    """

    def __init__(
        self, encoding: Encoding, rows: EncodedRows, y: Codes, k: int, weight: Floats | None, n_jobs: int | None
    ) -> None:
        order = np.argsort(rows.mark, kind="stable")
        self.encoding, self.k = encoding, k
        self.rows, self.y = rows.take(order), np.ascontiguousarray(y[order])
        self.weight = None if weight is None else np.ascontiguousarray(weight[order])
        self.count = np.bincount(y, weight, minlength=k).astype(float)
        self.log_prior = log_class_prior("empirical", self.count)
        amount = np.ones(len(y)) if self.weight is None else self.weight
        self.usable = np.flatnonzero((amount > 0) & (self.count[self.y] > amount * (1.0 + 1e-9)))
        entries = (len(encoding.columns) + EXPECTED_EXPERTS) * k
        by_classes = np.clip(EVAL_ROWS_TIMES_CLASSES / max(1, k), MIN_EVAL_ROWS, MAX_EVAL_ROWS)
        by_entries = max(MIN_EVAL_ROWS_OF_WIDE_TABLES, MAX_EVAL_ENTRIES / max(1, entries))
        self.eval_index = self.usable[: int(min(by_classes, by_entries))]
        self.eval_rows = self.rows.take(self.eval_index)
        self.eval_y = np.ascontiguousarray(self.y[self.eval_index])
        self.eval_weight = None if self.weight is None else grouped(self.weight[self.eval_index])
        self.evidence: dict[int, tuple[Expert, Floats]] = {}  # see `remember_evidence`
        self.workers = threads(n_jobs, rows.codes.size * WORK_PER_ENTRY)
        self.too_few = len(self.eval_index) < MIN_ROWS_TO_CHOOSE
        # With few rows per column, near-singular covariances and chosen smoothings overfit.
        self.cramped = len(encoding.columns) > len(y) / 2

    def remember(self, structure: object, places: Array) -> None:
        """Keep where the rows are in a structure: see `EncodedRows.remember`."""
        self.rows.remember(structure, places)
        self.eval_rows.remember(structure, places[self.eval_index])

    def remember_evidence(self, expert: Expert, evidence: Floats) -> None:
        """Keep the evidence of an expert about the evaluation rows, each left out, as it is weighted."""
        self.evidence[id(expert)] = expert, evidence

    @property
    def has_classes(self) -> bool:
        """Whether there are two classes to choose by."""
        return len(np.unique(self.eval_y)) > 1

    def in_classes(self, where: Array, k: int) -> Sample:
        """The same among k classes; those present are at `where`."""
        other = copy.copy(self)
        other.evidence = {}
        other.k, other.y, other.eval_y = k, where[self.y].astype(np.int32), where[self.eval_y].astype(np.int32)
        return other


def grouped(weight: Floats, most: int = 16) -> Floats:
    """Row weights rounded to a few distinct values if there are many: good enough for choosing."""
    if len(np.unique(weight)) <= most:
        return weight
    group = np.searchsorted(np.quantile(weight, np.linspace(0, 1, most + 1)[1:-1]), weight)
    total, size = np.bincount(group, weight), np.bincount(group)
    return np.asarray((total / np.maximum(size, 1))[group])
