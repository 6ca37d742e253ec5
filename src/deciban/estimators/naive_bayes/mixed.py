"""Naive Bayes for tables of mixed columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban.algebra import Stats
from deciban.choices import ByBlock
from deciban.errors import SchemaError
from deciban.estimators import attributes, validation
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import priors
from deciban.families import Family, MultivariateGaussian
from deciban.joint import Block, Joint, Model
from deciban.readers.layout import (
    Group,
    columns_in,
    columns_out,
    distribution_in,
    distribution_out,
    lay_out,
    listed,
    read_alpha,
    read_distribution,
)
from deciban.readers.mixed import KINDS, MixedReader, kind_of
from deciban.reading.frames import Frame, read_frame
from deciban.show import Table, plain


class NaiveBayes(Estimator):
    """Naive Bayes for a table of mixed columns: p(x | y) = Π_b p_b(x_b | y), a distribution for each column or group.

    A table is a pandas, Polars or Arrow frame, a mapping of columns, a list of dicts, or an array. If columns have
    names, later tables may have them in any order, and additional ones, which are ignored; a missing one is an error.
    `fit(table, "label")` takes the labels from a column of the table. Missing entries are ignored; in a group whose
    columns depend on each other, EM fills them in while learning.

    Parameters
    ----------
    columns : dict, default=None
        {which: distribution}. Which columns: a name, an index, a tuple of these (one group), or a pattern such as
        "word_*" (a group of the matching columns that no other key names; a column of exactly this name comes first).
        A distribution is a name, a family from `deciban.families`, or a pair (distribution, alpha):

        - "gaussian", "poisson", "geometric" (waiting times), "bernoulli" (greater than 0 or not), "categorical": each
          column separately;
        - "multinomial": the columns of a group are one bag of words;
        - "full", "tied", "diag" and the other shapes of GaussianDiscriminant: the columns of a group are Gaussian
          together;
        - "drop": the column is left out.
    rest : distribution, "auto" or "error", default="auto"
        The distribution of columns that no key names. "auto": numbers and dates are Gaussian; strings, booleans and
        categories are categorical.
    alpha : float, "empirical" or "loo", default=1.0
        The strength of the priors: pseudo-counts of every category or word, pseudo-rows of every class otherwise.
        "empirical" maximises the marginal likelihood, "loo" minimises exact leave-one-out log loss, both for each
        block separately: a group, or all columns of one distribution that were not given as a group.
    class_prior : array-like of shape (k,) or "uniform", default=None
        The class prior, if it is known; otherwise n_y/n.
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

    Attributes
    ----------
    classes_, class_count_, class_prior_ : arrays
    blocks_ : Table
        The blocks: their columns, distribution, and prior strength.
    alpha_ : tuple
        The prior strength in use, for each block.
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
    columns         distribution  alpha
    goals           poisson           1
    height, weight  gaussian          1
    team            categorical     0.5
    >>> new = [{"team": "green", "weight": 62, "height": 1.68, "goals": 0}]
    >>> model.predict(new).tolist()
    ['hockey']
    >>> model.explain(new)
    hockey rather than rugby: +20.28 dB, P(hockey) = 0.9907
    evidence    value             dB
    prior odds                  0.00  |
    weight      62             +9.22  |++++++++++++++++++++
    height      1.68           +5.62  |++++++++++++
    goals       0              +4.34  |+++++++++
    team        (never seen)   +1.09  |++
    total       P = 0.9907    +20.28
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "columns": [Mapping, None],
        "rest": [str, Family, tuple, list],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"empirical", "loo"})],
        "class_prior": ["array-like", StrOptions({"uniform"}), None],
        "n_jobs": [None, int, np.integer],
    }
    _strings: ClassVar[bool] = True
    _strings_are_categories: ClassVar[bool] = True

    kinds_: list[str]  # of each feature, one of KINDS; used by rest="auto"
    table_kind_: str  # the type of table that samples are returned as

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

    class_prior_ = attributes.class_prior

    # ------------------------------------------------------------------ the distribution, and its reader

    def _check_parameters(self) -> None:
        super()._check_parameters()
        read_alpha(self.alpha)
        for distribution in (self.columns or {}).values():
            read_distribution(distribution, self.alpha)
        if not (isinstance(self.rest, str) and self.rest in ("auto", "error")):
            read_distribution(self.rest, self.alpha)

    def _layout(self) -> tuple[Group, ...]:
        return lay_out(self.columns, self.rest, self.alpha, self._features(), self.kinds_)

    def _reader(self) -> MixedReader:
        kinds = dict(zip(self._features(), self.kinds_, strict=True))
        return MixedReader(self._layout, kinds, getattr(self, "table_kind_", "dict"))

    def _joint(self) -> Joint:
        blocks = [Block(group.family, 1.0 if group.alpha == "loo" else group.alpha) for group in self._layout()]
        return Joint(tuple(blocks), priors(self.class_prior))

    def _choice(self) -> ByBlock:
        if self.__sklearn_is_fitted__() and not self._same_columns(self.model_):
            raise ValueError(
                "a parameter that determines the sums has changed since the last batch: call fit to start again"
            )
        chosen = tuple(b for b, group in enumerate(self._layout()) if group.alpha == "loo")
        return ByBlock(self._joint(), chosen)

    def _same_columns(self, model: Model) -> bool:
        return [group.names for group in self._layout()] == [columns.names for columns in model.schema.blocks]

    def _validated(self, X: Any, *, reset: bool, least: int = 1) -> Frame:
        frame = validation.table(self, X, reset=reset, least=least)
        if reset:
            self.kinds_ = [kind_of(column) for column in frame.columns]
        return frame

    def _size(self, X: Any) -> int:
        return read_frame(X).size

    def _names_by_block(self, names: tuple[str, ...]) -> tuple[tuple[str, ...] | None, ...]:
        new_name = dict(zip(self._features(), names, strict=True))
        return tuple(tuple(new_name[name] for name in columns.names or ()) for columns in self.model_.schema.blocks)

    def _check_mergeable(self, other: Any) -> None:
        """The columns may be in another order."""
        mine, theirs = self._distributions(), other._distributions()
        if different := sorted(mine.keys() ^ theirs.keys()):
            raise SchemaError(f"cannot merge models of different columns: only one of them has {listed(different)}")
        if different := sorted(name for name in mine if mine[name] != theirs[name]):
            own, others = mine[different[0]], theirs[different[0]]
            raise SchemaError(
                f"cannot merge models with different distributions: {different[0]!r} is {own} in one and "
                f"{others} in the other"
            )
        super()._check_mergeable(other)

    def _distributions(self) -> dict[str, str]:
        """The name of each column's distribution."""
        return {
            name: family_name(block.family)
            for block, columns in zip(self.model_.joint.blocks, self.model_.schema.blocks, strict=True)
            for name in columns.names or ()
        }

    def _warn_about(self, model: Any) -> None:
        repaired = [
            (model.params[b].repairs, only_block(model, b))
            for b, block in enumerate(model.joint.blocks)
            if isinstance(block.family, MultivariateGaussian) and len(model.classes)
        ]
        attributes.warn_of_repairs(model, repaired, "A prior or more rows would avoid this.")

    # ------------------------------------------------------------------ inspection

    @property
    def alpha_(self) -> tuple[float, ...]:
        """The prior strength of every block, as given, or as chosen by "empirical" or "loo"."""
        check_is_fitted(self)
        return tuple(float(self.model_.alpha(b)) for b in range(len(self.model_.joint.blocks)))

    @property
    def blocks_(self) -> Table:
        """The blocks of columns: their names, distribution, and strength of the prior."""
        check_is_fitted(self)
        rows: list[tuple[Any, ...]] = []
        for block, columns, alpha in zip(self.model_.joint.blocks, self.model_.schema.blocks, self.alpha_, strict=True):
            rows.append((", ".join(columns.names or ()), family_name(block.family), alpha))
        return Table("blocks", ("columns", "distribution", "alpha"), rows)

    @property
    def params(self) -> Table:
        """The parameters as a table: a row per item and parameter, a column per class, in the table's order."""
        self._check_classes()
        position = {name: j for j, name in enumerate(self._features())}
        rows: list[tuple[int, tuple[Any, ...]]] = []
        for b, block in enumerate(self.model_.joint.blocks):
            columns, params = self.model_.columns(b), self.model_.params[b]
            items, _ = block.family.typical(params, columns)
            spans = pairwise(columns.offsets if columns.categories is not None else range(columns.size + 1))
            tables = block.family.table(params, columns)
            for j, (start, stop) in enumerate(spans):
                rows += [
                    (position[columns.name(j)], (items[i], parameter, *table[:, i].tolist()))
                    for i in range(start, stop)
                    for parameter, table in tables.items()
                ]
        rows.sort(key=lambda row: row[0])
        labels = [str(plain(c)) for c in self.model_.classes]
        return Table("parameters", ("item", "parameter", *labels), [row for _, row in rows])

    # ------------------------------------------------------------------ saving

    def _check_savable(self) -> None:
        if not self._same_columns(self.model_):
            raise ValueError("a parameter has changed since the model was fitted: fit it again before saving")
        super()._check_savable()

    def _parameters_out(self) -> dict[str, Any]:
        parameters = super()._parameters_out()
        return parameters | {"columns": columns_out(self.columns), "rest": distribution_out(self.rest)}

    def _restored(self, model: Any, about: dict[str, Any]) -> Any:
        self.columns, self.rest = columns_in(self.columns), distribution_in(self.rest)
        self.n_features_in_, self.kinds_ = int(about["n_features"]), list(about["state"]["kinds_"])
        if len(self.kinds_) != self.n_features_in_ or set(self.kinds_) - set(KINDS):
            raise ValueError(f"it does not describe its {self.n_features_in_} features")
        if about["names"]:
            self.feature_names_in_ = np.array(about["names"], dtype=object)
        if not self._same_columns(model):
            raise ValueError("its family does not match the model")
        return super()._restored(model, about)

    def _fits_columns(self, columns: int) -> bool:
        return columns <= self.n_features_in_  # some may have been dropped


def only_block(model: Model, block: int) -> Model:
    """The model of only one block."""
    schema = replace(model.schema, blocks=(model.columns(block),))
    stats = Stats(schema, model.stats.weight, (model.stats.sums[block],))
    return Model(replace(model.joint, blocks=(model.joint.blocks[block],)), stats)


def family_name(family: Family) -> str:
    """The name of a distribution."""
    return family.covariance if isinstance(family, MultivariateGaussian) else family.name
