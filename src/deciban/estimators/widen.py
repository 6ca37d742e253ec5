"""A naive Bayes model with more columns, for streams in which new ones appear: their sums are those of no rows."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from deciban._typing import Array, Floats, Sums
from deciban.algebra import Stats
from deciban.errors import SchemaError
from deciban.joint import Block
from deciban.joint_model import JointModel
from deciban.measure import MEASURES, Cells, One
from deciban.schema import Columns, Schema


def widened(estimator: Any, columns: dict[str, float], kinds: list[str]) -> Any:
    """A copy of a fitted estimator with more columns: the model that learned its rows without values for them.

    A value that is not there is missing; in a model of counts, it is zero. `columns` has for each new name a number
    that moments are kept about, near the first value, and `kinds` their kinds, if the model has columns by name.
    """
    model, other = estimator.model_, copy.copy(estimator)
    if not isinstance(model, JointModel) or any(map(dependent, model.schema.blocks, model.stats.sums)):
        raise SchemaError(
            "{column!r} is a new column, but the columns of a {model} depend on each other: let it learn rows that "
            "have all columns first, or use NaiveBayes",
            column=next(iter(columns)),
            model=type(estimator).__name__,
        )
    other.n_features_in_ = estimator.n_features_in_ + len(columns)
    old = model.schema.blocks
    if hasattr(estimator, "kinds_"):
        other.kinds_ = [*estimator.kinds_, *kinds]
        other.feature_names_in_ = np.array([*estimator.feature_names_in_, *columns], dtype=object)
        places = {name: (b, j) for b, block in enumerate(old) for j, name in enumerate(block.names or ())}
        known = {b: model.joint.blocks[b] for b in range(len(old))}
        groups = [(block, group.names) for block, group in zip(other._joint().blocks, other._layout(), strict=True)]
    else:  # one block; the estimator has no names, only the user of it
        places = {f"x{j}": (0, j) for j in range(old[0].size)}
        known, groups = {}, [(model.joint.blocks[0], (*places, *columns))]
    blocks, parts, sums = [], [], []
    for block, names in groups:
        sources = [places.get(name) for name in names]
        b = next((source[0] for source in sources if source is not None), None)
        blocks.append(known.get(-1 if b is None else b, block))
        to = np.array([j for j, source in enumerate(sources) if source is not None], dtype=np.intp)
        at = np.array([source[1] for source in sources if source is not None], dtype=np.intp)
        new = more_columns(blocks[-1], None if b is None else old[b], names, columns, to, at, len(model.classes))
        parts.append(new if hasattr(estimator, "kinds_") else replace(new, names=None))
        zeros = model.weight if not hasattr(estimator, "kinds_") and is_count(block) else np.zeros(len(model.classes))
        sums.append(moved({} if b is None else model.stats.sums[b], old[b or 0], new, block, to, at, zeros))
    joint = replace(model.joint, blocks=tuple(blocks))
    stats = Stats(Schema(model.classes, tuple(parts), model.closed), model.weight, tuple(sums))
    other.model_ = replace(model, joint=joint, stats=stats)
    other.model_ = replace(other.model_, choice=other._choice())
    return other


def is_count(block: Block) -> bool:
    """Whether a value that is not there is zero."""
    return block.family.values in ("counts", "truths")


def dependent(columns: Columns, sums: Sums) -> bool:
    """Whether columns depend on each other, so that rows without one of them have no sums of their own."""
    return columns.parents is not None or any(array.ndim > 2 for array in sums.values())


def more_columns(
    block: Block,
    old: Columns | None,
    names: tuple[str, ...],
    first: dict[str, float],
    to: Array,
    at: Array,
    k: int,
) -> Columns:
    """The columns of a block: those at `at` of the old ones go to `to`, and the others are new."""
    categories, pivot = None, None
    if block.family.values == "categories":
        before = () if old is None else old.categories or ()
        place = dict(zip(to.tolist(), at.tolist(), strict=True))
        categories = tuple(before[place[j]] if j in place else () for j in range(len(names)))
    if block.family.pivoted:
        pivot = np.tile([first.get(name, 0.0) for name in names], (k, 1))
        if old is not None and old.pivot is not None:
            pivot[:, to] = old.pivot[:, at]
    return Columns(len(names), names, categories, pivot)


def moved(sums: Sums, old: Columns, new: Columns, block: Block, to: Array, at: Array, zeros: Floats) -> Sums:
    """The sums with the columns at `at` moved to `to`. `zeros` is how many rows have a zero in the others."""
    out = {measure.name: measure.zero(len(zeros), new) for measure in block.family.measures(new)}
    for name, array in sums.items():
        if issubclass(MEASURES[name], Cells):
            starts = zip(old.offsets[at], old.offsets[at + 1], new.offsets[to], strict=True)
            for start, stop, place in starts:
                out[name][:, place : place + stop - start] = array[:, start:stop]
            continue
        if name == One.name and array.shape[1] == 1 and zeros.any():  # no value was missing, and none is
            out[name] = array
            continue
        wide = np.zeros((len(zeros), new.size)) + (zeros[:, None] if name == One.name else 0.0)
        wide[:, to] = np.broadcast_to(array, (len(zeros), old.size))[:, at]
        out[name] = wide
    return out
