"""SciPy, imported on first use: importing it takes longer than loading a saved model and predicting.

Layers below the models import it from here or inside functions, never at the top of a file.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
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
    half = np.array(matrix, dtype=np.float64, order="C")
    if lapack("dpotrf") is None or not half.size:
        np.linalg.cholesky(half)  # an error unless it is positive definite
        return np.linalg.inv(half)
    size, failed = ctypes.c_int(len(half)), ctypes.c_int()
    for routine in ("dpotrf", "dpotri"):  # LAPACK reads rows as columns, so the lower triangle is its upper one
        place = half.ctypes.data_as(ctypes.c_void_p)
        lapack(routine)(b"U", ctypes.byref(size), place, ctypes.byref(size), ctypes.byref(failed))
        if failed.value:
            raise np.linalg.LinAlgError("the matrix is not positive definite")
    return half


@cache
def lapack(name: str) -> Any:
    """A routine of LAPACK that takes (char, int, matrix, int, int), as SciPy offers it to compiled code.

    Called so, it does not hold the GIL: other threads go on, which they do not with `scipy.linalg.lapack`. None if a
    SciPy is built with other integers.
    """
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__[name]
    signature_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    signature = signature_of(capsule)
    if not signature.startswith(b"void (char *, int *,"):
        return None
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[ctypes.c_void_p] * 4)(address_of(capsule, signature))


def inverse(matrix: Any) -> Any:
    """The inverse of a symmetric positive definite matrix, in about a third of the time of NumPy's."""
    half = np.tril(inverse_half(matrix))
    return half + np.tril(half, -1).T
