"""`musicgen studio`: opens a page in the browser where music is written, heard and steered."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from musicgen.cli.command import Command
from musicgen.errors import UserError
from musicgen.options import option

ABOUT = """\
usage: musicgen studio [key=value ...]

Opens a page in your browser. There you write music from nothing or from your own MIDI file, hear it while it is
written, fork it into several takes, and save what you like. Nothing leaves this machine. Ctrl-C ends it.

Programs can use it too: docs/api.md has every address.

{keys}

example: musicgen studio port=8000 open=false
"""
GRACE = 2.0
"""Seconds for which Ctrl-C waits for a model that is being loaded."""


@dataclass(frozen=True)
class StudioConfig:
    """The options of `musicgen studio`."""

    port: int = option(8765, least=0, most=65535, help="port of the page; 0 takes any that is free")
    host: str = option("127.0.0.1", help="address of the page; 0.0.0.0 lets other machines in, with a token")
    open: bool = option(True, help="opens the page in the browser")
    model: str = option("pop-small", help="the model that is chosen at first")
    models: Path = option(Path("runs"), help="a folder with training runs or bundles, which are offered too")
    folder: Path = option(Path("~/.musicgen/studio"), help="where takes are kept")


def studio(config: StudioConfig) -> int:
    """Serve the page until Ctrl-C."""
    with _listen(config.host, config.port) as listening:
        return _serve(config, listening)


def _serve(config: StudioConfig, listening: socket.socket) -> int:
    import torch
    import uvicorn

    from musicgen.studio.app import make_app
    from musicgen.studio.models import Models
    from musicgen.studio.safety import is_loopback
    from musicgen.studio.studio import Studio

    torch.set_num_threads(1)  # as `generate` does for small models: a seed gives the same piece
    models = Models(config.models, config.model)
    rooms = Studio(config.folder, models)
    for problem in rooms.problems:
        print(f"musicgen: {problem}", file=sys.stderr)
    token = "" if is_loopback(config.host) else secrets.token_urlsafe(16)
    address = _address(config.host, listening.getsockname()[1], token)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(rooms, config.host, token), log_level="warning", access_log=False, timeout_graceful_shutdown=1
        )
    )
    loading = threading.Thread(target=models.get, args=(None,), daemon=True)  # ready when the page is
    loading.start()
    print(f"studio: {address} (Ctrl-C ends it)", flush=True)
    if config.open:
        webbrowser.open(address)
    try:
        server.run([listening])
    except KeyboardInterrupt:  # the usual end
        pass
    finally:
        rooms.close()
        loading.join(GRACE)
    if loading.is_alive():  # inside a library, which would abort if Python ended around it; all our files are closed
        os._exit(0)
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise UserError(
            f"host={host} port={port}: cannot be used ({reason}); is a studio open already? Try port=0"
        ) from None


def _address(host: str, port: int, token: str) -> str:
    if host in ("0.0.0.0", "::"):  # noqa: S104  (the user's choice)
        host = _own_address(":" in host)
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/{f'?token={token}' if token else ''}"


def _own_address(is_six: bool) -> str:
    """The address at which other machines find this one. Its name may stand for an address of this machine only."""
    family, elsewhere, here = (
        (socket.AF_INET6, "2001:db8::1", "::1") if is_six else (socket.AF_INET, "192.0.2.1", "127.0.0.1")
    )
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((elsewhere, 9))  # sends nothing, and chooses the way out
        return str(asking.getsockname()[0])
    return here


run = Command("studio", ABOUT, StudioConfig, studio)
