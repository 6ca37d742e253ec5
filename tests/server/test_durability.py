"""What was acknowledged is in the store and in the model after any crash, once."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deciban
from deciban.errors import DecibanError
from deciban.server import writer as writer_module
from deciban.server.changes import Change
from deciban.server.config import ServerSettings
from deciban.server.examples import Example
from deciban.server.service import Service
from deciban.server.store.base import StoreError
from deciban.server.store.sqlite import SqliteStore

KILLS = 5, int(os.environ.get("DECIBAN_KILLS", "1000"))  # in `make test`, and in `make test-all`
WORDS = ["cash", "prize", "lunch", "noon", "home", "win", "late", "free", "board", "meeting"]

try:
    from .api import Api
except ImportError:  # as a program, which forks the processes to kill
    Api = None


# ---------------------------------------------------------------------- killed at any moment


def settings(model: Path, store: Path) -> ServerSettings:
    return ServerSettings(models={"m": str(model)}, store=str(store), auth=False, snapshot_seconds=0.05)


def learner(model: Path, store: Path, tell: int, seed: int) -> None:
    """Learn, correct and forget for ever, several at a time; each acknowledgement goes to the pipe."""
    service = Service(settings(model, store))
    service.start()
    rng, number = random.Random(seed), 0
    known: list[str] = []
    while True:
        changes = []
        for _ in range(rng.randint(1, 4)):
            kind = rng.choice(["learn", "learn", "learn", "correct", "forget"]) if known else "learn"
            id_ = f"{seed}-{number}" if kind == "learn" else known.pop(rng.randrange(len(known)))
            number += kind == "learn"
            content = {"text": " ".join(rng.choices(WORDS, k=4))} if kind == "learn" else None
            label = None if kind == "forget" else rng.choice(["ham", "spam"])
            changes.append(Change("m", kind, [Example(id_, content, label)], "test"))
        for change in changes:
            report(tell, "asked", change)
            service.writer.submit(change)
        for change in changes:
            change.done.result()
            report(tell, "done", change)
            if change.kind != "forget":
                known.append(change.examples[0].id)


def report(tell: int, what: str, change: Change) -> None:
    (example,) = change.examples
    line = {"what": what, "id": example.id, "label": example.label}  # of what is to be forgotten there is no label
    os.write(tell, json.dumps(line).encode() + b"\n")


def kill_servers(model: Path, store: Path, kills: int) -> None:
    """Start, kill, check, in processes forked from one that has imported everything."""
    rng, possible, acknowledged, unheard = random.Random(0), {}, 0, 0
    for seed in range(kills):
        hear, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                learner(model, store, tell, seed)
            finally:
                os._exit(1)
        os.close(tell)
        heard = os.read(hear, 1)
        while seed % 2 and b"done" not in heard:  # the others may be killed in the middle of their first transaction
            heard += os.read(hear, 1 << 16)
        assert heard, "the server failed"
        time.sleep(rng.random() * 0.1)
        os.kill(child, signal.SIGKILL)
        while more := os.read(hear, 1 << 16):
            heard += more
        os.close(hear)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it failed before it was killed"
        for line in heard.split(b"\n")[:-1]:
            one = json.loads(line)
            if one["what"] == "done":
                acknowledged += 1
                possible[one["id"]] = [one["label"]]
            else:  # until it is acknowledged, it may be in the store or not
                possible.setdefault(one["id"], [None]).append(one["label"])
        unheard += check(model, store, possible)
    print(json.dumps({"acknowledged": acknowledged, "written but not acknowledged": unheard}))  # noqa: T201


def check(model: Path, store: Path, possible: dict[str, list[str | None]]) -> int:
    """Every acknowledged change is in the store, and the model is that of the file and the store's examples."""
    opened = SqliteStore(str(store))
    examples = opened.all_examples("m", -1, 1 << 30)
    opened.close()
    stored = {one.id: json.loads(one.label) for one in examples}
    contents = {one.id: json.loads(one.content)["text"] for one in examples}
    assert set(stored) <= set(possible)
    for id_, labels in possible.items():
        assert stored.get(id_) in labels, f"what was acknowledged of {id_} is lost"
    unheard = sum(len(labels) > 1 and stored.get(id_) == labels[-1] for id_, labels in possible.items())
    service = Service(settings(model, store))
    served = service.models["m"].current
    service.store.close()
    expected = deciban.load(model)
    ids = sorted(stored)
    if ids:
        expected.partial_fit([contents[id_] for id_ in ids], [stored[id_] for id_ in ids])
    assert served.counts == expected.class_count_.tolist(), "something is lost, or was learned twice"
    np.testing.assert_allclose(served.scorer.predict_proba(WORDS), expected.predict_proba(WORDS), rtol=1e-9)
    for id_ in possible:  # from here on, what the store has is what counts
        possible[id_] = [stored.get(id_)]
    return unheard


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("kills", [KILLS[0], pytest.param(KILLS[1], marks=pytest.mark.slow)])
def test_killed_at_any_moment_nothing_acknowledged_is_lost(files, tmp_path, kills):
    command = [sys.executable, __file__, str(files["texts"]), str(tmp_path / "store.sqlite"), str(kills)]
    quiet = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["acknowledged"] >= kills // 2, "servers got somewhere"


# ---------------------------------------------------------------------- stopped and started


def predictions(api):
    texts = [{"text": text} for text in WORDS]
    reply = api.post("/v1/models/texts/predict", {"examples": texts})
    return [one["probabilities"]["spam"] for one in reply.json["predictions"]]


def teach(api, number):
    examples = [
        {"id": f"{i}", "text": f"{WORDS[i % 10]} {WORDS[i % 7]}", "label": ["ham", "spam"][i % 2]}
        for i in range(number)
    ]
    assert api.post("/v1/models/texts/learn", {"examples": examples}).status == 200


def test_a_server_goes_on_where_it_stopped(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite") as api:
        teach(api, 20)
        api.post("/v1/models/texts/forget", {"id": "3"})
        before, quality = predictions(api), api.get("/v1/models/texts/quality").json
    with Api(texts, tmp_path / "s.sqlite") as api:
        assert predictions(api) == pytest.approx(before, rel=1e-9)
        assert api.get("/v1/models/texts/quality").json["overall"] == quality["overall"], (
            "so does what is known of quality"
        )
        assert api.post("/v1/models/texts/forget", {"id": "4"}).json["results"][0]["status"] == "forgotten"


def test_single_texts_are_added_from_the_store_after_a_crash(tmp_path):
    """A model with jointly modelled words: the store has the words of each text, not their products."""
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, [1 + (i % 2) * (j % 3) for j in range(10)], k=6)) for i in range(400)]
    labels = ["ham", "spam"] * 200
    path, store = tmp_path / "texts.deciban", tmp_path / "s.sqlite"
    deciban.TextClassifier().fit(texts[:300], labels[:300]).save(path)
    assert deciban.load(path).model_.sums.common is not None
    service = Service(replace(settings(path, store), snapshot_seconds=600.0))
    service.start()
    for i in range(300, 330):
        for kind, label in (("learn", labels[i]), ("correct", labels[i - 1])):
            change = Change(
                "m", kind, [Example(str(i), {"text": texts[i]} if kind == "learn" else None, label)], "test"
            )
            service.writer.submit(change)
            change.done.result(30)
    change = Change("m", "forget", [Example("300", None)], "test")
    service.writer.submit(change)
    change.done.result(30)
    sizes = [len(row[0]) for row in service.store.read("SELECT plus FROM deltas WHERE plus IS NOT NULL")]
    crashed = tmp_path / "crashed.sqlite"
    with sqlite3.connect(store) as source, sqlite3.connect(crashed) as copy:
        source.backup(copy)
    service.stop()
    expected = deciban.load(path).partial_fit(texts[301:330], labels[300:329])
    again = Service(settings(path, crashed))
    assert len(again.store.sums_after("m", again.store.snapshot_seq("m"))) > 0, "it was not stopped"
    for served in (service, again):
        model = served.models["m"].current
        assert model.counts == expected.class_count_.tolist()
        np.testing.assert_allclose(model.scorer.predict_proba(texts), expected.predict_proba(texts), rtol=1e-9)
    again.store.close()
    assert max(sizes) < 20_000, "bytes of one text"


def test_rebuilt_from_the_file_and_the_examples(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite") as api:
        teach(api, 20)
        before = predictions(api)
    with Api(texts, tmp_path / "s.sqlite", rebuild=True) as api:
        assert predictions(api) == pytest.approx(before, rel=1e-9)
    other = deciban.TextClassifier().fit(
        ["cash prize", "cash", "lunch", "home"] * 3, ["spam", "spam", "ham", "ham"] * 3
    )
    path = tmp_path / "texts.deciban"
    other.save(path)
    with Api({"texts": path}, tmp_path / "s.sqlite") as api:
        assert predictions(api) == pytest.approx(before, rel=1e-9), "another file changes nothing"
    with Api({"texts": path}, tmp_path / "s.sqlite", rebuild=True) as api:
        assert sum(api.get("/v1/models/texts").json["counts"]) == 12 + 20


def test_two_servers_do_not_share_a_file(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite"), pytest.raises(StoreError, match="another server"):
        Api(texts, tmp_path / "s.sqlite")


def test_snapshots_replace_what_they_contain(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "MAX_SUMS", 3)
    with Api(texts, tmp_path / "s.sqlite") as api:
        for i in range(7):
            api.post("/v1/models/texts/learn", {"text": WORDS[i], "label": "spam"})
        store = api.service.store
        assert len(store.read("SELECT seq FROM deltas")) == 1
        assert len(store.read("SELECT seq FROM snapshots")) == 1
        before = predictions(api)
    with Api(texts, tmp_path / "s.sqlite") as api:
        assert predictions(api) == pytest.approx(before, rel=1e-9)


def test_forgotten_content_is_in_no_file(texts, tmp_path):
    secret = "xylophone-quixotic-4711"
    with Api(texts, tmp_path / "s.sqlite") as api:
        api.post("/v1/models/texts/learn", {"id": "a", "text": f"call {secret} now", "label": "spam"})
        assert any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())
        api.post("/v1/models/texts/forget", {"id": "a"})
    for path in tmp_path.iterdir():
        for part in (secret.encode(), b"xylophone"):
            assert part not in path.read_bytes(), path


# ---------------------------------------------------------------------- a store that fails


class FailingStore(SqliteStore):
    """A disk that is full while `full` is set: at the commit, or already at the first insert."""

    full: str | None = None

    def execute(self, statement, values=(), *, reading=False):
        if self.full is not None and statement.startswith(self.full):
            raise StoreError("the store {file!r} cannot be used: {why}", file=self.path, why="disk is full")
        return super().execute(statement, values, reading=reading)


@pytest.mark.parametrize("at", ["COMMIT", "INSERT INTO examples", "INSERT INTO deltas", "BEGIN"])
def test_a_full_disk_is_answered_and_changes_nothing(texts, tmp_path, at):
    store = FailingStore(str(tmp_path / "s.sqlite"))
    with Api(texts, "unused", store_object=store) as api:
        before, counts = predictions(api), api.get("/v1/models/texts").json["counts"]
        store.full = at
        reply = api.post("/v1/models/texts/learn", {"id": "a", "text": "cash", "label": "spam"})
        assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
        assert reply.headers["retry-after"] == "1"
        assert api.get("/readyz").status == 503
        assert predictions(api) == before, "answers go on"
        store.full = None
        assert api.get("/v1/models/texts").json["counts"] == counts
        assert (
            api.post("/v1/models/texts/learn", {"id": "a", "text": "cash", "label": "spam"}).json["results"][0][
                "status"
            ]
            == "learned"
        )
        assert api.get("/readyz").status == 200
        assert api.get("/v1/models/texts").json["counts"] == [counts[0], counts[1] + 1]


# ---------------------------------------------------------------------- how content is kept


def test_content_can_be_encrypted(texts, tmp_path, caplog):
    fernet = pytest.importorskip("cryptography.fernet", reason="cryptography is not installed").Fernet
    key = tmp_path / "content.key"
    key.write_bytes(fernet.generate_key())
    where = {"store": tmp_path / "s.sqlite", "content": "encrypted", "key_file": str(key)}
    with Api(texts, **where) as api:
        api.post("/v1/models/texts/learn", {"id": "a", "text": "xylophone prize", "label": "spam"})
        assert api.get("/v1/models/texts/examples/a").json["content"] == {"text": "xylophone prize"}
        rows = api.service.store.read("SELECT content FROM examples")
        assert b"xylophone" not in rows[0][0]
        assert (
            api.post("/v1/models/texts/correct", {"id": "a", "label": "ham"}).json["results"][0]["status"]
            == "corrected"
        )
        assert "key_file" not in caplog.text
    key.write_bytes(fernet.generate_key())
    with Api(texts, **where) as api:
        assert "key_file is not the key of the encrypted examples" in caplog.text
        reply = api.post("/v1/models/texts/forget", {"id": "a"})
        assert (reply.status, reply.error["code"]) == (422, "content_needed")


def test_statistics_alone_need_the_example_again_to_forget_it(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite", content="none") as api:
        before = api.get("/v1/models/texts").json["counts"]
        api.post("/v1/models/texts/learn", {"id": "a", "text": "cash prize", "label": "spam"})
        assert api.service.store.read("SELECT content FROM examples") == [(None,)]
        reply = api.post("/v1/models/texts/forget", {"id": "a"})
        assert (reply.status, reply.error["code"]) == (422, "content_needed")
        reply = api.post("/v1/models/texts/forget", {"id": "a", "text": "cash"})
        assert (reply.status, reply.error["code"]) == (409, "not_learned")
    with pytest.raises(DecibanError, match="texts cannot be learned again: the content of 'a' is not stored"):
        Api(texts, tmp_path / "s.sqlite", content="none", rebuild=True)
    with Api(texts, tmp_path / "s.sqlite", content="none") as api:
        assert api.get("/v1/models/texts").json["counts"] == [before[0], before[1] + 1]
        corrected = api.post("/v1/models/texts/correct", {"id": "a", "text": "cash prize", "label": "ham"})
        assert corrected.json["results"][0]["status"] == "corrected"
        assert api.post("/v1/models/texts/forget", {"id": "a", "text": "cash prize"}).status == 200
        assert api.get("/v1/models/texts").json["counts"] == before


def test_a_model_that_cannot_learn_the_examples_again_is_refused(files, tmp_path):
    with Api({"m": files["rows"]}, tmp_path / "s.sqlite") as api:
        api.post("/v1/models/m/learn", {"row": {"size": 1.0}, "label": "cat"})
    with pytest.raises(
        DecibanError, match=r"texts\.deciban' cannot learn the examples that the store has of m: example"
    ):
        Api({"m": files["texts"]}, tmp_path / "s.sqlite", rebuild=True)


def test_how_content_is_kept_is_written_down(texts, tmp_path):
    for form in ("plain", "none", "none"):
        with Api(texts, tmp_path / "s.sqlite", content=form) as api:
            kinds = [line.kind for line in api.service.store.lines("", -1, 10)]
    assert kinds == ["content is kept: plain", "content is kept: none"]


def test_the_oldest_are_forgotten(texts, tmp_path, monkeypatch):
    monkeypatch.setattr("deciban.server.service.RETENTION_SECONDS", 0.01)
    with Api(texts, tmp_path / "s.sqlite", keep_examples=5) as api:
        before = sum(api.get("/v1/models/texts").json["counts"])
        teach(api, 12)
        end = time.monotonic() + 30
        about = api.get("/v1/models/texts").json
        while (about["examples"] > 5 or sum(about["counts"]) > before + 5) and time.monotonic() < end:
            time.sleep(0.01)  # the store comes first, then the model
            about = api.get("/v1/models/texts").json
        kept = [one.id for one in api.service.store.all_examples("texts", -1, 100)]
        assert kept == ["7", "8", "9", "10", "11"]
        assert sum(api.get("/v1/models/texts").json["counts"]) == before + 5
        lines = [line for line in api.get("/v1/models/texts/log").json["log"] if line["kind"] == "forget"]
        assert [line["actor"] for line in lines] == ["retention"] * 7


def test_the_exported_file_goes_on_learning(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite") as api:
        teach(api, 4)
        model = deciban.load(io.BytesIO(api.get("/v1/models/texts/file").body))
    assert model.partial_fit(["cash"], ["spam"]).class_count_.sum() == 12 + 4 + 1


if __name__ == "__main__":
    kill_servers(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
