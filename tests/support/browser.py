"""A real browser, and a real `memgrow serve` for it to look at."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
SIZES = {"desktop": (1280, 900), "phone": (375, 740)}  # pixels
COMMAND = [sys.executable, "-c", "import memgrow.cli; memgrow.cli.main()"]
MOMENT = 15_000  # milliseconds for what takes a request
REFUSED = re.compile("Failed to load resource: the server responded with a status of 4")  # the browser's own words
PATIENCE_S = 120  # for a server to answer: it imports torch, and may be alone on a busy core


def browser_program() -> str:
    """The browser of this machine; the test is skipped where there is none."""
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("the page was not tried in a browser: there is none here (on Debian: chromium-headless-shell)")
    return program


@contextmanager
def open_browser() -> Iterator[Any]:
    """The browser of this machine; the test is skipped where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        pytest.skip("the page was not tried in a browser: playwright is not installed (`make test-extras` installs it)")
    program = browser_program()
    with sync_playwright() as started:
        # Whoever is root has no sandbox; the pages are our own.
        options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=program, args=options)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(model: Path, *options: str) -> Iterator[str]:
    """The address of a `memgrow serve` that lasts as long as the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (model.parent / f"{model.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*COMMAND, "serve", str(model), "--port", str(port), *options], stdout=log, stderr=log, env=environment
        )
    address = f"http://127.0.0.1:{port}/"
    try:
        _wait(process, address, Path(log.name))
        yield address
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            with urlopen(f"{address}health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"no answer within {PATIENCE_S} s: {log.read_text()}")


class Page:
    """A tab, and what went wrong in it."""

    def __init__(self, browser: Any, address: str, size: str = "desktop", scheme: str = "light") -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.context.set_default_timeout(MOMENT)
        self.tab = self.context.new_page()
        self.errors: list[str] = []
        self.tab.on("console", self._told)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("requestfailed", lambda request: self.errors.append(f"{request.url} failed"))
        self.tab.goto(address)
        self.tab.wait_for_selector("#inputs textarea")

    def _told(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location['url']})")

    def find(self, selector: str) -> Any:
        return self.tab.locator(selector)

    def text(self, selector: str) -> str:
        return str(self.find(selector).first.inner_text())

    def wait(self, selector: str, text: str = "", patience: int = MOMENT) -> Any:
        """The first such element that shows the text."""
        found = self.find(selector).filter(has_text=text).first
        found.wait_for(state="visible", timeout=patience)
        return found

    def boxes(self, selector: str) -> list[dict[str, Any]]:
        """Where such elements stand in the window, each with its text."""
        script = "all => all.map(one => ({text: one.textContent, ...one.getBoundingClientRect().toJSON()}))"
        found: list[dict[str, Any]] = self.find(selector).evaluate_all(script)
        return found

    def ask(self, *texts: str) -> None:
        """Fill in the fields and press Enter."""
        fields = self.find("#inputs textarea")
        for place, text in enumerate(texts):
            fields.nth(place).fill(text)
        fields.last.press("Enter")

    def choose(self, name: str, content: bytes, domain: str = "", publish: bool = False) -> None:
        self.find("#file").set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
        self.find("#domain").fill(domain)
        self.find(f"input[name=publish][value={str(publish).lower()}]").check()
        self.find("#upload").click()

    def check(self, refused: bool = False) -> None:
        """Nothing is wider than the window, and nothing went wrong but requests that were to be refused."""
        wide, window = self.tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window
        assert [error for error in self.errors if not (refused and REFUSED.match(error))] == []


Look = Callable[..., Page]
