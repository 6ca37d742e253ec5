"""The filter as mail servers run it, and servers that answer as they are told."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

FILTER = Path(sys.executable).with_name("deciban-filter")
HEADER = b"X-Deciban: spam; probability=0.990000; decibans=20.0; model=mail; version=1\n"


def filtered(raw, *options, program=FILTER, check=True, **how):
    """What the filter makes of a mail."""
    done = subprocess.run([program, *map(str, options)], input=raw, capture_output=True, check=False, **how)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def reply(body, status="200 OK"):
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\ncontent-type: text/plain\r\n\r\n"
    return head.encode() + body


class Answering:
    """A server on a Unix socket that reads a request and sends what it is told; `requests` are those it has got."""

    def __init__(self, path, answer=None, *, wait=0.0, read=True):
        self.path, self.answer, self.wait, self.read = (
            str(path),
            reply(HEADER) if answer is None else answer,
            wait,
            read,
        )
        self.requests, self._ending = [], threading.Event()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen(16)
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                if self.read:
                    self.requests.append(request_of(connection))
                self._ending.wait(self.wait)
                try:
                    connection.sendall(self.answer)
                except OSError:
                    continue

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self._ending.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(10)


def request_of(connection):
    """The head of a request and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(1 << 16)
        if not more:
            return data, b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")))
    while len(body) < size:
        body += connection.recv(1 << 16)
    return head, body
