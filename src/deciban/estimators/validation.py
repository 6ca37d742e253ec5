"""scikit-learn's checks of rows and labels before they are read: shapes, names, types."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_random_state, column_or_1d, validate_data

from deciban import em
from deciban._kernel import counts
from deciban._typing import Array, Matrix
from deciban.errors import DecibanError, warn
from deciban.reading.frames import Frame, read_frame
from deciban.reading.missing import unmask
from deciban.reading.native import native_kind

INDEX_TYPES = {np.dtype(np.int32), np.dtype(np.int64)}  # of sparse rows, in the kernels
MAX_QUICK_ENTRIES = 1 << 16  # of a frame that is made an array at once, whatever its columns are


def matrix(estimator: Any, X: Any, *, reset: bool, least: int = 1, sparse: bool = True) -> Any:
    """Rows of numbers; NaN is missing, and infinities are detected later, in the sums."""
    known = None if reset else as_learned(estimator, X, least, sparse)
    if known is not None:
        return plain_rows(known)
    rows = validate_data(
        estimator,
        unmask(X),
        reset=reset,
        accept_sparse=["csr", "csc"] if sparse else False,
        dtype="numeric",
        ensure_all_finite=False,
        ensure_min_samples=least,
    )
    return plain_rows(rows)


def as_learned(estimator: Any, X: Any, least: int, sparse: bool) -> Any:
    """Rows for which scikit-learn's checks would find nothing, as an array or a sparse matrix; None if in doubt.

    These checks take longer than scoring a few rows. Such rows are numbers in an array, a sparse matrix in row order, a
    list of lists or a small frame of pandas, with the columns that were learned.
    """
    known = vars(estimator)
    names, with_names = known.get("feature_names_in_"), False
    if type(X) is list:
        X = list_of_numbers(X)
    elif names is not None and type(X).__module__.partition(".")[0] == "pandas" and hasattr(X, "columns"):
        with_names = X.size <= MAX_QUICK_ENTRIES and X.columns.tolist() == names.tolist()
        X = X.to_numpy() if with_names else None
    kinds = (np.ndarray, sp.csr_matrix, sp.csr_array) if sparse else (np.ndarray,)
    if type(X) not in kinds or X.ndim != 2 or X.dtype.kind not in "fiub":
        return None
    if X.shape[1] != known.get("n_features_in_") or X.shape[0] < least:
        return None
    if names is not None and not with_names:
        model = type(estimator).__name__
        warn(f"X does not have valid feature names, but {model} was fitted with feature names", UserWarning)
    return X


def list_of_numbers(X: list[Any]) -> Array | None:
    """A list of lists that starts with a number, as an array; None for any other."""
    first = X[0] if X else None
    if not isinstance(first, list | tuple) or not first or not isinstance(first[0], int | float):
        return None
    try:
        return np.array(X)
    except ValueError:  # rows of different lengths: scikit-learn's error names them
        return None


def objects(estimator: Any, X: Any, *, reset: bool, least: int = 1) -> Any:
    """Rows of any values, which keep their types."""
    known = None if reset else as_learned(estimator, X, least, True)
    if known is not None:
        return known
    rows = validate_data(
        estimator,
        unmask(mixed_rows(X) if isinstance(X, list | tuple) else X),
        reset=reset,
        accept_sparse=["csr", "csc"],
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=least,
    )
    if not sp.issparse(rows) and rows.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{X}\n")
    return rows


def table(estimator: Any, X: Any, *, reset: bool, least: int = 1) -> Frame:
    """A table with the columns' names (x0, x1, … if they have none); `reset` stores its names and kind."""
    frame = None if is_array(X) else read_frame(X)  # first, so that a bad table raises our own error
    # A sparse DOK matrix has the methods of a dictionary, but no names.
    kind = "numpy" if is_array(X) else "dict" if isinstance(X, Frame) else native_kind(X)
    named = has_names(X, kind)
    if is_array(X):
        X = objects(estimator, X, reset=reset, least=least)
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
    if named != (known is not None) and not is_array(X):  # for arrays, scikit-learn has warned
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
    """Whether scikit-learn's checks apply to X."""
    return sp.issparse(X) or (isinstance(X, np.ndarray) and X.dtype.names is None)


def has_names(X: Any, kind: str) -> bool:
    """Whether columns have names of their own; as in scikit-learn, only strings are names."""
    if kind == "pandas":
        return all(isinstance(name, str) for name in X.columns)
    return kind != "numpy"


def mixed_rows(X: Any) -> Any:
    """A list of rows as objects if it contains strings: NumPy would turn the numbers into strings."""
    array = np.asarray(X) if not any(sp.issparse(row) for row in X) else X
    if getattr(array, "dtype", None) is None or array.dtype.kind not in "US":
        return X
    return np.array(X, dtype=object)


def one_column(y: Any) -> Any:
    """Labels as they are; of a matrix of one column that column, with scikit-learn's warning."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    return column_or_1d(y, warn=True) if len(shape) == 2 and shape[1] == 1 else y


def warn_of_em(learned: em.Learned) -> None:
    """Warn if EM did not converge."""
    if not learned.converged and not learned.interrupted:
        warn(f"EM did not converge in {len(learned.log_likelihood)} steps: raise max_iter or tol", ConvergenceWarning)


def generator(random_state: Any) -> np.random.Generator:
    """A random generator: NumPy's new generators as they are, or from anything scikit-learn accepts as a seed."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(0, 2**31 - 1, size=4))


def plain_rows(X: Matrix) -> Matrix:
    """Rows in canonical form: native byte order, and each sparse entry stored once."""
    if sp.issparse(X):
        X = with_plain_indices(X)
        if has_duplicates(X):
            X = X.copy()
            X.has_canonical_format = False
            X.sum_duplicates()
    if X.dtype.kind == "f" and X.dtype not in (np.float32, np.float64):
        return X.astype(np.float64)
    return X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))


def with_plain_indices(X: Matrix) -> Matrix:
    """Sparse rows whose indices are contiguous, all of 32 or all of 64 bits, as SciPy makes them but users may not."""
    kinds = {X.indices.dtype, X.indptr.dtype}
    if len(kinds) == 1 and kinds <= INDEX_TYPES and X.indices.flags.c_contiguous and X.indptr.flags.c_contiguous:
        return X
    X = copy.copy(X)
    X.indices, X.indptr = (np.ascontiguousarray(part, dtype=np.int64) for part in (X.indices, X.indptr))
    return X


def has_duplicates(X: Matrix) -> bool:
    """Whether a sparse matrix stores entries twice or out of order. The kernels do not check that indices are in range.

    SciPy's own flag may be out of date: it is computed once.
    """
    lines, length = X.shape if X.format == "csr" else X.shape[::-1]
    fault = 2
    if len(X.indptr) == lines + 1 and X.indptr[-1] <= len(X.data):
        fault = counts.csr_fault(X.indices, X.indptr, length)
    if fault == 2:
        raise DecibanError("X is a sparse matrix with indices out of range: build it again")
    return bool(fault)


def all_numbers(X: Array) -> bool:
    """Whether an object array holds only numbers and missing values."""
    return all(v is None or (isinstance(v, int | float | np.number) and not isinstance(v, complex)) for v in X.ravel())
