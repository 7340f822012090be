"""Random sequences with gaps for tests: pieces from which bars were taken out, and walks through the grammar."""

from __future__ import annotations

import numpy as np
from pieces import EXTENDED as PIANO
from pieces import random_piece
from trios import FEW, random_groove

from musicgen.languages import Tokens
from musicgen.languages.groove.extended import GrooveExtended
from musicgen.languages.infill import Gap

EXTENDED = GrooveExtended()


def bars_of(tokens: Tokens) -> int:
    """Bars of a piece, the last of which may end before its bar line."""
    return int(EXTENDED.complete_bars(tokens)[-1]) + 1


def random_gaps(seed: int, bars: int) -> tuple[Gap, ...]:
    """Gaps anywhere: at the beginning, at the end, one after the other, of one part or of all."""
    random = np.random.default_rng(seed)
    gaps, first = list[Gap](), int(random.integers(2))
    while first < bars and len(gaps) < 4:
        size = int(random.integers(1, min(3, bars - first), endpoint=True))
        gaps.append(Gap(first, size, ["", "", "bass", "drums", "other"][random.integers(5)]))
        first += size + int(random.integers(3))
    return tuple(gaps) or (Gap(0, 1),)


def gapped_groove(seed: int, length: int) -> Tokens:
    """A random piece from which bars were taken out."""
    piece = random_groove(seed, length)
    return EXTENDED.infill.take_out(piece, random_gaps(seed, bars_of(piece)))


def gapped_walk(seed: int, length: int) -> Tokens:
    """A walk through the grammar that has gaps, and ends soon after they are filled."""
    random, words, state = np.random.default_rng(seed), EXTENDED.vocabulary, EXTENDED.grammar.start()
    tokens, wanted = list[int](), int(random.integers(1, 4))
    ends = [words.number(family) for family in ("Fill", "EOS", "NoteOff", "Shift")]
    while not state.is_complete:
        allowed = np.flatnonzero(state.mask())
        assert len(allowed), words.to_names(tokens)
        families = np.unique(words.family[allowed])
        gaps = len(state.counters.gaps)
        if len(tokens) > length * (1 + 2 * state.counters.answered) and gaps >= wanted:
            choice = next((family for family in ends if family in families), families[0])
        else:
            rest = families[~np.isin(families, ends[:2])] if gaps < wanted or random.random() < 0.9 else families
            rest = rest if len(rest) else families
            gap = [family for family in rest if words.families[family] in ("Part", "Gap")]
            choice = random.choice(gap) if gap and gaps < wanted and random.random() < 0.5 else random.choice(rest)
        options = allowed[words.family[allowed] == choice]
        few = options[np.isin(words.value[options], FEW)] if words.families[choice][:4] == "Note" else options[-1:]
        token = int(random.choice(few if len(few) and random.random() < 0.6 else options))
        assert state.advance(token)
        tokens.append(token)
        if len(tokens) > 4000:
            raise AssertionError("the walk does not end")
    return np.array(tokens, np.uint16)


def gapped_piece(seed: int, length: int) -> Tokens:
    """A random piece of pop piano from which bars were taken out, where its metres allow it."""
    piece = random_piece(seed, length, PIANO)
    gaps = piano_gaps(seed, int(PIANO.complete_bars(piece)[-1]))
    kept = tuple(gap for gap in gaps if PIANO.infill.can_take_out(piece, [gap])) or (Gap(0, 1),)
    return PIANO.infill.take_out(piece, kept)


def piano_gaps(seed: int, bars: int) -> tuple[Gap, ...]:
    """Gaps anywhere, with a bar between two of them."""
    random = np.random.default_rng(seed)
    gaps, first = list[Gap](), int(random.integers(2))
    while first < bars and len(gaps) < 4:
        size = int(random.integers(1, min(3, bars - first), endpoint=True))
        gaps.append(Gap(first, size))
        first += size + 1 + int(random.integers(3))
    return tuple(gaps) or (Gap(0, 1),)


def piano_walk(seed: int, length: int) -> Tokens:
    """A walk through the grammar of pop piano that has gaps, and ends soon after they are filled."""
    random, words, state = np.random.default_rng(seed), PIANO.vocabulary, PIANO.grammar.start()
    tokens, wanted = list[int](), int(random.integers(1, 4))
    bar, gap, fill, end = (words.number(family) for family in ("Bar", "Gap", "Fill", "EOS"))
    while not state.is_complete:
        allowed = np.flatnonzero(state.mask())
        assert len(allowed), words.to_names(tokens[-20:])
        families = np.unique(words.family[allowed])
        place = state.counters
        plain = [family for family in families if family not in (gap, fill, end)]
        if gap in families and len(place.gaps) < wanted and random.random() < 0.5:
            choice = gap
        elif place.answered and end in families:
            choice = end
        elif fill in families and (place.answered or len(tokens) > length or random.random() < 0.1):
            choice = fill
        else:
            choice = bar if bar in families and random.random() < 0.25 else random.choice(plain)
        options = allowed[words.family[allowed] == choice]
        token = int(random.choice(options if random.random() < 0.5 else options[:4]))
        assert state.advance(token)
        tokens.append(token)
        assert len(tokens) < 20_000, "the walk does not end"
    return np.array(tokens, np.uint16)
