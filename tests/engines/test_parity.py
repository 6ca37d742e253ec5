"""One parity test over all engines: wherever the rows are and however they are partitioned, the model is the same.

What an engine learned is compared with a fit on all rows in memory: the same classes, identical counts, the same sums
to rounding, and the same probabilities. `--engines=spark` tests one engine.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deciban
from deciban.engines.dispatch import engine_of
from deciban.engines.stream import stream
from deciban.estimators.on_engines import Learn
from deciban.sources import write_rows
from deciban.tables.files import parts as table_parts

ENGINES = ("stream", "duckdb", "sqlite", "postgresql", "dask", "spark")
LABEL, WEIGHT = "label", "counts for"
ROWS = 260

# ------------------------------------------------------------------ tables


@dataclass(frozen=True, eq=False)
class World:
    """A table; `lone` marks rows that have what no others have, `bare` those that have nothing in some column."""

    name: str
    rows: pa.Table
    lone: np.ndarray
    bare: np.ndarray

    def shared_out(self, how) -> list[pa.Table]:
        """The rows as partitions."""
        return [self.rows.take(pa.array(part, pa.int64())) for part in PARTITIONS[how](self)]

    @cached_property
    def inputs(self) -> pa.Table:
        return unlabelled(self.rows)


def unlabelled(table):
    return table.drop_columns([name for name in (LABEL, WEIGHT) if name in table.column_names])


def ragged(world):
    """Nothing, one row, a class and a category to itself, a column without an entry, the rest in two, nothing."""
    everything = np.arange(world.rows.num_rows)
    apart = world.lone | world.bare
    rest = everything[~apart]
    return [[], rest[:1], everything[world.lone], everything[world.bare], rest[1:40], rest[40:], []]


def by_class(world):
    labels = np.array(world.rows[LABEL].to_pylist())
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def many(world):
    rng = np.random.default_rng(7)
    edges = np.sort(rng.integers(0, world.rows.num_rows, 22))
    return np.split(rng.permutation(world.rows.num_rows), edges)


PARTITIONS = {
    "ragged": ragged,
    "all in one": lambda world: [np.arange(world.rows.num_rows)],
    "by class": by_class,
    "many, some of them empty": many,
}


def made(name, columns, y, lone, bare=None):
    bare = np.zeros(len(y), dtype=bool) if bare is None else bare & ~lone
    return World(name, pa.table({**columns, LABEL: pa.array(y)}), lone, bare)


def in_words(y):
    return np.array(["hen", "cow", "duck's"])[y]


def with_gaps(values, gone, kind):
    return pa.array([None if g else v for v, g in zip(values.tolist(), gone, strict=True)], kind)


def classes(rng, n=ROWS):
    """Three classes; the last is rare, and in one partition only."""
    y = rng.choice(3, n, p=[0.55, 0.35, 0.10])
    return y, y == 2


def mixed():
    rng = np.random.default_rng(1)
    y, lone = classes(rng)
    n = len(y)
    bare = rng.random(n) < 0.15
    age = rng.normal(40 + 6 * y, 9.0)
    age[rng.random(n) < 0.05] = np.nan  # missing, as numbers say it
    colour = np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, n)) % 3]
    colour[lone & (rng.random(n) < 0.5)] = "mauve"
    columns = {
        "age": with_gaps(age, bare & ~lone | (rng.random(n) < 0.05), pa.float64()),
        "height": pa.array(rng.normal(170 - 3 * y, 8.0)),
        "children": with_gaps(rng.poisson(0.4 + y), rng.random(n) < 0.1, pa.int64()),
        "colour": with_gaps(colour, rng.random(n) < 0.1, pa.string()),
        "Größe, \"S\" or 'L'; --": pa.array(np.where(rng.random(n) < 0.3 + 0.2 * y, "S", "L"), pa.string()),
    }
    return made("mixed", columns, in_words(y), lone, bare)


def weighted():
    """The same, and what each row counts: some nothing."""
    rng = np.random.default_rng(10)
    world = mixed()
    weight = rng.choice([0.0, 0.5, 1.0, 2.25], ROWS)
    return World("weighted", world.rows.append_column(WEIGHT, pa.array(weight)), world.lone, world.bare)


def typed():
    """Dates and booleans, which not every database has, of labels too."""
    rng = np.random.default_rng(2)
    y, lone = classes(rng)
    n = len(y)
    bare = rng.random(n) < 0.15
    days = np.datetime64("2024-01-01") + rng.integers(0, 300, n) + 40 * y
    columns = {
        "day": with_gaps(days, bare & ~lone, pa.date32()),
        "member": with_gaps(rng.random(n) < 0.2 + 0.3 * y, rng.random(n) < 0.1, pa.bool_()),
        "share": pa.array(rng.random(n) * (1 + y)),
    }
    return made("typed", columns, y == 2, lone, bare)


def numbers(mean=0.0, gaps=False):
    rng = np.random.default_rng(3)
    y, lone = classes(rng)
    X = mean + rng.normal(size=(len(y), 4)) @ rng.normal(size=(4, 4)) + 0.7 * y[:, None]
    bare = (rng.random(len(y)) < 0.15) & ~lone
    missing = (rng.random(X.shape) < 0.05) | (bare[:, None] & (np.arange(4) == 1)) if gaps else np.zeros(X.shape, bool)
    columns = {f"n{j}": with_gaps(X[:, j], missing[:, j], pa.float64()) for j in range(4)}
    return made(f"numbers at {mean:g}", columns, in_words(y), lone, bare if gaps else None)


def codes():
    rng = np.random.default_rng(4)
    y, lone = classes(rng)
    first = (y + rng.integers(0, 2, len(y))) % 3
    second = np.where(rng.random(len(y)) < 0.7, first, rng.integers(0, 3, len(y)))
    second[lone] = 3
    third = rng.integers(0, 2 + (y == 1))
    return made("codes", {f"c{j}": pa.array(c) for j, c in enumerate((first, second, third))}, 10 * y - 10, lone)


def names():
    """The same with words for codes, some missing."""
    rng = np.random.default_rng(5)
    world = codes()
    y = world.rows[LABEL].to_numpy() // 10 + 1
    bare = (rng.random(len(y)) < 0.15) & ~world.lone
    columns = {}
    for j in range(3):
        gone = (rng.random(len(y)) < 0.05) | (bare if j == 1 else False)
        columns[f"c{j}"] = with_gaps(np.array(list("pqrs"))[world.rows[f"c{j}"].to_numpy()], gone, pa.string())
    return made("names", columns, in_words(y), world.lone, bare)


def counted(most=None):
    rng = np.random.default_rng(6)
    y, lone = classes(rng)
    X = rng.poisson(np.array([[0.5, 1.0, 3.0, 0.2, 1.0], [2.0, 0.3, 0.5, 1.0, 1.0], [1.0, 1.0, 0.1, 4.0, 0.5]])[y])
    X[:, 4] *= lone  # a column in which only one partition has anything
    X = X if most is None else np.minimum(X, most)
    return made("counts" if most is None else "bits", {f"w{j}": pa.array(X[:, j]) for j in range(5)}, in_words(y), lone)


WORDS = ["cash", "prize", "win", "free", "lunch", "noon", "meeting", "report", "naïve", "日本", "it's", "100%", "x"]


def random_texts(rng, y, lone):
    """Short texts whose words depend on the class; some are empty, and some have words of no other partition."""
    shares = rng.dirichlet(np.full(len(WORDS), 0.5), 3)
    out = []
    for c, alone in zip(y, lone, strict=True):
        words = rng.choice(WORDS, rng.integers(0, 9), p=shares[c]).tolist()
        out.append(" ".join([*words, "zebra"] if alone else words))
    return pa.array(out, pa.string())


def texts():
    rng = np.random.default_rng(8)
    y, lone = classes(rng)
    return made("texts", {"text": random_texts(rng, y, lone)}, in_words(y), lone)


def mail():
    rng = np.random.default_rng(9)
    y, lone = classes(rng)
    labels = np.where(y == 0, "ham", "spam")
    heads = [f"From: {'shop' if c else 'ann'}@example.org\nSubject: {'offer' if c else 'notes'}\n\n" for c in y]
    bodies = random_texts(rng, y, lone).to_pylist()
    text = pa.array([head + body for head, body in zip(heads, bodies, strict=True)], pa.string())
    return made("mail", {"mail": text}, labels, lone)


WORLDS = {
    "mixed": mixed,
    "weighted": weighted,
    "typed": typed,
    "numbers": numbers,
    "numbers with gaps": lambda: numbers(gaps=True),
    "far": lambda: numbers(1e9),
    "codes": codes,
    "names": names,
    "counts": counted,
    "bits": lambda: counted(1),
    "texts": texts,
    "mail": mail,
}

# ------------------------------------------------------------------ estimators


@dataclass(frozen=True)
class Case:
    world: str
    make: object
    engines: tuple[str, ...] = ENGINES
    weight: str | None = None  # the column of weights


TREE = {"c1": "c0", "c2": "c0"}
NO_BOOLEANS = tuple(engine for engine in ENGINES if engine != "sqlite")  # it has numbers and strings for all

CASES = {
    "GaussianNB": Case("numbers with gaps", deciban.GaussianNB),
    "GaussianNB, far": Case("far", deciban.GaussianNB),
    "NaiveBayes": Case("mixed", deciban.NaiveBayes),
    "NaiveBayes, weighted": Case("weighted", deciban.NaiveBayes, weight=WEIGHT),
    "NaiveBayes, typed": Case("typed", deciban.NaiveBayes, engines=NO_BOOLEANS),
    "CategoricalNB": Case("names", deciban.CategoricalNB),
    "CategoricalNB, codes": Case("codes", deciban.CategoricalNB),
    "BernoulliNB": Case("bits", deciban.BernoulliNB),
    "MultinomialNB": Case("counts", deciban.MultinomialNB),
    "PoissonNB": Case("counts", deciban.PoissonNB),
    "GaussianDiscriminant": Case("numbers", deciban.GaussianDiscriminant),
    "GaussianDiscriminant, far": Case("far", deciban.GaussianDiscriminant),
    "TreeAugmentedNB": Case("names", lambda: deciban.TreeAugmentedNB(parents=TREE)),
    "Classifier": Case("mixed", deciban.Classifier),
    "TextClassifier": Case("texts", deciban.TextClassifier),
    "TextClassifier, plain": Case("texts", lambda: deciban.TextClassifier(reliability=None)),
    "TextClassifier, hashed": Case("texts", lambda: deciban.TextClassifier(n_features=512)),
    "SpamFilter": Case("mail", deciban.SpamFilter),
}


@pytest.fixture(scope="module")
def local():
    """local(case) is the world, and the model of all its rows in memory."""
    worlds, models = {}, {}

    def get(name):
        case = CASES[name]
        if case.world not in worlds:
            worlds[case.world] = WORLDS[case.world]()
        world = worlds[case.world]
        if name not in models:
            weight = None if case.weight is None else world.rows[case.weight].to_numpy()
            models[name] = case.make().fit(in_memory(world.inputs), world.rows[LABEL].to_pylist(), weight)
        return world, models[name]

    return get


def in_memory(table):
    """Rows as each estimator takes them: a column of texts, or a frame."""
    if table.column_names in (["text"], ["mail"]):
        return table[0].to_pylist()
    return table.to_pandas()


# ------------------------------------------------------------------ where the rows are


@pytest.fixture(scope="module")
def place(request, tmp_path_factory):
    """place(engine, name, tables) stores partitions, once, and returns them as `fit` takes them."""
    there, numbered, connections = {}, itertools.count(), {}

    def connection(engine):
        if engine not in connections:
            if engine == "sqlite":
                connections[engine] = sqlite3.connect(":memory:")
            elif engine == "duckdb":
                connections[engine] = pytest.importorskip("duckdb").connect()
            else:
                connections[engine] = request.getfixturevalue("postgres").connect()
        return connections[engine]

    def source_of(engine, tables):
        if engine == "stream":
            return in_files(tables, tmp_path_factory.mktemp("parts"))
        if engine == "dask":
            request.getfixturevalue("dask_client")
            return in_dask(tables)
        if engine == "spark":
            return in_spark(tables, request.getfixturevalue("spark"))
        return in_database(engine, tables, connection(engine), f"rows {next(numbered)}")

    def put(engine, name, tables):
        if (engine, name) not in there:
            there[engine, name] = source_of(engine, tables)
        return there[engine, name]

    yield put
    for opened in connections.values():
        opened.close()


def in_files(tables, folder):
    for number, table in enumerate(tables):
        write_rows(folder / f"part-{number:03}.parquet", [table])
    pattern = os.fspath(folder / "*.parquet")
    # To a model of texts a string is a text, and to a filter of mail a path is one of a mail.
    return stream(pattern) if tables[0].column_names[0] in ("text", "mail") else pattern


def in_dask(tables):
    dask = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    # Dask makes strings of objects, and so of dates and of booleans that may be missing.
    kinds = {pa.bool_(): pandas.BooleanDtype()}
    whole = pa.concat_tables(tables).to_pandas(date_as_object=False, types_mapper=kinds.get)
    ends = np.cumsum([table.num_rows for table in tables])
    frames = [whole.iloc[end - table.num_rows : end] for table, end in zip(tables, ends, strict=True)]
    frame_in_parts = dask.from_map(lambda frame: frame, frames, meta=whole.iloc[:0])  # a graph has such functions in it
    assert frame_in_parts.map_partitions(len).compute().tolist() == [table.num_rows for table in tables]
    return frame_in_parts


def in_spark(tables, session):
    """Exactly these partitions: Spark would merge a union of small frames into one."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark's own, about pandas 3
        schema = session.createDataFrame(tables[0].schema.empty_table()).schema

        def give(numbers):
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    yield from tables[number].combine_chunks().to_batches()

        frame = session.range(0, len(tables), 1, len(tables)).mapInArrow(give, schema)
        assert frame.rdd.getNumPartitions() == len(tables)
        return frame


def in_database(engine, tables, connection, name):
    whole = pa.concat_tables(tables)
    if engine == "duckdb":
        connection.register("given", whole)
        connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
        connection.unregister("given")
        return connection.table(f'"{name}"')
    kinds = {
        "double": "double precision",
        "int64": "bigint",
        "string": "text",
        "date32[day]": "date",
        "bool": "boolean",
    }
    quoted = [column.replace('"', '""') for column in whole.column_names]
    columns = ", ".join(f'"{c}" {kinds[str(whole.schema.field(i).type)]}' for i, c in enumerate(quoted))
    mark = "?" if engine == "sqlite" else "%s"
    marks = ", ".join([mark] * whole.num_columns)
    rows = list(zip(*(column.to_pylist() for column in whole.columns), strict=True))
    cursor = connection.cursor()
    cursor.execute(f'CREATE TABLE "{name}" ({columns})')
    cursor.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
    connection.commit()
    from deciban.engines.sql import engine as sql

    return sql.table(connection, name)


# ------------------------------------------------------------------ the same


def assert_same(actual, expected):
    """The same classes, identical counts, the same sums to rounding."""
    assert actual.classes_.tolist() == expected.classes_.tolist()
    assert actual.classes_.dtype.kind == expected.classes_.dtype.kind  # 1, 1.0 and True are the same to a list
    np.testing.assert_array_equal(actual.class_count_, expected.class_count_)
    if isinstance(expected, deciban.TextClassifier | deciban.SpamFilter):
        assert text_sums(actual) == text_sums(expected)  # whole numbers, or multiples of 2^−30: exact
    elif isinstance(expected, deciban.Classifier):
        assert_same_tables(actual.model_, expected.model_)
    else:
        assert_same_stats(actual.model_.stats, expected.model_.stats)


def assert_same_stats(actual, expected):
    assert actual.same_as(expected)
    moved = actual.embed(expected.schema)
    np.testing.assert_array_equal(moved.weight, expected.weight)
    for block, columns, own in zip(moved.sums, expected.schema.blocks, expected.sums, strict=True):
        assert block.keys() - {"lost"} == own.keys() - {"lost"}  # what rounding took is no sum of the rows
        counts = {"one", "is", "pair", "above"} | ({"x"} if columns.pivot is None else set())
        for name in counts & own.keys():
            assert (block[name] == own[name]).all(), f"counts of {name} differ"


def text_sums(model):
    """All that was learned from texts, by name."""
    labels = model.classes_.tolist()
    if model.model_.n_features is None and model.reliability is None:
        words, counts = model.model_.words.strings(), model.model_.model.stats.sums[0]["x"]
        return {(words[w], labels[c]): counts[c, w] for c, w in zip(*np.nonzero(counts), strict=True)}
    sums, out = model.model_.sums, {}
    for block, cells in sums.cells.items():
        items = np.arange(cells.size, dtype=np.int32)
        for w, name in enumerate(sums.lexicon.names(block, items)):
            for e in range(cells.ptr[w], cells.ptr[w + 1]):
                out[block, name, labels[cells.cls[e]]] = cells.val[e]
        out["mass", block] = sums.mass[block]
    return out


def assert_same_tables(actual, expected):
    """All sums of a table's experts; numbers have rounding in them, in proportion to the largest that was added."""
    (choices, arrays), (others, sums) = table_parts(actual), table_parts(expected)
    assert choices == others
    assert arrays.keys() == sums.keys()
    for name, own in sums.items():
        largest = np.abs(own).max(initial=1.0) if own.dtype.kind == "f" else 1
        if own.dtype.kind != "f":
            np.testing.assert_array_equal(arrays[name], own, err_msg=name)
        np.testing.assert_allclose(arrays[name], own, rtol=1e-9, atol=1e-12 * largest, err_msg=name)


def learned_in_memory(model, world, local):
    """The reference model: all rows in memory, under the same choices."""
    if isinstance(model, deciban.Classifier):  # where rows have no order, a table's choices may be others
        return model.empty().partial_fit(in_memory(world.inputs), world.rows[LABEL].to_pylist())
    return local


def answers(engine, predictions):
    """An engine's answers to rows: (rows or None where they are in the order of the rows, array of answers)."""
    if engine == "stream":
        return None, predictions
    if engine == "dask":
        frame = predictions.compute()
        return None, frame.to_numpy()
    if engine == "spark":
        table = predictions.toArrow()
    elif engine == "duckdb":
        table = predictions.to_arrow_table()
    else:
        table = pa.concat_tables(list(predictions))
    names = [name for name in table.column_names if name.startswith("proba_")]
    return table.drop_columns(names), np.column_stack([table[name].to_numpy() for name in names])


def assert_all_there(rows, world):
    """As often as they were given, in whatever order."""

    def each(table):
        values = [[None if v != v else v for v in table[name].to_pylist()] for name in world.inputs.column_names]
        return Counter(zip(*values, strict=True))

    assert each(rows) == each(world.inputs)


def check(engine, name, partitions, place, local):
    case = CASES[name]
    world, whole = local(name)
    tables = world.shared_out(partitions)
    model = case.make().fit(place(engine, (case.world, partitions), tables), LABEL, case.weight)
    expected = learned_in_memory(model, world, whole)
    assert_same(model, expected)

    bare = [unlabelled(table) for table in tables]
    rows, proba = answers(engine, model.predict_proba(place(engine, (case.world, partitions, "bare"), bare)))
    if rows is None:
        rows = pa.concat_tables(bare)
    else:
        assert_all_there(rows, world)
    np.testing.assert_allclose(proba, expected.predict_proba(in_memory(rows)), rtol=0.0, atol=1e-9)


def combination(engine, name):
    """Of a quick run: every engine with half of the models, and every model with half of the engines."""
    marks = [pytest.mark.engine(engine)]
    if (ENGINES.index(engine) + list(CASES).index(name)) % 2 and name != "NaiveBayes":
        marks.append(pytest.mark.slow)
    if name == "NaiveBayes" and engine != "spark":  # what a quick run starts a cluster for: Spark takes half a minute
        marks.append(pytest.mark.one_of_a_cluster)
    return pytest.param(engine, name, marks=marks, id=f"{engine}-{name}")


COMBINATIONS = [
    combination(engine, name) for engine in ENGINES for name, case in CASES.items() if engine in case.engines
]


def each_engine(*names):
    return pytest.mark.parametrize("engine", [pytest.param(name, marks=pytest.mark.engine(name)) for name in names])


@pytest.mark.parametrize(("engine", "name"), COMBINATIONS)
def test_an_engine_learns_what_memory_does(engine, name, place, local):
    check(engine, name, "ragged", place, local)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [how for how in PARTITIONS if how != "ragged"])
@pytest.mark.parametrize(("engine", "name"), COMBINATIONS)
def test_any_partitions(engine, name, partitions, place, local):
    check(engine, name, partitions, place, local)


RANDOMLY = ("NaiveBayes", "TreeAugmentedNB", "GaussianDiscriminant, far", "TextClassifier, plain")


@pytest.mark.engine("stream")
@pytest.mark.parametrize("name", RANDOMLY)
@given(cuts=st.lists(st.integers(0, ROWS), max_size=12), seed=st.none() | st.integers(0, 99))
def test_partitions_drawn_at_random(name, local, cuts, seed):
    """Cut anywhere, the same place twice included, of rows in any order."""
    world, whole = local(name)
    order = np.arange(ROWS) if seed is None else np.random.default_rng(seed).permutation(ROWS)
    tables = [world.rows.take(pa.array(part, pa.int64())) for part in np.split(order, sorted(cuts))]
    model = CASES[name].make().fit(stream(iter(tables)), LABEL)
    assert_same(model, whole)


class KilledError(BaseException):  # which nothing that goes on is to catch
    """As if the process were killed."""


KEPT = ("NaiveBayes", "GaussianDiscriminant, far", "Classifier", "TextClassifier")


@pytest.mark.engine("stream")
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in KEPT else pytest.mark.slow) for n in CASES])
def test_a_checkpoint_of_every_model(name, local, tmp_path, monkeypatch):
    """Learning stops at the fourth table, and resumes from the checkpoint."""
    case, calls = CASES[name], itertools.count()
    world, whole = local(name)
    for number, table in enumerate(world.shared_out("many, some of them empty")):
        write_rows(tmp_path / f"{number:03}.parquet", [table])
    there = stream(tmp_path / "*.parquet", checkpoint=tmp_path / "so far", every=0.0, n_jobs=1)
    learn = Learn.__call__

    def until(stop):
        def some(tables):
            for table in tables:
                if next(calls) == stop:
                    raise KilledError
                yield table

        monkeypatch.setattr(Learn, "__call__", lambda self, tables: learn(self, some(tables)))

    until(3)
    model = case.make()
    with pytest.raises(KilledError):
        model.fit(there, LABEL, case.weight)
    assert not hasattr(model, "model_")
    assert (tmp_path / "so far").exists()
    until(-1)
    model.fit(there, LABEL, case.weight)
    # Four tables came before the end, and the fourth again; those that are empty never come.
    assert next(calls) == 1 + sum(table.num_rows > 0 for table in world.shared_out("many, some of them empty"))
    assert not (tmp_path / "so far").exists()
    assert_same(model, learned_in_memory(model, world, whole))


# ------------------------------------------------------------------ what else is a sum

PUSHED = ("GaussianNB", "NaiveBayes, weighted", "CategoricalNB", "PoissonNB", "GaussianDiscriminant", "TreeAugmentedNB")


@each_engine("duckdb", "sqlite", "postgresql")
@pytest.mark.parametrize("name", PUSHED)
def test_a_database_adds_up_by_itself(engine, name, place, local, monkeypatch):
    """No row is fetched but for the sample."""
    case = CASES[name]
    world, whole = local(name)
    source = engine_of(place(engine, (case.world, "ragged"), world.shared_out("ragged")))

    def fetched(self, work, watch=None):
        raise AssertionError(f"{self} fetched rows to do {work}, {watch}")

    monkeypatch.setattr(type(source), "collect", fetched)
    assert_same(case.make().fit(source, LABEL, case.weight), whole)


@pytest.mark.crossed(3)
@each_engine("duckdb", "sqlite", "postgresql")
@pytest.mark.parametrize("name", PUSHED)
def test_a_database_that_cannot(engine, name, place, local, monkeypatch):
    """Where its rows must be fetched, the sums are the same."""
    case = CASES[name]
    world, whole = local(name)
    source = engine_of(place(engine, (case.world, "ragged"), world.shared_out("ragged")))
    monkeypatch.setattr(type(source), "pushed", lambda *_: None)
    assert_same(case.make().fit(source, LABEL, case.weight), whole)


@each_engine(*ENGINES)
@pytest.mark.parametrize("name", ["GaussianNB", pytest.param("TextClassifier, plain", marks=pytest.mark.slow)])
def test_every_row_is_left_out(engine, name, place, local):
    case = CASES[name]
    world, whole = local(name)
    there = place(engine, (case.world, "ragged"), world.shared_out("ragged"))
    tally = whole.leave_one_out(there, LABEL)
    expected = whole.leave_one_out(in_memory(world.inputs), world.rows[LABEL].to_pylist())
    assert tally.rows == ROWS
    assert tally.accuracy == expected.accuracy
    np.testing.assert_allclose([tally.log_loss, tally.brier], [expected.log_loss, expected.brier], rtol=1e-9)


@each_engine(*ENGINES)
def test_learned_in_two_and_half_forgotten(engine, place, local):
    """Sums that come later join those that are there, and sums are taken away again."""
    world, whole = local("NaiveBayes")
    tables = world.shared_out("ragged")
    first, second = place(engine, "first", tables[:4]), place(engine, "second", tables[4:])
    model = deciban.NaiveBayes().fit(first, LABEL).partial_fit(second, LABEL)
    assert_same(model, whole)
    model.forget(second, LABEL)
    rest = pa.concat_tables(tables[:4])
    assert_same(model, deciban.NaiveBayes().fit(in_memory(unlabelled(rest)), rest[LABEL].to_pylist()))


@each_engine("stream", "duckdb", "postgresql", "dask")
def test_labels_that_are_missing_are_found(engine, place):
    """An iteration of EM is one pass over all rows, with posteriors as weights."""
    world = numbers()
    labels = pa.array([None if i % 3 == 0 else y for i, y in enumerate(world.rows[LABEL].to_pylist())], pa.string())
    rows = world.rows.set_column(world.rows.column_names.index(LABEL), LABEL, labels)
    tables = World("hidden", rows, world.lone, world.bare).shared_out("ragged")
    model = deciban.GaussianNB().fit(place(engine, "hidden", tables), LABEL)
    expected = deciban.GaussianNB().fit(in_memory(world.inputs), labels.to_pylist())
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.n_unlabelled_ == expected.n_unlabelled_
    # Steps are the same, but for rounding and for where they start and stop.
    np.testing.assert_allclose(model.class_count_, expected.class_count_, rtol=1e-3)
    np.testing.assert_allclose(
        model.predict_proba(in_memory(world.inputs)), expected.predict_proba(in_memory(world.inputs)), atol=1e-3
    )


@each_engine(*ENGINES)
def test_nothing_is_learned_where_a_label_is_not_there(engine, place, local):
    world, _ = local("NaiveBayes")
    there = place(engine, ("mixed", "ragged"), world.shared_out("ragged"))
    model = deciban.NaiveBayes()
    with pytest.raises(deciban.DecibanError, match="has no column 'lable'"):
        model.fit(there, "lable")
    assert not hasattr(model, "model_")
