"""Estimators shared by threads: changes are applied one after another, each atomically; predictions never wait."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Lock, RLock
from typing import Any, TypeVar

LOCKS: dict[int, Any] = {}  # by estimator's id; not attributes, which copies and pickles would have to omit
GUARD = Lock()  # held while a lock is made
E = TypeVar("E")
Method = TypeVar("Method", bound=Callable[..., Any])


def lock_of(estimator: Any) -> Any:
    """The lock for changing an estimator, made when first needed and dropped with the estimator."""
    key = id(estimator)
    with GUARD:
        if key not in LOCKS:
            LOCKS[key] = RLock()
            weakref.finalize(estimator, LOCKS.pop, key, None).atexit = False
        return LOCKS[key]


@contextmanager
def changing(estimator: E) -> Iterator[E]:
    """A copy to change, whose state then replaces the estimator's at once; after an error nothing has changed.

    Another thread that changes the estimator waits, so that it starts from the result.
    """
    with lock_of(estimator):
        draft = copy.copy(estimator)
        yield draft
        estimator.__dict__ = dict(vars(draft))


def of_one_state(method: Method) -> Method:
    """Let a method that only reads answer from the state at its start, whatever other threads learn in the meantime."""

    @wraps(method)
    def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(copy.copy(self), *args, **kwargs)

    return answer  # type: ignore[return-value]  # a method with the same parameters
