"""`deciban serve` under load: classifications and corrections a second, how long each takes, and memory.

The generator runs on the same machine, in a process of its own, over loopback: an open loop, where a request is due at
its time whether or not the ones before it are answered, and its delay counts from when it was due. Some requests
classify one text; of the others, half teach a text, and half change the label of one that was taught before. Its own
processor time is reported too. For comparison, the same classifications are first sent to a server that answers each
at once with the same bytes: what these take is the machine's and the generator's share.

    python benchmarks/server.py [--seconds 20] [--classify 2000] [--correct 50] [--store URL] [--soak MINUTES]

`--soak 10` runs for ten minutes and reports how much the server's memory grows in each.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

import numpy as np

import deciban
from deciban.client import Client

DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
CONNECTIONS = 64
TAUGHT = 250  # texts
FLOOR_SECONDS = 10.0
TICK = 0.001  # seconds between looks at what is due
RESULTS = Path(__file__).parent / "results"


def messages() -> tuple[list[str], list[str]]:
    """The SMS of sms_spam, or made-up ones where the set is absent."""
    file = DATA / "sms_spam" / "SMSSpamCollection.tsv"
    if file.exists():
        rows = [line.split("\t", 1) for line in file.read_text(encoding="utf-8").splitlines() if "\t" in line]
        return [text for _, text in rows], [label for label, _ in rows]
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(5000)])
    labels = np.where(rng.random(5000) < 0.15, "spam", "ham").tolist()
    texts = [" ".join(words[(rng.zipf(1.3, 15) * (7 if y == "spam" else 1)) % 5000]) for y in labels]
    return texts, labels


def request(path: str, document: dict) -> bytes:
    body = json.dumps(document).encode()
    fields = ["host: localhost", "content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([f"POST {path} HTTP/1.1", *fields, "", ""]).encode() + body


def lessons(texts: list[str], labels: list[str]):
    """Each text is taught and then its label is changed, for ever: so the model stops growing."""
    path, other = "/v1/models/sms", {"ham": "spam", "spam": "ham"}
    for turn in itertools.count():
        for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
            now = label if turn % 2 == 0 else other[label]
            yield request(f"{path}/{'correct' if turn else 'learn'}", {"id": str(i), "text": text, "label": now})
            yield request(f"{path}/correct", {"id": str(i), "label": other[now]})


class Connection(asyncio.Protocol):
    """One request at a time over a connection that stays open."""

    def __init__(self, load: Load) -> None:
        self.load, self.buffer, self.due = load, bytearray(), 0.0

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.load.idle.append(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self.buffer.find(b"content-length: ", 0, head)
        size = int(self.buffer[at + 16 : self.buffer.find(b"\r\n", at)])
        if len(self.buffer) >= head + 4 + size:
            status = int(self.buffer[9:12])
            self.buffer.clear()
            self.load.done(self, status)

    def connection_lost(self, error) -> None:
        del error
        if self in self.load.idle:  # the server closes connections that are idle for a minute
            self.load.idle.remove(self)
        else:
            self.load.lost += 1


class Load:
    """Requests at a rate; statuses, and delays in seconds from when each was due."""

    def __init__(self, name: str, requests, per_second: float) -> None:
        self.name, self.requests, self.per_second = name, requests, per_second
        self.idle, self.waiting, self.delays, self.statuses = deque(), deque(), [], []
        self.sent, self.lost, self.ending = 0, 0, None

    async def run(self, port: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        transports = [
            (await loop.create_connection(lambda: Connection(self), "127.0.0.1", port))[0] for _ in range(CONNECTIONS)
        ]
        self.clock, start = loop.time, loop.time()
        while (now := loop.time() - start) < seconds:
            while self.sent < now * self.per_second:
                self.waiting.append((start + self.sent / self.per_second, next(self.requests)))
                self.sent += 1
            self.pump()
            await asyncio.sleep(TICK)
        self.ending = asyncio.Event()
        self.end_if_done()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ending.wait(), 30)
        self.took = loop.time() - start
        for transport in transports:
            transport.close()

    def pump(self) -> None:
        while self.waiting and self.idle:
            connection = self.idle.popleft()
            connection.due, body = self.waiting.popleft()
            connection.transport.write(body)

    def done(self, connection: Connection, status: int) -> None:
        self.delays.append(self.clock() - connection.due)
        self.statuses.append(status)
        self.idle.append(connection)
        self.pump()
        self.end_if_done()

    def end_if_done(self) -> None:
        if self.ending is not None and len(self.delays) + self.lost >= self.sent:
            self.ending.set()

    def figures(self) -> dict:
        delays = np.sort(self.delays) * 1e3
        out = {
            "what": self.name,
            "answered/s": round(len(delays) / self.took, 1),
            "not 200": self.sent - sum(status == 200 for status in self.statuses),
            **{f"p{q} ms": round(float(np.percentile(delays, q)), 1) for q in (50, 90, 99)},
            "longest ms": round(float(delays[-1]), 1),
        }
        print("  ".join(f"{key} {value}" for key, value in out.items()), flush=True)
        return out


def memory(pid: int) -> float:
    """The resident memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


class MemoryWatch(threading.Thread):
    """The memory of a process, once a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.samples, self.ending = pid, [memory(pid)], threading.Event()

    def run(self) -> None:
        while not self.ending.wait(1.0):
            self.samples.append(memory(self.pid))

    def growth(self) -> float:
        """MB a minute over the second half, once everything that is kept has been filled."""
        later = self.samples[len(self.samples) // 2 :]
        return float(np.polyfit(np.arange(len(later)), later, 1)[0]) * 60 if len(later) > 1 else float("nan")


def processor_seconds(pid: int | str) -> float:
    """What a process has used of the processors, which does not depend on who else uses them."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def run_loads(loads: list[Load], port: int, seconds: float) -> None:
    async def together() -> None:
        await asyncio.gather(*(load.run(port, seconds) for load in loads))

    try:
        import uvloop
    except ImportError:
        asyncio.run(together())
    else:
        uvloop.run(together())


class Echo(asyncio.Protocol):
    """A server without work: the least that a request can take."""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        del data
        self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 150\r\n\r\n" + 150 * b" ")


def serve_nothing(port: int) -> None:
    async def forever() -> None:
        await (await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)).serve_forever()

    asyncio.run(forever())


def floor(requests: list[bytes], per_second: float, port: int) -> dict:
    """The figures of a server without work."""
    process = multiprocessing.get_context("spawn").Process(target=serve_nothing, args=(port,))
    process.start()
    try:
        while not listens(port):
            time.sleep(0.05)
        load = Load("nothing", itertools.cycle(requests), per_second)
        run_loads([load], port, FLOOR_SECONDS)
        return load.figures()
    finally:
        process.terminate()
        process.join()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(seconds: float, classifications: float, corrections: float, store: str | None) -> None:
    texts, labels = messages()
    half = len(texts) // 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sms.deciban")
        deciban.TextClassifier().fit(texts[:half], labels[:half]).save(path)
        port = free_port()
        predicts = [request("/v1/models/sms/predict", {"text": text}) for text in texts]
        rows = [floor(predicts, classifications, free_port())]
        command = [sys.executable, "-m", "deciban", "serve", path, "--store", store or f"{folder}/store.sqlite"]
        options = ["--no-auth", "--port", str(port), "--log-level", "warning"]
        with subprocess.Popen([*map(str, command), *options], stderr=subprocess.DEVNULL) as server:
            try:
                client = Client(f"http://127.0.0.1:{port}")
                while not client.ready():
                    time.sleep(0.05)
                client.close()
                teach = lessons(texts[half : half + TAUGHT], labels[half : half + TAUGHT])
                # Until everything is warm, and what is kept of recent requests is full.
                run_loads([Load("", itertools.cycle(predicts), 400.0), Load("", teach, 2.0)], port, 4.0)
                watch, own = MemoryWatch(server.pid), processor_seconds("self")
                watch.start()
                used = processor_seconds(server.pid)
                rates = {
                    "classify": (itertools.cycle(predicts), classifications),
                    "teach and correct": (teach, corrections),
                }
                loads = [Load(name, requests, rate) for name, (requests, rate) in rates.items() if rate]
                run_loads(loads, port, seconds)
                watch.ending.set()
                rows += [load.figures() for load in loads]
                answered = sum(len(load.delays) for load in loads)
                used = (processor_seconds(server.pid) - used) * 1e3 / answered
                own = (processor_seconds("self") - own) * 1e3 / answered
                before, after, growth = watch.samples[0], memory(server.pid), watch.growth()
                print(f"processor time a request: server {used:.2f} ms, generator {own:.2f} ms")
                print(
                    f"memory {before:.0f} MB before, {after:.0f} MB after; {growth:+.1f} MB a minute in the second half"
                )
                print(
                    f"load of the machine over the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
                )
            finally:
                server.terminate()
                server.wait(30)
    RESULTS.mkdir(exist_ok=True)
    document = {"seconds": seconds, "asked/s": [classifications, corrections], "rows": rows}
    document |= {"memory MB": [before, after], "memory MB/minute": growth, "server ms/request": used}
    document |= {"generator ms/request": own, "load": os.getloadavg()[0]}
    (RESULTS / "server.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--classify", type=float, default=2000.0, help="requests a second")
    parser.add_argument("--correct", type=float, default=50.0, help="requests a second")
    parser.add_argument("--store", help="a path or URL; an SQLite file by default")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="run for this long instead")
    given = parser.parse_args()
    main(given.seconds if given.soak is None else given.soak * 60.0, given.classify, given.correct, given.store)
