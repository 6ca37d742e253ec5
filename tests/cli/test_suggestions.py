"""A name that is nearly right is answered with the right one: commands, options, values, columns, classes and files."""

from __future__ import annotations

import shlex

import pytest

from .customers import people, write_people


@pytest.fixture
def desk(shop, inside):
    (inside.folder / "churn.deciban").write_bytes(shop.churn.read_bytes())
    (inside.folder / "spam.deciban").write_bytes(shop.spam.read_bytes())
    write_people(people(20), inside.folder / "customers.csv")
    (inside.folder / "sales").mkdir()
    (inside.folder / "sales" / "january.csv").write_text("a,b\n1,2\n")
    return inside


MEANT = {
    "predcit churn.deciban customers.csv": "there is no command 'predcit': did you mean 'predict'?",
    "train customers.csv --taget leaves": "there is no option --taget: did you mean --target?",
    "train customers.csv -t leave": "no column 'leave': did you mean 'leaves'?",
    "train customers.csv -t Leaves": "did you mean 'leaves'?",
    "train customers.csv -t leaves --text plna": "did you mean 'plan'?",
    "train customers.csv -t leaves --model clasifier": "there is no --model 'clasifier': did you mean 'classifier'?",
    "train customers.csv -t leaves --format cvs": "there is no format 'cvs': did you mean 'csv'?",
    "train customers.csv -t leaves --engine duckbd": "there is no --engine 'duckbd': did you mean 'duckdb'?",
    "train customers.csv -t leaves --schema plna=category": "no column 'plna': did you mean 'plan'?",
    "train customers.csv -t leaves --schema plan=categroy": "no kind 'categroy': did you mean 'category'?",
    "train customers.csv -t leaves --like chrun.deciban": "did you mean 'churn.deciban'?",
    "train custmers.csv -t leaves": "there is no file custmers.csv: did you mean 'customers.csv'?",
    "train customers -t leaves": "did you mean 'customers.csv'?",
    "train sales/janury.csv -t b": "did you mean 'sales/january.csv'?",
    "train spam=custmers.txt": "did you mean 'customers.csv'?",
    "predict chrun.deciban customers.csv": "there is no model file 'chrun.deciban': did you mean 'churn.deciban'?",
    "learn chrun.deciban customers.csv": "did you mean 'churn.deciban'?",
    "show churn": "did you mean 'churn.deciban'?",
    "evaluate churn.deciban customers.csv -t leavs": "did you mean 'leaves'?",
    "explain churn.deciban --set paln=basic": "did you mean 'plan'?",
    "explain churn.deciban --set plan=basik": "never seen plan = basik: did you mean 'basic'?",
    "explain churn.deciban customers.csv --target yess": "there is no class 'yess': did you mean 'yes'?",
    "explain churn.deciban customers.csv --against Yes": "did you mean 'yes'?",
    "explain churn.deciban customers.csv --by experts": "there is no --by 'experts': did you mean 'expert'?",
    "sample spam.deciban --given spma": "there is no class 'spma': did you mean 'spam'?",
    "export churn.deciban -o a.sql --dialect postgres": "there is no --dialect 'postgres': did you mean 'postgresql'?",
    "predict churn.deciban customers.csv --coverage 0.9 --rows custmers.csv": "did you mean 'customers.csv'?",
}


@pytest.mark.parametrize("line", MEANT)
def test_what_was_meant_is_suggested(line, desk):
    done = desk(*shlex.split(line))
    assert MEANT[line] in done.err
    assert len(done.err.splitlines()) == 1


OTHERWISE = {
    "frobnicate": "there is no command 'frobnicate': check its name (see deciban --help)",
    "show --frobnicate": "there is no option --frobnicate: check its name (see deciban show --help)",
    "train customers.csv -t leaves --model guess": "choose one of auto, classifier, naive-bayes, tree, text, spam",
    "train customers.csv -t nothing": "the table has 'age', 'spent', 'plan', 'active', 'joined', 'leaves'",
    "train nothing.csv -t leaves": "there is no file nothing.csv: check its name",
    "train no/where.csv -t leaves": "the folder 'no' does not exist",
    "explain churn.deciban customers.csv --target perhaps": "the classes are no, yes",
    "show nothing.deciban": "there is no model file 'nothing.deciban': check its name",
}


@pytest.mark.parametrize("line", OTHERWISE)
def test_without_a_likely_name_the_choices_are_listed(line, desk):
    done = desk(*shlex.split(line))
    assert (done.code, OTHERWISE[line] in done.err) == (2, True), done.err
    assert "did you mean" not in done.err
