"""A real browser that looks at the dashboard, and the stage behind it.

The test that started us holds the processes: `stage("kill-daemon")` asks it for something, by a line on standard output, and waits for its answer.
"""

import json
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Whatever is waited for comes much sooner. The machine may be busy with other tests.
WAIT = 20.0
# What a browser says by itself about an answer that is none. The page can't keep it from that.
NETWORK = "Failed to load resource"


def stage(wish):
    """Asks the test for something, and waits until it is done."""
    print(f"stage: {wish}", flush=True)
    answer = sys.stdin.readline().strip()
    assert answer.startswith("done"), f"{wish}: {answer}"
    return answer.removeprefix("done").strip()


def ask(url, method, path, body=None, token=None):
    """One request to the daemon; its answer."""
    request = urllib.request.Request(url + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("content-type", "application/json")
    if token:
        request.add_header("authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read()!r}") from error
    return json.loads(text) if text else None


class Look:
    """The page, and what one sees on it."""

    def __init__(self, page):
        self.page = page
        self.complaints = []
        self.offline = False
        page.on("console", self.said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def said(self, message):
        if message.type in ("error", "warning") and not (NETWORK in message.text and self.offline):
            self.complaints.append(message.text)

    def open(self, address):
        answer = self.page.goto(address)
        self.page.wait_for_selector("p.link.live", timeout=WAIT * 1000)
        return answer

    def keys(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def row(self, view, *texts):
        """A row of a list that is in sight and has all these texts."""
        found = self.page.locator(f"#view-{view} .row")
        for text in texts:
            found = found.filter(has_text=text)
        return found.first

    def shows(self, view, *texts, within=WAIT):
        self.row(view, *texts).wait_for(state="visible", timeout=within * 1000)

    def cell(self, view, name, column):
        return self.row(view, name).locator(f".cell.{column}").inner_text()

    def shot(self, folder, name):
        if folder:
            self.page.screenshot(path=f"{folder}/{name}.png")

    def watch(self, view, column):
        """Writes down, within the page, when each text was first seen in a column."""
        self.page.evaluate(
            """([view, column]) => {
                window.firstSeen = {};
                const look = () => {
                    for (const cell of document.querySelectorAll(`#view-${view} .row .cell.${column}`)) window.firstSeen[cell.textContent] ??= Date.now();
                };
                new MutationObserver(look).observe(document.getElementById(`view-${view}`), { subtree: true, childList: true, characterData: true });
            }""",
            [view, column],
        )

    def first_seen(self, text):
        """When a text was first seen in the column that is watched, in milliseconds since 1970."""
        return self.page.evaluate("(text) => window.firstSeen[text] ?? null", text)

    def nodes(self):
        return self.page.evaluate("document.querySelectorAll('*').length")


@contextmanager
def looking(**options):
    """A page in a browser of its own. At the end, it must not have complained about anything."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=shutil.which("chromium"),
            headless=True,
            args=ARGUMENTS,
            viewport={"width": 1280, "height": 800},
            **options,
        )
        try:
            look = Look(browser.pages[0])
            yield look
            assert not look.complaints, look.complaints
        finally:
            browser.close()


def until(what, check, within=WAIT):
    """Waits until it is so; what was found."""
    end = time.monotonic() + within
    while not (found := check()):
        assert time.monotonic() < end, f"not within {within} s: {what}"
        time.sleep(0.02)
    return found
