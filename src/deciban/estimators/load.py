"""Reading a model back."""

from __future__ import annotations

import importlib
import os
from typing import Any

from deciban.corollaries.conformal import Strangeness
from deciban.errors import FileError
from deciban.storage import files

# A file names its model; only these names are known, so a file cannot ask for other code.
MODELS = {
    "BernoulliNB": "naive_bayes.bernoulli",
    "CategoricalNB": "naive_bayes.categorical",
    "Classifier": "tables",
    "ComplementNB": "naive_bayes.complement",
    "GaussianDiscriminant": "gaussians.gaussian_discriminant",
    "GaussianMixture": "gaussians.mixture",
    "GaussianNB": "naive_bayes.gaussian",
    "LinearDiscriminantAnalysis": "gaussians.linear",
    "MixtureDiscriminant": "gaussians.mixture_discriminant",
    "MultinomialNB": "naive_bayes.multinomial",
    "NaiveBayes": "naive_bayes.mixed",
    "NearestCentroid": "gaussians.nearest_centroid",
    "PoissonNB": "naive_bayes.poisson",
    "QuadraticDiscriminantAnalysis": "gaussians.quadratic",
    "SpamFilter": "spam",
    "TextClassifier": "text",
    "TreeAugmentedNB": "naive_bayes.tree_augmented",
}
OWN = ("Classifier", "SpamFilter", "TextClassifier")  # they rebuild their model themselves


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote: it predicts, and goes on learning and forgetting, as before.

    >>> import tempfile, os
    >>> from deciban import MultinomialNB, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "spam.deciban")
    ...     MultinomialNB().fit([[2, 0], [0, 1]], ["spam", "ham"]).save(path)
    ...     load(path).partial_fit([[1, 1]], ["spam"]).class_count_.tolist()
    [1.0, 2.0]
    """
    document, tensors, about = files.read_parts(path)
    name = about.get("model")
    if not isinstance(name, str) or name not in MODELS:
        raise FileError(f"{os.fspath(path)!r} holds a model {name!r} that this version does not know")
    kind = getattr(importlib.import_module(f"deciban.estimators.{MODELS[name]}"), name)
    with files.damage(path):
        estimator = kind(**about["parameters"])
        if name in OWN:
            estimator._restore(document, tensors, about)
        else:
            estimator._restore(files.rebuild(document, tensors), about)
        estimator.origin_ = files.checked_origin(about)
        if "sets" in about:
            estimator.calibration_ = Strangeness.from_dict(about["sets"], len(estimator.classes_))
    return estimator
