"""What `learn` and `forget` share: update a model file with rows. The file is replaced as a whole or not at all."""

from __future__ import annotations

from typing import Any

from deciban.cli.engines import FileOptions
from deciban.cli.models import origin_of, rows_for, rows_learned
from deciban.cli.output_files import MAX_NAMES_STORED, OutputFile, checked_output, same_file, without_folders
from deciban.cli.terminal import note, pluralize, print_line, show_json
from deciban.errors import DecibanError, WriteError
from deciban.show import plain


def update(
    path: str,
    data: list[str],
    target: str | None,
    output: str | None,
    force: bool,
    files: FileOptions,
    json: bool,
    forget: bool,
) -> None:
    from deciban.estimators import on_engines
    from deciban.estimators.load import load
    from deciban.storage.files import exclusively

    written = OutputFile(path) if output is None else updated_path(path, output, force, data)
    destination = written.path
    with exclusively(path):  # so that of two concurrent updates neither is lost
        estimator = load(path)
        before, known_classes = rows_learned(estimator), {plain(label) for label in estimator.classes_}
        rows = rows_for(estimator, data, files, target)
        written.check_free()
        change = on_engines.forget if forget else on_engines.learn_more
        change(estimator, rows.engine, rows.target, text=rows.split.text, labelled=True)
        after = rows_learned(estimator)
        changed = abs(after - before)
        if not changed:
            raise DecibanError(
                "{rows} has no rows with a label in column {column!r}, so nothing changed: give labelled rows",
                rows=rows.name,
                column=rows.target,
            )
        names = [without_folders(one) for one in data]
        estimator.origin_ = changed_origin(origin_of(estimator), rows.digests(), names, forget)
        unsafe = save(estimator, destination)
    if unsafe is not None:
        note("note", f"the rows are {'forgotten' if forget else 'learned'}: {unsafe}")
    unlabelled = rows.engine.rows_read - changed
    if unlabelled:
        note("note", f"skipped {pluralize(unlabelled, 'row')} without a label")
    for label in estimator.classes_:
        if plain(label) not in known_classes:
            note("note", f"class {plain(label)!r} is new to the model")
    if json:
        show_json({"file": destination, "rows": changed, "before": before, "after": after})
    else:
        verb = "Forgot" if forget else "Learned"
        print_line(f"{verb} {pluralize(changed, 'row')}; {destination} has learned {pluralize(after, 'row')}.")


def save(estimator: Any, path: str) -> WriteError | None:
    """Write the model; returns the error if it was written, but not safely: the command must not be repeated."""
    try:
        estimator.save(path)
    except WriteError as error:
        if not error.written:
            raise
        return error
    return None


def updated_path(path: str, output: str, force: bool, data: list[str]) -> OutputFile:
    """The path of the changed model. These commands replace MODEL; any other existing file needs --force."""
    return checked_output(output, force, "model.deciban", data, replaceable=lambda existing: same_file(existing, path))


def changed_origin(origin: dict[str, Any], digests: list[str], given: list[str], forget: bool) -> dict[str, Any]:
    """The origin of the model's rows, after learning or forgetting some."""
    learned, names = list(origin.get("learned", [])), list(origin.get("names", []))
    if not forget:
        return {**origin, "learned": [*learned, *digests], "names": [*names, *given][-MAX_NAMES_STORED:]}
    if digests and set(digests) <= set(learned):
        for digest in digests:
            learned.remove(digest)
        for name in given:
            if name in names:
                names.remove(name)
        return {**origin, "learned": learned, "names": names}
    # Which file the rows came from is unknown: none counts as fully learned any longer.
    return {**origin, "learned": [], "partly": [*origin.get("partly", []), *learned]}
