"""Models of tables in files: read back exactly as they were, and damage is always detected."""

from __future__ import annotations

import copy
import json
import signal
import warnings
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from small_tables import random_frame

from deciban.errors import FileError, ForgetError
from deciban.reading.columns import Levels
from deciban.reading.frames import Frame
from deciban.reading.labels import Labels
from deciban.reading.table import TableColumns
from deciban.storage import files
from deciban.tables import density, views
from deciban.tables.choose import choose
from deciban.tables.files import digest, parts, rebuild

CLASSES = np.array(["a", "b", "c"])
TEXTS = tuple(f"the {w} fox {v} over a lazy dog" for w in ("quick", "slow", "red") for v in "abcdefghijklmnop")


def table(seed, n=150, text=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n).astype(np.int32)
    frame = random_frame(rng, n, 0.08, y=y)
    if not text:
        return frame, y
    # An informative word, and enough different texts that the column is not one of categories.
    texts = tuple(f"{TEXTS[i % 48]} {CLASSES[y[i]] * 3 if i % 3 else 'word'} {i}" for i in range(n))
    return Frame((*frame.names, "note"), (*frame.columns, Levels(np.arange(n, dtype=np.int32), texts)), n), y


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "with text"])
def world(request):
    frame, y = table(0, text=request.param)
    reader = TableColumns.of(frame)
    model = choose(reader, reader.read(frame), y, CLASSES)
    return model, reader.read(frame).take(slice(12)), y


def there_and_back(model):
    document, tensors = parts(model)
    return rebuild(json.loads(json.dumps(document)), {name: array.copy() for name, array in tensors.items()})


def test_a_model_comes_back_as_it_was(world):
    model, new, _ = world
    back = there_and_back(model)
    assert (back.log_joints(new) == model.log_joints(new)).all()
    assert digest(back) == digest(model)
    assert parts(back)[0] == parts(model)[0]
    assert [e.settings for e in back.experts] == [e.settings for e in model.experts]
    assert back.record.candidates[0].loss == model.record.candidates[0].loss


def test_it_goes_on_learning(world):
    model, new, _ = world
    y = np.zeros(12, dtype=np.int32)
    one, two = (m.learn(new, Labels(CLASSES, y)) for m in (model, there_and_back(model)))
    assert (one.log_joints(new) == two.log_joints(new)).all()
    assert (model + there_and_back(model).zero().learn(new, Labels(CLASSES, y))).weight.sum() == 162


def test_labels_of_every_kind():
    frame, y = table(0, 60)
    reader = TableColumns.of(frame)
    for classes in ([1, 2, 5], [False, True], [0.5, 1.5, 2.5], ["x", "y", "zz"], [-1, 0, 1]):
        labels = np.array(classes)
        model = choose(reader, reader.read(frame), (y % len(classes)).astype(np.int32), labels)
        back = there_and_back(model)
        assert back.classes.dtype == labels.dtype
        assert (back.classes == labels).all()


def test_a_model_that_learned_more_has_the_same_digest(world):
    model, new, _ = world
    learned = model.learn(new, Labels(np.array(["new"]), np.zeros(12, dtype=np.int32)))
    assert digest(learned) == digest(model)
    assert digest(model.zero()) == digest(model)


# ------------------------------------------------------------------ damage


@contextmanager
def within(seconds):
    """A damaged file must not cause an endless loop."""

    def stop(*_):
        raise AssertionError("still reading")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def survives(document, tensors, new, y) -> bool:
    """Whether a file is accepted, or refused by a FileError. An accepted model must answer, and twice the same."""
    with within(20), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sums that make no sense may overflow
        try:
            with files.damage("model"):
                model = rebuild(document, tensors)
        except FileError:
            return False
        scores = model.log_joints(new)
        assert not np.isnan(scores).any()
        assert np.array_equal(scores, rebuild(document, tensors).log_joints(new))
        with suppress(ForgetError):  # words whose counts are damaged cannot be left out
            model.log_joint_without(new, y[: new.size])
        model.learn(new, Labels(model.classes[:1], np.zeros(new.size, dtype=np.int32)))
        views.summary(model)
        views.explain(model, new.take([0]), None, None)
        density.log_density(model, new)
        model.strongest(0, 2)
        density.sample(model, 5, np.random.default_rng(0), None)
        parts(model)
    return True


def test_every_array_cut_short_is_noticed(world):
    model, new, y = world
    document, tensors = parts(model)
    for name, array in tensors.items():
        if array.size == 0:
            continue
        for axis in range(array.ndim):
            short = np.take(array, np.arange(array.shape[axis] - 1), axis=axis)
            taken = survives(document, tensors | {name: np.ascontiguousarray(short)}, new, y)
            assert not taken, (name, axis)
        missing = {key: value for key, value in tensors.items() if key != name}
        assert not survives(document, missing, new, y), name


def test_every_array_of_another_type_is_noticed(world, thorough):
    model, new, y = world
    document, tensors = parts(model)
    kinds = (np.float32, np.int64, np.uint16, bool)
    for i, (name, array) in enumerate(tensors.items()):
        for kind in kinds if thorough else (kinds[i % 4], kinds[(i + 1) % 4]):
            if array.dtype != kind:
                assert not survives(document, tensors | {name: array.astype(kind)}, new, y), (name, kind)
        assert not survives(document, tensors | {name: array[..., None]}, new, y), name


def test_numbers_that_are_none_are_noticed(world):
    model, new, y = world
    document, tensors = parts(model)
    for name, array in tensors.items():
        if array.dtype.kind == "f" and array.size:
            for bad in (np.nan, np.inf, -np.inf):
                broken = array.copy()
                broken.flat[array.size // 2] = bad
                assert not survives(document, tensors | {name: broken}, new, y), (name, bad)


def test_indices_out_of_range_are_noticed(world):
    model, new, y = world
    document, tensors = parts(model)
    for name, array in tensors.items():
        last = name.rsplit(".", 1)[-1]
        if array.dtype == np.int32 and array.size and last != "levels":
            for bad in (-(10**6), 10**6, 2**31 - 1, -(2**31)):
                broken = array.copy()
                broken.flat[array.size // 2] = bad
                assert not survives(document, tensors | {name: broken}, new, y), (name, bad)


def test_parents_in_a_circle_are_noticed(world):
    model, new, y = world
    document, tensors = parts(model)
    at = next(name for name in tensors if name.endswith(".parents0"))
    parents = np.full_like(tensors[at], -1)
    parents[0, 0], parents[1, 0] = 1, 0
    keys, counts = np.zeros(0, dtype=np.uint64), np.zeros((0, 3))
    prefix = at.removesuffix("parents0")
    empty = {at: parents, f"{prefix}keys0": keys, f"{prefix}counts0": counts}
    assert not survives(document, tensors | empty, new, y)


def test_pieces_of_no_class_are_noticed(world):
    model, new, y = world
    document, tensors = parts(model)
    for name in [name for name in tensors if name.startswith("expert.") and name.endswith(".owner")]:
        broken = np.zeros_like(tensors[name])  # all pieces are the first class's
        assert not survives(document, tensors | {name: broken}, new, y), name


def test_columns_of_another_kind_are_noticed(world):
    model, new, y = world
    document, tensors = parts(model)
    for j, kind in enumerate(document["table"]["kinds"]):
        if kind[0] == "note":
            continue
        for other in ("number", "category"):
            numbers = kind[1] in ("number", "count")
            if numbers == (other == "number"):
                continue
            broken = copy.deepcopy(document)
            broken["table"]["kinds"][j][1] = other
            assert not survives(broken, tensors, new, y), (kind, other)


def test_classes_that_are_no_row_of_labels_are_noticed(world):
    model, new, y = world
    document, tensors = parts(model)
    for values in ([["a"], ["b"], ["c"]], ["b", "a", "c"], ["a", "a", "b"], ["a", "b"], "abc", None, 3):
        broken = copy.deepcopy(document)
        broken["classes"] = {"dtype": "O", "values": values}
        if values != "abc":  # a string is the row of its letters
            assert not survives(broken, tensors, new, y), values
    broken = copy.deepcopy(document)
    broken["classes"] = {"dtype": "<i8", "values": [[1], [2], [3]]}
    assert not survives(broken, tensors, new, y)


def test_settings_without_end_are_noticed(world):
    """Strengths are finite; how far covariances lean and how heavy tails are need not be."""
    model, new, y = world
    document, tensors = parts(model)
    for i, expert in enumerate(document["table"]["experts"]):
        settings = dict(expert["dict"])
        if "strength" in settings:
            at = [key for key, _ in expert["dict"]].index("strength")
            for bad in (np.inf, np.nan, 0.0, -1.0):
                broken = put(document, ("table", "experts", i, "dict", at, 1), bad)
                assert not survives(broken, tensors, new, y), (expert["dict"][0], bad)
    laws = dict(document["table"]["experts"][0]["dict"])["laws"]
    at = [key for key, _ in document["table"]["experts"][0]["dict"]].index("laws")
    for j in range(len(laws)):
        for place, bad in ((0, np.inf), (0, 0.0), (1, np.inf), (1, -1.0)):
            broken = put(document, ("table", "experts", 0, "dict", at, 1, j, place), bad)
            assert not survives(broken, tensors, new, y), (j, place, bad)


def places(node, path=()):
    """Every place in a document."""
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def put(document, path, value):
    """A copy with something else in one place; DROP takes what is there away."""
    out = copy.deepcopy(document)
    at = out
    for key in path[:-1]:
        at = at[key]
    if value is DROP:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return out


DROP = object()
VALUES = (DROP, None, -1, 0, 1, 2.5, 10**9, -1e300, float("nan"), float("inf"), "", "x", [], {}, [1, 2], True, [[]])


@pytest.mark.parametrize("seed", range(2))
def test_random_damage_to_the_document(world, seed, thorough):
    """Whatever is in it, the file is refused or the model answers."""
    model, new, y = world
    document, tensors = parts(model)
    rng = np.random.default_rng(seed)
    where = [path for path in places(document) if path]
    # Candidates are many and similar: half of the damage is done to other parts.
    few = [path for path in where if "record" not in path]
    for i in range(100 if thorough else 16):
        path = (few, where)[i % 2][rng.integers(len((few, where)[i % 2]))]
        value = VALUES[rng.integers(len(VALUES))]
        try:
            survives(put(document, path, value), tensors, new, y)
        except Exception as error:
            raise AssertionError(f"{path} = {value!r}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("seed", range(2))
def test_random_damage_to_the_arrays(world, seed, thorough):
    model, new, y = world
    document, tensors = parts(model)
    rng = np.random.default_rng(seed)
    names = [name for name, array in tensors.items() if array.size]
    for _ in range(100 if thorough else 12):
        name = names[rng.integers(len(names))]
        broken = tensors[name].copy()
        kind = rng.integers(3)
        if kind == 0:  # bits turned over
            flat = broken.reshape(-1).view(np.uint8)
            flat[rng.integers(flat.size)] ^= np.uint8(1 << rng.integers(8))
        elif kind == 1:  # one entry from elsewhere
            broken.flat[rng.integers(broken.size)] = broken.flat[rng.integers(broken.size)]
        else:
            broken = rng.permutation(broken)
        try:
            survives(document, tensors | {name: broken}, new, y)
        except Exception as error:
            raise AssertionError(f"{name} ({('bits', 'entry', 'order')[kind]}): {error}") from error
