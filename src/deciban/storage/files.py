"""One safe file: statistics, schema and choices in safetensors format. Reading it runs no code.

The tensors are the sums, packed where that makes them smaller; a JSON document beside them says what they are about. A
checksum covers both. What is read is checked again by what it means: a checksum is easily made.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from deciban._typing import Array, Categories, Sums
from deciban.algebra import Stats
from deciban.errors import DecibanError, FileError, KindError
from deciban.families import FAMILIES, Family, Tree
from deciban.joint import Block, Joint, Model
from deciban.pool import ByFold, ByForm, Folds, LeftOut, Pool
from deciban.schema import Bins, Columns, Schema
from deciban.show import one_line
from deciban.storage import atomic, container
from deciban.storage.atomic import exclusively
from deciban.storage.packing import PIECES, pack, unpack

__all__ = ["FORMAT", "damage", "exclusively", "read", "read_parts", "write", "write_atomically", "write_parts"]

FORMAT = 1
LARGEST = 1e75  # what a column may hold: the fourth power of it, the largest that is summed up, is still a number
DEGREE = {"xx": 2, "xy": 2, "xxy": 3, "xxyy": 4, "lost": 2}  # of sums that are not linear in the columns
PER_COLUMN = {"guess_mean": "d", "guess_variance": "d", "scale": "d", "guess_covariance": "dd", "given": "dd"}
COUNTS = ("one", "xx", "is", "pair", "xxyy", "lost")  # sums that cannot be negative, wherever the pivot is

LABELS = re.compile(r"[<>=|]?(b1|[iu][1248]|f[248]|U[0-9]{1,10})|O")  # types of labels
PLAIN = (bool, int, float, str)
WIDE = 1 << 20  # bytes that labels may take as an array, however short they are on average
UNWARRANTED = 1 << 24  # columns, or categories, that a model without classes may speak of: no sums bear them out
MAX_REASON = 300  # characters of what went wrong
LONGEST = 100  # characters of a model's name

# What a description that makes no sense can raise while it is read.
BROKEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError)


def write(path: str | os.PathLike[str], model: Model, about: dict[str, Any]) -> None:
    """Save a model; `about` is what its owner wants back (names, settings), as JSON."""
    document, tensors = parts(model)
    for name, array in tensors.items():
        if not within_reach(name, array):
            raise DecibanError(
                f"the sums {name} are larger than a file may hold, or not numbers: the columns should be of numbers "
                f"below {LARGEST:g}, so give them in another unit"
            )
    write_parts(path, document, tensors, about)


def parts(model: Model) -> tuple[dict[str, Any], dict[str, Array]]:
    """A model as a document that says what it is about, and its sums."""
    tensors, blocks = {"weight": np.ascontiguousarray(model.stats.weight)}, []
    for b, (block, columns, sums) in enumerate(
        zip(model.joint.blocks, model.schema.blocks, model.stats.sums, strict=True)
    ):
        for name, array in sums.items():
            tensors[f"{b}.{name}"] = np.ascontiguousarray(array)
        if columns.pivot is not None:
            tensors[f"{b}.pivot"] = np.ascontiguousarray(columns.pivot)
        blocks.append(
            {
                "family": block.family.name,
                "settings": {f.name: encode(getattr(block.family, f.name)) for f in fields(block.family)},
                "alpha": encode(block.alpha),
                "size": columns.size,
                "names": None if columns.names is None else list(columns.names),
                "categories": None if columns.categories is None else [categories_out(c) for c in columns.categories],
                "parents": None if columns.parents is None else list(columns.parents),
            }
        )
    document = {
        "classes": encode(model.classes),
        "closed": model.schema.closed,
        "class_prior": encode(model.joint.class_prior),
        "blocks": blocks,
    }
    return document, tensors


def write_parts(
    path: str | os.PathLike[str], document: dict[str, Any], tensors: dict[str, Array], about: dict[str, Any]
) -> None:
    """One file of a document and arrays, with a checksum over both; it replaces an old one whole or not at all."""
    whole = {"format": FORMAT, **document, "about": {key: encode(value) for key, value in about.items()}}
    stored, packed = {}, {}
    for name, array in tensors.items():
        found = pack(array)
        if found is None:
            stored[name] = np.ascontiguousarray(array)
        else:
            packed[name], pieces = found
            stored |= {f"{name}/{piece}": values for piece, values in pieces.items()}
    text = json.dumps({**whole, "packed": packed} if packed else whole, sort_keys=True)
    strings = {"deciban": text, "sha256": checksum(text, stored)}
    atomic.replace(path, lambda file: container.write(file, stored, strings))


def read(path: str | os.PathLike[str]) -> tuple[Model, dict[str, Any]]:
    """Load a model and what its owner said about it; every size and kind is checked against the document."""
    document, tensors, about = read_parts(path)
    with damage(path):
        return rebuild(document, tensors), about


@contextmanager
def damage(path: str | os.PathLike[str], how: str = "is damaged") -> Iterator[None]:
    """Whatever goes wrong while a description is read means that the file is damaged."""
    try:
        yield
    except BROKEN as error:
        why = str(error) if isinstance(error, FileError) else f"{type(error).__name__}: {error}"
        why = one_line(why if len(why) <= MAX_REASON else why[:MAX_REASON] + "…")
        raise FileError("{file!r} {how}: {why}", file=os.fsdecode(path), how=how, why=why) from None


def read_parts(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array], dict[str, Any]]:
    """A file's document, its arrays, and what its owner said about it: whole, and of this format.

    The file is mapped while it is read, and everything is copied out of it once: afterwards it may change.
    """
    with damage(path, "is not a whole deciban model file"):
        file = container.open_file(path)
        strings = file.strings
    if "deciban" not in strings:
        raise FileError("{file!r} is a safetensors file, but not a deciban model", file=os.fsdecode(path))
    with damage(path):
        text = strings["deciban"]
        document = container.read_json(text)
        check_format(document)
        stored = file.tensors()
        if strings.get("sha256") != checksum(text, stored):
            raise FileError("its checksum does not match")
        about = {key: decode(value) for key, value in document["about"].items()}
        name, names = about.get("model", ""), about.get("names", [])
        if not isinstance(name, str) or len(name) > LONGEST:
            raise FileError("what it says of its kind of model is no name")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FileError("the names of its columns are not strings")
        return document, unpacked(document, stored), about


def check_format(document: Any) -> None:
    """Before anything else: a later version may have changed everything else."""
    said = document["format"]
    if type(said) is int and said > FORMAT:
        raise FileError(
            f"it was written by a newer version of deciban (format {said}, and this version reads {FORMAT}): "
            "upgrade deciban to read it"
        )
    if type(said) is not int or said != FORMAT:
        raise FileError(f"its format is {said!r}, and this version reads {FORMAT}")


def unpacked(document: Mapping[str, Any], stored: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays as they were, in memory of their own."""
    packed = document.get("packed", {})
    found = {name: array.copy() for name, array in stored.items() if "/" not in name}
    for name, how in packed.items():
        pieces = {piece: stored[f"{name}/{piece}"] for piece in PIECES if f"{name}/{piece}" in stored}
        found[name] = unpack(how, pieces)
    return found


def rebuild(document: dict[str, Any], tensors: dict[str, Array]) -> Model:
    """The model that `parts` took apart: everything is checked against everything else."""
    classes = checked_classes(document["classes"])
    k = len(classes)
    if not document["blocks"]:
        raise FileError("it has no block of columns")
    blocks, columns, sums = zip(
        *(read_block(b, said, tensors, k) for b, said in enumerate(document["blocks"])), strict=True
    )
    weight = checked(tensors, "weight", (k,))
    if (weight < 0).any():
        raise FileError("a class has a negative weight")
    prior = checked_prior(decode(document["class_prior"]), k)
    schema = Schema(classes, columns, flag(document["closed"]))
    return Model(Joint(blocks, prior), Stats(schema, weight, sums))


def read_block(b: int, said: Mapping[str, Any], tensors: dict[str, Array], k: int) -> tuple[Block, Columns, Sums]:
    """A family, its columns and their sums."""
    family, size = rebuild_family(said["family"], said["settings"]), whole_number(said["size"])
    check_settings(family, size)
    categories, parents = checked_categories(said["categories"], size, family), said.get("parents")
    if k == 0 and max(size, sum(map(len, categories or ()))) > UNWARRANTED:
        raise FileError(f"block {b} has more columns or categories than a model without classes can have")
    pivot = checked(tensors, f"{b}.pivot", (k, size)) if family.pivoted else None
    columns = Columns(size, checked_names(said["names"], size), categories, pivot, checked_parents(parents, size))
    measures = family.measures(columns)
    if (categories is not None) != ("is" in [measure.name for measure in measures]):
        raise FileError(f"block {b} has categories that its family does not know, or lacks them")
    if parents is not None and not isinstance(family, Tree):
        raise FileError(f"block {b} has a tree that its family does not know")
    sums = {m.name: checked(tensors, f"{b}.{m.name}", *[(k, *s) for s in m.shapes(columns)]) for m in measures}
    if family.pivoted and f"{b}.lost" in tensors:  # only where something was taken away
        sums["lost"] = checked(tensors, f"{b}.lost", (k, size))
    for name, array in sums.items():
        if (name in COUNTS or pivot is None) and (array < 0).any():
            raise FileError(f"{b}.{name} holds a negative count")
        if name == "xy" and not plausible(sums["one"], sums["x"], array):
            raise FileError(f"{b}.{name} is not a scatter that rows can have")
        if name in ("xy", "xxyy") and not symmetric(array):
            raise FileError(f"{b}.{name} is not symmetric")
    return Block(family, checked_alpha(decode(said["alpha"]), k, size)), columns, sums


def plausible(one: Array, x: Array, xy: Array) -> bool:
    """Whether n, Σt and Σttᵀ can come from rows: no direction has a negative spread, but for rounding."""
    n = np.where(one > 0, one, 1.0)[:, 0]
    for rows, sums, scatter in zip(n, x, xy, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            central = scatter - np.outer(sums, sums / rows)
        own = np.diagonal(scatter)
        if not np.isfinite(central).all() or (own < 0).any():
            return False
        if not central.any():
            continue
        central[np.diag_indices(len(own))] += 1e-6 * own.sum()
        try:
            np.linalg.cholesky(central)  # there is one where every direction has some spread; much quicker than those
        except np.linalg.LinAlgError:
            return False
    return True


def symmetric(array: Array) -> bool:
    """Whether (k, d, d) sums are the same in both orders of columns; column by column, for they may be large."""
    return all(np.allclose(array[:, j], array[:, :, j], rtol=1e-9, atol=0.0) for j in range(array.shape[1]))


def ascending(labels: Array) -> bool:
    return all(a < b for a, b in zip(labels.tolist()[:-1], labels.tolist()[1:], strict=True))


def checked_classes(said: Any) -> Array:
    """The labels of the classes: strings or numbers, each once and in order."""
    classes = decode(said)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1:
        raise FileError("its classes are not a row of labels")
    if not all(isinstance(label, PLAIN) and label == label for label in classes.tolist()) or not ascending(classes):
        raise FileError("its classes are not distinct labels in order")
    return classes


def whole_number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise FileError(f"{value!r} is not a number of things")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise FileError(f"{value!r} is neither true nor false")
    return value


def checked_names(names: Any, size: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != size or not all(isinstance(name, str) for name in names):
        raise FileError(f"the names of {size} columns are not as many strings")
    return tuple(names)


def checked_categories(said: Any, size: int, family: Family) -> tuple[Categories, ...] | None:
    if said is None:
        return None
    if not isinstance(said, list) or len(said) != size:
        raise FileError(f"the categories are not those of {size} columns")
    found = tuple(categories_in(column) for column in said)
    if isinstance(family, Tree) and any(isinstance(known, tuple) and None in known for known in found):
        raise FileError("in a tree, what is missing is not a category")
    return found


def checked_parents(parents: Any, size: int) -> tuple[int, ...] | None:
    """The column that each one hangs on: no column hangs on itself, however long the way."""
    if parents is None:
        return None
    if (
        not isinstance(parents, list)
        or len(parents) != size
        or not all(type(p) is int and -1 <= p < size for p in parents)
    ):
        raise FileError("its columns do not hang on each other as in a tree")
    seen = np.array(parents, dtype=np.intp)
    way = seen.copy()
    for _ in range(size.bit_length()):  # each time twice as far up
        way = np.where(way >= 0, way[way], -1)
    if (way >= 0).any():
        raise FileError("its columns do not hang on each other as in a tree")
    return tuple(parents)


def checked_origin(about: dict[str, Any]) -> dict[str, Any] | None:
    """What a file says about where its rows came from: a mapping by name, or nothing."""
    origin = about.get("origin")
    if origin is not None and not (isinstance(origin, dict) and all(isinstance(key, str) for key in origin)):
        raise FileError("what it says of its origin is not a mapping by name")
    for key, value in (origin or {}).items():
        lists = key in ("learned", "names", "partly")
        if key in ("target", "text", "kind") and not isinstance(value, str | None):
            raise FileError(f"what it says of its origin, {key}, is not a name")
        if lists and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            raise FileError(f"what it says of its origin, {key}, is not a list of names")
    return origin


def checked_prior(prior: Any, k: int) -> Any:
    """A class prior: by name, or a probability a class."""
    if isinstance(prior, str):
        if prior not in ("empirical", "uniform"):
            raise FileError(f"its class prior {prior!r} is not known")
    elif not isinstance(prior, np.ndarray) or prior.shape != (k,) or not (prior >= 0).all():
        raise FileError("its class prior does not fit its classes")
    return prior


def checked_alpha(alpha: Any, k: int, d: int) -> Any:
    """Pseudo-counts: a number, or an array that fits, not negative; or "empirical"."""
    if isinstance(alpha, str):
        if alpha != "empirical":
            raise FileError(f"its prior strength {alpha!r} is not known")
        return alpha
    values = np.asarray(alpha, dtype=np.float64)
    if values.shape not in ((), (d,), (k, d)) or not (np.isfinite(values).all() and (values >= 0).all()):
        raise FileError("its prior strength is not a number or an array that fits")
    return alpha


def rebuild_family(name: str, settings: dict[str, Any]) -> Family:
    if name not in FAMILIES:
        raise FileError(f"the file needs the family {name!r}, which this version does not have")
    family = FAMILIES[name]
    known = {f.name for f in fields(family)}
    if set(settings) - known:
        raise FileError(f"the family {name!r} has no setting {sorted(set(settings) - known)}")
    return family(**{key: as_tuples(decode(value)) for key, value in settings.items()})


def check_settings(family: Family, size: int) -> None:
    """Settings that speak of every column, or of every pair of them, speak of as many as there are."""
    for name, shape in PER_COLUMN.items():
        value = getattr(family, name, None)
        if not isinstance(value, tuple):
            continue
        numbers = np.array(value, dtype=np.float64)
        if numbers.shape[-len(shape) :] != tuple(size for _ in shape) or not np.isfinite(numbers).all():
            raise FileError(f"the family's {name} does not fit its {size} columns")
        if name in ("guess_variance", "scale") and not (numbers > 0).all():
            raise FileError(f"the family's {name} is not positive")


def as_tuples(value: Any) -> Any:
    """JSON's lists as the tuples they were."""
    return tuple(as_tuples(v) for v in value) if isinstance(value, list) else value


def checked(tensors: Mapping[str, Array], name: str, *shapes: tuple[int, ...]) -> Array:
    array = tensors[name]
    if array.shape not in shapes or array.dtype != np.float64:
        raise FileError(f"{name} is {array.dtype}{array.shape}, expected float64 of {' or '.join(map(str, shapes))}")
    if not within_reach(name, array):
        raise FileError(f"{name} holds a value that is not a number, or too large a one")
    return array


def within_reach(name: str, array: Array) -> bool:
    """Whether all are numbers that can be reckoned with: so large that a product overflows, they say nothing."""
    most = LARGEST ** DEGREE.get(name.rpartition(".")[2], 1)
    return not array.size or bool(-most <= array.min() and array.max() <= most)  # NaN is in no order


def left_out_parts(left_out: LeftOut | None) -> dict[str, Array]:
    """What judges rows that a pool was chosen by, as arrays."""
    if isinstance(left_out, ByFold):
        return {
            "left_out.edges": left_out.folds.edges,
            "left_out.first": left_out.folds.first,
            "left_out.weights": np.array([pool.weights for pool in left_out.pools]),
            "left_out.offsets": np.array([pool.offsets for pool in left_out.pools]),
        }
    if isinstance(left_out, ByForm):
        return {
            "left_out.set": left_out.weights.astype(np.int64),
            "left_out.classes": left_out.classes.astype(np.int64),
            "left_out.inverse": left_out.inverse,
            "left_out.last": np.array([left_out.last], dtype=np.uint64),
            "left_out.times": np.array([left_out.times]),
        }
    return {}


def left_out_kind(left_out: LeftOut | None) -> str | None:
    return {ByFold: "folds", ByForm: "form"}.get(type(left_out))


def read_left_out(kind: Any, tensors: Mapping[str, Array], g: int, k: int) -> LeftOut | None:
    """The same, of a pool of g weights and k classes, checked; older files have none."""
    found = {name.removeprefix("left_out."): array for name, array in tensors.items() if name.startswith("left_out.")}
    if kind == "folds":
        edges, first = found["edges"], found["first"]
        folds = len(found["weights"])
        sound = edges.dtype == np.uint64 and edges.shape == (k, folds - 1) and folds > 1
        sound = (
            sound and first.dtype == np.int32 and first.shape == (k,) and bool(((0 <= first) & (first < folds)).all())
        )
        weights, offsets = checked(found, "weights", (folds, g)), checked(found, "offsets", (folds, k))
        if not sound or (weights < 0).any():
            raise FileError("what judges the rows it was chosen by is not in order")
        return ByFold(Folds(edges, first), tuple(Pool(w, b) for w, b in zip(weights, offsets, strict=True)))
    if kind == "form":
        weights, classes, last = found["set"], found["classes"], found["last"]
        m = len(weights) + len(classes)
        sound = last.dtype == np.uint64 and last.shape == (1,)
        for places, size in ((weights, g), (classes, k)):
            rising = places.dtype == np.int64 and places.ndim == 1 and bool((np.diff(places) > 0).all())
            sound = sound and rising and (not len(places) or bool(0 <= places[0] and places[-1] < size))
        if not sound:
            raise FileError("what judges the rows it was chosen by is not in order")
        inverse, times = checked(found, "inverse", (m, m)), checked(found, "times", (1,))
        return ByForm(weights, classes, inverse, int(last[0]), float(times[0]))
    if kind is not None:
        raise FileError(f"what judges the rows it was chosen by is {kind!r}, which this version does not know")
    return None


def encode(value: Any) -> Any:
    """Arrays with their type, and numbers that JSON does not have by name; everything else as JSON has it."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufUO":
            raise TypeError(f"labels of type {value.dtype} cannot be saved: use strings or numbers")
        return {"dtype": value.dtype.str if value.dtype.kind != "O" else "O", "values": encode(value.tolist())}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, PLAIN):
        return value
    raise KindError(
        "{value!r} of type {type} cannot be saved: use strings or numbers", value=value, type=type(value).__name__
    )


def decode(value: Any) -> Any:
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"dtype", "values"}:
        return decode_array(value["dtype"], decode(value["values"]))
    if set(value) == {"float"}:
        if value["float"] not in ("inf", "-inf", "nan"):
            raise FileError(f"{value['float']!r} is not one of the numbers that have names")
        return float(value["float"])
    return {decode(k): decode(v) for k, v in value["dict"]}


def decode_array(said: str, values: list[Any]) -> Array:
    """Labels, or numbers, as an array of a type that only these have."""
    if not LABELS.fullmatch(said) or not isinstance(values, list):
        raise FileError(f"labels of type {said!r} are not read")
    if said != "O" and "U" not in said:
        return np.array(values, dtype=said)
    if "U" in said and not all(isinstance(label, str) for label in values):
        raise FileError("some labels are not the strings that they are said to be")
    # One long label makes an array of strings wide: where it would be so without reason, they stay apart.
    wide = 4 * len(values) * max(map(len, values), default=0) if "U" in said else math.inf
    if wide <= max(WIDE, 64 * sum(map(len, values))):
        return np.array(values, dtype=str)
    out = np.empty(len(values), dtype=object)
    for i, label in enumerate(values):
        out[i] = label
    return out


def categories_out(categories: Categories) -> Any:
    if isinstance(categories, range):
        return len(categories)
    if isinstance(categories, Bins):
        return {"cuts": list(categories.cuts), "middles": list(categories.middles)}
    for value in categories:
        if not (value is None or isinstance(value, PLAIN)):
            raise KindError(
                "the category {value!r} of type {type} cannot be saved: use strings",
                value=value,
                type=type(value).__name__,
            )
    return [encode(value) for value in categories]


def categories_in(said: Any) -> Categories:
    if isinstance(said, list):
        found = tuple(decode(value) for value in said)
        if not all(value is None or isinstance(value, PLAIN) for value in found) or len(set(found)) != len(found):
            raise FileError("the categories of a column are not distinct strings or numbers")
        return found
    if isinstance(said, dict):
        cuts, middles = (np.array(said[name], dtype=np.float64) for name in ("cuts", "middles"))
        if cuts.ndim != 1 or middles.shape != (len(cuts) + 1,) or not (np.diff(cuts) > 0).all():
            raise FileError("the intervals of a column do not follow each other")
        if not np.isfinite(middles).all() or not np.isfinite(cuts).all():
            raise FileError("the intervals of a column have no end")
        return Bins(tuple(cuts.tolist()), tuple(middles.tolist()))
    return range(whole_number(said))


def checksum(text: str, tensors: dict[str, Array]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype.str}{tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """A file of any kind, whole or not at all."""
    atomic.replace(path, lambda file: file.write(content))
