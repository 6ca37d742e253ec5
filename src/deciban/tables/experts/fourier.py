"""The expert of Fourier features: Gaussians over random cosines of all columns, for smooth but bent boundaries.

    φ_f(x) = √2 cos(w_f·x + b_f),   F(x, y) = t log N(φ(x); μ_y, Σ),   Σ = (1−g) S/N + g·D

Any smooth function of x is linear in enough such cosines: their products approximate a kernel, here a mixture of
Gaussian kernels of many widths (Rahimi and Recht, 2007). The directions w are random but always the same, and no row
is kept: what is learned are n and Σφ by class, and Σφφᵀ. Leaving a row out is a rank-one change of S.

The cosines of one row depend on each other, so their Gaussian is far too sure of itself: its evidence is multiplied
by t, chosen with g on rows left out.

If a column's value was never seen, its coordinates are at their mean, and the evidence is smaller in proportion to the
share of all coordinates that is known.

The difference of a cosine from that at the mean of all rows, along a straight line, is due to each coordinate in
proportion to its part of the phase: w_fj x_j / w_f·x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from deciban._kernel import scores as kernel
from deciban._scipy import inverse, ndtri
from deciban._typing import Array, Codes, Floats
from deciban.errors import FileError
from deciban.matrix import mix_bits
from deciban.measure import RESIDUE
from deciban.storage.arrays import CheckedArrays, positive
from deciban.tables.encode import UNSEEN, Cuts, EncodedRows, Encoding
from deciban.tables.experts.base import CALIBRATED_LIMIT, Expert
from deciban.tables.experts.columns import ROUNDING_ROWS
from deciban.tables.experts.gaussians import coordinate_terms, shrunk

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term

N_FEATURES = 32, 256  # at least and at most; with few rows half as many as rows
WIDTHS = (0.05, 2.0)  # inverse squared widths of the kernels, for coordinates with a total variance of 1/2
CATEGORY_SCALE = 0.5  # of the coordinates of categories: they are many, and far from zero
DIAGONALS = (0.01, 0.1)
SQRT2 = float(np.sqrt(2.0))


def hashed_normals(rows: int, columns: int, seed: int) -> Floats:
    """Numbers that look like independent normal ones, (rows, columns); the same on every machine."""
    place = np.arange(rows * columns, dtype=np.uint64) + (np.uint64(seed) << np.uint64(40))
    uniform = ((mix_bits(mix_bits(place + np.uint64(1))) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform)).reshape(rows, columns)


def directions(coordinates: int, features: int) -> Floats:
    """Random directions (coordinates, features) with the lengths of normal vectors, in orthogonal sets.

    Orthogonal directions cover the space more evenly than independent ones.
    """
    sets = -(-features // coordinates)
    turned = [np.linalg.qr(hashed_normals(coordinates, coordinates, 1 + i))[0] for i in range(sets)]
    lengths = np.sqrt((hashed_normals(coordinates, features, 0) ** 2).sum(axis=0))
    return np.asarray(np.concatenate(turned, axis=1)[:, :features] * lengths)


@dataclass(frozen=True, slots=True, eq=False)
class FourierSums:
    """n and Σφ by class, and Σφφᵀ."""

    one: Floats  # (k,)
    x: Floats  # (k, D)
    xy: Floats  # (D, D)

    @classmethod
    def zero(cls, k: int, D: int) -> FourierSums:
        return cls(np.zeros(k), np.zeros((k, D)), np.zeros((D, D)))

    @classmethod
    def of(cls, phi: Floats, y: Codes, weight: Floats | None, k: int) -> FourierSums:
        member = np.zeros((k, len(phi)))
        member[y, np.arange(len(phi))] = 1.0 if weight is None else weight
        rooted = phi if weight is None else phi * np.sqrt(weight)[:, None]
        return cls(member.sum(axis=1), member @ phi, rooted.T @ rooted)

    def plus(self, other: FourierSums, sign: float = 1.0) -> FourierSums:
        one, x = self.one + sign * other.one, self.x + sign * other.x
        empty = np.abs(one) <= RESIDUE * self.one  # only rounding residue
        one[empty], x[empty] = 0.0, 0.0
        return FourierSums(one, x, self.xy + sign * other.xy if one.any() else np.zeros_like(self.xy))

    def centred(self) -> tuple[Floats, Floats]:
        """Means by class, and the scatter about them."""
        mean = self.x / np.where(self.one > 0, self.one, 1.0)[:, None]
        return mean, self.xy - self.x.T @ mean


@dataclass(frozen=True, slots=True, eq=False)
class FourierFeatures(Expert):
    """Cosines in fixed directions of normal scores, with one covariance."""

    frequencies: Floats  # (coordinates, D)
    phases: Floats  # (D,)
    diagonal: float  # g
    scale: float  # t
    target: Floats  # (D,) the diagonal D
    sums: FourierSums
    owner: Array  # (coordinates,) the column of each
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    name: ClassVar[str] = "Fourier features"
    changing: ClassVar[tuple[str, ...]] = ("one", "x", "xy")

    @classmethod
    def over(cls, encoding: Encoding, rows: EncodedRows, k: int) -> FourierFeatures:
        """Features as wide as these rows are spread, with nothing learned yet."""
        owner = encoding.owner
        numbers = np.array([isinstance(encoding.columns[j], Cuts) for j in owner])
        scale = np.where(numbers, 1.0, CATEGORY_SCALE)
        spread = float((rows.scores.var(axis=0) * scale**2).sum())
        D = int(np.clip(len(rows) // 2, *N_FEATURES))
        # Neighbouring ones, which are orthogonal, have all widths: the golden ratio spreads them evenly.
        share = np.arange(D) * 0.6180339887498949 % 1.0
        widths = WIDTHS[0] * (WIDTHS[1] / WIDTHS[0]) ** share
        frequencies = directions(len(owner), D) * scale[:, None] * np.sqrt(2.0 * widths / max(spread, RESIDUE))
        phases = np.asarray(2.0 * np.pi * (np.arange(D) * 0.7548776662466927 % 1.0), dtype=np.float64)
        return cls(frequencies, phases, DIAGONALS[-1], 1.0, np.ones(D), FourierSums.zero(k, D), owner)

    @property
    def coordinates(self) -> str:
        return "scores"

    @property
    def limit(self) -> float:
        return CALIBRATED_LIMIT

    @property
    def settings(self) -> str:
        return f"{len(self.phases)} cosines, {self.diagonal:.0%} diagonal, evidence × {self.scale:g}".replace("%", " %")

    def features(self, rows: EncodedRows) -> Floats:
        """φ, (n, D)."""
        phi: Floats = np.ascontiguousarray(rows.scores @ self.frequencies)
        kernel.cosines(phi, self.phases, SQRT2)
        return phi

    def shares(self, columns: int) -> Floats:
        """The share of each column in the phases, (d,)."""
        squares = self.frequencies**2
        return np.asarray(np.bincount(self.owner, squares.sum(axis=1), columns) / squares.sum())

    def _of_known(self, evidence: Floats, rows: EncodedRows) -> Floats:
        """Evidence (n, k) in proportion to the share of the columns whose values were seen; none if none was."""
        never = rows.small == UNSEEN
        if not never.any():
            return evidence
        share = np.where(never.all(axis=1), 0.0, 1.0 - never @ self.shares(never.shape[1]))
        return np.where(share[:, None] > 0, evidence * np.where(share > 0, share, 1.0)[:, None], 0.0)

    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> FourierFeatures:
        return self.with_features(self.features(rows), y, weight)

    def with_features(self, phi: Floats, y: Codes, weight: Floats | None) -> FourierFeatures:
        """With rows of these features added."""
        return replace(self, sums=self.sums.plus(FourierSums.of(phi, y, weight, len(self.sums.one))))

    def plus(self, other: FourierFeatures, sign: float = 1.0) -> FourierFeatures:
        return replace(self, sums=self.sums.plus(other.sums, sign))

    def scaled(self, factor: float) -> FourierFeatures:
        s = self.sums
        return replace(self, sums=FourierSums(s.one * factor, s.x * factor, s.xy * factor))

    def in_classes(self, where: Array, k: int) -> FourierFeatures:
        s, wider = self.sums, FourierSums.zero(k, len(self.phases))
        wider.one[where], wider.x[where] = s.one, s.x
        return replace(self, sums=replace(wider, xy=s.xy))

    def is_valid(self) -> bool:
        s = self.sums
        if (s.one < -ROUNDING_ROWS).any() or (np.abs(s.x) > SQRT2 * s.one[:, None] + ROUNDING_ROWS).any():
            return False
        spread = np.diagonal(s.centred()[1])
        return bool((spread >= -ROUNDING_ROWS * (1.0 + np.diagonal(s.xy))).all())

    def linear(self) -> tuple[Floats, Floats]:
        """Slopes (D, k) and offsets (k,): all classes have the same Σ, so that evidence is linear in φ."""
        if "linear" not in self._cache:
            mean, scatter = self.sums.centred()
            sigma = shrunk(scatter, max(float(self.sums.one.sum()), 1.0), self.diagonal, self.target)
            slopes = self.scale * np.linalg.solve(sigma, mean.T)
            offsets = -0.5 * np.einsum("kd,dk->k", mean, slopes)
            offsets[self.sums.one <= 0] = -np.inf
            self._cache["linear"] = np.ascontiguousarray(slopes), offsets
        return self._cache["linear"]  # type: ignore[no-any-return]  # put there above

    def evidence(self, rows: EncodedRows) -> Floats:
        slopes, offsets = self.linear()
        return self._of_known(self.features(rows) @ slopes + offsets, rows)

    def evidence_without(
        self, rows: EncodedRows, y: Codes, weight: Floats | None = None, phi: Floats | None = None
    ) -> Floats:
        """See the module. With z = φ − μ_own, S loses a multiple of zzᵀ and μ_own moves along z (Sherman–Morrison).
        `phi` are the features of the rows, if they are known."""
        phi, at = self.features(rows) if phi is None else phi, np.arange(len(rows))
        mean, scatter = self.sums.centred()
        removed = np.ones(len(rows)) if weight is None else weight
        total = np.maximum(float(self.sums.one.sum()) - removed, 1.0)
        before = self.sums.one[y]
        after = before - removed
        after[after <= RESIDUE * before] = 0.0  # a class of this row alone is empty without it
        grown = np.divide(before, after, out=np.zeros(len(phi)), where=after > 0)
        size, cross, centre, own_centre = self._products(phi, mean, scatter, y, total)
        q = size[:, None] - 2.0 * cross + centre  # (x − μ_c) with itself,
        own = q[at, y]  # z with itself,
        mixed = size[:, None] - cross - cross[at, y][:, None] + own_centre  # and with z
        rate = (1.0 - self.diagonal) / total * removed * grown
        q += (rate / np.maximum(1.0 - rate * own, RESIDUE))[:, None] * mixed**2
        q[at, y] *= grown**2
        q *= -0.5 * self.scale
        q[:, self.sums.one <= 0] = -np.inf
        q[at[after <= 0], y[after <= 0]] = -np.inf
        return self._of_known(q, rows)

    def _products(
        self, phi: Floats, mean: Floats, scatter: Floats, y: Codes, total: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """By Σ⁻¹ of so many rows in all: φ with itself (n,), φ with μ_c; μ_c with itself, μ_c with μ_own (n, k)."""
        if len(total) and (total == total[0]).all():
            precision = inverse(shrunk(scatter, float(total[0]), self.diagonal, self.target))
            M = mean @ precision
            gram = mean @ M.T
            return np.einsum("nd,nd->n", phi @ precision, phi), phi @ M.T, np.diagonal(gram), gram[y]
        # In the axes of S in units of the target, every such Σ is diagonal.
        unit = 1.0 / np.sqrt(self.target)
        values, axes = np.linalg.eigh(scatter * unit * unit[:, None])
        X, M = (phi * unit) @ axes, (mean * unit) @ axes
        by = 1.0 / (np.maximum(values, 0.0) * ((1.0 - self.diagonal) / total)[:, None] + self.diagonal)
        return np.einsum("nd,nd->n", X * by, X), (X * by) @ M.T, by @ (M**2).T, (by * M[y]) @ M.T

    def terms(self, rows: EncodedRows, unlearned: Codes | None = None) -> tuple[Floats, Floats]:
        """See the module: what a cosine differs by from that at the mean, in proportion to the coordinates' phases."""
        del unlearned  # nothing is chosen on rows but two numbers
        slopes, offsets = self.linear()
        n, d = rows.codes.shape
        out, rest = np.zeros((n, d, slopes.shape[1])), np.zeros((n, slopes.shape[1]))
        start = SQRT2 * np.cos(self.phases)
        for i in range(n):
            row = rows.take(np.array([i]))
            phi = self.features(row)[0]
            parts = row.scores[0][:, None] * self.frequencies  # (coordinates, D)
            phase = parts.sum(axis=0)
            size = np.abs(parts).sum(axis=0)
            turns = np.abs(phase) > RESIDUE * size  # otherwise the parts cancel, and the cosine is where it started
            by = np.where(turns, (phi - start) / np.where(turns, phase, 1.0), 0.0)
            each = (parts * by) @ slopes
            whole = phi @ slopes + offsets
            known = self._of_known(np.ones((1, 1)), row)[0, 0]
            np.add.at(out[i], self.owner, each * known)
            rest[i] = self._of_known(whole[None], row)[0] - out[i].sum(axis=0)
        return out, rest

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        s = self.sums
        arrays = {"frequencies": self.frequencies, "phases": self.phases, "target": self.target}
        return {"shape": [self.diagonal, self.scale]}, arrays | {"one": s.one, "x": s.x, "xy": s.xy}

    @classmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> FourierFeatures:
        diagonal, scale = settings["shape"]
        phases, coordinates = arrays.row("phases"), len(encoding.owner)
        D = len(phases)
        frequencies, target = arrays.floats("frequencies", (coordinates, D)), arrays.floats("target", (D,))
        one, x, xy = arrays.counts("one", k), arrays.floats("x", (k, D)), arrays.floats("xy", (D, D))
        if (target <= 0).any():
            raise FileError("a variance is not positive")
        how = positive(diagonal, 1.0), positive(scale, 1.0), target
        sums = FourierSums(one, x, xy)
        try:
            np.linalg.cholesky(shrunk(sums.centred()[1], max(float(one.sum()), 1.0), how[0], target))
            possible = np.allclose(xy, xy.T)
        except np.linalg.LinAlgError:
            possible = False
        if not possible:
            raise FileError("its sums of squares are impossible")
        return cls(frequencies, phases, *how, sums, encoding.owner)

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Term:
        from deciban.formula import Cosines, PlaceValues

        slopes, offsets = self.linear()
        unknown = []
        for place, j, share in zip(places, range(len(places)), self.shares(len(places)), strict=True):
            if (never := encoding.small_by_place(j) == UNSEEN).any() and share > 0:
                unknown.append(sketch.coordinate(PlaceValues(place, share * never)))
        coordinates = coordinate_terms("scores", encoding, places, sketch)
        how = self.frequencies, self.phases, SQRT2 * slopes, offsets
        return Cosines(coordinates, tuple(unknown), *how)
