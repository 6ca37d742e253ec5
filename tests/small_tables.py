"""Small random tables with all features of real ones, and their experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from deciban.reading.columns import Levels, Numbers
from deciban.reading.frames import Frame
from deciban.tables.encode import EncodedRows, Encoding, choose_encoding, coarse_codes
from deciban.tables.experts.columns import BINNED, CATEGORIES, ColumnDistributions
from deciban.tables.experts.contexts import ContextTrees
from deciban.tables.experts.forest import Forest
from deciban.tables.experts.fourier import FourierFeatures
from deciban.tables.experts.gaussians import Gaussians, Moments, Pieces, Shape, cut_classes
from deciban.tables.experts.ordered import OrderedGaussian

WEIGHTS = (0.5, 1.0, 2.5)
NAMES = ("long", "round", "colour", "shape")


@dataclass
class Sample:
    """A table, its classes and weights, how it is coded, and the coded rows."""

    frame: Frame
    y: np.ndarray
    weight: np.ndarray | None
    k: int
    encoding: Encoding

    @cached_property
    def rows(self) -> EncodedRows:
        return self.encoding.rows(self.frame, marked=True)

    @property
    def weights(self) -> np.ndarray:
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def part(self, which) -> tuple[EncodedRows, np.ndarray, np.ndarray | None]:
        """Some of the rows, as experts learn them."""
        which = np.asarray(which, dtype=np.intp)
        return self.rows.take(which), self.y[which], None if self.weight is None else self.weight[which]

    def but(self, i) -> np.ndarray:
        return np.delete(np.arange(len(self.y)), i)


def random_frame(rng, n, gaps=0.1, colours=("red", "green", "blue"), y=None) -> Frame:
    """Two columns of numbers and two of categories that depend on the class and on each other."""
    y = np.zeros(n, dtype=int) if y is None else y
    common = rng.normal(size=n)
    numbers = np.column_stack([common + y, np.round(2 * common + rng.normal(size=n))])
    numbers[rng.random((n, 2)) < gaps] = np.nan
    codes = np.column_stack([(y + rng.integers(0, 2, n)) % len(colours), (common > 0).astype(int)])
    codes[rng.random((n, 2)) < gaps] = -1
    return Frame(
        NAMES,
        (
            Numbers(numbers[:, 0]),
            Numbers(numbers[:, 1]),
            Levels(codes[:, 0].astype(np.int32), tuple(colours)),
            Levels(codes[:, 1].astype(np.int32), ("flat", "tall")),
        ),
        n,
    )


def random_sample(seed, n=24, k=3, weighted=False, gaps=0.1) -> Sample:
    """Row 0 is the only row of the last class, and row 1 has a colour that no other row has."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, max(1, k - 1), n).astype(np.int32)
    y[0] = k - 1
    frame = random_frame(rng, n, gaps, y=y)
    colour = frame.columns[2]
    if n > 1:
        codes = colour.codes.copy()
        codes[1] = 3
        colour = Levels(codes, (*colour.levels, "lone"))
    frame = Frame(NAMES, (*frame.columns[:2], colour, frame.columns[3]), n)
    weight = rng.choice(WEIGHTS, n) if weighted else None
    return Sample(frame, y, weight, k, choose_encoding(frame))


def strange_frame(seed, n=8) -> Frame:
    """EncodedRows unlike those learned: outliers, missing values, unseen categories."""
    rng = np.random.default_rng(seed)
    frame = random_frame(rng, n, 0.3, ("red", "mauve", "blue"))
    far = frame.columns[0].values.copy()
    far[0] = 1e6
    return Frame(NAMES, (Numbers(far), *frame.columns[1:]), n)


# ------------------------------------------------------------------ experts, each with nothing learned


def no_columns(sample: Sample, seed=0) -> ColumnDistributions:
    """Laws of every kind, at random."""
    rng = np.random.default_rng(seed)
    smoothings = tuple((BINNED if here else CATEGORIES)[rng.integers(4)] for here in sample.encoding.ordered)
    offsets = sample.encoding.offsets
    return ColumnDistributions(smoothings, offsets, np.zeros((sample.k, int(offsets[-1]))))


def no_gaussians(sample: Sample, view="real", shape=None, pieces=1) -> Gaussians:
    shape = Shape(0.5, 0.1, 20.0) if shape is None else shape
    X = getattr(sample.rows, view)
    D = X.shape[1]
    cut = Pieces.whole(sample.k, D) if pieces == 1 else cut_classes(X, sample.y, sample.k, pieces)
    P = len(cut.owner)
    target = np.linspace(0.5, 1.5, D)
    empty = Moments(np.zeros(P), np.zeros((P, D)), np.zeros((P, D, D)))
    return Gaussians(view, shape, cut, target, empty, sample.encoding.owner)


def no_order(sample: Sample, view="real", shape=None) -> OrderedGaussian:
    """The classes are in the order in which they are numbered."""
    shape = Shape(np.inf, 0.1, 20.0) if shape is None else shape
    g = no_gaussians(sample, view, shape)
    return OrderedGaussian(
        g.view, g.shape, g.pieces, g.target, g.moments, g.owner, rank=np.arange(sample.k, dtype=np.int32)
    )


def no_contexts(sample: Sample, depth=2, strength=2.0, bins=5) -> ContextTrees:
    maps, levels = coarse_codes(sample.encoding, bins)
    chosen = ContextTrees.chosen(sample.rows, sample.y, sample.k, maps, levels, sample.weight)
    return ContextTrees(chosen.maps, chosen.levels, chosen.parents, chosen.later, chosen.k, depth, strength)


def no_forest(sample: Sample, strength=2.0) -> Forest:
    levels, ordered = sample.encoding.levels, sample.encoding.ordered
    grown = Forest.grown(sample.rows, sample.y, sample.k, levels, ordered, 2, sample.weight)
    return Forest(grown.trees, levels, ordered, grown.counts, strength, 2)


def no_fourier(sample):
    """Fourier features, with nothing learned; some of the settings of larger tables."""
    expert = FourierFeatures.over(sample.encoding, sample.rows, sample.k)
    return replace(expert, diagonal=0.1, scale=0.25, target=np.linspace(0.5, 1.5, len(expert.phases)))


EXPERTS = {
    "columns": no_columns,
    "gaussians": no_gaussians,
    "gaussians, one covariance": lambda s: no_gaussians(s, shape=Shape(np.inf, 0.4, np.inf)),
    "gaussians, pieces": lambda s: no_gaussians(s, "scores", Shape(2.0, 0.01, 4.0), 4),
    "gaussians, ordered classes": no_order,
    "Fourier features": no_fourier,
    "contexts": no_contexts,
    "trees": no_forest,
}
