"""First learning of texts: what a person may say of it, checked, and all that is chosen by the first documents."""

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
from deciban.text.evidence import TOKEN
from deciban.text.graded import Graded, Labelled
from deciban.text.items import BLOCKS, choose_blocks
from deciban.text.kept import MAX_KEPT_DOCUMENTS, Kept, enough, marks, rechosen, smallest
from deciban.text.plain import SHORTEST, Plain
from deciban.text.raw import Documents


def learn(
    none: Graded | Plain,
    texts: Texts,
    labels: Labels,
    weight: Floats | None = None,
    hidden: Hidden = AS_LABELLED,
    n_jobs: int | None = None,
) -> Graded | Plain:
    """The model of these documents, of one that has learned nothing: everything chosen, and missing labels guessed.

    From then on it chooses by itself, and keeps documents for that.
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
    """All documents learned, some of which choose: each is read once."""
    learned, known = Kept.of(texts, labels, weight), np.flatnonzero(labels.codes >= 0)
    some = smallest([text for text, _, _ in learned.rows], enough(labels.classes))
    mark, rest = marks(learned.rows[i][0] for i in some), np.setdiff1d(np.arange(len(texts)), known[some])
    judges, others = (
        Labelled(
            (texts if len(rows) == len(texts) else texts.take(rows)).batches(),
            labels.codes[rows],
            None if weight is None else weight[rows],
        )
        for rows in (known[some], rest)
    )
    model = none.learned_and_chosen(judges, others, labels.classes, mark, n_jobs)
    return replace(model, choosing=True, kept=learned.fewest(MAX_KEPT_DOCUMENTS))


def blocks_of(asked: Any, texts: Texts) -> tuple[str, ...]:
    """What evidence is taken of: as named, checked, or what suits the first documents."""
    if isinstance(asked, str):
        return choose_blocks(next(texts.batches(), Documents([])))
    named = tuple(asked)
    unknown = [block for block in named if block not in BLOCKS]
    if unknown or "words" not in named or len(set(named)) < len(named):
        raise ValueError(f"blocks is {named}: it must be 'words' and any of {', '.join(BLOCKS[1:])}, each once")
    return tuple(block for block in BLOCKS if block in named)


def pseudo_counts(given: Mapping[str, Any] | None, classes: Array, lower: bool, alnum: bool = False) -> dict[str, Any]:
    """What a person put in by word, checked; `alnum`: words are as `Plain` reads them."""
    out: dict[str, Any] = {}
    for word, said in (given or {}).items():
        if not isinstance(word, str):
            raise ValueError(f"prior speaks of {word!r}, which is not a word")
        amounts = said if isinstance(said, Mapping) else {None: said}
        for label, n in amounts.items():
            if isinstance(said, Mapping) and label not in set(classes.tolist()):
                raise ValueError(f"prior[{word!r}] speaks of a class {label!r} that is not among {classes.tolist()}")
            if not isinstance(n, Real) or not 0 <= float(n) < 1e100:
                raise ValueError(f"prior[{word!r}] has {n!r}: pseudo-counts are numbers ≥ 0")
        read = word.lower() if lower else word
        if not TOKEN.fullmatch(read) or (alnum and (len(read) < SHORTEST or not read.isalnum())):
            raise ValueError(f"prior speaks of {word!r}, which is not one word as texts are read here")
        if read in out:
            raise ValueError(f"prior speaks of {read!r} twice")
        out[read] = {c: float(n) for c, n in said.items()} if isinstance(said, Mapping) else float(said)
    return out
