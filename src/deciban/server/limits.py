"""Limits on what one caller may send: bytes, examples, requests."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from starlette.requests import Request

from deciban.server.problems import RequestError

MAX_CALLERS = 10_000  # remembered at a time


class RateLimit:
    """A number of units per second and caller, with a burst of a few seconds' worth (token buckets)."""

    def __init__(self, per_second: float, what: str, burst_seconds: float = 2.0) -> None:
        self.per_second, self.what, self.burst = per_second, what, max(1.0, per_second * burst_seconds)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # caller → units left, and when

    def take(self, caller: str, units: int = 1) -> None:
        """Take units; a RequestError if the caller has too few left. Used only in the event loop."""
        if self.per_second <= 0:
            return
        now = time.monotonic()
        left, then = self._left.pop(caller, (self.burst, now))
        left = min(self.burst, left + (now - then) * self.per_second)
        allowed = left >= min(units, self.burst)  # more than a burst at once leaves a debt
        self._left[caller] = (left - units if allowed else left, now)
        if len(self._left) > MAX_CALLERS:
            self._left.popitem(last=False)
        if not allowed:
            raise RequestError(
                "more than {most:g} {what} per second: send them more slowly",
                status=429,
                code="too_fast",
                most=self.per_second,
                what=self.what,
            )


async def body_of(request: Request, most: int, seconds: float) -> bytes:
    """The body of a request; a RequestError if it is too large, or arrives too slowly."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise too_large(most)
    try:
        async with asyncio.timeout(seconds):
            parts, size = [], 0
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(
                        "the connection was closed before the request was complete", status=400, code="closed"
                    )
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise too_large(most)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise RequestError(
            "the request did not arrive within {seconds:g} seconds", status=408, code="too_slow", seconds=seconds
        ) from None


def too_large(most: int) -> RequestError:
    return RequestError("the request is larger than {most:,} bytes: split it", status=413, code="too_large", most=most)
