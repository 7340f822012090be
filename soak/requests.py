"""Attacks with requests: random options in Python and on the command line."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from random import Random
from typing import Any

from soak.cases import Fault, call, check, command, unchanged
from soak.damage import HOSTILE
from soak.inputs import check_pieces
from soak.world import SOURCES

BATCH = 20
GOOD: dict[str, tuple[Any, ...]] = {
    "seed": (0, 1, -5, 10**9, (1 << 63) - 1),
    "temperature": (0, 0.5, 1.2, 50),
    "top_p": (0.1, 0.9, 1),
    "top_k": (1, 5, 10_000),
    "min_p": (0, 0.2, 1),
    "rhythm_temperature": (0, 0.8, 3),
    "rhythm_top_p": (0.5, 1),
    "draw": (0, 7, None),
    "ending": ("cadence", "open"),
    "form": ("AA", "ABA", "a", "A-B", ""),
    "section_bars": (2, 3),
    "grammar": (True, False),
    "key": ("C", "F#m", "Bb major", "H", "Cb"),
    "pitches": ("C3-C6", "48-84", "60-60", "0-127", "84-48", "C-1-C0"),
    "polyphony": (1, 2, 4, 100),
    "tempo": (120, "90-130", 17.5, "1e3", 300),
    "chords": ("C Am F G", ["C", "G7"], "N", "Cmaj7|Bdim", "X"),
    "tracks": ("piano", "bass,drums", ["other"], "bass drums other", ()),
    "prompt_bars": (1, 2, 99),
    "fork_at": (1, 2),
    "variations": (1, 2),
}
LENGTHS: dict[str, tuple[Any, ...]] = {"bars": (1, 2, 3), "seconds": (1, 2.5), "tokens": (1, 2, 10, 60)}
NAMES = (*GOOD, *LENGTHS, "prompt", "from_state", "n", "model", "x", "")


def _request(chance: Random, world: Path) -> dict[str, Any]:
    """A short request with a few options, most of which fit."""
    length = chance.choice(list(LENGTHS))
    request = {length: chance.choice(LENGTHS[length])}
    for name in chance.sample(list(GOOD), chance.choice((0, 1, 1, 2, 3))):
        request[name] = chance.choice(GOOD[name])
    if chance.random() < 0.2:
        request["prompt"] = chance.choice([*(world / "midi").glob("*.mid"), world, world / "none", "/dev/null"])
    if chance.random() < 0.2:
        request["from_state"] = chance.choice([*sorted(world.glob("*_pieces/*.state")), world, "", "/dev/null"])
    if chance.random() < 0.7:
        name = chance.choice(NAMES)
        if name not in LENGTHS or chance.random() < 0.5:
            value = chance.choice((*HOSTILE, object(), int, b"x", {1, 2}, 1j, range(3), print))
            request[name] = value
        # A length that fits, but is long, is no fault, and would only take time.
        request = {
            name: value
            for name, value in request.items()
            if not (name in (*LENGTHS, "variations", "n") and isinstance(value, int | float) and value > 400)
        }
        if not set(LENGTHS) & set(request):
            request["tokens"] = 30
    return request


def python(chance: Random, world: Path, place: Path) -> int:
    """Requests in Python give a piece or a `UserError`."""
    from musicgen.errors import UserError
    from musicgen.sampling import load_music_model

    model = load_music_model(world / f"{chance.choice(tuple(SOURCES))}_bundle")
    for _ in range(BATCH):
        request = _request(chance, world)
        how = chance.randrange(4)
        try:
            if how == 0:
                list(model.stream(**request))
            elif how == 1:
                list(model.stream_bars(**request))
            elif how == 2:
                number: Any = chance.choice((1, 2, 1, 0, -1, None, "x", 1.5))
                list(model.generate_many(**{"n": number, **request}))
            else:
                model.generate(**request).save(place / "x.mid")
        except UserError as error:
            if "\n" in str(error):
                raise Fault(f"a reason of several lines for {request!r}: {error}") from None
        except Exception as error:
            raise Fault(f"{type(error).__name__} for {request!r}: {error}") from error
    return BATCH


def options(chance: Random, world: Path, place: Path) -> int:
    """Options of `generate` on the command line give pieces or a sentence."""
    request = {"model": world / f"{chance.choice(tuple(SOURCES))}_bundle", "n": 1, "picture": "false"}
    request |= _request(chance, world)
    words = [f"{name}={value}".replace("\0", "") for name, value in request.items() if value is not None]
    if chance.random() < 0.2:
        words.append(
            chance.choice(("states=bars", "states=x", "wav=maybe", "batch=0", "threads=-1", "--cfg", "x", "="))
        )
    with unchanged(place, "out"):
        ended = command("generate", *words, f"out={place / 'out'}")
    if not ended.status and (place / "out").is_dir():
        check_pieces(place / "out")
    if ended.status == 2 and (place / "out").exists():
        raise Fault(f"refused, and left its folder: {ended.complaint[-300:]}")
    return 1


VERBS = {
    "prepare": (
        "input",
        "out",
        "source",
        "layout",
        "splits",
        "seed",
        "workers",
        "overwrite",
        "songs",
        "bars",
        "verify",
    ),
    "render": ("input", "out", "picture", "wav", "soundfont", "synthesiser", "title"),
    "export": ("checkpoint", "out", "half", "temperature", "top_p"),
    "describe": ("model", "length"),
    "continue": ("model", "data", "split", "styles", "out", "prompt_bars", "continuations", "bars"),
    "evaluate nll": ("model", "data", "out", "split", "songs", "draws", "seed", "batch"),
    "evaluate pe": ("model", "out", "draws", "seed"),
    "report": ("model", "data", "out", "split", "sections", "songs", "pieces"),
    "train": (
        "experiment",
        "run_dir",
        "data.folder",
        "seed",
        "resume",
        "trainer.max_steps",
        "model.d_model",
        "pe.name",
    ),
}


def verbs(chance: Random, world: Path, place: Path) -> int:
    """Every verb with hostile values of its options ends with a sentence, and touches nothing."""
    strange = [str(value) for value in HOSTILE if value is not None and "\0" not in str(value)]
    paths = [str(world), str(world / "midi"), str(world / "pop_bundle"), str(world / "none"), "/dev/null", "/proc"]
    place.joinpath("mine").write_text("mine")
    for _ in range(BATCH):
        verb = chance.choice(list(VERBS))
        names = chance.sample(VERBS[verb], min(chance.randrange(1, 4), len(VERBS[verb])))
        words = [f"{name}={chance.choice((*strange, *paths))}" for name in names]
        words = [word for word in words if not word.startswith(("out=", "run_dir="))]
        key = "run_dir" if verb == "train" else "out"
        out = f"{key}={place / 'mine'}"  # a file: nothing can be made there, whatever else is right
        with unchanged(place), contextlib.redirect_stdout(io.StringIO()):
            ended = check(call(*verb.split(), *words, *([] if verb == "describe" else [out])))
        if ended.status == 2 and "Error" in ended.complaint.split(":")[0]:
            raise Fault(ended.complaint[-300:])
    return BATCH
