"""Names of the columns that hold a model's answers: the same in files, in databases and in JSON."""

from __future__ import annotations

from typing import Any

from deciban.show import plain

PREDICTION = "prediction"
PROBABILITY = "probability"  # of the prediction
PREDICTION_SET = "set"


def proba_column(label: Any) -> str:
    """The column of a class's probability.

    >>> proba_column("spam"), proba_column(True)
    ('proba_spam', 'proba_True')
    """
    return f"proba_{plain(label)}"


def log_proba_column(label: Any) -> str:
    return f"log_{proba_column(label)}"


def p_value_column(label: Any) -> str:
    return f"p_value_{plain(label)}"
