"""Servers as people run them: processes of their own, on loopback."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time

from postgres_server import free_port

from deciban.client import Client

START_SECONDS = 180  # on a busy machine


class Running:
    """`deciban serve` in a process; `client` asks it."""

    def __init__(self, model, store, *options, socket=None, folder=None, auth=False):
        self.port = free_port()
        where = ["--socket", str(socket)] if socket else ["--port", str(self.port)]
        command = [sys.executable, "-m", "deciban", "serve", str(model), "--store", str(store), *where]
        options = options if auth else ("--no-auth", *options)
        # A pipe that no one reads would fill up, and stop the server.
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the server ends
        self.process = subprocess.Popen([*command, *options], stderr=self.log, cwd=folder)
        self.client = Client(f"unix:{socket}" if socket else f"http://127.0.0.1:{self.port}", timeout=60)

    def wait(self):
        end = time.monotonic() + START_SECONDS
        while not self.client.ready():
            assert self.process.poll() is None, self.logged()
            assert time.monotonic() < end, "it does not start"
            time.sleep(0.05)
        return self

    def stop(self):
        """End it as an operator does; what it wrote to its log."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        log = self.logged()
        assert self.process.returncode == 0, log
        return log

    def kill(self):
        self.client.close()
        self.process.kill()
        self.process.wait()
        self.log.close()

    def logged(self):
        """What it wrote to its log, once it has ended."""
        with self.log:
            self.log.seek(0)
            return self.log.read()

    def __enter__(self):
        return self.wait()

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.kill()
