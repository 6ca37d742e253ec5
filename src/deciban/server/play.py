"""Points on a plane, to learn with (S10–S17): Gaussian models of two to four classes, computed and not stored.

A request has the points and the settings; the response has everything that a picture needs: ellipses, densities,
probabilities, the boundary, and the course of EM if labels or components are hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from deciban import bayes, collect, expect
from deciban._typing import Array, Codes, Floats
from deciban.algebra import Stats
from deciban.components import ComponentModel, side_by_side
from deciban.corollaries.leave_one_out import leave_one_out
from deciban.corollaries.linear_form import linear_form
from deciban.families import MultivariateGaussian
from deciban.joint import Block, Joint, Model
from deciban.reading.entries import Entries
from deciban.schema import Columns, Schema
from deciban.server.contours import contour
from deciban.server.problems import RequestError

SHAPES = {  # names for students → covariances of the classes
    "centroids": "unit",
    "spheres": "tied_spherical",
    "naive_bayes": "diag",
    "linear": "tied",
    "quadratic": "full",
}
LINEAR = ("centroids", "spheres", "linear")  # their boundaries are straight lines
AXES = ("x", "y")
MAX_POINTS = 300
MIN_CLASSES, MAX_CLASSES = 2, 4
MAX_COMPONENTS = 4  # of a class
MAX_STEPS = 200  # of EM
MAX_ALPHA = 1000.0  # pseudo-rows
MAX_COORDINATE = 1e6
MAX_SEED = (1 << 31) - 1
DECIMALS = 9  # of coordinates: values that differ by less cannot be squared
MAX_CELLS = 10_000  # of the grid
MIN_SIDE = 1e-6  # of the view
RIDGE_SHARE = 1e-4  # of the picture's area, added to variances, so that one point has an ellipse too
GAIN_PER_ROW = 1e-6  # nats: EM stops if a step gains less
FIELDS = ("points", "model", "classes", "prior", "alpha", "components", "steps", "seed", "leave_one_out", "view")


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The part of the plane that is shown, and the cells of the grid in it."""

    x: tuple[float, float] = (-4.0, 4.0)
    y: tuple[float, float] = (-3.0, 3.0)
    columns: int = 80
    rows: int = 60

    @property
    def ridge(self) -> float:
        return RIDGE_SHARE * (self.x[1] - self.x[0]) * (self.y[1] - self.y[0])

    def axes(self, *, corners: bool = False) -> tuple[Floats, Floats]:
        """The coordinates of the cells' middles, or of their corners."""
        if corners:
            return np.linspace(*self.x, self.columns + 1), np.linspace(*self.y, self.rows + 1)
        middles = [(low + (high - low) * (np.arange(n) + 0.5) / n) for (low, high), n in self._sides()]
        return middles[0], middles[1]

    def _sides(self) -> list[tuple[tuple[float, float], int]]:
        return [(self.x, self.columns), (self.y, self.rows)]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A checked request."""

    points: Floats  # (n, 2)
    codes: Codes  # the class of every point; −1 if its label is hidden
    model: str = "linear"
    classes: int = 2
    prior: Floats | None = None  # of each class; None: the shares of the points
    alpha: float = 0.0
    components: int = 1
    steps: int | None = None  # of EM; None: until it converges
    seed: int = 0
    leave_one_out: bool = False  # which takes a hundred times as long as the rest
    view: View = View()

    @property
    def present(self) -> list[int]:
        """The classes with a labelled point; all of them if no point has a label."""
        known = np.unique(self.codes[self.codes >= 0]).tolist()
        return known or list(range(self.classes))

    @property
    def unlabelled(self) -> bool:
        return bool((self.codes < 0).all())


# ---------------------------------------------------------------------- requests


def scene_of(body: dict[str, Any]) -> Scene:
    """A request as a scene; a RequestError that names what is wrong."""
    unknown = [name for name in body if name not in FIELDS]
    if unknown:
        raise RequestError(
            "{value!r} is unknown: the fields are {fields}", value=unknown[0], fields=", ".join(FIELDS), code="field"
        )
    model = body.get("model", "linear")
    if not isinstance(model, str) or model not in SHAPES:
        raise RequestError("model is {value!r}: it must be one of {models}", value=model, models=", ".join(SHAPES))
    classes = whole(body, "classes", 2, MIN_CLASSES, MAX_CLASSES)
    points, codes = points_of(body.get("points"), classes)
    wanted = body.get("leave_one_out", False)
    if not isinstance(wanted, bool):
        raise RequestError('"leave_one_out" must be true or false')
    steps = None if body.get("steps") is None else whole(body, "steps", 0, 0, MAX_STEPS)
    return Scene(
        points,
        codes,
        model,
        classes,
        prior_of(body.get("prior"), classes),
        real(body, "alpha", 0.0, 0.0, MAX_ALPHA),
        whole(body, "components", 1, 1, MAX_COMPONENTS),
        steps,
        whole(body, "seed", 0, 0, MAX_SEED),
        wanted,
        view_of(body.get("view")),
    )


def points_of(given: Any, classes: int) -> tuple[Floats, Codes]:
    """[[x, y, class or null], …]."""
    if not isinstance(given, list):
        raise RequestError('"points" must be a list of [x, y, class], with null for a hidden class')
    if len(given) > MAX_POINTS:
        raise RequestError(
            "there are {value} points; the limit is {most}",
            value=len(given),
            most=MAX_POINTS,
            status=413,
            code="too_many",
        )
    codes = np.full(len(given), -1, dtype=np.int32)
    for row, point in enumerate(given):
        if not isinstance(point, list) or len(point) != 3 or not all(is_coordinate(v) for v in point[:2]):
            raise RequestError(
                "point {row} must be [x, y, class], with numbers up to {most:g}", row=row, most=MAX_COORDINATE
            )
        if point[2] is not None:
            if not is_whole(point[2], 0, classes - 1):
                raise RequestError(
                    "the class of point {row} must be null or a number from 0 to {most}", row=row, most=classes - 1
                )
            codes[row] = point[2]
    points = np.array([point[:2] for point in given], dtype=np.float64).reshape(-1, 2)
    return points.round(DECIMALS), codes


def prior_of(given: Any, classes: int) -> Floats | None:
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != classes or not all(is_real(p, 0.0, 1e9) for p in given):
        raise RequestError('"prior" must be a list of {most} numbers that are not negative, or null', most=classes)
    if not sum(given) > 0:
        raise RequestError('"prior" must be above 0 for a class')
    return np.array(given, dtype=np.float64)


def view_of(given: Any) -> View:
    if given is None:
        return View()
    if not isinstance(given, dict) or not set(given) <= {"x", "y", "columns", "rows"}:
        raise RequestError('"view" must be {"x": [low, high], "y": [low, high], "columns": …, "rows": …}')
    sides = {}
    for name in AXES:
        side = given.get(name, getattr(View(), name))
        pair = isinstance(side, list | tuple) and len(side) == 2 and all(is_coordinate(v) for v in side)
        if not pair or side[1] - side[0] < MIN_SIDE:
            raise RequestError('"{name}" of the view must be [low, high], with low below high', name=name)
        sides[name] = (float(side[0]), float(side[1]))
    columns, rows = (whole(given, name, getattr(View(), name), 1, MAX_CELLS) for name in ("columns", "rows"))
    if columns * rows > MAX_CELLS:
        raise RequestError("the grid has {value} cells; the limit is {most}", value=columns * rows, most=MAX_CELLS)
    return View(sides["x"], sides["y"], columns, rows)


def is_real(value: Any, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def is_coordinate(value: Any) -> bool:
    return is_real(value, -MAX_COORDINATE, MAX_COORDINATE)


def is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and is_real(value, least, most)


def real(body: dict[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = body.get(name, default)
    if not is_real(value, least, most):
        raise RequestError(
            '"{name}" must be a number from {least:g} to {most:g}', name=name, least=least, most=most, value=value
        )
    return float(value)


def whole(body: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = body.get(name, default)
    if not is_whole(value, least, most):
        raise RequestError(
            '"{name}" must be a whole number from {least} to {most}', name=name, least=least, most=most, value=value
        )
    return int(value)


# ---------------------------------------------------------------------- learning


def family_of(scene: Scene) -> MultivariateGaussian:
    ridge = 0.0 if scene.model == "centroids" else scene.view.ridge
    return MultivariateGaussian(covariance=SHAPES[scene.model], ridge=ridge)


def start_of(scene: Scene) -> ComponentModel:
    """The model of the labelled points; hidden components, and classes without any label, start at points drawn for
    them."""
    joint = Joint((Block(family_of(scene), scene.alpha),))
    present = scene.present
    if scene.unlabelled:
        owner = np.repeat(np.arange(len(present)), scene.components)
        stats = drawn(scene.points, len(owner), joint, scene)
        owner = owner[: len(stats.weight)]
    else:
        parts = [drawn(scene.points[scene.codes == c], scene.components, joint, scene) for c in present]
        owner = np.repeat(np.arange(len(parts)), [len(part.weight) for part in parts])
        stats = side_by_side(parts)
    prior: str | Floats = "empirical"
    if scene.prior is not None:
        mine = scene.prior[np.array(present)[: int(owner.max()) + 1]]
        prior = mine / mine.sum() if mine.sum() > 0 else "empirical"
    return ComponentModel.of(joint, stats, owner, np.array(present[: int(owner.max()) + 1]), class_prior=prior)


def drawn(points: Floats, m: int, joint: Joint, scene: Scene) -> Stats:
    """The sums of at most m components for some points: of one, those of all points; of several, each begins near a
    point of its own."""
    m = min(m, len(points))
    columns = Columns(2, AXES, pivot=np.zeros((m, 2)))
    schema = Schema(np.arange(m), (columns,))
    stats = collect.collect([points], joint, schema, np.full((len(points), m), 1.0 / m), None, 1)
    if m == 1:
        return stats
    return expect.seeded([points], Model(joint, stats), None, np.random.RandomState(scene.seed), 1).stats


def learned(scene: Scene) -> tuple[ComponentModel, list[float], bool]:
    """The model after some steps of EM, the log-likelihood before each and after the last, and whether it converged.

    Without anything hidden the model is a sum: there are no steps.
    """
    model = start_of(scene)
    rows = Entries([scene.points], model.schema.blocks)
    codes = np.searchsorted(model.classes, scene.codes).astype(np.int32)
    codes[scene.codes < 0] = -1
    trace = [model.expected(rows, codes, None, 1)]
    hidden = bool((codes < 0).any()) or len(model.owner) > len(model.classes)
    converged = not hidden
    while hidden and not converged and len(trace) <= (MAX_STEPS if scene.steps is None else scene.steps):
        model = model.with_stats(trace[-1][1])
        trace.append(model.expected(rows, codes, None, 1))
        gain = abs(trace[-1][0] - trace[-2][0])
        converged = scene.steps is None and gain < GAIN_PER_ROW * len(codes)
    if scene.steps is not None and len(trace) > 1:
        converged = abs(trace[-1][0] - trace[-2][0]) < GAIN_PER_ROW * len(codes)
    return model, [total for total, _ in trace], converged


# ---------------------------------------------------------------------- responses


def picture(scene: Scene) -> dict[str, Any]:
    """Everything that the page draws."""
    if not len(scene.points):
        return nothing(scene)
    model, trace, converged = learned(scene)
    columns = model.schema.blocks
    log_joint = model.log_joints(Entries([scene.points], columns), 1)
    proba = bayes.posterior(log_joint, model.log_prior, quiet=True)
    labelled = scene.codes >= 0
    right = model.classes[proba.argmax(axis=1)] == scene.codes
    hidden = bool((~labelled).any()) or len(model.owner) > len(model.classes)
    return {
        "classes": model.classes.tolist(),
        "weights": [float(weight) for weight in model.weight],
        "prior": np.exp(model.log_prior).tolist(),
        "components": components_of(model),
        "points": proba.tolist(),
        "accuracy": float(right[labelled].mean()) if labelled.any() else None,
        "leave_one_out": left_out_accuracy(scene, model) if scene.leave_one_out and not hidden else None,
        "linear_form": formula_of(scene, model),
        "em": {"steps": len(trace) - 1, "log_likelihood": trace, "converged": converged} if hidden else None,
        **grid_of(scene, model),
    }


def nothing(scene: Scene) -> dict[str, Any]:
    """Without points there is no model."""
    empty: dict[str, Any] = {name: [] for name in ("classes", "weights", "prior", "components", "points", "boundary")}
    nulls = dict.fromkeys(("accuracy", "leave_one_out", "linear_form", "em"))
    return empty | nulls | {"grid": described(scene.view) | {"probabilities": [], "density": []}}


def components_of(model: ComponentModel) -> list[dict[str, Any]]:
    """Means, covariances, and ellipses of one standard deviation: half-axes, and the angle of the first in degrees."""
    params, out = model.params[0], []
    prior = np.exp(model.parts.log_prior)
    by_class = np.bincount(model.owner, weights=prior, minlength=len(model.classes))
    for i, c in enumerate(model.owner.tolist()):
        covariance = params.covariance[i % len(params.covariance)]
        covariance = np.diag(covariance) if covariance.ndim == 1 else covariance
        values, vectors = np.linalg.eigh(covariance)
        first = vectors[:, 1]
        out.append(
            {
                "class": int(model.classes[c]),
                "share": float(prior[i] / by_class[c]) if by_class[c] > 0 else 0.0,
                "weight": float(model.stats.weight[i]),
                "mean": params.mean[i].tolist(),
                "covariance": covariance.tolist(),
                "half_axes": np.sqrt(np.maximum(values[::-1], 0.0)).tolist(),
                "angle": math.degrees(math.atan2(first[1], first[0])),
            }
        )
    return out


def left_out_accuracy(scene: Scene, model: ComponentModel) -> float | None:
    """The share of points that are classified correctly by the model that has not seen them (exact)."""
    codes = np.searchsorted(model.classes, scene.codes).astype(np.int32)
    out = leave_one_out(model.parts, [scene.points], codes, None, 1)
    others = np.ones(len(codes), dtype=bool) if out.alone is None else ~out.alone
    return float((out.log_proba.argmax(axis=1) == codes)[others].mean()) if others.any() else None


def formula_of(scene: Scene, model: ComponentModel) -> list[dict[str, float]] | None:
    """log p(x, y) = a·x + b·y + offset of each class, up to a term that all share; if the model is linear (S5, S14)."""
    if scene.model not in LINEAR or len(model.owner) > len(model.classes):
        return None
    form = linear_form(model.parts)
    pairs = zip(form.weights.tolist(), form.offsets.tolist(), strict=True)
    return [{"x": x, "y": y, "offset": offset} for (x, y), offset in pairs]


def described(view: View) -> dict[str, Any]:
    return {"x": list(view.x), "y": list(view.y), "columns": view.columns, "rows": view.rows}


def grid_of(scene: Scene, model: ComponentModel) -> dict[str, Any]:
    """Probabilities and densities in the cells of a grid, row by row from the lowest y, in per cent; the boundary."""
    view, columns = scene.view, model.schema.blocks

    def scores(x: Floats, y: Floats) -> Floats:
        nodes = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        return model.log_joints(Entries([nodes], columns), 1)

    log_joint = scores(*view.axes())
    density = bayes.log_evidence(log_joint)
    relative = np.exp(density - density.max()) if np.isfinite(density.max()) else np.zeros(len(density))
    x, y = view.axes(corners=True)
    corners = np.nan_to_num(scores(x, y), neginf=-1e300).reshape(len(y), len(x), -1)
    return {
        "grid": described(view)
        | {
            "probabilities": [percent(one) for one in bayes.posterior(log_joint, model.log_prior, quiet=True).T],
            "density": percent(relative),
        },
        "boundary": boundary(corners, x, y),
    }


def percent(shares: Array) -> list[int]:
    return np.rint(100.0 * shares).astype(int).tolist()  # type: ignore[no-any-return]  # whole numbers


def boundary(scores: Floats, x: Floats, y: Floats) -> list[list[float]]:
    """Where the most probable class changes, as segments [x, y, x, y]."""
    out: list[list[float]] = []
    for c, _ in pairwise(range(scores.shape[2])):
        others = np.delete(scores, c, axis=2).max(axis=2)
        out += contour(scores[:, :, c] - others, x, y)
    return out
