"""Mail: the header fields that the server writes, ids that are made of mails, and the milter."""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deciban.errors import DecibanError
from deciban.server.config import ServerSettings
from deciban.server.milter import CHANGE_HEADERS, MilterFilter
from deciban.text.mail import identity

from .api import Api

FILTER = "/v1/models/mail/filter"
RFC822 = {"content_type": "message/rfc822"}
SPAM = b"From: x@y.example\nSubject: you win\n\nClaim cash prize now!\n"


@pytest.fixture
def mail_api(files, tmp_path):
    with Api({"mail": files["mail"]}, tmp_path / "mail.sqlite") as running:
        yield running


# ---------------------------------------------------------------------- over HTTP


def test_the_fields_of_a_mail(mail_api):
    reply = mail_api.post(FILTER, raw=SPAM, **RFC822)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    lines = reply.body.decode().splitlines()
    assert re.fullmatch(r"X-Deciban: spam; probability=0\.9\d+; decibans=\d+\.\d; model=mail; version=\d+", lines[0])
    assert lines[1].startswith("X-Deciban-Evidence: +")
    predicted = mail_api.post("/v1/models/-/predict", {"message": SPAM.decode()}).json["predictions"][0]
    assert f"probability={predicted['probabilities']['spam']:.6f}" in lines[0]
    assert mail_api.post(f"{FILTER}?evidence=0", raw=SPAM, **RFC822).body.count(b"\n") == 1
    assert mail_api.post(f"{FILTER}?evidence=21", raw=SPAM, **RFC822).status == 422
    assert mail_api.post(FILTER, {"examples": [{"message": "a"}]}).status == 422
    assert mail_api.post(FILTER, {"message": "Subject: you win"}).status == 200


def test_dash_is_the_only_model(api, mail_api):
    assert mail_api.post("/v1/models/-/filter", raw=SPAM, **RFC822).status == 200
    assert api.post("/v1/models/-/filter", raw=SPAM, **RFC822).error["code"] == "unknown_model"


def test_other_models_of_texts_filter_too(api):
    assert api.post("/v1/models/texts/filter", raw=SPAM, **RFC822).body.startswith(b"X-Deciban: spam;")
    assert api.post("/v1/models/rows/filter", raw=SPAM, **RFC822).error["code"] == "kind"


def test_a_mail_is_learned_once_whichever_way_it_came(mail_api):
    """Its id is made of it, without what filters and servers add on the way."""
    learned = mail_api.post("/v1/models/mail/learn?label=spam", raw=SPAM, **RFC822).json["results"][0]
    assert learned == {"id": identity(SPAM), "status": "learned", "label": "spam"}
    again = b"X-Deciban: spam; probability=1\n more\n" + SPAM
    assert mail_api.post("/v1/models/mail/learn?label=spam", raw=again.replace(b"\n", b"\r\n"), **RFC822).json[
        "results"
    ] == [{"id": identity(SPAM), "status": "unchanged"}]
    elsewhere = b"Received: by a.example\n" + again
    corrected = mail_api.post("/v1/models/mail/correct?label=ham", raw=elsewhere, **RFC822).json["results"][0]
    assert (corrected["status"], corrected["was"]) == ("corrected", "spam")
    stored = mail_api.get(f"/v1/models/mail/examples/{identity(SPAM)}").json
    assert stored["content"] == {"message": "Received: by a.example\n" + SPAM.decode()}
    assert (
        mail_api.post("/v1/models/mail/forget?label=ham", raw=SPAM, **RFC822).json["results"][0]["status"]
        == "forgotten"
    )
    own = mail_api.post("/v1/models/mail/learn?label=spam&id=mine", raw=SPAM, **RFC822).json["results"][0]
    assert own["id"] == "mine"


# ---------------------------------------------------------------------- milter


def packet(command, data=b""):
    return struct.pack("!I", len(data) + 1) + command + data


OFFER = packet(b"O", struct.pack("!III", 6, 0x1FF, 0x1FFFFF))


class MailServer:
    """The other side of the protocol."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def answer(self):
        size = struct.unpack("!I", await self.reader.readexactly(4))[0]
        data = await self.reader.readexactly(size)
        return data[:1], data[1:]

    async def deliver(self, fields, body, chunk=65535):
        """Send a mail; what is to be done to it."""
        for name, value in fields:
            self.writer.write(packet(b"D", b"Li\0queue-id\0") + packet(b"L", name + b"\0" + value + b"\0"))
        for start in range(0, len(body), chunk):
            self.writer.write(packet(b"B", body[start : start + chunk]))
        self.writer.write(packet(b"E"))
        done = []
        while (answer := await self.answer())[0] != b"c":
            done.append(answer)
        return done


def with_milter(service, play, where=None):
    """Run a coroutine of a mail server beside the milter."""

    async def both():
        milter = MilterFilter(service)
        await milter.start(where or "127.0.0.1:0")
        address = milter._listener.sockets[0].getsockname()
        opened = asyncio.open_unix_connection(address) if where else asyncio.open_connection(*address)
        reader, writer = await opened
        try:
            return await play(MailServer(reader, writer))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            await milter.stop()

    return asyncio.run(both())


FIELDS = [
    (b"From", b" x@y.example"),
    (b"Subject", b" you win"),
    (b"X-Deciban", b" ham"),
    (b"x-deciban", b" ham\n again"),
    (b"X-Deciban-Evidence", b" -9 no"),
]


def test_a_mail_server_gets_our_fields_and_loses_forged_ones(mail_api, tmp_path):
    async def play(server):
        server.writer.write(OFFER)
        command, data = await server.answer()
        version, actions, flags = struct.unpack("!III", data)
        assert (command, version, actions) == (b"O", 6, 0x11)
        assert not flags & (0x10 | 0x20), "we want the header and the body"
        first = await server.deliver(FIELDS, b"Claim cash prize now!\r\n")
        server.writer.write(packet(b"A"))
        second = await server.deliver([(b"Subject", b" lunch")], b"See you at noon in room 3?\r\n")
        server.writer.write(packet(b"Q"))
        assert await server.reader.read() == b""
        return first, second

    first, second = with_milter(mail_api.service, play, f"unix:{tmp_path / 'milter'}")
    deleted = [(struct.unpack("!I", data[:4])[0], data[4:]) for command, data in first if command == b"m"]
    assert deleted == [(1, b"X-Deciban-Evidence\0\0"), (2, b"x-deciban\0\0"), (1, b"X-Deciban\0\0")]
    added = [data[4:] for command, data in first if command == b"i"]
    assert [one.partition(b"\0")[0] for one in added] == [b"X-Deciban-Evidence", b"X-Deciban"]
    assert added[1].startswith(b"X-Deciban\0 spam; probability=0.9")
    assert b"\n " in added[0] or len(added[0]) < 80
    assert [command for command, _ in second] == [b"i", b"i"]
    assert second[1][1][4:].startswith(b"X-Deciban\0 ham; ")


def test_an_older_mail_server_is_answered_at_every_step(mail_api):
    async def play(server):
        server.writer.write(packet(b"O", struct.pack("!III", 2, CHANGE_HEADERS | 1, 0x7F)))
        assert struct.unpack("!III", (await server.answer())[1])[0] == 2
        for command in (b"C", b"H", b"M", b"R", b"N"):
            server.writer.write(packet(command, b"x\0"))
            assert await server.answer() == (b"c", b"")
        server.writer.write(packet(b"L", b"Subject\0you win\0"))
        assert await server.answer() == (b"c", b"")
        server.writer.write(packet(b"B", b"Claim cash prize"))
        assert await server.answer() == (b"c", b"")
        server.writer.write(packet(b"E", b" now!\r\n"))
        return [await server.answer() for _ in range(3)]

    added = with_milter(mail_api.service, play)
    assert added[1][1][4:].startswith(b"X-Deciban\0spam; "), "without the blank after the colon"
    assert added[2] == (b"c", b"")


def test_what_is_too_large_goes_on_unchecked(files, tmp_path):
    async def play(server):
        server.writer.write(OFFER)
        await server.answer()
        return await server.deliver(FIELDS, b"x" * 200_000)

    with Api({"mail": files["mail"]}, tmp_path / "s.sqlite", max_body=100_000) as api:
        done = with_milter(api.service, play)
    assert [command for command, _ in done] == [b"m"] * 3 + [b"i"]
    assert done[-1][1][4:] == b"X-Deciban\0 error; the mail has more than 100000 bytes\0"


def test_a_fault_lets_mail_go_on(mail_api, monkeypatch):
    async def play(server):
        server.writer.write(OFFER)
        await server.answer()
        return await server.deliver(FIELDS[:2], b"x")

    async def broken(*_):
        raise ZeroDivisionError("a secret of the mail")

    monkeypatch.setattr(mail_api.service, "verdict", broken)
    ((_, data),) = with_milter(mail_api.service, play)
    assert data[4:] == b"X-Deciban\0 error; the server has a fault\0"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.tuples(st.sampled_from(list(b"OLBEACHMRTNUDQKX")), st.binary(max_size=60)).map(
            lambda pair: packet(bytes([pair[0]]), pair[1])
        )
        | st.just(OFFER)
    )
)
def test_any_bytes_of_a_mail_server(mail_api, sent):
    """It is answered or cut off, and the next one is served."""

    async def play(server):
        server.writer.write(b"".join(sent))
        with contextlib.suppress(OSError):
            server.writer.write_eof()
            await server.reader.read()

    with_milter(mail_api.service, play)
    assert mail_api.service.ready


def test_where_the_milter_may_listen(api, files, tmp_path):
    for wrong in ("0.0.0.0:8471", "example.org:1", "8471", "unix:"):
        with pytest.raises(DecibanError, match="milter"):
            ServerSettings(milter=wrong)
    assert ServerSettings(milter="[::1]:8471").milter
    assert MilterFilter(api.service).live.name == "mail", "the one that reads mail"
    with (
        Api({"rows": files["rows"]}, tmp_path / "rows.sqlite") as other,
        pytest.raises(DecibanError, match="one model of mail"),
    ):
        MilterFilter(other.service)
