"""What a model of a table chose and why: its columns as it reads them, and the candidates' leave-one-out loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from deciban.errors import SchemaError
from deciban.results.importance import Importance
from deciban.results.renamed import renamed
from deciban.show import FOR, WIDTH, Result, Table, axes, bars, plain

CANDIDATES = ("candidate", "setting", "log loss", "weight", "chosen")
MAX_CLASSES_NAMED = 8  # in the heading
MAX_BARS = 30  # of a picture
MAX_NAME_CHARACTERS = 44  # of a bar's name, to leave room for the bar


def candidates_table(rows: Iterable[tuple[str, str, float | None, float | None, bool]], title: str = "") -> Table:
    """A table of candidates: name, setting, leave-one-out log loss and weight (None if it has none), chosen or not."""
    return Table(title or "candidates, by leave-one-out log loss in nats", CANDIDATES, [tuple(row) for row in rows])


class Decisive(NamedTuple):
    """A column that almost decides alone, which may be because its value is only known after the outcome."""

    column: str
    share: float  # of the log loss of the class frequencies that the column alone takes away


def decisive_sentence(one: Decisive, remedy: str = "train without it") -> str:
    """The question to ask of such a column."""
    return (
        f"column {one.column!r} almost decides alone: it takes away {math.floor(100 * one.share)} % of the uncertainty "
        f"about the class. Is its value known before the outcome is? If not, {remedy}."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Summary(Result):
    """What a model chose and why: how it reads each column, and the candidates, evaluated by exact leave-one-out.

    `columns` is a table of any columns, one of which may give the reason; `candidates` is one of `candidates_table`.
    `loss` and `accuracy` are the whole model's, log loss in nats, as expected on new rows; `how` names the method, and
    `evaluated_rows` is the number of rows that they are of. `baseline` and `baseline_accuracy` are those of the class
    frequencies alone. `decisive` are the columns that almost decide alone.

    >>> columns = Table("columns", ("column", "kind", "why"), [("age", "number", "74 distinct values in 1000 rows")])
    >>> tried = candidates_table([("columns", "gaussian", 0.41, 1.0, True), ("columns", "bins", 0.47, None, False)])
    >>> Summary("Classifier", 1000, ("no", "yes"), columns, tried, 0.41, 0.82, ("1 row is a duplicate",), 0.56)
    Classifier: 1,000 rows, 2 classes (no, yes). By leave-one-out: log loss 0.41
    nats (class frequencies alone: 0.56), accuracy 0.82.
    <BLANKLINE>
    columns
    column  kind    why
    age     number  74 distinct values in 1000 rows
    <BLANKLINE>
    candidates, by leave-one-out log loss in nats
    candidate  setting   log loss  weight  chosen
    columns    gaussian      0.41       1  yes
    columns    bins          0.47
    <BLANKLINE>
    1 row is a duplicate
    """

    title: str
    rows: int
    classes: tuple[Any, ...]
    columns: Table
    candidates: Table
    loss: float
    accuracy: float
    notes: tuple[str, ...] = ()
    baseline: float | None = None
    how: str = "leave-one-out"  # the method by which the whole model was evaluated
    importance: Importance | None = None
    baseline_accuracy: float | None = None
    evaluated_rows: int | None = None
    decisive: tuple[Decisive, ...] = ()
    legend: str = ""  # what the settings of candidates mean

    def __post_init__(self) -> None:
        missing = [name for name in ("candidate", "log loss", "chosen") if name not in self.candidates.columns]
        if missing:
            raise SchemaError(
                "a table of candidates needs a column {column!r}: candidates_table makes one", column=missing[0]
            )

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "rows": self.rows,
            "classes": [plain(label) for label in self.classes],
            "columns": self.columns.to_dict(),
            "candidates": self.candidates.to_dict(),
            "loss": self.loss if self.evaluated else None,
            "accuracy": self.accuracy if self.evaluated else None,
            "baseline": self.baseline,
            "baseline_accuracy": self.baseline_accuracy,
            "evaluated_rows": self.evaluated_rows,
            "decisive": [column._asdict() for column in self.decisive],
            "how": self.how,
            "notes": list(self.notes),
            "importance": None if self.importance is None else self.importance.to_dict(),
        }

    @property
    def evaluated(self) -> bool:
        """Whether any row could be evaluated; none can if no class has two rows."""
        return math.isfinite(self.loss)

    judged = renamed("judged", "evaluated")

    def to_frame(self) -> Any:
        """A pandas data frame of the candidates (an optional dependency)."""
        return self.candidates.to_frame()

    def to_table(self) -> Table:
        """The candidates as they are shown. One of weight 0 is the best of its kind, but the others do without it."""
        columns = self.candidates.columns
        chosen, weight = columns.index("chosen"), columns.index("weight") if "weight" in columns else None
        rows = []
        for row in self.candidates.rows:
            used = "" if not row[chosen] else "not needed" if weight is not None and row[weight] == 0 else "yes"
            rows.append((*row[:chosen], used, *row[chosen + 1 :]))
        return replace(self.candidates, rows=rows, width=WIDTH)

    def _parts(self) -> list[Table | str]:
        tables = [table for table in (replace(self.columns, width=WIDTH), self.to_table()) if table.rows]
        first = [] if self.importance is None else self.importance.brief()
        legend = [self.legend] if self.legend and self.candidates.rows else []
        return [self._heading(), *map(decisive_sentence, self.decisive), *first, *tables, *legend, *self.notes]

    def _heading(self) -> str:
        labels = [str(plain(label)) for label in self.classes]
        named = ", ".join(labels[:MAX_CLASSES_NAMED]) + (", …" if len(labels) > MAX_CLASSES_NAMED else "")
        loss, accuracy = (
            "" if alone is None else f" ({what}{alone:.4g})"
            for what, alone in (("class frequencies alone: ", self.baseline), ("", self.baseline_accuracy))
        )
        of_rows = f" of {self.evaluated_rows:,} rows" if self.evaluated_rows not in (None, self.rows) else ""
        subject = (
            f"{self.title}: {self.rows:,} row{'s' * (self.rows != 1)}, {len(labels)} class{'es' * (len(labels) != 1)}"
        )
        if not self.evaluated:
            why = "there is only one class" if len(labels) == 1 else "too few classes have two rows"
            return f"{subject} ({named}). It cannot be evaluated: {why}."
        return (
            f"{subject} ({named}). By {self.how}{of_rows}: log loss {self.loss:.4g} nats{loss}, accuracy "
            f"{self.accuracy:.4g}{accuracy}."
        )

    def plot(self, ax: Any = None) -> Any:
        """Bars of the candidates' leave-one-out log loss, with matplotlib (an optional dependency); returns the axes.

        Those that were chosen are blue. A dashed line is the whole model, a dotted one the class frequencies alone. Of
        many candidates the best are shown.
        """
        candidates = self.candidates.to_dict()
        settings = candidates.get("setting", [""] * len(candidates["candidate"]))
        names = [
            f"{name} {setting or ''}".rstrip() for name, setting in zip(candidates["candidate"], settings, strict=True)
        ]
        names = [name if len(name) <= MAX_NAME_CHARACTERS else name[: MAX_NAME_CHARACTERS - 1] + "…" for name in names]
        losses = [math.nan if loss is None else float(loss) for loss in candidates["log loss"]]
        judged = sorted((i for i, loss in enumerate(losses) if not math.isnan(loss)), key=lambda i: losses[i])
        shown = sorted(judged[:MAX_BARS])  # in the table's order
        ax = axes(ax, len(shown))
        bars(
            ax,
            [names[i] for i in shown],
            [losses[i] for i in shown],
            [FOR if candidates["chosen"][i] else "lightgrey" for i in shown],
        )
        for what, loss, style in (("the model", self.loss, "--"), ("class frequencies alone", self.baseline, ":")):
            if loss is not None and math.isfinite(loss):
                ax.axvline(loss, color="black", linestyle=style, linewidth=1, label=what)
        ax.tick_params(axis="y", labelsize="small")
        ax.set_xlabel("leave-one-out log loss (nats); blue: chosen")
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)  # clear of the bars
        return ax
