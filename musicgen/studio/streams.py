"""Server-sent events: the bars of a piece as they are written, and the changes of all takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from musicgen.studio.studio import Studio
from musicgen.studio.take import Take

QUIET = 10.0
"""Seconds after which an empty event is sent, so that a connection that is gone is noticed."""
GRACE = 10.0
"""Seconds that a window may be away (while it is loaded again) before its writing stops."""


class Changes:
    """Takes that changed, each once: a slow reader gets the latest state of all of them."""

    def __init__(self) -> None:
        self._takes: dict[str, Take] = {}
        self._is_any = asyncio.Event()

    def put(self, take: Take) -> None:
        """Note that a take has changed."""
        self._takes[take.id] = take
        self._is_any.set()

    async def get(self) -> Take:
        """The take that has waited longest. Waits until there is one."""
        await self._is_any.wait()
        take = self._takes.pop(next(iter(self._takes)))
        if not self._takes:
            self._is_any.clear()
        return take


class Broadcast:
    """Tells streams in the event loop what happens in the writer's thread."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._loop: asyncio.AbstractEventLoop | None = None
        self._readers: set[Changes] = set()
        self._windows: dict[str, int] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self.is_closed = False

    def open(self) -> None:
        """Begin to listen, in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._studio.listeners.append(self._from_thread)

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        self._studio.listeners.remove(self._from_thread)

    def _from_thread(self, take: Take) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, take)

    def _put(self, take: Take) -> None:
        for changes in self._readers:
            changes.put(take)

    async def _next(self, changes: Changes) -> Take | None:
        """The next take that changes; None after a while without any."""
        for _ in range(int(QUIET * 4)):
            if self.is_closed:
                return None
            try:
                return await asyncio.wait_for(changes.get(), 0.25)
            except asyncio.TimeoutError:
                continue
        return None

    async def bars(self, take: Take, first: int) -> AsyncIterator[str]:
        """The bars of a take from one on, and its end."""
        changes = Changes()
        self._readers.add(changes)
        try:
            refusal = ""
            while not self.is_closed:
                is_busy, bars = take.is_busy, take.bars()
                for number in range(first, len(bars)):
                    yield f"id: {number}\nevent: bar\ndata: {bars[number]}\n\n"
                    first = number + 1
                if take.refusal != refusal:
                    refusal = take.refusal
                    yield _event("refusal", {"error": refusal})
                if not is_busy:
                    failed = take.status == "failed"
                    yield _event("error" if failed else "done", {"error": take.error} if failed else take.summary())
                    return
                while True:
                    changed = await self._next(changes)
                    if changed is take:
                        break
                    if changed is None:
                        yield ": quiet\n\n"
                        break
        finally:
            self._readers.discard(changes)
            take.forget_bars()

    async def takes(self, window: str) -> AsyncIterator[str]:
        """All takes, and then each one that changes. A window that leaves stops its writing."""
        changes = Changes()
        self._readers.add(changes)
        self._windows[window] = self._windows.get(window, 0) + 1
        try:
            yield _event("takes", [take.summary() for take in self._studio.listed()])
            while not self.is_closed:
                take = await self._next(changes)
                if take is None:
                    yield ": quiet\n\n"
                elif take.is_deleted:
                    yield _event("gone", {"id": take.id})
                else:
                    yield _event("take", take.summary())
        finally:
            self._readers.discard(changes)
            self._windows[window] -= 1
            if not self._windows[window]:
                del self._windows[window]
                task = asyncio.get_running_loop().create_task(self._leave(window))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    async def _leave(self, window: str) -> None:
        await asyncio.sleep(GRACE)
        if window not in self._windows:
            self._studio.leave(window)


def stream(events: AsyncIterator[str]) -> StreamingResponse:
    """A response of server-sent events."""
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
