"""`deciban serve` under load: classifications and corrections a second, and how long each takes.

The generator runs on the same machine, in a process of its own, over loopback: an open loop, where a request is due at
its time whether or not the ones before it are answered, and its delay counts from when it was due. Some requests
classify one text, some teach one. Run: python benchmarks/server.py [SECONDS] [CLASSIFICATIONS/s] [CORRECTIONS/s]
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import deciban
from deciban.client import Client

DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
CONNECTIONS = 64
TICK = 0.002  # seconds between looks at what is due
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


class Connection(asyncio.Protocol):
    """One request at a time over a connection that stays open."""

    def __init__(self) -> None:
        self.buffer, self.waiter, self.transport = bytearray(), None, None

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        fields = bytes(self.buffer[:head]).lower()
        at = fields.find(b"content-length:")
        size = int(fields[at + 15 :].split(b"\r\n", 1)[0])
        if len(self.buffer) >= head + 4 + size:
            status = int(self.buffer[9:12])
            self.buffer.clear()
            self.waiter.set_result(status)

    def connection_lost(self, error) -> None:
        del error
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(0)

    async def ask(self, request: bytes) -> int:
        self.waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiter


def request(path: str, document: dict) -> bytes:
    body = json.dumps(document).encode()
    fields = ["host: localhost", "content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([f"POST {path} HTTP/1.1", *fields, "", ""]).encode() + body


async def load(port: int, requests, per_second: float, seconds: float, connections: int) -> dict:
    """Send requests at a rate; statuses, and delays in seconds from when each was due."""
    loop = asyncio.get_running_loop()
    idle: asyncio.LifoQueue = asyncio.LifoQueue()
    for _ in range(connections):
        _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
        idle.put_nowait(connection)
    delays, statuses, tasks = [], [], set()

    async def one(due: float, body: bytes) -> None:
        connection = await idle.get()
        status = await connection.ask(body)
        delays.append(loop.time() - due)
        statuses.append(status)
        idle.put_nowait(connection)

    start, sent = loop.time(), 0
    while (now := loop.time() - start) < seconds:
        while sent < now * per_second:
            task = asyncio.create_task(one(start + sent / per_second, next(requests)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(TICK)
    if tasks:
        await asyncio.wait(tasks, timeout=30)
    took = loop.time() - start
    return {"sent": sent, "answered": len(delays), "took": took, "delays": np.array(delays), "statuses": statuses}


def figures(name: str, found: dict) -> dict:
    delays = np.sort(found["delays"]) * 1e3
    ok = sum(status == 200 for status in found["statuses"])
    out = {
        "what": name,
        "answered/s": round(found["answered"] / found["took"], 1),
        "not 200": found["sent"] - ok,
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


def processor_seconds(pid: int) -> float:
    """What a process has used of the processors, which does not depend on who else uses them."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main(seconds: float, classifications: float, corrections: float) -> None:
    texts, labels = messages()
    half = len(texts) // 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sms.deciban")
        deciban.TextClassifier().fit(texts[:half], labels[:half]).save(path)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "deciban", "serve", path, "--store", f"{folder}/store.sqlite", "--no-auth"]
        options = ["--port", str(port), "--log-level", "warning"]
        with subprocess.Popen([*map(str, command), *options], stderr=subprocess.DEVNULL) as server:
            client = Client(f"http://127.0.0.1:{port}")
            while not client.ready():
                time.sleep(0.05)
            client.close()
            predicts = [request("/v1/models/sms/predict", {"text": text}) for text in texts]
            teaches = [
                request("/v1/models/sms/learn", {"id": str(i), "text": text, "label": label})
                for i, (text, label) in enumerate(zip(texts, labels, strict=True))
            ]

            async def both() -> list[dict]:
                loads = []
                if classifications:
                    loads.append(load(port, cycle(predicts), classifications, seconds, CONNECTIONS))
                if corrections:
                    loads.append(load(port, iter(teaches * 1000), corrections, seconds, CONNECTIONS))
                return await asyncio.gather(*loads)

            asyncio.run(load_for(port, predicts, 2.0))  # until everything is warm
            before, used = memory(server.pid), processor_seconds(server.pid)
            found = asyncio.run(both())
            names = [name for name, rate in (("classify", classifications), ("teach", corrections)) if rate]
            rows = [figures(name, one) for name, one in zip(names, found, strict=True)]
            after = memory(server.pid)
            used = (processor_seconds(server.pid) - used) * 1e3 / sum(one["answered"] for one in found)
            print(f"server {used:.2f} ms of a processor a request; memory {before:.0f} MB before, {after:.0f} MB after")
            print(f"load of the machine over the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
            server.terminate()
            server.wait(30)
    RESULTS.mkdir(exist_ok=True)
    document = {"seconds": seconds, "asked/s": [classifications, corrections], "rows": rows}
    document |= {"memory MB": [before, after], "server ms/request": used, "load": os.getloadavg()[0]}
    (RESULTS / "server.json").write_text(json.dumps(document, indent=1) + "\n")


def cycle(items):
    while True:
        yield from items


async def load_for(port: int, requests: list[bytes], seconds: float) -> None:
    await load(port, cycle(requests), 200.0, seconds, 8)


if __name__ == "__main__":
    main(*map(float, [*sys.argv[1:], *("10", "2000", "50")[len(sys.argv) - 1 :]]))
