"""A mailbox on a real Dovecot is sorted, and what its owner moves is learned."""

from __future__ import annotations

import contextlib
import imaplib
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deciban.cli.run import run
from deciban.client import ServerError
from deciban.errors import DecibanError
from deciban.mailbox.imap import Account, Imap, MailboxError, from_utf7, quoted, to_utf7
from deciban.mailbox.sort import Rules, Sorter, watch
from deciban.mailbox.state import MailboxState
from deciban.text.mail import identity

from .conftest import HAM, SPAM
from .servers import Dovecot

RULES = Rules(unsure="Unsure", learn=(("ham", "Archive"),))
FOLDERS = ("INBOX", "Junk", "Unsure", "Archive")


@pytest.fixture(scope="module")
def dovecot():
    with Dovecot() as server:
        yield server


class FakeFilter:
    """What the server's client does: mails with "cash" are spam, and with "maybe" unsure."""

    def __init__(self):
        self.taught, self.fault = {}, None

    def predict(self, raw, id):  # noqa: A002 - the client's name
        assert id == identity(raw)
        if self.fault:
            raise self.fault
        label = "spam" if b"cash" in raw else "unsure" if b"maybe" in raw else "ham"
        return {"label": label, "probability": 0.99}

    def correct(self, ids, labels, examples):
        if self.fault and any(b"bad" in raw for raw in examples):
            raise self.fault
        assert ids == [identity(raw) for raw in examples]
        assert len(set(ids)) == len(ids)
        before = dict(self.taught)
        self.taught |= dict(zip(ids, labels, strict=True))
        return [{"status": "unchanged" if before.get(i) == y else "learned"} for i, y in zip(ids, labels, strict=True)]


class Mailbox:
    """The mailbox as its owner sees it, beside the filter."""

    numbers = count()

    def __init__(self, dovecot, folder, rules=RULES):
        self.account = Account(
            host="127.0.0.1",
            user=f"u{next(self.numbers)}",
            password=dovecot.password,
            port=dovecot.port,
            security="none",
        )
        self.filter, self.rules, self.path = FakeFilter(), rules, str(folder / f"{self.account.user}.sqlite")
        self.imap = imaplib.IMAP4("127.0.0.1", dovecot.port)
        self.imap.login(self.account.user, dovecot.password)
        for name in dict.fromkeys((rules.junk, rules.unsure, *rules.learned)):
            if name and self.imap.select(quoted(name))[0] != "OK":
                self.imap.create(quoted(name))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.imap.logout()

    def deliver(self, body, folder="INBOX", head=b""):
        raw = b"Message-ID: <%d@example.test>\r\n%sSubject: a mail\r\n\r\n%s\r\n" % (next(self.numbers), head, body)
        assert self.imap.append(quoted(folder), "", None, raw)[0] == "OK"
        return raw

    def uids(self, folder):
        """UID by mail."""
        self.imap.select(quoted(folder))
        (found,) = self.imap.uid("SEARCH", None, "UNDELETED")[1]
        return {self.imap.uid("FETCH", uid.decode(), "(BODY.PEEK[])")[1][0][1]: uid.decode() for uid in found.split()}

    def where(self, raw):
        """The folders that have a mail, once for each copy."""
        out = []
        for folder in self.rules.folders:
            self.imap.select(quoted(folder))
            (found,) = self.imap.uid("SEARCH", None, "UNDELETED")[1]
            fetched = [self.imap.uid("FETCH", uid.decode(), "(BODY.PEEK[])")[1][0] for uid in found.split()]
            out += [folder for one in fetched if one is not None and one[1] == raw]  # None: it was moved meanwhile
        return out

    def move(self, raw, to):
        """As a person does; from wherever it is."""
        for folder in self.rules.folders:
            if raw in (uids := self.uids(folder)):
                assert self.imap.uid("MOVE", uids[raw], quoted(to))[0] == "OK"
                return
        raise AssertionError("it is nowhere")

    def label(self, raw):
        return self.filter.taught.get(identity(raw))

    @contextlib.contextmanager
    def sorter(self, **how):
        with MailboxState(self.path, self.account.user) as state, Imap(self.account) as imap:
            yield Sorter(imap, self.filter, state, self.rules, **how)

    def sort(self, **how):
        with self.sorter(**how) as sorter:
            return dict(sorter.run())


@pytest.fixture
def box(dovecot, tmp_path):
    with Mailbox(dovecot, tmp_path) as mailbox:
        yield mailbox


def test_new_mail_is_sorted_and_old_mail_is_left_alone(box):
    old = box.deliver(b"old cash")
    assert box.sort() == {}
    spam, ham, unsure = (box.deliver(body) for body in (b"cash", b"lunch", b"maybe"))
    assert box.sort() == {"spam": 1, "ham": 1, "unsure": 1}
    assert [box.where(raw) for raw in (old, spam, ham, unsure)] == [["INBOX"], ["Junk"], ["INBOX"], ["Unsure"]]
    box.imap.select("INBOX")
    assert box.imap.search(None, "SEEN")[1] == [b""], "nothing is marked as read"
    assert box.filter.taught == {}, "what the filter moves is not learned"
    assert box.sort() == {}


@pytest.mark.slow
def test_existing_mail_is_sorted_if_wanted(dovecot, tmp_path):
    with Mailbox(dovecot, tmp_path, Rules(existing=True)) as box:
        old = box.deliver(b"old cash")
        unsure = box.deliver(b"maybe")
        assert box.sort() == {"spam": 1, "unsure": 1}
        assert (box.where(old), box.where(unsure)) == (["Junk"], ["INBOX"])


@pytest.mark.slow
def test_folders_are_learned_and_go_on_being_learned(dovecot, tmp_path):
    rules = Rules(junk="Müll & Co", learn=(("spam", "Müll & Co"), ("ham", "Archive")))
    with Mailbox(dovecot, tmp_path, rules) as box:
        spam = [box.deliver(b"spam %d" % i, "Müll & Co") for i in range(120)]
        ham = [box.deliver(b"ham %d" % i, "Archive") for i in range(3)]
        twice = box.deliver(b"twice", "Archive")
        box.imap.append("Archive", "", None, twice)
        assert box.sort() == {"learned as spam": 120, "learned as ham": 4}
        assert {box.label(raw) for raw in spam} == {"spam"}
        assert {box.label(raw) for raw in [*ham, twice]} == {"ham"}
        assert box.sort() == {}
        more = box.deliver(b"more", "Archive")
        assert box.sort() == {"learned as ham": 1}
        assert box.label(more) == "ham"


def test_what_is_moved_is_learned(box):
    box.sort()
    spam, ham, unsure, other = (box.deliver(body) for body in (b"cash", b"lunch", b"maybe", b"maybe not"))
    box.sort()
    for raw, to in ((spam, "INBOX"), (ham, "Junk"), (unsure, "Junk"), (other, "INBOX")):
        box.move(raw, to)
    assert box.sort() == {"learned as spam": 2, "learned as ham": 2}
    assert [box.label(raw) for raw in (spam, ham, unsure, other)] == ["ham", "spam", "spam", "ham"]
    assert box.where(spam) == ["INBOX"], "it is not sorted away again"
    assert box.sort() == {}
    box.move(spam, "Junk")  # after all
    box.move(ham, "Archive")
    assert box.sort() == {"learned as spam": 1, "learned as ham": 1}
    assert [box.label(raw) for raw in (spam, ham)] == ["spam", "ham"]


def test_a_client_without_move_copies_and_marks(box):
    box.sort()
    spam = box.deliver(b"cash")
    box.sort()
    uid = box.uids("Junk")[spam]
    box.imap.uid("COPY", uid, "INBOX")
    box.imap.uid("STORE", uid, "+FLAGS", r"(\Deleted)")
    assert box.sort() == {"learned as ham": 1}
    assert box.where(spam) == ["INBOX"]


def test_another_copy_of_a_mail_follows_the_first(box):
    box.sort()
    spam = box.deliver(b"cash")
    box.sort()
    box.imap.append("INBOX", "", None, spam)
    box.sort()
    assert box.where(spam) == ["Junk", "Junk"]
    assert box.filter.taught == {}


@pytest.mark.slow
def test_without_move_and_uidplus(box):
    box.sort()
    spam, marked = box.deliver(b"cash"), box.deliver(b"to be deleted by its owner")
    with box.sorter() as sorter:
        sorter.imap._capabilities -= {b"MOVE"}
        sorter.run()
    assert box.where(spam) == ["Junk"]
    box.imap.uid("STORE", box.uids("INBOX")[marked], "+FLAGS", r"(\Deleted)")
    other = box.deliver(b"more cash")
    with box.sorter() as sorter:
        sorter.imap._capabilities -= {b"MOVE", b"UIDPLUS"}
        sorter.run()
    assert box.where(other) == ["Junk"]
    box.imap.select("INBOX")
    assert len(box.imap.uid("SEARCH", None, "DELETED")[1][0].split()) == 2, "nothing of others is expunged"
    box.move(other, "INBOX")
    assert box.sort() == {"learned as ham": 1}


@pytest.mark.slow
def test_numbers_that_change_teach_nothing(box):
    box.sort()
    spam = box.deliver(b"cash")
    box.sort()
    box.imap.select("INBOX")
    box.imap.delete("Junk")  # and all that is in it
    time.sleep(1.1)  # UIDVALIDITY is a time in seconds
    box.imap.create("Junk")
    box.imap.append("Junk", "", None, spam)
    new = box.deliver(b"new cash")
    assert box.sort() == {"spam": 1}
    assert box.filter.taught == {}
    assert box.where(new) == ["Junk"]


def test_a_filter_that_is_away_is_waited_for(box):
    box.sort()
    box.filter.fault = ServerError("the server does not answer")
    spam, moved = box.deliver(b"cash"), box.deliver(b"bad", "Junk")
    with pytest.raises(ServerError):
        box.sort()
    assert (box.where(spam), box.label(moved)) == (["INBOX"], None)
    box.filter.fault = None
    assert box.sort() == {"spam": 1, "learned as spam": 1}


def test_what_the_filter_refuses_is_skipped(box):
    box.sort()
    box.filter.fault = ServerError("this cannot be read")
    box.filter.fault.status = 422
    good, bad = box.deliver(b"good", "Junk"), box.deliver(b"bad", "Junk")
    later, new = box.deliver(b"later", "Junk"), box.deliver(b"cash")
    assert box.sort() == {"learned as spam": 2, "skipped": 2}
    assert [box.label(raw) for raw in (good, bad, later)] == ["spam", None, "spam"]
    assert box.where(new) == ["INBOX"]
    assert box.sort() == {}


@pytest.mark.slow
def test_large_mail_is_left_alone(dovecot, tmp_path):
    with Mailbox(dovecot, tmp_path, Rules(max_size=10_000)) as box:
        box.sort()
        large = box.deliver(b"cash " * 10_000)
        assert box.sort() == {"skipped": 1}
        assert box.where(large) == ["INBOX"]


def test_a_dry_run_changes_nothing(box):
    box.sort()
    spam, ham = box.deliver(b"cash"), box.deliver(b"lunch", "Junk")
    shown = []
    assert box.sort(dry_run=True, show=shown.append) == {"spam": 1, "learned as spam": 1}
    assert len(shown) == 2
    assert (box.where(spam), box.label(ham)) == (["INBOX"], None)
    assert box.sort() == {"spam": 1, "learned as spam": 1}


def test_mail_that_was_sorted_when_it_was_delivered(dovecot, tmp_path):
    """Then its header says where it was put, and what is in another folder was moved."""
    with Mailbox(dovecot, tmp_path, Rules(file=False)) as box:
        box.sort()
        spam, ham = b"X-Deciban: spam; probability=0.99\r\n", b"X-Deciban: ham; probability=0.01\r\n"
        caught, missed = box.deliver(b"1", "Junk", spam), box.deliver(b"2", "Junk", ham)
        wanted, lost, plain = box.deliver(b"3", head=ham), box.deliver(b"4", head=spam), box.deliver(b"5")
        assert box.sort() == {"learned as spam": 1, "learned as ham": 1}
        labels = [box.label(raw) for raw in (caught, missed, wanted, lost, plain)]
        assert labels == [None, "spam", None, "ham", None]
        box.move(caught, "INBOX")
        assert box.sort() == {"learned as ham": 1}


class EnoughError(Exception):
    """The test has seen what it wanted."""


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.slow
@pytest.mark.parametrize("has_move", [True, False])
def test_whatever_is_interrupted_is_finished(dovecot, tmp_path, has_move):
    """A crash before and after every step: each mail is in one folder in the end, and nothing is learned by mistake."""
    for step in count():
        with Mailbox(dovecot, tmp_path) as box:
            box.sort()
            raws = [box.deliver(body) for body in (b"cash", b"lunch", b"maybe")]
            moved = box.deliver(b"by hand", "Junk")
            left = [step]

            def breaking(call, left=left):
                def wrapped(*given):
                    for when in (0, 1):
                        if left[0] == 0:
                            raise Crash
                        left[0] -= 1
                        if when == 0:
                            out = call(*given)
                    return out

                return wrapped

            crashed = False
            with contextlib.suppress(Crash), box.sorter() as sorter:
                if not has_move:
                    sorter.imap._capabilities -= {b"MOVE"}
                for owner, name in (
                    (sorter.imap, "_uid"),
                    (sorter.state, "put"),
                    (sorter.state, "advance"),
                    (box.filter, "correct"),
                ):
                    setattr(owner, name, breaking(getattr(owner, name)))
                crashed = True
                sorter.run()
                crashed = False
            box.filter.__dict__.pop("correct")
            box.sort()
            places = [sorted(box.where(raw)) for raw in raws]
            assert places == [["Junk"], ["INBOX"], ["Unsure"]], step
            assert box.filter.taught == {identity(moved): "spam"}, step
            if not crashed:
                assert step > 20
                return


actions = st.lists(
    st.tuples(st.just("deliver"), st.sampled_from([b"cash", b"lunch", b"maybe"]))
    | st.tuples(st.just("move"), st.tuples(st.integers(0, 5), st.sampled_from(FOLDERS)))
    | st.just(("sort", None)),
    max_size=14,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(actions)
def test_any_sequence_of_deliveries_and_moves(dovecot, tmp_path, given_actions):
    """No mail is lost or doubled, and each is learned as what its owner moved it to last, as seen by the filter."""
    with Mailbox(dovecot, tmp_path) as box:
        box.sort()
        mails, place, seen, taught = [], {}, {}, {}
        targets = {b"cash": "Junk", b"lunch": "INBOX", b"maybe": "Unsure"}
        arrived = set()  # moved since the filter last looked
        for what, how in [*given_actions, ("sort", None)]:
            if what == "deliver":
                raw = box.deliver(how)
                mails.append((raw, how))
                place[raw] = "INBOX"
                arrived.add(raw)
            elif what == "move" and mails:
                raw = mails[how[0] % len(mails)][0]
                if place[raw] != how[1]:
                    box.move(raw, how[1])
                    place[raw] = how[1]
                    arrived.add(raw)
            elif what == "sort":
                box.sort()
                for raw, body in mails:
                    if raw not in arrived:
                        continue
                    here = place[raw]
                    if here == "Archive" or (raw in seen and seen[raw] != here and here == "INBOX"):
                        taught[raw] = "ham"
                    elif here == "Junk" and seen.get(raw) != "Junk":
                        taught[raw] = "spam"
                    elif here == "INBOX" and raw not in seen:
                        place[raw] = targets[body]
                    seen[raw] = place[raw]
                arrived.clear()
        assert {raw: box.where(raw) for raw, _ in mails} == {raw: [place[raw]] for raw, _ in mails}
        assert {raw: box.label(raw) for raw, _ in mails} == {raw: taught.get(raw) for raw, _ in mails}


# ---------------------------------------------------------------------- connections


@pytest.mark.slow
def test_connections_are_encrypted_and_checked(dovecot):
    how = {"host": "localhost", "user": "ann", "password": dovecot.password}
    for security, port in (("tls", dovecot.tls_port), ("starttls", dovecot.port)):
        good = Account(**how, security=security, port=port, ca_file=str(dovecot.certificate))
        with Imap(good) as imap:
            assert imap.open("INBOX").next_uid == 1
            assert imap.junk() == "Junk"
        with pytest.raises(MailboxError, match="certificate"):
            Imap(Account(**how, security=security, port=port))
    wrong = how | {"password": "a-wrong-secret"}
    with pytest.raises(MailboxError, match="does not let us in") as error:
        Imap(Account(**wrong, security="none", port=dovecot.port))
    assert "a-wrong-secret" not in str(error.value)
    assert "a-wrong-secret" not in repr(Account(**wrong))
    with pytest.raises(DecibanError, match="without TLS"):
        Account(host="imap.example.org", user="ann", password="x", security="none")
    with pytest.raises(MailboxError, match="does not let us in"):
        Imap(Account(**how, port=1))
    with Imap(good) as imap, pytest.raises(DecibanError, match="no folder 'Nowhere'"):
        imap.open("Nowhere")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_names_of_folders(name):
    assert from_utf7(to_utf7(name).encode()) == name
    assert to_utf7(name).isascii()
    assert to_utf7(name).isprintable()


def test_new_mail_is_sorted_at_once_while_watching(box):
    box.sort()
    reports, ending = [], threading.Event()

    def report(counts: Counter):
        reports.append(dict(counts))
        if ending.is_set():
            raise EnoughError

    def work():
        with MailboxState(box.path, box.account.user) as state, contextlib.suppress(EnoughError):
            watch(lambda: Sorter(Imap(box.account), box.filter, state, box.rules), 3600.0, report, print)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_until(lambda: len(reports) == 1)
        spam = box.deliver(b"cash")
        wait_until(lambda: box.where(spam) == ["Junk"])
        wait_until(lambda: {"spam": 1} in reports)
    finally:
        ending.set()
        box.deliver(b"the last")
        thread.join(30)
    assert not thread.is_alive()


def test_a_mail_server_that_is_away_is_waited_for(monkeypatch):
    pauses, warnings = [], []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 12:
            raise EnoughError

    def connect():
        raise MailboxError("the mail server is away")

    monkeypatch.setattr("deciban.mailbox.sort.time.sleep", sleep)
    with pytest.raises(EnoughError):
        watch(connect, 60.0, print, warnings.append)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]
    assert "away: trying again in 2 s" in warnings[1]


def wait_until(true, seconds=30.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


# ---------------------------------------------------------------------- the state


def test_a_state_is_of_one_account_and_one_process(tmp_path):
    path = str(tmp_path / "new/folder/state.sqlite")
    with MailboxState(path, "ann@a"), pytest.raises(DecibanError, match="another `deciban mailbox`"):
        MailboxState(path, "ann@a")
    with pytest.raises(DecibanError, match="of ann@a, and not of bob@a"):
        MailboxState(path, "bob@a")
    assert os.stat(path).st_mode & 0o777 == 0o600
    (tmp_path / "other").write_text("no database at all, but longer than a header of one would be, which is 100 bytes")
    with pytest.raises(DecibanError, match="no state of a mailbox"):
        MailboxState(str(tmp_path / "other"), "ann@a")


def test_rules_that_contradict_each_other():
    for wrong in (
        {"junk": "INBOX"},
        {"unsure": "Junk"},
        {"learn": (("maybe", "x"),)},
        {"learn": (("ham", "INBOX"),)},
        {"unsure": "Unsure", "learn": (("spam", "Unsure"),)},
    ):
        with pytest.raises(DecibanError):
            Rules(**wrong)
    assert Rules(file=False, learn=(("ham", "INBOX"),)).folders == ["Junk", "INBOX"]


# ---------------------------------------------------------------------- the command


def test_passwords_are_not_on_the_command_line(dovecot, tmp_path, monkeypatch, capsys):
    command = [
        "mailbox",
        "127.0.0.1",
        "-u",
        "cli",
        "--no-tls",
        "--port",
        str(dovecot.port),
        "--state",
        str(tmp_path / "s"),
    ]
    monkeypatch.delenv("DECIBAN_IMAP_PASSWORD", raising=False)
    assert run(command) == 2
    assert "there is no password" in capsys.readouterr().err
    (tmp_path / "secret").write_text(dovecot.password + "\n")
    for given_options in (
        ["--password-file", str(tmp_path / "secret")],
        ["--password-command", f"cat {tmp_path / 'secret'}"],
    ):
        assert run([*command, *given_options]) == 0
        assert capsys.readouterr().out == "nothing new\n"
    monkeypatch.setenv("DECIBAN_IMAP_PASSWORD", dovecot.password)
    assert run([*command, "--dry-run"]) == 0
    monkeypatch.setenv("DECIBAN_IMAP_PASSWORD", "wrong-secret")
    assert run(command) == 2
    assert "wrong-secret" not in capsys.readouterr().err
    assert run([*command, "--password-command", "false"]) == 2
    assert run([*command, "--password-command", "a", "--password-file", "b"]) == 2
    assert run([*command, "--starttls"]) == 2
    assert run([*command, "--learn", "Junk"]) == 2


@pytest.mark.slow
def test_from_nothing_to_corrected(dovecot, model_file, tmp_path):
    """The commands of the guide: a server, a mailbox, a mistake, and its correction."""
    pytest.importorskip("starlette", reason="the server is not installed: pip install 'deciban[server]'")
    from server.running import Running

    command = [
        sys.executable,
        "-m",
        "deciban",
        "mailbox",
        "localhost",
        "--user",
        "e2e",
        "--port",
        str(dovecot.tls_port),
    ]
    command += ["--ca-file", str(dovecot.certificate), "--state", str(tmp_path / "state"), "--unsure", "Unsure"]
    command += ["--socket", str(tmp_path / "socket"), "--learn", "ham=Archive"]
    environment = os.environ | {"DECIBAN_IMAP_PASSWORD": dovecot.password}

    def sort():
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    owner = imaplib.IMAP4("127.0.0.1", dovecot.port)
    owner.login("e2e", dovecot.password)
    with Running(model_file, tmp_path / "s.sqlite", socket=tmp_path / "socket") as server:
        owner.append("Archive", "", None, HAM[0].encode().replace(b"\n", b"\r\n"))
        assert sort() == "1 learned as ham"
        for raw in (SPAM[0], HAM[1], "Subject: hello\n\nIt is me.\n"):
            owner.append("INBOX", "", None, raw.encode().replace(b"\n", b"\r\n"))
        assert sort() == "1 ham, 1 spam, 1 unsure"
        owner.select("Junk")
        owner.uid("MOVE", "1", "INBOX")
        assert sort() == "1 learned as ham"
        assert sort() == "nothing new"
        assert server.client.describe()["examples"] == 2
        assert {line["kind"] for line in server.client.log()} == {"begin", "learn"}
    owner.logout()
