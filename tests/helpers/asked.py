"""Random requests, and what it means that a piece keeps to one: the tests' own reading of the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from musicgen.languages.constraints import Constraints
from musicgen.languages.mask import ConstraintMask
from musicgen.languages.vocabulary import Vocabulary
from musicgen.midi.bars import BarLines
from musicgen.midi.score import Score


def random_request(
    generator: np.random.Generator,
    bars: int = 5,
    seconds: float = 12.0,
    tokens: int = 250,
    metres: Sequence[str] = (),
) -> dict[str, Any]:
    """A length and any of the other constraints; some contradict each other."""
    request: dict[str, Any] = {}
    kind = generator.integers(3)
    if kind == 0:
        request["bars"] = int(generator.integers(1, bars + 1))
    elif kind == 1:
        request["seconds"] = float(np.exp(generator.uniform(np.log(0.05), np.log(seconds))))
    else:
        request["tokens"] = int(generator.integers(1, tokens))
    if generator.random() < 0.35:
        request["key"] = str(generator.choice(["C", "Am", "F#m", "Bb major"]))
    if generator.random() < 0.35:
        low = int(generator.integers(10, 110))
        request["pitches"] = f"{low}-{min(127, low + int(generator.choice([0, 1, 3, 12, 40])))}"
    if generator.random() < 0.35:
        request["polyphony"] = int(generator.integers(1, 5))
    if generator.random() < 0.35:
        request["tempo"] = str(generator.choice(["120", "90-130", "32", "224.5", "30-400", "120.5-150"]))
    if generator.random() < 0.35:
        request["chords"] = str(generator.choice(["C Am F G", "C", "C C G7", "N Am", "E7 Am", "Bb Gm | F"]))
    if metres and generator.random() < 0.35:
        request["metre"] = str(generator.choice(metres))
    return request


def improvise(
    mask: ConstraintMask, begun: list[int], vocabulary: Vocabulary, generator: np.random.Generator
) -> list[int]:
    """A piece by a player with odd habits: some families and some tokens are taken far more often than others."""
    tokens = list(begun)
    habits = np.exp(generator.normal(size=len(vocabulary)) * generator.choice([0, 1, 3]))
    for ids in vocabulary.ids.values():
        habits[ids.start : ids.stop] *= np.exp(2 * generator.normal())
    while not mask.is_complete:
        allowed = mask.mask()
        assert allowed.any(), f"an empty mask after {vocabulary.to_names(tokens)[-12:]}"
        weights = habits * allowed
        tokens.append(int(generator.choice(len(weights), p=weights / weights.sum())))
        mask.advance(tokens[-1])
        assert len(tokens) < 50_000
    return tokens


def broken(constraints: Constraints, score: Score, bars: int, prompt_bars: int = 0) -> list[str]:
    """Which constraints the music of a file breaks.

    Args:
        constraints: What it should keep to.
        score: What the file says.
        bars: How many bars the piece has.
        prompt_bars: So many of them were given, and need not keep to anything but lengths.
    """
    lines = BarLines(score)
    since = lines.tick(prompt_bars)
    new = score.notes[score.notes["start"] >= since]
    wrong = []
    if constraints.bars is not None and (bars != constraints.bars or score.end != lines.tick(bars)):
        wrong.append(f"bars: {bars}, ends at tick {score.end}")
    if constraints.seconds is not None:
        # Files say tempos in microseconds, so that times are not exact to the last digit.
        slack, grid = 1e-5 * constraints.seconds + 1e-6, 60 / score.tempos["bpm"][-1] / 8
        if not constraints.seconds - grid - slack < score.duration <= constraints.seconds + slack:
            wrong.append(f"seconds: {score.duration}")
    if not set(new["pitch"].tolist()) <= constraints.pitch_set():
        wrong.append("pitches")
    if constraints.polyphony is not None and _together(score, since) > constraints.polyphony:
        wrong.append(f"polyphony: {_together(score, since)}")
    if constraints.tempo is not None:
        low, high = constraints.tempo
        said = score.tempos["bpm"][np.append(score.tempos["tick"][1:] > since, True)]
        if not ((said >= low - 1e-3) & (said <= high + 1e-3)).all():
            wrong.append(f"tempo: {said}")
    if constraints.metre is not None:
        held = [item for item in score.time_signatures if item.tick <= since][-1]
        metres = [held._replace(tick=since), *(item for item in score.time_signatures if item.tick > since)]
        wrong += [f"metre: {item}" for item in metres if item[1:] != constraints.metre]
    if constraints.chords is not None:
        named = {mark.tick: mark.chord for mark in score.chords}
        now = None
        for bar in range(bars):
            now = named.pop(lines.tick(bar), now)
            due = constraints.chords[(bar - prompt_bars) % len(constraints.chords)]
            if bar >= prompt_bars and now != due:
                wrong.append(f"chord of bar {bar + 1}: {now}")
        if any(tick >= since for tick in named):
            wrong.append("chords elsewhere")
    if constraints.key is not None:
        new_chords = [mark.chord for mark in score.chords if mark.tick >= since]
        wrong += [f"key: {chord}" for chord in new_chords if not chord.pitch_classes <= constraints.key.pitch_classes]
    return wrong


def _together(score: Score, since: int) -> int:
    """The most notes that sound at once where a note begins."""
    starts = np.unique(score.notes["start"][score.notes["start"] >= since])
    return max(
        (int(((score.notes["start"] <= tick) & (score.notes["end"] > tick)).sum()) for tick in starts.tolist()),
        default=0,
    )
