"""Many prompts, each continued several times: the paper's groove task, as files that can be heard and scored.

    references/FAMILY/STYLE.mid        the accompaniment that a prompt was taken from
    prompts/FAMILY/STYLE.mid           its first bars
    continuations/FAMILY/STYLE/0.mid   what the model wrote after them, from its first bar on
    pieces/FAMILY/STYLE/0.mid          both, with a marker between them, a record and a picture

All prompts are in one queue: pieces of different prompts share a batch, and each is the same as if it were alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from musicgen.data.corpus import Corpus
from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.language import Prompt
from musicgen.midi.bars import BarLines
from musicgen.midi.folder import has_midi_suffix
from musicgen.midi.score import Score
from musicgen.sampling.choose import SamplingConfig
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.music_model import MusicModel

FOLDERS = REFERENCES, PROMPTS, CONTINUATIONS, PIECES = ("references", "prompts", "continuations", "pieces")


def belongs(path: str, prompts: Collection[str]) -> bool:
    """Whether a file in a folder of continuations is one that we made for a prompt.

    Args:
        path: Its path in the folder: `pieces/rock/a/0.mid`.
        prompts: The paths of the prompts in their folder: `rock/a.mid`.
    """
    folder, _, name = path.partition("/")
    if folder in (PROMPTS, REFERENCES):
        return name in prompts
    match = re.fullmatch(r"(.+)/\d+\.(mid|json|png|wav)", name)
    is_made = match is not None and (folder == PIECES or (folder == CONTINUATIONS and match[2] == "mid"))
    return is_made and match is not None and f"{match[1]}.mid" in prompts


def choose_songs(corpus: Corpus, split: str, styles: int | None) -> dict[str, Any]:
    """One accompaniment for each of the first styles of a split (all if None), by its path without `.mid`.

    Raises:
        UserError: There are none.
    """
    songs = {(song.family, song.style): song for song in reversed(corpus.songs(split))}
    chosen = list(reversed(songs.values()))[:styles]
    if not chosen:
        there = sorted({song.split for song in corpus.songs() if song.split})
        raise UserError(f"split={split}: the corpus has nothing in this split; it has {', '.join(there)}")
    names = [_without_suffix(song.path) for song in chosen]
    return {
        song.path if names.count(name) > 1 else name: song for name, song in zip(names, chosen, strict=True)
    }  # the suffix stays where two paths differ in nothing else


def _without_suffix(path: str) -> str:
    return path[: -len(Path(path).suffix)] if has_midi_suffix(Path(path)) else path


class Continuations:
    """Continues prompts.

    Args:
        music_model: The model that writes.
        prompts: The prompts by name.
        constraints: What new music keeps to.
        sampling: How tokens are chosen.
        seed: The seed of the first prompt; the next prompt has the next seed.
        count: How many continuations each prompt has.
        draw: The seed of the positional noise.

    Attributes:
        prompts: Those that can be continued.
        refused: Why the others cannot, by name.

    Raises:
        UserError: No prompt can be continued.
    """

    def __init__(
        self,
        music_model: MusicModel,
        prompts: Mapping[str, Prompt],
        constraints: Constraints,
        sampling: SamplingConfig,
        seed: int = 0,
        count: int = 1,
        draw: int = 0,
    ) -> None:
        self.music_model, self.constraints, self.sampling = music_model, constraints, sampling
        self.seed, self.count, self.draw = seed, count, draw
        self.prompts: dict[str, Prompt] = {}
        self.refused: dict[str, str] = {}
        for name, prompt in prompts.items():
            try:
                music_model.language.mask(constraints, prompt.tokens, prompt.bars, prompt.setting)
                self.prompts[name] = prompt
            except UserError as error:  # noqa: PERF203  (every prompt gets an answer)
                self.refused[name] = str(error)
        if not self.prompts:
            raise UserError(next(iter(self.refused.values())))
        self._names = list(self.prompts)

    def pieces(self) -> Iterator[PieceInProgress]:
        """The pieces to write, each started from its prompt when it is requested."""
        for number, prompt in enumerate(self.prompts.values()):
            bookmark = self.music_model.begin(prompt, self.draw)
            for variation in range(self.count):
                wishes = (self.constraints, self.sampling, self.seed + number, variation)
                yield PieceInProgress(self.music_model.language, bookmark, *wishes)

    def name(self, piece: PieceInProgress) -> str:
        """The name of a piece: that of its prompt, and which continuation it is."""
        return f"{self._names[piece.seed - self.seed]}/{piece.variation}"


def first_bars(score: Score, bars: int) -> Score:
    """The first bars of a piece. Notes that sound at their end are cut there."""
    end = BarLines(score).tick(bars)
    notes = score.notes[score.notes["start"] < end].copy()
    notes["end"] = notes["end"].clip(max=end)
    return score.replace(notes=notes)
