"""deciban: generative classification where a model is a sum.

Public names are loaded on first use, so that `import deciban` is quick and does not import scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deciban.corollaries.conformal import PredictionSets
    from deciban.corollaries.leave_one_out import LeaveOneOut
    from deciban.engines.sql.engine import table
    from deciban.engines.stream import stream
    from deciban.errors import (
        DecibanError,
        EngineError,
        FileError,
        ForgetError,
        InterruptedWarning,
        SchemaError,
        SingularWarning,
        VocabularyWarning,
        WriteError,
        ZeroEvidenceWarning,
    )
    from deciban.estimators.compare import compare
    from deciban.estimators.gaussians.gaussian_discriminant import GaussianDiscriminant
    from deciban.estimators.gaussians.linear import LinearDiscriminantAnalysis
    from deciban.estimators.gaussians.mixture import GaussianMixture
    from deciban.estimators.gaussians.mixture_discriminant import MixtureDiscriminant
    from deciban.estimators.gaussians.nearest_centroid import NearestCentroid
    from deciban.estimators.gaussians.quadratic import QuadraticDiscriminantAnalysis
    from deciban.estimators.load import load
    from deciban.estimators.naive_bayes.bernoulli import BernoulliNB
    from deciban.estimators.naive_bayes.categorical import CategoricalNB
    from deciban.estimators.naive_bayes.complement import ComplementNB
    from deciban.estimators.naive_bayes.gaussian import GaussianNB
    from deciban.estimators.naive_bayes.mixed import NaiveBayes
    from deciban.estimators.naive_bayes.multinomial import MultinomialNB
    from deciban.estimators.naive_bayes.poisson import PoissonNB
    from deciban.estimators.naive_bayes.tree_augmented import TreeAugmentedNB
    from deciban.estimators.spam import SpamFilter
    from deciban.estimators.tables import Classifier
    from deciban.estimators.text import TextClassifier
    from deciban.estimators.vectorizer import CountVectorizer
    from deciban.results.comparison import Comparison
    from deciban.results.evaluation import Evaluation, evaluate
    from deciban.results.evidence import Evidence
    from deciban.results.summary import Summary
    from deciban.results.tally import Tally
    from deciban.scorer import read
    from deciban.text.evidence import TextEvidence

_MODULES = {
    "BernoulliNB": "estimators.naive_bayes.bernoulli",
    "CategoricalNB": "estimators.naive_bayes.categorical",
    "Classifier": "estimators.tables",
    "Comparison": "results.comparison",
    "ComplementNB": "estimators.naive_bayes.complement",
    "CountVectorizer": "estimators.vectorizer",
    "DecibanError": "errors",
    "EngineError": "errors",
    "Evaluation": "results.evaluation",
    "Evidence": "results.evidence",
    "FileError": "errors",
    "ForgetError": "errors",
    "GaussianDiscriminant": "estimators.gaussians.gaussian_discriminant",
    "GaussianMixture": "estimators.gaussians.mixture",
    "GaussianNB": "estimators.naive_bayes.gaussian",
    "InterruptedWarning": "errors",
    "LeaveOneOut": "corollaries.leave_one_out",
    "LinearDiscriminantAnalysis": "estimators.gaussians.linear",
    "MixtureDiscriminant": "estimators.gaussians.mixture_discriminant",
    "MultinomialNB": "estimators.naive_bayes.multinomial",
    "NaiveBayes": "estimators.naive_bayes.mixed",
    "NearestCentroid": "estimators.gaussians.nearest_centroid",
    "PoissonNB": "estimators.naive_bayes.poisson",
    "PredictionSets": "corollaries.conformal",
    "QuadraticDiscriminantAnalysis": "estimators.gaussians.quadratic",
    "SchemaError": "errors",
    "SingularWarning": "errors",
    "VocabularyWarning": "errors",
    "SpamFilter": "estimators.spam",
    "Summary": "results.summary",
    "Tally": "results.tally",
    "TextClassifier": "estimators.text",
    "TextEvidence": "text.evidence",
    "TreeAugmentedNB": "estimators.naive_bayes.tree_augmented",
    "WriteError": "errors",
    "ZeroEvidenceWarning": "errors",
    "compare": "estimators.compare",
    "evaluate": "results.evaluation",
    "load": "estimators.load",
    "read": "scorer",
    "stream": "engines.stream",
    "table": "engines.sql.engine",
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
    "VocabularyWarning",
    "WriteError",
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
    if name not in _MODULES:
        raise AttributeError(f"module 'deciban' has no attribute {name!r}")
    return getattr(importlib.import_module(f"deciban.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
