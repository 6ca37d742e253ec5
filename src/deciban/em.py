"""EM with labels as constraints on the posterior: posterior under the constraint, weighted sum of T(x), estimate.

With every label known it ends after one step; with some missing it is semi-supervised learning; with none it is
clustering (S17). Mixtures (S16), mixtures per class and missing values are the same loop with other hidden variables. A
`step` comes from an engine, so the loop runs on any engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from deciban._typing import Floats, Sums
from deciban.algebra import Stats
from deciban.errors import InterruptedWarning, warn
from deciban.joint import Joint, Model
from deciban.measure import RESIDUE, has_squares, second_moments

Step = Callable[[Model], tuple[float, Stats]]

SUM_TOLERANCE = 1e-7  # the distance of converged sums from their limit, in standard deviations
ROUNDING_TOLERANCE = 1e-12  # a step that moves the sums by less is rounding
MAX_STEPS_AHEAD = 1e3  # of an extrapolation
SAME_OPTIMUM_NATS = 1e-9  # per row: starts that end closer than that have reached the same optimum
N_RATES = 4  # recent rates, of which the slowest is used


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """The result of the loop: the model, and the log-likelihood after every step."""

    model: Model
    log_likelihood: list[float]
    converged: bool
    rows: float  # the total weight of the rows
    interrupted: bool = False

    @property
    def likelihood(self) -> float:
        """The last log-likelihood; 0 if no step was taken."""
        return self.log_likelihood[-1] if self.log_likelihood else 0.0

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
    max_iter: int = 1000,
    tolerance: float | None = None,
    before: float = -float("inf"),
    watch: Callable[[int, float], None] = lambda step, total: None,  # noqa: ARG005 - ignores progress
) -> Learned:
    """EM from the model `start`. `step(model)` is the log-likelihood under it and the sums under its posterior.

    Later models have the distribution `joint` (None: the start's). `before` is the log-likelihood of an earlier step.

    The log-likelihood never decreases under plain maximum likelihood (with a prior, likelihood × prior does not). With
    a `tolerance` the loop stops when a step changes it by less than that per row, which may be far from convergence: if
    a share r of the distance remains after each step, the likelihood is flat long before the parameters converge.
    Without one it stops when the sums are within SUM_TOLERANCE of their limit, and they are extrapolated on the way
    (`Extrapolation`). If interrupted (Ctrl-C), it keeps the best model so far.
    """
    joint = joint or start.joint
    model, best = start, (-float("inf"), start)
    trace: list[float] = []
    extrapolation, converged = Extrapolation(joint), False
    try:
        for _ in range(max_iter):
            total, sums = step(model)
            if extrapolation.overshot(total, trace):
                model = Model(joint, extrapolation.undo())
                continue
            trace.append(total)
            watch(len(trace), total)
            if total >= best[0]:
                best = total, model
            if tolerance is not None:
                converged, before = abs(total - before) < tolerance * rows, total
            else:
                converged = extrapolation.distance_left(sums) <= SUM_TOLERANCE
            model = Model(joint, sums if converged or tolerance is not None else extrapolation.next_sums())
            if converged:
                break
    except KeyboardInterrupt:
        if not trace:
            raise
        warn(f"interrupted after {len(trace)} steps of EM: the model is the best so far", InterruptedWarning)
        return Learned(best[1], trace, False, rows, interrupted=True)
    return Learned(model, trace, converged, rows)


class Extrapolation:
    """The sums of the last steps of EM: their distance from the limit, and an extrapolation to it.

    Near the limit a step is linear, and a share r < 1 of the distance in the slowest direction remains after each. For
    three consecutive sums S₀, S₁, S₂, r is |S₂ − S₁|/|S₁ − S₀|, and the distance is |S₂ − S₁|·(r + r² + …). Squared
    extrapolation (Varadhan and Roland 2008) jumps there: S₀ + 2a(S₁ − S₀) + a²(S₂ − 2S₁ + S₀), with a the ratio of the
    length of S₁ − S₀ to that of S₂ − 2S₁ + S₀. A guess that no rows can have, or that lowers the likelihood, is not
    used.
    """

    def __init__(self, joint: Joint) -> None:
        self.joint, self.extrapolated = joint, False
        self.steps: list[Stats] = []
        self.rates: deque[float] = deque(maxlen=N_RATES)

    def overshot(self, total: float, trace: list[float]) -> bool:
        """Whether an extrapolation has lowered the likelihood. With a prior, plain steps may do so too."""
        falling = len(trace) > 1 and trace[-1] < trace[-2]
        return self.extrapolated and not falling and not total >= trace[-1] - ROUNDING_TOLERANCE * abs(trace[-1])

    def undo(self) -> Stats:
        """The sums of the last step before the extrapolation."""
        self.extrapolated = False
        self.steps = self.steps[:1]
        return self.steps[0]

    def distance_left(self, sums: Stats) -> float:
        """An upper bound of the distance of a step's sums from the limit, in standard deviations."""
        self.steps.append(sums)
        if self.extrapolated:  # the extrapolation was the first of three
            self.extrapolated, self.steps = False, self.steps[1:]
        if len(self.steps) < 3:
            return float("inf")
        first, second = np.diff(in_units(self.steps), axis=0)
        before, last = np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0)
        if last <= ROUNDING_TOLERANCE:
            return 0.0
        if before > 0:
            self.rates.append(min(last / before, 1.0 - SUM_TOLERANCE))
        slowest = max(
            self.rates, default=0.0
        )  # an extrapolation also moves faster directions, and then the last rate looks fast
        return float(last * slowest / (1.0 - slowest))

    def next_sums(self) -> Stats:
        """The sums to continue from: those of the last step, or an extrapolation."""
        if len(self.steps) < 3:
            return self.steps[-1]
        a, b, c = self.steps
        first, second = np.diff(in_units(self.steps), axis=0)
        curvature = float(np.linalg.norm(second - first))
        length = min(float(np.linalg.norm(first)) / curvature, MAX_STEPS_AHEAD) if curvature > 0 else MAX_STEPS_AHEAD
        self.steps = [c]
        while length > 1.0:
            guess = a.scale((1.0 - length) ** 2) + b.scale(2.0 * length * (1.0 - length)) + c.scale(length**2)
            if possible(guess, self.joint):
                self.extrapolated, self.steps = True, [c, guess]
                return guess
            length = 0.5 * (1.0 + length) if length > 1.1 else 1.0
        return c


def in_units(several: list[Stats]) -> Floats:
    """Several sums as rows of numbers: counts as shares of a class, moments in standard deviations of the last one."""
    last, rows = several[-1], []
    units = [units_of(sums) for sums in last.sums]
    for stats in (part.embed(last.schema) for part in several):
        parts = [stats.weight / max(float(last.weight.sum()), np.finfo(float).tiny)]
        for sums, unit in zip(stats.sums, units, strict=True):
            parts += [np.ravel(np.broadcast_to(sums[name], by.shape) / by) for name, by in unit.items()]
        rows.append(np.concatenate(parts))
    return np.array(rows)


def units_of(sums: Sums) -> dict[str, Floats]:
    """The unit of each of a block's sums; infinite for a column that does not vary, which is thereby ignored."""
    if not has_squares(sums):
        tops = {name: array.max(axis=1, keepdims=True, initial=0.0) for name, array in sums.items()}
        return {name: np.broadcast_to(np.where(top > 0, top, np.inf), sums[name].shape) for name, top in tops.items()}
    n = np.broadcast_to(np.where(sums["one"] > 0, sums["one"], np.inf), sums["x"].shape)
    scatter = second_moments(sums) - np.where(np.isfinite(n), sums["x"] ** 2 / n, 0.0)
    deviation = np.sqrt(np.where(scatter > 0, scatter, np.inf))
    units = {"one": n, "x": np.sqrt(n) * deviation}
    return units | ({"xx": deviation**2} if "xx" in sums else {"xy": deviation[:, :, None] * deviation[:, None, :]})


def possible(stats: Stats, joint: Joint) -> bool:
    """Whether some rows can have these sums: no count is negative, and no variance in any direction."""
    for sums, block, columns in zip(stats.sums, joint.blocks, stats.schema.blocks, strict=True):
        if not block.family.pivoted:
            measures = block.family.measures(columns)
            if any(m.flaw(sums, columns) or m.excess(sums, stats.weight, columns).any() for m in measures):
                return False
            continue
        n = np.where(sums["one"] > 0, sums["one"], 1.0)
        scatter = second_moments(sums) - sums["x"] ** 2 / n
        if (sums["one"] < 0).any() or (scatter < 0).any():
            return False
        if "xy" in sums:
            unit = np.sqrt(np.where(scatter > 0, scatter, 1.0))
            central = sums["xy"] - sums["x"][:, :, None] * sums["x"][:, None, :] / n[..., None]
            if np.linalg.eigvalsh(central / (unit[:, :, None] * unit[:, None, :])).min(initial=0.0) < -RESIDUE:
                return False
    return bool((stats.weight >= 0).all())


def best_of(starts: Iterable[Callable[[], Learned]]) -> Learned:
    """The most likely of several starts, the first of equals; if interrupted (Ctrl-C), of those so far."""
    best: Learned | None = None
    for start in starts:
        try:
            learned = start()
        except KeyboardInterrupt:
            if best is None:
                raise
            warn("interrupted between two starts of EM: the model is the best so far", InterruptedWarning)
            break
        if best is None or learned.likelihood > best.likelihood + SAME_OPTIMUM_NATS * best.rows:
            best = learned
        if learned.interrupted:
            break
    assert best is not None
    return best
