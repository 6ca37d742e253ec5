"""Estimators on engines: what each learns, expects and answers of rows that are not in memory.

How that is added up over partitions is `engines.learn`, which knows no estimator; here is what an estimator says of
rows, and what becomes of its own attributes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deciban import em
from deciban.algebra import Stats
from deciban.components import ComponentModel, MixtureModel
from deciban.engines import learn
from deciban.engines.base import Engine, Question
from deciban.engines.learn import (
    AccuracySums,
    ExpectedSums,
    InputSpec,
    PartitionTotal,
    check_again,
    in_sample,
    sample_rows,
)
from deciban.engines.split import Split
from deciban.errors import DecibanError
from deciban.estimators.validation import warn_of_em
from deciban.joint import Model
from deciban.joint_model import JointModel, plugged_in
from deciban.learner import Hidden
from deciban.results.tally import Tally
from deciban.show import bar, one_line


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
    texts = estimator._texts
    takes = InputSpec(type(estimator).__name__, texts, estimator._strings, labelled or estimator._labelled_alone)
    if known:
        takes = replace(
            takes,
            columns=None if texts else estimator._names(),
            classes=estimator.classes_ if estimator._needs_labels else None,
            text=getattr(estimator, "text_", None) or (estimator.origin_ or {}).get("text"),
        )
    return learn.split_of(takes, engine, y, sample_weight, text)


# ------------------------------------------------------------------ what is said of rows


@dataclass(frozen=True, slots=True, eq=False)
class Learn:
    """The sums of a partition's rows: a model, which has `+`."""

    template: Any  # choices made, nothing learned
    split: Split

    def __call__(self, tables: Iterator[pa.Table]) -> Any:
        return self.split.total(tables, self.template._batch)

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


def expected(estimator: Any, hidden_weight: float, X: Any, y: Any, weight: Any) -> ExpectedSums:
    """A step of EM under the estimator's model."""
    missing = 0 if y is None else int(pc.sum(pc.is_null(y, nan_is_null=True)).as_py())
    likely, stats = estimator._expected(X, y, weight, hidden_weight)
    return ExpectedSums(likely, stats, missing)


def left_out(estimator: Any, X: Any, y: Any, weight: Any) -> Tally:
    """Each row judged by the model without it."""
    return Tally.of(estimator.leave_one_out(X, y, weight))


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


def learn_joint(estimator: Any, engine: Engine, split: Split, hidden: Hidden, clusters: int | None) -> JointModel:
    """A model that is a joint law: one pass; more where labels or entries are hidden, which EM finds."""
    if clusters is not None:
        check_again(type(estimator).__name__, engine)
    X, y, weight = sample_rows(engine, split)
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
        check_again(type(estimator).__name__, engine)
        known = start = estimator.model_
        if incomplete:  # entries are guessed from the sample's first
            sampled = copy.copy(estimator).fit(X, y, weight, unlabelled_weight=hidden.weight)
            start = known.with_stats(sampled.model_.stats.embed(known.schema))
        learned, unlabelled = learn_by_em(estimator, engine, split, start, known.stats, hidden.weight)
        estimator.model_ = filled(known, learned, unlabelled, incomplete)
    estimator._check_fitted(estimator.model_)
    found: JointModel = estimator.model_
    return found


def learn_texts(estimator: Any, engine: Engine, split: Split, hidden: Hidden, clusters: int | None) -> Any:
    """A model of texts: a sample says what is counted, and chooses by all sums. Without a label, rows say nothing."""
    if clusters is not None:
        raise ValueError(f"{type(estimator).__name__} needs labels, and finds no clusters")
    del hidden
    X, y, weight = sample_rows(engine, split)
    if not len(y):
        raise DecibanError(f"no row of a sample of {engine.rows_named} has a label: there is nothing to choose by")
    with in_sample(engine):
        template = estimator._template(X, y, weight)
    take_over(estimator, with_model(template, total_of(engine, template, split)))
    return estimator._rechoose(X, y, weight)


def filled(model: JointModel, learned: em.Learned, unlabelled: int, incomplete: int) -> JointModel:
    """With what EM found, and of how many rows it found something."""
    return replace(model, stats=learned.model.stats, unlabelled=unlabelled, incomplete=incomplete, filled_by=learned)


def learn_mixture(
    estimator: Any, engine: Engine, split: Split, hidden_weight: float = 1.0
) -> tuple[em.Learned, int, tuple[Any, Any, Any]]:
    """Mixtures: components are found on a sample, and EM goes on from there over all rows. The sample is given back."""
    check_again(type(estimator).__name__, engine)
    if getattr(engine, "checkpoint", None) is not None:
        raise DecibanError("checkpoint= is for what is learned in one pass: mixtures take many, so leave it out")
    X, y, weight = sample_rows(engine, split)
    take_over(estimator, copy.copy(estimator).fit(X, y, weight))
    learned, unlabelled = learn_by_em(estimator, engine, split, estimator.model_, None, hidden_weight)
    return learned, unlabelled, (X, y, weight)


def learn_step(estimator: Any, engine: Engine, y: Any, sample_weight: Any) -> Any:
    """Mixtures learn more rows by one step of EM: their sums under the model so far."""
    split = split_of(estimator, engine, y, sample_weight, known=True)
    found = engine.collect(PartitionTotal(partial(expected, one_thread(estimator), 1.0), split))
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


def learn_by_em(
    estimator: Any, engine: Engine, split: Split, start: Any, known: Stats | None, hidden_weight: float
) -> tuple[em.Learned, int]:
    """EM under the estimator's settings. `known` are the sums of rows that hide nothing.

    How it went, and how many rows had no label.
    """
    alone = one_thread(estimator)
    if isinstance(start, JointModel):  # EM climbs the likelihood of parameters, not of their average
        start = start.with_joint(plugged_in(start.joint))

    def under(stats: Stats) -> Callable[[Any, Any, Any], ExpectedSums]:
        alone.model_ = start.with_stats(stats)
        return partial(expected, alone, hidden_weight)

    first = Model(start.joint, start.stats)
    learned, unlabelled = learn.learn_by_em(engine, split, first, under, known, **estimator._em_settings())
    warn_of_em(learned)
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
            X, y, weight = sample_rows(engine, split)
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
    with estimator._unchanged_on_error():
        learn.one_by_one(engine, split, estimator.forget)


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
    labels = estimator._answers() if method == "predict" else estimator.classes_
    return learn.answer(engine, split, getattr(one_thread(estimator), method), method, labels)


def one_thread(estimator: Any) -> Any:
    """A copy that leaves other cores alone: partitions are what is shared out."""
    alone = copy.copy(estimator)
    alone.n_jobs = 1
    return alone


def leave_one_out(estimator: Any, engine: Engine, y: Any, sample_weight: Any = None) -> Tally:
    """How good the model is on all rows of an engine that it has learned, each left out."""
    estimator._check_classes()
    split = split_of(estimator, engine, y, sample_weight, known=True)
    found: Tally = learn.total_over_rows(engine, split, partial(left_out, one_thread(estimator)))
    return found


def score(estimator: Any, engine: Engine, y: Any, sample_weight: Any = None) -> float:
    """The share of an engine's rows that are predicted right."""
    estimator._check_classes()
    split = split_of(estimator, engine, y, sample_weight, known=True)
    found: AccuracySums = learn.total_over_rows(
        engine, split, partial(learn.accuracy_sums, one_thread(estimator).predict)
    )
    return found.correct / found.rows if found.rows else float("nan")
