"""Estimators on engines: how each learns from and predicts rows that are not in memory.

Summing over partitions is done by `engines.learn`, which knows no estimators; here are the sums of an estimator, and
what happens to its attributes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
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
    check_rereadable,
    in_sample,
    sample_rows,
)
from deciban.engines.split import Split, formats_of
from deciban.engines.stream import Stream
from deciban.errors import DecibanError
from deciban.estimators.changes import changing
from deciban.estimators.validation import warn_of_em
from deciban.joint import Model
from deciban.joint_model import JointModel, plugged_in
from deciban.learner import Hidden
from deciban.reading.convert import format_from_dict
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
    """The columns that were named, checked against the schema; `known`: the model has already learned.

    `labelled`: rows without a label are skipped, even if the estimator could guess them.
    """
    texts = estimator._texts
    spec = InputSpec(type(estimator).__name__, texts, estimator._strings, labelled or estimator._skips_unlabelled)
    if known:
        spec = replace(
            spec,
            columns=None if texts else estimator._names(),
            classes=estimator.classes_ if estimator._needs_labels else None,
            text=getattr(estimator, "text_", None) or (estimator.origin_ or {}).get("text"),
        )
    split = learn.split_of(spec, engine, y, sample_weight, text)
    if not estimator._strings_are_categories or not isinstance(engine, Stream):
        return split
    kept = (estimator.origin_ or {}).get("formats", {})
    if known:
        return replace(split, formats={name: format_from_dict(about) for name, about in kept.items()})
    sample = engine.sample(learn.SAMPLE_ROWS)
    return replace(split, formats=formats_of(split.inputs(sample), engine.conventions))


# ------------------------------------------------------------------ sums of partitions


@dataclass(frozen=True, slots=True, eq=False)
class Learn:
    """The sums of a partition's rows: a model, which has `+`."""

    template: Any  # choices made, nothing learned
    split: Split

    def __call__(self, tables: Iterator[pa.Table]) -> Any:
        return self.split.total(tables, self.template._batch)

    def keep(self, path: str, total: Any, note: dict[str, Any]) -> None:
        """Write a checkpoint: a model file, with a note about the rows so far."""
        checkpoint = with_model(self.template, self.template.model_ + total)
        checkpoint.origin_ = {"checkpoint": note | {"columns": self._columns()}}
        checkpoint.save(path)

    def _columns(self) -> list[Any]:
        """The columns and how they are read, which must be the same after a checkpoint."""
        return [self.split.target, self.split.weight, self.split.text, repr(self.split.mark), self.split.labelled]

    def kept(self, path: str) -> tuple[Any, dict[str, Any]]:
        from deciban.estimators.load import load

        checkpoint = load(path)
        if type(checkpoint) is not type(self.template) or not isinstance(
            (checkpoint.origin_ or {}).get("checkpoint"), dict
        ):
            raise DecibanError(f"{path!r} is not a checkpoint of a {type(self.template).__name__}: remove it")
        note = checkpoint.origin_["checkpoint"]
        checkpoint.origin_ = None
        if note.get("columns") != self._columns():
            raise DecibanError(f"{path!r} is a checkpoint with other columns: remove it to start again")
        try:
            _ = self.template + checkpoint
        except DecibanError as error:
            raise DecibanError(f"{path!r} is a checkpoint of another model ({error}): remove it") from None
        return checkpoint.model_, note


def expected(estimator: Any, hidden_weight: float, X: Any, y: Any, weight: Any) -> ExpectedSums:
    """A step of EM under the estimator's model."""
    missing = 0 if y is None else int(pc.sum(pc.is_null(y, nan_is_null=True)).as_py())
    log_likelihood, stats = estimator._expected(X, y, weight, hidden_weight)
    return ExpectedSums(log_likelihood, stats, missing)


def left_out(estimator: Any, X: Any, y: Any, weight: Any) -> Tally:
    """Leave-one-out results of rows, as sums."""
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
    columns: tuple[str, ...] | None = None,
) -> Any:
    """Learn all rows of an engine, forgetting everything learned before; `labelled`: only those with a label.

    `columns` are the inputs, if not all are.
    """
    split = split_of(estimator, engine, y, sample_weight, text, labelled=labelled)
    split = replace(split, mark=mark, columns=columns)
    if split.target is None and estimator._needs_labels and clusters is None:
        raise DecibanError("the labels are missing: give the name of their column as y")
    hidden = estimator._hidden(None, clusters, 0) if hidden is None else hidden
    with changing(estimator) as new:
        new.model_ = new._learned_on_engine(engine, split, hidden, clusters)
        if split.text is not None:
            new.text_ = split.text
        keep_formats(new, split)
    return estimator


def keep_formats(estimator: Any, split: Split) -> None:
    """Remember how files wrote numbers and dates, so that new files are read in the same way."""
    if split.formats:
        formats = {name: asdict(form) for name, form in split.formats.items()}
        estimator.origin_ = {**(estimator.origin_ or {}), "formats": formats}


def total_of(engine: Engine, template: Any, split: Split) -> Any:
    """The model of all rows of the engine, under the choices of an estimator that has learned nothing."""
    single = one_thread(template)
    question = question_for(single, split) if split.named and split.mark is None else None
    pushed = None if question is None else engine.pushed(question)
    if pushed is not None:
        counts = {"unlabelled": 0 if split.labelled else pushed.unlabelled, "incomplete": pushed.incomplete}
        return replace(single.model_, stats=pushed.stats, **counts)
    with bar(f"learning {engine.rows_named}", engine.size, engine.unit) as watch:
        total = engine.collect(Learn(single, split), watch)
    if total is None:
        raise DecibanError(f"{engine.rows_named} has no rows: there is nothing to learn from")
    return single.model_ + total


def question_for(estimator: Any, split: Split) -> Question | None:
    """The question for a database that can compute this model's sums itself; None if none can."""
    model, names = estimator.model_, estimator._names() or ()
    kinds = estimator._reader().kinds(names, model)
    if kinds is None or split.target is None:
        return None
    return Question(model.joint, model.schema, kinds, split.target, split.weight, estimator._positive)


def learn_joint(estimator: Any, engine: Engine, split: Split, hidden: Hidden, clusters: int | None) -> JointModel:
    """A model that is a joint distribution: one pass; more for EM, if labels or entries are missing."""
    if clusters is not None:
        check_rereadable(type(estimator).__name__, engine)
    X, y, weight = sample_rows(engine, split)
    if clusters is not None:
        if split.target is not None:
            raise DecibanError("clusters= is for y=None: with labels, their number is known")
        first = copy.copy(estimator).fit(X, None, weight, clusters=clusters, random_state=hidden.random_state)
        copy_state(estimator, first)
        learned, _ = learn_by_em(estimator, engine, split, first.model_, None, hidden.weight)
        return filled(first.model_, learned, round(learned.rows), 0)
    with in_sample(engine):
        template = estimator._template(X, y, weight)
    copy_state(estimator, with_model(template, total_of(engine, template, split)))
    if not len(estimator.model_.classes):
        raise DecibanError(
            "every label in column {column!r} is missing: label at least one row of each class, or pass y=None and "
            "the number of classes as clusters=",
            column=one_line(str(split.target)),
        )
    estimator._check_model(estimator.model_)
    unlabelled, incomplete = estimator.model_.unlabelled, estimator.model_.incomplete
    estimator.model_ = replace(estimator.model_, unlabelled=0, incomplete=0)
    estimator.model_ = estimator._chosen_by_sample(X, y, weight)
    if unlabelled or incomplete:
        check_rereadable(type(estimator).__name__, engine)
        known = start = estimator.model_
        if incomplete:  # start from entries guessed on the sample
            sampled = copy.copy(estimator).fit(X, y, weight, unlabelled_weight=hidden.weight)
            start = known.with_stats(sampled.model_.stats.embed(known.schema))
        learned, unlabelled = learn_by_em(estimator, engine, split, start, known.stats, hidden.weight)
        estimator.model_ = filled(known, learned, unlabelled, incomplete)
    estimator._check_fitted(estimator.model_)
    fitted: JointModel = estimator.model_
    return fitted


def learn_texts(estimator: Any, engine: Engine, split: Split, hidden: Hidden, clusters: int | None) -> Any:
    """A text model: a sample decides what is counted, and chooses given all sums. Rows without a label are ignored."""
    if clusters is not None:
        raise ValueError(f"{type(estimator).__name__} needs labels and cannot find clusters")
    del hidden
    X, y, weight = sample_rows(engine, split)
    if not len(y):
        raise DecibanError(f"no row of a sample of {engine.rows_named} has a label: shuffle the rows, or add labels")
    with in_sample(engine):
        template = estimator._template(X, y, weight)
    copy_state(estimator, with_model(template, total_of(engine, template, split)))
    return estimator._chosen_by_sample(X, y, weight)


def filled(model: JointModel, learned: em.Learned, unlabelled: int, incomplete: int) -> JointModel:
    """The model after EM, with the numbers of rows that had something missing."""
    return replace(model, stats=learned.model.stats, unlabelled=unlabelled, incomplete=incomplete, filled_by=learned)


def learn_mixture(
    estimator: Any, engine: Engine, split: Split, hidden_weight: float = 1.0
) -> tuple[em.Learned, int, tuple[Any, Any, Any]]:
    """Mixtures: EM on a sample finds the components, and continues over all rows. Returns the sample too."""
    check_rereadable(type(estimator).__name__, engine)
    if getattr(engine, "checkpoint", None) is not None:
        raise DecibanError("checkpoint= works for models learned in one pass, but a mixture takes many: leave it out")
    X, y, weight = sample_rows(engine, split)
    copy_state(estimator, copy.copy(estimator).fit(X, y, weight))
    learned, unlabelled = learn_by_em(estimator, engine, split, estimator.model_, None, hidden_weight)
    return learned, unlabelled, (X, y, weight)


def learn_step(estimator: Any, engine: Engine, y: Any, sample_weight: Any) -> Any:
    """The mixture after more rows, by one step of EM: plus their sums under the model so far."""
    split = split_of(estimator, engine, y, sample_weight, known=True)
    step = engine.collect(PartitionTotal(partial(expected, one_thread(estimator), 1.0), split))
    if step is not None and step.unlabelled and estimator._needs_labels:
        raise DecibanError(f"{step.unlabelled:,} rows have no label: partial_fit takes only labelled rows")
    model = estimator.model_
    return model if step is None else model.with_stats(model.stats + step.stats)


def with_model(estimator: Any, model: Any) -> Any:
    """A copy with another model."""
    other = copy.copy(estimator)
    other.model_ = model
    return other


def copy_state(estimator: Any, source: Any) -> None:
    """Replace all state by that of a copy, except for its number of threads."""
    for name in set(vars(estimator)) - set(vars(source)):
        del estimator.__dict__[name]
    estimator.__dict__.update({name: value for name, value in vars(source).items() if name != "n_jobs"})


def learn_by_em(
    estimator: Any, engine: Engine, split: Split, start: Any, known: Stats | None, hidden_weight: float
) -> tuple[em.Learned, int]:
    """EM under the estimator's settings. `known` are the sums of rows with nothing missing.

    Returns the course of EM, and how many rows had no label.
    """
    single = one_thread(estimator)
    if isinstance(
        start, JointModel
    ):  # EM maximises the likelihood of parameters, not that with parameters integrated out
        start = start.with_joint(plugged_in(start.joint))

    def expect_under(stats: Stats) -> Callable[[Any, Any, Any], ExpectedSums]:
        single.model_ = start.with_stats(stats)
        return partial(expected, single, hidden_weight)

    first = Model(start.joint, start.stats)
    learned, unlabelled = learn.learn_by_em(engine, split, first, expect_under, known, **estimator._em_settings())
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
    """Learn more rows of an engine, as `partial_fit`: all of them have labels, or only those that do (`labelled`)."""
    with changing(estimator) as new:
        first = not new.__sklearn_is_fitted__()
        declared = None if classes is None else np.unique(np.asarray(classes))
        if declared is not None and not first and not np.array_equal(declared, new.classes_):
            raise DecibanError(f"classes= is not the same as before, which was {new.classes_.tolist()}")
        if first and not new._first_batch_on_engine:
            if declared is not None:
                raise DecibanError(
                    f"classes= is for rows in memory: a {type(new).__name__} detects them automatically here"
                )
            fit(new, engine, y, sample_weight, text, labelled=labelled)
        elif first:
            split = split_of(new, engine, y, sample_weight, text, labelled=labelled)
            X, y, weight = sample_rows(engine, split)
            with in_sample(engine):
                template = new._template(X, y, weight, declared)
            batch = total_of(engine, template, split)
            check_exact(batch)
            copy_state(new, with_model(template, batch))
            new.model_ = new._chosen_by_sample(X, y, weight)
            keep_formats(new, split)
        elif isinstance(new.model_, MixtureModel | ComponentModel):
            new.model_ = learn_step(new, engine, y, sample_weight)
        else:
            both = new.model_ + batch_of(new, engine, y, sample_weight, text, labelled)
            new._check_model(both)
            new.model_ = both
    return estimator


def batch_of(
    estimator: Any,
    engine: Engine,
    y: Any,
    sample_weight: Any = None,
    text: str | None = None,
    labelled: bool = False,
) -> Any:
    """The model of only the rows of an engine, under the choices of a fitted estimator."""
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
    """Forget rows of an engine, of a model that is not a joint distribution: table by table, all of them or none."""
    split = split_of(estimator, engine, y, sample_weight, text, known=True, labelled=labelled)
    with changing(estimator) as new:
        learn.one_by_one(engine, split, new.forget)


def check_exact(batch: Any) -> None:
    for count, missing in (
        (batch.unlabelled, "no label"),
        (getattr(batch, "incomplete", 0), "a missing entry among columns that depend"),
    ):
        if count:
            raise DecibanError(
                f"{count:,} rows have {missing}: only fit, which reads all rows several times, can infer them"
            )


# ------------------------------------------------------------------ predicting


def answer(estimator: Any, engine: Engine, method: str) -> Any:
    """A method's results for all rows of an engine, in the engine's own kind of table; an array for a stream."""
    estimator._check_classes()
    split = split_of(estimator, engine, None, known=True)
    labels = estimator._possible_answers() if method == "predict" else estimator.classes_
    return learn.answer(engine, split, getattr(one_thread(estimator), method), method, labels)


def one_thread(estimator: Any) -> Any:
    """A copy that uses one thread: partitions run in parallel."""
    single = copy.copy(estimator)
    single.n_jobs = 1
    return single


def leave_one_out(estimator: Any, engine: Engine, y: Any, sample_weight: Any = None) -> Tally:
    """Leave-one-out results of all rows of an engine that were learned, as sums."""
    estimator._check_classes()
    split = split_of(estimator, engine, y, sample_weight, known=True)
    tally: Tally = learn.total_over_rows(engine, split, partial(left_out, one_thread(estimator)))
    return tally


def score(estimator: Any, engine: Engine, y: Any, sample_weight: Any = None) -> float:
    """The accuracy on an engine's rows."""
    estimator._check_classes()
    split = split_of(estimator, engine, y, sample_weight, known=True)
    sums: AccuracySums = learn.total_over_rows(
        engine, split, partial(learn.accuracy_sums, one_thread(estimator).predict)
    )
    return sums.correct / sums.rows if sums.rows else float("nan")
