"""The model in a file and how it reads rows, whatever kind it is: what `deciban.load` and `deciban.read` start with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.learner import Learner
from deciban.readers.base import Reader

TABLE_MODELS = ("Classifier",)
TEXT_MODELS = ("SpamFilter", "TextClassifier")
COUNT_MODELS = {
    "BernoulliNB": False,
    "ComplementNB": True,
    "MultinomialNB": True,
    "PoissonNB": True,
}  # whether negative values are an error


def unpack(about: dict[str, Any], document: dict[str, Any], tensors: Mapping[str, Array]) -> Learner:
    """The model that an estimator saved; modules of other models are not imported."""
    name = about["model"]
    if name in TABLE_MODELS:
        from deciban.tables.model import TableModel

        return TableModel.unpack(document, tensors)
    if name in TEXT_MODELS:
        from deciban.text import files

        return files.rebuild(document, tensors)
    if name == "MixtureDiscriminant":
        from deciban.components import ComponentModel

        if "components" not in document:  # older files had them next to the model
            old_names = {"owner": "owner_", "labels": "labels_", "closed": "closed_"}
            parts = {key: about["state"].pop(old_name) for key, old_name in old_names.items()}
            return ComponentModel.of_parts(document, tensors, **parts)
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
    if name in TABLE_MODELS:
        from deciban.readers.tables import TableReader

        return TableReader(about["table"])
    if name == "TextClassifier":
        from deciban.readers.texts import TextReader

        return TextReader(bool(parameters["lowercase"]))
    if name == "SpamFilter":
        from deciban.readers.texts import MailReader

        headers = parameters["headers"]
        return MailReader(True, None if headers is None else tuple(map(str, headers)))
    if name in COUNT_MODELS:
        from deciban.readers.counts import CountReader

        binary = getattr(model.joint.blocks[0].family, "threshold", 0.0) is None
        return CountReader(names, name, COUNT_MODELS[name], binary)
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
    medians = about.get("state", {}).get("medians_") if about["model"] == "NearestCentroid" else None
    return None if medians is None else np.asarray(medians, dtype=np.float64)
