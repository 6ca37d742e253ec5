"""A formula as one SELECT: a chain of steps, each of which adds columns to the one before.

read rows → places of values → terms → scores → exp(score − the greatest) → divide by their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from deciban._typing import Array, Floats
from deciban.dialects import FORMULA_DIALECTS, FormulaDialect
from deciban.errors import DecibanError, did_you_mean
from deciban.formula import (
    AsIs,
    ChildOfHidden,
    ColumnGaussians,
    ColumnPlace,
    Coordinate,
    Cosines,
    Formula,
    HiddenParent,
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
from deciban.results.answers import PREDICTION, proba_column

OUTPUTS = ("proba", PREDICTION, "all")
MAX_NUMBERS = 400_000  # in a statement; databases take minutes to parse more
MAX_OPERANDS = 24  # of one sum or product: databases recurse one level for each
FIRST_TERM_STEP = 3  # the first step with terms: the ones before read rows, find places, and regroup them
MASK_BITS = 62  # places that fit into the bits of an integer
MIN_EXPONENT = -700.0  # nats: exp of less is practically zero, and an error in PostgreSQL

ByClass: TypeAlias = "tuple[list[str], int]"  # an expression for each class, and the first step that can use them


def to_sql(
    formula: Formula,
    table: str | Sequence[str] = "data",
    dialect: str = "duckdb",
    *,
    columns: Mapping[str, str] | None = None,
    output: str = "proba",
    keep: Sequence[str] = (),
) -> str:
    """One SELECT over `table` with a row for each of its rows.

    `columns` are the names of features in the database, if they differ; `keep` are columns of the table to be
    kept in the result, such as a key.
    """
    if dialect not in FORMULA_DIALECTS:
        known = f"it must be one of {', '.join(map(repr, FORMULA_DIALECTS))}"
        hint = did_you_mean(dialect, FORMULA_DIALECTS, known)
        raise DecibanError("dialect is {value!r}: {hint}", value=dialect, hint=hint)
    if output not in OUTPUTS:
        raise DecibanError(f"output is {output!r}: it must be one of {', '.join(map(repr, OUTPUTS))}")
    if formula.cells > MAX_NUMBERS:
        raise DecibanError(
            f"the statement would have about {formula.cells:,} numbers, and the limit is {MAX_NUMBERS:,}: score rows "
            f"with predict_proba, or learn from fewer columns or a smaller table"
        )
    return StatementWriter(formula, FORMULA_DIALECTS[dialect]).statement(table, columns or {}, output, keep)


class StatementWriter:
    """A statement under construction: steps of named columns, each step from the one before."""

    def __init__(self, formula: Formula, dialect: FormulaDialect) -> None:
        self.formula, self.dialect = formula, dialect
        self.steps: list[dict[str, str]] = []
        self.unseen_columns: dict[tuple[int, ...], str] = {}  # of `unseen_column`, by places
        self.k = len(formula.scores.offsets)

    def add_column(self, step: int, expression: str) -> str:
        """Add a column to a step; its name."""
        while len(self.steps) <= step:
            self.steps.append({})
        name = f"c{sum(map(len, self.steps))}"
        self.steps[step][name] = expression
        return name

    def number(self, value: float) -> str:
        return self.dialect.number(float(value))

    def total(self, parts: Sequence[str]) -> str:
        """A sum, in brackets so that no expression is nested deeply."""
        return self.joined(parts, " + ") or self.number(0.0)

    def joined(self, parts: Sequence[str], operator: str) -> str:
        """Terms joined by an operator, in brackets of few at a time."""
        terms = [part for part in parts if part]
        while len(terms) > MAX_OPERANDS:
            terms = [f"({operator.join(terms[i : i + MAX_OPERANDS])})" for i in range(0, len(terms), MAX_OPERANDS)]
        return operator.join(terms)

    # ------------------------------------------------------------------ the whole

    def statement(
        self, table: str | Sequence[str], columns: Mapping[str, str], output: str, keep: Sequence[str]
    ) -> str:
        q, formula = self.dialect.feature, self.formula
        table_names = [table] if isinstance(table, str) else list(table)
        kept_columns = [self.add_column(0, f"t.{q(name)}") for name in keep]
        self.inputs = [
            self.add_column(0, self.dialect.read(source, columns.get(source.column, source.column)))
            for source in formula.inputs
        ]
        self.places = [""] * len(formula.places)
        for i, place in enumerate(formula.places):
            if isinstance(place, ColumnPlace):
                self.places[i] = self.add_column(1, self.column_place(place))
        for i, place in enumerate(formula.places):
            if isinstance(place, Regrouped):
                self.places[i] = self.add_column(
                    2, self.case_by_place(self.places[place.place], list(map(str, place.groups)))
                )
        self.coordinates = [self.coordinate(one) for one in formula.coordinates]
        scores = self.scores(formula.scores)
        top = possible = self.best(scores)
        at = len(self.steps)
        shares = [self.add_column(at, self.exp(f"{score} - {top}")) for score in scores]
        if formula.owner is not None:
            shares = [
                self.add_column(at + 1, self.total([shares[p] for p in np.flatnonzero(formula.owner == c)]))
                for c in range(len(formula.classes))
            ]
        total = self.add_column(at + 2, self.total(shares))
        answers: list[tuple[str, str]] = [(column, q(name)) for column, name in zip(kept_columns, keep, strict=True)]
        minus_infinity = self.number(-np.inf)
        if output in ("proba", "all"):
            prior = np.exp(formula.log_prior)
            for share, label, class_prior in zip(shares, formula.classes, prior, strict=True):
                probability = (
                    f"CASE WHEN {top} = {minus_infinity} THEN {self.number(class_prior)} ELSE {share} / {total} END"
                )
                answers.append((probability, q(proba_column(label))))
        if output in (PREDICTION, "all"):
            if formula.label_scores is not None:
                scores = self.scores(formula.label_scores)
                top = possible = self.best(scores)
            elif formula.owner is not None:
                scores, top = shares, self.best(shares)
            answers.append((self.label(scores, top, f"{possible} = {minus_infinity}"), q(PREDICTION)))
        names = [name for _, name in answers]
        if len(set(map(str.lower, names))) < len(names):
            raise DecibanError(f"two columns of the result would have the same name: {', '.join(names)}")
        return self.assembled(".".join(map(q, table_names)), answers)

    def label(self, scores: Sequence[str], top: str, impossible: str) -> str:
        """The most probable class, or that of the greatest prior where all are impossible."""
        f, literal = self.formula, self.dialect.label
        likeliest = literal(f.classes[int(np.argmax(f.log_prior))])
        whens = " ".join(f"WHEN {one} = {top} THEN {literal(c)}" for one, c in zip(scores, f.classes, strict=True))
        return f"CASE WHEN {impossible} THEN {likeliest} {whens} END"

    def assembled(self, table: str, answers: Sequence[tuple[str, str]]) -> str:
        prefix = "step"
        while prefix in table.lower():  # a step must not have the table's name
            prefix += "_"
        steps = [step for step in self.steps if step]
        if max(sum(map(len, steps)), len(answers)) > self.dialect.max_step_columns:
            raise DecibanError(
                f"the statement would have {sum(map(len, steps)):,} columns in one step, and the limit of "
                f"{self.dialect.name} is {self.dialect.max_step_columns:,}: use another dialect, or score rows "
                f"with predict_proba"
            )
        lines = []
        for i, step in enumerate(steps):
            new = ",\n  ".join(f"{expression} AS {name}" for name, expression in step.items())
            source = f"{table} AS t" if i == 0 else f"{prefix}{i}"
            star = "" if i == 0 else "*, "
            lines.append(f"{prefix}{i + 1} AS {self.dialect.fence}(SELECT {star}{new}\n  FROM {source})")
        final = ",\n  ".join(f"{expression} AS {name}" for expression, name in answers)
        return "WITH " + ",\n".join(lines) + f"\nSELECT {final}\nFROM {prefix}{len(steps)}"

    def best(self, scores: Sequence[str]) -> str:
        return self.add_column(len(self.steps), self.dialect.best(scores))

    def exp(self, value: str) -> str:
        least = self.number(MIN_EXPONENT)
        return f"CASE WHEN {value} > {least} THEN exp({value}) WHEN {value} <= {least} THEN {self.number(0.0)} END"

    # ------------------------------------------------------------------ places and coordinates

    def column_place(self, place: ColumnPlace) -> str:
        x = self.inputs[place.input]
        if place.cuts is not None:
            whens = [f"WHEN {x} <= {self.number(cut)} THEN {i}" for i, cut in enumerate(place.cuts, 1)]
            return f"CASE WHEN {x} IS NULL THEN 0 {' '.join(whens)} ELSE {len(place.cuts) + 1} END"
        numbers = self.formula.inputs[place.input].kind not in ("text", "month", "weekday")
        literals = [self.number(value) if numbers else self.dialect.text(str(value)) for value in place.values]
        whens = [f"WHEN {value} THEN {i}" for i, value in enumerate(literals, 1) if value is not None]
        unseen = str(len(place.values) + 1)
        code = f"CASE {x} {' '.join(whens)} ELSE {unseen} END" if whens else unseen
        return f"CASE WHEN {x} IS NULL THEN 0 ELSE {code} END"

    def case_by_place(self, place: str, values: Sequence[str]) -> str:
        """A CASE over places; the most common value is its ELSE."""
        common = max(dict.fromkeys(values), key=values.count)  # if tied the first: the same text every time
        if values.count(common) == len(values):
            return common
        same: dict[str, list[int]] = {}
        for i, value in enumerate(values):
            same.setdefault(value, []).append(i)
        del same[common]
        if all(len(at) == 1 for at in same.values()):
            return f"CASE {place} {' '.join(f'WHEN {at[0]} THEN {v}' for v, at in same.items())} ELSE {common} END"
        whens = [f"WHEN {self.is_among(place, at, len(values))} THEN {value}" for value, at in same.items()]
        return f"CASE {' '.join(whens)} ELSE {common} END"

    def coordinate(self, one: Coordinate) -> str:
        if isinstance(one, AsIs):
            return self.inputs[one.input]
        if isinstance(one, Scaled):
            x = self.inputs[one.input]
            z = self.clipped(f"({x} - {self.number(one.mean)}) / {self.number(one.scale)}", one.far)
            return self.add_column(1, f"coalesce({z}, {self.number(0.0)})")
        if isinstance(one, PiecewiseLinear):
            return self.add_column(1, self.piecewise_linear(one))
        return self.add_column(
            2, self.case_by_place(self.places[one.place], [self.number(value) for value in one.values])
        )

    def clipped(self, value: str, limit: float) -> str:
        """Clipped at ±limit; NULL stays NULL, which greatest and least would skip."""
        bound = self.number(limit)
        return f"CASE WHEN {value} > {bound} THEN {bound} WHEN {value} < -{bound} THEN -{bound} ELSE {value} END"

    def at_least(self, value: str, least: float) -> str:
        bound = self.number(least)
        return f"CASE WHEN {value} < {bound} THEN {bound} ELSE {value} END"

    def piecewise_linear(self, one: PiecewiseLinear) -> str:
        x, knots, heights = self.inputs[one.input], one.knots, one.heights
        whens = [
            f"WHEN {x} IS NULL THEN {self.number(0.0)}",
            f"WHEN {x} <= {self.number(knots[0])} THEN {self.number(heights[0])}",
        ]
        for i in range(1, len(knots)):
            slope = (heights[i] - heights[i - 1]) / (knots[i] - knots[i - 1])
            line = f"{self.number(heights[i - 1])} + ({x} - {self.number(knots[i - 1])}) * {self.number(slope)}"
            whens.append(f"WHEN {x} <= {self.number(knots[i])} THEN {line}")
        return f"CASE {' '.join(whens)} ELSE {self.number(heights[-1])} END"

    # ------------------------------------------------------------------ scores and terms

    def scores(self, scores: Scores) -> list[str]:
        """A column of scores for each class, in a step of their own."""
        terms, step = [[self.number(offset)] for offset in scores.offsets], FIRST_TERM_STEP
        for part in scores.parts:
            expressions, part_step = self.weighted(part)
            step = max(step, part_step)
            for class_terms, expression in zip(terms, expressions, strict=True):
                class_terms.append(expression)
        return [self.add_column(step, self.total(class_terms)) for class_terms in terms]

    def weighted(self, part: WeightedTerm) -> ByClass:
        """weight × a term; with `limit`, the term minus that of the best class, but at least −limit."""
        possible = possible_classes(part.term, self.k)
        if part.limit is None:
            expressions, step = self.term(part.term)
            return [
                f"({own})" if alive else self.number(-np.inf) for own, alive in zip(expressions, possible, strict=True)
            ], step
        expressions, step = self.term(part.term, relative=True)
        names = [self.add_column(step, own) if own else self.number(0.0) for own in expressions]
        best = self.add_column(step + 1, self.dialect.best([names[c] for c in np.flatnonzero(possible)]))
        out = [f"{self.number(-part.limit * part.weight)} + 0 * {best}"] * self.k  # a class that is ruled out
        for c in np.flatnonzero(possible):
            out[c] = f"{self.number(part.weight)} * {self.at_least(f'{names[c]} - {best}', -part.limit)}"
        return out, step + 2

    def term(self, term: Term, relative: bool = False) -> ByClass:
        """A term for each class. `relative`: minus that of the first class, if that is shorter."""
        if isinstance(term, Slopes):
            return [self.slopes(term, c) for c in range(self.k)], FIRST_TERM_STEP
        if isinstance(term, ColumnGaussians):
            return [self.column_gaussians(term, c) for c in range(self.k)], FIRST_TERM_STEP
        if isinstance(term, Walks):
            each = [[self.walk(walk, c, relative) for walk in term.walks] for c in range(self.k)]
            sums = [self.total(own) if c or not relative else "" for c, own in enumerate(each)]
            if not term.hidden:
                return sums, FIRST_TERM_STEP
            missing, step = self.hidden(term.hidden)
            return [f"{own} + {other}" for own, other in zip(sums, missing, strict=True)], step
        if isinstance(term, SplitTrees):
            each_class = [self.forest(term, c, relative) for c in range(self.k)]
            return [expression for expression, _ in each_class], max(step for _, step in each_class)
        if isinstance(term, Cosines):
            return self.cosines(term)
        return self.quadratic_forms(term)

    def cosines(self, term: Cosines) -> ByClass:
        names, step = [self.coordinates[i] for i in term.coordinates], FIRST_TERM_STEP
        cosines = []
        for f, phase in enumerate(term.phases):
            angle = self.projection(names, term.frequencies[:, f], np.zeros(len(names)))
            cosines.append(self.add_column(step, f"cos({self.number(phase)} + {angle})"))
        unknown = self.total([self.coordinates[i] for i in term.unknown])
        known = self.add_column(step, f"1 - ({unknown})") if term.unknown else ""
        out = [""] * self.k
        for c in np.flatnonzero(np.isfinite(term.offsets)):
            weighted = self.projection(cosines, term.slopes[:, c], np.zeros(len(cosines)))
            out[c] = f"({self.number(term.offsets[c])} + {weighted})" + (f" * {known}" if known else "")
        return out, step + 1

    def slopes(self, term: Slopes, c: int) -> str:
        parts = []
        for j, column in enumerate(term.inputs):
            x, zero, slope = self.inputs[column], term.zero[c, j], term.slope[c, j]
            if zero or slope:
                plus = f" + {self.number(zero)}" if zero else ""
                parts.append(f"coalesce({x} * {self.number(slope)}{plus}, {self.number(0.0)})")
            if term.never[c, j]:
                parts.append(f"CASE WHEN {x} > 0 THEN {self.number(-np.inf)} ELSE {self.number(0.0)} END")
        return self.total(parts)

    def column_gaussians(self, term: ColumnGaussians, c: int) -> str:
        parts = []
        for j, column in enumerate(term.inputs):
            deviation = f"{self.inputs[column]} - {self.number(term.mean[c, j])}"
            quadratic = f"{self.number(term.precision[c, j])} * power({deviation}, 2)"
            if term.power is not None:
                quadratic = f"{self.number(term.power[c, j])} * ln(1 + {quadratic})"
            parts.append(f"coalesce({self.number(term.constant[c, j])} - {quadratic}, {self.number(0.0)})")
        return self.total(parts)

    def walk(self, walk: Walk, c: int, relative: bool) -> str:
        values = walk.values[:, :, c] - (walk.values[:, :, 0] if relative else 0.0)

        def branch(node: int, t: int) -> str:
            leaf = self.case_by_place(self.places[walk.own], [self.number(value) for value in values[node]])
            next_nodes = walk.steps[t][node] if t < len(walk.steps) else np.zeros(0)
            whens = [
                f"WHEN {place} THEN {branch(int(next_nodes[place]), t + 1)}" for place in np.flatnonzero(next_nodes > 0)
            ]
            return f"CASE {self.places[walk.given[t]]} {' '.join(whens)} ELSE {leaf} END" if whens else leaf

        return branch(0, 0) if values.any() else ""

    def hidden(self, columns: Sequence[HiddenParent]) -> ByClass:
        """log Σ_v P(v | given) Π_children P(child | v) for missing columns, from the leaves to the roots."""
        likelihoods: list[list[list[str]]] = []  # by column, class and value: of its children
        steps: list[int] = []
        terms: list[list[str]] = [[] for _ in range(self.k)]
        for parent in columns:
            own, values = self.places[parent.own], parent.probabilities.shape[1]
            step = max([FIRST_TERM_STEP, *(steps[child.hidden] + 1 for child in parent.below if child.hidden >= 0)])
            by_class = []
            for c in range(self.k):
                products = [
                    self.joined(
                        [self.child_likelihood(columns, likelihoods, child, v, c) for child in parent.below], " * "
                    )
                    for v in range(values)
                ]
                by_class.append(
                    [self.add_column(step, f"CASE WHEN {own} = 0 THEN {product} END") for product in products]
                )
                sums = [
                    self.total(
                        [
                            f"{self.number(prior)} * {name}"
                            for name, prior in zip(by_class[c], by_value[:, c], strict=True)
                        ]
                    )
                    for by_value in parent.probabilities
                ]
                if parent.passes:
                    sums[0] = "NULL"
                sum_given = sums[0] if parent.given < 0 else self.case_by_place(self.places[parent.given], sums)
                total = self.add_column(step + 1, f"CASE WHEN {own} = 0 THEN {sum_given} END")
                zero, minus_infinity = self.number(0.0), self.number(-np.inf)
                terms[c].append(
                    f"CASE WHEN {total} IS NULL THEN {zero} WHEN {total} > 0 THEN ln({total}) ELSE {minus_infinity} END"
                )
            likelihoods.append(by_class)
            steps.append(step)
        return [self.total(own) for own in terms], max(steps) + 2

    def child_likelihood(
        self, columns: Sequence[HiddenParent], likelihoods: list[list[list[str]]], child: ChildOfHidden, v: int, c: int
    ) -> str:
        """The likelihood of a column's place where its missing parent has the value v."""
        present = self.case_by_place(self.places[child.own], [self.number(share) for share in child.shares[v, :, c]])
        if child.hidden < 0:
            return present
        probabilities = columns[child.hidden].probabilities[1 + v, :, c]
        missing = self.total(
            [
                f"{self.number(prior)} * {name}"
                for name, prior in zip(likelihoods[child.hidden][c], probabilities, strict=True)
            ]
        )
        return f"CASE WHEN {self.places[child.own]} = 0 THEN {missing} ELSE {present} END"

    def forest(self, term: SplitTrees, c: int, relative: bool) -> tuple[str, int]:
        """The sum over the trees. Where CASEs are nested too deeply, the lower ones go into an earlier step."""
        if relative and c == 0:
            return "", FIRST_TERM_STEP
        values = term.values[:, c] - (term.values[:, 0] if relative else 0.0)
        roots, last = [], FIRST_TERM_STEP
        for nodes in nodes_by_tree(term.trees):
            # By node: the expression, its depth, and the first step that can use it.
            by_node: dict[int, tuple[str, int, int]] = {}
            for node in reversed(nodes):
                if term.place[node] < 0:
                    by_node[node] = (self.number(values[node]), 0, FIRST_TERM_STEP)
                    continue
                left, right = by_node.pop(int(term.left[node])), by_node.pop(int(term.right[node]))
                text = self.split(term, node, self.number(values[node]), left[0], right[0])
                depth, step = max(left[1], right[1]) + 1, max(left[2], right[2])
                if depth >= self.dialect.max_case_depth:
                    text, depth, step = self.add_column(step, text), 0, step + 1
                by_node[node] = (text, depth, step)
            text, _, step = by_node[nodes[0]]
            roots.append(text)
            last = max(last, step)
        return self.total(roots), last

    def split(self, term: SplitTrees, node: int, own: str, left: str, right: str) -> str:
        """The value of a row at a node: the node's own, if the row ends here, or that of one of its sides."""
        column, place = int(term.place[node]), self.places[term.place[node]]
        ends, goes_left = term.ends[column], term.lefts[node] & ~term.ends[column]
        own_case = f"WHEN {self.is_among(place, np.flatnonzero(ends), len(ends))} THEN {own} " if ends.any() else ""
        if ends.all():
            return own
        if not goes_left.any() or (goes_left | ends).all():  # all known values go to one side
            side = left if goes_left.any() else right
            return f"CASE {own_case}ELSE {side} END" if own_case else side
        when = self.is_among(place, np.flatnonzero(goes_left), len(goes_left), ends)
        return f"CASE {own_case}WHEN {when} THEN {left} ELSE {right} END"

    def quadratic_forms(self, term: QuadraticForms) -> ByClass:
        step, shared = FIRST_TERM_STEP, len(term.root) == 1
        centred = all(not isinstance(self.formula.coordinates[i], AsIs) for i in term.coordinates)
        centre = np.zeros(term.mean.shape[1]) if centred else term.mean.mean(axis=0)
        names = [self.coordinates[i] for i in term.coordinates]
        unseen, whitened = self.unseen_column(term), []
        if shared:  # one projection of the coordinates for all parts
            whitened = [self.add_column(step, self.projection(names, row, centre)) for row in term.root[0]]
            step += 1
        densities = []
        for p, mean in enumerate(term.mean):
            if shared:
                middles = term.root[0] @ (mean - centre)
                q = self.total([f"power({w} - {self.number(m)}, 2)" for w, m in zip(whitened, middles, strict=True)])
            else:
                q = self.total(self.squares(names, term.root[p], mean, centred))
            turns = [one.turn[p if len(one.turn) > 1 else 0] for one in term.absent]
            removed = [self.total(self.squares(names, turn, mean, centred)) for turn in turns]
            densities.append(self.density(term, p, q, unseen, removed))
        if len(set(term.owner.tolist())) < len(term.owner):
            return self.mixture(term, densities, step)
        out = [""] * self.k
        for c, density in zip(term.owner, densities, strict=True):
            out[c] = density
        return out, step

    def density(self, term: QuadraticForms, p: int, q: str, unseen: str, removed: Sequence[str]) -> str:
        """log p(x | part), from its form, less the part of a column whose value was never seen."""
        constants, powers = [term.constant[p]], [0.5 if term.power is None else term.power[p]]
        for one in term.absent:
            constants.append(one.constant[p])
            powers.append(0.5 if one.power is None else one.power[p])
        if removed:
            whens = " ".join(f"WHEN {i} THEN {form}" for i, form in enumerate(removed, 1))
            q = f"{q} - CASE {unseen} {whens} ELSE {self.number(0.0)} END"
        distance = f"({q})" if term.scale is None else f"ln(1 + {self.number(term.scale[p])} * ({q}))"
        constant = self.case_by_place(unseen, [self.number(value + term.share[p]) for value in constants])
        form = f"{constant} - ({self.case_by_place(unseen, [self.number(value) for value in powers])}) * {distance}"
        return f"CASE WHEN {unseen} >= 0 THEN {form} END" if unseen else form

    def unseen_column(self, term: QuadraticForms) -> str:
        """Which column's value was never seen, from 1 on; 0 if there is none, NULL if there are several."""
        if not term.absent:
            return ""
        key = tuple(one.place for one in term.absent)
        if key not in self.unseen_columns:
            places = [(self.places[one.place], np.flatnonzero(one.never), len(one.never)) for one in term.absent]
            conditions = [self.is_among(*one) for one in places]
            count = self.total([f"CASE WHEN {condition} THEN 1 ELSE 0 END" for condition in conditions])
            first = " ".join(f"WHEN {condition} THEN {i}" for i, condition in enumerate(conditions, 1))
            self.unseen_columns[key] = self.add_column(2, f"CASE WHEN {count} > 1 THEN NULL {first} ELSE 0 END")
        return self.unseen_columns[key]

    def squares(self, names: Sequence[str], turn: Floats, mean: Floats, centred: bool) -> list[str]:
        """The squares whose sum is a form; coordinates near zero (`centred`) need not be taken about the mean."""
        if not centred:
            return [f"power({self.projection(names, row, mean)}, 2)" for row in turn]
        origin = np.zeros(len(mean))
        return [
            f"power({self.projection(names, row, origin)} - {self.number(offset)}, 2)"
            for row, offset in zip(turn, turn @ mean, strict=True)
        ]

    def projection(self, names: Sequence[str], row: Floats, centre: Floats) -> str:
        """The product of a row of a root and the coordinates about a centre."""
        parts = [
            f"{self.number(weight)} * " + (f"({name} - {self.number(offset)})" if offset else name)
            for name, weight, offset in zip(names, row, centre, strict=True)
            if weight
        ]
        return f"({self.total(parts)})"

    def mixture(self, term: QuadraticForms, densities: Sequence[str], step: int) -> ByClass:
        """log Σ exp over each class's parts."""
        names = [self.add_column(step, density) for density in densities]
        out = []
        for c in range(self.k):
            parts = [names[p] for p in np.flatnonzero(term.owner == c)]
            if len(parts) > 1:
                top = self.add_column(step + 1, self.dialect.best(parts))
                out.append(f"{top} + ln({self.total([self.exp(f'{one} - {top}') for one in parts])})")
            else:
                out.append(parts[0] if parts else "")
        return out, step + 2

    def is_among(self, place: str, at: Array | Sequence[int], size: int, besides: Array | None = None) -> str:
        """Whether a place is one of those `at`, out of `size`, in the shortest form; it is none of those `besides`.

        DuckDB makes a join of every IN, and there would be thousands, so the places are bits of an integer.
        """
        wanted = [int(i) for i in at]
        excluded = set() if besides is None else set(np.flatnonzero(besides).tolist())
        others = sorted(set(range(size)) - set(wanted) - excluded)
        if not wanted or not others:
            return "1 = 1" if wanted else "1 = 0"
        if wanted[-1] < others[0]:
            return f"{place} <= {wanted[-1]}"
        if others[-1] < wanted[0]:
            return f"{place} > {others[-1]}"
        if len(wanted) == 1:
            return f"{place} = {wanted[0]}"
        if len(others) == 1:
            return f"{place} <> {others[0]}"
        if wanted[-1] < MASK_BITS:
            bit_set = f"({self.dialect.whole(sum(1 << i for i in wanted))} >> {place}) & 1 = 1"
            return bit_set if size <= MASK_BITS else f"({place} < {MASK_BITS} AND {bit_set})"
        return "(" + " OR ".join(f"{place} = {i}" for i in wanted) + ")"
