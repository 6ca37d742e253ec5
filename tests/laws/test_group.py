"""Statistics are a commutative group, whatever the classes, categories and pivots of the two sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from worlds import law

from deciban.algebra import Stats
from deciban.errors import SchemaError
from deciban.schema import Columns, Schema


def thirds(world):
    n = len(world.y)
    return [world.collect(slice(i * n // 3, (i + 1) * n // 3)) for i in range(3)]


@law()
def test_addition_is_associative_and_commutative(world):
    a, b, c = thirds(world)
    assert ((a + b) + c).same_as(a + (b + c))
    assert (a + b).same_as(b + a)


@law()
def test_zero_changes_nothing_and_every_sum_has_an_inverse(world):
    a, b, _ = thirds(world)
    zero = world.joint.zero(world.schema)
    assert (a + zero).same_as(a)
    assert (a - a).same_as(zero)
    assert ((a + b) - b).same_as(a)


@law(factor=st.floats(0.0, 4.0))
def test_scaling_distributes_over_addition(world, factor):
    a, b, _ = thirds(world)
    assert (a + b).scale(factor).same_as(a.scale(factor) + b.scale(factor))
    assert a.scale(2.0).same_as(a + a)
    assert a.scale(factor).scale(0.5).same_as(a.scale(0.5 * factor))


@law()
def test_sums_over_different_classes_merge_by_label(world):
    k = len(world.schema.classes)
    low, high = np.flatnonzero(world.y < k // 2), np.flatnonzero(world.y >= k // 2)
    halves = []
    for rows, classes in ((low, range(k // 2)), (high, range(k // 2, k))):
        columns = world.schema.blocks[0]
        if columns.pivot is not None:
            columns = replace(columns, pivot=columns.pivot[list(classes)] + 1.0)
        half = replace(
            world, schema=Schema(np.array(classes, dtype=int), (columns,)), y=world.y - np.int32(classes.start)
        )
        halves.append(half.collect(rows))
    assert (halves[0] + halves[1]).same_as((halves[1] + halves[0]).embed((halves[0] + halves[1]).schema))
    assert (halves[0] + halves[1]).same_as(world.collect(), tolerance=1e-6)


def test_categories_union_by_value():
    def counts(categories, values):
        schema = Schema(np.array(["a"]), (Columns(1, categories=(categories,)),))
        return Stats(schema, np.array([float(sum(values))]), ({"is": np.array([values], dtype=float)},))

    both = counts(("red", "green"), [2, 1]) + counts(("blue", "red"), [5, 7])
    assert both.schema.blocks[0].categories == (("red", "green", "blue"),)
    assert both.sums[0]["is"].tolist() == [[9, 1, 5]]
    codes = counts(range(2), [2, 1]) + counts(range(4), [0, 1, 0, 3])
    assert codes.sums[0]["is"].tolist() == [[2, 2, 0, 3]]


def test_sums_that_do_not_fit_together_are_an_error():
    def empty(schema):
        return Stats(schema, np.zeros(len(schema.classes)), ({"x": np.zeros((len(schema.classes), 2))},))

    two = Schema(np.array(["a", "b"]), (Columns(2, ("u", "v")),), closed=True)
    with pytest.raises(SchemaError, match="'v' in one and 'w' in the other"):
        empty(two) + empty(Schema(two.classes, (Columns(2, ("u", "w")),)))
    with pytest.raises(SchemaError, match=r"declared as \['a', 'b'\], so \['c'\]"):
        empty(two) + empty(Schema(np.array(["c"]), (Columns(2),)))
    with pytest.raises(SchemaError, match="2 columns with one of 3"):
        empty(two) + empty(Schema(two.classes, (Columns(3),)))
    with pytest.raises(SchemaError, match="cannot be compared"):
        empty(two) + empty(Schema(np.array([1, 2]), (Columns(2),)))
