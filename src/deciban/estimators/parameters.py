"""Parameters that several estimators share: their constraints and conversion."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from deciban._typing import Array, Floats
from deciban.errors import warn
from deciban.families import Family
from deciban.joint import Block, Joint

ALPHA_MIN = 1e-10  # scikit-learn's bound, kept for force_alpha=False
MAX_ALPHA = 1e100  # more pseudo-counts than this would outweigh any data

COUNT_CONSTRAINTS: dict[str, Any] = {
    "alpha": [Interval(Real, 0, None, closed="left"), "array-like", StrOptions({"empirical", "loo"})],
    "fit_prior": ["boolean"],
    "class_prior": ["array-like", None],
    "force_alpha": ["boolean"],
    "n_jobs": [None, int, np.integer],
}


def joint_of_counts(estimator: Any, family: Family) -> Joint:
    """Counts with pseudo-counts, under scikit-learn's parameters of smoothing and class prior."""
    return Joint((Block(family, pseudo_counts(estimator)),), counted_prior(estimator))


def counted_prior(estimator: Any) -> str | Floats:
    """`class_prior`, made to sum to one; without it n_y/n, or uniform if `fit_prior` is off."""
    if estimator.class_prior is None:
        return "empirical" if estimator.fit_prior else "uniform"
    prior = np.asarray(estimator.class_prior, dtype=np.float64)
    return prior / prior.sum() if prior.ndim == 1 and prior.sum() > 0 else prior


def pseudo_counts(estimator: Any) -> float | str | Array:
    """alpha as a number, a name, or a checked array; at least scikit-learn's minimum if not `force_alpha`."""
    if isinstance(estimator.alpha, str):
        return 1.0 if estimator.alpha == "loo" else estimator.alpha
    given = estimator.alpha
    alpha: Any = given if isinstance(given, Real) else np.asarray(given, dtype=np.float64)
    if np.size(alpha) == 0:
        raise ValueError("alpha is empty: give one number, one per feature, or one per class and feature")
    lowest = float(np.min(alpha))
    if float(np.max(alpha)) > MAX_ALPHA:
        raise ValueError(f"alpha is {float(np.max(alpha)):g}: it is too large for the data to matter")
    if isinstance(alpha, np.ndarray):
        if alpha.ndim not in (1, 2) or alpha.shape[-1] != estimator.n_features_in_:
            raise ValueError(
                "When alpha is an array, it should contains `n_features`. "
                f"Got {alpha.shape[-1] if alpha.ndim else 1} elements instead of {estimator.n_features_in_}."
            )
        if not lowest >= 0:
            raise ValueError("All values in alpha must be greater than 0.")
        if not np.isfinite(alpha).all():
            raise ValueError("alpha must be finite")
    if lowest < ALPHA_MIN and not getattr(estimator, "force_alpha", True):
        warn(
            f"alpha too small will result in numeric errors, setting alpha = {ALPHA_MIN:.1e}. "
            "Use `force_alpha=True` to keep alpha unchanged.",
            UserWarning,
        )
        return np.maximum(alpha, ALPHA_MIN)  # type: ignore[no-any-return]  # a float or an array of them
    return alpha  # type: ignore[no-any-return]  # likewise


def priors(given: Any) -> str | Floats:
    """`priors` as given; None means the empirical frequencies."""
    if given is None or isinstance(given, str):
        return str(given or "empirical")
    return np.asarray(given, dtype=np.float64)


def normalised_priors(given: Any) -> str | Floats:
    """The same made to sum to one."""
    prior = priors(given)
    return prior if isinstance(prior, str) else np.asarray(prior / prior.sum())


def check_priors(given: Any) -> None:
    """Raise an error for priors that are invalid for any classes."""
    prior = priors(given)
    if isinstance(prior, str):
        return
    if prior.ndim != 1 or not np.isfinite(prior).all():
        raise ValueError("priors must be finite numbers, one per class")
    if (prior < 0).any():
        raise ValueError("priors must be non-negative")
    if not prior.sum() > 0:
        raise ValueError("priors must not all be zero")
    if not np.isclose(prior.sum(), 1.0, atol=1e-5):
        warn("The priors do not sum to 1. Normalizing such that it sums to one.", UserWarning)


def as_guess(value: Any, name: str, d: int) -> float | tuple[float, ...] | None:
    """A parameter of pseudo-rows: a number for all features, or one for each."""
    if value is None:
        return None
    array = np.asarray(value, dtype=np.float64)
    if array.ndim and array.shape != (d,):
        raise ValueError(f"{name} should have one value per feature, shape ({d},), got {array.shape}")
    if not np.isfinite(array).all() or (name == "prior_var" and (array <= 0).any()):
        raise ValueError(f"{name} must be finite" + (" and positive" if name == "prior_var" else ""))
    return tuple(array.tolist()) if array.ndim else float(array)


def as_covariance(value: Any, d: int) -> tuple[tuple[float, ...], ...] | None:
    """The covariance of pseudo-rows."""
    if value is None:
        return None
    array = np.asarray(value, dtype=np.float64)
    if array.shape != (d, d):
        raise ValueError(f"prior_cov should have shape ({d}, {d}), got {array.shape}")
    if not np.isfinite(array).all() or not np.allclose(array, array.T) or not (np.linalg.eigvalsh(array) > 0).all():
        raise ValueError("prior_cov must be a finite, symmetric, positive definite matrix")
    return tuple(tuple(row) for row in array.tolist())


def as_pair(shrinkage: Any) -> tuple[float, float | str]:
    """(tie, sphere) from the parameter; zero if leave-one-out chooses."""
    if shrinkage is None or (isinstance(shrinkage, str) and shrinkage == "loo"):
        return 0.0, 0.0
    if isinstance(shrinkage, str):
        return 0.0, shrinkage
    if isinstance(shrinkage, Real):
        return 0.0, float(shrinkage)
    pair = np.asarray(shrinkage, dtype=np.float64)
    if pair.shape != (2,) or not ((pair >= 0) & (pair <= 1)).all():
        raise ValueError(f"shrinkage must be a number or a pair (tie, sphere) in [0, 1], got {shrinkage!r}")
    return float(pair[0]), float(pair[1])


def prior_by_class(given: Any, classes: Array) -> str | Floats:
    """The class prior: "empirical" if none is given, "uniform", or a probability for each class."""
    if given is None or isinstance(given, str):
        return given or "empirical"
    if len(classes) == 0:
        return "empirical"  # there are no classes yet
    if isinstance(given, Mapping):
        if set(given) != set(classes.tolist()):
            raise ValueError(f"class_prior must name the classes {classes.tolist()}, not {list(given)}")
        given = [given[label] for label in classes.tolist()]
    prior = np.asarray(given, dtype=np.float64)
    if prior.shape != (len(classes),) or (prior < 0).any() or not np.isclose(prior.sum(), 1.0):
        raise ValueError(f"class_prior must have a probability for each of the classes {classes.tolist()}, ≥ 0, sum 1")
    return prior
