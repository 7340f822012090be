"""A take: a piece in the studio, its place in the tree, and its music bar by bar as JSON.

Design note: tokens are kept, states are not. A finished take is a few kilobytes, and the model reads its tokens again
when someone forks it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from musicgen.languages.constraints import Constraints
from musicgen.languages.language import Language
from musicgen.languages.rendering import Rendering
from musicgen.sampling.bar_data import bar_data, bars_of, frame_data
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.live import BarStream
from musicgen.sampling.music_model import make_request
from musicgen.sampling.piece import Piece
from musicgen.sampling.tempo_changes import rendering_of

if TYPE_CHECKING:
    from musicgen.studio.fills import Filling

Status = Literal["writing", "waiting", "done", "stopped", "failed"]
BUSY: tuple[Status, ...] = ("writing", "waiting")


@dataclass(frozen=True)
class Stored:
    """A written piece without the model's state; `PieceInProgress` explains the attributes."""

    language: Language
    tokens: Sequence[int]
    ends: Sequence[int]
    likelihood: Sequence[float]
    masked_probability: Sequence[float]
    prompt_bars: int
    setting: Mapping[str, Any]
    seed: int
    variation: int
    constraints: Constraints

    @staticmethod
    def from_progress(piece: PieceInProgress) -> Stored:
        """What is written. If the piece has not ended, it is cut at its last bar line."""
        end = len(piece.tokens) if piece.is_complete else piece.ends[-1] if piece.ends else 1
        sums = slice(None) if piece.is_complete else slice(max(len(piece.ends), 1))
        return Stored(
            piece.language,
            tuple(piece.tokens[:end]),
            tuple(piece.ends),
            tuple(piece.likelihood[sums]),
            tuple(piece.masked_probability[sums]),
            piece.prompt_bars,
            piece.setting,
            piece.seed,
            piece.variation,
            piece.constraints,
        )

    @cached_property
    def rendering(self) -> Rendering:
        """How it sounds."""
        return rendering_of(self.language, self.constraints, self.setting)


@dataclass
class Take:
    """A piece in the studio.

    Attributes:
        id: Its name in addresses.
        parent: The take that it was forked from; None for the first of a tree.
        bar: How many bars it shares with its parent.
        model, sha256: The model that wrote it, and the hash of its weights.
        request: The options of the request that are in force.
        endless: Whether it was asked to go on without end.
        draw: The seed of the positional noise.
        made: What was done to make it: `write`, `fork` or `fill`.
        note: A sentence about it: what was read of its prompt, say.
        until: How many bars may be written before it waits; None for no limit.
        window: The window that asked for it; it stops when the window is closed.
        written: The piece, in progress or stored.
        error: Why it failed.
        refusal: Why the last change could not be kept.
        is_deleted: Whether it is in the bin.
        is_stopping: Whether it stops at the next bar line.
        filling: How its bars are written anew, until they are.
    """

    id: str
    parent: str | None
    bar: int
    name: str
    model: str
    sha256: str
    request: dict[str, Any]
    written: PieceInProgress | Stored
    draw: int = 0
    endless: bool = False
    kept: bool = False
    made: str = "write"
    note: str = ""
    until: int | None = None
    window: str = ""
    status: Status = "writing"
    error: str = ""
    refusal: str = ""
    is_deleted: bool = False
    is_stopping: bool = False
    score: dict[str, float] = field(default_factory=dict)
    filling: Filling | None = None
    _bars: list[str] = field(default_factory=list)
    _stream: BarStream | None = None

    @property
    def language(self) -> Language:
        """Its token language."""
        return self.written.language

    @property
    def is_busy(self) -> bool:
        """Whether more may be written."""
        return self.status in BUSY

    @property
    def known_bars(self) -> int:
        """How many bars can be heard."""
        return len(self._bars) if self.is_busy else len(self.bars())

    def advance(self, is_last: bool) -> bool:
        """Take over what the sampler wrote, at a bar line or at the end. Returns whether there are new bars."""
        piece = self.written
        if not isinstance(piece, PieceInProgress):
            return False
        self._stream = self._stream or BarStream(piece)
        before = len(self._bars)
        for score in self._stream.feed(is_last):
            self._bars.append(self._bar_json(bar_data(score, len(self._bars), self._stream.lines)))
        return len(self._bars) > before

    def finish(self, status: Status, error: str = "") -> None:
        """Nothing more is written."""
        if isinstance(self.written, PieceInProgress):
            self.written = Stored.from_progress(self.written)
        self.status, self.error, self.until, self._stream = status, error, None, None

    def bars(self) -> Sequence[str]:
        """All bars that are known, each as JSON."""
        if self.is_busy or self._bars:
            return self._bars
        if not self.written.ends and self.status != "done":
            return []
        piece = self.piece()
        self._bars = [self._bar_json(data) for data in bars_of(piece.score, piece.bars)]
        return self._bars

    def forget_bars(self) -> None:
        """Free the memory of bars that can be made again."""
        if not self.is_busy:
            self._bars = []

    def _bar_json(self, data: dict[str, Any]) -> str:
        piece, ends, bar = self.written, self.written.ends, data["bar"]
        size = (ends[bar] if bar < len(ends) else len(piece.tokens)) - (ends[bar - 1] if bar else 0)
        nats = piece.likelihood[bar] if bar < len(piece.likelihood) else 0.0
        more = {"surprise": round(-nats / max(size, 1), 3), "given": bar < piece.prompt_bars}
        return json.dumps(data | more, separators=(",", ":"))

    def piece(self) -> Piece:
        """The piece as it is written so far."""
        written = self.written
        return Piece.from_progress(Stored.from_progress(written) if isinstance(written, PieceInProgress) else written)

    def summary(self) -> dict[str, Any]:
        """What a list of takes shows."""
        frame = self.written.rendering.decode(self.written.tokens[:1])
        return {
            "id": self.id,
            "parent": self.parent,
            "bar": self.bar,
            "name": self.name,
            "kept": self.kept,
            "made": self.made,
            "note": self.note,
            "model": self.model,
            "language": self.language.title,
            "status": self.status,
            "error": self.error,
            "refusal": self.refusal,
            "bars": len(self.written.ends),
            "prompt_bars": self.written.prompt_bars,
            "seed": self.written.seed,
            "variation": self.written.variation,
            "endless": self.endless,
            "request": self.request,
            "score": self.score,
            **frame_data(frame),
        }

    def record(self) -> dict[str, Any]:
        """Everything about it as plain data, from which `take_from` makes it again."""
        piece = self.written if isinstance(self.written, Stored) else Stored.from_progress(self.written)
        names = ("id", "parent", "bar", "name", "model", "sha256", "request", "draw", "endless", "kept", "made", "note")
        return {
            **{name: getattr(self, name) for name in names},
            "status": "stopped" if self.is_busy else self.status,
            "error": self.error,
            "score": self.score,
            "language": piece.language.name,
            **{name: list(getattr(piece, name)) for name in ("tokens", "ends", "likelihood", "masked_probability")},
            **{name: getattr(piece, name) for name in ("prompt_bars", "seed", "variation")},
            "setting": dict(piece.setting),
        }


def asked_constraints(request: Mapping[str, Any], endless: bool, most_bars: int) -> Constraints:
    """The constraints of a request; an endless piece is as long as the studio allows."""
    if endless:
        request = {**request, "bars": most_bars, "seconds": None, "tokens": None}
    return make_request(**request).constraints()


def tree_of(takes: Mapping[str, Take], root: str) -> Iterator[Take]:
    """A take and everything that was forked from it, parents first."""
    found = {root}
    for take in takes.values():  # in the order in which they were made
        if take.id == root or take.parent in found:
            found.add(take.id)
            yield take
