"""`deciban predict`, `explain`, `sample` and `show` beside the Python API, in every format and for every option."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import deciban as api
from deciban.cli.terminal import format_bytes

from .customers import people, read_people, write_people
from .shell import deciban, succeeded


def read_back(path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path).to_pandas()
    if path.suffix == ".arrow":
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).read_pandas()
    if path.suffix == ".jsonl":
        return pd.read_json(path, lines=True, precise_float=True)
    between = pa.csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
    gaps = pa.csv.ConvertOptions(strings_can_be_null=True)
    return pa.csv.read_csv(path, parse_options=between, convert_options=gaps).to_pandas()


# ------------------------------------------------------------------ predict


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow", "jsonl"])
def test_predictions_are_written_in_every_format(ending, shop, inside):
    done = succeeded(inside("predict", shop.churn, shop.customers, "--proba", "-o", f"out.{ending}"))
    size = (inside.folder / f"out.{ending}").stat().st_size
    assert (done.out, done.err) == (f"Wrote out.{ending} (200 rows, {format_bytes(size)}).\n", "")
    written, frame, model = (
        read_back(inside.folder / f"out.{ending}"),
        read_people(shop.customers),
        api.load(shop.churn),
    )
    proba = model.predict_proba(frame.drop(columns="leaves"))
    assert written.columns.tolist() == [*frame.columns, "prediction", "probability", "proba_no", "proba_yes"]
    assert np.array_equal(written[["proba_no", "proba_yes"]].to_numpy(), proba)
    assert np.array_equal(written["probability"], proba.max(axis=1))
    assert written["prediction"].tolist() == model.classes_[proba.argmax(axis=1)].tolist()
    assert written["leaves"].tolist() == frame["leaves"].tolist()


@pytest.mark.parametrize("command", ["predict", "sample"])
def test_formulas_are_escaped_for_spreadsheets(command, inside):
    rows = "".join(f"=cmd{i % 2},{i % 2}.5,{'+yes' if i % 2 else 'no'}\n" for i in range(40))
    (inside.folder / "notes.csv").write_text("note,n,y\n" + rows)
    succeeded(inside("train", "notes.csv", "--target", "y", "-o", "notes.deciban"))
    arguments = ["notes.csv"] if command == "predict" else ["-n", "20", "--seed", "0"]
    plain, escaped = (
        succeeded(inside(command, "notes.deciban", *arguments, *option)).out for option in ([], ["--escape-formulas"])
    )
    assert "\n=cmd" in plain
    assert ",+yes" in plain
    assert escaped == plain.replace("=cmd", "'=cmd").replace("+yes", "'+yes")


def test_predictions_for_programs_are_lines_of_json(shop, inside):
    rows = [
        json.loads(line) for line in succeeded(inside("predict", shop.spam, shop.messages, "--json")).out.splitlines()
    ]
    frame = pd.read_csv(shop.messages, comment="#")
    assert [row["message"] for row in rows] == frame["message"].tolist()
    assert [row["prediction"] for row in rows] == api.load(shop.spam).predict(frame["message"].tolist()).tolist()


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "churn.deciban", "rows.csv", "-o", "rows.csv"),
        ("predict", "churn.deciban", "rows.csv", "-o", "churn.deciban"),
        ("train", "rows.csv", "-t", "churned", "-o", "rows.csv"),
        ("learn", "churn.deciban", "rows.csv", "-o", "rows.csv"),
        ("report", "churn.deciban", "rows.csv", "-o", "rows.csv"),
        ("sample", "churn.deciban", "-o", "churn.deciban"),
    ],
    ids=lambda command: " ".join(command[::3]),
)
def test_what_is_read_is_not_overwritten(shop, inside, command):
    for name, origin in (("rows.csv", shop.customers), ("churn.deciban", shop.churn)):
        (inside.folder / name).write_bytes(origin.read_bytes())
    done = inside(*command, "--force")
    assert done.code == 2
    assert "is an input" in done.err
    assert (inside.folder / "rows.csv").read_bytes() == shop.customers.read_bytes()
    assert (inside.folder / "churn.deciban").read_bytes() == shop.churn.read_bytes()


def test_columns_that_are_there_already_are_kept(shop, inside):
    succeeded(inside("predict", shop.churn, shop.customers, "-o", "once.csv"))
    succeeded(inside("predict", shop.churn, "once.csv", "-o", "twice.csv"))
    assert read_back(inside.folder / "twice.csv").columns[-4:].tolist() == [
        "prediction",
        "probability",
        "prediction_",
        "probability_",
    ]


def test_no_rows_are_a_table_without_rows(shop, inside):
    header = shop.customers.read_text().partition("\n")[0]
    (inside.folder / "none.csv").write_text(header + "\n")
    assert succeeded(inside("predict", shop.churn, "none.csv")).out == f"{header},prediction,probability\n"
    (inside.folder / "texts.csv").write_text("message\n")
    assert succeeded(inside("predict", shop.spam, "texts.csv", "--only")).out == "prediction,probability\n"
    assert inside("predict", shop.churn, "texts.csv").code == 2, "of other columns it has no rows either"


def test_a_value_that_is_no_number_is_reported_with_its_row(shop, inside):
    lines = shop.customers.read_text().splitlines()[:4]
    lines[3] = "old," + lines[3].partition(",")[2]
    (inside.folder / "odd.csv").write_text("\n".join(lines) + "\n")
    done = succeeded(inside("predict", shop.churn, "odd.csv"))
    assert done.err == "deciban: note: column 'age': 1 value is not a number ('old' in row 3) and treated as missing\n"


# ------------------------------------------------------------------ explain


def explained(inside, *arguments):
    return succeeded(inside("explain", *arguments, "--json")).json()


def same(document, expected) -> bool:
    return document == json.loads(json.dumps(expected.to_dict()))


def test_any_row_of_any_file_is_explained(shop, inside):
    frame, model = read_people(shop.customers).drop(columns="leaves"), api.load(shop.churn)
    for row in (1, 2, 200):
        document = explained(inside, shop.churn, shop.customers, "--row", row)
        assert same(document, model.explain(frame.iloc[[row - 1]]))
    assert explained(inside, shop.churn, shop.customers) == explained(inside, shop.churn, shop.customers, "--row", 1)
    texts = pd.read_csv(shop.messages, comment="#")["message"]
    assert same(explained(inside, shop.spam, shop.messages, "--row", 400), api.load(shop.spam).explain(texts[399]))


def test_a_row_by_its_columns_has_the_others_missing(shop, inside):
    document = explained(inside, shop.churn, "--set", "plan=basic", "--set", "age=61", "--set", "active=false")
    row = {"age": [61.0], "spent": [None], "plan": ["basic"], "active": [False], "joined": [None]}
    assert same(document, api.load(shop.churn).explain(row))
    values = {item["name"]: item["value"] for item in document["evidence"]}
    assert values["spent"] is None
    assert (values["age"], type(values["age"])) == (61, int)
    assert "spent             missing" in succeeded(inside("explain", shop.churn, "--set", "age=61")).out


def test_whose_side_is_asked_for(shop, inside):
    model, text = api.load(shop.spam), "Claim your free lunch"
    for_ham = explained(inside, shop.spam, "--text", text, "--target", "ham", "--against", "spam")
    assert same(for_ham, model.explain(text, "ham", "spam"))
    assert (for_ham["target"], for_ham["against"]) == ("ham", "spam")
    for_spam = explained(inside, shop.spam, "--text", text, "--against", "ham")
    assert for_spam["target"] == "spam"
    assert for_ham["total"] == pytest.approx(-for_spam["total"], abs=1e-9)


def test_experts_come_to_the_same_total(shop, inside):
    columns = explained(inside, shop.churn, shop.customers, "--row", 3)
    experts = explained(inside, shop.churn, shop.customers, "--row", 3, "--by", "expert")
    assert experts["total"] == pytest.approx(columns["total"], abs=1e-9)
    assert experts["probability"] == columns["probability"]
    names = {item["name"] for item in experts["evidence"]}
    assert names != {item["name"] for item in columns["evidence"]}
    assert any(name.startswith("columns") for name in names)


def test_a_text_is_explained_by_word_or_by_item(shop, inside):
    text, model = "Claim your free prize now", api.load(shop.spam)
    for by in ("word", "item"):
        assert same(explained(inside, shop.spam, "--text", text, "--by", by), model.explain(text, by=by))
    document = explained(inside, shop.spam, "--text", text)
    assert document == explained(inside, shop.spam, "--text", text, "--by", "word")
    claim = next(item for item in document["evidence"] if item["name"] == "claim")
    assert claim["positions"] == [{"start": 0, "end": 5}]


def test_a_text_is_enough_where_a_table_has_one_column_of_texts(inside):
    """And the other columns are missing."""
    rng = np.random.default_rng(0)
    words = {"good": "kind quick warm clean friendly helpful", "bad": "slow cold rude dirty late noisy"}
    labels = rng.choice(["good", "bad"], 80)
    texts = [
        " ".join([*rng.permutation(words[y].split())[:4], *rng.permutation(["the", "room", "staff", "was"])])
        for y in labels
    ]
    frame = pd.DataFrame({"stars": rng.integers(1, 6, 80), "review": texts, "verdict": labels})
    frame.to_csv(inside.folder / "t.csv", index=False)
    assert (
        succeeded(inside("train", "t.csv", "-t", "verdict", "--schema", "review=text", "--json")).json()["model"]
        == "Classifier"
    )
    document = explained(inside, "t.deciban", "--text", "the room was cold and dirty")
    assert document["target"] == "bad"
    assert same(
        document,
        api.load(inside.folder / "t.deciban").explain({"stars": [None], "review": ["the room was cold and dirty"]}),
    )


def test_labels_and_columns_are_never_interpreted(inside):
    """Control characters in a name are shown as symbols."""
    (inside.folder / "t.csv").write_text('"a\x1b[31mb",y\n1,"[red]x"\n2,"\x07z"\n3,"[red]x"\n9,"\x07z"\n')
    succeeded(inside("train", "t.csv", "-t", "y", "--model", "naive-bayes"))
    for command in (("show",), ("explain", "t.csv"), ("evaluate", "t.csv")):
        out = succeeded(inside(command[0], "t.deciban", *command[1:])).out
        assert not set(out) & {"\x1b", "\x07"}
    assert "a␛[31mb" in succeeded(inside("explain", "t.deciban", "t.csv")).out
    done = inside("explain", "t.deciban", "--set", "a=1")
    assert done.code == 2
    assert "\x1b" not in done.err


# ------------------------------------------------------------------ sample and show


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_drawn_rows_are_what_the_api_draws(ending, shop, inside):
    succeeded(inside("sample", shop.churn, "-n", 30, "--seed", 3, "-o", f"drawn.{ending}"))
    drawn = read_back(inside.folder / f"drawn.{ending}")
    X, y = api.load(shop.churn).sample(30, random_state=3)
    expected = X.to_pandas()
    assert drawn["leaves"].tolist() == y.tolist()
    assert drawn.columns.tolist() == [*expected.columns, "leaves"]
    np.testing.assert_allclose(drawn["spent"].to_numpy(float), expected["spent"].to_numpy(float), rtol=1e-15)
    assert drawn["plan"].where(drawn["plan"].notna(), None).tolist() == expected["plan"].tolist()


def test_drawn_rows_can_be_learned(shop, inside):
    succeeded(inside("sample", shop.churn, "-n", 60, "--seed", 0, "-o", "drawn.csv"))
    assert succeeded(inside("learn", shop.churn, "drawn.csv", "-o", "m.deciban", "--json")).json()["rows"] == 60


def test_drawn_texts_are_of_the_class_that_was_asked_for(shop, inside):
    done = succeeded(inside("sample", shop.spam, "-n", 3, "--given", "spam", "--seed", 2, "--json"))
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["label"] for row in rows] == ["spam"] * 3
    X, _ = api.load(shop.spam).sample(3, "spam", random_state=2)
    assert [row["message"] for row in rows] == list(X)


def test_what_is_shown_to_programs_is_all_there_is(shop, inside):
    model = api.load(shop.churn)
    document = succeeded(inside("show", shop.churn, "--json", "--evidence", 4)).json()
    assert document["model"] == "Classifier"
    assert document["classes"] == dict(zip(model.classes_.tolist(), model.class_count_.tolist(), strict=True))
    assert document["evidence"] == json.loads(json.dumps(model.top_evidence(4).to_dict()))
    assert document["origin"]["names"] == ["customers.csv"], "without the folders it came from"
    assert "NaN" not in json.dumps(document)
    assert succeeded(inside("show", shop.churn, "--evidence", 0)).out.count("strongest evidence") == 0


@pytest.mark.parametrize("given", ["file", "pipe"])
def test_columns_of_csv_are_copied_as_they_are_written(given, inside):
    rows = ["1.50,True,2024-05-06 07:08:09.1,1.0", "-7.10,FALSE,,2.0", "2e3,false,2023-01-01,1.0", ",TRUE,2023-01-02,2"]
    (inside.folder / "a.csv").write_text("price,paid,when,y\n" + "\n".join(rows * 10) + "\n")
    succeeded(inside("train", "a.csv", "-t", "y"))
    if given == "file":
        succeeded(inside("predict", "a.deciban", "a.csv", "-o", "out.csv"))
        out = (inside.folder / "out.csv").read_text()
    else:
        data = (inside.folder / "a.csv").read_text()
        out = succeeded(inside("predict", "a.deciban", "-", given=data)).out
    assert [line.rsplit(",", 2)[0] for line in out.splitlines()[1:]] == rows * 10
    succeeded(inside("predict", "a.deciban", "a.csv", "-o", "out.jsonl"))
    first = json.loads((inside.folder / "out.jsonl").read_text().splitlines()[0])
    assert (first["price"], first["paid"], first["y"]) == (1.5, True, 1), "where values have types, they are values"


def test_what_is_shown_of_a_spam_filter(inside):
    for label, text in (("spam", "claim your prize"), ("ham", "see you at lunch")):
        (inside.folder / "Mail" / label).mkdir(parents=True)
        for i in range(5):
            (inside.folder / "Mail" / label / f"{i}.eml").write_text(f"Subject: {text}\n\n{text} {i}\n")
    data = ("spam=Mail/spam", "ham=Mail/ham/")
    succeeded(inside("train", *data, "-o", "m.deciban"))
    lines = succeeded(inside("show", "m.deciban")).out.splitlines()
    assert lines[1] == "data: spam=spam, ham=ham", "where it came from, without folders, and no columns: mail has none"
    known = api.load(inside.folder / "m.deciban").model_.sums
    assert lines[2].startswith(f"knows: {known.store.size('words')} words, {known.store.size('pairs')} pairs")
    assert succeeded(inside("show", "m.deciban", "--json")).json()["known"]["words"] == known.store.size("words")
    succeeded(inside("learn", "m.deciban", data[0]))
    assert "data: spam=spam, ham=ham, spam=spam\n" in succeeded(inside("show", "m.deciban")).out
    succeeded(inside("forget", "m.deciban", data[0]))
    assert "data: ham=ham, spam=spam\n" in succeeded(inside("show", "m.deciban")).out


def test_numbers_are_as_people_write_them(shop, inside):
    """Amounts of tens of thousands, without powers of ten; dates as dates."""
    out = (
        succeeded(inside("show", shop.churn, "--evidence", 60)).out
        + succeeded(inside("explain", shop.churn, shop.customers)).out
    )
    assert "spent = " in out
    assert "joined = 20" in out
    assert "e+0" not in out


# ------------------------------------------------------------------ a cold start


REPORT = (
    "import atexit, sys; atexit.register(lambda: print('SEEN', *(n for n in {} if n in sys.modules), file=sys.stderr))"
)


@pytest.mark.parametrize(
    ("model", "arguments", "slow"),
    [
        ("spam", ("--text", "free lunch"), ("sklearn", "scipy", "pyarrow", "pandas", "matplotlib")),
        ("churn", ("--set", "plan=basic"), ("sklearn", "scipy", "pyarrow", "pandas", "matplotlib")),
        ("churn", ("customers.csv", "--row", 5), ("sklearn", "pandas", "matplotlib")),
    ],
)
def test_explaining_imports_nothing_that_takes_long(model, arguments, slow, shop, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(REPORT.format(slow))
    places = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = deciban("explain", f"{model}.deciban", *arguments, cwd=shop.folder, PYTHONPATH=places)
    assert "rather than" in succeeded(done).out
    assert done.err == "SEEN\n"


# ------------------------------------------------------------------ prediction sets


def test_sets_come_from_the_file_alone(shop, inside):
    done = succeeded(inside("predict", shop.churn, shop.customers, "--coverage", "0.9", "--proba", "-o", "out.csv"))
    assert "About 90 % of new rows have their class in the set" in done.err
    written, model = read_back(inside.folder / "out.csv"), api.load(shop.churn)
    expected = model.predict_set(read_people(shop.customers).drop(columns="leaves"), 0.9)
    assert expected.way == "jackknife"
    assert written.columns[-3:].tolist() == ["set", "p_value_no", "p_value_yes"]
    assert np.array_equal(written[["p_value_no", "p_value_yes"]].to_numpy(), expected.p_values)
    assert written["set"].fillna("").tolist() == ["|".join(one) for one in expected.sets]


def test_sets_by_the_rows_that_were_learned(shop, inside):
    train = ("train", shop.customers, "-t", "leaves", "--model", "naive-bayes", "-o", "nb.deciban")
    succeeded(inside(*train))
    done = succeeded(
        inside(
            "predict",
            "nb.deciban",
            shop.customers,
            "--coverage",
            "0.8",
            "--by-class",
            "--rows",
            shop.customers,
            "--only",
        )
    )
    assert "At least 80 % of new rows of every class" in done.err
    frame = read_people(shop.customers)
    model = api.load(inside.folder / "nb.deciban")
    rows = (frame.drop(columns="leaves"), frame["leaves"])
    sets = [line.split(",")[-1].strip('"') for line in done.out.splitlines()[1:]]
    assert sets == ["|".join(one) for one in model.predict_set(rows[0], 0.8, by_class=True, rows=rows).sets]
    other = write_people(people(60, seed=5), inside.folder / "other.csv")
    done = inside("predict", shop.churn, shop.customers, "--coverage", "0.8", "--rows", other, "--only")
    assert "was not trained on" in done.err


def test_sets_that_cannot_be_had_are_refused(shop, inside):
    done = inside("predict", shop.churn, shop.customers, "--by-class")
    assert (done.code, "need --coverage" in done.err) == (2, True)
    done = inside("predict", shop.churn, shop.customers, "--coverage", "90")
    assert (done.code, "between 0 and 1" in done.err) == (2, True)
    (inside.folder / "m.deciban").write_bytes(shop.churn.read_bytes())
    succeeded(inside("learn", "m.deciban", shop.customers))
    done = inside("predict", "m.deciban", shop.customers, "--coverage", "0.9")
    assert (done.code, "with --rows" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("model", "data", "more"),
    [
        ("churn", "customers.csv", ("--proba", "--coverage", "0.9")),
        ("churn", "customers.csv", ("-o", "OUT.parquet")),
        ("spam", "messages.csv", ("--json",)),
    ],
)
def test_predicting_imports_nothing_that_takes_long(model, data, more, shop, tmp_path):
    slow = ("sklearn", "scipy", "pandas", "matplotlib")
    (tmp_path / "sitecustomize.py").write_text(REPORT.format(slow))
    places = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    more = [str(tmp_path / part.lower()) if part.startswith("OUT") else part for part in more]
    done = deciban("predict", f"{model}.deciban", data, *more, cwd=shop.folder, PYTHONPATH=places)
    assert succeeded(done).out
    assert done.err.splitlines()[-1] == "SEEN"


# ------------------------------------------------------------------ texts on standard input

TEXTS = ["Free tickets, claim your prize", "See you at lunch, then"]


def answered(shop, inside, given, *options):
    done = inside("predict", shop.spam, "-", *options, given=given)
    return succeeded(done).out.splitlines(), done.err


@pytest.mark.parametrize(
    ("given", "column"),
    [
        ("\n".join(TEXTS), "text"),
        ("message\n" + "\n".join(f'"{text}"' for text in TEXTS), "message"),
        ("body\n" + "\n".join(f'"{text}"' for text in TEXTS), "body"),
        ("id;text;label\n" + "\n".join(f"{i};{text};ham" for i, text in enumerate(TEXTS)), None),
    ],
    ids=["texts", "the column of the model", "another name", "a table"],
)
def test_a_first_line_that_names_no_column_is_a_text(given, column, shop, inside):
    if column is None:  # the model's texts are in `message`, which this table does not have
        done = inside("predict", shop.spam, "-", given=given)
        assert done.code == 2
        assert "'message'" in done.err
        assert "--format lines" in done.err
        return
    lines, said = answered(shop, inside, given)
    assert lines[0].split(",")[0] == column
    assert len(lines) == 1 + len(TEXTS)
    assert (column == "text") == ("one text per line" in said)
    predicted = api.load(shop.spam).predict(TEXTS).tolist()
    assert [line.rsplit(",", 2)[1] for line in lines[1:]] == predicted


def test_options_say_what_a_first_line_is(shop, inside):
    lines, said = answered(shop, inside, "Ok\n" + TEXTS[0], "--no-header", "--only")
    assert (len(lines), said) == (3, "")
    lines, _ = answered(shop, inside, "My own words\n" + TEXTS[1].replace(",", ""), "--header", "--only")
    assert len(lines) == 2
    lines, said = answered(shop, inside, "\n".join(TEXTS), "--format", "lines", "--only")
    assert (len(lines), said) == (3, "")
    done = succeeded(inside("explain", shop.spam, "-", "--row", "2", given="\n".join(TEXTS)))
    assert "lunch" in done.out
