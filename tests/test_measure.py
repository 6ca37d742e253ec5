"""A measure is one class: adding up, merging, moving, forgetting, saving and SQL follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import duckdb
import numpy as np
import pytest
import scipy.sparse as sp

import deciban
from deciban.algebra import MAX_PIVOT_DISTANCE, Stats, about_the_means, shift
from deciban.collect import collect
from deciban.corollaries.forget import forget
from deciban.engines.base import Question
from deciban.errors import DecibanError, ForgetError
from deciban.expect import expect
from deciban.families import Geometric, MultivariateGaussian
from deciban.formula import Sketch
from deciban.joint import Block, Joint, Model
from deciban.measure import MEASURES, XX, XXY, XXYY, XY, Above, Measure, One, X, second_moments
from deciban.schema import Columns, Schema


@dataclass(frozen=True)
class LogOnePlus(Measure):
    """log(1 + x): of numbers above −1, and often below zero."""

    name: ClassVar[str] = "log_one_plus"

    def of(self, X, pivot):
        del pivot
        return np.where(np.isnan(X), 0.0, np.log1p(np.where(np.isnan(X), 0.0, X)))

    def shapes(self, columns):
        return ((columns.size,),)

    def signed(self, columns):
        del columns
        return True

    def in_sql(self, columns, sql):
        yield from (((j,), sql.total(f"LN(1 + {sql.x(j)})")) for j in range(columns.size))


@dataclass(frozen=True)
class LogOnePlusWithoutSql(LogOnePlus):
    """The same, without an SQL form."""

    in_sql = Measure.in_sql


class WithLogs(Geometric):
    name = "with_logs"
    measure: ClassVar[type[Measure]] = LogOnePlus

    def measures(self, columns):
        return (*Geometric.measures(self, columns), self.measure())


class WithLogsWithoutSql(WithLogs):
    measure = LogOnePlusWithoutSql


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 3)) < 0.1, np.nan, rng.random((60, 3)) * 2 - 0.5)
    return X, rng.integers(0, 3, 60).astype(np.int32), rng.random(60) + 0.1


JOINT, SCHEMA = Joint((Block(WithLogs()),)), Schema(np.arange(3), (Columns(3),))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("soft", [False, True])
def test_without_a_kernel_sums_are_those_of_the_definition(rows, weighted, layout, soft, monkeypatch):
    monkeypatch.setattr("deciban.collect.ENTRIES_PER_BLOCK", 16)  # several blocks
    X, y, weight = rows
    weight = weight if weighted else np.ones(60)
    labels = np.eye(3)[y] if soft else y
    stats = collect([layout(X)], JOINT, SCHEMA, labels, weight if weighted else None)
    expected = np.array([weight[y == c] @ np.nan_to_num(np.log1p(X[y == c])) for c in range(3)])
    np.testing.assert_allclose(stats.sums[0]["log_one_plus"], expected, rtol=1e-12)
    assert list(stats.sums[0]) == ["one", "x", "log_one_plus"]


def test_its_sums_are_merged_scaled_and_forgotten(rows):
    X, y, _ = np.abs(rows[0]) - 0.2, rows[1], None
    X = np.where(X < 0, 0.0, X)  # x itself is never negative here, log(1 + x) may be
    whole, part = collect([X], JOINT, SCHEMA, y), collect([X[:20]], JOINT, SCHEMA, y[:20])
    rest = collect([X[20:]], JOINT, SCHEMA, y[20:])
    assert (part + rest).same_as(whole)
    assert forget(Model(JOINT, whole), part).stats.same_as(rest)
    assert whole.scale(0.5).sums[0]["log_one_plus"] == pytest.approx(0.5 * whole.sums[0]["log_one_plus"])
    larger = replace(SCHEMA, classes=np.arange(-1, 3))
    assert whole.embed(larger).sums[0]["log_one_plus"][0].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ForgetError, match="learned"):
        forget(Model(JOINT, part), whole)


def test_a_database_adds_it_up(rows):
    X, y, w = rows
    X = np.where(X < 0, 0.25, X)
    table = {f"x{j}": X[:, j] for j in range(3)} | {"y": np.array(["a", "b", "c"])[y], "w": w}
    data = duckdb.connect()
    data.execute("CREATE TABLE t (x0 DOUBLE, x1 DOUBLE, x2 DOUBLE, y TEXT, w DOUBLE)")
    data.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", list(zip(*table.values(), strict=True)))
    schema = Schema(np.array(["a", "b", "c"]), (Columns(3, ("x0", "x1", "x2")),))
    for weight in (None, "w"):
        question = Question(JOINT, schema, {}, "y", weight)
        pushed = deciban.table(data, "t").pushed(question)
        assert pushed.stats.same_as(collect([X], JOINT, schema, y, None if weight is None else w))
    hushed = replace(question, joint=Joint((Block(WithLogsWithoutSql()),)))
    assert deciban.table(data, "t").pushed(hushed) is None  # rows are fetched, and added up here


def test_a_name_is_one_kind_of_sum():
    assert MEASURES["x"].__name__ == "Values"
    with pytest.raises(TypeError, match="sums called 'xx' are those of XX: give Cubes another name"):

        class Cubes(Measure):
            name = "xx"


def test_a_family_without_a_formula_raises():
    class Bare(Geometric):
        name = "bare"
        term = WithLogs.__mro__[2].term  # what every family inherits

    with pytest.raises(DecibanError, match=r"bare.*SQL"):
        Bare().term(None, Columns(1), Sketch())


# ------------------------------ moments


def moments(X, pivot):
    """Every moment of one class's rows about a pivot, by the definitions."""
    measures = (One(True), X_WHOLE, XY(), XXY(), XXYY())
    return {m.name: m.of(X, pivot).sum(axis=0)[None] for m in measures}


X_WHOLE = X(whole=True)


def test_moments_move_to_another_pivot():
    rng = np.random.default_rng(1)
    rows, old, new = rng.normal(size=(40, 3)), rng.normal(size=3), rng.normal(size=3)
    shifted = shift(moments(rows, old), (old - new)[None])
    for name, expected in moments(rows, new).items():
        np.testing.assert_allclose(shifted[name], expected, rtol=1e-10, atol=1e-10, err_msg=name)
    plain = {m.name: m.of(rows, old).sum(axis=0)[None] for m in (X(), XX())} | {"one": np.array([[40.0]])}
    np.testing.assert_allclose(shift(plain, (old - new)[None])["xx"], XX().of(rows, new).sum(axis=0)[None], rtol=1e-10)


@pytest.mark.parametrize(("off", "moves"), [(0.5, False), (0.98, False), (1.02, True), (1e3, True)])
def test_a_pivot_follows_a_mean_that_is_far_from_it(off, moves):
    """Far is ten deviations, for single columns and for a block."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(500, 2))
    rows[1::2] = (rows[1::2] - rows[1::2].mean(axis=0)) / rows[1::2].std(axis=0)
    pivot = np.array([[0.0, 0.0], [off * np.sqrt(MAX_PIVOT_DISTANCE), 0.0]])
    schema = Schema(np.arange(2), (Columns(2, pivot=pivot),))
    for family in (deciban.families.Gaussian(), MultivariateGaussian()):
        stats = collect([rows], Joint((Block(family),)), schema, (np.arange(500) % 2).astype(np.int32))
        ours = about_the_means(stats)
        assert (ours is not stats) == moves
        assert ours.same_as(stats)
        if moves:
            moved_pivot = ours.schema.blocks[0].pivot
            np.testing.assert_allclose(moved_pivot[1, 0], 0.0, atol=1e-9)
            assert moved_pivot[:, 1].tolist() == moved_pivot[0].tolist() == [0.0, 0.0]  # the others stay
            np.testing.assert_allclose(second_moments(ours.sums[0])[1, 0], 250.0, rtol=1e-6)


def test_rounding_does_not_move_the_pivot_of_a_column_that_does_not_vary():
    pivot = np.array([[0.1 * (1.0 + 2.0**-45)]])
    schema = Schema(np.arange(1), (Columns(1, pivot=pivot),))
    joint = Joint((Block(deciban.families.Gaussian()),))
    stats = collect([np.full((9, 1), 0.1)], joint, schema, np.zeros(9, dtype=np.int32))
    assert stats.sums[0]["x"] != 0
    assert about_the_means(stats) is stats


def test_a_step_of_em_is_about_the_means():
    """Seven digits of a deviation are behind ten million: about zero, its square would have none."""
    rng = np.random.default_rng(4)
    rows = np.array([[0.0], [1e7]])[np.arange(400) % 2] + rng.normal(size=(400, 1))
    schema = Schema(np.arange(2), (Columns(1, pivot=np.array([[0.0], [1e7]])),))
    joint = Joint((Block(deciban.families.Gaussian(smoothing=0.0)),))
    known = collect([rows], joint, schema, (np.arange(400) % 2).astype(np.int32))
    far = known.embed(replace(schema, blocks=(Columns(1, pivot=np.zeros((2, 1))),)))
    _, sums = expect([rows], Model(joint, far))
    variance = joint.blocks[0].family.estimate(sums.sums[0], sums.schema.blocks[0]).variance
    np.testing.assert_allclose(variance[1], rows[1::2].var(axis=0), rtol=1e-6)


def test_no_more_can_be_above_than_there_are():
    sums = {"one": np.array([[3.0]]), "x": np.array([[3.0, 4.0]])}
    assert Above(0.0).excess(sums, np.array([3.0]), Columns(2)).tolist() == [[False, True]]
    assert One().excess({"one": np.array([[3.0, 5.0]])}, np.array([4.0]), Columns(2)).tolist() == [[False, True]]
    assert X().excess({"x": np.array([[0.0, 4.0]])}, np.array([0.0]), Columns(2)).tolist() == [[False, True]]


def test_no_sums_are_of_rows_that_cannot_be():
    columns = Columns(2, pivot=np.zeros((1, 2)))
    one, x = np.array([[2.0]]), np.array([[0.0, 0.0]])
    assert XY().flaw({"one": one, "x": x, "xy": np.array([[[1.0, 2.0], [2.0, 1.0]]])}, columns) is not None
    assert XY().flaw({"one": one, "x": x, "xy": np.array([[[1.0, 0.5], [0.4, 1.0]]])}, columns) == "is not symmetric"
    assert XY().flaw({"one": one, "x": x, "xy": np.array([[[1.0, 0.5], [0.5, 1.0]]])}, columns) is None
    assert X().flaw({"x": -x - 1}, columns) is None
    assert X().flaw({"x": -x - 1}, Columns(2)) == "holds a negative count"
    assert XXYY().flaw({"xxyy": -np.ones((1, 2, 2))}, columns) == "holds a negative count"


def test_sums_of_no_rows_are_zero():
    schema = Schema(np.arange(2), (Columns(3),))
    zero = JOINT.zero(schema)
    assert isinstance(zero, Stats)
    assert {name: array.shape for name, array in zero.sums[0].items()} == {
        "one": (2, 1),
        "x": (2, 3),
        "log_one_plus": (2, 3),
    }


def test_rows_that_leave_more_values_than_rows_were_never_learned():
    """The rows go, and their values stay: as if other rows had been learned."""
    joint, schema = Joint((Block(deciban.families.Bernoulli()),)), Schema(np.arange(1), (Columns(2),))
    rows, y = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.zeros(3, dtype=np.int32)
    learned = Model(joint, collect([rows], joint, schema, y))
    absent = collect([np.zeros((2, 2))], joint, schema, y[:2])
    with pytest.raises(ForgetError, match="in column 'x0' more would be left"):
        forget(learned, absent)
    tree = Joint((Block(deciban.families.Tree()),))
    known = Schema(np.arange(1), (Columns(2, categories=(range(2), range(2)), parents=(-1, 0)),))
    learned = Model(tree, collect([np.vstack([rows, [[np.nan, np.nan]]])], tree, known, np.zeros(4, dtype=np.int32)))
    loose = collect([np.array([[np.nan, 1.0]])], tree, known, y[:1])  # beside no parent, which no row was
    with pytest.raises(ForgetError, match="in column 'x1' more would be left"):
        forget(learned, loose)
