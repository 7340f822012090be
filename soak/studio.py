"""Attacks on the studio: random requests over HTTP, and kills while it writes.

python -m soak.studio requests=10000 seed=0    # all to one studio, with its memory on the way
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from soak.cases import Fault, fork, stop_group, warm_up
from soak.damage import HOSTILE, damage_bytes, damage_json, damage_midi
from soak.inputs import midi_sources
from soak.requests import GOOD, LENGTHS
from soak.world import build

BATCH = 40
KEPT = 50
"""Takes that a long attack leaves undeleted."""


@contextlib.contextmanager
def _serving(folder: Path, world: Path) -> Iterator[int]:
    """A studio with the models of the world; gives its port."""
    import uvicorn

    from musicgen.studio.app import make_app
    from musicgen.studio.models import Models
    from musicgen.studio.studio import Studio

    studio = Studio(folder, Models(world, "pop_bundle"))
    if studio.problems:
        raise Fault(f"the studio cannot read its own takes: {studio.problems}")
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(studio), log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        studio.close()


def _ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """The status of an answer, and its first bytes: a stream of events may have no end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read1(1 << 20)
    finally:
        connection.close()


def _piece(chance: Random) -> dict[str, Any]:
    length = chance.choice(list(LENGTHS))
    wishes: dict[str, Any] = {
        length: chance.choice(LENGTHS[length]),
        "model": chance.choice(("pop_bundle", "groove_bundle")),
    }
    for name in chance.sample(list(GOOD), chance.choice((0, 1, 2))):
        wishes[name] = chance.choice(GOOD[name])
    if chance.random() < 0.4:
        name = chance.choice([name for name in (*GOOD, "model", "prompt", "n", "x", "fill") if name != "variations"])
        wishes[name] = chance.choice(HOSTILE)
    return wishes


def _change(chance: Random) -> dict[str, Any]:
    """What forks, fills and changes take."""
    good = {"bar": 1, "takes": 2, "first": 1, "last": 1, "until": 2, "name": "x", "kept": True, "temperature": 0.9}
    wishes = {name: good[name] for name in chance.sample(list(good), chance.choice((0, 1, 2)))}
    if chance.random() < 0.4:
        wishes[chance.choice(list(good))] = chance.choice(HOSTILE)
    return wishes


def _body(chance: Random, world: Path) -> bytes:
    """The body of a request: a wish, JSON that is damaged, a MIDI file, or noise."""
    text = json.dumps(chance.choice((_piece, _change))(chance))
    match chance.randrange(8):
        case 0:
            return damage_json(text, chance)
        case 1:
            return damage_bytes(text.encode(), chance)
        case 2:
            return damage_midi(chance.choice(midi_sources(world)), chance)
        case 3:
            return chance.choice(midi_sources(world))
        case _:
            return text.encode()


def _path(chance: Random, keys: list[str]) -> tuple[str, str]:
    """A method and an address; most of them fit each other."""
    key = chance.choice(keys if keys and chance.random() < 0.8 else ["x", "..%2f..%2fx", "0" * 300, "%00", "%ff"])
    fitting = (
        "POST /api/pieces", "POST /api/pieces", "POST /api/pieces/{}/forks", "POST /api/pieces/{}/fills",
        "PATCH /api/pieces/{}", "POST /api/pieces/{}/stop", "DELETE /api/pieces/{}", "POST /api/pieces/{}/restore",
        "GET /api/pieces/{}", "GET /api/pieces/{}.mid", "GET /api/pieces/{}.json", "GET /api/pieces/{}.zip",
        "GET /api/pieces/{}.mid?track=9", "GET /api/pieces/{}/events", "GET /api/session?piece={}", "GET /api/session",
        "POST /api/session", "POST /api/prompts", "GET /api/prompts/{}", "GET /", "GET /page/{}", "GET /api",
        "GET /api/options", "GET /api/models", "GET /api/pieces", "GET /{}", "GET //", "GET /page/..%2fapp.py",
    )  # fmt: skip
    method, place = chance.choice(fitting).split()
    if chance.random() < 0.2:
        method = chance.choice(("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD"))
    return method, place.format(key)


def requests(chance: Random, world: Path, place: Path) -> int:
    """Whatever is asked, the studio answers with what was asked for or with a sentence, and goes on."""
    with _serving(place / "out", world) as port:
        keys: list[str] = []
        for _ in range(BATCH):
            _one(chance, world, port, keys)
        if _ask(port, "GET", "/api/models")[0] != 200:
            raise Fault("the studio does not answer any more")
    return BATCH


def _one(chance: Random, world: Path, port: int, keys: list[str]) -> int:
    """One random request. Returns the status of its answer, and notes the id of what was made."""
    method, path = _path(chance, keys)
    body = _body(chance, world) if method in ("POST", "PATCH", "PUT") else b""
    status, answer = _ask(port, method, path, body)
    if status >= 500:
        raise Fault(f"{method} {path} {body[:300]!r}: {status} {answer[:300]!r}")
    if status == 201:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            keys.append(json.loads(answer)["id"])
    return status


def kill(chance: Random, world: Path, place: Path) -> int:
    """A studio that is killed while it writes can read all its takes when it starts again."""
    folder, told = place / "out", place / "told"
    told.mkdir()
    wishes = [_piece(chance) for _ in range(6)]

    def work() -> None:
        with _serving(folder, world) as port:
            (told / "begun").touch()
            while True:
                for wish in wishes:
                    _ask(port, "POST", "/api/pieces", json.dumps(wish).encode())

    process, reading = fork(work)
    end = time.monotonic() + 60
    while not (told / "begun").exists() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(chance.random() * 0.7)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(reading)
    stop_group(process)
    with _serving(folder, world) as port:  # raises if a take cannot be read
        status, answer = _ask(port, "GET", "/api/pieces")
        if status != 200:
            raise Fault(f"the takes of a killed studio: {status} {answer[:300]!r}")
    return 1


class _Complaints(logging.Handler):
    """What is logged as an error: exceptions that are no sentence for a client."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record)[-1500:])


def many(count: int, seed: int) -> None:
    """Send random requests to one studio, and print what it answered and how much memory it has.

    Raises:
        Fault: It did not answer, answered with a mistake of its own, or logged one.
    """
    chance, statuses, complaints, keys = Random(f"{seed}/studio"), Counter[int](), _Complaints(), list[str]()
    logging.getLogger().addHandler(complaints)
    warm_up()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak.") as root:
        world = Path(root, "world")
        build(world, with_run=False)
        with _serving(Path(root, "takes"), world) as port:
            for number in range(1, count + 1):
                statuses[_one(chance, world, port, keys)] += 1
                if len(keys) > KEPT:  # as a musician who clears up
                    _ask(port, "DELETE", f"/api/pieces/{keys.pop(0)}")
                if number % max(count // 10, 1) == 0:
                    print(f"{number:,} requests: {_resident():.0f} MB", flush=True)
    answers = ", ".join(f"{number:,} with {status}" for status, number in sorted(statuses.items()))
    print(f"{count:,} requests in {(time.monotonic() - began) / 60:.0f} minutes (seed {seed}): {answers}")
    if complaints.lines:
        raise Fault("the studio logged mistakes of its own:\n" + "\n".join(complaints.lines))


def _resident() -> float:
    """The memory of this process, in MB."""
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


if __name__ == "__main__":
    asked = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    many(int(asked.get("requests", "10000")), int(asked.get("seed", "0")))
