"""Tables of SQLite and PostgreSQL: rows fetched, sums pushed down, and connections left as they were."""

import os
import pickle
import sqlite3
import threading
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
import stored_tables
from stored_tables import quoted

import deciban
from deciban.engines.base import Question
from deciban.engines.sql.engine import table as table_of
from deciban.errors import DecibanError, EngineError
from deciban.families import Categorical, Gaussian
from deciban.joint import Block, Joint
from deciban.schema import Columns, Schema

sqlalchemy = pytest.importorskip("sqlalchemy")

SQLITE = pytest.param("sqlite", marks=pytest.mark.engine("sqlite"))
POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.engine("postgresql"))
HOSTILE = [
    'say "so"',
    "it's",
    "a; DROP TABLE victim; --",
    "/* note",
    "two\nlines",
    "ünïcode 表",
    "select",
    "rowid",
    "50%",
    "%s {0} :x",
    "back\\slash",
    "x" * 60,
]


@dataclass(frozen=True)
class Tally:
    """How many rows there are, and their sum."""

    rows: int
    total: float

    def __add__(self, other):
        return Tally(self.rows + other.rows, self.total + other.total)


@dataclass(frozen=True)
class Counting:
    """Work that checks what it is given."""

    schema: pa.Schema
    column: str = "x"

    def __call__(self, tables):
        total = None
        for table in tables:
            assert table.schema.equals(self.schema)
            part = Tally(table.num_rows, float(np.nansum(table[self.column].to_numpy(zero_copy_only=False))))
            total = part if total is None else total + part
        return total


def numbers(n=1000):
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return pa.table({"x": pa.array(x, mask=rng.random(n) < 0.1), "y": rng.choice(["a", "b"], n), "i": np.arange(n)})


def question(names=("x",), target="y", classes=("a", "b")):
    pivot = np.zeros((len(classes), len(names)))
    schema = Schema(np.array(classes), (Columns(len(names), tuple(names), pivot=pivot),))
    return Question(Joint((Block(Gaussian()),)), schema, dict.fromkeys(names, "number"), target)


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def connected(request):
    """A function that stores a table and gives a connection to it."""
    opened = []

    def store(table, name="rows"):
        if request.param == "postgresql":
            connection = stored_tables.in_postgresql(table, request.getfixturevalue("postgres"), name)
        else:
            connection = stored_tables.in_sqlite(table, name)
        opened.append(connection)
        return connection

    store.database = request.param
    yield store
    for connection in opened:
        connection.close()


@pytest.fixture
def lasting(postgres):
    """A function that stores a table on the server, where other connections find it, until the test is over."""
    made = []

    def store(table, name):
        with postgres.connect(autocommit=True) as connection:
            connection.execute(stored_tables.create(table, name, 1))
            made.append(name)
            names = ", ".join(map(quoted, table.column_names))
            with connection.cursor().copy(f"COPY {quoted(name)} ({names}) FROM STDIN") as copy:
                for row in table.to_pylist():
                    copy.write_row(tuple(row.values()))
        return name

    yield store
    with postgres.connect(autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP TABLE IF EXISTS {quoted(name)} CASCADE")


# ---------------------------------------------------------------------- rows


def test_rows_come_as_they_are(connected):
    table = pa.table(
        {
            "x": pa.array([1.5, None, -2.0]),
            "i": pa.array([1, None, 2**40], pa.int64()),
            "s": pa.array(["a", None, "ü"]),
            "b": pa.array([True, None, False]),
            "t": pa.array([0, None, 10**15], pa.int64()).cast(pa.timestamp("us")),
        }
    )
    rows = table_of(connected(table), "rows")
    assert rows.schema.equals(table.schema)
    assert rows.to_arrow().equals(table)
    assert repr(rows) == "<sql: table 'rows'>"


@pytest.mark.parametrize("n", [0, 1, 110_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_every_row_counts_once(connected, n):
    table = numbers(n)
    rows = table_of(connected(table), "rows")
    seen = []
    total = rows.collect(Counting(rows.schema, "i"), seen.append)
    assert total == (None if n == 0 else Tally(n, n * (n - 1) / 2))
    assert seen == sorted(seen)
    assert (seen[-1] if seen else 0) == n
    assert n < 100_000 or len(seen) > 1, "so many rows should not come at once"


def test_a_select_instead_of_a_name(connected):
    rows = table_of(connected(numbers()), query="SELECT i AS j, x FROM rows WHERE i < 10 -- the first;\n;")
    assert rows.schema.names == ["j", "x"]
    assert rows.to_arrow()["j"].to_pylist() == list(range(10))
    assert rows.sample(5).num_rows == 5
    assert "SELECT" not in repr(rows)


def test_answers_stand_beside_rows(connected):
    rows = table_of(connected(numbers(100)), "rows")
    fields = pa.schema([("twice", pa.float64())])
    answer = lambda table: pa.table({"twice": [2.0 * i for i in table["i"].to_pylist()]})  # noqa: E731 - a small one
    answered = pa.concat_tables(rows.apply(answer, fields))
    assert answered.column_names == ["x", "y", "i", "twice"]
    assert answered["twice"].to_pylist() == [2.0 * i for i in answered["i"].to_pylist()]
    with pytest.raises(DecibanError, match="'y' already"):
        rows.apply(answer, pa.schema([("y", pa.string())]))


def test_errors_of_work_name_the_table(connected):
    rows = table_of(connected(numbers(10)), "rows")

    def fails(tables):
        next(tables)
        raise DecibanError("no such luck")

    with pytest.raises(DecibanError, match="table 'rows': no such luck"):
        rows.collect(fails)
    assert rows.collect(Counting(rows.schema)).rows == 10


def test_a_sample_is_from_all_over(connected):
    n = 50_000
    connection = connected(numbers(n))
    for rows in (table_of(connection, "rows"), table_of(connection, query="SELECT * FROM rows")):
        sampled = rows.sample(2000)
        assert sampled.schema.equals(rows.schema)
        assert 1000 <= sampled.num_rows <= 2000
        i = sampled["i"].to_numpy()
        assert len(set(i.tolist())) == len(i), "each row once"
        shares = np.histogram(i, 10, (0, n))[0] / len(i)
        assert shares.min() > 0.02, "every tenth of the rows is there"
        assert rows.sample(n).num_rows == n


@pytest.mark.engine("sqlite")
def test_a_sample_of_sqlite_goes_by_the_numbers_of_rows():
    rows, statements = table_of(stored_tables.in_sqlite(numbers(20_000)), "rows"), []
    rows.link.connection.set_trace_callback(statements.append)
    assert rows.sample(100).num_rows == 100
    assert any("rowid >=" in one for one in statements)
    assert not any("RANDOM()" in one for one in statements)


def test_a_sample_of_postgresql_reads_some_pages(lasting, postgres):
    n = 60_000
    name = lasting(numbers(0), "pages")
    with postgres.connect(autocommit=True) as connection:
        connection.execute(f"INSERT INTO {quoted(name)} SELECT 0.5, 'a', i FROM generate_series(1, {n}) AS i")
        rows = table_of(connection, name)
        for counted in (False, True):
            if counted:
                connection.execute(f"ANALYZE {quoted(name)}")
            with rows.link.open("") as raw:
                assert 500 <= rows._pages(raw, 500).num_rows < n / 2
            assert rows.sample(500).num_rows == 500


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_names_whatever_is_in_them(connected, name):
    table = numbers(50).rename_columns([name, f"{name[:50]} y", f"{name[:50]} i"])
    connection = connected(table, name)
    if connected.database == "sqlite":
        connection.execute("CREATE TABLE victim (x)")
    rows = table_of(connection, name)
    assert rows.schema.names == table.column_names
    assert rows.collect(Counting(rows.schema, rows.schema.names[2])).rows == 50
    assert rows.sample(10).num_rows <= 10
    stats = rows.pushed(question((name,), rows.schema.names[1])).stats
    assert stats.weight.sum() == 50
    if connected.database == "sqlite":
        assert connection.execute("SELECT COUNT(*) FROM victim").fetchone() == (0,)


def test_names_that_no_database_has(connected):
    connection = connected(numbers(5))
    with pytest.raises(DecibanError, match="cannot be the name"):
        table_of(connection, "nul\0")
    with pytest.raises(EngineError, match="table 'no such'"):
        table_of(connection, "no such")
    with pytest.raises(EngineError, match="table ''"):
        table_of(connection, "")
    assert table_of(connection, "rows").sample(9).num_rows == 5, "the connection goes on"


def test_a_name_longer_than_postgresql_has(lasting, postgres):
    """PostgreSQL cuts names off after 63 bytes, where they are made and where they are used."""
    long = "x" * 80
    lasting(numbers(5), long)
    with postgres.connect() as connection:
        assert table_of(connection, long).to_arrow().num_rows == 5


def test_schemas(connected):
    connection = connected(numbers(5))
    schema = (
        "main"
        if connected.database == "sqlite"
        else connection.execute("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()").fetchone()[0]
    )
    assert table_of(connection, (schema, "rows")).to_arrow().num_rows == 5
    assert table_of(connection, "rows", schema=schema).to_arrow().num_rows == 5
    with pytest.raises(EngineError):
        table_of(connection, ("elsewhere", "rows"))


@pytest.mark.engine("sqlite")
def test_a_name_or_a_query():
    connection = sqlite3.connect(":memory:")
    for how in ({}, {"name": "t", "query": "SELECT 1"}):
        with pytest.raises(DecibanError, match="query="):
            table_of(connection, **how)


def test_columns_have_names_of_their_own(postgres):
    with postgres.connect() as connection, pytest.raises(DecibanError, match="several columns named 'x'"):
        table_of(connection, query="SELECT 1 AS x, 2 AS x")


# ---------------------------------------------------------------------- how a database is reached


@pytest.mark.engine("sqlite")
def test_sqlalchemy_engines_connections_and_urls(tmp_path):
    path = tmp_path / "rows.sqlite"
    stored_tables.in_sqlite(numbers(20), path=path).close()
    url = f"sqlite:///{path}"
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        for one in (url, engine, connection):
            rows = table_of(one, "rows")
            assert rows.collect(Counting(rows.schema)).rows == 20
            assert rows.pushed(question()).stats.weight.sum() == 20
    engine.dispose()


def test_postgresql_by_url_and_engine(lasting, postgres):
    name = lasting(numbers(20), "by url")
    engine = sqlalchemy.create_engine(postgres.url)
    with engine.connect() as connection:
        for one in (postgres.url, postgres.url.replace("+psycopg", ""), engine, connection):
            rows = table_of(one, name)
            assert rows.collect(Counting(rows.schema)).rows == 20
            assert rows.pushed(question()).stats.weight.sum() == 20
        assert not connection.in_transaction()
    assert engine.pool.checkedout() == 0
    engine.dispose()


@pytest.mark.engine("sqlite")
def test_what_is_no_connection():
    with pytest.raises(DecibanError, match="not a database connection"):
        table_of(object(), "t")

    class Odd:
        def cursor(self): ...

    with pytest.raises(DecibanError, match="dialect="):
        table_of(Odd(), "t")
    with pytest.raises(DecibanError, match="dialect is 'klingon'"):
        table_of(sqlite3.connect(":memory:"), "t", dialect="klingon")


# ---------------------------------------------------------------------- passwords


def test_no_password_is_shown(lasting, postgres, caplog):
    rows = table_of(postgres.url, lasting(numbers(5), "secret"))
    shown = [repr(rows), rows.rows_named, repr(rows.link), str(vars(rows))]
    with pytest.raises(TypeError) as error:
        pickle.dumps(rows)
    shown.append(str(error.value))
    with caplog.at_level("DEBUG"):
        rows.to_arrow()
        for bad in (lambda: table_of(postgres.url, "no such"), lambda: rows.scored("SELECT nonsense")):
            with pytest.raises(EngineError) as error:
                bad()
            shown += [str(error.value), repr(error.value), repr(error.value.__cause__)]
    wrong = postgres.url.replace(str(postgres.port), "1")
    with pytest.raises(EngineError) as error:
        table_of(wrong, "rows")
    shown += [str(error.value), caplog.text]
    assert not [text for text in shown if postgres.password in text]


@pytest.mark.parametrize("url", ["postgresql//user:hunter2@host/db", "nonsense://user:hunter2@host/db", "hunter2"])
def test_a_url_that_cannot_be_read_is_not_shown(url):
    with pytest.raises(DecibanError) as error:
        table_of(url, "rows")
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


def test_passwords_are_taken_out_of_messages():
    from deciban.dialects import dialect_of
    from deciban.engines.sql.connections import Link, secrets_of

    url = sqlalchemy.engine.make_url("postgresql://me:p%40ss%2Fword@host/db")
    link = Link(dialect_of("sqlite"), secrets=secrets_of(url))
    assert link.error_line(ValueError("p@ss/word or p%40ss%2Fword")) == "*** or ***"


# ---------------------------------------------------------------------- transactions


@pytest.mark.engine("sqlite")
@pytest.mark.parametrize("isolation", ["", None, "IMMEDIATE"])
def test_sqlite_is_left_as_it_was(tmp_path, isolation):
    path = tmp_path / "rows.sqlite"
    connection = stored_tables.in_sqlite(numbers(50), path=path)
    connection.isolation_level = isolation
    rows = table_of(connection, "rows")

    def everything():
        rows.collect(Counting(rows.schema))
        rows.pushed(question())
        rows.sample(10)
        next(
            rows.apply(
                lambda table: table.select(["x"]).rename_columns(["again"]), pa.schema([("again", pa.float64())])
            )
        )

    everything()
    assert not connection.in_transaction
    connection.execute("BEGIN")
    connection.execute("INSERT INTO rows VALUES (1.0, 'c', 1)")
    everything()
    assert rows.pushed(question()).stats.classes.tolist() == ["a", "b", "c"], "what is not committed yet is seen"
    assert connection.in_transaction
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT COUNT(*) FROM rows").fetchone() == (50,)
    connection.rollback()
    assert connection.execute("SELECT COUNT(*) FROM rows").fetchone() == (50,)


@pytest.mark.engine("sqlite")
def test_what_is_written_between_answers_stays(tmp_path):
    """Answers written on the connection that the rows are read from are kept."""
    connection = stored_tables.in_sqlite(numbers(10), path=tmp_path / "rows.sqlite")
    connection.execute("CREATE TABLE answers (i)")
    fields = pa.schema([("again", pa.int64())])
    for answered in table_of(connection, "rows").apply(lambda t: pa.table({"again": t["i"]}), fields):
        connection.executemany("INSERT INTO answers VALUES (?)", [(i,) for i in answered["again"].to_pylist()])
    connection.commit()
    assert connection.execute("SELECT COUNT(*) FROM answers").fetchone() == (10,)


@pytest.mark.parametrize("auto", [False, True])
def test_postgresql_is_left_as_it_was(lasting, postgres, auto):
    name = lasting(numbers(50), "left alone")
    idle, inside = 0, 2
    with postgres.connect(autocommit=auto) as connection:
        rows = table_of(connection, name)

        def everything():
            rows.collect(Counting(rows.schema))
            rows.pushed(question())
            rows.sample(10)
            fields = pa.schema([("again", pa.float64())])
            drawn = rows.apply(lambda table: table.select(["x"]).rename_columns(["again"]), fields)
            next(drawn)
            drawn.close()

        everything()
        assert connection.info.transaction_status == idle
        connection.execute("BEGIN")
        connection.execute(f"INSERT INTO {quoted(name)} VALUES (1.0, 'c', 1)")
        everything()
        assert rows.pushed(question()).stats.classes.tolist() == ["a", "b", "c"]
        with pytest.raises(EngineError):
            table_of(connection, "no such table")
        assert connection.info.transaction_status == inside, "an error of ours does not end somebody's transaction"
        with postgres.connect() as other:
            assert other.execute(f"SELECT COUNT(*) FROM {quoted(name)}").fetchone() == (50,)
        connection.execute("COMMIT")
        assert connection.execute(f"SELECT COUNT(*) FROM {quoted(name)}").fetchone() == (51,)


def test_a_transaction_that_failed_is_not_touched(lasting, postgres):
    name = lasting(numbers(5), "failed")
    with postgres.connect() as connection:
        rows = table_of(connection, name)
        with pytest.raises(Exception, match="nonsense"):
            connection.execute("SELECT nonsense")
        with pytest.raises(EngineError, match="roll it back"):
            rows.to_arrow()
        connection.rollback()
        assert rows.to_arrow().num_rows == 5


def test_nothing_is_left_behind(lasting, postgres):
    name = lasting(numbers(50), "nothing left")
    seen = "SELECT (SELECT COUNT(*) FROM pg_class), (SELECT COUNT(*) FROM pg_cursors)"
    with postgres.connect(autocommit=True) as connection:
        before = connection.execute(seen).fetchone()
        rows = table_of(connection, name)
        rows.collect(Counting(rows.schema))
        rows.pushed(question())
        rows.sample(10)
        assert connection.execute(seen).fetchone() == before


def test_rows_of_other_factories_are_read_all_the_same(lasting, postgres):
    import psycopg

    name = lasting(numbers(5), "dict rows")
    with postgres.connect(row_factory=psycopg.rows.dict_row) as connection:
        assert table_of(connection, name).pushed(question()).stats.weight.sum() == 5
    connection = stored_tables.in_sqlite(numbers(5))
    connection.row_factory = sqlite3.Row
    assert table_of(connection, "rows").pushed(question()).stats.weight.sum() == 5


# ---------------------------------------------------------------------- types


@pytest.mark.engine("sqlite")
def test_sqlite_holds_anything_anywhere():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE rows (x REAL, i INTEGER, free, d DATE, s VARCHAR(9) COLLATE NOCASE, y)")
    values = [(1.5, 1, 2, "2020-01-02", "a", "p"), ("text", "text", 2.5, "2020-01-02 12:00:00", "A", "q")]
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", [*values, (None,) * 6])
    rows = table_of(connection, "rows")
    table = rows.to_arrow()
    assert table["x"].to_pylist() == [1.5, None, None], "a text among numbers is missing"
    assert table["i"].to_pylist() == [1, None, None]
    assert table["free"].to_pylist() == [2.0, 2.5, None]
    assert rows.schema.field("d").type == pa.timestamp("us")
    numbers = Columns(4, ("x", "i", "free", "d"), pivot=np.zeros((2, 4)))
    texts = Columns(1, ("s",), ((),))
    joint = Joint((Block(Gaussian()), Block(Categorical())))
    kinds = {"x": "number", "i": "number", "free": "number", "d": "date", "s": "category"}
    pushed = rows.pushed(Question(joint, Schema(np.array(["p", "q"]), (numbers, texts)), kinds, "y"))
    assert pushed.unlabelled == 1
    assert pushed.stats.sums[0]["x"].tolist() == [[1.5, 1.0, 2.0, 18263.0], [0.0, 0.0, 2.5, 18263.5]]
    assert pushed.stats.schema.blocks[1].categories == (("A", "a"),), "a collation does not make one of two texts"


@pytest.mark.engine("sqlite")
def test_a_value_that_does_not_fit_names_its_column():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE rows (i INTEGER)")
    connection.executemany("INSERT INTO rows VALUES (?)", [(1,)] * 1500 + [(1.5,)])
    with pytest.raises(EngineError, match=r"column 'i'.*1\.5"):
        table_of(connection, "rows").to_arrow()


def test_types_of_postgresql(postgres):
    with postgres.connect() as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        connection.execute(
            "CREATE TEMPORARY TABLE rows AS SELECT 1.5::numeric AS exact, 'glad'::mood AS mood, "
            "'ab'::char(5) AS padded,"
            " 0.1::float4 AS small, 7::int2 AS tiny, '2020-01-01 00:00+02'::timestamptz AS at, 'a' AS y,"
            "'00000000-0000-0000-0000-000000000001'::uuid AS id, '{\"a\": 1}'::jsonb AS document, 'NaN'::numeric AS nan"
        )
        connection.commit()
        rows = table_of(connection, "rows")
        row = rows.to_arrow().to_pylist()[0]
        assert (row["exact"], row["mood"], row["padded"], row["tiny"]) == (1.5, "glad", "ab", 7)
        assert row["id"].endswith("1")
        assert row["at"].isoformat() == "2019-12-31T22:00:00+00:00"
        assert np.isnan(row["nan"])
        connection.execute("SET TIME ZONE 'Asia/Tokyo'")
        connection.commit()
        names = ("exact", "small", "tiny", "at", "nan")
        stats = rows.pushed(question(names, classes=("a",))).stats
        day = 18261 + 22 / 24
        np.testing.assert_allclose(stats.sums[0]["x"], [[1.5, np.float32(0.1), 7.0, day, 0.0]], rtol=1e-15)
        assert stats.sums[0]["one"].tolist() == [[1, 1, 1, 1, 0]]
        connection.rollback()
        connection.execute("DROP TABLE rows; DROP TYPE mood")
        connection.commit()


# ---------------------------------------------------------------------- scoring


def test_a_select_that_scores_composes(connected):
    rows = table_of(connected(numbers(100)), "rows")
    scored = rows.scored("SELECT i, 2 * i AS twice FROM rows")
    assert scored.to_arrow()["twice"].to_pylist() == [2 * i for i in range(100)]
    assert sum(table.num_rows for table in scored.batches()) == 100
    name = f'scored "so" {os.getpid()} {connected.database}; --'
    made = scored.create(name)
    try:
        assert made.to_arrow().num_rows == 100
        with pytest.raises(EngineError, match="already exists"):
            scored.create(name)
    finally:
        connection = rows.link.connection
        connection.execute(f"DROP TABLE {quoted(name)}")
        connection.commit()


@pytest.mark.parametrize("query", [None, 'SELECT * FROM rows WHERE "i" >= 40 -- not the first'])
def test_a_model_scores_rows_where_they_are(connected, query):
    table = numbers(200)
    rows = table_of(connected(table), "rows")
    model = deciban.NaiveBayes({"i": "drop"}).fit(rows, "y")
    there = rows if query is None else table_of(rows.link.connection, query=query)
    scored = there.scored(model).to_arrow().sort_by("i")
    assert scored.column_names == ["x", "y", "i", "proba_a", "proba_b", "prediction"]
    new = table.slice(0 if query is None else 40)
    assert np.allclose(scored["proba_b"].to_numpy(), model.predict_proba(new)[:, 1], rtol=1e-9)
    assert scored["prediction"].to_pylist() == model.predict(new).tolist()
    assert there.scored(model, keep=["i"], output="prediction").to_arrow().column_names == ["i", "prediction"]


def test_what_is_made_is_committed_unless_somebody_else_is_to(lasting, postgres):
    name = lasting(numbers(5), "to be scored")
    with postgres.connect() as connection:
        rows = table_of(connection, name)
        rows.scored(f"SELECT i FROM {quoted(name)}").create("made")
        with postgres.connect(autocommit=True) as other:
            assert table_of(other, "made").to_arrow().num_rows == 5
            other.execute("DROP TABLE made")
        connection.execute("BEGIN")
        rows.scored(f"SELECT i FROM {quoted(name)}").create("made")
        connection.rollback()
        with pytest.raises(EngineError, match="made"):
            table_of(connection, "made")


# ---------------------------------------------------------------------- connections that drop


def test_a_password_that_is_wrong_is_tried_once(postgres, monkeypatch):
    tries = []
    psycopg = pytest.importorskip("psycopg")
    connect = psycopg.connect
    monkeypatch.setattr(psycopg, "connect", lambda *args, **how: tries.append(1) or connect(*args, **how))
    with pytest.raises(EngineError, match="authentication failed"):
        table_of(postgres.url.replace(postgres.password, "wrong"), "rows")
    assert len(tries) == 1


def kill_all_but(postgres, like):
    """End every backend that runs a statement like this one; how many there were."""
    with postgres.connect(autocommit=True) as connection:
        sessions = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE %s",
            (f"%{like}%",),
        )
        return len(sessions.fetchall())


@dataclass
class Killing:
    """Work that ends the connection that its rows come through, the first times that it has seen a table."""

    postgres: object
    schema: pa.Schema
    times: int
    killed: int = 0

    def __call__(self, tables):
        total = None
        for number, table in enumerate(tables):
            if number == 1 and self.killed < self.times:
                self.killed += kill_all_but(self.postgres, "deciban_rows_")
            part = Counting(self.schema, "i")(iter([table]))
            total = part if total is None else total + part
        return total


def test_a_connection_that_drops_while_rows_are_fetched(lasting, postgres, monkeypatch):
    """With a URL all rows count once after a retry; with a bare connection nothing is learned, with an error."""
    monkeypatch.setattr(
        "deciban.engines.sql.engine.TABLE_ROWS", 1024
    )  # many small tables, so that most are yet to come
    n = 40_000
    name = "dropped"
    lasting(numbers(0), name)
    with postgres.connect(autocommit=True) as connection:
        connection.execute(f"INSERT INTO {quoted(name)} SELECT 0.5, 'a', i FROM generate_series(0, {n - 1}) AS i")
    for times in (1, 2):
        rows = table_of(postgres.url, name)
        work = Killing(postgres, rows.schema, times)
        assert rows.collect(work) == Tally(n, n * (n - 1) / 2)
        assert work.killed == times, "the connection did drop"
    work = Killing(postgres, rows.schema, 100)
    with pytest.raises(EngineError, match=r"table 'dropped': the connection dropped.*nothing was learned"):
        rows.collect(work)
    assert work.killed == 3
    with postgres.connect() as connection:
        rows = table_of(connection, name)
        with pytest.raises(EngineError, match=r"table 'dropped': the connection dropped.*nothing was learned"):
            rows.collect(Killing(postgres, rows.schema, 1))


@pytest.mark.slow
def test_a_connection_that_drops_while_the_database_adds_up(lasting, postgres):
    name = lasting(numbers(50), "slow table")
    with postgres.connect(autocommit=True) as connection:
        connection.execute(
            f"CREATE VIEW slow AS SELECT x, y FROM {quoted(name)} WHERE i >= 0 AND pg_sleep(0.02) IS NOT NULL"
        )
    killed = []

    def kill():
        end = time.monotonic() + 20
        while not killed and time.monotonic() < end:
            time.sleep(0.1)
            if kill_all_but(postgres, "COUNT(x0)"):
                killed.append(True)

    for connection, learns in ((postgres.url, True), (postgres.connect(), False)):
        killed.clear()
        rows = table_of(connection, "slow")
        killer = threading.Thread(target=kill)
        killer.start()
        if learns:
            assert rows.pushed(question()).stats.weight.sum() == 50
        else:
            with pytest.raises(EngineError, match=r"table 'slow': the connection dropped.*nothing was learned"):
                rows.pushed(question())
        killer.join()
        assert killed, "the connection did drop"
