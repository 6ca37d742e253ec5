"""What the page asks the API for, besides predictions: files, importance, single decisions, class shares, sizes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import deciban

from .api import Api

MODELS = "/v1/models"
FILE = "application/octet-stream"


def read(api, model, data, name):
    return api.post(f"{MODELS}/{model}/read?name={name}", raw=data, content_type=FILE)


@pytest.fixture(scope="module")
def churn(tmp_path_factory):
    """A server for a model that the command line has trained on the example customers."""
    from typer.testing import CliRunner

    from deciban.cli.app import app

    folder = tmp_path_factory.mktemp("churn")
    data = str(folder / "customers.csv")
    for command in (
        ["demo", "--data", str(folder)],
        ["train", data, "--target", "leaves", "-o", f"{folder}/m.deciban"],
    ):
        result = CliRunner().invoke(app([command[0]]), command)
        assert result.exit_code == 0, result.output
    with Api({"churn": folder / "m.deciban"}, folder / "s.sqlite") as api:
        api.csv = (folder / "customers.csv").read_bytes()
        yield api


def test_rows_of_a_file_are_examples_with_labels(churn):
    reply = read(churn, "churn", churn.csv, "customers.csv")
    assert reply.status == 200, reply.body
    first = reply.json["examples"][0]
    assert first == {
        "row": {"customer": "c0000", "plan": "pro", "months": 7, "calls": 2, "spend": None},
        "label": "yes",
    }
    assert churn.post(f"{MODELS}/churn/evaluate", {"examples": reply.json["examples"]}).json["accuracy"] > 0.6
    rows = [{"row": one["row"]} for one in reply.json["examples"]]
    assert churn.post(f"{MODELS}/churn/predict", {"examples": rows}).status == 200


def test_a_file_with_other_columns(churn):
    reply = read(churn, "churn", b"plan;months;shoe size\npro;3;44\nbasic;?;40\n", "a.csv").json
    assert reply["examples"] == [{"row": {"plan": "pro", "months": 3}}, {"row": {"plan": "basic", "months": None}}]
    assert reply["ignored"] == ["shoe size"]
    assert read(churn, "churn", b"a,b\n1,2\n", "a.csv").error["code"] == "columns"
    lines = b'{"plan": "pro", "months": 1.5}\n{"plan": "basic"}\n'
    assert read(churn, "churn", lines, "a.jsonl").json["examples"][0] == {"row": {"plan": "pro", "months": 1.5}}


def test_files_of_texts_and_mails(api):
    assert read(api, "texts", "Win caf\u00e9 cash".encode(), "a.txt").json["examples"] == [
        {"text": "Win caf\u00e9 cash"}
    ]
    table = b"text,label\nwin cash,spam\nsee you,ham\n"
    assert [one["text"] for one in read(api, "texts", table, "a.csv").json["examples"]] == ["win cash", "see you"]
    assert read(api, "texts", b"a,b\nx,y\n", "a.csv").error["code"] == "columns"
    mail = b"Subject: you win\r\n\r\nClaim caf\xe9 now"
    assert read(api, "mail", mail, "m.eml").json["examples"] == [{"message": mail.decode("latin-1")}]
    box = b"From a Sat Jan  3 01:05:34 1996\nSubject: One\n\nx\n\nFrom b Sat Jan  3 01:05:35 1996\nSubject: Two\n\ny\n"
    several = read(api, "mail", box, "box").json["examples"]
    assert ["One" in one["message"] for one in several] == [True, False]
    assert api.post(f"{MODELS}/mail/predict", {"examples": several}).status == 200


@pytest.mark.parametrize(
    ("data", "name", "status"),
    [
        (b"", "a.csv", 422),
        (b"  \n", "a.csv", 422),
        (b"a,size\n", "a.csv", 422),
        (b"\x1f\x8b\x08\x00\x00", "a.csv", 415),
        (b"\x1f\x8b\x08\x00\x00", "a.csv.gz", 415),
        (b"PK\x03\x04 ", "a.xlsx", 415),
        (b"PAR1 ", "a.parquet", 415),
        (b"size\n\xff\xfe\x00\n", "a.csv", 422),
        (b'{"size": ', "a.jsonl", 422),
        (b'{"size": {"a": 1}}', "a.jsonl", 422),
        (b'size,legs\n"1,2\n', "a.csv", 422),
        (b"size,legs\n1,2,3\n", "a.csv", 422),
    ],
)
def test_files_that_cannot_be_read_are_explained(one_api, data, name, status):
    reply = read(one_api, "rows", data, name)
    assert reply.status == status, reply.body
    assert reply.error["message"]
    assert reply.error["code"] != "bad_model_file"


def test_no_more_rows_than_a_request_may_have(files, tmp_path):
    with Api({"rows": files["rows"]}, tmp_path / "s.sqlite", max_examples=3, max_body=100) as api:
        reply = read(api, "rows", b"size\n1\n2\n3\n4\n", "a.csv").json
        assert (len(reply["examples"]), reply["more"]) == (3, True)
        assert read(api, "rows", b"size\n" + b"1\n" * 100, "a.csv").status == 413
        assert api.post(f"{MODELS}/rows/read", {}).status == 415


def test_an_explanation_has_the_prediction(api):
    text = {"text": "win a prize at lunch"}
    (one,) = api.post(f"{MODELS}/texts/explain", text).json["explanations"]
    (answer,) = api.post(f"{MODELS}/texts/predict", text).json["predictions"]
    assert one["label"] == answer["label"]
    assert one["probabilities"] == pytest.approx(answer["probabilities"])
    assert one["probability"] == pytest.approx(answer["probabilities"][one["target"]])


def test_to_explain_is_not_a_decision(api):
    api.post(f"{MODELS}/texts/explain", {"text": "win"})
    assert api.get(f"{MODELS}/texts/recent").json["decisions"] == []


def test_a_decision_with_its_whole_content(api):
    text = "lunch " * 1000
    api.post(f"{MODELS}/texts/predict", {"id": "a/b c", "text": text})
    (listed,) = api.get(f"{MODELS}/texts/recent").json["decisions"]
    assert len(listed["content"]["text"]) == 2000
    found = api.get(f"{MODELS}/texts/recent/a/b%20c").json["decision"]
    assert found["content"] == {"text": text}
    assert api.get(f"{MODELS}/texts/recent/other").error["code"] == "unknown_id"


def test_importance_is_that_of_the_model(api, files):
    stored = deciban.read(files["rows"]).importance()
    reply = api.get(f"{MODELS}/rows/importance").json
    assert [item["name"] for item in reply["items"]] == [item.name for item in stored.items]
    assert {curve["name"] for curve in reply["curves"]} == {curve.name for curve in stored.curves}
    assert len(api.get(f"{MODELS}/rows/importance?most=1").json["items"]) == 1
    assert api.get(f"{MODELS}/numbers/importance").error["code"] == "no_importance"


def test_class_shares(api):
    for text in ["win cash", "cash prize", "claim cash", "lunch"]:
        api.post(f"{MODELS}/texts/predict", {"text": text})
        api.post(f"{MODELS}/texts/learn", {"text": text, "label": "ham" if text == "lunch" else "spam"})
    quality = api.get(f"{MODELS}/texts/quality").json
    assert quality["shares"]["requests"] == 4
    learned = {name: one["learned"] for name, one in quality["shares"]["classes"].items()}
    assert learned == pytest.approx({"ham": 7 / 16, "spam": 9 / 16})
    assert sum(one["requests"] for one in quality["shares"]["classes"].values()) == pytest.approx(1.0)
    assert quality["over_time"][0]["shares"] == {"ham": 0.25, "spam": 0.75}


def test_sizes_and_times_survive_a_restart(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite") as api:
        described = api.get(f"{MODELS}/texts").json
        assert described["changed"] is None
        assert described["snapshot"]["bytes"] == len(texts["texts"].read_bytes())
        api.post(f"{MODELS}/texts/learn", {"text": "cash", "label": "spam"})
        changed = api.get(f"{MODELS}/texts").json["changed"]
    with Api(texts, tmp_path / "s.sqlite") as api:
        described = api.get(f"{MODELS}/texts").json
        assert described["changed"] == pytest.approx(changed, abs=1.0)
        assert described["snapshot"]["version"] == described["version"]


def test_the_page_is_static_and_asks_only_this_server(one_api):
    page = one_api.get("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert one_api.get("/", if_none_match=page.headers["etag"]).status == 304
    assert page.headers["cache-control"] == "no-cache"
    for path in ("/page/", "/page/index.html", "/page/../page.py", "/page/%2e%2e/app.py", "/page/app.py"):
        assert one_api.get(path).status == 404, path
    assert one_api.post("/", {}).status == 405


def test_no_file_of_the_page_mentions_another_host(one_api):
    from deciban.server.page import page_routes

    names = [route.path for route in page_routes()]
    assert {"/", "/page/app.js", "/page/style.css"} <= set(names)
    for path in names:
        text = one_api.get(path).body.decode()
        hosts = [line for line in text.splitlines() if "//" in line and "http" in line and "www.w3.org" not in line]
        assert hosts == [], path
        assert "innerHTML" not in text, path
        assert " style=" not in text, path
        assert "<script>" not in text, path


def test_the_page_can_be_switched_off(texts, tmp_path):
    with Api(texts, tmp_path / "s.sqlite", page=False) as api:
        assert api.get("/").status == 404
        assert api.get(MODELS).status == 200


def test_the_client_asks_the_same(texts, tmp_path):
    from .running import Running

    file = tmp_path / "rows.csv"
    file.write_text("text,label\nwin cash,spam\n")
    with Running(texts["texts"], tmp_path / "s.sqlite") as server:
        client = server.client
        assert client.read(file)["examples"] == [{"text": "win cash"}]
        client.predict("lunch " * 500, id="a")
        assert client.decision("a")["content"]["text"] == "lunch " * 500
        assert client.importance()["what"] == "word"
        shown = client.play([[0, 0, 0], [2, 0, 1], [1.5, 0, None]], model="spheres", steps=2)
        assert shown["em"]["steps"] == 2
        assert np.shape(shown["grid"]["probabilities"])[0] == 2
        assert json.dumps(shown)
