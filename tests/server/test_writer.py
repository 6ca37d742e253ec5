"""Which changes are written together, in which order, and when the writer rests."""

from __future__ import annotations

import contextlib
import time

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from deciban.server import writer
from deciban.server.changes import Change
from deciban.server.examples import Example
from deciban.server.problems import RequestError
from deciban.text import answers

from .api import Api


def change(ids, model="texts", kind="learn", content=None):
    return Change(model, kind, [Example(id_, content) for id_ in ids], "me")


def idle_writer(models=()):
    return writer.ChangeWriter(None, None, {one.name: one for one in models}, most=1000, snapshot_seconds=60.0)


def groups(changes, most=writer.MAX_EXAMPLES):
    """What is written in each transaction."""
    idle, out = idle_writer(), []
    for one in changes[1:]:
        idle.submit(one)
    first = changes[0]
    while first is not None:
        out.append(idle._with_others(first, most))
        waiting = bool(idle._taken) or not idle._queue.empty()
        first = (idle._taken.popleft() if idle._taken else idle._queue.get()) if waiting else None
    return out


def test_a_change_of_the_same_example_waits_and_others_do_not():
    first, again, other, third = change("a"), change("a"), change("b"), change("a")
    assert groups([first, again, other, third]) == [[first, other], [again], [third]]


def test_a_change_that_waits_holds_back_later_ones_of_its_examples():
    first, both, last = change("a"), change("ab"), change("b")
    assert groups([first, both, last]) == [[first], [both], [last]]


def test_other_models_and_forgetting_by_content_are_written_alone():
    first, other, forget, last = (
        change("a"),
        change("b", "rows"),
        change("c", kind="forget", content={"text": "c"}),
        change("d"),
    )
    assert groups([first, other, forget, last]) == [[first], [other], [forget], [last]]


@given(st.lists(st.sets(st.sampled_from("abcde"), min_size=1, max_size=3), min_size=1, max_size=20), st.integers(1, 6))
def test_every_change_is_written_once_and_those_of_an_example_in_order(sets, most):
    changes = [change(sorted(ids)) for ids in sets]
    found = groups(changes, most)
    assert sorted(id(one) for group in found for one in group) == sorted(map(id, changes))
    place = {id(one): i for i, group in enumerate(found) for one in group}
    for group in found:
        ids = [example.id for one in group for example in one.examples]
        assert len(ids) == len(set(ids))
    for id_ in "abcde":
        order = [place[id(one)] for one in changes if any(example.id == id_ for example in one.examples)]
        assert order == sorted(order)


def test_the_writer_rests_only_while_many_predictions_are_asked_for(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    live = writer.LiveModel("texts", None, None, None)
    idle = idle_writer([live])
    now = time.monotonic()
    idle._wrote = now - 0.05, now, 0
    assert not idle._rested()
    live.answered = 1000
    assert idle._rested()
    assert len(slept) == 1
    assert 0.0 < slept[0] <= 0.15
    idle._wrote = now - 10.0, now, 0
    live.answered = 10**6
    assert idle._rested()
    assert slept[1] <= writer.MAX_REST_SECONDS
    idle._wrote = now - 5.0, now - 4.0, 0
    assert idle._rested(), "still busy, but the last transaction was long ago"
    assert len(slept) == 2


def test_changes_of_one_example_do_not_fill_the_memory():
    idle, accepted = writer.ChangeWriter(None, None, {}, most=10, snapshot_seconds=60.0), 0
    for _ in range(20):
        with contextlib.suppress(RequestError):
            for _ in range(100):
                idle.submit(change("x"))
                accepted += 1
        assert idle.waiting == 10
        assert len(idle._with_others(idle._taken.popleft() if idle._taken else idle._queue.get(), 16)) == 1
    assert accepted == 10 + 19


def test_work_that_was_cancelled_is_left_out():
    idle = idle_writer()
    done = idle.call(lambda: 1 / 0)
    assert done.cancel()
    idle._queue.get()()


def test_a_new_model_is_as_ready_for_many_texts_as_the_one_before(texts, tmp_path, monkeypatch):
    with Api(texts, tmp_path / "store.sqlite") as api:
        live = api.service.live("texts")
        monkeypatch.setattr(answers, "RECORDS_PER_ITEM", 1)  # so that five texts do not make them
        words = [{"text": f"some word{i}"} for i in range(5)]
        expected = [live.current.answers([one])[0].probabilities for one in words]
        first = live.current.scorer.model
        assert first.answers().records is None, "few texts were asked for"
        api.post("/v1/models/texts/learn", {"id": "a", "text": "one more", "label": live.current.classes[0]})
        assert live.current.scorer.model.answers().records is None
        live.current.scorer.model.answers().asked = live.current.scorer.model.sums.n_items
        live.current.answers(words)
        api.post("/v1/models/texts/forget", {"id": "a"})
        assert live.current.scorer.model is not first
        assert live.current.scorer.model.answers().records is not None
        for one, probabilities in zip(live.current.answers(words), expected, strict=True):
            np.testing.assert_allclose(one.probabilities, probabilities, rtol=1e-6)
