"""Naive Bayes with a tree of dependences between the columns."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from deciban._typing import Array, Categories, Floats
from deciban.choices import ByTree
from deciban.corollaries.structure import Structure, structure
from deciban.errors import DecibanError, warn
from deciban.estimators import attributes, validation
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import COUNT_CONSTRAINTS, joint_of_counts
from deciban.families import Tree
from deciban.families.tree import parents_of
from deciban.joint import Joint
from deciban.readers.trees import TreeReader
from deciban.reading.frames import Frame, native_kind, read_frame
from deciban.schema import Bins, is_forest


class TreeAugmentedNB(Estimator):
    """Naive Bayes in which a column may depend on one other: P(x | y) = Π_j P(x_j | x_parent(j), y) (S21).

    The columns' parents are the tree of greatest mutual information given the class, without edges that could be due to
    chance. It models dependences that naive Bayes counts twice, at little more cost. Any table works: strings,
    categories, booleans, and numbers, which are binned without using labels. Integers of at most ten distinct
    values are categories. Missing entries are summed over: a row has the marginal probability of its other entries. A
    value never seen has the probability of a known one without counts, and given it all values of a child column are
    equally likely.

    The tree and the intervals are chosen by `fit` or the first batch, and then kept: later batches, `forget` and
    `a + b` add and subtract counts under them. Models with trees of their own do not merge: see `parents`.

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), "empirical" or "loo", default=1.0
        Pseudo-counts of every category, for each value of the parent:
        θ_(v|u) = (n_uv + α)/(n_u + α|V|). Otherwise as in CategoricalNB.
    parents : array-like of shape (d,) or dict, default=None
        The tree, if it is known, or that of a model to merge with (`parents_`): each column's parent, −1 for none;
        or {column: parent} by name or position, for the columns that have one.
    bins : int or list, default=None
        The number of intervals of about equal weight for numbers; a value as frequent as an interval has its own.
        None is the fourth root of the number of rows. A list has each column's cuts (`cuts_`), or None if they are
        to be chosen.
    fit_prior, class_prior, n_jobs : as in MultinomialNB

    Attributes
    ----------
    parents_ : each column's parent, −1 for none
    structure_ : the tree as a table, with the information of its edges in bits; it has a `plot()`
    cuts_ : list of each column's cuts, None if it has categories
    categories_ : list of each column's categories, which are intervals if it has cuts
    classes_, class_count_, class_log_prior_, alpha_, model_ : as in MultinomialNB

    `score_samples` is the logarithm of a probability, and `sample` returns the median of an interval for a number in
    it.

    References
    ----------
    Friedman, Geiger and Goldszmidt (1997), Bayesian network classifiers. Chow and Liu (1968), Approximating discrete
    probability distributions with dependence trees.

    Examples
    --------
    Neither of two coins shows who threw them, but whether they agree does.

    >>> from deciban import TreeAugmentedNB
    >>> X = [["heads", "heads"], ["tails", "tails"], ["heads", "tails"], ["tails", "heads"]] * 5
    >>> model = TreeAugmentedNB().fit(X, ["honest", "honest", "cheat", "cheat"] * 5)
    >>> model.predict([["tails", "tails"], ["tails", "heads"]]).tolist()
    ['honest', 'cheat']
    >>> model.structure_
    dependencies between columns
    column  parent  bits given class  bits of class
    x0                                            0
    x1      x0                     1              0
    """

    _strings: ClassVar[bool] = True
    _strings_are_categories: ClassVar[bool] = True
    _poor_score: ClassVar[bool] = True
    _may_differ: ClassVar[tuple[str, ...]] = (
        "n_jobs",
        "parents",
        "bins",
    )  # the schemas show whether trees and cuts differ
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: rule for name, rule in COUNT_CONSTRAINTS.items() if name != "force_alpha"},
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

    class_log_prior_ = attributes.class_log_prior

    def _reader(self) -> TreeReader:
        cuts = self._given_cuts()
        return TreeReader(self._names(), self.bins if cuts is None else cuts, self._given_parents())

    def _joint(self) -> Joint:
        return joint_of_counts(self, Tree())

    def _choice(self) -> ByTree:
        cuts = self._given_cuts()
        given = None if cuts is None else tuple(each is not None for each in cuts)
        return ByTree(self._joint(), finds=self.parents is None, alpha=self._wants_loo(), given=given)

    def _validated(self, X: Any, *, reset: bool, least: int = 1) -> Frame:
        kind = native_kind(X)
        if kind == "pandas":  # scikit-learn checks names, but not values
            validate_data(self, X, reset=reset, skip_check_array=True)
            return check_size(read_frame(X), least)
        if kind != "numpy":
            return check_size(self._by_name(read_frame(X), reset), least)
        return read_frame(validation.objects(self, X, reset=reset, least=least))

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

    def _given_parents(self) -> tuple[int, ...] | None:
        """parents= as positions, one for each column."""
        if self.parents is None:
            return None
        d = self.n_features_in_
        if isinstance(self.parents, Mapping):
            parents = [-1] * d
            for column, parent in self.parents.items():
                parents[self._position(column)] = -1 if parent is None else self._position(parent)
        else:
            array = np.asarray(self.parents)
            if array.shape != (d,) or array.dtype.kind not in "iu":
                raise ValueError(f"parents must be {d} whole numbers, one per column, or a dict; got {self.parents!r}")
            parents = array.tolist()
        if not is_forest(parents):
            raise ValueError(
                f"parents is {self.parents!r}: each column depends on another, 0 to {d - 1}, or on none (−1), "
                f"without cycles"
            )
        return tuple(parents)

    def _position(self, column: Any) -> int:
        """The position of a column given by name or by index."""
        names = self._names() or ()
        if column in names:
            return names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < self.n_features_in_:
            return int(column)
        raise ValueError(f"parents= names the column {column!r}, which does not exist: {list(names) or 'count from 0'}")

    def _given_cuts(self) -> list[Any] | None:
        """bins= if it is a list of the columns' cuts; None otherwise."""
        if self.bins is None or isinstance(self.bins, Integral):
            return None
        d = self.n_features_in_
        if len(self.bins) != d:
            raise ValueError(f"bins has {len(self.bins)} entries, but there are {d} columns: give one entry per column")
        for j, cuts in enumerate(self.bins):
            if cuts is not None and not rising(np.asarray(cuts)):
                raise ValueError(f"bins[{j}] is {cuts!r}: cuts must be finite numbers in increasing order")
        return list(self.bins)

    @property
    def parents_(self) -> Array:
        """Each column's parent, −1 for none."""
        check_is_fitted(self)
        return np.array(parents_of(self.model_.columns()), dtype=np.int64)

    @property
    def structure_(self) -> Structure:
        """The tree, with the information of its edges in the rows so far."""
        check_is_fitted(self)
        return structure(self.model_)

    @property
    def categories_(self) -> list[Categories]:
        """Each column's categories: the values in the order of their codes, or intervals."""
        check_is_fitted(self)
        return list(self.model_.columns().categories or ())

    @property
    def cuts_(self) -> list[Floats | None]:
        """Where each column's intervals end, None if it has categories."""
        return [np.array(values.cuts) if isinstance(values, Bins) else None for values in self.categories_]


def check_size(frame: Frame, least: int) -> Frame:
    if not frame.columns:
        raise DecibanError(f"0 feature(s) (shape=({frame.size}, 0)) while a minimum of 1 is required.")
    if frame.size < least:
        raise DecibanError(f"Found array with {frame.size} sample(s) while a minimum of {least} is required.")
    return frame


def rising(cuts: Array) -> bool:
    return cuts.ndim == 1 and cuts.dtype.kind in "iuf" and bool(np.isfinite(cuts).all() and (np.diff(cuts) > 0).all())
