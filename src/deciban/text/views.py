"""Explanations, strongest words and samples of a graded model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deciban._typing import Array, Floats
from deciban.bayes import DECIBANS, log_evidence
from deciban.corollaries.explain import compared_classes
from deciban.results.evidence import ABSENT, CORRECTION, Evidence
from deciban.show import plain
from deciban.text.common import presence
from deciban.text.evidence import TextEvidence, with_text
from deciban.text.hashed import check_words_are_kept
from deciban.text.item_names import item_name
from deciban.text.items import Rows
from deciban.text.raw import Documents
from deciban.text.shares import ItemEvidence, TokensOfText
from deciban.text.sums import DAMPING, damped, narrowed
from deciban.text.tables import KNOTS, MAX_KNOWLEDGE, MIN_KNOWLEDGE, STRENGTHS, Tables
from deciban.text.tokens import MIXED_SCRIPTS

if TYPE_CHECKING:
    from deciban.text.graded import Graded


def evidence(table: Tables, items: Array, strengths: Array | slice = slice(None)) -> tuple[Floats, Floats]:
    """λ of these items for every class, and κ, for all strengths or some: (items, strengths, k), (items, strengths)."""
    m, (share, _, entropy, factor) = table.strength[: len(STRENGTHS), None][strengths], table.shares
    counts = np.zeros((len(items), len(share)))
    first, sizes = table.cells.ptr[items], table.cells.ptr[items + 1] - table.cells.ptr[items]
    row = np.repeat(np.arange(len(items)), sizes)
    cell = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(row))
    counts[row, table.cells.cls[cell]] = table.cells.val[cell]
    there, pseudo = share > 0, m * (factor * share)
    seen = counts[:, None] + pseudo
    by_chance = counts.sum(axis=1)[:, None, None] * share + pseudo
    log_odds = np.log(np.where(there, seen, 1.0)) - np.log(np.where(there, by_chance, 1.0))
    known = (seen * log_odds).sum(axis=2) / seen.sum(axis=2)
    return log_odds, np.clip(known / entropy[-1], MIN_KNOWLEDGE, MAX_KNOWLEDGE)


def hats(kappa: Floats) -> Floats:
    """The share of each item at each knot of log κ, (…, knots): linear between knots, flat beyond the ends."""
    at = np.clip(np.log(kappa), KNOTS[0], KNOTS[-1])
    g = np.clip(np.searchsorted(KNOTS, at, side="left") - 1, 0, len(KNOTS) - 2)
    upper = (at - KNOTS[g]) / (KNOTS[g + 1] - KNOTS[g])
    out = np.zeros((*kappa.shape, len(KNOTS)))
    np.put_along_axis(out, g[..., None], 1.0 - upper[..., None], axis=-1)
    np.put_along_axis(out, g[..., None] + 1, upper[..., None], axis=-1)
    return out


def item_log_odds(
    model: Graded, rows: dict[str, Rows], target: int, against: int
) -> tuple[list[tuple[str, Array, Floats]], float]:
    """By block, the known items of one document and the log-odds that each adds: the terms of the model's score. And
    the log-odds of the absence of other items that are modelled jointly; 0 for a document that has none of these."""
    gaussians, joint_weights = model.gaussians(), model.effective_choice.ridge_weights
    columns, slopes, absent, any_joint = {}, np.zeros(0), 0.0, False
    if gaussians is not None and joint_weights.any():
        columns = model.common_columns()
        for weight, gaussian in zip(joint_weights.tolist(), gaussians.parts, strict=True):
            slope, constant = gaussian.weights()
            slopes = weight * (slope[:, target] - slope[:, against]) + (slopes if len(slopes) else 0.0)
            absent += weight * float(constant[target] - constant[against])
    out = []
    for block in model.sums.blocks:
        which, log_odds = graded_log_odds(model, block, rows[block], target, against)
        if block in columns and len(which):
            column = columns[block][which]
            own = np.flatnonzero(column >= 0)
            log_odds[own] += presence(rows[block])[0] * slopes[column[own]]
            any_joint = any_joint or len(own) > 0
        out.append((block, which, log_odds))
    return out, absent if any_joint else 0.0


def graded_log_odds(model: Graded, block: str, rows: Rows, target: int, against: int) -> tuple[Array, Floats]:
    """The known items of one document, and the log-odds that each adds on its own."""
    which = narrowed(rows, model.sums.cells[block].size)[0]
    table = model.table(block, which, 1)
    items = np.flatnonzero(np.diff(table.cells.ptr) > 0)
    if not len(items):
        return which[items], np.zeros(0)
    log_odds, kappa = evidence(table, items)
    weights = model.effective_choice.weights(block)
    graded = np.einsum("isg,sg->is", hats(kappa), weights[:, : len(KNOTS)]) / np.sqrt(kappa.sum(axis=0))
    alike = weights[:, -2] * float(damped(rows)[0])
    weighed = weights[:, -1] * kappa / np.sqrt((kappa**2).sum(axis=0))
    belief = graded + alike + weighed
    return which[items], (belief * (log_odds[..., target] - log_odds[..., against])).sum(axis=1)


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
    """One document's evidence for a class over another, by word or by item; without classes, for the most probable
    over the second."""
    target, against = compared_classes(log_joint, model.classes, target, against)
    offsets, prior = model.effective_choice.pool.offsets, model.log_prior
    others = [(CORRECTION, "", float((offsets[target] - offsets[against]) * DECIBANS))]
    blocks, absent = item_log_odds(model, rows, target, against)
    if absent:
        others.append((ABSENT, "", absent * DECIBANS))
    document, items = Documents([text], lower), []
    for block, which, log_odds in blocks:
        spellings = model.sums.lexicon.spellings(block, which.astype(np.int32), document)
        decibans = (log_odds * DECIBANS).tolist()
        items += [ItemEvidence(block, several, db) for several, db in zip(spellings, decibans, strict=True)]
    same = prior[target] == prior[against]  # both may be ruled out
    odds = 0.0 if same else float((prior[target] - prior[against]) * DECIBANS)
    probability = float(np.exp(log_joint[target] - log_evidence(log_joint[None])[0]))
    labels = model.classes
    evidence = Evidence(plain(labels[target]), plain(labels[against]), odds, (), probability)
    return with_text(evidence, text, TokensOfText.of(text, lower, model.rule), items, others, by)


def strongest_items(
    model: Graded, rows: dict[str, Rows], document: Documents, target: int, against: int, most: int
) -> list[tuple[str, float]]:
    """The items of one document with the strongest evidence for a class over another, in decibans. Takes a fraction of
    the time of `explain`, since no other item is named, and no word of the text is found again."""
    strongest: list[tuple[float, str, int]] = []
    for block, which, log_odds in item_log_odds(model, rows, target, against)[0]:
        best = np.argsort(-np.abs(log_odds), kind="stable")[:most]
        strongest += [(float(log_odds[i] * DECIBANS), block, int(which[i])) for i in best]
    strongest.sort(key=lambda one: -abs(one[0]))
    out = []
    for decibans, block, item in strongest[:most]:
        (several,) = model.sums.lexicon.spellings(block, np.array([item], dtype=np.int32), document)
        out.append((" / ".join(item_name(block, parts) for parts in several), decibans))
    return out


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
