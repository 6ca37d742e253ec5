"""The first fit of a text model: parameters checked, and everything chosen on the first documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.learner import AS_LABELLED, Hidden
from deciban.reading.labels import Labels
from deciban.show import progress
from deciban.text.documents import Texts
from deciban.text.graded import Graded, Labelled
from deciban.text.items import BLOCKS, choose_blocks
from deciban.text.kept import MAX_KEPT_DOCUMENTS, Kept, marks, rechosen, to_fit_on
from deciban.text.plain import Plain, plain_words
from deciban.text.raw import Documents
from deciban.text.tokens import MIXED_SCRIPTS, TokenRule
from deciban.threads import own_threads


@own_threads()  # BLAS has small matrices here, and its threads would wait for the next one busily
def learn(
    none: Graded | Plain,
    texts: Texts,
    labels: Labels,
    weight: Floats | None = None,
    hidden: Hidden = AS_LABELLED,
    n_jobs: int | None = None,
) -> Graded | Plain:
    """The model of these documents, from an empty one: everything chosen, and missing labels guessed.

    From then on it chooses automatically, and keeps documents for that.
    """
    model: Graded | Plain
    if isinstance(none, Graded):
        model = learned_and_chosen(none, texts, labels, weight, n_jobs)
    else:
        model = replace(none, choosing=True).learn(texts, labels, weight, n_jobs)
        if model.chooses:
            model = rechosen(model, model.kept, n_jobs)
    if labels.any_missing:
        with progress("labels") as watch:
            model = model.fill(texts, labels.codes, weight, hidden, n_jobs, watch)
    return model


def learned_and_chosen(none: Graded, texts: Texts, labels: Labels, weight: Floats | None, n_jobs: int | None) -> Graded:
    """The model with all documents learned, and choices made on some of them; each is read once."""
    learned, known = Kept.of(texts, labels, weight, none.rule), np.flatnonzero(labels.codes >= 0)
    eval_index = to_fit_on(learned.rows, len(labels.classes))
    mark, others_index = (
        marks(learned.rows[i][0] for i in eval_index),
        np.setdiff1d(np.arange(len(texts)), known[eval_index]),
    )
    evaluated, others = (
        Labelled(
            (texts if len(rows) == len(texts) else texts.take(rows)).batches(),
            labels.codes[rows],
            None if weight is None else weight[rows],
        )
        for rows in (known[eval_index], others_index)
    )
    model = none.learned_and_chosen(evaluated, others, labels.classes, mark, n_jobs)
    model = replace(model, choosing=True, kept=learned.limited(MAX_KEPT_DOCUMENTS))
    return model.with_importance(texts, labels.codes, weight)


def blocks_of(requested: Any, texts: Texts, rule: TokenRule) -> tuple[str, ...]:
    """The blocks of items to use: as given, checked, or chosen by the first documents."""
    if isinstance(requested, str):
        return choose_blocks(next(texts.batches(), Documents([])), rule)
    blocks = tuple(requested)
    unknown = [block for block in blocks if block not in BLOCKS]
    if unknown or "words" not in blocks or len(set(blocks)) < len(blocks):
        raise ValueError(f"blocks is {blocks}: it must be 'words' and any of {', '.join(BLOCKS[1:])}, each once")
    return tuple(block for block in BLOCKS if block in blocks)


def pseudo_counts(
    given: Mapping[str, Any] | None, classes: Array, lower: bool, rule: TokenRule, plain: bool = False
) -> dict[str, Any]:
    """The given pseudo-counts by word, checked; with `plain`, words are read as by `Plain`."""
    out: dict[str, Any] = {}
    for word, value in (given or {}).items():
        if not isinstance(word, str):
            raise ValueError(f"prior names {word!r}, which is not a word")
        amounts = value if isinstance(value, Mapping) else {None: value}
        for label, n in amounts.items():
            if isinstance(value, Mapping) and label not in set(classes.tolist()):
                raise ValueError(f"prior[{word!r}] names the class {label!r}, which is not one of {classes.tolist()}")
            if not isinstance(n, Real) or not 0 <= float(n) < 1e100:
                raise ValueError(f"prior[{word!r}] has {n!r}: pseudo-counts must be numbers ≥ 0")
        as_read = plain_words(word, lower, rule) if plain else rule.tokens(word, lower)
        if len([token for token in as_read if token != MIXED_SCRIPTS]) != 1 or len(word.split()) != 1:
            raise ValueError(f"prior names {word!r}, which is not a single word as texts are read")
        read = as_read[0]
        if read in out:
            raise ValueError(f"prior names {read!r} twice")
        out[read] = {c: float(n) for c, n in value.items()} if isinstance(value, Mapping) else float(value)
    return out
