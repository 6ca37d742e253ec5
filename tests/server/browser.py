"""A browser for the page's tests: Chromium from Debian, driven by Playwright (`make browser` installs both)."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager

from playwright.sync_api import expect, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
OPTIONS = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
DESKTOP, PHONE = (1280, 900), (390, 844)
TIMEOUT = 20_000  # ms, for machines that are busy


@contextmanager
def browser():
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield running
        finally:
            running.close()


class Visit:
    """A tab on the page. At its end there must be no messages in the console, and no requests to other hosts."""

    def __init__(self, running, address, size=DESKTOP, scheme="light"):
        self.address = address
        self.context = running.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        self.messages, self.asked = [], set()
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.asked.add(request.url))
        self.page.set_default_timeout(TIMEOUT)

    def to(self, view="try", model="texts"):
        """Open a view, and wait until it has loaded everything."""
        self.page.goto("about:blank")  # otherwise the heading of the view before would do
        self.page.goto(f"{self.address}/#/{view}/{model}")
        self.page.wait_for_selector("h1")
        expect(self.page.locator("main")).not_to_contain_text(re.compile("Loading|Computing"))
        return self.page

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        self.context.close()
        if kind is None:
            assert self.messages == []
            assert {url for url in self.asked if not url.startswith((f"{self.address}/", "blob:"))} == set()
