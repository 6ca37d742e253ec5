"""The recipes in deploy/mail, run by the programs that they are for."""

from __future__ import annotations

import imaplib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from server.running import Running

from .conftest import HAM, SPAM
from .servers import NOBODY, Dovecot

pytestmark = pytest.mark.slow
pytest.importorskip("starlette", reason="the server is not installed: pip install 'deciban[server]'")

RECIPES = Path(__file__).parents[2] / "deploy" / "mail"
UNSURE = "Subject: hello\n\nIt is me.\n"
BINARIES = Path(sys.executable).parent


@pytest.fixture(scope="module")
def serving(model_file, tmp_path_factory):
    folder = Path("/tmp") / f"deciban-recipes-{os.getpid()}"  # which other users may enter
    folder.mkdir(mode=0o755)
    with Running(model_file, tmp_path_factory.mktemp("s") / "s.sqlite", socket=folder / "socket") as server:
        yield server, folder
    shutil.rmtree(folder)


def recipe(name, socket):
    """A recipe with the paths of the test."""
    text = (RECIPES / name).read_text()
    for old, new in (("/opt/deciban/bin", str(BINARIES)), ("/run/deciban/socket", str(socket))):
        assert old in text, (name, old)
        text = text.replace(old, new)
    return text


def needs(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: make mail")


def delivered(folder):
    return [path.read_bytes() for path in folder.glob("new/*")]


def check_sorted(inbox, junk, unsure):
    for folder, verdict, sent in ((inbox, b"ham;", HAM[0]), (junk, b"spam;", SPAM[0]), (unsure, b"unsure;", UNSURE)):
        (raw,) = delivered(folder)
        assert b"X-Deciban: " + verdict in raw
        assert raw.rstrip().endswith(sent.encode().partition(b"\n\n")[2].rstrip())  # procmail adds an empty line


def test_procmail(serving, tmp_path):
    needs("procmail")
    _, folder = serving
    mail = tmp_path / "Maildir"
    rules = f"MAILDIR={mail}\nDEFAULT={mail}/\nSHELL=/bin/sh\nLOGFILE={tmp_path}/log\n"
    (tmp_path / "rc").write_text(rules + recipe("procmailrc", folder / "socket"))
    mail.mkdir()
    for raw in (HAM[0], SPAM[0], UNSURE):
        subprocess.run(["procmail", "-m", tmp_path / "rc"], input=raw.encode(), check=True)
    check_sorted(mail, mail / ".Junk", mail / ".Unsure")
    (tmp_path / "rc").write_text(rules + recipe("procmailrc", tmp_path / "nobody"))
    subprocess.run(["procmail", "-m", tmp_path / "rc"], input=SPAM[1].encode(), check=True)
    assert any(SPAM[1].encode() in raw and b"X-Deciban: error;" in raw for raw in delivered(mail))
    missing = (rules + recipe("procmailrc", folder / "socket")).replace("deciban-filter", "no-such-filter")
    (tmp_path / "rc").write_text(missing)
    subprocess.run(["procmail", "-m", tmp_path / "rc"], input=SPAM[2].encode(), check=True, stderr=subprocess.DEVNULL)
    assert any(SPAM[2].encode() in raw for raw in delivered(mail)), "without the filter the mail is not lost"


def test_maildrop(serving, tmp_path):
    needs("maildrop")
    _, folder = serving
    for name in ("", ".Junk", ".Unsure"):
        for inner in ("cur", "new", "tmp"):
            (tmp_path / "Maildir" / name / inner).mkdir(parents=True, exist_ok=True)
    rules = tmp_path / "rules"
    rules.write_text(f'HOME="{tmp_path}"\n' + recipe("mailfilter", folder / "socket"))
    rules.chmod(0o600)
    for raw in (HAM[0], SPAM[0], UNSURE):
        done = subprocess.run(["maildrop", rules], input=raw.encode(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    check_sorted(*(tmp_path / "Maildir" / name for name in ("", ".Junk", ".Unsure")))


def test_sieve_sorts_and_learns_from_moves(serving):
    needs("sievec")
    server, folder = serving
    scripts = folder / "sieve"
    scripts.mkdir()
    conf = (RECIPES / "dovecot-deciban.conf").read_text()
    conf = conf.replace("/opt/deciban/bin", str(BINARIES)).replace("/etc/dovecot/deciban", str(scripts))
    for name in ("filter.sieve", "learn-spam.sieve", "learn-ham.sieve"):
        text = (RECIPES / name).read_text().replace("/run/deciban/socket", str(folder / "socket"))
        (scripts / name).write_text(text)
    if not os.access(BINARIES / "deciban-filter", os.X_OK) or not reachable(BINARIES):
        pytest.skip(f"{BINARIES} cannot be entered by other users")
    examples = server.client.describe()["examples"]
    with Dovecot(conf) as dovecot:
        settings = ["-c", dovecot.folder / "dovecot.conf"]
        for script in scripts.glob("*.sieve"):
            subprocess.run(["sievec", *settings, script], check=True, capture_output=True)
        for raw in (HAM[0], SPAM[0], UNSURE):
            done = subprocess.run(
                ["/usr/lib/dovecot/dovecot-lda", *settings, "-d", "ann"],
                input=raw.encode(),
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, (done.stderr, dovecot.log())
        mail = dovecot.folder / "mail/ann"
        check_sorted(mail, mail / "Junk", mail / "Unsure")
        owner = imaplib.IMAP4("127.0.0.1", dovecot.port)
        owner.login("ann", dovecot.password)
        owner.select("Junk")
        owner.uid("MOVE", "1", "INBOX")
        wait_until(lambda: server.client.describe()["examples"] == examples + 1, dovecot.log)
        owner.select("Unsure")
        owner.uid("MOVE", "1", "Junk")
        wait_until(lambda: server.client.describe()["examples"] == examples + 2, dovecot.log)
        owner.logout()
    kinds = [line["kind"] for line in server.client.log()][-2:]
    assert kinds == ["learn", "learn"]


def reachable(path):
    """Whether the user that Dovecot runs as can start programs there."""
    command = ["setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups"]
    return (
        subprocess.run([*command, path / "deciban-filter", "--version"], capture_output=True, check=False).returncode
        == 0
    )


def wait_until(true, log):
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, log()
        time.sleep(0.05)
