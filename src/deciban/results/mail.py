"""How good the three answers of a spam filter are: ham, unsure or spam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from deciban._typing import Array
from deciban.show import Result, Table

HAM, UNSURE, SPAM = "ham", "unsure", "spam"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MailAnswers(Result):
    """How many hams and spams got which prediction. Ham predicted spam is lost, spam predicted ham is missed.

    >>> MailAnswers.of(["ham", "ham", "spam", "spam"], np.array(["ham", "unsure", "spam", "ham"]))
    predictions of the filter: 4 mails
                                 mails  share
    ham lost (predicted spam)        0    0.0 % of ham
    ham unsure                       1   50.0 % of ham
    spam caught                      1   50.0 % of spam
    spam missed (predicted ham)      1   50.0 % of spam
    spam unsure                      0    0.0 % of spam
    """

    ham: dict[str, int]  # by answer
    spam: dict[str, int]

    @classmethod
    def of(cls, truth: Any, answers: Array) -> Self:
        """From the class of each mail, and the filter's answers."""
        labels = np.asarray(truth)
        ham, spam = (
            {answer: int(np.sum((labels == label) & (answers == answer))) for answer in (HAM, UNSURE, SPAM)}
            for label in (HAM, SPAM)
        )
        return cls(ham, spam)

    def to_dict(self) -> dict[str, Any]:
        """The number of mails by class and answer, and shares of each class; None for a class without mails."""
        return {
            "ham": self.ham,
            "spam": self.spam,
            "ham_lost": share(self.ham, SPAM),
            "ham_unsure": share(self.ham, UNSURE),
            "spam_caught": share(self.spam, SPAM),
            "spam_missed": share(self.spam, HAM),
            "spam_unsure": share(self.spam, UNSURE),
        }

    def to_table(self) -> Table:
        rows = [
            ("ham lost (predicted spam)", *self._cells(HAM, SPAM)),
            ("ham unsure", *self._cells(HAM, UNSURE)),
            ("spam caught", *self._cells(SPAM, SPAM)),
            ("spam missed (predicted ham)", *self._cells(SPAM, HAM)),
            ("spam unsure", *self._cells(SPAM, UNSURE)),
        ]
        n = sum(self.ham.values()) + sum(self.spam.values())
        return Table(f"predictions of the filter: {n:,} mail{'s' * (n != 1)}", ("", "mails", "share"), rows)

    def _cells(self, label: str, answer: str) -> tuple[int, str]:
        counts = self.ham if label == HAM else self.spam
        part = share(counts, answer)
        return counts[answer], f"there is no {label}" if part is None else f"{100 * part:5.1f} % of {label}"


def share(counts: dict[str, int], answer: str) -> float | None:
    total = sum(counts.values())
    return counts[answer] / total if total else None
