"""The density of a table's rows, p(x) = Σ_y P(y) p(x | y), and samples from it.

If a network of columns was chosen, coarse codes follow a mixture of its two halves:

    p(x | y) = ½ Σ_s p_s(groups | y) · Π_j p(code_j | group_j, y) · p(x_j | code_j)

The second factor is the column's own distribution within a group of codes that the network merges; without a network,
columns are independent. A number is uniform within its bin. Texts can be sampled, but have no density.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.bayes import log_evidence
from deciban.reading.columns import Column, Levels, Numbers
from deciban.reading.frames import Frame
from deciban.tables.encode import UNSEEN, Cuts, EncodedRows
from deciban.tables.experts.contexts import ContextTrees
from deciban.tables.model import TableModel


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """p(codes | y) of a model's columns."""

    model: TableModel
    network: ContextTrees | None

    @classmethod
    def of(cls, model: TableModel) -> Density:
        networks = (e for e in reversed(model.experts) if isinstance(e, ContextTrees) and len(e.sums[0].keys))
        return cls(model, next(networks, None))

    def groups(self, column: int) -> Array:
        """The network's code for each code of a column; UNSEEN if it has none."""
        assert self.network is not None
        codes = np.arange(self.model.encoding.columns[column].size, dtype=np.int32)
        return np.asarray(self.network.maps[column][self.model.encoding.small_of(column, codes)])

    def log_prob(self, rows: EncodedRows) -> Floats:
        """log p(codes | y), (n, k)."""
        out = self.model.columns.log_prob(rows)
        if self.network is None:
            return out
        halves = np.zeros((2, *out.shape))
        for tree, half in zip(self.network.trees(), halves, strict=True):
            tree.score(self.network.codes(rows), self.network.depth, self.network.strength, half)
        for j, probabilities in enumerate(self.model.columns.probabilities()):
            group = self.groups(j)
            group_probabilities = np.zeros((UNSEEN + 1, len(probabilities)))
            np.add.at(group_probabilities, group, probabilities.T)
            group_probabilities[UNSEEN] = 1.0  # the column's own distribution is unchanged
            codes = rows.codes[:, j]
            at = np.where(codes < 0, UNSEEN, group[np.maximum(codes, 0)])
            out -= np.log(np.where(group_probabilities > 0, group_probabilities, 1.0))[at]
        return np.asarray(out + np.logaddexp(halves[0], halves[1]) - np.log(2.0))

    def sample(self, y: Codes, rng: np.random.Generator) -> list[Codes]:
        """Codes of rows of the classes y, column by column."""
        drawn = None if self.network is None else self.network.sample(y, rng)
        out = []
        for j, probabilities in enumerate(self.model.columns.probabilities()):
            weights = probabilities[y]
            if drawn is not None:
                weights = weights * (self.groups(j) == drawn[:, j, None])
            out.append(draw(weights, rng))
        return out


def log_density(model: TableModel, frame: Frame) -> Floats:
    """log p(x), (n,): uniform within bins, with an exponential tail outside of them."""
    rows = model.encoding.rows(frame, views=model.views)
    out = log_evidence(Density.of(model).log_prob(rows) + model.log_prior)
    for j, (name, coded) in enumerate(zip(model.encoding.names, model.encoding.columns, strict=True)):
        column = frame[name]
        if isinstance(coded, Cuts) and isinstance(column, Numbers):
            present = np.flatnonzero(rows.codes[:, j] > 0)
            bins, x = rows.codes[present, j] - 1, column.values[present]
            low, high = coded.low[bins], coded.high[bins]
            distance = np.maximum(0.0, np.maximum(low - x, x - high)) / coded.scale
            out[present] -= np.log(widths(coded)[bins]) + distance
    return np.asarray(out)


def widths(coded: Cuts) -> Floats:
    """Widths of bins: for whole numbers how many they hold, for others in standard deviations; 1 for a single value."""
    width = coded.high - coded.low
    return width + 1.0 if coded.whole else np.where(width > 0, width / coded.scale, 1.0)


def sample(model: TableModel, n: int, rng: np.random.Generator, given: int | None) -> tuple[Frame, Codes]:
    """n rows and their classes: y from the prior, then codes, then values from within the codes."""
    if given is None:
        prior = np.exp(model.log_prior - log_evidence(model.log_prior[None]))
        y = rng.choice(len(model.classes), size=n, p=prior).astype(np.int32)
    else:
        y = np.full(n, given, dtype=np.int32)
    columns: list[Column] = []
    for coded, codes in zip(model.encoding.columns, Density.of(model).sample(y, rng), strict=True):
        if isinstance(coded, Cuts):
            columns.append(Numbers(values_within(coded, codes, rng), coded.whole, coded.dates))
        else:
            columns.append(Levels(codes - 1, coded.levels))
    from deciban.tables.experts.words import Words  # most tables have no texts, and this imports a lot

    words = {e.column: e for e in model.experts if isinstance(e, Words)}
    for name in model.encoding.texts:
        texts = [""] * n
        for c in np.unique(y) if name in words else ():
            at = np.flatnonzero(y == c)
            for i, text in zip(at, words[name].graded.sample(len(at), rng, int(c))[0], strict=True):
                texts[i] = text
        columns.append(Levels(np.arange(n, dtype=np.int32), tuple(texts)))
    return Frame((*model.encoding.names, *model.encoding.texts), tuple(columns), n), y


def draw(weights: Floats, rng: np.random.Generator) -> Codes:
    """A column number for each row, drawn with probabilities in proportion to the weights."""
    total = np.cumsum(weights, axis=1)
    at = rng.random(len(weights)) * total[:, -1]
    return np.asarray(np.minimum((total <= at[:, None]).sum(axis=1), weights.shape[1] - 1), dtype=np.int32)


def values_within(coded: Cuts, codes: Codes, rng: np.random.Generator) -> Floats:
    """Numbers from within their bins; code 0 is missing."""
    at = np.maximum(codes - 1, 0)
    low, high, u = coded.low[at], coded.high[at], rng.random(len(codes))
    values = np.floor(low + u * (high - low + 1.0)) if coded.whole else low + u * (high - low)
    if coded.dates is None and (places := coded.decimals) is not None:
        values = np.round(values, places)  # as the values seen were: the ends of bins are among them
    return np.where(codes == 0, np.nan, values)
