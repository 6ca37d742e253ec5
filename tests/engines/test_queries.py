"""Only one SELECT is run, whatever the text of a query tries, and SELECTs of all shapes are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import stored_tables

import deciban
from deciban.engines.sql.engine import table as table_of
from deciban.engines.sql.queries import check_select, select_text
from deciban.errors import DecibanError, EngineError

duckdb = pytest.importorskip("duckdb")
DATABASES = [
    pytest.param("duckdb", marks=pytest.mark.engine("duckdb")),
    pytest.param("sqlite", marks=pytest.mark.engine("sqlite")),
    pytest.param("postgresql", marks=pytest.mark.engine("postgresql")),
]
TABLE = pa.table({"x": [1.0, 2.0, 3.0], "y": ["a", "b", "a;)"]})
WRITING = (
    "SELECT * FROM rows) AS s; DROP TABLE rows; SELECT * FROM (SELECT * FROM rows",
    "SELECT * FROM rows) AS s; COMMIT; DELETE FROM rows; SELECT * FROM (SELECT * FROM rows",
    "SELECT * FROM rows) AS s, (SELECT * FROM rows",
    "SELECT * FROM rows; DROP TABLE rows",
    "SELECT * FROM rows -- one\n; DELETE FROM rows --",
    "DELETE FROM rows",
    "DELETE FROM rows RETURNING *",
    "INSERT INTO rows VALUES (1, 'c') RETURNING *",
    "WITH gone AS (DELETE FROM rows RETURNING *) SELECT * FROM gone",
    "SELECT * FROM (DELETE FROM rows RETURNING *) AS gone",
    "CREATE TABLE others AS SELECT * FROM rows",
    "SELECT * INTO others FROM rows",
    "DROP TABLE rows",
    "COMMIT",
    "",
    "-- SELECT * FROM rows",
    ";",
    "SELECT 'open FROM rows",
    "SELECT * FROM rows /* open",
)
READING = (
    "SELECT * FROM rows;",
    " SELECT * FROM rows ; ; \n",
    "SELECT * FROM rows; -- all of them;",
    "SELECT * FROM rows /* ; DROP TABLE rows */ -- )",
    "/* first */ SELECT x, y FROM rows ORDER BY x; /* last ; */",
    "WITH few AS (SELECT * FROM rows WHERE x < 9) SELECT * FROM few",
    "SELECT x, y FROM rows WHERE x < 2 UNION ALL SELECT x, y FROM rows WHERE x >= 2",
    "SELECT x, y FROM (SELECT x, y FROM rows) AS r WHERE y <> ';) DROP' AND y <> 'it''s )'",
    'SELECT x AS "x;)--", y AS y FROM rows',
    "VALUES (1.0, 'a'), (2.0, 'b'), (3.0, ');')",
)


@pytest.fixture(params=DATABASES)
def connection(request, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    if request.param == "postgresql":
        connection = stored_tables.in_postgresql(TABLE, request.getfixturevalue("postgres"))
        connection.commit()  # a temporary table, which lasts as long as the connection
    else:
        connection = getattr(stored_tables, f"in_{request.param}")(TABLE)
    yield connection
    connection.close()


def count(connection, name="rows"):
    return connection.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0][0]


@pytest.mark.parametrize("query", WRITING, ids=lambda query: query[:60])
def test_nothing_but_one_select_is_run(connection, query):
    with pytest.raises((DecibanError, EngineError)):
        table_of(connection, query=query)
    assert count(connection) == 3
    with pytest.raises(Exception, match="others"):
        count(connection, "others")


@pytest.mark.parametrize("query", READING, ids=lambda query: query[:60])
def test_selects_of_all_shapes_are_run(connection, query):
    assert table_of(connection, query=query).to_arrow().num_rows == 3


# ---------------------------------------------------------------------- DuckDB

DUCKDB_WRITING = (
    "SELECT * FROM rows) AS s; COPY rows TO 'stolen.csv'; SELECT * FROM (SELECT * FROM rows",
    "COPY rows TO 'stolen.csv'",
    "ATTACH 'stolen.db' AS stolen",
    "INSTALL sqlite",
    "LOAD sqlite",
    "PRAGMA threads = 1",
    "SET threads = 1",
    "CALL pragma_version()",
    "EXPORT DATABASE 'stolen'",
    "EXPLAIN ANALYZE DELETE FROM rows",
    "BEGIN; SELECT 1",
    "PREPARE p AS SELECT 1",
)


@pytest.mark.engine("duckdb")
@pytest.mark.parametrize("query", DUCKDB_WRITING)
def test_duckdb_writes_no_files_and_changes_no_settings(query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connection = stored_tables.in_duckdb(TABLE)
    for given in (lambda: table_of(connection, query=query), lambda: table_of(connection, "rows").scored(query)):
        with pytest.raises((DecibanError, EngineError)):
            given()
    assert count(connection) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.engine("duckdb")
def test_duckdb_says_what_a_statement_is():
    connection = stored_tables.in_duckdb(TABLE)
    with pytest.raises(DecibanError, match=r"2 statements.* SELECT"):
        table_of(connection, query="SELECT 1; SELECT 2")
    with pytest.raises(DecibanError, match=r"COPY.* SELECT"):
        table_of(connection, query="COPY rows TO 'stolen.csv'")


@pytest.mark.engine("duckdb")
def test_duckdb_reads_files_and_scores_by_a_select(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,b\n")
    connection = duckdb.connect()
    rows = table_of(connection, query=f"SELECT * FROM read_csv('{tmp_path}/a.csv')")
    assert rows.to_arrow().num_rows == 2
    assert rows.scored("SELECT x + 1 AS z FROM data; -- all").to_arrow()["z"].to_pylist() == [2, 3]


# ---------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def writing_function(postgres):
    connection = stored_tables.in_postgresql(TABLE, postgres)
    connection.execute(
        "CREATE FUNCTION pg_temp.adds() RETURNS float8 LANGUAGE plpgsql VOLATILE AS "
        "'BEGIN CREATE TABLE deciban_wrote (a int); RETURN 1; END'"
    )
    connection.commit()
    yield connection
    connection.close()


@pytest.mark.parametrize("inside", [False, True], ids=["by itself", "inside a transaction"])
def test_functions_that_write_fail(writing_function, inside):
    connection = writing_function
    if inside:
        connection.execute("INSERT INTO rows VALUES (4, 'mine')")
    with pytest.raises(EngineError, match="read-only"):
        table_of(connection, query="SELECT pg_temp.adds() AS x FROM rows").to_arrow()
    rows = table_of(connection, query="SELECT * FROM rows")
    assert rows.to_arrow().num_rows == 3 + inside, "what was open stays open"
    assert connection.info.transaction_status == (2 if inside else 0)
    connection.execute("INSERT INTO rows VALUES (5, 'mine')")  # and may write
    assert rows.to_arrow().num_rows == 4 + inside
    with pytest.raises(Exception, match="deciban_wrote"):
        count(connection, "deciban_wrote")


def test_postgresql_takes_one_statement_of_drivers_that_send_several(postgres):
    """psycopg2 sends text as it is, and the server runs all statements in it."""
    with stored_tables.in_postgresql(TABLE, postgres) as connection:
        connection.commit()
        cursor = connection.cursor()  # without binary results, text is sent as it is here too
        cursor.execute("SELECT 1; SELECT 2")
        for query in WRITING[:5]:
            with pytest.raises(Exception, match=r"multi-query|syntax error|cannot open"):
                check_select(cursor, query, "postgresql")
            connection.rollback()
            assert count(connection) == 3
        for query in (*READING, r"SELECT E'it\'s; $$' AS a", "SELECT $a$;$$;'$a$ AS a", "SELECT '\\' AS a; --'"):
            check_select(cursor, select_text(query, "postgresql"), "postgresql")


# ---------------------------------------------------------------------- SQLite


@pytest.mark.engine("sqlite")
def test_sqlite_connections_of_ours_are_read_only(tmp_path):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    path = tmp_path / "a.sqlite"
    stored_tables.in_sqlite(TABLE, path=path).close()
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")

    @sqlalchemy.event.listens_for(engine, "connect")
    def add_function(raw, _record):
        raw.create_function("adds", 0, lambda: raw.execute("INSERT INTO rows VALUES (9, 'z')") and 1)

    with pytest.raises(EngineError):
        table_of(engine, query="SELECT adds() AS x FROM rows").to_arrow()
    rows = table_of(engine, "rows")
    assert rows.to_arrow().num_rows == 3
    with engine.begin() as own:  # the pool's connection may write again
        own.exec_driver_sql("INSERT INTO rows VALUES (4, 'd')")
    assert rows.create("copy").to_arrow().num_rows == 4
    engine.dispose()


# ---------------------------------------------------------------------- other databases, by semicolons and brackets


@pytest.mark.parametrize("database", ["mysql", "snowflake", "bigquery", "mssql"])
@pytest.mark.parametrize("query", [*WRITING[:5], *WRITING[-5:]], ids=lambda query: query[:60])
def test_other_databases_get_one_statement(database, query):
    with pytest.raises(DecibanError, match="query"):
        select_text(query, database)


@pytest.mark.parametrize("database", ["mysql", "snowflake", "bigquery", "mssql", "postgresql", "sqlite", "duckdb"])
@pytest.mark.parametrize("query", READING, ids=lambda query: query[:60])
def test_other_databases_get_selects_without_semicolons_at_the_end(database, query):
    code = select_text(query, database)
    connection = stored_tables.in_sqlite(TABLE)
    assert len(connection.execute(f"SELECT * FROM ({code}\n) AS t").fetchall()) == 3


@pytest.mark.parametrize(
    ("database", "query"),
    [
        ("mysql", r"SELECT 'it\'s; )' AS a"),
        ("mysql", 'SELECT "a;)" AS a, `b;)` FROM t # ; )'),
        ("bigquery", "SELECT '''it's; )''' AS a, `p.d;`"),
        ("bigquery", 'SELECT """a"; )""" AS a'),
        ("snowflake", r"SELECT 'it\'s; )', $$;)'$$ AS a // ; )"),
        ("mssql", "SELECT [a;)'] FROM t /* ; /* ) */ ; */"),
        ("postgresql", "SELECT $tag$;)$$'$tag$, E'\\';)' /* /* ; */ ; */"),
        ("postgresql", "SELECT a$1$b FROM t"),
    ],
)
def test_quotes_and_comments_of_each_database(database, query):
    assert select_text(f"{query}\n;", database) == query


@pytest.mark.parametrize(
    ("database", "query"),
    [
        ("mysql", "SELECT 1--1; DROP TABLE t"),  # a minus twice: in MySQL a comment has a blank after --
        ("mysql", "SELECT 1 /*! ; DROP TABLE t */"),
        ("mssql", r"SELECT '\'; DROP TABLE t --'"),  # no escape
        ("mssql", "SELECT 1) AS s DROP TABLE t SELECT * FROM (SELECT 1"),  # statements need no semicolon
        ("mssql", "SELECT (1"),
        ("mysql", "SELECT `open"),
        ("snowflake", "SELECT $$ open"),
    ],
)
def test_what_other_databases_would_run(database, query):
    with pytest.raises(DecibanError):
        select_text(query, database)


def test_a_query_is_checked_before_a_driver_of_another_database_gets_it():
    class Cursor:
        description = (("x",),)

        def __init__(self, sent):
            self.sent = sent

        def execute(self, statement):
            self.sent.append(statement)

        def fetchall(self):
            return [(1.0,)]

        def close(self): ...

    class Connection:
        def __init__(self):
            self.sent = []

        def cursor(self):
            return Cursor(self.sent)

    connection = Connection()
    with pytest.raises(DecibanError, match="several statements"):
        table_of(connection, query="SELECT 1 AS x; DROP TABLE t", dialect="mysql")
    assert connection.sent == []
    assert table_of(connection, query="SELECT 1 AS x;", dialect="mysql").schema.names == ["x"]
    assert len(connection.sent) == 1


# ---------------------------------------------------------------------- the command line


@pytest.mark.engine("duckdb")
def test_the_command_line_writes_nothing_either(tmp_path, monkeypatch, capsys):
    from deciban.cli.run import run

    monkeypatch.chdir(tmp_path)
    with duckdb.connect("t.duckdb") as connection:
        rng = np.random.default_rng(0)
        connection.register("given", pa.table({"a": rng.normal(size=40), "y": ["p", "q"] * 20}))
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    query = "select a, y from t) as s; copy t to 'stolen.csv'; select * from (select * from t"
    train = ["train", "duckdb:///t.duckdb", "--target", "y", "--model", "naive-bayes", "-o", "m.deciban"]
    assert run([*train, "--query", query]) == 2
    assert "syntax error" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.duckdb"]
    assert run([*train, "--query", "select a, y from t;"]) == 0
    assert deciban.load("m.deciban").class_count_.tolist() == [20, 20]
