"""What can go wrong, in words that say what to do."""

from __future__ import annotations

import sys
import warnings


class DecibanError(ValueError):
    """Base of every error that deciban raises about its input."""


class SchemaError(DecibanError):
    """Two things that should fit together (batches, models) do not."""


class ForgetError(DecibanError):
    """Rows were to be forgotten that the model had not learned, or that its sums cannot do without."""


class FileError(DecibanError):
    """A model file is broken, foreign, or from a later version."""


class EngineError(DecibanError):
    """A partition, a worker or a connection failed, and trying again did not help: nothing was learned."""


class ZeroEvidenceWarning(UserWarning):
    """Every class gave some row probability zero, so its posterior fell back to the prior."""


class InterruptedWarning(UserWarning):
    """EM was interrupted, and the model is the best it had found."""


class SingularWarning(UserWarning):
    """A covariance had directions without any spread, and something was done about it."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the package that led here, however deep inside it is noticed."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("deciban."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
