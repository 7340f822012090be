"""Which files are compared with which, where continuations begin, and what is said over all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from style_oracle import random_score

from musicgen.errors import UserError
from musicgen.evaluation.style.comparison import Result, compare, match, read_continuation
from musicgen.evaluation.style.findings import findings, summarise, undefined, values
from musicgen.evaluation.style.similarity import over_parts, pool, quarters, roles, similarity, style
from musicgen.midi.markers import CONTINUATION, continuation_start
from musicgen.midi.read import MidiError, parse_midi
from musicgen.midi.score import Score, TimeSignature, Track, make_notes
from musicgen.midi.write import midi_bytes


def put(path: Path, score: Score, marks: Iterable[tuple[int, str]] = ()) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(midi_bytes(score, list(marks)))
    return path


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def run(reference: Path, generated: Path, **options: Any) -> Result:
    settings = {"published": False, "seed": 0, "workers": 1, **options}
    return compare(match(reference, generated), progress=lambda items, *_: items, **settings)


def read_back(score: Score) -> Score:
    """As a file has it, where no note of a pitch overlaps another."""
    return parse_midi(midi_bytes(score))


def test_names_say_what_belongs_together(tmp_path: Path) -> None:
    references = touch(tmp_path / "in", "a.mid", "a.b.mid", "song 1.mid", "pop/x.MID", "alone.midi", "notes.txt")
    generated = touch(
        tmp_path / "out", "a.mid", "a.cont_0.mid", "a.b.continuation_1.mid", "a_piece_0.mid", "song 1/piece_0.mid",
        "song 10.mid", "ab.mid", "pop/x-2.mid", "x.mid", "a.wav",
    )  # fmt: skip
    groups, left_out = match(references, generated)
    found = {
        path.relative_to(references).as_posix(): [own.relative_to(generated).as_posix() for own in owned]
        for path, owned in groups.items()
    }
    assert found == {
        "a.b.mid": ["a.b.continuation_1.mid"],
        "a.mid": ["a.cont_0.mid", "a.mid", "a_piece_0.mid"],
        "alone.midi": [],
        "pop/x.MID": ["pop/x-2.mid"],
        "song 1.mid": ["song 1/piece_0.mid"],
    }
    lines = {line.partition(": ")[0].rpartition("/")[2] for line in left_out}
    assert lines == {"song 10.mid", "ab.mid", "x.mid", "alone.midi"}


def test_one_reference_is_that_of_all(tmp_path: Path) -> None:
    reference = touch(tmp_path, "r.mid") / "r.mid"
    generated = touch(tmp_path / "out", "a.mid", "b/c.mid")
    assert match(reference, generated) == ({reference: [generated / "a.mid", generated / "b" / "c.mid"]}, [])
    assert match(reference, reference) == ({reference: [reference]}, [])


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name them alike"):
        match(touch(tmp_path / "in", "a.mid"), touch(tmp_path / "out", "b.mid"))
    with pytest.raises(UserError, match=r"generated=.*no MIDI files"):
        match(tmp_path / "in", touch(tmp_path / "none", "a.txt"))
    with pytest.raises(UserError, match=r"reference=.*no such file"):
        match(tmp_path / "nowhere", tmp_path / "out")


def test_a_continuation_begins_at_its_marker() -> None:
    score = random_score(0)
    assert continuation_start(read_back(score)) == 0
    assert continuation_start(parse_midi(midi_bytes(score, [(96, CONTINUATION), (120, "other")]))) == 96


def test_what_comes_before_the_marker_does_not_count(tmp_path: Path) -> None:
    score = read_back(random_score(1, 200))
    marked = put(tmp_path / "marked.mid", score, [(96, CONTINUATION)])
    found = read_continuation(str(marked), False, {})
    for ours, theirs in zip(found.styles, quarters(score, 96), strict=True):
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours)
    over = put(tmp_path / "over.mid", score, [(score.end, CONTINUATION)])
    with pytest.raises(MidiError, match=r"over\.mid: no notes after its prompt"):
        read_continuation(str(over), False, {})


def test_comparing_folders_is_comparing_their_pieces(tmp_path: Path) -> None:
    scores = {name: read_back(random_score(number, 200)) for number, name in enumerate(["a", "b", "c"])}
    made = {name: [read_back(random_score(9 + number, 200)) for number in range(2)] for name in scores}
    for name, score in scores.items():
        put(tmp_path / "in" / f"{name}.mid", score)
        for number, continuation in enumerate(made[name]):
            put(tmp_path / "out" / f"{name}.cont_{number}.mid", continuation)
    comparisons, left_out, _ = run(tmp_path / "in", tmp_path / "out", workers=2)
    assert not left_out
    for item, (name, score) in zip(comparisons, scores.items(), strict=True):
        assert item.reference.stem == name
        assert item.quarters is not None
        splits = zip(*(quarters(continuation) for continuation in made[name]), strict=True)
        assert list(item.quarters) == [similarity(pool(split), style(score)) for split in splits]
        assert item.other is not None
        assert item.other != item.reference
        assert item.floor == similarity(style(scores[item.other.stem]), style(score))


def test_a_piece_in_another_style_is_from_another_folder_if_there_is_one(tmp_path: Path) -> None:
    for number, name in enumerate(["pop/a", "pop/b", "rock/c"]):
        for folder in ("in", "out"):
            put(tmp_path / folder / f"{name}.mid", random_score(number, 300))
    for seed in range(5):
        comparisons, *_ = run(tmp_path / "in", tmp_path / "out", seed=seed)
        assert all(item.other and item.other.parent != item.reference.parent for item in comparisons)
    again = run(tmp_path / "in", tmp_path / "out", seed=3)
    assert again == run(tmp_path / "in", tmp_path / "out", seed=3, workers=3)


def test_every_file_that_has_no_part_is_a_line(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "lonely"):
        put(tmp_path / "in" / f"{name}.mid", random_score(1))
    for name in ("a.0", "b.0", "c.0", "c.1", "stray"):
        put(tmp_path / "out" / f"{name}.mid", random_score(2))
    (tmp_path / "in" / "b.mid").write_bytes(b"not music")
    (tmp_path / "out" / "c.1.mid").write_bytes(b"MThd")
    put(tmp_path / "out" / "a.1.mid", Score(24, make_notes([], [], [], 64)))
    comparisons, left_out, _ = run(tmp_path / "in", tmp_path / "out")
    assert [(item.reference.stem, len(item.generated)) for item in comparisons] == [("a", 1), ("c", 1), ("lonely", 0)]
    lines = {line.partition(": ")[0].removeprefix(f"{tmp_path}/"): line.partition(": ")[2] for line in left_out}
    assert set(lines) == {"in/b.mid", "in/lonely.mid", "out/a.1.mid", "out/b.0.mid", "out/c.1.mid", "out/stray.mid"}
    assert lines["out/a.1.mid"] == "no notes"
    assert lines["out/b.0.mid"] == "its reference could not be read"
    result = Result(comparisons, left_out, [])
    assert len(values(result, "time_pitch", "quarter 1")) == 2
    assert len(values(result, "time_pitch", "ceiling")) == 3  # yardsticks are of all references


@pytest.mark.parametrize("published", [False, True])
def test_tracks_are_what_they_are_in_the_reference(tmp_path: Path, published: bool) -> None:
    tracks = (Track("Bass", 80), Track("Keys", 4), Track("Drums", 0, True))
    start = np.arange(0, 96, 6)
    low = make_notes([*start, 48, 0], [*start + 6, 60, 6], [*[40, 43] * 8, 47, 42], 64, [*[0] * 16, 1, 2])
    high = low.copy()
    high["pitch"][:16] += 24  # no bass by itself
    reference = put(tmp_path / "in.mid", Score(24, low, tracks))
    (item,) = run(reference, put(tmp_path / "out.mid", Score(24, high, tracks)), published=published).comparisons
    assert item.quarters is not None
    assert item.quarters[0]["time_pitch", "bass"] > 0
    renamed = (Track("Lead", 80), *tracks[1:])  # nobody whom the reference has
    (item,) = run(reference, put(tmp_path / "other.mid", Score(24, high, renamed)), published=published).comparisons
    assert item.quarters is not None
    assert math.isnan(item.quarters[0]["time_pitch", "bass"])


def test_a_role_that_a_file_says_counts_more_than_its_reference(tmp_path: Path) -> None:
    tracks = (Track("A", 80), Track("Drums", 0, True))
    notes = make_notes([0, 6, 0], [6, 12, 6], [70, 72, 42], 64, [0, 0, 1])
    reference = put(tmp_path / "in.mid", Score(24, notes, (tracks[0]._replace(role="bass"), tracks[1])))
    for role, is_bass in (("bass", True), (None, True), ("other", False)):
        told = (tracks[0]._replace(role=role), tracks[1])
        (item,) = run(reference, put(tmp_path / f"{role}.mid", Score(24, notes, told))).comparisons
        assert item.quarters is not None
        assert math.isnan(item.quarters[0]["onset_duration", "bass"]) is not is_bass


def test_tracks_that_cannot_be_told_apart_are_judged_by_themselves() -> None:
    notes = make_notes([0, 0, 0], [9, 9, 9], [30, 60, 50], 64, [0, 1, 2])
    assert roles(Score(24, notes, (Track("Bass"), Track("Bass"), Track("Keys")))) == {Track("Keys"): "other"}


def test_a_file_that_is_not_in_common_time_is_judged_and_named(tmp_path: Path) -> None:
    score = random_score(1, 200)
    waltz = put(tmp_path / "waltz.mid", score.replace(time_signatures=(TimeSignature(0, 3, 4),)))
    result = run(put(tmp_path / "in.mid", score), waltz)
    assert len(result.comparisons) == 1
    sentence = f"{waltz}: not in 4/4 (3/4 from beat 1 on); it is compared as if it were"
    assert (result.left_out, result.other_metre) == ([], [sentence])
    assert f"metre: {sentence}" in findings({"out": result}, 0).summary


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    put(tmp_path / "in.mid", random_score(1))
    (tmp_path / "bad.mid").write_bytes(b"not music")
    with pytest.raises(UserError, match=r"nothing could be compared: .*bad\.mid"):
        run(tmp_path / "in.mid", tmp_path / "bad.mid")
    for number, name in enumerate(["keys", "bass", "drums"]):
        put(
            tmp_path / f"{name}.mid",
            Score(24, make_notes([0, 9], [9, 18], [40, 41], 64, number), random_score(0).tracks),
        )
    with pytest.raises(UserError, match="no continuation has notes"):
        run(tmp_path / "keys.mid", tmp_path / "drums.mid")


def test_what_is_undefined_is_counted_and_left_out(tmp_path: Path) -> None:
    score = read_back(random_score(3, 300))
    reference = put(tmp_path / "in.mid", score)
    bassless = put(tmp_path / "out.mid", score.replace(notes=score.notes[score.notes["track"] != 1]))
    result = run(reference, bassless)
    assert undefined(result) == {
        "time_pitch": {"bass": 4, "other": 0},
        "onset_duration": {"bass": 4, "other": 0},
        "onset_drum": {"drums": 0},
    }
    (item,) = result.comparisons
    assert item.quarters is not None
    assert values(result, "time_pitch", "quarter 2") == [item.quarters[1]["time_pitch", "other"]]
    assert values(result, "time_pitch", "floor") == []
    assert over_parts(item.quarters[1])["time_pitch"] == item.quarters[1]["time_pitch", "other"]


def test_summaries_are_medians_quartiles_and_an_interval_that_holds_the_median() -> None:
    numbers = np.random.default_rng(0).normal(0.5, 0.1, 101).tolist()
    found = summarise(numbers, seed=0)
    ordered = sorted(numbers)
    assert (found.references, found.median) == (101, ordered[50])
    assert (found.lower_quartile, found.upper_quartile) == (ordered[25], ordered[75])
    low, high = found.interval
    # What is known of the interval of a median: the 41st to the 61st of 101 values, or about.
    assert ordered[37] < low < ordered[44] < found.median < ordered[56] < high < ordered[63]
    assert summarise([0.25], seed=0).interval == (0.25, 0.25)
    assert summarise(numbers, seed=0) == found
    assert summarise([], seed=0).references == 0
    assert math.isnan(summarise([], seed=0).median)
