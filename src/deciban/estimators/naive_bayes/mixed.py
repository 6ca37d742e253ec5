"""Naive Bayes for tables of mixed columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Categories, Codes, Data, Floats
from deciban.algebra import RESIDUE, Stats
from deciban.corollaries.leave_one_out import FEW, leave_one_out, some_of
from deciban.errors import DecibanError, SchemaError, SingularWarning, warn
from deciban.estimators.base import STATE, GenerativeClassifier
from deciban.estimators.gaussians.discriminant import repairs_in_words
from deciban.estimators.gaussians.real import pivots
from deciban.estimators.naive_bayes.layout import (
    Group,
    columns_in,
    columns_out,
    law_in,
    law_out,
    lay_out,
    listed,
    read_alpha,
    read_law,
)
from deciban.estimators.tabular import read_table
from deciban.families import Family, MultivariateGaussian
from deciban.joint import Block, Joint, Model
from deciban.measure import incomplete
from deciban.priors import Alpha, search
from deciban.reading.frames import Column, Levels, Numbers, read_frame, split_target, to_native
from deciban.reading.labels import Labels
from deciban.schema import Columns, Schema
from deciban.show import Table, plain

Self = TypeVar("Self", bound="NaiveBayes")

KINDS = ("number", "date", "boolean", "category")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a table as they were read: the columns that the model has, by its own names for them."""

    columns: Mapping[str, Column]
    shape: tuple[int, int]


class NaiveBayes(GenerativeClassifier):
    """Naive Bayes for a table of mixed columns: p(x | y) = Π_b p_b(x_b | y), a law for every column or group of them.

    A table is a pandas, Polars or Arrow frame, a mapping of columns, a list of dicts, or an array. Where columns have
    names, later tables may have them in any order and others besides, which are left alone; one that is not there is
    an error. `fit(table, "label")` takes the labels from a column of the table. Missing entries drop out; in a group
    whose columns depend on each other, learning expects them by EM.

    Parameters
    ----------
    columns : dict, default=None
        {which: law}. Which columns: a name, an index, a tuple of these (one group), or a pattern such as "word_*"
        (a group of the columns like it that no other key names; a column of that very name comes first).
        A law is a word, a family from `deciban.families`, or a pair (law, alpha):

        - "gaussian", "poisson", "geometric" (how long something took), "bernoulli" (is it more than 0?),
          "categorical": each column by itself;
        - "multinomial": the columns of a group are one bag of words;
        - "full", "tied", "diag" and the other shapes of GaussianDiscriminant: the columns of a group are Gaussian
          together;
        - "drop": the column is left out.
    rest : law, "auto" or "error", default="auto"
        What becomes of columns that no key names. "auto": numbers and dates are Gaussian; strings, booleans and
        categories are categorical.
    alpha : float, "empirical" or "loo", default=1.0
        How strong the priors are: pseudo-counts of every category or word, pseudo-rows of every class otherwise.
        "empirical" maximises the marginal likelihood, "loo" minimises exact leave-one-out log loss, both for each
        block by itself: a group, or all columns of one law that were not given as a group.
    class_prior : array-like of shape (k,) or "uniform", default=None
        The class prior, if it is known; otherwise n_y/n.
    n_jobs : int, default=None
        Threads; None is all cores for data large enough to gain from them.

    Attributes
    ----------
    classes_, class_count_, class_prior_ : arrays
    blocks_ : Table
        The blocks: their columns, law, and prior strength.
    alpha_ : tuple
        The prior strength in use, a block.
    n_features_in_, feature_names_in_ : as in scikit-learn; the label's column is not among them
    model_ : Model

    Examples
    --------
    >>> from deciban import NaiveBayes
    >>> table = {
    ...     "height": [1.83, 1.79, None, 1.62, 1.65, 1.70],
    ...     "weight": [85, 80, 77, 55, None, 61],
    ...     "team": ["red", "blue", "red", "blue", "blue", None],
    ...     "goals": [3, 0, 2, 1, 0, 0],
    ...     "plays": ["rugby", "rugby", "rugby", "hockey", "hockey", "hockey"],
    ... }
    >>> model = NaiveBayes({"goals": "poisson", "team": ("categorical", 0.5)}).fit(table, "plays")
    >>> model.blocks_
    blocks
    columns         law          alpha
    goals           poisson          1
    height, weight  gaussian         1
    team            categorical    0.5
    >>> new = [{"team": "green", "weight": 62, "height": 1.68, "goals": 0}]
    >>> model.predict(new).tolist()
    ['hockey']
    >>> model.explain(new)
    hockey rather than rugby: +20.28 dB, P(hockey) = 0.9907
    evidence    value             dB
    prior odds                 +0.00
    weight      62             +9.22  +++++
    height      1.68           +5.62  +++
    goals       0              +4.34  ++
    team        (never seen)   +1.09  +
    total       P = 0.9907    +20.28  ++++++++++
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "columns": [Mapping, None],
        "rest": [str, Family, tuple, list],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"empirical", "loo"})],
        "class_prior": ["array-like", StrOptions({"uniform"}), None],
        "n_jobs": [None, int, np.integer],
    }
    _kept: ClassVar[tuple[str, ...]] = (*STATE, "kinds_", "table_kind_")

    kinds_: list[str]  # of each feature, one of KINDS: what rest="auto" goes by
    table_kind_: str  # what samples are given as

    def __init__(
        self,
        columns: Any = None,
        *,
        rest: Any = "auto",
        alpha: Any = 1.0,
        class_prior: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.columns = columns
        self.rest = rest
        self.alpha = alpha
        self.class_prior = class_prior
        self.n_jobs = n_jobs

    # ------------------------------------------------------------------ the law

    def _check_parameters(self) -> None:
        super()._check_parameters()
        read_alpha(self.alpha)
        for law in (self.columns or {}).values():
            read_law(law, self.alpha)
        if not (isinstance(self.rest, str) and self.rest in ("auto", "error")):
            read_law(self.rest, self.alpha)

    def _features(self) -> tuple[str, ...]:
        return self._names() or tuple(f"x{j}" for j in range(self.n_features_in_))

    def _layout(self) -> tuple[Group, ...]:
        return lay_out(self.columns, self.rest, self.alpha, self._features(), self.kinds_)

    def _families(self) -> tuple[Family, ...]:
        return tuple(group.family for group in self._layout())

    def _class_prior(self) -> str | Floats:
        if self.class_prior is None or isinstance(self.class_prior, str):
            return self.class_prior or "empirical"
        return np.asarray(self.class_prior, dtype=np.float64)

    def _joint(self) -> Joint:
        blocks = [Block(group.family, 1.0 if group.alpha == "loo" else group.alpha) for group in self._layout()]
        return Joint(tuple(blocks), self._class_prior())

    def _law_is_ours(self, model: Model) -> bool:
        return self._same_columns(model) and super()._law_is_ours(model)

    def _same_columns(self, model: Model) -> bool:
        return [group.names for group in self._layout()] == [columns.names for columns in model.schema.blocks]

    def _chosen_blocks(self) -> list[int]:
        """The blocks whose prior strength leave-one-out chooses."""
        return [b for b, group in enumerate(self._layout()) if group.alpha == "loo"]

    def _chooses(self) -> bool:
        return bool(self._chosen_blocks())

    def _choose(self, model: Model, data: Data, codes: Array, weight: Floats | None) -> Model:
        """Each block's strength in turn, beside the others as they are by then."""
        for b in self._chosen_blocks():
            found = best_strength(model, b, data, codes, weight, self.n_jobs)
            model = model.with_joint(with_strength(model.joint, b, found))
        return model

    def _current_joint(self) -> Joint:
        if not self._same_columns(self.model_):
            raise ValueError("a parameter that says what is counted has changed since the last batch: use fit")
        joint = self._joint()
        for b in self._chosen_blocks():
            joint = with_strength(joint, b, self.model_.joint.blocks[b].alpha)
        return joint

    def _merged_joint(self: Self, other: Self) -> Joint:
        joint = self.model_.joint
        shares = np.array([model.stats.weight.sum() for model in (self.model_, other.model_)])
        for b in self._chosen_blocks() if shares.any() else []:
            logs = np.log([float(model.alpha(b)) for model in (self.model_, other.model_)])
            joint = with_strength(joint, b, float(np.exp(shares @ logs / shares.sum())))
        return joint

    def _laws(self) -> dict[str, str]:
        """Each column's law, by its word."""
        return {
            name: law_word(block.family)
            for block, columns in zip(self.model_.joint.blocks, self.model_.schema.blocks, strict=True)
            for name in columns.names or ()
        }

    def __add__(self: Self, other: Self) -> Self:
        """The model that learned what both did; the columns may have come in another order."""
        if type(other) is type(self) and self.__sklearn_is_fitted__() and other.__sklearn_is_fitted__():
            mine, theirs = self._laws(), other._laws()
            if apart := sorted(mine.keys() ^ theirs.keys()):
                raise SchemaError(f"cannot merge models of different columns: only one of them has {listed(apart)}")
            if apart := sorted(name for name in mine if mine[name] != theirs[name]):
                one, two = mine[apart[0]], theirs[apart[0]]
                raise SchemaError(
                    f"cannot merge models of different laws: {apart[0]!r} is {one} in one and {two} in the other"
                )
        return super().__add__(other)

    # ------------------------------------------------------------------ reading tables

    def _read_rows(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> tuple[Any, Labels, Floats | None]:
        if isinstance(y, str):
            X, y = split_target(X, y)
        return super()._read_rows(X, y, sample_weight, **how)

    def _no_labels(self, X: Any, clusters: Any) -> Array:
        return super()._no_labels(np.empty((read_frame(X).size, 0)), clusters)

    def _validate(self, X: Any, *, reset: bool, least: int = 1) -> Rows:
        frame = read_table(self, X, reset=reset, least=least)
        if reset:
            self.kinds_ = [kind_of(column) for column in frame.columns]
        return Rows(dict(zip(frame.names, frame.columns, strict=True)), (frame.size, len(frame.names)))

    def _columns_of(self, X: Rows, names: tuple[str, ...]) -> list[Column]:
        for name in names:
            if name not in X.columns:
                raise DecibanError(
                    f"column {name!r} is not there, and the model was fitted with it: give it, with None where it is "
                    "not known"
                )
        return [X.columns[name] for name in names]

    def _learn_data(
        self, X: Rows, known: Schema | None, labels: Labels, weight: Floats | None
    ) -> tuple[Data, tuple[Columns, ...]]:
        data: list[Array] = []
        blocks: list[Columns] = []
        for b, group in enumerate(self._layout()):
            read, size = self._columns_of(X, group.names), len(group.names)
            if group.family.values == "categories":
                before = None if known is None else known.blocks[b].categories
                codes = np.empty((X.shape[0], size), dtype=np.int32, order="F")
                found: list[Categories] = []
                for j, (column, name) in enumerate(zip(read, group.names, strict=True)):
                    codes[:, j], values = learn_codes(column, before[j] if before is not None else (), name, weight)
                    found.append(values)
                data.append(codes)
                blocks.append(Columns(size, group.names, tuple(found)))
            else:
                rows = numbers(read, group.names, group.family)
                data.append(rows)
                pivot = pivots(rows, labels, weight) if group.family.pivoted else None
                blocks.append(Columns(size, group.names, pivot=pivot))
        return data, tuple(blocks)

    def _data(self, X: Rows, model: Model) -> Data:
        data: list[Array] = []
        for block, columns in zip(model.joint.blocks, model.schema.blocks, strict=True):
            assert columns.names is not None
            read = self._columns_of(X, columns.names)
            if columns.categories is not None:
                codes = np.empty((X.shape[0], columns.size), dtype=np.int32, order="F")
                for j, (column, name) in enumerate(zip(read, columns.names, strict=True)):
                    codes[:, j] = find_codes(column, columns.categories[j], name)
                data.append(codes)
            else:
                data.append(numbers(read, columns.names, block.family))
        return data

    def _question(self, split: Any) -> Any:
        question = super()._question(split)
        return replace(question, kinds=dict(zip(self._features(), self.kinds_, strict=True)))

    def _where_gaps(self, X: Rows) -> Array:
        gaps = np.zeros(X.shape[0], dtype=bool)
        for group in self._layout():
            if group.family.whole_rows:
                gaps |= incomplete(numbers(self._columns_of(X, group.names), group.names, group.family))
        return gaps

    # ------------------------------------------------------------------ answering

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows that are predicted right; y may be the name of the labels' column."""
        if isinstance(y, str) and self._elsewhere(X, y) is None:
            X, y = split_target(X, y)
        return float(super().score(X, y, sample_weight))

    def _called(self, names: tuple[str, ...]) -> tuple[Columns, ...]:
        called = dict(zip(self._features(), names, strict=True))
        return tuple(
            replace(columns, names=tuple(called[name] for name in columns.names or ()))
            for columns in self.model_.schema.blocks
        )

    def _from_data(self, data: Data) -> Any:
        """A table like the one that was learned, of the columns that have a law."""
        kinds, made = dict(zip(self._features(), self.kinds_, strict=True)), {}
        for rows, columns, block in zip(data, self.model_.schema.blocks, self.model_.joint.blocks, strict=True):
            for j, name in enumerate(columns.names or ()):
                values = () if columns.categories is None else tuple(columns.categories[j])
                made[name] = as_column(rows[:, j], block.family, values, kinds[name])
        names = [name for name in kinds if name in made]
        return to_native(self.table_kind_, names, [made[name] for name in names])

    def _check_fitted(self, model: Model) -> None:
        self._warn_about(model)

    def _warn_about(self, model: Model) -> None:
        if len(model.classes) == 0 or model.cached("told", dict):
            return
        model.cached("told", dict)["told"] = True
        said = []
        for b, block in enumerate(model.joint.blocks):
            if isinstance(block.family, MultivariateGaussian):
                said += repairs_in_words(model.params[b].repairs, only_block(model, b))
        if said:
            warn("; ".join(said) + ". A prior or more rows would do without this.", SingularWarning)

    # ------------------------------------------------------------------ looking inside

    @property
    def class_prior_(self) -> Floats:
        """P(y)."""
        check_is_fitted(self)
        return self._prior()

    @property
    def alpha_(self) -> tuple[float, ...]:
        """The prior strength of every block, as given, or as chosen by "empirical" or "loo"."""
        check_is_fitted(self)
        return tuple(float(self.model_.alpha(b)) for b in range(len(self.model_.joint.blocks)))

    @property
    def blocks_(self) -> Table:
        """The blocks of columns: which columns, their law, and how strong its prior is."""
        check_is_fitted(self)
        rows: list[tuple[Any, ...]] = []
        for block, columns, alpha in zip(self.model_.joint.blocks, self.model_.schema.blocks, self.alpha_, strict=True):
            rows.append((", ".join(columns.names or ()), law_word(block.family), alpha))
        return Table("blocks", ("columns", "law", "alpha"), rows)

    @property
    def params(self) -> Table:
        """The parameters as a table: a row for each item and parameter, a column a class, in the table's order."""
        self._check_classes()
        place = {name: j for j, name in enumerate(self._features())}
        rows: list[tuple[int, tuple[Any, ...]]] = []
        for b, block in enumerate(self.model_.joint.blocks):
            columns, params = self.model_.columns(b), self.model_.params[b]
            items, _ = block.family.typical(params, columns)
            spans = pairwise(columns.offsets if columns.categories is not None else range(columns.size + 1))
            tables = block.family.table(params, columns)
            for j, (start, stop) in enumerate(spans):
                rows += [
                    (place[columns.name(j)], (items[i], what, *table[:, i].tolist()))
                    for i in range(start, stop)
                    for what, table in tables.items()
                ]
        rows.sort(key=lambda row: row[0])
        labels = [str(plain(c)) for c in self.model_.classes]
        return Table("parameters", ("item", "parameter", *labels), [row for _, row in rows])

    # ------------------------------------------------------------------ keeping

    def _parameters_out(self) -> dict[str, Any]:
        parameters = super()._parameters_out()
        return parameters | {"columns": columns_out(self.columns), "rest": law_out(self.rest)}

    def _restore(self, model: Model, about: dict[str, Any]) -> None:
        self.columns, self.rest = columns_in(self.columns), law_in(self.rest)
        self.n_features_in_, self.kinds_ = int(about["n_features"]), list(about["state"]["kinds_"])
        if len(self.kinds_) != self.n_features_in_ or set(self.kinds_) - set(KINDS):
            raise ValueError(f"it does not say what its {self.n_features_in_} features are")
        super()._restore(model, about)

    def _holds(self, columns: int) -> bool:
        return columns <= self.n_features_in_  # some may have been dropped

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def with_strength(joint: Joint, block: int, alpha: Alpha) -> Joint:
    """The same law with a prior of another strength for one block."""
    blocks = [replace(b, alpha=alpha) if i == block else b for i, b in enumerate(joint.blocks)]
    return replace(joint, blocks=tuple(blocks))


def only_block(model: Model, block: int) -> Model:
    """The model of one block alone."""
    schema = replace(model.schema, blocks=(model.columns(block),))
    stats = Stats(schema, model.stats.weight, (model.stats.sums[block],))
    return Model(replace(model.joint, blocks=(model.joint.blocks[block],)), stats)


def best_strength(model: Model, block: int, data: Data, y: Array, weight: Floats | None, n_jobs: int | None) -> float:
    """The strength of one block's prior, beside the others as they are, with the least leave-one-out log loss.

    Rows whose class has no other row are left out of the comparison: no prior helps them.
    """
    if not all(part.family.downdates(1.0) for part in model.joint.blocks):
        rows = some_of(np.arange(len(y)), FEW)
        data, y, weight = [X[rows] for X in data], y[rows], None if weight is None else weight[rows]
    own = np.ones(len(y)) if weight is None else weight
    counts = (model.stats.weight[y] > own * (1.0 + RESIDUE)) & (own > 0)

    def loss(alpha: float) -> float:
        tried = model.with_joint(with_strength(model.joint, block, alpha))
        losses = leave_one_out(tried, data, y, weight, n_jobs).log_losses
        known = counts & ~np.isnan(losses)
        return float(np.average(losses[known], weights=own[known])) if known.any() else float("nan")

    return search(loss, tolerance=1e-3)


def law_word(family: Family) -> str:
    """The word for a law."""
    return family.covariance if isinstance(family, MultivariateGaussian) else family.name


def kind_of(column: Column) -> str:
    """One of KINDS."""
    if isinstance(column, Numbers):
        return "number" if column.dates is None else "date"
    return "boolean" if column.levels and all(isinstance(level, bool) for level in column.levels) else "category"


def numbers(columns: list[Column], names: tuple[str, ...], family: Family) -> Floats:
    """Columns as the rows of a law of numbers, (n, d)."""
    out = np.empty((len(columns[0]), len(columns)), order="F")
    for j, (column, name) in enumerate(zip(columns, names, strict=True)):
        out[:, j] = as_numbers(column, name, family)
        if family.values == "counts" and (negative := out[:, j] < 0).any():
            row = int(np.argmax(negative))
            raise DecibanError(
                f"column {name!r} holds {out[row, j]:g} in row {row}, and counts are never negative: a "
                f"{family.name} law does not fit it. Take 'gaussian', or 'drop' it"
            )
    return out


def as_numbers(column: Column, name: str, family: Family) -> Floats:
    """A column's numbers, NaN where missing; true is 1, false is 0."""
    if isinstance(column, Numbers):
        return column.values
    if not all(isinstance(level, bool) for level in column.levels):
        row = int(np.argmax(column.codes >= 0))
        raise DecibanError(
            f"column {name!r} holds {column.levels[column.codes[row]]!r} in row {row}, and a {family.name} law takes "
            f"numbers: convert the column, or learn it with columns={{{name!r}: 'categorical'}}"
        )
    return np.array([*map(float, column.levels), np.nan])[column.codes]  # −1 is the last one


def levels_of(column: Column, weight: Floats | None = None) -> tuple[Codes, tuple[Any, ...]]:
    """Codes, −1 where missing or without weight, and the values they stand for, each of which occurs."""
    if isinstance(column, Numbers):
        codes = np.full(len(column), -1, dtype=np.int32)
        there = ~column.missing if weight is None else ~column.missing & (weight > 0)
        found, codes[there] = np.unique(column.values[there], return_inverse=True)
        return codes, tuple(int(value) if value.is_integer() else value for value in found.tolist())
    codes = column.codes if weight is None else np.where(weight > 0, column.codes, np.int32(-1))
    used = np.bincount(codes + 1, minlength=len(column.levels) + 1)[1:] > 0
    if used.all():
        return codes, column.levels
    place = np.append(np.cumsum(used) - 1, -1).astype(np.int32)
    return place[codes], tuple(level for level, use in zip(column.levels, used, strict=True) if use)


def learn_codes(column: Column, known: Categories, name: str, weight: Floats | None) -> tuple[Codes, tuple[Any, ...]]:
    """Codes of a column's values, −1 where missing; values not known yet are added behind the known ones.

    A row of no weight teaches no category: it is as if it were not there.
    """
    codes, levels = levels_of(column, weight)
    check_alike(levels, known, name)
    position = {value: code for code, value in enumerate(known)}
    for value in sorted(set(levels) - position.keys()):
        position[value] = len(position)
    return np.array([*(position[value] for value in levels), -1], dtype=np.int32)[codes], tuple(position)


def find_codes(column: Column, known: Categories, name: str) -> Codes:
    """Codes of a column's values: −1 where missing, one past the known where never seen."""
    codes, levels = levels_of(column)
    check_alike(levels, known, name)
    position = {value: code for code, value in enumerate(known)}
    return np.array([*(position.get(value, len(known)) for value in levels), -1], dtype=np.int32)[codes]


def check_alike(levels: tuple[Any, ...], known: Categories, name: str) -> None:
    """Strings and numbers are never the same category, so a column must stay one of them."""
    if levels and known and isinstance(levels[0], str) != isinstance(known[0], str):
        raise DecibanError(
            f"column {name!r} holds {levels[0]!r}, and the model learned it with values such as {known[0]!r}: "
            f"{'numbers' if isinstance(known[0], str) else 'strings'} would all be categories never seen. Convert the "
            "column to what it was"
        )


def as_column(values: Array, family: Family, categories: tuple[Any, ...], kind: str) -> Column:
    """Values drawn from a law as a column of the kind that was learned."""
    if family.values == "categories":
        return Levels(values.astype(np.int32), categories)
    if kind == "boolean" and family.values == "truths":
        return Levels(values.astype(np.int32), (False, True))
    whole = family.values in ("counts", "truths")
    return Numbers(values, whole=whole, dates="days" if kind == "date" else None)
