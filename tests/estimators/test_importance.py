"""Importance: what explanations say on average, by hand, by refits, and for every estimator."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from every import ESTIMATORS, READS, made, rows_for

import deciban
from deciban import CategoricalNB, Classifier, DecibanError, GaussianNB, NaiveBayes, TextClassifier
from deciban.results.evidence import ABSENT, CORRECTION
from deciban.results.importance import packed, unpacked
from deciban.tables.model import TableModel
from deciban.text.importance import documents_at_fit

WITH_EVIDENCE = [
    name for names in READS.values() for name in names if name not in ("GaussianMixture", "CountVectorizer")
]
TWO_TO_ONE = 10 * math.log10(2)


def passengers(n=400, seed=0):
    """A table in which `boat` leaks the answer: almost only survivors have one."""
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["male", "female"], n, p=[0.6, 0.4]), np.round(rng.gamma(5, 6, n))
    survived = rng.random(n) < np.where(sex == "female", 0.7, 0.25)
    boat = np.where(survived & (rng.random(n) < 0.95), rng.choice(list("ABCDEFGH"), n), None)
    table = pd.DataFrame({"age": age, "sex": sex, "town": rng.choice(list("pqr"), n), "boat": boat})
    return table, np.where(survived, "yes", "no")


@pytest.fixture(scope="module")
def leaking():
    table, y = passengers()
    return Classifier().fit(table, y), table, y


# ------------------------------------------------------------------ what it is


def test_a_naive_bayes_table_by_hand():
    """With one pseudo-count, 0 has probability 4/6 in "a" and 2/6 in "b": 3 dB. The second column says nothing."""
    X = [[0, 0], [0, 1], [0, 0], [1, 1], [1, 0], [1, 1], [1, 0], [0, 1]]
    y = ["a"] * 4 + ["b"] * 4
    model = CategoricalNB(alpha=1.0).fit(X, y)
    found = model.importance([[0, 0], [0, 1], [1, 0], [1, 1]], ["a", "a", "a", "b"])
    assert (found.what, found.rows, found.how) == ("column", 4, "that were not learned")
    (first,) = found.items  # what is never evidence is not ranked
    assert first.name == "x0"
    assert first.size == pytest.approx(TWO_TO_ONE, abs=1e-3)
    assert first.decibans == pytest.approx(TWO_TO_ONE * (1 + 1 - 1 + 1) / 4, abs=1e-3)
    assert first.by_class == pytest.approx((TWO_TO_ONE / 3, TWO_TO_ONE), abs=1e-3)
    zero, one = found.curve("x0").points
    assert (zero.value, zero.rows, one.value, one.rows) == ("0", 2, "1", 2)
    assert (found.sides, zero.decibans[0], one.decibans[0]) == (
        ("b",),
        pytest.approx(-TWO_TO_ONE, abs=1e-3),
        pytest.approx(TWO_TO_ONE, abs=1e-3),
    )
    assert found.strongest("a", 5) == [("x0 = 0", pytest.approx(TWO_TO_ONE, abs=1e-3), 2)]


def test_learned_rows_are_left_out_as_by_refits():
    """In folds of every fifth row: each row's evidence is that of a model that never saw its fold."""
    rng = np.random.default_rng(1)
    y = np.arange(30) % 3
    X = rng.normal(size=(30, 2)) + np.column_stack([y, np.zeros(30)])
    found = GaussianNB().fit(X, y).importance(X, y, learned=True)
    sizes = np.zeros((30, 2))
    for fold in range(5):
        out = np.arange(fold, 30, 5)
        rest = np.setdiff1d(np.arange(30), out)
        refit = GaussianNB(var_smoothing=0.0).fit(X[rest], y[rest])
        for i in out:
            why = {name: db for name, _, db in refit.explain(X[[i]], target=y[i]).items}
            sizes[i] = [why["x0"], why["x1"]]
    by_name = {item.name: item for item in found.items}
    for j, name in enumerate(("x0", "x1")):
        assert by_name[name].size == pytest.approx(np.abs(sizes[:, j]).mean(), rel=1e-3)
        assert by_name[name].decibans == pytest.approx(sizes[:, j].mean(), rel=1e-3, abs=2e-3)
        for c in range(3):
            assert by_name[name].by_class[c] == pytest.approx(sizes[y == c, j].mean(), rel=1e-3, abs=2e-3)


def test_on_new_rows_a_table_has_the_mean_of_its_explanations(leaking):
    model, _, _ = leaking
    new, truth = passengers(40, seed=5)
    found = {item.name: item for item in model.importance(new, truth).items}
    each = [{name: db for name, _, db in model.explain(new.iloc[[i]], target=truth[i]).items} for i in range(40)]
    for name in each[0]:
        mine = np.array([why[name] for why in each])
        assert found[name].size == pytest.approx(np.abs(mine).mean(), abs=1e-3)
        assert found[name].decibans == pytest.approx(mine.mean(), abs=1e-3)


@pytest.mark.parametrize("kind", ["loo", None])
def test_words_of_a_text_add_up_to_its_explanation(kind):
    X, y = rows_for("TextClassifier")
    model = TextClassifier(reliability=kind).fit(X, y)
    why = model.explain("free cash at noon, Mary", target="ham")
    found = model.importance(["free cash at noon, Mary"], ["ham"])
    assert found.what == "word"
    assert {"cash", "free", "noon"} <= {item.name for item in found.items}
    assert sum(item.decibans for item in found.items) == pytest.approx(why.total - why.prior, abs=0.02)
    by_name = {item.name: item.decibans for item in found.items}
    for name, _, db in why.items:
        assert by_name.get(name, 0.0) == pytest.approx(db, abs=2e-3)


def test_pairs_and_characters_are_shared_by_their_words():
    """Texts of one word each: whatever is evidence lies in the word, or at its ends."""
    X, y = ["cash", "lunch"] * 20, ["spam", "ham"] * 20
    model = TextClassifier(blocks=["words", "pairs", "characters"]).fit(X, y)
    others = (CORRECTION, ABSENT)
    (word,) = (item for item in model.importance(["cash"], ["spam"]).items if item.name not in others)
    whole = sum(db for name, _, db in model.explain("cash", target="spam").items if name not in others)
    assert (word.name, word.decibans) == ("cash", pytest.approx(whole, abs=0.01))


# ------------------------------------------------------------------ what it finds


def test_a_column_that_leaks_the_answer_comes_first(leaking):
    model, _, _ = leaking
    found = model.importance()
    assert found.how == "left out of the sums"
    assert found.items[0].name == "boat"
    assert found.items[0].size > 3 * found.items[1].size
    assert found.items[0].decibans > 0
    top = model.top_evidence(2)
    assert top.columns == ("class", "item", "rows", "dB")
    assert next(row[1] for row in top.rows if row[0] == "no") == "boat = missing"
    assert next(row[1] for row in top.rows if row[0] == "yes").startswith("boat = ")


def test_missing_values_rare_categories_and_numbers_have_points(leaking):
    found = leaking[0].importance()
    boat = found.curve("boat")
    assert boat.points[0].value == "missing"
    assert sum(point.rows for point in boat.points) == found.rows
    age = found.curve("age")
    assert age.is_number
    assert len(age.points) <= 13
    assert [p.at for p in age.points] == sorted(p.at for p in age.points)
    with pytest.raises(DecibanError, match="'cabin'"):
        found.curve("cabin")


def test_columns_that_act_together_are_named():
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 2, (3, 600))
    y = np.where(rng.random(600) < 0.05, 1 - (a ^ b), a ^ b)
    model = Classifier().fit({"a": a, "b": b, "c": c}, y)
    (pair,) = model.importance().pairs
    assert {pair.first, pair.second} == {"a", "b"}
    assert "act together" in repr(model.importance())
    alone = np.where(rng.random(600) < 0.1, 1 - a, a)
    assert Classifier().fit({"a": a, "b": b, "c": c}, alone).importance().pairs == ()


def test_more_classes_than_are_stored():
    rng = np.random.default_rng(0)
    y = rng.choice(9, 600, p=np.arange(1, 10) / 45)
    model = Classifier().fit({"x": y + rng.normal(scale=0.3, size=600), "z": rng.normal(size=600)}, y)
    found = model.importance()
    assert found.items[0].name == "x"
    assert found.classes == found.sides == (3, 4, 5, 6, 7, 8)
    assert {len(p.decibans) for p in found.curve("x").points} == {6}
    middle = found.strongest(8, 1)[0]
    assert middle[0].startswith("x = ")


def test_the_order_of_rows_does_not_change_the_ranking(leaking):
    model, table, y = leaking
    order = np.random.default_rng(0).permutation(len(y))
    again = Classifier().fit(table.iloc[order], y[order])
    assert [item.name for item in again.importance().items] == [item.name for item in model.importance().items]


# ------------------------------------------------------------------ every estimator, and scorers


@pytest.mark.parametrize("name", WITH_EVIDENCE)
def test_every_estimator_that_explains_has_it(name, tmp_path):
    X, y = rows_for(name)
    model = made(name).fit(X, y)
    new = model.importance(X, y)
    assert new.items
    assert new.rows == 60
    assert all(item.size >= abs(item.decibans) - 2e-3 for item in new.items)
    model.save(tmp_path / "m.deciban")
    scorer = deciban.read(tmp_path / "m.deciban")
    assert [item[:2] for item in scorer.importance(X, y).items] == [item[:2] for item in new.items]
    if name not in ("MixtureDiscriminant", "NearestCentroid"):  # their rows cannot be taken out
        out = model.importance(X, y, learned=True)
        assert out.how == "left out of the sums"
        assert sum(item.decibans for item in out.items) <= sum(item.decibans for item in new.items) + 1e-6


@pytest.mark.parametrize("name", ["GaussianNB", "NaiveBayes"])
def test_where_none_is_stored_the_error_says_what_to_do(name):
    X, y = rows_for(name)
    with pytest.raises(DecibanError, match=r"importance\(X, y\)"):
        made(name).fit(X, y).importance()


def test_names_weights_and_missing_labels():
    X, y = rows_for("GaussianNB")
    model = GaussianNB().fit(X, y)
    found = model.importance(X, y, names=["p", "q", "r"])
    assert {item.name for item in found.items} == {"p", "q", "r"}
    twice = model.importance(np.vstack([X, X[:20]]), [*y, *y[:20]])
    weighted = model.importance(X, y, np.append(np.full(20, 2.0), np.ones(40)))
    assert [item.size for item in weighted.items] == pytest.approx([item.size for item in twice.items], abs=2e-3)
    unlabelled = model.importance(X, [*y[:30], *[None] * 30])
    assert unlabelled.rows == 30


def test_what_is_refused():
    X, y = rows_for("GaussianNB")
    model = GaussianNB().fit(X, y)
    with pytest.raises(DecibanError, match="row 1 is of class 'eggs'"):
        model.importance(X[:2], ["ham", "eggs"])
    with pytest.raises(DecibanError, match="two classes"):
        GaussianNB().fit(X, ["ham"] * 60).importance(X, ["ham"] * 60)
    with pytest.raises(DecibanError, match="two classes"):
        model.importance(X[:2], [None, None])


# ------------------------------------------------------------------ where it is stored


def test_it_stays_as_fit_made_it(leaking, tmp_path):
    model, table, y = leaking
    before = packed(model.importance())
    model.save(tmp_path / "m.deciban")
    for other in (deciban.load(tmp_path / "m.deciban"), deciban.read(tmp_path / "m.deciban")):
        assert packed(other.importance()) == before
    more = deciban.load(tmp_path / "m.deciban").partial_fit(table[:10], y[:10])
    assert packed(more.importance()) == before
    assert packed(more.forget(table[:10], y[:10]).importance()) == before
    assert packed((model + model.empty().partial_fit(table, y)).importance()) == before
    assert packed(unpacked(before)) == before


def test_files_of_older_versions_have_none(leaking):
    document, tensors = leaking[0].model_.pack()
    record = dict(document["table"]["record"]["dict"])
    document["table"]["record"] = {"dict": [[k, v] for k, v in record.items() if k != "importance"]}
    old = TableModel.unpack(document, tensors)
    assert old.stored_importance is None
    assert "importance(X, y)" in repr(deciban.tables.views.summary(old))
    assert old.strongest(0, 2)


def test_summaries_begin_with_it(leaking):
    summary = leaking[0].summary()
    shown = repr(summary)
    assert shown.index("importance") < shown.index("columns (dB")
    assert summary.to_dict()["importance"]["items"][0]["name"] == "boat"


def test_forgotten_words_are_not_kept():
    texts = ["win cash now", "cash prize", "claim cash", "lunch at noon", "at lunch", "noon lunch"] * 3
    y = ["spam", "spam", "spam", "ham", "ham", "ham"] * 3
    model = TextClassifier().fit([*texts, "secret code", "secret word"], [*y, "ham", "ham"])
    named = {item.name for item in model.importance().items}
    assert "secret" in named
    model.forget(["secret code", "secret word"], ["ham", "ham"])
    assert {item.name for item in model.importance().items} == {
        n for n in named if not set(n.split()) & {"secret", "code", "word"}
    }


def test_hashed_words_are_not_kept():
    X, y = rows_for("TextClassifier")
    model = TextClassifier(n_features=1 << 12).fit(X, y)
    with pytest.raises(DecibanError, match=r"importance\(X, y\)"):
        model.importance()
    assert "cash" in {item.name for item in model.importance(X, y).items}, "the texts at hand have the words"


def test_top_words_are_on_the_scale_of_explanations():
    X, y = rows_for("TextClassifier", 200)
    model = TextClassifier().fit(X, y)
    strongest = {word: (rows, db) for _, word, rows, db in model.top_words("spam", n=3).rows}
    rows, db = strongest["cash"]
    assert rows >= 3
    why = {item.name: item for item in model.importance(X, y, learned=True).items}["cash"]
    assert db == pytest.approx(why.size * 200 / why.rows, rel=0.3)


def test_it_can_be_drawn(leaking):
    pytest.importorskip("matplotlib")
    found = leaking[0].importance()
    assert len(found.plot().patches) == len(found.ranked)
    for column in ("age", "boat"):
        ax = found.plot(column=column)
        assert ax.get_xlabel() == column
        ax.figure.clf()


def test_mixed_columns_of_naive_bayes():
    X, y = rows_for("NaiveBayes")
    found = NaiveBayes().fit(X, y).importance(X, y, learned=True)
    assert {item.name for item in found.items} == {"size", "colour"}
    assert found.curve("size").is_number
    assert {p.value for p in found.curve("colour").points} == {"red", "green", "blue"}


def test_estimators_are_all_tried():
    assert set(ESTIMATORS) - set(WITH_EVIDENCE) == {"GaussianMixture", "CountVectorizer"}


# ------------------------------------------------------------------ columns that almost decide alone


def test_a_column_that_leaks_the_answer_is_asked_about(leaking, tmp_path):
    model = leaking[0]
    (found,) = model.summary().decisive
    assert found.column == "boat"
    (gain,) = (gain for name, _, gain, _ in model.model_.record.smoothings if name == "boat")
    assert found.share == pytest.approx(gain / scipy.stats.entropy(model.class_count_))
    assert "'boat' almost decides alone" in repr(model.summary())
    assert model.summary().to_dict()["decisive"] == [{"column": "boat", "share": found.share}]
    model.save(tmp_path / "model")
    assert deciban.read(tmp_path / "model").summary().decisive == (found,)


def decisive(**columns):
    y = columns.pop("y")
    return [one.column for one in Classifier().fit(pd.DataFrame(columns), y).summary().decisive]


def test_copies_of_a_leak_are_all_asked_about():
    table, y = passengers()
    assert decisive(y=y, **table, rescued=table["boat"].notna()) == ["boat", "rescued"]


def test_nothing_is_asked_where_nothing_leaks():
    """Strong columns beside others that come near them, a column alone, too few rows, and columns of noise."""
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine

    for load in (load_iris, load_wine, load_breast_cancer):
        table = load(as_frame=True)
        assert decisive(y=table.target.to_numpy().astype(str), **table.data) == []
    table, y = passengers()
    assert decisive(y=y, boat=table["boat"]) == []
    assert decisive(y=y[:30], **table[:30]) == []
    assert decisive(y=y, **table.drop(columns="boat")) == []
    assert decisive(y=y, **(table.sample(frac=1, random_state=0).reset_index(drop=True))) == []


# ------------------------------------------------------------------ texts


def test_what_is_the_same_in_every_text_is_not_ranked():
    X, y = rows_for("TextClassifier", 200)
    found = TextClassifier().fit(X, y).importance()
    constant = [item for item in found.items if item.name in (CORRECTION, ABSENT)]
    assert constant, "it is part of the evidence, and adds up"
    assert found.ranked == tuple(item for item in found.items if item not in constant)
    lines = repr(found).splitlines()
    assert not any(line.startswith((CORRECTION, ABSENT)) and " dB in every text:" not in line for line in lines)
    strong = [item for item in constant if item.size >= 0.5]
    assert sum(" dB in every text:" in line for line in lines) == len(strong)


@pytest.mark.parametrize(
    ("characters", "classes", "expected"), [(60, 2, 400), (60, 40, 400), (6000, 2, 250), (60_000, 2, 200)]
)
def test_of_long_texts_fewer_are_looked_at(characters, classes, expected):
    sums, weight = SimpleNamespace(blocks=("words", "pairs")), np.full(classes, 1e6)
    model = SimpleNamespace(sums=sums, classes=np.arange(classes), weight=weight)
    assert documents_at_fit(model, ["x" * characters] * 1000) == expected


@pytest.mark.parametrize(("learned", "expected"), [(100, 200), (2500, 250), (3000, 300), (9000, 400)])
def test_texts_leave_the_sums_at_once_where_that_is_enough(learned, expected):
    model = SimpleNamespace(sums=SimpleNamespace(blocks=("words",)), classes=np.arange(2), weight=np.array([learned]))
    assert documents_at_fit(model, ["lunch at noon"]) == expected
