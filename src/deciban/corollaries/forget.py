"""Forgetting is subtraction: the model afterwards is the one that never saw the rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from deciban._typing import Array, Categories, Floats, Sums
from deciban.algebra import RESIDUE, Stats, column_totals, gross, pair_positions, second_moments
from deciban.errors import ForgetError
from deciban.families.gaussian import constant, settled
from deciban.joint import Model
from deciban.schema import Bins, Columns, Schema
from deciban.show import plain


def forget(model: Model, stats: Stats, least: tuple[int, ...] | None = None) -> Model:
    """The model without these statistics; classes and categories that nothing is left of go too.

    Raises ForgetError, and changes nothing, where the statistics hold what the model never learned, or where so little
    is left of a sum that rounding hides it. `least` is how many integer categories each column keeps in any case.
    """
    return Model(model.joint, prune(subtract(model, stats), least))


def subtract(model: Model, stats: Stats) -> Stats:
    """The model's statistics without these, which must be a part of them."""
    check_classes(model, stats.classes)
    before = model.stats
    after = before - stats
    weight = subtract_checked(before.weight, after.weight, "rows of class {}", [str(c) for c in before.classes])
    blocks, schema = [], []
    for b, sums in enumerate(after.sums):
        columns, family = after.schema.blocks[b], model.joint.blocks[b].family
        was = before.embed(after.schema).sums[b]
        left = dict(sums)
        names = [columns.name(j) for j in range(columns.size)]
        if "one" in left:
            left["one"] = subtract_checked(was["one"], left["one"], "values of column {}", names)
        if "is" in left:
            left["is"] = subtract_checked(was["is"], left["is"], "values of column {}", cell_columns(columns))
        if "pair" in left:
            what = "values of column {} beside the one it hangs on"
            left["pair"] = subtract_checked(was["pair"], left["pair"], what, pair_columns(columns))
        if family.pivoted:
            check_moments(was, left, columns)
        elif "x" in left:
            left["x"] = subtract_checked(was["x"], left["x"], "counts of column {}", names)
        check_consistent(left, weight, columns, family.name)
        if family.pivoted:
            before_too = constant(was)
            left["lost"] = np.where(before_too, 0.0, left["lost"])
            check_known(family.unknown(left, columns) & ~before_too, before.classes, columns)
            left, columns = settled(left, columns)
        blocks.append(left)
        schema.append(columns)
    return Stats(replace(after.schema, blocks=tuple(schema)), weight, tuple(blocks))


def check_classes(model: Model, classes: Array) -> None:
    """Only classes that were learned can be forgotten."""
    learned = set(model.classes.tolist())
    unknown = next((c for c in classes.tolist() if c not in learned), None)
    if unknown is not None:
        raise ForgetError(f"cannot forget rows of class {unknown!r}: the model never learned that class")


def subtract_checked(was: Floats, left: Floats, what: str, names: list[str]) -> Floats:
    """What is left, rounding residue being nothing; less than nothing was never learned."""
    scale = np.broadcast_to(was, left.shape)
    left = np.where(np.abs(left) <= np.abs(scale) * RESIDUE, 0.0, left)
    if (left < 0).any():
        at = np.argwhere(left < 0)[0]
        raise ForgetError(
            f"cannot forget more {what.format(repr(names[int(at[-1])]))} than the model has learned: "
            f"it has {scale[tuple(at)]:g}, and {scale[tuple(at)] - left[tuple(at)]:g} were to go"
        )
    return left


def check_consistent(left: Sums, weight: Floats, columns: Columns, family: str) -> None:
    """What is left must be what some rows add up to: no more values than rows, nothing where no row is left."""
    limit = weight[:, None] * (1.0 + RESIDUE)
    if "is" in left:
        too_many = column_totals(left["is"], columns) > limit
        if "pair" in left:
            too_many |= more_pairs_than_values(left, columns)
    elif "one" in left:
        too_many = np.broadcast_to(left["one"] > limit, (len(weight), columns.size))
        if family == "bernoulli":
            too_many = too_many | (left["x"] > np.broadcast_to(left["one"], left["x"].shape) * (1.0 + RESIDUE))
    else:
        too_many = np.zeros((len(weight), columns.size), dtype=bool)
    if "x" in left and columns.pivot is None:
        too_many = too_many | ((weight[:, None] <= 0) & (left["x"] > 0))
    if too_many.any():
        at = np.argwhere(too_many)[0]
        raise ForgetError(
            f"cannot forget these rows: in column {columns.name(int(at[1]))!r} more would be left than the rows that "
            "remain can hold, so the model never learned them as they are"
        )


def check_known(unknown: Array, classes: Array, columns: Columns) -> None:
    """What is left must be more than the rounding of what it was a part of."""
    if unknown.any():
        c, j = np.argwhere(unknown)[0]
        raise ForgetError(
            f"cannot forget these rows: what would be left of column {columns.name(int(j))!r} in class "
            f"{plain(classes[c])!r} is less than the rounding of the sums they are part of, so its spread would not be "
            "known. Fit again without these rows"
        )


def more_pairs_than_values(left: Sums, columns: Columns) -> Array:
    """Where a column's values beside its parent's are more than its values, (k, d)."""
    out, offsets = np.zeros((len(left["is"]), columns.size), dtype=bool), columns.offsets
    for j, (start, stop) in enumerate(pairwise(columns.pair_offsets)):
        alone = left["is"][:, offsets[j] : offsets[j + 1]]
        if stop > start:
            size = alone.shape[1]
            beside = left["pair"][:, start:stop].reshape(len(alone), (stop - start) // size, size).sum(axis=1)
            out[:, j] = (beside > alone * (1.0 + RESIDUE)).any(axis=1)
    return out


def check_moments(was: Sums, left: Sums, columns: Columns) -> None:
    """Of no rows no sum is left, and no sum of squares is below zero: otherwise they were never learned."""
    n = np.broadcast_to(left["one"], left["x"].shape)
    nothing, size = n <= 0, gross(was)
    assert columns.pivot is not None
    remains = nothing & (
        np.abs(left["x"]) > RESIDUE * (np.sqrt(size * was["one"]) + np.abs(columns.pivot) * was["one"])
    )
    if remains.any():
        column = columns.name(int(np.argwhere(remains)[0][1]))
        raise ForgetError(
            f"cannot forget these values of column {column!r}: no row is left of the class, but a sum of values is, so "
            "the model never learned them as they are"
        )
    squares = np.where(nothing, 0.0, left["x"] ** 2 / np.where(nothing, 1.0, n))
    second = np.where(nothing, 0.0, second_moments(left))
    # Rounding can take a scatter below zero by a share of what was subtracted, not by more.
    negative = second - squares < -RESIDUE * (size + np.abs(second) + squares)
    if negative.any():
        column = columns.name(int(np.argwhere(negative)[0][1]))
        raise ForgetError(
            f"cannot forget these values of column {column!r}: the model never learned them (its sum of squares would "
            "be negative)"
        )


def cell_columns(columns: Columns) -> list[str]:
    """The column's name for every cell."""
    return [columns.name(j) for j, size in enumerate(np.diff(columns.offsets)) for _ in range(size)]


def pair_columns(columns: Columns) -> list[str]:
    """The column's name for every pair of its categories and its parent's."""
    return [columns.name(j) for j, size in enumerate(np.diff(columns.pair_offsets)) for _ in range(size)]


def prune(stats: Stats, least: tuple[int, ...] | None) -> Stats:
    """Drop classes and categories without any weight, as if they had never come."""
    schema = stats.schema
    keep = np.ones(len(schema.classes), dtype=bool) if schema.closed else stats.weight > 0
    weight = stats.weight[keep]
    blocks, sums = [], []
    for columns, block in zip(schema.blocks, stats.sums, strict=True):
        kept = {name: array[keep] for name, array in block.items()}
        if columns.pivot is not None:
            columns = replace(columns, pivot=columns.pivot[keep])
        if columns.categories is not None:
            pruned, kept["is"] = prune_categories(columns, kept["is"], least)
            if "pair" in kept:
                kept["pair"] = np.ascontiguousarray(kept["pair"][:, pair_positions(pruned, columns)])
            columns = pruned
        blocks.append(columns)
        sums.append(kept)
    return Stats(Schema(schema.classes[keep], tuple(blocks), schema.closed), weight, tuple(sums))


def prune_categories(columns: Columns, cells: Floats, least: tuple[int, ...] | None) -> tuple[Columns, Floats]:
    """Labels that were never counted go; integer codes run up to the greatest that was; intervals stay."""
    assert columns.categories is not None
    categories: list[Categories] = []
    positions = []
    used = cells.sum(axis=0) > 0
    for j, (values, start) in enumerate(zip(columns.categories, columns.offsets, strict=False)):
        mine: Array = np.flatnonzero(used[start : start + len(values)])
        if isinstance(values, range):
            size = max(int(mine[-1]) + 1 if len(mine) else 0, least[j] if least is not None else 0)
            categories.append(range(min(size, len(values))))
            mine = np.arange(len(categories[-1]))
        elif isinstance(values, Bins):
            categories.append(values)
            mine = np.arange(len(values))
        else:
            categories.append(tuple(values[i] for i in mine))
        positions.append(start + mine)
    at = np.concatenate(positions).astype(np.intp) if positions else np.zeros(0, dtype=np.intp)
    return replace(columns, categories=tuple(categories)), np.ascontiguousarray(cells[:, at])
