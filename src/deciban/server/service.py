"""The server without HTTP: models from files and the store, changes, predictions, retention, metrics."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
import warnings
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from deciban.errors import DataWarning, DecibanError
from deciban.server.answering import Answered, Answering
from deciban.server.changes import Change, Pair
from deciban.server.config import ServerSettings
from deciban.server.examples import Example
from deciban.server.metrics import MetricsTable, Sample
from deciban.server.model import Answer, Content, ServedModel
from deciban.server.problems import RequestError
from deciban.server.quality import RECENT, Quality, by_class, calibration, figures
from deciban.server.recent import RecentDecisions
from deciban.server.store import open_store
from deciban.server.store.base import Store, StoreError
from deciban.server.store.content import ContentGoneError, ContentKeeper
from deciban.server.tokens import TokenTable
from deciban.server.writer import ChangeWriter, LiveModel, caught_up, outcomes_of
from deciban.text.mail import Verdict
from deciban.threads import own_threads

RETENTION_SECONDS = 60.0
RETENTION_BATCH = 200  # examples forgotten at a time
REBUILD_BATCH = 1000  # examples read at a time
STORE_THREADS = 2  # that read the store, so that predictions do not wait for one that hangs
ACTOR = "server"
ONLY_MODEL = "-"  # in place of a name
FEWER = ": try again, with fewer examples"

log = logging.getLogger("deciban.server")

Result = TypeVar("Result")


class Service:
    """Models that predict, and one writer that changes them. Call `start` first and `stop` last."""

    def __init__(self, settings: ServerSettings, store: Store | None = None, *, rebuild: bool = False) -> None:
        if not settings.models:
            raise DecibanError("give at least one model file to serve")
        self.settings, self.metrics, self.started = settings, MetricsTable(), time.time()
        self.store = open_store(settings.store) if store is None else store
        warnings.filterwarnings("error", category=DataWarning)  # the sender must correct a value that cannot be read
        try:
            self.store.hold()
            self.keeper = self._keeper()
            self.models = {name: self._open(name, path, rebuild) for name, path in settings.models.items()}
        except BaseException:
            self.store.close()
            raise
        self.tokens = TokenTable(self.store)
        self.writer = ChangeWriter(
            self.store,
            self.keeper,
            self.models,
            most=settings.max_waiting,
            snapshot_seconds=settings.snapshot_seconds,
        )
        self.pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="deciban-answers")
        self.store_pool = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="deciban-store")
        self.answering = {name: Answering(live, self.pool) for name, live in self.models.items()}
        self.playing = asyncio.Semaphore(1)
        self._ending, self._held = threading.Event(), ExitStack()
        self._retention = threading.Thread(target=self._retain, name="deciban-retention", daemon=True)
        self.ready = False

    # ------------------------------------------------------------------ start and stop

    def start(self) -> None:
        self._held.enter_context(own_threads())  # BLAS threads would compete with ours
        self.writer.start()
        if self.settings.keep_examples or self.settings.keep_days:
            self._retention.start()
        self.ready = True

    def stop(self) -> None:
        """Finish accepted requests, save snapshots, and close the store."""
        self.ready = False
        self._ending.set()
        if self._retention.is_alive():
            self._retention.join()
        self.writer.stop()
        self.pool.shutdown()
        self.store_pool.shutdown()
        self.store.close()
        self._held.close()

    def _keeper(self) -> ContentKeeper:
        """How content is stored: the operator chooses, and the audit log records it."""
        form = self.settings.content
        with self.store.transaction():
            secret = self.store.setting("secret")
            assert secret is not None
            keeper = ContentKeeper.of(form, secret, self.settings.key_file)
            if self.store.setting("content") != form:
                self.store.set("content", form)
                self.store.log("", f"content is kept: {form}", None, ACTOR, time.time())
            newest = self.store.newest_encrypted()
        if newest is not None:
            try:
                keeper.content(newest)
            except ContentGoneError:
                log.warning(
                    "key_file is not the key of the encrypted examples in the store: they cannot be corrected or "
                    "forgotten by their ids, and --rebuild is not possible"
                )
        return keeper

    def _open(self, name: str, path: str, rebuild: bool) -> LiveModel:
        """A model from the store, or from its file if the store does not have it yet."""
        with open(path, "rb") as file:
            data = file.read()
        digest = hashlib.sha256(data).hexdigest()
        with self.store.transaction():
            known = self.store.snapshot(name)
            if known is None or rebuild:
                model = self._begin(name, path, data, rebuild)
                self.store.set(f"file:{name}", digest)
            else:
                model = caught_up(ServedModel.of_bytes(known[1], known[0]), name, self.store)
                if self.store.setting(f"file:{name}") != digest:
                    log.warning(
                        "%s has changed since the store was created: the store's model is served; pass --rebuild to "
                        "start from the file and learn the store's examples again",
                        path,
                    )
        quality = Quality(self.store.outcomes(name, self.settings.quality_window), self.settings.quality_window)
        live = LiveModel(name, model, quality, RecentDecisions(self.settings.recent, self.settings.recent_content))
        live.sums_since = int(self.store.last_seq(name) >= 0)
        live.changed = self.store.last_change(name)
        return live

    def _begin(self, name: str, path: str, data: bytes, rebuild: bool) -> ServedModel:
        """The model from a file, with all examples of the store learned again; saves a first snapshot."""
        model = ServedModel.of_bytes(data, name=path)
        count = 0
        for contents, labels in self._stored_pairs(name):
            try:
                model, count = model.plus(model.sums_of(contents, labels)), count + len(labels)
            except DecibanError as error:
                raise DecibanError(
                    "{path!r} cannot learn the examples that the store has of {name}: {why}. Serve it under another "
                    "name, as in NAME={path}",
                    path=path,
                    name=name,
                    why=str(error),
                ) from None
        seq = self.store.log(name, "rebuild" if rebuild else "begin", None, ACTOR, time.time())
        self.store.put_snapshot(name, seq, model.to_bytes(), time.time())
        if rebuild:
            log.info("%s was rebuilt from its file and %d examples", name, count)
        return model.at(seq)

    def _stored_pairs(self, name: str) -> Iterator[tuple[list[Content], list[Any]]]:
        after = -1
        while batch := self.store.all_examples(name, after, REBUILD_BATCH):
            try:
                contents = [self.keeper.content(one) for one in batch]
            except ContentGoneError as error:
                raise ContentGoneError(
                    "the examples of {name} cannot be learned again: the content of {value!r} is not stored, or is "
                    "encrypted with another key",
                    name=name,
                    value=error.value,
                ) from None
            yield contents, [json.loads(one.label) for one in batch]
            after = batch[-1].seq

    def _retain(self) -> None:
        """Forget the oldest examples beyond the retention limits."""
        while not self._ending.is_set():
            for name in self.models:
                try:
                    while self._forget_oldest(name) == RETENTION_BATCH and not self._ending.is_set():
                        pass
                except Exception as error:
                    why = error if isinstance(error, StoreError) else type(error).__name__  # others may quote content
                    log.error("old examples of %s could not be forgotten: %s", name, why)  # noqa: TRY400 - the same
            self._ending.wait(RETENTION_SECONDS)

    def _forget_oldest(self, name: str) -> int:
        ids: list[str] = []
        if self.settings.keep_days:
            ids = self.store.oldest(name, RETENTION_BATCH, time.time() - self.settings.keep_days * 86_400)
        if self.settings.keep_examples and not ids:
            beyond = self.store.count(name) - self.settings.keep_examples
            ids = self.store.oldest(name, min(beyond, RETENTION_BATCH)) if beyond > 0 else []
        if ids:
            change = Change(name, "forget", [Example(id_, None) for id_ in ids], "retention")
            self.writer.submit(change)
            change.done.result()
        return len(ids)

    # ------------------------------------------------------------------ models

    def live(self, name: str) -> LiveModel:
        """A model by its name; "-" is the only one that there is."""
        if name == ONLY_MODEL and len(self.models) == 1:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise RequestError(
                "there is no model {value!r}: there are {names}",
                status=404,
                code="unknown_model",
                value=name,
                names=", ".join(self.models),
            )
        return self.models[name]

    def describe(self, live: LiveModel) -> dict[str, Any]:
        """What a model is and has learned. Reads the store."""
        model = live.current
        return {
            "name": live.name,
            **model.describe(),
            "version": model.seq,
            "changed": live.changed,
            "examples": self.store.count(live.name),
            "snapshot": self.store.snapshot_size(live.name),
            "content": self.settings.content,
            "alarms": [alarm.to_dict() for alarm in self.alarms(live)],
        }

    def quality(self, live: LiveModel) -> dict[str, Any]:
        prior, classes = self._prior(live)
        return {"model": live.name, **live.quality.to_dict(prior, classes)}

    def alarms(self, live: LiveModel) -> list[Any]:
        return live.quality.alarms(*self._prior(live))

    def _prior(self, live: LiveModel) -> tuple[Any, list[Any]]:
        model = live.current
        return (np.exp(model.scorer.model.log_prior) if model.classes else np.zeros(0)), model.classes

    # ------------------------------------------------------------------ answers

    async def predict(self, live: LiveModel, examples: Sequence[Example]) -> tuple[ServedModel, list[Answer]]:
        future, timer = self.answers(live, examples)
        try:
            model, answers = await future
        except TimeoutError:
            raise self.too_slow() from None
        finally:
            timer.cancel()
        self.answered(live, examples, answers)
        return model, answers

    def answers(self, live: LiveModel, examples: Sequence[Example]) -> tuple[asyncio.Future[Answered], asyncio.Handle]:
        """What answers examples, and what ends that with a TimeoutError after a while, unless it is cancelled."""
        future = self.answering[live.name].answers([example.content or {} for example in examples])
        timer = asyncio.get_running_loop().call_later(self.settings.timeout, expire, future)  # quicker than wait_for
        return future, timer

    def answered(self, live: LiveModel, examples: Sequence[Example], answers: Sequence[Answer]) -> None:
        """Record the answers to examples."""
        contents = [example.content or {} for example in examples]
        live.last_content = contents[-1]
        live.answered += 1
        live.recent.add([example.id for example in examples], contents, answers, time.time())
        live.quality.answered(answers)
        self.metrics.count("deciban_examples_total", len(examples), model=live.name, what="classified")

    async def verdict(self, live: LiveModel, example: Example, most: int) -> Verdict:
        """What a filter writes into a mail, with its strongest evidence."""
        model, (answer,) = await self.predict(live, [example])

        def work() -> Verdict:
            ((_, X),) = model.batches([example.content or {}])
            return model.scorer.verdict(X, answer.probabilities[None], live.name, model.seq, most)

        return await self.in_thread(work)  # type: ignore[no-any-return]  # as `work`

    async def in_thread(self, work: Any, *given: Any) -> Any:
        """Run something slow outside the event loop."""
        return await self.in_time(asyncio.get_running_loop().run_in_executor(self.pool, work, *given))

    async def from_store(self, work: Any, *given: Any) -> Any:
        """Run something that reads the store."""
        return await self.in_time(asyncio.get_running_loop().run_in_executor(self.store_pool, work, *given))

    async def in_time(self, work: Awaitable[Result], advice: str = FEWER) -> Result:
        """The same, within the time limit of requests."""
        try:
            return await asyncio.wait_for(work, self.settings.timeout)
        except TimeoutError:
            raise self.too_slow(advice) from None

    def too_slow(self, advice: str = FEWER) -> RequestError:
        return RequestError(
            "it took longer than {seconds:g} seconds{advice}",
            advice=advice,
            status=503,
            code="timeout",
            seconds=self.settings.timeout,
        )

    def evaluate(self, live: LiveModel, examples: Sequence[Example]) -> dict[str, Any]:
        """Evaluate the model on labelled examples, without learning them."""
        model = live.current
        pairs: list[Pair] = [
            (example.content or {}, model.label_of(example.label, True, row)) for row, example in enumerate(examples)
        ]
        outcomes = outcomes_of(model, pairs)
        return {
            "model": live.name,
            "version": model.seq,
            **figures(outcomes),
            "by_class": by_class(outcomes),
            "calibration": calibration(outcomes),
        }

    # ------------------------------------------------------------------ changes

    async def change(self, live: LiveModel, kind: str, examples: Sequence[Example], actor: str) -> list[dict[str, Any]]:
        """Learn, correct or forget: when this returns, the change is in the store and in the model."""
        recent = [replace(one, recent=live.recent.content(one.id)) if one.given_id else one for one in examples]
        change = Change(live.name, kind, recent, actor)
        self.writer.submit(change)
        done = await asyncio.wrap_future(change.done)
        for one in done:
            self.metrics.count("deciban_examples_total", model=live.name, what=one["status"])
        return done

    async def upload(self, live: LiveModel, data: bytes, actor: str, examples: str | None) -> None:
        """Replace a model with a model file, which must read the same kind of examples.

        `examples` is "contained" if the file has learned those of the store, or "learn" if it must learn them.
        """

        def work() -> None:
            model = ServedModel.of_bytes(data)
            if model.takes != live.current.takes:
                raise RequestError(
                    "the file is a model of {new}, but {name} is one of {old}",
                    code="bad_model_file",
                    new=model.takes,
                    name=live.name,
                    old=live.current.takes,
                )
            if examples is None and self.store.count(live.name):
                raise RequestError(
                    "the store has examples of {name}: add ?examples=contained if the file has learned them, or "
                    "?examples=learn if it has not",
                    code="examples",
                    name=live.name,
                )
            self.writer.replace_model(live, model, actor, self._stored_pairs(live.name) if examples == "learn" else ())

        await asyncio.wrap_future(self.writer.call(work))

    # ------------------------------------------------------------------ health

    def gauges(self) -> Iterator[Sample]:
        """Current values, for Prometheus."""
        yield "deciban_up", {}, float(self.writer.healthy)
        yield "deciban_waiting_changes", {}, float(self.writer.waiting)
        for name, live in self.models.items():
            model, own = live.current, {"model": name}
            yield "deciban_model_seq", own, float(model.seq)
            if live.changed is not None:
                yield "deciban_model_changed_timestamp_seconds", own, live.changed
            for label, weight in zip(model.classes, model.counts, strict=True):
                yield "deciban_model_examples", own | {"class": str(label)}, weight
            recent = figures(live.quality.window()[-RECENT:])
            for figure in ("accuracy", "log_loss", "calibration_error"):
                if (value := recent[figure]) is not None:
                    yield f"deciban_quality_{figure}", own, float(value)
            raised = {alarm.code for alarm in self.alarms(live)}
            for code in ("accuracy", "log_loss", "overconfident", "drift", "class_shares"):
                yield "deciban_alarm", own | {"code": code}, float(code in raised)


def expire(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
