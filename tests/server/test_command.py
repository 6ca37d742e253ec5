"""`deciban serve` and `deciban token` on the command line."""

from __future__ import annotations

import json
import os
import re
import socket
import stat

import pytest

from deciban.cli.run import run
from deciban.server.store import open_store


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DECIBAN_")]:
        monkeypatch.delenv(name)


def test_settings_are_shown(texts, capsys):
    assert run(["serve", str(texts["texts"]), "--port", "1234", "--show-config"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["models"] == {"texts": str(texts["texts"])}
    assert (shown["port"], shown["host"], shown["auth"]) == (1234, "127.0.0.1", True)


def test_a_misspelt_variable_is_explained(texts, monkeypatch, capsys):
    monkeypatch.setenv("DECIBAN_PROT", "9000")
    assert run(["serve", str(texts["texts"]), "--show-config"]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert "DECIBAN_PROT is not a setting: did you mean DECIBAN_PORT?" in printed.err
    monkeypatch.delenv("DECIBAN_PROT")
    monkeypatch.setenv("DECIBAN_HOME", "/srv")
    assert run(["serve", str(texts["texts"]), "--show-config"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["port"] == 8470
    assert "DECIBAN_HOME is not a setting" in printed.err


def test_what_cannot_be_served_is_explained(texts, tmp_path, capsys):
    for arguments, message in [
        (["serve"], "at least one model file"),
        (["serve", "absent.deciban"], "No such file"),
        (["serve", str(texts["texts"]), "--host", "0.0.0.0", "--no-auth"], "loopback"),
        (["serve", str(texts["texts"]), "--store", "no/where.sqlite"], "'no/where.sqlite'"),
        (["serve", str(texts["texts"]), "--content", "encrypted"], "--key-file"),
        (["serve", str(texts["texts"]), "--content", "secret"], "'secret'"),
        (["serve", str(texts["texts"]), "--config", "absent.toml"], "No such file"),
    ]:
        assert run(arguments) == 2, arguments
        assert message in capsys.readouterr().err, arguments
    (tmp_path / "bad.deciban").write_bytes(b"no model")
    assert run(["serve", "bad.deciban"]) == 2
    assert "'bad.deciban' is not a complete deciban model file" in capsys.readouterr().err


def test_where_a_server_cannot_listen(texts, tmp_path, capsys):
    (tmp_path / "file").write_text("no socket")
    (tmp_path / "cert.pem").write_text("no certificate")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("used")
        other.listen()
        for options, message in [
            (["--socket", "no/socket"], "the folder .*no' does not exist"),
            (["--socket", "x" * 200], "'x+': .*too long"),
            (["--socket", "file"], "'file' exists and is not a socket"),
            (["--socket", "used"], "another server listens at 'used'"),
        ]:
            assert run(["serve", str(texts["texts"]), "--no-auth", *options]) == 2, options
            assert re.search(message, capsys.readouterr().err), options
    for name, message in [("absent.pem", "'absent.pem': No such file"), ("cert.pem", "'cert.pem' .* certificate")]:
        (tmp_path / "tls.toml").write_text(f'tls_certificate = "{name}"\ntls_key = "{name}"\n')
        assert run(["serve", str(texts["texts"]), "--no-auth", "--config", "tls.toml"]) == 2
        assert re.search(message, capsys.readouterr().err)
    assert (tmp_path / "used").exists()


def test_tokens_are_made_listed_and_revoked(capsys):
    assert run(["token", "create", "mailer", "--scope", "teach"]) == 0
    secret = capsys.readouterr().out.strip()
    assert secret.startswith("deciban_")
    assert run(["token", "create", "mailer"]) == 2
    assert "'mailer'" in capsys.readouterr().err
    assert run(["token", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["scope"], listed["revoked"]) == (["mailer"], ["teach"], [""])
    assert run(["token", "revoke", "mailer"]) == 0
    assert run(["token", "revoke", "nobody"]) == 2
    assert run(["token", "list", "--store", "absent.sqlite"]) == 2
    assert "there is no store 'absent.sqlite'" in capsys.readouterr().err
    assert not os.path.exists("absent.sqlite")
    store = open_store("deciban.sqlite")
    assert store.tokens()[0].revoked is not None
    assert [line.kind for line in store.lines("", -1, 10)] == ["token created", "token revoked"]
    store.close()
    capsys.readouterr()
    for wrong in (["token", "make", "x"], ["token", "create"], ["token", "create", "x", "--scope", "root"]):
        assert run(wrong) == 2
    assert "--scope is 'root'" in capsys.readouterr().err


def test_a_key_is_for_its_owner_and_never_replaced(tmp_path, capsys):
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    assert run(["token", "key", "content.key"]) == 0
    before = (tmp_path / "content.key").read_bytes()
    assert stat.S_IMODE((tmp_path / "content.key").stat().st_mode) == 0o600
    assert run(["token", "key", "content.key"]) == 2
    assert "exists" in capsys.readouterr().err
    assert (tmp_path / "content.key").read_bytes() == before


def test_the_store_is_for_its_owner(tmp_path):
    open_store("s.sqlite").close()
    assert stat.S_IMODE((tmp_path / "s.sqlite").stat().st_mode) == 0o600
