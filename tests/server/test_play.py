"""Points on a plane: the models are those of the package, and any request is answered or explained."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import deciban
from deciban.server.contours import contour
from deciban.server.play import MAX_POINTS, SHAPES, learned, picture, scene_of
from deciban.server.routes import finite

LABELS = np.repeat([0, 1], 20)


def cloud(labels=LABELS, seed=0):
    rng = np.random.default_rng(seed)
    return [[*(rng.normal(size=2) + 2 * c).tolist(), int(c)] for c in labels]


def estimator(model, alpha=0.0, priors=None):
    how = {"shrinkage": None, "predictive": False, "alpha": alpha, "priors": priors}
    return deciban.GaussianDiscriminant(covariance=SHAPES[model], **how)


@pytest.fixture(autouse=True)
def no_ridge(monkeypatch):
    """Compared with other models, and by hand, without what keeps ellipses of single points visible."""
    monkeypatch.setattr("deciban.server.play.RIDGE_SHARE", 0.0)


@pytest.mark.parametrize("model", SHAPES)
@pytest.mark.parametrize(("alpha", "prior"), [(0.0, None), (3.0, [0.2, 0.8])])
def test_the_model_is_that_of_the_estimator(model, alpha, prior):
    points = cloud()
    X = np.array(points)[:, :2]
    fitted = estimator(model, alpha, prior).fit(X, LABELS)
    shown = picture(scene_of({"points": points, "model": model, "alpha": alpha, "prior": prior, "leave_one_out": True}))
    np.testing.assert_allclose(shown["points"], fitted.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose([one["mean"] for one in shown["components"]], fitted.means_)
    np.testing.assert_allclose([one["covariance"] for one in shown["components"]], fitted.covariances_)
    assert shown["accuracy"] == pytest.approx(fitted.score(X, LABELS))
    assert shown["leave_one_out"] == pytest.approx(fitted.leave_one_out(X, LABELS).accuracy)
    assert shown["em"] is None


def test_naive_bayes_is_that_of_scikit_learn():
    from sklearn.naive_bayes import GaussianNB

    points = cloud()
    X = np.array(points)[:, :2]
    shown = picture(scene_of({"points": points, "model": "naive_bayes"}))
    np.testing.assert_allclose(
        shown["points"], GaussianNB(var_smoothing=0.0).fit(X, LABELS).predict_proba(X), atol=1e-9
    )


def test_a_linear_model_by_hand():
    """S12 and S14: means (0, 0) and (3, 0), covariance ½I, equal priors: the boundary is x = 1.5, θ = (6, 0)."""
    square = [(dx, dy) for dx in (-0.5, 0.5) for dy in (-0.5, 0.5)]
    points = [[x + dx, dy, c] for c, x in ((0, 0.0), (1, 3.0)) for dx, dy in square]
    shown = picture(scene_of({"points": points, "model": "linear"}))
    for component in shown["components"]:
        np.testing.assert_allclose(component["covariance"], [[0.25, 0], [0, 0.25]], atol=1e-12)
        np.testing.assert_allclose(component["half_axes"], [0.5, 0.5])
    one, two = shown["linear_form"]
    assert two["x"] - one["x"] == pytest.approx(12.0)
    assert two["y"] - one["y"] == pytest.approx(0.0, abs=1e-12)
    assert two["offset"] - one["offset"] == pytest.approx(-18.0)
    np.testing.assert_allclose(np.array(shown["boundary"])[:, [0, 2]], 1.5, atol=1e-9)


def test_an_ellipse_by_hand():
    """Covariance [[2, 1], [1, 2]]: half-axes √3 and 1, the longer one at 45°."""
    x = np.sqrt([3.0, 1.0])[:, None] * np.array([[1, 1], [1, -1]])  # points along the axes, of a class of four
    points = [[*point, 0] for point in np.vstack([x, -x]).tolist()]
    (component,) = picture(scene_of({"points": points, "model": "quadratic"}))["components"]
    np.testing.assert_allclose(component["covariance"], [[2, 1], [1, 2]], atol=1e-12)
    np.testing.assert_allclose(component["half_axes"], np.sqrt([3, 1]))
    assert component["angle"] % 180 == pytest.approx(45.0)


@pytest.mark.parametrize("model", SHAPES)
def test_hidden_labels_are_those_that_fit_infers(model):
    points = cloud()
    hidden = [[x, y, c if i % 4 == 0 else None] for i, (x, y, c) in enumerate(points)]
    shown = picture(scene_of({"points": hidden, "model": model}))
    y = np.array([np.nan if c is None else c for _, _, c in hidden])
    X = np.array(points)[:, :2]
    fitted = estimator(model).fit(X, y)
    assert shown["em"]["converged"]
    np.testing.assert_allclose(shown["points"], fitted.predict_proba(X), atol=0.02)  # EM stopped a little earlier


@pytest.mark.parametrize("points", [cloud(), [[x, y, None] for x, y, _ in cloud()]], ids=["labelled", "clusters"])
def test_steps_of_em_climb(points):
    request = {"points": points, "model": "quadratic", "components": 2 if points[0][2] is not None else 1, "seed": 3}
    whole = picture(scene_of(request))["em"]
    assert whole["converged"]
    assert np.diff(whole["log_likelihood"]).min() > -1e-9
    for steps in (0, 1, 5):
        part = picture(scene_of(request | {"steps": steps}))["em"]
        assert part["steps"] == steps
        np.testing.assert_allclose(part["log_likelihood"], whole["log_likelihood"][: steps + 1])


def test_a_step_of_em_by_hand():
    """S17: unit spheres; one point without a label lies between, nearer to the second class."""
    points = [[0.0, 0.0, 0], [2.0, 0.0, 1], [1.5, 0.0, None]]
    shown = picture(scene_of({"points": points, "model": "centroids", "prior": [1, 1], "steps": 1}))
    odds = np.exp(-0.5 * 0.25) / np.exp(-0.5 * 2.25)  # of the second class, at the start
    share = odds / (1 + odds)
    means = [(1 - share) * 1.5 / (2 - share), (2 + 1.5 * share) / (1 + share)]
    np.testing.assert_allclose([one["mean"][0] for one in shown["components"]], means)
    np.testing.assert_allclose(shown["weights"], [2 - share, 1 + share])


def test_the_grid_has_the_models_probabilities():
    request = {"points": cloud(), "model": "quadratic", "view": {"x": [-1, 4], "y": [-2, 3], "columns": 5, "rows": 4}}
    grid = picture(scene_of(request))["grid"]
    x, y = np.meshgrid(-1 + np.arange(5) + 0.5, -2 + 1.25 * (np.arange(4) + 0.5))
    nodes = np.column_stack([x.ravel(), y.ravel()])
    fitted = estimator("quadratic").fit(np.array(request["points"])[:, :2], LABELS)
    np.testing.assert_array_equal(np.transpose(grid["probabilities"]), np.rint(100 * fitted.predict_proba(nodes)))
    density = np.exp(fitted.score_samples(nodes))
    np.testing.assert_array_equal(grid["density"], np.rint(100 * density / density.max()))


def test_the_boundary_is_where_two_classes_are_equally_probable():
    points = cloud(np.repeat([0, 1, 2], 15))
    shown = picture(scene_of({"points": points, "classes": 3, "model": "quadratic"}))
    fitted = estimator("quadratic").fit(np.array(points)[:, :2], np.repeat([0, 1, 2], 15))
    middles = np.array(shown["boundary"]).reshape(-1, 2, 2).mean(axis=1)
    first, second = np.sort(fitted.predict_proba(middles), axis=1)[:, :-3:-1].T
    assert len(middles) > 20
    assert np.abs(first - second).max() < 0.1


def test_a_contour_of_a_circle():
    x = np.linspace(-2, 2, 81)
    values = 1 - x[None, :] ** 2 - x[:, None] ** 2
    segments = np.array(contour(values, x, x)).reshape(-1, 2, 2)
    np.testing.assert_allclose(np.linalg.norm(segments, axis=2), 1.0, atol=1e-3)
    length = np.linalg.norm(segments[:, 0] - segments[:, 1], axis=1).sum()
    assert length == pytest.approx(2 * np.pi, rel=1e-3)
    saddle = contour(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.arange(2.0), np.arange(2.0))
    assert len(saddle) == 2
    assert contour(np.ones((3, 3)), np.arange(3.0), np.arange(3.0)) == []


def test_forgetting_a_point_is_never_having_had_it():
    points = cloud()
    before = picture(scene_of({"points": points}))
    assert picture(scene_of({"points": [*points, [9.0, 9.0, 1]]})) != before
    assert picture(scene_of({"points": points})) == before


COORDINATES = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, -1e6, 1e6, 5e-324])
POINTS = st.lists(st.tuples(COORDINATES, COORDINATES, st.none() | st.integers(0, 3)), max_size=12)


@settings(max_examples=25)
@given(
    points=POINTS,
    model=st.sampled_from(list(SHAPES)),
    alpha=st.sampled_from([0.0, 0.5, 1000.0]),
    components=st.integers(1, 4),
    steps=st.none() | st.integers(0, 5),
    prior=st.none() | st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4).filter(any),
    left_out=st.booleans(),
)
def test_any_points_have_a_picture(points, model, alpha, components, steps, prior, left_out):
    """With the ridge that the server adds: no NaN, no error, and probabilities that sum to one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deciban.server.play.RIDGE_SHARE", 1e-4)
        request = {"points": [list(point) for point in points], "classes": 4, "model": model, "alpha": alpha}
        request |= {"components": components, "steps": steps, "prior": prior, "leave_one_out": left_out}
        request["view"] = {"columns": 8, "rows": 6}
        shown = picture(scene_of(request))
    json.dumps(finite(shown), allow_nan=False)
    json.dumps(shown["components"], allow_nan=False)
    for row in shown["points"]:
        assert sum(row) == pytest.approx(1.0)
    assert sum(shown["prior"]) == pytest.approx(1.0 if points else 0.0)


WRONG = [
    {},
    {"points": {}},
    {"points": [[0, 0]]},
    {"points": [[0, 0, 2]]},
    {"points": [[0, 0, 0.5]]},
    {"points": [[0, True, 0]]},
    {"points": [[0, 1e7, 0]]},
    {"points": [["0", 0, 0]]},
    {"points": [[0, 0, 0]] * (MAX_POINTS + 1)},
    {"points": [], "classes": 5},
    {"points": [], "classes": 1},
    {"points": [], "model": "forest"},
    {"points": [], "model": []},
    {"points": [], "alpha": -1},
    {"points": [], "alpha": "1"},
    {"points": [], "components": 0},
    {"points": [], "steps": 1000},
    {"points": [], "seed": -1},
    {"points": [], "leave_one_out": 1},
    {"points": [], "prior": [0, 0]},
    {"points": [], "prior": [1]},
    {"points": [], "prior": [1, -1]},
    {"points": [], "view": 1},
    {"points": [], "view": {"x": [1, 0]}},
    {"points": [], "view": {"x": 3}},
    {"points": [], "view": {"columns": 1000, "rows": 1000}},
    {"points": [], "colour": "red"},
]


@pytest.mark.parametrize("body", WRONG, ids=lambda body: json.dumps(body)[:40])
def test_wrong_scenes_are_explained(one_api, body):
    reply = one_api.post("/v1/play", body)
    assert reply.status in (413, 422)
    assert reply.error["message"]


def test_nothing_is_kept(one_api):
    tables = ("examples", "log", "outcomes", "snapshots")
    store = one_api.service.store
    before = [store.read(f"SELECT COUNT(*) FROM {table}") for table in tables]
    assert one_api.post("/v1/play", {"points": cloud()}).status == 200
    assert [store.read(f"SELECT COUNT(*) FROM {table}") for table in tables] == before
    assert one_api.post("/v1/play", {"points": []}).json["classes"] == []


def test_learning_stops():
    model, trace, _ = learned(scene_of({"points": [[float(i % 7), float(i % 5), None] for i in range(60)]}))
    assert len(trace) <= 201
    assert np.isfinite(model.weight).all()
