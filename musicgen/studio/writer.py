"""The one thread that runs models: it writes a token of every take, then does what it is asked, then writes again.

Design note: every take of a model is in one batch, so all that are being written progress at the same speed, whoever
asked for them. Requests are jobs between two steps: a cancelled take leaves the batch before its next token.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from musicgen.errors import UserError
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.music_model import MusicModel
from musicgen.sampling.sampler import Sampler, Step
from musicgen.studio.fills import Filling
from musicgen.studio.states import States
from musicgen.studio.take import Take

T = TypeVar("T")
MOST_WRITING = 64
"""How many takes are written at once. The studio refuses more."""


class Writer:
    """Writes takes in a thread.

    Args:
        states: Gets the states at bar lines.
        on_change: Called in the thread when a take has new bars or another status.
    """

    def __init__(self, states: States, on_change: Callable[[Take], None]) -> None:
        self._states, self._on_change = states, on_change
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._samplers: dict[str, Sampler] = {}
        self._takes: dict[int, Take] = {}
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread after the present token."""
        self._jobs.put(None)
        self._thread.join(30)

    def call(self, work: Callable[[], T]) -> Future[T]:
        """Do something in the thread, between two tokens."""
        future: Future[T] = Future()
        self._jobs.put((work, future))
        return future

    # The following are called in the thread.

    @property
    def writing(self) -> int:
        """How many takes are being written."""
        return len(self._takes)

    def add(self, take: Take, music_model: MusicModel) -> None:
        """Begin to write a take."""
        piece = take.filling.piece if take.filling else take.written
        if not isinstance(piece, PieceInProgress):
            raise TypeError(f"the take {take.id} is not in progress")
        if take.sha256 not in self._samplers:
            self._samplers[take.sha256] = Sampler(music_model.engine, MOST_WRITING)
        self._takes[id(piece)] = take
        if piece.at_bar_line and take.until is not None and piece.bars >= take.until:
            take.status = "waiting"
            take.advance(is_last=False)
        else:
            self._samplers[take.sha256].add(piece)

    def stop(self, take: Take, at_once: bool) -> None:
        """Stop a take, at its next bar line or now."""
        piece = take.filling.piece if take.filling else take.written
        if not take.is_busy or not isinstance(piece, PieceInProgress):
            return
        if take.filling:
            piece.cancel()
            self._end(take, piece, "stopped", "the bars were not written to their end; this is the piece as it was")
        elif at_once or take.status == "waiting":
            piece.cancel()
            if piece.at_bar_line:
                take.advance(is_last=True)
            self._end(take, piece, "stopped")
        else:
            take.is_stopping = True

    def go_on(self, take: Take, until: int | None) -> None:
        """Let a take have more bars."""
        piece, take.until = take.written, until
        if take.status == "waiting" and isinstance(piece, PieceInProgress) and (until is None or piece.bars < until):
            take.status = "writing"
            if piece.is_cancelled:
                piece.resume()
            self._samplers[take.sha256].add(piece)

    def _run(self) -> None:
        is_busy = False
        while True:
            while not is_busy or not self._jobs.empty():
                job = self._jobs.get()
                if job is None:
                    return
                self._do(*job)
                is_busy = any(take.status == "writing" for take in self._takes.values())
            is_busy = False
            for sha256, sampler in list(self._samplers.items()):
                try:
                    steps = sampler.step()
                except Exception as error:
                    self._fail(sha256, error)
                    continue
                is_busy |= bool(steps)
                for step in steps:
                    self._note_safely(step)

    def _do(self, work: Callable[[], Any], future: Future[Any]) -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # whoever asked gets it
            future.set_exception(error)

    def _note_safely(self, step: Step) -> None:
        """Take over what a token completed. What goes wrong ends one take, not the thread."""
        try:
            self._note(step)
        except Exception:
            logging.getLogger(__name__).exception("a take failed")
            step.piece.cancel()
            take = self._takes.get(id(step.piece))
            if take is not None:
                self._end(take, step.piece, "failed", "a mistake of the studio's; the terminal says which")

    def _note(self, step: Step) -> None:
        """Take over what a token completed."""
        piece = step.piece
        take = self._takes.get(id(piece))
        if take is None or not (piece.at_bar_line or step.is_last):
            return
        if take.filling:
            self._fill(take, take.filling)
            return
        if piece.bars in piece.states:
            self._states.put(take.id, piece.bars, piece.states[piece.bars])
        is_stopped = take.is_stopping and not step.is_last
        take.advance(step.is_last or is_stopped)
        take.refusal = piece.refusal
        if step.is_last or is_stopped:
            piece.cancel()
            self._end(take, piece, "stopped" if is_stopped else "done")
            return
        if take.until is not None and piece.bars >= take.until:
            piece.cancel()
            take.status = "waiting"
        self._on_change(take)

    def _fill(self, take: Take, filling: Filling) -> None:
        """Put new bars into a piece when they are complete, and rank the takes that are complete with it."""
        if not filling.is_complete:
            return
        filling.piece.cancel()
        take.written, take.score["following"] = filling.result()
        complete = [other for other in filling.group if other is take or other.status == "done"]
        complete.sort(key=lambda other: -other.score["following"])
        for rank, other in enumerate(complete, start=1):
            other.score["rank"] = rank
        for other in reversed(complete):  # first those that fell behind: a page never sees two takes of one rank
            if other is not take:
                self._on_change(other)
        self._end(take, filling.piece, "done")

    def _end(self, take: Take, piece: PieceInProgress, status: Any, error: str = "") -> None:
        self._takes.pop(id(piece), None)
        take.finish(status, error)
        take.filling = None
        self._on_change(take)

    def _fail(self, sha256: str, error: Exception) -> None:
        """End all takes of a model that cannot go on."""
        if not isinstance(error, UserError):
            logging.getLogger(__name__).exception("a model failed")
        sentence = str(error) if isinstance(error, UserError) else "the model failed; the terminal says why"
        del self._samplers[sha256]
        for number, take in list(self._takes.items()):
            if take.sha256 == sha256:
                del self._takes[number]
                take.finish("failed", sentence)
                self._on_change(take)
