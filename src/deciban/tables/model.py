"""The model of a table: experts that each look at a row in their own way, weighed by how far they are to be believed.

    log P(y | x) = log π_y + b_y + Σ_m r_m F_m(x, y) + Σ_j δ_j F_j(x, y) − log Z,   r, δ ≥ 0

F_m are the experts' evidence and F_j that of single columns. What an expert learns are sums, so a model learns,
forgets, merges and is left one row out exactly, as long as what was chosen (bins, trees, pieces, weights) is held; a
refit chooses anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.algebra import RESIDUE
from deciban.errors import ChoiceError, ForgetError, SchemaError
from deciban.joint import log_class_prior, log_class_prior_without
from deciban.pool import LeftOut, Pool
from deciban.reading.columns import Levels, Numbers
from deciban.reading.frames import Frame
from deciban.reading.table import Reader
from deciban.results.evaluation import CROSS_FITTED, EXACT, HELD
from deciban.schema import find, union_classes
from deciban.show import plain
from deciban.tables.encode import Cuts, Encoding, Known, Rows
from deciban.tables.experts.base import Expert
from deciban.tables.experts.columns import ColumnLaws, centred
from deciban.text.parallel import in_threads
from deciban.threads import own_threads, threads

BLOCK = 16_384  # rows encoded at a time
FEW = 64  # rows: too few to share out, for us and for BLAS
WORTH = 30  # times as much is done with an entry here as where it is only added up
AT_ONCE = 1 << 22  # numbers of evidence of rows left out that are held at a time
MOST = 50.0  # nats: what one expert says at most, so that none can overrule all others on a strange row

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Something that was tried, its leave-one-out log loss, and what became of it."""

    expert: str
    setting: str
    loss: float
    weight: float | None
    chosen: bool


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """How the choice was made."""

    candidates: tuple[Candidate, ...] = ()
    laws: tuple[tuple[str, str, float, float], ...] = ()  # column, law, nats a row by the column, and in all by the law
    loss: float = np.nan
    accuracy: float = np.nan
    rows: int = 0  # that judged
    weight: float = 0.0  # of all rows that were learned then


@dataclass(frozen=True, slots=True, eq=False)
class TableModel:
    """Experts, their sums and their weights."""

    classes: Array
    weight: Floats  # (k,) rows of each class
    reader: Reader
    encoding: Encoding
    experts: tuple[Expert, ...]  # the first is that of columns
    pool: Pool  # a weight for every expert, then one for every column; an offset for every class
    class_prior: str | Floats = "empirical"
    closed: bool = False
    record: Record = field(default_factory=Record)
    left_out: LeftOut | None = None  # what weighs evidence of rows that the weights were chosen by

    def read(self, X: Any) -> Frame:
        """Rows of the table that was learned."""
        pairs = zip(self.encoding.names, self.encoding.columns, strict=True)
        return self.reader.read(X, {name: coded.levels for name, coded in pairs if isinstance(coded, Known)})

    # ------------------------------------------------------------------ answering

    @property
    def log_prior(self) -> Floats:
        return log_class_prior(self.class_prior, self.weight)

    @property
    def columns(self) -> ColumnLaws:
        first = self.experts[0]
        assert isinstance(first, ColumnLaws)
        return first

    @property
    def column_weights(self) -> Floats:
        """What each column's own evidence weighs, alone and in the expert of columns."""
        return np.asarray(self.pool.weights[0] + self.pool.weights[len(self.experts) :])

    def said(self, rows: Rows) -> Iterator[tuple[float, Floats]]:
        """The weight and the evidence (n, k) of every expert but that of columns."""
        for weight, expert in zip(self.pool.weights[1:], self.experts[1:], strict=False):
            if weight > 0:
                yield float(weight), centred(expert.evidence(rows), MOST)

    def pooled(self, rows: Rows, log_prior: Floats) -> Floats:
        """log π + b + Σ r F, (n, k), up to what all classes share."""
        out = self.columns.weighed(rows, self.column_weights)
        for weight, said in self.said(rows):
            out += weight * said
        out += self.pool.offsets + log_prior
        return out

    def log_joint(self, frame: Frame, n_jobs: int | None = None) -> Floats:
        out = np.empty((frame.size, len(self.classes)))
        self._ready()

        def work(rows: slice) -> None:
            out[rows] = self.pooled(self.encoding.rows(frame.take(rows)), self.log_prior)

        over_rows(frame, n_jobs, work)
        return out

    def log_joint_without(
        self, frame: Frame, y: Codes, weight: Floats | None = None, n_jobs: int | None = None
    ) -> Floats:
        """The same of rows that were learned as of class y, each by the sums without it."""
        out = np.empty((frame.size, len(self.classes)))
        prior, which = log_class_prior_without(self.class_prior, self.weight, y, weight, self.closed)
        self._ready()

        def work(rows: slice) -> None:
            mine, w = self.encoding.rows(frame.take(rows), True), None if weight is None else weight[rows]
            out[rows] = self.pooled_without(mine, y[rows], prior[which[rows]], w)

        over_rows(frame, n_jobs, work)
        return out

    def pooled_without(self, rows: Rows, y: Codes, log_prior: Floats, weight: Floats | None = None) -> Floats:
        """What `pooled` says of rows that were learned as of class y, each by the sums without it, and by weights that
        it had no part in."""
        if self.left_out is None:
            out, _ = self.columns.said_without(rows, y, weight, self.column_weights, np.zeros(0, dtype=np.intp))
            for share, expert in zip(self.pool.weights[1:], self.experts[1:], strict=False):
                if share > 0:
                    out += share * centred(expert.evidence_without(rows, y, weight), MOST)
            return np.asarray(out + self.pool.offsets + log_prior)
        used = self.left_out.used(self.pool)
        pool, left_out = self.pool.narrowed(used), self.left_out.narrowed(used)
        out, step = np.empty(log_prior.shape), max(1, AT_ONCE // max(1, len(used) * len(self.classes)))
        for start in range(0, len(rows), step):
            at = slice(start, start + step)
            w = None if weight is None else weight[at]
            evidence = self._vectors_without(rows.take(at), y[at], w, used)
            out[at] = left_out.pooled(pool, evidence, y[at], rows.mark[at], log_prior[at], w) + log_prior[at]
        return out

    def _vectors_without(self, rows: Rows, y: Codes, weight: Floats | None, used: Array) -> Floats:
        """Evidence that these weights are for, (n, used, k): of experts, then of columns by themselves."""
        m, out = len(self.experts), np.empty((len(rows), len(used), len(self.classes)))
        whole = np.full(len(self.encoding.columns), float(len(used) > 0 and used[0] == 0))
        together, alone = self.columns.said_without(rows, y, weight, whole, used[used >= m] - m)
        out[:, used >= m] = alone
        for i, j in enumerate(used[used < m].tolist()):
            said = centred(self.experts[j].evidence_without(rows, y, weight), MOST) if j else together
            out[:, i] = said
        return out

    @property
    def way(self) -> str:
        """By which way rows that were learned are judged."""
        return (CROSS_FITTED if self.left_out is not None else HELD) if self.pool.weights.any() else EXACT

    def _ready(self) -> None:
        """What is derived from the sums, derived before threads share it."""
        some = self.encoding.rows(empty_frame(self.encoding))
        self.columns.evidence(some)
        for _ in self.said(some):
            pass

    # ------------------------------------------------------------------ learning

    def none(self) -> TableModel:
        """The same choices, with nothing learned."""
        return self.scaled(0.0)

    def scaled(self, factor: float) -> TableModel:
        experts = tuple(expert.scaled(factor) for expert in self.experts)
        return replace(self, weight=self.weight * factor, experts=experts)

    def in_classes(self, classes: Array) -> TableModel:
        """Room for other classes."""
        if len(classes) == len(self.classes):
            return self
        where, k = find(self.classes, classes), len(classes)
        weight = np.zeros(k)
        weight[where] = self.weight
        if not isinstance(self.class_prior, str):
            raise SchemaError("a class prior that was given cannot speak of classes that came later: fit again")
        experts = tuple(expert.in_classes(where, k) for expert in self.experts)
        places = np.full(k, -1)
        places[where] = np.arange(len(where))
        left_out = None if self.left_out is None else self.left_out.in_classes(places)
        pool = self.pool.in_classes(places)
        return replace(self, classes=classes, weight=weight, experts=experts, pool=pool, left_out=left_out)

    def in_encoding(self, encoding: Encoding) -> TableModel:
        """Room for categories that came later."""
        if encoding is self.encoding:
            return self
        columns = self.columns.in_cells(encoding.offsets)
        return replace(self, encoding=encoding, experts=(columns, *self.experts[1:]))

    def learned(
        self, frame: Frame, y: Codes, classes: Array, weight: Floats | None = None, n_jobs: int | None = None
    ) -> TableModel:
        """With rows whose class codes y point into `classes`."""
        model = self.in_classes(union_classes(self.classes, classes)).in_encoding(self.encoding.with_new(frame))
        return model.plus(model.batch(frame, find(classes, model.classes)[y].astype(np.int32), weight, n_jobs))

    def batch(self, frame: Frame, y: Codes, weight: Floats | None = None, n_jobs: int | None = None) -> TableModel:
        """The sums of these rows alone, under the same choices."""
        none = self.none()

        def work(rows: slice) -> TableModel:
            mine = none.encoding.rows(frame.take(rows))
            w = None if weight is None else weight[rows]
            experts = tuple(expert.learned(mine, y[rows], w) for expert in none.experts)
            each = np.bincount(y[rows], w, minlength=len(none.classes)).astype(float)
            return replace(none, weight=each, experts=experts)

        return added(none, over_rows(frame, n_jobs, work))

    def plus(self, other: TableModel, sign: float = 1.0) -> TableModel:
        """The sums of both, which have the same classes and made the same choices."""
        weight = self.weight + sign * other.weight
        weight[np.abs(weight) <= RESIDUE * self.weight] = 0.0
        experts = tuple(a.plus(b, sign) for a, b in zip(self.experts, other.experts, strict=True))
        return replace(self, weight=weight, experts=experts)

    def forgotten(
        self, frame: Frame, y: Codes, classes: Array, weight: Floats | None = None, n_jobs: int | None = None
    ) -> TableModel:
        """Without rows whose class codes y point into `classes`; rows that were never learned are an error."""
        unknown = [c for c in classes.tolist() if c not in set(self.classes.tolist())]
        if unknown:
            raise ForgetError(
                "cannot forget rows of class {value!r}: the model never learned that class", value=unknown[0]
            )
        batch = self.batch(frame, find(classes, self.classes)[y].astype(np.int32), weight, n_jobs)
        left = self.columns.counts - batch.columns.counts
        low = np.argwhere(left < -RESIDUE * np.maximum(1.0, self.columns.counts))
        codes = self.encoding.rows(frame).codes
        if len(low) or (codes < 0).any():
            raise self._never_learned(low, codes)
        short = np.flatnonzero(self.weight - batch.weight < -RESIDUE * np.maximum(1.0, self.weight))
        if len(short):
            c = short[0]
            raise ForgetError(
                "cannot forget {given:g} rows of class {value!r}: only {learned:g} were learned",
                value=plain(self.classes[c]),
                given=batch.weight[c],
                learned=self.weight[c],
            )
        rest = self.plus(batch, -1.0)
        for expert in rest.experts:
            if not expert.sound():
                raise ForgetError(
                    f"cannot forget these rows: some were never learned as they are here (the sums of {expert.name} do "
                    "not have them)"
                )
        return rest

    def check_learned(self, frame: Frame, y: Codes, weight: Floats | None) -> None:
        """Rows to be left out must have been learned: each value at least as often as it stands in its row."""
        codes = self.encoding.rows(frame).codes
        if not codes.size:
            return
        cells = self.encoding.offsets[:-1] + np.maximum(codes, 0)
        there = np.where(codes < 0, 0.0, self.columns.counts[y[:, None], cells])
        wanted = (np.ones(len(y)) if weight is None else weight)[:, None] * (1.0 - 1e-9)
        bad = np.argwhere(there < wanted)
        if len(bad):
            row, j = bad[0]
            raise ForgetError(
                "row {row} was not learned: no row of class {label!r} with its value of column {column!r} was",
                row=row,
                column=self.encoding.names[j],
                label=plain(self.classes[y[row]]),
            )

    def _never_learned(self, low: Array, codes: Codes) -> ForgetError:
        if len(low):
            cls, cell = low[0]
            j = int(np.searchsorted(self.encoding.offsets, cell, side="right")) - 1
            return ForgetError(
                "cannot forget row {row}: with its value of column {column!r}, more rows of class {label!r} would be "
                "forgotten than were learned",
                row=np.flatnonzero(codes[:, j] == cell - self.encoding.offsets[j])[0],
                column=self.encoding.names[j],
                label=plain(self.classes[cls]),
            )
        row, j = np.argwhere(codes < 0)[0]
        return ForgetError(
            "cannot forget row {row}: its value of column {column!r} was never learned",
            row=row,
            column=self.encoding.names[j],
        )

    def merged(self, other: TableModel) -> TableModel:
        """What both have learned, under choices that are the same."""
        if self.choices() != other.choices():
            raise ChoiceError(
                "cannot merge models that chose differently (bins, trees, weights): let the second learn under the "
                "first's choices, with first.empty().partial_fit(rows, labels), and merge those"
            )
        classes = union_classes(self.classes, other.classes)
        encoding = common_encoding(self.encoding, other.encoding)
        mine = self.in_classes(classes).in_encoding(encoding)
        theirs = other.in_classes(classes)
        columns = theirs.columns.recoded(other.encoding, encoding)
        return mine.plus(replace(theirs, encoding=encoding, experts=(columns, *theirs.experts[1:])))

    def choices(self) -> bytes:
        """A digest of everything that was chosen; it is the same before and after learning more."""
        from deciban.tables.files import digest

        return digest(self)

    def with_prior(self, class_prior: str | Floats) -> TableModel:
        return replace(self, class_prior=class_prior)


def added(none: TableModel, parts: list[TableModel]) -> TableModel:
    """The sum of models that made the same choices."""
    if not parts:
        return none
    first, *rest = parts
    weight = np.sum([part.weight for part in parts], axis=0)
    experts = tuple(e.added([part.experts[i] for part in rest]) for i, e in enumerate(first.experts))
    return replace(none, weight=weight, experts=experts)


def over_rows(frame: Frame, n_jobs: int | None, work: Callable[[slice], Result]) -> list[Result]:
    """work(rows) for blocks of rows, in order, in threads."""
    if frame.size <= FEW:
        return [work(slice(0, frame.size))]
    pieces = -(-frame.size // BLOCK)
    edges = np.linspace(0, frame.size, pieces + 1).astype(int)
    workers = threads(n_jobs, frame.size * max(1, len(frame.columns)) * WORTH)
    with own_threads():
        return list(in_threads(lambda i: work(slice(edges[i], edges[i + 1])), pieces, workers))


def empty_frame(encoding: Encoding) -> Frame:
    """No rows of the columns that are coded."""
    columns = tuple(
        Numbers(np.zeros(0), c.whole, c.dates) if isinstance(c, Cuts) else Levels(np.zeros(0, dtype=np.int32), ())
        for c in encoding.columns
    )
    texts = tuple(Levels(np.zeros(0, dtype=np.int32), ()) for _ in encoding.texts)
    return Frame((*encoding.names, *encoding.texts), (*columns, *texts), 0)


def common_encoding(a: Encoding, b: Encoding) -> Encoding:
    """The first's, with the categories that came later to the second."""
    columns = []
    for mine, theirs in zip(a.columns, b.columns, strict=True):
        if isinstance(mine, Known) and isinstance(theirs, Known):
            new = tuple(level for level in theirs.levels if level not in set(mine.levels))
            mine = replace(mine, levels=(*mine.levels, *new)) if new else mine
        columns.append(mine)
    return replace(a, columns=tuple(columns))
