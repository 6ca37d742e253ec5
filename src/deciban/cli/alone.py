"""One mail in a process of its own: what `deciban-filter --model FILE` starts. It starts for every mail, and so imports
little, and only what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

DONE, FAULT = 0, 3
ACTIONS = ("--learn", "--correct", "--forget")


def main(arguments: Sequence[str]) -> int:
    """Read a mail, and write the header fields that a filter adds; after a fault, one line with its reason."""
    try:
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        raw = sys.stdin.buffer.read()
        action = next((one for one in ACTIONS if one in given), None)
        if action is None:
            answer = header(given["--alone"], raw, int(given.get("--evidence", "5")))
        else:
            change(given["--alone"], raw, action, given[action])
            answer = ""
    except Exception as error:  # whatever it is, the mail passes, with the reason in its header
        answer, code = str(error) or type(error).__name__, FAULT
    else:
        code = DONE
    sys.stdout.write(answer)
    sys.stdout.flush()
    return code


def header(model: str, raw: bytes, most: int) -> str:
    """The header fields of a mail, by a model file: by its index if there is one, else by the model itself."""
    from deciban.text.filter_index import FilterIndex, stamp, write

    name = os.path.basename(model).removesuffix(".deciban")
    if (index := FilterIndex.open(model)) is not None:
        try:
            return index.verdict(raw, name, most).header()
        except ValueError:  # it is damaged, and is made again
            index.close()
    from deciban.scorer import read

    made_of = stamp(model)
    scorer = read(model, n_jobs=1)
    reader: Any = scorer.reader
    if scorer.costs is not None:  # of a SpamFilter
        X = [raw]
        write(model, scorer.model, scorer.costs, reader.headers, made_of)
    elif reader.form == "texts":
        from deciban.text import mail

        X = [mail.read(raw).text.encode()]
    else:
        raise wrong_kind(model, scorer.name, "mails or texts")
    return scorer.verdict(X, scorer.predict_proba(X), name, most=most).header()


def change(model: str, raw: bytes, action: str, label: str) -> None:
    """Learn, correct or forget a mail in a model file, which is replaced as a whole."""
    from deciban.cli.models import origin_of
    from deciban.cli.update import changed_origin, save
    from deciban.estimators.load import load
    from deciban.storage.files import exclusively
    from deciban.text.filter_index import stamp, write

    with exclusively(model):
        estimator = load(model)
        if type(estimator).__name__ != "SpamFilter":
            raise wrong_kind(model, type(estimator).__name__, "mails")
        if action == "--learn":
            estimator.partial_fit([raw], [label])
        else:
            estimator.origin_ = changed_origin(origin_of(estimator), [], [], forget=True)
            estimator.correct([raw], label) if action == "--correct" else estimator.forget([raw], [label])
        save(estimator, model)
        costs = (estimator.false_negative, estimator.unsure, estimator.false_positive)
        fields = None if estimator.headers is None else tuple(estimator.headers)
        write(model, estimator.model_, costs, fields, stamp(model))


def wrong_kind(model: str, kind: str, needed: str) -> Exception:
    from deciban.errors import DecibanError

    return DecibanError("{file!r} is a {kind}: give a model of {needed}", file=model, kind=kind, needed=needed)
