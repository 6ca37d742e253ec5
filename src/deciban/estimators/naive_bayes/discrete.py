"""What the discrete models share: scikit-learn's smoothing and class prior parameters."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Floats
from deciban.errors import warn
from deciban.estimators.base import GenerativeClassifier

ALPHA_MIN = 1e-10  # scikit-learn's bound, kept for force_alpha=False

LINEAR_CONSTRAINTS: dict[str, Any] = {
    "alpha": [Interval(Real, 0, None, closed="left"), "array-like", StrOptions({"empirical", "loo"})],
    "fit_prior": ["boolean"],
    "class_prior": ["array-like", None],
    "force_alpha": ["boolean"],
    "n_jobs": [None, int, np.integer],
}


class DiscreteClassifier(GenerativeClassifier):
    """Counts with pseudo-counts: what scikit-learn's smoothing and prior parameters mean here."""

    _parameter_constraints: ClassVar[dict[str, Any]] = LINEAR_CONSTRAINTS

    def _class_prior(self) -> str | Floats:
        if self.class_prior is None:
            return "empirical" if self.fit_prior else "uniform"
        prior = np.asarray(self.class_prior, dtype=np.float64)
        return prior / prior.sum() if prior.ndim == 1 and prior.sum() > 0 else prior

    def _check_alpha(self) -> float | Array:
        """alpha as a number or an array that fits; scikit-learn's floor where force_alpha is off."""
        alpha: Any = self.alpha if isinstance(self.alpha, Real) else np.asarray(self.alpha, dtype=np.float64)
        if np.size(alpha) == 0:
            raise ValueError("alpha is empty: give a number, one a feature, or one a class and feature")
        lowest = float(np.min(alpha))
        if float(np.max(alpha)) > 1e100:
            raise ValueError(f"alpha is {float(np.max(alpha)):g}: pseudo-counts this large leave nothing to the data")
        if isinstance(alpha, np.ndarray):
            if alpha.ndim not in (1, 2) or alpha.shape[-1] != self.n_features_in_:
                raise ValueError(
                    "When alpha is an array, it should contains `n_features`. "
                    f"Got {alpha.shape[-1] if alpha.ndim else 1} elements instead of {self.n_features_in_}."
                )
            if not lowest >= 0:
                raise ValueError("All values in alpha must be greater than 0.")
            if not np.isfinite(alpha).all():
                raise ValueError("alpha must be finite")
        if lowest < ALPHA_MIN and not self.force_alpha:
            warn(
                f"alpha too small will result in numeric errors, setting alpha = {ALPHA_MIN:.1e}. "
                "Use `force_alpha=True` to keep alpha unchanged.",
                UserWarning,
            )
            return np.maximum(alpha, ALPHA_MIN)  # type: ignore[no-any-return]  # a float or an array of them
        return alpha  # type: ignore[no-any-return]  # likewise

    @property
    def class_log_prior_(self) -> Floats:
        """log P(y)."""
        check_is_fitted(self)
        return np.array(self.model_.log_prior)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.input_tags.positive_only = self._positive
        return tags
