"""Bayes' rule on the log-joint, written once: posterior, p(x), decisions, prior shift (S1, S2, S20)."""

from __future__ import annotations

import numpy as np

from deciban._kernel import posterior as kernel
from deciban._typing import Array, Floats
from deciban.errors import DecibanError, ZeroEvidenceWarning, warn

DECIBANS = 10.0 / np.log(10.0)  # nats → decibans: 10 dB is ten to one


def posterior(log_joint: Floats, log_prior: Floats, logs: bool = False, quiet: bool = False) -> Floats:
    """P(y | x) = P(x | y) P(y) / Σ P(x | y') P(y'), or its logarithm; `log_joint` is overwritten.

    If x has probability zero in every class, 0/0, the posterior is the prior, with a warning unless `quiet`.

    >>> import numpy as np
    >>> posterior(np.log([[0.02, 0.06]]), np.log([0.5, 0.5]))
    array([[0.25, 0.75]])
    """
    log_joint = np.ascontiguousarray(log_joint, dtype=np.float64)
    ties, bad = kernel.normalise(log_joint, np.ascontiguousarray(log_prior), None, logs)
    report(0 if quiet else ties, bad, len(log_joint))
    return log_joint


def report(ties: int, bad: int, n: int) -> None:
    """Raise or warn if Bayes' rule does not give a posterior for some rows."""
    if bad >= 0:
        raise DecibanError("row {row} has no finite log-probability: check it for infinite values", row=bad)
    if ties:
        warn(
            f"{ties} of {n} rows have probability zero under every class (0/0): their posterior is the prior. "
            "Counts and categories are never impossible with alpha > 0.",
            ZeroEvidenceWarning,
        )


def log_evidence(log_joint: Floats) -> Floats:
    """log p(x) = log Σ_y p(x, y)."""
    top = log_joint.max(axis=1, initial=-np.inf)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(safe + np.log(np.exp(log_joint - safe[:, None]).sum(axis=1)))


def decide(posterior: Floats, costs: Floats | None = None, reject: float | None = None) -> Array:
    """The class with the least expected cost; −1 if even that costs more than `reject`.

    costs[i, j] is the cost of answering j when i is true; without it every mistake costs 1.

    >>> import numpy as np
    >>> p = np.array([[0.6, 0.4], [0.97, 0.03]])
    >>> decide(p), decide(p, costs=np.array([[0.0, 1.0], [10.0, 0.0]])), decide(p, reject=0.1)
    (array([0, 0]), array([1, 0]), array([-1,  0]))
    """
    expected = 1.0 - posterior if costs is None else posterior @ costs
    choice = np.argmin(expected, axis=1)
    if reject is not None:
        choice = np.where(expected[np.arange(len(choice)), choice] > reject, -1, choice)
    return np.asarray(choice)


def adapt_prior(
    posteriors: Floats, prior: Floats, max_iter: int = 20_000, tolerance: float = 1e-10
) -> tuple[Floats, int]:
    """The class prior under which unlabelled rows are most likely, by EM (Saerens, Latinne & Decaestecker 2002).

    Takes posteriors under the old prior; returns the new prior and the number of steps. It stops when no class's share
    moves by more than `tolerance`, far below its standard error, and warns if `max_iter` steps were too few.
    """
    if len(posteriors) == 0:
        return prior, 0
    known = prior > 0
    ratio = np.divide(posteriors, prior, out=np.zeros_like(posteriors), where=known)
    new = prior.copy()
    for step in range(1, max_iter + 1):
        weighted = ratio * new
        weighted /= weighted.sum(axis=1, keepdims=True)
        moved = weighted.mean(axis=0)
        done = float(np.abs(moved - new).max()) < tolerance
        new = moved
        if done:
            return new, step
    warn(f"the class prior still moved after {max_iter} steps of EM", UserWarning)
    return new, max_iter
