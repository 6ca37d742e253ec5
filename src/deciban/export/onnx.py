"""A formula as an ONNX graph, in double precision: rows in, `label` and `probabilities` out.

Operators of ai.onnx 17 and ai.onnx.ml 3, which runtimes have had since 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.formula import (
    AsIs,
    ColumnGaussians,
    ColumnPlace,
    Coordinate,
    Cosines,
    Formula,
    HiddenParent,
    Input,
    PiecewiseLinear,
    QuadraticForms,
    Regrouped,
    Scaled,
    Scores,
    Slopes,
    SplitTrees,
    Term,
    Walk,
    Walks,
    WeightedTerm,
    nodes_by_tree,
    possible_classes,
)
from deciban.show import one_line, optional, plain

OPSET, ML_OPSET, IR = 17, 3, 8
ML = "ai.onnx.ml"
MAX_GRAPH_BYTES = 1_900_000_000  # a graph is one protocol buffers message, which ends at two gigabytes
MAX_CELLS = 4096  # numbers of a row that are compared, or looked up, at once: memory for each row of a batch


def to_onnx(
    formula: Formula,
    columns: Mapping[str, str] | None = None,
    named: bool = True,
) -> Any:
    """The graph. `columns` are the names of inputs, where not the features'; `named`: the features have names."""
    check_size(formula.cells)
    return Graph(formula, columns or {}, named).model()


def check_size(numbers: int) -> None:
    if 8 * numbers > MAX_GRAPH_BYTES:
        raise DecibanError(f"the graph would have about {numbers:,} numbers, more than an ONNX file can hold")


class Graph:
    """A graph under construction: each method adds nodes and returns the name of their output."""

    domains: ClassVar[dict[str, int]] = {"": OPSET, ML: ML_OPSET}
    uncertain = ""  # which rows the graph has no answer for, (n, 1); "": none

    def __init__(self, formula: Formula, columns: Mapping[str, str], named: bool) -> None:
        self.onnx = optional("onnx", "to_onnx")
        self.formula, self.columns = formula, columns
        self.k = len(formula.scores.offsets)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        all_used = {one.name for one in formula.inputs} == set(formula.features)
        numbers = all(one.kind in ("number", "boolean") for one in formula.inputs)
        self.matrix = numbers and (all_used or not named)
        taken = {"X"} if self.matrix else {self.input_name(one) for one in formula.inputs}
        self.prefix = "_" * (1 + max((len(name) - len(name.lstrip("_")) for name in taken), default=0))
        if taken & {"label", "probabilities"}:
            clash = min(taken & {"label", "probabilities"})
            raise DecibanError(
                f"a column is called {clash!r}, as an output of the graph is: give it another name, "
                f"columns={{{clash!r}: …}}"
            )

    def input_name(self, one: Input) -> str:
        name = self.columns.get(one.name, one.name)
        if not name or "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
            raise DecibanError(
                f"{one_line(name)!r} cannot be the name of an input: give another one with columns={{…}}"
            )
        return name

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        name = f"{self.prefix}n{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(values, dtype=dtype))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def integers(self, values: Any) -> str:
        return self.constant(values, np.int64)

    def op(self, operator: str, *inputs: str, domain: str = "", output: str = "", **settings: Any) -> str:
        name = output or f"{self.prefix}v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], domain=domain, **settings))
        return name

    def cast(self, x: str, kind: str) -> str:
        return self.op("Cast", x, to=getattr(self.onnx.TensorProto, kind))

    def side_by_side(self, columns: Sequence[str]) -> str:
        return columns[0] if len(columns) == 1 else self.op("Concat", *columns, axis=1)

    def total(self, terms: Sequence[str]) -> str:
        return terms[0] if len(terms) == 1 else self.op("Sum", *terms)

    def row_sums(self, x: str, keepdims: int = 1) -> str:
        return self.op("ReduceSum", x, self.integers([1]), keepdims=keepdims)

    # ------------------------------------------------------------------ the whole

    def model(self) -> Any:
        helper, types = self.onnx.helper, self.onnx.TensorProto
        self.places: dict[int, str] = {}
        self.blocks: dict[int, tuple[str, int]] = {}
        self.add_inputs()
        self.place_blocks()
        label_type = self.add_outputs()
        outputs = [
            helper.make_tensor_value_info("label", label_type, ["n"]),
            helper.make_tensor_value_info("probabilities", types.DOUBLE, ["n", len(self.formula.classes)]),
        ]
        graph = helper.make_graph(self.nodes, "deciban", self.inputs, outputs, self.constants)
        sets = [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        model = helper.make_model(graph, producer_name="deciban", opset_imports=sets, ir_version=IR)
        self.onnx.checker.check_model(model)
        return model

    def add_inputs(self) -> None:
        types = self.onnx.TensorProto
        if self.matrix:
            self.add_input("X", types.DOUBLE, len(self.formula.features))
            return
        for one in self.formula.inputs:
            self.add_input(self.input_name(one), types.STRING if is_text(one) else types.DOUBLE)

    def add_input(self, name: str, kind: int, width: int = 1) -> None:
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, ["n", width]))

    def add_outputs(self) -> int:
        """Add both outputs, by Bayes' rule; the ONNX type of the labels."""
        formula = self.formula
        scores = self.scores(formula.scores)
        top = self.op("ReduceMax", scores, axes=[1], keepdims=1)
        impossible = self.op("Equal", top, self.constant(-np.inf))
        shifted = self.op("Sub", scores, self.op("Where", impossible, self.constant(0.0), top))
        shares = self.op("Exp", shifted)
        if formula.owner is not None:
            shares = self.op("MatMul", shares, self.constant(formula.owner[:, None] == np.arange(len(formula.classes))))
        posterior = self.op("Div", shares, self.row_sums(shares))
        if self.uncertain:
            posterior = self.op("Where", self.uncertain, self.constant(np.nan), posterior)
            impossible = self.op("And", impossible, self.op("Not", self.uncertain))
        self.op("Where", impossible, self.constant(np.exp(formula.log_prior)[None]), posterior, output="probabilities")
        best = self.best(scores if formula.owner is None else shares, impossible)
        labels = [plain(label) for label in self.labels]
        kind: Any = object
        for types, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
            if all(isinstance(label, types) for label in labels):
                kind = dtype
                break
        if kind is object:
            labels = [str(label).encode("utf-8", "replace") for label in labels]
        if self.uncertain and kind is object:
            labels.append(b"")
            uncertain = self.op("Squeeze", self.uncertain, self.integers([1]))
            best = self.op("Where", uncertain, self.integers(len(labels) - 1), best)
        self.op("Gather", self.constant(labels, kind), best, output="label")
        return int(self.constants[-1].data_type)

    @property
    def labels(self) -> Array:
        """The possible labels."""
        return self.formula.classes

    def best(self, scores: str, impossible: str) -> str:
        """The number of each row's label, (n,)."""
        if self.formula.label_scores is not None:
            scores = self.scores(self.formula.label_scores)
        best = self.op("ArgMax", scores, axis=1, keepdims=0)
        impossible_row = self.op("Squeeze", impossible, self.integers([1]))
        return self.op("Where", impossible_row, self.integers(int(np.argmax(self.formula.log_prior))), best)

    # ------------------------------------------------------------------ columns

    def numbers(self, inputs: Sequence[int]) -> str:
        """These columns as a matrix, (n, d), NaN where missing."""
        columns = [self.formula.inputs[i] for i in inputs]
        if not self.matrix:
            return self.side_by_side([self.input_name(one) for one in columns])
        place = {name: j for j, name in enumerate(self.formula.features)}
        index = [place[one.name] for one in columns]
        every = list(range(len(self.formula.features)))
        return "X" if index == every else self.op("Gather", "X", self.integers(index), axis=1)

    def place_blocks(self) -> None:
        """The places of columns of numbers, many at once: thousands of nodes take a runtime seconds to open.

        `blocks` are, by place, the matrix that it is in and its column there.
        """
        sized: list[tuple[bool, int, int, ColumnPlace]] = []
        for i, place in enumerate(self.formula.places):
            if isinstance(place, ColumnPlace) and not is_text(self.formula.inputs[place.input]):
                sized.append((place.cuts is None, place.size, i, place))
        sized.sort(key=lambda one: one[:2])  # columns of a block have about as many values
        block: list[tuple[bool, int, int, ColumnPlace]] = []
        for one in sized:
            width = max(one[1], self.k)
            if block and (one[0] != block[0][0] or (len(block) + 1) * width > MAX_CELLS):
                self.place_block([(i, place) for *_, i, place in block])
                block = []
            block.append(one)
        if block:
            self.place_block([(i, place) for *_, i, place in block])

    def place_block(self, block: Sequence[tuple[int, ColumnPlace]]) -> None:
        """The places of columns that all have values, or all cuts, (n, columns)."""
        x = self.numbers([place.input for _, place in block])
        each = self.op("Unsqueeze", x, self.integers([2]))
        if block[0][1].cuts is not None:  # nothing is beyond infinity
            cuts = padded([place.cuts for _, place in block if place.cuts is not None], np.inf)
            beyond = self.cast(self.op("Greater", each, self.constant(cuts[None])), "INT64")
            codes = self.op("Add", self.op("ReduceSum", beyond, self.integers([2]), keepdims=0), self.integers(1))
        else:  # nothing equals NaN
            values = padded([np.array(place.values, dtype=np.float64) for _, place in block], np.nan)
            equal = self.cast(self.op("Equal", each, self.constant(values[None])), "INT64")
            numbered = self.op("Mul", equal, self.integers(np.arange(1, values.shape[1] + 1)[None, None]))
            matches = self.op("ReduceSum", numbered, self.integers([2]), keepdims=0)
            unknown = self.integers([[len(place.values) + 1 for _, place in block]])
            codes = self.op("Where", self.op("Equal", matches, self.integers(0)), unknown, matches)
        codes = self.op("Where", self.op("IsNaN", x), self.integers(0), codes)
        self.blocks |= {i: (codes, j) for j, (i, _) in enumerate(block)}

    def place(self, i: int) -> str:
        """The places of a column's values, (n,)."""
        if i not in self.places:
            place = self.formula.places[i]
            if isinstance(place, Regrouped):
                self.places[i] = self.op("Gather", self.integers(place.groups), self.place(place.place))
            elif i in self.blocks:
                codes, column = self.blocks[i]
                one = self.op("Gather", codes, self.integers([column]), axis=1)
                self.places[i] = self.op("Squeeze", one, self.integers([1]))
            else:
                self.places[i] = self.text_place(place, self.formula.inputs[place.input])
        return self.places[i]

    def text_place(self, place: ColumnPlace, one: Input) -> str:
        known = {form: 0 for word in ("", *one.missing_texts) for form in (word, word.upper(), word.capitalize())}
        known |= {"NaN": 0} if "nan" in one.missing_texts else {}
        for i, value in enumerate(place.values, 1):
            if not any("\ud800" <= c <= "\udfff" for c in str(value)):  # strings of a graph cannot have lone surrogates
                known[str(value)] = i
        flat = self.op("Squeeze", self.input_name(one), self.integers([1]))
        return self.op(
            "LabelEncoder",
            flat,
            domain=ML,
            keys_strings=list(known),
            values_int64s=list(known.values()),
            default_int64=len(place.values) + 1,
        )

    def coordinate(self, one: Coordinate) -> str:
        """A coordinate, (n, 1)."""
        if isinstance(one, AsIs):
            return self.numbers([one.input])
        if isinstance(one, Scaled):
            x = self.numbers([one.input])
            z = self.op("Div", self.op("Sub", x, self.constant(one.mean)), self.constant(one.scale))
            z = self.op("Clip", z, self.constant(-one.far), self.constant(one.far))
            return self.op("Where", self.op("IsNaN", x), self.constant(0.0), z)
        if isinstance(one, PiecewiseLinear):
            return self.piecewise_linear(one)
        return self.op(
            "Unsqueeze", self.op("Gather", self.constant(one.values), self.place(one.place)), self.integers([1])
        )

    def piecewise_linear(self, one: PiecewiseLinear) -> str:
        """Which segment a number is in, and the line's height there, (n, 1)."""
        x, knots, heights = self.numbers([one.input]), one.knots, one.heights
        beyond = self.cast(self.op("Greater", x, self.constant(knots[None])), "INT64")
        segment = self.row_sums(beyond)
        slopes = np.concatenate([[0.0], np.diff(heights) / np.diff(knots), [0.0]])
        starts = np.concatenate([knots[:1], knots])
        levels = np.concatenate([heights[:1], heights])
        start, level, slope = (self.op("Gather", self.constant(v), segment) for v in (starts, levels, slopes))
        line = self.op("Add", level, self.op("Mul", self.op("Sub", x, start), slope))
        return self.op("Where", self.op("IsNaN", x), self.constant(0.0), line)

    # ------------------------------------------------------------------ scores and terms

    def scores(self, scores: Scores) -> str:
        """Scores by class, (n, k)."""
        total = self.total([self.weighted(part) for part in scores.parts])
        return self.op("Add", total, self.constant(scores.offsets[None]))

    def weighted(self, part: WeightedTerm) -> str:
        values = self.term(part.term)
        if part.limit is None:
            return values
        possible = possible_classes(part.term, self.k)
        if not possible.all():
            values = self.op("Where", self.constant(possible[None], np.bool_), values, self.constant(-np.inf))
        best = self.op("ReduceMax", values, axes=[1], keepdims=1)
        against = self.op("Max", self.op("Sub", values, best), self.constant(-part.limit))
        return self.op("Mul", against, self.constant(part.weight))

    def term(self, term: Term) -> str:
        if isinstance(term, Slopes):
            return self.slopes(term)
        if isinstance(term, ColumnGaussians):
            return self.column_gaussians(term)
        if isinstance(term, Walks):
            blocks: dict[str, list[Walk]] = {}
            single = []
            for walk in term.walks:
                if walk.given or walk.own not in self.blocks:
                    single.append(self.walk(walk))
                else:
                    blocks.setdefault(self.blocks[walk.own][0], []).append(walk)
            terms = [self.lookups(codes, walks) for codes, walks in blocks.items()]
            return self.total([*terms, *single, *self.hidden(term.hidden)] or [self.zeros()])
        if isinstance(term, SplitTrees):
            return self.forest(term)
        if isinstance(term, Cosines):
            return self.cosines(term)
        return self.quadratic_forms(term)

    def cosines(self, term: Cosines) -> str:
        x = self.side_by_side([self.coordinate(self.formula.coordinates[i]) for i in term.coordinates])
        angle = self.op("Add", self.op("MatMul", x, self.constant(term.frequencies)), self.constant(term.phases[None]))
        offsets = np.where(np.isfinite(term.offsets), term.offsets, 0.0)  # `weighted` rules classes out
        slopes = self.op("MatMul", self.op("Cos", angle), self.constant(term.slopes))
        out = self.op("Add", slopes, self.constant(offsets[None]))
        if not term.unknown:
            return out
        shares = self.side_by_side([self.coordinate(self.formula.coordinates[i]) for i in term.unknown])
        return self.op("Mul", out, self.op("Sub", self.constant(1.0), self.row_sums(shares)))

    def zeros(self) -> str:
        """Zeros, (n, k)."""
        first = "X" if self.matrix else self.input_name(self.formula.inputs[0])
        n = self.op("Slice", self.op("Shape", first), self.integers([0]), self.integers([1]))
        shape = self.op("Concat", n, self.integers([self.k]), axis=0)
        return self.op("Expand", self.constant(0.0), shape)

    def slopes(self, term: Slopes) -> str:
        x = self.numbers(term.inputs)
        missing = self.op("IsNaN", x)
        values = self.op("Where", missing, self.constant(0.0), x)
        total = self.op("MatMul", values, self.constant(term.slope.T))
        if term.zero.any():
            present = self.cast(self.op("Not", missing), "DOUBLE")
            total = self.op("Add", total, self.op("MatMul", present, self.constant(term.zero.T)))
        if term.never.any():  # 0 · (−∞) would be NaN, so impossible values are counted
            positive = self.cast(self.op("Greater", values, self.constant(0.0)), "DOUBLE")
            hits = self.op("Greater", self.op("MatMul", positive, self.constant(term.never.T)), self.constant(0.5))
            total = self.op("Where", hits, self.constant(-np.inf), total)
        return total

    def column_gaussians(self, term: ColumnGaussians) -> str:
        x = self.op("Unsqueeze", self.numbers(term.inputs), self.integers([1]))  # (n, 1, d)
        gap = self.op("Sub", x, self.constant(term.mean[None]))
        square = self.op("Mul", self.op("Mul", gap, gap), self.constant(term.precision[None]))
        if term.power is not None:
            square = self.op("Mul", self.log1p(square), self.constant(term.power[None]))
        log_density = self.op("Sub", self.constant(term.constant[None]), square)
        terms = self.op("Where", self.op("IsNaN", x), self.constant(0.0), log_density)
        return self.op("ReduceSum", terms, self.integers([2]), keepdims=0)

    def log1p(self, x: str) -> str:
        return self.op("Log", self.op("Add", x, self.constant(1.0)))

    def walk(self, walk: Walk) -> str:
        node = ""
        for step, given in zip(walk.steps, walk.given, strict=True):
            next_node = np.where(step < 0, np.arange(len(step))[:, None], step)
            index = self.place(given)
            if node:
                index = self.op("Add", self.op("Mul", node, self.integers(step.shape[1])), index)
            node = self.op("Gather", self.integers(next_node.ravel()), index)
        index = self.place(walk.own)
        if node:
            index = self.op("Add", self.op("Mul", node, self.integers(walk.values.shape[1])), index)
        return self.op("Gather", self.constant(walk.values.reshape(-1, self.k)), index)

    def lookups(self, codes: str, walks: Sequence[Walk]) -> str:
        """The sum over independent columns whose places are in one matrix, looked up in one table, (n, k)."""
        columns = [self.blocks[walk.own][1] for walk in walks]
        size = max(walk.values.shape[1] for walk in walks)
        table = np.zeros((len(walks), size, self.k))
        for own, walk in zip(table, walks, strict=True):
            own[: walk.values.shape[1]] = walk.values[0]
        index = self.op("Gather", codes, self.integers(columns), axis=1)
        index = self.op("Add", index, self.integers(size * np.arange(len(walks))[None]))
        return self.row_sums(self.op("Gather", self.constant(table.reshape(-1, self.k)), index), 0)

    def hidden(self, columns: Sequence[HiddenParent]) -> list[str]:
        """log Σ_v P(v | given) Π_children P(child | v) for missing columns, from the leaves to the roots."""
        likelihoods: list[str] = []  # by column: of its children given each of its values, (n, values, k)
        terms = []
        for parent in columns:
            product = ""
            for child in parent.below:
                likelihood = self.op("Gather", self.constant(child.shares.transpose(1, 0, 2)), self.place(child.own))
                if child.hidden >= 0:
                    probabilities = self.constant(
                        columns[child.hidden].probabilities[None, 1 : 1 + child.shares.shape[0]]
                    )
                    weighted = self.op(
                        "Mul", self.op("Unsqueeze", likelihoods[child.hidden], self.integers([1])), probabilities
                    )
                    child_missing = self.op("Unsqueeze", self.missing(child.own), self.integers([1, 2]))
                    likelihood = self.op(
                        "Where",
                        child_missing,
                        self.op("ReduceSum", weighted, self.integers([2]), keepdims=0),
                        likelihood,
                    )
                product = self.op("Mul", product, likelihood) if product else likelihood
            likelihoods.append(product)
            probabilities = self.constant(parent.probabilities)
            if parent.given >= 0:
                probabilities = self.op("Gather", probabilities, self.place(parent.given))
            log_sum = self.op(
                "Log", self.op("ReduceSum", self.op("Mul", product, probabilities), self.integers([1]), keepdims=0)
            )
            applies = self.missing(parent.own)
            if parent.passes:
                applies = self.op("And", applies, self.op("Not", self.missing(parent.given)))
            terms.append(
                self.op("Where", self.op("Unsqueeze", applies, self.integers([1])), log_sum, self.constant(0.0))
            )
        return terms

    def missing(self, place: int) -> str:
        """Whether a column's value is missing, (n,)."""
        return self.op("Equal", self.place(place), self.integers(0))

    def quadratic_forms(self, term: QuadraticForms) -> str:
        coordinates = [self.formula.coordinates[i] for i in term.coordinates]
        if all(isinstance(one, AsIs) for one in coordinates):
            x = self.numbers([one.input for one in coordinates if isinstance(one, AsIs)])
        else:
            x = self.side_by_side([self.coordinate(one) for one in coordinates])
        squares, unseen = [], self.unseen(term)
        for p, mean in enumerate(term.mean):
            gap = self.op("Sub", x, self.constant(mean[None]))
            q = self.squared(gap, term.root[p if len(term.root) > 1 else 0])
            if unseen:  # without the part of the column whose value was never seen
                removed = [self.squared(gap, one.turn[p if len(one.turn) > 1 else 0]) for one in term.absent]
                q = self.op("Sub", q, self.row_sums(self.op("Mul", self.side_by_side(removed), unseen)))
            squares.append(q)
        q = self.side_by_side(squares)
        power = self.adjusted(unseen, term.power, [one.power for one in term.absent], len(term.mean))
        if term.scale is not None:
            q = self.log1p(self.op("Mul", q, self.constant(term.scale[None])))
        constant = self.adjusted(unseen, term.constant, [one.constant for one in term.absent], len(term.mean))
        log_density = self.op("Sub", constant, self.op("Mul", q, power))
        log_density = self.op("Add", log_density, self.constant(term.share[None]))
        if unseen:
            several = self.op("Greater", self.row_sums(unseen), self.constant(1.5))
            log_density = self.op("Where", several, self.constant(np.nan), log_density)
        if np.array_equal(term.owner, np.arange(self.k)):
            return log_density
        return self.side_by_side([self.mixture(term, log_density, c) for c in range(self.k)])

    def squared(self, gap: str, turn: Floats) -> str:
        """|turn · gap|², (n, 1)."""
        return self.op("ReduceSumSquare", self.op("MatMul", gap, self.constant(turn.T)), axes=[1], keepdims=1)

    def unseen(self, term: QuadraticForms) -> str:
        """1 if a column's value was never seen, (n, columns)."""
        if not term.absent:
            return ""
        flags = [self.op("Gather", self.constant(one.never), self.place(one.place)) for one in term.absent]
        return self.side_by_side([self.op("Unsqueeze", flag, self.integers([1])) for flag in flags])

    def adjusted(self, unseen: str, default: Floats | None, without: Sequence[Floats | None], parts: int) -> str:
        """A number for each part, and another if a column's value was never seen; ½ if none is given."""
        base = np.full(parts, 0.5) if default is None else default
        if not unseen or default is None:
            return self.constant(base[None])
        steps = np.stack([np.asarray(value) for value in without]) - base
        return self.op("Add", self.op("MatMul", unseen, self.constant(steps)), self.constant(base[None]))

    def mixture(self, term: QuadraticForms, log_density: str, c: int) -> str:
        """log Σ exp over a class's parts, (n, 1); 0 if it has none."""
        parts = np.flatnonzero(term.owner == c)
        if not len(parts):
            return self.op("Mul", self.op("Gather", log_density, self.integers([0]), axis=1), self.constant(0.0))
        own = self.op("Gather", log_density, self.integers(parts), axis=1)
        return own if len(parts) == 1 else self.op("ReduceLogSumExp", own, axes=[1], keepdims=1)

    # ------------------------------------------------------------------ trees

    def forest(self, term: SplitTrees) -> str:
        """The trees return the node where a row ends, a number exact in single precision; its values are looked up."""
        if (term.place < 0).all():  # no tree has a split
            return self.op("Add", self.zeros(), self.constant(term.values.sum(axis=0)[None]))
        features, at, cuts, ends = self.splits(term)
        nodes = TreeNodes()
        for t, span in enumerate(nodes_by_tree(term.trees)):
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
        ends_at = self.op("TreeEnsembleRegressor", features, domain=ML, n_targets=len(term.trees) - 1, **settings)
        values = self.op("Gather", self.constant(term.values), self.cast(ends_at, "INT64"))  # (n, trees, k)
        return self.row_sums(values, 0)

    def splits(self, term: SplitTrees) -> tuple[str, Array, Array, Array]:
        """Features of the trees, (n, features) in single precision; each node's feature, its cut (left if below), and
        the feature that is 1 where a row ends there (−1: none does).

        A split of neighbouring places is a cut of the place; any other is a feature of its own, 0 if it goes left.
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
                    count = int(left.sum())
                    known[key] = (0, count - 0.5) if left[:count].all() else (len(tables), 0.5)
                    if known[key][0]:
                        tables.append(~left)
                at[node], cuts[node] = width + known[key][0], known[key][1]
            columns.append(self.op("Gather", self.constant(np.column_stack(tables), np.float32), self.place(place)))
            width += len(tables)
        return self.side_by_side(columns), at, cuts, ends


NODE_FIELDS = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids",
               "nodes_falsenodeids")  # fmt: skip
TARGET_FIELDS = ("target_treeids", "target_nodeids", "target_ids", "target_weights")


class TreeNodes:
    """Trees as the lists of attributes that ONNX takes."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {name: [] for name in (*NODE_FIELDS, *TARGET_FIELDS)}

    def branch(
        self, tree: int, node: int, feature: int, cut: float, left: int, right: int, mode: str = "BRANCH_LEQ"
    ) -> None:
        node_fields = [name for name in self.lists if name.startswith("nodes_")]
        for name, value in zip(node_fields, (tree, node, int(feature), mode, float(cut), left, right), strict=True):
            self.lists[name].append(value)

    def leaf(self, tree: int, node: int, value: int) -> None:
        self.branch(tree, node, 0, 0.0, 0, 0, "LEAF")
        for name, number in zip(
            ("treeids", "nodeids", "ids", "weights"), (tree, node, tree, float(value)), strict=True
        ):
            self.lists[f"target_{name}"].append(number)


def padded(rows: Sequence[Floats], filler: float) -> Floats:
    """Rows as a matrix, the shorter ones filled up."""
    out = np.full((len(rows), max(map(len, rows))), filler)
    for own, row in zip(out, rows, strict=True):
        own[: len(row)] = row
    return out


def is_text(one: Input) -> bool:
    return one.kind in ("text", "month", "weekday")
