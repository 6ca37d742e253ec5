"""`deciban train --engine`: rows that are added up where they are."""

from __future__ import annotations

import sqlite3
from importlib.util import find_spec

import pytest

import deciban as api

from .customers import people_frame, write_people

N_ROWS = 120


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    """The same customers as a CSV file, as Parquet in two files, and in a database."""
    folder, frame = tmp_path_factory.mktemp("shops"), people_frame(N_ROWS)
    write_people(frame, folder / "people.csv")
    frame[:70].to_parquet(folder / "part1.parquet", index=False)
    frame[70:].to_parquet(folder / "part2.parquet", index=False)
    with sqlite3.connect(folder / "shop.sqlite") as connection:
        frame.to_sql("the people", connection, index=False)
    connection.close()
    return folder


def trained(inside, *arguments):
    done = inside("train", *arguments, "--target", "leaves", "-o", "m.deciban", "--force")
    assert done.code == 0, done.err
    return api.load(inside.folder / "m.deciban"), done


@pytest.mark.parametrize("engine", ["stream", "duckdb", "dask"])
def test_files_by_any_engine(inside, shops, engine):
    if engine != "stream":
        pytest.importorskip({"duckdb": "duckdb", "dask": "dask.dataframe"}[engine])
    parts = [str(shops / f"part{i}.parquet") for i in (1, 2)]
    here, _ = trained(inside, *parts, "--model", "naive-bayes")
    there, done = trained(inside, *parts, "--model", "naive-bayes", "--engine", engine)
    assert here.model_.stats.same_as(there.model_.stats)
    assert there.origin_["target"] == "leaves"
    assert f"Learned {N_ROWS} rows" in done.out


def test_a_database_by_its_url(inside, shops):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("sqlglot")
    here, _ = trained(inside, shops / "people.csv", "--model", "naive-bayes", "--schema", "joined=skip")
    url = f"sqlite:///{shops / 'shop.sqlite'}"
    there, _ = trained(inside, url, "--table", "the people", "--model", "naive-bayes", "--schema", "joined=skip")
    assert there.class_count_.tolist() == here.class_count_.tolist()
    some, _ = trained(inside, url, "--query", 'SELECT * FROM "the people" WHERE age > 40', "--model", "naive-bayes")
    assert 0 < some.class_count_.sum() < N_ROWS
    assert str(shops) not in repr(there.origin_), "no path is in a model file"


def test_rows_without_a_label_are_passed_over(inside, tmp_path):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("sqlglot")
    connection = sqlite3.connect(tmp_path / "some.sqlite")
    connection.execute("CREATE TABLE rows (x REAL, leaves TEXT)")
    connection.executemany("INSERT INTO rows VALUES (?, ?)", [(1.0, "no"), (2.0, "yes"), (1.5, None), (3.0, "yes")] * 5)
    connection.commit()
    connection.close()
    model, _ = trained(inside, f"sqlite:///{tmp_path / 'some.sqlite'}", "--table", "rows", "--model", "naive-bayes")
    assert model.class_count_.tolist() == [5.0, 10.0]
    assert model.n_unlabelled_ == 0


def test_a_classifier_chooses_by_itself(inside, shops):
    model, done = trained(inside, shops / "people.csv", "--engine", "stream")
    assert type(model).__name__ == "Classifier"
    assert "Cross-fitted leave-one-out: accuracy" in done.out
    assert inside("predict", "m.deciban", shops / "people.csv", "--only").code == 0


def test_a_checkpoint_goes_away_when_all_is_learned(inside, shops):
    trained(inside, shops / "people.csv", "--model", "naive-bayes", "--checkpoint", "run.part")
    assert not (inside.folder / "run.part").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("people.csv", "--engine", "hadoop"), "there is no --engine 'hadoop'"),
        (("people.csv", "--table", "people"), "are for databases"),
        (("people.csv", "--engine", "sql"), "one database"),
        (("postgresql://me:s3cret@127.0.0.1:1/shop",), "--table NAME"),
        (("postgresql://me:s3cret@127.0.0.1:1/shop", "--table", "a", "--query", "SELECT 1"), "--table NAME"),
        (("postgresql://me:s3cret@127.0.0.1:1/shop", "--table", "a", "--engine", "dask"), "leave out --engine"),
        pytest.param(
            ("postgresql://me:s3cret@127.0.0.1:1/shop", "--table", "people"),
            "people",
            marks=pytest.mark.skipif(find_spec("psycopg") is None, reason="psycopg is not installed"),
        ),
        (("nothing+here://me:s3cret@x/y", "--table", "people"), ""),
        (("people.csv", "--engine", "dask", "--checkpoint", "c"), "--checkpoint is for --engine stream"),
        (("people.csv", "--engine", "stream", "--like", "m.deciban"), "--like"),
        (("people.csv", "--engine", "duckdb", "--missing", "-"), "--missing is for files"),
    ],
)
def test_invalid_options_are_refused_in_one_line(inside, shops, arguments, says):
    pytest.importorskip("sqlalchemy")
    arguments = [str(shops / one) if one == "people.csv" else one for one in arguments]
    done = inside("train", *arguments, "--target", "leaves", "-o", "m.deciban")
    assert done.code == 2, done.err
    assert says in done.err
    assert "s3cret" not in done.err + done.out
    assert len(done.err.strip().splitlines()) == 1
    assert not (inside.folder / "m.deciban").exists()


def test_a_column_that_is_not_there(inside, shops):
    done = inside("train", shops / "people.csv", "--engine", "stream", "--target", "lives", "-o", "m.deciban")
    assert done.code == 2
    assert "'lives'" in done.err
    assert "leaves" in done.err
