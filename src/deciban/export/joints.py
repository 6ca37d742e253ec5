"""A joint of families in the words of a formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deciban._typing import Floats
from deciban.errors import DecibanError
from deciban.export.formula import (
    Bells,
    Below,
    Forms,
    Formula,
    Gaps,
    Hidden,
    Input,
    Part,
    Place,
    Plain,
    Scores,
    Sketch,
    Slopes,
    Term,
    Walk,
    Walks,
)
from deciban.families import (
    Bernoulli,
    Categorical,
    Complement,
    Family,
    Gaussian,
    Multinomial,
    MultivariateGaussian,
    Poisson,
    Tree,
)
from deciban.families.gaussian import GaussianParams
from deciban.families.linear import finite
from deciban.families.tree import by_place, pairs_of
from deciban.joint import Model
from deciban.reading.columns import as_name
from deciban.schema import Bins, Columns, downwards


@dataclass(frozen=True, slots=True)
class Reading:
    """How a joint's columns are read: what they are called, which are dates or booleans, which texts say nothing."""

    features: Sequence[str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    nothing: tuple[str, ...] = ()


def formula_of_joint(model: Model, how: Reading, decided: Model | None = None) -> Formula:
    """What the model says of a row; `decided` is another over the same columns, where the label goes by that one."""
    sketch = Sketch()
    scores = scores_of(model, how, sketch)
    return Formula(
        model.classes,
        tuple(sketch.inputs),
        tuple(sketch.places),
        tuple(sketch.coordinates),
        scores,
        model.log_prior,
        tuple(how.features),
        decided=None if decided is None else scores_of(decided, how, sketch),
    )


def scores_of(model: Model, how: Reading, sketch: Sketch) -> Scores:
    parts = []
    for b, block in enumerate(model.joint.blocks):
        columns = model.columns(b)
        names = columns.names or tuple(how.features)
        parts += [Part(term) for term in terms_of(block.family, model.params[b], columns, names, how, sketch)]
    plain = model.generative or len(model.classes) == 1
    return Scores(tuple(parts), model.log_prior + 0.0 if plain else np.zeros(len(model.classes)))


def terms_of(
    family: Family, params: Any, columns: Columns, names: tuple[str, ...], how: Reading, sketch: Sketch
) -> tuple[Term, ...]:
    """What a block says."""
    if not isinstance(family, Categorical | Tree):
        return (term_of(family, params, names, how, sketch),)
    assert columns.categories is not None
    places = [
        sketch.place(place_of(name, known, how, sketch)) for name, known in zip(names, columns.categories, strict=True)
    ]
    if isinstance(family, Tree):
        return tree_of(params, columns, places, sketch)
    return (Walks(tuple(alone(place, own) for place, own in zip(places, categories_of(params, columns), strict=True))),)


def term_of(family: Family, params: Any, names: tuple[str, ...], how: Reading, sketch: Sketch) -> Term:
    """What a block of numbers says."""
    inputs = tuple(sketch.input(Input(name, number_kind(name, how))) for name in names)
    if isinstance(family, Gaussian):
        return bells_of(family, params, inputs)
    if isinstance(family, MultivariateGaussian):
        if params.roots is None:
            return bells_of(Gaussian(), family.columnwise(params), inputs)
        return forms_of(family, params, inputs, sketch)
    if isinstance(family, Bernoulli):
        cuts = np.array([family.threshold or 0.0])
        table = np.stack([np.zeros_like(params.log_absent), params.log_absent, params.log_present])  # (3, k, d)
        places = [sketch.place(Place(one, cuts=cuts)) for one in inputs]
        return Walks(tuple(alone(place, table[:, :, j]) for j, place in enumerate(places)))
    if isinstance(family, Multinomial | Poisson) and not family.predictive:
        return slopes_of(family, params, inputs)
    if isinstance(family, Multinomial | Poisson):
        raise DecibanError(
            f"with predictive=True a {family.name} law has its parameters integrated out, by gamma functions that "
            "neither SQL nor ONNX has: fit it with predictive=False"
        )
    raise DecibanError(f"the {family.name} law cannot be put into SQL or ONNX: score rows with predict_proba")


def number_kind(name: str, how: Reading) -> str:
    kind = how.kinds.get(name, "number")
    return kind if kind in ("date", "boolean") else "number"


def slopes_of(family: Multinomial | Poisson, params: Any, inputs: tuple[int, ...]) -> Slopes:
    """Counts of things, each of which says the same again; log x! is left out, which is the same for all classes."""
    if isinstance(family, Poisson):
        with np.errstate(divide="ignore"):
            slope, zero = np.log(params.rate), -params.rate
    else:
        slope, zero = params.log_theta, np.zeros_like(params.log_theta)
    if isinstance(family, Complement) and np.isposinf(slope).any():
        raise DecibanError("a word that one class alone has says +∞ for it, which cannot be added up: use alpha > 0")
    return Slopes(inputs, zero, finite(slope), np.isneginf(slope))


def bells_of(family: Gaussian, params: GaussianParams, inputs: tuple[int, ...]) -> Bells:
    mean, precision, constant, power = family._kernel_form(params)
    return Bells(inputs, mean, precision, constant, power)


def forms_of(family: MultivariateGaussian, params: Any, inputs: tuple[int, ...], sketch: Sketch) -> Forms:
    coordinates = tuple(sketch.coordinate(Plain(one)) for one in inputs)
    k = len(params.mean)
    scale = power = None
    if params.rows is not None:
        _, scale, power = family._student(params, params.roots)
    constant = family._constant(params, params.roots)
    each = np.arange(k, dtype=np.int32)
    return Forms(coordinates, params.mean, params.roots.root, constant, each, np.zeros(k), scale, power)


def categories_of(params: Any, columns: Columns) -> list[Floats]:
    """What each place of each column says by itself, (places, k)."""
    assert columns.categories is not None
    cells = np.split(params.log_theta, columns.offsets[1:-1], axis=1)
    return [
        own_places(own, params.log_unseen[:, j : j + 1], known)
        for j, (own, known) in enumerate(zip(cells, columns.categories, strict=True))
    ]


def tree_of(params: Any, columns: Columns, places: Sequence[int], sketch: Sketch) -> tuple[Term, ...]:
    """Categories, each given the one that its column hangs on; and what they say of one that is missing.

    There a column says the most that it says of any value of the missing one, and what it says of each beside that
    goes into the sum over them.
    """
    assert columns.categories is not None
    pairs, table = pairs_of(columns), by_place(params.log_theta, params.log_unseen, columns)
    k, walks, laws = len(table), [], []
    for j, (place, known, parent) in enumerate(zip(places, columns.categories, pairs.parents, strict=True)):
        own = table[:, pairs.offsets[j] : pairs.offsets[j + 1]].reshape(k, -1, pairs.sizes[j] + 1)
        each = np.stack([own_places(own[:, u, :-1], own[:, u, -1:], known) for u in range(own.shape[1])])
        even = -np.log([[max(1.0, len(known))] * len(known) + [len(known) + 1.0]] * k)
        above = sketch.places[places[parent]].size if parent >= 0 else 1
        several = each.shape[0] > 1  # the parent is missing, has one of its values, or one that was never seen
        each = np.concatenate([each, own_places(even[:, :-1], even[:, -1:], known)[None]])[:above]
        laws.append(np.exp(each[:, 1 : 1 + len(known)]))
        if several:
            each[0] = each[1 : 1 + pairs.sizes[parent]].max(axis=0)
        ways = np.arange(above, dtype=np.int32)
        ways[0] = -1
        given = ((places[parent],), (np.tile(ways, (above, 1)),)) if parent >= 0 else ((), ())
        walks.append(Walk(given[0], place, given[1], each))
    hanging: dict[int, list[int]] = {}
    for j, parent in enumerate(pairs.parents):
        if parent >= 0 and pairs.sizes[parent]:
            hanging.setdefault(parent, []).append(j)
    order = [j for j in reversed(downwards(pairs.parents)) if j in hanging]
    hidden = []
    for j in order:
        below = [
            Below(places[i], shares_of(walks[i].values, pairs.sizes[j]), order.index(i) if i in hanging else -1)
            for i in hanging[j]
        ]
        parent = pairs.parents[j]
        passes = parent >= 0 and pairs.sizes[parent] > 0
        hidden.append(Hidden(places[j], places[parent] if parent >= 0 else -1, laws[j], passes, tuple(below)))
    return (Walks(tuple(walks)), Gaps(tuple(hidden))) if hidden else (Walks(tuple(walks)),)


def shares_of(values: Floats, size: int) -> Floats:
    """What each place says of each of its parent's values, beside the most that it says of any: (size, places, k)."""
    with np.errstate(invalid="ignore"):  # where it is impossible beside all of them, that is said already
        return np.asarray(np.nan_to_num(np.exp(values[1 : 1 + size] - values[0]), nan=1.0))


def own_places(cells: Floats, unseen: Floats, known: Any) -> Floats:
    """What each place says, (places, k), from what each category says, (k, categories): a missing one says nothing."""
    nothing = np.zeros((len(cells), 1))
    last = () if isinstance(known, Bins) else (unseen,)  # every number is in some interval
    return np.hstack([nothing, cells, *last]).T


def alone(place: int, table: Floats) -> Walk:
    """A column that depends on no other, from (places, k)."""
    return Walk((), place, (), np.ascontiguousarray(table)[None])


def place_of(name: str, known: Any, how: Reading, sketch: Sketch) -> Place:
    """Where a column's value stands: among intervals, numbers, booleans, or texts."""
    if isinstance(known, Bins):
        return Place(sketch.input(Input(name, number_kind(name, how))), cuts=np.array(known.cuts))
    values = tuple(known)
    if all(isinstance(value, bool | np.bool_) for value in values) and values:
        return Place(sketch.input(Input(name, "boolean")), tuple(map(float, values)))
    if all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values):
        kind = number_kind(name, how) if values else "text"
        return Place(sketch.input(Input(name, kind, nothing=how.nothing if kind == "text" else ())), values)
    return Place(sketch.input(Input(name, "text", nothing=how.nothing)), tuple(map(as_name, values)))
