"""Model files for commands: to answer with, quickly, or to go on learning."""

from __future__ import annotations

from typing import Any

from deciban.cli.data import LABEL, TEXT, Reading, Rows
from deciban.cli.terminal import note
from deciban.errors import DecibanError

TEXT_MODELS = ("TextClassifier", "SpamFilter")


def open_model(path: str) -> Any:
    """A model to answer with, without scikit-learn."""
    from deciban import scorer

    return scorer.read(path)


def kind_of(model: Any) -> str:
    """The name of the estimator that a model is, or was saved from."""
    return str(getattr(model, "name", None) or type(model).__name__)


def origin_of(model: Any) -> dict[str, Any]:
    return dict(model.origin_ or {})


def rows_for(model: Any, paths: list[str], reading: Reading, target: str | None = None, labelled: bool = True) -> Rows:
    """What a model takes of data; with labels, from the column that it was trained on unless another is named."""
    source, origin = reading.open(paths), origin_of(model)
    text = None
    if kind_of(model) in TEXT_MODELS:
        text = origin.get("text") or TEXT
        if text not in source.columns and TEXT in source.columns and source.kind != "table":
            text = TEXT
        if text not in source.columns and len(source.columns) == 1:
            text = source.columns[0]
    if not labelled:
        known = target or origin.get("target")
        return Rows(source, known if known in source.columns else None, text, model.classes_)
    target = target or (LABEL if source.kind != "table" else None) or origin.get("target")
    if target is None:
        raise DecibanError(f"name the column of {source.name} that holds the classes, with --target")
    return Rows(source, target, text, model.classes_)


def digests_of(rows: Rows) -> list[str]:
    """What files are known by once they were learned: what is in them, and which column was the label."""
    return [f"{digest} {rows.target}" for digest in rows.source.digests()]


def learned_before(model: Any, rows: Rows) -> bool:
    """Whether the model has learned these very files; of a pipe nobody knows."""
    origin, found = origin_of(model), set(digests_of(rows))
    if found & set(origin.get("partly", [])):
        note(
            "note",
            f"the model has learned {rows.source.name} and forgotten some rows since; all are judged as new, so that "
            "the figures are too good: evaluate other rows, or train again",
        )
    known = found & set(origin.get("learned", []))
    if known and known != found:
        raise DecibanError(
            f"the model has learned {len(known)} of these {len(found)} files, and not the others: give them one by "
            "one, or say --leave-one-out or --as-new"
        )
    return bool(known)
