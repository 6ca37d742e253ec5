"""The model of a joint distribution as a learner: sums by class under a class prior and blocks of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from deciban import collect, em, expect, score
from deciban._typing import Array, Codes, Data, Floats
from deciban.algebra import Stats
from deciban.corollaries.decay import scaled
from deciban.corollaries.explain import explain, item_evidence, strongest
from deciban.corollaries.forget import check_classes, forget, subtract
from deciban.corollaries.leave_one_out import (
    alone_in_class,
    cross_fitted,
    leave_one_out,
    rows_in_doubt,
)
from deciban.corollaries.sample import sample
from deciban.errors import DecibanError, ForgetError, NotAvailableError, SchemaError, warn
from deciban.joint import Joint, Model
from deciban.learner import AS_LABELLED, Hidden, Learner
from deciban.reading.entries import Entries
from deciban.reading.labels import Labels
from deciban.results.evidence import Evidence
from deciban.results.ledger import Ledger
from deciban.results.ways import EXACT, HELD
from deciban.schema import Columns, Schema
from deciban.show import plain
from deciban.storage import files


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What leave-one-out chooses in a joint distribution; here nothing. `asked` is the one given by the parameters."""

    asked: Joint

    def chooses(self) -> bool:
        """Whether leave-one-out chooses something."""
        return False

    def looks_at_labels(self) -> bool:
        """Whether something besides the sums depends on labels."""
        return self.chooses()

    def why(self, model: Model) -> str:
        """What was chosen on the rows, so that one more row might change it; empty if nothing."""
        del model
        return "leave-one-out chose some of its settings" if self.chooses() else ""

    def choose(self, model: Model, data: Data, codes: Array, weight: Floats | None, n_jobs: int | None) -> Joint:
        """The distribution chosen on these learned rows, which have no missing values."""
        del data, codes, weight, n_jobs
        return model.joint

    def anew(self, model: Model, everything: LabelledData, some: LabelledData, n_jobs: int | None) -> Model:
        """The model of everything, under choices made on only some of the rows."""
        del everything
        if not self.chooses():
            return model
        part = Model(self.asked, collect.collect(some.data, self.asked, model.schema, some.y, some.weight, n_jobs))
        able = ~alone_in_class(part.stats.weight, some.y, some.weight)
        if len(np.unique(some.y[able])) < 2:  # nothing to choose from
            return model.with_joint(replace(self.asked, class_prior=model.joint.class_prior))
        return model.with_joint(self.choose(part, *some.parts(), n_jobs))

    def between(self, one: Model, two: Model) -> Joint:
        """The distribution of the sum of two models."""
        del two
        return one.joint

    def current(self, model: Model) -> Joint:
        """The distribution given by the present parameters; what leave-one-out chose stays until the next fit."""
        return replace(self.asked, blocks=model.joint.blocks) if self.chooses() else self.asked

    def made(self, model: Model) -> bool:
        """Whether this model's distribution is possible under the parameters."""
        return tuple(block.family for block in model.joint.blocks) == tuple(b.family for b in self.asked.blocks)


@dataclass(frozen=True, slots=True, eq=False)
class LabelledData:
    """Learned rows: a matrix per block, class codes, and optional weights."""

    data: Data
    y: Array
    weight: Floats | None

    def parts(self) -> tuple[Data, Array, Floats | None]:
        return self.data, self.y, self.weight


@dataclass(frozen=True, slots=True, eq=False)
class JointModel(Model, Learner):
    """A joint distribution and its sums, which learns, forgets, fills in missing values, and chooses."""

    choice: Choice | None = None
    unlabelled: int = 0  # rows whose label was estimated by EM
    incomplete: int = 0  # rows with entries estimated by EM
    frozen: str = ""  # why rows cannot be added or removed, if something besides sums depends on them
    least: tuple[int, ...] | None = None  # how many integer categories each column keeps, whatever is forgotten
    filled_by: em.Learned | None = field(default=None, repr=False)  # the result of the last run of EM
    privacy: Ledger | None = None  # the noise in the sums, if there is any

    # ------------------------------------------------------------------ classes

    @property
    def weight(self) -> Floats:
        return self.stats.weight

    @property
    def closed(self) -> bool:
        return self.schema.closed

    @property
    def class_prior(self) -> str | Floats:
        return self.joint.class_prior

    def with_joint(self, joint: Joint) -> Self:
        return replace(self, joint=joint)

    def with_prior(self, class_prior: str | Floats) -> Self:
        return replace(self, joint=replace(self.joint, class_prior=class_prior))

    def with_stats(self, stats: Stats) -> Self:
        return replace(self, stats=stats)

    # ------------------------------------------------------------------ sums

    def zero(self) -> Self:
        return replace(self, stats=self.stats.scale(0.0), unlabelled=0, incomplete=0, filled_by=None, privacy=None)

    def batch(self, rows: Entries, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> Self:
        placed = labels.placed(self.classes) if self.closed else labels
        schema, shares = Schema(placed.classes, rows.columns, self.closed), placed.shares
        if len(rows.data) > 1:  # a row with a missing value for EM in one block must not be in the sums of another yet
            gaps = expect.rows_with_gaps(rows.data, self.joint)
            if gaps.any():
                if shares.ndim == 1:
                    shares = np.where(gaps, np.int32(-1), shares)
                else:
                    shares = np.where(gaps[:, None], 0.0, shares)
        stats = collect.collect(rows.data, self.joint, schema, shares, weight, n_jobs)
        return replace(self, stats=stats, unlabelled=0, incomplete=0, filled_by=None, privacy=None)

    def __add__(self, other: Self) -> Self:
        joint = self.joint
        if self.choice is not None and joint is not other.joint:
            joint = self.choice.between(self, other)
        return replace(
            self,
            joint=joint,
            stats=self.stats + other.stats,
            unlabelled=self.unlabelled + other.unlabelled,
            incomplete=self.incomplete + other.incomplete,
            filled_by=None,
            privacy=self._merged_privacy(other),
        )

    def _merged_privacy(self, other: Self) -> Ledger | None:
        """The ledger of both. Rows without noise would not be protected in the sum."""
        if self.privacy is None and other.privacy is None:
            return None
        if self.privacy is None or other.privacy is None:
            raise SchemaError(
                "the sums of a private model contain noise, and rows without noise cannot be added to it: they would "
                "not be protected. Make a private model of these rows, too, and merge both"
            )
        return self.privacy + other.privacy

    def __sub__(self, other: Self) -> Self:
        return self.with_stats(forget(self, other.stats, self.least).stats)

    def forget(self, rows: Entries, labels: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> Self:
        check_classes(self, labels.classes)
        batch = self.batch(rows, labels, weight, n_jobs)
        gaps = batch.gaps(rows, weight, labels)
        if gaps.any():
            raise ForgetError(
                "row {row} has a missing value, but the model has learned only complete rows", row=int(np.argmax(gaps))
            )
        return self - batch

    def out_of_sums(self, rows: Entries, codes: Codes, weight: Floats | None = None) -> Self:
        """As in `Learner`; categories without any row stay, since rows are codes of them."""
        return self.with_stats(subtract(self, self.batch(rows, Labels(self.classes, codes), weight).stats))

    def scale(self, share: float) -> Self:
        ledger = None if self.privacy is None else self.privacy.scaled(share)
        return replace(self, stats=scaled(self.stats, share), privacy=ledger)

    @property
    def why_inexact(self) -> str:
        if self.frozen:
            return self.frozen
        if self.privacy is not None:
            return "the model is private: noise in its sums hides every row"
        if self.unlabelled:
            return "some labels were inferred by EM, so rows depend on each other"
        return "missing values were estimated by EM, so rows depend on each other" if self.incomplete else ""

    def gaps(self, rows: Entries, weight: Floats | None = None, labels: Labels | None = None) -> Array:
        """Which rows have missing values that must be guessed from the other columns: they are not in the sums yet.

        If `labels` are given and this is the model of these rows alone, its weight shows whether there are any.
        """
        none = np.zeros(len(rows), dtype=bool)
        if not any(block.family.whole_rows for block in self.joint.blocks):
            return none
        if labels is not None and not labels.any_missing:  # saves a pass over all entries
            total = float(len(rows)) if weight is None else float(weight.sum())
            if abs(float(self.stats.weight.sum()) - total) <= 1e-9 * total:
                return none
        return expect.rows_with_gaps(rows.data, self.joint)

    # ------------------------------------------------------------------ predictions

    def log_joints(self, rows: Entries, n_jobs: int | None = None) -> Floats:
        return score.apply(rows.data, self, "log_joint", n_jobs)

    def scores(self, rows: Entries, how: str, n_jobs: int | None = None) -> Array:
        return score.apply(rows.data, self, how, n_jobs)

    def log_density(self, rows: Entries, n_jobs: int | None = None) -> Floats:
        if not self.generative:
            raise NotAvailableError("this is not a generative model: it has no p(x)")
        density: Floats = score.apply(rows.data, self, "log_evidence", n_jobs)
        if not np.isfinite(density).all():
            score.check_finite(rows.data, self)
        return density

    def log_posterior_without(
        self, rows: Entries, codes: Codes, weight: Floats | None, n_jobs: int | None, whole: bool
    ) -> tuple[Floats, str]:
        if any(family.whole_rows or not family.downdates(self.alpha(b)) for b, family in enumerate(self.families)):
            score.check_finite(rows.data, self)
            gaps = expect.rows_with_gaps(rows.data, self.joint)
            if gaps.any():
                raise ForgetError(
                    "row {row} has a missing value, but the model has learned only complete rows",
                    row=int(np.argmax(gaps)),
                )
        way = EXACT
        if self.choice is not None and self.choice.looks_at_labels() and len(codes):
            way = HELD
        if way == HELD and whole:
            everything = LabelledData(rows.data, codes, weight)
            chosen = partial(self._chosen_by, everything, n_jobs)
            result = cross_fitted(self, chosen, rows.data, codes, weight, n_jobs)
            way = result.way
        else:
            result = leave_one_out(self, rows.data, codes, weight, n_jobs)
        for row in rows_in_doubt(result.log_proba):
            raise ForgetError(
                f"row {{row}} is so extreme that the remainder of class {plain(self.classes[codes[row]])!r} without "
                f"it is smaller than the rounding error of its sums: give all rows of the class at once, in memory",
                row=row,
                command_line="row {row} cannot be left out, because the model has not learned it: give the files it "
                "was trained on, or --as-new",
            )
        return result.log_proba, way

    def _chosen_by(
        self, everything: LabelledData, n_jobs: int | None, data: Data, y: Array, weight: Floats | None
    ) -> Model:
        assert self.choice is not None
        return self.choice.anew(self, everything, LabelledData(data, y, weight), n_jobs)

    @property
    def families(self) -> tuple[Any, ...]:
        return tuple(block.family for block in self.joint.blocks)

    def check_rows(self, rows: Entries) -> None:
        score.check_finite(rows.data, self)

    def explain(self, row: Entries, target: int | None = None, against: int | None = None, **how: Any) -> Evidence:
        del how
        return explain(self, row.data, target, against)

    def item_evidence(self, row: Entries) -> list[tuple[str, Any, Floats]]:
        return item_evidence(self, row.data)

    def strongest(self, target: int, most: int) -> list[tuple[str, float]]:
        return strongest(self, target, most)

    def sample(self, n: int, rng: np.random.Generator, given: int | None = None, **how: Any) -> tuple[Data, Codes]:
        return sample(self, n, rng, given, how.get("length"))

    def named(self, names: tuple[tuple[str, ...] | None, ...]) -> Self:
        """The model with these column names, by block."""
        blocks = tuple(replace(c, names=mine) for c, mine in zip(self.schema.blocks, names, strict=True))
        return self.with_stats(replace(self.stats, schema=replace(self.schema, blocks=blocks)))

    # ------------------------------------------------------------------ missing labels, choices

    def fill(
        self,
        rows: Entries,
        codes: Codes,
        weight: Floats | None = None,
        hidden: Hidden = AS_LABELLED,
        n_jobs: int | None = None,
        watch: Callable[[int, float], None] | None = None,
        first: Callable[[np.random.RandomState], Floats] | None = None,
    ) -> Self:
        """EM over missing labels, and over missing values if columns depend on each other."""
        counts = np.ones(len(codes), dtype=bool) if weight is None else weight > 0
        gaps = self.gaps(rows)
        unlabelled, incomplete = int(((codes < 0) & counts).sum()), int((gaps & counts).sum())
        if not unlabelled and not incomplete:  # hidden rows have weight 0
            return self
        start = self.with_joint(plugged_in(self.joint))  # EM maximises the likelihood of parameters, not their average
        data, codes, weight = expect.drop_weightless(rows.floats().data, codes, weight)
        how: dict[str, Any] = {"n_jobs": n_jobs} | ({} if watch is None else {"watch": watch})
        if hidden.clusters:
            rng = hidden.random_state
            learned = expect.learn_clusters(data, start, weight, rng, first=first, **how)
        else:
            learned = expect.learn_hidden(data, start, codes, weight, hidden_weight=hidden.weight, **how)
        return replace(
            self,
            stats=learned.model.stats,
            unlabelled=self.unlabelled + unlabelled,
            incomplete=self.incomplete + incomplete,
            filled_by=learned,
        )

    def choose(self, rows: Entries, codes: Codes, weight: Floats | None = None, n_jobs: int | None = None) -> Self:
        if self.choice is None or not self.choice.chooses():
            return self
        known = np.flatnonzero(codes >= 0 if weight is None else (codes >= 0) & (weight > 0))
        if len(known) == 0:
            if len(codes):
                warn("no row has a label: leave-one-out needs labelled rows for its choices", UserWarning)
            return self
        rows = rows.floats()
        data = rows.data if len(known) == len(codes) else [X[known] for X in rows.data]
        if expect.rows_with_gaps(data, self.joint).any():  # missing values are filled in by their expectations
            shares = collect.one_hot(codes[known], len(self.classes), None)
            data = [
                block.family.fill(params, X, shares) if block.family.whole_rows else X
                for block, params, X in zip(self.joint.blocks, self.params, data, strict=True)
            ]
        return self.with_joint(
            self.choice.choose(self, data, codes[known], None if weight is None else weight[known], n_jobs)
        )

    # ------------------------------------------------------------------ pickling

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        document, tensors = files.parts(self)
        return document if self.privacy is None else document | {"privacy": self.privacy.to_dict()}, tensors

    @classmethod
    def unpack(cls, document: Mapping[str, Any], tensors: Mapping[str, Array]) -> Self:
        model = files.rebuild(document, tensors)
        ledger = document.get("privacy")
        return cls(model.joint, model.stats, privacy=None if ledger is None else Ledger.from_dict(ledger))


def plugged_in(joint: Joint) -> Joint:
    """The same distribution with parameters plugged in instead of integrated out."""
    blocks = [
        replace(block, family=replace(block.family, predictive=False))  # type: ignore[call-arg]
        if hasattr(block.family, "predictive")
        else block
        for block in joint.blocks
    ]
    return replace(joint, blocks=tuple(blocks))


def with_no_rows(choice: Choice, classes: Array, columns: tuple[Columns, ...], closed: bool) -> JointModel:
    """An empty model of these classes and columns, under the requested distribution."""
    return JointModel(choice.asked, choice.asked.zero(Schema(classes, columns, closed)), choice)


def check_prior(model: Model, name: str) -> None:
    """Check that a given prior has a probability for every class, and pseudo-counts by class a row for each."""
    prior, labels = model.joint.class_prior, model.classes.tolist()
    if not isinstance(prior, str):
        if prior.shape != (len(labels),):
            raise DecibanError(
                f"Number of priors must match number of classes. {name} has {len(prior)} of them, but there are "
                f"{len(labels)} classes, {labels}: give one per class, or None to count them."
            )
        if not np.isclose(prior.sum(), 1.0):
            raise DecibanError("The sum of the priors should be 1.")
        if (prior < 0).any():
            raise DecibanError("Priors must be non-negative.")
    for alpha in (block.alpha for block in model.joint.blocks):
        rows = np.shape(alpha)[0] if not isinstance(alpha, str) and np.ndim(alpha) == 2 else len(labels)
        if rows != len(labels):
            raise DecibanError(f"alpha has a row for {rows} classes, but there are {len(labels)}: {labels}")
