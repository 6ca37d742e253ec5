"""The one thread that changes models: it commits all waiting changes in one transaction (group commit).

For each transaction, the next model is computed first, as a value; then everything is committed to disk; then the value
replaces the model; then requests are answered. If any step fails, the model is unchanged. A flush to disk takes
milliseconds however much is written, so waiting requests are written together.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from deciban.server.changes import Change, Pair, Step, steps_of
from deciban.server.model import Content, ServedModel, packed, unpacked
from deciban.server.problems import RequestError, problem_of
from deciban.server.quality import Quality
from deciban.server.recent import RecentDecisions
from deciban.server.store.base import Outcome, PackedSums, Store, StoreError
from deciban.server.store.content import ContentKeeper, canonical

MAX_EXAMPLES = 1000  # of one transaction, unless a single request has more
MAX_SUMS = 500  # transactions between snapshots: after a crash, this many sums are added
IDLE_SECONDS = 1.0
POLL_SECONDS = 0.1  # if other servers write too
MIN_ASKED = 200  # predictions a second, from which on transactions keep a distance:
REST = 1.5  # in times of the last transaction; while the thread computes, predictions wait for the interpreter
MAX_REST_SECONDS = 0.25
MAX_EXAMPLES_BETWEEN = 64  # of such a transaction
MAX_WAITING_BETWEEN = 100  # changes

log = logging.getLogger("deciban.server")

Result = TypeVar("Result")
Task = Change | Callable[[], None] | None  # None ends the thread


@dataclass(slots=True, eq=False)
class LiveModel:
    """A name and its current value. Readers take `current` once, and use only that."""

    name: str
    current: ServedModel
    quality: Quality
    recent: RecentDecisions
    changed: float | None = None  # when it last learned
    sums_since: int = 0  # transactions since the snapshot
    snapshot_time: float = field(default_factory=time.monotonic)
    last_content: Any = None  # an example for filling a new model's caches
    answered: int = 0  # requests for predictions


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A request and its steps."""

    change: Change
    steps: list[Step]

    @property
    def learned(self) -> list[Pair]:
        return [step.learn for step in self.steps if step.learn is not None]

    @property
    def forgotten(self) -> list[Pair]:
        return [step.forget for step in self.steps if step.forget is not None]


class ChangeWriter:
    """A thread, its queue, and the models that only it replaces."""

    def __init__(
        self,
        store: Store,
        keeper: ContentKeeper,
        models: Mapping[str, LiveModel],
        *,
        most: int,
        snapshot_seconds: float,
    ) -> None:
        self.store, self.keeper, self.models, self.snapshot_seconds = store, keeper, models, snapshot_seconds
        self._queue: queue.Queue[Task] = queue.Queue(most)
        self._taken: deque[Task] = deque()  # taken from the queue, but not in the last transaction
        self._thread = threading.Thread(target=self._run, name="deciban-writer", daemon=True)
        self._wrote = 0.0, 0.0, 0  # when the last transaction began and ended, and what had been asked before it
        self.healthy = True  # whether the store worked the last time

    # ------------------------------------------------------------------ for other threads

    def start(self) -> None:
        self._thread.start()

    def submit(self, change: Change) -> None:
        """Queue a request; a RequestError if too many are waiting."""
        try:
            if self.waiting >= self._queue.maxsize:
                raise queue.Full
            self._queue.put_nowait(change)
        except queue.Full:
            raise RequestError("too many changes are waiting: try again in a second", status=503, code="busy") from None

    def call(self, work: Callable[[], Result]) -> Future[Result]:
        """Run something between two transactions."""
        done: Future[Result] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

        self._queue.put(run)
        return done

    def stop(self) -> None:
        """Write accepted requests, save a snapshot of every model, and stop."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        return self._queue.qsize() + len(self._taken)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        wait = POLL_SECONDS if self.store.shared else IDLE_SECONDS
        while True:
            try:
                task = self._taken.popleft() if self._taken else self._queue.get(timeout=wait)
            except queue.Empty:
                self._idle()
                continue
            if task is None:
                break
            if not isinstance(task, Change):
                task()
            else:
                most = MAX_EXAMPLES_BETWEEN if self._rested() else MAX_EXAMPLES
                if group := [one for one in self._with_others(task, most) if one.done.set_running_or_notify_cancel()]:
                    start, asked = time.monotonic(), self._asked()
                    self._write(self.models[task.model], group)  # the senders of the others have given up
                    self._wrote = start, time.monotonic(), asked
            for live in self.models.values():
                if live.sums_since >= MAX_SUMS or (live.sums_since and self._due(live)):
                    self._snapshot(live)
        for live in self.models.values():
            if live.sums_since:
                self._snapshot(live)

    def _asked(self) -> int:
        return sum(live.answered for live in self.models.values())

    def _rested(self) -> bool:
        """Whether many predictions are asked for; then wait a little, if a transaction has just ended.

        Not if many changes wait as well: then the larger a transaction is, the better.
        """
        (start, end, asked), now = self._wrote, time.monotonic()
        rest = min(REST * (end - start), MAX_REST_SECONDS) - (now - end)
        busy = self._asked() - asked >= MIN_ASKED * (now - start)
        if busy and rest > 0:
            time.sleep(rest)
        return busy and self.waiting <= MAX_WAITING_BETWEEN

    def _with_others(self, first: Change, most: int) -> list[Change]:
        """A request and later ones for the same transaction: for the same model, with other ids.

        Requests with the same id stay in their order: the later ones wait for another transaction.
        """
        group, ids = [first], {example.id for example in first.examples}
        aside: list[Task] = []
        while len(ids) < most and len(group) + len(aside) < most and not first.by_content:
            try:
                task = self._taken.popleft() if self._taken else self._queue.get_nowait()
            except queue.Empty:
                break
            if not isinstance(task, Change) or task.model != first.model or task.by_content:
                aside.append(task)
                break
            own = {example.id for example in task.examples}
            (aside if own & ids else group).append(task)
            ids |= own
        self._taken.extendleft(reversed(aside))
        return group

    def _idle(self) -> None:
        """Add what other servers learned, and save snapshots that are due."""
        for live in self.models.values():
            try:
                if not self.healthy:
                    self.store.probe()
                if self.store.shared:
                    self._catch_up(live)
                self.healthy = True
            except Exception as error:
                self._failed(error)
            if live.sums_since and self._due(live):
                self._snapshot(live)

    def _due(self, live: LiveModel) -> bool:
        return time.monotonic() - live.snapshot_time > self.snapshot_seconds

    def _failed(self, error: Exception) -> None:
        if self.healthy or not isinstance(error, StoreError):
            log.error("the store cannot be used: %s", error if isinstance(error, StoreError) else type(error).__name__)
        self.healthy = False

    # ------------------------------------------------------------------ a transaction

    def _write(self, live: LiveModel, changes: list[Change]) -> None:
        """Write requests together; one that cannot be written gets its error, and changes nothing."""
        try:
            with self.store.transaction():
                before = caught_up(live.current, live.name, self.store) if self.store.shared else live.current
                planned = self._planned(before, changes)
                after, planned, plus, minus = applied(before, planned)
                outcomes: list[Outcome] = []
                if planned:
                    after, outcomes = self._record(live, before, after, planned, plus, minus)
            self.healthy = True
        except Exception as error:
            if not isinstance(error, StoreError):
                log.exception("a transaction failed")
            self._failed(error)
            for change in changes:
                if not change.done.done():
                    change.done.set_exception(error)
            return
        self._swap(live, after)
        self._committed(live, planned, outcomes)
        for plan in planned:
            plan.change.done.set_result([step.to_dict() for step in plan.steps])

    def _swap(self, live: LiveModel, after: ServedModel) -> None:
        """Replace a model, once the new one can answer without delay."""
        if after is live.current:
            return
        try:
            after.warm(live.last_content, live.current)
        except Exception as error:  # the last example was of another kind: the next request fills the caches
            log.debug("the caches of a new model were not filled: %s", type(error).__name__)
        live.current = after

    def _planned(self, model: ServedModel, changes: Sequence[Change]) -> list[Planned]:
        out = []
        for change in changes:
            try:
                out.append(Planned(change, steps_of(change, model, self.store, self.keeper)))
            except Exception as error:
                if isinstance(error, StoreError):
                    raise
                refuse(change, error)
        return out

    def _record(
        self,
        live: LiveModel,
        before: ServedModel,
        after: ServedModel,
        planned: Sequence[Planned],
        plus: Any,
        minus: Any,
    ) -> tuple[ServedModel, list[Outcome]]:
        """Write everything about these requests; the new model records its place in the log."""
        now, seq, outcomes = time.time(), before.seq, []
        tests = iter(outcomes_of(before, [s.learn for p in planned for s in p.steps if s.new and s.learn is not None]))
        for plan in planned:
            for step in plan.steps:
                if step.learn is None and step.forget is None:
                    continue
                kind = "correct" if step.learn and step.forget else "learn" if step.learn else "forget"
                seq = self.store.log(live.name, kind, step.id, plan.change.actor, now)
                if step.stored:
                    self.store.drop(live.name, step.id)
                if step.learn is not None:
                    content, label = step.learn
                    self.store.put(live.name, self.keeper.kept(step.id, label, content, seq, now))
                    if step.new:
                        outcomes.append(replace(next(tests), seq=seq, time=now))
        for outcome in outcomes:
            self.store.put_outcome(live.name, outcome)
        if seq == before.seq:
            return before, []  # nothing changed
        if outcomes:
            self.store.trim_outcomes(live.name, live.quality.most)
        sums = [None if part is None else packed(part) for part in (plus, minus)]
        self.store.put_sums(live.name, PackedSums(seq, *sums))
        return after.at(seq), outcomes

    def _committed(self, live: LiveModel, planned: Sequence[Planned], outcomes: Sequence[Outcome]) -> None:
        live.quality.add(outcomes)
        changed = False
        for plan in planned:
            for step in plan.steps:
                if step.learn is not None:
                    live.last_content = step.learn[0]
                    live.recent.taught(step.id, step.learn[1])
                elif step.forget is not None:
                    live.recent.remove(step.id)
                changed |= step.status != "unchanged"
        if changed:
            live.changed = time.time()
            live.sums_since += 1

    # ------------------------------------------------------------------ snapshots, and other servers

    def _catch_up(self, live: LiveModel) -> None:
        after = caught_up(live.current, live.name, self.store)
        if after is not live.current:
            self._swap(live, after)
            live.changed = time.time()
            live.quality.add(self.store.outcomes(live.name, live.quality.most, live.quality.last_seq))

    def _snapshot(self, live: LiveModel) -> None:
        try:
            data = live.current.to_bytes()
            with self.store.transaction():
                if live.current.seq > self.store.snapshot_seq(live.name):
                    self.store.put_snapshot(live.name, live.current.seq, data, time.time())
            self.store.tidy()
            live.sums_since = 0
        except Exception as error:
            self._failed(error)
        live.snapshot_time = time.monotonic()

    def replace_model(
        self, live: LiveModel, model: ServedModel, actor: str, examples: Iterable[tuple[list[Content], list[Any]]]
    ) -> None:
        """Replace a model, and learn examples on top of it. Called in the writer's thread.

        No other server can change anything in the meantime.
        """
        with self.store.transaction():
            for contents, labels in examples:
                model = model.plus(model.sums_of(contents, labels))
            seq = self.store.log(live.name, "upload", None, actor, time.time())
            self.store.put_snapshot(live.name, seq, model.to_bytes(), time.time())
        self.store.tidy()
        self._swap(live, model.at(seq))
        live.changed, live.sums_since = time.time(), 0


def refuse(change: Change, error: Exception) -> None:
    """Give a request its error."""
    if problem_of(error) is None:
        log.error("a change failed: %s", type(error).__name__, exc_info=error)
    change.done.set_exception(error)


def applied(before: ServedModel, planned: list[Planned]) -> tuple[ServedModel, list[Planned], Any, Any]:
    """The model after these requests, the requests that succeeded, and the sums that were added and subtracted.

    All are summed at once. If that fails, they are tried one by one to find those that fail.
    """
    try:
        plus, minus = both_sums(before, planned)
        return changed(before, plus, minus), planned, plus, minus
    except Exception as error:
        if len(planned) == 1:
            refuse(planned[0].change, error)
            return before, [], None, None
    taken = [plan for plan in planned if applied(before, [plan])[1]]
    if len(taken) < len(planned):
        return applied(before, taken)
    for plan in taken:  # each is possible alone, but not all together, as when two forget the same example
        refuse(
            plan.change,
            RequestError("another request changed the same example: try again", status=409, code="conflict"),
        )
    return before, [], None, None


def both_sums(model: ServedModel, planned: Sequence[Planned]) -> tuple[Any, Any]:
    """What requests add, and what they subtract; None if nothing."""
    plus, minus = [pair for plan in planned for pair in plan.learned], [p for plan in planned for p in plan.forgotten]
    sums = [model.sums_of([c for c, _ in pairs], [y for _, y in pairs]) if pairs else None for pairs in (plus, minus)]
    return sums[0], sums[1]


def changed(model: ServedModel, plus: Any, minus: Any) -> ServedModel:
    after = model if plus is None else model.plus(plus)
    return after if minus is None else after.minus(minus)


def caught_up(model: ServedModel, name: str, store: Store) -> ServedModel:
    """The model brought up to date from the store: a newer snapshot, and the sums after it.

    Sums are read before the snapshot: sums deleted in between are in the snapshot.
    """
    while True:
        sums = store.sums_after(name, model.seq)
        if store.snapshot_seq(name) <= model.seq:
            break
        seq, data = store.snapshot(name) or (model.seq, b"")
        model = ServedModel.of_bytes(data, seq)
    if not sums:
        return model
    plus = [unpacked(one.plus) for one in sums if one.plus is not None]
    minus = [unpacked(one.minus) for one in sums if one.minus is not None]
    added, subtracted = (sum(parts[1:], parts[0]) if parts else None for parts in (plus, minus))
    return changed(model, added, subtracted).at(sums[-1].seq)


def outcomes_of(model: ServedModel, pairs: Sequence[Pair]) -> list[Outcome]:
    """What the model predicts for examples that it has not learned yet."""
    if not pairs or not model.classes:
        return [Outcome(canonical(label), "null", 0.0, 0.0) for _, label in pairs]
    contents = [content for content, _ in pairs]
    answers, densities = model.answers(contents), model.log_densities(contents)
    return [
        Outcome(
            canonical(label),
            canonical(answer.likeliest),
            answer.probability_of(label),
            float(answer.probabilities.max()),
            density,
        )
        for (_, label), answer, density in zip(pairs, answers, densities, strict=True)
    ]
