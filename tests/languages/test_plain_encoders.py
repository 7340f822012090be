from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from pieces import REMI

from benchmarks.plain_remi import encode_plainly
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import Score, read_midi, write_midi


def performed(seed: int) -> Score:
    """A composed piece, played by somebody: off the grid, too loud, with doublings."""
    random = np.random.default_rng(seed)
    score = compose(seed, 12)
    notes = np.concatenate([score.notes, score.notes[:20]])
    notes["start"] = np.maximum(notes["start"] + random.integers(-50, 50, len(notes)), 0)
    notes["end"] = notes["start"] + random.integers(1, 2500, len(notes))
    notes["velocity"] = random.integers(20, 40 + 80 * (seed % 2), len(notes))
    return score.replace(notes=notes)


@pytest.mark.parametrize("seed", range(12))
def test_sorting_columns_writes_what_a_loop_over_notes_writes(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "piece.mid"
    write_midi(performed(seed), path)
    assert REMI.encode(read_midi(path)).tokens.tolist() == encode_plainly(path)


def test_so_it_does_on_real_files(real_data: Callable[[str], Path]) -> None:
    for path in islice(sorted(real_data("pop1k7").rglob("*.mid")), 0, None, 101):
        assert REMI.encode(read_midi(path)).tokens.tolist() == encode_plainly(path)
