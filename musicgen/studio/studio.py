"""Everything that the studio can do, without the web: write, fork, change, stop, delete, keep, load and save takes.

Design note: all windows and programs share one forest of takes. What they ask is checked here and answered with the
library's own sentences; the work is done by the one thread of the writer.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from musicgen.errors import UserError
from musicgen.languages.constraints import LENGTHS
from musicgen.languages.infill import Gap
from musicgen.options import options
from musicgen.request import Choosing
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.music_model import MusicModel, Session, make_request
from musicgen.studio.fills import BLIND, SEEING, begin_filling
from musicgen.studio.keys import (
    FOR_PROMPTS,
    MOST_BARS,
    ChangeKeys,
    FillKeys,
    ForkKeys,
    PieceKeys,
    clean_name,
    read_keys,
)
from musicgen.studio.models import Models
from musicgen.studio.prompts import Prompts
from musicgen.studio.states import States, with_tempo
from musicgen.studio.store import MOST_IN_BIN, MOST_TAKES, Store, read_session
from musicgen.studio.take import Take, asked_constraints, tree_of
from musicgen.studio.writer import MOST_WRITING, Writer

SAVED_EVERY = 16
"""After this many bars a take that is being written is saved."""
MORE_BARS = 8
"""How many bars a fork gets if it names no length and the piece is not longer."""


class Studio:
    """The takes of one folder, and the thread that writes them.

    Args:
        folder: Where takes are kept.
        models: The models.

    Attributes:
        problems: Sentences about files in the folder that cannot be used.
        listeners: Functions that are called, in the writer's thread, with every take that changes.
    """

    def __init__(self, folder: Path, models: Models) -> None:
        self.models, self.prompts = models, Prompts()
        self._store, self._states, self._lock = Store(folder), States(), threading.RLock()
        takes, self.problems = self._store.load()
        self.takes = {take.id: take for take in takes}
        self._order = {take.id: number for number, take in enumerate(takes)}
        self._count = len(takes)
        self.listeners: list[Callable[[Take], None]] = []
        self.writer = Writer(self._states, self._changed)
        self.writer.start()

    def close(self) -> None:
        """Stop all writing, and save what is written."""
        for take in list(self.takes.values()):
            if take.is_busy:
                self.writer.call(partial(self.writer.stop, take, at_once=True)).result(30)
        self.writer.close()

    def take(self, key: str) -> Take:
        """A take by its id.

        Raises:
            UserError: There is none.
        """
        take = self.takes.get(key)
        if take is None:
            raise UserError(f"{key[:40]}: there is no such piece")
        return take

    def listed(self) -> list[Take]:
        """All takes that are not in the bin, in the order in which they were made."""
        with self._lock:
            return [take for take in self.takes.values() if not take.is_deleted]

    def tree(self, key: str) -> list[Take]:
        """The whole tree that a take belongs to."""
        with self._lock:
            root = self.take(key)
            while root.parent in self.takes:
                root = self.takes[root.parent]
            return [take for take in tree_of(self.takes, root.id) if not take.is_deleted]

    # Writing

    def write(self, values: Any, window: str = "") -> list[Take]:
        """Begin pieces.

        Args:
            values: Keys of `PieceKeys` and of a request for music.
            window: Who asks.

        Raises:
            UserError: The request cannot be met; the message says why.
        """
        keys, asked = read_keys(PieceKeys, values)
        self._check_room(keys.n)
        if keys.prompt is None and asked.get("prompt_bars") is not None:
            raise UserError(f"prompt_bars={asked['prompt_bars']}: give the file too, prompt=ID")
        constraints = asked_constraints(asked, keys.endless, MOST_BARS)  # finds mistakes before a model is loaded
        model = self.models.get(keys.model)
        upload = None if keys.prompt is None else self.prompts.get(keys.prompt)
        lengths = {name: getattr(constraints, name) for name in LENGTHS}
        request = make_request(**{**asked, **lengths, "prompt": None if upload is None else upload.score})
        try:
            session = Session(model, request)
        except UserError as error:
            raise UserError(str(error).replace("the prompt:", f"{upload.name}:" if upload else "", 1)) from None
        kept = {**asked, **lengths}
        kept = {key: value for key, value in kept.items() if value is not None and key not in FOR_PROMPTS}
        note = session.prompt.report.replace("the prompt:", f"{upload.name}:") if session.prompt and upload else ""

        def begin() -> list[Take]:
            takes = []
            for number, piece in enumerate(session.pieces(keys.n)):
                name = keys.name or (Path(upload.name).stem if upload else f"Piece {self._count + 1}")
                own = {**kept, "seed": request.seed + number}
                take = self._new(model, own, piece, _short(name), window, keys.endless, keys.until)
                take.draw, take.note = request.draw or 0, note
                takes.append(take)
            return takes

        return self.writer.call(begin).result()

    def fork(self, key: str, values: Any, window: str = "") -> list[Take]:
        """Begin takes that share the first bars of another.

        Raises:
            UserError: The request cannot be met; the message says why.
        """
        parent = self.take(key)
        keys, asked = read_keys(ForkKeys, values)
        self._check_room(keys.takes)
        model = self.models.get(parent.model, parent.sha256)
        if unusable := [key for key in asked if key in ("draw", *FOR_PROMPTS)]:
            raise UserError(f"{unusable[0]}: is that of the piece; leave it out")

        def begin() -> list[Take]:
            bars = len(parent.written.ends)
            bar = keys.bar or bars
            if not 1 <= bar <= bars:
                raise UserError(f"bar={bar}: the piece has {bars} bars that are written; give one of them")
            request = _with_length(parent, asked, bar, keys.endless)
            constraints = asked_constraints(request, keys.endless, MOST_BARS)
            sampling = make_request(**request).sampling(model.sampling)
            bookmark = with_tempo(self._states.bookmark(parent, bar, model), parent, constraints)
            seed = int(request.get("seed") or 0)
            takes = []
            for _ in range(keys.takes):
                variation = self._next_variation(parent, seed)
                piece = PieceInProgress(model.language, bookmark, constraints, sampling, seed, variation)
                name = _short(f"{parent.name} · {_letter(variation)}")
                take = self._new(model, request, piece, name, window, keys.endless, keys.until)
                take.parent, take.bar, take.made, take.draw = parent.id, bar, "fork", parent.draw
                takes.append(take)
            return takes

        return self.writer.call(begin).result()

    def fill(self, key: str, values: Any, window: str = "") -> list[Take]:
        """Begin takes in which some bars of another are written anew.

        Raises:
            UserError: The request cannot be met; the message says why.
        """
        parent = self.take(key)
        keys, asked = read_keys(FillKeys, values)
        self._check_room(keys.takes)
        if parent.is_busy:
            raise UserError("the piece is still being written; wait for its end, or stop it")
        bars = len(parent.written.ends)
        if not keys.first <= keys.last <= bars:
            raise UserError(f"first={keys.first} last={keys.last}: takes bars from 1 to {bars}, the lower one first")
        if unusable := [name for name in asked if name not in options(Choosing)]:
            raise UserError(f"{unusable[0]}: is that of the piece; leave it out")
        model = self.models.get(parent.model, parent.sha256)
        sampling = make_request(**{**parent.request, **asked}).sampling(model.sampling)
        gap = Gap(keys.first - 1, keys.last - keys.first + 1)
        bars_anew = f"{keys.first}–{keys.last}" if keys.first < keys.last else f"{keys.first}"
        note = BLIND if model.language.infill is None else SEEING

        def begin() -> list[Take]:
            group: list[Take] = []
            for _ in range(keys.takes):
                variation = self._next_variation(parent, parent.written.seed)
                filling = begin_filling(parent, gap, model, self._states, sampling, variation)
                filling.group = group
                name = _short(f"{parent.name} · {bars_anew} {_letter(variation)}")
                original = replace(filling.original, variation=variation)
                take = Take(secrets.token_hex(6), parent.id, gap.first, name, model.name, model.sha256, {}, original)
                take.request, take.draw, take.endless = {**parent.request}, parent.draw, parent.endless
                take.made, take.note, take.window, take.filling = "fill", note, window, filling
                take.score = {"first": keys.first, "last": keys.last}
                self._add(take)
                self.writer.add(take, model)
                self._tell(take)
                group.append(take)
            return group

        return self.writer.call(begin).result()

    def change(self, key: str, values: Any) -> Take:
        """Rename a take, or change its request from the next bar on.

        Raises:
            UserError: The change cannot be made; the message says why.
        """
        take = self.take(key)
        keys, asked = read_keys(ChangeKeys, values)
        piece = take.written
        if asked:
            if not isinstance(piece, PieceInProgress):
                raise UserError(f"{next(iter(asked))}: the piece is finished; fork it to go on with other settings")
            if unusable := [key for key in asked if key in ("seed", "draw", "grammar", *FOR_PROMPTS)]:
                raise UserError(f"{unusable[0]}: holds for a whole piece; write a new one")
            endless = take.endless and not any(asked.get(name) for name in LENGTHS)
            given = {name: None for name in LENGTHS if any(asked.get(other) for other in LENGTHS)}
            request = {**take.request, **given, **asked}
            request = {name: value for name, value in request.items() if value is not None}
            constraints = asked_constraints(request, endless, MOST_BARS)
            model = self.models.get(take.model, take.sha256)
            piece.change(constraints, make_request(**request).sampling(model.sampling))
            take.request, take.endless = request, endless
        if keys.name is not None:
            take.name = clean_name(keys.name)
        if keys.kept is not None:
            take.kept = keys.kept
        if "until" in values:
            self.writer.call(lambda: self.writer.go_on(take, keys.until)).result()
        if not take.is_busy:
            self._save(take)
        self._tell(take)
        return take

    def stop(self, key: str) -> Take:
        """Stop a take at its next bar line. What is written stays."""
        take = self.take(key)
        self.writer.call(lambda: self.writer.stop(take, at_once=False)).result()
        return take

    def delete(self, key: str) -> None:
        """Cancel a take at once, and put it into the bin."""
        take = self.take(key)
        self.writer.call(lambda: self.writer.stop(take, at_once=True)).result()
        with self._lock:
            take.is_deleted = True
            self._store.remove(take)
            old = [other for other in self.takes.values() if other.is_deleted and other is not take]
            for other in old[: 1 - MOST_IN_BIN]:
                del self.takes[other.id]
                self._store.forget(other)
        self._tell(take)

    def restore(self, key: str) -> Take:
        """Take a take out of the bin."""
        take = self.take(key)
        self._check_room(0)
        take.is_deleted = False
        self._save(take)
        self._tell(take)
        return take

    def leave(self, window: str) -> None:
        """Stop what a window that was closed had asked for."""
        for take in list(self.takes.values()):
            if window and take.window == window and take.is_busy:
                self.writer.call(partial(self.writer.stop, take, at_once=True))

    def open_session(self, data: bytes) -> list[Take]:
        """Add the takes of a session file.

        Raises:
            UserError: It cannot be used.
        """
        read = read_session(data)
        self._check_room(len(read), is_writing=False)
        names = {take.id: secrets.token_hex(6) for take in read}
        takes = [replace(take, id=names[take.id], parent=names.get(take.parent or "")) for take in read]
        for take in takes:
            self._add(take)
            self._save(take)
            self._tell(take)
        return takes

    # Takes

    def _next_variation(self, take: Take, seed: int) -> int:
        """The number of a new variation of a seed in the tree of a take."""
        return 1 + max((one.written.variation for one in self.tree(take.id) if one.written.seed == seed), default=-1)

    def _new(
        self,
        model: MusicModel,
        request: dict[str, Any],
        piece: PieceInProgress,
        name: str,
        window: str,
        endless: bool,
        until: int | None,
    ) -> Take:
        """A new take that is being written. Called in the writer's thread."""
        take = Take(secrets.token_hex(6), None, 0, name, model.name, model.sha256, request, piece)
        take.window, take.endless, take.until = window, endless, until
        self._add(take)
        self.writer.add(take, model)
        self._tell(take)
        return take

    def _add(self, take: Take) -> None:
        with self._lock:
            self.takes[take.id] = take
            self._order[take.id] = self._count
            self._count += 1

    def _check_room(self, more: int, is_writing: bool = True) -> None:
        if len(self.listed()) + more > MOST_TAKES:
            raise UserError(f"the studio holds {MOST_TAKES:,} takes; delete some first")
        if is_writing and more and self.writer.writing + more > MOST_WRITING:
            raise UserError(f"the studio writes {MOST_WRITING} pieces at once; stop one, or wait")

    def _save(self, take: Take) -> None:
        with self._lock:
            if not take.is_deleted and take.written.ends:
                self._store.save(take, self._order[take.id])

    def _changed(self, take: Take) -> None:
        """A take has new bars, or ended. Called in the writer's thread."""
        if not take.is_busy or len(take.written.ends) % SAVED_EVERY == 0:
            self._save(take)
        self._tell(take)

    def _tell(self, take: Take) -> None:
        for listener in list(self.listeners):
            listener(take)


def _with_length(parent: Take, asked: dict[str, Any], bar: int, endless: bool) -> dict[str, Any]:
    """The request of a fork: that of its parent with changes, long enough to go on after some bars."""
    request = {**parent.request}
    if endless or any(asked.get(name) for name in LENGTHS) or parent.endless:
        request = {name: value for name, value in request.items() if name not in LENGTHS}
    request |= asked
    if not any(request.get(name) for name in LENGTHS) or (
        not any(asked.get(name) for name in LENGTHS) and (request.get("bars") or bar + 1) <= bar
    ):
        request = {name: value for name, value in request.items() if name not in LENGTHS}
        request["bars"] = min(bar + MORE_BARS, MOST_BARS)
    return {name: value for name, value in request.items() if value is not None}


def _letter(variation: int) -> str:
    return chr(ord("a") + (variation - 1) % 26)


def _short(name: str) -> str:
    printable = "".join(letter for letter in name if letter.isprintable())
    return printable.strip()[:80] or "Piece"
