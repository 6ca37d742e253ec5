"""`deciban train`: files of every format, and every model."""

from __future__ import annotations

import gzip
import json
import mailbox
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import deciban as api
from deciban.cli import model_choice
from deciban.cli.model_choice import MODELS
from deciban.cli.run import run

from .customers import people, people_frame, read_people, write_people
from .shell import deciban, succeeded

N_ROWS = 60  # rows: accuracy does not matter here
SPAM = ["Win a prize now", "Claim your free cash prize", "Cheap loans, click now", "You have won, claim it today"]
HAM = ["Lunch at noon?", "The meeting is on Tuesday", "Thanks for the notes", "See you at the station"]


def learned(path) -> list[float]:
    return api.load(path).class_count_.tolist()


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Few rows, as pandas reads them."""
    return people_frame(N_ROWS)


@pytest.fixture(scope="module")
def reference(frame, tmp_path_factory):
    """What is learned from CSV."""
    folder = tmp_path_factory.mktemp("reference")
    path, model = write_people(frame, folder / "few.csv"), folder / "m.deciban"
    assert run(["train", str(path), "-t", "leaves", "--model", "naive-bayes", "-o", str(model)]) == 0
    return api.load(model)


def as_csv(frame, path):
    return write_people(frame, path.with_suffix(".csv"))


def as_tsv(frame, path):
    frame.astype({"age": "Int64"}).to_csv(path.with_suffix(".tsv"), index=False, sep="\t")
    return path.with_suffix(".tsv")


def as_semicolons(frame, path):
    frame.astype({"age": "Int64"}).to_csv(path.with_suffix(".csv"), index=False, sep=";")
    return path.with_suffix(".csv")


def as_gzip(frame, path):
    path = path.with_suffix(".csv.gz")
    path.write_bytes(gzip.compress(frame.astype({"age": "Int64"}).to_csv(index=False).encode()))
    return path


def as_json_lines(frame, path):
    rows = frame.astype(object).where(frame.notna(), None)
    rows["active"] = rows["active"] == "true"
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_dict("records")))
    return path


def as_arrow_table(frame):
    typed = frame.assign(active=frame["active"] == "true", joined=pd.to_datetime(frame["joined"]).dt.date)
    return pa.Table.from_pandas(typed, preserve_index=False)


def as_parquet(frame, path):
    pa.parquet.write_table(as_arrow_table(frame), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def as_arrow(frame, path):
    table = as_arrow_table(frame)
    with pa.OSFile(str(path.with_suffix(".arrow")), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path.with_suffix(".arrow")


@pytest.mark.parametrize("write", [as_csv, as_tsv, as_semicolons, as_gzip, as_json_lines, as_parquet, as_arrow])
def test_the_same_rows_teach_the_same_in_any_format(write, frame, reference, inside):
    path = write(frame, inside.folder / "few")
    succeeded(inside("train", path.name, "-t", "leaves", "--model", "naive-bayes", "-o", "m.deciban"))
    X = read_people(as_csv(frame, inside.folder / "again")).drop(columns="leaves")
    # Sums of the same doubles in the same order; sums of squares may be added up in blocks of other sizes.
    np.testing.assert_allclose(
        api.load(inside.folder / "m.deciban").predict_proba(X), reference.predict_proba(X), rtol=0, atol=1e-12
    )


def test_several_files_and_patterns_are_one_table(frame, inside):
    (inside.folder / "parts").mkdir()
    for i in range(3):
        write_people(frame.iloc[20 * i : 20 * i + 20], inside.folder / "parts" / f"part{i}.csv")
    how = ("-t", "leaves", "--model", "naive-bayes", "-o")
    succeeded(inside("train", *(f"parts/part{i}.csv" for i in range(3)), *how, "named.deciban"))
    succeeded(inside("train", "parts/*.csv", *how, "pattern.deciban"))
    succeeded(inside("train", "parts", *how, "folder.deciban"))
    models = [api.load(inside.folder / f"{name}.deciban") for name in ("named", "pattern", "folder")]
    X = read_people(inside.folder / "parts" / "part0.csv").drop(columns="leaves")
    assert sum(models[0].class_count_) == N_ROWS
    for other in models[1:]:
        assert np.array_equal(models[0].predict_proba(X), other.predict_proba(X))


def test_standard_input_is_learned_and_known_again(shop, tmp_path):
    """Its bytes are those of the file, so that evaluating the file is by leave-one-out."""
    done = deciban("train", "-", "-t", "label", "-o", "m.deciban", cwd=tmp_path, given=shop.messages.read_bytes())
    assert "Learned 400 rows" in succeeded(done).out
    assert api.load(tmp_path / "m.deciban").origin_["learned"] == api.load(shop.spam).origin_["learned"]


def test_a_folder_for_each_class(inside):
    for label, texts in (("ham", HAM), ("spam", SPAM)):
        (inside.folder / "mails" / label).mkdir(parents=True)
        for i, text in enumerate(texts):
            (inside.folder / "mails" / label / f"{i}.txt").write_text(text)
    done = succeeded(inside("train", "mails", "--json"))
    assert done.json()["classes"] == {"ham": 4, "spam": 4}
    assert done.json()["model"] == "TextClassifier"
    assert done.json()["file"] == "mails.deciban"
    lines = succeeded(inside("predict", "mails.deciban", "mails", "--json")).out.splitlines()
    assert [json.loads(line)["prediction"] for line in lines] == ["ham"] * 4 + ["spam"] * 4
    assert json.loads(lines[0])["file"].endswith("0.txt")


@pytest.mark.parametrize("box", [mailbox.mbox, mailbox.Maildir])
def test_mail_by_its_class(box, inside):
    for label, texts in (("ham", HAM), ("spam", SPAM)):
        made = box(inside.folder / f"{label}.mbox")
        for text in texts:
            made.add(f"Subject: {text}\nFrom: a@example.org\n\n{text}\n".encode())
        made.close()
    facts = succeeded(inside("train", "spam=spam.mbox", "ham=ham.mbox", "-o", "f.deciban", "--json")).json()
    assert facts["model"] == "SpamFilter"
    assert facts["classes"] == {"ham": 4, "spam": 4}
    evaluated = succeeded(inside("evaluate", "f.deciban", "spam=spam.mbox", "ham=ham.mbox", "--json"))
    assert evaluated.json()["accuracy"] >= 0.75, "of eight mails, each left out"
    # A discarded ham costs a hundred times as much as a missed spam.
    rows = [
        json.loads(line)["prediction"]
        for line in succeeded(inside("predict", "f.deciban", "spam.mbox", "--json")).out.splitlines()
    ]
    assert len(rows) == 4
    assert set(rows) <= {"spam", "unsure"}


def test_lines_of_text_by_their_class(inside):
    (inside.folder / "s.txt").write_text("\n".join(SPAM))
    (inside.folder / "h.txt").write_text("\n".join(HAM))
    facts = succeeded(inside("train", "spam=s.txt", "ham=h.txt", "--json")).json()
    assert facts["file"] == "model.deciban"
    assert facts["classes"] == {"ham": 4, "spam": 4}


@pytest.mark.parametrize("model", sorted(set(MODELS) - {"auto", "spam"}))
def test_the_model_that_was_asked_for(model, shop, inside):
    data = shop.messages if model == "text" else shop.customers
    target = "label" if model == "text" else "leaves"
    facts = succeeded(inside("train", data, "-t", target, "--model", model, "-o", "m.deciban", "--json")).json()
    named = {
        "classifier": "Classifier",
        "naive-bayes": "NaiveBayes",
        "tree": "TreeAugmentedNB",
        "text": "TextClassifier",
    }
    assert facts["model"] == named[model]
    assert 0.5 < facts["leave_one_out"]["accuracy"] <= 1
    for command in (("show",), ("sample", "--seed", 1, "--json"), ("evaluate", data), ("explain", data, "--row", 2)):
        assert succeeded(inside(command[0], "m.deciban", *command[1:])).out
    drawn = json.loads(succeeded(inside("sample", "m.deciban", "-n", 1, "--json")).out)
    assert set(drawn) == set(read_people(data).columns if model != "text" else ["label", "message"])


def test_a_text_model_keeps_as_many_words_as_it_may(shop, inside):
    trained = succeeded(inside("train", shop.messages, "-t", "label", "--max-features", 20, "-o", "m.deciban"))
    assert "max_features" in trained.err
    model = api.load(inside.folder / "m.deciban")
    assert (model.max_features, len(model.vocabulary_) <= 25) == (20, True)
    shown = succeeded(inside("show", "m.deciban")).out
    assert f"{model.n_dropped_:,} items" in shown
    assert json.loads(succeeded(inside("show", "m.deciban", "--json")).out)["dropped"] == model.n_dropped_ > 0
    for wrong in (("--model", "classifier"), ("--like", "m.deciban"), ("--max-features", 0)):
        refused = inside("train", shop.messages, "-t", "label", "--max-features", 20, *wrong, "-o", "n.deciban")
        assert refused.code
        assert "--max-features" in refused.err


def test_a_column_of_texts_that_is_named_is_what_is_looked_at(inside):
    rows = [f"{i},{text},{label}" for label, texts in (("h", HAM), ("s", SPAM)) for i, text in enumerate(texts)]
    (inside.folder / "t.csv").write_text("\n".join(["n,words,y", *(row.replace(", ", " ") for row in rows)]))
    facts = succeeded(inside("train", "t.csv", "-t", "y", "--text", "words", "--json")).json()
    assert (facts["model"], facts["text"]) == ("TextClassifier", "words")
    assert succeeded(inside("predict", "t.deciban", "t.csv", "--only")).out.splitlines()[1].startswith("h,")


def test_a_schema_sets_kinds_of_columns(inside):
    write_people(people(N_ROWS), inside.folder / "t.csv")
    succeeded(inside("train", "t.csv", "-t", "leaves", "--schema", "age=category", "--schema", "joined=skip"))
    columns = api.load(inside.folder / "t.deciban").summary().columns.to_dict()
    assert dict(zip(columns["column"], columns["kind"], strict=True))["age"] == "category"
    assert "joined" not in succeeded(inside("sample", "t.deciban", "--seed", 0)).out.splitlines()[0].split(",")


def test_the_model_is_chosen_by_the_columns_that_it_depends_on(monkeypatch):
    read = []

    def used_kinds(X, schema, *how):
        read.extend(X.column_names)
        return original(X, schema, *how)

    original = model_choice.used_kinds
    monkeypatch.setattr(model_choice, "used_kinds", used_kinds)
    text = [f"the text of message number {i}" for i in range(30)]
    constant, number = [1] * 30, [i / 7 for i in range(30)]

    def chosen(columns, schema=None):
        read.clear()
        return model_choice.choose_model("table", pa.table(columns), np.zeros(30), schema)

    assert chosen({"a": constant, "b": number, "c": text, **{f"x{j}": number for j in range(50)}}) == "classifier"
    assert read == ["a", "b", "c"]
    assert chosen({"a": constant, "b": text, "c": constant}) == "text"
    assert chosen({"a": number, "b": text}, ["a=skip"]) == "text"
    assert chosen({"a": text, "b": text}) == "classifier"


def test_a_file_that_exists_is_overwritten_by_force_alone(inside):
    (inside.folder / "t.csv").write_text("a,y\n1,x\n2,z\n")
    (inside.folder / "t.deciban").write_text("precious")
    train = ("train", "t.csv", "-t", "y", "--model", "naive-bayes")
    for named in ((), ("-o", "t.deciban")):
        done = inside(*train, *named)
        assert done.code == 2
        assert "--force" in done.err
        assert (inside.folder / "t.deciban").read_text() == "precious"
    succeeded(inside(*train, "--force"))
    assert learned(inside.folder / "t.deciban") == [1, 1]


def test_rows_without_a_label_are_left_out_with_a_note(inside):
    write_people(
        people_frame(N_ROWS).assign(leaves=lambda t: t["leaves"].where(t.index % 4 > 0)), inside.folder / "t.csv"
    )
    done = succeeded(inside("train", "t.csv", "-t", "leaves", "--model", "naive-bayes"))
    assert done.err == "deciban: note: skipped 15 rows without a label in column 'leaves'\n"
    assert sum(learned(inside.folder / "t.deciban")) == 45


@pytest.mark.parametrize("model", ["classifier", "naive-bayes"])
def test_a_class_of_one_row_gets_a_note(model, inside):
    pd.DataFrame({"a": [1.0, 2.5, 3.0, 4.0, 9.0], "label": list("xxxxy")}).to_csv(
        inside.folder / "few.csv", index=False
    )
    done = succeeded(inside("train", "few.csv", "-t", "label", "--model", model))
    assert "1 row is alone in its class and cannot be evaluated" in re.sub(r"\s+", " ", done.out)
    assert (
        "note"
        in succeeded(inside("train", "few.csv", "-t", "label", "--model", model, "--json", "-o", "x")).json()[
            "leave_one_out"
        ]
    )


def test_one_class_is_no_judgement(inside):
    (inside.folder / "t.csv").write_text("a,y\n1,x\n2,x\n")
    done = succeeded(inside("train", "t.csv", "-t", "y"))
    assert "nan" not in done.out
    assert "only one class" in done.err


@pytest.mark.parametrize(("labels", "classes"), [("0 1", [0, 1]), ("-1 1", [-1, 1]), ("true false", [False, True])])
def test_labels_are_what_they_look_like(labels, classes, inside):
    a, b = labels.split()
    (inside.folder / "t.csv").write_text("x,y\n" + f"1.5,{a}\n2.5,{b}\n" * 5)
    succeeded(inside("train", "t.csv", "-t", "y", "--model", "naive-bayes"))
    model = api.load(inside.folder / "t.deciban")
    assert model.classes_.tolist() == classes
    assert all(type(learned) is type(label) for learned, label in zip(model.classes_.tolist(), classes, strict=True))
    assert f"{a}" in succeeded(inside("predict", "t.deciban", "t.csv", "--only")).out.lower()
    assert succeeded(inside("explain", "t.deciban", "t.csv", "--target", model.classes_.tolist()[1], "--json")).json()


# ------------------------------------------------------------------ columns that almost decide alone


def test_a_column_that_almost_decides_alone_is_asked_about(inside):
    rng = np.random.default_rng(0)
    leaves = rng.random(300) < 0.4
    frame = pd.DataFrame({"age": rng.normal(40, 9, 300).round(), "end date": np.where(leaves, "2024-05-01", None)})
    frame.assign(leaves=leaves).to_csv(inside.folder / "t.csv", index=False)
    done = succeeded(inside("train", "t.csv", "-t", "leaves"))
    (line,) = done.err.splitlines()
    assert "note: column 'end date' almost decides alone" in line
    assert line.endswith("train without it: --schema 'end date=skip'")
    again = succeeded(inside("train", "t.csv", "-t", "leaves", "--force", "--schema", "end date=skip", "--json"))
    assert (again.err, "decisive" in again.json()) == ("", False), "the advice helps"
    shown = succeeded(inside("show", "t.deciban"))
    assert "almost decides" not in shown.out
    succeeded(inside("train", "t.csv", "-t", "leaves", "--force"))
    shown = succeeded(inside("show", "t.deciban")).out
    assert shown.count("almost decides") == 1
    assert shown.index("importance") < shown.index("almost decides") < shown.index("classes")
    assert succeeded(inside("show", "t.deciban", "--json")).json()["summary"]["decisive"][0]["column"] == "end date"


def test_figures_of_some_rows_say_of_how_many(inside):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 5000)
    pd.DataFrame({"x": rng.normal(size=5000) + y, "y": y}).to_csv(inside.folder / "t.csv", index=False)
    done = succeeded(inside("train", "t.csv", "-t", "y"))
    assert "leave-one-out of 4,000 rows: accuracy" in done.out
    assert "leave-one-out of 4,000 rows: log" in " ".join(succeeded(inside("show", "t.deciban")).out.split())
