"""The importance of words: their evidence in many documents at once, on the scale of explanations.

Pairs and gaps are shared equally by their two words, and a run of characters by the words that it is in, as in
`explain`; there, however, a word that occurs twice has two shares of such a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.corollaries.importance import (
    MAX_NATS,
    PRESENT,
    ROWS_PER_ROW_OUT,
    ColumnValues,
    ComparedEvidence,
    folds_out,
    largest_classes,
    learned_classes,
    rivals,
)
from deciban.corollaries.importance import importance as of_rows
from deciban.results.evidence import ABSENT, CORRECTION
from deciban.results.importance import NEW_ROWS, ROWS_LEFT_OUT, Importance
from deciban.text.common import RidgeGaussians
from deciban.text.documents import Texts
from deciban.text.item_names import item_name
from deciban.text.items import BLOCKS, PAIRED, Lexicon, Rows
from deciban.text.kept import smallest
from deciban.text.log_odds import LogOdds
from deciban.text.sums import damped, narrowed, some_rows, stacked, sums_of
from deciban.text.tables import KNOTS

if TYPE_CHECKING:
    from deciban.text.graded import Graded

MIN_DOCUMENTS_AT_FIT, MAX_DOCUMENTS_AT_FIT = 200, 400  # on which importance is computed while fitting
MAX_WORK_AT_FIT = 5e6  # above which there are fewer: items times classes,
CLASSES_OF_WORK = 8  # where an item costs as much as this many more classes
CHARACTERS_PER_WORD = 6
TOLERANCE = 1e-2  # relative, of the Gaussian of common items without some documents: enough for an average


class ItemEntries(NamedTuple):
    """Evidence of items in documents, nats, (entries, columns): see `ComparedClasses`."""

    document: Array
    item: Array
    nats: Floats


class ComparedClasses(NamedTuple):
    """The classes whose evidence is needed: of each document, and last the mean of those that were learned."""

    of_document: Array  # (n, c) its own, the most probable other, and the largest
    learned: Array  # (k,) bool

    @classmethod
    def of(cls, scores: Floats, y: Codes, class_weight: Floats) -> ComparedClasses:
        largest = np.tile(largest_classes(class_weight), (len(y), 1))
        return cls(np.column_stack([y, rivals(scores, y), largest]), learned_classes(class_weight))

    def take(self, values: Floats, at: Array) -> Floats:
        """Of values by class, (k,), those of documents `at`, (at, c + 1)."""
        mean = np.full((len(at), 1), values[self.learned].mean())
        return np.hstack([values[self.of_document[at]], mean])


def importance(model: Graded, texts: Texts, y: Codes, weight: Floats | None, learned: bool) -> Importance | None:
    """The importance of every word on these documents; `learned`: they are taken out of the sums."""
    spelled = Spelled.of(model, texts)
    n, usable, entries = len(texts), np.zeros(len(texts), dtype=bool), list[ItemEntries]()
    parts = folds_out(n, float(model.weight.sum())) if learned else iter([np.arange(n)])
    for at in parts:
        rows = {block: some_rows(mine, at) for block, mine in spelled.numbers.items()}
        part = without(model, rows, y[at], None if weight is None else weight[at]) if learned else model
        if (part.weight > 0).sum() < 2:
            continue
        scores = part.pooled_rows(rows, 1)
        usable[at] = part.weight[y[at]] > 0
        classes = ComparedClasses.of(scores, y[at], model.weight)
        entries += [replace_documents(mine, at) for mine in spelled.by_word(part, rows, at, classes)]
    use = np.flatnonzero(usable)
    if not len(use):
        return None
    found = added_up(entries, len(spelled.names))
    keep = usable[found.document]
    row = np.searchsorted(use, found.document[keep])
    nats = np.clip(found.nats[keep, :-1] - found.nats[keep, -1:], -MAX_NATS, MAX_NATS)
    columns = np.arange(nats.shape[1] - 2)
    evidence = ComparedEvidence(row, found.item[keep], nats[:, 0], nats[:, 1], nats[:, 2:], columns)

    def values_of(item: int, at: Array) -> ColumnValues | None:
        del at
        return PRESENT if item < spelled.first["rest"] else None  # no word

    w, how = None if weight is None else weight[use], ROWS_LEFT_OUT if learned else NEW_ROWS
    return of_rows(spelled.names, evidence, y[use], model.classes, model.weight, values_of, how, w, "word")


def at_fit(model: Graded, texts: Texts, y: Codes, weight: Floats | None) -> Importance | None:
    """The importance of words on some of the learned documents; None if words must not be stored.

    Which documents depends on what is in them, not on their order. Words of very few of them are left out.
    """
    if model.n_features is not None or len(model.classes) < 2:
        return None
    amount = np.ones(len(y)) if weight is None else weight
    usable = np.flatnonzero((y >= 0) & (amount > 0) & (model.weight[y] > amount * (1.0 + 1e-9)))
    strings = [texts.string(i) for i in usable.tolist()]
    some = usable[smallest(strings, documents_at_fit(model, strings))]
    if not len(some):
        return None
    codes = np.ascontiguousarray(y[some], dtype=np.int32)
    found = importance(model, texts.take(some), codes, None if weight is None else weight[some], True)
    return None if found is None else found.only([item.name for item in found.items if item.rows >= found.least_rows])


def documents_at_fit(model: Graded, strings: list[str]) -> int:
    """How many documents to take: fewer of long ones, and among many classes; and so few that all can leave the sums at
    once, where that is enough."""
    items = len(model.sums.blocks) * sum(map(len, strings)) / max(1, len(strings)) / CHARACTERS_PER_WORD
    work = MAX_WORK_AT_FIT / max(1.0, items * (len(model.classes) + CLASSES_OF_WORK))
    most = min(work, float(model.weight.sum()) / ROWS_PER_ROW_OUT)
    return int(np.clip(most, MIN_DOCUMENTS_AT_FIT, MAX_DOCUMENTS_AT_FIT))


def without(model: Graded, rows: dict[str, Rows], y: Codes, weight: Floats | None) -> Graded:
    """The model without learned documents; its items and choices stay."""
    some = sums_of(model.sums.lexicon, rows, y, model.classes, weight, model.sums.common)
    part = replace(model, sums=model.sums.less(some))
    if part.sums.common is not None and len(part.ridges()):
        gaussians = RidgeGaussians.of(part.sums.common, part.weight, part.ridges(), False, TOLERANCE)
        part._cache["gaussians"] = gaussians
    return part


def replace_documents(entries: ItemEntries, at: Array) -> ItemEntries:
    """The same with other numbers of documents."""
    return entries._replace(document=at[entries.document])


def added_up(entries: list[ItemEntries], items: int) -> ItemEntries:
    """One entry for each item of a document."""
    document, item, nats = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    keys, place = np.unique(document * items + item, return_inverse=True)
    total = np.stack([np.bincount(place, column, minlength=len(keys)) for column in nats.T], axis=1)
    return ItemEntries(keys // items, keys % items, np.asarray(total, dtype=np.float64))


# ------------------------------------------------------------------ evidence of items


def item_evidence(model: Graded, block: str, rows: Rows, classes: ComparedClasses) -> ItemEntries:
    """The evidence of the known items of documents: the terms of the model's score."""
    from deciban.text.views import hats

    which, (indptr, place) = narrowed(rows, model.sums.cells[block].size)
    cells = model.cells(block).take(which)
    some = np.flatnonzero(cells.known).astype(np.int32)
    of_known = np.full(len(which) + 1, -1)  # an unknown item is −1, the last
    of_known[some] = np.arange(len(some))
    document = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    known = of_known[place]
    document, known = document[known >= 0], known[known >= 0]
    weights, n = model.effective_choice.weights(block), len(indptr) - 1
    used = np.flatnonzero(weights.any(axis=1))  # strengths
    if not len(known) or not len(used):
        return ItemEntries(document[:0], known[:0], np.zeros((0, classes.of_document.shape[1] + 1)))
    weights, found = weights[used], LogOdds.of(cells.take(some), model.strengths()[block][used], model.shares())
    kappa, mean = found.kappa, found.mean(classes.learned)[known]
    log_odds = np.concatenate([found.at(known, classes.of_document[document]), mean[..., None]], axis=2)
    mine = kappa[known]
    total, square = (np.stack([np.bincount(document, c, minlength=n) for c in x.T], axis=1) for x in (mine, mine**2))
    belief = np.einsum("isg,sg->is", hats(kappa), weights[:, : len(KNOTS)])[known] / np.sqrt(total)[document]
    belief += weights[:, -2] * damped(rows)[document, None]
    belief += weights[:, -1] * mine / np.sqrt(square)[document]
    return ItemEntries(document, which[some][known], np.einsum("is,isc->ic", belief, log_odds))


def common_evidence(
    model: Graded, rows: dict[str, Rows], classes: ComparedClasses
) -> tuple[dict[str, ItemEntries], ItemEntries]:
    """The evidence of the jointly modelled items, by block, and of the absence of the others."""
    sums, gaussians, columns = model.sums, model.gaussians(), classes.of_document.shape[1] + 1
    nothing = ItemEntries(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros((0, columns)))
    if sums.common is None or gaussians is None or not model.effective_choice.ridge_weights.any():
        return {}, nothing
    vectors, places = model.item_vectors(rows), sums.lexicon.places(sums.common.items)
    document = np.repeat(np.arange(len(vectors.indptr) - 1), np.diff(vectors.indptr))
    nats, constants, at = np.zeros((len(vectors.at), columns)), np.zeros(len(model.classes)), vectors.at[:, None]
    for weight, gaussian in zip(model.effective_choice.ridge_weights.tolist(), gaussians.parts, strict=True):
        slope, constant = gaussian.weights()
        mean = slope[:, classes.learned].mean(axis=1)[at]
        nats += weight * vectors.x[:, None] * np.hstack([slope[at, classes.of_document[document]], mean])
        constants += weight * constant
    out = {}
    for b in np.unique(sums.common.block[vectors.at]).tolist():
        mine = np.flatnonzero(sums.common.block[vectors.at] == b)
        number = places[BLOCKS[b]][sums.common.number[vectors.at[mine]]]
        out[BLOCKS[b]] = ItemEntries(document[mine], number, nats[mine])
    some = np.unique(document)
    return out, ItemEntries(some, np.zeros(len(some), dtype=np.intp), classes.take(constants, some))


# ------------------------------------------------------------------ from items to words


class Spelled(NamedTuple):
    """Documents as rows of a lexicon of their own, which has the strings, and as the model numbers their items."""

    lexicon: Lexicon
    rows: dict[str, Rows]
    place: dict[str, Codes]  # the model's number of each item of the lexicon
    numbers: dict[str, Rows]  # the documents as the model numbers them
    names: list[str]  # of words, then of header fields, of runs in no word, and of what belongs to no item
    first: dict[str, int]  # where the names of a block start

    @classmethod
    def of(cls, model: Graded, texts: Texts) -> Spelled:
        lexicon, known, blocks = Lexicon(rule=model.rule), model.sums.lexicon, model.sums.blocks
        pieces = list(model._numbered(texts.batches(), 1))
        order = np.concatenate([at for at, _ in pieces])
        by_place = np.argsort(order)
        numbers = {block: some_rows(stacked([rows[block] for _, rows in pieces]), by_place) for block in blocks}
        parts = [lexicon.read(documents, 0, len(documents), blocks) for documents in texts.batches()]
        rows = {block: stacked([part[block] for part in parts]) for block in blocks}
        place = known.placed(lexicon, blocks)
        names, first = lexicon.words.strings(), {"words": 0}
        for block in ("headers", "characters"):
            first[block] = len(names)
            if block in blocks:
                names += [item_name(block, parts) for parts in lexicon.parts(block)]
        first["rest"] = len(names)
        return cls(lexicon, rows, place, numbers, [*names, CORRECTION, ABSENT], first)

    def by_word(
        self, model: Graded, rows: dict[str, Rows], at: Array, classes: ComparedClasses
    ) -> Iterator[ItemEntries]:
        """The evidence of documents `at`, whose rows are given, by word and what else has a name."""
        documents, offsets = np.arange(len(at)), model.effective_choice.pool.offsets
        yield ItemEntries(documents, np.full(len(at), self.first["rest"]), classes.take(offsets, documents))
        common, absent = common_evidence(model, rows, classes)
        yield absent._replace(item=absent.item + self.first["rest"] + 1)
        for block in model.sums.blocks:
            own, found = some_rows(self.rows[block], at), [item_evidence(model, block, rows[block], classes)]
            found += [common[block]] if block in common else []
            found = [self._spelled(block, own, entries) for entries in found]
            if block == "characters":
                yield from self._of_characters(found, some_rows(self.rows["words"], at))
            else:
                for entries in found:
                    yield from self._shared(block, entries)

    def _spelled(self, block: str, own: Rows, entries: ItemEntries) -> ItemEntries:
        """ItemEntries by the numbers of this lexicon; items in one bucket share them equally."""
        document, item = np.repeat(np.arange(len(own[0]) - 1), np.diff(own[0])), own[1]
        size = int(max(self.place[block].max(initial=0), entries.item.max(initial=0))) + 2
        keys, asked = document * size + self.place[block][item] + 1, entries.document * size + entries.item + 1
        return shared_by(keys, document, item, asked, entries.nats)

    def _shared(self, block: str, entries: ItemEntries) -> Iterator[ItemEntries]:
        """ItemEntries of items as entries of the words that they are made of."""
        if block == "words":
            yield entries
        elif block == "headers":
            yield entries._replace(item=entries.item + self.first["headers"])
        elif block == "repeats":
            yield entries._replace(item=self.lexicon.repeats.arrays()[0][entries.item])
        else:
            assert block in PAIRED
            pair = [numbers[entries.item] for numbers in getattr(self.lexicon, block).arrays()]
            both = (pair[0] > 0) & (pair[1] > 0)  # word 0 is the start or the end of a text
            for own in pair:
                mine = np.flatnonzero(own > 0)
                share = np.where(both, 0.5, 1.0)[mine, None]
                yield ItemEntries(entries.document[mine], own[mine], share * entries.nats[mine])

    def _of_characters(self, found: list[ItemEntries], words: Rows) -> Iterator[ItemEntries]:
        """The same of runs of characters."""
        self.lexicon.spell()
        runs, begin = self.lexicon.spelled
        sizes = np.diff(begin)[words[1]]
        document = np.repeat(np.repeat(np.arange(len(words[0]) - 1), np.diff(words[0])), sizes)
        word = np.repeat(words[1], sizes)
        start = np.repeat(begin[:-1][words[1]], sizes)
        run = runs[start + np.arange(len(start)) - np.repeat(np.cumsum(sizes) - sizes, sizes)]
        size, n_words = len(self.lexicon.characters) + 1, len(self.lexicon.words) + 1
        distinct = np.unique((document.astype(np.int64) * size + run) * n_words + word)  # a run may be in a word twice
        keys, word = np.divmod(distinct, n_words)
        for entries in found:
            asked = entries.document * size + entries.item
            yield shared_by(keys, keys // size, word, asked, entries.nats)
            known = keys[np.minimum(np.searchsorted(keys, asked), len(keys) - 1)] == asked if len(keys) else asked < 0
            alone = np.flatnonzero(~known)  # in no word, as in scripts without spaces
            of_own = entries.item[alone] + self.first["characters"]
            yield ItemEntries(entries.document[alone], of_own, entries.nats[alone])


def shared_by(keys: Array, document: Array, item: Array, asked: Array, nats: Floats) -> ItemEntries:
    """The values requested by key, shared equally by the items with that key."""
    if not len(asked):
        return ItemEntries(document[:0], item[:0], nats)
    order = np.argsort(asked, kind="stable")
    at = np.minimum(np.searchsorted(asked[order], keys), len(asked) - 1)
    found = np.flatnonzero(asked[order][at] == keys)
    source = order[at[found]]
    shares = np.bincount(source, minlength=len(asked))
    return ItemEntries(document[found], item[found], nats[source] / shares[source, None])
