"""Plain requests for predictions are answered on a short way, with the same responses as on the general one."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

pytest.importorskip("httptools", reason="connections are uvicorn's own without httptools")

import uvicorn
from uvicorn.server import ServerState

from deciban.server import answering
from deciban.server.app import make_app
from deciban.server.http import HttpServer, connections_of
from deciban.server.tokens import SCOPES, make_token

from .api import Api

TEXT = {"id": "a", "text": "win cash now"}
PIECES_APART = 0.02  # seconds


def request(document=TEXT, path="/v1/models/texts/predict", raw=None, version="1.1", **fields):
    body = json.dumps(document).encode() if raw is None else raw
    plain = {"host": "localhost", "content-type": "application/json", "content-length": str(len(body))}
    fields = plain | {name.replace("_", "-"): value for name, value in fields.items()}
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join([f"POST {path} HTTP/{version}", *lines, "", ""]).encode() + body


class Connected:
    """A server on a loopback port in this thread; `general` counts the requests that went the general way."""

    def __init__(self, api):
        self.general = 0
        guard = make_app(api.service)

        async def app(scope, receive, send):
            self.general += 1
            await guard(scope, receive, send)

        connections = connections_of(guard)
        self.config = uvicorn.Config(app, http=connections, server_header=False, date_header=False, proxy_headers=False)
        self.config.load()
        self.server = HttpServer(self.config, seconds=0.1)
        self.server.server_state = self.state = ServerState()

    async def __aenter__(self):
        def made():
            return self.config.http_protocol_class(config=self.config, server_state=self.state, app_state={})

        loop = asyncio.get_running_loop()
        self.listening = await loop.create_server(made, "127.0.0.1", 0)
        self.port = self.listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error):
        self.listening.close()

    async def asked(self, *pieces, count=1):
        """The responses to bytes that are sent in pieces, and whether the connection stays open."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(PIECES_APART if len(pieces) > 1 else 0)
        responses = [await one_response(reader) for _ in range(count)]
        try:
            is_open = await asyncio.wait_for(reader.read(1), 0.02) != b""
        except TimeoutError:
            is_open = True
        writer.close()
        return responses, is_open


async def one_response(reader):
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
        body = await reader.readexactly(int(fields["content-length"]))
    return head.split(b" ")[1], fields, json.loads(body) if body.startswith(b"{") else body


def run(api, work):
    async def inside():
        async with Connected(api) as server:
            return await work(server)

    return api.runner.run(inside())


PLAIN = {
    "a text": request(),
    "several": request({"examples": [TEXT, {"id": "b", "text": "lunch at noon"}]}),
    "letters of a script": request({"id": "c", "text": "обед в полдень 午餐"}),
    "a row": request({"id": "d", "row": {"size": 1.5, "colour": "red", "legs": 4}}, path="/v1/models/rows/predict"),
    "the connection is kept": request(connection="Keep-Alive", user_agent="a/1.0 (b; c)", accept="*/*"),
}
WRONG = {"an unknown column": request({"id": "f", "row": {"sise": 1.0}}, path="/v1/models/rows/predict")}
GENERAL = {
    "no JSON": request(raw=b"{"),
    "a wrong value in a row": request({"id": "e", "row": {"size": {}}}, path="/v1/models/rows/predict"),
    "an unknown field": request({"txt": "a"}),
    "no model": request(path="/v1/models/other/predict"),
    "another content type": request(content_type="text/plain"),
    "another site": request(sec_fetch_site="cross-site"),
    "another host": request(host="example.org"),
    "the connection is closed": request(connection="close"),
    "version 1.0": request(version="1.0"),
    "a query": request(path="/v1/models/texts/predict?a=b"),
    "escapes": request(path="/v1/models/%74exts/predict"),
    "in chunks": request(raw=b"2\r\n{}\r\n0\r\n\r\n", content_length=None, transfer_encoding="chunked"),
    "twice the same field": request(raw=b"{}").replace(b"host:", b"Host: localhost\r\nhost:"),
    "no printable character": request(user_agent="a\x01b"),
    "folded": request(user_agent="a\r\n b"),
    "another length": request(content_length="1_0"),
}


@pytest.mark.parametrize("name", [*PLAIN, *WRONG, *GENERAL])
def test_both_ways_give_the_same_response(one_api, name):
    """In two pieces, a request always goes the general way."""
    data = (PLAIN | WRONG | GENERAL)[name]

    async def work(server):
        whole = await server.asked(data)
        ways = server.general
        return ways, whole, await server.asked(data[:7], data[7:])

    ways, whole, in_pieces = run(one_api, work)
    assert whole == in_pieces
    (status, _, body), is_open = whole[0][0], whole[1]
    if name in GENERAL:
        assert ways == 1 or body == b"Invalid HTTP request received."
    else:
        assert (ways, status, is_open) == (0, b"200" if name in PLAIN else b"422", True)


def test_requests_on_one_connection_are_answered_in_turn(one_api):
    texts = [request({"id": str(i), "text": "cash " * i}) for i in range(1, 6)]

    async def work(server):
        together, _ = await server.asked(b"".join(texts), count=5)  # the general way
        apart, _ = await server.asked(*texts, count=5)
        early, _ = await server.asked(texts[0], texts[1] + texts[2] + texts[3][:50], texts[3][50:] + texts[4], count=5)
        return together, apart, early

    together, apart, early = run(one_api, work)
    assert together == apart == early
    assert [one[2]["predictions"][0]["id"] for one in apart] == list("12345")


def test_a_request_that_comes_early_waits(one_api, monkeypatch):
    def slow(model, requests):
        time.sleep(0.05)
        return 0.05, answering.answer_each(model, requests)

    monkeypatch.setattr(answering, "timed", slow)  # then batches are scored in threads

    async def work(server):
        return await server.asked(request(), request({"id": "b", "text": "lunch"}), request(raw=b"{"), count=3)

    responses, is_open = run(one_api, work)
    assert [status for status, _, _ in responses] == [b"200", b"200", b"400"]
    assert is_open


def test_tokens_are_checked_on_both_ways(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite", auth=True) as api:
        secrets = {scope: make_token(api.service.store, scope, scope) for scope in SCOPES}
        requests = [request(authorization=f"Bearer {secret}") for secret in (*secrets.values(), "deciban_wrong")]

        async def work(server):
            found = [await server.asked(one) for one in [request(), *requests, *requests]]
            assert server.general == 1 + 1 + 2, "without a token, the first look at the store, and twice a wrong one"
            return [responses[0][0] for responses, _ in found]

        assert run(api, work) == [b"401", b"200", b"200", b"200", b"401", b"200", b"200", b"200", b"401"]


def test_limits_hold_on_both_ways(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite", rate=2.0, max_body=200) as api:

        async def work(server):
            statuses = [(await server.asked(request()))[0][0][0] for _ in range(6)]
            return statuses, (await server.asked(request({"text": "a" * 300})))[0][0][0]

        statuses, large = run(api, work)
    assert statuses == [b"200"] * 4 + [b"429"] * 2
    assert large in (b"413", b"429")


@pytest.mark.parametrize(
    ("error", "status", "code"), [(ValueError("no"), b"422", "invalid"), (OSError(), b"500", "fault")]
)
def test_errors_of_a_model_are_responses(one_api, monkeypatch, error, status, code):
    def fails(*_):
        raise error

    monkeypatch.setattr(type(one_api.service.live("texts").current), "answers", fails)
    ((found, fields, body),), is_open = run(one_api, lambda server: server.asked(request()))
    assert (found, body["error"]["code"], is_open) == (status, code, True)
    assert fields["x-frame-options"] == "DENY"


def test_it_takes_too_long(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(answering, "timed", lambda *_: (time.sleep(0.3), []))
    with Api(texts, tmp_path / "s.sqlite", timeout=0.05) as api:
        ((status, _, body),), _ = run(api, lambda server: server.asked(request()))
    assert (status, body["error"]["code"]) == (b"503", "timeout")


@pytest.fixture
def held(monkeypatch):
    """An event without which no batch is scored, since all are scored in threads."""
    event, timed = threading.Event(), answering.timed
    monkeypatch.setattr(answering, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(answering, "timed", lambda *given: (event.wait(20), timed(*given))[1])
    yield event
    event.set()


def test_a_stopping_server_answers_what_it_accepted(one_api, held):
    async def work(server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request())
        await asyncio.sleep(0.05)
        (connection,) = server.state.connections
        assert connection.quick is not None
        for now in (0.0, 60.0):
            server.server.close_stuck(now)  # it is being answered: not stuck
        connection.shutdown()
        held.set()
        response, rest = await one_response(reader), await reader.read()
        writer.close()
        return response[0], rest

    assert run(one_api, work) == (b"200", b"")


def test_a_client_that_leaves_is_not_answered(one_api, held, monkeypatch):
    done = []
    monkeypatch.setattr(one_api.service, "answered", lambda *given: done.append(given))

    async def work(server):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request())
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.sleep(0.05)
        assert not server.state.connections
        held.set()
        await asyncio.sleep(0.05)

    run(one_api, work)
    assert not done


def test_requests_are_counted(one_api):
    def requests():
        return sum(
            float(line.rpartition(" ")[2])
            for line in one_api.service.metrics.text([]).splitlines()
            if line.startswith('deciban_requests_total{route="predict"')
        )

    before = requests()
    run(one_api, lambda server: server.asked(request()))
    assert requests() == before + 1


def test_a_client_that_does_not_read_is_not_answered_for_ever(one_api):
    several = request({"examples": [{"id": str(i), "text": "cash"} for i in range(200)]})

    async def work(server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1000)
        (connection,) = server.state.connections or (await asyncio.sleep(0.05)) or server.state.connections
        for _ in range(400):
            writer.write(several)
            await asyncio.sleep(0.001)
            if connection.flow.write_paused:
                break
        for _ in range(20):
            writer.write(several)
            await asyncio.sleep(0.001)
        size = connection.transport.get_write_buffer_size()
        writer.transport.abort()
        del reader
        return size

    assert run(one_api, work) < 1_000_000


def test_a_response_that_cannot_be_made_ends_the_connection(one_api, monkeypatch):
    def fails(*_):
        raise ValueError("no")

    monkeypatch.setattr(one_api.service, "answered", fails)

    async def work(server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request())
        found = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return found

    assert run(one_api, work) == b""
