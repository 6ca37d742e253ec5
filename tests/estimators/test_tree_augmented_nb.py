"""Naive Bayes with a tree: any table, the tree kept, refits matched, real tables predicted better than without."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

import deciban
from deciban import CategoricalNB, DecibanError, FileError, ForgetError, SchemaError, TreeAugmentedNB
from deciban.bayes import DECIBANS
from deciban.corollaries.leave_one_out import merged

seeds = st.integers(0, 10_000)


def mixed(seed, n=60, missing=0.1):
    """Numbers, names and codes that depend on each other, with missing values; and classes."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["no", "yes"], n)
    shape = rng.integers(0, 3, n)
    X = np.empty((n, 4), dtype=object)
    X[:, 0] = np.array(["round", "long", "flat"], dtype=object)[shape]
    X[:, 1] = rng.normal(size=n) + shape + (y == "yes")
    X[:, 2] = (shape + (rng.random(n) < 0.2)) % 3
    X[:, 3] = rng.choice(["a", "b"], n)
    X[rng.random((n, 4)) < missing] = None
    return X, y


# ------------------------------------------------------------------ learning is adding, under one tree


@given(seeds, st.integers(1, 59))
def test_batches_merge_and_forget_under_the_tree_of_the_first(seed, cut):
    X, y = mixed(seed)
    whole = TreeAugmentedNB().fit(X, y)
    same = {"parents": whole.parents_, "bins": whole.cuts_}
    parts = [TreeAugmentedNB(**same).fit(X[rows], y[rows]) for rows in (slice(None, cut), slice(cut, None))]
    assert (parts[0] + parts[1]).model_.stats.same_as(whole.model_.stats)
    twice = whole + TreeAugmentedNB(**same).fit(X, y)  # a tree that was found, and the same one given
    assert twice.model_.stats.same_as(whole.model_.stats.scale(2.0))
    batches = TreeAugmentedNB(**same).partial_fit(X[:cut], y[:cut]).partial_fit(X[cut:], y[cut:])
    assert batches.model_.stats.same_as(whole.model_.stats)
    left = TreeAugmentedNB().fit(X, y).forget(X[cut:], y[cut:])
    assert left.model_.stats.same_as(parts[0].model_.stats)
    assert left.parents_.tolist() == whole.parents_.tolist()


@pytest.mark.parametrize("alpha", [1.0, 0.2, [0.1, 1.0, 2.0, 0.5]], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_a_refit_with_the_tree_held(alpha, weighted):
    X, y = mixed(1)
    weight = np.random.default_rng(0).integers(1, 4, len(y)) / 2 if weighted else None
    model = TreeAugmentedNB(alpha=alpha).fit(X, y, weight)
    parts = [slice(None, 20), slice(20, None)]  # of some of the rows, with the tree that all have chosen
    left_out = merged([model.leave_one_out(X[p], y[p], None if weight is None else weight[p]) for p in parts])
    assert left_out.how == "leave-one-out, choices held"
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        refit = TreeAugmentedNB(alpha=alpha, parents=model.parents_, bins=model.cuts_)
        refit.fit(X[others], y[others], None if weight is None else weight[others])
        np.testing.assert_allclose(refit.predict_log_proba(X[[i]])[0], left_out.log_proba[i], rtol=1e-9, atol=1e-9)


def test_leave_one_out_is_forgetting():
    X, y = mixed(5)
    model = TreeAugmentedNB().fit(X, y)
    left_out = model.leave_one_out(X[:8], y[:8]).proba[7]
    np.testing.assert_allclose(model.forget(X[[7]], y[[7]]).predict_proba(X[[7]])[0], left_out, rtol=1e-9)


def test_models_with_trees_of_their_own_do_not_merge():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, (200, 3))
    b = a.copy()
    a[:, 1], b[:, 2] = a[:, 0], b[:, 0]
    y = rng.integers(0, 2, 200)
    with pytest.raises(SchemaError, match="different trees: column 'x1' depends on 'x0' in one and on none"):
        TreeAugmentedNB().fit(a, y) + TreeAugmentedNB().fit(b, y)
    x = rng.normal(size=(200, 1))
    with pytest.raises(SchemaError, match="bins for column 'x0'"):
        TreeAugmentedNB().fit(x, y) + TreeAugmentedNB().fit(x + 0.1, y)


def test_the_tree_is_chosen_by_the_first_rows_there_are():
    X, y = mixed(3)
    model = TreeAugmentedNB().partial_fit(X[:0], y[:0]).partial_fit(X, y)
    whole = TreeAugmentedNB().fit(X, y)
    assert model.parents_.tolist() == whole.parents_.tolist()
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X))


def test_parents_that_change_between_batches_are_refused():
    X, y = mixed(3)
    model = TreeAugmentedNB(parents=[-1, 0, 0, -1]).fit(X, y).set_params(parents=[-1, 0, 1, -1])
    with pytest.raises(ValueError, match="parents= has changed since the last batch"):
        model.partial_fit(X, y)


def test_new_categories_join_and_leave():
    model = TreeAugmentedNB(parents=[-1, 0]).fit([["a", "x"], ["b", "y"]] * 3, [0, 1] * 3)
    before = model.predict_proba([["a", "y"]])
    model.partial_fit([["c", "z"]], [0])
    assert model.categories_ == [("a", "b", "c"), ("x", "y", "z")]
    assert model.predict([["c", "z"]]).tolist() == [0]
    model.forget([["c", "z"]], [0])
    assert model.categories_ == [("a", "b"), ("x", "y")]
    np.testing.assert_allclose(model.predict_proba([["a", "y"]]), before, rtol=1e-12)


# ------------------------------------------------------------------ what is missing, and what was never seen


def test_where_the_parent_is_missing_its_values_are_summed_over():
    X = [["a", "x"], ["a", "x"], ["b", "y"], [None, "y"]]
    model = TreeAugmentedNB(parents=[-1, 0]).fit(X, [0] * 4)

    def p(row):
        return float(np.exp(model.score_samples([row])[0]))

    a, b, given_a, given_b = (2 + 1) / (3 + 2), (1 + 1) / (3 + 2), (2 + 1) / (2 + 2), (0 + 1) / (1 + 2)
    assert p(["a", "x"]) == pytest.approx(a * given_a)
    assert p(["a", None]) == pytest.approx(a)
    assert p([None, "x"]) == pytest.approx(a * given_a + b * given_b)
    assert p(["never", "x"]) == pytest.approx(1 / (3 + 3) * 1 / 2)  # as beside a value known but never counted
    assert p(["never", "never"]) == pytest.approx(1 / (3 + 3) * 1 / 3)
    assert p(["a", "never"]) == pytest.approx(a * 1 / (2 + 3))
    assert p([None, "never"]) == pytest.approx(a * 1 / (2 + 3) + b * 1 / (1 + 3))
    assert p([None, None]) == pytest.approx(1.0)


def test_a_chain_is_not_broken_by_a_missing_value():
    rng = np.random.default_rng(0)
    y, a = rng.integers(0, 2, 3000), rng.integers(0, 4, 3000)
    b = np.where(rng.random(3000) < 0.97, a, rng.integers(0, 4, 3000))
    c = np.where(rng.random(3000) < 0.97, (b + 2 * y) % 4, rng.integers(0, 4, 3000))
    X = np.column_stack([a, b, c]).astype(float)
    model = TreeAugmentedNB(parents=[-1, 0, 1]).fit(X, y)
    X[:, 1] = np.nan
    assert model.score(X, y) > 0.9
    why = model.explain(X[:1])
    odds = np.diff(model.predict_joint_log_proba(X[:1])[0])[0] * DECIBANS
    assert abs(why.total) == pytest.approx(abs(odds))
    assert why.prior + sum(db for _, _, db in why.items) == pytest.approx(why.total)


def test_labels_may_be_missing():
    X, y = mixed(2, 200)
    partly = y.astype(object)
    partly[np.random.default_rng(0).random(200) < 0.3] = None
    model = TreeAugmentedNB().fit(X, partly)
    known = np.array([label is not None for label in partly])
    assert model.parents_.tolist() == TreeAugmentedNB(bins=model.cuts_).fit(X[known], y[known]).parents_.tolist()
    assert model.n_unlabelled_ == (~known).sum()
    with pytest.raises(ForgetError, match="inferred by EM"):
        model.forget(X[:1], y[:1])
    assert TreeAugmentedNB().fit(X, clusters=2).parents_.tolist() == [-1] * 4  # no label says what to condition on
    assert TreeAugmentedNB(parents={2: 0}).fit(X, clusters=2).parents_.tolist() == [-1, -1, 0, -1]


def test_sure_soft_labels_are_hard_ones():
    X, y = mixed(4)
    soft = TreeAugmentedNB().fit(X, np.column_stack([y == "no", y == "yes"]).astype(float))
    hard = TreeAugmentedNB().fit(X, y)
    assert soft.parents_.tolist() == hard.parents_.tolist()
    np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X))


# ------------------------------------------------------------------ any table


def test_frames_arrays_and_mappings_say_the_same():
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    X, y = mixed(6)
    names = ["shape", "size", "code", "side"]
    columns = {name: X[:, j].tolist() for j, name in enumerate(names)}
    expected = TreeAugmentedNB().fit(X, y).predict_proba(X)
    frame = pandas.DataFrame(columns)
    frame["side"] = frame["side"].astype("category")
    for table in (frame, polars.DataFrame(columns), arrow.table(columns), columns, frame.to_dict("records")):
        model = TreeAugmentedNB().fit(table, y)
        np.testing.assert_allclose(model.predict_proba(table), expected, rtol=1e-12)
        assert model.feature_names_in_.tolist() == names
        assert "code given shape=round" in repr(model.explain(table[:1] if hasattr(table, "iloc") else frame[:1]))
    shuffled = polars.DataFrame({name: columns[name] for name in names[::-1]})
    np.testing.assert_allclose(model.predict_proba(shuffled), expected, rtol=1e-12)
    with pytest.raises(DecibanError, match="no column 'side'"):
        model.predict({name: columns[name] for name in names[:3]})


def test_what_columns_are_taken_for():
    rng = np.random.default_rng(0)
    X = np.empty((100, 5), dtype=object)
    X[:, 0] = rng.integers(1, 8, 100)  # few whole numbers: categories
    X[:, 1] = rng.integers(0, 1000, 100)  # many
    X[:, 2] = rng.random(100)
    X[:, 3] = rng.random(100) < 0.5
    X[:, 4] = rng.choice(["u", "v"], 100)
    model = TreeAugmentedNB().fit(X, rng.integers(0, 2, 100))
    assert [cuts is None for cuts in model.cuts_] == [True, False, False, True, True]
    assert model.categories_[0] == tuple(range(1, 8))
    assert [len(cuts) + 1 for cuts in model.cuts_ if cuts is not None] == [3, 3]  # 100^(1/4)
    assert [len(c) for c in TreeAugmentedNB(bins=8).fit(X, X[:, 4]).categories_] == [7, 8, 8, 2, 2]


def test_no_label_is_looked_at_when_numbers_are_cut():
    X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 2
    one, two = TreeAugmentedNB().fit(X, y), TreeAugmentedNB().fit(X, X[:, 0] > 0.3)
    for a, b in zip(one.cuts_, two.cuts_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_without_parents_it_is_categorical_naive_bayes(table):
    data = table("voting")
    ours = TreeAugmentedNB(parents=[-1] * 16).fit(data.categories, data.y)
    theirs = CategoricalNB().fit(data.categories, data.y)
    np.testing.assert_allclose(ours.predict_proba(data.categories), theirs.predict_proba(data.categories), rtol=1e-9)


# ------------------------------------------------------------------ answers


def test_evidence_adds_up_and_names_what_it_is_given():
    X, y = mixed(7)
    model = TreeAugmentedNB().fit(X, y)
    for i in range(10):
        why = model.explain(X[[i]])
        log_joint = dict(zip(model.classes_, model.predict_joint_log_proba(X[[i]])[0], strict=True))
        assert why.total == pytest.approx((log_joint[why.target] - log_joint[why.against]) * DECIBANS)
        assert why.total == pytest.approx(why.prior + sum(db for _, _, db in why.items))
    whole = next(i for i in range(len(X)) if all(v is not None for v in X[i]))
    child = int(np.argmax(model.parents_ >= 0))
    names = [name.split(" given ") for name, _, _ in model.explain(X[[whole]]).items]
    assert [f"x{child}", f"x{model.parents_[child]}"] in [[n[0], n[1][:2]] for n in names if len(n) == 2]


def test_samples_look_like_the_rows():
    X, y = mixed(8, 2000, missing=0.0)
    model = TreeAugmentedNB().fit(X, y)
    rows, labels = model.sample(4000, random_state=0)
    assert rows.shape == (4000, 4)
    assert set(labels) == {"no", "yes"}
    assert set(rows[:, 0]) == {"round", "long", "flat"}
    assert set(rows[:, 1]) <= set(model.categories_[1].middles)
    same = [np.mean([a == b for a, b in zip(R[:, 0], R[:, 2], strict=True)]) for R in (X, rows)]
    drawn = {value: np.mean(rows[rows[:, 0] == "flat", 2] == value) for value in range(3)}
    real = {value: np.mean(X[X[:, 0] == "flat", 2] == value) for value in range(3)}
    assert drawn == pytest.approx(real, abs=0.06)  # three standard errors of a share of about 650 of each
    assert same[0] == same[1] == 0.0
    numbers, _ = TreeAugmentedNB().fit(np.arange(40.0).reshape(20, 2), np.arange(20) % 2).sample(3, random_state=0)
    assert numbers.dtype == np.float64


def test_the_structure_is_a_table_and_a_picture():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = mixed(9, 300)
    structure = TreeAugmentedNB().fit(X, y).structure_
    shown = structure.to_dict()
    assert shown["column"][0] == "x0" or shown["parent"][0] is None
    assert set(shown) == {"column", "parent", "bits given class", "bits of class"}
    assert max(bits for bits in shown["bits given class"] if bits is not None) > 0.5  # shape and code
    ax = structure.plot()
    assert {text.get_text() for text in ax.texts} == {"x0", "x1", "x2", "x3"}
    assert len(ax.lines) == sum(on >= 0 for on in structure.parents)


def test_alpha_is_chosen():
    X, y = mixed(10, 200)
    losses = {}
    for alpha in (1e-3, 1.0, 100.0, "empirical", "loo"):
        model = TreeAugmentedNB(alpha=alpha).fit(X, y)
        losses[alpha] = model.leave_one_out(X, y).log_loss
    assert losses["loo"] <= min(losses.values()) + 1e-6
    assert 1e-3 < TreeAugmentedNB(alpha="empirical").fit(X, y).alpha_ < 100


# ------------------------------------------------------------------ files


def test_a_saved_model_goes_on(tmp_path):
    X, y = mixed(11)
    model = TreeAugmentedNB(bins=4).fit(X, y)
    model.save(tmp_path / "tree")
    again = deciban.load(tmp_path / "tree")
    assert again.categories_ == model.categories_
    assert again.structure_.to_dict() == model.structure_.to_dict()
    for one in (model, again):
        one.partial_fit(X[:5], y[:5]).forget(X[20:25], y[20:25])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert (again + model).class_count_.sum() == 2 * len(y)
    given = TreeAugmentedNB(parents=model.parents_, bins=model.cuts_).fit(X, y)
    given.save(tmp_path / "given")
    np.testing.assert_array_equal(deciban.load(tmp_path / "given").fit(X, y).predict_proba(X), given.predict_proba(X))


@pytest.mark.parametrize(
    ("what", "value", "message"),
    [
        ("parents", [1, 0, -1, -1], "not a tree"),
        ("parents", [-1, 9, -1, -1], "not a tree"),
        ("parents", [-1], "not a tree"),
        ("cuts", [2.0, 1.0], "intervals"),
        ("cuts", [1.0, 2.0, 3.0, 4.0, 5.0], "intervals"),
        ("cuts", [float("nan"), 2.0], "intervals"),
    ],
)
def test_damaged_files_are_refused(tmp_path, what, value, message):
    from safetensors import safe_open
    from safetensors.numpy import save_file

    from deciban.storage.files import checksum

    X, y = mixed(11)
    TreeAugmentedNB(bins=3, parents=[-1, 0, 0, -1]).fit(X, y).save(tmp_path / "tree")
    with safe_open(tmp_path / "tree", framework="numpy") as file:
        document = json.loads(file.metadata()["deciban"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    block = document["blocks"][0]
    if what == "parents":
        block["parents"] = value
    else:
        block["categories"][1]["cuts"] = value
    text = json.dumps(document)
    save_file(tensors, tmp_path / "bad", metadata={"deciban": text, "sha256": checksum(text, tensors)})
    with pytest.raises(FileError, match=message):
        deciban.load(tmp_path / "bad")


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parents": [0, -1, -1, -1]}, "without cycles"),
        ({"parents": [1, 2, 0, -1]}, "without cycles"),
        ({"parents": [-1, 7, -1, -1]}, "0 to 3"),
        ({"parents": [-1, 0]}, "4 whole numbers, one per column"),
        ({"parents": [-1, 0.5, -1, -1]}, "4 whole numbers, one per column"),
        ({"parents": {"size": 0}}, "'size', which does not exist"),
        ({"bins": 0}, "'bins' parameter"),
        ({"bins": [None, [3.0, 1.0], None, None]}, r"bins\[1\] is \[3.0, 1.0\]"),
        ({"bins": [None]}, "bins has 1 entries, but there are 4 columns"),
        ({"alpha": -1.0}, "'alpha' parameter"),
        ({"alpha": [1.0, 2.0]}, "Got 2 elements instead of 4"),
    ],
    ids=str,
)
def test_wrong_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        TreeAugmentedNB(**settings).fit(*mixed(0))


def test_wrong_rows():
    X, y = mixed(0)
    model = TreeAugmentedNB().fit(X, y)
    wrong = X.copy()
    wrong[3, 1] = "tall"
    with pytest.raises(DecibanError, match=r"column 'x1' was learned as numbers, but row \d+ holds"):
        model.predict(wrong)
    wrong[3, 1] = np.inf
    with pytest.raises(DecibanError, match="holds inf in row 3"):
        model.predict(wrong)
    before = model.predict_proba(X)
    with pytest.raises(ForgetError, match="learned"):
        model.forget([["round", 99.0, 2, "a"]] * 50, ["yes"] * 50)
    np.testing.assert_array_equal(model.predict_proba(X), before)


# ------------------------------------------------------------------ real tables


def judged(make, X, y, folds=5):
    """Log loss and accuracy on rows that were not learned."""
    losses, right = np.empty(len(y)), np.empty(len(y))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y):
        model = make().fit(X[train], y[train])
        proba = model.predict_proba(X[test])
        truth = np.searchsorted(model.classes_, y[test])
        losses[test] = -np.log(proba[np.arange(len(test)), truth])
        right[test] = proba.argmax(axis=1) == truth
    return losses, right


@pytest.mark.slow_where("kr_vs|mushroom|nursery")
@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("name", ["car", "kr_vs_kp", "vehicle", "voting", "mushroom", "nursery"])
def test_a_tree_tells_real_tables_better_than_none(table, name):
    data = table(name)
    X = data.categories if data.numbers is None else data.numbers
    tree, right = judged(TreeAugmentedNB, X, data.y)
    none, plain = judged(lambda: TreeAugmentedNB(parents=[-1] * X.shape[1]), X, data.y)
    gain = none - tree
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))  # beyond chance, row by row
    assert right.mean() > plain.mean()


@pytest.mark.parametrize("name", [pytest.param("soybean", marks=pytest.mark.slow), "hepatitis"])
def test_leave_one_out_is_a_refit_on_real_tables(table, name):
    data = table(name)
    parts = [part for part in (data.categories, data.numbers) if part is not None and part.shape[1]]
    X, y = np.hstack([part.astype(object) for part in parts]), data.y
    model = TreeAugmentedNB().fit(X, y)
    left_out = model.leave_one_out(X[:-1], y[:-1])
    for i in range(0, len(y) - 1, 12):
        others = np.arange(len(y)) != i
        if (y[others] == y[i]).any():
            refit = TreeAugmentedNB().fit(X, y).forget(X[[i]], y[[i]])
            np.testing.assert_allclose(refit.predict_proba(X[[i]])[0], left_out.proba[i], atol=1e-9)
