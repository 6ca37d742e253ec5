"""Model files: statistics, schema and choices in safetensors format. Reading one runs no code.

The tensors are the sums, packed if that makes them smaller; a JSON document describes them. A checksum
covers both. Everything read is validated as well, since anyone can compute a checksum.
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
from typing import Any, BinaryIO

import numpy as np

from deciban._typing import Array, Categories, Sums
from deciban.algebra import Stats
from deciban.errors import DecibanError, FileError, KindError
from deciban.families import FAMILIES, Family
from deciban.joint import Block, Joint, Model
from deciban.measure import MEASURES, Cells, Lost, Pairs
from deciban.pool import ByFold, ByForm, Folds, LeftOut, Pool
from deciban.schema import Bins, Columns, Schema
from deciban.show import one_line
from deciban.storage import atomic, container
from deciban.storage.atomic import exclusively
from deciban.storage.packing import pack
from deciban.storage.stored import StoredArrays, described, part

__all__ = ["FORMAT", "MODELS", "damage", "exclusively", "read", "read_parts", "write_atomically", "write_parts"]

FORMAT = 1
MAX_VALUE = 1e75  # of a column: its fourth power, the highest that is summed, must be finite
PER_COLUMN = {"guess_mean": "d", "guess_variance": "d", "scale": "d", "guess_covariance": "dd", "given": "dd"}

LABEL_DTYPES = re.compile(r"[<>=|]?(b1|[iu][1248]|f[248]|U[0-9]{1,10})|O")  # NumPy types of labels
PLAIN_TYPES = (bool, int, float, str)
MAX_PADDED_BYTES = 1 << 20  # of labels as a fixed-width array, however short they are on average
MAX_SIZE_WITHOUT_CLASSES = 1 << 24  # columns or categories, which no sums confirm in a model without classes
MAX_REASON_LENGTH = 300  # characters
MAX_MODEL_NAME = 100  # characters

# Estimators that a file can name, and their modules: a file cannot load other code.
MODELS = {
    "BernoulliNB": "naive_bayes.bernoulli",
    "CategoricalNB": "naive_bayes.categorical",
    "Classifier": "tables",
    "ComplementNB": "naive_bayes.complement",
    "GaussianDiscriminant": "gaussians.gaussian_discriminant",
    "GaussianMixture": "gaussians.mixture",
    "GaussianNB": "naive_bayes.gaussian",
    "LinearDiscriminantAnalysis": "gaussians.linear",
    "MixtureDiscriminant": "gaussians.mixture_discriminant",
    "MultinomialNB": "naive_bayes.multinomial",
    "NaiveBayes": "naive_bayes.mixed",
    "NearestCentroid": "gaussians.nearest_centroid",
    "PoissonNB": "naive_bayes.poisson",
    "QuadraticDiscriminantAnalysis": "gaussians.quadratic",
    "SpamFilter": "spam",
    "TextClassifier": "text",
    "TreeAugmentedNB": "naive_bayes.tree_augmented",
}

# What reading an invalid description can raise.
DAMAGE_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError)


def parts(model: Model) -> tuple[dict[str, Any], dict[str, Array]]:
    """A model as a document that describes it, and its sums."""
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
                "categories": None
                if columns.categories is None
                else [encode_categories(c) for c in columns.categories],
                "parents": None if columns.parents is None else list(columns.parents),
            }
        )
    document = {
        "classes": encode(model.classes),
        "closed": model.schema.closed,
        "class_prior": encode(model.joint.class_prior),
        "blocks": blocks,
    }
    for name, array in tensors.items():
        if not values_in_range(name, array):
            raise DecibanError(
                f"the sums {name} are larger than a file may hold, or not numbers: columns must hold numbers below "
                f"{MAX_VALUE:g}, so use another unit"
            )
    return document, tensors


def write_parts(
    path: str | os.PathLike[str] | BinaryIO,
    document: dict[str, Any],
    tensors: dict[str, Array],
    about: dict[str, Any],
) -> None:
    """Write a document and arrays, with a checksum over both; an old file is replaced atomically.

    Instead of a path, an open file can be given, which is written to as it is.
    """
    full_document = {"format": FORMAT, **document, "about": {key: encode(value) for key, value in about.items()}}
    stored, packed = {}, {}
    for name, array in tensors.items():
        packing = pack(array)
        if packing is None:
            stored[name] = np.ascontiguousarray(array)
        else:
            packed[name], pieces = packing
            stored |= {f"{name}/{piece}": values for piece, values in pieces.items()}
    text = json.dumps({**full_document, "packed": packed} if packed else full_document, sort_keys=True)
    strings = {"deciban": text, "sha256": checksum(text, stored)}
    if isinstance(path, str | bytes | os.PathLike):
        atomic.replace(path, lambda file: container.write(file, stored, strings))
    else:
        container.write(path, stored, strings)


def name_of(path: str | os.PathLike[str] | BinaryIO) -> str:
    """The name of a file in messages; an open file may have none."""
    if isinstance(path, str | bytes | os.PathLike):
        return os.fsdecode(path)
    name = getattr(path, "name", None)
    return name if isinstance(name, str) else "the model"


def read(path: str | os.PathLike[str]) -> tuple[Model, dict[str, Any]]:
    """Load a model and the metadata stored with it; every size and type is checked against the document."""
    document, tensors, about = read_parts(path)
    with damage(path):
        return rebuild(document, tensors), about


@contextmanager
def damage(path: str | os.PathLike[str] | BinaryIO, how: str = "is damaged") -> Iterator[None]:
    """Turn any error while reading a description into a FileError: the file is damaged."""
    try:
        yield
    except DAMAGE_ERRORS as error:
        why = str(error) if isinstance(error, FileError) else f"{type(error).__name__}: {error}"
        why = one_line(why if len(why) <= MAX_REASON_LENGTH else why[:MAX_REASON_LENGTH] + "…")
        raise FileError("{file!r} {how}: {why}", file=name_of(path), how=how, why=why) from None


def read_parts(path: str | os.PathLike[str] | BinaryIO) -> tuple[dict[str, Any], StoredArrays, dict[str, Any]]:
    """A file's document, its arrays and its metadata, after checking format and checksum.

    The file is memory-mapped while it is read, and arrays are copied on access.
    """
    with damage(path, "is not a complete deciban model file"):
        file = container.open_file(path)
        strings = file.strings
    if "deciban" not in strings:
        raise FileError("{file!r} is a safetensors file, but not a deciban model", file=name_of(path))
    with damage(path):
        text = strings["deciban"]
        document = container.read_json(text)
        check_format(document)
        stored = file.tensors()
        if strings.get("sha256") != checksum(text, stored):
            raise FileError("its checksum does not match")
        about = {key: decode(value) for key, value in document["about"].items()}
        name, names = about.get("model", ""), about.get("names", [])
        if not isinstance(name, str) or len(name) > MAX_MODEL_NAME:
            raise FileError("its model name is not a string")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FileError("the names of its columns are not strings")
        packed = document.get("packed", {})
        if not isinstance(packed, dict):
            raise FileError("its list of packed arrays is not a mapping")
        return document, StoredArrays(stored, packed), about


def check_format(document: Any) -> None:
    """Check the format first: a later version may have changed everything else."""
    version = document["format"]
    if type(version) is int and version > FORMAT:
        raise FileError(
            f"it was written by a newer version of deciban (format {version}, and this version reads {FORMAT}): "
            "upgrade deciban to read it"
        )
    if type(version) is not int or version != FORMAT:
        raise FileError(f"its format is {version!r}, and this version reads {FORMAT}")


def rebuild(document: Mapping[str, Any], tensors: Mapping[str, Array]) -> Model:
    """The inverse of `parts`, with every part checked against the others."""
    classes = checked_classes(document["classes"])
    k = len(classes)
    if not document["blocks"]:
        raise FileError("it has no block of columns")
    blocks, columns, sums = zip(
        *(read_block(b, description, tensors, k) for b, description in enumerate(document["blocks"])), strict=True
    )
    weight = checked(tensors, "weight", (k,))
    if (weight < 0).any():
        raise FileError("a class has a negative weight")
    prior = checked_prior(decode(document["class_prior"]), k)
    schema = Schema(classes, columns, flag(document["closed"]))
    return Model(Joint(blocks, prior), Stats(schema, weight, sums))


def read_block(
    b: int, description: Mapping[str, Any], tensors: Mapping[str, Array], k: int
) -> tuple[Block, Columns, Sums]:
    """A family, its columns and their sums."""
    family, size = rebuild_family(description["family"], description["settings"]), whole_number(description["size"])
    check_settings(family, size)
    categories, parents = checked_categories(description["categories"], size, family), description.get("parents")
    if k == 0 and max(size, sum(map(len, categories or ()))) > MAX_SIZE_WITHOUT_CLASSES:
        raise FileError(f"block {b} has more columns or categories than a model without classes can have")
    pivot = checked(tensors, f"{b}.pivot", (k, size)) if family.pivoted else None
    columns = Columns(
        size, checked_names(description["names"], size), categories, pivot, checked_parents(parents, size)
    )
    measures = family.measures(columns)
    if (categories is not None) != any(isinstance(measure, Cells) for measure in measures):
        raise FileError(f"block {b} has categories that do not fit its family")
    if parents is not None and not any(isinstance(measure, Pairs) for measure in measures):
        raise FileError(f"block {b} has a tree, but its family has none")
    sums = {m.name: checked(tensors, f"{b}.{m.name}", *[(k, *s) for s in m.shapes(columns)]) for m in measures}
    if family.pivoted and f"{b}.{Lost.name}" in tensors:  # only if rows were forgotten
        sums[Lost.name] = checked(tensors, f"{b}.{Lost.name}", (k, size))
        if (sums[Lost.name] < 0).any():
            raise FileError(f"{b}.{Lost.name} holds a negative count")
    for measure in measures:
        if why := measure.flaw(sums, columns):
            raise FileError(f"{b}.{measure.name} {why}")
    return Block(family, checked_alpha(decode(description["alpha"]), k, size)), columns, sums


def is_ascending(labels: Array) -> bool:
    return all(a < b for a, b in zip(labels.tolist()[:-1], labels.tolist()[1:], strict=True))


def checked_classes(encoded: Any) -> Array:
    """The class labels: strings or numbers, distinct and ascending."""
    classes = decode(encoded)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1:
        raise FileError("its classes are not a list of labels")
    if not all(isinstance(label, PLAIN_TYPES) and label == label for label in classes.tolist()) or not is_ascending(
        classes
    ):
        raise FileError("its classes are not distinct and sorted")
    return classes


def whole_number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise FileError(f"{value!r} is not a count")
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


def checked_categories(encoded: Any, size: int, family: Family) -> tuple[Categories, ...] | None:
    if encoded is None:
        return None
    if not isinstance(encoded, list) or len(encoded) != size:
        raise FileError(f"the categories do not match those of {size} columns")
    categories = tuple(decode_categories(column) for column in encoded)
    if not family.counts_missing and any(isinstance(levels, tuple) and None in levels for levels in categories):
        raise FileError(f"in a {family.name}, what is missing is not a category")
    return categories


def checked_parents(parents: Any, size: int) -> tuple[int, ...] | None:
    """The parent of each column: no column may be its own ancestor."""
    if parents is None:
        return None
    if (
        not isinstance(parents, list)
        or len(parents) != size
        or not all(type(p) is int and -1 <= p < size for p in parents)
    ):
        raise FileError("the dependencies of its columns are not a tree")
    parent = np.array(parents, dtype=np.intp)
    ancestor = parent.copy()
    for _ in range(size.bit_length()):  # pointer doubling: twice as far up each time
        ancestor = np.where(ancestor >= 0, ancestor[ancestor], -1)
    if (ancestor >= 0).any():
        raise FileError("the dependencies of its columns are not a tree")
    return tuple(parents)


def checked_origin(about: dict[str, Any]) -> dict[str, Any] | None:
    """The origin stored in a file, checked: a mapping with string keys, or None."""
    origin = about.get("origin")
    if origin is not None and not (isinstance(origin, dict) and all(isinstance(key, str) for key in origin)):
        raise FileError("its origin is not a mapping")
    for key, value in (origin or {}).items():
        is_list = key in ("learned", "names", "partly")
        if key in ("target", "text", "kind") and not isinstance(value, str | None):
            raise FileError(f"{key!r} of its origin is not a name")
        if is_list and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise FileError(f"{key!r} of its origin is not a list of names")
        if key == "forms" and not (
            isinstance(value, dict) and all(isinstance(one, int | str) for one in value.values())
        ):
            raise FileError("'forms' of its origin does not have one form per column")
    return origin


def checked_prior(prior: Any, k: int) -> Any:
    """A class prior: a name, or a probability per class."""
    if isinstance(prior, str):
        if prior not in ("empirical", "uniform"):
            raise FileError(f"its class prior {prior!r} is unknown")
    elif not isinstance(prior, np.ndarray) or prior.shape != (k,) or not (prior >= 0).all():
        raise FileError("its class prior does not fit its classes")
    return prior


def checked_alpha(alpha: Any, k: int, d: int) -> Any:
    """Pseudo-counts: a number, or an array that fits, not negative; or "empirical"."""
    if isinstance(alpha, str):
        if alpha != "empirical":
            raise FileError(f"its prior strength {alpha!r} is unknown")
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
    """Settings per column, or per pair of columns, must match the number of columns."""
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
    """JSON lists back as tuples."""
    return tuple(as_tuples(v) for v in value) if isinstance(value, list) else value


def checked(tensors: Mapping[str, Array], name: str, *shapes: tuple[int, ...]) -> Array:
    dtype, shape = described(tensors, name)
    if shape not in shapes or dtype != np.float64:
        raise FileError(f"{name} is {dtype}{shape}, expected float64 of {' or '.join(map(str, shapes))}")
    array = tensors[name]
    if not values_in_range(name, array):
        raise FileError(f"{name} holds a value that is not a number, or is too large")
    return array


def values_in_range(name: str, array: Array) -> bool:
    """Whether all are finite numbers, small enough that products do not overflow."""
    measure = MEASURES.get(name.rpartition(".")[2])
    limit = MAX_VALUE ** (1 if measure is None else measure.degree)
    return not array.size or bool(-limit <= array.min() and array.max() <= limit)  # NaN compares false


def left_out_parts(left_out: LeftOut | None) -> dict[str, Array]:
    """How rows that a pool was chosen on are evaluated without themselves, as arrays."""
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
    if isinstance(left_out, ByFold):
        return "folds of copies" if left_out.by_copy else "folds"
    return None if left_out is None else "form"


def read_left_out(kind: Any, tensors: Mapping[str, Array], g: int, k: int) -> LeftOut | None:
    """The inverse of `left_out_parts` for a pool of g weights and k classes, checked; older files have none."""
    arrays = part(tensors, "left_out.")
    if kind in ("folds", "folds of copies"):
        edges, first = arrays["edges"], arrays["first"]
        folds = len(arrays["weights"])
        valid = edges.dtype == np.uint64 and edges.shape == (k, folds - 1) and folds > 1
        valid = (
            valid and first.dtype == np.int32 and first.shape == (k,) and bool(((0 <= first) & (first < folds)).all())
        )
        weights, offsets = checked(arrays, "weights", (folds, g)), checked(arrays, "offsets", (folds, k))
        if not valid or (weights < 0).any():
            raise FileError("its folds for evaluation are not valid")
        pools = tuple(Pool(w, b) for w, b in zip(weights, offsets, strict=True))
        return ByFold(Folds(edges, first), pools, by_copy=kind != "folds")
    if kind == "form":
        weights, classes, last = arrays["set"], arrays["classes"], arrays["last"]
        m = len(weights) + len(classes)
        valid = last.dtype == np.uint64 and last.shape == (1,)
        for places, size in ((weights, g), (classes, k)):
            rising = places.dtype == np.int64 and places.ndim == 1 and bool((np.diff(places) > 0).all())
            valid = valid and rising and (not len(places) or bool(0 <= places[0] and places[-1] < size))
        if not valid:
            raise FileError("its folds for evaluation are not valid")
        inverse, times = checked(arrays, "inverse", (m, m)), checked(arrays, "times", (1,))
        return ByForm(weights, classes, inverse, int(last[0]), float(times[0]))
    if kind is not None:
        raise FileError(f"the method for evaluating its rows is {kind!r}, which this version does not support")
    return None


def encode(value: Any) -> Any:
    """A value for JSON: arrays with their type, infinity and NaN by name."""
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
    if value is None or isinstance(value, PLAIN_TYPES):
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
            raise FileError(f"{value['float']!r} is not a named number")
        return float(value["float"])
    return {decode(k): decode(v) for k, v in value["dict"]}


def decode_array(dtype: str, values: list[Any]) -> Array:
    """Labels or numbers as an array of an allowed type."""
    if not LABEL_DTYPES.fullmatch(dtype) or not isinstance(values, list):
        raise FileError(f"labels of type {dtype!r} cannot be read")
    if dtype != "O" and "U" not in dtype:
        return np.array(values, dtype=dtype)
    if "U" in dtype and not all(isinstance(label, str) for label in values):
        raise FileError("some labels are not strings, as declared")
    # One long label pads all others in an array of strings: if that wastes memory, use objects.
    padded_bytes = 4 * len(values) * max(map(len, values), default=0) if "U" in dtype else math.inf
    if padded_bytes <= max(MAX_PADDED_BYTES, 64 * sum(map(len, values))):
        return np.array(values, dtype=str)
    out = np.empty(len(values), dtype=object)
    for i, label in enumerate(values):
        out[i] = label
    return out


def encode_categories(categories: Categories) -> Any:
    if isinstance(categories, range):
        return len(categories)
    if isinstance(categories, Bins):
        return {"cuts": list(categories.cuts), "middles": list(categories.middles)}
    for value in categories:
        if not (value is None or isinstance(value, PLAIN_TYPES)):
            raise KindError(
                "the category {value!r} of type {type} cannot be saved: use strings",
                value=value,
                type=type(value).__name__,
            )
    return [encode(value) for value in categories]


def decode_categories(encoded: Any) -> Categories:
    if isinstance(encoded, list):
        levels = tuple(decode(value) for value in encoded)
        if not all(value is None or isinstance(value, PLAIN_TYPES) for value in levels) or len(set(levels)) != len(
            levels
        ):
            raise FileError("the categories of a column are not distinct strings or numbers")
        return levels
    if isinstance(encoded, dict):
        cuts, middles = (np.array(encoded[name], dtype=np.float64) for name in ("cuts", "middles"))
        if cuts.ndim != 1 or middles.shape != (len(cuts) + 1,) or not (np.diff(cuts) > 0).all():
            raise FileError("the intervals of a column are not sorted")
        if not np.isfinite(middles).all() or not np.isfinite(cuts).all():
            raise FileError("the intervals of a column have no end")
        return Bins(tuple(cuts.tolist()), tuple(middles.tolist()))
    return range(whole_number(encoded))


def checksum(text: str, tensors: dict[str, Array]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype.str}{tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file of any kind atomically."""
    atomic.replace(path, lambda file: file.write(content))
