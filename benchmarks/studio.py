"""The studio under load: the time to the first bar, bars against real time, and memory, with 1, 4 and 8 listeners.

python benchmarks/studio.py               # about 5 minutes; it needs chromium

A listener asks for a piece of the built-in model by HTTP and follows its events, as the page does. Real time is that of
music at 120 beats per minute in 4/4: two seconds a bar. All listeners share one thread. In the browser, the time runs
from the click on Write to the moment when the player schedules the first note. The long piece is by a tiny model that
knows nothing, so that it is the studio and the page that are measured.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Measurement, Row, main, measure
from musicgen.languages import Remi
from musicgen.languages.registry import tokenizer_json
from musicgen.model import PerformerConfig, PerformerLM, save_bundle
from musicgen.studio.app import make_app
from musicgen.studio.models import Models
from musicgen.studio.studio import Studio

LISTENERS = {1: 2.0, 4: 1.0, 8: 0.5}  # how many, and how many times real time each is to be served
BARS, RADIO_BARS = 12, 250
EARLY, LATE = 100, 1000  # bars of a long piece between which memory may not grow much
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--js-flags=--expose-gc"]
FIRST_NOTE = """() => new Promise(resolve => {
  const player = studio.player, note = player.note.bind(player);
  document.getElementById("go").click();
  const click = performance.now();
  player.note = (...values) => { player.note = note; note(...values); resolve((performance.now() - click) / 1000); };
})"""
SECONDS_A_BAR = 2.0


def resident() -> float:
    """The memory of this process, in MB."""
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def listen(port: int, body: dict[str, object], times: list[float]) -> None:
    """Ask for a piece, and note when each of its bars arrives."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    start = time.perf_counter()
    connection.request("POST", "/api/pieces", json.dumps(body))
    key = json.load(connection.getresponse())["id"]
    connection.request("GET", f"/api/pieces/{key}/events")
    events = connection.getresponse()
    times.extend(time.perf_counter() - start for line in events if line.startswith(b"event: bar"))
    connection.close()


@contextlib.contextmanager
def serving(models: Models) -> Iterator[int]:
    """A studio that serves until the block ends; gives its port."""
    with tempfile.TemporaryDirectory() as folder:
        studio = Studio(Path(folder), models)
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(make_app(studio), log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()
        studio.close()


@contextlib.contextmanager
def browsing(port: int) -> Iterator[Any]:
    """The page of a studio in chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}")
        page.wait_for_selector("body[data-ready]")
        page.evaluate("studio.player.prepare()")  # the soundfont is there when someone has looked at the page
        yield page
        browser.close()


def serve(bodies: list[dict[str, object]]) -> tuple[list[list[float]], float]:
    """When bars arrive at each of several listeners, and how much memory all of them took, in MB."""
    with serving(Models()) as port:
        listen(port, {"bars": 2}, [])  # loads the model
        before, heard = resident(), [list[float]() for _ in bodies]
        threads = [
            threading.Thread(target=listen, args=(port, body, times)) for body, times in zip(bodies, heard, strict=True)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        used = resident() - before
    return heard, used


def first_note() -> dict[str, float]:
    """Seconds from the click on Write to the first note that is scheduled, and the studio's processor seconds."""
    with serving(Models()) as port:
        listen(port, {"bars": 1}, [])  # loads the model, as the command does while the browser opens the page
        with browsing(port) as page:
            times, work = [], []
            for _ in range(3):
                before = time.process_time()
                times.append(float(page.evaluate(FIRST_NOTE)))
                work.append(time.process_time() - before)
                page.click("#stop")
                page.click("#play")
    return {"seconds": min(times), "processor": min(work)}


def long_piece() -> dict[str, float]:
    """How much the memory of the studio and that of the page grow in a piece of a thousand bars, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        config = PerformerConfig(
            len(Remi().vocabulary), num_layers=1, num_heads=2, d_model=32, d_ff=64, num_features=16
        )
        save_bundle(PerformerLM(config), Path(folder, "tiny"), files={"tokenizer.json": tokenizer_json(Remi())})
        with serving(Models(Path(folder), "tiny")) as port, browsing(port) as page:
            page.fill("#length", str(LATE))
            page.click("#go")
            at = {}
            for bars in (EARLY, LATE):
                while page.evaluate("studio.current?.song.bars.length ?? 0") < bars:
                    time.sleep(0.1)
                heap = page.evaluate("(gc(), performance.memory.usedJSHeapSize)") / 2**20
                at[bars] = resident(), heap
    (early, small), (late, large) = at[EARLY], at[LATE]
    return {"studio": late - early, "page": large - small}


def load(listeners: int) -> dict[str, float]:
    """The slowest first bar, the mean speed of a listener against real time, and memory for each in MB."""
    heard, used = serve([{"bars": BARS, "seed": seed} for seed in range(listeners)])
    speeds = [SECONDS_A_BAR * len(times) / times[-1] for times in heard]
    first = max(times[0] for times in heard)
    return {"first": first, "speed": sum(speeds) / listeners, "memory": used / listeners}


def radio() -> dict[str, float]:
    """Memory that a long piece takes, in MB."""
    heard, used = serve([{"bars": RADIO_BARS, "seed": 1}])
    return {"memory": used, "bars": len(heard[0])}


def benchmark(threads: int) -> list[Row]:
    """All rows."""
    del threads  # the studio has one
    rows = []
    for listeners, least in LISTENERS.items():
        turns = [measure(__file__, "load", listeners=listeners, threads=1) for _ in range(2)]
        best = max(turns, key=lambda turn: turn["speed"])
        first, speed = min(turn["first"] for turn in turns), best["speed"]
        who = f"{listeners} listener{'s' if listeners > 1 else ''}"
        rows.append(Row(f"{who}: times real time", speed, "x", f">= {least}", speed >= least))
        limit = 1.0 if listeners == 1 else 4.0
        rows.append(Row("  seconds to the first bar, of the slowest", first, "s", f"<= {limit}", first <= limit))
        rows.append(Row("  memory for each", best["memory"], "MB", "<= 20", best["memory"] <= 20))
    long = measure(__file__, "radio", threads=1)["memory"]
    rows.append(Row(f"memory of {RADIO_BARS} bars without end", long, "MB", "<= 80", long <= 80))
    turns = [measure(__file__, "first_note", threads=1) for _ in range(2)]
    note, work = (min(turn[key] for turn in turns) for key in ("seconds", "processor"))
    rows.append(Row("in the browser: seconds from the click to the first note", note, "s", "<= 1", note <= 1))
    rows.append(Row("  seconds of the processor that the studio takes for it", work, "s", "<= 0.5", work <= 0.5))
    grown = measure(__file__, "long_piece", threads=1)
    what = f"memory that grows from bar {EARLY} to bar {LATE:,}"
    rows.append(Row(f"{what}: of the studio", grown["studio"], "MB", "<= 20", grown["studio"] <= 20))
    rows.append(Row("  of the page", grown["page"], "MB", "<= 20", grown["page"] <= 20))
    return rows


if __name__ == "__main__":
    measurements: dict[str, Measurement] = {
        "load": load,
        "radio": radio,
        "first_note": first_note,
        "long_piece": long_piece,
    }
    main(__file__, measurements, benchmark, "The studio under load")
