"""Sorting a mailbox: new mail goes to junk or to the unsure, and what its owner moves is learned."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from deciban.client import Client, ServerError
from deciban.errors import DecibanError
from deciban.mailbox.imap import FetchedMail, Imap, MailboxError, OpenFolder
from deciban.mailbox.state import KnownMail, MailboxState
from deciban.text.mail import canonical, identity

HAM, SPAM, UNSURE = "ham", "spam", "unsure"
MAX_TOGETHER, MAX_BYTES_TOGETHER = 50, 3_000_000  # mails that are taught in one request
MAX_TRY_SECONDS = 600.0  # between tries where a server is away


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Which folder is what. `learn` are (label, folder) whose mails are learned, those already there too."""

    inbox: str = "INBOX"
    junk: str = "Junk"
    unsure: str | None = None  # None: what is unsure stays in the inbox
    learn: tuple[tuple[str, str], ...] = ()
    existing: bool = False  # whether mail that was there before is sorted as well
    file: bool = True  # False: only learn from what the user moves
    max_size: int = 5_000_000

    def __post_init__(self) -> None:
        if self.junk in (self.inbox, self.unsure) or self.unsure == self.inbox:
            raise DecibanError("inbox, junk and unsure must be different folders")
        for label, folder in self.learn:
            if label not in (HAM, SPAM):
                raise DecibanError("--learn {value!r}: write spam=FOLDER or ham=FOLDER", value=f"{label}={folder}")
            if folder in (self.inbox, self.unsure) and self.file:
                raise DecibanError(
                    "{value!r} is sorted, and what is in it need not be {label}: learn from another folder, or add "
                    "--learn-only",
                    value=folder,
                    label=label,
                )

    @property
    def learned(self) -> dict[str, str]:
        """The label of every mail of a folder."""
        return {folder: label for label, folder in self.learn}

    @property
    def labels(self) -> dict[str, str]:
        """What a mail is that its owner puts into a folder."""
        return {self.inbox: HAM, self.junk: SPAM} | self.learned

    @property
    def folders(self) -> list[str]:
        """The order in which folders are looked at: the inbox last, so that it is known what is in the others."""
        first = [self.junk, *([] if self.unsure is None else [self.unsure]), *(folder for _, folder in self.learn)]
        return [*dict.fromkeys(folder for folder in first if folder != self.inbox), self.inbox]

    def target(self, label: str) -> str:
        """Where a mail with this verdict goes."""
        return self.junk if label == SPAM else (self.unsure or self.inbox) if label == UNSURE else self.inbox


@dataclass(frozen=True, slots=True)
class Finding:
    """A mail that is dealt with: where it is from now on, and what it is to be learned as, if anything."""

    mail: FetchedMail
    known: KnownMail
    teach: str | None = None


@dataclass(slots=True, eq=False)
class Sorter:
    """A mailbox, its rules, its state and the filter. `show` gets a line for every mail that is moved or learned."""

    imap: Imap
    client: Client
    state: MailboxState
    rules: Rules
    dry_run: bool = False
    show: Callable[[str], None] = lambda _: None
    counts: Counter[str] = field(default_factory=Counter)

    def run(self) -> Counter[str]:
        """Look at every folder once; how many mails were moved, learned and so on."""
        self.counts = Counter()
        for name in self.rules.folders:
            self._sort(self.imap.open(name))
        if not self.dry_run:
            self.state.tidy()
        return self.counts

    def has_more(self) -> bool:
        """Whether mail has arrived in the inbox, which is still open, since it was looked at."""
        inbox = self.imap.folder
        last = None if inbox is None else self.state.last_uid(inbox.name, inbox.validity)
        return last is not None and not self.dry_run and bool(self.imap.after(last))

    def _sort(self, folder: OpenFolder) -> None:
        start = self.state.last_uid(folder.name, folder.validity)
        if start is None:
            start = self._begin(folder)
        filed = folder.name == self.rules.inbox and self.rules.file
        for batch in batches(
            self.imap.fetch(self.imap.after(start), self.rules.max_size), 1 if filed else MAX_TOGETHER
        ):
            findings = [found for mail in batch if (found := self._finding(folder, mail)) is not None]
            refused = self._teach(folder, [found for found in findings if found.teach is not None])
            if self.dry_run:
                continue
            with self.state.together():  # in one go, so that no later mail hides an earlier one that was not learned
                for found in findings:
                    if found.mail.uid not in refused:
                        self.state.put(found.known)
                self.state.advance(folder.name, folder.validity, batch[-1].uid)

    def _begin(self, folder: OpenFolder) -> int:
        """Where to begin in a folder that is new to us: behind what is there, unless that is wanted."""
        changed = self.state.is_known(folder.name)
        wanted = folder.name in self.rules.learned or (folder.name == self.rules.inbox and self.rules.existing)
        start = 0 if wanted and not changed else max(0, folder.next_uid - 1)
        if changed:
            self.show(f"{folder.name}: its numbers have changed; the mail that is in it is taken for old")
        if not self.dry_run:
            with self.state.together():
                self.state.leave(folder.name)
                self.state.advance(folder.name, folder.validity, start)
        return start

    # ------------------------------------------------------------------ what a mail in a folder means

    def _finding(self, folder: OpenFolder, mail: FetchedMail) -> Finding | None:
        """What is to be noted of a mail that is new in a folder; None if it cannot be read."""
        if mail.raw is None:
            self._skip(folder, mail, f"has more than {self.rules.max_size:,} bytes")
            return None
        id_ = identity(mail.raw)
        here, known = KnownMail(id_, folder.name, folder.validity, mail.uid), self.state.mail(id_)
        if folder.name in self.rules.learned:
            return Finding(mail, here, self.rules.learned[folder.name])
        if known is None:
            return self._first_seen(folder, mail, here)
        if folder.name == self.rules.inbox and known.source == (folder.validity, mail.uid):
            return self._finished_move(folder, mail, known)
        if known.place == folder.name:  # our own move, perhaps not at its end, or another copy
            return Finding(mail, replace(here, taught=known.taught, source=known.source))
        if folder.name == self.rules.unsure:
            return Finding(mail, here)
        if folder.name == self.rules.inbox and self._is_there(known, folder):
            return self._moved(folder, mail, replace(known, source=None))  # a copy of what was sorted already
        return Finding(mail, here, SPAM if folder.name == self.rules.junk else HAM)

    def _first_seen(self, folder: OpenFolder, mail: FetchedMail, here: KnownMail) -> Finding | None:
        assert mail.raw is not None
        if folder.name == self.rules.unsure:
            return Finding(mail, here)
        if not self.rules.file:  # then it was sorted when it was delivered, and its header shows how
            is_spam = delivered_as(mail.raw) == SPAM
            moved = is_spam == (folder.name == self.rules.inbox)
            return Finding(mail, here, self.rules.labels[folder.name] if moved else None)
        if folder.name == self.rules.junk:
            return Finding(mail, here, SPAM)
        try:
            answer = self.client.predict(canonical(mail.raw), id=here.id)
        except ServerError as error:
            self._refused(folder, mail, error)
            return None
        label = str(answer["label"])
        self.counts[label] += 1
        target = self.rules.target(label)
        if target == folder.name:
            return Finding(mail, here)
        self.show(f"{folder.name} {mail.uid}: {label} ({answer['probability']:.3f}), moved to {target}")
        return self._moved(folder, mail, KnownMail(here.id, target))

    # ------------------------------------------------------------------ moving

    def _moved(self, folder: OpenFolder, mail: FetchedMail, known: KnownMail) -> Finding:
        """Move a mail to where it is `known` to be from now on. What is intended is written down before it is done."""
        if self.dry_run:
            return Finding(mail, known)
        self.state.put(replace(known, source=(folder.validity, mail.uid)))
        validity, uid = self.imap.move(mail.uid, known.place) or (None, None)
        return Finding(mail, replace(known, validity=validity, uid=uid, source=None))

    def _finished_move(self, folder: OpenFolder, mail: FetchedMail, known: KnownMail) -> Finding:
        """A move that was interrupted: the mail is still here, and perhaps there, too."""
        if not self._is_there(known, folder):
            return self._moved(folder, mail, replace(known, source=None))
        if not self.dry_run:
            self.imap.delete(mail.uid)
        return Finding(mail, replace(known, source=None))

    def _is_there(self, known: KnownMail, back_to: OpenFolder) -> bool:
        """Whether a mail is still in the folder in which it was last seen."""
        if known.uid is None or known.place == back_to.name:
            return False
        there = self.imap.open(known.place)
        try:
            return known.validity in (None, there.validity) and self.imap.has(known.uid)
        finally:
            self.imap.open(back_to.name)

    # ------------------------------------------------------------------ learning

    def _teach(self, folder: OpenFolder, findings: Sequence[Finding]) -> set[int]:
        """Have mails learned, whatever they were learned as before; the UIDs of those that are refused."""
        findings = list({found.known.id: found for found in findings}.values())  # of several copies, the last
        if not findings:
            return set()
        statuses = ["learned"] * len(findings)
        if not self.dry_run:
            try:
                results = self.client.correct(
                    [found.known.id for found in findings],
                    [found.teach for found in findings],
                    [canonical(found.mail.raw or b"") for found in findings],
                )
            except ServerError as error:
                if len(findings) > 1 and not is_temporary(error):
                    return set().union(*(self._teach(folder, [one]) for one in findings))  # to find which it is
                self._refused(folder, findings[0].mail, error)
                return {findings[0].mail.uid}
            statuses = [str(one["status"]) for one in results]
        for found, status in zip(findings, statuses, strict=True):
            if status != "unchanged":
                self.counts[f"learned as {found.teach}"] += 1
                self.show(f"{folder.name} {found.mail.uid}: learned as {found.teach}")
        return set()

    def _refused(self, folder: OpenFolder, mail: FetchedMail, error: ServerError) -> None:
        """What the filter cannot read stays where it is; where the filter is away, the mail is looked at again."""
        if is_temporary(error):
            raise error
        self._skip(folder, mail, str(error))

    def _skip(self, folder: OpenFolder, mail: FetchedMail, why: str) -> None:
        self.counts["skipped"] += 1
        self.show(f"{folder.name} {mail.uid}: skipped, {why}")


def delivered_as(raw: bytes) -> str | None:
    """What the filter has written into a mail when it was delivered.

    >>> delivered_as(b"Received: x\\nX-Deciban: spam; probability=0.99\\n\\nX-Deciban: ham")
    'spam'
    """
    header = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0]
    match = re.search(rb"^X-Deciban:[ \t]*([a-z]+);", header, re.IGNORECASE | re.MULTILINE)
    return match[1].decode() if match else None


def is_temporary(error: ServerError) -> bool:
    """Whether another try may help; so it does where tokens or models are wrong, once somebody has mended that."""
    return error.status in (0, 401, 403, 404, 408, 421, 429) or error.status >= 500


def batches(mails: Iterable[FetchedMail], most: int) -> Iterable[list[FetchedMail]]:
    """Mails in lists of at most so many, and no more bytes than one request may have."""
    batch: list[FetchedMail] = []
    size = 0
    for mail in mails:
        if batch and (len(batch) == most or size + mail.size > MAX_BYTES_TOGETHER):
            yield batch
            batch, size = [], 0
        batch.append(mail)
        size += 0 if mail.raw is None else mail.size
    if batch:
        yield batch


def watch(
    connect: Callable[[], Sorter], poll: float, report: Callable[[Counter[str]], None], warn: Callable[[str], None]
) -> None:
    """Sort for ever: at once when mail arrives, and otherwise every `poll` seconds. Servers that are away are waited
    for."""
    pause = 1.0
    while True:
        try:
            sorter = connect()
            with sorter.imap:
                while True:
                    report(sorter.run())
                    pause = 1.0
                    if not sorter.has_more():
                        sorter.imap.wait(poll)
        except (MailboxError, ServerError) as error:
            warn(f"{error}: trying again in {pause:.0f} s")
            time.sleep(pause)
            pause = min(2.0 * pause, MAX_TRY_SECONDS)
