"""deciban: generative classification where a model is a sum.

Public names are loaded when first used, so that `import deciban` is quick and imports no scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deciban.corollaries.explain import Evidence
    from deciban.corollaries.leave_one_out import LeaveOneOut
    from deciban.errors import DecibanError, FileError, ForgetError, SchemaError, ZeroEvidenceWarning
    from deciban.models.bernoulli_nb import BernoulliNB
    from deciban.models.categorical_nb import CategoricalNB
    from deciban.models.complement_nb import ComplementNB
    from deciban.models.gaussian_nb import GaussianNB
    from deciban.models.load import load
    from deciban.models.multinomial_nb import MultinomialNB
    from deciban.models.poisson_nb import PoissonNB

_WHERE = {
    "BernoulliNB": "models.bernoulli_nb",
    "CategoricalNB": "models.categorical_nb",
    "ComplementNB": "models.complement_nb",
    "DecibanError": "errors",
    "Evidence": "corollaries.explain",
    "FileError": "errors",
    "ForgetError": "errors",
    "GaussianNB": "models.gaussian_nb",
    "LeaveOneOut": "corollaries.leave_one_out",
    "MultinomialNB": "models.multinomial_nb",
    "PoissonNB": "models.poisson_nb",
    "SchemaError": "errors",
    "ZeroEvidenceWarning": "errors",
    "load": "models.load",
}

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "ComplementNB",
    "DecibanError",
    "Evidence",
    "FileError",
    "ForgetError",
    "GaussianNB",
    "LeaveOneOut",
    "MultinomialNB",
    "PoissonNB",
    "SchemaError",
    "ZeroEvidenceWarning",
    "load",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("deciban")
    if name not in _WHERE:
        raise AttributeError(f"module 'deciban' has no attribute {name!r}")
    return getattr(importlib.import_module(f"deciban.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
