"""Class priors: counted, given, renormalised over the remaining classes; and scores without a prior."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import make

from deciban.errors import SchemaError
from deciban.joint import Joint, Model, log_class_prior, log_class_prior_without
from deciban.measure import RESIDUE


def test_nothing_seen_yet_is_uniform():
    np.testing.assert_allclose(np.exp(log_class_prior("empirical", np.zeros(4))), 0.25)
    np.testing.assert_allclose(np.exp(log_class_prior("empirical", np.array([3.0, 1.0]))), [0.75, 0.25])
    np.testing.assert_allclose(np.exp(log_class_prior("uniform", np.array([3.0, 1.0]))), 0.5)
    np.testing.assert_array_equal(log_class_prior(np.array([1.0, 0.0]), np.ones(2)), [0.0, -np.inf])


@pytest.mark.parametrize(
    ("asked", "closed", "left"),
    [
        ("empirical", False, [1.0, 0.0]),
        ("uniform", False, [1.0, 0.0]),
        ("uniform", True, [0.5, 0.5]),
        (np.array([0.2, 0.8]), False, [1.0, 0.0]),
        (np.array([0.2, 0.8]), True, [0.2, 0.8]),
    ],
)
def test_a_class_that_one_row_was_all_of_is_gone_without_it(asked, closed, left):
    y = np.array([0, 0, 1], dtype=np.int32)
    for weight in (None, np.ones(3)):
        table, which = log_class_prior_without(asked, np.array([2.0, 1.0]), y, weight, closed)
        np.testing.assert_allclose(np.exp(table[which[2]]), left)
        other = [0.5, 0.5] if isinstance(asked, str) else asked
        np.testing.assert_allclose(np.exp(table[which[0]]), other)


def test_rows_without_a_class_take_nothing_away():
    table, which = log_class_prior_without("empirical", np.array([2.0, 2.0]), np.array([-1, 0], dtype=np.int32), None)
    np.testing.assert_allclose(np.exp(table[which]), [[0.5, 0.5], [1 / 3, 2 / 3]])


@pytest.mark.parametrize(("rest", "gone"), [(0.5, True), (1.0, True), (2.0, False)])
def test_what_rounding_leaves_of_a_class_is_nothing(rest, gone):
    weight = np.array([1.0, 1.0])
    own = 1.0 - rest * RESIDUE
    table, which = log_class_prior_without("empirical", weight, np.array([0], dtype=np.int32), np.array([own]))
    assert np.isneginf(table[which[0], 0]) == gone


def test_a_score_that_is_no_density_leaves_the_prior_out():
    world = make("complement", 2, 20, 3, 2, False, False, 1.0)
    world.y[:] = np.arange(20) < 4
    model = world.model()
    assert abs(model.log_prior[0] - model.log_prior[1]) > 0.5
    np.testing.assert_array_equal(model.log_joint([world.X]), model.log_likelihood([world.X]))
    assert not model.generative
    one = make("complement", 2, 20, 3, 1, False, False, 1.0).model()
    np.testing.assert_allclose(one.log_joint([world.X]), one.log_likelihood([world.X]) + one.log_prior)


def test_a_model_without_columns_is_an_error():
    with pytest.raises(SchemaError, match="block"):
        Model(Joint(()), make("gaussian", 0, 3, 1, 1, False, False, 1.0).collect()).log_likelihood([])


def test_left_out_a_row_that_nothing_explains_has_the_prior():
    world = make("categorical", 0, 8, 1, 2, False, False, 0.0)
    world.y[:] = np.arange(8) % 2
    world.X[:] = 0.0
    world.schema = type(world.schema)(world.schema.classes, (type(world.schema.blocks[0])(1, categories=(range(2),)),))
    world.X[0] = 1.0  # nobody else has it
    log_joint, strange = world.model().log_joint_without([world.X], world.y, None)
    assert strange
    np.testing.assert_allclose(log_joint[0], np.log([3 / 7, 4 / 7]))
    _, strange = world.model().log_joint_without([world.X[1:]], world.y[1:], None)
    assert not strange
