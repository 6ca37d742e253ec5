"""A model as it is served: an immutable value. Learning makes a new one, which replaces it as a whole.

New examples are summed separately (`sums_of`), and then added or subtracted. So sums can be kept in the store and sent
to other servers, and after a crash a model is a snapshot plus the sums since.
"""

from __future__ import annotations

import copy
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deciban._typing import Floats
from deciban.errors import LocatedError, NotAvailableError
from deciban.scorer import Scorer, read
from deciban.server.problems import RequestError
from deciban.show import plain
from deciban.text.graded import Graded

MIN_P = 1e-15  # so that one confident mistake leaves the log loss finite, as scikit-learn does

TEXT_MODELS = ("TextClassifier", "SpamFilter")
TABLE_FORMS = ("any", "table", "tree")  # readers of whole tables, which read a dict of columns
COMPRESSION = 1  # sums are mostly zeros: higher levels gain little
NO_EXACT_SUMS = ("GaussianMixture", "MixtureDiscriminant")
MAX_EVIDENCE_ITEMS = 1000

Content = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A prediction: a label, and the probability of every class."""

    label: Any
    probabilities: Floats
    classes: list[Any]

    @property
    def probability(self) -> float:
        """The probability of the label; if that is not a class ("unsure"), of the most probable class."""
        if self.label in self.classes:
            return float(self.probabilities[self.classes.index(self.label)])
        return float(self.probabilities.max())

    def probability_of(self, label: Any) -> float:
        """At least MIN_P; 0 if the model does not know the label."""
        return max(MIN_P, float(self.probabilities[self.classes.index(label)])) if label in self.classes else 0.0

    @property
    def likeliest(self) -> Any:
        return self.classes[int(np.argmax(self.probabilities))]

    @property
    def margin(self) -> float:
        """The probability of the most probable class minus that of the second: 0 if they are equal."""
        if len(self.probabilities) < 2:
            return 1.0
        least, most = np.sort(self.probabilities)[-2:]
        return float(most - least)


class ModelBytes(io.BytesIO):
    """A model file in memory, with a name for messages."""

    def __init__(self, data: bytes, name: str | None) -> None:
        super().__init__(data)
        self.name = name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServedModel:
    """A model that predicts and learns; `seq` is the last log line that it contains."""

    estimator: Any
    scorer: Scorer
    seq: int = 0

    @classmethod
    def of_bytes(cls, data: bytes, seq: int = 0, name: str | None = None) -> ServedModel:
        """A model from the bytes of its file, with the same checks as for files; errors have the file's name."""
        from deciban.estimators.load import load

        estimator = load(ModelBytes(data, name))
        scorer = replace(read(ModelBytes(data, name), n_jobs=1), model=estimator.model_)
        return cls(estimator, scorer, seq)

    def to_bytes(self) -> bytes:
        return file_of(self.estimator)

    # ------------------------------------------------------------------ properties

    @property
    def kind(self) -> str:
        return self.scorer.name

    @property
    def classes(self) -> list[Any]:
        return [plain(label) for label in self.scorer.classes_]

    @property
    def counts(self) -> list[float]:
        """The weight learned of each class."""
        return [float(weight) for weight in self.scorer.class_count_]

    @property
    def takes(self) -> str:
        """What it reads: "texts", "mail" or "rows"."""
        return "mail" if self.kind == "SpamFilter" else "texts" if self.kind in TEXT_MODELS else "rows"

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns that a model of rows uses, with their kinds if these are known."""
        if self.kind == "Classifier":
            return {kind.name: kind.kind for kind in self.scorer.model.reader.used}
        return dict.fromkeys(self._names)

    @property
    def categories(self) -> dict[str, list[Any]]:
        """The values of categorical columns, for forms."""
        if self.kind != "Classifier":
            return {}
        encoding = self.scorer.model.encoding
        pairs = zip(encoding.names, encoding.columns, strict=True)
        known = {name: getattr(column, "levels", None) for name, column in pairs if name in self.columns}
        return {name: [plain(level) for level in levels] for name, levels in known.items() if levels}

    @property
    def why_not_learning(self) -> str:
        """Why it only predicts; empty if it learns."""
        if self.kind in NO_EXACT_SUMS:
            return f"a {self.kind} divides every row among components, so it is not a sum of examples"
        return str(getattr(self.estimator.model_, "frozen", "") or "")

    @property
    def dropped(self) -> int | None:
        """How many words, pairs and so on a model of texts has dropped, since there were too many."""
        return int(self.scorer.model.limit.dropped) if self.kind in TEXT_MODELS else None

    @property
    def _names(self) -> tuple[str, ...]:
        if self.kind == "Classifier":
            return tuple(kind.name for kind in self.scorer.model.reader.kinds)
        return self.scorer.names or tuple(f"x{j}" for j in range(self.scorer.features or 0))

    def describe(self) -> dict[str, Any]:
        origin = self.scorer.origin_ or {}
        return {
            "kind": self.kind,
            "takes": self.takes,
            "classes": self.classes,
            "counts": self.counts,
            "answers": ["ham", "unsure", "spam"] if self.kind == "SpamFilter" else self.classes,
            "columns": [
                {"name": name, "kind": kind, "values": self.categories.get(name)} for name, kind in self.columns.items()
            ]
            if self.takes == "rows"
            else None,
            "target": origin.get("target"),
            "learns": not self.why_not_learning,
            "why_not": self.why_not_learning or None,
            "dropped": self.dropped,
        }

    # ------------------------------------------------------------------ reading

    def batches(self, contents: Sequence[Content]) -> list[tuple[list[int], Any]]:
        """Examples converted to what the model reads, and their places.

        A column is read as a whole, so the meaning of a value may depend on the others. Only rows with the same types
        of values are read together, so that each is read as if it were alone.
        """
        if self.takes != "rows":
            return [(list(range(len(contents))), [self._text(content, i) for i, content in enumerate(contents)])]
        rows = [self._row(content, i) for i, content in enumerate(contents)]
        groups: dict[tuple[type, ...], list[int]] = {}
        for i, row in enumerate(rows):
            groups.setdefault(tuple(type(value) for value in row), []).append(i)
        return [(places, self._table([rows[i] for i in places])) for places in groups.values()]

    def _text(self, content: Content, row: int) -> str:
        if "row" in content:
            raise RequestError(
                'example {row} is a row, but the model reads texts: send {"text": …}', row=row, code="kind"
            )
        if "text" in content or self.takes == "mail":
            return str(content.get("text", content.get("message")))
        from deciban.text import mail

        return mail.read(content["message"]).text

    def _row(self, content: Content, row: int) -> list[Any]:
        """The values of a row in the order of the columns; None if one is missing."""
        names = self._names
        given = content.get("row")
        if given is None:
            texts = [name for name, kind in self.columns.items() if kind == "text"]
            if len(texts) != 1 or "text" not in content:
                raise RequestError('example {row} must be a row, {"row": {"column": value, …}}', row=row, code="kind")
            given = {texts[0]: content["text"]}
        if isinstance(given, list):
            if len(given) != len(names):
                raise RequestError(
                    "example {row} has {value} values, but the model has {columns} columns",
                    row=row,
                    value=len(given),
                    columns=len(names),
                )
            return self._checked(given, row)
        unknown = [name for name in given if name not in names]
        if unknown:
            from deciban.reading.frames import unknown_column

            raise RequestError(
                "example {row}: {problem}", row=row, column=unknown[0], problem=unknown_column(unknown[0], list(names))
            )
        return self._checked([given.get(name) for name in names], row)

    def _checked(self, values: list[Any], row: int) -> list[Any]:
        """The values, which must be numbers if the model reads a matrix."""
        if self.scorer.reader.form == "matrix":
            for name, value in zip(self._names, values, strict=True):
                if isinstance(value, str):
                    raise RequestError(
                        "column {column!r} of example {row} must be a number, but is {value!r}",
                        row=row,
                        column=name,
                        value=value,
                    )
        return values

    def _table(self, rows: list[list[Any]]) -> Any:
        if self.scorer.reader.form in TABLE_FORMS:
            columns = zip(*rows, strict=True)
            return {name: list(values) for name, values in zip(self._names, columns, strict=True)}
        if self.scorer.reader.form == "matrix":
            matrix = np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64)
        else:
            matrix = np.empty((len(rows), len(self._names)), dtype=object)
            matrix[:] = rows
        if self.scorer.names is None:
            return matrix
        import pyarrow as pa

        return pa.table({name: pa.array(matrix[:, j].tolist()) for j, name in enumerate(self._names)})

    def class_of(self, name: str, label: Any) -> Any:
        """The class that an option of a request names."""
        known = self._known_class(label)
        if known is None:
            raise self._unknown_class(
                '"{name}" is {value!r}, which is not one of the classes: {classes}', label, name=name
            )
        return known

    def _known_class(self, label: Any) -> Any:
        """The class with this label, in the model's type: "3" is the class 3 if there is one. None: there is none."""
        classes = self.classes
        for known in classes:
            if known == label and isinstance(known, bool) == isinstance(label, bool):
                return known
        for known in classes:
            if str(known) == str(label) or (isinstance(known, bool) and str(known).lower() == str(label).lower()):
                return known
        return None

    def _unknown_class(self, message: str, label: Any, **fields: Any) -> RequestError:
        shown = ", ".join(map(str, self.classes[:20])) + (", …" if len(self.classes) > 20 else "")
        return RequestError(message, value=label, classes=shown, code="unknown_class", **fields)

    def label_of(self, label: Any, new_class: bool, row: int = 0) -> Any:
        """A label in the model's type. Unknown labels are refused, unless new."""
        known, classes = self._known_class(label), self.classes
        if known is not None:
            return known
        if not new_class:
            raise self._unknown_class(
                '{value!r} of example {row} is not one of the classes: {classes}. Send "new_class": true to add it',
                label,
                row=row,
            )
        if classes and isinstance(classes[0], str) != isinstance(label, str):
            raise RequestError(
                "{value!r} of example {row} has another type than the classes, such as {known!r}",
                row=row,
                value=label,
                known=classes[0],
                code="unknown_class",
            )
        return label

    # ------------------------------------------------------------------ prediction

    def answers(self, contents: Sequence[Content]) -> list[Answer]:
        """The answers to examples."""
        out: list[Any] = [None] * len(contents)
        classes = self.classes
        for places, X in self.batches(contents):
            with in_places(places):
                proba = self.scorer.predict_proba(X)
                near = self.kind == "NearestCentroid"
                labels = self.scorer.predict(X) if near else self.scorer.answers(proba)
            for place, label, p in zip(places, labels.tolist(), proba, strict=True):
                out[place] = Answer(label, p, classes)
        return out

    def explain(self, content: Content, target: Any = None, against: Any = None, by: str = "column") -> dict[str, Any]:
        """The evidence of one example."""
        ((_, X),) = self.batches([content])
        return self.scorer.explain(X, target, against, by).to_dict()  # type: ignore[union-attr]  # of one row

    def log_densities(self, contents: Sequence[Content]) -> list[float | None]:
        """log p(x) of examples; None if the model has no density."""
        out: list[float | None] = [None] * len(contents)
        try:
            for places, X in self.batches(contents):
                values = self.scorer.model.log_density(self.scorer._rows(X))
                for place, value in zip(places, values.tolist(), strict=True):
                    out[place] = value if np.isfinite(value) else None
        except NotAvailableError:
            return out
        return out

    def evidence(self, most: int) -> dict[str, list[Any]]:
        """The strongest evidence for each class."""
        return self.scorer.top_evidence(min(most, MAX_EVIDENCE_ITEMS)).to_dict()

    @property
    def importance(self) -> dict[str, Any] | None:
        """What decides, as computed when the model was trained; None if it is not stored."""
        stored = getattr(self.scorer.model, "stored_importance", None)
        return None if stored is None else stored.to_dict()

    # ------------------------------------------------------------------ learning

    def sums_of(self, contents: Sequence[Content], labels: Sequence[Any]) -> Any:
        """The sums of only these examples, under the same choices; an error for one that the model cannot learn."""
        total = self.estimator.empty()
        for places, X in self.batches(contents):
            with in_places(places):
                part = copy.copy(total) if len(places) == len(contents) else self.estimator.empty()
                part.partial_fit(X, [labels[i] for i in places])
                if part.n_incomplete_:
                    raise RequestError(
                        "an example has missing values in columns that the model relates to each other, so it cannot "
                        "be added exactly: fill them in",
                        code="incomplete",
                    )
                total = part if len(places) == len(contents) else total + part
        return total

    def plus(self, sums: Any) -> ServedModel:
        return self._with(self.estimator + sums)

    def minus(self, sums: Any) -> ServedModel:
        return self._with(self.estimator - sums)

    def at(self, seq: int) -> ServedModel:
        return replace(self, seq=seq)

    def _with(self, estimator: Any) -> ServedModel:
        estimator.origin_ = self.estimator.origin_
        return replace(
            self, estimator=estimator, scorer=replace(self.scorer, model=estimator.model_, calibration_=None)
        )

    def warm(self, content: Content | None, before: ServedModel) -> None:
        """Compute what predictions need now, so that no request waits for it, as the model before had it."""
        if content is not None and self.classes:
            self.answers([content])
        model, old = self.scorer.model, before.scorer.model
        if isinstance(model, Graded) and isinstance(old, Graded):
            model.prepare_like(old, 1)


def file_of(estimator: Any) -> bytes:
    file = io.BytesIO()
    estimator.save(file)
    return file.getvalue()


def packed(sums: Any) -> bytes:
    """Sums as bytes, for the store."""
    part = copy.copy(sums)
    part.model_ = sums.model_.as_part()
    return zlib.compress(file_of(part), COMPRESSION)


def unpacked(data: bytes) -> Any:
    from deciban.estimators.load import load

    return load(io.BytesIO(zlib.decompress(data)))


@contextmanager
def in_places(places: list[int]) -> Iterator[None]:
    """Errors inside name examples by their place in the request."""
    try:
        yield
    except LocatedError as error:
        raise error.located(numbers=places) from error
