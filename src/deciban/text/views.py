"""Explanations, strongest words and samples of a graded model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deciban._typing import Array, Floats
from deciban.bayes import DECIBANS, log_evidence
from deciban.corollaries.explain import compared_classes
from deciban.results.evidence import ABSENT, CORRECTION, Evidence
from deciban.show import plain
from deciban.text.evidence import TextEvidence, with_text
from deciban.text.hashed import check_words_are_kept
from deciban.text.items import BLOCKS, Rows
from deciban.text.log_odds import LogOdds
from deciban.text.raw import Documents
from deciban.text.shares import ItemEvidence, TokensOfText
from deciban.text.sums import DAMPING, damped, narrowed
from deciban.text.tables import KNOTS, STRENGTHS
from deciban.text.tokens import MIXED_SCRIPTS

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


def item_log_odds(model: Graded, block: str, rows: Rows, target: int, against: int) -> tuple[Array, Floats]:
    """The known items of one document, and the log-odds that each adds: the terms of the model's score."""
    which = narrowed(rows, model.sums.cells[block].size)[0]
    cells = model.cells(block).take(which)
    items = np.flatnonzero(np.diff(cells.ptr) > 0).astype(np.int32)
    if not len(items):
        return which[items], np.zeros(0)
    found = LogOdds.of(cells.take(items), model.strengths()[block], model.shares())
    log_odds, kappa = found.at(np.arange(len(items)), np.tile([target, against], (len(items), 1))), found.kappa
    weights = model.effective_choice.weights(block)
    graded = np.einsum("isg,sg->is", hats(kappa), weights[:, : len(KNOTS)]) / np.sqrt(kappa.sum(axis=0))
    alike = weights[:, -2] * float(damped(rows)[0])
    weighed = weights[:, -1] * kappa / np.sqrt((kappa**2).sum(axis=0))
    belief = graded + alike + weighed
    return which[items], (belief * (log_odds[..., 0] - log_odds[..., 1])).sum(axis=1)


def common_item_log_odds(
    model: Graded, rows: dict[str, Rows], target: int, against: int
) -> tuple[dict[tuple[str, int], float], float]:
    """The log-odds of the jointly modelled items of one document, by block and number, and of the absence of the
    others. A document that has none of them has none."""
    sums, gaussians, absent = model.sums, model.gaussians(), 0.0
    by_item: dict[tuple[str, int], float] = {}
    if sums.common is None or gaussians is None or not model.effective_choice.ridge_weights.any():
        return by_item, absent
    vectors, places = model.item_vectors(rows), sums.lexicon.places(sums.common.items)
    if not len(vectors.at):
        return by_item, absent
    owner = [BLOCKS[b] for b in sums.common.block.tolist()]
    for weight, gaussian in zip(model.effective_choice.ridge_weights.tolist(), gaussians.parts, strict=True):
        slope, constant = gaussian.weights()
        absent += weight * float(constant[target] - constant[against])
        for at, x in zip(vectors.at.tolist(), vectors.x.tolist(), strict=True):
            key = owner[at], int(places[owner[at]][sums.common.number[at]])
            by_item[key] = by_item.get(key, 0.0) + weight * x * float(slope[at, target] - slope[at, against])
    return by_item, absent


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
    common, absent = common_item_log_odds(model, rows, target, against)
    if absent:
        others.append((ABSENT, "", absent * DECIBANS))
    document, items = Documents([text], lower), []
    for block in model.sums.blocks:
        which, log_odds = item_log_odds(model, block, rows[block], target, against)
        log_odds = log_odds + [common.get((block, item), 0.0) for item in which.tolist()]
        spellings = model.sums.lexicon.spellings(block, which.astype(np.int32), document)
        decibans = (log_odds * DECIBANS).tolist()
        items += [ItemEvidence(block, several, db) for several, db in zip(spellings, decibans, strict=True)]
    same = prior[target] == prior[against]  # both may be ruled out
    odds = 0.0 if same else float((prior[target] - prior[against]) * DECIBANS)
    probability = float(np.exp(log_joint[target] - log_evidence(log_joint[None])[0]))
    labels = model.classes
    evidence = Evidence(plain(labels[target]), plain(labels[against]), odds, (), probability)
    return with_text(evidence, text, TokensOfText.of(text, lower, model.rule), items, others, by)


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
