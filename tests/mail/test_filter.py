"""`deciban-filter`: mail passes unharmed, whatever it is and whatever goes wrong."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.main import get_command

import deciban
from deciban.cli.app import app
from deciban.cli.run import run

from .programs import FILTER, HEADER, Answering, filtered, reply

MAIL = b"From: ann@home.example\nSubject: Lunch\n\nAt noon?\n"


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    """A server that says spam."""
    with Answering(tmp_path_factory.mktemp("server") / "socket") as server:
        yield server


def passed(raw, ours):
    """What must come out: our fields at the top of the header, and forged ones gone."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", raw)
    crlf = bool(lines) and lines[0].endswith(b"\r\n")
    ours = ours.replace(b"\n", b"\r\n") if crlf else ours
    out = []
    while lines and lines[0].endswith(b"\n") and lines[0].startswith((b"From ", b">From ") if out else b"From "):
        out.append(lines.pop(0))
    out.append(ours)
    if lines and lines[0] not in (b"\n", b"\r\n") and not re.match(rb"[!-9;-~]+[ \t]*:", lines[0]):
        return b"".join([*out, b"\r\n" if crlf else b"\n", *lines])  # it has no header
    forged = False
    while lines and lines[0] not in (b"\n", b"\r\n"):
        line = lines.pop(0)
        forged = forged if line[:1] in (b" ", b"\t") else bool(re.match(rb"(?i)x-deciban[-: \t]", line))
        out += [] if forged else [line]
    return b"".join([*out, *lines])


pieces = st.sampled_from(
    [
        b"From me@a.example Sat Jan  3 01:05:34 1996",
        b">From here",
        b"From",
        b"Subject: caf\xe9 \x00",
        b"X-Deciban: ham; probability=0",
        b"x-dECIBAN-Evidence : -90 nothing",
        b"X-Deciban",
        b"X-Decibanned: no",
        b" folded",
        b"\t",
        b"",
        b"\r",
        b"no field",
        b": nothing",
        b"Content-Type: multipart/mixed; boundary=b",
        b"--b",
        b"\xef\xbb\xbfTo: me",
        b".",
        b"a" * 3000,
    ]
)
mails = st.lists(st.tuples(pieces | st.binary(max_size=30), st.sampled_from([b"\n", b"\r\n", b""]))).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(b"")
@example(b"\n")
@example(b"From ")
@example(b"From a\n")
@example(b"X-Deciban: ham")
@example(b"X-Deciban:\n ham\n\nX-Deciban: the body's own\n")
@example(b" ham; X-Deciban is folded into ours\nSubject: x\n\n")
@example(b"Subject: x\r\nX-Deciban: ham\r\n\tmore\r\n\r\nbody\r\n")
@example(b"X-Deciba")
@example(b"To: me\nX-Deciban\0: ham\n\n")
@example(b"a" * 200_000 + b"\nX-Deciban: ham\n\n")
@example(b"a: b\n" * 50_000 + b"X-Deciban: ham\n\n")
@given(mails)
def test_any_bytes_pass_as_they_are(answering, raw):
    assert filtered(raw, "--socket", answering.path).stdout == passed(raw, HEADER)


@pytest.mark.slow
def test_any_bytes_pass_as_they_are_under_sanitizers(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source, program = Path(__file__).parents[2] / "src/filter/deciban-filter.c", tmp_path / "deciban-filter"
    flags = ["-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *flags, "-o", program, source], check=True)

    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # memory goes when the process ends

    with Answering(tmp_path / "socket") as server:

        @settings(deadline=None, max_examples=300)
        @given(mails, st.sampled_from([0, 1, 10, 1000]))
        def check(raw, most):
            done = filtered(raw, "--socket", server.path, "--max-size", most, program=program, env=environment)
            if len(raw) > most:
                assert b"has more than" in done.stderr
            else:
                assert done.stdout == passed(raw, HEADER)
                assert done.stderr == b""

        check()
        filtered(MAIL, "--socket", tmp_path / "nowhere", program=program, env=environment)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(mails, st.integers(0, 300) | st.integers(65_000, 66_000))
def test_what_is_too_large_passes_too(answering, raw, most):
    """A mail of which only the beginning is in memory."""
    raw += b"\nX-Deciban: ham\n y\n" * 10_000
    done = filtered(raw, "--socket", answering.path, "--max-size", most)
    ours = HEADER if len(raw) <= most else b"X-Deciban: error; the mail has more than %d bytes\n" % most
    assert done.stdout == passed(raw, ours)


@pytest.mark.parametrize("megabytes", [11, pytest.param(100, marks=pytest.mark.slow)])
def test_many_megabytes_pass(answering, megabytes):
    raw = MAIL + b"0123456789abcde\n" * (megabytes * 1_000_000 // 16)
    done = filtered(raw, "--socket", answering.path)
    assert done.stdout == b"X-Deciban: error; the mail has more than 10000000 bytes\n" + raw
    assert filtered(raw, "--socket", answering.path, "--verdict", check=False).returncode == 3


def fault(done, raw=MAIL):
    """The reason that a mail was not checked for; it must have passed unchanged."""
    assert done.returncode == 0
    header, _, rest = done.stdout.partition(b"From: ann")
    assert b"From: ann" + rest == raw
    assert header.startswith(b"X-Deciban: error;")
    assert all(len(line) <= 76 or len(line.split()) == 1 for line in header.split(b"\n")), "a path may be longer"
    text = b" ".join(header.split()).decode()
    assert done.stderr.decode() == f"deciban-filter: {text.removeprefix('X-Deciban: error; ')}\n"
    return text


def test_no_server(tmp_path):
    assert "does not answer (No such file or directory)" in fault(filtered(MAIL, "--socket", tmp_path / "none"))
    assert "does not answer (Connection refused)" in fault(filtered(MAIL, "--server", "http://127.0.0.1:1"))
    assert "does not answer (Connection refused)" in fault(filtered(MAIL, "--server=http://[::1]:1"))
    assert "no address" in fault(filtered(MAIL, "--server", "https://filter.example"))
    assert "no address" in fault(filtered(MAIL, "--server", "http://filter.example:80"))
    assert "no address" in fault(filtered(MAIL, "--server", "http://"))
    assert "too long" in fault(filtered(MAIL, "--socket", "/x" * 100))
    (tmp_path / "file").touch()
    assert "does not answer" in fault(filtered(MAIL, "--socket", tmp_path / "file"))
    with socket.socket(socket.AF_UNIX) as busy:  # a server that was killed leaves its socket
        busy.bind(str(tmp_path / "left"))
    assert "Connection refused" in fault(filtered(MAIL, "--socket", tmp_path / "left"))


ANSWERS = {
    "nothing": (b"", "ends without an answer"),
    "not HTTP": (b"220 mail.example ESMTP\r\n\r\n", "ends without an answer"),
    "cut in its head": (b"HTTP/1.1 200 OK\r\ncontent", "ends without an answer"),
    "no body": (reply(b""), "not what a filter answers"),
    "another field": (reply(b"Subject: spam\n"), "not what a filter answers"),
    "two lines": (reply(HEADER + b"\nbody\n"), "not what a filter answers"),
    "a field among ours": (reply(HEADER + b"Bcc: me\n"), "not what a filter answers"),
    "no line end": (reply(HEADER.rstrip()), "not what a filter answers"),
    "carriage returns": (reply(HEADER.replace(b"\n", b"\r\n")), "not what a filter answers"),
    "a NUL": (reply(b"X-Deciban: spam\0\n"), "not what a filter answers"),
    "Latin-1": (reply(b"X-Deciban: sp\xe4m\n"), "not what a filter answers"),
    "too much": (reply(b"X-Deciban: " + b"a" * 100_000 + b"\n"), "too long"),
    "endless": (reply(b"X-Deciban: " + b"a" * 3000 + b"\n"), "not what a filter answers"),
    "an error": (
        reply(b'{"error":{"code":"busy","message":"too \\"many\\" \\u00e4\\nwait\\\\"}}', "503 x"),
        'error; too "many" ?nwait\\',
    ),
    "an error without a reason": (reply(b"gone", "502 Bad Gateway"), "status 502"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_wrong_answer(case, tmp_path):
    answer, message = ANSWERS[case]
    with Answering(tmp_path / "socket", answer):
        assert message in fault(filtered(MAIL, "--socket", tmp_path / "socket"))
        assert filtered(MAIL, "--socket", tmp_path / "socket", "--verdict", check=False).returncode == 3


def test_a_server_that_is_slow(tmp_path):
    with Answering(tmp_path / "slow", wait=60.0):
        assert "no answer within 0.2 seconds" in fault(filtered(MAIL, "--socket", tmp_path / "slow", "--timeout", 0.2))
    big = MAIL + b"x" * 5_000_000
    with Answering(tmp_path / "deaf", wait=60.0, read=False):  # it does not even read
        assert "no answer within 0.2 seconds" in fault(
            filtered(big, "--socket", tmp_path / "deaf", "--timeout=0.2"), big
        )
    with Answering(tmp_path / "rude", reply(b'{"error":{"message":"too large"}}', "413 x"), read=False):
        assert "too large" in fault(filtered(big, "--socket", tmp_path / "rude"), big)


def test_wrong_options_pass_the_mail_too(answering, tmp_path):
    where = ["--socket", answering.path]
    assert "there is no option --colour" in fault(filtered(MAIL, *where, "--colour"))
    assert "--timeout is 'soon'" in fault(filtered(MAIL, *where, "--timeout", "soon"))
    assert "--max-size is '-1'" in fault(filtered(MAIL, *where, "--max-size", "-1"))
    assert "--timeout needs a value" in fault(filtered(MAIL, *where, "--timeout"))
    assert "No such file" in fault(filtered(MAIL, *where, "--token-file", tmp_path / "none"))
    (tmp_path / "empty").touch()
    assert "has no token" in fault(filtered(MAIL, *where, "--token-file", tmp_path / "empty"))
    assert filtered(MAIL, "--colour", "--verdict", check=False).returncode == 3


def test_what_cannot_be_written_is_to_be_tried_again(answering):
    """Exit code 75: whoever called the filter keeps the mail."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [FILTER, "--socket", answering.path], input=MAIL, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 75
    assert b"No space left" in done.stderr
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as closed:
        done = subprocess.run(
            [FILTER, "--socket", answering.path], input=MAIL, stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 75
    with open("/proc/self/mem", "rb") as unreadable:
        done = subprocess.run([FILTER, "--socket", answering.path], stdin=unreadable, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (75, b"")


@pytest.mark.parametrize(("label", "code"), [("spam", 0), ("ham", 1), ("unsure", 2), ("error", 3), ("spammy", 3)])
def test_exit_codes_are_those_of_bogofilter(label, code, tmp_path):
    with Answering(tmp_path / "socket", reply(HEADER.replace(b"spam", label.encode()))):
        done = filtered(MAIL, "--socket", tmp_path / "socket", "--verdict", check=False)
    assert (done.returncode, done.stdout) == (code, b"")
    assert bool(done.stderr) == (code == 3)


def test_what_is_asked(tmp_path, monkeypatch):
    secret = tmp_path / "token"
    secret.write_text("deciban_secret\n")
    with Answering(tmp_path / "socket") as server:
        where = ["--socket", server.path]
        filtered(MAIL, *where, "--model", "my mail", "--evidence", "3", "--token-file", secret)
        monkeypatch.setenv("DECIBAN_TOKEN", "of_environment")
        filtered(MAIL, *where, "--correct", "spam")
        monkeypatch.setenv("DECIBAN_TOKEN", "two\r\nlines: no")
        monkeypatch.setenv("DECIBAN_SOCKET", server.path)
        filtered(MAIL, "--forget=ham&id=x")
        monkeypatch.setenv("DECIBAN_URL", f"unix:{server.path}")
        monkeypatch.setenv("DECIBAN_SOCKET", "/nowhere")
        filtered(MAIL, "--learn", "ham")
        heads, bodies = zip(*server.requests, strict=True)
    assert set(bodies) == {MAIL}
    lines = [head.decode().split("\r\n") for head in heads]
    assert [line[0] for line in lines] == [
        "POST /v1/models/my%20mail/filter?evidence=3 HTTP/1.1",
        "POST /v1/models/-/correct?evidence=5&label=spam HTTP/1.1",
        "POST /v1/models/-/forget?evidence=5&label=ham%26id%3Dx HTTP/1.1",
        "POST /v1/models/-/learn?evidence=5&label=ham HTTP/1.1",
    ]
    tokens = [[field for field in line if field.startswith("Authorization")] for line in lines]
    assert tokens == [["Authorization: Bearer deciban_secret"], ["Authorization: Bearer of_environment"], [], []]
    assert all("Content-Type: message/rfc822" in line for line in lines)


def test_the_two_programs_have_the_same_options():
    known = {
        option
        for parameter in get_command(app(["filter"])).commands["filter"].params
        for option in parameter.opts
        if option != "--help"
    }
    shown = subprocess.run([FILTER, "--help"], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"--[a-z-]+", shown)) - {"--help", "--version"} == known
    version = subprocess.run([FILTER, "--version"], capture_output=True, text=True, check=True).stdout
    assert version == f"deciban-filter {deciban.__version__}\n"


def test_without_the_program(monkeypatch, capsys):
    monkeypatch.setattr("deciban.cli.commands.filter.program", lambda: None)
    assert run(["filter"]) == 2
    assert "no program 'deciban-filter'" in capsys.readouterr().err


def test_deciban_filter_is_deciban_filter(answering):
    command = [Path(sys.executable).with_name("deciban"), "filter", "--socket", answering.path]
    done = subprocess.run(command, input=MAIL, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, HEADER + MAIL)
    assert subprocess.run([*command, "--verdict"], input=MAIL, capture_output=True, check=False).returncode == 0
