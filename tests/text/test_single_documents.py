"""Models learn and forget single documents by what these change: exactly, as values, and under threads."""

from __future__ import annotations

import pickle
import random
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deciban import TextClassifier
from deciban.errors import ForgetError
from deciban.text import store
from deciban.text.items import BLOCKS
from deciban.text.store import Changed
from deciban.text.sums import TextSums

WORDS = [f"{a}{b}{c}" for a in "bdgk" for b in "aeiou" for c in "lmnrst"]
LABELS = ["ham", "other", "spam"]


def drawn(n: int, seed: int = 0, length: int = 6) -> tuple[list[str], list[str]]:
    """Texts whose words lean towards their labels."""
    rng = random.Random(seed)
    labels = [LABELS[i % 3] for i in range(n)]
    texts = [
        " ".join(
            rng.choice(WORDS[40 * LABELS.index(label) :][:40] if rng.random() < 0.5 else WORDS) for _ in range(length)
        )
        for label in labels
    ]
    return texts, labels


@pytest.fixture(scope="module", params=[{}, {"n_features": 1 << 16}], ids=["strings", "hashed"])
def learned(request) -> TextClassifier:
    """With jointly modelled items."""
    model = TextClassifier(blocks=BLOCKS, **request.param).fit(*drawn(300))
    assert model.model_.sums.common is not None
    return model


def again(model: TextClassifier) -> TextClassifier:
    return pickle.loads(pickle.dumps(model))  # written here; derived values are not in it


def parts(sums: TextSums) -> list[np.ndarray]:
    """The sums, with items in the order of their names."""
    out = [sums.weight, np.array(list(sums.mass.values()))]
    for block, cells in sums.cells.items():
        names = sums.lexicon.names(block, np.arange(cells.size, dtype=np.int32))
        dense = np.zeros((cells.size, len(sums.classes)))
        dense[np.repeat(np.arange(cells.size), np.diff(cells.ptr)), cells.cls] = cells.val
        order = [i for i in sorted(range(len(names)), key=names.__getitem__) if dense[i].any()]
        out += [np.array([names[i] for i in order]), dense[order]]
    if sums.common is not None:
        out += [sums.common.by_class, sums.common.products]
    return out


def check_same_sums(one: TextSums, two: TextSums) -> None:
    for mine, theirs in zip(parts(one), parts(two), strict=True):
        np.testing.assert_array_equal(mine, theirs)


pieces = st.sampled_from([*WORDS[:20], "zebra", "quagga", "日本", "Re: okapi\n", "Zebra zebra"])
singles = st.lists(st.tuples(st.lists(pieces, max_size=6).map(" ".join), st.sampled_from(LABELS)), max_size=8)


@settings(max_examples=3)
@given(learn=singles, data=st.data())
def test_single_documents_are_a_sum(learned, learn, data):
    one_by_one, texts = again(learned), [text for text, _ in learn]
    for text, label in learn:
        one_by_one.partial_fit([text], [label])
    assert not any(texts) or isinstance(one_by_one.model_.sums.store, Changed)
    if learn:
        at_once = again(learned).partial_fit(texts, [label for _, label in learn])
        check_same_sums(one_by_one.model_.sums, at_once.model_.sums)
    asked = texts + drawn(5, 1)[0]
    np.testing.assert_allclose(one_by_one.predict_proba(asked), again(one_by_one).predict_proba(asked), atol=1e-9)
    for text, label in data.draw(st.permutations(learn)):
        one_by_one.forget([text], [label])
    check_same_sums(one_by_one.model_.sums, learned.model_.sums)
    np.testing.assert_allclose(one_by_one.predict_proba(asked), learned.predict_proba(asked), atol=1e-9)


def test_the_short_way_gives_what_the_long_way_gives(learned, monkeypatch):
    documents = [*zip(*drawn(30, 2), strict=True), ("zebra zebra okapi", "ham"), ("Re: quagga\n\nzebra", "spam")]
    short, long = again(learned), again(learned)
    for text, label in documents:
        short.partial_fit([text], [label])
    for text, label in documents[::3]:
        short.forget([text], [label])
    assert isinstance(short.model_.sums.store, Changed)
    monkeypatch.setattr(TextSums, "_changed", lambda *_: None)
    for text, label in documents:
        long.partial_fit([text], [label])
    for text, label in documents[::3]:
        long.forget([text], [label])
    assert not isinstance(long.model_.sums.store, Changed)
    check_same_sums(short.model_.sums, long.model_.sums)
    asked = drawn(10, 3)[0]
    np.testing.assert_allclose(short.predict_proba(asked), long.predict_proba(asked), atol=1e-9)
    for text in asked[:3]:
        mine, theirs = short.explain(text), long.explain(text)
        assert mine.total == pytest.approx(theirs.total, abs=1e-6)
        ours, others = ({name: db for name, _, db in evidence.items} for evidence in (mine, theirs))
        assert ours == pytest.approx(others, abs=1e-6)


def test_many_changes_are_made_flat(learned, monkeypatch):
    monkeypatch.setattr(store, "MIN_CHANGED_CELLS", 100)
    model, seen = again(learned), set()
    for text, label in zip(*drawn(60, 4, 20), strict=True):
        model.partial_fit([text], [label])
        seen.add(type(model.model_.sums.store).__name__)
        changed = model.model_.sums.store
        assert not isinstance(changed, Changed) or not changed.is_large
    assert seen == {"Changed", "Flat"}
    batch = again(learned).partial_fit(*drawn(60, 4, 20))
    check_same_sums(model.model_.sums, batch.model_.sums)


def test_a_refused_document_changes_nothing(learned):
    model = again(learned).partial_fit(["zebra okapi"], ["ham"])
    before, sums = parts(model.model_.sums), model.model_.sums
    for text, label in (("zebra okapi", "spam"), ("zebra zebra okapi quagga", "ham"), ("never seen", "ham")):
        with pytest.raises(ForgetError):
            model.forget([text], [label])
    assert model.model_.sums is sums
    for mine, theirs in zip(parts(sums), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    model.forget(["zebra okapi"], ["ham"])
    check_same_sums(model.model_.sums, learned.model_.sums)


def test_older_values_stay_as_they_were(learned):
    """A value that was changed in two ways has two successors, and each its own sums."""
    model, asked = again(learned), drawn(5, 5)[0]
    values, answers = [model.model_], [model.predict_proba(asked)]
    for text, label in zip(*drawn(80, 6), strict=True):
        model.partial_fit([text], [label])
        values.append(model.model_)
        answers.append(model.predict_proba(asked))
    for at in (0, 3, 40, 79, 80):
        model.model_ = replace(values[at])  # without what it has derived
        np.testing.assert_allclose(model.predict_proba(asked), answers[at], atol=1e-9)
        other = again(model).partial_fit(["zebra"], ["ham"])
        model.partial_fit(["zebra"], ["ham"])
        check_same_sums(model.model_.sums, other.model_.sums)
    model.model_ = replace(values[80])
    np.testing.assert_allclose(model.predict_proba(asked), answers[80], atol=1e-9)


def test_threads_see_whole_models(learned):
    """One thread learns and forgets; what others are answered meanwhile is always the answer of a whole model."""
    texts, labels = drawn(25, 7)
    texts = [f"{text} zebra{number}" for number, text in enumerate(texts)]
    asked = [texts[0], texts[-1], "zebra3 zebra4"]
    steps = [("partial_fit", i) for i in range(25)] + [("forget", i) for i in range(25)]
    serial, whole = again(learned), []
    for how, i in [("partial_fit", None), *steps]:
        if i is not None:
            getattr(serial, how)([texts[i]], [labels[i]])
        whole.append(np.round(serial.predict_proba(asked), 7).tobytes())
    model, done, answers, failed = again(learned), threading.Event(), set(), []

    def ask() -> None:
        try:
            while not done.is_set():
                answers.add(np.round(model.predict_proba(asked), 7).tobytes())
                model.explain(asked[0])
                model.predict(asked)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number, (how, i) in enumerate(steps):
        # Before all and after all are learned an answer is waited for, however late the threads get their turn.
        while number in (0, 25) and len(answers) < 1 + number // 25 and not failed:
            time.sleep(0.001)
        getattr(model, how)([texts[i]], [labels[i]])
    done.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert answers <= set(whole)
    assert len(answers) > 1
    check_same_sums(model.model_.sums, learned.model_.sums)
