"""Forgetting is subtraction: the resulting model is one that never saw the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from deciban._typing import Array, Categories, Floats
from deciban.algebra import Stats
from deciban.errors import ForgetError
from deciban.families.gaussian import constant, without_residue
from deciban.joint import Model
from deciban.measure import MEASURES, Is, Lost, remainder
from deciban.schema import Bins, Columns, Schema
from deciban.show import plain


def forget(model: Model, stats: Stats, least: tuple[int, ...] | None = None) -> Model:
    """The model without these statistics, and without classes and categories that are then empty.

    Raises ForgetError, and changes nothing, if the model never learned the rows of the statistics, or if so little is
    left of a sum that rounding hides it. `least` is how many integer categories each column keeps in any case.
    """
    return Model(model.joint, prune(subtract(model, stats), least))


def subtract(model: Model, stats: Stats) -> Stats:
    """The model's statistics without these, which must be a part of them."""
    check_classes(model, stats.classes)
    before = model.stats
    after = before - stats
    weight = remainder(before.weight, after.weight, "rows of class {}", [str(c) for c in before.classes])
    blocks, schema = [], []
    for b, sums in enumerate(after.sums):
        columns, family = after.schema.blocks[b], model.joint.blocks[b].family
        old, remaining, measures = before.embed(after.schema).sums[b], dict(sums), family.measures(columns)
        for measure in measures:
            remaining[measure.name] = measure.checked_remainder(old, remaining, columns)
        check_room(np.any([measure.excess(remaining, weight, columns) for measure in measures], axis=0), columns)
        if family.pivoted:
            was_constant = constant(old)
            remaining[Lost.name] = np.where(was_constant, 0.0, remaining[Lost.name])
            check_known(family.unknown(remaining, columns) & ~was_constant, before.classes, columns)
            remaining, columns = without_residue(remaining, columns)
        blocks.append(remaining)
        schema.append(columns)
    return Stats(replace(after.schema, blocks=tuple(schema)), weight, tuple(blocks))


def check_classes(model: Model, classes: Array) -> None:
    """Only classes that were learned can be forgotten."""
    learned = set(model.classes.tolist())
    unknown = next((c for c in classes.tolist() if c not in learned), None)
    if unknown is not None:
        raise ForgetError(f"cannot forget rows of class {unknown!r}: the model never learned that class")


def check_room(excess: Array, columns: Columns) -> None:
    """Check that some rows can have these sums: no more values than rows, and none without rows."""
    if excess.any():
        at = np.argwhere(excess)[0]
        raise ForgetError(
            f"cannot forget these rows: in column {columns.name(int(at[1]))!r} more would be left than the remaining "
            f"rows can contain, so the model did not learn these rows in this form"
        )


def check_known(unknown: Array, classes: Array, columns: Columns) -> None:
    """Check that what is left is more than the rounding of the sums it was a part of."""
    if unknown.any():
        c, j = np.argwhere(unknown)[0]
        raise ForgetError(
            f"cannot forget these rows: the remainder of column {columns.name(int(j))!r} in class "
            f"{plain(classes[c])!r} is smaller than the rounding error of the sums, so its variance would be "
            f"unknown. Fit again without these rows"
        )


def prune(stats: Stats, least: tuple[int, ...] | None) -> Stats:
    """Drop classes and categories without any weight."""
    schema = stats.schema
    keep = np.ones(len(schema.classes), dtype=bool) if schema.closed else stats.weight > 0
    weight = stats.weight[keep]
    blocks, sums = [], []
    for columns, block in zip(schema.blocks, stats.sums, strict=True):
        kept = {name: array[keep] for name, array in block.items()}
        if columns.pivot is not None:
            columns = replace(columns, pivot=columns.pivot[keep])
        if columns.categories is not None:
            pruned = prune_categories(columns, kept[Is.name], least)
            kept = {name: MEASURES[name].picked(array, columns, pruned) for name, array in kept.items()}
            columns = pruned
        blocks.append(columns)
        sums.append(kept)
    return Stats(Schema(schema.classes[keep], tuple(blocks), schema.closed), weight, tuple(sums))


def prune_categories(columns: Columns, cells: Floats, least: tuple[int, ...] | None) -> Columns:
    """Drop labels without counts, and integer codes above the greatest one with counts; intervals stay."""
    assert columns.categories is not None
    categories: list[Categories] = []
    used = cells.sum(axis=0) > 0
    for j, (values, start) in enumerate(zip(columns.categories, columns.offsets, strict=False)):
        mine = np.flatnonzero(used[start : start + len(values)])
        if isinstance(values, range):
            size = max(int(mine[-1]) + 1 if len(mine) else 0, least[j] if least is not None else 0)
            categories.append(range(min(size, len(values))))
        else:
            categories.append(values if isinstance(values, Bins) else tuple(values[i] for i in mine.tolist()))
    return replace(columns, categories=tuple(categories))
