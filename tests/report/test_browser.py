"""The page in a real browser: it is rendered, without console messages or network requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

BROWSER = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
BROWSER_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # the browser itself would contact its vendor
]
SIZES = {"desk": (1200, 1600), "phone": (390, 1600)}
LIGHT, DARK = 1, 0  # Blink's names of what a reader prefers
BROWSER_INITIATOR = "not an origin"  # initiators that are the browser and not the page

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here; CHROMIUM says where one is")


def run(folder: Path, written: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The browser on a page, with a profile of its own that goes with the test."""
    path = folder / "page.html"
    path.write_text(written, encoding="utf-8")
    command = [str(BROWSER), *BROWSER_OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def screenshot(folder: Path, written: str, size: tuple[int, int], scheme: int = LIGHT) -> np.ndarray:
    """A screenshot as (height, width, 3) bytes."""
    image = pytest.importorskip("PIL.Image", reason="Pillow, which matplotlib needs too, reads the screenshot")
    shot = folder / "shot.png"
    wanted = f"--blink-settings=preferredColorScheme={scheme}"
    run(folder, written, f"--screenshot={shot}", f"--window-size={size[0]},{size[1]}", wanted)
    return np.asarray(image.open(shot).convert("RGB"))


def console_urls_and_dom(folder: Path, written: str) -> tuple[list[str], set[str], str]:
    """Console messages of a page, the URLs it requests, and the rendered DOM."""
    log = folder / "network.json"
    finished = run(folder, written, "--enable-logging=stderr", "--v=0", f"--log-net-log={log}", "--dump-dom")
    events = json.loads(log.read_text(encoding="utf-8"))["events"]
    asked = [event["params"] for event in events if "initiator" in event.get("params", {})]
    urls = {params["url"] for params in asked if params["initiator"] != BROWSER_INITIATOR}
    return [line for line in finished.stderr.splitlines() if "CONSOLE" in line], urls, finished.stdout


def colours(pixels: np.ndarray) -> int:
    return len(np.unique(pixels.astype(int) @ [65_536, 256, 1]))


@pytest.mark.parametrize("where", ["desk", pytest.param("phone", marks=pytest.mark.slow)])
def test_it_is_drawn(table_page, tmp_path, where):
    seen = screenshot(tmp_path, table_page, SIZES[where])
    assert seen.shape == (*SIZES[where][::-1], 3)
    assert colours(seen) > 50, "letters, lines and bars, with soft edges"
    ink = (seen.astype(int).sum(axis=2) < 300).mean()
    assert 0.01 < ink < 0.3, "dark letters on light paper"
    assert colours(seen[:, -8:]) == 1, "a margin: nothing runs off the page"


def test_it_is_dark_where_that_is_preferred(table_page, tmp_path):
    light, dark = (screenshot(tmp_path, table_page, (800, 700), scheme) for scheme in (LIGHT, DARK))
    assert light[2, 2].min() > 240
    assert dark[2, 2].max() < 40
    assert (dark.astype(int).sum(axis=2) > 600).mean() > 0.005, "light letters"


@pytest.mark.parametrize("where", [pytest.param("desk", marks=pytest.mark.slow), "phone"])  # where room is short
def test_bad_names_do_not_break_the_page(hostile_page, tmp_path, where):
    seen = screenshot(tmp_path, hostile_page, SIZES[where])
    assert colours(seen[:, -8:]) == 1, "a word of 3,000 letters is cut and folded"


@pytest.mark.parametrize(
    "which",
    [
        "plane_page",
        "hostile_page",
        *(pytest.param(page, marks=pytest.mark.slow) for page in ("table_page", "text_page")),
    ],
)
def test_no_console_messages_and_no_requests(which, request, tmp_path):
    written = request.getfixturevalue(which)
    console, asked, made = console_urls_and_dom(tmp_path, written)
    assert console == []
    assert {url for url in asked if not url.startswith(("file:", "data:"))} == set()
    assert made.count("<section") == written.count("<section") >= 12
    assert not re.search(r"<script|<img", made), "what is text stays text"


def test_the_browser_reports_requests(table_page, tmp_path):
    """The check works: an external picture is detected, and our policy reports that it is blocked."""
    elsewhere = '<img src="http://report.invalid/x.png">'
    _, asked, _ = console_urls_and_dom(tmp_path, f"<!doctype html><p>x</p>{elsewhere}")
    assert "http://report.invalid/x.png" in asked
    console, asked, _ = console_urls_and_dom(tmp_path, table_page.replace("<main>", f"<main>{elsewhere}"))
    assert any("violates the following Content Security Policy" in line for line in console)
    assert not any("report.invalid" in url for url in asked)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["desk", "phone"])
def test_its_length_is_frozen(table_page, tmp_path, where):
    """Nothing new without something shorter: raise no figure here without a reason."""
    width, most = {"desk": (1200, 7500), "phone": (500, 11_500)}[where]  # a window cannot be narrower than 500
    seen = screenshot(tmp_path, table_page, (width, 14_000)).astype(int)
    rows = np.flatnonzero((np.abs(seen - seen[0, 0]).sum(axis=2) > 60).any(axis=1))
    assert rows[-1] < most
