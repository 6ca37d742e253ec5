"""Explanations, strongest words and samples of a graded model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.bayes import DECIBANS, log_evidence
from deciban.corollaries.explain import compared_classes
from deciban.results.evidence import ABSENT, CORRECTION, Evidence
from deciban.show import plain
from deciban.text.common import amounts
from deciban.text.evidence import BlockEvidence, TextEvidence, with_items, with_text
from deciban.text.hashed import check_words_are_kept
from deciban.text.items import Lexicon, Rows
from deciban.text.raw import Documents
from deciban.text.shares import ReadText, TokensOfText
from deciban.text.sums import DAMPING, damped
from deciban.text.tables import KNOTS, STRENGTHS
from deciban.text.tokens import MIXED_SCRIPTS, TokenRule

if TYPE_CHECKING:
    from deciban.text.graded import Graded


def hats(kappa: Floats) -> Floats:
    """The share of each item at each knot of log κ, (…, knots): linear between knots, flat beyond the ends."""
    at = np.clip(np.log(kappa), KNOTS[0], KNOTS[-1])
    g = np.clip(np.searchsorted(KNOTS, at, side="left") - 1, 0, len(KNOTS) - 2)
    upper = (at - KNOTS[g]) / (KNOTS[g + 1] - KNOTS[g])
    out = np.zeros((*kappa.shape, len(KNOTS)))
    np.put_along_axis(out, g[..., None], 1.0 - upper[..., None], axis=-1)
    np.put_along_axis(out, g[..., None] + 1, upper[..., None], axis=-1)
    return out


class KnownItems(NamedTuple):
    """The known items of one document in a block, and the log-odds that each adds: terms of the model's score."""

    block: str
    items: Codes
    log_odds: Floats
    some_common: bool  # whether some are modelled jointly


def known_items(model: Graded, rows: dict[str, Rows], target: int, against: int) -> Iterator[KnownItems]:
    for block, scale, column, slopes in model.answers().blocks:
        items, some_common = rows[block][1], False
        cells = model.cells_as_numbered(block, items)
        log_odds = scale.terms(cells.ptr, cells.cls, cells.val, float(damped(rows[block])[0]), target, against)
        if slopes is not None:
            inside = np.flatnonzero((items >= 0) & (items < len(column)))
            at = column[items[inside]]
            inside, at = inside[at >= 0], at[at >= 0]
            log_odds[inside] += (slopes[at, target] - slopes[at, against]) * float(amounts(rows[block])[0])
            some_common = len(at) > 0
        yield KnownItems(block, items[cells.known], log_odds[cells.known], some_common)


def read_items(model: Graded, text: str, lower: bool) -> tuple[ReadText | None, Lexicon, dict[str, Array]]:
    """A text as read, if its words can be found again, the lexicon of its items, and which of them it has."""
    read = ReadText.of(text, lower, model.rule, model.sums.blocks)
    if read is not None:
        return read, read.lexicon, read.present()
    return None, *spelled(text, lower, model.rule, model.sums.blocks)


def explain(
    model: Graded,
    text: str,
    rows: dict[str, Rows],
    log_joint: Floats,
    target: int | None,
    against: int | None,
    lower: bool,
    by: str,
) -> TextEvidence:
    """One document's evidence for a class over another, by word or by item; without classes, for the most
    probable over the second. Its rows are numbered by the model's store."""
    target, against = compared_classes(log_joint, model.classes, target, against)
    offsets, prior = model.effective_choice.pool.offsets, model.log_prior
    others = [(CORRECTION, "", float((offsets[target] - offsets[against]) * DECIBANS))]
    joint, (read, lexicon, present) = model.joint_slopes(), read_items(model, text, lower)
    numbers, found, some_common = model.sums.store.placed(lexicon), [], False
    for mine in known_items(model, rows, target, against):
        places = entries(mine.items, numbers[mine.block], present[mine.block])
        found.append(BlockEvidence(mine.block, places, mine.log_odds * DECIBANS))
        some_common = some_common or mine.some_common
    if joint is not None and some_common and joint[1][target] != joint[1][against]:
        others.append((ABSENT, "", float((joint[1][target] - joint[1][against]) * DECIBANS)))
    same = prior[target] == prior[against]  # both may be ruled out
    odds = 0.0 if same else float((prior[target] - prior[against]) * DECIBANS)
    probability = float(np.exp(log_joint[target] - log_evidence(log_joint[None])[0]))
    labels = model.classes
    whole = Evidence(plain(labels[target]), plain(labels[against]), odds, (), probability)
    if read is not None:
        return with_items(whole, read, text, found, others, by)
    listed = [item for mine in found for item in mine.items(lexicon)]
    return with_text(whole, text, TokensOfText.of(text, lower, model.rule), listed, others, by)


def entries(items: Codes, numbers: Codes, present: Array) -> Array:
    """Where the items with these numbers are among `items`, −1 if they are not, or are not among those `present`."""
    order = np.argsort(items)
    ascending = np.append(items[order], -2)
    place = np.searchsorted(ascending[:-1], numbers)
    out = np.full(len(numbers), -1, dtype=np.intp)
    there = present[(ascending[place] == numbers)[present]]
    out[there] = order[place[there]]
    return out


def spelled(text: str, lower: bool, rule: TokenRule, blocks: Sequence[str]) -> tuple[Lexicon, dict[str, Array]]:
    """The items of a text with their strings, and by block the numbers of those that are in it."""
    lexicon = Lexicon(rule=rule)
    rows = lexicon.read(Documents([text], lower), 0, 1, blocks)
    return lexicon, {block: indices for block, (_, indices) in rows.items()}


def strongest_items(
    model: Graded, text: str, rows: dict[str, Rows], lower: bool, target: int, against: int, most: int
) -> list[tuple[str, float]]:
    """The items of one document with the strongest evidence for a class over another, in decibans; as by `explain`,
    but no other item is named."""
    _, lexicon, present = read_items(model, text, lower)
    numbers, strongest = model.sums.store.placed(lexicon), list[tuple[float, str, Codes]]()
    for mine in known_items(model, rows, target, against):
        places = entries(mine.items, numbers[mine.block], present[mine.block])
        for best in np.argsort(-np.abs(mine.log_odds), kind="stable")[:most].tolist():
            which = np.flatnonzero(places == best).astype(np.int32)  # several, if they share a number
            strongest.append((float(mine.log_odds[best] * DECIBANS), mine.block, which))
    strongest.sort(key=lambda one: -abs(one[0]))
    return [(" / ".join(lexicon.names(block, which)), decibans) for decibans, block, which in strongest[:most]]


def top_words(model: Graded, target: int, most: int) -> list[tuple[str, float]]:
    """The strongest words for a class against all others: 10·log₁₀ of the odds of the class among documents with the
    word over its odds if the word were uninformative, at the middle strength."""
    share, _, _, factor = model.shares()
    cells, m = model.cells("words"), float(model.strengths()["words"][len(STRENGTHS) // 2])
    total = cells.total()
    mine = cells.cls == target
    items = np.repeat(np.arange(cells.size), np.diff(cells.ptr))[mine]
    if not 0.0 < share[target] < 1.0:
        return []  # nothing learned of this class, or of any other
    pseudo = m * share * factor
    all_in_all = total[items] + pseudo.sum()
    p = (cells.val[mine] + pseudo[target]) / all_in_all
    by_chance = (total[items] * share[target] + pseudo[target]) / all_in_all
    db = (np.log(p) - np.log1p(-p) - np.log(by_chance) + np.log1p(-by_chance)) * DECIBANS
    best = np.lexsort((items, -db))[:most]
    names = model.sums.lexicon.names("words", items[best].astype(np.int32))
    return list(zip(names, db[best].tolist(), strict=True))


def sample(
    model: Graded, n: int, rng: np.random.Generator, given: int | None, length: int | None
) -> tuple[list[str], Array]:
    """Documents and their classes: distinct words of the class, drawn in proportion to their sums."""
    check_words_are_kept(model.n_features)
    prior = np.exp(model.log_prior)
    codes = np.full(n, given) if given is not None else rng.choice(len(prior), size=n, p=prior / prior.sum())
    cells = model.cells("words")
    items = np.repeat(np.arange(cells.size), np.diff(cells.ptr)).astype(np.int32)
    is_word = items != model.sums.lexicon.find([MIXED_SCRIPTS])[0]
    mass, total = float(model.sums.mass["words"]), float(model.sums.weight.sum())
    usual = (mass / total) ** (-1.0 / DAMPING) if mass > 0 else 0.0  # the length whose damping is the mean
    texts = []
    for c in codes:
        mine = np.flatnonzero((cells.cls == c) & is_word)
        size = min(len(mine), int(rng.poisson(usual)) if length is None else length)
        if not size:
            texts.append("")
            continue
        share = cells.val[mine] / cells.val[mine].sum()
        drawn = rng.choice(items[mine], size=size, replace=False, p=share)
        texts.append(" ".join(model.sums.lexicon.names("words", drawn.astype(np.int32))))
    return texts, codes
