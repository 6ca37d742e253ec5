"""Values keep their types: 35 is not 35.0, counts are whole, true is no string, dates are ISO, missing is null."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

import deciban as api
from deciban.sources import open_source

from .customers import people, write_people
from .shell import deciban, succeeded

HEADER = "age,spent,plan,active,joined,leaves"


@pytest.fixture
def rows(inside):
    """The same rows as CSV and as JSON lines."""
    write_people(people(30, seed=4), inside.folder / "rows.csv")
    lines = (inside.folder / "rows.csv").read_text().splitlines()[1:]
    objects = []
    for line in lines:
        age, spent, plan, active, joined, leaves = line.split(",")
        objects.append(
            {
                "age": None if age == "?" else int(age),
                "spent": None if spent == "?" else float(spent),
                "plan": None if plan == "?" else plan,
                "active": active == "true",
                "joined": joined,
                "leaves": leaves,
            }
        )
    (inside.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects))
    return objects


def all_numbers(value, path=()):
    """Every number in a JSON document, with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from all_numbers(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from all_numbers(inner, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


COUNTS = {
    "rows",
    "before",
    "after",
    "bytes",
    "models",
    "confusion",
    "judged_rows",
    "evaluated_rows",
    "impossible_rows",
    "held_out",
}


@pytest.mark.parametrize(
    "command",
    [
        ("train", "rows.csv", "-t", "leaves", "-o", "m.deciban"),
        ("train", "rows.csv", "-t", "leaves", "--model", "naive-bayes", "-o", "m.deciban"),
        ("learn", "churn.deciban", "rows.csv", "-o", "m.deciban"),
        ("merge", "churn.deciban", "churn.deciban", "-o", "m.deciban"),
        ("evaluate", "churn.deciban", "rows.csv"),
        ("show", "churn.deciban"),
        ("report", "churn.deciban", "rows.csv", "--no-curve"),
        ("compare", "rows.csv", "-t", "leaves", "--repeats", "1"),
    ],
    ids=lambda command: command[0],
)
def test_counts_are_whole_numbers(command, rows, shop, inside):
    del rows
    (inside.folder / "churn.deciban").write_bytes(shop.churn.read_bytes())
    document = succeeded(inside(*command, "--json")).json()
    counts = [(path, number) for path, number in all_numbers(document) if COUNTS & set(path)]
    counts += [(path, number) for path, number in all_numbers(document.get("classes", {})) if len(path) == 1]
    assert counts
    shares = {"precision", "recall", "f1", "coverage", "mean size"}
    assert not [one for one in counts if not isinstance(one[1], int) and not shares & set(one[0])]


def test_forgotten_rows_are_counted_in_whole_numbers(rows, shop, inside):
    (inside.folder / "churn.deciban").write_bytes(shop.churn.read_bytes())
    succeeded(inside("learn", "churn.deciban", "rows.csv"))
    assert (
        succeeded(inside("forget", "churn.deciban", "rows.csv", "--json")).out
        == f'{{"file": "churn.deciban", "rows": {len(rows)}, "before": 230, "after": 200}}\n'
    )


@pytest.mark.parametrize("source", ["rows.csv", "rows.jsonl"])
def test_predictions_as_json_give_the_rows_back_as_they_were(source, rows, shop, inside):
    lines = succeeded(inside("predict", shop.churn, source, "--json")).out.splitlines()
    for line, row in zip(lines, rows, strict=True):
        answer = json.loads(line)
        assert {name: answer[name] for name in row} == row
        assert [type(answer[name]) for name in row] == [type(value) for value in row.values()]


@pytest.mark.parametrize("source", ["rows.csv", "rows.jsonl"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_integers_are_integers_where_columns_have_types(source, ending, rows, shop, inside):
    succeeded(inside("predict", shop.churn, source, "-o", f"out.{ending}"))
    path = inside.folder / f"out.{ending}"
    table = pa.parquet.read_table(path) if ending == "parquet" else pa.ipc.open_file(path).read_all()
    assert table.schema.field("age").type == pa.int64()
    assert table.schema.field("spent").type == pa.float64()
    assert table.schema.field("active").type == pa.bool_()
    assert table["age"].to_pylist() == [row["age"] for row in rows]


def test_a_csv_has_no_points_in_whole_numbers(rows, shop, inside):
    text = succeeded(inside("predict", shop.churn, "rows.csv")).out
    given = (inside.folder / "rows.csv").read_text().replace("?", "").splitlines()
    assert [line.rsplit(",", 2)[0] for line in text.splitlines()[1:]] == given[1:]
    assert len(given) == len(rows) + 1


def late_fraction(folder, rows):
    """Whole numbers, but for the last row, which the sample does not reach."""
    lines = [f"{20 + i % 50},{i % 97}.5,basic,true,2020-01-01,no" for i in range(rows)]
    lines[-1] = "35.5,1.5,basic,true,2020-01-01,no"
    (folder / "late.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    return rows


def test_a_fraction_after_many_whole_numbers_is_kept(shop, inside, monkeypatch):
    monkeypatch.setattr("deciban.sources.csv.SAMPLE_ROWS", 64)
    n = late_fraction(inside.folder, 20_000)
    assert "age" in open_source([inside.folder / "late.csv"]).whole
    assert succeeded(inside("predict", shop.churn, "late.csv", "-o", "out.parquet")).out.startswith("Wrote out.parquet")
    column = pa.parquet.read_table(inside.folder / "out.parquet")["age"]
    assert (column.type, len(column), column[-1].as_py()) == (pa.float64(), n, 35.5)
    succeeded(inside("predict", shop.churn, "late.csv", "-o", "out.jsonl"))
    ages = [line[: line.index(",")] for line in (inside.folder / "out.jsonl").read_text().splitlines()]
    assert (ages[0], ages[-1]) == ('{"age": 20', '{"age": 35.5')


@pytest.mark.slow
def test_a_pipe_keeps_a_late_fraction_too(shop, tmp_path):
    n = late_fraction(tmp_path, 120_000)
    given = (tmp_path / "late.csv").read_bytes()
    succeeded(deciban("predict", shop.churn, "-", "-o", "out.parquet", cwd=tmp_path, given=given))
    column = pa.parquet.read_table(tmp_path / "out.parquet")["age"]
    assert (len(column), column[-1].as_py()) == (n, 35.5)
    whole = given.replace(b"35.5,1.5", b"35,1.5")
    succeeded(deciban("predict", shop.churn, "-", "-o", "whole.parquet", cwd=tmp_path, given=whole))
    assert pa.parquet.read_table(tmp_path / "whole.parquet")["age"].type == pa.int64()


def test_times_come_back_without_fractions_of_a_second(inside):
    (inside.folder / "t.csv").write_text("x,when,y\n" + "1.5,2020-01-02 03:04:05,a\n2.5,2021-01-02 00:00:00,b\n" * 10)
    succeeded(inside("train", "t.csv", "-t", "y", "--model", "naive-bayes"))
    out = succeeded(inside("predict", "t.deciban", "t.csv")).out.splitlines()
    assert out[1].startswith("1.5,2020-01-02 03:04:05,a,")
    line = json.loads(succeeded(inside("predict", "t.deciban", "t.csv", "--json")).out.splitlines()[0])
    assert line["when"] == "2020-01-02T03:04:05"


# ------------------------------------------------------------------ explain


@pytest.mark.parametrize("model", ["classifier", "naive-bayes", "tree"])
@pytest.mark.parametrize("source", ["rows.csv", "rows.jsonl"])
def test_explanations_have_the_values_of_the_row(model, source, rows, inside):
    succeeded(inside("train", "rows.csv", "-t", "leaves", "--model", model, "-o", "m.deciban"))
    number = next(i for i, row in enumerate(rows) if None not in row.values())
    why = succeeded(inside("explain", "m.deciban", source, "--row", number + 1, "--json")).json()
    values = {item["name"].partition(" given ")[0]: item["value"] for item in why["evidence"]}
    shown = ["plan", "active"] if model == "tree" else ["age", "spent", "plan", "active", "joined"]  # a tree has ranges
    assert {name: values[name] for name in shown} == {name: rows[number][name] for name in shown}
    assert all(type(values[name]) is type(rows[number][name]) for name in shown)


def test_a_missing_value_is_null_in_an_explanation(rows, shop, inside):
    number = next(i for i, row in enumerate(rows) if row["plan"] is None)
    why = succeeded(inside("explain", shop.churn, "rows.csv", "--row", number + 1, "--json")).json()
    assert {item["name"]: item["value"] for item in why["evidence"]}["plan"] is None


# ------------------------------------------------------------------ sample


@pytest.mark.parametrize("model", ["classifier", "naive-bayes", "tree"])
def test_samples_are_written_as_the_data_are(model, rows, inside):
    """Two decimals stay two, whole numbers whole, and dates dates."""
    del rows
    succeeded(inside("train", "rows.csv", "-t", "leaves", "--model", model, "-o", "m.deciban"))
    drawn = [
        json.loads(line)
        for line in succeeded(inside("sample", "m.deciban", "-n", 200, "--seed", 1, "--json")).out.splitlines()
    ]
    ages, spent = ([row[name] for row in drawn if row[name] is not None] for name in ("age", "spent"))
    assert {type(age) for age in ages} == {int}
    assert all(round(amount, 2) == amount for amount in spent)
    assert any(round(amount, 1) != amount for amount in spent)
    assert all(len(row["joined"]) == len("2020-01-01") for row in drawn)
    assert len(pd.to_datetime([row["joined"] for row in drawn], format="%Y-%m-%d")) == 200


def test_a_model_of_an_older_version_draws_as_before(shop, inside):
    """Nothing is stored of how columns are written; a `Classifier` knows decimals from its bins."""
    model = api.load(shop.churn)
    model.origin_ = {key: value for key, value in model.origin_.items() if key != "forms"}
    model.save(inside.folder / "old.deciban")
    lines = succeeded(inside("sample", "old.deciban", "-n", 50, "--seed", 0)).out.splitlines()
    amounts = [line.split(",")[1] for line in lines[1:]]
    assert max(len(amount.partition(".")[2]) for amount in amounts) == 2


def test_numbers_that_were_never_rounded_stay_so(inside):
    rng = np.random.default_rng(0)
    pd.DataFrame({"x": rng.normal(size=60), "y": ["a", "b"] * 30}).to_csv(inside.folder / "t.csv", index=False)
    for model in ("classifier", "naive-bayes"):
        succeeded(inside("train", "t.csv", "-t", "y", "--model", model, "-o", "m.deciban", "--force"))
        lines = succeeded(inside("sample", "m.deciban", "-n", 5, "--seed", 0)).out.splitlines()
        assert all(len(line.split(",")[0]) > 12 for line in lines[1:])
