"""Attacks with files: damaged MIDI, bundles, states, corpora, checkpoints and records."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from soak.cases import Ended, Fault, call, check, command, unchanged
from soak.damage import damage_bytes, damage_json, damage_lines, damage_midi, damage_tensors
from soak.world import SOURCES, training

BATCH = 250
"""Damaged files in one folder."""


def midi_sources(world: Path) -> list[bytes]:
    """The MIDI files that are damaged."""
    return [path.read_bytes() for path in sorted((world / "midi").glob("*.mid"))]


def prepare_folder(chance: Random, world: Path, place: Path) -> int:
    """A folder of damaged files: each has its line in the index, and the corpus can be opened and verified."""
    from musicgen.data.corpus import Corpus

    sources, folder = midi_sources(world), place / "in"
    folder.mkdir()
    for number in range(BATCH):
        name = f"{number:03d}{chance.choice(('.mid', '.midi', '.MID', '.kar'))}"
        (folder / name).write_bytes(damage_midi(chance.choice(sources), chance))
    (folder / "good.mid").write_bytes(sources[0])
    (folder / "good.a.mid").write_bytes(sources[-1])
    _strange_files(folder)
    expected = {path.name for path in folder.iterdir()}
    source = chance.choice(("pop_piano", "groove"))
    out = place / "out"
    with unchanged(place, "out"):
        ended = command("prepare", f"input={folder}", f"out={out}", f"source={source}", "workers=1")
    if ended.status:
        if out.exists():
            raise Fault("prepare failed and left its folder")
        raise Fault(f"prepare could not keep a good file: {ended.complaint[-500:]}")
    corpus = Corpus.open(out)
    if {song.path for song in corpus.index} != expected or len(corpus.index) != len(expected):
        raise Fault("not every file has its line in the index")
    if chance.random() < 0.2:
        ended = command("prepare", f"verify={out}", f"input={folder}", "workers=1")
        if ended.status:
            raise Fault(f"a prepared corpus is not sound: {ended.complaint[-500:]}")
    return BATCH


def _strange_files(folder: Path) -> None:
    """Things that are called like MIDI files: a pipe, a socket, a dangling link, a folder, a device."""
    os.mkfifo(folder / "pipe.mid")
    (folder / "dangling.mid").symlink_to("nowhere")
    (folder / "folder.mid").mkdir()
    (folder / "device.mid").symlink_to("/dev/zero")
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
        os.chdir(folder)  # the name of a socket has at most 108 characters
        server.bind("socket.mid")
    os.chdir(here)


def read_files(chance: Random, world: Path, place: Path) -> int:
    """Damaged files, read one by one, are music that MIDI can express, or have a reason."""
    from musicgen.midi.read import MidiError, read_midi
    from musicgen.midi.score import fault_of
    from musicgen.midi.write import midi_bytes

    sources, path = midi_sources(world), place / "x.mid"
    for _ in range(BATCH):
        path.write_bytes(damage_midi(chance.choice(sources), chance))
        try:
            score = read_midi(path)
        except MidiError:
            continue
        if fault := fault_of(score):
            raise Fault(f"read, but {fault}")
        if chance.random() < 0.05:
            _check_midi(midi_bytes(score))
    return BATCH


def _check_midi(data: bytes) -> None:
    """Check with another program that bytes are a MIDI file."""
    import io

    import mido

    try:
        mido.MidiFile(file=io.BytesIO(data))
    except Exception as error:
        raise Fault(f"mido cannot read what was written: {error}") from None


def check_pieces(out: Path) -> None:
    """Check that every MIDI file in a folder is one, and has its record."""
    for path in out.glob("*.mid"):
        _check_midi(path.read_bytes())
        record = json.loads(path.with_suffix(".json").read_text())
        if "bundle_sha256" not in record:
            raise Fault(f"{path.name} has no record")


def prompt_file(chance: Random, world: Path, place: Path) -> int:
    """A damaged file as a prompt is continued or refused."""
    path = place / "prompt.mid"
    path.write_bytes(damage_midi(chance.choice(midi_sources(world)), chance))
    with unchanged(place, "out"):
        _generate(world, place, chance, f"prompt={path}", "prompt_bars=1")
    return 1


def render_file(chance: Random, world: Path, place: Path) -> int:
    """A damaged file is drawn, or refused."""
    path = place / "x.mid"
    path.write_bytes(damage_midi(chance.choice(midi_sources(world)), chance))
    with unchanged(place, "out"):
        ended = command("render", str(path), f"out={place / 'out'}", "wav=false")
    if (ended.status == 0) != (place / "out" / "x.png").is_file():
        raise Fault("render says one thing and does another")
    return 1


def evaluate_files(chance: Random, world: Path, place: Path) -> int:
    """A folder of damaged files, one of them good, is compared with real music."""
    sources, folder = midi_sources(world), place / "in"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.mid").write_bytes(damage_midi(chance.choice(sources), chance))
    (folder / "good.mid").write_bytes(sources[-1])
    with unchanged(place, "out"):
        command("evaluate", "music", f"generated={folder}", f"reference={world / 'midi'}", f"out={place / 'out'}")
    return 20


def _generate(world: Path, place: Path, chance: Random, *more: str, kind: str = "", model: Path | None = None) -> Ended:
    """Write a short piece, and check what it left."""
    kind = kind or chance.choice(tuple(SOURCES))
    folder = model or world / f"{kind}_bundle"
    length = () if any(word.startswith("tokens=") for word in more) else ("tokens=60",)
    ended = command("generate", f"model={folder}", "n=1", "picture=false", *length, *more, f"out={place / 'out'}")
    if ended.status and (place / "out").exists():
        raise Fault(f"generate failed and left its folder: {ended.complaint[-300:]}")
    if not ended.status:
        check_pieces(place / "out")
    return ended


def _replace_by_no_file(path: Path, chance: Random) -> None:
    """A pipe, a folder, a dangling link, a device or nothing in the place of a file."""
    path.unlink()
    match chance.randrange(5):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to("nowhere")
        case 3:
            path.symlink_to("/dev/zero")
        case _:
            pass


Damage = Callable[[Path, Random], None]


def _by_text(damage: Callable[[str, Random], bytes]) -> Damage:
    return lambda path, chance: void(path.write_bytes(damage(path.read_text("utf-8"), chance)))


def _by_bytes(damage: Callable[[bytes, Random], bytes]) -> Damage:
    return lambda path, chance: void(path.write_bytes(damage(path.read_bytes(), chance)))


def void(_: Any) -> None:
    """Nothing."""


def _damage_one(folder: Path, chance: Random, kinds: dict[str, Damage]) -> None:
    """Damage one file of a folder in one way."""
    name = chance.choice([name for name in kinds if (folder / name).is_file()])
    if chance.random() < 0.08:
        _replace_by_no_file(folder / name, chance)
    else:
        kinds[name](folder / name, chance)


def _resign(folder: Path) -> None:
    """Make the hash in a bundle right again, so that the damage is not noticed by it."""
    from musicgen.inputs import hash_file, read_regular

    with contextlib.suppress(ValueError, OSError, TypeError, AttributeError, RecursionError):
        description = json.loads(read_regular(folder / "config.json"))
        description["sha256"] = hash_file(folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(description))


BUNDLE: dict[str, Damage] = {
    "config.json": _by_text(damage_json),
    "tokenizer.json": _by_text(damage_json),
    "model.safetensors": _by_bytes(damage_tensors),
}


def bundle(chance: Random, world: Path, place: Path) -> int:
    """A damaged bundle writes music or is refused."""
    kind = chance.choice(tuple(SOURCES))
    shutil.copytree(world / f"{kind}_bundle", place / "bundle")
    _damage_one(place / "bundle", chance, BUNDLE)
    if chance.random() < 0.8:
        _resign(place / "bundle")
    with unchanged(place, "out"):
        _generate(world, place, chance, model=place / "bundle")
    return 1


def state(chance: Random, world: Path, place: Path) -> int:
    """A damaged state is continued or refused."""
    kind = chance.choice(tuple(SOURCES))
    source = chance.choice(sorted((world / f"{kind}_pieces").glob("*.state")))
    shutil.copy(source, place / "x.state")
    _damage_one(place, chance, {"x.state": _by_bytes(damage_tensors)})
    with unchanged(place, "out"):
        _generate(world, place, chance, f"from_state={place / 'x.state'}", "tokens=150", kind=kind)
    return 1


def _damage_array(path: Path, chance: Random) -> None:
    """Damage the header of an array, or its numbers."""
    data = bytearray(path.read_bytes())
    start = 10 + int.from_bytes(data[8:10], "little")
    match chance.randrange(4):
        case 0:
            path.write_bytes(damage_bytes(bytes(data), chance))
        case 1:
            text = data[10:start].decode("latin-1")
            sizes = ("10" * 20, "-1", "0", "1e9", "None", "(" * 500, "__import__('os')")
            path.write_bytes(bytes(data[:10]) + text.replace("shape': (", f"shape': ({chance.choice(sizes)},").encode())
        case _:
            for _ in range(chance.choice((1, 5, 100))):
                place = chance.randrange(start, len(data))
                data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            path.write_bytes(bytes(data))


CORPUS: dict[str, Damage] = {
    "corpus.json": _by_text(damage_json),
    "index.jsonl": _by_text(damage_lines),
    "tokenizer.json": _by_text(damage_json),
    "tokens.npy": _damage_array,
    "notes.npy": _damage_array,
}


def corpus(chance: Random, world: Path, place: Path) -> int:
    """A damaged corpus is evaluated on, trained on, continued or verified, or refused."""
    kind = chance.choice(tuple(SOURCES))
    folder, out, model = place / "corpus", f"out={place / 'out'}", f"model={world / f'{kind}_bundle'}"
    shutil.copytree(world / f"{kind}_corpus", folder)
    _damage_one(folder, chance, CORPUS)
    with unchanged(place, "out"):
        match chance.randrange(10):
            case 0:
                command("prepare", f"verify={folder}", f"input={world / 'midi'}", "workers=1")
            case 1 | 2 | 3:
                data = ("data.source=corpus", f"data.folder={folder}", "trainer.max_steps=1")
                command(*training(kind, place / "out", *data))
            case 4 | 5 if kind == "groove":
                few = ("split=train", "styles=1", "continuations=1", "prompt_bars=1", "bars=2", "picture=false")
                command("continue", model, f"data={folder}", *few, out)
            case _:
                command("evaluate", "nll", model, f"data={folder}", "split=train", "songs=2", "draws=1", out)
    return 1


def _damage_checkpoint(path: Path, chance: Random) -> None:
    import torch

    if chance.random() < 0.25:
        path.write_bytes(damage_bytes(path.read_bytes(), chance))
        return
    content = torch.load(path, weights_only=True)
    _damage_parts(content, chance)
    torch.save(content, path)


def _damage_parts(content: Any, chance: Random) -> None:
    """Change a few parts of a checkpoint, in place."""
    import torch

    from soak.damage import HOSTILE

    for _ in range(chance.choice((1, 1, 2))):
        here: Any = content
        if chance.random() < 0.6:
            here = content[chance.choice(("musicgen", "state_dict"))]
        while True:
            key = chance.choice(list(here) if isinstance(here, dict) else range(len(here)))
            if isinstance(here[key], dict | list) and here[key] and chance.random() < 0.75:
                here = here[key]
                continue
            break
        value = here[key]
        if isinstance(value, torch.Tensor):
            strange = (value * float("nan"), value.double(), value[:0], torch.zeros(3), value.int(), value.half())
            here[key] = chance.choice((*strange, None, 3))
        elif chance.random() < 0.3 and isinstance(here, dict):
            del here[key]
            if chance.random() < 0.3:
                here[chance.choice((7, "x", None))] = value
        else:
            here[key] = chance.choice(HOSTILE)


def checkpoint(chance: Random, world: Path, place: Path) -> int:
    """A damaged checkpoint is exported or resumed from, or refused."""
    folder = place / "run"
    shutil.copytree(world / "pop_run", folder)
    name = chance.choice(("best.ckpt", "last.ckpt"))
    if chance.random() < 0.08:
        _replace_by_no_file(folder / "checkpoints" / name, chance)
    else:
        _damage_checkpoint(folder / "checkpoints" / name, chance)
    if chance.random() < 0.6:
        with unchanged(place, "out"):
            ended = command("export", f"checkpoint={folder / 'checkpoints' / name}", f"out={place / 'out'}")
        if ended.status and (place / "out").exists():
            raise Fault("export failed and left its folder")
        if not ended.status:
            check(call("generate", f"model={place / 'out'}", "n=1", "bars=1", f"out={place / 'out' / 'x'}"))
    else:
        with unchanged(place, "run"):
            more = ("trainer.max_steps=10", "resume=auto") if chance.random() < 0.3 else ("resume=auto",)
            command(*training("pop", folder, *more))
    return 1


RECORDS: dict[str, Damage] = {
    "pop_run/config.json": _by_text(damage_json),
    "pop_run/metrics.csv": _by_bytes(damage_bytes),
    "pop_pieces/piece_0.json": _by_text(damage_json),
    "pop_pieces/index.html": _by_bytes(damage_bytes),
    "evaluation/music.json": _by_text(damage_json),
    "pop_corpus/corpus.json": _by_text(damage_json),
    "pop_bundle/config.json": _by_text(damage_json),
}


def record(chance: Random, world: Path, place: Path) -> int:
    """A folder whose record is damaged is recognised as ours and replaced, or not touched at all."""
    name = chance.choice(list(RECORDS))
    folder = place / name.split("/")[0]
    shutil.copytree(world / folder.name, folder)
    _damage_one(place, chance, {name: RECORDS[name]})
    pieces = ["generate", f"model={world / 'pop_bundle'}", "n=1", "bars=1", "picture=false"]
    commands = {
        "pop_run": training("pop", folder, chance.choice(("resume=auto", "overwrite=true"))),
        "pop_pieces": [*pieces, f"out={folder}", "overwrite=true"],
        "pop_corpus": ["prepare", "source=synthetic", "songs=4", "bars=4", f"out={folder}", "overwrite=true"],
        "pop_bundle": ["export", f"checkpoint={world / 'pop_run'}", f"out={folder}"],
        "evaluation": [
            *("evaluate", "music", f"generated={world / 'pop_pieces'}", f"reference={world / 'midi'}"),
            *(f"out={folder}", "overwrite=true"),
        ],
    }
    with unchanged(place, folder.name):
        before = sorted(folder.rglob("*"))
        ended = command(*commands[folder.name])
        if ended.status == 2 and sorted(folder.rglob("*")) != before and folder.name != "pop_run":
            raise Fault(f"refused, and changed: {ended.complaint[-300:]}")
    return 1
