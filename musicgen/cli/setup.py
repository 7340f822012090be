"""What several commands need before they write music or measure it: options, threads, sound, folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from musicgen.errors import UserError
from musicgen.inputs import is_document, open_regular
from musicgen.options import option

if TYPE_CHECKING:
    from musicgen.model import PerformerLM

T = TypeVar("T")
LARGE = 20_000_000
"""A model with at least this many parameters uses several threads."""
SplitName = Literal["train", "valid", "test", "seen_style_valid", "seen_style_test"]


@dataclass(frozen=True)
class PieceOptions:
    """Which files each piece gets, and how the machine is used."""

    picture: bool = option(True, help="draws each piece as a piano roll (.png)")
    wav: bool = option(False, help="renders the sound of each piece (.wav)")
    soundfont: Path | None = option(
        like="FILE.sf2", help="sounds of the instruments (with wav=true); a small soundfont is built in"
    )
    batch: int = option(16, least=1, help="pieces that are written at the same time")
    engine: Literal["auto", "torch", "onnx"] = option(
        "auto",
        help="what runs the model: torch; onnx, which is faster on a CPU; or the fastest that can run it here. "
        "They round differently and may give another piece",
    )
    threads: int | None = option(
        least=1,
        most=1024,
        help="threads of the CPU: 1 for small models and all for large ones if not given. "
        "Another number of threads may round differently and give another piece",
    )


def set_threads(threads: int | None, model: PerformerLM) -> int:
    """Set the number of threads and return it.

    Rounding depends on it, and a seed has to give the same piece in every call. So it is not measured, and it does not
    depend on how many pieces there are: a model that fits into a cache gets one thread, a larger one gets all.
    """
    import torch

    chosen = threads or (1 if model.num_parameters() < LARGE else os.cpu_count() or 1)
    torch.set_num_threads(chosen)
    return chosen


def try_sound(wav: bool, soundfont: Path | None) -> None:
    """Render one note if sound is requested, to find an unusable soundfont before a piece is written."""
    if not wav and soundfont is not None:
        raise UserError(f"soundfont={soundfont}: is for sound; add wav=true")
    if not wav:
        return
    from musicgen.midi.score import Score, make_notes
    from musicgen.midi.sound import render_wav

    render_wav(Score(480, make_notes([0], [10], [60], 64)), soundfont)


def is_our_page(path: Path) -> bool:
    """Whether a file is a page that musicgen wrote."""
    from musicgen.web import SIGNATURE

    try:
        with open_regular(path) as file:
            return path.name == "index.html" and SIGNATURE.encode() in file.read(4000)
    except OSError:
        return False


def is_record(path: Path) -> bool:
    """Whether a file is the record of a piece that musicgen wrote."""
    return is_document(path, {"model": str, "bundle_sha256": str, "language": str, "config": dict})


def is_state(path: Path) -> bool:
    """Whether a file is the state of a piece that musicgen wrote."""
    from musicgen.sampling.bookmark import is_bookmark

    return is_bookmark(path)


def make_folder(out: Path, old: Iterable[Path] = ()) -> None:
    """Make a folder and delete what an earlier call left there. The folder itself stays: it may be a link."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path in old:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise UserError(f"out={out}: cannot be made there ({error.strerror}); choose another folder") from None


def progress(items: Iterable[T], total: int, unit: str) -> Iterable[T]:
    """The same items, with a progress bar if standard error is a terminal."""
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, total=total, unit=unit, disable=None)
    return bar
