"""How a model of a table is chosen: bins, experts, weights, boosted trees; and then every row is learned.

Choices are made on a sample of the rows: see candidates.py for the experts and weights.py for the rest. Sums are taken
over all rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError
from deciban.learner import Hidden
from deciban.pool import Pool
from deciban.reading.frames import Frame
from deciban.reading.table import TableColumns
from deciban.schema import find
from deciban.tables.candidates import Candidates, Watch, no_progress
from deciban.tables.encode import choose_encoding
from deciban.tables.experts.base import Expert
from deciban.tables.experts.ordered import ranks
from deciban.tables.model import Record, TableModel
from deciban.tables.sample import Sample, sample
from deciban.tables.weights import with_weights
from deciban.threads import own_threads

MAX_TEXT_COLUMNS = 200  # each is a model of texts, and takes about a tenth of a second even with few rows


def choose(
    reader: TableColumns,
    frame: Frame,
    y: Codes,
    classes: Array,
    weight: Floats | None = None,
    class_prior: str | Floats = "empirical",
    closed: bool = False,
    n_jobs: int | None = None,
    hidden_weight: float = 0.0,
    watch: Watch = no_progress,
) -> TableModel:
    """The model of these rows (code −1: no label), with every choice made and every row learned.

    Rows without a label help to choose bins and scales; `hidden_weight` is the weight of one relative to a labelled
    row.
    """
    check_text_columns(reader.texts)
    sampled = sample(frame.size)
    encoding = choose_encoding(frame.take(sampled) if len(sampled) < frame.size else frame, reader.texts)
    if len(sampled) < frame.size:
        encoding = encoding.with_new(frame)
    labelled = np.flatnonzero(y >= 0)
    if len(labelled) < frame.size:
        hidden, hidden_weights = frame.take(np.flatnonzero(y < 0)), None if weight is None else weight[y < 0]
        frame, y = frame.take(labelled), y[labelled]
        weight = None if weight is None else weight[labelled]
        sampled = sample(frame.size)
    else:
        hidden = None
    is_whole = len(sampled) == frame.size
    rows = encoding.rows(frame if is_whole else frame.take(sampled), True)
    labels, w = (y, weight) if is_whole else (y[sampled], None if weight is None else weight[sampled])
    with own_threads():
        chosen = Sample(encoding, rows, labels, len(classes), w, n_jobs)
        tried = Candidates(chosen, ranks(classes))
        experts = tried.experts(watch)
    pool = unweighted(experts, chosen)
    model = TableModel(classes, chosen.count, reader, encoding, experts, pool, class_prior, closed)
    if not is_whole:
        with own_threads():  # experts that are not used need not learn all rows
            model, tried = in_use(with_weights(model, chosen, tried, boost=False), tried)
        model = model.sums_of(frame, y, weight, n_jobs)
    with own_threads():
        model = with_weights(model, chosen, tried)
    if hidden is not None and hidden_weight:
        missing = np.full(hidden.size, -1, dtype=np.int32)
        model = model.fill(hidden, missing, hidden_weights, Hidden(hidden_weight), n_jobs)
    return model


def choose_by_sample(
    reader: TableColumns,
    frame: Frame,
    y: Codes,
    classes: Array,
    collect: Callable[[TableModel], TableModel],
    class_prior: str | Floats = "empirical",
    n_jobs: int | None = None,
    watch: Watch = no_progress,
) -> TableModel:
    """The model of data in files, databases or clusters: a sample makes the choices, and `collect` learns every row.

    `collect` gets the model with all choices made and nothing learned. It also learns the rows of the sample, so these
    are left out of the sums when they are used to fit the weights.
    """
    check_text_columns(reader.texts)
    sampled = sample(frame.size)
    if len(sampled) < frame.size:
        frame, y = frame.take(sampled), y[sampled]
    encoding = choose_encoding(frame, reader.texts)
    with own_threads():
        chosen = Sample(encoding, encoding.rows(frame, True), y, len(classes), None, n_jobs)
        tried = Candidates(chosen, ranks(classes))
        experts = tried.experts(watch)
        model = TableModel(classes, chosen.count, reader, encoding, experts, unweighted(experts, chosen), class_prior)
        model, tried = in_use(with_weights(model, chosen, tried, boost=False), tried)
    model = collect(model.zero())
    with own_threads():
        chosen = chosen.in_classes(find(classes, model.classes), len(model.classes))
        return with_weights(model, chosen, tried)


def check_text_columns(names: tuple[str, ...]) -> None:
    """Refuse more columns of text than can be learned in half a minute or so."""
    if len(names) > MAX_TEXT_COLUMNS:
        raise DecibanError(
            "{columns:,} columns hold text, {column!r} first, and at most {limit} can be learned: join them into one "
            "column, or leave some out, which is the kind 'skip'",
            columns=len(names),
            limit=MAX_TEXT_COLUMNS,
            column=names[0],
        )


def unweighted(experts: Sequence[Expert], sample: Sample) -> Pool:
    """Equal weights, before any are fitted."""
    equal = np.full(len(experts), 1.0 / (len(experts) + 1))
    return Pool(np.append(equal, np.zeros(len(sample.encoding.columns))), np.zeros(sample.k))


def in_use(model: TableModel, tried: Candidates) -> tuple[TableModel, Candidates]:
    """The model with the experts that have a weight, ready to learn and to be weighted again."""
    kept = copy.copy(tried)
    chosen = iter(model.record.candidates[1:])  # the first is the expert of columns, which always stays
    kept.tried = [c if one.weight else replace(c, chosen=False) for c, one in zip(tried.tried, chosen, strict=False)]
    return replace(model, left_out=None, record=Record()), kept
