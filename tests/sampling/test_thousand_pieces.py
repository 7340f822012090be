"""A thousand files, under constraints in random combinations, read by parsers that are not ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import miditoolkit
import mido
import muspy
import numpy as np
import pretty_midi
import pytest
from asked import broken, random_request

from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.midi.read import parse_midi
from musicgen.sampling import MusicModel, Piece, parse_constraints

PARTS, REQUESTS, PIECES = 10, 10, 10  # a thousand in all


@pytest.mark.parametrize("part", range(PARTS))
def test_every_file_is_clean_keeps_to_what_was_asked_and_says_its_tokens(
    part: int, untrained: MusicModel, trained: MusicModel, tmp_path: Path
) -> None:
    generator = np.random.default_rng(part)
    music_model = (untrained, trained)[part % 2]
    requests = 0
    while requests < REQUESTS:
        asked = random_request(generator, bars=3, seconds=6, tokens=150)
        sampling = {"temperature": float(generator.choice([0.0, 0.7, 1.2, 3.0])), "top_p": 0.9 if part % 3 else 1.0}
        try:
            pieces = list(music_model.generate_many(PIECES, seed=100 * part, **asked, **sampling))
        except UserError:
            continue
        requests += 1
        constraints = parse_constraints(**asked)
        for piece in pieces:
            path = tmp_path / "piece.mid"
            piece.save(path)
            check_parsers(path, piece)
            score = parse_midi(path.read_bytes())
            assert broken(constraints, score, piece.bars) == [], asked
            assert tuple(Remi().encode(score).tokens.tolist()) == piece.tokens, asked
            assert piece.errors == 0


def check_parsers(path: Path, piece: Piece) -> None:
    """See that four parsers read the same notes, that each ends, and that none of a pitch overlaps another."""
    expected = Counter((int(note["start"]), int(note["end"]), int(note["pitch"])) for note in piece.score.notes)
    assert Counter(_with_mido(path)) == expected

    toolkit = miditoolkit.MidiFile(str(path))
    assert Counter((n.start, n.end, n.pitch) for track in toolkit.instruments for n in track.notes) == expected

    pretty = pretty_midi.PrettyMIDI(str(path))
    times = [(n.start, n.end, n.pitch) for track in pretty.instruments for n in track.notes]
    assert (
        Counter((pretty.time_to_tick(start), pretty.time_to_tick(end), pitch) for start, end, pitch in times)
        == expected
    )

    music = muspy.read_midi(path)
    assert Counter((n.time, n.end, n.pitch) for track in music.tracks for n in track.notes) == expected


def _with_mido(path: Path) -> list[tuple[int, int, int]]:
    """Notes as a sequencer sees them: a key that is down cannot be struck, one that is up cannot be let go."""
    notes = []
    for track in mido.MidiFile(path).tracks:
        now, down = 0, dict[tuple[int, int], int]()
        for message in track:
            now += message.time
            if message.type not in ("note_on", "note_off"):
                continue
            key = (message.channel, message.note)
            if message.type == "note_on" and message.velocity > 0:
                assert key not in down, f"{key} is struck at {now} while it sounds"
                down[key] = now
            else:
                assert key in down, f"{key} is let go at {now} and does not sound"
                notes.append((down.pop(key), now, message.note))
        assert not down, f"{down} never end"
    return notes
