"""Servers in processes of their own: the client, signals, several servers on one database."""

from __future__ import annotations

import json
import math
import random
import threading
import time

import numpy as np
import pytest

import deciban
from deciban.client import Client, ServerError, content_of
from deciban.errors import DecibanError
from deciban.server.config import ServerSettings
from deciban.server.service import Service
from deciban.server.store import open_store
from deciban.server.store.postgresql import PostgresStore

from .api import Api
from .running import Running

WORDS = ["cash", "prize", "lunch", "noon", "home", "win", "late", "free", "board", "meeting"]


def test_the_client_does_what_the_server_does(texts, tmp_path):
    """On a Unix socket; other tests are over HTTP."""
    with Running(texts["texts"], tmp_path / "s.sqlite", socket=tmp_path / "socket") as running:
        client = running.client
        assert client.predict("win cash")["label"] == "spam"
        assert [one["label"] for one in client.predict(["win cash", "lunch at noon"])] == ["spam", "ham"]
        assert client.explain("win cash", target="spam")["target"] == "spam"
        assert client.learn("cash for lunch", "ham", id="a") == {"id": "a", "status": "learned", "label": "ham"}
        assert [one["status"] for one in client.learn(["x", "y"], ["ham", "spam"])] == ["learned", "learned"]
        assert client.correct("a", "spam")["was"] == "ham"
        assert client.describe()["counts"] == [7.0, 8.0]
        assert client.forget("a")["status"] == "forgotten"
        assert client.evaluate(["cash"], ["spam"])["accuracy"] == 1.0
        assert client.quality()["examples"] == 3
        assert {one["id"] for one in client.recent(order="unsure")}
        assert [line["kind"] for line in client.log()][-1] == "forget"
        client.export(tmp_path / "out.deciban")
        assert deciban.load(tmp_path / "out.deciban").class_count_.tolist() == [7.0, 7.0]
        with pytest.raises(ServerError, match="examples=contained"):
            client.upload(texts["texts"])
        client.upload(texts["texts"], examples="learn")
        assert client.describe()["counts"] == [7.0, 7.0]
        with pytest.raises(ServerError, match="not one of the classes") as refused:
            client.learn("x", "nonsense")
        assert (refused.value.status, refused.value.code, refused.value.row) == (422, "unknown_class", 0)
        with pytest.raises(DecibanError, match="2 examples, but 1 labels"):
            client.learn(["x", "y"], ["ham"])
        with pytest.raises(DecibanError, match="list of labels"):
            client.learn(["x", "y"], "ham")
        with pytest.raises(DecibanError, match="not a int"):
            client.predict(5)
        log = running.stop()
    assert "POST learn 200" in log
    assert "lunch" not in log
    with pytest.raises(ServerError, match="does not answer"):
        client.predict("win cash")


def test_the_client_sends_what_json_has():
    row = {"a": math.nan, "b": np.float64(2.5), "c": np.int64(3), "d": "x", "e": None}
    assert content_of(row) == {"row": {"a": None, "b": 2.5, "c": 3, "d": "x", "e": None}}
    with pytest.raises(DecibanError, match="'a' is infinite"):
        content_of({"a": -math.inf})


def test_at_a_signal_it_finishes_what_it_accepted(texts, tmp_path):
    """Requests are under way at the signal: each is answered and kept, or refused and not."""
    answered, unknown = set(), set()
    with Running(texts["texts"], tmp_path / "s.sqlite") as running:

        def teach(thread):
            client = Client(running.client.url)
            for i in range(10_000):
                id_ = f"{thread}-{i}"
                try:
                    client.learn(WORDS[i % 10], "spam", id=id_)
                    answered.add(id_)
                except ServerError:
                    unknown.add(id_)
                    break
            client.close()

        threads = [threading.Thread(target=teach, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        while len(answered) < 20:
            time.sleep(0.01)
        running.stop()
        for thread in threads:
            thread.join()
    store = open_store(str(tmp_path / "s.sqlite"))
    stored = {one.id for one in store.all_examples("texts", -1, 1 << 30)}
    assert answered <= stored <= answered | unknown
    assert store.read("SELECT COUNT(*) FROM deltas") == [(0,)], "its last act is a snapshot"
    store.close()


@pytest.fixture
def database(postgres):
    """A database of the test's own."""
    name = f"server_{random.randrange(1 << 40)}"
    with postgres.connect(autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://{postgres.user}:{postgres.password}@127.0.0.1:{postgres.port}/{name}"


def same_everywhere(clients, seconds=30):
    """Wait until all servers answer alike, to rounding; what they answer."""
    end = time.monotonic() + seconds
    while True:
        versions = {client.describe()["version"] for client in clients}
        if len(versions) == 1 or time.monotonic() > end:
            break
        time.sleep(0.05)
    answers = [[one["probabilities"]["spam"] for one in client.predict(WORDS)] for client in clients]
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], rtol=1e-9)
    return answers[0]


class Teacher(threading.Thread):
    """Learns, corrects and forgets by any server, each until it is acknowledged; `possible` labels of every id."""

    def __init__(self, number, servers):
        super().__init__()
        self.number, self.servers, self.stopping, self.failure = number, servers, threading.Event(), None
        self.possible = {}

    def run(self):
        rng, own = random.Random(self.number), []
        for i in range(1_000_000):
            if self.stopping.is_set():
                return
            kind = rng.choice(["learn", "learn", "correct", "forget"]) if own else "learn"
            id_ = f"{self.number}-{i}" if kind == "learn" else own.pop(rng.randrange(len(own)))
            label = None if kind == "forget" else rng.choice(["ham", "spam"])
            self.possible.setdefault(id_, [None]).append(label)
            if not self.acknowledged(rng, kind, id_, label, " ".join(rng.choices(WORDS, k=3))):
                return
            self.possible[id_] = [label]
            if kind != "forget":
                own.append(id_)

    def acknowledged(self, rng, kind, id_, label, text):
        """Ask until a server has done it; whether one has before this is stopped."""
        while not self.stopping.is_set():
            client = rng.choice(self.servers).client
            try:
                client.learn(text, label, id=id_) if kind == "learn" else client.correct(
                    id_, label
                ) if kind == "correct" else client.forget(id_)
            except ServerError as error:
                if error.status not in (0, 503):
                    self.failure = error
                    return False
                time.sleep(0.02)
            else:
                return True
        return False


@pytest.mark.parametrize("kills", [pytest.param(1, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.slow)])
def test_three_servers_that_are_killed_end_at_the_same_model(texts, database, kills):
    rng = random.Random(0)
    servers = [Running(texts["texts"], database) for _ in range(3)]
    teachers = [Teacher(i, servers) for i in range(4)]
    try:
        for one in (*servers, *teachers):
            one.wait() if isinstance(one, Running) else one.start()
        for _ in range(kills):
            time.sleep(1.0)
            i = rng.randrange(3)
            servers[i].kill()
            servers[i] = Running(texts["texts"], database).wait()
        time.sleep(0.5)
        for teacher in teachers:
            teacher.stopping.set()
            teacher.join()
        answers = same_everywhere([server.client for server in servers])
        counts = servers[0].client.describe()["counts"]
    finally:
        for teacher in teachers:
            teacher.stopping.set()
        for server in servers:
            server.__exit__()
    assert [teacher.failure for teacher in teachers] == [None] * 4
    store = PostgresStore(database)
    examples = store.all_examples("texts", -1, 1 << 30)
    store.close()
    stored = {one.id: json.loads(one.label) for one in examples}
    for id_, labels in [pair for teacher in teachers for pair in teacher.possible.items()]:
        assert stored.get(id_) in labels, f"what was acknowledged of {id_} is lost"
    expected = deciban.load(texts["texts"])
    expected.partial_fit([json.loads(one.content)["text"] for one in examples], list(stored.values()))
    assert counts == expected.class_count_.tolist(), "nothing is lost, and nothing learned twice"
    np.testing.assert_allclose(answers, expected.predict_proba(WORDS)[:, 1], rtol=1e-9)
    assert len(stored) > 10


def test_the_database_goes_away_and_comes_back(texts, database, postgres, caplog):
    name = database.rpartition("/")[2]
    with Api(texts, database) as api:
        assert api.post("/v1/models/texts/learn", {"id": "a", "text": "cash", "label": "spam"}).status == 200
        with postgres.connect(autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        reply = api.post("/v1/models/texts/learn", {"id": "b", "text": "prize", "label": "spam"})
        assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
        assert postgres.password not in reply.error["message"]
        assert api.post("/v1/models/texts/predict", {"text": "win cash"}).status == 200, "answers go on"
        assert api.get("/readyz").status == 503
        with postgres.connect(autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        reply = api.post("/v1/models/texts/learn", {"id": "b", "text": "prize", "label": "spam"})
        assert reply.json["results"][0]["status"] == "learned"
        reply = api.post("/v1/models/texts/learn", {"id": "a", "text": "cash", "label": "spam"})
        assert reply.json["results"][0]["status"] == "unchanged"
        assert api.get("/v1/models/texts").json["counts"] == [6.0, 8.0]
    assert "cannot be used" in caplog.text
    assert postgres.password not in caplog.text


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


def test_what_one_server_learns_the_other_knows(texts, database, tmp_path):
    with Api(texts, database) as one, Api(texts, database) as two:
        one.post("/v1/models/texts/learn", {"id": "a", "text": "board meeting", "label": "spam"})
        until(lambda: two.get("/v1/models/texts").json["counts"] == [6.0, 7.0])
        assert two.get("/v1/models/texts/quality").json["examples"] == 1
        reply = two.post("/v1/models/texts/learn", {"id": "a", "text": "board meeting", "label": "spam"})
        assert reply.json["results"][0]["status"] == "unchanged"
        assert two.post("/v1/models/texts/forget", {"id": "a"}).json["results"][0]["status"] == "forgotten"
        until(lambda: one.get("/v1/models/texts").json["counts"] == [6.0, 6.0])
        other = tmp_path / "other.deciban"
        deciban.TextClassifier().fit(["a b", "c d", "a b c", "d"], ["x", "y", "x", "y"]).save(other)
        assert one.put("/v1/models/texts/file", other.read_bytes()).status == 200
        until(lambda: two.get("/v1/models/texts").json["classes"] == ["x", "y"])
        two.post("/v1/models/texts/learn", {"id": "a", "text": "a", "label": "x"})
        until(lambda: one.get("/v1/models/texts").json["counts"] == [3.0, 2.0])


def test_a_server_that_slept_takes_over_what_snapshots_contain(texts, database, monkeypatch):
    """Sums that a snapshot contains are dropped: who has not added them yet begins with the snapshot."""
    monkeypatch.setattr("deciban.server.writer.MAX_SUMS", 2)
    asleep = Service(ServerSettings(models={"texts": str(texts["texts"])}, store=database, auth=False))
    with Api(texts, database) as awake:
        for i in range(5):
            awake.post("/v1/models/texts/learn", {"id": str(i), "text": WORDS[i], "label": "ham"})
        live = asleep.models["texts"]
        assert live.current.counts == [6.0, 6.0]
        asleep.start()
        until(lambda: live.current.counts == [11.0, 6.0])
        asleep.stop()
