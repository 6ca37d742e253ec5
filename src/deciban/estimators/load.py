"""Reading a saved model."""

from __future__ import annotations

import importlib
import os
from typing import Any, BinaryIO

from deciban import saved
from deciban.corollaries.conformal import Strangeness
from deciban.errors import FileError
from deciban.storage import files


def load(path: str | os.PathLike[str] | BinaryIO) -> Any:
    """Read a model that `save` wrote, from a path or an open file: it predicts, learns and forgets as before.

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
    if not isinstance(name, str) or name not in files.MODELS:
        raise FileError(f"{files.name_of(path)!r} holds a model {name!r} which this version does not support")
    kind = getattr(importlib.import_module(f"deciban.estimators.{files.MODELS[name]}"), name)
    with files.damage(path):
        estimator = kind(**about["parameters"])
        estimator.model_ = estimator._restored(saved.unpack(about, document, tensors), about)
        estimator.origin_ = files.checked_origin(about)
        if "sets" in about:
            estimator.calibration_ = Strangeness.from_dict(about["sets"], len(estimator.classes_))
    return estimator
