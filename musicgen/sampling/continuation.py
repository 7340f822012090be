"""Many prompts, each continued several times: the paper's groove task, as files that can be heard and scored.

    references/FAMILY/STYLE.mid        the accompaniment that a prompt was taken from
    prompts/FAMILY/STYLE.mid           its first bars
    continuations/FAMILY/STYLE/0.mid   what the model wrote after them, from its first bar on
    pieces/FAMILY/STYLE/0.mid          both, with a marker between; its record and picture beside it

The hard choice: all prompts are in one queue. Pieces share a draw and nothing else, so those of different prompts are
written in one batch, and each is what it would be alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from musicgen.data.groove_corpus import GrooveCorpus, GrooveSong
from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.midi.score import Score, TimeSignature, Track, make_tempos
from musicgen.midi.write import write_midi
from musicgen.sampling.dialect import Prompt
from musicgen.sampling.groove_dialect import GrooveDialect, setting_of
from musicgen.sampling.piece import Piece
from musicgen.sampling.sampler import Sampler, Take
from musicgen.tokens.groove_quantise import TICKS, TRIO

FOLDERS = REFERENCES, PROMPTS, CONTINUATIONS, PIECES = ("references", "prompts", "continuations", "pieces")


def reference(corpus: GrooveCorpus, song: GrooveSong) -> Score:
    """The trio of an accompaniment as music, with its instruments and tempo."""
    parts = {track.part: track for track in reversed(song.tracks) if track.part != "other"}
    others = [track for track in song.tracks if track.part == "other"]
    third = max(others, key=lambda track: track.notes, default=None)
    chosen = (parts.get("bass"), parts.get("drums"), third)
    tracks = tuple(
        ours if track is None else Track(track.name or ours.name, track.program, ours.is_drum)
        for ours, track in zip(TRIO, chosen, strict=True)
    )
    tempos = make_tempos([(0, song.tempo)])
    return Score(TICKS, corpus.trio(song), tracks, tempos, (TimeSignature(0, 4, 4),))


def choose_songs(corpus: GrooveCorpus, split: str, styles: int | None) -> dict[str, GrooveSong]:
    """One accompaniment of each style of a split, by the name that its files get: its path without `.mid`.

    Args:
        corpus: The accompaniments.
        split: Which of them.
        styles: How many; None for all.

    Raises:
        UserError: There are none.
    """
    songs = {(song.family, song.style): song for song in reversed(corpus.songs(split))}
    chosen = list(reversed(songs.values()))[:styles]
    if not chosen:
        there = sorted({song.split for song in corpus.songs() if song.split})
        raise UserError(f"split={split}: the corpus has no accompaniments in it, but in {', '.join(there)}")
    names = [_without_suffix(song.path) for song in chosen]
    return {
        song.path if names.count(name) > 1 else name: song for name, song in zip(names, chosen, strict=True)
    }  # where two differ in their suffix alone, it stays


def _without_suffix(path: str) -> str:
    return path[: -len(suffix)] if (suffix := Path(path).suffix).lower() in (".mid", ".midi") else path


class Continuations:
    """Continues prompts.

    Args:
        sampler: Who writes.
        prompts: What to go on from, by name.
        seed: Of the first prompt; the next has the next.
        count: Continuations of each.

    Attributes:
        prompts: Those that can be gone on from.
        refused: Why the others cannot, by name.

    Raises:
        UserError: None can.
    """

    def __init__(self, sampler: Sampler, prompts: Mapping[str, Prompt], seed: int, count: int) -> None:
        self.sampler, self.seed, self.count = sampler, seed, count
        self.prompts: dict[str, Prompt] = {}
        self.refused: dict[str, str] = {}
        for name, prompt in prompts.items():
            reason = self._refusal(prompt)
            if reason is None:
                self.prompts[name] = prompt
            else:
                self.refused[name] = reason
        if not self.prompts:
            raise UserError(next(iter(self.refused.values())))

    def _refusal(self, prompt: Prompt) -> str | None:
        """Why a prompt cannot be gone on from; None if it can."""
        try:
            self.sampler.dialect.guide(self.sampler.constraints, prompt.tokens, prompt.bars, prompt.setting)
        except UserError as error:
            return str(error)
        return None

    def run(self) -> Iterator[tuple[str, Piece | None]]:
        """Write them all: a name for every token, and with its last token the piece `NAME/0`."""
        names: dict[int, str] = {}
        takes: list[Take] = []
        for number, (name, prompt) in enumerate(self.prompts.items()):
            beginning = self.sampler.begin(prompt)
            for variation in range(self.count):
                take = self.sampler.take(beginning, self.seed + number, variation)
                names[id(take)] = f"{name}/{variation}"
                takes.append(take)
        for take, _, is_last in self.sampler.run(takes):
            yield names[id(take)], self._piece(take) if is_last else None

    def _piece(self, take: Take) -> Piece:
        dialect = self.sampler.dialect
        return Piece.from_take(take, dialect, dialect.rendering(self.sampler.constraints, take.setting))


def continuation_of(piece: Piece) -> Score:
    """What was written after the prompt, as a piece of its own. Whole bars are taken away, so bars stay what they are.

    A note of the prompt that sounds on is not part of it.
    """
    score, end = piece.score, piece.prompt_end
    written = score.notes[score.notes["start"] >= end].copy()
    written["start"] -= end
    written["end"] -= end
    return score.replace(notes=written)


def first_bars(score: Score, bars: int) -> Score:
    """The first bars of a piece in 4/4; what sounds at their end ends there."""
    end = bars * 4 * score.ticks_per_beat
    notes = score.notes[score.notes["start"] < end].copy()
    notes["end"] = notes["end"].clip(max=end)
    return score.replace(notes=notes)


def save(
    folder: Path,
    name: str,
    piece: Piece,
    record: Mapping[str, Any],
    picture: bool,
    wav: bool,
    soundfont: Path | None,
) -> dict[str, str]:
    """Write the files of a piece; kinds to names relative to the folder. The MIDI file of the whole comes last."""
    for kind in (CONTINUATIONS, PIECES):
        (folder / kind / name).parent.mkdir(parents=True, exist_ok=True)
    write_midi(continuation_of(piece), folder / CONTINUATIONS / f"{name}.mid")
    files = {"json": (json.dumps({**record, **piece.record()}, indent=1) + "\n").encode()}
    if picture:
        files["png"] = piece.picture(name)
    if wav:
        files["wav"] = piece.sound(soundfont)
    for suffix, data in files.items():
        atomic_write(folder / PIECES / f"{name}.{suffix}", data)
    piece.save(folder / PIECES / f"{name}.mid")
    return {suffix: f"{PIECES}/{name}.{suffix}" for suffix in ("mid", *files)}


def read_prompts(corpus: GrooveCorpus, songs: Mapping[str, GrooveSong], bars: int) -> dict[str, Prompt]:
    """The first bars of accompaniments, by name. Who plays what is as the corpus has it."""
    prompts = {}
    for name, song in songs.items():
        score = reference(corpus, song)
        taken = min(bars, song.bars)
        setting = setting_of(score, ((0,), (1,), (2,)), 4 * taken)
        prompts[name] = GrooveDialect().prompt(score.notes, taken, setting, f"{name}: {taken} bars taken")
    return prompts
