"""deciban: generative classification where a model is a sum.

Public names are loaded when first used, so that `import deciban` is quick and imports no scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deciban.corollaries.compare import Comparison
    from deciban.corollaries.conformal import PredictionSets
    from deciban.corollaries.explain import Evidence
    from deciban.corollaries.judged import Evaluation, evaluate
    from deciban.corollaries.leave_one_out import LeaveOneOut
    from deciban.corollaries.summary import Summary
    from deciban.corollaries.tally import Tally
    from deciban.engines.sql import table
    from deciban.engines.stream import stream
    from deciban.errors import (
        DecibanError,
        EngineError,
        FileError,
        ForgetError,
        InterruptedWarning,
        SchemaError,
        SingularWarning,
        ZeroEvidenceWarning,
    )
    from deciban.models.bernoulli_nb import BernoulliNB
    from deciban.models.categorical_nb import CategoricalNB
    from deciban.models.classifier import Classifier
    from deciban.models.compare import compare
    from deciban.models.complement_nb import ComplementNB
    from deciban.models.count_vectorizer import CountVectorizer
    from deciban.models.gaussian_discriminant import GaussianDiscriminant
    from deciban.models.gaussian_mixture import GaussianMixture
    from deciban.models.gaussian_nb import GaussianNB
    from deciban.models.linear_discriminant_analysis import LinearDiscriminantAnalysis
    from deciban.models.load import load
    from deciban.models.mixture_discriminant import MixtureDiscriminant
    from deciban.models.multinomial_nb import MultinomialNB
    from deciban.models.naive_bayes import NaiveBayes
    from deciban.models.nearest_centroid import NearestCentroid
    from deciban.models.poisson_nb import PoissonNB
    from deciban.models.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis
    from deciban.models.spam_filter import SpamFilter
    from deciban.models.text_classifier import TextClassifier
    from deciban.models.tree_augmented_nb import TreeAugmentedNB
    from deciban.scorer import read
    from deciban.text.evidence import TextEvidence

_WHERE = {
    "BernoulliNB": "models.bernoulli_nb",
    "CategoricalNB": "models.categorical_nb",
    "Classifier": "models.classifier",
    "Comparison": "corollaries.compare",
    "ComplementNB": "models.complement_nb",
    "CountVectorizer": "models.count_vectorizer",
    "DecibanError": "errors",
    "EngineError": "errors",
    "Evaluation": "corollaries.judged",
    "Evidence": "corollaries.explain",
    "FileError": "errors",
    "ForgetError": "errors",
    "GaussianDiscriminant": "models.gaussian_discriminant",
    "GaussianMixture": "models.gaussian_mixture",
    "GaussianNB": "models.gaussian_nb",
    "InterruptedWarning": "errors",
    "LeaveOneOut": "corollaries.leave_one_out",
    "LinearDiscriminantAnalysis": "models.linear_discriminant_analysis",
    "MixtureDiscriminant": "models.mixture_discriminant",
    "MultinomialNB": "models.multinomial_nb",
    "NaiveBayes": "models.naive_bayes",
    "NearestCentroid": "models.nearest_centroid",
    "PoissonNB": "models.poisson_nb",
    "PredictionSets": "corollaries.conformal",
    "QuadraticDiscriminantAnalysis": "models.quadratic_discriminant_analysis",
    "SchemaError": "errors",
    "SingularWarning": "errors",
    "SpamFilter": "models.spam_filter",
    "Summary": "corollaries.summary",
    "Tally": "corollaries.tally",
    "TextClassifier": "models.text_classifier",
    "TextEvidence": "text.evidence",
    "TreeAugmentedNB": "models.tree_augmented_nb",
    "ZeroEvidenceWarning": "errors",
    "compare": "models.compare",
    "evaluate": "corollaries.judged",
    "load": "models.load",
    "read": "scorer",
    "stream": "engines.stream",
    "table": "engines.sql",
}

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "Classifier",
    "Comparison",
    "ComplementNB",
    "CountVectorizer",
    "DecibanError",
    "EngineError",
    "Evaluation",
    "Evidence",
    "FileError",
    "ForgetError",
    "GaussianDiscriminant",
    "GaussianMixture",
    "GaussianNB",
    "InterruptedWarning",
    "LeaveOneOut",
    "LinearDiscriminantAnalysis",
    "MixtureDiscriminant",
    "MultinomialNB",
    "NaiveBayes",
    "NearestCentroid",
    "PoissonNB",
    "PredictionSets",
    "QuadraticDiscriminantAnalysis",
    "SchemaError",
    "SingularWarning",
    "SpamFilter",
    "Summary",
    "Tally",
    "TextClassifier",
    "TextEvidence",
    "TreeAugmentedNB",
    "ZeroEvidenceWarning",
    "compare",
    "evaluate",
    "load",
    "read",
    "stream",
    "table",
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
