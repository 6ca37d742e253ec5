"""Labels are constraints on the posterior. One loop: posterior under the constraint, weighted sum of T(x), estimate.

With every label known it ends after one step; with some missing it is semi-supervised learning; with none it clusters
(S17). Mixtures (S16), mixtures per class and missing entries are the same loop with other things hidden. A `step` comes
from an engine, so the loop runs wherever the data is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from deciban.algebra import Stats
from deciban.errors import InterruptedWarning, warn
from deciban.joint import Joint, Model

Step = Callable[[Model], tuple[float, Stats]]


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What the loop found: the model, and the way of the log-likelihood to it."""

    model: Model
    log_likelihood: list[float]
    converged: bool
    rows: float  # how many it went over, as they are weighted
    interrupted: bool = False

    def __repr__(self) -> str:
        end = "converged" if self.converged else "stopped"
        last = self.log_likelihood[-1] if self.log_likelihood else float("nan")
        return f"EM over {self.rows:g} rows: {end} after {len(self.log_likelihood)} steps at {last:.6g} nats"


def learn(
    start: Model,
    step: Step,
    *,
    rows: float,
    joint: Joint | None = None,
    max_iter: int = 200,
    tolerance: float = 1e-7,
    before: float = -float("inf"),
    watch: Callable[[int, float], None] = lambda step, total: None,  # noqa: ARG005 - nobody watches
) -> Learned:
    """EM from the model `start`. `step(model)` is the log-likelihood under it and the sums its posterior gives.

    Later models have the law `joint` (None: the start's). `before` is the log-likelihood of a step taken earlier.

    The log-likelihood never decreases under plain maximum likelihood (with a prior, likelihood × prior does not);
    the loop stops when a step changes it by less than `tolerance` a row. Interrupted (Ctrl-C), it keeps the best so
    far.
    """
    model, best = start, (-float("inf"), start)
    trace: list[float] = []
    converged = False
    try:
        for count in range(max_iter):
            total, sums = step(model)
            trace.append(total)
            watch(count + 1, total)
            if total >= best[0]:
                best = total, model
            model = Model(joint or start.joint, sums)
            if abs(total - before) < tolerance * rows:
                converged = True
                break
            before = total
    except KeyboardInterrupt:
        if not trace:
            raise
        warn(f"interrupted after {len(trace)} steps of EM: the model is the best so far", InterruptedWarning)
        return Learned(best[1], trace, False, rows, interrupted=True)
    return Learned(model, trace, converged, rows)


def best_of(starts: Iterable[Callable[[], Learned]]) -> Learned:
    """The most likely of several attempts; interrupted (Ctrl-C), of those that got anywhere."""
    best: Learned | None = None
    for start in starts:
        try:
            found = start()
        except KeyboardInterrupt:
            if best is None:
                raise
            warn("interrupted between two starts of EM: the model is the best so far", InterruptedWarning)
            break
        if best is None or (found.log_likelihood or [0.0])[-1] > (best.log_likelihood or [0.0])[-1]:
            best = found
        if found.interrupted:
            break
    assert best is not None
    return best
