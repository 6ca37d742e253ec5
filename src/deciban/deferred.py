"""A value that is computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Deferred(Generic[Value]):
    """Computes its value once, in whichever thread asks first, and then drops what it was computed from.

    A copy is the same object, and a pickle has the value.

    >>> later = Deferred(lambda: print("computing") or 42)
    >>> later.value, later.value
    computing
    (42, 42)
    """

    def __init__(self, compute: Callable[[], Value]) -> None:
        self._compute: Callable[[], Value] | None = compute
        self._lock = Lock()

    @classmethod
    def of(cls, value: Value) -> Deferred[Value]:
        """A value that is already there."""
        out = cls(lambda: value)
        out._value, out._compute = value, None
        return out

    @property
    def value(self) -> Value:
        if self._compute is not None:
            with self._lock:
                if self._compute is not None:
                    self._value: Value = self._compute()
                    self._compute = None
        return self._value

    def __reduce__(self) -> Any:
        return Deferred.of, (self.value,)

    def __copy__(self) -> Deferred[Value]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Deferred[Value]:
        return self
