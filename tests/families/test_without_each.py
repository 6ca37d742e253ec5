"""A row subtracted from every class's sums, as prediction sets need it; by tables where a family has them."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import make

from deciban import MultinomialNB
from deciban.families import FAMILIES
from deciban.families.base import Family

APART = [name for name, family in FAMILIES.items() if family.apart]


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("predictive", [False, True])
@pytest.mark.parametrize("fractions", [False, True])
def test_without_each_is_leaving_out_of_each_class(name, predictive, fractions):
    settings = {"predictive": True} if predictive and hasattr(FAMILIES[name], "predictive") else {}
    world = make(name, 8, 80, 3, 1, False, False, 0.5, **settings)
    if fractions and world.family.values == "counts":
        world.X = world.X + np.random.default_rng(0).random(world.X.shape)  # more distinct numbers than tables are for
    columns, sums = world.schema.blocks[0], world.collect().sums[0]
    both = {key: np.repeat(array, 2, axis=0) for key, array in sums.items()}
    actual = world.family.without_each(both, 0.5, columns, world.X)
    expected = Family.without_each(world.family, both, 0.5, columns, world.X)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_prediction_sets_of_many_distinct_counts():
    rng = np.random.default_rng(1)
    X, y = rng.random((60, 4)), rng.integers(0, 2, 60)
    sets = MultinomialNB().fit(X, y).predict_set(X[:5], 0.9)
    assert sets.p_values.shape == (5, 2)
