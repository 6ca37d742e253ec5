"""Text models to documents and arrays, and back: every size and range is checked on reading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from deciban._kernel import common as kernel
from deciban._typing import Array
from deciban.errors import FileError
from deciban.pool import Pool
from deciban.results.importance import packed, unpacked
from deciban.storage import files
from deciban.storage.files import (
    checked,
    checked_alpha,
    checked_classes,
    decode,
    encode,
    flag,
    left_out_kind,
    left_out_parts,
    read_left_out,
)
from deciban.storage.stored import described, part
from deciban.text.common import COMMON, MIN_DOCUMENTS, RIDGES, CommonItems, SolvedSystem, restored
from deciban.text.common import MAX_COMMON_ITEMS as MOST_COMMON
from deciban.text.graded import Graded, TextChoice
from deciban.text.hashed import MAX_BUCKETS, Buckets, HashedLexicon
from deciban.text.items import BLOCKS, PAIRED, REPEAT_TIMES, Items, Lexicon
from deciban.text.raw import PairVocabulary, Vocabulary
from deciban.text.store import Flat, ItemSums
from deciban.text.sums import MAX_ITEMS, Limit, TextSums
from deciban.text.tables import MAX_CLASS_FACTORS, STRENGTHS, VECTORS
from deciban.text.tokens import BY_SPACES, TokenRule
from deciban.text.updates import PENDING_PRODUCTS, ItemProducts, Update

if TYPE_CHECKING:
    from deciban.text.plain import Plain

NO_RIDGES = np.zeros(0)


def parts(model: Graded | Plain) -> tuple[dict[str, Any], dict[str, Array]]:
    """A text model as a JSON document that describes it, and arrays."""
    if not isinstance(model, Graded):
        document, tensors = files.parts(model.model.with_joint(model.model.joint.with_alpha(1.0)))
        described = {"alpha": encode(model.alpha), "prior": encode(dict(model.prior)), "rule": asdict(model.rule)}
        described |= limit_parts(model.limit)
        if isinstance(model.words, Buckets):
            tensors["words.buckets"], described["n_features"] = model.words.buckets(), model.words.n_features
        elif isinstance(model.words, Vocabulary):
            tensors["words.bytes"], tensors["words.ends"] = model.words.buffers()
        return {**document, "text": described}, tensors
    sums = model.sums
    tensors = {"weight": np.ascontiguousarray(sums.weight), **lexicon_parts(sums.lexicon)}
    if sums.common is not None:
        tensors |= common_parts(sums.common)
        # It takes longest to derive. A model of few documents is a part to be added to another, and does not predict.
        if model.weight.sum() >= MIN_DOCUMENTS and (gaussians := model.gaussians()) is not None:
            tensors["common.solved"] = np.stack([gaussian.solved for gaussian in gaussians.parts])
    for block, cells in sums.cells.items():
        tensors |= {f"{block}.ptr": cells.ptr, f"{block}.cls": cells.cls, f"{block}.val": cells.val}
    document = {
        "classes": encode(sums.classes),
        "closed": sums.closed,
        "class_prior": encode(model.class_prior),
        "graded": {
            "blocks": list(sums.blocks),
            "mass": sums.mass,
            "prior": encode(dict(model.prior)),
            "common": sums.common is not None,
            "rule": asdict(model.rule),
            **limit_parts(sums.limit),
        },
    }
    if model.n_features is not None:
        document["graded"]["n_features"] = model.n_features
    if model.choice is not None:
        left_out = model.choice.left_out
        ridges = len(model.choice.ridges)
        document["choice"] = {
            "classes": encode(model.choice.classes),
            "left_out": left_out_kind(left_out),
            "ridges": ridges,
            "importance": encode(packed(model.choice.importance)),
        }
        tensors |= {"choice.weights": model.choice.pool.weights, "choice.offsets": model.choice.pool.offsets}
        tensors |= {"choice.factors": model.choice.factors, "choice.ridges": model.choice.ridges}
        tensors["choice.strengths"] = np.stack([model.choice.strengths[block] for block in sums.blocks])
        tensors |= {f"choice.{name}": array for name, array in left_out_parts(left_out).items()}
    return document, {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def limit_parts(limit: Limit) -> dict[str, Any]:
    return {"max_items": limit.most, "lost": dict(limit.lost), "dropped": limit.dropped}


def lexicon_parts(lexicon: Items, before: str = "") -> dict[str, Array]:
    if isinstance(lexicon, HashedLexicon):
        return {f"{before}{block}.buckets": mine.buckets() for block, mine in lexicon.sets.items()}
    assert isinstance(lexicon, Lexicon)
    tensors: dict[str, Array] = {}
    for block in ("words", "characters"):
        bytes_, ends = getattr(lexicon, block).buffers()
        tensors |= {f"{before}{block}.bytes": bytes_, f"{before}{block}.ends": ends}
    for block in (*PAIRED, "repeats"):
        first, second = getattr(lexicon, block).arrays()
        tensors |= {f"{before}{block}.first": first, f"{before}{block}.second": second}
    return tensors


def common_parts(common: CommonItems) -> dict[str, Array]:
    """The items that are modelled jointly, and their sums; of the symmetric products, one half."""
    tensors: dict[str, Array] = {"block": common.block, "number": common.number}
    if common.summed.base is None:  # few documents: they take less room than their sums
        tensors |= row_parts(common.summed.rows)
    else:
        half = common.products[np.tril_indices(common.size)]
        tensors |= {"by_class": common.by_class, "products": half}
    return {f"common.{name}": array for name, array in tensors.items()} | lexicon_parts(common.items, "common.")


def row_parts(rows: tuple[Update, ...]) -> dict[str, Array]:
    """Documents as the items that they have, one after another."""
    ends = np.cumsum([len(row.at) for row in rows], dtype=np.int64)
    at = np.concatenate([np.zeros(0, np.int32), *(row.at for row in rows)]).astype(np.int32)
    x = np.concatenate([np.zeros(0), *(row.x for row in rows)])
    weight, code = np.array([row.weight for row in rows]), np.array([row.code for row in rows], dtype=np.int32)
    return {"rows.ends": ends, "rows.at": at, "rows.x": x, "rows.weight": weight, "rows.code": code}


def read_rows(own: Mapping[str, Array], d: int, k: int) -> tuple[Update, ...]:
    """The inverse of `row_parts`: of each document, x from 0 to 1 of distinct items."""
    ends, at, code = (
        of_kind(own, name, kind)
        for name, kind in (("rows.ends", np.int64), ("rows.at", np.int32), ("rows.code", np.int32))
    )
    n = len(ends)
    x, weight = checked(own, "rows.x", (len(at),)), checked(own, "rows.weight", (n,))
    firsts = np.concatenate([np.zeros(1, np.int64), ends])
    if (np.diff(firsts) < 0).any() or firsts[-1] != len(at) or len(code) != n or n > PENDING_PRODUCTS:
        raise FileError("the number of documents of the items that it models jointly is wrong")
    if ((at < 0) | (at >= d)).any() or ((x < 0) | (x > 1)).any() or ((code < 0) | (code >= k)).any():
        raise FileError("a document of the items that it models jointly has an item or a class that is unknown")
    rows = tuple(
        Update(at[a:b], x[a:b], float(w), int(c))
        for a, b, w, c in zip(firsts[:-1], ends, weight, code.tolist(), strict=True)
    )
    if (weight <= 0).any() or any(len(np.unique(row.at)) < len(row.at) for row in rows):
        raise FileError("a document of the items that it models jointly has an item twice, or no weight")
    return rows


def rebuild(document: Mapping[str, Any], tensors: Mapping[str, Array]) -> Graded | Plain:
    """The inverse of `parts`."""
    if "text" in document:
        from deciban.families import Bernoulli, Complement, Multinomial  # here, since few models are plain
        from deciban.text.plain import Plain

        model, n_features = files.rebuild(document, tensors), read_n_features(document["text"])
        words = read_words(tensors, "words") if n_features is None else read_buckets(tensors, "words", n_features)
        if [block.family for block in model.joint.blocks] not in [[Multinomial()], [Bernoulli()], [Complement()]]:
            raise FileError("its family is not one of texts")
        if len(words) != model.columns().size:
            raise FileError(f"it has {len(words)} words, but sums of {model.columns().size}")
        alpha = checked_alpha(decode(document["text"]["alpha"]), len(model.classes), len(words))
        prior, rule = read_prior(document["text"]["prior"], words), read_rule(document["text"])
        limit = read_limit(document["text"], ("words",))._replace(lasting=tuple(prior))
        return Plain(words, model, alpha, prior, rule, limit=limit)._with_pseudo_counts()
    classes, about = checked_classes(document["classes"]), document["graded"]
    k, blocks = len(classes), tuple(about["blocks"])
    if "words" not in blocks or [block for block in BLOCKS if block in blocks] != list(blocks):
        raise FileError(f"its blocks {blocks} are unknown")
    weight = checked(tensors, "weight", (k,))
    if (weight < 0).any():
        raise FileError("a class has a negative weight")
    n_features, rule = read_n_features(about), read_rule(about)
    lexicon = read_items(tensors, n_features, rule, "common" in about)
    cells = {block: read_cells(tensors, block, lexicon.size(block), k) for block in blocks}
    mass = {block: float(about["mass"][block]) for block in blocks}
    if not all(0 <= amount < np.inf for amount in mass.values()):
        raise FileError("the amount of a block is not a number ≥ 0")
    choice = read_choice(document, tensors, blocks)
    ridges = NO_RIDGES if choice is None else choice.ridges
    common = read_common(tensors, n_features, rule, weight, ridges) if flag(about.get("common", False)) else None
    class_prior = files.checked_prior(decode(document["class_prior"]), k)
    prior = read_prior(about["prior"], lexicon)
    limit = read_limit(about, blocks)._replace(lasting=tuple(prior))
    sums = TextSums(classes, weight, Flat(lexicon, cells), mass, flag(document["closed"]), common, limit)
    return Graded(sums, choice, prior, class_prior)


def read_limit(document: Mapping[str, Any], blocks: tuple[str, ...]) -> Limit:
    """How many items there may be, and what was dropped; older files do not have it."""
    most, lost, dropped = document.get("max_items", MAX_ITEMS), document.get("lost", {}), document.get("dropped", 0)
    if not (most is None or (type(most) is int and most >= 1)) or type(dropped) is not int or dropped < 0:
        raise FileError("the number of its items has no limit that is known")
    if not isinstance(lost, dict) or not all(b in blocks and 0 < float(n) < np.inf for b, n in lost.items()):
        raise FileError("what it has dropped is not by block")
    return Limit(most, (), tuple((block, float(lost[block])) for block in blocks if block in lost), dropped)


def read_rule(document: Mapping[str, Any]) -> TokenRule:
    """How texts are cut; older files do not have it."""
    if "rule" not in document:
        return BY_SPACES
    return TokenRule(flag(document["rule"]["scripts"]), flag(document["rule"]["normalise"]))


def read_lexicon(tensors: Mapping[str, Array], rule: TokenRule, repeats: bool) -> Lexicon:
    lexicon = Lexicon(read_words(tensors, "words"), characters=read_words(tensors, "characters"), rule=rule)
    if not len(lexicon.words) or lexicon.words.strings(np.zeros(1, dtype=np.int32)) != [""]:
        raise FileError("its first word is not the mark of a text's ends")
    for block in PAIRED:
        setattr(lexicon, block, read_pairs(tensors, block, len(lexicon.words)))
    if repeats:
        lexicon.repeats = read_pairs(tensors, "repeats", len(lexicon.words), REPEAT_TIMES)
    return lexicon


def read_items(tensors: Mapping[str, Array], n_features: int | None, rule: TokenRule, repeats: bool = True) -> Items:
    """A set of items; older files have no repeats."""
    if n_features is None:
        return read_lexicon(tensors, rule, repeats)
    known = [block for block in BLOCKS if repeats or block != "repeats"]
    sets = {block: read_buckets(tensors, block, n_features) for block in known}
    return HashedLexicon({block: sets.get(block, Buckets(n_features)) for block in BLOCKS}, rule)


def read_common(
    tensors: Mapping[str, Array], n_features: int | None, rule: TokenRule, weight: Array, ridges: Array
) -> CommonItems:
    """The items that are modelled jointly: x is from 0 to 1, which bounds all its sums."""
    own = part(tensors, "common.")
    items = read_items(own, n_features, rule)
    block, number = of_kind(own, "block", np.int32), of_kind(own, "number", np.int32)
    d, k = len(block), len(weight)
    if len(number) != d or not 0 < d <= MOST_COMMON or not np.isin(block, [BLOCKS.index(b) for b in COMMON]).all():
        raise FileError("the items that it models jointly are unknown")
    sizes = np.array([items.size(b) for b in BLOCKS])
    if not ((number >= 0) & (number < sizes[block])).all() or len(np.unique(np.stack([block, number]), axis=1).T) < d:
        raise FileError("the items that it models jointly are not distinct")
    more = 1.0 + 1e-9
    if "rows.ends" in own:
        rows = read_rows(own, d, k)
        by_class = np.zeros((k, d))
        for row in rows:
            by_class[row.code, row.at] += row.weight * row.x
        if (by_class > weight[:, None] * more).any():
            raise FileError("the sums of the items that it models jointly do not match its documents")
        return CommonItems(items, block, number, by_class, ItemProducts(None, rows, d))
    by_class, half = checked(own, "by_class", (k, d)), checked(own, "products", (d * (d + 1) // 2,))
    products = np.empty((d, d))
    if (by_class < 0).any() or (by_class > weight[:, None] * more).any():
        raise FileError("the sums of the items that it models jointly do not match its documents")
    if not kernel.unpack(half, products, more) or (np.diagonal(products) > weight.sum() * more).any():
        raise FileError("the products of the items that it models jointly do not match its documents")
    common = restored(items, block, number, by_class, products)
    if "solved" in own and len(ridges):  # used only if it solves the system: see System.solved
        solved = checked(own, "solved", (len(ridges), d, k))
        common.known.update({float(r): SolvedSystem(solution=one) for r, one in zip(ridges, solved, strict=True)})
    return common


def read_n_features(document: dict[str, Any]) -> int | None:
    n_features = document.get("n_features")
    if n_features is not None and (type(n_features) is not int or not 1 <= n_features <= MAX_BUCKETS):
        raise FileError(f"its n_features is {n_features!r}, not a number of buckets")
    return n_features


def read_buckets(tensors: Mapping[str, Array], block: str, n_features: int) -> Buckets:
    numbers = of_kind(tensors, f"{block}.buckets", np.int32)
    if len(numbers) and not (0 <= numbers.min() and numbers.max() < n_features):
        raise FileError(f"the buckets of its {block} are not among the {n_features} there are")
    buckets = Buckets(n_features, PairVocabulary(np.zeros(len(numbers), dtype=np.int32), numbers))
    if len(buckets) != len(numbers):
        raise FileError(f"the buckets of its {block} are not distinct")
    return buckets


def read_prior(encoded: Any, words: Vocabulary | Buckets | Items) -> dict[str, Any]:
    """Pseudo-counts by word, checked: numbers ≥ 0, of words that the model has."""
    prior = decode(encoded)
    if not isinstance(prior, dict) or not all(isinstance(word, str) for word in prior):
        raise FileError("its pseudo-counts are not by word")
    for amounts in prior.values():
        numbers = list(amounts.values()) if isinstance(amounts, dict) else [amounts]
        if not all(isinstance(n, int | float) and 0 <= n < np.inf for n in numbers):
            raise FileError("its pseudo-counts are not numbers ≥ 0")
    if len(prior) and words.find(prior).min() < 0:
        raise FileError("its pseudo-counts are for words that it does not have")
    return prior


def read_choice(
    document: Mapping[str, Any], tensors: Mapping[str, Array], blocks: tuple[str, ...]
) -> TextChoice | None:
    if "choice" not in document:
        return None
    classes = checked_classes(document["choice"]["classes"])
    strengths = checked(tensors, "choice.strengths", (len(blocks), len(STRENGTHS)))
    known = document["choice"].get("ridges")  # None: an older file, which has no factors either
    if known not in (None, 0, len(RIDGES)):
        raise FileError(f"it has {known} ridges, and not {len(RIDGES)}")
    ridges = checked(tensors, "choice.ridges", (known or 0,)) if known is not None else NO_RIDGES
    weights = checked(tensors, "choice.weights", (len(blocks) * len(STRENGTHS) * VECTORS + len(ridges),))
    if (weights < 0).any() or not (strengths > 0).all():
        raise FileError("its reliabilities or strengths are negative")
    if not (ridges > 0).all():
        raise FileError("its ridges are not numbers > 0")
    offsets = checked(tensors, "choice.offsets", (len(classes),))
    factors = np.ones(len(classes)) if known is None else checked(tensors, "choice.factors", (len(classes),))
    if not (factors > 0).all() or len(np.unique(factors)) > MAX_CLASS_FACTORS:
        raise FileError("its factors of pseudo-counts are not a few numbers > 0")
    left_out = read_left_out(document["choice"].get("left_out"), part(tensors, "choice."), len(weights), len(classes))
    held = dict(zip(blocks, strengths, strict=True)), factors, ridges
    found = unpacked(decode(document["choice"].get("importance")))
    return TextChoice(*held, Pool(weights, offsets), classes, left_out, importance=found)


def read_words(tensors: Mapping[str, Array], block: str) -> Vocabulary:
    n_bytes, n_ends = (math.prod(described(tensors, f"{block}.{piece}")[1]) for piece in ("bytes", "ends"))
    if n_ends > n_bytes + 2:  # one end more than words, and one word may be empty
        raise FileError(f"its {block} are not distinct")
    return Vocabulary.from_buffers(
        of_kind(tensors, f"{block}.bytes", np.uint8), of_kind(tensors, f"{block}.ends", np.int64)
    )


def read_pairs(
    tensors: Mapping[str, Array], block: str, words: int, times: tuple[int, ...] | None = None
) -> PairVocabulary:
    """Pairs of words; or of a word and one of these numbers."""
    first, second = (of_kind(tensors, f"{block}.{side}", np.int32) for side in ("first", "second"))
    sides = (first, second) if times is None else (first,)
    if first.shape != second.shape or any(len(a) and not (0 <= a.min() and a.max() < words) for a in sides):
        raise FileError(f"its {block} are not pairs of its words")
    if times is not None and not np.isin(second, times).all():
        raise FileError(f"its {block} come neither {', '.join(map(str, times))} times")
    pairs = PairVocabulary(first, second)
    if len(pairs) != len(first):
        raise FileError(f"its {block} are not distinct")
    return pairs


def read_cells(tensors: Mapping[str, Array], block: str, size: int, k: int) -> ItemSums:
    if described(tensors, f"{block}.ptr")[1] != (size + 1,):
        raise FileError(f"the sums of its {block} do not fit their number")
    ptr, cls = of_kind(tensors, f"{block}.ptr", np.int64), of_kind(tensors, f"{block}.cls", np.int32)
    val = checked(tensors, f"{block}.val", (len(cls),))
    if ptr[0] != 0 or ptr[-1] != len(cls) or (np.diff(ptr) < 0).any():
        raise FileError(f"the sums of its {block} do not fit their number")
    rising = np.diff(cls, prepend=-1) > 0
    rising[ptr[:-1][np.diff(ptr) > 0]] = True
    if len(cls) and (not rising.all() or cls.min() < 0 or cls.max() >= k or not (val > 0).all()):
        raise FileError(f"the sums of its {block} are not sorted, or not positive")
    return ItemSums(ptr, cls, val)


def of_kind(tensors: Mapping[str, Array], name: str, kind: Any) -> Array:
    dtype, shape = described(tensors, name)
    if dtype != kind or len(shape) != 1:
        raise FileError(f"{name} is {dtype}{shape}, expected a row of {np.dtype(kind)}")
    return tensors[name]
