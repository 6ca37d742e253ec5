"""`deciban show`: print what a model has learned."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.models import TEXT_MODELS, kind_of, open_model, origin_of
from deciban.cli.terminal import format_bytes, int_if_whole, pluralize, print_line, show_json
from deciban.cli.terminal import show as show_result
from deciban.results.importance import Importance
from deciban.results.summary import decisive_sentence
from deciban.show import Table, plain, signed

MAX_NAMES_SHOWN = 5  # of the data that a model was trained on


def show(
    model: options.Model,
    evidence: Annotated[
        int, typer.Option(metavar="NUMBER", help="Number of items of evidence for each class.", min=0)
    ] = 5,
    json: options.Json = False,
) -> None:
    """Describe a model: its classes, columns and distributions, the strongest evidence, and how it was chosen.

    \b
    Examples:
      deciban show churn.deciban
      deciban show spam.deciban --evidence 20
    """
    loaded = open_model(model)
    several = len(loaded.classes_) > 1
    strongest = loaded.top_evidence(evidence) if several else Table("", ("class", "item", "dB"), [])
    summary = loaded.summary() if kind_of(loaded) == "Classifier" else None
    importance = stored_importance_of(loaded)
    counts = [(plain(label), int_if_whole(n)) for label, n in zip(loaded.classes_, loaded.class_count_, strict=True)]
    origin, privacy = origin_of(loaded), getattr(learner_of(loaded), "privacy", None)
    if json:
        show_json(
            {
                "file": model,
                "model": kind_of(loaded),
                "bytes": os.path.getsize(model),
                "classes": {str(label): n for label, n in counts},
                "known": known_items(loaded),
                "dropped": dropped_items(loaded),
                "origin": {key: value for key, value in origin.items() if key not in ("learned", "forms")},
                "importance": None if importance is None else importance.to_dict(),
                "evidence": strongest.to_dict(),
                "summary": None if summary is None else summary.to_dict(),
                "privacy": None if privacy is None else privacy.to_dict(),
            }
        )
        return
    size = format_bytes(os.path.getsize(model))
    total = sum(n for _, n in counts)
    print_line(f"{model}: {kind_of(loaded)}, {pluralize(total, 'row')}, {size}")
    if origin.get("names"):
        print_line(origin_in_words(origin))
    if known := known_items(loaded):
        print_line(f"knows: {', '.join(pluralize(n, items.removesuffix('s')) for items, n in known.items())}")
    if dropped := dropped_items(loaded):
        print_line(f"dropped by max_features: {pluralize(dropped, 'item')}")
    if importance is not None:
        for part in importance.brief():
            print_line()
            print_line(part) if isinstance(part, str) else show_result(part)
        for column in summary.decisive if summary is not None else ():
            print_line()
            print_line(decisive_sentence(column))
    elif several and summary is None:
        print_line("Importance is not stored with this model: in Python, importance(X, y) computes it.")
    print_line()
    rows = [(label, n, f"{100 * n / total:.1f} %" if total else "") for label, n in counts]
    show_result(Table("classes", ("class", "rows", "share"), rows, right=("share",)))
    if summary is not None:
        print_line()
        show_result(replace(summary, importance=None, decisive=() if importance is not None else summary.decisive))
    elif hasattr(loaded, "blocks_"):
        print_line()
        show_result(loaded.blocks_)
    if privacy is not None:
        print_line()
        show_result(privacy)
    if not several:
        print_line()
        print_line(
            "There is only one class, so there is no evidence for it against another."
            if counts
            else "The model has no classes: everything it had learned was forgotten."
        )
    elif evidence:
        print_line()
        shown = [(*row[:-1], signed(row[-1])) for row in strongest.rows]
        show_result(replace(strongest, rows=shown, right=("dB",)))


def origin_in_words(origin: dict[str, Any]) -> str:
    """The columns and the data that a model was trained on; texts and mail have no columns."""
    names = ", ".join(map(str, origin["names"][:MAX_NAMES_SHOWN])) + ", …" * (len(origin["names"]) > MAX_NAMES_SHOWN)
    if origin.get("kind", "table") != "table":
        return f"data: {names}"
    text = f"; text: column {origin['text']!r}" if origin.get("text") else ""
    return f"target: column {origin.get('target')!r}{text}; data: {names}"


def known_items(loaded: Any) -> dict[str, int]:
    """How many words, pairs and so on a model of texts knows; none for other models."""
    if kind_of(loaded) not in TEXT_MODELS:
        return {}
    sums = getattr(loaded.model, "sums", None)
    return {"words": len(loaded.model.words)} if sums is None else {b: sums.store.size(b) for b in sums.blocks}


def dropped_items(loaded: Any) -> int:
    """How many words, pairs and so on a model of texts has dropped; other models keep all they know."""
    limit = getattr(loaded.model, "limit", None)
    return 0 if limit is None else int(limit.dropped)


def stored_importance_of(loaded: Any) -> Importance | None:
    """The importance that is stored with a model, if there is one."""
    stored: Importance | None = learner_of(loaded).stored_importance
    return stored


def learner_of(loaded: Any) -> Any:
    """The model as a value, whether it was loaded to learn or only to score."""
    return getattr(loaded, "model_", None) or loaded.model
