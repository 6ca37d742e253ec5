"""Classes made of several components: log-sum-exp within the class, and explanations that still add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from deciban import em, expect, score
from deciban._typing import Array, Codes, Data, Floats
from deciban.algebra import Stats
from deciban.bayes import DECIBANS, log_evidence
from deciban.choices import gaussian_of
from deciban.corollaries.decay import scaled
from deciban.corollaries.explain import compared_classes, strongest
from deciban.errors import FileError, ForgetError
from deciban.joint import Joint, Model
from deciban.joint_model import JointModel
from deciban.learner import AS_LABELLED, Hidden, Learner
from deciban.reading.entries import Entries
from deciban.reading.labels import Labels
from deciban.results.evidence import Evidence
from deciban.schema import Columns, Schema, union_classes
from deciban.show import plain
from deciban.storage import files

FIXED = "in a mixture the components of a row depend on all other rows"


@dataclass(frozen=True, slots=True, eq=False)
class MixtureModel(JointModel):
    """A mixture without classes: components take their place. Sums add up only for fixed responsibilities."""

    lineage: object = field(default_factory=object)  # shared by models with the same components

    @property
    def why_inexact(self) -> str:
        return FIXED

    def batch(
        self, rows: Entries, labels: Labels | None = None, weight: Floats | None = None, n_jobs: int | None = None
    ) -> MixtureModel:
        """The sums of rows under the present responsibilities: a step of EM."""
        del labels
        return replace(self, stats=expect.expect(rows.data, self, None, None, weight, n_jobs)[1], filled_by=None)

    def __add__(self, other: MixtureModel) -> MixtureModel:
        """The sum of both mixtures: components that are closest to each other are added."""
        theirs = other.stats if self.lineage is other.lineage else other.stats_in_order(closest(self, other))
        return replace(self, stats=self.stats + theirs, filled_by=None)

    def __sub__(self, other: MixtureModel) -> MixtureModel:
        raise ForgetError(f"{FIXED}, so none can be subtracted exactly: fit again without them")

    def stats_in_order(self, order: Array) -> Stats:
        """The sums with the components in another order."""
        columns = self.columns()
        assert columns.pivot is not None
        moved = Schema(self.classes, (Columns(columns.size, columns.names, pivot=columns.pivot[order]),))
        sums = {name: array[order] for name, array in self.stats.sums[0].items()}
        return Stats(moved, self.stats.weight[order], (sums,))


def closest(one: Model, two: Model) -> Array:
    """The component of `two` matched to each of `one`: least total squared distance, in deviations of `one`."""
    from scipy.optimize import linear_sum_assignment

    a, b = one.params[0].mean, two.params[0].mean
    variance = gaussian_of(one).columnwise(one.params[0]).variance
    scale = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    distance = (((a[:, None] - b[None]) / scale[:, None]) ** 2).sum(axis=2)
    return np.asarray(linear_sum_assignment(distance)[1])


@dataclass(frozen=True, slots=True, eq=False)
class ComponentModel(Learner):
    """Classes that are mixtures: one model of all components, and the class of each."""

    parts: Model
    owner: Array  # the class code of every component
    classes: Array
    closed: bool = False
    class_prior: str | Floats = "empirical"
    climbs: Joint | None = None  # the distribution during EM: parameters plugged in, means not shrunken
    unlabelled: int = 0
    filled_by: em.Learned | None = field(default=None, repr=False)

    incomplete = 0
    frozen = ""

    @classmethod
    def of(cls, joint: Joint, stats: Stats, owner: Array, classes: Array, **more: Any) -> ComponentModel:
        """Components of these sums; a given class prior is split among them by their weights."""
        prior = more.get("class_prior", "empirical")
        if not isinstance(prior, str):
            total = np.bincount(owner, weights=stats.weight, minlength=len(classes))[owner]
            share = np.where(total > 0, stats.weight / np.where(total > 0, total, 1.0), 0.0)
            joint = replace(joint, class_prior=np.asarray(prior, dtype=np.float64)[owner] * share)
        else:
            joint = replace(joint, class_prior="empirical")
        return cls(Model(joint, stats), owner, classes, **more)

    def with_stats(self, stats: Stats, owner: Array | None = None, classes: Array | None = None) -> ComponentModel:
        owner, classes = self.owner if owner is None else owner, self.classes if classes is None else classes
        more = {name: getattr(self, name) for name in ("closed", "class_prior", "climbs", "unlabelled")}
        return ComponentModel.of(self.parts.joint, stats, owner, classes, **more)

    # ------------------------------------------------------------------ the components

    @property
    def joint(self) -> Joint:
        return self.parts.joint

    @property
    def stats(self) -> Stats:
        return self.parts.stats

    @property
    def schema(self) -> Schema:
        return self.parts.schema

    @property
    def params(self) -> tuple[Any, ...]:
        return self.parts.params

    def columns(self, block: int = 0) -> Columns:
        return self.parts.columns(block)

    def cached(self, key: str, make: Callable[[], Any]) -> Any:
        return self.parts.cached(key, make)

    def allowed(self) -> Array:
        """Which components a row may belong to, by class code; the last row is for code −1."""
        k = len(self.classes)
        return np.vstack([self.owner == np.arange(k)[:, None], np.ones((1, len(self.owner)), dtype=bool)])

    def expected(self, rows: Entries, codes: Array, weight: Floats | None, n_jobs: int | None) -> tuple[float, Stats]:
        """A step of EM: the log-likelihood of rows, and their sums over the components of their classes."""
        climbing = self.parts if self.climbs is None else self.parts.with_joint(self.climbs)
        return expect.expect(rows.data, climbing, codes, self.allowed(), weight, n_jobs)

    # ------------------------------------------------------------------ classes

    @property
    def weight(self) -> Floats:
        return np.bincount(self.owner, weights=self.parts.stats.weight, minlength=len(self.classes)).astype(np.float64)

    @property
    def log_prior(self) -> Floats:
        prior = np.bincount(self.owner, weights=np.exp(self.parts.log_prior), minlength=len(self.classes))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(prior.astype(np.float64)))

    def with_prior(self, class_prior: str | Floats) -> ComponentModel:
        return replace(self, class_prior=class_prior).with_stats(self.parts.stats)

    # ------------------------------------------------------------------ sums

    def zero(self) -> ComponentModel:
        return replace(self.with_stats(self.parts.stats.scale(0.0)), unlabelled=0)

    def batch(
        self, rows: Entries, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None
    ) -> ComponentModel:
        """The sums of rows under the present responsibilities within their class: a step of EM."""
        codes = labels.among(self.classes)
        known = np.flatnonzero(codes >= 0)
        each = None if weight is None else weight[known]
        stats = self.expected(rows.take(known), codes[known], each, n_jobs)[1]
        return replace(self.with_stats(stats), unlabelled=0)

    def __add__(self, other: ComponentModel) -> ComponentModel:
        """Sums of the same components are added; other components are appended."""
        if self.parts.schema is other.parts.schema or np.array_equal(self._pivots(), other._pivots()):
            return self.with_stats(self.parts.stats + other.parts.stats)
        classes = union_classes(self.classes, other.classes)
        owner = np.concatenate([np.searchsorted(classes, one.classes)[one.owner] for one in (self, other)])
        both = side_by_side([self.parts.stats, other.parts.stats])
        merged = replace(self, closed=self.closed or other.closed, unlabelled=self.unlabelled + other.unlabelled)
        return merged.with_stats(both, owner, classes)

    def _pivots(self) -> Floats:
        """The pivots of the components: equal for models that continue from the same ones."""
        pivot = self.parts.columns().pivot
        assert pivot is not None
        return pivot

    def __sub__(self, other: ComponentModel) -> ComponentModel:
        raise ForgetError(f"{FIXED}, so none can be subtracted exactly: fit again without them")

    def scale(self, share: float) -> ComponentModel:
        return self.with_stats(scaled(self.parts.stats, share))

    @property
    def why_inexact(self) -> str:
        return FIXED

    # ------------------------------------------------------------------ predictions

    def log_joints(self, rows: Entries, n_jobs: int | None = None) -> Floats:
        return grouped(score.apply(rows.data, self.parts, "log_joint", n_jobs), self.owner, len(self.classes))

    def scores(self, rows: Entries, how: str, n_jobs: int | None = None) -> Array:
        if how == "log_joint":
            return self.log_joints(rows, n_jobs)
        by_part = score.apply(rows.data, self.parts, "log_posterior", n_jobs)
        logs = grouped(by_part, self.owner, len(self.classes))
        if how == "best":
            return np.asarray(logs.argmax(axis=1))
        return np.asarray(np.exp(logs)) if how == "posterior" else logs

    def log_density(self, rows: Entries, n_jobs: int | None = None) -> Floats:
        density = log_evidence(self.log_joints(rows, n_jobs))
        if not np.isfinite(density).all():
            score.check_finite(rows.data, self.parts)
        return density

    def log_posterior_without(
        self, rows: Entries, codes: Codes, weight: Floats | None, n_jobs: int | None, whole: bool
    ) -> tuple[Floats, str]:
        del rows, codes, weight, n_jobs, whole
        raise ForgetError(f"{FIXED}, so none can be left out exactly: hold rows out and use score")

    def check_rows(self, rows: Entries) -> None:
        score.check_finite(rows.data, self.parts)

    def explain(self, row: Entries, target: int | None = None, against: int | None = None, **how: Any) -> Evidence:
        del how
        return explain_components(self.parts, row.data, self.owner, self.classes, target, against)

    def strongest(self, target: int, most: int) -> list[tuple[str, float]]:
        """The strongest items of the components of a class against all others."""
        items = [item for i in np.flatnonzero(self.owner == target) for item in strongest(self.parts, int(i), most)]
        return sorted(items, key=lambda item: -item[1])[:most]

    def sample(self, n: int, rng: np.random.Generator, given: int | None = None, **how: Any) -> tuple[Data, Codes]:
        """A component drawn by its weight (in the class `given`), then x from its distribution."""
        del how
        chance = np.exp(self.parts.log_prior)
        if given is not None:
            chance = np.where(self.owner == given, chance, 0.0)
        if not chance.sum() > 0:
            named = "no class" if given is None else f"class {plain(self.classes[given])!r}"
            raise ValueError(f"{named} has rows, or a prior, to draw from")
        which = rng.choice(len(chance), size=n, p=chance / chance.sum())
        family, columns = self.parts.joint.blocks[0].family, self.parts.columns()
        rows = family.sample(self.parts.params[0], columns, which, rng, np.zeros(n, dtype=np.int64))
        return [rows], self.owner[which]

    def named(self, names: tuple[tuple[str, ...] | None, ...]) -> ComponentModel:
        """The model with these column names."""
        blocks = tuple(replace(c, names=mine) for c, mine in zip(self.schema.blocks, names, strict=True))
        stats = replace(self.parts.stats, schema=replace(self.schema, blocks=blocks))
        return replace(self, parts=Model(self.parts.joint, stats))

    # ------------------------------------------------------------------ missing labels, choices

    def fill(
        self,
        rows: Entries,
        codes: Codes,
        weight: Floats | None = None,
        hidden: Hidden = AS_LABELLED,
        n_jobs: int | None = None,
        watch: Callable[[int, float], None] | None = None,
        **how: Any,
    ) -> ComponentModel:
        """EM over all rows: the component of each, and its class if the label is missing."""
        each = np.where(codes < 0, hidden.weight, 1.0) * (1.0 if weight is None else weight)
        climbing = self.parts if self.climbs is None else self.parts.with_joint(self.climbs)
        allowed, more = self.allowed(), how | ({} if watch is None else {"watch": watch})
        learned = em.learn(
            climbing,
            lambda model: expect.expect(rows.data, model, codes, allowed, each, n_jobs),
            rows=float(each.sum()),
            **more,
        )
        filled = self.with_stats(learned.model.stats)
        return replace(filled, unlabelled=int((codes < 0).sum()), filled_by=learned)

    def choose(
        self, rows: Entries, codes: Codes, weight: Floats | None = None, n_jobs: int | None = None
    ) -> ComponentModel:
        """The same: the estimator makes the choices, with the responsibilities held fixed."""
        del rows, codes, weight, n_jobs
        return self

    # ------------------------------------------------------------------ pickling

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        document, tensors = files.parts(self.parts)
        own = {"owner": self.owner, "labels": self.classes, "closed": self.closed, "prior": self.class_prior}
        return document | {"components": {name: files.encode(value) for name, value in own.items()}}, tensors

    @classmethod
    def unpack(cls, document: Mapping[str, Any], tensors: Mapping[str, Array]) -> ComponentModel:
        own = {name: files.decode(value) for name, value in document["components"].items()}
        model = cls.of_parts(document, tensors, own["owner"], own["labels"], own["closed"])
        return replace(model, class_prior=own["prior"])

    @classmethod
    def of_parts(
        cls, document: Mapping[str, Any], tensors: Mapping[str, Array], owner: Array, labels: Array, closed: bool
    ) -> ComponentModel:
        """Components and their classes from a file, checked."""
        parts = files.rebuild(document, tensors)
        check_owners(parts, owner, labels, closed)
        return cls(parts, owner, labels, closed)


def check_owners(parts: Model, owner: Any, labels: Any, closed: Any) -> None:
    """Check that components from a file belong to existing classes."""
    if owner.shape != (len(parts.classes),) or owner.dtype.kind != "i" or labels.ndim != 1:
        raise FileError("its components do not fit its sums")
    if len(owner) == 0 or owner.min() < 0 or owner.max() >= len(labels):
        raise FileError("its components do not fit its classes")
    if not all(a < b for a, b in pairwise(labels.tolist())) or not isinstance(closed, bool):
        raise FileError("its classes are not distinct and sorted")


def side_by_side(several: Iterable[Stats]) -> Stats:
    """The components of several sums, one after another."""
    parts = list(several)
    blocks = [part.schema.blocks[0] for part in parts]
    pivot = np.concatenate([block.pivot for block in blocks if block.pivot is not None])
    sums = {}
    for name in set(parts[0].sums[0]) - {"lost"}:  # rows of a mixture are never subtracted
        arrays = [part.sums[0][name] for part in parts]
        widest = max(array.shape[1:] for array in arrays)  # `one` is wide only if entries were missing
        sums[name] = np.concatenate([np.broadcast_to(array, (len(array), *widest)) for array in arrays])
    schema = Schema(np.arange(len(pivot)), (Columns(blocks[0].size, blocks[0].names, pivot=pivot),))
    return Stats(schema, np.concatenate([part.weight for part in parts]), (sums,))


def grouped(log_scores: Floats, owner: Array, k: int) -> Floats:
    """log Σ exp over the components of each class, (n, k); −∞ for a class without any."""
    out = np.full((len(log_scores), k), -np.inf)
    for c in range(k):
        mine = owner == c
        if mine.any():
            out[:, c] = log_evidence(log_scores[:, mine])
    return out


def explain_components(
    model: Model, data: Data, owner: Array, classes: Array, target: int | None = None, against: int | None = None
) -> Evidence:
    """Why one row is of one class rather than another, when classes are mixtures.

    With r_m the responsibility of component m within its class, log p(x | class) = Σ_m r_m (log p(x | m) + log π_m −
    log r_m): the evidence of each column is its mean over the components, and the last two terms are one item.
    """
    log_joint = model.log_joint(data)[0]
    by_class = grouped(log_joint[None], owner, len(classes))[0]
    target, against = compared_classes(by_class, classes, target, against)
    prior = grouped(model.log_prior[None], owner, len(classes))[0]
    shares, which = np.zeros(len(owner)), np.zeros(len(classes))
    for c in (target, against):
        mine = np.flatnonzero(owner == c)
        if np.isfinite(by_class[c]):
            shares[mine] = np.exp(log_joint[mine] - by_class[c])
        else:  # too far away to distinguish components: the shares of the prior
            shares[mine] = np.exp(model.log_prior[mine] - prior[c]) if np.isfinite(prior[c]) else 0.0
        some = mine[shares[mine] > 0]
        which[c] = shares[some] @ (model.log_prior[some] - prior[c] - np.log(shares[some]))

    def log_odds(terms: Floats) -> Floats:
        """Log-odds of the two classes from terms of their components."""
        own, other = (np.dot(terms[:, owner == c], shares[owner == c]) for c in (target, against))
        neither = np.isinf(own) & (own == other)  # impossible under both: no evidence
        return np.asarray(np.where(neither, 0.0, own) - np.where(neither, 0.0, other))

    items: list[tuple[str, Any, float]] = []
    for b, X in enumerate(data):
        columns, family = model.columns(b), model.joint.blocks[b].family
        row = np.asarray(X).ravel()
        at, terms = family.terms(model.params[b], columns, X)
        items += [
            (columns.name(int(j)), plain(row[j]), float(db))
            for j, db in zip(at, log_odds(terms) * DECIBANS, strict=True)
        ]
        rest = family.rest(model.params[b], columns, X)
        if rest is not None:
            items.append((rest[0], rest[1], float(log_odds(rest[2][None])[0]) * DECIBANS))
    items.append(("(which component)", "", float(which[target] - which[against]) * DECIBANS))
    items.sort(key=lambda item: -abs(item[2]))
    evidence = log_evidence(by_class[None])[0]
    probability = float(np.exp(by_class[target] - evidence if np.isfinite(evidence) else prior[target]))
    odds = float(prior[target] - prior[against]) * DECIBANS
    return Evidence(plain(classes[target]), plain(classes[against]), odds, tuple(items), probability)
