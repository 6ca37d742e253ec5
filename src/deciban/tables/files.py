"""Models of tables as documents and arrays, and back: every size and range is checked before it is believed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from deciban._kernel import forest as forest_kernel
from deciban._typing import Array
from deciban.errors import FileError
from deciban.pool import Pool
from deciban.reading.kinds import ColumnKind, Kind
from deciban.reading.table import Reader
from deciban.storage import files
from deciban.storage.files import checked, checked_classes, decode, flag, left_out_kind, left_out_parts, read_left_out
from deciban.storage.files import encode as spelled
from deciban.tables.encode import NEVER, SMALL, Coded, Cuts, Encoding, Known
from deciban.tables.experts.base import Expert
from deciban.tables.experts.columns import ColumnLaws, Law
from deciban.tables.experts.contexts import DEEPEST, ContextTrees, Sums
from deciban.tables.experts.forest import Forest, Trees
from deciban.tables.experts.gaussians import Gaussians, Moments, Pieces, Shape
from deciban.tables.model import Candidate, Record, TableModel

if TYPE_CHECKING:
    from deciban.tables.experts.words import Words

CUTS = ("cuts", "low", "high", "mass", "knots", "scores")
SUMS = ("counts", "counts0", "counts1", "keys0", "keys1", "one", "x", "xy")  # what learning changes
BY_CLASS = ("owner", "first")  # what new classes change


def parts(model: TableModel) -> tuple[dict[str, Any], dict[str, Array]]:
    """A model as a document that says what it is about, and arrays."""
    tensors: dict[str, Array] = {
        "weight": model.weight,
        "pool.weights": model.pool.weights,
        "pool.offsets": model.pool.offsets,
        **left_out_parts(model.left_out),
    }
    columns = []
    for j, (name, coded) in enumerate(zip(model.encoding.names, model.encoding.columns, strict=True)):
        said, arrays = describe(coded)
        columns.append({"name": name, **said})
        tensors |= {f"column.{j}.{key}": array for key, array in arrays.items()}
    experts = []
    for i, expert in enumerate(model.experts):
        about, arrays = expert.pack()
        experts.append({"expert": expert.name, **about})
        tensors |= {f"expert.{i}.{key}": array for key, array in arrays.items()}
    record = model.record
    document = {
        "classes": spelled(model.classes),
        "closed": model.closed,
        "class_prior": spelled(model.class_prior),
        "table": {
            "kinds": [[k.name, k.kind, k.why, k.distinct, k.missing] for k in model.reader.kinds],
            "columns": columns,
            "experts": spelled(experts),
            "left_out": left_out_kind(model.left_out),
            "record": spelled(
                {
                    "candidates": [[c.expert, c.setting, c.loss, c.weight, c.chosen] for c in record.candidates],
                    "laws": [list(law) for law in record.laws],
                    "loss": record.loss,
                    "accuracy": record.accuracy,
                    "rows": record.rows,
                    "weight": record.weight,
                }
            ),
        },
    }
    return document, {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def describe(coded: Coded) -> tuple[dict[str, Any], dict[str, Array]]:
    if isinstance(coded, Cuts):
        said = {"mean": coded.mean, "scale": coded.scale, "whole": coded.whole, "dates": coded.dates}
        return {**said, "missing": coded.missing}, {name: getattr(coded, name) for name in CUTS}
    return {
        "levels": [spelled(level) for level in coded.levels],
        "spoken": list(coded.spoken),
        "missing": coded.missing,
    }, {"mass": coded.mass}


def digest(model: TableModel) -> bytes:
    """What was chosen, in few bytes: the same before and after learning more."""
    document, tensors = parts(model)
    table = document["table"]
    known = [len(c.mass) if isinstance(c, Known) else 0 for c in model.encoding.columns]
    columns = [
        {**said, "levels": said["levels"][:size]} if "levels" in said else said
        for said, size in zip(table["columns"], known, strict=True)
    ]
    kinds = [kind[:2] for kind in table["kinds"]]
    experts = [decode(said) | {"document": None} for said in table["experts"]]
    found = hashlib.sha256(json.dumps([kinds, columns, experts], sort_keys=True).encode())
    for name in sorted(tensors):
        part, last = name.split(".")[0], name.split(".")[-1]
        words = part == "expert" and model.experts[int(name.split(".")[1])].name == "words"
        chosen = ".choice." in name if words else part in ("column", "expert") and last not in (*SUMS, *BY_CLASS)
        if chosen or name == "pool.weights":
            found.update(name.encode() + np.ascontiguousarray(tensors[name]).tobytes())
    return found.digest()


def rebuild(document: Mapping[str, Any], tensors: Mapping[str, Array]) -> TableModel:
    """The model that `parts` took apart."""
    classes, table = checked_classes(document["classes"]), document["table"]
    k = len(classes)
    kinds = tuple(
        ColumnKind(str(n), known_kind(kind), str(why), int(a), int(b)) for n, kind, why, a, b in table["kinds"]
    )
    reader = Reader(kinds)
    encoding = Encoding(
        tuple(str(said["name"]) for said in table["columns"]),
        tuple(read_column(said, Part(tensors, f"column.{j}.")) for j, said in enumerate(table["columns"])),
        reader.texts,
    )
    if encoding.names != reader.names or [type(c) for c in encoding.columns] != coded_as(reader):
        raise FileError("its columns are not those that it speaks of")
    experts = tuple(
        read_expert(said, Part(tensors, f"expert.{i}."), encoding, k) for i, said in enumerate(decode(table["experts"]))
    )
    if not experts or not isinstance(experts[0], ColumnLaws):
        raise FileError("its first expert is not that of columns")
    own = Part(tensors, "")
    weight = own.floats("weight", (k,))
    weights = own.floats("pool.weights", (len(experts) + len(encoding.columns),))
    if (weight < 0).any() or (weights < 0).any():
        raise FileError("a weight is negative")
    if not all(expert.fits(weight) for expert in experts):
        raise FileError("its texts are not those of its rows")
    pool = Pool(weights, own.floats("pool.offsets", (k,)))
    class_prior = files.checked_prior(decode(document["class_prior"]), k)
    record = read_record(decode(table["record"]))
    left_out = read_left_out(table.get("left_out"), tensors, len(weights), k)
    closed = flag(document["closed"])
    return TableModel(classes, weight, reader, encoding, experts, pool, class_prior, closed, record, left_out)


def coded_as(reader: Reader) -> list[type[Coded]]:
    """What the columns that a reader gives are coded by."""
    found: list[type[Coded]] = []
    for kind in reader.used:
        if kind.kind == "date":
            found += [Cuts, Known, Known]
        elif kind.kind != "text":
            found.append(Cuts if kind.kind in ("number", "count") else Known)
    return found


class Part:
    """The arrays of one part of a file, each checked as it is asked for."""

    def __init__(self, tensors: Mapping[str, Array], prefix: str) -> None:
        self.tensors, self.prefix = dict(tensors), prefix

    def floats(self, name: str, *shapes: tuple[int, ...]) -> Array:
        """Finite numbers of a shape."""
        return checked(self.tensors, self.prefix + name, *shapes)

    def row(self, name: str) -> Array:
        """A row of finite numbers, as long as it is."""
        return self.floats(name, (len(self.tensors[self.prefix + name]),))

    def whole(self, name: str, kind: Any, *shape: int | None) -> Array:
        """Integers of a kind; None in a shape is any size."""
        array = self.tensors[self.prefix + name]
        if array.dtype != kind or array.ndim != len(shape):
            raise FileError(f"{self.prefix + name} is {array.dtype}{array.shape}, expected {np.dtype(kind)}")
        if any(want is not None and want != size for want, size in zip(shape, array.shape, strict=True)):
            raise FileError(f"{self.prefix + name} has shape {array.shape}, expected {shape}")
        return np.ascontiguousarray(array)

    def counts(self, name: str, *shape: int) -> Array:
        array = self.floats(name, shape)
        if (array < 0).any():
            raise FileError(f"{self.prefix + name} has a negative count")
        return array


def known_kind(kind: Any) -> Kind:
    if kind not in get_args(Kind):
        raise FileError(f"a column of kind {kind!r} is not known")
    return cast(Kind, kind)


def share(value: Any) -> float:
    if not 0.0 <= float(value) <= 1.0:
        raise FileError(f"a share of rows is {value}")
    return float(value)


def read_column(said: Mapping[str, Any], part: Part) -> Coded:
    missing = share(said["missing"])
    if "levels" in said:
        levels = tuple(decode(level) for level in said["levels"])
        mass = part.row("mass")
        spoken = tuple(int(i) for i in said["spoken"])
        sound = len(mass) <= len(levels) == len(set(levels)) and all(0 <= i < len(mass) for i in spoken)
        if not sound or not all(isinstance(level, str | bool | int | float) for level in levels):
            raise FileError(
                f"the categories of column {said['name']!r} are not distinct, or not as many as they should be"
            )
        return Known(levels, mass, spoken, missing)
    arrays = {name: part.row(name) for name in CUTS}
    bins = len(arrays["low"])
    sound = 0 < bins < SMALL and len(arrays["cuts"]) == bins - 1 and bins == len(arrays["high"]) == len(arrays["mass"])
    sound &= len(arrays["knots"]) == len(arrays["scores"]) > 0 and float(said["scale"]) > 0
    sound &= all((np.diff(arrays[name]) > 0).all() for name in ("cuts", "knots"))
    if not sound or not np.isfinite([float(said["mean"]), float(said["scale"])]).all():
        raise FileError(f"the bins of column {said['name']!r} are not in order")
    return Cuts(
        **arrays,
        mean=float(said["mean"]),
        scale=float(said["scale"]),
        missing=missing,
        whole=bool(said["whole"]),
        dates=None if said["dates"] is None else str(said["dates"]),
    )


def positive(value: Any, most: float = np.finfo(np.float64).max) -> float:
    if not 0.0 < float(value) <= most:
        raise FileError(f"a setting is {value}: it should be a number above 0")
    return float(value)


def read_expert(said: Mapping[str, Any], part: Part, encoding: Encoding, k: int) -> Expert:
    readers = {
        "columns": read_laws,
        "gaussians": read_gaussians,
        "contexts": read_contexts,
        "trees": read_forest,
        "words": read_words,
    }
    name = said["expert"]
    if name not in readers:
        raise FileError(f"an expert {name!r} is not known")
    return readers[name](said, part, encoding, k)


def read_laws(said: Mapping[str, Any], part: Part, encoding: Encoding, k: int) -> ColumnLaws:
    laws = tuple(Law(positive(s), float(h)) for s, h in said["laws"])
    if len(laws) != len(encoding.columns) or any(not 0 <= law.spread < np.inf for law in laws):
        raise FileError("its columns do not have a law each")
    offsets = encoding.offsets
    return ColumnLaws(laws, offsets, part.counts("counts", k, int(offsets[-1])))


def read_gaussians(said: Mapping[str, Any], part: Part, encoding: Encoding, k: int) -> Gaussians:
    lean, diagonal, tails = said["shape"]
    view, D = said["view"], len(encoding.owner)
    if view not in ("real", "scores"):
        raise FileError(f"a view {view!r} is not known")
    owner, first = part.whole("owner", np.int32, None), part.whole("first", np.int32, k)
    P, at = len(owner), part.row("at")
    cuts = len(at)
    sides = part.whole("sides", np.int32, cuts, 2)
    if not each_class_cut(owner, first, sides):
        raise FileError("the cuts of its classes are not in order")
    pieces = Pieces(owner, first, part.floats("axis", (cuts, D)), at, sides)
    one, x, xy = part.counts("one", P), part.floats("x", (P, D)), part.floats("xy", (P, D, D))
    if not np.allclose(xy, xy.transpose(0, 2, 1)) or not files.plausible(one[:, None], x, xy):
        raise FileError("its sums of squares cannot be")
    target = part.floats("target", (D,))
    if (target <= 0).any():
        raise FileError("a variance is not positive")
    shape = Shape(positive(lean, np.inf), positive(diagonal, 1.0), positive(tails, np.inf))
    return Gaussians(view, shape, pieces, target, Moments(one, x, xy), encoding.owner)


def each_class_cut(owner: Array, first: Array, sides: Array) -> bool:
    """Whether every class is cut into pieces of its own, and every piece and cut is reached once."""
    pieces, cuts = [-1] * len(owner), [False] * len(sides)
    for c, begin in enumerate(first.tolist()):
        waiting = [begin]
        while waiting:
            at = waiting.pop()
            if not -len(pieces) <= at < len(cuts) or (cuts[at] if at >= 0 else pieces[-1 - at] >= 0):
                return False
            if at >= 0:
                cuts[at] = True
                waiting += sides[at].tolist()
            else:
                pieces[-1 - at] = c
    return pieces == owner.tolist() and all(cuts)


def read_contexts(said: Mapping[str, Any], part: Part, encoding: Encoding, k: int) -> ContextTrees:
    d = len(encoding.columns)
    maps, levels = part.whole("maps", np.uint8, d, 256), part.whole("levels", np.int32, d)
    if ((maps >= levels[:, None]) & (maps != NEVER)).any():
        raise FileError("a column's values go where there are none")
    parents, sums = [], []
    for s in (0, 1):
        own = part.whole(f"parents{s}", np.int32, d, DEEPEST)
        if d and not (-1 <= own.min() and own.max() < d):
            raise FileError("a column's parent is not there")
        keys = part.whole(f"keys{s}", np.uint64, None)
        if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
            raise FileError("contexts are not in order")
        parents.append(own)
        sums.append(Sums(keys, part.counts(f"counts{s}", len(keys), k)))
    trees = ContextTrees(
        maps,
        levels,
        (parents[0], parents[1]),
        (sums[0], sums[1]),
        k,
        int(positive(said["depth"], DEEPEST)),
        positive(said["strength"]),
    )
    trees.trees()  # the kernel checks the keys
    trees.order(0), trees.order(1)
    return trees


def read_forest(said: Mapping[str, Any], part: Part, encoding: Encoding, k: int) -> Forest:
    column = part.whole("column", np.int32, None)
    m = len(column)
    left, right, parent = (part.whole(name, np.int32, m) for name in ("left", "right", "parent"))
    trees = Trees(
        column,
        left,
        right,
        parent,
        part.whole("cut", np.uint8, m),
        part.whole("mask", np.uint64, m, 4),
        part.whole("start", np.int32, None),
    )
    forest_kernel.check_forest(trees.column, trees.left, trees.right, trees.parent, trees.start, len(encoding.columns))
    strength, tries = positive(said["strength"]), int(positive(said["tries"]))
    return Forest(trees, encoding.levels, encoding.ordered, part.counts("counts", m, k), strength, tries)


def read_words(said: Mapping[str, Any], part: Part, encoding: Encoding, k: int) -> Words:
    from deciban.tables.experts.words import Words  # most tables have no texts, and much comes with them
    from deciban.text import files as text_files
    from deciban.text.graded import Graded

    place = int(said["place"])
    if not 0 <= place < len(encoding.texts) or encoding.texts[place] != said["column"]:
        raise FileError(f"a column of text {said['column']!r} is not known")
    own = {name[len(part.prefix) :]: array for name, array in part.tensors.items() if name.startswith(part.prefix)}
    graded = text_files.rebuild(said["document"], own)
    if not isinstance(graded, Graded) or not np.array_equal(graded.classes, np.arange(k)):
        raise FileError("its text model is not one of its classes")
    return Words(encoding.texts[place], place, graded)


def read_record(said: Mapping[str, Any]) -> Record:
    candidates = tuple(
        Candidate(str(expert), str(setting), float(loss), None if weight is None else float(weight), bool(chosen))
        for expert, setting, loss, weight, chosen in said["candidates"]
    )
    laws = tuple((str(name), str(law), float(gain), float(over)) for name, law, gain, over in said["laws"])
    figures = (float(said["loss"]), float(said["accuracy"]), int(said["rows"]), float(said["weight"]))
    return Record(candidates, laws, *figures)
