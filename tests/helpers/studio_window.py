"""A page of the studio in a browser, and what a musician does there."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlparse

from studio_server import Client


class Window:
    """A page of the studio, and what went wrong in it."""

    def __init__(self, browser: Any, client: Client) -> None:
        self.client, self.problems, self.foreign = client, list[str](), list[str]()
        self.page = browser.new_page()
        self.page.set_viewport_size({"width": 1400, "height": 900})
        self.page.set_default_timeout(120_000)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda line: self.problems.append(line.text) if line.type == "error" else None)
        self.page.on("request", lambda request: self._note(request.url))
        self.open()

    def _note(self, address: str) -> None:
        if urlparse(address).hostname != "127.0.0.1" and not address.startswith(("data:", "blob:")):
            self.foreign.append(address)

    def open(self) -> None:
        self.page.goto(self.client.address)
        self.page.wait_for_selector("body[data-ready]")

    def until(self, script: str, seconds: float = 120) -> None:
        """Wait until something holds. The policy of the page forbids the browser's own way."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(f"() => Boolean({script})"):
            assert time.monotonic() < end, f"{script}; {self.problems}; {self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        """What the page says."""
        return " ".join(self.page.locator("#status, .error").all_inner_texts()).strip()

    def write(self, bars: int = 2, **settings: str) -> str:
        """Write a piece and wait for its end. Returns its id."""
        self.page.evaluate("document.querySelectorAll('form details').forEach(more => { more.open = true; })")
        self.page.fill("#length", str(bars))
        for key in ("key", "chords", "tempo", "temperature", "seed"):
            self.page.fill(f"#option-{key}", settings.get(key, ""))
        before = self.page.evaluate("studio.current?.id ?? ''")
        self.page.click("#go")
        self.until(f"studio.current && studio.current.id !== '{before}' && !studio.current.song.isGrowing")
        return str(self.page.evaluate("studio.current.id"))

    def names(self) -> list[str]:
        self.until("!studio.tree.frame")  # it is drawn
        return list(self.page.locator("#tree .name span").all_inner_texts())
