"""Labels and rows in files: odd numbers, missing values, several files, and their digests."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deciban
from deciban.cli import rows as model_rows
from deciban.cli.engines import FileOptions
from deciban.reading.labels import label_array

from .shell import succeeded


def test_numbers_that_are_no_whole_numbers_stay_what_they_are():
    assert label_array(pa.chunked_array([[1.0, 2.0]])).tolist() == [1, 2]
    assert label_array(pa.chunked_array([[1e20, 2.0]])).tolist() == [1e20, 2.0]
    assert label_array(pa.chunked_array([pa.array([2**64 - 5], pa.uint64())])).tolist() == [2**64 - 5]


@pytest.mark.parametrize("most", [200_000, 40])
def test_rows_without_a_label_are_counted_once(most, inside, monkeypatch):
    monkeypatch.setattr(model_rows, "MAX_ROWS_IN_MEMORY", most)
    y = np.where(np.random.default_rng(0).permutation(120) < 40, np.nan, np.arange(120) % 2)
    pq.write_table(pa.table({"x": np.arange(120.0) % 7, "y": y}), inside.folder / "t.parquet", row_group_size=30)
    done = succeeded(inside("train", "t.parquet", "-t", "y", "--json"))
    assert done.json()["classes"] == {"0": int((y == 0).sum()), "1": int((y == 1).sum())}
    assert "40 rows without a label" in done.err


def test_classes_that_differ_only_in_case_or_spaces_are_noted(inside):
    labels = ["yes", " yes", "Yes", "no"]
    (inside.folder / "t.csv").write_text("x,y\n" + "".join(f"{i % 7},{labels[i % 4]}\n" for i in range(60)))
    done = succeeded(inside("train", "t.csv", "-t", "y"))
    assert "classes ' yes', 'Yes' and 'yes' differ only in case or spaces" in done.err
    (inside.folder / "t.csv").write_text("x,y\n" + "".join(f"{i % 7},{'yes' if i % 2 else 'no'}\n" for i in range(60)))
    assert "differ only" not in succeeded(inside("train", "t.csv", "-t", "y", "--force")).err


def test_a_fraction_that_the_sample_did_not_have(inside):
    lines = [f"{i % 9},{'ab'[i % 2]}" for i in range(150_000)]
    lines[77_777] = "2.5,a"
    (inside.folder / "t.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    assert succeeded(inside("train", "t.csv", "-t", "y", "--model", "naive-bayes", "--json")).json()["rows"] == 150_000


def test_line_breaks_in_quotes_make_no_classes(inside, monkeypatch):
    monkeypatch.setattr(model_rows, "MAX_ROWS_IN_MEMORY", 1000)
    lines = [f'"Smith, north\nRoad {i % 5}, Town\nEngland",{"ab"[i % 2]}' for i in range(30_000)]
    (inside.folder / "t.csv").write_text("address,y\n" + "\n".join(lines) + "\n")
    done = succeeded(inside("train", "t.csv", "-t", "y", "--schema", "address=category", "--json"))
    assert done.json()["classes"] == {"a": 15_000, "b": 15_000}


def test_long_texts_are_learned_in_batches(inside, monkeypatch):
    """However few there are: the memory limit counts bytes too."""
    monkeypatch.setattr(model_rows, "MAX_BYTES_IN_MEMORY", 1 << 16)
    words = {"a": "lunch noon meeting ", "b": "money prize claim "}
    lines = [json.dumps({"text": words["ab"[i % 2]] * 40 + str(i), "y": "ab"[i % 2]}) for i in range(400)]
    (inside.folder / "t.jsonl").write_text("\n".join(lines))
    engine = FileOptions().open([str(inside.folder / "t.jsonl")])
    assert model_rows.split_columns(engine, "y", "text").all_rows() is None
    assert succeeded(inside("train", "t.jsonl", "-t", "y", "--json")).json()["classes"] == {"a": 200, "b": 200}


def test_each_file_is_known_by_itself(inside):
    for name, shift in (("a", 0), ("b", 1), ("c", 2)):
        rows = "\n".join(f"{(i * 7 + shift) % 11},{'no' if (i + shift) % 3 else 'yes'}" for i in range(60))
        (inside.folder / f"{name}.csv").write_text(f"x,y\n{rows}\n")
    succeeded(inside("train", "a.csv", "b.csv", "-t", "y", "-o", "m.deciban"))
    for files in (["a.csv"], ["b.csv"], ["b.csv", "a.csv"]):
        assert "leave-one-out" in succeeded(inside("evaluate", "m.deciban", *files)).out
    assert "new rows" in succeeded(inside("evaluate", "m.deciban", "c.csv")).out
    mixed = inside("evaluate", "m.deciban", "a.csv", "c.csv")
    assert mixed.code == 2
    assert "one by one" in mixed.err


def test_labels_are_part_of_what_is_known_of_texts(inside):
    (inside.folder / "one.txt").write_text("win money\nfree money\nclick now\n")
    (inside.folder / "two.txt").write_text("lunch at noon\nsee you\nmeeting moved\n")
    succeeded(inside("train", "spam=one.txt", "ham=two.txt", "-o", "m.deciban"))
    assert "leave-one-out" in succeeded(inside("evaluate", "m.deciban", "ham=two.txt", "spam=one.txt")).out
    assert "new rows" in succeeded(inside("evaluate", "m.deciban", "ham=one.txt", "spam=two.txt")).out


def test_a_label_of_another_kind_is_named(inside):
    (inside.folder / "t.csv").write_text("x,y\n" + "1,0\n2,1\n" * 20)
    (inside.folder / "u.csv").write_text("x,y\n1,0\n2,x\n")
    succeeded(inside("train", "t.csv", "-t", "y"))
    done = inside("learn", "t.deciban", "u.csv")
    assert done.code == 2
    assert "'x' is a label" in done.err


@pytest.mark.parametrize("origin", [{"names": 5}, {"target": 3}, {"learned": [1]}])
def test_an_origin_that_makes_no_sense_is_refused(origin, tmp_path):
    model = deciban.MultinomialNB().fit([[1, 0], [0, 1]], ["a", "b"])
    model.origin_ = json.loads(json.dumps(origin))
    model.save(tmp_path / "m.deciban")
    with pytest.raises(deciban.FileError, match="its origin"):
        deciban.load(tmp_path / "m.deciban")


def test_a_merged_model_remembers_what_each_forgot(inside):
    (inside.folder / "a.csv").write_text("x,y\n" + "1,0\n2,1\n" * 20)
    (inside.folder / "b.csv").write_text("x,y\n" + "2,0\n3,1\n" * 20)
    (inside.folder / "one.csv").write_text("x,y\n2,0\n")
    succeeded(inside("train", "a.csv", "-t", "y", "--model", "naive-bayes"))
    succeeded(inside("train", "b.csv", "-t", "y", "--model", "naive-bayes"))
    succeeded(inside("forget", "b.deciban", "one.csv"))
    succeeded(inside("merge", "a.deciban", "b.deciban", "-o", "c.deciban"))
    assert "too optimistic" in succeeded(inside("evaluate", "c.deciban", "b.csv")).err
    assert "leave-one-out" in succeeded(inside("evaluate", "c.deciban", "a.csv")).out
