"""One Gaussian along a line: for classes in an order, such as grades, whose means move in equal steps.

    x | class c  ~  Student-t_ν(a + b·r_c, Σ),   Σ = (1−g) S/N + g·D

r_c is the rank of the class, S the scatter about the line. It has two vectors of means whatever the number of classes,
so a class of few rows learns from its neighbours. It needs the sums of `Gaussians` and nothing else: the least-squares
mean of class c is Σ_o G_oc Σ_{i in o} x_i, where G depends on the counts and ranks alone.

A class that is learned later has no rank: it keeps a mean of its own until the next fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.measure import RESIDUE
from deciban.storage.arrays import CheckedArrays
from deciban.tables.encode import Encoding
from deciban.tables.experts.gaussians import Gaussians, by_class, density, log_shares_without, shrunk

MIN_CLASSES = 3  # two are always in an order


def ranks(classes: Array) -> Codes | None:
    """The rank of each class if the labels are three numbers or more, also if written as strings; otherwise None.

    >>> ranks(np.array(["10", "2", "3"]))
    array([2, 0, 1], dtype=int32)
    """
    if len(classes) < MIN_CLASSES or classes.dtype.kind == "b":
        return None
    try:
        values = np.array([float(label) for label in classes.tolist()])
    except (TypeError, ValueError):
        return None
    if not np.isfinite(values).all() or len(np.unique(values)) < len(values):
        return None
    return np.argsort(np.argsort(values)).astype(np.int32)


def smoother(rank: Codes, count: Floats) -> Floats:
    """G, (k, k): the fitted mean of class c is Σ_o G[o, c]·(the sum of class o)."""
    out = np.zeros((len(rank), len(rank)))
    own = rank < 0
    alone = np.flatnonzero(own & (count > 0))
    out[alone, alone] = 1.0 / count[alone]
    line = np.flatnonzero(~own)
    n, total = count[line], float(count[line].sum())
    if total > 0:
        away = rank[line] - float(n @ rank[line]) / total
        spread = float(n @ away**2)
        slope = np.outer(away, away) / spread if spread > RESIDUE * total else 0.0
        out[np.ix_(line, line)] = 1.0 / total + slope
    return out


@dataclass(frozen=True, slots=True, eq=False)
class OrderedGaussian(Gaussians):
    """Gaussians with one covariance, and means on a line by the rank of the class."""

    rank: Codes = field(kw_only=True)  # (k,) in the order of the parts, which are whole classes; −1: none

    name: ClassVar[str] = "ordered classes"
    changing: ClassVar[tuple[str, ...]] = (*Gaussians.changing, "rank")

    @property
    def kind(self) -> str:
        return "ordered"

    @property
    def is_default(self) -> bool:
        return False

    def in_classes(self, where: Array, k: int) -> OrderedGaussian:
        rank = np.append(self.rank, np.full(k - self.k, -1, dtype=np.int32))
        # not super(): `slots=True` makes a second class, and super() refers to the first
        return replace(Gaussians.in_classes(self, where, k), rank=rank)  # type: ignore[call-arg,return-value]

    def _covariances(self) -> tuple[Floats, Floats]:
        mean, scatter = self._line(smoother(self.rank, self.moments.one))
        rows = max(float(self.moments.one.sum()), 1.0)
        return mean, shrunk(scatter, rows, self.shape.diagonal, self.target)[None]

    def _line(self, G: Floats) -> tuple[Floats, Floats]:
        """The means of all classes, and the scatter about them."""
        m = self.moments
        mean = G.T @ m.x
        return mean, m.xy.sum(axis=0) - (mean * m.one[:, None]).T @ mean

    def _evidence_without(self, X: Floats, part: Codes, removed: Floats) -> Floats:
        """Leaving a row out moves every mean along its residual e, and takes a multiple of eeᵀ from the scatter."""
        m, out, D = self.moments, np.empty((len(X), self.k)), X.shape[1]
        G = smoother(self.rank, m.one)
        mean, scatter = self._line(G)
        near = mean - mean.mean(axis=0)  # differences of means are all that is needed
        for w in np.unique(removed):
            at = np.flatnonzero(removed == w)
            own, total = part[at], max(float(m.one.sum()) - float(w), 1.0)
            inverse = np.linalg.inv(shrunk(scatter, total, self.shape.diagonal, self.target))
            remaining = 1.0 - w * np.diagonal(G)[own]
            alone = remaining <= RESIDUE  # the row alone decided where its class is: it has no residual
            share = np.where(alone, 0.0, w / np.where(alone, 1.0, remaining))[:, None]
            e = X[at] - mean[own]
            scaled, products = e @ inverse, near @ inverse @ near.T
            square = np.einsum("nd,nd->n", e, scaled)[:, None]
            cross = np.einsum("nd,nd->n", scaled, near[own])[:, None] - scaled @ near.T
            times, rate = 1.0 + share * G[own], (1.0 - self.shape.diagonal) / total * share
            both = times * square + cross  # products of e and x − mean, by class
            left = np.maximum(1.0 - rate * square, RESIDUE)
            length = np.diagonal(products)
            q = times * (both + cross) + (length[own][:, None] + length - 2.0 * products[own]) + rate * both**2 / left
            for o in np.unique(own[alone]):  # without it, the other means are on another line
                count, x = (np.where(np.arange(self.k) == o, 0.0, sums.T).T for sums in (m.one, m.x))
                z = X[at[own == o], None] - smoother(self.rank, count).T @ x
                q[own == o] = np.einsum("nkd,nkd->nk", z @ inverse, z)
            log_det = np.log(left) - float(np.linalg.slogdet(inverse)[1])
            log_density = density(q, np.zeros((1, self.k)), self.shape.tails, D) - 0.5 * log_det
            shares = log_shares_without(m.one, self.pieces.owner, self.k, own, float(w))
            out[at] = by_class(log_density, shares, self.pieces.owner, self.k)
        return out

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        about, arrays = Gaussians.pack(self)
        return about, arrays | {"rank": self.rank}

    @classmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> OrderedGaussian:
        g = Gaussians.unpack(settings, arrays, encoding, k)
        rank = arrays.whole("rank", np.int32, k)
        return cls(g.view, g.shape, g.pieces, g.target, g.moments, g.owner, rank=rank)
