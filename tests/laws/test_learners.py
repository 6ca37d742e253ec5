"""Every model is a value with five operations: the laws of all of them, which are discovered."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import deciban
from deciban.bayes import DECIBANS
from deciban.errors import ForgetError
from deciban.learner import Learner
from deciban.reading.labels import read_labels
from deciban.tables.experts.forest import Forest
from deciban.tables.model import TableModel
from deciban.text.graded import Graded

N = 60


@dataclass(frozen=True)
class World:
    """A fitted estimator, rows of its own and their labels."""

    estimator: Any
    X: Any
    y: np.ndarray

    @property
    def model(self) -> Any:
        return self.estimator.model_

    def some(self, rows: Any) -> tuple[Any, Any]:
        """Some rows as the model learns them, and their labels."""
        which = np.arange(len(self.y))[rows]
        X = self.estimator._validated(self.take(which), reset=False, least=0)
        labels = read_labels(self.y[which], len(which)).placed(self.model.classes)
        return self.estimator._reader().learn(X, self.model, labels, None), labels

    def to_score(self, rows: Any = slice(None)) -> Any:
        which = np.arange(len(self.y))[rows]
        return self.estimator._reader().score(
            self.estimator._validated(self.take(which), reset=False, least=0), self.model
        )

    def take(self, which: np.ndarray) -> Any:
        if isinstance(self.X, dict):
            return {name: np.asarray(values)[which].tolist() for name, values in self.X.items()}
        return [self.X[i] for i in which] if isinstance(self.X, list) else self.X[which]

    def of(self, rows: Any) -> Any:
        """These rows alone, under the same choices."""
        return self.model.zero().learn(*self.some(rows))


def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    return rng.normal(size=(N, 3)) + y[:, None] * [2.0, 0.5, -1.0], np.array(["a", "b", "c"])[y]


def table() -> tuple[dict[str, Any], np.ndarray]:
    X, y = numbers()
    colour = np.where(np.arange(N) % 7 < 3, "red", np.where(y == "a", "blue", "green"))
    return {"size": X[:, 0], "weight": X[:, 1], "colour": colour}, y


def texts() -> tuple[list[str], np.ndarray]:
    rng, y = np.random.default_rng(1), np.array(["ham", "spam"])[np.arange(N) % 2]
    words = {
        "ham": ["lunch", "noon", "room", "see", "you", "there"],
        "spam": ["win", "cash", "prize", "now", "claim", "free"],
    }
    return [" ".join([*rng.choice(words[label], 5), f"w{i % 9}"]) for i, label in enumerate(y)], y


def world(make: Callable[[], Any], data: Callable[[], tuple[Any, np.ndarray]]) -> Callable[[], World]:
    def build() -> World:
        X, y = data()
        return World(make().fit(X, y), X, y)

    return build


# A model of each kind. One that is missing fails the test of discovery below.
WORLDS = {
    "joint of Gaussians": world(lambda: deciban.GaussianNB(alpha=0.5), numbers),
    "joint of one block": world(lambda: deciban.GaussianDiscriminant(shrinkage=0.1), numbers),
    "joint of mixed columns": world(deciban.NaiveBayes, table),
    "joint with a tree": world(lambda: deciban.TreeAugmentedNB(parents=[-1, 0, 0], bins=3), numbers),
    "mixture": world(lambda: deciban.GaussianMixture(3, random_state=0), numbers),
    "components": world(lambda: deciban.MixtureDiscriminant(components={"a": 2}, shrinkage=None), numbers),
    "table": world(lambda: deciban.Classifier(n_jobs=1), table),
    "graded text": world(lambda: deciban.TextClassifier(n_jobs=1), texts),
    "plain text": world(lambda: deciban.TextClassifier(reliability=None, n_jobs=1), texts),
}
BUILT: dict[str, World] = {}


@pytest.fixture(params=sorted(WORLDS))
def any_world(request: pytest.FixtureRequest) -> World:
    name = request.param
    if name not in BUILT:
        BUILT[name] = WORLDS[name]()
    return BUILT[name]


def learners() -> set[type]:
    """Every learner of the package that can be made."""
    for module in pkgutil.walk_packages(deciban.__path__, "deciban."):
        if not module.name.startswith(("deciban.cli", "deciban.engines", "deciban._kernel", "deciban.__main__")):
            importlib.import_module(module.name)
    kinds, todo = set(), [Learner]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind is not Learner and not getattr(kind, "__abstractmethods__", None):
            kinds.add(kind)
    return kinds


def test_every_learner_is_held_to_the_laws():
    met = {type(build().model) for build in WORLDS.values()}
    assert {kind.__qualname__ for kind in learners()} == {kind.__qualname__ for kind in met}


def same(one: Any, two: Any, world: World, tolerance: float = 1e-7) -> None:
    """Two models have the same classes, weights and scores."""
    assert one.classes.tolist() == two.classes.tolist()
    np.testing.assert_allclose(one.weight, two.weight, atol=1e-9)
    rows = world.to_score()
    np.testing.assert_allclose(
        one.scores(rows, "log_posterior"), two.scores(rows, "log_posterior"), atol=tolerance, rtol=1e-6
    )


def exact(world: World) -> bool:
    """Whether a row's sums do not depend on other rows."""
    return not world.model.why_inexact


THIRDS = (slice(0, N, 3), slice(1, N, 3), slice(2, N, 3))


def test_addition_is_associative_and_commutative(any_world):
    a, b, c = (any_world.of(part) for part in (slice(0, 20), slice(20, 40), slice(40, N)))
    same((a + b) + c, a + (b + c), any_world)
    same(a + b, b + a, any_world)


def test_zero_changes_nothing(any_world):
    model = any_world.model
    same(model + model.zero(), model, any_world)
    assert not model.zero().weight.any()


def test_every_sum_has_an_inverse_or_is_an_error(any_world):
    model, part = any_world.model, any_world.of(slice(0, 20))
    if exact(any_world):
        same((model + part) - part, model, any_world)
        same(model - part, any_world.of(slice(20, N)), any_world)
    else:
        with pytest.raises(ForgetError):
            model - part


def test_scaling_distributes_over_addition(any_world):
    a, b = any_world.of(slice(0, 30)), any_world.of(slice(30, N))
    same((a + b).scale(0.5), a.scale(0.5) + b.scale(0.5), any_world)
    same(a.scale(2.0), a + a, any_world)
    np.testing.assert_allclose(a.scale(0.25).weight, 0.25 * a.weight)


def test_any_batches_in_any_order_are_one_fit(any_world):
    if not exact(any_world):
        pytest.skip("responsibilities hang on what was learned before")
    rng = np.random.default_rng(5)
    order = rng.permutation(N)
    for cuts in ([], [1], [7, 8, 30], sorted(rng.choice(N, 6, replace=False).tolist())):
        model = any_world.model.zero()
        for rows in np.split(order, cuts):
            model = model.learn(*any_world.some(rows))
        same(model, any_world.model, any_world)


def test_forgetting_is_never_having_seen(any_world):
    if not exact(any_world):
        pytest.skip("none can be subtracted")
    gone = np.arange(0, N, 4)
    left = any_world.model.forget(*any_world.some(gone))
    same(left, any_world.of(np.setdiff1d(np.arange(N), gone)), any_world)
    with pytest.raises(ForgetError):
        left.forget(*any_world.some(gone)).forget(*any_world.some(gone)).forget(*any_world.some(gone))


def test_merging_is_one_fit_of_both(any_world):
    if not exact(any_world):
        pytest.skip("a warm start for more EM")
    same(any_world.of(slice(0, 25)) + any_world.of(slice(25, N)), any_world.model, any_world)


def test_left_out_is_a_literal_refit_under_fixed_choices(any_world):
    world = any_world
    if not exact(world):
        with pytest.raises(ForgetError):
            world.model.leave_one_out(world.to_score(), read_labels(world.y, N).codes)
        return
    rows = np.array([0, 7, 31])
    codes = read_labels(world.y, N).placed(world.model.classes).codes[rows]
    model = held(world.model)
    without = model.log_posterior_without(world.to_score(rows), codes, None, None, False)[0]
    for i, row in enumerate(rows):
        refitted = model.zero().learn(*world.some(np.delete(np.arange(N), row)))
        expected = refitted.scores(world.to_score([row]), "log_posterior")[0]
        np.testing.assert_allclose(without[i], expected, atol=1e-7)


def held(model: Any) -> Any:
    """The model with fixed weights, which are otherwise fitted without the row that is left out.

    Its forest is dropped: each row is scored by the trees that grew without it.
    """
    if isinstance(model, TableModel):
        weights = model.pool.weights.copy()
        weights[[i for i, expert in enumerate(model.experts) if isinstance(expert, Forest)]] = 0.0
        return replace(model, left_out=None, pool=replace(model.pool, weights=weights))
    return replace(model, choice=replace(model.choice, left_out=None)) if isinstance(model, Graded) else model


def test_explanations_add_up_to_the_log_odds(any_world):
    model, rows = any_world.model, any_world.to_score(slice(0, 6))
    joint = model.log_joints(rows)
    for i in range(6):
        why = model.explain(rows.take(np.array([i])), 1, 0)
        assert why.total == pytest.approx((joint[i, 1] - joint[i, 0]) * DECIBANS, abs=1e-6)


def test_packing_and_unpacking_is_the_identity(any_world):
    model = any_world.model
    again = type(model).unpack(*model.pack())
    rows = any_world.to_score()
    np.testing.assert_array_equal(again.log_joints(rows), model.log_joints(rows))
    assert again.weight.tolist() == model.weight.tolist()


def test_a_prior_is_all_that_with_prior_changes(any_world):
    model, rows = any_world.model, any_world.to_score()
    k = len(model.classes)
    if isinstance(any_world.estimator, deciban.GaussianMixture):
        pytest.skip("components have no prior of their own")
    prior = np.linspace(1, 2, k) / np.linspace(1, 2, k).sum()
    moved = model.with_prior(prior).log_joints(rows) - model.log_joints(rows)
    np.testing.assert_allclose(
        moved - moved[:, :1],
        np.tile((np.log(prior) - model.log_prior) - (np.log(prior) - model.log_prior)[0], (len(moved), 1)),
        atol=1e-9,
    )
