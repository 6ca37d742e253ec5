"""The model of a table: experts that each use a row in their own way, and a weight for each.

    log P(y | x) = log π_y + b_y + Σ_m r_m F_m(x, y) + Σ_j δ_j F_j(x, y) − log Z,   r, δ ≥ 0

F_m is the evidence of expert m and F_j that of column j alone. Experts learn sums, so learning, forgetting, merging and
leave-one-out are exact as long as the choices (bins, trees, pieces, weights) are kept; a refit chooses again.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from deciban import bayes
from deciban._typing import Array, Codes, Floats
from deciban.deferred import Deferred
from deciban.errors import ChoiceError, ForgetError, SchemaError
from deciban.joint import log_class_prior, log_class_prior_without
from deciban.learner import AS_LABELLED, Hidden, Learner
from deciban.measure import RESIDUE
from deciban.pool import ByFold, LeftOut, Pool
from deciban.reading.columns import Levels, Numbers
from deciban.reading.frames import Frame
from deciban.reading.given import single_values
from deciban.reading.labels import Labels
from deciban.reading.table import TableColumns
from deciban.results.evidence import Evidence
from deciban.results.importance import Importance
from deciban.results.ways import CROSS_FITTED, EXACT, HELD
from deciban.schema import find, union_classes
from deciban.show import plain
from deciban.tables.encode import Cuts, EncodedRows, Encoding, Known
from deciban.tables.experts.base import Expert
from deciban.tables.experts.columns import ColumnDistributions
from deciban.text.parallel import in_threads
from deciban.threads import own_threads, threads

BLOCK_ROWS = 16_384  # rows encoded at a time
LARGE_BLOCK_ROWS = 65_536  # and learned in one thread, if there are few coordinates: each block makes sums to add up,
MAX_COORDINATES_OF_LARGE_BLOCKS = 64  # which takes long for texts
MAX_ROWS_IN_ONE_THREAD = 64  # too few rows for more threads, ours or those of BLAS
WORK_PER_ENTRY = 30  # how much more work an entry is here than in a plain sum
MAX_EVIDENCE_ENTRIES = 1 << 22  # held at a time, of rows left out

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An expert in a setting that was tried, its leave-one-out log loss, and whether it was chosen."""

    expert: str
    setting: str
    loss: float
    weight: float | None
    chosen: bool


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """How the choice was made."""

    candidates: tuple[Candidate, ...] = ()
    smoothings: tuple[
        tuple[str, str, float, float], ...
    ] = ()  # column, smoothing, gain of the column in nats per row, of the smoothing in all
    loss: float = np.nan
    accuracy: float = np.nan
    rows: int = 0  # on which candidates were evaluated
    weight: float = 0.0  # of all rows learned at the time
    later: Deferred[Importance | None] = field(default_factory=lambda: Deferred.of(None))

    @property
    def importance(self) -> Importance | None:
        """The importance of columns on some of the rows, computed when it is first asked for."""
        return self.later.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableModel(Learner):
    """Experts, their sums and their weights."""

    classes: Array
    weight: Floats  # (k,) rows of each class
    reader: TableColumns
    encoding: Encoding
    experts: tuple[Expert, ...]  # the first is that of columns
    pool: Pool  # weights of the experts, then of the columns; an offset for every class
    class_prior: str | Floats = "empirical"
    closed: bool = False
    record: Record = field(default_factory=Record)
    left_out: LeftOut | None = None  # pools evidence of rows that the weights were fitted on
    unlabelled: int = 0  # rows whose label was guessed
    lineage: object = field(default_factory=object)  # shared by all models that made the same choices
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    pools: ClassVar[bool] = True

    def read(self, X: Any) -> Frame:
        """A table as a frame with the columns that were learned."""
        pairs = zip(self.encoding.names, self.encoding.columns, strict=True)
        return self.reader.read(X, {name: coded.levels for name, coded in pairs if isinstance(coded, Known)})

    def single(self, X: Any) -> EncodedRows | None:
        """A single row of plain values as experts read it; None if X is something else, or must be read column by
        column."""
        values = single_values(X, [kind.name for kind in self.reader.kinds])
        return None if values is None else self.encoding.row(values, self.views)

    # ------------------------------------------------------------------ prediction

    @property
    def views(self) -> frozenset[str]:
        """The coordinates that the experts read."""
        return frozenset(expert.coordinates for expert in self.experts) - {""}

    @property
    def log_prior(self) -> Floats:
        if "log_prior" not in self._cache:
            self._cache["log_prior"] = log_class_prior(self.class_prior, self.weight)
        return self._cache["log_prior"]  # type: ignore[no-any-return]  # put there above

    @property
    def columns(self) -> ColumnDistributions:
        first = self.experts[0]
        assert isinstance(first, ColumnDistributions)
        return first

    @property
    def column_weights(self) -> Floats:
        """The total weight of each column: its own, and that of the expert of columns."""
        return np.asarray(self.pool.weights[0] + self.pool.weights[len(self.experts) :])

    def expert_evidence(self, rows: EncodedRows) -> Iterator[tuple[float, Floats]]:
        """Weight and evidence (n, k) of every expert but that of columns."""
        for weight, expert in zip(self.pool.weights[1:], self.experts[1:], strict=False):
            if weight > 0:
                yield float(weight), expert.limited(expert.evidence(rows))

    def pooled(self, rows: EncodedRows, log_prior: Floats) -> Floats:
        """log π + b + Σ r F, (n, k), up to a constant per row."""
        out = self.columns.weighted_evidence(rows, self.column_weights)
        for weight, evidence in self.expert_evidence(rows):
            out += weight * evidence
        out += self.pool.offsets + log_prior
        return out

    def log_joints(self, rows: Frame | EncodedRows, n_jobs: int | None = None) -> Floats:
        if isinstance(rows, EncodedRows):
            return self.pooled(rows, self.log_prior)
        frame, views = rows, self.views
        if frame.size <= MAX_ROWS_IN_ONE_THREAD:
            return self.pooled(self.encoding.rows(frame, views=views), self.log_prior)
        out = np.empty((frame.size, len(self.classes)))
        self._prepare()

        def work(rows: slice) -> None:
            out[rows] = self.pooled(self.encoding.rows(frame.take(rows), views=views), self.log_prior)

        over_rows(frame, n_jobs, work)
        return out

    def log_posterior_without(
        self, rows: Frame, codes: Codes, weight: Floats | None, n_jobs: int | None, whole: bool
    ) -> tuple[Floats, str]:
        del whole  # `left_out` knows which rows the weights were fitted on
        self.check_values(rows, codes, weight)
        scores = self.log_joint_without(rows, codes, weight, n_jobs)
        return bayes.posterior(scores, self.log_prior, logs=True, quiet=True), self.way

    def log_joint_without(
        self, frame: Frame, y: Codes, weight: Floats | None = None, n_jobs: int | None = None
    ) -> Floats:
        """The same for learned rows of classes y, each under the sums without it."""
        out = np.empty((frame.size, len(self.classes)))
        prior, which = log_class_prior_without(self.class_prior, self.weight, y, weight, self.closed)
        self._prepare()

        def work(rows: slice) -> None:
            mine, w = self.encoding.rows(frame.take(rows), True), None if weight is None else weight[rows]
            out[rows] = self.pooled_without(mine, y[rows], prior[which[rows]], w)

        over_rows(frame, n_jobs, work)
        return out

    def pooled_without(self, rows: EncodedRows, y: Codes, log_prior: Floats, weight: Floats | None = None) -> Floats:
        """`pooled` for learned rows of classes y, each under the sums without it, and under weights that were fitted
        without it."""
        if self.left_out is None:
            out, _ = self.columns.weighted_evidence_without(
                rows, y, weight, self.column_weights, np.zeros(0, dtype=np.intp)
            )
            for share, expert in zip(self.pool.weights[1:], self.experts[1:], strict=False):
                if share > 0:
                    out += share * expert.limited(expert.evidence_without(rows, y, weight))
            return np.asarray(out + self.pool.offsets + log_prior)
        used = self.left_out.used(self.pool)
        pool, left_out = self.pool.narrowed(used), self.left_out.narrowed(used)
        mark = left_out.marks(rows.mark, y)
        out, step = np.empty(log_prior.shape), max(1, MAX_EVIDENCE_ENTRIES // max(1, len(used) * len(self.classes)))
        for start in range(0, len(rows), step):
            at = slice(start, start + step)
            w = None if weight is None else weight[at]
            evidence = self._vectors_without(rows.take(at), y[at], w, used)
            out[at] = left_out.pooled(pool, evidence, y[at], mark[at], log_prior[at], w) + log_prior[at]
        return out

    def _vectors_without(self, rows: EncodedRows, y: Codes, weight: Floats | None, used: Array) -> Floats:
        """Evidence for the weights in use, (n, used, k): of experts, then of single columns."""
        m, out = len(self.experts), np.empty((len(rows), len(used), len(self.classes)))
        whole = np.full(len(self.encoding.columns), float(len(used) > 0 and used[0] == 0))
        together, alone = self.columns.weighted_evidence_without(rows, y, weight, whole, used[used >= m] - m)
        out[:, used >= m] = alone
        for i, j in enumerate(used[used < m].tolist()):
            expert = self.experts[j]
            out[:, i] = expert.limited(expert.evidence_without(rows, y, weight)) if j else together
        return out

    @property
    def way(self) -> str:
        """How learned rows are evaluated."""
        return (CROSS_FITTED if self.left_out is not None else HELD) if self.pool.weights.any() else EXACT

    def _prepare(self) -> None:
        """Fill the experts' caches before threads share them."""
        no_rows = self.encoding.rows(empty_frame(self.encoding))
        self.columns.evidence(no_rows)
        for _ in self.expert_evidence(no_rows):
            pass

    def with_expert(self, expert: Expert) -> TableModel:
        """The model with one more expert, whose evidence is added as it is: its weight is 1."""
        m, g = len(self.experts), len(self.pool.weights)
        places = np.append(np.arange(m), np.arange(m + 1, g + 1))
        pool, left_out = self.pool.spread(places, g + 1), self.left_out
        pool.weights[m] = 1.0
        if left_out is not None:
            left_out = left_out.spread(places, g + 1)
            if isinstance(left_out, ByFold):
                for own in left_out.pools:
                    own.weights[m] = 1.0
        return replace(self, experts=(*self.experts, expert), pool=pool, left_out=left_out)

    def without_idle_experts(self) -> TableModel:
        """The same model without the experts that it does not use; that of columns stays."""
        m, g = len(self.experts), len(self.pool.weights)
        used = self.pool.weights > 0
        if self.left_out is not None:
            used[self.left_out.used(self.pool)] = True
        kept = [i for i in range(m) if i == 0 or used[i]]
        if len(kept) == m:
            return self
        places = np.append(kept, np.arange(m, g)).astype(np.intp)
        left_out = None if self.left_out is None else self.left_out.narrowed(places)
        experts = tuple(self.experts[i] for i in kept)
        return replace(self, experts=experts, pool=self.pool.narrowed(places), left_out=left_out)

    # ------------------------------------------------------------------ other results

    def log_density(self, rows: Frame, n_jobs: int | None = None) -> Floats:
        from deciban.tables import density

        del n_jobs
        return density.log_density(self, rows)

    def explain(self, row: Frame, target: int | None = None, against: int | None = None, **how: Any) -> Evidence:
        from deciban.tables import views

        return views.explain(self, row, target, against, **how)

    @property
    def stored_importance(self) -> Importance | None:
        return self.record.importance

    def importance(
        self, rows: Frame, codes: Codes, weight: Floats | None = None, learned: bool = False
    ) -> Importance | None:
        from deciban.tables import views

        if learned:
            self.check_values(rows, codes, weight)
        return views.importance(self, self.encoding.rows(rows, True), codes, weight, learned)

    def strongest(self, target: int, most: int) -> list[tuple[str, float]]:
        from deciban.tables import views

        return views.strongest(self, target, most)

    def sample(self, n: int, rng: np.random.Generator, given: int | None = None, **how: Any) -> tuple[Frame, Codes]:
        from deciban.tables import density

        del how
        return density.sample(self, n, rng, given)

    # ------------------------------------------------------------------ learning

    def zero(self) -> TableModel:
        return replace(self.scale(0.0), unlabelled=0)

    def as_part(self) -> TableModel:
        return replace(self, record=replace(self.record, later=Deferred.of(None)))  # importance stays with the whole

    def scale(self, share: float) -> TableModel:
        experts = tuple(expert.scaled(share) for expert in self.experts)
        return replace(self, weight=self.weight * share, experts=experts)

    def in_classes(self, classes: Array) -> TableModel:
        """The model with room for other classes."""
        if len(classes) == len(self.classes):
            return self
        where, k = find(self.classes, classes), len(classes)
        weight = np.zeros(k)
        weight[where] = self.weight
        if not isinstance(self.class_prior, str):
            raise SchemaError("the class prior that was given does not cover classes added later: fit again")
        experts = tuple(expert.in_classes(where, k) for expert in self.experts)
        places = np.full(k, -1)
        places[where] = np.arange(len(where))
        left_out = None if self.left_out is None else self.left_out.in_classes(places)
        pool = self.pool.in_classes(places)
        return replace(self, classes=classes, weight=weight, experts=experts, pool=pool, left_out=left_out)

    def in_encoding(self, encoding: Encoding) -> TableModel:
        """The model with room for more categories."""
        if encoding is self.encoding:
            return self
        columns = self.columns.recoded(self.encoding, encoding)
        return replace(self, encoding=encoding, experts=(columns, *self.experts[1:]))

    def batch(self, rows: Frame, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> TableModel:
        if labels.any_missing:
            known = np.flatnonzero(labels.codes >= 0)
            rows, labels = rows.take(known), labels.take(known)
            weight = None if weight is None else weight[known]
        classes = union_classes(self.classes, labels.classes)
        room = self.in_classes(classes).zero().in_encoding(self.encoding.with_new(rows))
        return room.sums_of(rows, find(labels.classes, classes)[labels.codes].astype(np.int32), weight, n_jobs)

    def sums_of(self, frame: Frame, y: Codes, weight: Floats | None = None, n_jobs: int | None = None) -> TableModel:
        """The sums of these rows alone; y are the model's class codes, and all categories are known."""
        empty, views = self.zero(), self.views

        def work(rows: slice) -> TableModel:
            encoded = empty.encoding.rows(frame.take(rows), views=views)
            w = None if weight is None else weight[rows]
            experts = tuple(expert.learned(encoded, y[rows], w) for expert in empty.experts)
            class_weights = np.bincount(y[rows], w, minlength=len(empty.classes)).astype(float)
            return replace(empty, weight=class_weights, experts=experts)

        coordinates, texts = self.encoding.n_coordinates if views else 0, self.encoding.texts
        large = coordinates <= MAX_COORDINATES_OF_LARGE_BLOCKS if texts else not views
        return sum_of_models(
            empty, over_rows(frame, n_jobs, work, LARGE_BLOCK_ROWS if n_jobs == 1 and large else BLOCK_ROWS)
        )

    def __add__(self, other: TableModel) -> TableModel:
        mine, theirs = self._aligned(other)
        return mine.plus(theirs)

    def __sub__(self, other: TableModel) -> TableModel:
        unknown = [c for c in other.classes[other.weight > 0].tolist() if c not in set(self.classes.tolist())]
        if unknown:
            raise ForgetError(
                "cannot forget rows of class {value!r}: the model never learned that class", value=plain(unknown[0])
            )
        mine, theirs = self._aligned(other)
        if (over := mine.overdrawn(theirs)) is not None:
            c, j, code = over
            raise ForgetError(
                "cannot forget these rows: with the value {value} of column {column!r}, more rows of class "
                f"{plain(mine.classes[c])!r} would be forgotten than were learned",
                column=mine.encoding.names[j],
                value=mine.encoding.columns[j].label(code),
            )
        short = np.flatnonzero(mine.weight - theirs.weight < -RESIDUE * np.maximum(1.0, mine.weight))
        if len(short):
            c = short[0]
            raise ForgetError(
                f"cannot forget {theirs.weight[c]:g} rows of class {plain(mine.classes[c])!r}: "
                f"only {mine.weight[c]:g} were learned"
            )
        rest = mine.plus(theirs, -1.0)
        for expert in rest.experts:
            if not expert.is_valid():
                raise ForgetError(
                    f"cannot forget these rows: some were never learned as they are here (the sums of {expert.name} do "
                    "not have them)"
                )
        return rest

    def forget(
        self, rows: Frame, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None
    ) -> TableModel:
        """The model without these rows; the error names a row that was never learned."""
        unknown = [c for c in labels.classes.tolist() if c not in set(self.classes.tolist())]
        if unknown:
            raise ForgetError(
                "cannot forget rows of class {value!r}: the model never learned that class", value=plain(unknown[0])
            )
        codes = self.encoding.rows(rows, views=frozenset()).codes
        if (codes < 0).any():
            at, j = np.argwhere(codes < 0)[0]
            raise ForgetError(
                "cannot forget row {row}: its value of column {column!r} was never learned",
                row=int(at),
                column=self.encoding.names[j],
            )
        batch = self.batch(rows, labels, weight, n_jobs)
        if (over := self.overdrawn(batch)) is not None:
            c, j, code = over
            raise ForgetError(
                "cannot forget row {row}: with its value of column {column!r}, more rows of class "
                f"{plain(self.classes[c])!r} would be forgotten than were learned",
                row=int(np.flatnonzero(codes[:, j] == code)[0]),
                column=self.encoding.names[j],
            )
        return self - batch

    def overdrawn(self, other: TableModel) -> tuple[int, int, int] | None:
        """The first class, column and code that `other` has counted more often than this model; None if none."""
        counts = self.columns.counts
        low = np.argwhere(counts - other.columns.counts < -RESIDUE * np.maximum(1.0, counts))
        if not len(low):
            return None
        c, cell = low[0].tolist()
        j = int(np.searchsorted(self.encoding.offsets, cell, side="right")) - 1
        return c, j, int(cell - self.encoding.offsets[j])

    def plus(self, other: TableModel, sign: float = 1.0) -> TableModel:
        """The sums of two models with the same classes, categories and choices."""
        weight = self.weight + sign * other.weight
        weight[np.abs(weight) <= RESIDUE * self.weight] = 0.0
        experts = tuple(a.plus(b, sign) for a, b in zip(self.experts, other.experts, strict=True))
        return replace(self, weight=weight, experts=experts, unlabelled=self.unlabelled + other.unlabelled)

    def _aligned(self, other: TableModel) -> tuple[TableModel, TableModel]:
        """Both models with the union of their classes and categories; ChoiceError if their choices differ."""
        same = self.lineage is other.lineage and np.array_equal(self.pool.weights, other.pool.weights)
        if not same and self.choices() != other.choices():
            raise ChoiceError(
                "cannot merge models that chose differently (bins, trees, weights): let the second learn under the "
                "first's choices, with first.empty().partial_fit(rows, labels), and merge those"
            )
        classes = union_classes(self.classes, other.classes)
        encoding = common_encoding(self.encoding, other.encoding)
        return tuple(one.in_classes(classes).in_encoding(encoding) for one in (self, other))  # type: ignore[return-value]  # two of them

    @property
    def why_inexact(self) -> str:
        return f"{self.unlabelled} labels were guessed from all the others" if self.unlabelled else ""

    def check_values(self, frame: Frame, y: Codes, weight: Floats | None) -> None:
        """Check that rows to be left out were learned: each value must have been counted in its class."""
        codes = self.encoding.rows(frame, views=frozenset()).codes
        if not codes.size:
            return
        cells = self.encoding.offsets[:-1] + np.maximum(codes, 0)
        counts = np.where(codes < 0, 0.0, self.columns.counts[y[:, None], cells])
        needed = (np.ones(len(y)) if weight is None else weight)[:, None] * (1.0 - 1e-9)
        bad = np.argwhere(counts < needed)
        if len(bad):
            row, j = bad[0]
            raise ForgetError(
                f"row {{row}} was not learned: no row of class {plain(self.classes[y[row]])!r} with its value of "
                "column {column!r} was",
                row=int(row),
                column=self.encoding.names[j],
            )

    def choices(self) -> bytes:
        """A digest of all choices; it is the same before and after learning more."""
        from deciban.tables.files import digest

        return digest(self)

    def with_prior(self, class_prior: str | Floats) -> TableModel:
        return replace(self, class_prior=class_prior)

    # ------------------------------------------------------------------ missing labels, choices

    def fill(
        self,
        rows: Frame,
        codes: Codes,
        weight: Floats | None = None,
        hidden: Hidden = AS_LABELLED,
        n_jobs: int | None = None,
        watch: Callable[[int, float], None] | None = None,
    ) -> TableModel:
        """With rows whose label is missing, shared among the classes by the posterior of the model so far."""
        del watch
        missing = np.flatnonzero(codes < 0)
        if not len(missing) or not hidden.weight:
            return self
        frame = rows.take(missing)
        likely = self.scores(frame, "posterior", n_jobs) * hidden.weight
        if weight is not None:
            likely *= weight[missing][:, None]
        total = self
        for c in range(len(self.classes)):
            all_one = np.full(frame.size, c, dtype=np.int32)
            total = total.plus(self.sums_of(frame, all_one, np.ascontiguousarray(likely[:, c]), n_jobs))
        return replace(total, unlabelled=self.unlabelled + len(missing))

    def choose(self, rows: Frame, codes: Codes, weight: Floats | None = None, n_jobs: int | None = None) -> TableModel:
        """The same: choices include structures, which `tables.choose` makes for all rows at once."""
        del rows, codes, weight, n_jobs
        return self

    # ------------------------------------------------------------------ pickling

    def __reduce__(self) -> tuple[Any, ...]:
        """Compressed: partitions of clusters send their sums, in which most numbers are small or zero."""
        values = tuple(getattr(self, each.name) for each in fields(self) if each.init)
        return unpickled, (zlib.compress(pickle.dumps(values, pickle.HIGHEST_PROTOCOL), 1),)

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        from deciban.tables import files

        return files.parts(self)

    @classmethod
    def unpack(cls, document: Mapping[str, Any], tensors: Mapping[str, Array]) -> TableModel:
        from deciban.tables import files

        return files.rebuild(document, tensors)


def unpickled(values: bytes) -> TableModel:
    return TableModel(*pickle.loads(zlib.decompress(values)))  # noqa: S301 - inside another pickle


def sum_of_models(empty: TableModel, parts: list[TableModel]) -> TableModel:
    """The sum of models that made the same choices."""
    if not parts:
        return empty
    first, *rest = parts
    weight = np.sum([part.weight for part in parts], axis=0)
    experts = tuple(e.added([part.experts[i] for part in rest]) for i, e in enumerate(first.experts))
    return replace(empty, weight=weight, experts=experts)


def over_rows(
    frame: Frame, n_jobs: int | None, work: Callable[[slice], Result], block_rows: int = BLOCK_ROWS
) -> list[Result]:
    """work(rows) for blocks of rows, in threads; results in order."""
    if frame.size <= MAX_ROWS_IN_ONE_THREAD:
        return [work(slice(0, frame.size))]
    workers = threads(n_jobs, frame.size * max(1, len(frame.columns)) * WORK_PER_ENTRY)
    share = 2 * workers if workers > 1 else 1  # as many blocks for each thread: of three, two threads take 2 and 1
    pieces = -(-frame.size // (block_rows * share)) * share
    edges = np.linspace(0, frame.size, pieces + 1).astype(int)
    with own_threads():
        return list(in_threads(lambda i: work(slice(edges[i], edges[i + 1])), pieces, workers))


def empty_frame(encoding: Encoding) -> Frame:
    """A frame of the encoded columns without any row."""
    columns = tuple(
        Numbers(np.zeros(0), c.whole, c.dates) if isinstance(c, Cuts) else Levels(np.zeros(0, dtype=np.int32), ())
        for c in encoding.columns
    )
    texts = tuple(Levels(np.zeros(0, dtype=np.int32), ()) for _ in encoding.texts)
    return Frame((*encoding.names, *encoding.texts), (*columns, *texts), 0)


def common_encoding(a: Encoding, b: Encoding) -> Encoding:
    """The first encoding with the categories that only the second has."""
    columns = []
    for mine, theirs in zip(a.columns, b.columns, strict=True):
        if isinstance(mine, Known) and isinstance(theirs, Known):
            new = tuple(level for level in theirs.levels if level not in set(mine.levels))
            mine = replace(mine, levels=(*mine.levels, *new)) if new else mine
        columns.append(mine)
    same = all(new is old for new, old in zip(columns, a.columns, strict=True))
    return a if same else replace(a, columns=tuple(columns))


def weight_without(weight: Floats, y: Codes, removed: Floats | None) -> Floats:
    """The weight of each class without rows of classes y; what rounding leaves of a class is 0."""
    left = np.maximum(weight - np.bincount(y, removed, minlength=len(weight)), 0.0)
    left[left <= 1e-9 * weight] = 0.0
    return np.asarray(left)
