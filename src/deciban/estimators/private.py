"""`Estimator.private`: what must be declared, and which models can keep to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from deciban._scipy import issparse
from deciban._typing import Array, Categories, Codes, Floats
from deciban.errors import DecibanError, did_you_mean, warn
from deciban.estimators import validation
from deciban.families import Categorical, Family, Gaussian, Geometric, Multinomial, Poisson
from deciban.joint_model import with_no_rows
from deciban.noise import MIN_EPSILON
from deciban.privacy import Declared, DeclaredCategories, declared, release
from deciban.readers.layout import listed, named_columns
from deciban.reading.labels import read_labels
from deciban.schema import Columns
from deciban.storage.files import PLAIN_TYPES

INSTEAD = "use NaiveBayes with a distribution for each column, or another naive Bayes model, with fixed parameters"
CHOSEN = "{} are chosen from the rows, and noise in the sums would not hide them"
COVARIANCES = "noise in a covariance is not supported: the sums of products of columns would need their own bounds"
REFUSED = {  # estimators and why
    "Classifier": CHOSEN.format("bins, trees and weights of evidence"),
    "TextClassifier": CHOSEN.format("the vocabulary and the weights of evidence"),
    "SpamFilter": CHOSEN.format("the vocabulary and the weights of evidence"),
    "TreeAugmentedNB": CHOSEN.format("the tree and the bins"),
    "NearestCentroid": "its centroids are not protected by noise in sums",
    "GaussianMixture": "EM passes over the rows many times, and each pass would need its own noise",
    "MixtureDiscriminant": "EM passes over the rows many times, and each pass would need its own noise",
    "GaussianDiscriminant": COVARIANCES,
    "LinearDiscriminantAnalysis": COVARIANCES,
    "QuadraticDiscriminantAnalysis": COVARIANCES,
}
NONE: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))
SEEN_BY_YOU = "This was counted on the rows and is not protected: do not publish this warning"


class Declarations(NamedTuple):
    """What is known about the data without looking at them."""

    classes: Any
    bounds: Any
    categories: Any
    missing: tuple[Any, ...]
    max_words: float | None


def private(estimator: Any, X: Any, y: Any, epsilon: float, delta: float, given: Declarations) -> Any:
    """A fitted copy of the estimator, of sums with noise."""
    check_budget(epsilon, delta)
    for kind in type(estimator).__mro__:
        if kind.__name__ in REFUSED:
            raise DecibanError(f"{type(estimator).__name__} cannot be private: {REFUSED[kind.__name__]}; {INSTEAD}")
    if estimator._engine(X, y) is not None:
        raise DecibanError("private takes rows in memory: make a private model of each part, and merge them")
    if y is None:
        raise DecibanError("private needs labels: give y, or the name of the column that holds them")
    new = clone(estimator)
    new._check_parameters()
    X, y = new._split(X, y)
    X = new._validated(X, reset=True)
    names = new._features()
    bounds, categories = by_column(given.bounds, names, "bounds"), by_column(given.categories, names, "categories")
    if hasattr(new, "kinds_"):  # as declared, whatever the rows hold
        check_declared_kinds(new, names, bounds, categories)
        new.kinds_ = ["category" if name in categories else "number" for name in names]
    choice = new._choice()
    if choice.chooses():
        raise DecibanError('alpha="loo" is chosen from the rows, which noise in the sums would not hide: give a number')
    known = declared_classes(given.classes)
    blocks = declared_blocks(new, choice.asked.blocks, names, bounds, categories, given, len(known))
    empty = with_no_rows(choice, known, tuple(block.columns for block in blocks), closed=True)
    new._check_model(empty)
    codes = codes_of(y, X.shape[0] if hasattr(X, "shape") else len(X), known)
    rows = new._reader().score(X, empty)
    warn_of_ignored(blocks, rows.data, codes)
    rows, codes = (rows, codes) if (codes >= 0).all() else (rows.take(codes >= 0), codes[codes >= 0])
    new.model_ = release(empty, blocks, rows.data, codes, float(epsilon), float(delta))
    return new


def check_budget(epsilon: Any, delta: Any) -> None:
    if not isinstance(epsilon, Real) or isinstance(epsilon, bool) or not MIN_EPSILON <= float(epsilon) < np.inf:
        raise DecibanError(f"epsilon is {epsilon!r}: it must be a finite number of at least {MIN_EPSILON:g}")
    if not isinstance(delta, Real) or isinstance(delta, bool) or not (delta == 0 or 1e-300 < float(delta) < 0.5):
        raise DecibanError(f"delta is {delta!r}: it must be 0, or a probability far below 1/n")


def by_column(given: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """What was declared, by the name of the column."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {place(key, names, what): value for key, value in given.items()}
    if what == "categories":
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(names):
            raise DecibanError(f"categories must be {{column: values}}, or a list for each of the {len(names)} columns")
        return dict(zip(names, given, strict=True))
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), len(names)).tolist() for side in given)
    except (TypeError, ValueError):
        raise DecibanError(
            f"bounds must be {{column: (low, high)}}, or a pair of numbers or of arrays of {len(names)} numbers"
        ) from None
    return dict(zip(names, zip(low, high, strict=True), strict=True))


def place(key: Any, names: Sequence[str], what: str) -> str:
    """The column of a name or an index."""
    if isinstance(key, Integral) and not isinstance(key, bool) and 0 <= int(key) < len(names):
        return names[int(key)]
    if key not in names:
        hint = did_you_mean(str(key), names, f"the columns are {listed(names)}")
        raise DecibanError("{what} names {column!r}, which does not exist: {hint}", what=what, column=key, hint=hint)
    return str(key)


def declared_classes(given: Any) -> Array:
    try:
        classes = np.unique(np.array(given.tolist() if hasattr(given, "tolist") else given))
    except TypeError:
        raise DecibanError(f"classes must be labels of one type, all strings or all numbers, not {given!r}") from None
    if classes.ndim != 1 or len(classes) == 0 or classes.dtype.kind not in "biufU" or isinstance(given, str):
        raise DecibanError(f"classes must be a list of all labels, strings or numbers, not {given!r}")
    return classes


def check_declared_kinds(
    new: Any, names: Sequence[str], bounds: Mapping[str, Any], categories: Mapping[str, Any]
) -> None:
    """Columns that no parameter names must be declared: otherwise their values would choose their distribution."""
    new.kinds_ = ["number"] * len(names)
    named = {name for matched in named_columns(new.columns or {}, names).values() for name in matched}
    unknown = [name for name in names if name not in named and name not in bounds and name not in categories]
    if new.rest == "auto" and unknown:
        raise DecibanError(
            f"nothing is declared of {listed(unknown)}: give bounds={{column: (low, high)}} if it holds numbers, or "
            f"categories={{column: values}}, from what you know about it and not from the rows; or columns= to drop it"
        )


def declared_blocks(
    new: Any,
    blocks: tuple[Any, ...],
    names: tuple[str, ...],
    bounds: dict[str, Any],
    categories: dict[str, Any],
    given: Declarations,
    k: int,
) -> tuple[Declared, ...]:
    """Every block of columns with what was declared about it; an error names what was not."""
    groups = [group.names for group in new._layout()] if hasattr(new, "_layout") else [names]
    gaps = {place(key, names, "missing") for key in given.missing}
    out = []
    for block, own in zip(blocks, groups, strict=True):
        family: Family = block.family
        ranges = isinstance(family, Gaussian | Poisson | Geometric)
        if ranges:
            require(own, bounds, "bounds", "(low, high)", family)
        if isinstance(family, Categorical):
            require(own, categories, "categories", "[values]", family)
        low, high = np.array([read_bounds(bounds[name], name, family) for name in own]).T if ranges else NONE
        shown = own if new._names() is not None or hasattr(new, "_layout") else None
        columns = Columns(
            len(own),
            shown,
            read_categories(categories, own) if isinstance(family, Categorical) else None,
            np.tile(low / 2.0 + high / 2.0, (k, 1)) if isinstance(family, Gaussian) else None,
        )
        if isinstance(family, Multinomial) and not positive(given.max_words):
            raise DecibanError(
                f"max_words is {given.max_words!r}: give the most words of a document that count, from what you know "
                "about documents and not from the rows; longer ones are scaled down"
            )
        one = declared(family, columns, np.array([name in gaps for name in own]), low, high, given.max_words)
        if one is None:
            raise DecibanError(f"columns {listed(own)} cannot be private: {COVARIANCES}. Give each a distribution")
        out.append(one)
    return tuple(out)


def require(own: Sequence[str], declarations: Mapping[str, Any], what: str, form: str, family: Family) -> None:
    """Each column of a block must have what its family needs."""
    without = [name for name in own if name not in declarations]
    if without:
        example = f"{what}={{{without[0]!r}: {form}}}"
        raise DecibanError(
            "{what}= does not mention {columns}, whose distribution is {family}: give {example}, from what you know "
            "about it and not from the rows",
            what=what,
            columns=listed(without),
            family=family.name,
            example=example,
        )


def read_bounds(pair: Any, name: str, family: Family) -> tuple[float, float]:
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError):
        raise DecibanError(
            "the bounds of {column!r} are {value!r}: give (low, high)", column=name, value=pair
        ) from None
    if not (np.isfinite([low, high]).all() and low < high and np.abs([low, high]).max() <= 1e75):
        raise DecibanError(
            "the bounds of {column!r} are {value!r}: low must be less than high, and both numbers below 1e75",
            column=name,
            value=(low, high),
        )
    if low < 0 and family.values == "counts":
        raise DecibanError(
            "the lower bound of {column!r} is {value:g}: counts are never negative", column=name, value=low
        )
    return low, high


def read_categories(categories: Mapping[str, Any], own: Sequence[str]) -> tuple[Categories, ...]:
    """The categories of each column; 0, 1, 2, … in every column are codes."""
    lists = []
    for name in own:
        values = categories[name]
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise DecibanError("the categories of {column!r} are {value!r}: give a list", column=name, value=values)
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        wrong = [value for value in values if not isinstance(value, PLAIN_TYPES) or value != value]
        if wrong or not values or len(set(values)) < len(values):
            raise DecibanError(
                "the categories of {column!r} must be distinct strings or numbers: {value!r}", column=name, value=values
            )
        lists.append(values)
    if all(values == list(range(len(values))) and type(values[0]) is int for values in lists):
        return tuple(range(len(values)) for values in lists)
    return tuple(map(tuple, lists))


def positive(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 1 <= float(value) <= 1e9


def codes_of(y: Any, n: int, classes: Array) -> Codes:
    """The class of every row, −1 if it is missing or not declared."""
    labels = read_labels(validation.one_column(y), n, classes)
    if labels.soft is not None:
        raise DecibanError("private needs one label per row, not a matrix of weights")
    position = {label: code for code, label in enumerate(classes.tolist())}
    codes = np.array([*(position.get(label, -1) for label in labels.classes.tolist()), -1], dtype=np.int32)
    return codes[labels.codes]


def warn_of_ignored(blocks: tuple[Declared, ...], data: Sequence[Any], codes: Codes) -> None:
    """Warn if something of the rows is outside what was declared, which is ignored or replaced."""
    if ignored := int((codes < 0).sum()):
        warn(f"{ignored} rows are ignored, since their label is missing or not one of classes=. {SEEN_BY_YOU}")
    for block, X in zip(blocks, data, strict=True):
        if isinstance(block, DeclaredCategories):
            sizes = np.diff(block.columns.offsets)
            names = block.names((sizes <= X).any(axis=0))
            if names:
                warn(f"values of {listed(names)} that categories= does not mention are ignored. {SEEN_BY_YOU}")
        elif (
            not issparse(X)
            and X.dtype.kind == "f"
            and len(names := block.names(np.isnan(X).any(axis=0) & ~block.gappy))
        ):
            warn(
                f"{listed(names)} have missing values, which count as the middle of the bounds, or as absent: give "
                f"missing={list(names)!r}. {SEEN_BY_YOU}"
            )
