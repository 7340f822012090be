"""A studio on a free port of this machine, with tiny models, and a client for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import uvicorn

from musicgen.languages import ExtendedRemi, Groove, Remi
from musicgen.languages.registry import tokenizer_json
from musicgen.model import PerformerConfig, PerformerLM, save_bundle
from musicgen.studio.app import make_app
from musicgen.studio.models import Models
from musicgen.studio.studio import Studio

CONFIG = PerformerConfig(
    vocab_size=361, num_layers=1, num_heads=2, d_model=32, d_ff=64, num_features=16, num_realizations=16, decay="fixed"
)


def save_tiny_models(folder: Path) -> None:
    """Models that know nothing: `tiny` and `tiny-gaps` play the piano, and the latter sees what follows a gap."""
    for name, language in (("tiny", Remi()), ("tiny-gaps", ExtendedRemi()), ("tiny-groove", Groove())):
        torch.manual_seed(0)
        model = PerformerLM(replace(CONFIG, vocab_size=len(language.vocabulary))).eval()
        save_bundle(model, folder / name, files={"tokenizer.json": tokenizer_json(language)})


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Sends requests to a studio."""

    studio: Studio
    port: int
    host: str = "127.0.0.1"

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()})
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.ask("POST", path, {} if body is None else body, headers)

    def write(self, **keys: Any) -> str:
        """Begin a piece, and return its id."""
        answer = self.post("/api/pieces", keys)
        assert answer.status == 201, answer.body
        return str(answer.json["id"])

    def events(self, path: str, headers: dict[str, str] | None = None) -> Iterator[tuple[str, Any]]:
        """The events of a stream, until it ends."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            kind = ""
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)
        finally:
            connection.close()

    def until(self, key: str, status: str) -> None:
        """Wait until a piece has a status."""
        end = time.monotonic() + 120
        while (now := self.get(f"/api/pieces/{key}").json["status"]) != status:
            assert time.monotonic() < end, f"{key} is {now}, not {status}"
            time.sleep(0.05)

    def finished(self, key: str) -> dict[str, Any]:
        """The last event of a piece."""
        *_, (kind, data) = self.events(f"/api/pieces/{key}/events")
        assert kind == "done", data
        return dict(data)


@contextlib.contextmanager
def serving(folder: Path, models: Models, token: str = "") -> Iterator[Client]:
    """A studio that serves until the block ends."""
    studio = Studio(folder, models)
    listening = socket.create_server(("127.0.0.1", 0))
    app = make_app(studio, "127.0.0.1", token)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Client(studio, listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        studio.close()
        listening.close()
