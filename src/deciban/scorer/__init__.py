"""A saved model to score with, where scikit-learn is not wanted: a service, a command line, a small container.

`deciban.load` gives back the estimator, which goes on learning; this gives its model, which only answers.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from deciban.errors import FileError
from deciban.scorer.base import Scorer
from deciban.storage import files

__all__ = ["Scorer", "read", "try_read"]


def read(path: str | os.PathLike[str], n_jobs: int | None = None) -> Scorer:
    """Read a `Classifier`, `TextClassifier` or `SpamFilter` that `save` wrote, to score with, without scikit-learn.

    >>> import tempfile
    >>> from deciban import Classifier, read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "animals.deciban")
    ...     Classifier().fit({"legs": [2, 4, 4, 2]}, ["hen", "cow", "cow", "hen"]).save(path)
    ...     read(path).predict({"legs": [4]}).tolist()
    ['cow']
    """
    found = try_read(path, n_jobs)
    if found is None:
        raise FileError(
            f"{os.fspath(path)!r} holds a model of another kind: read it with deciban.load, as an estimator"
        )
    return found


def try_read(path: str | os.PathLike[str], n_jobs: int | None = None) -> Scorer | None:
    """The same, or None where the file holds a model of another kind."""
    document, tensors, about = files.read_parts(path)
    name = about.get("model")
    with files.damage(path):
        origin = files.checked_origin(about)
        if name == "Classifier":  # what a model of texts does not need is not imported, and the other way round
            from deciban.scorer.table import TableScorer
            from deciban.tables import files as table_files

            return calibrated(TableScorer(table_files.rebuild(document, tensors), name, origin, n_jobs), about)
        if name in ("TextClassifier", "SpamFilter"):
            from deciban.scorer.text import MailScorer, TextScorer
            from deciban.text import files as text_files

            model, said = text_files.rebuild(document, tensors), about["parameters"]
            if name == "TextClassifier":
                return calibrated(TextScorer(model, name, origin, n_jobs, bool(said["lowercase"])), about)
            return calibrated(MailScorer.of(model, origin, n_jobs, said), about)
    return None


def calibrated(scorer: Scorer, about: dict[str, Any]) -> Scorer:
    """The scorer with the scores of learned rows, where `calibrate` stored them."""
    if "sets" not in about:
        return scorer
    from deciban.corollaries.conformal import Strangeness

    return replace(scorer, calibration_=Strangeness.from_dict(about["sets"], len(scorer.classes_)))
