"""The model of a table, with all its experts, in the words of a formula."""

from __future__ import annotations

import numpy as np

from deciban._kernel import forest as kernel
from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError
from deciban.export.formula import (
    Absent,
    Bent,
    Forest,
    Forms,
    Formula,
    Input,
    Marked,
    Part,
    Place,
    Regrouped,
    Scaled,
    Scores,
    Sketch,
    Term,
    Walk,
    Walks,
)
from deciban.reading.columns import Levels, Numbers, as_name
from deciban.reading.convert import NO_NAME
from deciban.reading.table import derived_names
from deciban.tables.encode import FAR, NEVER, Cuts, Encoding, Known
from deciban.tables.experts import forest
from deciban.tables.experts.base import Expert
from deciban.tables.experts.contexts import ContextTrees
from deciban.tables.experts.gaussians import Gaussians, density
from deciban.tables.model import MOST, TableModel

TINIEST = np.finfo(np.float64).tiny


def formula_of_table(model: TableModel) -> Formula:
    """What a model of a table says of a row; an error names the expert that cannot be put so."""
    sketch, encoding = Sketch(), model.encoding
    places = [sketch.place(place) for place in places_of(model, sketch)]
    parts = [Part(columns_of(model, places))]
    for weight, expert in zip(model.pool.weights[1:], model.experts[1:], strict=False):
        if weight > 0:
            parts.append(Part(term_of(expert, encoding, places, sketch), float(weight), MOST))
    offsets = model.pool.offsets + model.log_prior
    return Formula(
        model.classes,
        tuple(sketch.inputs),
        tuple(sketch.places),
        tuple(sketch.coordinates),
        Scores(tuple(parts), offsets),
        model.log_prior,
        tuple(kind.name for kind in model.reader.kinds),
    )


def places_of(model: TableModel, sketch: Sketch) -> list[Place]:
    """Each coded column's places, which are its codes."""
    kinds: dict[str, Input] = {}
    for kind in model.reader.used:
        names = derived_names(kind)
        kinds[names[0]] = Input(kind.name, "date" if kind.kind == "date" else "number")
        kinds |= {
            name: Input(name, what, kind.name) for name, what in zip(names[1:], ("month", "weekday"), strict=False)
        }
    out = []
    for name, coded in zip(model.encoding.names, model.encoding.columns, strict=True):
        one = kinds[name]
        if isinstance(coded, Cuts):
            out.append(Place(sketch.input(one), cuts=coded.cuts))
        elif one.kind in ("month", "weekday"):
            out.append(Place(sketch.input(one), coded.levels))
        elif coded.levels and all(isinstance(level, bool) for level in coded.levels):
            out.append(Place(sketch.input(Input(name, "boolean")), tuple(map(float, coded.levels))))
        elif coded.levels and not any(isinstance(level, str | bool) for level in coded.levels):
            out.append(Place(sketch.input(Input(name)), coded.levels))
        else:
            words = tuple(sorted(NO_NAME))
            out.append(Place(sketch.input(Input(name, "text", nothing=words)), tuple(map(as_name, coded.levels))))
    return out


def columns_of(model: TableModel, places: list[int]) -> Walks:
    """Naive Bayes, each column by its weight."""
    table, offsets = model.columns.pointed(), model.encoding.offsets
    walks = []
    for j in np.flatnonzero(model.column_weights):
        mine = table[offsets[j] : offsets[j + 1]] * model.column_weights[j]
        walks.append(Walk((), places[j], (), with_unseen(mine, model.encoding.columns[j])[None]))
    return Walks(tuple(walks))


def with_unseen(table: Floats, coded: Cuts | Known) -> Floats:
    """(codes, k) with a line for a category that was never seen, which says nothing."""
    return table if isinstance(coded, Cuts) else np.vstack([table, np.zeros((1, table.shape[1]))])


def term_of(expert: Expert, encoding: Encoding, places: list[int], sketch: Sketch) -> Term:
    if isinstance(expert, Gaussians):
        return gaussians_of(expert, encoding, places, sketch)
    if isinstance(expert, forest.Forest):
        return forest_of(expert, encoding, places)
    if isinstance(expert, ContextTrees):
        return contexts_of(expert, encoding, places, sketch)
    raise DecibanError(
        f"the expert of {expert.name} ({expert.settings}) cannot be put into SQL or ONNX: fit the model without that "
        f"column, schema={{{getattr(expert, 'column', '…')!r}: 'skip'}}, or score rows with predict_proba"
    )


# ------------------------------------------------------------------ Gaussians


def gaussians_of(expert: Gaussians, encoding: Encoding, places: list[int], sketch: Sketch) -> Forms:
    mean, roots, log_det = expert._ready()
    coordinates = coordinates_of(expert.view, encoding, places, sketch)
    tails, D = expert.shape.tails, mean.shape[1]
    constant = density(np.zeros((1, len(mean))), log_det[None], tails, D)[0]
    seen = np.flatnonzero(expert.moments.one > 0)
    owner, rows = expert.pieces.owner[seen], expert.moments.one[seen]
    total = np.bincount(owner, rows, minlength=expert.k)[owner]
    student = not np.isinf(tails)
    roots = roots if len(roots) == 1 else roots[seen]
    absent = [
        absent_of(expert, roots, log_det[seen], at, places[j], small_codes(encoding, j) == NEVER)
        for j in range(len(encoding.columns))
        if len(at := np.flatnonzero(expert.owner == j))
    ]
    return Forms(
        coordinates,
        mean[seen],
        roots,
        constant[seen],
        owner,
        np.log(rows) - np.log(total),
        np.full(len(seen), 1.0 / tails) if student else None,
        np.full(len(seen), 0.5 * (tails + D)) if student else None,
        tuple(one for one in absent if one.never.any()),
    )


def absent_of(expert: Gaussians, roots: Floats, log_det: Floats, at: Array, place: int, never: Array) -> Absent:
    """The law of the coordinates other than those `at`."""
    precision = roots.transpose(0, 2, 1) @ roots
    lower = np.linalg.cholesky(precision[:, at[:, None], at])
    turn = np.linalg.solve(lower, precision[:, at])
    left, tails = roots.shape[1] - len(at), expert.shape.tails
    log_det = log_det + 2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    constant = density(np.zeros((1, len(log_det))), log_det[None], tails, left)[0]
    power = None if np.isinf(tails) else np.full(len(log_det), 0.5 * (tails + left))
    return Absent(place, never, turn, constant, power)


def coordinates_of(view: str, encoding: Encoding, places: list[int], sketch: Sketch) -> tuple[int, ...]:
    """Numbers in standard deviations or normal scores, and what each category and each gap stands for."""
    out = []
    for j, coded in enumerate(encoding.columns):
        codes = np.append(np.arange(coded.size), -1).astype(np.int32)
        if isinstance(coded, Cuts):
            one = sketch.places[places[j]]
            assert isinstance(one, Place)
            if view == "real":
                out.append(sketch.coordinate(Scaled(one.input, coded.mean, coded.scale, FAR)))
            else:
                out.append(sketch.coordinate(Bent(one.input, coded.knots, coded.scores)))
            if coded.width == 1:
                continue
            codes = codes[:-1]
        table = np.empty((len(codes), coded.width))
        shown = Numbers(np.zeros(len(codes))) if isinstance(coded, Cuts) else Levels(codes, ())
        coded.coordinates(shown, codes, table)
        first = 1 if isinstance(coded, Cuts) else 0
        out += [
            sketch.coordinate(Marked(places[j], np.ascontiguousarray(table[:, i]))) for i in range(first, coded.width)
        ]
    return tuple(out)


# ------------------------------------------------------------------ trees


def forest_of(expert: forest.Forest, encoding: Encoding, places: list[int]) -> Forest:
    """The mean over the trees of log P(class | where a row ends), less log P(class)."""
    t = expert.trees
    many, nodes = len(t.start) - 1, len(t.column)
    table, prior = np.empty_like(expert.counts), expert.prior()
    kernel.probabilities(t.parent, expert.counts, prior, expert.strength, table)
    there = prior > 0  # the trees say nothing of a class of which there is no row
    safe = np.where(there, np.maximum(prior, TINIEST), 1.0)
    values = np.where(there, np.log(np.maximum(table, TINIEST)) - np.log(safe), 0.0) / many
    small = [small_codes(encoding, j) for j in range(len(encoding.columns))]
    bits = np.unpackbits(t.mask.view(np.uint8).reshape(nodes, 32), axis=1, bitorder="little").astype(bool)
    lefts = []
    for node, j in enumerate(t.column):
        if j < 0:
            lefts.append(np.zeros(0, dtype=bool))
        else:
            lefts.append(small[j] <= t.cut[node] if expert.ordered[j] else bits[node][small[j]])
    at = np.append(np.array(places, dtype=np.int32), np.int32(-1))  # −1, a leaf, is the last one
    ends = {place: own == NEVER for place, own in zip(places, small, strict=True)}
    return Forest(tuple(t.start.tolist()), at[t.column], t.left, t.right, tuple(lefts), ends, values)


def small_codes(encoding: Encoding, column: int) -> Codes:
    """The codes that trees read, by place."""
    coded = encoding.columns[column]
    codes = np.arange(coded.size, dtype=np.int32)
    if isinstance(coded, Known):
        codes = np.append(codes, np.int32(-1))
    return encoding.small_of(column, codes).astype(np.int32)


# ------------------------------------------------------------------ contexts


def contexts_of(expert: ContextTrees, encoding: Encoding, places: list[int], sketch: Sketch) -> Walks:
    """The mean of two networks: what each column says given its parents, with shorter contexts behind longer ones."""
    grouped = []
    for j, table in enumerate(expert.maps):
        groups, last = table[small_codes(encoding, j)].astype(np.int32), int(expert.levels[j])
        groups[groups == NEVER] = last  # what was never seen says nothing, and ends a context
        grouped.append(sketch.place(Regrouped(places[j], groups, last + 1)))
    walks = []
    for parents, sums in zip(expert.parents, expert.sums, strict=True):
        most = parents.shape[1]
        columns = (sums.keys >> np.uint64(48)).astype(np.int64)
        codes = np.stack([(sums.keys >> np.uint64(8 * t)) & np.uint64(255) for t in range(most, -1, -1)], axis=1)
        for j, mine in enumerate(parents):
            at = np.flatnonzero(columns == j)
            given = [int(p) for p in mine[: expert.depth] if p >= 0]
            steps, values = laws_of(
                codes[at].astype(np.int64), sums.counts[at], given, expert.levels, j, expert.strength
            )
            walks.append(Walk(tuple(grouped[p] for p in given), grouped[j], steps, values / 2))
    return Walks(tuple(walks))


def laws_of(
    codes: Codes, counts: Floats, given: list[int], levels: Codes, own: int, strength: float
) -> tuple[tuple[Codes, ...], Floats]:
    """log p of a column's values at every node of its contexts, and the ways between the nodes.

    p_t(v) = (C_t(v) + s p_{t−1}(v))/(C_t + s), where C_t counts rows of a context of t parents. `codes` are those of
    the parents and then the column's own, `counts` are (m, k).
    """
    k, size = counts.shape[1], int(levels[own])
    value = codes[:, -1]
    first = np.zeros((1, size, k))
    np.add.at(first[0], value, counts)
    seen = first[0].sum(axis=1)
    share = seen / max(float(seen.sum()), TINIEST)
    laws = [(first + strength * share[None, :, None]) / (first.sum(axis=1, keepdims=True) + strength)]
    node, steps, many = np.zeros(len(codes), dtype=np.int64), [], 1
    for t, parent in enumerate(given):
        known = np.flatnonzero((node >= 0) & (codes[:, t] < levels[parent]))
        pairs, where = np.unique(np.stack([node[known], codes[known, t]], axis=1), axis=0, return_inverse=True)
        here = np.zeros((len(pairs), size, k))
        np.add.at(here, (where.ravel(), value[known]), counts[known])
        above = np.concatenate(laws)[pairs[:, 0]] if len(pairs) else here
        laws.append((here + strength * above) / (here.sum(axis=1, keepdims=True) + strength))
        node = np.full(len(codes), -1, dtype=np.int64)
        node[known] = many + where.ravel()
        steps.append((pairs, many))
        many += len(pairs)
    ways = []
    for (pairs, start), parent in zip(steps, given, strict=True):
        way = np.full((many, int(levels[parent]) + 1), -1, dtype=np.int32)
        way[pairs[:, 0], pairs[:, 1]] = start + np.arange(len(pairs))
        ways.append(way)
    values = np.zeros((many, size + 1, k))  # the last is a value that was never seen
    some = np.flatnonzero(seen > 0)
    values[:, some] = np.log(np.concatenate(laws)[:, some])
    return tuple(ways), values
