"""Learning inside PostgreSQL, compared with fetching the rows, and scoring there.

A table of 10 columns is copied into a database: that of `--url`, or of a server that is started for this from Debian's
packages, in a temporary folder and on loopback. Then `NaiveBayes` learns it by push-down (sums leave the database), and
from the rows as they are fetched; for comparison, a scan that counts rows, and fetching all rows without learning. The
same table in a SQLite file, and in DuckDB. All must learn the same counts.
"""

from __future__ import annotations

import argparse
import os
import pwd
import secrets
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from streaming import OUT, chunks

import deciban


@contextmanager
def server() -> Iterator[str]:
    """Start a temporary PostgreSQL server; its URL."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    if not programs:
        raise SystemExit("PostgreSQL is not installed: apt-get install postgresql, or give --url")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        how: dict[str, Any] = {"cwd": folder}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            how |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        password = secrets.token_hex(8)
        Path(folder, "password").write_text(password)
        os.chmod(Path(folder, "password"), 0o644)
        init = [programs[-1] / "initdb", "-D", "data", "-U", "deciban", "--pwfile=password", "-A", "scram-sha-256"]
        subprocess.run([*init, "--no-sync"], check=True, stdout=subprocess.DEVNULL, **how)
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "shared_buffers": "1GB",
        }
        options = [f"-c{name}={value}" for name, value in settings.items()]
        with open(Path(folder, "log"), "w") as log:
            running = subprocess.Popen([programs[-1] / "postgres", "-D", "data", *options], stderr=log, **how)
        try:
            url = f"postgresql://deciban:{password}@127.0.0.1:{port}/postgres"
            for _ in range(100):
                try:
                    psycopg.connect(url).close()
                    break
                except psycopg.OperationalError:
                    time.sleep(0.1)
            yield url
        finally:
            running.terminate()
            running.wait()


def fill_postgres(url: str, rows: int) -> None:
    kinds = {"visits": "integer", **{f"x{i}": "float8" for i in range(5)}}
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        names = next(chunks(1)).column_names
        cursor.execute("DROP TABLE IF EXISTS visits_of_shops")
        columns = ", ".join(f"{name} {kinds.get(name, 'text')}" for name in names)
        cursor.execute(f"CREATE TABLE visits_of_shops ({columns})")
        with cursor.copy("COPY visits_of_shops FROM STDIN") as copy:
            for table in chunks(rows):
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE visits_of_shops")


def fill_sqlite(path: Path, rows: int) -> None:
    with sqlite3.connect(path) as connection:
        names = next(chunks(1)).column_names
        connection.execute(f"CREATE TABLE visits_of_shops ({', '.join(names)})")
        for table in chunks(rows):
            values = zip(*(column.to_pylist() for column in table.columns), strict=True)
            connection.executemany(f"INSERT INTO visits_of_shops VALUES ({', '.join('?' * len(names))})", values)


def best_time(work: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    best, result = float("inf"), None
    for _ in range(times):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the table (default 2,000,000)")
    parser.add_argument("--url", help="of a PostgreSQL database to write the table visits_of_shops into")
    arguments = parser.parse_args()
    rows, scan = arguments.rows, "SELECT label, count(*), sum(x0) FROM visits_of_shops GROUP BY label"
    lines: list[str] = []
    counts: list[list[float]] = []

    def report(where: str, what: str, work: Callable[[], Any], times: int = 3) -> None:
        seconds, result = best_time(work, times)
        if hasattr(result, "class_count_"):
            counts.append(result.class_count_.tolist())
            if counts[-1] != counts[0] or sum(counts[0]) != rows:
                raise SystemExit(f"{where}, {what}: {counts[-1]} was counted, not {counts[0]}")
        lines.append(f"| {where} | {what} | {seconds:.2f} | {rows / seconds:,.0f} |")
        print(lines[-1], flush=True)

    def learn(source: Callable[[], Any], pushed: bool) -> Any:
        rows = source()
        return deciban.NaiveBayes().fit(rows if pushed else deciban.stream(rows.batches), "label")

    def measure(where: str, source: Callable[[], Any], scan: Callable[[], Any]) -> None:
        report(where, "a scan that counts", scan)
        report(where, 'push-down: `NaiveBayes().fit(table(…), "label")`', lambda: learn(source, True))
        report(where, "fetching all rows, and nothing else", lambda: sum(t.num_rows for t in source().batches()), 1)
        report(where, "fetching all rows, and learning them", lambda: learn(source, False), 1)
        model, numbers = learn(source, True), count()

        def create() -> None:
            source().scored(model, keep=["x0", "shop"]).create(f"said{next(numbers)}")

        report(where, "scoring all rows into a new table: `table(…).scored(model).create(…)`", create, 1)

    with (
        tempfile.TemporaryDirectory() as folder,
        server() if arguments.url is None else existing_server(arguments.url) as url,
    ):
        fill_postgres(url, rows)

        def count_rows() -> Any:
            with psycopg.connect(url) as connection:
                return connection.execute(
                    "SELECT label, count(*), sum(x0) FROM visits_of_shops GROUP BY label"
                ).fetchall()

        measure("PostgreSQL", lambda: deciban.table(url, "visits_of_shops"), count_rows)
        path = Path(folder, "rows.sqlite")
        fill_sqlite(path, rows)
        lite = sqlite3.connect(path)
        measure("SQLite", lambda: deciban.table(lite, "visits_of_shops"), lambda: lite.execute(scan).fetchall())
        lite.close()
        duck = duckdb.connect(str(Path(folder, "rows.duckdb")))
        for i, part in enumerate(chunks(rows)):
            duck.register("part", part)
            duck.execute(f"{'INSERT INTO' if i else 'CREATE TABLE'} visits_of_shops {'' if i else 'AS '}FROM part")
        measure("DuckDB", lambda: deciban.table(duck, "visits_of_shops"), lambda: duck.execute(scan).fetchall())
        duck.close()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    head = [
        "# Databases",
        "",
        f"deciban {deciban.__version__}, DuckDB {duckdb.__version__}, SQLite {sqlite3.sqlite_version}, {cores} cores; "
        f"written by `python benchmarks/databases.py --rows {rows}`.",
        f"{rows:,} rows of 10 columns: 5 numbers, 3 categories, 1 count, 1 label. The least of three runs, or one run "
        "where rows are fetched.",
        "",
        "| database | what | seconds | rows/s |",
        "|---|---|---:|---:|",
    ]
    OUT.mkdir(exist_ok=True)
    (OUT / "databases.md").write_text("\n".join(head + lines) + "\n")


@contextmanager
def existing_server(url: str) -> Iterator[str]:
    yield url


if __name__ == "__main__":
    main()
