"""Generative against discriminative: which is better with few rows, and which with many (S15)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.estimators.naive_bayes.gaussian import GaussianNB
from deciban.estimators.tables import Classifier
from deciban.estimators.text import TextClassifier
from deciban.estimators.validation import generator
from deciban.reading.convert import as_kind
from deciban.reading.frames import Column, Frame, Numbers, read_frame
from deciban.reading.kinds import ColumnKind
from deciban.reading.labels import read_labels
from deciban.results.comparison import MIN_ROWS_PER_CLASS, ByNumber, Comparison, learning_curves, taker

N_SIZES = 8  # points of a learning curve
MANY_ROWS = 1000  # draws of more rows differ little, and take longest:
SHARE_OF_DRAWS = 0.6  # of the repeats are enough
MAX_HELD_OUT = 20_000  # rows: enough for two or three digits of a log loss


def compare(
    X: Any,
    y: Any,
    generative: Any = None,
    discriminative: Any = None,
    sizes: Sequence[int] | None = None,
    repeats: int = 5,
    test_size: float = 1 / 3,
    random_state: Any = 0,
) -> Comparison:
    """Learning curves of a generative and a discriminative classifier on the same rows.

    A generative model learns P(x, y), a discriminative one only P(y | x). If the generative model is true it
    needs fewer rows; if it is wrong, enough rows make the discriminative one better (Ng & Jordan, 2001). This shows
    which case a table is, and at how many rows the curves cross.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n, d)
        Rows, as both classifiers take them.
    y : array-like of shape (n,)
        Labels, none of them missing; each class needs three rows.
    generative : classifier, default=None
        None is `GaussianNB(alpha="loo")`. It has a prior because logistic regression has one too, its penalty:
        without it, a class whose few rows share a value has no variance there, and its predictions are certain.
    discriminative : classifier with `predict_proba`, default=None
        None is logistic regression on standardised columns, missing values replaced by the column's mean.
    sizes : sequence of int, default=None
        Numbers of rows to learn from; None is eight of them, in even ratios, up to all rows that are not held out.
    repeats : int, default=5
        How often training and held-out rows are drawn. Curves of few rows need more: use 30 before trusting
        a small lead. If `sizes` is None, sizes above 1,000 rows, whose draws differ little, have three fifths as many.
    test_size : float or int, default=1/3
        The share of rows held out in each repeat, 20,000 of them at most; or their number.
    random_state : int, RandomState, Generator or None, default=0
        The random seed. The same seed draws the same rows.

    Returns
    -------
    Comparison
        Log loss and accuracy by model, size and repeat; `best(size)`, `crossing`, `plot()`, `to_frame()`.

    Examples
    --------
    Thirty independent columns, as naive Bayes assumes; then ten of them share a cause, which is counted ten times:

    >>> import numpy as np
    >>> from deciban.estimators.compare import compare
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(3000) % 2
    >>> X = rng.normal(size=(3000, 30)) + 0.6 * y[:, None]
    >>> compare(X, y, sizes=[120, 2000]).best(120)
    'GaussianNB'
    >>> X[:, :10] += 0.3 * rng.normal(size=(3000, 1))
    >>> comparison = compare(X, y, sizes=[120, 2000])
    >>> comparison.best(120), comparison.crossing
    ('GaussianNB', 2000)
    """
    take, n = taker(X)
    models = clones(
        GaussianNB(alpha="loo") if generative is None else generative,
        logistic_regression(sp.issparse(X)) if discriminative is None else discriminative,
    )
    return curves(models, X, y, n, width(take(np.arange(min(n, 1)))), sizes, repeats, test_size, random_state)


def curves(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    n: int,
    columns: int,
    sizes: Sequence[int] | None,
    repeats: int,
    test_size: float,
    random_state: Any,
) -> Comparison:
    """Learning curves of models on n rows with this many columns."""
    labels = read_labels(y, n)
    if labels.soft is not None or labels.any_missing:
        raise DecibanError("compare needs a label for every row: leave out rows without one")
    held_out, rng = rows_held_out(test_size, n), generator(random_state)
    draws: int | list[int] = repeats
    if sizes is None:
        sizes = default_sizes(n - held_out, columns, len(labels.classes))
        fewer = math.ceil(SHARE_OF_DRAWS * repeats)
        draws = [fewer if size > MANY_ROWS else repeats for size in sizes]
    return learning_curves(models, X, labels.classes[labels.codes], sizes, held_out=held_out, repeats=draws, rng=rng)


def compare_tables(X: Any, y: Any, kinds: Sequence[ColumnKind], repeats: int = 5, random_state: Any = 0) -> Comparison:
    """The same for `Classifier` and logistic regression on a table of mixed columns of these `kinds`.

    For logistic regression categories are one-hot encoded, missing ones a category of their own, and texts are TF-IDF
    vectors. The table is read once, for all fits of both.
    """
    frame = read_frame(X).select([own.name for own in kinds])
    columns = zip(kinds, frame.columns, strict=True)
    read = tuple(as_kind(column, own.kind, own.name, format=own.format) for own, column in columns)
    frame = Frame(frame.names, read, frame.size)
    numbers = [j for j, column in enumerate(read) if isinstance(column, Numbers)]
    texts = [j for j, own in enumerate(kinds) if own.kind == "text"]
    categories = [j for j in range(len(kinds)) if j not in {*numbers, *texts}]
    parts: list[tuple[str, Any, Any]] = [
        ("numbers", make_pipeline(FunctionTransformer(floats), *scaled(False)), numbers),
        ("categories", make_pipeline(FunctionTransformer(floats), OneHotEncoder(handle_unknown="ignore")), categories),
        *[(f"text{j}", make_pipeline(FunctionTransformer(strings), TfidfVectorizer()), j) for j in texts],
    ]
    regression = make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=10_000))
    table = as_matrix(read, texts)
    models = {
        "Classifier": ByNumber(Classifier(schema={own.name: own.kind for own in kinds}), frame.take),
        "LogisticRegression": ByNumber(regression, table.__getitem__),
    }
    return curves(models, np.arange(frame.size), y, frame.size, len(kinds), None, repeats, 1 / 3, random_state)


def as_matrix(columns: Sequence[Column], texts: Sequence[int]) -> Array:
    """Numbers and codes of categories, (n, d); of objects if some columns are texts."""
    out = np.empty((len(columns[0]), len(columns)), dtype=object if texts else np.float64)
    for j, column in enumerate(columns):
        if isinstance(column, Numbers):
            out[:, j] = column.values
        else:
            out[:, j] = column.objects() if j in texts else column.codes
    return out


def compare_texts(texts: Sequence[str], y: Any, repeats: int = 5, random_state: Any = 0) -> Comparison:
    """The same for `TextClassifier` and logistic regression on TF-IDF vectors."""
    regression = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10.0, max_iter=10_000))
    X = np.array(texts, dtype=object)
    return compare(X, y, TextClassifier(), regression, repeats=repeats, random_state=random_state)


def floats(X: Any) -> Any:
    return np.asarray(X, dtype=np.float64)


def strings(column: Any) -> list[str]:
    return ["" if value is None else str(value) for value in np.asarray(column).ravel()]


def logistic_regression(sparse: bool) -> Pipeline:
    return make_pipeline(*scaled(sparse), LogisticRegression(max_iter=10_000))


def scaled(sparse: bool) -> tuple[Any, Any]:
    """Columns of mean 0 and variance 1, so that one penalty suits all; sparse ones are only scaled, to stay sparse."""
    return SimpleImputer(keep_empty_features=True), StandardScaler(with_mean=not sparse)


def rows_held_out(test_size: float, n: int) -> int:
    if isinstance(test_size, int | np.integer):
        return int(test_size)
    if not 0.0 < test_size < 1.0:
        raise DecibanError(f"test_size is {test_size:g}: it must be a share between 0 and 1, or a number of rows")
    return min(round(n * test_size), MAX_HELD_OUT)


def default_sizes(most: int, d: int, k: int) -> list[int]:
    """Eight sizes in even ratios. The least is about the number of columns, but a small part of the rows."""
    least = min(most, max(MIN_ROWS_PER_CLASS * k, min(d + 2, most // 32)))
    return sorted(set(np.geomspace(least, most, N_SIZES).round().astype(int).tolist())) if most > 0 else []


def width(rows: Any) -> int:
    return int(rows.shape[1]) if len(rows.shape) > 1 else 1


def clones(generative: Any, discriminative: Any) -> dict[str, Any]:
    """Clones of the two by the name of their class; of a pipeline, of its last step."""
    pair = {}
    for role, model in (("generative", generative), ("discriminative", discriminative)):
        if not (hasattr(model, "fit") and hasattr(model, "get_params")) or isinstance(model, type):
            raise DecibanError(f"{role} must be a classifier, like GaussianNB(), got {model!r}")
        if not hasattr(model, "predict_proba"):
            raise DecibanError(f"{last_step(model)} has no predict_proba: wrap it in CalibratedClassifierCV")
        pair[role] = clone(model)
    names = [last_step(model) for model in pair.values()]
    return dict(zip(names if names[0] != names[1] else pair, pair.values(), strict=True))


def last_step(model: Any) -> str:
    return type(model.steps[-1][1] if isinstance(model, Pipeline) else model).__name__
