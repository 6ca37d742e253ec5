"""The page in a real browser, as people use it: pointer, keyboard, files; and what an accessibility checker finds."""

from __future__ import annotations

import json
import re
from contextlib import closing
from itertools import pairwise

import pytest

pytest.importorskip("playwright", reason="Playwright is not installed: `make browser`")
pytest.importorskip("axe_playwright_python", reason="axe is not installed: `make browser`")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import deciban
from deciban.client import Client
from deciban.server.store import open_store
from deciban.server.tokens import make_token

from .browser import CHROMIUM, DESKTOP, PHONE, Visit, browser
from .running import Running

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: `make browser`, or name one in CHROMIUM"),
    pytest.mark.slow,
]
VIEWS = ("try", "recent", "quality", "decides", "models", "play")
SPAM = "win a cash prize now, see you"


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def server(files, tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "s.sqlite"
    with Running(files["texts"], store, str(files["rows"]), str(files["mail"])) as running:
        running.url = f"http://127.0.0.1:{running.port}"
        yield running


@pytest.fixture
def client(server):
    with closing(Client(server.url, model="texts")) as asking:
        yield asking


@pytest.fixture
def visit(chromium, server):
    with Visit(chromium, server.url) as tab:
        yield tab


def learned(client):
    """How many examples the store has, and how many the model has learned of each class."""
    described = client.describe()
    return described["examples"], described["counts"]


def shown(page, selector):
    """Its text, with plain spaces."""
    return page.locator(selector).inner_text().replace("\xa0", " ")


def classify(page, text=SPAM):
    page.get_by_label("A text").fill(text)
    page.get_by_label("A text").press("Control+Enter")
    page.wait_for_selector(".waterfall")


# ---------------------------------------------------------------------- try


def test_a_text_is_classified_corrected_and_undone(visit, client):
    before = learned(client)
    page = visit.to()
    classify(page)
    assert shown(page, ".verdict .label") == "spam"
    first = shown(page, ".verdict .probability")
    assert "odds of" in first
    numbers = [float(t.replace("−", "-").split()[0]) for t in page.locator(".waterfall td.number").all_inner_texts()]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=0.06 * len(numbers)), "decibans add up, as rounded"
    assert page.locator(".words mark.t1", has_text="prize").count() == 1

    page.get_by_role("button", name="ham", exact=True).click()
    page.wait_for_selector("text=Learned as ham")
    assert learned(client)[0] == before[0] + 1
    assert shown(page, ".verdict .probability") != first, "the model has changed"
    assert page.evaluate("document.activeElement.textContent") == "Undo"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Forgotten")
    assert "same as before" in shown(page, ".taught")
    assert shown(page, ".verdict .probability") == first
    assert learned(client) == before


def test_a_row_is_classified_by_a_form_made_from_its_columns(visit, server):
    page = visit.to("try", "rows")
    page.get_by_label("size").fill("2.5")
    page.get_by_label("colour", exact=True).select_option(label="another value …")
    page.get_by_label("colour: another value").fill("green")
    page.get_by_role("button", name="Classify").click()
    page.wait_for_selector(".waterfall")
    assert shown(page, ".verdict .label") == "cat"
    assert "green" in shown(page, ".waterfall")
    with closing(Client(server.url, model="rows")) as client:
        answer = client.predict({"size": 2.5, "colour": "green"})
    assert f"{100 * answer['probability']:.1f} %" in shown(page, ".verdict")


DROP = """([name, text]) => {
  const files = new DataTransfer();
  files.items.add(new File([text], name));
  const at = document.querySelector(".input");
  for (const kind of ["dragover", "drop"]) {
    at.dispatchEvent(new DragEvent(kind, { dataTransfer: files, bubbles: true, cancelable: true }));
  }
}"""


def test_files_are_dropped_or_chosen(visit, tmp_path):
    page = visit.to()
    page.evaluate(DROP, ["some.csv", "text,number\nwin cash,1\nlunch at noon,2\n"])
    page.wait_for_selector("text=2 predictions")
    assert page.locator(".result tbody tr").all_inner_texts()[1].split("\t")[1] == "ham"
    assert "Not used: number" in shown(page, ".result")
    page.get_by_role("button", name="Row 2: open").click()
    page.wait_for_selector(".opened .waterfall")

    page = visit.to("try", "mail")
    mail = tmp_path / "one.eml"
    mail.write_text("From: a@b.example\nSubject: you win\n\nClaim cash prize 7 now!\n")
    page.locator("input[type=file]").set_input_files(mail)
    page.wait_for_selector(".waterfall")
    assert shown(page, ".verdict .label") == "spam"

    page.evaluate(DROP, ["photo.parquet", "PAR1"])
    page.wait_for_selector("[role=alert]")
    assert "convert it first" in shown(page, "[role=alert]")
    visit.messages.clear()  # the browser reports the status 415


def test_hostile_texts_are_shown_and_not_run(visit):
    page = visit.to()
    hostile = '<img src="http://elsewhere.invalid/x" onerror="document.title=1"> \u202e win \U0001f600 </script>'
    classify(page, hostile)
    assert shown(page, ".words .text") == hostile
    assert page.locator("main img").count() == 0
    blocked = "() => { try { document.body.innerHTML = '<b>x'; return false } catch (error) { return error.name } }"
    assert page.evaluate(blocked) == "TypeError", "no script can turn a string into markup"
    assert any("TrustedHTML" in message for message in visit.messages)
    visit.messages.clear()


# ---------------------------------------------------------------------- the other views


def test_recent_decisions_are_labelled(visit, client):
    for i, text in enumerate(["lunch at noon tomorrow", "win cash prize now", "see prize"]):
        client.predict(text, id=f"recent-{i}")
    page = visit.to("recent")
    page.wait_for_selector(".decision")
    shares = [float(t.strip("<> %\xa0")) for t in page.locator(".decision .number").all_inner_texts()]
    assert shares == sorted(shares), "unsure first"
    page.get_by_label("Prediction").select_option("ham")
    expect(page.locator(".decision .label").first).to_have_text("ham")
    page.locator(".decision", has_text="lunch at noon tomorrow").click()
    page.get_by_role("button", name="spam", exact=True).click()
    page.wait_for_selector("text=changed now")
    assert client.decision("recent-0")["taught"] == "spam"
    client.forget("recent-0")


def test_quality_evidence_and_models_are_shown(visit, client, tmp_path):
    for i in range(6):
        client.learn("win cash now" if i % 2 else "lunch at noon", "spam" if i % 2 else "ham", id=f"q{i}")
    page = visit.to("quality")
    accuracy = client.quality()["recent"]["accuracy"]
    assert f"{100 * accuracy:.1f} %" in shown(page, ".figures")
    assert page.locator(".chart[role=img]").count() >= 4
    page = visit.to("decides")
    assert "cash" in page.locator("section", has_text="Strongest evidence").inner_text()
    page = visit.to("models")
    own = page.locator(".model", has=page.get_by_role("heading", name="texts"))
    assert "TextClassifier" in own.inner_text()
    with page.expect_download() as got:
        own.get_by_role("button", name="Export").click()
    got.value.save_as(tmp_path / "got.deciban")
    assert deciban.read(tmp_path / "got.deciban").predict(["win cash now"])[0] == "spam"
    own.get_by_text("Replace the model").click()
    own.get_by_label("Model file").set_input_files(tmp_path / "got.deciban")
    own.get_by_role("button", name="Replace").click()
    page.wait_for_selector("text=texts is replaced: version")
    assert "6 examples in the store" in own.inner_text()
    own.get_by_text("Changes").click()
    assert own.get_by_role("rowheader").first.inner_text()
    for i in range(6):
        client.forget(f"q{i}")


# ---------------------------------------------------------------------- play


def points(page):
    return int(re.match(r"\d+", shown(page, ".controls dd >> nth=0"))[0])


def ellipse(page):
    return page.locator(".plane .ellipse").first.get_attribute("transform")


def settled(page):
    """Wait until the server has answered the last change."""
    page.wait_for_selector(".plane:not(.waiting)")


def test_points_are_added_moved_forgotten_and_undone(visit):
    page = visit.to("play")
    page.get_by_role("button", name="Forget all").click()
    expect(page.locator(".plane .point")).to_have_count(0)
    box = page.locator(".plane").bounding_box()

    def at(x, y):
        return box["x"] + box["width"] * (x + 4) / 8, box["y"] + box["height"] * (3 - y) / 6

    for x, y in [(-2, 0), (-1, 1)]:
        page.mouse.click(*at(x, y))
    page.get_by_label("B", exact=True).check()
    for x, y in [(2, 0), (1, -1)]:
        page.mouse.click(*at(x, y))
    settled(page)
    assert points(page) == 4
    before = ellipse(page)
    assert "translate(-1.5" in before
    page.mouse.move(*at(-2, 0))
    page.mouse.down()
    page.mouse.move(*at(-3, 0), steps=5)
    page.mouse.up()
    settled(page)
    assert "translate(-2" in ellipse(page), "the mean follows"
    page.get_by_role("button", name="Undo").click()
    settled(page)
    assert ellipse(page) == before, "exactly as before"
    page.mouse.click(*at(2, 0))  # forget it
    settled(page)
    assert points(page) == 3
    assert page.locator(".plane .boundary").count() == 1


def test_points_by_keyboard(visit):
    page = visit.to("play")
    settled(page)
    start = points(page)
    page.locator(".plane").focus()
    for key in ("Shift+ArrowUp",) * 5:
        page.keyboard.press(key)
    page.keyboard.press("Enter")  # add
    assert "Added A at 0, 2.5" in shown(page, "#announcer")
    page.keyboard.press("m")  # pick it up, move it, put it down
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("m")
    settled(page)
    assert points(page) == start + 1
    page.keyboard.press("ArrowRight")
    assert "On a point, A" in shown(page, "#announcer")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press(" ")  # forget
    assert "Forgot A at −0.1, 2.5" in shown(page, "#announcer")
    settled(page)
    assert points(page) == start


def test_steps_of_em_and_sliders(visit):
    page = visit.to("play")
    page.get_by_role("button", name="Few labels").click()
    seen = []
    for steps in range(4):
        page.wait_for_selector(f"text=After {steps} step")
        note = shown(page, "[aria-live]")
        seen.append(float(note.rpartition("log-likelihood ")[2].rstrip(".").replace("−", "-")))
        page.get_by_role("button", name="One step").click()
    assert seen[1] > seen[0] + 10, "the first step climbs most"
    assert all(b > a - 0.1 for a, b in pairwise(seen)), "others climb too, but for the variance that is added"
    page.get_by_role("button", name="To the end").click()
    page.wait_for_selector("text=converged")

    page.get_by_role("button", name="Two clouds").click()
    page.wait_for_selector("text=needs no steps")
    page.get_by_label("prior from the shares").uncheck()
    page.get_by_label("Prior of A").fill("0.9")
    page.get_by_label("Prior of B").fill("0.1")
    page.wait_for_selector("text=A 90.0 %, B 10.0 %")
    page.get_by_label("Pseudo-counts").fill("10")
    page.wait_for_selector("text=100 pseudo-points")
    with page.expect_response(lambda reply: "naive_bayes" in (reply.request.post_data or "")) as got:
        page.get_by_label("Covariances", exact=True).select_option("naive_bayes")
    sent = json.loads(got.value.request.post_data)
    assert (sent["alpha"], sent["prior"]) == (100, [0.9, 0.1])
    page.wait_for_selector("text=independent within a class")


# ---------------------------------------------------------------------- tokens, faults, other sites


def test_a_token_is_asked_for(chromium, files, tmp_path):
    path = tmp_path / "s.sqlite"
    store = open_store(str(path))
    tokens = {scope: make_token(store, scope, scope) for scope in ("read", "teach")}
    store.close()
    with Running(files["texts"], path, auth=True) as server, Visit(chromium, f"http://127.0.0.1:{server.port}") as tab:
        page = tab.to()
        for wrong, message in (("deciban_wrong", "unknown, or was revoked"), ("токен", "not a token")):
            page.get_by_label("Token").fill(wrong)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text(message)
            page.wait_for_timeout(300)  # the page asks two questions: the second refusal must not clear the message
            expect(page.get_by_role("alert")).to_contain_text(message)
        page.get_by_label("Token").fill(tokens["read"])
        page.keyboard.press("Enter")
        classify(page)
        page.wait_for_selector("text=does not allow corrections")
        page = tab.to("recent")
        page.wait_for_selector("text=needs the scope teach")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token").fill(tokens["teach"])
        page.keyboard.press("Enter")
        page.wait_for_selector(".filters")
        page.reload()
        page.wait_for_selector(".filters")
        kept = page.evaluate("[document.cookie, JSON.stringify(localStorage), location.href]")
        assert not any(tokens["teach"] in place for place in kept)
        assert not any(tokens["teach"] in url for url in tab.asked)
        assert all("401" in message for message in tab.messages)
        tab.messages.clear()


def test_a_server_that_does_not_answer_is_reported(visit):
    page = visit.to()
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_label("A text").fill("cash")
    page.get_by_role("button", name="Classify").click()
    page.wait_for_selector("text=The server does not answer.")
    page.get_by_role("link", name="Quality").click()
    page.wait_for_selector("text=Try again")
    page.unroute("**/v1/**")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("h1:has-text('Quality')")
    page.goto(f"{visit.address}/#/constructor/%E0%A4%A")
    page.wait_for_selector("h1:has-text('Try')")
    assert all("ERR_FAILED" in message for message in visit.messages)
    visit.messages.clear()


def test_pages_of_other_sites_cannot_teach(visit, server, client):
    before = learned(client)
    visit.page.goto(f"http://localhost:{server.port}/healthz")  # another site than 127.0.0.1
    attempt = """async ([url, kind]) => {
      const body = JSON.stringify({ id: "x", text: "cash", label: "ham" });
      try { await fetch(url, { method: "POST", mode: kind ? "cors" : "no-cors", body, headers: kind }) } catch {}
    }"""
    url = f"{server.url}/v1/models/texts/learn"
    for kind in (None, {"content-type": "application/json"}):
        visit.page.evaluate(attempt, [url, kind])
    assert learned(client) == before
    visit.messages.clear()  # refusals
    visit.asked.clear()


# ---------------------------------------------------------------------- accessibility


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_every_view_is_accessible_and_fits(chromium, server, client, size, scheme):
    client.learn(["cash prize"] * 3, ["spam", "spam", "ham"], id=["a1", "a2", "a3"])
    client.predict("see a prize", id="seen")
    with Visit(chromium, server.url, size, scheme) as tab:
        for model in ("texts", "rows"):
            for view in VIEWS:
                page = tab.to(view, model)
                if view == "try":
                    page.get_by_role("button", name="Classify").click() if model == "rows" else classify(page)
                    page.wait_for_selector(".waterfall")
                    page.get_by_role("button", name=re.compile("^(ham|cat)$")).click()
                    page.get_by_role("button", name="Undo").click()
                    page.wait_for_selector("text=Forgotten")
                for summary in page.locator("main summary").all():
                    summary.click()
                found = Axe().run(page).response["violations"]
                assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == [], (view, model)
                assert page.evaluate("document.documentElement.scrollWidth") == size[0], (view, model)
    for id_ in ("a1", "a2", "a3"):
        client.forget(id_)


def test_the_page_can_be_used_by_keyboard(visit):
    page = visit.to()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = set()
    for _ in range(14):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent || document.activeElement.type"))
    assert {"Try", "Play", "textarea", "Classify", "file"} <= seen
    page.get_by_role("link", name="Quality").press("Enter")
    page.wait_for_selector("h1:has-text('Quality')")
    assert page.evaluate("document.activeElement.tagName") == "H1", "screen readers begin at the new view"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_reader(chromium, server, scheme):
    def brightness(page):
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    with Visit(chromium, server.url, scheme=scheme) as tab:
        page = tab.to()
        assert (brightness(page) > 128) == (scheme == "light")
        other = {"light": "dark", "dark": "light"}[scheme]
        page.get_by_label("Colours").select_option(other)
        page.reload()
        page.wait_for_selector("h1")
        assert (brightness(page) > 128) == (other == "light")
