"""What the API answers, and what it refuses."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re

import numpy as np
import pytest

import deciban
from deciban.server.openapi import document
from deciban.server.routes import ROUTES

from .api import Api

MODELS = "/v1/models"


def counts(api, name):
    described = api.get(f"{MODELS}/{name}").json
    return dict(zip(map(str, described["classes"]), described["counts"], strict=True))


def test_predictions_are_those_of_the_file(api, files):
    texts = ["claim your cash", "see you at noon"]
    reply = api.post(f"{MODELS}/texts/predict", {"examples": [{"text": text} for text in texts]})
    assert reply.status == 200
    given = [[one["probabilities"][c] for c in ("ham", "spam")] for one in reply.json["predictions"]]
    np.testing.assert_allclose(given, deciban.read(files["texts"]).predict_proba(texts), rtol=1e-9)
    assert [one["label"] for one in reply.json["predictions"]] == ["spam", "ham"]


def test_a_row_is_answered_alike_alone_and_among_others(api):
    rows = [
        {"size": 1.5, "colour": "red"},
        {"size": 2, "legs": 4},
        {"legs": "3", "colour": "blue"},
        {"colour": None, "size": 0},
    ]
    together = api.post(f"{MODELS}/rows/predict", {"examples": [{"row": row} for row in rows]}).json["predictions"]
    for row, among_others in zip(rows, together, strict=True):
        alone = api.post(f"{MODELS}/rows/predict", {"row": row}).json["predictions"][0]
        assert alone["probabilities"] == pytest.approx(among_others["probabilities"], rel=1e-12)


def test_requests_at_the_same_time_get_their_own_answers(api):
    texts = ["win cash", "see you at lunch", "prize", "home at noon"] * 5
    replies = api.together(
        [("POST", f"{MODELS}/texts/predict", {"id": str(i), "text": t}) for i, t in enumerate(texts)]
    )
    assert [reply.json["predictions"][0]["id"] for reply in replies] == [str(i) for i in range(20)]
    assert [reply.json["predictions"][0]["label"] for reply in replies] == ["spam", "ham", "spam", "ham"] * 5


def test_who_asks_again_at_once_is_not_overlooked(api, monkeypatch):
    """A request comes at the very moment when nobody else waits any more, before the loop has done anything else."""
    monkeypatch.setattr("deciban.server.answering.MAX_BATCHES", 1)
    answering = api.service.answering["texts"]

    async def again_and_again():
        async with asyncio.timeout(30):
            return [len((await answering.answers([{"text": "win cash"}]))[1]) for _ in range(5)]

    assert api.runner.run(again_and_again()) == [1] * 5


def test_a_bad_request_spoils_no_other(api):
    good, bad = {"row": {"size": 1.0}}, {"row": {"size": "large"}}
    replies = api.together([("POST", f"{MODELS}/rows/predict", one) for one in (good, bad, good)])
    assert [reply.status for reply in replies] == [200, 422, 200]
    assert replies[1].error["column"] == "size"
    assert replies[1].error["value"] == "large"


def test_mail_is_taken_raw_in_json_and_in_base64(api):
    raw = b"Subject: you win\r\n\r\nClaim caf\xe9 cash prize now!"
    replies = [
        api.post(f"{MODELS}/mail/predict?id=m1", raw=raw, content_type="message/rfc822"),
        api.post(f"{MODELS}/mail/predict", {"id": "m2", "message": raw.decode("latin-1")}),
        api.post(f"{MODELS}/mail/predict", {"id": "m3", "message_base64": base64.b64encode(raw).decode()}),
    ]
    answers = [reply.json["predictions"][0] for reply in replies]
    assert [one["id"] for one in answers] == ["m1", "m2", "m3"]
    assert answers[0]["label"] == "spam"
    assert answers[0]["probabilities"] == answers[1]["probabilities"] == answers[2]["probabilities"]


def test_an_explanation_adds_up(api):
    reply = api.post(f"{MODELS}/texts/explain", {"text": "win a prize at lunch", "most": 2})
    (one,) = reply.json["explanations"]
    assert one["total"] == pytest.approx(one["prior"] + sum(item["decibans"] for item in one["evidence"]))
    assert len(one["evidence"]) == 3, "two, and the sum of the others"
    assert one["spans"]
    other_way = api.post(f"{MODELS}/texts/explain", {"text": "win", "target": "ham", "against": "spam"})
    assert other_way.json["explanations"][0]["target"] == "ham"


def test_learning_correcting_and_forgetting(api, files):
    before = counts(api, "texts")
    example = {"id": "a", "text": "cash for lunch", "label": "spam"}
    assert api.post(f"{MODELS}/texts/learn", example).json["results"] == [
        {"id": "a", "status": "learned", "label": "spam"}
    ]
    assert counts(api, "texts") == before | {"spam": before["spam"] + 1}
    assert api.post(f"{MODELS}/texts/learn", example).json["results"][0]["status"] == "unchanged"
    assert counts(api, "texts") == before | {"spam": before["spam"] + 1}
    corrected = api.post(f"{MODELS}/texts/correct", {"id": "a", "label": "ham"}).json["results"]
    assert corrected == [{"id": "a", "status": "corrected", "label": "ham", "was": "spam"}]
    assert counts(api, "texts") == before | {"ham": before["ham"] + 1}
    assert api.get(f"{MODELS}/texts/examples/a").json["content"] == {"text": "cash for lunch"}
    assert api.post(f"{MODELS}/texts/forget", {"id": "a"}).json["results"][0]["status"] == "forgotten"
    assert counts(api, "texts") == before
    assert api.post(f"{MODELS}/texts/forget", {"id": "a"}).json["results"][0]["status"] == "unchanged"
    assert api.get(f"{MODELS}/texts/examples/a").status == 404
    log = api.get(f"{MODELS}/texts/log").json["log"]
    assert [(line["kind"], line["id"]) for line in log] == [
        ("begin", None),
        ("learn", "a"),
        ("correct", "a"),
        ("forget", "a"),
    ]
    assert "lunch" not in json.dumps(log)
    probabilities = api.post(f"{MODELS}/texts/predict", {"text": "cash"}).json["predictions"][0]["probabilities"]
    expected = deciban.read(files["texts"]).predict_proba(["cash"])[0]
    np.testing.assert_allclose(list(probabilities.values()), expected, rtol=1e-9)


def test_the_model_that_learned_is_the_one_that_a_file_would_be(api, files):
    examples = [{"id": str(i), "row": {"size": i / 3, "colour": "green", "legs": 4}, "label": "cat"} for i in range(5)]
    assert api.post(f"{MODELS}/rows/learn", {"examples": examples}).status == 200
    exported = deciban.load(io.BytesIO(api.get(f"{MODELS}/rows/file").body))
    model = deciban.load(files["rows"])
    columns = {name: [example["row"][name] for example in examples] for name in ("size", "colour", "legs")}
    model.partial_fit(columns, ["cat"] * 5)
    np.testing.assert_allclose(exported.predict_proba(columns), model.predict_proba(columns), rtol=1e-9)
    np.testing.assert_array_equal(exported.class_count_, model.class_count_)


def test_another_example_with_the_same_id_is_refused(api):
    api.post(f"{MODELS}/texts/learn", {"id": "a", "text": "cash", "label": "spam"})
    before = counts(api, "texts")
    for other in ({"text": "cash", "label": "ham"}, {"text": "cash!", "label": "spam"}):
        reply = api.post(f"{MODELS}/texts/learn", {"id": "a", **other})
        assert (reply.status, reply.error["code"]) == (409, "id_in_use")
        assert "correct" in reply.error["message"]
    assert counts(api, "texts") == before


def test_of_a_request_with_a_bad_example_nothing_is_learned(api):
    before = counts(api, "rows")
    examples = [{"row": {"size": 1.0}, "label": "cat"}, {"row": {"size": "huge"}, "label": "cat"}]
    reply = api.post(f"{MODELS}/rows/learn", {"examples": examples})
    assert (reply.status, reply.error["row"], reply.error["column"]) == (422, 1, "size")
    assert counts(api, "rows") == before
    assert api.get(f"{MODELS}/rows").json["examples"] == 0, "and nothing is in the store"


def test_requests_that_are_written_together_fail_alone(api):
    good = [("POST", f"{MODELS}/rows/learn", {"id": str(i), "row": {"size": i}, "label": "cat"}) for i in range(3)]
    bad = [("POST", f"{MODELS}/rows/learn", {"id": "x", "row": {"size": "huge"}, "label": "cat"})]
    before = counts(api, "rows")["cat"]
    assert [reply.status for reply in api.together([*good[:1], *bad, *good[1:]])] == [200, 422, 200, 200]
    assert counts(api, "rows")["cat"] == before + 3


def test_a_decision_is_taught_by_its_id_alone(api):
    api.post(f"{MODELS}/texts/predict", {"id": "d", "text": "cash at noon"})
    assert api.post(f"{MODELS}/texts/learn", {"id": "d", "label": "ham"}).json["results"][0]["status"] == "learned"
    (decision,) = api.get(f"{MODELS}/texts/recent").json["decisions"]
    assert (decision["id"], decision["taught"]) == ("d", "ham")
    assert api.get(f"{MODELS}/texts/recent?untaught=true").json["decisions"] == []
    assert api.post(f"{MODELS}/texts/learn", {"id": "e", "label": "ham"}).status == 404
    api.post(f"{MODELS}/texts/forget", {"id": "d"})
    assert api.get(f"{MODELS}/texts/recent").json["decisions"] == [], "what is forgotten is not shown either"


def test_recent_decisions_the_least_sure_first(api):
    for text in ("cash prize", "cash at lunch", "see you at lunch at noon"):
        api.post(f"{MODELS}/texts/predict", {"text": text})
    margins = [one["margin"] for one in api.get(f"{MODELS}/texts/recent?order=unsure").json["decisions"]]
    assert margins == sorted(margins)
    assert len(margins) == 3


def test_rows_learned_before_serving_can_be_forgotten(api):
    before = counts(api, "texts")
    assert api.post(f"{MODELS}/texts/forget", {"text": "win cash now", "label": "spam"}).status == 200
    assert counts(api, "texts") == before | {"spam": before["spam"] - 1}
    reply = api.post(f"{MODELS}/texts/forget", {"text": "never learned at all", "label": "spam"})
    assert (reply.status, reply.error["code"]) == (409, "not_learned")


def test_what_was_learned_is_found_by_content(api):
    before = counts(api, "texts")
    api.post(f"{MODELS}/texts/learn", {"id": "a", "text": "cash now", "label": "spam"})
    reply = api.post(f"{MODELS}/texts/forget", {"text": "cash now", "label": "spam"})
    assert reply.json["results"][0]["id"] == "a"
    assert counts(api, "texts") == before


def test_a_new_class_must_be_meant(api):
    example = {"text": "board meeting at ten", "label": "work"}
    reply = api.post(f"{MODELS}/texts/learn", example)
    assert (reply.status, reply.error["code"]) == (422, "unknown_class")
    assert api.post(f"{MODELS}/texts/learn", example | {"new_class": True}).status == 200
    assert api.get(f"{MODELS}/texts").json["classes"] == ["ham", "spam", "work"]


def test_labels_that_are_numbers(api):
    assert api.post(f"{MODELS}/numbers/learn", {"row": [0.1, 0.2, 0.3], "label": "1"}).json["results"][0]["label"] == 1
    reply = api.post(f"{MODELS}/numbers/predict", {"row": {"x0": 0.1, "x1": 0.0, "x2": 0.5}})
    assert reply.json["predictions"][0]["label"] in (0, 1)
    assert api.post(f"{MODELS}/numbers/predict", {"row": ["a", 0, 0]}).error["column"] == "x0"


def test_quality_is_of_examples_before_they_were_learned(api, files):
    texts, labels = ["cash", "lunch", "noon cash"], ["spam", "ham", "spam"]
    scorer = deciban.load(files["texts"])
    expected = []
    for text, label in zip(texts, labels, strict=True):
        expected.append(scorer.predict_proba([text])[0][int(label == "spam")])
        scorer.partial_fit([text], [label])
        api.post(f"{MODELS}/texts/learn", {"text": text, "label": label})
    quality = api.get(f"{MODELS}/texts/quality").json
    assert quality["overall"]["log_loss"] == pytest.approx(-np.log(expected).mean(), rel=1e-6)
    assert quality["by_class"]["spam"]["examples"] == 2


def test_evaluate_learns_nothing(api):
    before = counts(api, "texts")
    examples = [{"text": "cash", "label": "spam"}, {"text": "lunch", "label": "spam"}]
    reply = api.post(f"{MODELS}/texts/evaluate", {"examples": examples})
    assert (reply.json["accuracy"], reply.json["examples"]) == (0.5, 2)
    assert counts(api, "texts") == before


def test_what_speaks_for_each_class(api):
    items = api.get(f"{MODELS}/texts/evidence?most=3").json["evidence"]
    assert {item["class"] for item in items} == {"ham", "spam"}
    assert all(item["decibans"] > 0 for item in items)


def test_upload_replaces_a_model_by_a_checked_file(api, files):
    version = api.get(f"{MODELS}/texts").json["version"]
    other = deciban.TextClassifier().fit(["a b", "c d", "a b c", "d"], ["x", "y", "x", "y"])
    file = io.BytesIO()
    other.save(file)
    assert api.put(f"{MODELS}/texts/file", file.getvalue()).status == 200
    described = api.get(f"{MODELS}/texts").json
    assert described["classes"] == ["x", "y"]
    assert described["version"] > version
    damaged = bytearray(file.getvalue())
    damaged[-1] ^= 1
    for bad in (b"", b"no model", bytes(damaged), files["rows"].read_bytes()):
        reply = api.put(f"{MODELS}/texts/file", bad)
        assert (reply.status, reply.error["code"]) == (422, "bad_model_file"), bad[:20]
    assert api.get(f"{MODELS}/texts").json["classes"] == ["x", "y"]


def test_an_upload_says_whether_the_file_has_learned_the_examples(api, files):
    example = {"id": "a", "text": "board meeting", "label": "ham"}
    api.post(f"{MODELS}/texts/learn", example)
    exported, original = api.get(f"{MODELS}/texts/file").body, files["texts"].read_bytes()
    assert api.put(f"{MODELS}/texts/file", exported).error["code"] == "examples"
    assert api.put(f"{MODELS}/texts/file?examples=maybe", exported).status == 422
    for way, file in (("contained", exported), ("learn", original)):
        assert api.put(f"{MODELS}/texts/file?examples={way}", file).status == 200
        assert counts(api, "texts") == {"ham": 7.0, "spam": 6.0}
        assert api.post(f"{MODELS}/texts/forget", {"id": "a"}).json["results"][0]["status"] == "forgotten"
        assert counts(api, "texts") == {"ham": 6.0, "spam": 6.0}
        api.post(f"{MODELS}/texts/learn", example)


def test_a_correction_keeps_what_was_learned_whatever_was_asked_under_its_id(api):
    api.post(f"{MODELS}/texts/learn", {"id": "a", "text": "board meeting", "label": "spam"})
    api.post(f"{MODELS}/texts/predict", {"id": "a", "text": "something else"})
    assert api.post(f"{MODELS}/texts/correct", {"id": "a", "label": "ham"}).json["results"][0]["status"] == "corrected"
    assert api.get(f"{MODELS}/texts/examples/a").json["content"] == {"text": "board meeting"}


def test_a_mixture_only_answers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + np.repeat([0, 4], 30)[:, None]
    path = tmp_path / "mixture.deciban"
    deciban.MixtureDiscriminant().fit(X, np.repeat(["a", "b"], 30)).save(path)
    with Api({"m": path}, tmp_path / "s.sqlite") as api:
        assert api.post(f"{MODELS}/m/predict", {"row": [4.0, 4.0]}).json["predictions"][0]["label"] == "b"
        reply = api.post(f"{MODELS}/m/learn", {"row": [4.0, 4.0], "label": "b"})
        assert (reply.status, reply.error["code"]) == (409, "read_only")
        assert not api.get(f"{MODELS}/m").json["learns"]


WRONG = [
    (b"", 400),
    (b"{", 400),
    (b"\xff\xfe", 400),
    (b'{"text": NaN}', 400),
    (b"[]", 422),
    (b"{}", 422),
    (b'{"examples": []}', 422),
    (b'{"examples": {}}', 422),
    (b'{"examples": [1]}', 422),
    (b'{"text": 1}', 422),
    (b'{"text": "a", "row": {"a": 1}}', 422),
    (b'{"row": {"a": 1}}', 422),
    (b'{"text": "a", "id": ""}', 422),
    (b'{"text": "a", "id": 7}', 422),
    (b'{"text": "a", "lable": "spam"}', 422),
    (b'{"text": "\\ud800"}', 422),
    (b'{"message_base64": "?"}', 422),
    (b'{"examples": [{"text": "a"}], "new_class": true}', 422),
    (b'{"examples": [{"id": "a", "text": "a"}, {"id": "a", "text": "b"}]}', 422),
    (b"[" * 100_000, 400),
]


@pytest.mark.parametrize(("raw", "status"), WRONG, ids=[raw[:40].decode("latin-1") or "empty" for raw, _ in WRONG])
def test_wrong_requests_are_explained(one_api, raw, status):
    reply = one_api.post(f"{MODELS}/texts/predict", raw=raw)
    assert reply.status == status
    assert reply.error["message"]


def test_wrong_addresses_methods_and_types(api):
    assert api.get("/nowhere").error["code"] == "not_found"
    assert api.get(f"{MODELS}/texts/learn").status == 405
    assert api.get(f"{MODELS}/other").error["code"] == "unknown_model"
    assert api.post(f"{MODELS}/texts/predict", {"text": "a"}, content_type="text/plain").status == 415
    assert api.get(f"{MODELS}/texts/recent?most=-1").status == 422
    assert api.get(f"{MODELS}/texts/recent?order=oldest").status == 422
    assert api.get(f"{MODELS}/texts/recent?untaught=maybe").status == 422
    assert api.get(f"{MODELS}/texts/log?after=x").status == 422


def test_the_description_has_every_route_and_only_those(api):
    described = api.get("/openapi.json").json
    assert described == json.loads(json.dumps(document(deciban.__version__)))
    routes = {(route.path.replace(":path", ""), route.method.lower()) for route in ROUTES}
    assert {(path, method) for path, methods in described["paths"].items() for method in methods} == routes
    schemas = described["components"]["schemas"]
    references = set(re.findall(r'#/components/schemas/(\w+)"', json.dumps(described)))
    assert references <= set(schemas)
    assert set(schemas) - references == set(), "every schema is used"


def matches(schemas, schema, value, where):
    """Whether an answer has the fields that the description says, and no others."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        assert value in schema["enum"], where
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    python = {
        "string": str,
        "number": (int, float),
        "integer": int,
        "boolean": bool,
        "null": type(None),
        "array": list,
        "object": dict,
    }
    if kinds:
        assert isinstance(
            value,
            tuple(t for kind in kinds for t in (python[kind] if isinstance(python[kind], tuple) else (python[kind],))),
        ), (where, value)
    if isinstance(value, dict) and schema.get("properties"):
        assert set(value) <= set(schema["properties"]), (where, set(value) - set(schema["properties"]))
        for key, one in value.items():
            matches(schemas, schema["properties"][key], one, f"{where}.{key}")
    if isinstance(value, dict) and "additionalProperties" in schema:
        for key, one in value.items():
            matches(schemas, schema["additionalProperties"], one, f"{where}.{key}")
    if isinstance(value, list) and "items" in schema:
        for one in value:
            matches(schemas, schema["items"], one, f"{where}[]")


def test_answers_are_as_described(api):
    described = api.get("/openapi.json").json
    requests = {
        "predict": {"id": "a", "text": "cash"},
        "play": {"points": [[0, 0, 0], [1, 1, 1], [1, 0, None]], "leave_one_out": True},
        "explain": {"text": "cash at lunch"},
        "evaluate": {"text": "cash", "label": "spam"},
        "learn": {"id": "a", "text": "cash", "label": "spam"},
        "correct": {"id": "b", "text": "noon", "label": "ham"},
    }
    for name in requests.keys() - {"play"}:
        assert api.post(f"{MODELS}/texts/{name}", requests[name]).status == 200
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            kind = operation["responses"]["200"]["content"].get("application/json")
            if kind is None or name in ("upload", "openapi"):
                continue
            for model in ("texts", "rows"):
                where = path.replace("{model}", model).replace("{id}", "a")
                if method == "get":
                    reply = api.get(where)
                elif model == "texts" and name in requests:
                    reply = api.post(where, requests[name])
                else:
                    continue
                if reply.status == 404 and model == "rows":
                    continue
                assert reply.status == 200, (name, reply.body)
                matches(described["components"]["schemas"], kind["schema"], reply.json, name)
    reply = api.post(f"{MODELS}/texts/forget", {"id": "a"})
    matches(described["components"]["schemas"], {"$ref": "x/Results"}, reply.json, "forget")
    reply = api.post(f"{MODELS}/texts/read", raw=b"text\ncash\n", content_type="application/octet-stream")
    matches(described["components"]["schemas"], {"$ref": "x/FileExamples"}, reply.json, "read")
    matches(described["components"]["schemas"], {"$ref": "x/Error"}, api.get("/x").json, "error")


def test_infinite_numbers_are_refused(one_api):
    reply = one_api.post(f"{MODELS}/rows/predict", raw=b'{"row": {"size": -1e999}}')
    assert (reply.status, reply.error["column"]) == (422, "size")


def test_a_class_to_explain_must_be_known(one_api):
    reply = one_api.post(f"{MODELS}/texts/explain", {"text": "cash", "target": "work"})
    assert (reply.status, reply.error["code"]) == (422, "unknown_class")
    assert reply.error["message"] == "\"target\" is 'work', which is not one of the classes: ham, spam"


def test_health_and_metrics(api):
    assert api.get("/healthz").json == {"status": "ok"}
    assert api.get("/readyz").json == {"status": "ready"}
    api.post(f"{MODELS}/texts/learn", {"text": "cash", "label": "spam"})
    text = api.get("/metrics").body.decode()
    assert 'deciban_examples_total{model="texts",what="learned"} 1' in text
    assert 'deciban_requests_total{route="learn",status="200"} 1' in text
    assert 'deciban_model_examples{model="texts",class="spam"} 7' in text
    assert 'deciban_request_seconds_bucket{route="learn",le="+Inf"} 1' in text
    changed = api.get(f"{MODELS}/texts").json["changed"]
    assert f'deciban_model_changed_timestamp_seconds{{model="texts"}} {changed!r}' in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_an_empty_row_is_refused(api):
    for row in ({}, []):
        reply = api.post("/v1/models/rows/predict", {"row": row})
        assert reply.status == 422
        assert "is empty" in reply.error["message"]
