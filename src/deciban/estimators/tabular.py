"""Reading tables as scikit-learn's users expect: its checks of arrays, its attributes, any frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from deciban.errors import DecibanError, warn
from deciban.reading.frames import Frame, read_frame
from deciban.reading.missing import unmask
from deciban.reading.native import native_kind


def read_table(estimator: Any, X: Any, *, reset: bool, least: int = 1) -> Frame:
    """A table with the columns' names (x0, x1, … where they have none); `reset` remembers what the first is like."""
    frame = None if is_array(X) else read_frame(X)  # first, so that a bad table is told in our own words
    # A sparse matrix by keys (DOK) has the methods of a dictionary, and no names.
    kind = "numpy" if is_array(X) else "dict" if isinstance(X, Frame) else native_kind(X)
    named = has_names(X, kind)
    if is_array(X):
        X = validate_data(
            estimator,
            unmask(X),
            reset=reset,
            accept_sparse=["csr", "csc"],
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=least,
        )
        if X.dtype.kind == "c":
            raise ValueError(f"Complex data not supported\n{X}\n")
    frame = read_frame(X) if frame is None else frame
    if reset:
        if not frame.columns:
            raise DecibanError("0 feature(s) while a minimum of 1 is required: the table has no columns")
        estimator.n_features_in_ = len(frame.columns)
        estimator.__dict__.pop("feature_names_in_", None)
        if named:
            estimator.feature_names_in_ = np.array(frame.names, dtype=object)
        estimator.table_kind_ = kind
    if frame.size < least:
        raise DecibanError(f"Found array with 0 sample(s) while a minimum of {least} is required: the table is empty")
    known = getattr(estimator, "feature_names_in_", None)
    if named and known is not None:
        return frame
    if named != (known is not None) and not is_array(X):  # of arrays, scikit-learn has said so
        has, was = ("has", "without") if named else ("does not have", "with")
        warn(f"X {has} feature names, but {type(estimator).__name__} was fitted {was} feature names", UserWarning)
    if len(frame.names) != estimator.n_features_in_:
        raise ValueError(
            f"X has {len(frame.names)} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    names = tuple(map(str, known)) if known is not None else tuple(f"x{j}" for j in range(len(frame.names)))
    return Frame(names, frame.columns, frame.size, frame.notes)


def is_array(X: Any) -> bool:
    """Whether scikit-learn's checks know what X is."""
    return sp.issparse(X) or (isinstance(X, np.ndarray) and X.dtype.names is None)


def has_names(X: Any, kind: str) -> bool:
    """Whether columns have names of their own; as in scikit-learn, only strings are names."""
    if kind == "pandas":
        return all(isinstance(name, str) for name in X.columns)
    return kind != "numpy"
