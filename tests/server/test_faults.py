"""What a server does when disks fill up, stores are away, clocks jump, clients are slow, and requests are malformed.

Each test runs servers as people do, in processes of their own, on loopback.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from deciban.client import ServerError
from deciban.server import tokens
from deciban.server.store.base import StoreError
from deciban.server.store.sqlite import SqliteStore
from deciban.server.tokens import make_token

from .api import Api
from .running import Running

LEARN, PREDICT = "/v1/models/texts/learn", "/v1/models/texts/predict"
MALFORMED = 10_000


def learned(client, ids, text="cash prize"):
    """Learn until one is refused: the acknowledged ids, and the error."""
    done = []
    for id_ in ids:
        try:
            client.learn(f"{text} {id_}", "spam", id=id_)
        except ServerError as error:
            return done, error
        done.append(id_)
    return done, None


def stored_ids(path):
    store = SqliteStore(str(path))
    out = [one.id for one in store.all_examples("texts", -1, 1 << 30)]
    store.close()
    return out


# ---------------------------------------------------------------------- the store


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("a small disk can be mounted only by root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.slow
def test_the_disk_is_full_and_then_it_is_not(texts, small_disk):
    with Running(texts["texts"], small_disk / "s.sqlite") as server:
        before, error = learned(server.client, map(str, range(20)))
        assert error is None
        filler = small_disk / "filler"
        with filler.open("wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        some, error = learned(server.client, (f"full-{i}" for i in range(5000)), "a long text " * 50)
        assert (error.status, error.code) == (503, "store_unavailable")
        assert "full" in str(error)
        assert server.client.predict("win cash")["label"] == "spam", "predictions continue"
        time.sleep(2.5)  # it tries to write by itself, and cannot
        assert not server.client.ready()
        filler.unlink()
        end = time.monotonic() + 20
        while not server.client.ready() and time.monotonic() < end:
            time.sleep(0.1)
        after, error = learned(server.client, map(str, range(20, 40)))
        assert error is None, "it has recovered without a restart"
        counts = server.client.describe()["counts"]
        server.stop()
    ids = stored_ids(small_disk / "s.sqlite")
    assert sorted(ids) == sorted([*before, *some, *after]), "all that was acknowledged, and nothing else"
    assert sum(counts) == 12 + len(ids)
    with Running(texts["texts"], small_disk / "s.sqlite") as server:
        assert server.client.describe()["counts"] == counts


@pytest.mark.slow
def test_the_folder_of_the_store_goes_away_and_comes_back(texts, tmp_path):
    folder, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    folder.mkdir()
    with Running(texts["texts"], folder / "s.sqlite") as server:
        before, _ = learned(server.client, map(str, range(5)))
        folder.rename(elsewhere)
        some, error = learned(server.client, (f"away-{i}" for i in range(5)))
        assert error is None or (error.status, error.code) == (503, "store_unavailable")
        assert server.client.predict("win cash")["label"] == "spam"
        elsewhere.rename(folder)
        end = time.monotonic() + 20
        after, error = learned(server.client, ["back"])
        while error is not None and time.monotonic() < end:
            time.sleep(0.2)
            after, error = learned(server.client, ["back"])
        assert error is None
        server.stop()
    assert sorted(stored_ids(folder / "s.sqlite")) == sorted([*before, *some, *after])


class Relay(threading.Thread):
    """A connection to a database that can be cut, or hang."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.to, self.hangs, self.open = port, threading.Event(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            self.open += [client, server]
            for one, two in ((client, server), (server, client)):
                threading.Thread(target=self.copy, args=[one, two], daemon=True).start()

    def copy(self, one, two):
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                while self.hangs.is_set():
                    time.sleep(0.01)
                two.sendall(data)
        for end in (one, two):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def again(self):
        relay = Relay.__new__(Relay)
        threading.Thread.__init__(relay, daemon=True)
        relay.to, relay.hangs, relay.open, relay.port = self.to, threading.Event(), [], self.port
        relay.listener = socket.create_server(("127.0.0.1", self.port))
        relay.start()
        return relay


@pytest.mark.slow
def test_a_database_that_hangs_or_is_gone_delays_no_prediction(texts, postgres):
    with postgres.connect(autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS hangs")
        connection.execute("CREATE DATABASE hangs")
    relay = Relay(postgres.port)
    relay.start()
    url = f"postgresql://{postgres.user}:{postgres.password}@127.0.0.1:{relay.port}/hangs"
    with Api(texts, url, auth=True, timeout=3.0) as api:
        api.token = make_token(api.service.store, "t", "admin")
        assert api.post(LEARN, {"id": "a", "text": "cash", "label": "spam"}).status == 200
        relay.hangs.set()
        time.sleep(tokens.REFRESH_SECONDS)
        assert api.post(LEARN, {"id": "b", "text": "prize", "label": "spam"}).error["code"] == "timeout"
        replies = api.together([("GET", "/v1/models/texts", {})] * 4 + [("POST", PREDICT, {"text": "cash"})] * 20)
        assert {reply.status for reply in replies[4:]} == {200}, "predictions, with a token, continue"
        assert {reply.status for reply in replies[:4]} == {503}
        relay.hangs.clear()
        end = time.monotonic() + 20
        while (reply := api.post(LEARN, {"id": "b", "text": "prize", "label": "spam"})).status != 200:
            assert time.monotonic() < end
        relay.cut()
        time.sleep(tokens.REFRESH_SECONDS)
        reply = api.post(LEARN, {"id": "c", "text": "win", "label": "spam"})
        assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
        assert api.post(PREDICT, {"text": "cash"}).status == 200
        assert api.get("/readyz").status == 503
        relay = relay.again()
        assert api.post(LEARN, {"id": "c", "text": "win", "label": "spam"}).status == 200
        assert api.get("/v1/models/texts").json["counts"] == [6.0, 9.0], "each was learned once"
        until_ready(api)
    relay.cut()


def until_ready(api):
    end = time.monotonic() + 20
    while api.get("/readyz").status != 200:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_predictions_go_on_without_the_tokens_store(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "REFRESH_SECONDS", 0.0)
    with Api(texts, tmp_path / "s.sqlite", auth=True) as api:
        secret = make_token(api.service.store, "t", "read")

        def away():
            raise StoreError("away")

        read = api.service.store.tokens
        api.token = secret
        api.service.store.tokens = away
        reply = api.post(PREDICT, {"text": "cash"})
        assert (reply.status, reply.error["code"]) == (503, "store_unavailable"), "no token is known yet"
        api.service.store.tokens = read
        assert api.post(PREDICT, {"text": "cash"}).status == 200
        api.service.store.tokens = away
        assert api.post(PREDICT, {"text": "cash"}).status == 200
        api.token = "deciban_unknown"
        assert api.post(PREDICT, {"text": "cash"}).status == 401


# ---------------------------------------------------------------------- the clock


def test_the_clock_jumps(texts, tmp_path, monkeypatch):
    """Only times of the log follow it; order, limits, snapshots and what was learned do not."""
    real, jump = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    ids = []
    with Api(texts, tmp_path / "s.sqlite", keep_examples=1000, rate=1000.0) as api:
        for years in (0, 10, -10, 0, -60):
            jump = years * 365.25 * 86_400
            reply = api.post(LEARN, {"id": str(len(ids)), "text": "cash", "label": "spam"})
            assert reply.status == 200
            ids.append(str(len(ids)))
            assert api.post(PREDICT, {"text": "cash"}).status == 200
            for path in ("/readyz", "/metrics", "/v1/models", "/v1/models/texts/quality", "/v1/models/texts/recent"):
                assert api.get(path).status == 200, path
        assert [line["id"] for line in api.get("/v1/models/texts/log").json["log"] if line["id"]] == ids
    with Api(texts, tmp_path / "s.sqlite") as api:
        assert api.get("/v1/models/texts").json["counts"] == [6.0, 11.0]
        assert [one.id for one in api.service.store.all_examples("texts", -1, 10)] == ids


@pytest.mark.slow
def test_the_clock_of_a_process_jumps(texts, tmp_path, monkeypatch):
    """The same with the clocks of a whole process, as an operator changes them."""
    libraries = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    if not libraries:
        pytest.skip("libfaketime is not installed: apt-get install faketime")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    monkeypatch.setenv("LD_PRELOAD", str(libraries[0]))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    with Running(texts["texts"], tmp_path / "s.sqlite") as server:
        for i, offset in enumerate(["+0", "+3650d", "-3650d", "+1d"]):
            clock.write_text(offset)
            server.client.learn("cash", "spam", id=str(i))
            assert server.client.predict("win cash")["label"] == "spam"
            assert server.client.ready()
        times = [line["time"] for line in server.client.log() if line["kind"] == "learn"]
        assert times[1] - times[0] > 9 * 365 * 86_400, "the clock did jump"
        assert times[2] < times[0]
        assert server.client.describe()["counts"] == [6.0, 10.0]
        server.stop()


# ---------------------------------------------------------------------- clients


@pytest.mark.slow
def test_slow_clients_are_closed_and_others_are_served(texts, tmp_path, monkeypatch):
    """Connections that say nothing, and headers and bodies that arrive a byte at a time."""
    monkeypatch.setenv("DECIBAN_TIMEOUT", "3")
    body = json.dumps({"text": "cash"}).encode()
    head = f"POST {PREDICT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n".encode()
    whole = head + b"content-length: %d\r\n\r\n" % len(body) + body
    starts = [b"", head[:10], head, head + b"content-length: 1000\r\n\r\n{", whole + head[:20]]
    with Running(texts["texts"], tmp_path / "s.sqlite") as server:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
        for i, one in enumerate(slow):
            one.sendall(starts[i % len(starts)])
        start, closed = time.monotonic(), {}
        while len(closed) < len(slow) and time.monotonic() - start < 60:
            assert server.client.predict("win cash")["label"] == "spam"
            for i, one in enumerate(slow):
                if i in closed:
                    continue
                try:
                    if starts[i % len(starts)]:
                        one.send(b"a")
                    one.setblocking(False)
                    while data := one.recv(1 << 16):
                        assert b" 50" not in data.partition(b"\r\n")[0]
                    closed[i] = True
                except BlockingIOError:
                    one.setblocking(True)
                except OSError:
                    closed[i] = True
            time.sleep(0.3)
        for one in slow:
            one.close()
        assert len(closed) == len(slow), "none is kept for ever"
        server.stop()


def malformed(rng):
    """A request that is wrong in one of many ways, as bytes."""
    action = rng.choice(["predict", "explain", "evaluate", "learn", "correct", "forget", "filter", "read", "nowhere"])
    path = f"/v1/models/{rng.choice(['texts', '-', 'x', '..', '%00', '%ff'])}/{action}"
    bodies = [
        rng.randbytes(rng.randrange(200)),
        b'{"text": "' + rng.randbytes(20) + b'"}',
        b"[" * rng.randrange(1, 100_000),
        b'{"a":' * rng.randrange(1, 50_000),
        b'{"text": ' + b"9" * rng.randrange(1, 6000) + b"}",
        b'{"id": "a", "label": 1e999, "text": "x"}',
        b'{"text": NaN}',
        b'{"text": "\\ud800"}',
        b'{"examples": [' + b'{"text": null},' * 50 + b"{}]}",
        json.dumps({rng.choice(["text", "row", "message", "label"]): rng.choice([1, [], {}, None, True])}).encode(),
        json.dumps({"examples": [{"text": "a", "id": "b", "most": -1}] * 3}).encode(),
    ]
    body = rng.choice(bodies)
    kind = rng.choice(["application/json", "message/rfc822", "text/plain", "application/octet-stream", "\x00", ""])
    framing = rng.choice(
        [
            b"content-length: %d\r\n\r\n" % len(body) + body,
            b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n",
            b"transfer-encoding: chunked\r\n\r\n" + rng.randbytes(30) + b"\r\n",
            b"content-length: -5\r\n\r\n" + body,
            b"content-length: 5\r\ncontent-length: 7\r\n\r\n" + body,
            b"content-length: 99999999999999999999\r\n\r\n",
        ]
    )
    method = rng.choice(["POST", "POST", "POST", "GET", "PUT", "BREW"])
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n".encode("latin-1")
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(1, 400))
    if rng.random() < 0.05:
        return head + b"x: " + b"a" * 100_000 + b"\r\n\r\n"
    return head + framing


def memory(pid):
    """Resident MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_ten_thousand_malformed_requests_over_connections(texts, tmp_path):
    rng, statuses = random.Random(0), {}
    with Running(texts["texts"], tmp_path / "s.sqlite", "--log-level", "error") as server:
        for i in range(MALFORMED):
            with socket.create_connection(("127.0.0.1", server.port)) as one, contextlib.suppress(OSError):
                one.settimeout(10)
                request = malformed(rng)
                one.sendall(request)
                one.shutdown(socket.SHUT_WR)
                first = one.recv(1 << 16).partition(b"\r\n")[0]
                status = int(first.split()[1]) if first else 0
                statuses[status] = statuses.get(status, 0) + 1
                assert status < 500, request[:500]
            if i == MALFORMED // 5:
                before = memory(server.process.pid)
        assert server.client.predict("win cash")["label"] == "spam"
        assert memory(server.process.pid) < before + 30, "nothing is kept of them"
        total = sum(server.client.describe()["counts"])
        log = server.stop()
    assert "Traceback" not in log
    assert total == 12 + len(stored_ids(tmp_path / "s.sqlite"))
    assert statuses.get(400, 0) > MALFORMED // 10
