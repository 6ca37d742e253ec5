"""Any sequence of learning, correcting and forgetting is the model of what is left."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import deciban

from .api import Api

WORDS = ["cash", "prize", "lunch", "noon", "xylophone"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=0, max_size=4).map(" ".join).map(lambda text: {"text": text})
ROWS = (
    st.fixed_dictionaries(
        {},
        optional={
            "size": st.none() | st.floats(-5, 5) | st.integers(-5, 5),
            "colour": st.sampled_from(["red", "blue", "green", None, 3]),
            "legs": st.integers(2, 5) | st.sampled_from(["4", "3"]),
        },
    )
    .filter(bool)
    .map(lambda row: {"row": row})
)
KINDS = {"texts": (TEXTS, ["ham", "spam"]), "rows": (ROWS, ["cat", "dog"])}


def change(kind):
    contents, labels = KINDS[kind]
    example = st.fixed_dictionaries({"id": st.sampled_from("abcdef")})
    label = st.sampled_from(labels)
    return st.one_of(
        st.tuples(st.just("learn"), st.builds(lambda e, c, y: {**e, **c, "label": y}, example, contents, label)),
        st.tuples(st.just("correct"), st.builds(lambda e, y: {**e, "label": y}, example, label)),
        st.tuples(st.just("correct"), st.builds(lambda e, c, y: {**e, **c, "label": y}, example, contents, label)),
        st.tuples(st.just("forget"), example),
    )


def after(state, kind, body):
    """What a request makes of {id: (content, label)}, by the rules alone; and its status."""
    content = {name: value for name, value in body.items() if name in ("text", "row")}
    before = state.get(body["id"])
    if kind == "learn":
        if before is None:
            return {**state, body["id"]: (content, body["label"])}, 200
        return state, 200 if before == (content, body["label"]) else 409
    if kind == "correct":
        if before is None and not content:
            return state, 404
        return {**state, body["id"]: (content or before[0], body["label"])}, 200
    left = {id_: one for id_, one in state.items() if id_ != body["id"]}
    return left, None  # 404 if it was never there, and otherwise 200


def check(api, name, state, file):
    model = deciban.load(file)
    live = api.service.models[name].current
    for content, label in state.values():
        ((_, X),) = live.batches([content])
        model.partial_fit(X, [label])
    np.testing.assert_array_equal(live.counts, model.class_count_)
    words = [{"text": word} for word in WORDS] if name == "texts" else []
    for content in [*(content for content, _ in state.values()), *words]:
        ((_, X),) = live.batches([content])
        np.testing.assert_allclose(live.scorer.predict_proba(X), model.predict_proba(X), rtol=1e-7, atol=1e-12)
    stored = api.service.store.all_examples(name, -1, 1000)
    assert {one.id: (json.loads(one.content), json.loads(one.label)) for one in stored} == state


@pytest.mark.parametrize("name", list(KINDS))
@given(data=st.data())
def test_any_sequence_is_the_model_of_what_is_left(name, data, files, tmp_path_factory):
    requests = data.draw(st.lists(change(name), max_size=15))
    at = data.draw(st.integers(0, len(requests)))  # where the server is started again
    store, state = tmp_path_factory.mktemp("law") / "s.sqlite", {}
    for part in (requests[:at], requests[at:]):
        with Api({name: files[name]}, store) as api:
            for kind, body in part:
                state, status = after(state, kind, body)
                reply = api.post(f"/v1/models/{name}/{kind}", body)
                assert reply.status == status or (status is None and reply.status in (200, 404)), reply.body
            check(api, name, state, files[name])


@pytest.mark.parametrize("name", list(KINDS))
@given(data=st.data())
def test_requests_at_the_same_time_are_some_sequence(name, data, files, tmp_path_factory):
    """What is left is what the store has, whichever of two conflicting requests came first."""
    requests = data.draw(st.lists(change(name), min_size=2, max_size=10))
    with Api({name: files[name]}, tmp_path_factory.mktemp("law") / "s.sqlite") as api:
        replies = api.together([("POST", f"/v1/models/{name}/{kind}", body) for kind, body in requests])
        assert {reply.status for reply in replies} <= {200, 404, 409}
        stored = api.service.store.all_examples(name, -1, 1000)
        check(api, name, {one.id: (json.loads(one.content), json.loads(one.label)) for one in stored}, files[name])
