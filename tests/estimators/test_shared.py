"""Estimators that threads share."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import deciban
from deciban import Classifier, GaussianNB, MultinomialNB, SpamFilter, TextClassifier
from deciban.estimators import changes

THREADS, BATCHES, ROWS = 4, 15, 4


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns as often as possible, so that one comes between any two steps of another."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(call: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, range(THREADS * BATCHES)))


def numbers(i: int) -> tuple[Any, list[str]]:
    return np.random.default_rng(i).poisson(3.0, (ROWS, 3)).astype(float), ["a", "b", "a", "b"]


def texts(i: int) -> tuple[Any, list[str]]:
    return [f"cash prize {i}", f"lunch at {i}", "win cash", "see you"], ["spam", "ham", "spam", "ham"]


SHARED = [
    pytest.param(MultinomialNB, numbers, id="MultinomialNB"),
    pytest.param(GaussianNB, numbers, id="GaussianNB"),
    pytest.param(Classifier, numbers, id="Classifier"),
    pytest.param(lambda: TextClassifier(reliability=None), texts, id="TextClassifier"),
    pytest.param(SpamFilter, texts, id="SpamFilter"),
]


@pytest.mark.parametrize(("kind", "batch"), SHARED)
def test_no_row_is_lost_that_threads_learn_at_once(kind: Any, batch: Any) -> None:
    model = kind().fit(*batch(0))
    in_threads(lambda i: model.partial_fit(*batch(i)))
    assert model.class_count_.sum() == ROWS * (THREADS * BATCHES + 1)


def test_no_first_batch_is_lost() -> None:
    model = GaussianNB()
    in_threads(lambda i: model.partial_fit(*numbers(i)))
    assert model.class_count_.sum() == ROWS * THREADS * BATCHES


def test_threads_may_forget_and_learn_at_once() -> None:
    model = MultinomialNB().fit(*numbers(0))
    for i in range(THREADS * BATCHES):
        model.partial_fit(*numbers(i))
    in_threads(lambda i: (model.forget if i % 2 else model.partial_fit)(*numbers(i)))
    expected = MultinomialNB().fit(*numbers(0))
    for i in range(0, THREADS * BATCHES, 2):
        expected.partial_fit(*numbers(i)).partial_fit(*numbers(i))
    assert np.array_equal(model.feature_count_, expected.feature_count_)


def test_decay_of_threads_adds_up() -> None:
    model = MultinomialNB().fit(*numbers(0))
    in_threads(lambda _: model.decay(half_life=THREADS * BATCHES))
    assert np.isclose(model.class_count_.sum(), ROWS / 2, rtol=1e-12)


def test_batches_of_engines_are_not_lost(tmp_path: Any) -> None:
    path = str(tmp_path / "rows.csv")
    with open(path, "w") as file:
        file.write("x,z,y\n" + "1.5,2,a\n2.5,1,b\n" * 5)
    model = GaussianNB().fit(path, "y")
    in_threads(lambda _: model.partial_fit(path, "y"))
    assert model.class_count_.sum() == 10 * (THREADS * BATCHES + 1)


def test_documents_that_threads_give_to_a_vectorizer_are_not_lost() -> None:
    vectorizer = deciban.CountVectorizer()
    in_threads(lambda i: vectorizer.partial_fit([f"word{i} and more"]))
    assert len(vectorizer.vocabulary_) == THREADS * BATCHES + 2


def test_an_answer_is_that_of_one_state() -> None:
    """While it is fitted in turn on two classes and on four, no class is taken for one of the other fit."""
    two, four = (np.array([[0.0], [9.0]]), ["a", "z"]), (np.array([[5.0], [6.0], [0.0], [9.0]]), ["f", "g", "m", "y"])
    model = GaussianNB(var_smoothing=0.1).fit(*two)
    done = threading.Event()

    def learn() -> None:
        for i in range(60):
            model.fit(*(two if i % 2 else four))
        done.set()

    def ask() -> set[Any]:
        answers = set()
        while not done.is_set():
            answers.add((tuple(model.predict([[0.0]])), tuple(model.decide([[9.0]], reject=9.0))))
        return answers

    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(ask)
        pool.submit(learn).result()
        answers = {label for pair in asked.result() for answer in pair for label in answer}
    assert answers <= {"a", "z", "m", "y"}, "the classes of one state, numbered as in the other"


def test_answers_do_not_wait_for_learning() -> None:
    """The batches of a fit ask for an answer of another thread, which would wait for ever if learning stopped it."""
    X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 2
    model = Classifier().fit(X + 5.0, y)
    before = model.predict_proba(X[:5])
    answers: list[Any] = []

    def batches() -> Iterator[tuple[Any, Any]]:
        asked = threading.Thread(target=lambda: answers.append(model.predict_proba(X[:5])), daemon=True)
        asked.start()
        asked.join(timeout=60)
        yield X, y

    model.fit_batches(X, y, batches())
    assert len(answers) == 1
    assert np.array_equal(answers[0], before)
    assert not np.array_equal(model.predict_proba(X[:5]), before)


def test_a_model_in_use_can_be_copied_cloned_and_pickled() -> None:
    model = GaussianNB().fit(*numbers(0)).partial_fit(*numbers(1))
    vectorizer = deciban.CountVectorizer().partial_fit(["a word"])
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.partial_fit(*numbers(2))
        assert other.class_count_.sum() == 3 * ROWS
    assert model.class_count_.sum() == 2 * ROWS
    assert clone(model).fit(*numbers(0)).class_count_.sum() == ROWS
    for words in (copy.copy(vectorizer), copy.deepcopy(vectorizer), pickle.loads(pickle.dumps(vectorizer))):
        assert len(words.partial_fit(["another"]).vocabulary_) == 2


def test_an_error_in_one_thread_lets_the_others_go_on() -> None:
    model = MultinomialNB().fit(*numbers(0))

    def learn(i: int) -> None:
        if i % 2:
            model.partial_fit(*numbers(i))
        else:
            with pytest.raises(ValueError, match="features"):
                model.partial_fit(np.zeros((1, 9)), ["a"])

    in_threads(learn)
    assert model.class_count_.sum() == ROWS * (THREADS * BATCHES // 2 + 1)


def test_locks_go_with_their_estimators() -> None:
    model = MultinomialNB().fit(*numbers(0))
    gc.collect()
    before = len(changes.LOCKS)
    for i in range(5):
        clone(model).fit(*numbers(i)).partial_fit(*numbers(i))
    gc.collect()
    assert id(model) in changes.LOCKS
    assert len(changes.LOCKS) == before
