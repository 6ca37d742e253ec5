"""Who may do what, how much, and what is never shown."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from urllib.parse import quote

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from deciban.errors import DecibanError
from deciban.server import tokens
from deciban.server.config import ServerSettings, models_of, settings_of
from deciban.server.limits import RateLimit
from deciban.server.problems import RequestError
from deciban.server.routes import ROUTES
from deciban.server.run import LogFormat
from deciban.server.store import open_store, without_secret
from deciban.server.tokens import SCOPES, make_token

from .api import Api

PREDICT, LEARN = "/v1/models/texts/predict", "/v1/models/texts/learn"


@pytest.fixture
def guarded(texts, tmp_path):
    """A server that requires tokens, and one token of each scope."""
    with Api(texts, tmp_path / "s.sqlite", auth=True) as api:
        api.secrets = {scope: make_token(api.service.store, scope, scope) for scope in SCOPES}
        yield api


def test_every_route_needs_its_scope(guarded):
    for route in ROUTES:
        path = route.path.replace("{model}", "texts").replace("{id:path}", "a")
        for scope in (None, *SCOPES):
            guarded.token = None if scope is None else guarded.secrets[scope]
            reply = guarded.request(route.method, path, b"{}", {"content-type": "application/json"})
            enough = route.scope is None or (scope is not None and SCOPES.index(scope) >= SCOPES.index(route.scope))
            assert (reply.status in (401, 403)) is not enough, (route.name, scope, reply.status)
            assert reply.status != 500
    guarded.token = "deciban_wrong"
    assert guarded.get("/v1/models").status == 401
    assert guarded.get("/v1/models").headers["www-authenticate"] == "Bearer"


def test_a_revoked_token_is_refused(guarded, monkeypatch):
    monkeypatch.setattr(tokens, "REFRESH_SECONDS", 0.0)
    guarded.token = guarded.secrets["teach"]
    assert guarded.get("/v1/me").json == {"name": "teach", "scopes": ["read", "teach"]}
    guarded.service.store.revoke_token("teach", 1.0)
    assert guarded.get("/v1/me").error["code"] == "unknown_token"
    with pytest.raises(DecibanError, match="token 'other'"):
        guarded.service.store.revoke_token("other", 1.0)
    with pytest.raises(DecibanError, match="token 'read'"):
        make_token(guarded.service.store, "read", "read")
    again = make_token(guarded.service.store, "teach", "read")
    guarded.token = again
    assert guarded.get("/v1/me").json["scopes"] == ["read"]


def test_tokens_are_kept_as_hashes(guarded, tmp_path):
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in guarded.secrets.values():
        assert secret.encode() not in stored
        assert len(secret) > 43, "256 bits"


def test_what_a_caller_taught_is_in_the_log_under_its_name(guarded):
    guarded.token = guarded.secrets["teach"]
    guarded.post(LEARN, {"id": "a", "text": "cash", "label": "spam"})
    guarded.token = guarded.secrets["admin"]
    assert guarded.get("/v1/models/texts/log").json["log"][-1]["actor"] == "teach"


def test_the_log_has_neither_content_nor_ids_nor_tokens(guarded, caplog):
    caplog.set_level(logging.DEBUG)
    guarded.token = guarded.secrets["admin"]
    guarded.post(LEARN, {"id": "secret-id", "text": "secret words", "label": "spam"})
    guarded.post(LEARN, {"id": "secret-id", "text": "other secret words", "label": "spam"})
    guarded.get("/v1/models/texts/examples/secret-id")
    guarded.post("/v1/models/texts/forget", {"text": "never secret", "label": "spam"})
    guarded.post(PREDICT + "?text=secret", {"text": "secret"})
    guarded.get("/secret")
    written = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("deciban"))
    assert "learn 200" in written
    assert "secret" not in written
    assert guarded.token not in written


def test_of_an_internal_error_the_log_has_the_place_and_not_the_message():
    try:
        try:
            raise ValueError("secret words")
        except ValueError as error:
            raise KeyError("secret id") from error
    except KeyError:
        written = LogFormat().formatException(sys.exc_info())
    assert "secret" not in written
    assert written.count("test_safety.py") == 2
    assert written.index("ValueError") < written.index("KeyError")


def test_without_tokens_only_on_this_machine():
    for where in ({"host": "127.0.0.1"}, {"host": "::1"}, {"host": "localhost"}, {"socket": "/tmp/s"}):
        ServerSettings(auth=False, **where)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(DecibanError, match="loopback"):
            ServerSettings(auth=False, host=host)


def test_pages_of_other_sites_reach_nothing(one_api):
    body = {"text": "cash"}
    assert one_api.post(PREDICT, body, host="attacker.example").status == 421, "a name that leads to this machine"
    assert one_api.post(PREDICT, body, host="localhost:8470").status == 200
    assert one_api.post(PREDICT, body, host="[::1]:8470").status == 200
    assert one_api.post(PREDICT, body, sec_fetch_site="cross-site").status == 403
    assert one_api.post(PREDICT, body, sec_fetch_site="same-origin").status == 200
    for simple in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert one_api.post(PREDICT, body, content_type=simple).status == 415, "what a page may send without asking"
    reply = one_api.get("/v1/models", origin="https://attacker.example")
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_every_answer_has_security_headers(one_api):
    for reply in (
        one_api.get("/healthz"),
        one_api.get("/nowhere"),
        one_api.post(PREDICT, raw=b"{"),
        one_api.get("/x", host="a"),
    ):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]


def test_limits_of_size(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite", max_body=1000, max_examples=3) as api:
        reply = api.post(PREDICT, {"text": "a" * 2000})
        assert (reply.status, reply.error["code"]) == (413, "too_large")
        reply = api.request("POST", PREDICT, b"{}", {"content-type": "application/json", "content-length": "5000"})
        assert reply.status == 413, "before it is read"
        reply = api.post(PREDICT, {"examples": [{"text": "a"}] * 4})
        assert (reply.status, reply.error["code"]) == (413, "too_many")
        assert api.post(PREDICT, {"examples": [{"text": "a"}] * 3}).status == 200


def test_limits_of_rate(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite", rate=1.0) as api:
        statuses = [api.get("/v1/models").status for _ in range(5)]
        assert statuses[:2] == [200, 200]
        assert statuses[-1] == 429
    with Api(texts, tmp_path / "t.sqlite", teach_rate=2.0) as api:
        examples = [{"text": str(i), "label": "spam"} for i in range(4)]
        assert api.post(LEARN, {"examples": examples}).status == 200
        reply = api.post(LEARN, {"text": "a", "label": "spam"})
        assert (reply.status, reply.error["code"]) == (429, "too_fast")
        assert api.post(PREDICT, {"text": "a"}).status == 200, "answers are not limited by it"


def test_a_rate_recovers(monkeypatch):
    now = 100.0
    monkeypatch.setattr("deciban.server.limits.time.monotonic", lambda: now)
    limit = RateLimit(10.0, "requests", burst_seconds=1.0)
    for _ in range(10):
        limit.take("a")
    with pytest.raises(RequestError):
        limit.take("a")
    limit.take("b")
    now += 0.2
    limit.take("a")


def test_too_many_changes_wait(texts, tmp_path):
    api = Api(texts, tmp_path / "s.sqlite", max_waiting=2, timeout=1.0)  # not started: nothing is written
    replies = api.together([("POST", LEARN, {"id": str(i), "text": "a", "label": "spam"}) for i in range(3)])
    assert [reply.error["code"] for reply in replies] == ["timeout", "timeout", "busy"]
    assert {reply.status for reply in replies} == {503}
    with api:  # those whose senders have given up are not written, and the others are
        reply = api.post(LEARN, {"id": "3", "text": "a", "label": "spam"})
        assert reply.json["results"][0]["status"] == "learned"
        assert api.service.store.count("texts") == 1


def test_a_slow_client_is_not_waited_for(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite", timeout=0.05) as api:

        async def never():
            await asyncio.sleep(3600)

        async def ask():
            scope = {"type": "http", "method": "POST", "path": PREDICT, "query_string": b"", "root_path": ""}
            scope["headers"] = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            sent = []

            async def send(message):
                sent.append(message)

            await api.app(scope | {"client": None, "scheme": "http", "server": None}, never, send)
            return sent

        sent = api.runner.run(ask())
        assert sent[0]["status"] == 408


# ---------------------------------------------------------------------- malformed requests

FIELDS = ["text", "row", "message", "message_base64", "id", "label", "new_class", "examples", "target", "most", "by"]
NAMES = st.sampled_from(FIELDS)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS | st.sampled_from(["spam", "cat", "size", "a"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES | st.sampled_from(["size", "colour"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=10,
)
BODIES = st.dictionaries(NAMES, VALUES, max_size=5) | VALUES
ACTIONS = ("predict", "explain", "evaluate", "learn", "correct", "forget")


def ask_anything(api, action, model, body):
    text = json.dumps(body).replace("Infinity", "1e999")  # the one way in which JSON has infinite numbers
    reply = api.post(f"/v1/models/{model}/{action}", raw=text.encode("utf-8", "surrogatepass"))
    assert reply.status in (200, 400, 404, 409, 413, 422), reply.body
    if reply.status != 200:
        assert reply.error["message"]


@settings(max_examples=150)
@given(action=st.sampled_from(ACTIONS), model=st.sampled_from(["texts", "rows"]), body=BODIES)
def test_no_json_makes_it_fail(one_api, action, model, body):
    ask_anything(one_api, action, model, body)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(action=st.sampled_from(ACTIONS), model=st.sampled_from(["texts", "rows"]), body=BODIES)
def test_ten_thousand_malformed_requests(one_api, action, model, body):
    ask_anything(one_api, action, model, body)


@settings(max_examples=200)
@given(
    raw=st.binary(max_size=200),
    kind=st.sampled_from(["application/json", "message/rfc822"]),
    action=st.sampled_from(ACTIONS),
)
def test_no_bytes_make_it_fail(one_api, raw, kind, action):
    reply = one_api.post(f"/v1/models/texts/{action}", raw=raw, content_type=kind)
    assert reply.status in (200, 400, 404, 409, 422), reply.body


@settings(max_examples=100)
@given(path=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40), query=st.text(max_size=20))
def test_no_path_makes_it_fail(one_api, path, query):
    reply = one_api.get(f"/v1/models/texts/{quote(path)}?most={quote(query)}")
    assert reply.status < 500


def test_after_all_that_the_model_is_what_the_store_says(one_api):
    """Runs last in this file: the store's examples, learned again, are the model."""
    live = one_api.service.models["texts"]
    total = sum(live.current.counts)
    assert total == 12 + one_api.service.store.count("texts") - base_forgotten(one_api)


def base_forgotten(api):
    """How many forgotten examples had not been learned here."""
    learned = {line.id for line in api.service.store.lines("texts", -1, 1 << 30) if line.kind in ("learn", "correct")}
    return sum(
        line.kind == "forget" and line.id not in learned for line in api.service.store.lines("texts", -1, 1 << 30)
    )


# ---------------------------------------------------------------------- settings


def test_settings_come_from_file_environment_and_options_in_this_order(tmp_path):
    file = tmp_path / "deciban.toml"
    file.write_text('port = 1\nhost = "127.0.0.2"\nrate = 5\nrecent_content = false\n[models]\nspam = "a.deciban"\n')
    environment = {"DECIBAN_PORT": "2", "DECIBAN_RATE": "6.5", "DECIBAN_RECENT": "7", "OTHER": "x"}
    found = settings_of(str(file), environment, {"port": 3, "store": None})
    assert (found.port, found.host, found.rate, found.recent, found.recent_content) == (3, "127.0.0.2", 6.5, 7, False)
    assert found.models == {"spam": "a.deciban"}
    assert settings_of(None, {"DECIBAN_CONFIG": str(file)}, {}).port == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "'prot'.*did you mean 'port'"),
        ("colour = 1", "'colour'.*--show-config"),
        ('port = "x"', "port .*'x'.*int"),
        ("auth = 1", "auth .*1.*bool"),
        ("port = [", "not TOML"),
        ('content = "secret"', "'secret'"),
        ("timeout = 0", "timeout .*0"),
        ("rate = -1", "rate .*-1"),
        ('content = "none"\nkeep_examples = 5', "keep_examples"),
        ('tls_key = "a"', "tls_certificate.*tls_key"),
        ('[models]\n"a b" = "x"', "'a b'"),
        ("port = 65536", "port .*65536.*65535"),
        ('milter = "127.0.0.1:65536"', "milter .*65536"),
        ('log_level = "loud"', "log_level .*'loud'.*debug"),
        ('store = ""', "store is empty"),
        ("# \udcff", "'.*deciban.toml' is not TOML"),
    ],
)
def test_wrong_settings_are_explained(tmp_path, text, message):
    file = tmp_path / "deciban.toml"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(DecibanError, match=message):
        settings_of(str(file), {}, {})


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("PROT", "DECIBAN_PORT"),
        ("port", "DECIBAN_PORT"),
        ("CONTNET", "DECIBAN_CONTENT"),
        ("TLSKEY", "DECIBAN_TLS_KEY"),
        ("MODEL", "DECIBAN_MODELS"),
        ("CONFG", "DECIBAN_CONFIG"),
    ],
)
def test_a_misspelt_variable_of_the_environment_is_refused(variable, meant):
    with pytest.raises(DecibanError, match=rf"^DECIBAN_{variable} is not a setting: did you mean {meant}\b"):
        settings_of(None, {f"DECIBAN_{variable}": "1"}, {"port": 3})


def test_an_unknown_variable_of_the_environment_is_named_and_ignored():
    with pytest.warns(UserWarning, match="^DECIBAN_HOME is not a setting: it is ignored"):
        assert settings_of(None, {"DECIBAN_HOME": "/srv"}, {}) == ServerSettings()


def test_variables_of_other_commands_are_no_settings():
    variables = ("IMAP_PASSWORD", "TOKEN", "TRACEBACK", "URL")
    assert settings_of(None, {f"DECIBAN_{name}": "1" for name in variables}, {}) == ServerSettings()


def test_models_have_names():
    assert models_of(["/data/spam.deciban", "b=other/x.deciban"]) == {
        "spam": "/data/spam.deciban",
        "b": "other/x.deciban",
    }
    assert models_of(["my model (2).deciban"]) == {"my-model-2-": "my model (2).deciban"}
    with pytest.raises(DecibanError, match="two models"):
        models_of(["a/x.deciban", "b/x.deciban"])


def test_a_password_in_an_address_is_not_shown():
    url = "postgresql://ann:hunter2@db.example:5432/filter?password=hunter2"
    assert without_secret(url) == "postgresql://db.example:5432/filter"
    assert "hunter2" not in json.dumps(ServerSettings(store=url).shown())
    with pytest.raises(DecibanError) as error:
        open_store("mysql://ann:hunter2@db/x")
    assert "hunter2" not in str(error.value)


def test_a_database_that_is_not_there_is_named_without_its_password():
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'deciban[dev]'")
    with pytest.raises(DecibanError, match="nothing listens at its address") as error:
        open_store("postgresql://ann:hunter2@127.0.0.1:1/filter")
    assert "hunter2" not in str(error.value)
