"""Models of tables to documents and arrays, and back: every size and range is checked on reading."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast, get_args

import numpy as np

from deciban._typing import Array
from deciban.deferred import Deferred
from deciban.errors import FileError
from deciban.pool import Pool
from deciban.reading.convert import Format, format_from_dict
from deciban.reading.kinds import ColumnKind, Kind
from deciban.reading.table import TableColumns
from deciban.results.importance import packed, unpacked
from deciban.storage.arrays import CheckedArrays
from deciban.storage.files import (
    checked_classes,
    checked_prior,
    decode,
    encode,
    flag,
    left_out_kind,
    left_out_parts,
    read_left_out,
)
from deciban.tables.encode import N_SMALL_CODES, Coded, Cuts, Encoding, Known
from deciban.tables.experts import expert_named
from deciban.tables.experts.columns import ColumnDistributions
from deciban.tables.model import Candidate, Record, TableModel

CUTS = ("cuts", "low", "high", "mass", "knots", "scores")


def parts(model: TableModel) -> tuple[dict[str, Any], dict[str, Array]]:
    """A model as a JSON document that describes it, and arrays."""
    tensors: dict[str, Array] = {
        "weight": model.weight,
        "pool.weights": model.pool.weights,
        "pool.offsets": model.pool.offsets,
        **left_out_parts(model.left_out),
    }
    columns = []
    for j, (name, coded) in enumerate(zip(model.encoding.names, model.encoding.columns, strict=True)):
        about, arrays = describe(coded)
        columns.append({"name": name, **about})
        tensors |= {f"column.{j}.{key}": array for key, array in arrays.items()}
    experts = []
    for i, expert in enumerate(model.experts):
        about, arrays = expert.pack()
        experts.append({"expert": expert.name, **about})
        tensors |= {f"expert.{i}.{key}": array for key, array in arrays.items()}
    record = model.record
    document = {
        "classes": encode(model.classes),
        "closed": model.closed,
        "class_prior": encode(model.class_prior),
        "table": {
            "kinds": [[k.name, k.kind, k.why, k.distinct, k.missing, *format_out(k)] for k in model.reader.kinds],
            "columns": columns,
            "experts": encode(experts),
            "left_out": left_out_kind(model.left_out),
            "record": encode(
                {
                    "candidates": [[c.expert, c.setting, c.loss, c.weight, c.chosen] for c in record.candidates],
                    "laws": [list(smoothing) for smoothing in record.smoothings],
                    "loss": record.loss,
                    "accuracy": record.accuracy,
                    "rows": record.rows,
                    "weight": record.weight,
                    "importance": packed(record.importance),
                }
            ),
        },
    }
    return document, {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def describe(coded: Coded) -> tuple[dict[str, Any], dict[str, Array]]:
    if isinstance(coded, Cuts):
        about = {"mean": coded.mean, "scale": coded.scale, "whole": coded.whole, "dates": coded.dates}
        return {**about, "missing": coded.missing}, {name: getattr(coded, name) for name in CUTS}
    return {
        "levels": [encode(level) for level in coded.levels],
        "spoken": list(coded.indicator_levels),
        "missing": coded.missing,
        "frequent": coded.frequent,
    }, {"mass": coded.mass}


def digest(model: TableModel) -> bytes:
    """A hash of all choices: the same before and after learning more."""
    kinds = [[kind.name, kind.kind, *format_out(kind)[:1]] for kind in model.reader.kinds]
    columns, experts = [], []
    chosen: dict[str, Array] = {"pool.weights": model.pool.weights}
    for j, coded in enumerate(model.encoding.columns):
        about, arrays = describe(coded)
        if isinstance(coded, Known):  # categories that were added later are learned, not chosen
            about["levels"] = about["levels"][: len(coded.mass)]
        columns.append([model.encoding.names[j], about])
        chosen |= {f"column.{j}.{name}": array for name, array in arrays.items()}
    for i, expert in enumerate(model.experts):
        about, arrays = expert.choices()
        experts.append([expert.name, encode(about)])
        chosen |= {f"expert.{i}.{name}": array for name, array in arrays.items()}
    choices = hashlib.sha256(json.dumps([kinds, columns, experts], sort_keys=True).encode())
    for name, array in sorted(chosen.items()):
        choices.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return choices.digest()


def rebuild(document: Mapping[str, Any], tensors: Mapping[str, Array]) -> TableModel:
    """The inverse of `parts`."""
    classes, table = checked_classes(document["classes"]), document["table"]
    k = len(classes)
    kinds = tuple(
        ColumnKind(str(n), known_kind(kind), str(why), int(a), int(b), *format_in(more))
        for n, kind, why, a, b, *more in table["kinds"]
    )
    reader = TableColumns(kinds)
    encoding = Encoding(
        tuple(str(about["name"]) for about in table["columns"]),
        tuple(read_column(about, CheckedArrays(tensors, f"column.{j}.")) for j, about in enumerate(table["columns"])),
        reader.texts,
    )
    if encoding.names != reader.names or [type(c) for c in encoding.columns] != coded_as(reader):
        raise FileError("its columns differ from those it names")
    experts = tuple(
        expert_named(about["expert"]).unpack(about, CheckedArrays(tensors, f"expert.{i}."), encoding, k)
        for i, about in enumerate(decode(table["experts"]))
    )
    if not experts or not isinstance(experts[0], ColumnDistributions):
        raise FileError("its first expert must be that of columns")
    own = CheckedArrays(tensors, "")
    weight = own.floats("weight", (k,))
    weights = own.floats("pool.weights", (len(experts) + len(encoding.columns),))
    if (weight < 0).any() or (weights < 0).any():
        raise FileError("a weight is negative")
    if not all(expert.fits(weight) for expert in experts):
        raise FileError("its columns of text differ from those of its rows")
    pool = Pool(weights, own.floats("pool.offsets", (k,)))
    class_prior = checked_prior(decode(document["class_prior"]), k)
    record = read_record(decode(table["record"]))
    left_out = read_left_out(table.get("left_out"), tensors, len(weights), k)
    closed = flag(document["closed"])
    return TableModel(classes, weight, reader, encoding, experts, pool, class_prior, closed, record, left_out)


def coded_as(reader: TableColumns) -> list[type[Coded]]:
    """The types that code the columns of a reader."""
    coded: list[type[Coded]] = []
    for kind in reader.used:
        if kind.kind == "date":
            coded += [Cuts, Known, Known]
        elif kind.kind != "text":
            coded.append(Cuts if kind.kind in ("number", "count") else Known)
    return coded


def format_out(kind: ColumnKind) -> list[Any]:
    """How a column writes numbers or dates, and what is doubtful about it; empty if they are plain."""
    return [] if kind.format is None else [asdict(kind.format), kind.doubt]


def format_in(more: list[Any]) -> tuple[Format, str] | tuple[()]:
    if not more:
        return ()
    about, doubt = more
    return format_from_dict(about), str(doubt)


def known_kind(kind: Any) -> Kind:
    if kind not in get_args(Kind):
        raise FileError(f"a column of kind {kind!r} is unknown")
    return cast("Kind", kind)


def share(value: Any) -> float:
    if not 0.0 <= float(value) <= 1.0:
        raise FileError(f"a share of rows is {value}")
    return float(value)


def read_column(about: Mapping[str, Any], arrays: CheckedArrays) -> Coded:
    missing = share(about["missing"])
    if "levels" in about:
        levels = tuple(decode(level) for level in about["levels"])
        mass = arrays.row("mass")
        indicator_levels = tuple(int(i) for i in about["spoken"])
        frequent = None if (many := about.get("frequent")) is None else int(many)  # not in files of older versions
        sound = len(mass) <= len(levels) == len(set(levels)) and all(0 <= i < len(mass) for i in indicator_levels)
        sound &= frequent is None or 0 <= frequent < len(mass)
        if not sound or not all(isinstance(level, str | bool | int | float) for level in levels):
            raise FileError(
                f"the categories of column {about['name']!r} are not distinct, or not as many as they should be"
            )
        return Known(levels, mass, indicator_levels, missing, frequent)
    own = {name: arrays.row(name) for name in CUTS}
    bins = len(own["low"])
    sound = 0 < bins < N_SMALL_CODES and len(own["cuts"]) == bins - 1 and bins == len(own["high"]) == len(own["mass"])
    sound &= len(own["knots"]) == len(own["scores"]) > 0 and float(about["scale"]) > 0
    sound &= all((np.diff(own[name]) > 0).all() for name in ("cuts", "knots"))
    if not sound or not np.isfinite([float(about["mean"]), float(about["scale"])]).all():
        raise FileError(f"the bins of column {about['name']!r} are not in order")
    return Cuts(
        **own,
        mean=float(about["mean"]),
        scale=float(about["scale"]),
        missing=missing,
        whole=bool(about["whole"]),
        dates=None if about["dates"] is None else str(about["dates"]),
    )


def read_record(about: Mapping[str, Any]) -> Record:
    candidates = tuple(
        Candidate(str(expert), str(setting), float(loss), None if weight is None else float(weight), bool(chosen))
        for expert, setting, loss, weight, chosen in about["candidates"]
    )
    smoothings = tuple(
        (str(name), str(smoothing), float(gain), float(over)) for name, smoothing, gain, over in about["laws"]
    )
    figures = (float(about["loss"]), float(about["accuracy"]), int(about["rows"]), float(about["weight"]))
    return Record(candidates, smoothings, *figures, Deferred.of(unpacked(about.get("importance"))))
