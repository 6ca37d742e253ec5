"""`deciban merge`: add up models that were trained separately."""

from __future__ import annotations

from typing import Annotated

import typer

from deciban.cli import options
from deciban.cli.models import origin_of, rows_learned
from deciban.cli.output_files import MAX_NAMES_STORED, checked_output
from deciban.cli.terminal import pluralize, print_line, show_json
from deciban.errors import ChoiceError, DecibanError


def merge(
    models: Annotated[list[str], typer.Argument(help="Two or more model files.", metavar="MODEL...")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Model file to write.")],
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Add up models that were trained separately: the sum is the model that learned all of their rows.

    Models of tables can be added only if they made the same choices: train the second with --like the first.

    \b
    Examples:
      deciban merge monday.deciban tuesday.deciban -o week.deciban
      deciban train b.csv --target y --like a.deciban -o b.deciban
      deciban merge a.deciban b.deciban -o both.deciban
    """
    from deciban.estimators.load import load

    if len(models) < 2:
        raise DecibanError("give two or more model files")
    written = checked_output(output, force, "model.deciban")
    loaded = [load(path) for path in models]
    total = loaded[0]
    for path, estimator in zip(models[1:], loaded[1:], strict=True):
        if type(estimator) is not type(total):
            raise DecibanError(
                "{file!r} is a {kind} and {other!r} a {other_kind}: only models of the same kind can be merged",
                file=models[0],
                kind=type(total).__name__,
                other=path,
                other_kind=type(estimator).__name__,
            )
        try:
            total = total + estimator
        except ChoiceError:
            raise DecibanError(
                "{file!r} and {other!r} made choices of their own, and do not add up: train the second with --like "
                "{file}",
                file=models[0],
                other=path,
            ) from None
    origins = [origin_of(estimator) for estimator in loaded]
    total.origin_ = {
        **origins[0],
        **{key: [one for origin in origins for one in origin.get(key, [])] for key in ("learned", "partly")},
        "names": [name for origin in origins for name in origin.get("names", [])][-MAX_NAMES_STORED:],
    }
    written.check_free()
    total.save(output)
    rows = rows_learned(total)
    if json:
        show_json({"file": output, "rows": rows, "models": len(loaded)})
    else:
        print_line(f"Wrote {output}: {pluralize(len(loaded), 'model')}, {pluralize(rows, 'row')}.")
