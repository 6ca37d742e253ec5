"""The interface of a store. The statements are the same for every database; subclasses connect.

A change is one transaction: examples, log lines, the packed sums and earlier predictions are committed
together, and are on disk before it is acknowledged.
"""

from __future__ import annotations

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from deciban.errors import DecibanError

FORMAT = 1
MAX_PARAMETERS = 500  # of one statement
SECRET_BYTES = 32
CHANGES = ("learn", "correct", "forget", "upload")  # kinds of log lines

TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS log (
    seq {serial}, model TEXT NOT NULL, kind TEXT NOT NULL, id TEXT, time {real} NOT NULL, actor TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS examples (
    model TEXT NOT NULL, id TEXT NOT NULL, label TEXT NOT NULL, form TEXT NOT NULL, content {bytes},
    digest TEXT NOT NULL, seq BIGINT NOT NULL, time {real} NOT NULL, PRIMARY KEY (model, id)
);
CREATE INDEX IF NOT EXISTS examples_by_age ON examples (model, seq);
CREATE INDEX IF NOT EXISTS examples_by_digest ON examples (model, digest);
CREATE INDEX IF NOT EXISTS log_by_id ON log (model, id);
CREATE TABLE IF NOT EXISTS deltas (
    model TEXT NOT NULL, seq BIGINT NOT NULL, plus {bytes}, minus {bytes}, PRIMARY KEY (model, seq)
);
CREATE TABLE IF NOT EXISTS snapshots (
    model TEXT NOT NULL, seq BIGINT NOT NULL, time {real} NOT NULL, data {bytes} NOT NULL, PRIMARY KEY (model, seq)
);
CREATE TABLE IF NOT EXISTS outcomes (
    model TEXT NOT NULL, seq BIGINT NOT NULL, time {real} NOT NULL, label TEXT NOT NULL, answer TEXT NOT NULL,
    p_label {real} NOT NULL, p_answer {real} NOT NULL, log_density {real}, PRIMARY KEY (model, seq)
);
CREATE TABLE IF NOT EXISTS tokens (
    name TEXT PRIMARY KEY, hash TEXT NOT NULL, scopes TEXT NOT NULL, created {real} NOT NULL, revoked {real}
);
"""


class StoreError(DecibanError):
    """The store cannot be reached or written: nothing was changed."""


@dataclass(frozen=True, slots=True)
class StoredExample:
    """An example as stored: its label and content, in the given form."""

    id: str
    label: str  # JSON
    form: str  # "plain", "encrypted" or "none"
    content: bytes | None
    digest: str
    seq: int = 0
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the audit log, which has no content."""

    seq: int
    model: str
    kind: str
    id: str | None
    time: float
    actor: str


@dataclass(frozen=True, slots=True)
class PackedSums:
    """What a transaction added to a model, and what it subtracted."""

    seq: int
    plus: bytes | None
    minus: bytes | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model predicted for an example before learning it."""

    label: str
    answer: str
    p_label: float  # 0 only if the model did not know the label
    p_answer: float
    log_density: float | None = None
    seq: int = 0
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token without its secret."""

    name: str
    hash: str
    scopes: tuple[str, ...]
    created: float
    revoked: float | None


class Store(ABC):
    """Tables in a database, with one connection that writes and one that reads, each used by one thread at a time."""

    types: ClassVar[dict[str, str]]
    shared: ClassVar[bool] = False  # whether several servers can use it at a time

    def __init__(self) -> None:
        self._writing, self._reading = threading.RLock(), threading.RLock()

    # ------------------------------------------------------------------ per database

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Any] = (), *, reading: bool = False) -> list[tuple[Any, ...]]:
        """The rows that a statement returns; parameters are written as ?."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction that excludes other writers, of other servers too."""

    @abstractmethod
    def commit(self) -> None:
        """Commit it, to disk."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo it, whatever state the connection is in."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    def hold(self) -> None:
        """Lock the store for one server, if it cannot be shared."""

    @abstractmethod
    def tidy(self) -> None:
        """Remove deleted content from disk, if the database does not do so itself."""

    # ------------------------------------------------------------------ transactions

    def prepare(self) -> None:
        """Create missing tables."""
        with self.transaction():
            for statement in TABLES.format(**self.types).split(";"):
                if statement.strip():
                    self.execute(statement)
            self.execute("INSERT INTO settings VALUES ('format', ?) ON CONFLICT (name) DO NOTHING", [str(FORMAT)])
            self.execute(
                "INSERT INTO settings VALUES ('secret', ?) ON CONFLICT (name) DO NOTHING",
                [secrets.token_hex(SECRET_BYTES)],
            )
            version = self.setting("format")
            if version != str(FORMAT):
                raise StoreError(
                    "the store has format {value}, but this version of deciban reads {known}: use the version that "
                    "wrote it",
                    value=version,
                    known=FORMAT,
                )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: all or nothing is written."""
        with self._writing:
            self.begin()
            try:
                yield
                self.commit()
            except BaseException:
                self.rollback()
                raise

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading:
            return self.execute(statement, values, reading=True)

    def setting(self, name: str) -> str | None:
        rows = self.execute("SELECT value FROM settings WHERE name = ?", [name])
        return rows[0][0] if rows else None

    def set(self, name: str, value: str) -> None:
        self.execute(
            "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", [name, value]
        )

    def ping(self) -> None:
        """Raise a StoreError if the store cannot be reached."""
        self.read("SELECT 1")

    def probe(self) -> None:
        """Raise a StoreError if the store cannot be written: if the disk is full, it can still be read."""
        with self.transaction():
            self.set("probe", secrets.token_hex(SECRET_BYTES))

    # ------------------------------------------------------------------ inside a transaction

    def find(self, model: str, ids: Sequence[str]) -> dict[str, StoredExample]:
        """The learned examples with these ids."""
        out: dict[str, StoredExample] = {}
        for start in range(0, len(ids), MAX_PARAMETERS):
            some = ids[start : start + MAX_PARAMETERS]
            marks = ", ".join("?" * len(some))
            statement = f"SELECT {EXAMPLE} FROM examples WHERE model = ? AND id IN ({marks})"
            out |= {row[0]: stored_example(row) for row in self.execute(statement, [model, *some])}
        return out

    def find_same(self, model: str, digest: str) -> StoredExample | None:
        """A learned example with this digest, the latest if there are several."""
        statement = f"SELECT {EXAMPLE} FROM examples WHERE model = ? AND digest = ? ORDER BY seq DESC LIMIT 1"
        rows = self.execute(statement, [model, digest])
        return stored_example(rows[0]) if rows else None

    def was_forgotten(self, model: str, id_: str) -> bool:
        """Whether the last log line about an id is "forgotten"."""
        rows = self.execute("SELECT kind FROM log WHERE model = ? AND id = ? ORDER BY seq DESC LIMIT 1", [model, id_])
        return bool(rows) and rows[0][0] == "forget"

    def log(self, model: str, kind: str, id_: str | None, actor: str, now: float) -> int:
        """Write a log line, and return its number."""
        statement = "INSERT INTO log (model, kind, id, time, actor) VALUES (?, ?, ?, ?, ?) RETURNING seq"
        return int(self.execute(statement, [model, kind, id_, now, actor])[0][0])

    def put(self, model: str, example: StoredExample) -> None:
        statement = f"INSERT INTO examples (model, {EXAMPLE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        values = (example.id, example.label, example.form, example.content, example.digest, example.seq, example.time)
        self.execute(statement, [model, *values])

    def drop(self, model: str, id_: str) -> None:
        self.execute("DELETE FROM examples WHERE model = ? AND id = ?", [model, id_])

    def put_sums(self, model: str, sums: PackedSums) -> None:
        self.execute("INSERT INTO deltas VALUES (?, ?, ?, ?)", [model, sums.seq, sums.plus, sums.minus])

    def sums_after(self, model: str, seq: int) -> list[PackedSums]:
        """What was added and subtracted after a log line, in order."""
        statement = "SELECT seq, plus, minus FROM deltas WHERE model = ? AND seq > ? ORDER BY seq"
        rows = self.execute(statement, [model, seq])
        return [PackedSums(int(seq), as_bytes(plus), as_bytes(minus)) for seq, plus, minus in rows]

    def put_outcome(self, model: str, one: Outcome) -> None:
        values = (one.seq, one.time, one.label, one.answer, one.p_label, one.p_answer, one.log_density)
        self.execute("INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [model, *values])

    def trim_outcomes(self, model: str, most: int) -> None:
        statement = (
            "DELETE FROM outcomes WHERE model = ? AND seq < (SELECT COALESCE(MIN(seq), 0) FROM (SELECT seq FROM "
            "outcomes WHERE model = ? ORDER BY seq DESC LIMIT ?) AS latest)"
        )
        self.execute(statement, [model, model, most])

    def put_snapshot(self, model: str, seq: int, data: bytes, now: float) -> None:
        """Store a model as of a log line; older snapshots, and sums that it contains, are deleted."""
        statement = (
            "INSERT INTO snapshots VALUES (?, ?, ?, ?) ON CONFLICT (model, seq) DO UPDATE SET data = excluded.data, "
            "time = excluded.time"
        )
        self.execute(statement, [model, seq, now, data])
        self.execute("DELETE FROM snapshots WHERE model = ? AND seq < ?", [model, seq])
        self.execute("DELETE FROM deltas WHERE model = ? AND seq <= ?", [model, seq])

    def snapshot(self, model: str) -> tuple[int, bytes] | None:
        """The newest snapshot: its log line and the model file."""
        rows = self.execute("SELECT seq, data FROM snapshots WHERE model = ? ORDER BY seq DESC LIMIT 1", [model])
        return (int(rows[0][0]), bytes(rows[0][1])) if rows else None

    def snapshot_seq(self, model: str) -> int:
        """The log line of the newest snapshot; −1 if there is none."""
        return int(self.execute("SELECT COALESCE(MAX(seq), -1) FROM snapshots WHERE model = ?", [model])[0][0])

    def all_examples(self, model: str, after: int, most: int) -> list[StoredExample]:
        """Examples in the order in which they were learned, some at a time."""
        statement = f"SELECT {EXAMPLE} FROM examples WHERE model = ? AND seq > ? ORDER BY seq LIMIT ?"
        return [stored_example(row) for row in self.execute(statement, [model, after, most])]

    def newest_encrypted(self) -> StoredExample | None:
        rows = self.execute(f"SELECT {EXAMPLE} FROM examples WHERE form = 'encrypted' ORDER BY seq DESC LIMIT 1")
        return stored_example(rows[0]) if rows else None

    # ------------------------------------------------------------------ queries outside a transaction

    def outcomes(self, model: str, most: int, after: int = -1) -> list[Outcome]:
        """The latest outcomes, the oldest first."""
        statement = (
            "SELECT label, answer, p_label, p_answer, log_density, seq, time FROM outcomes WHERE model = ? AND seq > ? "
            "ORDER BY seq DESC LIMIT ?"
        )
        return [Outcome(*row) for row in reversed(self.read(statement, [model, after, most]))]

    def example(self, model: str, id_: str) -> StoredExample | None:
        rows = self.read(f"SELECT {EXAMPLE} FROM examples WHERE model = ? AND id = ?", [model, id_])
        return stored_example(rows[0]) if rows else None

    def count(self, model: str) -> int:
        return int(self.read("SELECT COUNT(*) FROM examples WHERE model = ?", [model])[0][0])

    def oldest(self, model: str, most: int, before: float | None = None) -> list[str]:
        """The ids of the oldest examples learned before a time."""
        limit = time.time() + 1e9 if before is None else before
        statement = "SELECT id FROM examples WHERE model = ? AND time < ? ORDER BY seq LIMIT ?"
        return [row[0] for row in self.read(statement, [model, limit, most])]

    def lines(self, model: str, after: int, most: int) -> list[LogLine]:
        statement = "SELECT seq, model, kind, id, time, actor FROM log WHERE model = ? AND seq > ? ORDER BY seq LIMIT ?"
        return [LogLine(*row) for row in self.read(statement, [model, after, most])]

    def last_change(self, model: str) -> float | None:
        """When a model last learned or forgot, or was replaced; None if never."""
        kinds = ", ".join("?" * len(CHANGES))
        statement = f"SELECT MAX(time) FROM log WHERE model = ? AND kind IN ({kinds})"
        time_: float | None = self.read(statement, [model, *CHANGES])[0][0]
        return time_

    def snapshot_size(self, model: str) -> dict[str, Any] | None:
        """The newest snapshot: its log line, when it was saved, and its size in bytes."""
        statement = "SELECT seq, time, LENGTH(data) FROM snapshots WHERE model = ? ORDER BY seq DESC LIMIT 1"
        rows = self.read(statement, [model])
        return dict(zip(("version", "time", "bytes"), rows[0], strict=True)) if rows else None

    def last_seq(self, model: str) -> int:
        """The log line of the latest sums that are not in a snapshot; −1 if there are none."""
        return int(self.read("SELECT COALESCE(MAX(seq), -1) FROM deltas WHERE model = ?", [model])[0][0])

    # ------------------------------------------------------------------ tokens

    def tokens(self) -> list[StoredToken]:
        rows = self.read("SELECT name, hash, scopes, created, revoked FROM tokens ORDER BY created, name")
        return [StoredToken(name, hash_, tuple(scopes.split()), *times) for name, hash_, scopes, *times in rows]

    def put_token(self, token: StoredToken) -> None:
        """Store a new token; a revoked one of the same name is replaced."""
        with self.transaction():
            known = self.execute("SELECT revoked FROM tokens WHERE name = ?", [token.name])
            if known and known[0][0] is None:
                raise DecibanError("a token {value!r} already exists: revoke it, or use another name", value=token.name)
            self.execute("DELETE FROM tokens WHERE name = ?", [token.name])
            values = (token.name, token.hash, " ".join(token.scopes), token.created, token.revoked)
            self.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?)", values)
            self.log("", "token created", token.name, "command line", token.created)

    def revoke_token(self, name: str, now: float) -> None:
        with self.transaction():
            known = self.execute("SELECT revoked FROM tokens WHERE name = ?", [name])
            if not known:
                raise DecibanError("there is no token {value!r}: `deciban token list` shows them", value=name)
            if known[0][0] is None:
                self.execute("UPDATE tokens SET revoked = ? WHERE name = ?", [now, name])
                self.log("", "token revoked", name, "command line", now)


EXAMPLE = "id, label, form, content, digest, seq, time"


def stored_example(row: tuple[Any, ...]) -> StoredExample:
    id_, label, form, content, digest, seq, when = row
    return StoredExample(id_, label, form, as_bytes(content), digest, int(seq), float(when))


def as_bytes(value: Any) -> bytes | None:
    """PostgreSQL returns memory views."""
    return None if value is None else bytes(value)
