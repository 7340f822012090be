from __future__ import annotations

import csv
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from musicgen.midi import Score, Track, make_notes
from musicgen.midi.parts import Part, part_of, parts
from musicgen.midi.read import parse_file
from musicgen.midi.score import NOTE


def band(*tracks: tuple[Track, int]) -> Score:
    """A piece in which each track plays one note."""
    pitches = [pitch for _, pitch in tracks]
    numbers = list(range(len(tracks)))
    return Score(
        12, make_notes([0] * len(tracks), [12] * len(tracks), pitches, 64, numbers), tuple(t for t, _ in tracks)
    )


@pytest.mark.parametrize(
    ("track", "pitch", "part"),
    [
        (Track("Bass", 33, True), 40, "drums"),
        (Track("", 32), 40, "bass"),
        (Track("Solo", 39), 70, "bass"),
        (Track("Tuba", 58), 40, "other"),
        (Track("BASS (tuba)", 58), 40, "bass"),
        (Track("Walk", 0), 40, "bass"),
        (Track("Bass-Sax", 65), 60, "other"),
        (Track("Bassoon", 70), 40, "other"),
        (Track("Piano", 0), 40, "other"),
    ],
)
def test_a_track_by_itself(track: Track, pitch: int, part: Part) -> None:
    assert part_of(track, make_notes([0], [12], [pitch], 64)) == part


def test_a_bass_guitar_is_the_bass_where_a_name_alone_is_not() -> None:
    assert parts(band((Track("Bass", 88), 36), (Track("Synth", 38), 42))) == ["other", "bass"]


def test_the_lowest_bass_wins_and_what_is_near_it_is_the_same_bass() -> None:
    score = band((Track("Solo", 35), 64), (Track("Walk", 32), 45), (Track("Bass", 32), 40))
    assert parts(score) == ["other", "bass", "bass"]


def test_a_piece_may_have_no_bass_and_a_track_no_notes() -> None:
    assert parts(band((Track("Kit", 0, True), 36), (Track("Piano", 0), 30))) == ["drums", "other"]
    assert parts(Score(12, np.empty(0, NOTE), (Track("Bass", 33), Track("Piano")))) == ["bass", "other"]


def test_the_parts_of_real_grooves_are_found(real_data: Callable[[str], Path]) -> None:
    folder = real_data("grooves")
    right = total = 0
    with (folder / "index.tsv").open() as index:
        for row in islice(csv.DictReader(index, delimiter="\t"), 0, None, 5):
            roles = dict(item.rsplit("=", 1) for item in row["roles"].split(";"))
            score = parse_file(folder / row["path"])
            for track, part in zip(score.tracks, parts(score), strict=True):
                right += part == {"acc": "other"}.get(roles[track.name], roles[track.name])
                total += 1
    assert total > 1000
    assert right >= 0.99 * total
