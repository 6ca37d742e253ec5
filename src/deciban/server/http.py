"""The HTTP server: uvicorn's, which also closes connections whose requests do not arrive.

uvicorn closes idle connections between requests, but waits for ever for the first request, and for the rest of one
whose header has begun. So a few thousand clients that send a byte now and then would use up all connections.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import uvicorn

from deciban.server.app import Guard

try:
    import resource
except ImportError:  # no such limits on this system
    resource = None  # type: ignore[assignment]

TICKS = 10  # of uvicorn's, a tenth of a second each, between looks at connections
OTHER_FILES = 64  # open at a time, besides connections: the store, the log, libraries
MAX_CONNECTIONS = 10_000


def max_connections() -> int:
    """How many connections there are files for; the limit of open files is raised to what the system allows."""
    if resource is None:
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_CONNECTIONS + OTHER_FILES
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(1, (most if soft == resource.RLIM_INFINITY else min(soft, most)) - OTHER_FILES)


def connections_of(guard: Guard) -> type[asyncio.Protocol] | str:
    """The class of connections, or uvicorn's name for one that is slower, where httptools is not installed."""
    try:
        from deciban.server.quick import QuickPredictions, QuickProtocol
    except ImportError:
        return "auto"
    return type("Connection", (QuickProtocol,), {"predictions": QuickPredictions(guard)})


class HttpServer(uvicorn.Server):
    """uvicorn's server; the header of a request must arrive within some seconds."""

    def __init__(self, config: uvicorn.Config, seconds: float, announce: Callable[[], None] | None = None) -> None:
        super().__init__(config)
        self.seconds, self.announce = seconds, announce
        self._waiting: dict[Any, tuple[Any, float]] = {}  # connection → its last request, and since when it waits

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started and self.announce is not None:  # it listens
            self.announce()

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS == 0:
            self.close_stuck(time.monotonic())
        return await super().on_tick(counter)

    def close_stuck(self, now: float) -> None:
        """Close connections that have waited too long for a header: not those that are idle, which uvicorn closes."""
        before, self._waiting = self._waiting, {}
        for one in list(self.server_state.connections):
            cycle: Any = one.cycle  # type: ignore[union-attr]  # there are no websockets
            idle = getattr(one, "timeout_keep_alive_task", None) is not None
            answering = (cycle is not None and not cycle.response_complete) or getattr(one, "quick", None) is not None
            if idle or answering:
                continue
            last, since = before.get(one, (cycle, now))
            if last is not cycle:
                since = now
            self._waiting[one] = cycle, since
            if now - since > self.seconds:
                one.transport.close()
