"""A formula as one SELECT: a chain of steps, each of which adds columns to the one before.

rows are read → values are placed → experts speak → scores add up → exp(score − the greatest) → shares of their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from deciban._typing import Array, Floats
from deciban.dialects import FORMULAS, FormulaDialect
from deciban.errors import DecibanError
from deciban.formula import (
    AsIs,
    Bells,
    Below,
    Bent,
    ColumnPlace,
    Coordinate,
    Forms,
    Formula,
    HiddenParent,
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
from deciban.show import plain

OUTPUTS = ("proba", "label", "all")
MOST_NUMBERS = 400_000  # in a statement; with more of them databases take minutes to read it
TOGETHER = 24  # terms of a sum side by side: databases go down one level of an expression for each
SPEAK = 3  # the first step in which terms speak: before it, rows are read, placed, and regrouped
BITS = 62  # places that a whole number has bits for
SMALLEST = -700.0  # nats: exp of less is as good as nothing, and an error in PostgreSQL

Said: TypeAlias = "tuple[list[str], int]"  # an expression for each class, and the first step that it can stand in


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

    `columns` says what a feature is called in the database, where that is something else; `keep` are columns that the
    answer is to have as well, such as a key.
    """
    if dialect not in FORMULAS:
        raise DecibanError(f"dialect is {dialect!r}: it must be one of {', '.join(map(repr, FORMULAS))}")
    if output not in OUTPUTS:
        raise DecibanError(f"output is {output!r}: it must be one of {', '.join(map(repr, OUTPUTS))}")
    if formula.cells > MOST_NUMBERS:
        raise DecibanError(
            f"the statement would have about {formula.cells:,} numbers in it, and databases are not made for more than "
            f"{MOST_NUMBERS:,}: score rows with predict_proba, or learn from fewer columns or a smaller table"
        )
    return StatementWriter(formula, FORMULAS[dialect]).statement(table, columns or {}, output, keep)


class StatementWriter:
    """A statement while it is written: steps of named columns, each step from the one before."""

    def __init__(self, formula: Formula, dialect: FormulaDialect) -> None:
        self.formula, self.dialect = formula, dialect
        self.steps: list[dict[str, str]] = []
        self.absent: dict[tuple[int, ...], str] = {}  # columns of what `which` says
        self.k = len(formula.scores.offsets)

    def put(self, step: int, said: str) -> str:
        """A new column in a step; its name."""
        while len(self.steps) <= step:
            self.steps.append({})
        name = f"c{sum(map(len, self.steps))}"
        self.steps[step][name] = said
        return name

    def number(self, value: float) -> str:
        return self.dialect.number(float(value))

    def total(self, parts: Sequence[str]) -> str:
        """A sum, in which no expression is deep."""
        return self.joined(parts, " + ") or self.number(0.0)

    def joined(self, parts: Sequence[str], by: str) -> str:
        """Terms side by side, few at a time."""
        said = [part for part in parts if part]
        while len(said) > TOGETHER:
            said = [f"({by.join(said[i : i + TOGETHER])})" for i in range(0, len(said), TOGETHER)]
        return by.join(said)

    # ------------------------------------------------------------------ the whole

    def statement(
        self, table: str | Sequence[str], columns: Mapping[str, str], output: str, keep: Sequence[str]
    ) -> str:
        q, f = self.dialect.feature, self.formula
        named = [table] if isinstance(table, str) else list(table)
        kept = [self.put(0, f"t.{q(name)}") for name in keep]
        self.inputs = [self.put(0, self.dialect.read(one, columns.get(one.column, one.column))) for one in f.inputs]
        self.places = [""] * len(f.places)
        for i, place in enumerate(f.places):
            if isinstance(place, ColumnPlace):
                self.places[i] = self.put(1, self.placed(place))
        for i, place in enumerate(f.places):
            if isinstance(place, Regrouped):
                self.places[i] = self.put(2, self.chosen(self.places[place.place], list(map(str, place.groups))))
        self.coordinates = [self.coordinate(one) for one in f.coordinates]
        scores = self.scores(f.scores)
        top = possible = self.best(scores)
        at = len(self.steps)
        shares = [self.put(at, self.exp(f"{one} - {top}")) for one in scores]
        if f.owner is not None:
            shares = [
                self.put(at + 1, self.total([shares[p] for p in np.flatnonzero(f.owner == c)]))
                for c in range(len(f.classes))
            ]
        total = self.put(at + 2, self.total(shares))
        answers: list[tuple[str, str]] = [(name, q(called)) for name, called in zip(kept, keep, strict=True)]
        never = self.number(-np.inf)
        if output in ("proba", "all"):
            prior = np.exp(f.log_prior)
            for share, label, alone in zip(shares, f.classes, prior, strict=True):
                said = f"CASE WHEN {top} = {never} THEN {self.number(alone)} ELSE {share} / {total} END"
                answers.append((said, q(f"proba_{plain(label)}")))
        if output in ("label", "all"):
            if f.decided is not None:
                scores = self.scores(f.decided)
                top = possible = self.best(scores)
            elif f.owner is not None:
                scores, top = shares, self.best(shares)
            answers.append((self.label(scores, top, f"{possible} = {never}"), q("label")))
        called = [name for _, name in answers]
        if len(set(map(str.lower, called))) < len(called):
            raise DecibanError(f"two columns of the answer would have the same name: {', '.join(called)}")
        return self.written(".".join(map(q, named)), answers)

    def label(self, scores: Sequence[str], top: str, impossible: str) -> str:
        """The likeliest class, or that of the greatest prior where nothing is possible."""
        f, say = self.formula, self.dialect.label
        likeliest = say(f.classes[int(np.argmax(f.log_prior))])
        whens = " ".join(f"WHEN {one} = {top} THEN {say(c)}" for one, c in zip(scores, f.classes, strict=True))
        return f"CASE WHEN {impossible} THEN {likeliest} {whens} END"

    def written(self, table: str, answers: Sequence[tuple[str, str]]) -> str:
        prefix = "step"
        while prefix in table.lower():  # a step must not take the table's name
            prefix += "_"
        steps = [step for step in self.steps if step]
        if max(sum(map(len, steps)), len(answers)) > self.dialect.widest:
            raise DecibanError(
                f"the statement would have {sum(map(len, steps)):,} columns side by side, and {self.dialect.name} "
                f"takes {self.dialect.widest:,}: use another dialect, or score rows with predict_proba"
            )
        lines = []
        for i, step in enumerate(steps):
            new = ",\n  ".join(f"{said} AS {name}" for name, said in step.items())
            source = f"{table} AS t" if i == 0 else f"{prefix}{i}"
            star = "" if i == 0 else "*, "
            lines.append(f"{prefix}{i + 1} AS {self.dialect.fence}(SELECT {star}{new}\n  FROM {source})")
        final = ",\n  ".join(f"{said} AS {name}" for said, name in answers)
        return "WITH " + ",\n".join(lines) + f"\nSELECT {final}\nFROM {prefix}{len(steps)}"

    def best(self, scores: Sequence[str]) -> str:
        return self.put(len(self.steps), self.dialect.best(scores))

    def exp(self, said: str) -> str:
        least = self.number(SMALLEST)
        return f"CASE WHEN {said} > {least} THEN exp({said}) WHEN {said} <= {least} THEN {self.number(0.0)} END"

    # ------------------------------------------------------------------ places and coordinates

    def placed(self, place: ColumnPlace) -> str:
        x = self.inputs[place.input]
        if place.cuts is not None:
            whens = [f"WHEN {x} <= {self.number(cut)} THEN {i}" for i, cut in enumerate(place.cuts, 1)]
            return f"CASE WHEN {x} IS NULL THEN 0 {' '.join(whens)} ELSE {len(place.cuts) + 1} END"
        numbers = self.formula.inputs[place.input].kind not in ("text", "month", "weekday")
        said = [self.number(value) if numbers else self.dialect.text(str(value)) for value in place.values]
        whens = [f"WHEN {value} THEN {i}" for i, value in enumerate(said, 1) if value is not None]
        unseen = str(len(place.values) + 1)
        found = f"CASE {x} {' '.join(whens)} ELSE {unseen} END" if whens else unseen
        return f"CASE WHEN {x} IS NULL THEN 0 ELSE {found} END"

    def chosen(self, place: str, values: Sequence[str]) -> str:
        """One of several, by place; the commonest of them stands last."""
        common = max(dict.fromkeys(values), key=values.count)  # of equals the first: the same text every time
        if values.count(common) == len(values):
            return common
        same: dict[str, list[int]] = {}
        for i, value in enumerate(values):
            same.setdefault(value, []).append(i)
        del same[common]
        if all(len(at) == 1 for at in same.values()):
            return f"CASE {place} {' '.join(f'WHEN {at[0]} THEN {v}' for v, at in same.items())} ELSE {common} END"
        whens = [f"WHEN {self.among(place, at, len(values))} THEN {value}" for value, at in same.items()]
        return f"CASE {' '.join(whens)} ELSE {common} END"

    def coordinate(self, one: Coordinate) -> str:
        if isinstance(one, AsIs):
            return self.inputs[one.input]
        if isinstance(one, Scaled):
            x = self.inputs[one.input]
            z = self.clipped(f"({x} - {self.number(one.mean)}) / {self.number(one.scale)}", one.far)
            return self.put(1, f"coalesce({z}, {self.number(0.0)})")
        if isinstance(one, Bent):
            return self.put(1, self.bent(one))
        return self.put(2, self.chosen(self.places[one.place], [self.number(value) for value in one.values]))

    def clipped(self, said: str, most: float) -> str:
        """None further from zero than `most`; NULL stays NULL, which greatest and least would pass over."""
        end = self.number(most)
        return f"CASE WHEN {said} > {end} THEN {end} WHEN {said} < -{end} THEN -{end} ELSE {said} END"

    def bent(self, one: Bent) -> str:
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

    # ------------------------------------------------------------------ what is said

    def scores(self, scores: Scores) -> list[str]:
        """A column of scores for each class, in a step of their own."""
        said, step = [[self.number(offset)] for offset in scores.offsets], SPEAK
        for part in scores.parts:
            own, after = self.weighed(part)
            step = max(step, after)
            for mine, one in zip(said, own, strict=True):
                mine.append(one)
        return [self.put(step, self.total(mine)) for mine in said]

    def weighed(self, part: WeightedTerm) -> Said:
        """weight × what a term says of each class; with `most`, about the mean, and none beyond it."""
        there = live(part.term, self.k) if isinstance(part.term, Forms) else np.ones(self.k, dtype=bool)
        if part.most is None:
            said, step = self.term(part.term)
            return [f"({own})" if here else self.number(-np.inf) for own, here in zip(said, there, strict=True)], step
        said, step = self.term(part.term, relative=True)
        names = [self.put(step, own) if own else "" for own in said]
        middle = self.put(step + 1, f"({self.total(names)}) / {self.number(there.sum())}")
        out = [f"{self.number(-part.most * part.weight)} + 0 * {middle}"] * self.k  # a class that is ruled out
        for c in np.flatnonzero(there):
            gap = f"{names[c] or self.number(0.0)} - {middle}"
            out[c] = f"{self.number(part.weight)} * {self.clipped(gap, part.most)}"
        return out, step + 2

    def term(self, term: Term, relative: bool = False) -> Said:
        """What a term says of each class. `relative`: beside what it says of the first, where that is shorter."""
        if isinstance(term, Slopes):
            return [self.slopes(term, c) for c in range(self.k)], SPEAK
        if isinstance(term, Bells):
            return [self.bells(term, c) for c in range(self.k)], SPEAK
        if isinstance(term, Walks):
            each = [[self.walk(walk, c, relative) for walk in term.walks] for c in range(self.k)]
            said = [self.total(own) if c or not relative else "" for c, own in enumerate(each)]
            if not term.hidden:
                return said, SPEAK
            missing, step = self.hidden(term.hidden)
            return [f"{own} + {other}" for own, other in zip(said, missing, strict=True)], step
        if isinstance(term, SplitTrees):
            each_class = [self.forest(term, c, relative) for c in range(self.k)]
            return [said for said, _ in each_class], max(step for _, step in each_class)
        return self.forms(term)

    def slopes(self, term: Slopes, c: int) -> str:
        parts = []
        for j, one in enumerate(term.inputs):
            x, zero, slope = self.inputs[one], term.zero[c, j], term.slope[c, j]
            if zero or slope:
                plus = f" + {self.number(zero)}" if zero else ""
                parts.append(f"coalesce({x} * {self.number(slope)}{plus}, {self.number(0.0)})")
            if term.never[c, j]:
                parts.append(f"CASE WHEN {x} > 0 THEN {self.number(-np.inf)} ELSE {self.number(0.0)} END")
        return self.total(parts)

    def bells(self, term: Bells, c: int) -> str:
        parts = []
        for j, one in enumerate(term.inputs):
            gap = f"{self.inputs[one]} - {self.number(term.mean[c, j])}"
            said = f"{self.number(term.precision[c, j])} * power({gap}, 2)"
            if term.power is not None:
                said = f"{self.number(term.power[c, j])} * ln(1 + {said})"
            parts.append(f"coalesce({self.number(term.constant[c, j])} - {said}, {self.number(0.0)})")
        return self.total(parts)

    def walk(self, walk: Walk, c: int, relative: bool) -> str:
        values = walk.values[:, :, c] - (walk.values[:, :, 0] if relative else 0.0)

        def at(node: int, t: int) -> str:
            alone = self.chosen(self.places[walk.own], [self.number(value) for value in values[node]])
            ways = walk.steps[t][node] if t < len(walk.steps) else np.zeros(0)
            whens = [f"WHEN {place} THEN {at(int(ways[place]), t + 1)}" for place in np.flatnonzero(ways > 0)]
            return f"CASE {self.places[walk.given[t]]} {' '.join(whens)} ELSE {alone} END" if whens else alone

        return at(0, 0) if values.any() else ""

    def hidden(self, columns: Sequence[HiddenParent]) -> Said:
        """log Σ_v P(v | given) Π what hangs on a missing column says of v, from the leaves to the roots."""
        likely: list[list[list[str]]] = []  # by column, class and value: what those that hang on it say of it
        at: list[int] = []
        said: list[list[str]] = [[] for _ in range(self.k)]
        for one in columns:
            own, values = self.places[one.own], one.laws.shape[1]
            step = max([SPEAK, *(at[each.hidden] + 1 for each in one.below if each.hidden >= 0)])
            names = []
            for c in range(self.k):
                products = [
                    self.joined([self.below(columns, likely, each, v, c) for each in one.below], " * ")
                    for v in range(values)
                ]
                names.append([self.put(step, f"CASE WHEN {own} = 0 THEN {product} END") for product in products])
                sums = [
                    self.total([f"{self.number(by)} * {name}" for name, by in zip(names[c], law[:, c], strict=True)])
                    for law in one.laws
                ]
                if one.passes:
                    sums[0] = "NULL"
                given = sums[0] if one.given < 0 else self.chosen(self.places[one.given], sums)
                found = self.put(step + 1, f"CASE WHEN {own} = 0 THEN {given} END")
                nothing, never = self.number(0.0), self.number(-np.inf)
                said[c].append(
                    f"CASE WHEN {found} IS NULL THEN {nothing} WHEN {found} > 0 THEN ln({found}) ELSE {never} END"
                )
            likely.append(names)
            at.append(step)
        return [self.total(own) for own in said], max(at) + 2

    def below(self, columns: Sequence[HiddenParent], likely: list[list[list[str]]], one: Below, v: int, c: int) -> str:
        """What a column says of the value v of the one that it hangs on."""
        here = self.chosen(self.places[one.own], [self.number(share) for share in one.shares[v, :, c]])
        if one.hidden < 0:
            return here
        laws = columns[one.hidden].laws[1 + v, :, c]
        gone = self.total([f"{self.number(by)} * {name}" for name, by in zip(likely[one.hidden][c], laws, strict=True)])
        return f"CASE WHEN {self.places[one.own]} = 0 THEN {gone} ELSE {here} END"

    def forest(self, term: SplitTrees, c: int, relative: bool) -> tuple[str, int]:
        """The sum over the trees. Where CASE inside of CASE gets too deep, what is below stands in a step before."""
        if relative and c == 0:
            return "", SPEAK
        values = term.values[:, c] - (term.values[:, 0] if relative else 0.0)
        roots, last = [], SPEAK
        for nodes in spans(term.trees):
            said: dict[int, tuple[str, int, int]] = {}  # the expression, how deep it is, and the step it can stand in
            for node in reversed(nodes):
                if term.place[node] < 0:
                    said[node] = (self.number(values[node]), 0, SPEAK)
                    continue
                one, two = said.pop(int(term.left[node])), said.pop(int(term.right[node]))
                text = self.split(term, node, self.number(values[node]), one[0], two[0])
                deep, step = max(one[1], two[1]) + 1, max(one[2], two[2])
                if deep >= self.dialect.deepest:
                    text, deep, step = self.put(step, text), 0, step + 1
                said[node] = (text, deep, step)
            text, _, step = said[nodes[0]]
            roots.append(text)
            last = max(last, step)
        return self.total(roots), last

    def split(self, term: SplitTrees, node: int, here: str, left: str, right: str) -> str:
        """What is said at a node: here, where the row ends, or on one of its sides."""
        at, place = int(term.place[node]), self.places[term.place[node]]
        ends, goes = term.ends[at], term.lefts[node] & ~term.ends[at]
        stop = f"WHEN {self.among(place, np.flatnonzero(ends), len(ends))} THEN {here} " if ends.any() else ""
        if ends.all():
            return here
        if not goes.any() or (goes | ends).all():  # values that are known all go one way
            return f"CASE {stop}ELSE {left if goes.any() else right} END" if stop else left if goes.any() else right
        when = self.among(place, np.flatnonzero(goes), len(goes), ends)
        return f"CASE {stop}WHEN {when} THEN {left} ELSE {right} END"

    def forms(self, term: Forms) -> Said:
        step, shared = SPEAK, len(term.root) == 1
        near = all(not isinstance(self.formula.coordinates[i], AsIs) for i in term.coordinates)
        centre = np.zeros(term.mean.shape[1]) if near else term.mean.mean(axis=0)
        names = [self.coordinates[i] for i in term.coordinates]
        which, white = self.which(term), []
        if shared:  # one turn of the coordinates for all parts
            white = [self.put(step, self.turned(names, row, centre)) for row in term.root[0]]
            step += 1
        densities = []
        for p, mean in enumerate(term.mean):
            if shared:
                middles = term.root[0] @ (mean - centre)
                q = self.total([f"power({w} - {self.number(m)}, 2)" for w, m in zip(white, middles, strict=True)])
            else:
                q = self.total(self.squares(names, term.root[p], mean, near))
            turns = [one.turn[p if len(one.turn) > 1 else 0] for one in term.absent]
            gone = [self.total(self.squares(names, turn, mean, near)) for turn in turns]
            densities.append(self.density(term, p, q, which, gone))
        if len(set(term.owner.tolist())) < len(term.owner):
            return self.mixed(term, densities, step)
        out = [""] * self.k
        for owner, said in zip(term.owner, densities, strict=True):
            out[owner] = said
        return out, step

    def density(self, term: Forms, p: int, q: str, which: str, gone: Sequence[str]) -> str:
        """log p(x | part), from its form and what of the form a column has a part in that is not there."""
        constants, powers = [term.constant[p]], [0.5 if term.power is None else term.power[p]]
        for one in term.absent:
            constants.append(one.constant[p])
            powers.append(0.5 if one.power is None else one.power[p])
        if gone:
            whens = " ".join(f"WHEN {i} THEN {said}" for i, said in enumerate(gone, 1))
            q = f"{q} - CASE {which} {whens} ELSE {self.number(0.0)} END"
        grown = f"({q})" if term.scale is None else f"ln(1 + {self.number(term.scale[p])} * ({q}))"
        constant = self.chosen(which, [self.number(value + term.share[p]) for value in constants])
        said = f"{constant} - ({self.chosen(which, [self.number(value) for value in powers])}) * {grown}"
        return f"CASE WHEN {which} >= 0 THEN {said} END" if which else said

    def which(self, term: Forms) -> str:
        """Which column's value was never seen, from 1 on, 0 where there is none; NULL where there are several."""
        if not term.absent:
            return ""
        key = tuple(one.place for one in term.absent)
        if key not in self.absent:
            never = [(self.places[one.place], np.flatnonzero(one.never), len(one.never)) for one in term.absent]
            here = [self.among(*one) for one in never]
            many = self.total([f"CASE WHEN {said} THEN 1 ELSE 0 END" for said in here])
            first = " ".join(f"WHEN {said} THEN {i}" for i, said in enumerate(here, 1))
            self.absent[key] = self.put(2, f"CASE WHEN {many} > 1 THEN NULL {first} ELSE 0 END")
        return self.absent[key]

    def squares(self, names: Sequence[str], turn: Floats, mean: Floats, near: bool) -> list[str]:
        """The squares that a form is the sum of; coordinates that lie near zero need not be taken about the mean."""
        if not near:
            return [f"power({self.turned(names, row, mean)}, 2)" for row in turn]
        nowhere = np.zeros(len(mean))
        return [
            f"power({self.turned(names, row, nowhere)} - {self.number(middle)}, 2)"
            for row, middle in zip(turn, turn @ mean, strict=True)
        ]

    def turned(self, names: Sequence[str], row: Floats, centre: Floats) -> str:
        """What a row of a root makes of coordinates about a centre."""
        parts = [
            f"{self.number(by)} * " + (f"({name} - {self.number(middle)})" if middle else name)
            for name, by, middle in zip(names, row, centre, strict=True)
            if by
        ]
        return f"({self.total(parts)})"

    def mixed(self, term: Forms, densities: Sequence[str], step: int) -> Said:
        """log Σ exp over each class's parts."""
        names = [self.put(step, said) for said in densities]
        out = []
        for c in range(self.k):
            mine = [names[p] for p in np.flatnonzero(term.owner == c)]
            if len(mine) > 1:
                top = self.put(step + 1, self.dialect.best(mine))
                out.append(f"{top} + ln({self.total([self.exp(f'{one} - {top}') for one in mine])})")
            else:
                out.append(mine[0] if mine else "")
        return out, step + 2

    def among(self, place: str, at: Array | Sequence[int], size: int, besides: Array | None = None) -> str:
        """Whether a place is one of several, out of `size`, as shortly as can be said; it is none of those `besides`.

        DuckDB makes a join of every IN, of which there would be thousands; so bits say which places are meant.
        """
        here = [int(i) for i in at]
        never = set() if besides is None else set(np.flatnonzero(besides).tolist())
        others = sorted(set(range(size)) - set(here) - never)
        if not here or not others:
            return "1 = 1" if here else "1 = 0"
        if here[-1] < others[0]:
            return f"{place} <= {here[-1]}"
        if others[-1] < here[0]:
            return f"{place} > {others[-1]}"
        if len(here) == 1:
            return f"{place} = {here[0]}"
        if len(others) == 1:
            return f"{place} <> {others[0]}"
        if here[-1] < BITS:
            low = f"({self.dialect.whole(sum(1 << i for i in here))} >> {place}) & 1 = 1"
            return low if size <= BITS else f"({place} < {BITS} AND {low})"
        return "(" + " OR ".join(f"{place} = {i}" for i in here) + ")"
