"""Estimators on engines: what they learn, expect and answer, partition by partition, wherever the rows are.

Learning is three steps. A sample chooses what must be chosen beforehand (what columns are, pivots, bins, trees). All
rows are added up under these choices, each partition by itself, and the sums by `+`. What is chosen by rows left out
(weights, reliabilities, alpha="loo") is chosen with the rows of the sample, which are among those learned.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.exceptions import ConvergenceWarning

from deciban import em
from deciban._typing import Array
from deciban.algebra import Stats
from deciban.components import ComponentModel, MixtureModel
from deciban.engines.base import Engine, Question
from deciban.engines.split import Split
from deciban.engines.stream import Stream
from deciban.errors import DecibanError, warn
from deciban.joint import Model
from deciban.joint_model import JointModel, plugged_in
from deciban.learner import Hidden
from deciban.reading.labels import read_labels
from deciban.results.tally import Tally
from deciban.show import bar, one_line, plain

SAMPLE = 20_000  # rows that choices are made on
PREDICTION = "prediction"  # the column of answers


def split_of(
    estimator: Any,
    engine: Engine,
    y: Any,
    sample_weight: Any = None,
    text: str | None = None,
    known: bool = False,
    labelled: bool = False,
) -> Split:
    """The columns that were named, checked against those there are; `known`: the model has learned already.

    `labelled`: rows without a label are passed over, though the estimator would guess them.
    """
    target = y if isinstance(y, str) else engine.target
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise DecibanError("sample_weight is the name of a column here: the weights are where the rows are")
    names = engine.schema.names
    for name in (target, sample_weight, text):
        if name is not None and name not in names:
            there = ", ".join(map(one_line, names[:20])) + (", …" if len(names) > 20 else "")
            raise DecibanError(f"{engine.rows_named} has no column {one_line(name)!r}: there are {there}")
    if estimator._texts:
        text = text or text_column(estimator if known else None, engine, (target, sample_weight))
    columns = estimator._names() if known and not estimator._texts and engine.named else None
    missing = [name for name in columns or () if name not in names]
    if missing:
        raise DecibanError(
            f"{engine.rows_named} has no column {one_line(missing[0])!r}, and the model was fitted with it: give it, "
            "with NULL where it is not known"
        )
    classes = estimator.classes_ if known and estimator._needs_labels else None
    split = Split(
        target, sample_weight, text, engine.named, labelled or estimator._labelled_alone, columns, classes=classes
    )
    if not estimator.__sklearn_tags__().input_tags.string:
        check_numbers(estimator, engine, split.inputs(engine.schema.empty_table()))
    return split


def check_numbers(estimator: Any, engine: Engine, inputs: Any) -> None:
    """A model of numbers cannot read names."""
    for field in inputs.schema if isinstance(inputs, pa.Table) else ():
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or field.type == pa.bool_()):
            if pa.types.is_decimal(field.type):
                continue
            raise DecibanError(
                f"column {one_line(field.name)!r} of {engine.rows_named} holds {field.type}, and "
                f"{type(estimator).__name__} takes numbers: take NaiveBayes or Classifier, or leave the column out"
            )


def text_column(estimator: Any, engine: Engine, apart: tuple[str | None, ...]) -> str:
    """The column of texts: the one that was learned from, or the only one there is."""
    if estimator is not None:
        known = getattr(estimator, "text_", None) or (estimator.origin_ or {}).get("text")
        if known in engine.schema.names:
            return str(known)
    found = [field.name for field in engine.schema if field.name not in apart and is_string(field.type)]
    if len(found) != 1:
        has = f"{len(found)} columns of strings" if found else "no column of strings"
        raise DecibanError(f"{engine.rows_named} has {has}: say which one holds the texts with text=")
    return str(found[0])


def is_string(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or "string_view" in str(kind))


# ------------------------------------------------------------------ what is added up


@dataclass(frozen=True, slots=True, eq=False)
class Learn:
    """The sums of a partition's rows: a model, which has `+`."""

    template: Any  # choices made, nothing learned
    split: Split

    def __call__(self, tables: Iterator[pa.Table]) -> Any:
        return self.split.added_up(tables, self.template._batch)

    def keep(self, path: str, total: Any, note: dict[str, Any]) -> None:
        """A checkpoint: a model file, with a note about how far it has come."""
        noted = with_model(self.template, self.template.model_ + total)
        noted.origin_ = {"checkpoint": note | {"columns": self._columns()}}
        noted.save(path)

    def _columns(self) -> list[Any]:
        """What is read as what: rows learned before and after must be read alike."""
        return [self.split.target, self.split.weight, self.split.text, repr(self.split.mark), self.split.labelled]

    def kept(self, path: str) -> tuple[Any, dict[str, Any]]:
        from deciban.estimators.load import load

        found = load(path)
        if type(found) is not type(self.template) or not isinstance((found.origin_ or {}).get("checkpoint"), dict):
            raise DecibanError(f"{path!r} is not a checkpoint of a {type(self.template).__name__}: remove it")
        note = found.origin_["checkpoint"]
        found.origin_ = None
        if note.get("columns") != self._columns():
            raise DecibanError(f"{path!r} is a checkpoint of other columns: remove it to start anew")
        try:
            _ = self.template + found
        except DecibanError as error:
            raise DecibanError(f"{path!r} is a checkpoint of another model ({error}): remove it") from None
        return found.model_, note


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """A step of EM over some rows: how likely they are, their sums under the posterior, and how many lack a label."""

    log_likelihood: float
    stats: Stats
    unlabelled: int = 0

    def __add__(self, other: Expected) -> Expected:
        both = self.unlabelled + other.unlabelled
        return Expected(self.log_likelihood + other.log_likelihood, self.stats + other.stats, both)


@dataclass(frozen=True, slots=True, eq=False)
class Expect:
    """A partition's part of a step of EM under the estimator's model."""

    estimator: Any
    split: Split
    hidden_weight: float = 1.0

    def __call__(self, tables: Iterator[pa.Table]) -> Expected | None:
        return self.split.added_up(tables, self.part)

    def part(self, X: Any, y: Any, weight: Any) -> Expected:
        missing = 0 if y is None else int(pc.sum(pc.is_null(y, nan_is_null=True)).as_py())
        likely, stats = self.estimator._expected(X, y, weight, self.hidden_weight)
        return Expected(likely, stats, missing)


@dataclass(frozen=True, slots=True, eq=False)
class LeaveOut:
    """A partition's rows, each judged by the model without it."""

    estimator: Any
    split: Split

    def __call__(self, tables: Iterator[pa.Table]) -> Tally | None:
        return self.split.added_up(tables, lambda *rows: Tally.of(self.estimator.leave_one_out(*rows)))


@dataclass(frozen=True, slots=True, eq=False)
class Right:
    """How many rows, and how many of them are predicted right; by weight."""

    rows: float
    right: float

    def __add__(self, other: Right) -> Right:
        return Right(self.rows + other.rows, self.right + other.right)


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """A partition's rows, as rows that the model has not seen."""

    estimator: Any
    split: Split

    def __call__(self, tables: Iterator[pa.Table]) -> Right | None:
        return self.split.added_up(tables, self.part)

    def part(self, X: Any, y: Any, weight: Any) -> Right:
        labels = read_labels(y, len(y))
        if labels.any_missing:
            raise DecibanError(f"row {int(np.argmax(labels.codes < 0))} has no label: there is nothing to judge it by")
        right = self.estimator.predict(X) == labels.classes[labels.codes]
        weight = np.ones(len(y)) if weight is None else weight
        return Right(float(weight.sum()), float(weight[right].sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Say:
    """Answers to rows, as columns."""

    estimator: Any
    split: Split
    method: str

    def __call__(self, table: pa.Table) -> pa.Table:
        fields = self.fields
        if not table.num_rows:
            return fields.empty_table()
        said = getattr(self.estimator, self.method)(self.split.inputs(table))
        columns = [said] if said.ndim == 1 else list(said.T)
        return pa.table([pa.array(c.tolist() if c.dtype.kind in "UO" else c) for c in columns], schema=fields)

    @property
    def fields(self) -> pa.Schema:
        """The columns of answers."""
        if self.method == "predict":
            classes = self.estimator._answers()
            kind = {"b": pa.bool_(), "i": pa.int64(), "u": pa.int64(), "f": pa.float64()}.get(classes.dtype.kind)
            return pa.schema([(PREDICTION, kind or pa.string())])
        what = "log_proba" if self.method == "predict_log_proba" else "proba"
        return pa.schema([(f"{what}_{plain(c)}", pa.float64()) for c in self.estimator.classes_])


# ------------------------------------------------------------------ learning


def fit(
    estimator: Any,
    engine: Engine,
    y: Any,
    sample_weight: Any = None,
    text: str | None = None,
    *,
    mark: Any = None,
    labelled: bool = False,
    hidden: Hidden | None = None,
    clusters: int | None = None,
) -> Any:
    """Learn all rows of an engine, forgetting everything learned before; `labelled`: only those that have a label."""
    split = replace(split_of(estimator, engine, y, sample_weight, text, labelled=labelled), mark=mark)
    if split.target is None and estimator._needs_labels and clusters is None:
        raise DecibanError("which column holds the labels? Give its name as y")
    hidden = estimator._hidden(None, clusters, 0) if hidden is None else hidden
    with estimator._unchanged_on_error():
        estimator.model_ = estimator._learned_by(engine, split, hidden, clusters)
        if split.text is not None:
            estimator.text_ = split.text
    return estimator


def total_of(engine: Engine, template: Any, split: Split) -> Any:
    """The model of all rows of the engine, under the choices of an estimator that has learned nothing."""
    alone = one_thread(template)
    question = question_for(alone, split) if split.named and split.mark is None else None
    pushed = None if question is None else engine.pushed(question)
    if pushed is not None:
        counts = {"unlabelled": 0 if split.labelled else pushed.unlabelled, "incomplete": pushed.incomplete}
        return replace(alone.model_, stats=pushed.stats, **counts)
    with bar(f"learning {engine.rows_named}", engine.size, engine.unit) as watch:
        found = engine.collect(Learn(alone, split), watch)
    if found is None:
        raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to learn from")
    return alone.model_ + found


def question_for(estimator: Any, split: Split) -> Question | None:
    """What a database is asked for, where it can add up by itself what this model learns; None where it cannot."""
    model, names = estimator.model_, estimator._names() or ()
    kinds = estimator._reader().kinds(names, model)
    if kinds is None or split.target is None:
        return None
    return Question(model.joint, model.schema, kinds, split.target, split.weight, estimator._positive)


def some_rows(engine: Engine, split: Split) -> tuple[Any, Any, Any]:
    """A sample, as an estimator takes it."""
    table = engine.sample(SAMPLE)
    if not table.num_rows:
        raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to learn from")
    with split.rows(table) as rows:
        return rows


@contextmanager
def in_sample(engine: Engine) -> Iterator[None]:
    """What is wrong with a row of the sample is wrong there, and its number is the sample's."""
    try:
        yield
    except DecibanError as error:
        raise error.located(file=f"a sample of {engine.rows_named}") from None


def learn_joint(estimator: Any, engine: Engine, split: Split, hidden: Hidden, clusters: int | None) -> JointModel:
    """A model that is a joint law: one pass; more where labels or entries are hidden, which EM finds."""
    check_again(estimator, engine, clusters is not None)
    X, y, weight = some_rows(engine, split)
    if clusters is not None:
        if split.target is not None:
            raise DecibanError("clusters= is for y=None: with labels, their number is known")
        first = copy.copy(estimator).fit(X, None, weight, clusters=clusters, random_state=hidden.random_state)
        take_over(estimator, first)
        learned, _ = learn_by_em(estimator, engine, split, first.model_, None, hidden.weight)
        return filled(first.model_, learned, round(learned.rows), 0)
    with in_sample(engine):
        template = estimator._template(X, y, weight)
    take_over(estimator, with_model(template, total_of(engine, template, split)))
    if not len(estimator.model_.classes):
        raise DecibanError(
            "every label in column {column!r} is missing: at least one row of each class needs one, or say how many "
            "classes to look for with y=None and clusters=",
            column=one_line(str(split.target)),
        )
    estimator._check_model(estimator.model_)
    unlabelled, incomplete = estimator.model_.unlabelled, estimator.model_.incomplete
    estimator.model_ = replace(estimator.model_, unlabelled=0, incomplete=0)
    estimator.model_ = estimator._rechoose(X, y, weight)
    if unlabelled or incomplete:
        check_again(estimator, engine, True)
        known = start = estimator.model_
        if incomplete:  # entries are guessed from the sample's first
            sampled = copy.copy(estimator).fit(X, y, weight, unlabelled_weight=hidden.weight)
            start = known.with_stats(sampled.model_.stats.embed(known.schema))
        learned, unlabelled = learn_by_em(estimator, engine, split, start, known.stats, hidden.weight)
        estimator.model_ = filled(known, learned, unlabelled, incomplete)
    estimator._check_fitted(estimator.model_)
    found: JointModel = estimator.model_
    return found


def filled(model: JointModel, learned: em.Learned, unlabelled: int, incomplete: int) -> JointModel:
    """With what EM found, and of how many rows it found something."""
    return replace(model, stats=learned.model.stats, unlabelled=unlabelled, incomplete=incomplete, filled_by=learned)


def learn_mixture(
    estimator: Any, engine: Engine, split: Split, hidden_weight: float = 1.0
) -> tuple[em.Learned, int, tuple[Any, Any, Any]]:
    """Mixtures: components are found on a sample, and EM goes on from there over all rows. The sample is given back."""
    check_again(estimator, engine, True)
    if getattr(engine, "checkpoint", None) is not None:
        raise DecibanError("checkpoint= is for what is learned in one pass: mixtures take many, so leave it out")
    X, y, weight = some_rows(engine, split)
    take_over(estimator, copy.copy(estimator).fit(X, y, weight))
    learned, unlabelled = learn_by_em(estimator, engine, split, estimator.model_, None, hidden_weight)
    return learned, unlabelled, (X, y, weight)


def learn_step(estimator: Any, engine: Engine, y: Any, sample_weight: Any) -> Any:
    """Mixtures learn more rows by one step of EM: their sums under the model so far."""
    split = split_of(estimator, engine, y, sample_weight, known=True)
    found = engine.collect(Expect(one_thread(estimator), split))
    if found is not None and found.unlabelled and estimator._needs_labels:
        raise DecibanError(f"{found.unlabelled:,} rows have no label: partial_fit adds rows whose class is known")
    model = estimator.model_
    return model if found is None else model.with_stats(model.stats + found.stats)


def with_model(estimator: Any, model: Any) -> Any:
    """A copy that has learned something else."""
    other = copy.copy(estimator)
    other.model_ = model
    return other


def take_over(estimator: Any, found: Any) -> None:
    """What was found out by a copy, which had its own number of threads; nothing of before is left."""
    for name in set(vars(estimator)) - set(vars(found)):
        del estimator.__dict__[name]
    estimator.__dict__.update({name: value for name, value in vars(found).items() if name != "n_jobs"})


def check_again(estimator: Any, engine: Engine, again: bool) -> None:
    if again and engine.once:
        raise DecibanError(
            f"{type(estimator).__name__} goes through the rows several times here, and {engine.rows_named} can be gone "
            "through only once: give files, or a function that returns a new iterator"
        )


def learn_by_em(
    estimator: Any, engine: Engine, split: Split, start: Any, known: Stats | None, hidden_weight: float
) -> tuple[em.Learned, int]:
    """EM: a step is one collect with posteriors as weights. `known` are the sums of rows that hide nothing.

    How it went, and how many rows had no label.
    """
    alone, unlabelled = one_thread(estimator), 0
    if isinstance(start, JointModel):  # EM climbs the likelihood of parameters, not of their average
        start = start.with_joint(plugged_in(start.joint))

    def step(model: Model) -> tuple[float, Stats]:
        nonlocal unlabelled
        alone.model_ = start.with_stats(model.stats)
        found = engine.collect(Expect(alone, split, hidden_weight))
        if found is None:
            raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to learn from")
        unlabelled = found.unlabelled
        return found.log_likelihood, found.stats if known is None else known + found.stats

    first = Model(start.joint, start.stats)
    total, stats = step(first)
    rows = max(1.0, float(stats.weight.sum()))
    learned = em.learn(Model(first.joint, stats), step, rows=rows, before=total, **estimator._em_settings())
    learned = replace(learned, log_likelihood=[total, *learned.log_likelihood])
    if not learned.converged and not learned.interrupted:
        warn(f"EM did not converge in {len(learned.log_likelihood)} steps", ConvergenceWarning)
    return learned, unlabelled


def learn_more(
    estimator: Any,
    engine: Engine,
    y: Any,
    sample_weight: Any = None,
    text: str | None = None,
    classes: Any = None,
    labelled: bool = False,
) -> Any:
    """What `partial_fit` adds: the rows of an engine, all of whose labels are known, or those that are `labelled`."""
    first = not estimator.__sklearn_is_fitted__()
    declared = None if classes is None else np.unique(np.asarray(classes))
    if declared is not None and not first and not np.array_equal(declared, estimator.classes_):
        raise DecibanError(f"classes= is not the same as before, which was {estimator.classes_.tolist()}")
    mixture = isinstance(getattr(estimator, "model_", None), MixtureModel | ComponentModel)
    if first and not estimator._batches_elsewhere:
        if declared is not None:
            raise DecibanError(f"classes= is for rows in memory: a {type(estimator).__name__} finds them itself here")
        return fit(estimator, engine, y, sample_weight, text, labelled=labelled)
    with estimator._unchanged_on_error():
        if mixture:
            estimator.model_ = learn_step(estimator, engine, y, sample_weight)
            return estimator
        if first:
            split = split_of(estimator, engine, y, sample_weight, text, labelled=labelled)
            X, y, weight = some_rows(engine, split)
            with in_sample(engine):
                template = estimator._template(X, y, weight, declared)
            batch = total_of(engine, template, split)
            check_exact(batch)
            take_over(estimator, with_model(template, batch))
            estimator.model_ = estimator._rechoose(X, y, weight)
        else:
            both = estimator.model_ + batch_of(estimator, engine, y, sample_weight, text, labelled)
            estimator._check_model(both)
            estimator.model_ = both
    return estimator


def batch_of(
    estimator: Any,
    engine: Engine,
    y: Any,
    sample_weight: Any = None,
    text: str | None = None,
    labelled: bool = False,
) -> Any:
    """The rows of an engine alone, under the choices of an estimator that has learned others."""
    split = split_of(estimator, engine, y, sample_weight, text, known=True, labelled=labelled)
    batch = total_of(engine, estimator.empty(), split)
    check_exact(batch)
    return batch


def forget(
    estimator: Any,
    engine: Engine,
    y: Any,
    sample_weight: Any = None,
    text: str | None = None,
    labelled: bool = False,
) -> None:
    """What `forget` takes away, of a model that is not a joint law: one table after the other, all of them or none."""
    split = split_of(estimator, engine, y, sample_weight, text, known=True, labelled=labelled)
    if not isinstance(engine, Stream):
        raise DecibanError(
            "{rows} cannot be forgotten where they are: read them in batches, and forget one after the other",
            rows=engine.rows_named,
        )

    def rows(table: pa.Table) -> None:
        if table.num_rows:
            with split.rows(table) as (X, own, weight):
                estimator.forget(X, own, weight)

    with estimator._unchanged_on_error():
        engine.one_by_one(rows)


def check_exact(batch: Any) -> None:
    for count, what in (
        (batch.unlabelled, "no label"),
        (getattr(batch, "incomplete", 0), "a missing entry among columns that depend"),
    ):
        if count:
            raise DecibanError(
                f"{count:,} rows have {what}: only fit, which goes over all rows again and again, finds what is hidden"
            )


# ------------------------------------------------------------------ answering


def answer(estimator: Any, engine: Engine, method: str) -> Any:
    """What a method says of all rows of an engine, in the engine's own kind of table; of a stream, an array."""
    estimator._check_classes()
    split = split_of(estimator, engine, None, known=True)
    say = Say(one_thread(estimator), split, method)
    said = engine.apply(say, say.fields)
    if engine.name != "stream":
        return said
    tables = list(said)
    return as_array(pa.concat_tables(tables) if tables else say.fields.empty_table(), method, estimator)


def one_thread(estimator: Any) -> Any:
    """A copy that leaves other cores alone: partitions are what is shared out."""
    alone = copy.copy(estimator)
    alone.n_jobs = 1
    return alone


def as_array(table: pa.Table, method: str, estimator: Any) -> Array:
    if method == "predict":
        found = estimator._answers()
        return np.asarray(table[PREDICTION].to_numpy(zero_copy_only=False)).astype(found.dtype)
    return np.column_stack([column.to_numpy() for column in table.columns])


def leave_one_out(estimator: Any, engine: Engine, y: Any, sample_weight: Any = None) -> Tally:
    """How good the model is on all rows of an engine that it has learned, each left out."""
    found: Tally = over_all(estimator, engine, y, sample_weight, LeaveOut)
    return found


def score(estimator: Any, engine: Engine, y: Any, sample_weight: Any = None) -> float:
    """The share of an engine's rows that are predicted right."""
    found: Right = over_all(estimator, engine, y, sample_weight, Check)
    return found.right / found.rows if found.rows else float("nan")


def over_all(estimator: Any, engine: Engine, y: Any, sample_weight: Any, work: Any) -> Any:
    estimator._check_classes()
    split = split_of(estimator, engine, y, sample_weight, known=True)
    if split.target is None:
        raise DecibanError("which column holds the labels? Give its name as y")
    found = engine.collect(work(one_thread(estimator), split))
    if found is None:
        raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to judge by")
    return found
