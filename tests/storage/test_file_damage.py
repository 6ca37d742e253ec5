"""Damaged and forged model files: each is refused with a reason, or loads as a valid model; none does harm.

The work is done in a process with little memory: allocating more than a file justifies fails.
"""

from __future__ import annotations

import copy
import faulthandler
import json
import math
import os
import resource
import subprocess
import sys
import tracemalloc
import warnings
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import deciban
from deciban.errors import DecibanError, FileError
from deciban.storage import container, files, packing

GOLDEN = Path(__file__).parents[1] / "golden" / "1"
N_TRIALS = {"corrupt": (250, 10_000), "forge": (90, 3_000)}  # in `make test`, and in `make test-all`
MEMORY_LIMIT = 512 << 20  # bytes that a child may allocate beyond the libraries: far less than a corrupt size
TIMEOUT_SECONDS = 30  # seconds that a file of some kilobytes may take, on a busy machine
# Bytes that reading may take. A model is at most 64 times as large as its file, and while sums are checked there are at
# most two arrays as large as the largest of them; some are what any file takes.
MULTIPLE, FIXED = 64 * 2, 1 << 20

# ---------------------------------------------------------------------- damaged bytes


def flip(raw, rng):
    raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)


def change_bytes(raw, rng):
    at = rng.integers(len(raw))
    raw[at : at + rng.integers(1, 40)] = rng.bytes(int(rng.integers(1, 40)))


def zero_bytes(raw, rng):
    at, n = rng.integers(len(raw)), int(rng.integers(1, 600))
    raw[at : at + n] = bytes(min(n, len(raw) - at))


def cut(raw, rng):
    del raw[rng.integers(len(raw)) :]


def lengthen(raw, rng):
    raw += rng.bytes(int(rng.integers(1, 100)))


def swap(raw, rng):
    n = int(rng.integers(1, 64))
    a, b = sorted(rng.integers(0, max(1, len(raw) - n), 2))
    raw[a : a + n], raw[b : b + n] = raw[b : b + n], raw[a : a + n]


def drop_inside(raw, rng):
    at = rng.integers(len(raw))
    del raw[at : at + rng.integers(1, 20)]


def header(raw):
    return 8 + int.from_bytes(raw[:8], "little")


def change_header(raw, rng):
    raw[rng.integers(header(raw))] = rng.integers(256)


def change_digit(raw, rng):
    digits = [i for i in range(8, header(raw)) if chr(raw[i]).isdigit()]
    raw[digits[rng.integers(len(digits))]] = ord("0") + rng.integers(10)


def change_length(raw, rng):
    raw[:8] = int(rng.choice([0, 1, 7, 2**31, 2**63, header(raw), header(raw) - 9, len(raw)])).to_bytes(8, "little")


DAMAGE = (flip, change_bytes, zero_bytes, cut, lengthen, swap, drop_inside, change_header, change_digit, change_length)


def contents(path):
    """Document and arrays of a file, as bytes."""
    document, tensors, about = files.read_parts(path)
    return (
        json.dumps(document, sort_keys=True),
        sorted((name, array.dtype.str, array.shape, array.tobytes()) for name, array in tensors.items()),
        repr(about),
    )


def corrupt(folder: Path, times: int) -> None:
    """`times` damaged files, of every model in turn."""
    rng = np.random.default_rng(0)
    whole = {path: (bytearray(path.read_bytes()), contents(path)) for path in sorted(GOLDEN.glob("*.deciban"))}
    paths, place, outcome = list(whole), folder / "damaged.deciban", Counter()
    for i in range(times):
        path, how = paths[i % len(paths)], DAMAGE[rng.integers(len(DAMAGE))]
        raw = whole[path][0].copy()
        how(raw, rng)
        place.write_bytes(raw)
        with watched(f"trial {i}: {how.__name__} of {path.stem}"):
            if refused(lambda: deciban.load(place)):
                outcome["refused"] += 1
            else:
                assert contents(place) == whole[path][1], "it is another model"
                outcome["the same"] += 1
    print(json.dumps(outcome))  # noqa: T201 - to the test


@contextmanager
def watched(what):
    """Report the case if it fails, and kill the process if it hangs."""
    faulthandler.dump_traceback_later(TIMEOUT_SECONDS, exit=True)
    try:
        yield
    except BaseException as error:
        error.add_note(what)
        raise
    finally:
        faulthandler.cancel_dump_traceback_later()


def refused(read) -> bool:
    """Whether a file is refused properly: by a one-line error that names it, and not by running out of memory."""
    try:
        read()
    except FileError as error:
        message = str(error)
    else:
        return False
    assert "damaged.deciban" in message, message
    assert "\n" not in message, message
    assert "MemoryError" not in message, message
    assert len(message) < 1000, message
    return True


# ---------------------------------------------------------------------- forged files with a valid checksum

NESTED = json.loads("[" * 60 + "]" * 60)
HOSTILE = [
    *[None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 10**12, 10**30, -(10**12), 0.5, -0.5, 1e-320, 1e308, -1e308],
    *[math.nan, math.inf, -math.inf, "", "x", "é\n\x1b[31m", "x" * 1000, "empirical", "uniform", "loo", "full"],
    *[[], [[]], [None], [1, 2, 3], ["a", "b"], NESTED, {}, {"dict": []}, {"dict": [[[], 1]]}, {"float": "inf"}],
    *[
        {"dtype": "<U1000000000", "values": ["a"]},
        {"dtype": "O", "values": [[1], {}]},
        {"dtype": "f8,f8", "values": []},
    ],
    *[{"dtype": "<f8", "values": [1e308, -1.0]}, {"dtype": "<i8", "values": [[1, 2]]}, {"float": "9"}],
]
HOSTILE_NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 0.5, 5e-324, 1e-300, 255.0, 1e15, 1e150, 1e300, -1e300]
)


def paths_in(value, at=()):
    """The way to every part of a document."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*at, key)
            yield from paths_in(value[key], (*at, key))


def forge_document(document, rng):
    """Change something anywhere in a document."""
    ways = list(paths_in(document))
    by_depth = sorted({len(way) for way in ways})
    depth = rng.choice(by_depth)  # so that long lists do not draw it all
    ways = [way for way in ways if len(way) == depth]
    *way, key = ways[rng.integers(len(ways))]
    inside = document
    for step in way:
        inside = inside[step]
    old, how = inside[key], rng.integers(8)
    if how == 0:
        del inside[key]
    elif how == 1 and isinstance(inside, list):
        inside.insert(int(rng.integers(len(inside) + 1)), copy.deepcopy(old))
    elif how == 2 and isinstance(old, list):
        rng.shuffle(old)
    elif how == 3 and isinstance(old, list):
        inside[key] = old * 3
    elif how in (1, 2, 3) and isinstance(old, int | float) and not isinstance(old, bool):
        inside[key] = old + [1, -1, 0.5][how - 1]
    elif how == 4:
        other = ways[rng.integers(len(ways))]
        node = document
        for step in other:
            node = node[step] if isinstance(node, dict) or len(node) > step else old
            if not isinstance(node, dict | list):
                break
        inside[key] = copy.deepcopy(node)
    else:
        inside[key] = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])


def forge_tensors(tensors, rng):
    """An array of another kind, shape or contents."""
    name = list(tensors)[rng.integers(len(tensors))]
    array, how = np.array(tensors[name]), rng.integers(10)
    cells = array.reshape(-1)
    if how == 0:
        del tensors[name]
        return
    if how == 1:
        array = array.astype(rng.choice([np.float64, np.int64, np.int32, np.uint8, np.float32, np.uint64]))
    elif how == 2:
        array = cells[: rng.integers(len(cells) + 1)] if rng.integers(2) else array[..., None]
    elif how == 3:
        array = np.concatenate([cells, cells])[: len(cells) + rng.integers(1, 3)]
    elif how == 4 and len(cells):
        rng.shuffle(cells)
    elif how == 5:
        array = np.zeros_like(array)
    elif how == 6:
        other = list(tensors)[rng.integers(len(tensors))]
        tensors[name], tensors[other] = tensors[other], tensors[name]
        return
    elif len(cells):
        at = rng.integers(0, len(cells), rng.integers(1, 4)) if how < 9 else slice(None)
        with np.errstate(all="ignore"):
            cells[at] = (
                rng.choice(HOSTILE_NUMBERS).astype(array.dtype) if rng.integers(4) else cells[at] + rng.integers(-2, 3)
            )
    tensors[name] = array


def sign(path, document, stored):
    """A file with a valid checksum, whatever its contents."""
    text = json.dumps(document)
    with open(path, "wb") as file:
        container.write(file, stored, {"deciban": text, "sha256": files.checksum(text, stored)})


def stored_parts(path):
    file = container.open_file(path)
    return json.loads(file.strings["deciban"]), file.tensors()


def check_predictions(model, rows) -> None:
    """A file that loads is a model: its probabilities are valid, or it raises a clear error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            proba = model.predict_proba(rows)
        except (DecibanError, ValueError) as error:
            if any(word in str(error) for word in ("column", "feature", "no classes")):
                return
            raise
    assert np.isfinite(proba).all(), proba
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)  # a sum of rounded terms


def forge(folder: Path, times: int) -> None:
    """`times` altered files, all with a valid checksum."""
    rng = np.random.default_rng(1)
    paths = sorted(GOLDEN.glob("*.deciban"))
    rows = {path: json.loads(path.with_suffix(".json").read_text())["rows"] for path in paths}
    apart = {path: stored_parts(path) for path in paths}
    place, outcome = folder / "damaged.deciban", Counter()
    for i in range(times):
        path = paths[i % len(paths)]
        document, tensors = copy.deepcopy(apart[path])
        if rng.integers(2):  # arrays unpacked: packing is optional
            document.pop("packed", None)
            tensors = dict(files.read_parts(path)[1])
        for _ in range(rng.integers(1, 3)):
            if not tensors or rng.integers(2):
                forge_document(document, rng)
            else:
                forge_tensors(tensors, rng)
        sign(place, document, tensors)
        with watched(f"trial {i}: {path.stem}"):
            if refused(lambda: deciban.load(place)):
                outcome["refused"] += 1
            else:
                outcome["taken"] += 1
                check_predictions(deciban.load(place), rows[path])
    print(json.dumps(outcome))  # noqa: T201 - to the test


def run_in_little_memory(what: str, folder: str, times: str) -> None:
    """The work itself, with hardly any memory left."""
    for path in GOLDEN.glob("*.deciban"):  # memory that libraries allocate on first use
        deciban.load(path).predict_proba(json.loads(path.with_suffix(".json").read_text())["rows"])
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_LIMIT, used + MEMORY_LIMIT))
    {"corrupt": corrupt, "forge": forge}[what](Path(folder), int(times))


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="how much memory a process has is asked of Linux")


@needs_linux
@pytest.mark.parametrize("what", N_TRIALS)
def test_no_damage_goes_unnoticed_and_none_does_harm(what, thorough, tmp_path):
    quiet = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    times = N_TRIALS[what][thorough]
    command = [sys.executable, __file__, what, str(tmp_path), str(times)]
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    outcome = json.loads(done.stdout)
    assert sum(outcome.values()) == times
    assert outcome["refused"] > 0.7 * sum(outcome.values())
    if what == "forge":
        assert outcome["taken"] > 0.05 * times, "some of what was forged is harmless: otherwise little was tried"


def of_parameter(name, value):
    return lambda about: dict_entry(about["parameters"], name).__setitem__(1, value)


def of_state(name, value):
    return lambda about: dict_entry(about["state"], name).__setitem__(1, value)


def dict_entry(encoded, name):
    return next(entry for entry in encoded["dict"] if entry[0] == name)


# Attributes that an estimator stores itself, and must check when loaded.
STATE_CHANGES = {
    "headers that are no strings": ("SpamFilter", of_parameter("headers", [None])),
    "a state without a type": ("GaussianMixture", lambda about: about["state"]["dict"].pop(0)),
    "bounds that are no numbers": ("GaussianMixture", of_state("lower_bounds_", [None])),
}


@pytest.mark.parametrize("what", STATE_CHANGES)
def test_what_estimators_keep_of_their_own(what, tmp_path):
    name, change = STATE_CHANGES[what]
    document, stored = stored_parts(GOLDEN / f"{name}.deciban")
    change(document["about"])
    place = tmp_path / "damaged.deciban"
    sign(place, document, stored)
    if not refused(lambda: deciban.load(place)):
        model = deciban.load(place)
        check_predictions(model, json.loads((GOLDEN / f"{name}.json").read_text())["rows"])
        model.save(place)


# ---------------------------------------------------------------------- small files that need much memory


def description(**changes):
    """A model of two classes and one column, and what is different."""
    block = {"family": "multinomial", "settings": {}, "alpha": 1.0, "size": 1, "names": None, "categories": None}
    about = {"model": "MultinomialNB", "parameters": {"dict": []}, "n_features": 1, "names": [], "state": {"dict": []}}
    whole = {"format": 1, "classes": {"dtype": "<i8", "values": [0, 1]}, "closed": False, "class_prior": "empirical"}
    whole |= {"blocks": [block | changes.pop("block", {})], "about": about | changes.pop("about", {})}
    return whole | changes


def arrays(k=2, d=1):
    return {"weight": np.ones(k), "0.x": np.ones((k, d))}


def packed(cells, shape, **parts):
    """A packed array of nothing but zeros, of one bit each."""
    how = {"dtype": "float64", "shape": shape, "places": 0}
    bits = {"bits": np.zeros(cells // 8, dtype=np.uint8), "small": np.zeros(0, dtype=np.uint8), "rest": np.zeros(0)}
    return {"packed": {"0.x": how}}, {f"0.x/{name}": array for name, array in (bits | parts).items()}


def scatter(d):
    """A discriminant of d columns that never vary together: nearly all of its sums are zeros, of a bit each."""
    document, stored = stored_parts(GOLDEN / "QuadraticDiscriminantAnalysis.deciban")
    document["blocks"][0]["size"] = document["about"]["n_features"] = d
    sums = {"pivot": np.zeros((3, d)), "x": np.zeros((3, d)), "xy": np.broadcast_to(np.eye(d), (3, d, d)).copy()}
    document["packed"], tensors = {}, {name: stored[name] for name in ("weight", "0.one")}
    for name, array in sums.items():
        document["packed"][f"0.{name}"], parts = packing.pack(array)
        tensors |= {f"0.{name}/{part}": values for part, values in parts.items()}
    return document, tensors


def bomb(name):
    """A description and arrays; all of them together are small."""
    d = 1 << 18
    if name == "bits":  # the most that a file can justify: 64 times its size
        how, parts = packed(2 * d, [2, d])
        return description(block={"size": d}, about={"n_features": d}, **how), {"weight": np.ones(2)} | parts
    if name == "a scatter of nothing":  # but for its diagonal
        return scatter(512)
    if name == "a shape without cells":
        how, parts = packed(8, [10**6, 10**6])
        return description(block={"size": 10**6}, **how), {"weight": np.ones(2)} | parts
    if name == "a shape that overflows":
        how, parts = packed(8, [2**32, 2**32])
        return description(**how), {"weight": np.ones(2)} | parts
    if name == "categories":
        how = {"family": "categorical", "categories": [10**12]}
        return description(block=how), {"weight": np.ones(2), "0.is": np.ones((2, 1))}
    if name == "columns of no class":
        none = {"classes": {"dtype": "<i8", "values": []}}
        return description(block={"size": 10**12}, about={"n_features": 10**12}, **none), arrays(0, 10**12)
    if name == "categories of no class":
        none = {"classes": {"dtype": "<i8", "values": []}}
        how = {"family": "categorical", "categories": [10**12]}
        return description(block=how, **none), {"weight": np.zeros(0), "0.is": np.zeros((0, 10**12))}
    if name == "one long label":
        labels = sorted([*(f"{i:05}" for i in range(10_000)), "x" * 50_000])
        how = {"classes": {"dtype": "<U50000", "values": labels}}
        return description(**how), arrays(len(labels))
    if name == "a type as wide as the memory":
        return description(classes={"dtype": "<U1000000000", "values": ["a", "b"]}), arrays()
    if name == "lists in lists":
        return description(about={"state": json.loads("[" * 900 + "]" * 900)}), arrays()
    if name == "many lists":
        return description(about={"state": [[] for _ in range(40_000)]}), arrays()
    if name == "many names":
        return description(about={"state": {"dict": [[str(i), []] for i in range(20_000)]}}), arrays()
    if name == "long numbers":
        return description(about={"n_features": 10**4000}), arrays()
    assert name == "steps"  # a word listed a hundred thousand times
    text = description(text={"alpha": 1.0, "prior": {"dict": []}}, about={"model": "TextClassifier"})
    text["packed"] = {"words.ends": {"dtype": "int64", "shape": [800_000], "steps": True}}
    return text, arrays() | {
        "words.bytes": np.zeros(0, dtype=np.uint8),
        "words.ends/bits": np.zeros(100_000, dtype=np.uint8),
        "words.ends/small": np.zeros(0, dtype=np.uint8),
        "words.ends/rest": np.zeros(0, dtype=np.int64),
    }


BOMBS = {
    "bits": None,  # None: a valid model; otherwise the reason for refusal
    "a scatter of nothing": None,
    "a shape without cells": "expected float64",
    "a shape that overflows": "expected float64",
    "categories": "expected float64",
    "columns of no class": "more columns",
    "categories of no class": "more columns",
    "one long label": None,
    "a type as wide as the memory": None,
    "lists in lists": "damaged",
    "many lists": "damaged",
    "many names": "damaged",
    "long numbers": "damaged",
    "steps": "damaged",
}


def read_or_refused(place, reason):
    """The peak of memory while a file is read, or refused for a reason."""
    for known in ("MultinomialNB", "CategoricalNB", "TextClassifier", "QuadraticDiscriminantAnalysis"):
        deciban.load(GOLDEN / f"{known}.deciban")  # imports do not count
    tracemalloc.start()
    try:
        if reason is None:
            deciban.load(place)
        else:
            with pytest.raises(FileError, match=reason):
                deciban.load(place)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_takes_little_memory(name, tmp_path):
    place = tmp_path / "damaged.deciban"
    sign(place, *bomb(name))
    size = place.stat().st_size
    peak = read_or_refused(place, BOMBS[name])
    assert peak < MULTIPLE * size + FIXED, f"{peak} bytes for a file of {size}"


@pytest.mark.parametrize(("array", "reason"), [("spare", None), ("0.x", "expected float64")])
def test_what_no_model_needs_is_not_unpacked(array, reason, tmp_path):
    """An array that the model does not have, and sums of more columns than it has; 64 MB each."""
    place, cells = tmp_path / "damaged.deciban", 1 << 23
    how, parts = packed(cells, [2, cells // 2])
    document = description(packed={array: how["packed"]["0.x"]})
    whole = {name: values for name, values in arrays().items() if name != array}
    sign(place, document, whole | {name.replace("0.x", array): values for name, values in parts.items()})
    assert read_or_refused(place, reason) < 4 * FIXED


if __name__ == "__main__":
    run_in_little_memory(*sys.argv[1:])
