"""Learning and predicting on engines, for any model: sums over inputs, labels and weights, added by `+`.

Learning is three steps. A sample decides what must be decided beforehand (kinds of columns, pivots, bins, trees). All
rows are summed under these choices, each partition separately, and the sums are added by `+`. What leave-one-out
chooses (weights, reliabilities, alpha="loo") is chosen with the rows of the sample, which are among those learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from deciban import em
from deciban._typing import Array
from deciban.algebra import Stats
from deciban.engines.base import Engine
from deciban.engines.split import Split
from deciban.engines.stream import Stream
from deciban.errors import DecibanError, did_you_mean
from deciban.joint import Model
from deciban.reading.labels import read_labels
from deciban.results.answers import PREDICTION, log_proba_column, proba_column
from deciban.show import one_line

SAMPLE_ROWS = 20_000  # rows of the sample that choices are made on


# ------------------------------------------------------------------ inputs, labels and weights


@dataclass(frozen=True, slots=True, eq=False)
class InputSpec:
    """What a model needs from a table; and if it has already learned, from which columns and classes."""

    model: str  # its name, for messages
    texts: bool = False
    strings: bool = False  # whether values may be strings
    labelled: bool = False  # whether rows without a label are skipped
    columns: tuple[str, ...] | None = None
    classes: Array | None = None
    text: str | None = None  # the column of texts


def split_of(spec: InputSpec, engine: Engine, y: Any, sample_weight: Any = None, text: str | None = None) -> Split:
    """The columns that were named, checked against the schema."""
    target = y if isinstance(y, str) else engine.target
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise DecibanError("for these rows sample_weight must be the name of a column")
    names = engine.schema.names
    for name in (target, sample_weight, text):
        if name is not None and name not in names:
            available = ", ".join(map(one_line, names[:20])) + (", …" if len(names) > 20 else "")
            raise DecibanError(
                "{rows} has no column {column!r}: {hint}",
                rows=engine.rows_named,
                column=one_line(name),
                hint=did_you_mean(name, names, f"choose one of {available}"),
            )
    if spec.texts:
        text = text or text_column(spec, engine, (target, sample_weight))
    columns = spec.columns if engine.named else None
    missing = [name for name in columns or () if name not in names]
    if missing:
        raise DecibanError(
            "{rows} has no column {column!r}, but the model was fitted with it: {hint}",
            rows=engine.rows_named,
            column=one_line(missing[0]),
            hint=did_you_mean(missing[0], names, "add it, with NULL for missing values"),
            command_line="{rows} has no column {column!r}, but the model was trained with it: {hint_on_command_line}",
            hint_on_command_line=did_you_mean(missing[0], names, "add it, with empty fields for missing values"),
        )
    split = Split(target, sample_weight, text, engine.named, spec.labelled, columns, classes=spec.classes)
    if not spec.strings:
        check_numbers(spec, engine, split.inputs(engine.schema.empty_table()))
    return split


def check_numbers(spec: InputSpec, engine: Engine, inputs: Any) -> None:
    """A model of numbers cannot read strings."""
    for field in inputs.schema if isinstance(inputs, pa.Table) else ():
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or field.type == pa.bool_()):
            if pa.types.is_decimal(field.type):
                continue
            raise DecibanError(
                f"column {one_line(field.name)!r} of {engine.rows_named} holds {field.type}, and {spec.model} takes "
                f"numbers: use NaiveBayes or Classifier, or leave the column out"
            )


def text_column(spec: InputSpec, engine: Engine, others: tuple[str | None, ...]) -> str:
    """The column of texts: the one that was learned from, or the only column of strings."""
    if spec.text in engine.schema.names:
        return str(spec.text)
    candidates = [field.name for field in engine.schema if field.name not in others and is_string(field.type)]
    if len(candidates) != 1:
        has = f"{len(candidates)} columns of strings" if candidates else "no column of strings"
        raise DecibanError(f"{engine.rows_named} has {has}: give the column that holds the texts with text=")
    return str(candidates[0])


def is_string(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or "string_view" in str(kind))


# ------------------------------------------------------------------ a sample, and all rows


def sample_rows(engine: Engine, split: Split) -> tuple[Any, Any, Any]:
    """A sample: inputs, labels and weights."""
    table = engine.sample(SAMPLE_ROWS)
    if not table.num_rows:
        raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to learn from")
    with split.rows(table) as rows:
        return rows


@contextmanager
def in_sample(engine: Engine) -> Iterator[None]:
    """Errors inside state that the row number is that of the sample."""
    try:
        yield
    except DecibanError as error:
        raise error.located(file=f"a sample of {engine.rows_named}") from None


def check_rereadable(model: str, engine: Engine) -> None:
    """Raise an error unless the rows can be read more than once."""
    if engine.once:
        raise DecibanError(
            f"{model} reads the rows several times, and {engine.rows_named} can be read only once: give files, or a "
            f"function that returns a new iterator"
        )


@dataclass(frozen=True, slots=True, eq=False)
class PartitionTotal:
    """The sum of compute(inputs, labels, weights) over a partition."""

    compute: Callable[[Any, Any, Any], Any]
    split: Split

    def __call__(self, tables: Iterator[pa.Table]) -> Any:
        return self.split.total(tables, self.compute)


def total_over_rows(engine: Engine, split: Split, compute: Callable[[Any, Any, Any], Any]) -> Any:
    """The sum of compute(inputs, labels, weights) over all rows."""
    if split.target is None:
        raise DecibanError("the labels are missing: give the name of their column as y")
    total = engine.collect(PartitionTotal(compute, split))
    if total is None:
        raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to evaluate")
    return total


def one_by_one(engine: Engine, split: Split, forget: Callable[[Any, Any, Any], Any]) -> None:
    """Forget one table after another, in order."""
    if not isinstance(engine, Stream):
        raise DecibanError(
            "{rows} cannot be forgotten by the engine: read the rows in batches, and call forget for each batch",
            rows=engine.rows_named,
        )

    def forget_table(table: pa.Table) -> None:
        if table.num_rows:
            with split.rows(table) as parts:
                forget(*parts)

    engine.one_by_one(forget_table)


# ------------------------------------------------------------------ EM


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedSums:
    """A step of EM over some rows: their log-likelihood, their sums under the posterior, and how many have no label."""

    log_likelihood: float
    stats: Stats
    unlabelled: int = 0

    def __add__(self, other: ExpectedSums) -> ExpectedSums:
        both = self.unlabelled + other.unlabelled
        return ExpectedSums(self.log_likelihood + other.log_likelihood, self.stats + other.stats, both)


def learn_by_em(
    engine: Engine,
    split: Split,
    start: Model,
    expect_under: Callable[[Stats], Callable[[Any, Any, Any], ExpectedSums]],
    known: Stats | None = None,
    **settings: Any,
) -> tuple[em.Learned, int]:
    """EM: a step is one collect with posteriors as weights. `known` are the sums of rows with nothing missing.

    Returns the course of EM, and how many rows had no label.
    """
    unlabelled = 0

    def step(model: Model) -> tuple[float, Stats]:
        nonlocal unlabelled
        sums = engine.collect(PartitionTotal(expect_under(model.stats), split))
        if sums is None:
            raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to learn from")
        unlabelled = sums.unlabelled
        return sums.log_likelihood, sums.stats if known is None else known + sums.stats

    total, stats = step(start)
    rows = max(1.0, float(stats.weight.sum()))
    learned = em.learn(Model(start.joint, stats), step, rows=rows, before=total, **settings)
    return replace(learned, log_likelihood=[total, *learned.log_likelihood]), unlabelled


# ------------------------------------------------------------------ predicting


@dataclass(frozen=True, slots=True, eq=False)
class AnswerTable:
    """Predictions for a table of rows, as a table."""

    predict: Callable[[Any], Array]
    split: Split
    fields: pa.Schema

    def __call__(self, table: pa.Table) -> pa.Table:
        if not table.num_rows:
            return self.fields.empty_table()
        answers = self.predict(self.split.inputs(table))
        columns = [answers] if answers.ndim == 1 else list(answers.T)
        return pa.table([pa.array(c.tolist() if c.dtype.kind in "UO" else c) for c in columns], schema=self.fields)


def answer(engine: Engine, split: Split, predict: Callable[[Any], Array], method: str, labels: Array) -> Any:
    """Predictions for all rows, in the engine's own kind of table; an array for a stream.

    `labels` are the possible answers of "predict", or the classes that other methods have a column for.
    """
    if method == "predict":
        kind = {"b": pa.bool_(), "i": pa.int64(), "u": pa.int64(), "f": pa.float64()}.get(labels.dtype.kind)
        fields = pa.schema([(PREDICTION, kind or pa.string())])
    else:
        column = log_proba_column if method == "predict_log_proba" else proba_column
        fields = pa.schema([(column(c), pa.float64()) for c in labels])
    answers = engine.apply(AnswerTable(predict, split, fields), fields)
    if engine.name != "stream":
        return answers
    table = pa.concat_tables([fields.empty_table(), *answers])
    if method == "predict":
        return np.asarray(table[PREDICTION].to_numpy(zero_copy_only=False)).astype(labels.dtype)
    return np.column_stack([column.to_numpy() for column in table.columns])


@dataclass(frozen=True, slots=True, eq=False)
class AccuracySums:
    """The weight of rows, and of those predicted correctly."""

    rows: float
    correct: float

    def __add__(self, other: AccuracySums) -> AccuracySums:
        return AccuracySums(self.rows + other.rows, self.correct + other.correct)


def accuracy_sums(predict: Callable[[Any], Array], X: Any, y: Any, weight: Any) -> AccuracySums:
    """The weight of rows, and of those predicted correctly."""
    labels = read_labels(y, len(y))
    if labels.any_missing:
        raise DecibanError(f"row {int(np.argmax(labels.codes < 0))} has no label: give every row a label to evaluate")
    correct = predict(X) == labels.classes[labels.codes]
    weight = np.ones(len(y)) if weight is None else weight
    return AccuracySums(float(weight.sum()), float(weight[correct].sum()))
