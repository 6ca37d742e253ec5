"""One safe file: statistics, schema and choices in safetensors format. Reading it runs no code.

The tensors are the sums; a JSON document beside them says what they are about. A checksum covers both. A file is
written beside its place and moved there, so that a reader finds the old one or the new one, whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from deciban._typing import Array, Categories
from deciban.algebra import Stats
from deciban.errors import FileError
from deciban.families import FAMILIES, Family
from deciban.joint import Block, Joint, Model
from deciban.schema import Bins, Columns, Schema, is_forest

FORMAT = 1
COUNTS = ("one", "xx", "is", "pair", "xxyy")  # sums that cannot be negative, wherever the pivot is

# What a description that makes no sense can raise while it is read.
BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError, MemoryError)


def write(path: str | os.PathLike[str], model: Model, about: dict[str, Any]) -> None:
    """Save a model; `about` is what its owner wants back (names, settings), as JSON."""
    document, tensors = parts(model)
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
                "settings": {f.name: getattr(block.family, f.name) for f in fields(block.family)},
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
    """One file of a document and arrays, with a checksum over both."""
    from safetensors.numpy import save

    whole = {"format": FORMAT, **document, "about": {key: encode(value) for key, value in about.items()}}
    text = json.dumps(whole, sort_keys=True)
    write_atomically(Path(path), save(tensors, metadata={"deciban": text, "sha256": checksum(text, tensors)}))


def read(path: str | os.PathLike[str]) -> tuple[Model, dict[str, Any]]:
    """Load a model and what its owner said about it; every size and kind is checked against the document."""
    document, tensors, about = read_parts(path)
    with damage(path):
        return rebuild(document, tensors), about


@contextmanager
def damage(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong while a description is read means that the file is damaged."""
    try:
        yield
    except FileError:
        raise
    except BROKEN as error:
        raise FileError(f"{os.fspath(path)!r} is damaged: {type(error).__name__}: {error}") from None


def read_parts(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array], dict[str, Any]]:
    """A file's document, its arrays, and what its owner said about it: whole, and of this format."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}")
    if not path.is_file():
        raise FileError(f"{str(path)!r} is a directory, not a model file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise FileError(f"{str(path)!r} is not a whole deciban model file: {error}") from None
    if "deciban" not in metadata:
        raise FileError(f"{str(path)!r} is a safetensors file, but not a deciban model")
    text = metadata["deciban"]
    if metadata.get("sha256") != checksum(text, tensors):
        raise FileError(f"{str(path)!r} is damaged: its checksum does not match")
    with damage(path):
        document = json.loads(text)
        if not isinstance(document, dict):
            raise FileError(f"{str(path)!r} is damaged: its description is not an object")
        if document.get("format") != FORMAT:
            raise FileError(
                f"{str(path)!r} has format {document.get('format')!r}, and this version reads format {FORMAT}: "
                "it was written by another version of deciban"
            )
        return document, tensors, {key: decode(value) for key, value in document["about"].items()}


def rebuild(document: dict[str, Any], tensors: dict[str, Array]) -> Model:
    classes = decode(document["classes"])
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or (len(classes) > 1 and not ascending(classes)):
        raise FileError("its classes are not distinct labels in order")
    k = len(classes)
    if not document["blocks"]:
        raise FileError("it has no block of columns")
    blocks, columns, sums = [], [], []
    for b, said in enumerate(document["blocks"]):
        family = rebuild_family(said["family"], said["settings"])
        categories = None if said["categories"] is None else tuple(categories_in(c) for c in said["categories"])
        names = None if said["names"] is None else tuple(str(name) for name in said["names"])
        size = int(said["size"])
        if categories is not None and len(categories) != size:
            raise FileError(f"block {b} has {size} columns, but categories for {len(categories)}")
        if names is not None and len(names) != size:
            raise FileError(f"block {b} has {size} columns, but {len(names)} names")
        pivot = checked(tensors, f"{b}.pivot", (k, size)) if family.pivoted else None
        block = Columns(size, names, categories, pivot, checked_parents(said.get("parents"), size))
        blocks.append(Block(family, checked_alpha(decode(said["alpha"]), k, size)))
        columns.append(block)
        sums.append(
            {
                m.name: checked(tensors, f"{b}.{m.name}", *[(k, *shape) for shape in m.shapes(block)])
                for m in family.measures(block)
            }
        )
        for name, array in sums[-1].items():
            if (name in COUNTS or pivot is None) and (array < 0).any():
                raise FileError(f"{b}.{name} holds a negative count")
            if name == "xy" and not plausible(sums[-1]["one"], sums[-1]["x"], array):
                raise FileError(f"{b}.{name} is not a scatter that rows can have")
            if name in ("xy", "xxyy") and not np.allclose(array, array.transpose(0, 2, 1), rtol=1e-9, atol=0.0):
                raise FileError(f"{b}.{name} is not symmetric")
    weight = checked(tensors, "weight", (k,))
    if (weight < 0).any():
        raise FileError("a class has a negative weight")
    prior = checked_prior(decode(document["class_prior"]), k)
    schema = Schema(classes, tuple(columns), bool(document["closed"]))
    return Model(Joint(tuple(blocks), prior), Stats(schema, weight, tuple(sums)))


def plausible(one: Array, x: Array, xy: Array) -> bool:
    """Whether n, Σt and Σttᵀ can come from rows: no direction has a negative spread, but for rounding."""
    n = np.where(one > 0, one, 1.0)[..., None]
    central = xy - x[:, :, None] * x[:, None, :] / n
    size = np.trace(np.abs(xy), axis1=1, axis2=2) if xy.size else np.zeros(0)
    least = np.linalg.eigvalsh(central).min(axis=1, initial=0.0) if xy.size else np.zeros(0)
    return bool((least >= -1e-6 * size).all() and (np.diagonal(xy, axis1=1, axis2=2) >= 0).all())


def ascending(labels: Array) -> bool:
    return all(a < b for a, b in zip(labels.tolist()[:-1], labels.tolist()[1:], strict=True))


def checked_parents(parents: Any, size: int) -> tuple[int, ...] | None:
    """The column that each one hangs on: no column hangs on itself, however long the way."""
    if parents is None:
        return None
    found = tuple(int(parent) for parent in parents)
    if len(found) != size or not is_forest(found):
        raise FileError("its columns do not hang on each other as in a tree")
    return found


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
    return family(**{key: as_tuples(value) for key, value in settings.items()})


def as_tuples(value: Any) -> Any:
    """JSON's lists as the tuples they were."""
    return tuple(as_tuples(v) for v in value) if isinstance(value, list) else value


def checked(tensors: dict[str, Array], name: str, *shapes: tuple[int, ...]) -> Array:
    array = tensors[name]
    if array.shape not in shapes or array.dtype != np.float64:
        raise FileError(f"{name} is {array.dtype}{array.shape}, expected float64 of {' or '.join(map(str, shapes))}")
    if not np.isfinite(array).all():
        raise FileError(f"{name} holds a value that is not a number")
    return np.array(array)


def encode(value: Any) -> Any:
    """Arrays with their type; everything else as JSON has it."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufUO":
            raise TypeError(f"labels of type {value.dtype} cannot be saved: use strings or numbers")
        return {"dtype": value.dtype.str if value.dtype.kind != "O" else "O", "values": encode(value.tolist())}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be saved: use strings or numbers")


def decode(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"dtype", "values"}:
        kind = np.dtype(value["dtype"])
        if kind.kind not in "biufUO":
            raise FileError(f"labels of type {kind} are not read")
        if kind.kind == "O":
            out = np.empty(len(value["values"]), dtype=object)
            out[:] = value["values"]
            return out
        if kind.kind == "U":  # as wide as the labels are, whatever the file says
            return np.array([str(label) for label in value["values"]], dtype=str)
        return np.array(value["values"], dtype=kind)
    if isinstance(value, dict):
        return {decode(k): decode(v) for k, v in value["dict"]}
    if isinstance(value, list):
        return [decode(v) for v in value]
    return value


def categories_out(categories: Categories) -> Any:
    if isinstance(categories, range):
        return len(categories)
    if isinstance(categories, Bins):
        return {"cuts": list(categories.cuts), "middles": list(categories.middles)}
    for value in categories:
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise TypeError(f"the category {value!r} of type {type(value).__name__} cannot be saved: use strings")
    return list(categories)


def categories_in(said: Any) -> Categories:
    if isinstance(said, int):
        return range(said)
    if isinstance(said, dict):
        cuts, middles = (np.array(said[name], dtype=np.float64) for name in ("cuts", "middles"))
        if len(middles) != len(cuts) + 1 or not np.isfinite(middles).all() or not (np.diff(cuts) > 0).all():
            raise FileError("the intervals of a column do not follow each other")
        if not np.isfinite(cuts).all():
            raise FileError("the intervals of a column have no end")
        return Bins(tuple(cuts.tolist()), tuple(middles.tolist()))
    return tuple(said)


def checksum(text: str, tensors: dict[str, Array]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype.str}{tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """A temporary file beside the place, flushed to disk, then moved there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path.name!r}: there is no folder {str(path.parent)!r}")
    descriptor, temporary = tempfile.mkstemp(dir=path.parent or Path(), prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # where a directory can be opened, its new entry is flushed as well
        directory = os.open(path.parent or Path(), os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
