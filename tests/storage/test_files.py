"""Model files: round trips, learning after loading, and errors for anything else."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from every import reading
from safetensors import safe_open
from safetensors.numpy import load_file, save, save_file

import deciban
from deciban import CategoricalNB, GaussianNB, MultinomialNB
from deciban.errors import DecibanError, FileError, ForgetError
from deciban.storage import files
from deciban.storage.files import MODELS as KINDS
from deciban.tables.experts.ordered import OrderedGaussian

MODELS = reading("numbers", "counts", "bits", "categories")
X = np.random.default_rng(0).integers(0, 4, (12, 3)).astype(float)
y = np.array(list("abc") * 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.deciban"


def saved_and_loaded(model, path):
    model.save(path)
    return deciban.load(path)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("alpha", [0.5, "loo", [0.1, 1.0, 2.0], np.full((3, 3), 0.3)], ids=type)
def test_a_saved_model_predicts_learns_and_forgets_as_before(Model, alpha, path):
    model = Model(alpha=alpha if Model is not GaussianNB or np.ndim(alpha) == 0 else 1.0).fit(X, y)
    again = saved_and_loaded(model, path)
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
    again = saved_and_loaded(model, path)
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
        np.testing.assert_array_equal(saved_and_loaded(model, path).predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("Model", MODELS)
def test_what_a_model_may_not_do_is_saved_too(Model, path):
    with pytest.raises(ValueError, match="do not exist"):
        saved_and_loaded(Model().partial_fit(X, y, classes=list("abcd")), path).partial_fit(X[:1], ["z"])
    with pytest.raises(ForgetError, match="EM"):
        saved_and_loaded(Model().fit(X, np.where(y == "a", None, y)), path).forget(X[:1], y[:1])


@pytest.mark.parametrize("Model", MODELS)
def test_an_empty_model_comes_back_empty(Model, path):
    again = saved_and_loaded(Model().fit(X, y).forget(X, y), path)
    assert len(again.classes_) == 0
    expected = Model().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(again.partial_fit(X, y).predict_proba(X), expected, atol=1e-12)


def test_an_unfitted_model_cannot_be_saved(path):
    with pytest.raises(ValueError, match="not fitted"):
        MultinomialNB().save(path)
    assert not path.exists()


# ---------------------------------------------------------------------- files that are no models


@pytest.fixture
def saved_bytes(path):
    MultinomialNB().fit(X, y).save(path)
    return path.read_bytes()


def test_truncated_files(path, saved_bytes):
    for size in range(0, len(saved_bytes), 7):
        path.write_bytes(saved_bytes[:size])
        with pytest.raises(FileError, match=r"model\.deciban"):
            deciban.load(path)


def test_a_changed_byte_anywhere(path, saved_bytes):
    for i in range(0, len(saved_bytes), 3):
        path.write_bytes(saved_bytes[:i] + bytes([saved_bytes[i] ^ 1]) + saved_bytes[i + 1 :])
        with pytest.raises(FileError, match=r"model\.deciban"):
            deciban.load(path)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        MultinomialNB().fit([[1, 0], [0, 1]], [0, 1]).save(tmp_path / "nowhere" / "m.deciban")


def test_places_that_are_no_model_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model file.*nowhere"):
        deciban.load(tmp_path / "nowhere")
    with pytest.raises(FileError, match="it is a folder"):
        deciban.load(tmp_path)
    with pytest.raises(OSError, match="directory"):
        MultinomialNB().fit(X, y).save(tmp_path)
    save_file({"a": np.ones(3)}, tmp_path / "other")
    with pytest.raises(FileError, match="not a deciban model"):
        deciban.load(tmp_path / "other")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a file"):  # without waiting for a writer
        deciban.load(tmp_path / "pipe")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"colour,size\nred,3\n" * 50,
        b'{"a": 1}',
        pickle.dumps({"a": np.arange(100)}),
        b"PK\x03\x04" + bytes(100),
        bytes(1000),
        (2).to_bytes(8, "little") + b"{}",
        (10).to_bytes(8, "little") + b"{ not JSON",
        (2**62).to_bytes(8, "little") + b"{}" + bytes(100),
        (6).to_bytes(8, "little") + b'{"\xff"}' + bytes(10),
        (100_000).to_bytes(8, "little") + b'{"a":' + b"[" * 99_995,
    ],
    ids=lambda content: repr(content[:12]),
)
def test_files_of_another_kind(content, path):
    path.write_bytes(content)
    with pytest.raises(
        FileError, match=r"model\.deciban' is .*(not a complete deciban model|not a deciban model)"
    ) as caught:
        deciban.load(path)
    assert "\n" not in str(caught.value)


FORGERIES = {
    "another format": lambda d: d.update(format=0),
    "a format that is no number": lambda d: d.update(format=True),
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
def test_a_document_that_contradicts_itself_is_refused(what, path, saved_bytes):
    """A valid checksum does not make a valid model: another writer, or another version, may be wrong."""
    del saved_bytes
    document, tensors = read_with_safetensors(path)
    FORGERIES[what](document)
    write_with_safetensors(path, json.dumps(document), tensors)
    with pytest.raises(FileError):
        deciban.load(path)


@pytest.mark.parametrize(("name", "value"), [("0.x", -5.0), ("weight", -1.0), ("0.x", np.nan)])
def test_sums_that_cannot_be_are_refused(name, value, path, saved_bytes):
    del saved_bytes
    document, tensors = read_with_safetensors(path)
    tensors[name].flat[0] = value
    write_with_safetensors(path, json.dumps(document), tensors)
    with pytest.raises(FileError):
        deciban.load(path)


def test_a_file_of_a_later_version_is_refused(path, saved_bytes):
    """Whatever else is new in it: the checksum may be computed differently."""
    del saved_bytes
    document, tensors = read_with_safetensors(path)
    text = json.dumps(document | {"format": 2, "blocks": "otherwise"})
    path.write_bytes(save(tensors, metadata={"deciban": text, "sha256": "made otherwise"}))
    with pytest.raises(FileError, match="newer version"):
        deciban.load(path)


def test_what_is_not_known_about_a_model_is_left_alone(path, saved_bytes):
    del saved_bytes
    document, tensors = read_with_safetensors(path)
    document["about"]["weather"] = {"dict": [["rain", 3]]}
    document["more"] = [1, 2]
    write_with_safetensors(path, json.dumps(document), tensors)
    assert deciban.load(path).classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "text",
    [
        '{"format": 1, "format": 1}',
        '{"format": 1, "about": {"a": 1, "a": 2}}',
        "[1]",
        "1",
        '{"format": 1' + ', "a": [' * 5000,
        '{"format": 1, "about": {"parameters": ' + "[" * 900 + "]" * 900 + "}}",
        '{"format": 1' + "0" * 5000 + "}",
    ],
    ids=lambda text: text[:30],
)
def test_descriptions_that_are_none(text, path, saved_bytes):
    del saved_bytes
    write_with_safetensors(path, text, read_with_safetensors(path)[1])
    with pytest.raises(FileError, match=r"model\.deciban"):
        deciban.load(path)


def test_arrays_that_overlap_are_refused(path, saved_bytes):
    """Otherwise a small file would be many large arrays."""
    length = int.from_bytes(saved_bytes[:8], "little")
    header, data = json.loads(saved_bytes[8 : 8 + length]), saved_bytes[8 + length :]
    header |= {f"copy{i}": header["weight"] for i in range(3)}
    header_bytes = json.dumps(header).encode()
    path.write_bytes(len(header_bytes).to_bytes(8, "little") + header_bytes + data)
    with pytest.raises(FileError, match=r"array 'copy|array 'weight"):
        deciban.load(path)


# ---------------------------------------------------------------------- contents of a file


def read_with_safetensors(path):
    """A file's description and arrays, as another library reads them."""
    with safe_open(path, "numpy") as file:
        document = json.loads(file.metadata()["deciban"])
        return document, {key: file.get_tensor(key).copy() for key in file.keys()}  # noqa: SIM118 - not a mapping


def write_with_safetensors(path, text, tensors):
    """A file with a right checksum, as another library writes it."""
    path.write_bytes(save(tensors, metadata={"deciban": text, "sha256": files.checksum(text, tensors)}))


def word_counts(n=300, d=4000):
    rng = np.random.default_rng(0)
    return rng.poisson(0.02, (n, d)).astype(float), np.arange(n) % 10


def test_another_library_reads_and_writes_the_same_format(path):
    """The order of arrays, gaps in the header and JSON's spelling are the writer's choice."""
    model = MultinomialNB().fit(*word_counts())
    model.save(path)
    document, tensors = read_with_safetensors(path)
    assert set(load_file(path)) == set(tensors)
    write_with_safetensors(path, json.dumps(document, indent=2, ensure_ascii=False), dict(reversed(tensors.items())))
    np.testing.assert_array_equal(deciban.load(path).feature_count_, model.feature_count_)


def test_sparse_counts_are_small_and_exact(path):
    X, y = word_counts()
    model = MultinomialNB().fit(X, y)
    model.save(path)
    assert path.stat().st_size < model.feature_count_.nbytes / 12  # a bit a cell, and a byte for those that are not 0
    np.testing.assert_array_equal(deciban.load(path).feature_count_, model.feature_count_)


def test_weights_and_decay_make_no_difference_to_what_comes_back(path):
    X, y = word_counts(60)
    rng = np.random.default_rng(1)
    model = MultinomialNB().partial_fit(X, y, sample_weight=rng.random(60)).decay(half_life=7, rows=3)
    model.save(path)
    assert deciban.load(path).feature_count_.tobytes() == model.feature_count_.tobytes()


def test_nothing_of_a_file_is_used_once_it_is_read(path):
    """It may be replaced, cut short or removed: a model in memory stays what it is."""
    X, y = word_counts()
    model = MultinomialNB().fit(X, y)
    model.save(path)
    again = deciban.load(path)
    os.truncate(path, 0)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    if Path("/proc/self/maps").exists():
        assert str(path) not in Path("/proc/self/maps").read_text()


def test_numbers_that_json_does_not_have(path):
    """They are written as strings, so that any JSON parser reads the description."""
    odd = {"a": [np.inf, -np.inf, 1.5], "b": np.array([np.nan, 2.0]), "c": np.float64("inf")}
    model = MultinomialNB().fit(X, y)
    files.write_parts(path, *model.model_.pack(), odd)
    with safe_open(path, "numpy") as file:
        json.loads(file.metadata()["deciban"], parse_constant=pytest.fail)
    saved_and_loaded = files.read(path)[1]
    assert saved_and_loaded["a"] == odd["a"]
    assert saved_and_loaded["c"] == np.inf
    np.testing.assert_array_equal(saved_and_loaded["b"], odd["b"])


def test_sums_that_no_file_may_hold_leave_the_old_file(path):
    GaussianNB().fit(X, y).save(path)
    with pytest.raises(DecibanError, match="another unit"):
        GaussianNB().fit(X * 1e80, y).save(path)
    assert deciban.load(path).classes_.tolist() == ["a", "b", "c"]


def test_one_long_label_does_not_make_all_of_them_wide(path):
    labels = np.array([f"{i:04}" for i in range(400)] + ["x" * 10_000])
    model = MultinomialNB().fit(np.ones((401, 1)), labels)
    again = saved_and_loaded(model, path)
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.classes_.nbytes < 1 << 20


# ---------------------------------------------------------------------- files of earlier versions

GOLDEN = Path(__file__).parents[1] / "golden"


def test_there_is_a_golden_file_of_every_model():
    for version in ("1", "1.0"):
        kinds = {path.stem.partition("-")[0] for path in (GOLDEN / version).glob("*.deciban")}
        assert kinds == set(KINDS), version


@pytest.mark.parametrize(
    "golden", sorted(GOLDEN.glob("*/*.deciban")), ids=lambda golden: f"{golden.parent.name}-{golden.stem}"
)
def test_golden_files_stay_readable(golden, path):
    """They are saved as they were read, predict what they predicted, and go on learning."""
    expected = json.loads(golden.with_suffix(".json").read_text())
    model = deciban.load(golden)
    model.save(path)
    old, new = (files.read_parts(place)[1] for place in (golden, path))
    assert {name: new[name].tobytes() for name in old} == {name: array.tobytes() for name, array in old.items()}
    # What later versions store of texts is added: nothing, or the former default.
    since = {"factors": 1.0, "ridges": None, "first": None, "second": None}
    for name in set(new) - set(old):
        assert set(new[name].tolist()) <= {since[name.rpartition(".")[2]]}
    # The file may have been made with another BLAS, which adds up in another order: a few roundings of numbers
    # about 1, of which conditions here (below 100) make no more than this.
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(model.predict_proba(expected["rows"]), expected["says"], **close)
    if "learned" in expected:
        model.partial_fit(expected["rows"], expected["labels"])
        np.testing.assert_allclose(model.predict_proba(expected["rows"]), expected["learned"], **close)


def test_golden_files_keep_ordered_classes_and_a_budget():
    ordered, private = (
        deciban.load(GOLDEN / "1.0" / f"{name}.deciban") for name in ("Classifier-ordered", "GaussianNB-private")
    )
    assert ordered.classes_.tolist() == [0, 1, 2, 3, 4]
    assert any(isinstance(expert, OrderedGaussian) for expert in ordered.model_.experts)
    assert (private.privacy_.epsilon, private.privacy_.delta) == (20.0, 0.0)


def test_models_are_written_to_and_read_from_open_files(tmp_path):
    model = deciban.MultinomialNB().fit([[2, 0], [0, 1]], ["spam", "ham"])
    file = io.BytesIO()
    model.save(file)
    model.save(tmp_path / "model.deciban")
    assert file.getvalue() == (tmp_path / "model.deciban").read_bytes()
    for source in (io.BytesIO(file.getvalue()), open(tmp_path / "model.deciban", "rb")):  # noqa: SIM115 - closed below
        with source:
            assert deciban.load(source).class_count_.tolist() == [1.0, 1.0]
    assert deciban.read(io.BytesIO(file.getvalue())).predict([[1, 0]]).tolist() == ["spam"]
    for damaged in (b"", b"x", file.getvalue()[:-1], file.getvalue() + b"x"):
        with pytest.raises(FileError, match="'the model' is"):
            deciban.load(io.BytesIO(damaged))


def test_words_of_one_character_are_distinct(tmp_path):
    """With the empty word, which begins and ends texts, there is one word more than characters."""
    model = deciban.TextClassifier().fit(["a b", "c d", "a b c", "d"], ["x", "y", "x", "y"])
    model.save(tmp_path / "model.deciban")
    assert deciban.load(tmp_path / "model.deciban").vocabulary_ == model.vocabulary_
