"""What a mailbox was like when it was last looked at, in a small file: no content, only numbers and hashes.

A line about a mail is written before it is moved, and another after: whatever is interrupted is finished the next time,
and a move that we have made is never taken for one of the user's.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from deciban.errors import DecibanError

try:
    import fcntl
except ImportError:  # not on every system
    fcntl = None  # type: ignore[assignment]

KEEP_SECONDS = 400 * 86_400.0  # what nobody has moved for so long is not remembered

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS folders (name TEXT PRIMARY KEY, validity INTEGER NOT NULL, last_uid INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS mails (
    id TEXT PRIMARY KEY, place TEXT NOT NULL, validity INTEGER, uid INTEGER,
    moved_from_validity INTEGER, moved_from_uid INTEGER, taught TEXT, time REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class KnownMail:
    """A mail that was seen: the folder it was last in, and its UID there, if that is known.

    `source` is (UIDVALIDITY, UID) of the inbox while we move it from there, and None once that is done.
    """

    id: str
    place: str
    validity: int | None = None
    uid: int | None = None
    source: tuple[int, int] | None = None
    taught: str | None = None


class MailboxState:
    """The file; one process at a time."""

    def __init__(self, path: str, account: str) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                raise DecibanError("another `deciban mailbox` uses {file!r}: stop it first", file=path) from None
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            self._store = sqlite3.connect(path, isolation_level=None)
            self._store.execute("PRAGMA synchronous = FULL")
            self._store.executescript(SCHEMA)
            known = self._store.execute("SELECT value FROM about WHERE name = 'account'").fetchone()
        except sqlite3.DatabaseError as error:
            raise DecibanError("{file!r} is no state of a mailbox: {why}", file=path, why=str(error)) from None
        if known is None:
            self._store.execute("INSERT INTO about VALUES ('account', ?)", (account,))
        elif known[0] != account:
            raise DecibanError(
                "{file!r} is the state of {known}, and not of {value}: give another --state",
                file=path,
                known=known[0],
                value=account,
            )

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written inside is written at once."""
        self._store.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._store.execute("ROLLBACK")
            raise
        self._store.execute("COMMIT")

    def last_uid(self, folder: str, validity: int) -> int | None:
        """The last UID that was dealt with; None if the folder is new, or its UIDs mean something else now."""
        row = self._store.execute("SELECT validity, last_uid FROM folders WHERE name = ?", (folder,)).fetchone()
        return None if row is None or row[0] != validity else int(row[1])

    def is_known(self, folder: str) -> bool:
        return self._store.execute("SELECT 1 FROM folders WHERE name = ?", (folder,)).fetchone() is not None

    def advance(self, folder: str, validity: int, uid: int) -> None:
        self._store.execute("INSERT OR REPLACE INTO folders VALUES (?, ?, ?)", (folder, validity, uid))

    def leave(self, folder: str) -> None:
        """Forget which mails are in a folder whose UIDs mean something else now: nothing is concluded from them."""
        self._store.execute("DELETE FROM mails WHERE place = ?", (folder,))

    def mail(self, id_: str) -> KnownMail | None:
        row = self._store.execute(
            "SELECT id, place, validity, uid, moved_from_validity, moved_from_uid, taught FROM mails WHERE id = ?",
            (id_,),
        ).fetchone()
        if row is None:
            return None
        source = None if row[4] is None else (int(row[4]), int(row[5]))
        return KnownMail(row[0], row[1], row[2], row[3], source, row[6])

    def put(self, mail: KnownMail) -> None:
        source = mail.source or (None, None)
        self._store.execute(
            "INSERT OR REPLACE INTO mails VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (mail.id, mail.place, mail.validity, mail.uid, *source, mail.taught, time.time()),
        )

    def tidy(self) -> None:
        self._store.execute("DELETE FROM mails WHERE time < ?", (time.time() - KEEP_SECONDS,))

    def close(self) -> None:
        self._store.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
