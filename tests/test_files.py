"""Model files: what was saved comes back whole and goes on learning; anything else is refused by name."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save, save_file

import deciban
from deciban import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
    PoissonNB,
    TreeAugmentedNB,
    files,
)
from deciban.errors import FileError, ForgetError

MODELS = [GaussianNB, MultinomialNB, BernoulliNB, CategoricalNB, ComplementNB, PoissonNB, TreeAugmentedNB]
X = np.random.default_rng(0).integers(0, 4, (12, 3)).astype(float)
y = np.array(list("abc") * 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.deciban"


def back(model, path):
    model.save(path)
    return deciban.load(path)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("alpha", [0.5, "loo", [0.1, 1.0, 2.0], np.full((3, 3), 0.3)], ids=type)
def test_a_saved_model_predicts_learns_and_forgets_as_before(Model, alpha, path):
    model = Model(alpha=alpha if Model is not GaussianNB or np.ndim(alpha) == 0 else 1.0).fit(X, y)
    again = back(model, path)
    for one in (model, again):
        one.partial_fit(X[:3], y[:3]).forget(X[6:9], y[6:9])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert type(again.alpha) is type(model.alpha)


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(12) % 3,
        (np.arange(12) % 3).astype(np.int8),
        np.array([0, 2**64 - 1] * 6, dtype=np.uint64),
        np.arange(12) % 2 == 0,
        (np.arange(12) % 2).astype(float),
        np.array(["", "日本 é\n"] * 6),
        np.array(["yes", "no"] * 6, dtype=object),
    ],
    ids=["int", "int8", "uint64", "bool", "float", "text", "object"],
)
def test_labels_keep_their_type(labels, path):
    model = GaussianNB().fit(X, labels)
    again = back(model, path)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("labels", [["a", "b"] * 6, ["2020", "2021"] * 6], ids=["S1", "M8[Y]"])
def test_labels_that_cannot_be_saved_leave_the_old_file(labels, path, request):
    labels = np.array(labels, dtype=request.node.callspec.id)
    old = MultinomialNB().fit(X, y)
    old.save(path)
    with pytest.raises(TypeError, match="cannot be saved"):
        MultinomialNB().fit(X, labels).save(path)
    assert deciban.load(path).classes_.tolist() == ["a", "b", "c"]
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # no temporary file stays behind


@pytest.mark.parametrize("values", [["x", "y", None], [True, "1", 1.5], [("u", 1), ("u", 2), "u"]], ids=str)
def test_categories_come_back_as_they_were_or_are_refused(values, path):
    rows = np.empty((12, 1), dtype=object)
    rows[:, 0] = values * 4
    model = CategoricalNB().fit(rows, y)
    if any(isinstance(value, tuple) for value in values):
        with pytest.raises(TypeError, match="cannot be saved"):
            model.save(path)
    else:
        np.testing.assert_array_equal(back(model, path).predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("Model", MODELS)
def test_what_a_model_may_not_do_is_saved_too(Model, path):
    with pytest.raises(ValueError, match="do not exist"):
        back(Model().partial_fit(X, y, classes=list("abcd")), path).partial_fit(X[:1], ["z"])
    with pytest.raises(ForgetError, match="EM"):
        back(Model().fit(X, np.where(y == "a", None, y)), path).forget(X[:1], y[:1])


@pytest.mark.parametrize("Model", MODELS)
def test_an_empty_model_comes_back_empty(Model, path):
    again = back(Model().fit(X, y).forget(X, y), path)
    assert len(again.classes_) == 0
    expected = Model().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(again.partial_fit(X, y).predict_proba(X), expected, atol=1e-12)


def test_an_unfitted_model_cannot_be_saved(path):
    with pytest.raises(ValueError, match="not fitted"):
        MultinomialNB().save(path)
    assert not path.exists()


# ---------------------------------------------------------------------- files that are no models


@pytest.fixture
def raw(path):
    MultinomialNB().fit(X, y).save(path)
    return path.read_bytes()


def test_truncated_files(path, raw):
    for size in range(0, len(raw), 7):
        path.write_bytes(raw[:size])
        with pytest.raises(FileError, match=r"model\.deciban"):
            deciban.load(path)


def test_a_changed_byte_anywhere(path, raw):
    for i in range(0, len(raw), 3):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :])
        with pytest.raises(FileError, match=r"model\.deciban"):
            deciban.load(path)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        MultinomialNB().fit([[1, 0], [0, 1]], [0, 1]).save(tmp_path / "nowhere" / "m.deciban")


def test_places_that_are_no_model_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model file.*nowhere"):
        deciban.load(tmp_path / "nowhere")
    with pytest.raises((FileError, IsADirectoryError), match="directory"):
        deciban.load(tmp_path)
    with pytest.raises(OSError, match="directory"):
        MultinomialNB().fit(X, y).save(tmp_path)
    save_file({"a": np.ones(3)}, tmp_path / "other")
    with pytest.raises(FileError, match="not a deciban model"):
        deciban.load(tmp_path / "other")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FileError, match="not a whole deciban model"):
        deciban.load(tmp_path / "text")


FORGERIES = {
    "another format": lambda d: d.update(format=2),
    "another model": lambda d: d["about"].update(model="os.system"),
    "a model that is no name": lambda d: d["about"].update(model=["x"]),
    "another family": lambda d: d["blocks"][0].update(family="bernoulli", settings={}),
    "no blocks": lambda d: d.update(blocks=[]),
    "size": lambda d: d["blocks"][0].update(size=99),
    "features": lambda d: d["about"].update(n_features=7),
    "names": lambda d: d["about"].update(names=["one"]),
    "classes that repeat": lambda d: d["classes"].update(values=["a", "a", "a"]),
    "classes out of order": lambda d: d["classes"].update(values=["c", "b", "a"]),
    "negative alpha": lambda d: d["blocks"][0].update(alpha=-5),
    "alpha of another shape": lambda d: d["blocks"][0].update(alpha={"dtype": "<f8", "values": [1.0, 2.0]}),
    "unknown alpha": lambda d: d["blocks"][0].update(alpha="bogus"),
    "unknown prior": lambda d: d.update(class_prior="bogus"),
    "prior of another shape": lambda d: d.update(class_prior={"dtype": "<f8", "values": [0.5, 0.5]}),
    "state that is none": lambda d: d["about"].update(state={"dict": [["model_", None]]}),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_document_that_contradicts_itself_is_refused(what, path, raw):
    """A right checksum does not make a right model: another writer, or another version, may be wrong."""
    del raw
    with safe_open(path, "numpy") as file:
        document = json.loads(file.metadata()["deciban"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    FORGERIES[what](document)
    text = json.dumps(document)
    path.write_bytes(save(tensors, metadata={"deciban": text, "sha256": files.checksum(text, tensors)}))
    with pytest.raises(FileError):
        deciban.load(path)


@pytest.mark.parametrize(("name", "value"), [("0.x", -5.0), ("weight", -1.0), ("0.x", np.nan)])
def test_sums_that_cannot_be_are_refused(name, value, path, raw):
    del raw
    with safe_open(path, "numpy") as file:
        text = file.metadata()["deciban"]
        tensors = {key: file.get_tensor(key).copy() for key in file.keys()}  # noqa: SIM118 - not a mapping
    tensors[name].flat[0] = value
    path.write_bytes(save(tensors, metadata={"deciban": text, "sha256": files.checksum(text, tensors)}))
    with pytest.raises(FileError):
        deciban.load(path)
