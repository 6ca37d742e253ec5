"""Plain requests for predictions, answered without the layers that everything else needs.

A request that arrives whole, with nothing unusual in its header, is read here, scored together with those that arrived
at the same time, and its response is written at once. Whatever is unusual or wrong goes the general way, through
uvicorn and Starlette, before anything is done about it here. Both ways give the same responses.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from deciban.errors import DecibanError
from deciban.server.answering import Answered
from deciban.server.app import HEADER_BYTES, Guard, answered, errors, internal_error
from deciban.server.examples import Example, examples_of
from deciban.server.problems import problem_of
from deciban.server.routes import ENCODER, JSON, ROUTES, bearer, parsed_json, predict, predictions
from deciban.server.tokens import EVERYTHING
from deciban.server.writer import LiveModel

PLAIN = re.compile(  # a request, its model, and its header of names and printable characters
    rb"POST /v1/models/([\w.-]+)/predict HTTP/1\.1\r\n((?:[A-Za-z0-9-]+: [!-~][ -~]*\r\n)+)\r\n", re.ASCII
)
# Header fields that change what a request is.
OTHER_WAY = {b"transfer-encoding", b"expect", b"upgrade", b"proxy-connection"}
KEPT_OPEN = b"keep-alive"  # what a connection is, unless its request has another word
JSON_KIND = JSON.encode()
SCOPE = next(route.scope for route in ROUTES if route.handler is predict) or ""


def lines_of(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%b: %b\r\n" % field for field in fields)


END_OF_HEADER = lines_of(HEADER_BYTES) + b"\r\n"


class Quick(NamedTuple):
    """A request that is being answered: when it came, what for, and what ends it."""

    start: float
    live: LiveModel
    examples: Sequence[Example]
    future: asyncio.Future[Answered]
    timer: asyncio.Handle


class QuickPredictions:
    """Reads plain requests for predictions, for all connections."""

    def __init__(self, guard: Guard) -> None:
        self.guard, self.service, self.rates = guard, guard.service, guard.rates

    def begin(self, data: bytes, client: str) -> Quick | None:
        """Begin to answer the request in these bytes; None if it must go the general way."""
        head = PLAIN.match(data)
        if head is None or len(data) - head.end() > self.service.settings.max_body:
            return None
        start = time.perf_counter()
        lines = [line.split(b": ", 1) for line in head[2].split(b"\r\n")[:-1]]
        fields = {name.lower(): value.strip() for name, value in lines}
        plain = len(fields) == len(lines) and OTHER_WAY.isdisjoint(fields)
        if not plain or fields.get(b"content-length") != b"%d" % (len(data) - head.end()):
            return None
        if fields.get(b"connection", KEPT_OPEN).lower() != KEPT_OPEN:
            return None
        if fields.get(b"content-type") != JSON_KIND or self.guard.problem("POST", fields) is not None:
            return None
        try:
            name = self.caller(fields.get(b"authorization", b"").decode("ascii"))
            if name is None:
                return None
            live = self.service.live(head[1].decode("ascii"))
            examples = examples_of(parsed_json(data[head.end() :]), self.service.settings.max_examples)
            self.rates.requests.take(name or client)
            return Quick(start, live, examples, *self.service.answers(live, examples))
        except DecibanError:
            return None

    def caller(self, authorization: str) -> str | None:
        """The name of a caller who may ask for predictions, as far as that is known without a look at the store."""
        if not self.service.settings.auth:
            return EVERYTHING.name
        tokens, secret = self.service.tokens, bearer(authorization)
        caller = tokens.caller(secret) if secret and tokens.fresh else None
        return caller.name if caller is not None and SCOPE in caller.scopes else None

    def end(self, quick: Quick) -> bytes:
        """The response, once there are answers or an error."""
        quick.timer.cancel()
        error = quick.future.exception()
        if error is None:
            model, answers = quick.future.result()
            self.service.answered(quick.live, quick.examples, answers)
            body = ENCODER.encode(predictions(quick.live, model, quick.examples, answers)).encode()
            status, fields = 200, lines_of([(b"content-type", JSON_KIND)])
        else:
            problem = self.service.too_slow() if isinstance(error, TimeoutError) else problem_of(error)  # type: ignore[arg-type]  # Exceptions
            if problem is None:
                errors.error("an internal error", exc_info=error)
            response = answered(problem) if problem is not None else internal_error()
            status, body = response.status_code, bytes(response.body)
            fields = lines_of(field for field in response.raw_headers if field[0] != b"content-length")
        self.guard.observe("POST", "predict", status, time.perf_counter() - quick.start)
        first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-length: {len(body)}\r\n"
        return first.encode() + fields + END_OF_HEADER + body


class QuickProtocol(HttpToolsProtocol):
    """uvicorn's connection, which first looks whether a request is a plain one for predictions."""

    predictions: QuickPredictions  # of the class that is made for a server

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.quick: Quick | None = None
        self.between, self.ending, self.later = True, False, b""  # between requests; the server stops; what came early

    def data_received(self, data: bytes) -> None:
        if self.quick is not None:  # requests are answered in turn
            self.flow.pause_reading()
            self.later += data
            return
        idle = self.between and (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused
        if idle and len(self.connections) < (self.limit_concurrency or len(self.connections) + 1):
            self.quick = self.predictions.begin(data, self.client[0] if self.client else "socket")
        if self.quick is None:
            super().data_received(data)
        else:
            self._unset_keepalive_if_required()
            self.quick.future.add_done_callback(self.answered)

    def answered(self, future: asyncio.Future[Answered]) -> None:
        quick, self.quick = self.quick, None
        if quick is None or self.transport.is_closing():  # nobody waits for it
            return
        if future.cancelled():  # the server stops
            self.transport.close()
            return
        try:
            response = self.predictions.end(quick)
        except Exception:
            errors.exception("an internal error")
            self.transport.close()
            return
        self.transport.write(response)
        self.server_state.total_requests += 1
        if self.ending:
            self.transport.close()
            return
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        if self.later:
            data, self.later = self.later, b""
            self.flow.resume_reading()
            self.data_received(data)

    def on_message_begin(self) -> None:
        self.between = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self.between = True
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.quick is not None:
            self.quick.timer.cancel()
            self.quick.future.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self.quick is None:
            super().shutdown()
        self.ending = True
