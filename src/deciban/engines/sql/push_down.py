"""T(x) compiled to SQL: the database computes the sums, and only sums leave it.

One statement is enough: numbers are summed by class in one scan, and rows counted by category in another (by GROUPING
SETS, if the database has them). Summing numbers by category as well would be one scan of many times the work.

Moments are kept about a pivot that all classes share, which costs no more than plain sums. If a class is so far from
it that digits were lost, which the sums show, the statement is run again with a pivot for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from deciban._typing import Floats
from deciban.dialects import SqlDialect
from deciban.engines.base import PushedSums, Question
from deciban.engines.sql.answers import ReceivedSums
from deciban.engines.sql.expressions import (
    ROWS_ALIAS,
    as_exact_text,
    as_label,
    as_number,
    is_date,
    is_number,
    is_text,
    unreadable,
)
from deciban.errors import DecibanError
from deciban.measure import InSql, Measure
from deciban.reading.frames import unknown_column
from deciban.schema import Bins, Columns
from deciban.show import one_line, plain

Run: TypeAlias = Callable[[Sequence[str]], Iterable[Sequence[Any]]]  # statements → the rows of all of them

MAX_SUMS = 50_000  # in a question: with more, fetching rows is faster than parsing the statement
HEAD_COLUMNS = (
    "part",
    "y",
    "gap",
    "a",
    "b",
)  # before the sums: the part, class and categories, and whether rows have missing values
N_HEAD_SUMS = 3  # of each part: rows, their weight, and rows with an invalid weight
MAX_GROUPING_SETS = 250  # in one SELECT


@dataclass(frozen=True, slots=True)
class SumByClass:
    """One number to sum by class: its place in the statistics, the columns it needs, and its sum in SQL."""

    block: int
    name: str  # of the measure; "low" and "high" are MIN and MAX, used only for checks
    place: tuple[int, ...]
    inputs: tuple[int, ...]
    expression: str


@dataclass(frozen=True, slots=True)
class CountByCategory:
    """Rows to count by class and category, or by the categories of a column and its parent."""

    block: int
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pivots:
    """For each block with pivots: one for all classes (1, d), or one for each and the last for others (k + 1, d)."""

    classes: tuple[Any, ...]
    blocks: tuple[Floats | None, ...]

    def of(self, block: int, classes: Sequence[Any]) -> Floats | None:
        """The pivots under which these classes were summed, (k, d)."""
        pivots = self.blocks[block]
        index = {label: row for row, label in enumerate(self.classes)}
        return None if pivots is None else pivots[[index.get(label, -1) for label in classes]]


@dataclass(frozen=True)
class PushDown:
    """Sums computed by a database.

    `source` is a table's quoted name or a SELECT in brackets, `schema` its schema, `rows_named` its name in messages.
    """

    database: SqlDialect
    source: str
    schema: pa.Schema
    rows_named: str = "the table"

    def expressible(self, question: Question) -> str | None:
        """Why the database cannot compute these sums; None if it can."""
        target, sums = self.kind(question.target), 0
        if not (is_text(target) or is_number(target) or pa.types.is_boolean(target)):
            return f"labels of type {target} are read row by row"
        if question.weight is not None and (why := self._not_numbers(question.weight)):
            return why
        for columns, measures in blocks_of(question):
            if columns.names is None:
                return "the columns have no names"
            for j, name in enumerate(columns.names):
                if self.reading(question, columns, j) == "text":
                    if not is_text(self.kind(name)):
                        return f"column {one_line(name)!r} is of type {self.kind(name)}, but is to be read as texts"
                elif why := self._not_numbers(name):
                    return why
            if unknown := next((m for m in measures if not m.pushes_down), None):
                return f"no database adds up {type(unknown).__name__}"
            sums += sum(columns.size ** len(m.shapes(columns)[-1]) for m in measures)
        return f"the statement would have {sums:,} sums" if sums > MAX_SUMS else None

    def answer(self, question: Question, run: Run) -> PushedSums:
        """The sums, computed by the database."""
        means = [shared_pivot(columns) for columns in question.schema.blocks]
        statements = SumStatements(self, question, Pivots((), tuple(means)))
        received = statements.read(run(statements.statements()))
        better = received.better_pivots()
        if better is not None:
            labels = received.classes.tolist()
            expressible = [
                i for i, y in enumerate(labels) if not isinstance(y, str) or self.database.text(y) is not None
            ]
            classes = tuple(labels[i] for i in expressible)
            blocks = [
                None if p is None or m is None else np.vstack([p[expressible], m])
                for p, m in zip(better, means, strict=True)
            ]
            statements = SumStatements(self, question, Pivots(classes, tuple(blocks)))
            received = statements.read(run(statements.statements()))
        return received.pushed()

    def kind(self, name: str) -> pa.DataType:
        if name not in self.schema.names:
            raise DecibanError(unknown_column(name, self.schema.names))
        return self.schema.field(name).type

    def reading(self, question: Question, columns: Columns, j: int) -> str:
        """How a column is read: "text", "boolean" or "number"."""
        assert columns.names is not None
        given, kind = question.kinds.get(columns.names[j], "category"), self.kind(columns.names[j])
        if columns.categories is None or isinstance(columns.categories[j], Bins):
            return "number"
        if given == "boolean" or (given == "category" and pa.types.is_boolean(kind)):
            return "boolean"
        return "number" if given in ("number", "date", "code") or is_number(kind) or is_date(kind) else "text"

    def _not_numbers(self, name: str) -> str | None:
        return unreadable(self.database, name, self.kind(name))


@dataclass(frozen=True)
class SumStatements:
    """The statements of a question under given pivots, and how their rows are read."""

    push_down: PushDown
    question: Question
    pivots: Pivots

    # ------------------------------------------------------------------ sums and counts

    @cached_property
    def inputs(self) -> list[tuple[int, int]]:
        """(block, column) of the columns whose numbers are summed."""
        blocks = enumerate(self.question.schema.blocks)
        return [(b, j) for b, columns in blocks if columns.categories is None for j in range(columns.size)]

    @cached_property
    def complete_inputs(self) -> list[int]:
        """The inputs that must not be missing: rows without one of them are not summed, and are left to EM."""
        blocks = self.question.joint.blocks
        return [i for i, (b, _) in enumerate(self.inputs) if blocks[b].family.whole_rows]

    @cached_property
    def parts(self) -> list[list[SumByClass]]:
        """The sums, in parts no wider than a result can be."""
        room = self.push_down.database.max_result_columns - len(HEAD_COLUMNS) - N_HEAD_SUMS - len(self.complete_inputs)
        sums = list(self._sums())
        return [sums[i : i + room] for i in range(0, len(sums), room)] or [[]]

    @cached_property
    def counts(self) -> list[CountByCategory]:
        """Pairs come first: if rows are counted by two columns, they are counted by one of them as well."""
        blocks = enumerate(blocks_of(self.question))
        counts = [CountByCategory(b, by) for b, (_, measures) in blocks for m in measures for by in m.counted()]
        return sorted(counts, key=lambda one: -len(one.columns))

    def _sums(self) -> Iterator[SumByClass]:
        start = 0
        for b, (columns, measures) in enumerate(blocks_of(self.question)):
            if columns.categories is None:
                in_sql = InSql(self._inputs_from(start), self.number, self.question.weight is not None)
                for m in measures:
                    for place, expression in m.in_sql(columns, in_sql):
                        yield SumByClass(b, m.name, place, tuple(start + j for j in place), expression)
                if not any(m.degree > 1 for m in measures):  # squares already show what is infinite
                    for i in range(start, start + columns.size):
                        yield SumByClass(b, "low", (i - start,), (i,), f"MIN(x{i})")
                        yield SumByClass(b, "high", (i - start,), (i,), f"MAX(x{i})")
                start += columns.size

    def _inputs_from(self, start: int) -> Callable[[int], str]:
        """The names of a block's columns, whose first is input `start`."""
        return lambda j: f"x{start + j}"

    # ------------------------------------------------------------------ statements

    def statements(self) -> list[str]:
        """One statement; several if a database limits the number of SELECTs."""
        width = N_HEAD_SUMS + max(map(len, self.parts))
        selects = [self._summed(p, part, width) for p, part in enumerate(self.parts)]
        step = MAX_GROUPING_SETS if self.push_down.database.grouping_sets else 1
        selects += [self._counted(self.counts[i : i + step], i, width) for i in range(0, len(self.counts), step)]
        limit = self.push_down.database.max_selects
        return ["\nUNION ALL\n".join(selects[i : i + limit]) for i in range(0, len(selects), limit)]

    def _summed(self, part: int, sums: Sequence[SumByClass], width: int) -> str:
        """Sums of numbers, by class."""
        used = sorted({i for one in sums for i in one.inputs} | set(self.complete_inputs))
        null_text = self.empty("text")
        head = (str(part), "y", "gap" if self.complete_inputs else "0", null_text, null_text)
        weight = ("COUNT(*)", "0")
        if self.question.weight is not None:
            weight = ("SUM(w)", "SUM(CASE WHEN w IS NULL OR w < 0 THEN 1 ELSE 0 END)")
        sums_sql = ["COUNT(*)", *weight, *(one.expression for one in sums)]
        group = "y, gap" if self.complete_inputs else "y"
        return f"{self._selected(head, sums_sql, width)}\nFROM {self._rows(used, ())}\nGROUP BY {group}"

    def _counted(self, counts: Sequence[CountByCategory], first: int, width: int) -> str:
        """Rows by class and category. Of several sets of columns, GROUPING shows to which a row belongs."""
        conditions = [" AND ".join(f"GROUPING({self._name(one.block, j)}) = 0" for j in one.columns) for one in counts]

        def by_set(values: Sequence[str], otherwise: str) -> str:
            if set(values) == {"NULL"}:
                return otherwise
            whens = (
                f"WHEN {condition} THEN {value_sql}" for condition, value_sql in zip(conditions, values, strict=True)
            )
            return f"CASE {' '.join(whens)} END" if len(values) > 1 else values[0]

        def value(place: int, text: bool) -> str:
            """The category of a column, or of its parent, if it is of that type."""
            own = [one.columns[place] if place < len(one.columns) else -1 for one in counts]
            values = [
                self._name(one.block, j) if j >= 0 and self._is_text(one.block, j) == text else "NULL"
                for one, j in zip(counts, own, strict=True)
            ]
            return by_set(values, self.empty("text" if text else "double"))

        part = by_set([str(len(self.parts) + first + i) for i in range(len(counts))], "")
        head = (part, "y", "0", value(0, True), value(1, True))
        weight = "COUNT(*)" if self.question.weight is None else "SUM(w)"
        used = sorted({(one.block, j) for one in counts for j in one.columns})
        sets = [f"(y, {', '.join(self._name(one.block, j) for j in one.columns)})" for one in counts]
        group = f"GROUPING SETS ({', '.join(sets)})" if len(sets) > 1 else sets[0][1:-1]
        kept = "y IS NOT NULL AND gap = 0" if self.complete_inputs else "y IS NOT NULL"
        rows = self._rows(self.complete_inputs, used)
        selected = self._selected(head, [weight, value(0, False), value(1, False)], width)
        return f"{selected}\nFROM {rows}\nWHERE {kept}\nGROUP BY {group}"

    def _selected(self, head: Sequence[str], sums_sql: Sequence[str], width: int) -> str:
        """A SELECT as wide as the others, whose columns after the head are doubles."""
        values = [
            self.push_down.database.as_double(expression)
            for expression in [*sums_sql, *["NULL"] * (width - len(sums_sql))]
        ]
        columns = [f"{expression} AS {name}" for expression, name in zip(head, HEAD_COLUMNS, strict=True)]
        columns += [f"{expression} AS v{i}" for i, expression in enumerate(values)]
        return f"SELECT {', '.join(columns)}"

    def _rows(self, inputs: Sequence[int], categories: Sequence[tuple[int, int]]) -> str:
        """Rows as they are read, then numbers about their pivots, and whether a required one is missing."""
        database, question = self.push_down.database, self.question
        read = [(as_label(database, question.target, self.push_down.kind(question.target)), "y")]
        if question.weight is not None:
            read.append((self._number(question.weight), "w"))
        read += [(self._number(self._column(*self.inputs[i])), f"x{i}") for i in inputs]
        read += [(self._category(b, j), self._name(b, j)) for b, j in categories]
        about_pivot = [f"{self._about_pivot(i)} AS x{i}" for i in inputs]
        about_pivot += [self._name(b, j) for b, j in categories]
        if self.complete_inputs:
            missing = " OR ".join(f"x{i} IS NULL" for i in self.complete_inputs)
            about_pivot.append(f"CASE WHEN {missing} THEN 1 ELSE 0 END AS gap")
        inner = ", ".join(f"{expression} AS {name}" for expression, name in read)
        rows = f"(SELECT {inner} FROM {self.push_down.source} AS {ROWS_ALIAS}) AS r"
        kept = ["y"] if question.weight is None else ["y", "w"]
        return f"(SELECT {', '.join([*kept, *about_pivot])} FROM {rows}) AS s"

    def _about_pivot(self, i: int) -> str:
        b, j = self.inputs[i]
        pivots = self.pivots.blocks[b]
        if pivots is None:
            return f"x{i}"
        *each, last = (self.number(value) for value in pivots[:, j])
        if not each:
            return f"x{i} - {last}" if pivots[0, j] else f"x{i}"
        whens = " ".join(f"WHEN {self._label(c)} THEN {p}" for c, p in zip(self.pivots.classes, each, strict=True))
        return f"x{i} - CASE y {whens} ELSE {last} END"

    def _label(self, label: Any) -> str:
        value, database = plain(label), self.push_down.database
        if isinstance(value, str):
            return database.text(value) or "NULL"  # texts that cannot be written are not among these classes
        return ("TRUE" if value else "FALSE") if isinstance(value, bool) and database.has_booleans else str(int(value))

    def _number(self, column: str) -> str:
        return as_number(self.push_down.database, column, self.push_down.kind(column))

    def _category(self, b: int, j: int) -> str:
        """A category as a text or a number, or the number of an interval; "" is one only if it is among the known."""
        known, name = (self.question.schema.blocks[b].categories or ())[j], self._column(b, j)
        if self._is_text(b, j):
            text = as_exact_text(self.push_down.database, name)
            return text if "" in known else f"NULLIF({text}, '')"
        x = self._number(name)
        if isinstance(known, Bins):
            whens = " ".join(f"WHEN {x} <= {self.number(cut)} THEN {i}" for i, cut in enumerate(known.cuts))
            return f"CASE WHEN {x} IS NULL THEN NULL {whens} ELSE {len(known.cuts)} END"
        return x

    def _column(self, b: int, j: int) -> str:
        return self.question.schema.blocks[b].name(j)

    def _name(self, b: int, j: int) -> str:
        return f"c{b}_{j}"

    def _is_text(self, b: int, j: int) -> bool:
        return self.push_down.reading(self.question, self.question.schema.blocks[b], j) == "text"

    def number(self, value: float) -> str:
        return self.push_down.database.constant(value)

    def empty(self, kind: str) -> str:
        """NULL of a type."""
        database = self.push_down.database
        return database.as_string("NULL") if kind == "text" else database.as_double("NULL")

    # ------------------------------------------------------------------ results

    def read(self, rows: Iterable[Sequence[Any]]) -> ReceivedSums:
        """The rows of all statements as sums."""
        blocks = enumerate(self.question.schema.blocks)
        booleans = frozenset(
            (b, j)
            for b, columns in blocks
            for j in range(columns.size)
            if self.push_down.reading(self.question, columns, j) == "boolean"
        )
        target = self.push_down.kind(self.question.target)
        received = ReceivedSums(self.question, target, self.pivots.of, self.push_down.rows_named, booleans)
        for part, y, gap, a, b, *values in rows:
            index = int(part)
            if index < len(self.parts):
                received.add_rows(y, bool(gap), index == 0, values[:N_HEAD_SUMS])
                if y is not None and not gap:
                    for one_sum, value in zip(self.parts[index], values[N_HEAD_SUMS:], strict=False):
                        received.add_sum(y, one_sum.block, one_sum.name, one_sum.place, value)
                continue
            count = self.counts[index - len(self.parts)]
            categories = (values[1] if a is None else a, values[2] if b is None else b)
            received.add_count(y, count.block, count.columns, categories[: len(count.columns)], values[0])
        return received


def blocks_of(question: Question) -> Iterator[tuple[Columns, tuple[Measure, ...]]]:
    """Each block's columns, and T(x) over them."""
    for block, columns in zip(question.joint.blocks, question.schema.blocks, strict=True):
        yield columns, block.family.measures(columns)


def shared_pivot(columns: Columns) -> Floats | None:
    """The mean of the classes' pivots, (1, d); None without pivots."""
    if columns.pivot is None:
        return None
    return columns.pivot.mean(axis=0, keepdims=True) if len(columns.pivot) else np.zeros((1, columns.size))
