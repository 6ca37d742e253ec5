"""Forgetting is subtraction: the model afterwards is the one that never saw the rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from deciban._typing import Array, Categories, Floats, Sums
from deciban.algebra import RESIDUE, Stats, column_totals, pair_positions
from deciban.errors import ForgetError
from deciban.families.gaussian import ROUNDING
from deciban.joint import Model
from deciban.schema import Bins, Columns, Schema


def forget(model: Model, stats: Stats, least: tuple[int, ...] | None = None) -> Model:
    """The model without these statistics; classes and categories that nothing is left of go too.

    Raises ForgetError, and changes nothing, where the statistics hold what the model never learned. `least` is
    how many integer categories each column keeps in any case.
    """
    check_classes(model, stats.classes)
    before = model.stats
    after = before - stats
    weight = subtract_checked(before.weight, after.weight, "rows of class {}", [str(c) for c in before.classes])
    blocks = []
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
        if "xy" in left:
            left = settle_scatter(was, left, columns)
        elif "xx" in left:
            left = settle_moments(was, left, columns)
        elif "x" in left:
            left["x"] = subtract_checked(was["x"], left["x"], "counts of column {}", names)
        check_consistent(left, weight, columns, family.name)
        blocks.append(left)
    settled = Stats(after.schema, weight, tuple(blocks))
    return Model(model.joint, prune(settled, least))


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


def settle_moments(was: Sums, left: dict[str, Floats], columns: Columns) -> dict[str, Floats]:
    """Moments of nothing are zero; a sum of squares below zero was never learned."""
    nothing = np.broadcast_to(left["one"], left["x"].shape) <= 0
    residue = RESIDUE * np.sqrt(np.abs(was["xx"] * was["one"]))
    if (nothing & (np.abs(left["x"]) > residue)).any():
        at = np.argwhere(nothing & (np.abs(left["x"]) > residue))[0]
        raise ForgetError(
            f"cannot forget these values of column {columns.name(int(at[1]))!r}: no row is left of the class, but a "
            "sum of values is, so the model never learned them as they are"
        )
    left["x"] = np.where(nothing, 0.0, left["x"])
    left["xx"] = np.where(nothing, 0.0, left["xx"])
    n = np.where(nothing, 1.0, np.broadcast_to(left["one"], left["x"].shape))
    scatter = left["xx"] - left["x"] ** 2 / n
    # Rounding can take a scatter below zero by a share of what was subtracted, not by more.
    if (scatter < -RESIDUE * (np.abs(was["xx"]) + np.abs(left["xx"]) + left["x"] ** 2 / n)).any():
        at = np.argwhere(scatter < 0)[0]
        raise ForgetError(
            f"cannot forget these values of column {columns.name(int(at[1]))!r}: the model never learned them "
            "(its sum of squares would be negative)"
        )
    # What rounding leaves of a scatter that is gone is not a variance.
    left["xx"] = np.where(np.abs(scatter) <= ROUNDING * np.abs(was["xx"]), left["x"] ** 2 / n, left["xx"])
    return left


def settle_scatter(was: Sums, left: dict[str, Floats], columns: Columns) -> dict[str, Floats]:
    """The same for scatter matrices: each column's own moments first, then what a settled column shares with others."""
    diagonal = {
        name: {**sums, "xx": np.diagonal(sums["xy"], axis1=1, axis2=2).copy()}
        for name, sums in (("was", was), ("left", left))
    }
    settled = settle_moments(diagonal["was"], diagonal["left"], columns)
    x, n = settled["x"], np.where(left["one"] > 0, left["one"], 1.0)
    alone = x[:, :, None] * x[:, None, :] / n[..., None]  # the scatter of a column that does not vary any more
    still = settled["xx"] == x**2 / n
    out = {name: np.where((left["one"] > 0)[..., None], sums, 0.0) for name, sums in left.items() if sums.ndim == 3}
    out["xy"] = np.where(still[:, :, None] | still[:, None, :], alone, out["xy"])
    return {**left, "x": x, **out}


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
