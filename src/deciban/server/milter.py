"""The milter protocol (version 6, as Sendmail defined it and Postfix uses it): verdicts while mail is received.

The mail server sends us a copy of header and body, and we answer with header fields to add and to delete. The mail
stays with the mail server: we cannot lose it, and if we do not answer, it goes on without us (milter_default_action =
accept).
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import struct
from collections import Counter
from dataclasses import dataclass, field

from deciban.errors import DecibanError
from deciban.server.examples import Example
from deciban.server.problems import problem_of
from deciban.server.service import Service
from deciban.server.writer import LiveModel
from deciban.text import mail
from deciban.text.mail.verdict import folded, is_own

VERSION, LEAST_VERSION = 6, 2
ADD_HEADERS, CHANGE_HEADERS = 0x01, 0x10  # what we may do
# What need not be sent (connection, greeting, envelope, end of header, unknown commands), and what we do not answer.
NOT_SENT = 0x01 | 0x02 | 0x04 | 0x08 | 0x40 | 0x100 | 0x200
NO_ANSWER_TO = {b"L": 0x80, b"B": 0x80000}
LEADING_SPACE = 0x100000  # values of header fields come, and go, with the blank after the colon
MAX_PACKET = 1 << 20
MAX_CONNECTIONS = 500
IDLE_SECONDS = 3600.0
END_SECONDS = 5.0  # for mails under way when the server ends
EVIDENCE_ITEMS = 5
UNIX = "unix:"

log = logging.getLogger("deciban.server.milter")


class MilterError(Exception):
    """What the other side sends is not the protocol."""


@dataclass(slots=True, eq=False)
class MailUnderWay:
    """A mail as far as it has come."""

    fields: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    size: int = 0
    complete: bool = True  # False: longer than is kept

    def add(self, part: bytes, most: int) -> bool:
        """Count a part; whether it is to be kept."""
        self.size += len(part)
        self.complete = self.complete and self.size <= most
        return self.complete

    def raw(self) -> bytes:
        return b"".join(name + b":" + value + b"\n" for name, value in self.fields) + b"\n" + bytes(self.body)

    def forged(self) -> list[tuple[int, bytes]]:
        """Our own fields that somebody else has written: each one's place among those of its name, the last first."""
        seen: Counter[bytes] = Counter()
        out = []
        for name, _ in self.fields:
            seen[name.lower()] += 1
            if is_own(name.decode("latin-1")):
                out.append((seen[name.lower()], name))
        return out[::-1]


class Session:
    """A connection of a mail server: any number of mails, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, filter_: MilterFilter) -> None:
        self.reader, self.writer, self.filter = reader, writer, filter_
        self.flags, self.mail = 0, MailUnderWay()

    async def run(self) -> None:
        while True:
            packet = await asyncio.wait_for(self.packet(), IDLE_SECONDS)
            if packet is None or packet[0] == b"Q":
                return
            await self.take(*packet)
            await self.writer.drain()

    async def packet(self) -> tuple[bytes, bytes] | None:
        """A command and its data; None at the end."""
        try:
            (size,) = struct.unpack("!I", await self.reader.readexactly(4))
            if not 1 <= size <= MAX_PACKET:
                raise MilterError(f"a packet has {size} bytes")
            data = await self.reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return None
        return data[:1], data[1:]

    async def take(self, command: bytes, data: bytes) -> None:
        if command == b"O":
            self.negotiate(data)
            return
        if command in (b"A", b"K"):  # this mail is not sent after all; the next connection begins
            self.mail = MailUnderWay()
            return
        if command == b"D":  # values of the mail server's variables
            return
        if command == b"L":
            self.header(data)
        elif command == b"B":
            if self.mail.add(data, self.filter.max_size):
                self.mail.body += data
        elif command == b"E":
            if data and self.mail.add(data, self.filter.max_size):
                self.mail.body += data
            await self.verdict()
            return
        elif command not in (b"C", b"H", b"M", b"R", b"T", b"N", b"U"):
            raise MilterError(f"there is no command {command!r}")
        if not self.flags & NO_ANSWER_TO.get(command, 0):
            self.send(b"c")

    def negotiate(self, data: bytes) -> None:
        if len(data) < 12:
            raise MilterError("the offer is too short")
        version, actions, flags = struct.unpack("!III", data[:12])
        if version < LEAST_VERSION:
            raise MilterError(f"version {version} is too old")
        wanted = ADD_HEADERS | CHANGE_HEADERS
        if actions & wanted != wanted:
            raise MilterError("we may not change the header")
        self.flags = flags & (NOT_SENT | LEADING_SPACE | NO_ANSWER_TO[b"L"] | NO_ANSWER_TO[b"B"])
        self.send(b"O", struct.pack("!III", min(version, VERSION), wanted, self.flags))

    def header(self, data: bytes) -> None:
        name, _, value = data.partition(b"\0")
        value = value.removesuffix(b"\0")
        if self.mail.add(data, self.filter.max_size) or is_own(name.decode("latin-1")):
            self.mail.fields.append((name, value if self.flags & LEADING_SPACE else b" " + value))

    async def verdict(self) -> None:
        """Delete forged fields, add ours, and let the mail go on."""
        header = await self.filter.header(self.mail)
        for place, name in self.mail.forged():
            self.send(b"m", struct.pack("!I", place) + name + b"\0\0")
        for line in reversed(header.replace("\n ", "\0").splitlines()):  # each is put before those there are
            field_name, _, value = line.partition(": ")
            blank = " " if self.flags & LEADING_SPACE else ""
            text = f"{field_name}\0{blank}" + value.replace("\0", "\n ") + "\0"
            self.send(b"i", struct.pack("!I", 0) + text.encode())
        self.send(b"c")
        self.mail = MailUnderWay()

    def send(self, command: bytes, data: bytes = b"") -> None:
        self.writer.write(struct.pack("!I", len(data) + 1) + command + data)


class MilterFilter:
    """What answers mail servers, as long as the server runs."""

    def __init__(self, service: Service) -> None:
        self.service, self.live = service, model_for_mail(service)
        self.max_size = service.settings.max_body
        self._sessions = set[asyncio.Task[None]]()
        self._listener: asyncio.Server | None = None

    async def start(self, where: str) -> None:
        try:
            if where.startswith(UNIX):
                path = where.removeprefix(UNIX)
                remove_socket(path)
                self._listener = await asyncio.start_unix_server(self._connected, path, limit=MAX_PACKET + 8)
                os.chmod(path, 0o666)  # noqa: S103 - as with the server's socket, its folder decides who may connect
            else:
                host, _, port = where.rpartition(":")
                self._listener = await asyncio.start_server(
                    self._connected, host.strip("[]"), int(port), limit=MAX_PACKET + 8
                )
        except OSError as error:
            raise DecibanError("the milter cannot listen at {where}: {why}", where=where, why=str(error)) from None

    async def stop(self) -> None:
        """Finish the mails under way, for a moment."""
        if self._listener is None:
            return
        self._listener.close()
        if self._sessions:
            await asyncio.wait(self._sessions, timeout=END_SECONDS)
        for session in self._sessions:
            session.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._sessions) >= MAX_CONNECTIONS:
                log.warning("more than %d connections", MAX_CONNECTIONS)
                return
            self._sessions.add(task)
            await Session(reader, writer, self).run()
        except MilterError as error:
            log.warning("a mail server was cut off: %s", error)
        except (OSError, TimeoutError):
            log.debug("a mail server has closed its connection")
        except Exception:
            log.exception("a session failed")
        finally:
            self._sessions.discard(task)
            writer.close()

    async def header(self, under_way: MailUnderWay) -> str:
        """The header fields for a mail; after any fault, one with the reason."""
        try:
            if not under_way.complete:
                return fault(f"the mail has more than {self.max_size} bytes")
            raw = under_way.raw()
            content = await self.service.in_thread(mail.canonical, raw)
            id_ = await self.service.in_thread(mail.identity, raw)
            example = Example(id_, {"message": content.decode("latin-1")})
            verdict = await self.service.verdict(self.live, example, EVIDENCE_ITEMS)
            return verdict.header()
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                log.exception("a mail could not be read")
            return fault("the server has a fault" if problem is None else str(problem))


def remove_socket(path: str) -> None:
    """Remove what a server that was killed has left."""
    if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
        os.unlink(path)


def fault(why: str) -> str:
    printable = "".join(c if " " <= c <= "~" else "?" for c in why)[:200]
    return folded("X-Deciban", ["error;", *printable.split()])


def model_for_mail(service: Service) -> LiveModel:
    """The model that reads mail: the one that is named, or the only one that reads mail or texts."""
    name = service.settings.milter_model
    if name is not None:
        return service.live(name)
    fitting = [live for live in service.models.values() if live.current.takes != "rows"]
    mails = [live for live in fitting if live.current.takes == "mail"] or fitting
    if len(mails) != 1:
        raise DecibanError(
            "the milter needs one model of mails or texts, and there are {count}: "
            + ("set milter_model" if mails else "serve one"),
            count=len(mails),
        )
    return mails[0]
