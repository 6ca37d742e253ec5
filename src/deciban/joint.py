"""The joint distribution: class prior × product over blocks of columns. A model is a joint and its statistics.

Parameters are never stored: they are estimated from the statistics when first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from deciban._kernel import posterior as kernel
from deciban._typing import Array, Codes, Data, Floats, Labels
from deciban.algebra import Stats, add_prior
from deciban.errors import SchemaError
from deciban.families import Family
from deciban.families.base import Scorer
from deciban.measure import RESIDUE
from deciban.priors import Alpha, empirical
from deciban.schema import Columns, Schema


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A family over some columns, and the strength of its prior: numbers, or "empirical"."""

    family: Family
    alpha: Alpha = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """What is assumed: the blocks, and the class prior ("empirical" n_y/n, "uniform", or probabilities) (S2)."""

    blocks: tuple[Block, ...]
    class_prior: str | Floats = "empirical"

    def with_alpha(self, alpha: Alpha) -> Joint:
        """The same distribution with another prior strength."""
        return replace(self, blocks=tuple(replace(block, alpha=alpha) for block in self.blocks))

    def zero(self, schema: Schema) -> Stats:
        """The statistics of no rows."""
        k = len(schema.classes)
        sums = []
        for block, columns in zip(self.blocks, schema.blocks, strict=True):
            sums.append({m.name: m.zero(k, columns) for m in block.family.measures(columns)})
        return Stats(schema, np.zeros(k), tuple(sums))


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A joint and the statistics it has learned: everything else is derived."""

    joint: Joint
    stats: Stats
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """The cache is not pickled."""
        return type(self), tuple(getattr(self, one.name) for one in fields(self) if one.init)

    def cached(self, key: str, make: Callable[[], Any]) -> Any:
        """The result of `make`, computed once: models are immutable."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    @property
    def classes(self) -> Array:
        return self.stats.classes

    @property
    def schema(self) -> Schema:
        return self.stats.schema

    def columns(self, block: int = 0) -> Columns:
        return self.schema.blocks[block]

    @property
    def log_prior(self) -> Floats:
        """log P(y): empirical, uniform, or given."""
        if "log_prior" not in self._cache:
            log_prior = log_class_prior(self.joint.class_prior, self.stats.weight)
            self._cache["log_prior"] = np.ascontiguousarray(log_prior)
        return np.asarray(self._cache["log_prior"])

    def alpha(self, block: int = 0) -> Array | float:
        """A block's prior strength; "empirical" is resolved by maximising the marginal likelihood."""
        asked = self.joint.blocks[block].alpha
        if not isinstance(asked, str):
            return asked
        key = f"alpha{block}"
        if key not in self._cache:
            family = self.joint.blocks[block].family
            self._cache[key] = empirical(family, self.stats.sums[block], self.columns(block))
        return float(self._cache[key])

    @property
    def params(self) -> tuple[Any, ...]:
        """estimate(stats + prior), block by block."""
        if "params" not in self._cache:
            params = []
            for b, (block, sums) in enumerate(zip(self.joint.blocks, self.stats.sums, strict=True)):
                columns, alpha = self.columns(b), self.alpha(b)
                pseudo = block.family.pseudo(alpha, columns, sums)
                params.append(block.family.estimate(add_prior(sums, pseudo), columns))
            self._cache["params"] = tuple(params)
        return tuple(self._cache["params"])

    def log_likelihood(self, data: Data) -> Floats:
        """log p(x | y) for every class, (n, k)."""
        out = np.empty((data[0].shape[0] if data else 0, len(self.classes)))
        self._write(data, np.zeros(len(self.classes)), out)
        return out

    def log_joint(self, data: Data) -> Floats:
        """log p(x, y), (n, k)."""
        out = np.empty((data[0].shape[0] if data else 0, len(self.classes)))
        self.write_log_joint(data, out)
        return out

    def write_log_joint(self, data: Data, out: Floats, relative: bool = False) -> None:
        """Write log p(x, y) into an (n, k) array; with `relative`, up to a constant per row.

        Scores that are not densities (complement) leave the prior out, as their paper does.
        """
        with_prior = self.generative or len(self.classes) == 1
        self._write(data, self.log_prior if with_prior else np.zeros(len(self.classes)), out, relative)

    def _write(self, data: Data, start: Floats, out: Floats, relative: bool = False) -> None:
        """start + log p(x | y): the blocks' log-probabilities add up."""
        if not data:
            raise SchemaError("a model needs at least one block of columns")
        for b, (scorer, X) in enumerate(zip(self.scorers(relative), data, strict=True)):
            if b == 0:
                scorer(X, start, out)
                continue
            part = np.empty(out.shape)
            scorer(X, np.zeros(len(start)), part)
            out += part

    def scorers(self, relative: bool = False) -> tuple[Scorer, ...]:
        """Each block's `scorer`, made once."""

        def make() -> tuple[Scorer, ...]:
            blocks = enumerate(zip(self.joint.blocks, self.params, strict=True))
            return tuple(block.family.scorer(params, self.columns(b), relative) for b, (block, params) in blocks)

        scorers: tuple[Scorer, ...] = self.cached("relative scorers" if relative else "scorers", make)
        return scorers

    def log_joint_without(self, data: Data, y: Labels, weight: Floats | None) -> tuple[Floats, bool]:
        """log p(x_i, y) under the statistics without row i, (n, k), and whether some row is impossible.

        A class whose only row is i is impossible without it: −∞. An impossible row gets the prior without it.
        """
        parts = [
            block.family.leave_one_out(self.stats.sums[b], self.alpha(b), self.columns(b), data[b], y, weight)
            for b, block in enumerate(self.joint.blocks)
        ]
        total = parts[0]
        for part in parts[1:]:
            total += part
        closed = self.schema.closed  # a declared class stays, even with no row
        prior, which = log_class_prior_without(self.joint.class_prior, self.stats.weight, y, weight, closed)
        if self.generative or len(self.classes) == 1:
            kernel.add_table(total, prior, which)
        else:
            gone = np.isneginf(prior) & (self.stats.weight > 0) & (not closed)
            kernel.add_table(total, np.where(gone, -np.inf, 0.0), which)
        if total.size == 0 or np.isfinite(total.min()):
            return total, False
        lost = np.isneginf(total.max(axis=1))
        total[lost] = prior[which[lost]]
        return total, bool(lost.any() or np.isnan(total).any())

    @property
    def generative(self) -> bool:
        return all(block.family.generative for block in self.joint.blocks)

    def with_joint(self, joint: Joint) -> Model:
        return Model(joint, self.stats)

    def with_prior(self, class_prior: str | Floats) -> Model:
        return Model(replace(self.joint, class_prior=class_prior), self.stats)


def log_class_prior(asked: str | Floats, weight: Floats) -> Floats:
    """log φ_y with φ_y = n_y/n, uniform before any row; or as requested."""
    k = len(weight)
    total = weight.sum()
    with np.errstate(divide="ignore"):
        if not isinstance(asked, str):
            return np.log(np.asarray(asked, dtype=np.float64))
        if asked == "uniform" or total <= 0:
            return np.full(k, -np.log(max(1, k)))
        return np.asarray(np.log(weight) - np.log(total))


def log_class_prior_without(
    asked: str | Floats, weight: Floats, y: Array, row_weight: Floats | None, closed: bool = False
) -> tuple[Floats, Codes]:
    """log P(y) without row i: a table of priors, and for each row i its place in the table.

    Rows of the same class and weight share a prior. A class whose only row is i is impossible without it, and a given
    prior is renormalised over the others; unless the classes were declared (`closed`).
    """
    k = len(weight)
    if row_weight is None:
        owners, taken, which = np.arange(-1, k), np.ones(k + 1), y + 1
    else:
        pairs, which = np.unique(np.column_stack([y, row_weight]), axis=0, return_inverse=True)
        owners, taken = pairs[:, 0].astype(np.intp), pairs[:, 1]
    remaining = np.tile(weight, (len(owners), 1))
    own = np.flatnonzero(owners >= 0)
    before = weight[owners[own]]
    own_remaining = before - taken[own]
    remaining[own, owners[own]] = np.where(own_remaining <= before * RESIDUE, 0.0, own_remaining)
    table = np.empty((len(owners), k))
    for r, (mine, owner) in enumerate(zip(remaining, owners, strict=True)):
        table[r] = log_class_prior(asked, mine)
        fixed = not isinstance(asked, str) or asked == "uniform"
        if fixed and not closed and owner >= 0 and mine[owner] <= 0 < weight[owner]:
            table[r, owner] = -np.inf
            others = np.exp(table[r]).sum()
            table[r] -= np.log(others) if others > 0 else 0.0
    return table, np.ascontiguousarray(which.ravel(), dtype=np.int32)
