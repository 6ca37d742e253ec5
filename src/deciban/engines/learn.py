"""Learning and answering on engines, whoever learns: what is said of rows, labels and weights, added up by `+`.

Learning is three steps. A sample chooses what must be chosen beforehand (what columns are, pivots, bins, trees). All
rows are added up under these choices, each partition by itself, and the sums by `+`. What is chosen by rows left out
(weights, reliabilities, alpha="loo") is chosen with the rows of the sample, which are among those learned.
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
from deciban.errors import DecibanError
from deciban.joint import Model
from deciban.reading.labels import read_labels
from deciban.show import one_line, plain

SAMPLE = 20_000  # rows that choices are made on
PREDICTION = "prediction"  # the column of answers


# ------------------------------------------------------------------ which columns are what


@dataclass(frozen=True, slots=True, eq=False)
class Takes:
    """What a model takes of a table; and where it has learned already, of which columns and classes."""

    model: str  # what it is called
    texts: bool = False
    strings: bool = False  # whether values may be strings
    labelled: bool = False  # whether rows without a label are passed over
    columns: tuple[str, ...] | None = None
    classes: Array | None = None
    text: str | None = None  # the column of texts


def split_of(takes: Takes, engine: Engine, y: Any, sample_weight: Any = None, text: str | None = None) -> Split:
    """The columns that were named, checked against those there are."""
    target = y if isinstance(y, str) else engine.target
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise DecibanError("sample_weight is the name of a column here: the weights are where the rows are")
    names = engine.schema.names
    for name in (target, sample_weight, text):
        if name is not None and name not in names:
            there = ", ".join(map(one_line, names[:20])) + (", …" if len(names) > 20 else "")
            raise DecibanError(f"{engine.rows_named} has no column {one_line(name)!r}: there are {there}")
    if takes.texts:
        text = text or text_column(takes, engine, (target, sample_weight))
    columns = takes.columns if engine.named else None
    missing = [name for name in columns or () if name not in names]
    if missing:
        raise DecibanError(
            f"{engine.rows_named} has no column {one_line(missing[0])!r}, and the model was fitted with it: give it, "
            "with NULL where it is not known"
        )
    split = Split(target, sample_weight, text, engine.named, takes.labelled, columns, classes=takes.classes)
    if not takes.strings:
        check_numbers(takes, engine, split.inputs(engine.schema.empty_table()))
    return split


def check_numbers(takes: Takes, engine: Engine, inputs: Any) -> None:
    """A model of numbers cannot read names."""
    for field in inputs.schema if isinstance(inputs, pa.Table) else ():
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or field.type == pa.bool_()):
            if pa.types.is_decimal(field.type):
                continue
            raise DecibanError(
                f"column {one_line(field.name)!r} of {engine.rows_named} holds {field.type}, and {takes.model} takes "
                "numbers: take NaiveBayes or Classifier, or leave the column out"
            )


def text_column(takes: Takes, engine: Engine, apart: tuple[str | None, ...]) -> str:
    """The column of texts: the one that was learned from, or the only one there is."""
    if takes.text in engine.schema.names:
        return str(takes.text)
    found = [field.name for field in engine.schema if field.name not in apart and is_string(field.type)]
    if len(found) != 1:
        has = f"{len(found)} columns of strings" if found else "no column of strings"
        raise DecibanError(f"{engine.rows_named} has {has}: say which one holds the texts with text=")
    return str(found[0])


def is_string(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or "string_view" in str(kind))


# ------------------------------------------------------------------ a sample, and all rows


def some_rows(engine: Engine, split: Split) -> tuple[Any, Any, Any]:
    """A sample: inputs, labels and weights."""
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


def check_again(model: str, engine: Engine) -> None:
    """Rows can be gone through more than once."""
    if engine.once:
        raise DecibanError(
            f"{model} goes through the rows several times here, and {engine.rows_named} can be gone through only once: "
            "give files, or a function that returns a new iterator"
        )


@dataclass(frozen=True, slots=True, eq=False)
class AddUp:
    """What is said of a partition's inputs, labels and weights, as a sum."""

    of: Callable[[Any, Any, Any], Any]
    split: Split

    def __call__(self, tables: Iterator[pa.Table]) -> Any:
        return self.split.added_up(tables, self.of)


def judged(engine: Engine, split: Split, of: Callable[[Any, Any, Any], Any]) -> Any:
    """What is said of all rows, by their labels."""
    if split.target is None:
        raise DecibanError("which column holds the labels? Give its name as y")
    found = engine.collect(AddUp(of, split))
    if found is None:
        raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to judge by")
    return found


def one_by_one(engine: Engine, split: Split, do: Callable[[Any, Any, Any], Any]) -> None:
    """Forget one table after the other, in their order."""
    if not isinstance(engine, Stream):
        raise DecibanError(
            "{rows} cannot be forgotten where they are: read them in batches, and forget one after the other",
            rows=engine.rows_named,
        )

    def rows(table: pa.Table) -> None:
        if table.num_rows:
            with split.rows(table) as parts:
                do(*parts)

    engine.one_by_one(rows)


# ------------------------------------------------------------------ EM


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """A step of EM over some rows: how likely they are, their sums under the posterior, and how many lack a label."""

    log_likelihood: float
    stats: Stats
    unlabelled: int = 0

    def __add__(self, other: Expected) -> Expected:
        both = self.unlabelled + other.unlabelled
        return Expected(self.log_likelihood + other.log_likelihood, self.stats + other.stats, both)


def learn_by_em(
    engine: Engine,
    split: Split,
    start: Model,
    under: Callable[[Stats], Callable[[Any, Any, Any], Expected]],
    known: Stats | None = None,
    **how: Any,
) -> tuple[em.Learned, int]:
    """EM: a step is one collect with posteriors `under` sums as weights. `known` are those of rows that hide nothing.

    How it went, and how many rows had no label.
    """
    unlabelled = 0

    def step(model: Model) -> tuple[float, Stats]:
        nonlocal unlabelled
        found = engine.collect(AddUp(under(model.stats), split))
        if found is None:
            raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to learn from")
        unlabelled = found.unlabelled
        return found.log_likelihood, found.stats if known is None else known + found.stats

    total, stats = step(start)
    rows = max(1.0, float(stats.weight.sum()))
    learned = em.learn(Model(start.joint, stats), step, rows=rows, before=total, **how)
    return replace(learned, log_likelihood=[total, *learned.log_likelihood]), unlabelled


# ------------------------------------------------------------------ answering


@dataclass(frozen=True, slots=True, eq=False)
class Say:
    """Answers to rows, as columns."""

    ask: Callable[[Any], Array]
    split: Split
    fields: pa.Schema

    def __call__(self, table: pa.Table) -> pa.Table:
        if not table.num_rows:
            return self.fields.empty_table()
        found = self.ask(self.split.inputs(table))
        columns = [found] if found.ndim == 1 else list(found.T)
        return pa.table([pa.array(c.tolist() if c.dtype.kind in "UO" else c) for c in columns], schema=self.fields)


def answer(engine: Engine, split: Split, ask: Callable[[Any], Array], method: str, labels: Array) -> Any:
    """What is said of all rows, in the engine's own kind of table; of a stream, an array.

    `labels` are what "predict" may say, and the classes that other methods have a column for.
    """
    if method == "predict":
        kind = {"b": pa.bool_(), "i": pa.int64(), "u": pa.int64(), "f": pa.float64()}.get(labels.dtype.kind)
        fields = pa.schema([(PREDICTION, kind or pa.string())])
    else:
        what = "log_proba" if method == "predict_log_proba" else "proba"
        fields = pa.schema([(f"{what}_{plain(c)}", pa.float64()) for c in labels])
    found = engine.apply(Say(ask, split, fields), fields)
    if engine.name != "stream":
        return found
    table = pa.concat_tables([fields.empty_table(), *found])
    if method == "predict":
        return np.asarray(table[PREDICTION].to_numpy(zero_copy_only=False)).astype(labels.dtype)
    return np.column_stack([column.to_numpy() for column in table.columns])


@dataclass(frozen=True, slots=True, eq=False)
class Right:
    """How many rows, and how many of them are predicted right; by weight."""

    rows: float
    right: float

    def __add__(self, other: Right) -> Right:
        return Right(self.rows + other.rows, self.right + other.right)


def right(predict: Callable[[Any], Array], X: Any, y: Any, weight: Any) -> Right:
    """Of rows that the model has not seen."""
    labels = read_labels(y, len(y))
    if labels.any_missing:
        raise DecibanError(f"row {int(np.argmax(labels.codes < 0))} has no label: there is nothing to judge it by")
    same = predict(X) == labels.classes[labels.codes]
    weight = np.ones(len(y)) if weight is None else weight
    return Right(float(weight.sum()), float(weight[same].sum()))
