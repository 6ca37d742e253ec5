"""Labels are constraints on the posterior. One loop: posterior under the constraint, weighted sum of T(x), estimate.

With every label known it ends after one step; with some missing it is semi-supervised learning; with none it clusters
(S17). Mixtures (S16), mixtures per class and missing entries are the same loop with other things hidden. A `step` comes
from an engine, so the loop runs wherever the data is.
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

PRECISE = 1e-7  # how far the sums may still be from where they would come to rest, beside their own spread
SAME = 1e-12  # a step that moves them by less than this is rounding
FURTHEST = 1e3  # how many steps ahead a guess may be
ALIKE = 1e-9  # nats a row: attempts that end closer than that have ended at the same place
LOOKED_AT = 4  # rates from which the slowest is taken


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What the loop found: the model, and the way of the log-likelihood to it."""

    model: Model
    log_likelihood: list[float]
    converged: bool
    rows: float  # how many it went over, as they are weighted
    interrupted: bool = False

    @property
    def likelihood(self) -> float:
        """The last log-likelihood; 0 where no step was taken."""
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
    watch: Callable[[int, float], None] = lambda step, total: None,  # noqa: ARG005 - nobody watches
) -> Learned:
    """EM from the model `start`. `step(model)` is the log-likelihood under it and the sums its posterior gives.

    Later models have the law `joint` (None: the start's). `before` is the log-likelihood of a step taken earlier.

    The log-likelihood never decreases under plain maximum likelihood (with a prior, likelihood × prior does not). With
    a `tolerance` the loop stops when a step changes it by less than that a row, which may be far from the end: where a
    share r of what is left is left after each step, the likelihood is flat long before the parameters rest. Without
    one it stops where the sums are within `PRECISE` of their limit, and they are extrapolated on the way there (`Way`).
    Interrupted (Ctrl-C), it keeps the best so far.
    """
    law = joint or start.joint
    model, best = start, (-float("inf"), start)
    trace: list[float] = []
    way, converged = Way(law), False
    try:
        for _ in range(max_iter):
            total, sums = step(model)
            if way.overshot(total, trace):
                model = Model(law, way.back())
                continue
            trace.append(total)
            watch(len(trace), total)
            if total >= best[0]:
                best = total, model
            if tolerance is not None:
                converged, before = abs(total - before) < tolerance * rows, total
            else:
                converged = way.left(sums) <= PRECISE
            model = Model(law, sums if converged or tolerance is not None else way.onwards())
            if converged:
                break
    except KeyboardInterrupt:
        if not trace:
            raise
        warn(f"interrupted after {len(trace)} steps of EM: the model is the best so far", InterruptedWarning)
        return Learned(best[1], trace, False, rows, interrupted=True)
    return Learned(model, trace, converged, rows)


class Way:
    """The sums of EM's last steps: how far they still have to go, and where that may be.

    Near the end a step is linear, and a share r < 1 of what is left in the slowest direction is left after each. Of
    three sums in a row, S₀, S₁, S₂, r is |S₂ − S₁|/|S₁ − S₀|, and what is left is |S₂ − S₁|·(r + r² + …). Squared
    extrapolation (Varadhan and Roland 2008) goes there at once: S₀ + 2a(S₁ − S₀) + a²(S₂ − 2S₁ + S₀), with a the ratio
    of the length of S₁ − S₀ to that of S₂ − 2S₁ + S₀. A guess that no rows can have, or under which they are less
    likely, is not followed.
    """

    def __init__(self, law: Joint) -> None:
        self.law, self.guessed = law, False
        self.steps: list[Stats] = []
        self.rates: deque[float] = deque(maxlen=LOOKED_AT)

    def overshot(self, total: float, trace: list[float]) -> bool:
        """Whether a guess has made the rows less likely. Under a prior, plain steps may do so too."""
        falling = len(trace) > 1 and trace[-1] < trace[-2]
        return self.guessed and not falling and not total >= trace[-1] - SAME * abs(trace[-1])

    def back(self) -> Stats:
        """Where the last step before the guess had led."""
        self.guessed = False
        self.steps = self.steps[:1]
        return self.steps[0]

    def left(self, sums: Stats) -> float:
        """How far the sums that a step has led to are from the end, beside their own spread, at most."""
        self.steps.append(sums)
        if self.guessed:  # the guess was the first of three
            self.guessed, self.steps = False, self.steps[1:]
        if len(self.steps) < 3:
            return float("inf")
        first, second = np.diff(in_units(self.steps), axis=0)
        was, now = np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0)
        if now <= SAME:
            return 0.0
        if was > 0:
            self.rates.append(min(now / was, 1.0 - PRECISE))
        slowest = max(self.rates, default=0.0)  # a guess also stirs what rests sooner, and then the last looks quick
        return float(now * slowest / (1.0 - slowest))

    def onwards(self) -> Stats:
        """The sums to go on from: those of the last step, or a guess at what is to come."""
        if len(self.steps) < 3:
            return self.steps[-1]
        a, b, c = self.steps
        first, second = np.diff(in_units(self.steps), axis=0)
        bend = float(np.linalg.norm(second - first))
        far = min(float(np.linalg.norm(first)) / bend, FURTHEST) if bend > 0 else FURTHEST
        self.steps = [c]
        while far > 1.0:
            guess = a.scale((1.0 - far) ** 2) + b.scale(2.0 * far * (1.0 - far)) + c.scale(far**2)
            if possible(guess, self.law):
                self.guessed, self.steps = True, [c, guess]
                return guess
            far = 0.5 * (1.0 + far) if far > 1.1 else 1.0
        return c


def in_units(several: list[Stats]) -> Floats:
    """Several sums as rows of numbers: counts as shares of a class, moments in units of the last one's deviations."""
    last, rows = several[-1], []
    units = [units_of(sums) for sums in last.sums]
    for stats in (part.embed(last.schema) for part in several):
        parts = [stats.weight / max(float(last.weight.sum()), np.finfo(float).tiny)]
        for sums, unit in zip(stats.sums, units, strict=True):
            parts += [np.ravel(np.broadcast_to(sums[name], by.shape) / by) for name, by in unit.items()]
        rows.append(np.concatenate(parts))
    return np.array(rows)


def units_of(sums: Sums) -> dict[str, Floats]:
    """What each of a block's sums is measured in; a column that does not vary says nothing."""
    if not has_squares(sums):
        tops = {name: array.max(axis=1, keepdims=True, initial=0.0) for name, array in sums.items()}
        return {name: np.broadcast_to(np.where(top > 0, top, np.inf), sums[name].shape) for name, top in tops.items()}
    n = np.broadcast_to(np.where(sums["one"] > 0, sums["one"], np.inf), sums["x"].shape)
    scatter = second_moments(sums) - np.where(np.isfinite(n), sums["x"] ** 2 / n, 0.0)
    deviation = np.sqrt(np.where(scatter > 0, scatter, np.inf))
    units = {"one": n, "x": np.sqrt(n) * deviation}
    return units | ({"xx": deviation**2} if "xx" in sums else {"xy": deviation[:, :, None] * deviation[:, None, :]})


def possible(stats: Stats, law: Joint) -> bool:
    """Whether sums are those of some rows: no count is negative, and no variance in any direction."""
    for sums, block, columns in zip(stats.sums, law.blocks, stats.schema.blocks, strict=True):
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
    """The most likely of several attempts, the first of those that are alike; interrupted (Ctrl-C), of those so far."""
    best: Learned | None = None
    for start in starts:
        try:
            found = start()
        except KeyboardInterrupt:
            if best is None:
                raise
            warn("interrupted between two starts of EM: the model is the best so far", InterruptedWarning)
            break
        if best is None or found.likelihood > best.likelihood + ALIKE * best.rows:
            best = found
        if found.interrupted:
            break
    assert best is not None
    return best
