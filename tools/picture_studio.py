"""Takes the picture of the studio for the README, with a piece of the built-in model, in a real browser.

python tools/picture_studio.py [FILE.png [WIDTH [light or dark]]]

It needs chromium and the package playwright.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
import uvicorn
from playwright.sync_api import sync_playwright

from musicgen.studio.app import make_app
from musicgen.studio.models import Models
from musicgen.studio.studio import Studio

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
SEED, BARS, KEY = "2", "16", "Am"


def take_picture(path: Path, width: int, scheme: Any) -> None:
    """Write a piece, fork it, and photograph the page."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        studio = Studio(Path(folder), Models())
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(make_app(studio), log_level="warning", timeout_graceful_shutdown=1))
        threading.Thread(target=server.run, args=([listening],), daemon=True).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": width, "height": 860 if width > 600 else 844}, color_scheme=scheme)
        while not server.started:
            time.sleep(0.1)
        page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}")
        page.wait_for_selector("body[data-ready]")
        page.evaluate("document.querySelector('form details').open = true")
        for field, value in (("#option-seed", SEED), ("#length", BARS), ("#option-key", KEY)):
            page.fill(field, value)
        page.evaluate("document.querySelector('form details').open = false")
        page.click("#go")
        _wait(page, "studio.current && !studio.current.song.isGrowing")
        for bar, takes in ((8, 2), (4, 1)):
            studio.fork(page.evaluate("studio.current.id"), {"bar": bar, "takes": takes})
        _wait(page, "[...studio.tree.takes.values()].every(take => take.status === 'done')")
        page.evaluate("studio.player.pause(); studio.player.seek(studio.current.song.line(1) + 960)")
        page.evaluate("studio.roll.box.scrollLeft = 0; studio.roll.zoom(0.72); studio.roll.box.scrollLeft = 0")
        page.evaluate("document.activeElement.blur()")
        time.sleep(0.5)
        page.screenshot(path=str(path))
        browser.close()
        server.should_exit = True
        studio.close()


def _wait(page: Any, script: str) -> None:
    while not page.evaluate(f"Boolean({script})"):
        time.sleep(0.1)


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *["docs/studio.png", "1400", "light"][len(sys.argv) - 1 :]]
    take_picture(Path(arguments[0]), int(arguments[1]), arguments[2])
