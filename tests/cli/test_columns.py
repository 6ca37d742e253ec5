"""Columns as people write them: options that say how, and what `train` says it took each for."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from deciban import read
from deciban.cli import rows as model_rows
from deciban.reading.convert import format_from_dict
from deciban.reading.dates import DateFormat
from deciban.reading.numerals import NumberFormat

from .shell import deciban, succeeded

N = 120
SIMPLE = ("naive-bayes", "tree")


def orders(amount="${:,.0f}", when="{d.day}/{d.month}/{d.year}") -> str:
    """Orders whose amount tells the class, with a number of a customer, a postcode and a column of one value."""
    rng = np.random.default_rng(0)
    rows = ["id;amount;when;zip;shop;returned"]
    for i in range(N):
        returned = i % 2
        day = (np.datetime64("2023-01-01") + int(rng.integers(0, 700))).astype(object)
        value = amount.format(4000 + 3000 * returned + rng.normal(0, 400))
        zip_code = rng.choice(["01234", "20455", "07030"])
        rows.append(f"{1000 + i};{value};{when.format(d=day)};{zip_code};here;{'no' if returned else 'yes'}")
    return "\n".join(rows) + "\n"


def formats_in(path) -> dict:
    """How the model file says that columns are written."""
    origin = read(path).origin_
    return {name: format_from_dict(about) for name, about in origin.get("formats", {}).items()}


@pytest.fixture
def store(inside):
    """Commands in a folder with a file of orders."""
    (inside.folder / "orders.csv").write_text(orders())
    return inside


def test_train_lists_the_columns_to_check(store):
    done = succeeded(store("train", "orders.csv", "-t", "returned"))
    block = [line.split(maxsplit=1) for line in done.out.split("\n\n")[1].splitlines()[2:]]
    told = dict(block)
    assert list(told) == ["id", "amount", "when", "zip", "shop"]
    assert told["id"].startswith("left out")
    assert "without gaps" in told["id"]
    assert told["amount"].startswith("count")
    assert "with a comma between thousands" in told["amount"]
    assert told["when"].startswith("date")
    assert "with the day first" in told["when"]
    assert told["zip"].startswith("category")
    assert "codes rather than numbers" in told["zip"]
    assert told["shop"].startswith("left out")
    assert "every value is the same" in told["shop"]
    assert "--schema COLUMN=KIND" in done.out


def test_nothing_is_listed_where_all_is_obvious(inside, shop):
    done = succeeded(inside("train", shop.customers, "-t", "leaves", "-o", "m.deciban"))
    assert "columns to check" not in done.out
    kinds = succeeded(inside("train", shop.customers, "-t", "leaves", "-o", "j.deciban", "--json")).json()["columns"]
    assert [own["column"] for own in kinds] == ["age", "spent", "plan", "active", "joined"]
    assert all(set(own) == {"column", "kind", "why"} for own in kinds)


def test_what_was_given_is_not_listed(store):
    given = [f"--schema={one}" for one in ("id=skip", "shop=skip", "zip=category")]
    done = succeeded(store("train", "orders.csv", "-t", "returned", *given))
    assert [line.split()[0] for line in done.out.split("\n\n")[1].splitlines()[2:]] == ["amount", "when"]


@pytest.mark.parametrize("model", SIMPLE)
def test_simple_models_read_numbers_and_dates_as_such_too(store, model):
    done = succeeded(store("train", "orders.csv", "-t", "returned", "--model", model, "-o", "m.deciban"))
    assert "with a comma between thousands" in done.out
    assert formats_in(store.folder / "m.deciban") == {"amount": NumberFormat(".", ",", "$"), "when": DateFormat("day")}
    accuracy = store("evaluate", "m.deciban", "orders.csv", "--json").json()["accuracy"]
    assert accuracy > 0.75, "amounts that are names would tell nothing of new rows"
    why = succeeded(store("explain", "m.deciban", "--set", "amount=$7,100", "--set", "when=5/12/2023", "--json"))
    assert why.json()["target"] == "no"


@pytest.mark.parametrize("all_at_once", [True, False])
@pytest.mark.parametrize("model", SIMPLE)
def test_simple_models_leave_out_identifiers_too(store, model, all_at_once, monkeypatch):
    if not all_at_once:
        monkeypatch.setattr(model_rows, "MAX_ROWS_IN_MEMORY", 10)
    done = succeeded(store("train", "orders.csv", "-t", "returned", "--model", model, "-o", "m.deciban"))
    [row] = [line for line in done.out.splitlines() if line.startswith("id ")]
    assert "left out  every value is different" in row
    evidence = succeeded(store("show", "m.deciban", "--evidence", 100)).out
    assert "amount" in evidence
    assert "id " not in evidence.split("strongest evidence")[1]
    for command in ("predict", "evaluate", "learn", "forget"):
        succeeded(store(command, "m.deciban", "orders.csv"))


@pytest.mark.parametrize("model", SIMPLE)
def test_identifiers_alone_are_nothing_to_learn_from(inside, model):
    (inside.folder / "a.csv").write_text("id,y\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    done = inside("train", "a.csv", "-t", "y", "--model", model)
    assert done.code == 2
    assert "a.csv has no column to learn from" in done.err


def test_a_tree_leaves_out_columns_if_told_to(store):
    done = succeeded(store("train", "orders.csv", "-t", "returned", "--model", "tree", "--schema", "zip=skip"))
    assert "id " in done.out
    assert "zip" not in succeeded(store("show", "orders.deciban")).out


@pytest.mark.parametrize("model", SIMPLE)
def test_a_model_like_a_simple_one_reads_alike(store, model):
    succeeded(store("train", "orders.csv", "-t", "returned", "--model", model, "-o", "a.deciban"))
    (store.folder / "more.csv").write_text("\n".join(orders().splitlines()[:3]) + "\n")  # too few rows to tell formats
    succeeded(store("train", "more.csv", "-t", "returned", "--like", "a.deciban", "-o", "b.deciban"))
    assert formats_in(store.folder / "b.deciban") == formats_in(store.folder / "a.deciban")
    assert succeeded(store("merge", "a.deciban", "b.deciban", "-o", "c.deciban", "--json")).json()["rows"] == N + 2


@pytest.mark.parametrize(
    ("given", "value"),
    [((), 1234), (("--decimal", ","), 1.234), (("--thousands", ""), 1.234), (("--decimal", "."), 1234)],
)
def test_separators_decide_what_values_leave_open(inside, given, value):
    rows = [f"{'1,234' if i % 2 else '5,678'};{'no' if i % 2 else 'yes'}" for i in range(30)]
    (inside.folder / "a.csv").write_text("n;y\n" + "\n".join(rows) + "\n")
    done = succeeded(inside("train", "a.csv", "-t", "y", "-o", "m.deciban", *given))
    assert ("set it with --decimal" in done.err) == (not given)
    why = succeeded(inside("explain", "m.deciban", "--set", "n=1,234", "--json")).json()
    assert [item["value"] for item in why["evidence"] if item["name"] == "n"] == [value]


def test_fractions_that_may_be_thousands_are_noted(inside):
    rows = [(f"{i % 9 + 1}.{i % 9}4{i % 3}", i % 7, f"0.{i % 8 + 1}", "yes" if i % 2 else "no") for i in range(30)]
    for name, columns, delimiter in (("a", (0, 1, 3), ";"), ("b", (0, 1, 3), ","), ("c", (0, 2, 3), ";")):
        lines = [delimiter.join(str(row[j]) for j in columns) for row in [("n", "m", "share", "y"), *rows]]
        (inside.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    told = "numbers like 1.234 in 'n' are read as fractions"
    assert told in succeeded(inside("train", "a.csv", "-t", "y")).err
    assert told not in succeeded(inside("predict", "a.deciban", "a.csv")).err, "that is decided"
    assert told not in succeeded(inside("train", "b.csv", "-t", "y")).err, "commas separate fields there"
    assert told not in succeeded(inside("train", "c.csv", "-t", "y")).err, "another column shows what the point means"
    for sign, value in ((".", 2.141), (",", 2141)):
        done = succeeded(inside("train", "a.csv", "-t", "y", "--decimal", sign, "-o", "m.deciban", "--force"))
        assert told not in done.err
        why = succeeded(inside("explain", "m.deciban", "--set", "n=2.141", "--json")).json()
        assert [item["value"] for item in why["evidence"] if item["name"] == "n"] == [value]


@pytest.mark.parametrize(
    ("given", "day"), [((), "2024-05-06"), (("--day-first",), "2024-06-05"), (("--month-first",), "2024-05-06")]
)
@pytest.mark.parametrize("model", ["classifier", "naive-bayes"])
def test_which_comes_first_in_dates(inside, given, day, model):
    rows = [f"{i % 12 + 1}/{i % 11 + 1}/2024;{'no' if i % 2 else 'yes'}" for i in range(60)]
    (inside.folder / "a.csv").write_text("when;y\n" + "\n".join(rows) + "\n")
    done = succeeded(inside("train", "a.csv", "-t", "y", "--model", model, "-o", "m.deciban", *given))
    assert ("set it with --day-first or --month-first" in done.err) == (not given and model == "classifier")
    assert f"with the {'day' if '--day-first' in given else 'month'} first" in done.out
    why = succeeded(inside("explain", "m.deciban", "--set", "when=5/6/2024", "--json")).json()
    assert [item["value"] for item in why["evidence"] if item["name"] == "when"] == [day]


@pytest.mark.parametrize("value", ["$5,000", "5000", "USD 5,000", "$5,000.00"])
def test_explain_parses_values_by_the_format_of_the_column(store, value):
    succeeded(store("train", "orders.csv", "-t", "returned"))
    why = succeeded(store("explain", "orders.deciban", "--set", f"amount={value}", "--json")).json()
    assert [item["value"] for item in why["evidence"] if item["name"] == "amount"] == [5000]


@pytest.mark.parametrize(("item", "what"), [("amount=a lot", "numbers"), ("when=31/31/2024", "dates")])
def test_explain_refuses_values_of_no_such_format(store, item, what):
    succeeded(store("train", "orders.csv", "-t", "returned"))
    done = store("explain", "orders.deciban", "--set", item)
    assert done.code == 2
    assert f"the column holds {what}" in done.err


def test_header_and_no_header(store):
    lines = orders().splitlines()
    (store.folder / "bare.csv").write_text("\n".join(lines[1:]) + "\n")
    done = succeeded(store("train", "bare.csv", "-t", "column6", "--no-header", "-o", "bare.deciban", "--json"))
    assert "looks like a row" not in done.err
    assert done.json()["rows"] == N
    predicted = succeeded(store("predict", "bare.deciban", "bare.csv", "--no-header", "--only"))
    assert len(predicted.out.splitlines()) == N + 1
    (store.folder / "years.csv").write_text("2019;2020;y\n5;6;a\n7;8;b\n5;6;a\n7;8;b\n")
    done = store("train", "years.csv", "-t", "y", "--header", "-o", "years.deciban", "--json")
    assert done.json()["rows"] == 4
    (store.folder / "numbers.csv").write_text("2019;2020\n5;6\n7;8\n")
    done = store("train", "numbers.csv", "-t", "2020")
    assert done.code == 2
    assert "--no-header" in done.err
    assert "--header" in done.err.replace("--no-header", "")


def test_sheets(store):
    xlsxwriter = pytest.importorskip("xlsxwriter", reason="XlsxWriter writes spreadsheets")
    pytest.importorskip("python_calamine", reason="python-calamine reads them")
    with xlsxwriter.Workbook(store.folder / "shop.xlsx") as book:
        for name in ("notes", "orders"):
            sheet = book.add_worksheet(name)
            for i, line in enumerate(orders().splitlines() if name == "orders" else ["hello", "there"]):
                sheet.write_row(i, 0, line.split(";"))
    done = succeeded(store("train", "shop.xlsx", "--sheet", "orders", "-t", "returned"))
    assert f"Learned {N} rows" in done.out
    done = succeeded(store("predict", "shop.deciban", "shop.xlsx", "--sheet", "orders", "--only"))
    assert len(done.out.splitlines()) == N + 1
    done = store("train", "shop.xlsx", "--sheet", "order", "-t", "returned", "-o", "new.deciban")
    assert done.code == 2
    assert "did you mean 'orders'?" in done.err
    done = store("predict", "shop.deciban", "shop.xlsx")
    assert "'notes' is read" in done.err
    assert "--sheet" in done.err


def test_predict_writes_a_spreadsheet_in_which_nothing_is_a_formula(store):
    pytest.importorskip("xlsxwriter", reason="XlsxWriter writes spreadsheets")
    calamine = pytest.importorskip("python_calamine", reason="python-calamine reads them")
    rows = [f'{i};"=1+{i % 3}";{i / 4};2024-05-0{i % 9 + 1};{"@no" if i % 2 else "=yes()"}' for i in range(30)]
    (store.folder / "a.csv").write_text("n;=name;x;when;y\n" + "\n".join(rows) + "\n")
    succeeded(store("train", "a.csv", "-t", "y"))
    done = succeeded(store("predict", "a.deciban", "a.csv", "-o", "out.xlsx"))
    assert done.out.startswith("Wrote out.xlsx (30 rows, ")
    cells = calamine.load_workbook(store.folder / "out.xlsx").get_sheet_by_index(0).to_python()
    assert cells[0] == ["n", "=name", "x", "when", "y", "prediction", "probability"]
    assert cells[2][:2] == [1.0, "=1+1"]
    assert cells[2][3].isoformat()[:10] == "2024-05-02"
    assert cells[2][4] == "@no"
    assert cells[2][5] in ("@no", "=yes()")
    assert isinstance(cells[2][6], float)
    with zipfile.ZipFile(store.folder / "out.xlsx") as book:
        assert b"<f>" not in book.read("xl/worksheets/sheet1.xml")
    refused = store("predict", "a.deciban", "a.csv", "-o", "out.ods")
    assert refused.code == 2
    assert ".xlsx" in refused.err


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("train orders.csv -t returned --decimal x", ("--decimal", "'.', ','")),
        ("train orders.csv -t returned --thousands x", ("--thousands",)),
        ("train orders.csv -t returned --thousands . --decimal .", ("--decimal and --thousands are both '.'",)),
        ("train orders.csv -t returned --sheet a", ("--sheet is for spreadsheets",)),
        ("train texts.csv -t y --decimal ,", ("--decimal", "are for tables")),
        ("train orders.csv -t returned --engine duckdb --no-header", ("--no-header is for files",)),
        ("train orders.csv -t returned --engine duckdb --month-first", ("--month-first is for files",)),
        ("train sqlite:///a.db --table a -t y --decimal ,", ("--decimal is for files",)),
        ("train rows.jsonl -t y --no-header", ("--no-header", "CSV and spreadsheets")),
    ],
)
def test_options_that_do_not_apply_are_refused(store, line, parts):
    (store.folder / "rows.jsonl").write_text('{"x": 1, "y": "a"}\n{"x": 2, "y": "b"}\n')
    words = ["lunch at noon in the room", "win a cash prize right now"]
    texts = [f"{words[i % 2]} {i} and more of it;{'ab'[i % 2]}" for i in range(30)]
    (store.folder / "texts.csv").write_text("text;y\n" + "\n".join(texts) + "\n")
    done = store(*line.split(), "-o", "new.deciban")
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert all(part in done.err for part in parts), done.err


def test_compare_takes_the_same_options(store):
    done = succeeded(store("compare", "orders.csv", "-t", "returned", "--repeats", 1, "--day-first", "--json"))
    assert "not a number" not in done.err
    assert done.json()["accuracy"]["Classifier"][-1] > [0.9]


def test_a_note_in_a_process_of_its_own(tmp_path):
    rows = [f"{'1,234' if i % 2 else '5,678'};{'no' if i % 2 else 'yes'}" for i in range(30)]
    (tmp_path / "a.csv").write_text("n;y\n" + "\n".join(rows) + "\n")
    done = succeeded(deciban("train", "a.csv", "-t", "y", cwd=tmp_path))
    assert done.err.startswith("deciban: note: column 'n': ")
    assert done.err.endswith("set it with --decimal\n")


@pytest.mark.parametrize("model", ["classifier", "naive-bayes"])
@pytest.mark.parametrize("name", ["drawn.csv", "drawn.jsonl", "drawn.parquet", "drawn.xlsx"])
def test_drawn_rows_are_read_as_they_were_drawn(inside, name, model):
    """Where a comma separates decimals, 5.979 in CSV is a thousand, and the number 5.979 of Parquet is not."""
    if name.endswith(".xlsx"):
        pytest.importorskip("xlsxwriter", reason="XlsxWriter writes spreadsheets")
        pytest.importorskip("python_calamine", reason="python-calamine reads them")
    table = orders("{:.3f}").replace(".", ",")
    (inside.folder / "orders.csv").write_text(table)
    succeeded(inside("train", "orders.csv", "-t", "returned", "--model", model, "--schema", "when=skip"))
    drawn = inside("sample", "orders.deciban", "-n", 5, "--seed", 1, "--json").out
    amounts = [json.loads(line)["amount"] for line in drawn.splitlines()]
    assert all(3000 < amount < 9000 for amount in amounts)
    succeeded(inside("sample", "orders.deciban", "-n", 5, "--seed", 1, "-o", name))
    for row, amount in enumerate(amounts, 1):
        why = succeeded(inside("explain", "orders.deciban", name, "--row", row, "--json")).json()
        assert [one["value"] for one in why["evidence"] if one["name"] == "amount"] == [pytest.approx(amount)]
