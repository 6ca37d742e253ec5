"""A formula as an ONNX graph, in double precision: rows in, `label` and `probabilities` out.

Operators of ai.onnx 17 and ai.onnx.ml 3, which runtimes have had since 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.formula import (
    AsIs,
    Bells,
    Bent,
    ColumnPlace,
    Coordinate,
    Forms,
    Formula,
    HiddenParent,
    Input,
    Regrouped,
    Scaled,
    Scores,
    Slopes,
    SplitTrees,
    Term,
    Walk,
    Walks,
    WeightedTerm,
    live,
    spans,
)
from deciban.show import one_line, optional, plain

OPSET, ML_OPSET, IR = 17, 3, 8
ML = "ai.onnx.ml"
MOST_BYTES = 1_900_000_000  # a graph is one message of protocol buffers, which end at two gigabytes


def to_onnx(formula: Formula, columns: Mapping[str, str] | None = None, named: bool = True) -> Any:
    """The graph. `columns` says what inputs are called, where not as the features; `named`: these have names."""
    if 8 * formula.cells > MOST_BYTES:
        raise DecibanError(
            f"the graph would have about {formula.cells:,} numbers in it, more than a file of ONNX holds"
        )
    return Graph(formula, columns or {}, named).model()


class Graph:
    """A graph while it is drawn: each method adds nodes and gives the name of what they come to."""

    def __init__(self, formula: Formula, columns: Mapping[str, str], named: bool) -> None:
        self.onnx = optional("onnx", "to_onnx")
        self.formula, self.columns = formula, columns
        self.k = len(formula.scores.offsets)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        all_there = {one.name for one in formula.inputs} == set(formula.features)
        numbers = all(one.kind in ("number", "boolean") for one in formula.inputs)
        self.matrix = numbers and (all_there or not named)
        taken = {"X"} if self.matrix else {self.called(one) for one in formula.inputs}
        self.mark = "_" * (1 + max((len(name) - len(name.lstrip("_")) for name in taken), default=0))
        if taken & {"label", "probabilities"}:
            clash = min(taken & {"label", "probabilities"})
            raise DecibanError(
                f"a column is called {clash!r}, as an output of the graph is: give it another name, "
                f"columns={{{clash!r}: …}}"
            )

    def called(self, one: Input) -> str:
        name = self.columns.get(one.name, one.name)
        if not name or "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
            raise DecibanError(f"{one_line(name)!r} cannot be the name of an input: give another, columns={{…}}")
        return name

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        name = f"{self.mark}n{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(values, dtype=dtype))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def whole(self, values: Any) -> str:
        return self.constant(values, np.int64)

    def op(self, what: str, *inputs: str, domain: str = "", called: str = "", **settings: Any) -> str:
        name = called or f"{self.mark}v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(what, list(inputs), [name], domain=domain, **settings))
        return name

    def cast(self, x: str, kind: str) -> str:
        return self.op("Cast", x, to=getattr(self.onnx.TensorProto, kind))

    def side_by_side(self, columns: Sequence[str]) -> str:
        return columns[0] if len(columns) == 1 else self.op("Concat", *columns, axis=1)

    def total(self, terms: Sequence[str]) -> str:
        return terms[0] if len(terms) == 1 else self.op("Sum", *terms)

    def row_sums(self, x: str, keepdims: int = 1) -> str:
        return self.op("ReduceSum", x, self.whole([1]), keepdims=keepdims)

    # ------------------------------------------------------------------ the whole

    def model(self) -> Any:
        f, helper, types = self.formula, self.onnx.helper, self.onnx.TensorProto
        if self.matrix:
            self.inputs.append(helper.make_tensor_value_info("X", types.DOUBLE, ["n", len(f.features)]))
        else:
            for one in f.inputs:
                kind = types.STRING if is_text(one) else types.DOUBLE
                self.inputs.append(helper.make_tensor_value_info(self.called(one), kind, ["n", 1]))
        self.places = [""] * len(f.places)
        for i, place in enumerate(f.places):
            if isinstance(place, ColumnPlace):
                self.places[i] = self.placed(place)
        for i, place in enumerate(f.places):
            if isinstance(place, Regrouped):
                self.places[i] = self.op("Gather", self.whole(place.groups), self.places[place.place])
        label = self.answer()
        outputs = [
            helper.make_tensor_value_info("label", label, ["n"]),
            helper.make_tensor_value_info("probabilities", types.DOUBLE, ["n", len(f.classes)]),
        ]
        graph = helper.make_graph(self.nodes, "deciban", self.inputs, outputs, self.constants)
        sets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        model = helper.make_model(graph, producer_name="deciban", opset_imports=sets, ir_version=IR)
        self.onnx.checker.check_model(model)
        return model

    def answer(self) -> int:
        """Bayes' rule; what the labels are of."""
        f = self.formula
        scores = self.scores(f.scores)
        top = self.op("ReduceMax", scores, axes=[1], keepdims=1)
        impossible = self.op("Equal", top, self.constant(-np.inf))
        gap = self.op("Sub", scores, self.op("Where", impossible, self.constant(0.0), top))
        shares = self.op("Exp", gap)
        if f.owner is not None:
            shares = self.op("MatMul", shares, self.constant(f.owner[:, None] == np.arange(len(f.classes))))
        posterior = self.op("Div", shares, self.row_sums(shares))
        self.op("Where", impossible, self.constant(np.exp(f.log_prior)[None]), posterior, called="probabilities")
        by = scores if f.owner is None else shares
        if f.decided is not None:
            by = self.scores(f.decided)
        best = self.op("ArgMax", by, axis=1, keepdims=0)
        never = self.op("Squeeze", impossible, self.whole([1]))
        best = self.op("Where", never, self.whole(int(np.argmax(f.log_prior))), best)
        labels = [plain(label) for label in f.classes]
        kind: Any = object
        for types, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
            if all(isinstance(label, types) for label in labels):
                kind = dtype
                break
        if kind is object:
            labels = [str(label).encode("utf-8", "replace") for label in labels]
        self.op("Gather", self.constant(labels, kind), best, called="label")
        return int(self.constants[-1].data_type)

    # ------------------------------------------------------------------ columns

    def numbers(self, inputs: Sequence[int]) -> str:
        """These columns side by side, (n, d), NaN where missing."""
        named = [self.formula.inputs[i] for i in inputs]
        if not self.matrix:
            return self.side_by_side([self.called(one) for one in named])
        at = [self.formula.features.index(one.name) for one in named]
        return "X" if at == list(range(len(self.formula.features))) else self.op("Gather", "X", self.whole(at), axis=1)

    def placed(self, place: ColumnPlace) -> str:
        """(n,) places."""
        one = self.formula.inputs[place.input]
        if is_text(one):
            return self.placed_text(place, one)
        x = self.numbers([place.input])
        if place.cuts is not None:
            beyond = self.cast(self.op("Greater", x, self.constant(place.cuts[None])), "INT64")
            found = self.op("Add", self.row_sums(beyond, 0), self.whole(1))
        else:
            same = self.cast(self.op("Equal", x, self.constant(np.array(place.values)[None])), "INT64")
            at = self.row_sums(self.op("Mul", same, self.whole(np.arange(1, len(place.values) + 1)[None])), 0)
            unseen = self.op("Equal", at, self.whole(0))
            found = self.op("Where", unseen, self.whole(len(place.values) + 1), at)
        gone = self.op("Squeeze", self.op("IsNaN", x), self.whole([1]))
        return self.op("Where", gone, self.whole(0), found)

    def placed_text(self, place: ColumnPlace, one: Input) -> str:
        known = {word: 0 for said in ("", *one.nothing) for word in (said, said.upper(), said.capitalize())}
        known |= {"NaN": 0} if "nan" in one.nothing else {}
        for i, value in enumerate(place.values, 1):
            if not any("\ud800" <= c <= "\udfff" for c in str(value)):  # no string of a graph has halves of characters
                known[str(value)] = i
        flat = self.op("Squeeze", self.called(one), self.whole([1]))
        return self.op(
            "LabelEncoder",
            flat,
            domain=ML,
            keys_strings=list(known),
            values_int64s=list(known.values()),
            default_int64=len(place.values) + 1,
        )

    def coordinate(self, one: Coordinate) -> str:
        """(n, 1)."""
        if isinstance(one, AsIs):
            return self.numbers([one.input])
        if isinstance(one, Scaled):
            x = self.numbers([one.input])
            z = self.op("Div", self.op("Sub", x, self.constant(one.mean)), self.constant(one.scale))
            z = self.op("Clip", z, self.constant(-one.far), self.constant(one.far))
            return self.op("Where", self.op("IsNaN", x), self.constant(0.0), z)
        if isinstance(one, Bent):
            return self.bent(one)
        return self.op(
            "Unsqueeze", self.op("Gather", self.constant(one.values), self.places[one.place]), self.whole([1])
        )

    def bent(self, one: Bent) -> str:
        """On which piece of the line a number lies, and how high the line is there."""
        x, knots, heights = self.numbers([one.input]), one.knots, one.heights
        beyond = self.cast(self.op("Greater", x, self.constant(knots[None])), "INT64")
        piece = self.row_sums(beyond)
        slopes = np.concatenate([[0.0], np.diff(heights) / np.diff(knots), [0.0]])
        starts = np.concatenate([knots[:1], knots])
        levels = np.concatenate([heights[:1], heights])
        start, level, slope = (self.op("Gather", self.constant(v), piece) for v in (starts, levels, slopes))
        said = self.op("Add", level, self.op("Mul", self.op("Sub", x, start), slope))
        return self.op("Where", self.op("IsNaN", x), self.constant(0.0), said)

    # ------------------------------------------------------------------ what is said

    def scores(self, scores: Scores) -> str:
        """(n, k)."""
        said = self.total([self.weighed(part) for part in scores.parts])
        return self.op("Add", said, self.constant(scores.offsets[None]))

    def weighed(self, part: WeightedTerm) -> str:
        said = self.term(part.term)
        if part.most is None:
            return said
        there = live(part.term, self.k) if isinstance(part.term, Forms) else np.ones(self.k, dtype=bool)
        middle = self.op("MatMul", said, self.constant((there / there.sum())[:, None]))
        gap = self.op("Clip", self.op("Sub", said, middle), self.constant(-part.most), self.constant(part.most))
        if not there.all():
            gap = self.op("Where", self.constant(there[None], np.bool_), gap, self.constant(-part.most))
        return self.op("Mul", gap, self.constant(part.weight))

    def term(self, term: Term) -> str:
        if isinstance(term, Slopes):
            return self.slopes(term)
        if isinstance(term, Bells):
            return self.bells(term)
        if isinstance(term, Walks):
            said = [self.walk(walk) for walk in term.walks] or [self.nothing()]
            return self.total([*said, *self.hidden(term.hidden)])
        if isinstance(term, SplitTrees):
            return self.forest(term)
        return self.forms(term)

    def nothing(self) -> str:
        """Zeros, (n, k)."""
        first = "X" if self.matrix else self.called(self.formula.inputs[0])
        n = self.op("Slice", self.op("Shape", first), self.whole([0]), self.whole([1]))
        shape = self.op("Concat", n, self.whole([self.k]), axis=0)
        return self.op("Expand", self.constant(0.0), shape)

    def slopes(self, term: Slopes) -> str:
        x = self.numbers(term.inputs)
        gone = self.op("IsNaN", x)
        there = self.op("Where", gone, self.constant(0.0), x)
        said = self.op("MatMul", there, self.constant(term.slope.T))
        if term.zero.any():
            present = self.cast(self.op("Not", gone), "DOUBLE")
            said = self.op("Add", said, self.op("MatMul", present, self.constant(term.zero.T)))
        if term.never.any():  # 0 · (−∞) would be NaN: what is impossible is counted
            some = self.cast(self.op("Greater", there, self.constant(0.0)), "DOUBLE")
            hits = self.op("Greater", self.op("MatMul", some, self.constant(term.never.T)), self.constant(0.5))
            said = self.op("Where", hits, self.constant(-np.inf), said)
        return said

    def bells(self, term: Bells) -> str:
        x = self.op("Unsqueeze", self.numbers(term.inputs), self.whole([1]))  # (n, 1, d)
        gap = self.op("Sub", x, self.constant(term.mean[None]))
        square = self.op("Mul", self.op("Mul", gap, gap), self.constant(term.precision[None]))
        if term.power is not None:
            square = self.op("Mul", self.log1p(square), self.constant(term.power[None]))
        said = self.op("Sub", self.constant(term.constant[None]), square)
        kept = self.op("Where", self.op("IsNaN", x), self.constant(0.0), said)
        return self.op("ReduceSum", kept, self.whole([2]), keepdims=0)

    def log1p(self, x: str) -> str:
        return self.op("Log", self.op("Add", x, self.constant(1.0)))

    def walk(self, walk: Walk) -> str:
        node = ""
        for step, given in zip(walk.steps, walk.given, strict=True):
            ways = np.where(step < 0, np.arange(len(step))[:, None], step)
            at = self.places[given]
            if node:
                at = self.op("Add", self.op("Mul", node, self.whole(step.shape[1])), at)
            node = self.op("Gather", self.whole(ways.ravel()), at)
        at = self.places[walk.own]
        if node:
            at = self.op("Add", self.op("Mul", node, self.whole(walk.values.shape[1])), at)
        return self.op("Gather", self.constant(walk.values.reshape(-1, self.k)), at)

    def hidden(self, columns: Sequence[HiddenParent]) -> list[str]:
        """log Σ_v P(v | given) Π what hangs on a missing column says of v, from the leaves to the roots."""
        likely: list[str] = []  # by column: what those that hang on it say of each of its values, (n, values, k)
        said = []
        for one in columns:
            product = ""
            for each in one.below:
                mine = self.op("Gather", self.constant(each.shares.transpose(1, 0, 2)), self.places[each.own])
                if each.hidden >= 0:
                    laws = self.constant(columns[each.hidden].laws[None, 1 : 1 + each.shares.shape[0]])
                    over = self.op("Mul", self.op("Unsqueeze", likely[each.hidden], self.whole([1])), laws)
                    gone = self.op("Unsqueeze", self.missing(each.own), self.whole([1, 2]))
                    mine = self.op("Where", gone, self.op("ReduceSum", over, self.whole([2]), keepdims=0), mine)
                product = self.op("Mul", product, mine) if product else mine
            likely.append(product)
            law = self.constant(one.laws)
            if one.given >= 0:
                law = self.op("Gather", law, self.places[one.given])
            found = self.op("Log", self.op("ReduceSum", self.op("Mul", product, law), self.whole([1]), keepdims=0))
            here = self.missing(one.own)
            if one.passes:
                here = self.op("And", here, self.op("Not", self.missing(one.given)))
            said.append(self.op("Where", self.op("Unsqueeze", here, self.whole([1])), found, self.constant(0.0)))
        return said

    def missing(self, place: int) -> str:
        """Whether a column is missing, (n,)."""
        return self.op("Equal", self.places[place], self.whole(0))

    def forms(self, term: Forms) -> str:
        plain_ones = [self.formula.coordinates[i] for i in term.coordinates]
        if all(isinstance(one, AsIs) for one in plain_ones):
            x = self.numbers([one.input for one in plain_ones if isinstance(one, AsIs)])
        else:
            x = self.side_by_side([self.coordinate(one) for one in plain_ones])
        squares, gone = [], self.absent(term)
        for p, mean in enumerate(term.mean):
            gap = self.op("Sub", x, self.constant(mean[None]))
            q = self.squared(gap, term.root[p if len(term.root) > 1 else 0])
            if gone:  # what the column that is not there has no part in
                each = [self.squared(gap, one.turn[p if len(one.turn) > 1 else 0]) for one in term.absent]
                q = self.op("Sub", q, self.row_sums(self.op("Mul", self.side_by_side(each), gone)))
            squares.append(q)
        q = self.side_by_side(squares)
        power = self.adjusted(gone, term.power, [one.power for one in term.absent], len(term.mean))
        if term.scale is not None:
            q = self.log1p(self.op("Mul", q, self.constant(term.scale[None])))
        constant = self.adjusted(gone, term.constant, [one.constant for one in term.absent], len(term.mean))
        said = self.op("Sub", constant, self.op("Mul", q, power))
        said = self.op("Add", said, self.constant(term.share[None]))
        if gone:
            several = self.op("Greater", self.row_sums(gone), self.constant(1.5))
            said = self.op("Where", several, self.constant(np.nan), said)
        if np.array_equal(term.owner, np.arange(self.k)):
            return said
        return self.side_by_side([self.mixed(term, said, c) for c in range(self.k)])

    def squared(self, gap: str, turn: Floats) -> str:
        """|turn · gap|², (n, 1)."""
        return self.op("ReduceSumSquare", self.op("MatMul", gap, self.constant(turn.T)), axes=[1], keepdims=1)

    def absent(self, term: Forms) -> str:
        """1 where a column's value was never seen, (n, columns)."""
        if not term.absent:
            return ""
        marks = [self.op("Gather", self.constant(one.never), self.places[one.place]) for one in term.absent]
        return self.side_by_side([self.op("Unsqueeze", mark, self.whole([1])) for mark in marks])

    def adjusted(self, gone: str, usual: Floats | None, others: Sequence[Floats | None], parts: int) -> str:
        """A number for each part, and another where a column is not there; ½ where none is given."""
        first = np.full(parts, 0.5) if usual is None else usual
        if not gone or usual is None:
            return self.constant(first[None])
        steps = np.stack([np.asarray(other) for other in others]) - first
        return self.op("Add", self.op("MatMul", gone, self.constant(steps)), self.constant(first[None]))

    def mixed(self, term: Forms, said: str, c: int) -> str:
        """log Σ exp over a class's parts, (n, 1); 0 where it has none."""
        mine = np.flatnonzero(term.owner == c)
        if not len(mine):
            return self.op("Mul", self.op("Gather", said, self.whole([0]), axis=1), self.constant(0.0))
        own = self.op("Gather", said, self.whole(mine), axis=1)
        return own if len(mine) == 1 else self.op("ReduceLogSumExp", own, axes=[1], keepdims=1)

    # ------------------------------------------------------------------ trees

    def forest(self, term: SplitTrees) -> str:
        """The trees say where a row ends, as a number that single precision holds exactly; its values are looked up."""
        if (term.place < 0).all():  # no tree found anything to split on
            return self.op("Add", self.nothing(), self.constant(term.values.sum(axis=0)[None]))
        features, at, cuts, ends = self.splits(term)
        nodes = Nodes()
        for t, span in enumerate(spans(term.trees)):
            for node in span:
                own, size = node - span[0], len(span)
                left, right = int(term.left[node]) - span[0], int(term.right[node]) - span[0]
                if term.place[node] < 0:
                    nodes.leaf(t, own, node)
                elif ends[node] < 0:
                    nodes.branch(t, own, at[node], cuts[node], left, right)
                else:  # first, whether the row ends here
                    nodes.branch(t, own, ends[node], 0.5, own + size, own + 2 * size)
                    nodes.branch(t, own + size, at[node], cuts[node], left, right)
                    nodes.leaf(t, own + 2 * size, node)
        settings: dict[str, Any] = {"aggregate_function": "SUM", "post_transform": "NONE", **nodes.lists}
        said = self.op("TreeEnsembleRegressor", features, domain=ML, n_targets=len(term.trees) - 1, **settings)
        found = self.op("Gather", self.constant(term.values), self.cast(said, "INT64"))  # (n, trees, k)
        return self.row_sums(found, 0)

    def splits(self, term: SplitTrees) -> tuple[str, Array, Array, Array]:
        """What trees look at, (n, features) in single precision; each node's feature, up to where it goes left, and the
        feature that is 1 where a row ends there (−1: none does).

        A split of neighbouring places is a cut of the place; any other is a feature of its own, 0 where it goes left.
        """
        columns: list[str] = []
        at, ends = np.full((2, len(term.place)), -1, dtype=np.int64)
        cuts, width = np.zeros(len(term.place)), 0
        for place in np.unique(term.place[term.place >= 0]).tolist():
            stops, nodes = term.ends[place], np.flatnonzero(term.place == place)
            tables: list[Array] = [np.arange(len(stops))]
            if stops.any():
                ends[nodes] = width + 1
                tables.append(stops)
            known: dict[bytes, tuple[int, float]] = {}
            for node in nodes:
                left = term.lefts[node]
                key = left.tobytes()
                if key not in known:
                    many = int(left.sum())
                    known[key] = (0, many - 0.5) if left[:many].all() else (len(tables), 0.5)
                    if known[key][0]:
                        tables.append(~left)
                at[node], cuts[node] = width + known[key][0], known[key][1]
            columns.append(self.op("Gather", self.constant(np.column_stack(tables), np.float32), self.places[place]))
            width += len(tables)
        return self.side_by_side(columns), at, cuts, ends


NODES = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids",
         "nodes_falsenodeids")  # fmt: skip
TARGETS = ("target_treeids", "target_nodeids", "target_ids", "target_weights")


class Nodes:
    """The lists by which ONNX knows trees."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {name: [] for name in (*NODES, *TARGETS)}

    def branch(
        self, tree: int, node: int, feature: int, cut: float, left: int, right: int, mode: str = "BRANCH_LEQ"
    ) -> None:
        of_nodes = [name for name in self.lists if name.startswith("nodes_")]
        for name, value in zip(of_nodes, (tree, node, int(feature), mode, float(cut), left, right), strict=True):
            self.lists[name].append(value)

    def leaf(self, tree: int, node: int, value: int) -> None:
        self.branch(tree, node, 0, 0.0, 0, 0, "LEAF")
        for name, said in zip(("treeids", "nodeids", "ids", "weights"), (tree, node, tree, float(value)), strict=True):
            self.lists[f"target_{name}"].append(said)


def is_text(one: Input) -> bool:
    return one.kind in ("text", "month", "weekday")
