"""Naive Bayes with a tree of dependences between the columns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from deciban import collect
from deciban._typing import Array, Categories, Codes, Data, Floats, Matrix
from deciban.corollaries.structure import Structure, structure
from deciban.errors import DecibanError, warn
from deciban.estimators.answers import Answers
from deciban.estimators.naive_bayes.categorical import mixed_rows
from deciban.estimators.naive_bayes.discrete import LINEAR_CONSTRAINTS, DiscreteClassifier
from deciban.families import Family, Tree
from deciban.families.chow_liu import chow_liu
from deciban.families.tree import parents_of
from deciban.joint import Model
from deciban.reading.bins import bins_at, quantile_bins, usual_bins
from deciban.reading.categories import from_codes
from deciban.reading.frames import Column, Frame, Levels, Numbers, native_kind, read_frame, split_target
from deciban.reading.labels import Labels
from deciban.reading.missing import unmask
from deciban.schema import Bins, Columns, is_forest

FEW = 10  # distinct whole numbers that are taken for categories


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A table that was read, with a shape."""

    frame: Frame

    @property
    def shape(self) -> tuple[int, int]:
        return self.frame.size, len(self.frame.columns)


class TreeAugmentedNB(DiscreteClassifier):
    """Naive Bayes in which a column may depend on one other: P(x | y) = Π_j P(x_j | x_parent(j), y) (S21).

    The columns' parents make the tree of greatest information given the class, without the edges that tell no more
    than chance would. It sees what naive Bayes counts twice, and costs about as little. Any table will do: strings,
    categories, booleans, and numbers, which are cut into intervals without looking at labels. Whole numbers of at most
    ten distinct values are taken for categories. Missing entries are summed over: what is there has the probability
    that the tree gives it, whatever the rest. A value never seen has that of one known but never counted, and beside it
    all values of a column that hangs on it are alike.

    The tree and the intervals are chosen by `fit` or the first batch, and then kept: later batches, `forget` and
    `a + b` add and subtract counts under them. Models with trees of their own do not merge: see `parents`.

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), "empirical" or "loo", default=1.0
        Pseudo-counts of every category, for each value of the parent:
        θ_(v|u) = (n_uv + α)/(n_u + α|V|). Otherwise as in CategoricalNB.
    parents : array-like of shape (d,) or dict, default=None
        The tree, where it is known, or that of a model to merge with (`parents_`): each column's parent, −1 for none;
        or {column: parent} by name or place, for the columns that have one.
    bins : int or list, default=None
        Into how many intervals of about equal weight numbers are cut; a value that is as frequent as that has its
        own. None is the fourth root of the number of rows. A list has each column's cuts, or None where they are to
        be chosen (`cuts_`).
    fit_prior, class_prior, n_jobs : as in MultinomialNB

    Attributes
    ----------
    parents_ : each column's parent, −1 for none
    structure_ : the tree as a table, with what its edges tell in bits; it has a `plot()`
    cuts_ : list of each column's cuts, None where it has categories
    categories_ : list of each column's categories, which are intervals where it has cuts
    classes_, class_count_, class_log_prior_, alpha_, model_ : as in MultinomialNB

    `score_samples` is the logarithm of a probability, and `sample` gives the median of an interval for a number in it.

    References
    ----------
    Friedman, Geiger and Goldszmidt (1997), Bayesian network classifiers. Chow and Liu (1968), Approximating discrete
    probability distributions with dependence trees.

    Examples
    --------
    Neither of two coins tells who threw them, but whether they agree does.

    >>> from deciban import TreeAugmentedNB
    >>> X = [["heads", "heads"], ["tails", "tails"], ["heads", "tails"], ["tails", "heads"]] * 5
    >>> model = TreeAugmentedNB().fit(X, ["honest", "honest", "cheat", "cheat"] * 5)
    >>> model.predict([["tails", "tails"], ["tails", "heads"]]).tolist()
    ['honest', 'cheat']
    >>> model.structure_
    what hangs on what
    column  parent  bits given class  bits of class
    x0                                            0
    x1      x0                     1              0
    """

    force_alpha: ClassVar[bool] = True  # alpha is taken as it is given
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: rule for name, rule in LINEAR_CONSTRAINTS.items() if name != "force_alpha"},
        "parents": [None, "array-like", dict],
        "bins": [None, Interval(Integral, 1, None, closed="left"), list, tuple],
    }

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        parents: Any = None,
        bins: Any = None,
        fit_prior: bool = True,
        class_prior: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.parents = parents
        self.bins = bins
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.n_jobs = n_jobs

    def _family(self) -> Family:
        return Tree()

    # ------------------------------------------------------------------ reading rows

    def _read_rows(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> tuple[Any, Labels, Floats | None]:
        if isinstance(y, str):
            X, y = split_target(X, y)
        return super()._read_rows(X, y, sample_weight, **how)

    def _validate(self, X: Any, *, reset: bool, least: int = 1) -> Rows:
        kind = native_kind(X)
        if kind == "pandas":  # scikit-learn looks at names, and not at values
            validate_data(self, X, reset=reset, skip_check_array=True)
            return Rows(check_size(read_frame(X), least))
        if kind != "numpy":
            return Rows(check_size(self._by_name(read_frame(X), reset), least))
        rows = validate_data(
            self,
            unmask(mixed_rows(X) if isinstance(X, list | tuple) else X),
            reset=reset,
            accept_sparse=["csr", "csc"],
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=least,
        )
        if rows.dtype.kind == "c":
            raise ValueError(f"Complex data not supported\n{X}\n")
        return Rows(read_frame(rows))

    def _by_name(self, frame: Frame, reset: bool) -> Frame:
        """The columns of a table that has names, in the order in which they were learned."""
        if reset:
            self.n_features_in_, self.feature_names_in_ = len(frame.names), np.array(frame.names, dtype=object)
        names = self._names()
        if names is not None:
            return frame.select(names)
        warn(f"X has feature names, but {type(self).__name__} was fitted without feature names", UserWarning)
        if len(frame.names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(frame.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        return frame

    def _learn_rows(
        self, X: Any, columns: Columns | None, labels: Labels, weight: Floats | None
    ) -> tuple[Matrix, Columns]:
        n, d = X.shape
        mass = np.ones(n) if weight is None else weight
        known: Sequence[Categories] = ((),) * d
        if columns is not None and columns.categories is not None:
            known = columns.categories
        names, cuts = self._names(), self._given_cuts()
        counted = X.frame if mass.all() else X.frame.take(mass > 0)  # a row of weight zero is as good as none
        mass = mass[mass > 0]
        categories = tuple(
            learn(column, values, mass, self.bins if cuts is None else cuts[j])
            for j, (column, values) in enumerate(zip(counted.columns, known, strict=True))
        )
        named = Columns(d, names, categories)
        codes = read_codes(X.frame, named)
        parents = self._given_parents()
        if columns is not None and columns.parents is not None:
            if parents is not None and parents != columns.parents:
                raise ValueError("parents= has changed since the last batch: use fit")
            parents = columns.parents
        elif parents is None and counted.size:
            parents = self._found_parents(codes, named, labels, weight)
        return codes, Columns(d, names, categories, parents=parents)

    def _found_parents(self, codes: Codes, columns: Columns, labels: Labels, weight: Floats | None) -> tuple[int, ...]:
        y = labels.codes
        if labels.soft is not None:  # a row for each class that it may be of
            rows, classes = np.nonzero(labels.soft)
            weight = labels.soft[rows, classes] * (1.0 if weight is None else weight[rows])
            codes, y = codes[rows], classes.astype(np.int32)
        if len(labels.classes) == 0 or not (y >= 0).any():
            return (-1,) * columns.size  # nothing says what the columns tell of each other beyond the class
        return chow_liu(codes, np.diff(columns.offsets), y, weight, len(labels.classes))

    def _rows(self, X: Any, columns: Columns) -> Matrix:
        return read_codes(X.frame, columns)

    def _looks_at_labels(self) -> bool:
        return self.parents is None or super()._looks_at_labels()

    def _as_chosen_by(
        self, data: Data, codes: Array, weight: Floats | None, rows: Data, y: Array, rows_weight: Floats | None
    ) -> Model:
        """Another tree asks for other sums of all rows."""
        found, columns = super()._as_chosen_by(data, codes, weight, rows, y, rows_weight), self.model_.columns()
        if self.parents is not None:
            return found
        parents = chow_liu(rows[0], np.diff(columns.offsets), y, rows_weight, len(self.classes_))
        schema = replace(self.model_.schema, blocks=(replace(columns, parents=parents),))
        return Model(found.joint, collect.collect(data, found.joint, schema, codes, weight, self.n_jobs))

    def _question(self, split: Any) -> Any:
        question = super()._question(split)
        known = self.model_.columns().categories or ()
        if any(isinstance(values, Bins) for values in known):  # numbers are cut here, and not in a database
            return None
        return replace(question, kinds=dict.fromkeys(question.kinds, "category"))

    def _from_rows(self, rows: Array) -> Array:
        """Codes back to values; an interval's is its median."""
        values = [known.middles if isinstance(known, Bins) else known for known in self.categories_]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for column in values for v in column)
        return from_codes(rows, values).astype(np.float64 if numbers else object)

    # ------------------------------------------------------------------ parameters

    def _check_mergeable(self, other: Answers, parameters: Iterable[str]) -> None:
        """Trees and cuts must be the same, whether they were given or found: the schemas tell."""
        super()._check_mergeable(other, [name for name in parameters if name not in ("parents", "bins")])

    def _chosen_by_rows(self) -> str:
        if self.parents is None:
            return "its tree was found by looking at rows"
        cuts = self._given_cuts() or [None] * self.n_features_in_
        for given, known in zip(cuts, self.categories_, strict=True):
            if given is None and (isinstance(known, Bins) or not all(isinstance(v, str | bool) for v in known)):
                return "how its numbers are cut was found by looking at rows"
        return super()._chosen_by_rows()

    def _given_parents(self) -> tuple[int, ...] | None:
        """parents= as places, one a column."""
        if self.parents is None:
            return None
        d = self.n_features_in_
        if isinstance(self.parents, Mapping):
            found = [-1] * d
            for column, on in self.parents.items():
                found[self._place(column)] = -1 if on is None else self._place(on)
        else:
            array = np.asarray(self.parents)
            if array.shape != (d,) or array.dtype.kind not in "iu":
                raise ValueError(f"parents must be {d} whole numbers, one a column, or a dict; got {self.parents!r}")
            found = array.tolist()
        if not is_forest(found):
            raise ValueError(
                f"parents is {self.parents!r}: each column hangs on another, 0 to {d - 1}, or on none (−1), and never "
                "on itself or in a circle"
            )
        return tuple(found)

    def _place(self, column: Any) -> int:
        """Where a column stands that is named, or counted from 0."""
        names = self._names() or ()
        if column in names:
            return names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < self.n_features_in_:
            return int(column)
        raise ValueError(f"parents= names the column {column!r}, which is not there: {list(names) or 'count from 0'}")

    def _given_cuts(self) -> list[Any] | None:
        """bins= where it has the cuts of every column."""
        if self.bins is None or isinstance(self.bins, Integral):
            return None
        d = self.n_features_in_
        if len(self.bins) != d:
            raise ValueError(f"bins has {len(self.bins)} entries, but there are {d} columns: give one each")
        for j, cuts in enumerate(self.bins):
            if cuts is not None and not rising(np.asarray(cuts)):
                raise ValueError(f"bins[{j}] is {cuts!r}: cuts are finite numbers, each greater than the one before")
        return list(self.bins)

    # ------------------------------------------------------------------ looking inside

    @property
    def parents_(self) -> Array:
        """Each column's parent, −1 for none."""
        check_is_fitted(self)
        return np.array(parents_of(self.model_.columns()), dtype=np.int64)

    @property
    def structure_(self) -> Structure:
        """The tree, with what was counted so far of what its edges tell."""
        check_is_fitted(self)
        return structure(self.model_)

    @property
    def categories_(self) -> list[Categories]:
        """Each column's categories: the values in the order of their codes, or intervals."""
        check_is_fitted(self)
        return list(self.model_.columns().categories or ())

    @property
    def cuts_(self) -> list[Floats | None]:
        """Where each column's intervals end, None where it has categories."""
        return [np.array(values.cuts) if isinstance(values, Bins) else None for values in self.categories_]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def check_size(frame: Frame, least: int) -> Frame:
    if not frame.columns:
        raise DecibanError(f"0 feature(s) (shape=({frame.size}, 0)) while a minimum of 1 is required.")
    if frame.size < least:
        raise DecibanError(f"Found array with {frame.size} sample(s) while a minimum of {least} is required.")
    return frame


def rising(cuts: Array) -> bool:
    return cuts.ndim == 1 and cuts.dtype.kind in "iuf" and bool(np.isfinite(cuts).all() and (np.diff(cuts) > 0).all())


def learn(column: Column, known: Categories, weight: Floats, bins: Any) -> Categories:
    """A column's categories: those known, and new ones; chosen where nothing is known. `bins` is how many, or cuts."""
    if isinstance(known, Bins):
        return known
    there = ~column.missing
    if isinstance(column, Levels):
        used = np.bincount(column.codes[there], minlength=len(column.levels)) > 0
        found = [level for level, some in zip(column.levels, used, strict=True) if some]
    else:
        values, mass = column.values[there], weight[there]
        if bins is not None and not isinstance(bins, Integral):
            return bins_at(np.asarray(bins, dtype=np.float64), values, mass)
        distinct = np.unique(values)
        whole = bool((distinct == np.floor(distinct)).all())
        most = int(bins) if bins is not None else usual_bins(float(mass.sum()))
        if len(known) == 0 and not (whole and len(distinct) <= max(FEW, most)):
            return quantile_bins(values, mass, most)
        found = [int(v) if v.is_integer() else v for v in distinct.tolist()]
    new = [value for value in found if value not in set(known)]
    with contextlib.suppress(TypeError):  # kinds that do not compare keep the order they came in
        new = sorted(new)
    return (*known, *new)


def read_codes(frame: Frame, columns: Columns) -> Codes:
    """Category codes of a table's rows: −1 where missing, one past the known where never seen."""
    assert columns.categories is not None
    codes = np.empty((frame.size, columns.size), dtype=np.int32, order="F")
    for j, (column, known) in enumerate(zip(frame.columns, columns.categories, strict=True)):
        codes[:, j] = code_numbers(column, known) if isinstance(column, Numbers) else code_levels(column, known)
        if isinstance(known, Bins) and isinstance(column, Levels) and not column.missing.all():
            row = int(np.argmax(~column.missing))
            raise DecibanError(
                f"column {columns.name(j)!r} was learned as numbers, and row {row} holds "
                f"{column.levels[column.codes[row]]!r}: make it a number, or None if it is missing"
            )
    return codes


def code_numbers(column: Numbers, known: Categories) -> Codes:
    if isinstance(known, Bins):
        return known.codes(column.values)
    places = sorted((float(value), code) for code, value in enumerate(known) if not isinstance(value, str))
    if not places:
        return np.where(column.missing, -1, len(known)).astype(np.int32)
    values, codes = np.array([value for value, _ in places]), np.array([code for _, code in places], dtype=np.int32)
    at = np.minimum(np.searchsorted(values, column.values), len(values) - 1)
    out = np.where(values[at] == column.values, codes[at], np.int32(len(known)))
    out[column.missing] = -1
    return out


def code_levels(column: Levels, known: Categories) -> Codes:
    place = {value: code for code, value in enumerate(known)}
    of_level = np.array([*(place.get(level, len(known)) for level in column.levels), -1], dtype=np.int32)
    return np.asarray(of_level[column.codes])  # a missing one, −1, is the last
