"""A PostgreSQL server of the tests' own, started once where a test asks for it."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class Postgres:
    """A server on loopback with a random password, so that tests can check that it does not leak."""

    port: int
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    user: str = "deciban"

    @property
    def url(self):
        return f"postgresql+psycopg://{self.user}:{self.password}@127.0.0.1:{self.port}/postgres"

    @property
    def dsn(self):
        return f"host=127.0.0.1 port={self.port} user={self.user} password={self.password} dbname=postgres"

    def connect(self, **how):
        import psycopg

        return psycopg.connect(self.dsn, **how)


# The shell waits for the pipe to us to close, which it does however we end, and clears up then. Nothing here outlives
# the tests, so nothing needs to reach a disk.
SERVE = """
"$1/postgres" -D data -c port="$2" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=24 \\
    -c shared_buffers=32MB -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c autovacuum=off \\
    >log 2>&1 </dev/null &
cat >/dev/null
kill -QUIT $!
wait $!
cd / && rm -rf "$3"
"""


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server: `.url`, `.dsn`, `.connect()`, `.password`."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'deciban[dev]'")
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: make postgres")
    server = Postgres(free_port())
    folder = Path(tempfile.mkdtemp(prefix="deciban-postgres-"))  # not tmp_path, which only its owner may enter
    run_as = {"cwd": folder, **other_than_root(folder)}
    initialise(programs, folder, server, run_as)
    shell = subprocess.Popen(
        ["/bin/sh", "-c", SERVE, "sh", programs, str(server.port), folder], stdin=subprocess.PIPE, **run_as
    )
    try:
        wait_until_it_answers(server, folder)
        yield server
    finally:
        shell.stdin.close()
        shell.wait(30)


def postgres_programs():
    """The folder of the server's programs, which Debian keeps off the path; the newest, or None."""
    initdb = shutil.which("initdb")
    if initdb:
        return Path(initdb).resolve().parent
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(folders, key=lambda folder: int(folder.parent.name), default=None)


def other_than_root(folder):
    """PostgreSQL does not run as root: the user to run it as, who then owns the folder."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names.get("nobody")
    if user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user `postgres` or `nobody`")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def initialise(programs, folder, server, run_as):
    secret = folder / "password"
    secret.write_text(server.password)
    secret.chmod(0o644)  # the folder itself is shut to others
    made = subprocess.run(
        [
            *(programs / "initdb", "--pgdata=data", f"--username={server.user}", f"--pwfile={secret}"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ],
        capture_output=True,
        text=True,
        check=False,
        **run_as,
    )
    if made.returncode:
        pytest.fail(f"initdb failed: {made.stderr}", pytrace=False)
    secret.unlink()


def wait_until_it_answers(server, folder):
    import psycopg

    end = time.monotonic() + 60
    while True:
        try:
            return server.connect().close()
        except psycopg.OperationalError:
            if time.monotonic() > end:
                pytest.fail(f"PostgreSQL does not start: {(folder / 'log').read_text()}", pytrace=False)
            time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
