"""A real Postfix asks the milter of a real server."""

from __future__ import annotations

import pytest
from postgres_server import free_port
from server.running import Running

from .conftest import HAM, SPAM
from .servers import Postfix

pytestmark = pytest.mark.slow
pytest.importorskip("starlette", reason="the server is not installed: pip install 'deciban[server]'")

FORGED = (
    b"X-Deciban: ham; probability=0\nSubject: you win\nx-deciban: ham\n twice\nX-Deciban-Evidence: -9 no\n\n"
    b"Claim cash prize now!\n"
)
TOO_LARGE = b"X-Deciban: error; the mail has more than 10000000 bytes"


def body(raw):
    return raw.partition(b"\n\n")[2]


def test_mail_is_marked_as_it_is_received_and_passes_without_us(model_file, tmp_path):
    port = free_port()
    settings = f"smtpd_milters = inet:127.0.0.1:{port}\nmilter_default_action = accept\nmilter_protocol = 6"
    strange = b"From: a@b.example\nSubject: caf\xc3\xa9\n\n.dots\n..\n\x01\xff\xfe 8 bits\n" + b"x" * 900 + b"\n"
    large = b"Subject: large\n\n" + b"0123456789abcde\n" * 800_000
    with Postfix(settings) as postfix:
        with Running(model_file, tmp_path / "s.sqlite", "--milter", f"127.0.0.1:{port}") as server:
            for number, (raw, expected) in enumerate(
                [
                    (SPAM[0].encode(), b"X-Deciban: spam; probability=0.9"),
                    (HAM[0].encode(), b"X-Deciban: ham; probability=0.0"),
                    (FORGED, b"X-Deciban: spam; probability=0.9"),
                    (strange, b"X-Deciban: "),
                    (large, TOO_LARGE),
                ],
                1,
            ):
                postfix.send(raw)
                mail = postfix.received(number)[-1]
                header = mail.partition(b"\n\n")[0]
                assert header.lower().count(b"\nx-deciban:") == 1, "forged ones are gone"
                assert header.lower().count(b"\nx-deciban-evidence:") == (expected != TOO_LARGE)
                assert expected in header
                assert body(mail) == body(raw), "not a byte of the body has changed"
            metrics = server.client._request("GET", "/metrics")[1].decode()
            assert 'deciban_examples_total{model="mail",what="classified"} 4' in metrics
            server.kill()
        postfix.send(SPAM[1].encode())  # while nobody listens
        mail = postfix.received(6)[-1]
        assert b"X-Deciban" not in mail
        assert body(mail) == body(SPAM[1].encode())
        with Running(model_file, tmp_path / "s.sqlite", "--milter", f"127.0.0.1:{port}") as server:
            postfix.send(SPAM[2].encode())
            assert b"X-Deciban: spam" in postfix.received(7)[-1]
            assert "Traceback" not in server.stop()
