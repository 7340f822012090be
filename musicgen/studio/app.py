"""The web application: every address of the studio, and how errors become sentences."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import mimetypes
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from musicgen import __version__
from musicgen.errors import UserError
from musicgen.midi.read import MAX_BYTES
from musicgen.midi.sound import default_soundfont, render_wav
from musicgen.midi.write import midi_bytes
from musicgen.studio.keys import describe
from musicgen.studio.openapi import DESCRIPTION
from musicgen.studio.prompts import preview, reading_of
from musicgen.studio.safety import Guard
from musicgen.studio.store import read_json, session_json
from musicgen.studio.streams import Broadcast, stream
from musicgen.studio.studio import Studio
from musicgen.studio.take import Take

PAGE = Path(__file__).parent / "page"
MOST_BODY, MOST_SESSION, MOST_AT_ONCE = 1 << 16, 64 << 20, 500
TEXT = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def make_app(studio: Studio, host: str = "127.0.0.1", token: str = "") -> Guard:
    """The application, guarded.

    Args:
        studio: What it serves.
        host: The address that it is bound to.
        token: What clients must know; empty for none.
    """
    site = _Site(studio)
    routes = [
        Route("/", site.page),
        Route("/page/{name}", site.page),
        Route("/soundfont.sf2", site.soundfont),
        Route("/api", site.description),
        Route("/api/options", site.options),
        Route("/api/models", site.models),
        Route("/api/events", site.events),
        Route("/api/prompts", site.upload, methods=["POST"]),
        Route("/api/prompts/{id}", site.prompt),
        Route("/api/session", site.session),
        Route("/api/session", site.open_session, methods=["POST"]),
        Route("/api/pieces", site.pieces),
        Route("/api/pieces", site.write, methods=["POST"]),
        Route("/api/pieces/{id}/events", site.piece_events),
        Route("/api/pieces/{id}/bars", site.bars),
        Route("/api/pieces/{id}/forks", site.fork, methods=["POST"]),
        Route("/api/pieces/{id}/fills", site.fill, methods=["POST"]),
        Route("/api/pieces/{id}/stop", site.stop, methods=["POST"]),
        Route("/api/pieces/{id}/restore", site.restore, methods=["POST"]),
        Route("/api/pieces/{id}.{kind:str}", site.file),
        Route("/api/pieces/{id}", site.piece),
        Route("/api/pieces/{id}", site.change, methods=["PATCH"]),
        Route("/api/pieces/{id}", site.delete, methods=["DELETE"]),
    ]
    handlers: Any = {UserError: _sentence, HTTPException: _refused, ClientDisconnect: _gone, Exception: _failure}
    return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=site.lifespan), host, token)


async def _sentence(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error).encode("utf-8", "replace").decode()}, 400)


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    sentence = {404: "there is nothing at this address; see /api", 405: "this address does not take this method"}
    return JSONResponse({"error": sentence.get(error.status_code, error.detail)}, error.status_code)


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=400)


async def _failure(_: Request, __: Exception) -> Response:
    return JSONResponse({"error": "a mistake of the studio's; the terminal says which"}, 500)


async def _run(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do something that takes time without holding up other requests."""
    return await anyio.to_thread.run_sync(functools.partial(work, *arguments))


class _Site:
    """The handlers of the addresses."""

    def __init__(self, studio: Studio) -> None:
        self._studio, self._broadcast = studio, Broadcast(studio)
        self._sounds = anyio.CapacityLimiter(1)  # rendering takes a core

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._broadcast.open()
        yield
        self._broadcast.close()

    # The page

    async def page(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        path = PAGE / name
        if path not in PAGE.iterdir():  # asks the disk nothing about a name that a stranger chose
            raise HTTPException(404)
        kind = TEXT.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(path.read_bytes(), media_type=kind, headers={"Cache-Control": "no-cache"})

    async def soundfont(self, _: Request) -> Response:
        headers = {"Cache-Control": "private, max-age=86400"}
        return FileResponse(default_soundfont(), media_type="application/octet-stream", headers=headers)

    # What there is

    async def description(self, _: Request) -> Response:
        return JSONResponse(DESCRIPTION | {"info": DESCRIPTION["info"] | {"version": __version__}})

    async def options(self, _: Request) -> Response:
        return JSONResponse(describe())

    async def models(self, _: Request) -> Response:
        return JSONResponse(self._studio.models.listed())

    async def pieces(self, _: Request) -> Response:
        return JSONResponse([take.summary() for take in self._studio.listed()])

    async def piece(self, request: Request) -> Response:
        return JSONResponse(self._take(request).summary())

    async def events(self, request: Request) -> Response:
        return stream(self._broadcast.takes(request.query_params.get("window", "")[:40]))

    async def piece_events(self, request: Request) -> Response:
        take, first = self._take(request), _first(request)
        await _run(take.bars)
        return stream(self._broadcast.bars(take, first))

    async def bars(self, request: Request) -> Response:
        take, first = self._studio.take(request.path_params["id"]), _first(request)  # it may be in the bin by now
        is_busy, bars = take.is_busy, await _run(take.bars)
        known = ",".join(bars[first : first + MOST_AT_ONCE])
        is_last = not is_busy and first + MOST_AT_ONCE >= len(bars)
        if is_last:
            take.forget_bars()
        return Response(f'{{"bars":[{known}],"is_last":{json.dumps(is_last)}}}', media_type="application/json")

    # Writing

    async def write(self, request: Request) -> Response:
        takes = await _run(self._studio.write, await _json(request), _window(request))
        return JSONResponse({"id": takes[0].id, "ids": [take.id for take in takes]}, 201)

    async def fork(self, request: Request) -> Response:
        key = self._take(request).id
        takes = await _run(self._studio.fork, key, await _json(request), _window(request))
        return JSONResponse({"id": takes[0].id, "ids": [take.id for take in takes]}, 201)

    async def fill(self, request: Request) -> Response:
        key = self._take(request).id
        takes = await _run(self._studio.fill, key, await _json(request), _window(request))
        return JSONResponse({"id": takes[0].id, "ids": [take.id for take in takes]}, 201)

    async def change(self, request: Request) -> Response:
        take = await _run(self._studio.change, self._take(request).id, await _json(request))
        return JSONResponse(take.summary())

    async def stop(self, request: Request) -> Response:
        take = await _run(self._studio.stop, self._take(request).id)
        return JSONResponse(take.summary())

    async def delete(self, request: Request) -> Response:
        await _run(self._studio.delete, self._take(request).id)
        return JSONResponse({})

    async def restore(self, request: Request) -> Response:
        take = await _run(self._studio.restore, request.path_params["id"])
        return JSONResponse(take.summary())

    # Files

    async def upload(self, request: Request) -> Response:
        data = await _body(request, MAX_BYTES)
        name = Path(request.query_params.get("name", "the file")[:200]).name
        name = name if name.isprintable() and name else "the file"
        key = await _run(self._studio.prompts.add, data, name)
        return JSONResponse({"id": key, **await self._preview(request, key)}, 201)

    async def prompt(self, request: Request) -> Response:
        return JSONResponse(await self._preview(request, request.path_params["id"]))

    async def _preview(self, request: Request, key: str) -> dict[str, Any]:
        bars, reading = request.query_params.get("bars", ""), reading_of(request.query_params)
        if bars and not (bars.isdecimal() and len(bars) < 9):
            raise UserError(f"bars={bars[:40]}: takes a whole number (1 or more)")
        model = await _run(self._studio.models.get, request.query_params.get("model"))
        upload = self._studio.prompts.get(key)
        shown: dict[str, Any] = await _run(preview, upload, model.language, int(bars) if bars else None, reading)
        return shown

    async def file(self, request: Request) -> Response:
        kinds: dict[str, Callable[[Take, Request], Awaitable[Response]]] = {
            "mid": self._midi, "wav": self._wav, "json": self._record, "zip": self._zip,
        }  # fmt: skip
        if request.path_params["kind"] not in kinds:
            raise HTTPException(404)
        return await kinds[request.path_params["kind"]](self._take(request), request)

    async def _midi(self, take: Take, request: Request) -> Response:
        data = await _run(midi_of, take, _track(take, request))
        return _download(data, "audio/midi", f"{take.name}.mid")

    async def _wav(self, take: Take, request: Request) -> Response:
        track = _track(take, request)
        async with self._sounds:
            data = await _run(lambda: render_wav(_score(take, track)))
        return _download(data, "audio/wav", f"{take.name}.wav")

    async def _record(self, take: Take, _: Request) -> Response:
        def record() -> bytes:
            about = {"model": take.model, "bundle_sha256": take.sha256, "language": take.language.name}
            _needs_bars(take)
            return json.dumps({**about, "config": take.request, **take.piece().record()}).encode()

        return _download(await _run(record), "application/json", f"{take.name}.json")

    async def _zip(self, take: Take, _: Request) -> Response:
        data = await _run(_zipped, self._studio.tree(take.id))
        return _download(data, "application/zip", f"{take.name}.zip")

    async def session(self, request: Request) -> Response:
        key = request.query_params.get("piece")
        takes = self._studio.tree(key) if key else self._studio.listed()
        data = await _run(session_json, [take for take in takes if take.written.ends])
        return _download(data, "application/json", "session.musicgen.json")

    async def open_session(self, request: Request) -> Response:
        takes = await _run(self._studio.open_session, await _body(request, MOST_SESSION))
        return JSONResponse({"ids": [take.id for take in takes]}, 201)

    def _take(self, request: Request) -> Take:
        take = self._studio.takes.get(request.path_params["id"])
        if take is None or take.is_deleted:
            raise HTTPException(404)
        return take


def midi_of(take: Take, track: int | None = None) -> bytes:
    """A take, or one of its tracks, as a MIDI file: the same bytes that `musicgen generate` writes."""
    _needs_bars(take)
    return midi_bytes(_score(take, track), take.piece().marks)


def _needs_bars(take: Take) -> None:
    if not take.written.ends and take.status != "done":
        raise UserError(f"{take.name}: no bar of it is written yet")


def _score(take: Take, track: int | None) -> Any:
    _needs_bars(take)
    score = take.piece().score
    return score if track is None else score.replace(notes=score.notes[score.notes["track"] == track])


def _track(take: Take, request: Request) -> int | None:
    number = request.query_params.get("track")
    if number is None:
        return None
    tracks = len(take.summary()["tracks"])
    if not number.isdecimal() or len(number) > 4 or int(number) >= tracks:
        raise UserError(f"track={number[:40]}: takes a whole number (0 to {tracks - 1})")
    return int(number)


def _zipped(takes: list[Take]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, take in enumerate([take for take in takes if take.written.ends], start=1):
            name = "".join(letter if letter.isalnum() or letter in " -_·" else "_" for letter in take.name)
            archive.writestr(f"{number:02d} {name}.mid", midi_of(take))
    return file.getvalue()


def _download(data: bytes, kind: str, name: str) -> Response:
    ascii_name = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in " -_." else "_" for letter in name
    )
    where = f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}"
    return Response(data, media_type=kind, headers={"Content-Disposition": where, "Cache-Control": "no-store"})


def _first(request: Request) -> int:
    """The first bar that a client does not know yet."""
    last = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return int(last) + 1 if last.isdecimal() and len(last) < 9 else 0


def _window(request: Request) -> str:
    return request.headers.get("x-window", "")[:40]


async def _json(request: Request) -> Any:
    return read_json(await _body(request, MOST_BODY))


async def _body(request: Request, most: int) -> bytes:
    """The body of a request.

    Raises:
        UserError: It is too large. The rest is not read.
    """
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > most:
            raise UserError(f"the body: more than {most:,} bytes")
    return bytes(data)
