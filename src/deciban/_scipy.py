"""SciPy, imported on first use: importing it takes longer than loading a saved model and predicting.

Layers below the models import it from here or inside functions, never at the top of a file.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def issparse(X: Any) -> bool:
    """Whether X is a SciPy sparse matrix; without importing SciPy."""
    if isinstance(X, np.ndarray) or "scipy.sparse" not in sys.modules:
        return False
    from scipy.sparse import issparse

    return bool(issparse(X))


def gammaln(x: Any) -> Any:
    """log |Γ(x)|."""
    from scipy.special import gammaln

    return gammaln(x)


def multigammaln(a: Any, d: int) -> Any:
    """log of the multivariate gamma function."""
    from scipy.special import multigammaln

    return multigammaln(a, d)


def betaln(a: Any, b: Any) -> Any:
    """log |B(a, b)|."""
    from scipy.special import betaln

    return betaln(a, b)


def xlogy(x: Any, y: Any) -> Any:
    """x log y, and 0 where x is 0."""
    from scipy.special import xlogy

    return xlogy(x, y)


def ndtri(p: Any) -> Any:
    """The quantile function of the normal distribution."""
    from scipy.special import ndtri

    return ndtri(p)


def logsumexp(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """log Σ exp x."""
    from scipy.special import logsumexp

    return logsumexp(x, axis=axis, keepdims=keepdims)


def inverse_half(matrix: Any) -> Any:
    """The lower triangle of the inverse of a symmetric positive definite matrix in C order."""
    from scipy.linalg.lapack import dpotrf, dpotri

    root, failed = dpotrf(matrix.T, lower=False, clean=False)  # LAPACK reads rows as columns
    if not failed:
        half, failed = dpotri(root, lower=False, overwrite_c=True)
    if failed:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return half.T


def inverse(matrix: Any) -> Any:
    """The inverse of a symmetric positive definite matrix, in about a third of the time of NumPy's."""
    half = np.tril(inverse_half(matrix))
    return half + np.tril(half, -1).T
