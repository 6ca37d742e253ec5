"""DuckDB: relations, tables, files and attached databases."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stored_tables

import deciban
from deciban.engines.base import Question
from deciban.engines.sql.duckdb import DuckDB, from_paths, is_relation
from deciban.engines.sql.engine import table as table_of
from deciban.errors import DecibanError, EngineError
from deciban.families import Gaussian
from deciban.joint import Block, Joint
from deciban.schema import Columns, Schema

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.engine("duckdb")

HOSTILE = ['say "so"', "it's", "a; DROP TABLE victim; --", "/* note", "two\nlines", "ünï 表", "select", "50%", "x" * 90]


@dataclass(frozen=True)
class Tally:
    rows: int
    total: int

    def __add__(self, other):
        return Tally(self.rows + other.rows, self.total + other.total)


@dataclass(frozen=True)
class Counting:
    schema: pa.Schema

    def __call__(self, tables):
        total = None
        for table in tables:
            assert table.schema.equals(self.schema)
            part = Tally(table.num_rows, sum(table["i"].to_pylist()))
            total = part if total is None else total + part
        return total


def numbers(n=1000):
    rng = np.random.default_rng(0)
    return pa.table({"x": rng.normal(size=n), "y": rng.choice(["a", "b"], n), "i": np.arange(n)})


def question(names=("x",), target="y"):
    schema = Schema(np.array(["a", "b"]), (Columns(len(names), tuple(names), pivot=np.zeros((2, len(names)))),))
    return Question(Joint((Block(Gaussian()),)), schema, dict.fromkeys(names, "number"), target)


def twice(table):
    return pa.table({"twice": [2 * i for i in table["i"].to_pylist()]})


TWICE = pa.schema([("twice", pa.int64())])


@pytest.mark.parametrize("n", [0, 1, 150_000])
def test_every_row_counts_once(n):
    rows = table_of(stored_tables.in_duckdb(numbers(n)), "rows")
    assert isinstance(rows, DuckDB)
    seen = []
    assert rows.collect(Counting(rows.schema), seen.append) == (None if n == 0 else Tally(n, n * (n - 1) // 2))
    assert (seen[-1] if seen else 0) == n
    assert rows.pushed(question()).stats.weight.sum() == n
    assert rows.to_arrow().num_rows == n


def test_relations_are_known_by_their_type():
    connection = stored_tables.in_duckdb(numbers(5))
    assert is_relation(connection.sql("SELECT * FROM rows"))
    assert not is_relation(connection)
    assert not is_relation(numbers(5))


def test_relations_of_python_objects_and_temporary_tables():
    table = numbers(7)
    connection = duckdb.connect()
    assert DuckDB(connection.from_arrow(table)).pushed(question()).stats.weight.sum() == 7
    connection.execute("CREATE TEMPORARY TABLE passing AS SELECT 1.0 AS x, 'a' AS y, 3 AS i")
    assert table_of(connection, "passing").pushed(question()).stats.weight.tolist() == [1.0]
    assert table_of(connection, query="SELECT x, y FROM passing").schema.names == ["x", "y"]


def test_no_view_is_left_in_the_connection():
    connection = stored_tables.in_duckdb(numbers(9))
    rows = table_of(connection, "rows")
    rows.pushed(question())
    rows.sample(2)
    rows.create("copy")
    assert connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []


def test_types_that_arrow_has_otherwise():
    connection = duckdb.connect()
    relation = connection.sql(
        "SELECT 1.5::DECIMAL(9, 2) AS d, 7::HUGEINT AS h, 'e'::ENUM('e', 'f') AS e, uuid() AS u, 1::UTINYINT AS t, "
        "'a' AS y"
    )
    rows = DuckDB(relation)
    kinds = {field.name: field.type for field in rows.schema}
    assert kinds["d"] == kinds["h"] == pa.float64()
    assert kinds["e"] == kinds["u"] == pa.string()
    assert rows.to_arrow()["d"].to_pylist() == [1.5]
    assert rows.pushed(question(("d", "h", "t"))).stats.sums[0]["x"].tolist() == [[1.5, 7.0, 1.0]]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_names_whatever_is_in_them(name):
    table = numbers(20).rename_columns([name, f"{name} y", "i"])
    connection = stored_tables.in_duckdb(table, name)
    connection.execute("CREATE TABLE victim AS SELECT 1 AS x")
    rows = table_of(connection, name)
    assert rows.schema.names == table.column_names
    assert rows.collect(Counting(rows.schema)).rows == 20
    assert rows.pushed(question((name,), f"{name} y")).stats.weight.sum() == 20
    assert connection.execute("SELECT COUNT(*) FROM victim").fetchall() == [(1,)]


def test_what_is_not_there():
    with pytest.raises(EngineError, match="table 'no such'"):
        table_of(duckdb.connect(), "no such")
    with pytest.raises(EngineError, match=r"no\.parquet"):
        from_paths(["no.parquet"])
    with pytest.raises(DecibanError, match=r"rows\.docx"):
        from_paths(["rows.docx"])
    with pytest.raises(DecibanError, match="several formats"):
        from_paths(["rows.csv", "rows.parquet"])


def test_errors_of_work_name_the_rows_and_free_the_connection():
    connection = stored_tables.in_duckdb(numbers(100_000))
    rows = table_of(connection, "rows")

    def fails(tables):
        next(tables)
        raise DecibanError("no such luck")

    with pytest.raises(DecibanError, match="table 'rows': no such luck"):
        rows.collect(fails)
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


# ---------------------------------------------------------------------- answers


def test_answers_are_a_relation_that_can_be_asked_again():
    connection = stored_tables.in_duckdb(numbers(70_000))
    answers = table_of(connection, "rows").apply(twice, TWICE)
    assert answers.columns == ["x", "y", "i", "twice"]
    for _ in range(2):
        assert answers.aggregate("COUNT(*), SUM(twice - 2 * i)").fetchall() == [(70_000, 0)]
    assert len(answers.limit(3).fetchall()) == 3
    assert connection.execute("SELECT 1").fetchall() == [(1,)], "the connection of the rows is free again"


def test_answers_come_when_they_are_asked_for():
    calls = []

    def answer(table):
        calls.append(table.num_rows)
        return twice(table)

    answers = table_of(stored_tables.in_duckdb(numbers(10)), "rows").apply(answer, TWICE)
    assert not calls
    assert answers.to_arrow_table().num_rows == 10
    assert sum(calls) == 10


def test_the_name_of_an_answer_must_be_free():
    with pytest.raises(DecibanError, match="'i' already"):
        table_of(stored_tables.in_duckdb(numbers(10)), "rows").apply(twice, pa.schema([("i", pa.int64())]))


def test_a_select_that_scores_composes():
    connection = stored_tables.in_duckdb(numbers(10))
    scored = table_of(connection, "rows").scored("SELECT i, 2 * i AS twice FROM data")
    assert scored.to_arrow()["twice"].to_pylist() == [2 * i for i in range(10)]
    other = stored_tables.in_duckdb(numbers(10), "data")  # the name of a table hides it in the SELECT alone
    scored_too = table_of(other, query="SELECT i + 1 AS i FROM data").scored("SELECT i, 2 * i AS twice FROM data")
    assert scored_too.to_arrow()["twice"].to_pylist() == [2 * i + 2 for i in range(10)]
    scored.create('made "so"; --')
    assert table_of(connection, 'made "so"; --').to_arrow()["twice"].to_pylist() == [2 * i for i in range(10)]


def test_a_model_scores_rows_where_they_are():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    table = pa.table({"key": np.arange(300), "x": rng.normal(size=300) + y, "label": np.array(["a", "b"])[y]})
    connection = duckdb.connect()
    connection.register("rows", table)
    rows = table_of(connection, "rows")
    model = deciban.NaiveBayes({"key": "drop"}).fit(rows, "label")
    with pytest.raises(DecibanError, match="'prediction'"):
        table_of(connection, query="SELECT key, x, label AS prediction FROM rows").scored(model)
    scored = rows.scored(model, keep=["key", "x"]).to_arrow().sort_by("key")
    assert scored.column_names == ["key", "x", "proba_a", "proba_b", "prediction"]
    assert np.allclose(scored["proba_b"].to_numpy(), model.predict_proba(table)[:, 1], rtol=1e-9)
    answered = model.predict(connection.table("rows"))
    assert answered.order("key").fetchnumpy()["prediction"].tolist() == model.predict(table).tolist()


@pytest.mark.parametrize("query", ["DELETE FROM rows", "SELECT * FROM rows; DROP TABLE rows", "DROP TABLE rows"])
def test_nothing_but_a_select_is_run(query):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows AS SELECT 1 AS x, 'a' AS label")
    with pytest.raises(DecibanError, match="one SELECT"):
        table_of(connection, query=query)
    assert connection.sql("SELECT COUNT(*) FROM rows").fetchall() == [(1,)]
    assert table_of(connection, query="SELECT * FROM rows; ").to_arrow().num_rows == 1


def test_a_connection_has_many_tables():
    with pytest.raises(DecibanError, match=r"deciban\.table"):
        DuckDB(duckdb.connect())


# ---------------------------------------------------------------------- samples


def test_a_sample_is_from_all_over(tmp_path):
    n = 300_000
    table = numbers(n)
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=5000)
    connection = stored_tables.in_duckdb(table)
    for rows in (
        table_of(connection, "rows"),
        table_of(connection, query="SELECT * FROM rows"),
        from_paths([str(tmp_path / "rows.parquet")]),
    ):
        sampled = rows.sample(3000)
        assert sampled.schema.equals(rows.schema)
        assert 1500 <= sampled.num_rows <= 3000
        i = sampled["i"].to_numpy()
        assert len(set(i.tolist())) == len(i)
        assert (np.histogram(i, 4, (0, n))[0] / len(i)).min() > 0.02
        assert rows.sample(n).num_rows == n


# ---------------------------------------------------------------------- files and other databases


def test_files_of_every_kind(tmp_path):
    connection = stored_tables.in_duckdb(numbers(50))
    for ending, how in (
        (".parquet", "PARQUET"),
        (".csv", "CSV"),
        (".json", "JSON"),
        (".csv.gz", "CSV, COMPRESSION gzip"),
    ):
        path = tmp_path / f"it's rows{ending}"
        target = str(path).replace("'", "''")
        connection.execute(f"COPY rows TO '{target}' (FORMAT {how})")
        rows = from_paths([str(path)])
        assert rows.collect(Counting(rows.schema)) == Tally(50, 1225), ending
        assert rows.pushed(question()).stats.weight.sum() == 50
        assert "rows" in rows.rows_named


def test_several_files_and_patterns(tmp_path):
    for k in range(3):
        pq.write_table(numbers(10), tmp_path / f"part{k}.parquet")
    for paths in ([str(tmp_path / "*.parquet")], [str(tmp_path / f"part{k}.parquet") for k in range(3)]):
        rows = from_paths(paths)
        assert rows.pushed(question()).stats.weight.sum() == 30
        assert rows.sample(5).num_rows == 5


def test_a_corrupt_file_is_named(tmp_path):
    for k in range(3):
        pq.write_table(numbers(1000), tmp_path / f"part{k}.parquet")
    whole = (tmp_path / "part1.parquet").read_bytes()
    (tmp_path / "part1.parquet").write_bytes(whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    rows = from_paths([str(tmp_path / f"part{k}.parquet") for k in range(3)])
    for ask in (lambda: rows.pushed(question()), lambda: rows.collect(Counting(rows.schema))):
        with pytest.raises(EngineError, match=r"part1\.parquet: .*nothing was learned"):
            ask()


def test_databases_that_are_attached(tmp_path):
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS other")
    connection.execute("CREATE TABLE other.rows AS SELECT 1.0 AS x, 'a' AS y, 3 AS i")
    assert table_of(connection, ("other", "rows")).pushed(question()).stats.weight.tolist() == [1.0]
    connection.close()
    rows = table_of(f"duckdb:///{tmp_path / 'other.duckdb'}", "rows")
    assert rows.pushed(question()).stats.weight.tolist() == [1.0]


def test_a_file_of_sqlite_that_is_attached(tmp_path):
    stored_tables.in_sqlite(numbers(9), path=tmp_path / "rows.sqlite").close()
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    try:
        connection.execute("LOAD sqlite")
    except duckdb.Error:
        pytest.skip("DuckDB's extension for SQLite is not installed: INSTALL sqlite")
    connection.execute(f"ATTACH '{tmp_path / 'rows.sqlite'}' AS other (TYPE sqlite)")
    assert table_of(connection, ("other", "rows")).pushed(question()).stats.weight.sum() == 9


def test_duckdb_and_sqlite_say_the_same():
    table = numbers(500)
    one = table_of(stored_tables.in_duckdb(table), "rows").pushed(question()).stats
    two = table_of(stored_tables.in_sqlite(table), "rows").pushed(question()).stats
    assert one.same_as(two)
