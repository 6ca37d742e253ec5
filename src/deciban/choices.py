"""What leave-one-out can choose in a joint distribution: prior strengths, covariances, a tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from deciban import collect
from deciban._typing import Array, Data, Floats
from deciban.corollaries.leave_one_out import (
    MAX_ROWS_WITHOUT_DOWNDATES,
    best_alpha,
    best_family,
    leave_one_out,
    random_subset,
)
from deciban.families import Family, MultivariateGaussian
from deciban.families.chow_liu import chow_liu
from deciban.families.covariance import SHAPES
from deciban.joint import Block, Joint, Model
from deciban.joint_model import Choice, LabelledData
from deciban.measure import RESIDUE
from deciban.priors import Alpha, search
from deciban.schema import Bins

# The grid of "loo" for shrinkage of covariances towards the shared one, and towards a sphere.
TIES = (0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0)
SPHERES = (0.0, 0.001, 0.01, 0.05, 0.2, 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class ByAlpha(Choice):
    """One prior strength for all blocks."""

    def chooses(self) -> bool:
        return True

    def choose(self, model: Model, data: Data, codes: Array, weight: Floats | None, n_jobs: int | None) -> Joint:
        return model.joint.with_alpha(best_alpha(model, data, codes, weight, n_jobs))

    def between(self, one: Model, two: Model) -> Joint:
        """The mean strength, weighted by the rows that each has learned."""
        return one.joint.with_alpha(mean_strength(one, two, 0))


@dataclass(frozen=True, slots=True, eq=False)
class ByBlock(Choice):
    """The prior strengths of some blocks, chosen one after another."""

    blocks: tuple[int, ...] = ()

    def chooses(self) -> bool:
        return bool(self.blocks)

    def choose(self, model: Model, data: Data, codes: Array, weight: Floats | None, n_jobs: int | None) -> Joint:
        for b in self.blocks:
            strength = best_strength(model, b, data, codes, weight, n_jobs)
            model = model.with_joint(with_strength(model.joint, b, strength))
        return model.joint

    def between(self, one: Model, two: Model) -> Joint:
        joint = one.joint
        for b in self.blocks:
            joint = with_strength(joint, b, mean_strength(one, two, b))
        return joint

    def current(self, model: Model) -> Joint:
        joint = self.asked
        for b in self.blocks:
            joint = with_strength(joint, b, model.joint.blocks[b].alpha)
        return joint


def mean_strength(one: Model, two: Model, block: int) -> Alpha:
    """The geometric mean of the two strengths, weighted by the rows that each has learned."""
    shares = np.array([float(model.stats.weight.sum()) for model in (one, two)])
    if not shares.any():
        return one.joint.blocks[block].alpha
    logs = np.log([float(model.alpha(block)) for model in (one, two)])
    return float(np.exp(shares @ logs / shares.sum()))


def with_strength(joint: Joint, block: int, alpha: Alpha) -> Joint:
    """The same distribution with another prior strength for one block."""
    blocks = [replace(b, alpha=alpha) if i == block else b for i, b in enumerate(joint.blocks)]
    return replace(joint, blocks=tuple(blocks))


def best_strength(model: Model, block: int, data: Data, y: Array, weight: Floats | None, n_jobs: int | None) -> float:
    """The strength of one block's prior with the least leave-one-out log loss; the other blocks are unchanged.

    Rows whose class has no other row are left out of the comparison: no prior helps them.
    """
    if not all(part.family.downdates(1.0) for part in model.joint.blocks):
        rows = random_subset(np.arange(len(y)), MAX_ROWS_WITHOUT_DOWNDATES)
        data, y, weight = [X[rows] for X in data], y[rows], None if weight is None else weight[rows]
    own = np.ones(len(y)) if weight is None else weight
    counts = (model.stats.weight[y] > own * (1.0 + RESIDUE)) & (own > 0)

    def loss(alpha: float) -> float:
        tried = model.with_joint(with_strength(model.joint, block, alpha))
        losses = leave_one_out(tried, data, y, weight, n_jobs).log_losses
        known = counts & ~np.isnan(losses)
        return float(np.average(losses[known], weights=own[known])) if known.any() else float("nan")

    return search(loss, tolerance=1e-3)


@dataclass(frozen=True, slots=True, eq=False)
class ByCovariance(Choice):
    """The shape of covariances ("loo" among all, "bic"), their shrinkage, and the prior's strength."""

    shape: str = ""  # "loo", "bic", or a given shape
    shrinks: bool = False
    alpha: bool = False
    criterion: str = "log_loss"

    def chooses(self) -> bool:
        return self.shape == "loo" or self.shrinks or self.alpha

    def looks_at_labels(self) -> bool:
        return self.shape == "bic" or self.chooses()

    def why(self, model: Model) -> str:
        if self.shape == "bic":
            return "the shape of its covariances was chosen by BIC"
        return Choice.why(self, model)

    def choose(self, model: Model, data: Data, codes: Array, weight: Floats | None, n_jobs: int | None) -> Joint:
        family = gaussian_of(model)
        candidates: list[Family] = []
        if self.shape == "loo":
            candidates = [replace(family, covariance=name) for name in SHAPES]
        elif self.shrinks:
            candidates = list(shrunken(family, model))
        if candidates:
            best = best_family(model, candidates, data, codes, weight, self.criterion, n_jobs)
            model = model.with_joint(replace(model.joint, blocks=(Block(best, model.joint.blocks[0].alpha),)))
        if not self.alpha:
            return model.joint
        return model.joint.with_alpha(best_alpha(model, data, codes, weight, n_jobs))

    def anew(self, model: Model, everything: LabelledData, some: LabelledData, n_jobs: int | None) -> Model:
        chosen = Choice.anew(self, model, everything, some, n_jobs)
        if self.shape != "bic":
            return chosen
        joint, family = chosen.joint, gaussian_of(chosen)
        part = Model(joint, collect.collect(some.data, joint, chosen.schema, some.y, some.weight, n_jobs))
        shaped = replace(family, covariance=part.params[0].shape, dense=True)
        return chosen.with_joint(replace(joint, blocks=(replace(joint.blocks[0], family=shaped),)))

    def between(self, one: Model, two: Model) -> Joint:
        joint = one.joint
        if self.alpha:
            joint = joint.with_alpha(mean_strength(one, two, 0))
        if not self.chooses():
            return joint
        return replace(joint, blocks=(replace(joint.blocks[0], family=between(one, two)),))

    def made(self, model: Model) -> bool:
        asked, chosen = self.asked.blocks[0].family, model.joint.blocks[0].family
        assert isinstance(asked, MultivariateGaussian)
        return chosen_from(asked, chosen) if self.chooses() else chosen == asked


def gaussian_of(model: Model) -> MultivariateGaussian:
    family = model.joint.blocks[0].family
    assert isinstance(family, MultivariateGaussian)
    return family


def shrunken(family: MultivariateGaussian, model: Model) -> list[MultivariateGaussian]:
    """The distribution with all combinations of shrinkage towards the shared covariance and towards a sphere."""
    ties = (0.0,) if family.shape == "EEE" else TIES
    scaled = replace(family, scale=family.units(model.stats.sums[0], model.columns()))
    return [replace(scaled, tie=tie, sphere=sphere) for sphere in SPHERES for tie in ties]


def chosen_from(asked: MultivariateGaussian, family: Family) -> bool:
    """Whether leave-one-out can have chosen `family` if `asked` was requested."""
    if not isinstance(family, MultivariateGaussian):
        return False
    covariance = family.covariance if asked.dense else asked.covariance
    return family == replace(asked, covariance=covariance, tie=family.tie, sphere=family.sphere, scale=family.scale)


def between(one: Model, two: Model) -> Family:
    """The distribution of the sum of two models: the larger one's, with the weighted mean of their shrinkages."""
    families = [model.joint.blocks[0].family for model in (one, two)]
    shares = [float(model.stats.weight.sum()) for model in (one, two)]
    family = max(zip(shares, map(repr, families), families, strict=True), key=lambda part: part[:2])[2]
    a, b = families
    if a == b or not (isinstance(a, MultivariateGaussian) and isinstance(b, MultivariateGaussian)):
        return family
    if a.covariance != b.covariance or not any(shares) or isinstance(a.sphere, str) or isinstance(b.sphere, str):
        return family
    assert isinstance(family, MultivariateGaussian)
    tie, sphere = np.average([[a.tie, a.sphere], [b.tie, b.sphere]], axis=0, weights=shares)
    return replace(family, tie=float(tie), sphere=float(sphere))  # the larger side's units are kept


@dataclass(frozen=True, slots=True, eq=False)
class ByTree(Choice):
    """The tree of columns, if it is learned from rows; and the prior's strength."""

    finds: bool = True
    alpha: bool = False
    given: tuple[bool, ...] | None = None  # for each column, whether its cuts were given rather than learned

    def chooses(self) -> bool:
        return self.alpha

    def looks_at_labels(self) -> bool:
        return self.finds or self.alpha

    def why(self, model: Model) -> str:
        if self.finds:
            return "its tree was chosen from rows"
        known = model.columns().categories or ()
        for given, values in zip(self.given or (False,) * len(known), known, strict=True):
            if not given and (isinstance(values, Bins) or not all(isinstance(v, str | bool) for v in values)):
                return "its bin edges were chosen from rows"
        return Choice.why(self, model)

    def choose(self, model: Model, data: Data, codes: Array, weight: Floats | None, n_jobs: int | None) -> Joint:
        return model.joint.with_alpha(best_alpha(model, data, codes, weight, n_jobs))

    def between(self, one: Model, two: Model) -> Joint:
        return one.joint.with_alpha(mean_strength(one, two, 0)) if self.alpha else one.joint

    def anew(self, model: Model, everything: LabelledData, some: LabelledData, n_jobs: int | None) -> Model:
        """With another tree, all rows are summed again."""
        chosen, columns = Choice.anew(self, model, everything, some, n_jobs), model.columns()
        if not self.finds:
            return chosen
        parents = chow_liu(some.data[0], np.diff(columns.offsets), some.y, some.weight, len(model.classes))
        schema = replace(model.schema, blocks=(replace(columns, parents=parents),))
        stats = collect.collect(everything.data, chosen.joint, schema, everything.y, everything.weight, n_jobs)
        return Model(chosen.joint, stats)
