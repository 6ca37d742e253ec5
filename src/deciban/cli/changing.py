"""`deciban learn`, `forget` and `merge`: change what a model knows. The file is the old one or the new one, whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deciban.cli import options
from deciban.cli.data import Reading
from deciban.cli.models import digests_of, origin_of, rows_for
from deciban.cli.terminal import note, say, several, show_json
from deciban.cli.training import called, output_path
from deciban.errors import DecibanError
from deciban.show import bar, plain


def learn(
    model: options.Model,
    data: options.Data,
    target: options.Target = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Another file, instead of MODEL itself.")] = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Learn more rows: the model is then what it would be had it seen them from the start.

    MODEL is replaced when all rows are learned, and not before. What was chosen by `train` (laws, bins, weights) is
    kept: train again when the data have changed much.

    \b
    Examples:
      deciban learn churn.deciban november.csv
      deciban learn filter.deciban spam=NewJunk.mbox
    """
    change(model, data, target, output, Reading(format, delimiter, encoding, missing), json, forget=False)


def forget(
    model: options.Model,
    data: options.Data,
    target: options.Target = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Another file, instead of MODEL itself.")] = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    missing: options.Missing = None,
    json: options.Json = False,
) -> None:
    """Unlearn rows: the model's sums are then those of a model that never saw them.

    Rows that were never learned are an error where the sums can tell, and MODEL stays as it is.

    \b
    Examples:
      deciban forget churn.deciban customer_4711.csv
      deciban forget filter.deciban ham=mistaken.eml
    """
    change(model, data, target, output, Reading(format, delimiter, encoding, missing), json, forget=True)


def change(
    path: str, data: list[str], target: str | None, output: str | None, reading: Reading, json: bool, forget: bool
) -> None:
    from deciban.estimators.load import load
    from deciban.storage.files import exclusively

    place = path if output is None else output_path(output, data)
    with exclusively(path):  # so that of two that change it at once, neither is lost
        estimator = load(path)
        before, known = float(estimator.class_count_.sum()), {plain(label) for label in estimator.classes_}
        rows = rows_for(estimator, data, reading, target)
        with bar("forgetting" if forget else "learning", rows.source.size) as watch, rows.numbered():
            for X, y in rows.batches(watch):
                if forget:
                    estimator.forget(X, y)
                else:
                    estimator.partial_fit(X, y)
        after = float(estimator.class_count_.sum())
        if before == after:
            raise DecibanError(
                f"{rows.source.name} has no rows with a label in column {rows.target!r}: nothing changed"
            )
        estimator.origin_ = changed_origin(origin_of(estimator), digests_of(rows), called(rows.source.name), forget)
        estimator.save(place)
    if rows.unlabelled:
        note("note", f"{several(rows.unlabelled, 'row')} without a label were left out")
    for label in estimator.classes_:
        if plain(label) not in known:
            note("note", f"class {plain(label)!r} is new to the model")
    changed = abs(after - before)
    if json:
        show_json({"file": place, "rows": changed, "before": before, "after": after})
    else:
        what = "Forgot" if forget else "Learned"
        say(f"{what} {several(changed, 'row')}; {place} has learned {several(after, 'row')}.")


def changed_origin(origin: dict[str, Any], digests: list[str], name: str, forget: bool) -> dict[str, Any]:
    """What is known of where rows came from, after some more came or went."""
    learned, names = list(origin.get("learned", [])), list(origin.get("names", []))
    if not forget:
        return {**origin, "learned": [*learned, *digests], "names": [*names, name][-100:]}
    if digests and set(digests) <= set(learned):
        for digest in digests:
            learned.remove(digest)
        return {**origin, "learned": learned, "names": [known for known in names if known != name]}
    # Of which file the rows were is not known: none is as it was learned.
    return {**origin, "learned": [], "partly": [*origin.get("partly", []), *learned]}


def merge(
    models: Annotated[list[str], typer.Argument(help="Two model files or more.", metavar="MODEL")],
    output: Annotated[str, typer.Option("--output", "-o", help="The file of the sum.")],
    json: options.Json = False,
) -> None:
    """Add up models that learned apart: the sum is the model that learned everything.

    Models of tables that made their own choices do not add up; train the second like the first.

    \b
    Examples:
      deciban merge monday.deciban tuesday.deciban -o week.deciban
      deciban train b.csv --target y --like a.deciban -o b.deciban
      deciban merge a.deciban b.deciban -o both.deciban
    """
    from deciban.errors import SchemaError
    from deciban.estimators.load import load

    if len(models) < 2:
        raise DecibanError("give two model files or more: one is the sum already")
    place = output_path(output, [])
    found = [load(path) for path in models]
    total = found[0]
    for path, estimator in zip(models[1:], found[1:], strict=True):
        if type(estimator) is not type(total):
            raise DecibanError(
                f"{models[0]!r} is a {type(total).__name__} and {path!r} a {type(estimator).__name__}: "
                "they do not add up"
            )
        try:
            total = total + estimator
        except SchemaError as error:
            if "chose differently" not in str(error):
                raise
            raise DecibanError(
                f"{models[0]!r} and {path!r} made choices of their own, and do not add up: train the second with "
                f"--like {models[0]}"
            ) from None
    origins = [origin_of(estimator) for estimator in found]
    total.origin_ = {
        **origins[0],
        **{key: [one for origin in origins for one in origin.get(key, [])] for key in ("learned", "partly")},
        "names": [name for origin in origins for name in origin.get("names", [])][-100:],
    }
    total.save(place)
    rows = float(total.class_count_.sum())
    if json:
        show_json({"file": place, "rows": rows, "models": len(found)})
    else:
        say(f"Wrote {place}: {several(len(found), 'model')}, {several(rows, 'row')}.")
