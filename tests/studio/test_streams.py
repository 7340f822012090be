"""Streams of events: a slow reader is told of every take."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from musicgen.studio.streams import Changes


def test_a_slow_reader_is_told_of_every_take_once() -> None:
    async def read() -> list[str]:
        changes = Changes()
        takes = [cast(Any, SimpleNamespace(id=name)) for name in ("early", "busy", "late")]
        changes.put(takes[0])
        for _ in range(5000):
            changes.put(takes[1])
        changes.put(takes[2])
        told = [(await changes.get()).id for _ in takes]
        for _ in range(3):  # nothing more, and what is waited for in vain is not lost
            try:
                await asyncio.wait_for(changes.get(), 0.001)
            except asyncio.TimeoutError:
                continue
            raise AssertionError("a take was told of twice")
        changes.put(takes[1])
        return [*told, (await changes.get()).id]

    assert asyncio.run(read()) == ["early", "busy", "late", "busy"]
