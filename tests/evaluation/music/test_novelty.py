"""What is said of planted copies: which song, which bars, how much of it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from musicgen.errors import UserError
from musicgen.evaluation.music import novelty_findings as novelty
from musicgen.evaluation.music.novelty import bars_text, examine
from musicgen.evaluation.music.novelty_findings import HELD_OUT, novelty_findings
from musicgen.evaluation.music.songs import Gathered, Song
from musicgen.evaluation.report.findings import Findings, Picture
from musicgen.languages import Groove
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.score import Score, TimeSignature, Track, make_notes

BAR = 1920
DRUMS = Track("Drums", 0, True)


def noise(seed: int, bars: int = 16, steps: int = 5) -> Score:
    """A tune that no other shares more than a few notes with."""
    random = np.random.default_rng(seed)
    start = np.cumsum(random.integers(1, steps, bars * 8)) * 120
    start = start[start < bars * BAR]
    return Score(480, make_notes(start, start + 100, 48 + random.integers(0, 24, len(start)), 64))


def with_copy(score: Score, source: Score, first: int, bars: int, at: int, semitones: int) -> Score:
    """A score in which bars of another stand, from one of its bars on and a beat late, transposed."""
    taken = source.notes[(source.notes["start"] >= first * BAR) & (source.notes["start"] < (first + bars) * BAR)].copy()
    for name in ("start", "end"):
        taken[name] += (at - first) * BAR + 480
    taken["pitch"] += semitones
    kept = score.notes[(score.notes["start"] < at * BAR) | (score.notes["start"] >= (at + bars + 1) * BAR)]
    return score.replace(notes=np.concatenate([kept, taken]))


def gathered(**scores: Score) -> Gathered:
    return Gathered(tuple(Song(name, score) for name, score in scores.items()))


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Without the pictures, which take longer than all the rest, but where a test is of them."""
    if "picture" not in request.node.name:
        for name in ("draw_longest", "draw_passage"):
            picture = Picture(name, "nothing", b"", b"")
            monkeypatch.setattr(novelty, name, lambda *_, picture=picture: picture)


def found(generated: dict[str, Gathered], training: Gathered, held_out: Gathered | None = None) -> Findings:
    return novelty_findings(generated, training, held_out, 16)


def test_a_planted_copy_is_found_with_its_song_and_bars() -> None:
    songs = {f"song {seed}": noise(seed) for seed in range(30)}
    piece = with_copy(noise(100), songs["song 17"], first=4, bars=3, at=9, semitones=5)
    sets = {"made": [Song("clean", noise(101)), Song("thief", piece)]}
    clean, thief = examine(sets, [Song(*item) for item in songs.items()], 16, 4, False)[0]["made"]
    assert thief.longest is not None
    assert thief.longest.song.name == "song 17"
    assert thief.longest.transposed == 5
    assert bars_text(thief.song, thief.longest.line, thief.longest.start, thief.longest.notes) == "10–13"
    place = thief.longest
    assert bars_text(place.song, place.song_line, place.song_start, place.notes) == "5–7"
    source = songs["song 17"].notes["start"]
    assert place.notes == ((source >= 4 * BAR) & (source < 7 * BAR)).sum()
    assert thief.share == pytest.approx(place.notes / len(piece.notes))
    assert clean.notes < 8
    assert clean.share == 0


def test_the_summary_says_it_and_a_picture_shows_it() -> None:
    songs = {f"song {seed}": noise(seed) for seed in range(8)}
    piece = with_copy(noise(100), songs["song 3"], first=4, bars=3, at=9, semitones=-2)
    findings = found({"made": gathered(thief=piece)}, gathered(**songs), gathered(a=noise(50), b=noise(51)))
    assert any("bars 10–13 of thief = bars 5–7 of song 3, transposed by -2" in line for line in findings.summary)
    assert "1 of 1 generated pieces shares a longer passage than any held-out song" in findings.summary[-3]
    assert "1 of 1 generated pieces shares a larger part of the notes than any held-out song" in findings.summary[-2]
    assert [picture.name for picture in findings.pictures] == ["longest_passages", "longest_passage"]
    medians, passages, pieces = findings.tables
    assert [row[0] for row in medians.rows] == ["made", HELD_OUT]
    assert [row[1] for row in passages.rows] == ["thief"]
    assert [row[1] for row in pieces.rows] == ["thief", "a", "b"]
    assert not pieces.shown


def test_a_short_copy_is_told_of_though_a_held_out_song_has_a_longer_passage() -> None:
    songs = {f"song {seed}": noise(seed) for seed in range(4)}
    notes = songs["song 2"].notes
    excerpt = songs["song 2"].replace(notes=notes[(notes["start"] >= 2 * BAR) & (notes["start"] < 6 * BAR)])
    cover = with_copy(noise(50), songs["song 1"], first=0, bars=8, at=3, semitones=0)
    made = gathered(thief=excerpt, one=noise(60), two=noise(61))
    findings = found({"made": made}, gathered(**songs), gathered(cover=cover))
    assert findings.summary[-3] == "No generated piece shares a longer passage than any held-out song does."
    assert findings.summary[-2].startswith("1 of 3 generated pieces shares a larger part of the notes")


def test_a_cover_among_the_held_out_songs_does_not_hide_a_copy() -> None:
    songs = {f"song {seed}": noise(seed) for seed in range(4)}
    piece = with_copy(noise(60), songs["song 2"], first=2, bars=4, at=5, semitones=1)
    cover = with_copy(noise(50), songs["song 1"], first=0, bars=8, at=3, semitones=0)
    others = {f"held out {seed}": noise(seed) for seed in range(100, 130)}
    findings = found({"made": gathered(thief=piece)}, gathered(**songs), gathered(cover=cover, **others))
    assert findings.summary[-3] == "No generated piece shares a longer passage than any held-out song does."
    assert findings.summary[-1] == "1 of 1 generated pieces shares a longer passage than 95 of 100 held-out songs do."


def test_instruments_of_grooves_are_looked_for_each_by_itself() -> None:
    tune, bass, other = noise(0).notes, noise(1).notes.copy(), noise(2).notes.copy()
    bass["track"] = other["track"] = 1
    tracks = (Track("Keys"), Track("Bass", 33))
    song, piece = (Score(480, np.concatenate([tune, under]), tracks) for under in (bass, other))
    training = Gathered((Song("song", song),), language=Groove())
    (row,) = [row for row in found({"made": gathered(piece=piece)}, training).tables[2].rows if row[0] == "made"]
    assert row[2] == len(tune)
    together = found({"made": gathered(piece=piece)}, gathered(song=song)).tables[2].rows[0]
    assert together[2] < len(tune) / 2


def test_every_set_has_its_own_pieces() -> None:
    training = gathered(song=noise(0), other=noise(1))
    sets = {"one": gathered(a=noise(10), b=noise(0)), "two": gathered(c=noise(11), d=noise(1), e=noise(12))}
    findings = found(sets, training, gathered(f=noise(13), g=noise(0)))
    rows = {(row[0], row[1]): row[4] for row in findings.tables[2].rows if row[2] is not None and row[2] > 20}
    assert rows == {("one", "b"): "song", ("two", "d"): "other", (HELD_OUT, "g"): "song"}
    assert len(findings.tables[2].rows) == 7
    assert "of two/d = bars" in findings.summary[1]


def test_a_held_out_song_that_was_trained_on_is_found_and_cut_to_the_length_of_pieces() -> None:
    findings = found({"made": gathered(a=noise(5, bars=4))}, gathered(song=noise(0)), gathered(twin=noise(0)))
    starts = noise(0).notes["start"]
    (row,) = (row for row in findings.tables[2].rows if row[1] == "twin")
    assert row[2] == (starts < 4 * BAR).sum()


def test_without_held_out_songs_nothing_is_claimed_of_them() -> None:
    findings = found({"made": gathered(a=noise(5))}, gathered(song=noise(0)))
    assert "not known" in findings.summary[-1]
    assert len(findings.tables[0].rows) == 1


def test_a_repeated_figure_is_called_one() -> None:
    beats = np.arange(64) * 480
    hammer = Score(480, make_notes(beats, beats + 200, [60] * 64, 64))
    findings = found({"made": gathered(a=hammer)}, gathered(song=hammer))
    assert any("repeated figure" in line and "one kind" in line for line in findings.summary)
    assert not any(
        "repeated figure" in line for line in found({"m": gathered(a=noise(0))}, gathered(b=noise(0))).summary
    )


def test_a_melody_is_found_under_another_accompaniment() -> None:
    song, random = noise(3), np.random.default_rng(0)
    low = make_notes(song.notes["start"], song.notes["end"], random.integers(24, 40, len(song.notes)), 64)
    piece = song.replace(notes=np.concatenate([song.notes, low]))
    (item,) = examine({"made": [Song("a", piece)]}, [Song("b", song)], 16, 4, False)[0]["made"]
    assert item.notes < 8
    assert item.melody_notes == len(song.notes)


def test_instruments_of_grooves_are_compared_each_by_itself() -> None:
    bass, piano = noise(1), noise(2)
    notes = [score.notes.copy() for score in (bass, piano, noise(9))]
    for number, part in enumerate(notes):
        part["track"] = number
    tracks = (Track("Bass", 33), Track("Piano"), DRUMS)
    band = Score(480, np.concatenate(notes), tracks, time_signatures=(TimeSignature(0, 4, 4),))
    duo = band.replace(notes=np.concatenate([notes[0], notes[2]]))
    apart = examine({"made": [Song("a", duo)]}, [Song("b", band)], 16, 12, True)[0]["made"][0]
    merged = examine({"made": [Song("a", duo)]}, [Song("b", band)], 16, 4, False)[0]["made"][0]
    assert apart.notes == len(notes[0])
    assert apart.share == 1
    assert merged.notes < len(notes[0])


def test_drums_alone_are_left_out_or_refused() -> None:
    drums = Score(480, make_notes([0, 480], [100, 600], [36, 38], 64), (DRUMS,))
    findings = found({"made": gathered(a=noise(1), beat=drums)}, gathered(song=noise(0)))
    assert findings.left_out == ["beat: no notes but drums, which are not compared"]
    with pytest.raises(UserError, match="made: no notes but drums"):
        found({"made": gathered(beat=drums)}, gathered(song=noise(0)))
    with pytest.raises(UserError, match="training: no notes but drums"):
        found({"made": gathered(a=noise(0))}, gathered(beat=drums))


def test_a_piece_of_one_note_shares_nothing() -> None:
    one = Score(480, make_notes([0], [100], [60], 64))
    findings = found({"made": gathered(a=one)}, gathered(song=noise(0)))
    assert "No two notes" in findings.summary[-1]
    assert len(findings.pictures) == 1


def test_hundreds_of_songs_take_a_moment() -> None:
    base = [compose(seed, 32) for seed in range(5)]
    songs = [Song(f"song {seed}", noise(seed, bars=64)) for seed in range(200)]
    songs += [Song(f"composed {seed}", score) for seed, score in enumerate(base)]
    piece = with_copy(noise(999), base[3], first=8, bars=4, at=6, semitones=5)
    began = time.process_time()
    item = examine({"made": [Song("a", piece)]}, songs, 16, 4, False)[0]["made"][0]
    assert time.process_time() - began < 10
    assert item.longest is not None
    assert item.longest.song.name == "composed 3"
