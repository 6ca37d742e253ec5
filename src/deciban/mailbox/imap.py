"""IMAP, as far as a filter needs it: new mails of a folder, their text, moving them, and waiting for more."""

from __future__ import annotations

import base64
import imaplib
import re
import select
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from deciban.errors import DecibanError, EngineError

imaplib._MAXLINE = max(imaplib._MAXLINE, 10_000_000)  # type: ignore[attr-defined]  # a line of a folder with a million mails

UID = re.compile(rb"\bUID (\d+)")
SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")
LISTED = re.compile(rb'\((?P<flags>[^)]*)\) (?:"(?:[^"\\]|\\.)*"|NIL) (?P<name>.*)', re.DOTALL)
COPIED = re.compile(rb"(\d+) (\d+) (\d+)")  # of one mail: UIDVALIDITY, its UID, and its UID there
MAX_IDLE_SECONDS = 29 * 60  # servers end a connection after half an hour
SECURITY = ("tls", "starttls", "none")


class MailboxError(EngineError):
    """The mail server refused something, or cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where a mailbox is. The password is not shown."""

    host: str
    user: str
    password: str
    port: int = 0  # 0: the usual one
    security: str = "tls"
    ca_file: str | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.security not in SECURITY:
            raise DecibanError("security is {value!r}: it must be one of {all}", value=self.security, all=SECURITY)
        if self.security == "none" and self.host not in ("localhost", "127.0.0.1", "::1"):
            raise DecibanError(
                "without TLS everybody on the way can read the password, and {value!r} is not this machine: use TLS",
                value=self.host,
            )

    def __repr__(self) -> str:
        return f"Account({self.user!r} at {self.host!r})"


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """A folder that is selected: UIDs mean something as long as `validity` is the same."""

    name: str
    validity: int
    next_uid: int  # of the next mail to come


@dataclass(frozen=True, slots=True)
class FetchedMail:
    """A mail of a folder; `raw` is None if it is larger than asked for."""

    uid: int
    size: int
    raw: bytes | None


class Imap:
    """A connection; one folder is open at a time."""

    def __init__(self, account: Account) -> None:
        self.account = account
        try:
            self._imap = connected(account)
            self._capabilities = set(self._call("capability")[0].upper().split())
        except (OSError, imaplib.IMAP4.error) as error:
            raise MailboxError("{host} does not let us in: {why}", host=account.host, why=reason(error)) from None
        self._folders = dict(self._listed())
        self.folder: OpenFolder | None = None

    # ------------------------------------------------------------------ folders

    def _listed(self) -> Iterator[tuple[str, set[str]]]:
        for line in self._call("list"):
            if line and (match := LISTED.match(line)):
                name = match["name"].strip()
                if name.startswith(b'"'):
                    name = re.sub(rb"\\(.)", rb"\1", name[1:-1])
                yield from_utf7(name), {flag.decode("ascii", "replace").lower() for flag in match["flags"].split()}

    def junk(self) -> str:
        """The folder that the server calls that of junk (RFC 6154); otherwise "Junk"."""
        return next((name for name, flags in self._folders.items() if "\\junk" in flags), "Junk")

    def make(self, name: str) -> None:
        """Create a folder, unless there is one."""
        if name.upper() != "INBOX" and name not in self._folders:
            self._call("create", quoted(name))
            self._call("subscribe", quoted(name))
            self._folders[name] = set()

    def open(self, name: str) -> OpenFolder:
        if name.upper() != "INBOX" and name not in self._folders:
            raise DecibanError("there is no folder {value!r} on {host}", value=name, host=self.account.host)
        self._call("select", quoted(name))
        validity, next_uid = (self._number(code) for code in ("UIDVALIDITY", "UIDNEXT"))
        self.folder = OpenFolder(name, validity, next_uid)
        return self.folder

    def _number(self, code: str) -> int:
        _, data = self._imap.response(code)
        return int(data[0]) if data and data[0] else 0

    # ------------------------------------------------------------------ mails

    def after(self, uid: int) -> list[int]:
        """The UIDs of mails beyond this one, ascending; those that are marked as deleted are left out."""
        found = self._uid("SEARCH", f"UID {uid + 1}:*", "UNDELETED")
        numbers = sorted({int(one) for line in found if line for one in line.split()})
        return [one for one in numbers if one > uid]  # the last mail is always among those of N:*

    def has(self, uid: int) -> bool:
        """Whether the open folder has a mail, which is not marked as deleted."""
        return any(
            line and str(uid).encode() in line.split() for line in self._uid("SEARCH", f"UID {uid}", "UNDELETED")
        )

    def fetch(self, uids: Sequence[int], most: int) -> Iterator[FetchedMail]:
        """Mails of the open folder, without marking them as read; those that are no longer there are left out."""
        if not uids:
            return
        sizes: dict[int, int] = {}
        for line in self._uid("FETCH", ",".join(map(str, uids)), "(UID RFC822.SIZE)"):
            head = line[0] if isinstance(line, tuple) else line
            if head and (uid := UID.search(head)) and (size := SIZE.search(head)):
                sizes[int(uid[1])] = int(size[1])
        for uid_ in uids:
            if uid_ not in sizes:
                continue
            if sizes[uid_] > most:
                yield FetchedMail(uid_, sizes[uid_], None)
                continue
            parts = [one for one in self._uid("FETCH", str(uid_), "(UID BODY.PEEK[])") if isinstance(one, tuple)]
            if parts:
                yield FetchedMail(uid_, sizes[uid_], bytes(parts[0][1]))

    def move(self, uid: int, to: str) -> tuple[int, int] | None:
        """Move a mail to another folder; UIDVALIDITY and its UID there, if the server reports them."""
        self._imap.untagged_responses.pop("COPYUID", None)
        if b"MOVE" in self._capabilities:
            self._uid("MOVE", str(uid), quoted(to))
            return self._copied()
        self._uid("COPY", str(uid), quoted(to))
        there = self._copied()
        self.delete(uid)
        return there

    def _copied(self) -> tuple[int, int] | None:
        _, data = self._imap.response("COPYUID")
        match = COPIED.fullmatch(data[0].strip()) if data and data[0] else None
        return (int(match[1]), int(match[3])) if match else None

    def delete(self, uid: int) -> None:
        """Delete one mail; without UIDPLUS it is marked, since other marked mails are not ours to delete."""
        self._uid("STORE", str(uid), "+FLAGS.SILENT", r"(\Deleted)")
        if b"UIDPLUS" in self._capabilities:
            self._uid("EXPUNGE", str(uid))

    # ------------------------------------------------------------------ waiting

    def wait(self, seconds: float) -> None:
        """Wait until something happens in the open folder, or the time is over (IDLE, RFC 2177)."""
        if b"IDLE" not in self._capabilities:
            time.sleep(seconds)
            self._call("noop")
            return
        imap: Any = self._imap
        try:
            tag = imap._new_tag()
            imap.send(tag + b" IDLE\r\n")
            news = False
            while (line := imap.readline()).startswith(b"*"):
                news = True
            if not line.startswith(b"+"):
                raise MailboxError("{host} does not wait", host=self.account.host)
            if not news and not (isinstance(imap.sock, ssl.SSLSocket) and imap.sock.pending()):
                select.select([imap.sock], [], [], min(seconds, MAX_IDLE_SECONDS))
            imap.send(b"DONE\r\n")
            while not imap.readline().startswith(tag):  # what has happened is asked for again
                pass
        except (OSError, imaplib.IMAP4.error) as error:
            raise MailboxError(
                "{host} has closed the connection: {why}", host=self.account.host, why=reason(error)
            ) from None

    # ------------------------------------------------------------------ calls

    def _uid(self, *given: str) -> list[Any]:
        return self._call("uid", *given)

    def _call(self, name: str, *given: str) -> list[Any]:
        try:
            status, data = getattr(self._imap, name)(*given)
        except (OSError, imaplib.IMAP4.error) as error:
            raise MailboxError("{host} fails: {why}", host=self.account.host, why=reason(error)) from None
        if status != "OK":
            raise MailboxError(
                "{host} refuses {what}: {why}", host=self.account.host, what=name, why=reason(data and data[0])
            )
        return list(data or [])

    def close(self) -> None:
        try:
            self._imap.logout()
        except (OSError, imaplib.IMAP4.error):
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connected(account: Account) -> imaplib.IMAP4:
    """A connection that is logged in; the password is never sent in the clear over a network."""
    imap: imaplib.IMAP4
    if account.security == "none":
        imap = imaplib.IMAP4(account.host, account.port or 143, account.timeout)
    else:
        context = ssl.create_default_context(cafile=account.ca_file)
        if account.security == "tls":
            imap = imaplib.IMAP4_SSL(account.host, account.port or 993, ssl_context=context, timeout=account.timeout)
        else:
            imap = imaplib.IMAP4(account.host, account.port or 143, account.timeout)
            imap.starttls(context)
    try:
        if "AUTH=PLAIN" in imap.capabilities:
            imap.authenticate("PLAIN", lambda _: f"\0{account.user}\0{account.password}".encode())
        else:
            imap.login(account.user, account.password)
    except BaseException:
        imap.shutdown()
        raise
    return imap


def reason(error: Any) -> str:
    """What went wrong, in one line."""
    if isinstance(error, socket.timeout):
        return "no answer in time"
    text = error.decode("utf-8", "replace") if isinstance(error, bytes) else str(error)
    return text.removeprefix("b'").removesuffix("'") or type(error).__name__


def quoted(name: str) -> str:
    """A folder's name as IMAP has it.

    >>> quoted('Entwürfe "neu"')
    '"Entw&APw-rfe \\\\"neu\\\\""'
    """
    return '"' + to_utf7(name).replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_utf7(name: str) -> str:
    """A name in the UTF-7 of RFC 3501.

    >>> to_utf7("Privat & Büro"), from_utf7(b"Privat &- B&APw-ro"), from_utf7(to_utf7("台北").encode())
    ('Privat &- B&APw-ro', 'Privat & Büro', '台北')
    """
    out = []
    for part in re.findall(r"[ -%'-~]+|&|[^ -~]+", name):
        if part == "&":
            out.append("&-")
        elif part.isascii() and part.isprintable():
            out.append(part)
        else:
            out.append("&" + base64.b64encode(part.encode("utf-16-be")).decode().rstrip("=").replace("/", ",") + "-")
    return "".join(out)


def from_utf7(name: bytes) -> str:
    def decoded(match: re.Match[str]) -> str:
        if not match[1]:
            return "&"
        digits = match[1].replace(",", "/")
        return base64.b64decode(digits + "=" * (-len(digits) % 4)).decode("utf-16-be", "replace")

    try:
        return re.sub(r"&([A-Za-z0-9+,]*)-", decoded, name.decode("ascii"))
    except (UnicodeError, ValueError):
        return name.decode("utf-8", "replace")  # of servers that use UTF-8
