"""The model in a file and how it reads rows, whatever kind it is: what `deciban.load` and `deciban.read` begin with."""

from __future__ import annotations

from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.learner import Learner
from deciban.readers.base import Reader

TABLES = ("Classifier",)
TEXTS = ("SpamFilter", "TextClassifier")
COUNTS = {"BernoulliNB": False, "ComplementNB": True, "MultinomialNB": True, "PoissonNB": True}  # never negative


def unpack(about: dict[str, Any], document: dict[str, Any], tensors: dict[str, Array]) -> Learner:
    """The model that an estimator kept; what others need is not imported."""
    name = about["model"]
    if name in TABLES:
        from deciban.tables.model import TableModel

        return TableModel.unpack(document, tensors)
    if name in TEXTS:
        from deciban.text import files

        return files.rebuild(document, tensors)
    if name == "MixtureDiscriminant":
        from deciban.components import ComponentModel

        if "components" not in document:  # files of before had them beside the model
            own = {"owner": "owner_", "labels": "labels_", "closed": "closed_"}
            said = {key: about["state"].pop(kept) for key, kept in own.items()}
            return ComponentModel.of_parts(document, tensors, **said)
        return ComponentModel.unpack(document, tensors)
    if name == "GaussianMixture":
        from deciban.components import MixtureModel

        return MixtureModel.unpack(document, tensors)
    from deciban.joint_model import JointModel

    return JointModel.unpack(document, tensors)


def reader_of(about: dict[str, Any], model: Any) -> Reader:
    """How the estimator read rows."""
    name, parameters = about["model"], about["parameters"]
    names = tuple(about.get("names") or ()) or None
    if name in TABLES:
        from deciban.readers.tables import TableReader

        return TableReader(about["table"])
    if name == "TextClassifier":
        from deciban.readers.texts import TextReader

        return TextReader(bool(parameters["lowercase"]))
    if name == "SpamFilter":
        from deciban.readers.texts import MailReader

        headers = parameters["headers"]
        return MailReader(True, None if headers is None else tuple(map(str, headers)))
    if name in COUNTS:
        from deciban.readers.counts import CountReader

        binary = getattr(model.joint.blocks[0].family, "threshold", 0.0) is None
        return CountReader(names, name, COUNTS[name], binary)
    if name == "CategoricalNB":
        from deciban.readers.categories import CategoryReader

        return CategoryReader(names, name)
    if name == "TreeAugmentedNB":
        from deciban.readers.trees import TreeReader

        return TreeReader(names)
    if name == "NaiveBayes":
        from deciban.readers.mixed import MixedReader

        features = names or tuple(f"x{j}" for j in range(int(about["n_features"])))
        state = about["state"]
        kinds = dict(zip(features, state["kinds_"], strict=True))
        return MixedReader(tuple, kinds, str(state.get("table_kind_", "dict")))
    from deciban.readers.numbers import NumberReader

    return NumberReader(names, dense=any(block.family.whole_rows for block in model.joint.blocks))


def medians_of(about: dict[str, Any]) -> Array | None:
    """The centroids of a `NearestCentroid` that took medians."""
    found = about.get("state", {}).get("medians_") if about["model"] == "NearestCentroid" else None
    return None if found is None else np.asarray(found, dtype=np.float64)
