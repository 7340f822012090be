"""`musicgen continue`: grooves in styles that a model has not seen, continued from their first bars.

The hard choice: it is a command of its own, and not many calls of `generate`, because what it leaves is an experiment:
references, prompts and continuations under the same names, ready for `musicgen evaluate style`.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musicgen.cli.compose import configure
from musicgen.cli.generate import (
    check_folder,
    check_threads,
    is_our_page,
    make_folder,
    set_threads,
    stoppable,
    try_sound,
)
from musicgen.cli.typed import build
from musicgen.errors import UserError

if TYPE_CHECKING:
    from musicgen.sampling.continuation import Continuations
    from musicgen.sampling.page import Entry

ABOUT = """\
usage: musicgen continue data=DIR [key=value ...]

Takes the first two bars of accompaniments in a corpus of grooves and lets a model go on, three times each. Writes to
out/ references, prompts, continuations and pieces (prompt and continuation together, with a marker between), and
index.html, which shows them all. Instruments, velocities and tempo are those of the prompt.

keys:
  model=groove-small   a built-in model of grooves, or a folder that `musicgen train` or `musicgen export` made
  data=DIR             corpus that `musicgen prepare` made
  split=test           styles unseen in training (test, valid), or unseen files of seen styles (itest, ival)
  styles=10            so many styles, an accompaniment of each; all if not given
  out=continued        folder; overwrite=true throws away what an earlier call left there
  prompt_bars=2        bars that are given
  continuations=3      of each
  tokens=1024          length, prompt included; or bars=16, or seconds=30
  temperature=0.8 top_p= top_k= min_p=
                       how adventurous it is; if not given, as the model says
  grammar=false        no masks; mistakes are counted
  seed=0 draw=0        of the choices, and of the positional noise
  picture=false        no piano rolls
  wav=true             sound too; soundfont=FILE.sf2 for other instruments
  batch=16 threads=1   pieces written at once, and threads of the CPU

To score them: musicgen evaluate style reference=continued/references generated=continued/continuations out=scores

example: musicgen continue data=data/groove styles=10
"""
LITERAL = ("model", "data", "out", "soundfont")
"""Keys whose values may hold any character."""
TOKENS = 1024
INTERRUPTED = 130
MADE = (".mid", ".json", ".png", ".wav")


@dataclass(frozen=True)
class ContinueConfig:
    """What `conf/continue.yaml` holds, key by key."""

    model: str | None
    data: Path | None
    split: str
    styles: int | None
    out: Path
    overwrite: bool
    prompt_bars: int
    continuations: int
    bars: int | None
    seconds: float | None
    tokens: int | None
    seed: int
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    grammar: bool
    draw: int
    picture: bool
    wav: bool
    soundfont: Path | None
    batch: int
    threads: int | None


def run(arguments: list[str]) -> int:
    """Continue."""
    composed = configure("continue", ABOUT, arguments, LITERAL)
    if composed is None:
        return 0
    config = build(ContinueConfig, composed)
    for name in ("styles", "prompt_bars", "continuations", "batch"):
        value = getattr(config, name)
        if value is not None and value < 1:
            raise UserError(f"{name}={value}: takes 1 or more")
    for name in ("model", "data"):
        if getattr(config, name) is None:
            raise UserError(f"no {name} is given: write {name}=DIR (see `musicgen continue --help`)")
    check_threads(config.threads)
    old = check_folder(config.out, config.overwrite, _is_ours, (config.data, config.soundfont))
    with stoppable():
        return 0 if continue_grooves(config, composed, old) else INTERRUPTED


def _is_ours(path: Path) -> bool:
    """Whether something is what an earlier call may have made: the page, or a folder that holds music alone."""
    from musicgen.sampling.continuation import FOLDERS

    if path.is_symlink() or not path.is_dir():
        return is_our_page(path)
    inside = [other for other in path.rglob("*") if not other.is_dir()]
    return path.name in FOLDERS and all(other.suffix in MADE and not other.is_symlink() for other in inside)


def continue_grooves(config: ContinueConfig, composed: dict[str, Any], old: list[Path]) -> bool:
    """Make what is asked for, say where it is, and whether it is all.

    Raises:
        UserError: It cannot be done, and why.
    """
    from musicgen.data.groove_corpus import GrooveCorpus
    from musicgen.files import atomic_write
    from musicgen.midi.write import write_midi
    from musicgen.runtime import keep_memory
    from musicgen.sampling import Request, load_composer
    from musicgen.sampling.continuation import (
        PROMPTS,
        REFERENCES,
        Continuations,
        choose_songs,
        first_bars,
        read_prompts,
        reference,
    )
    from musicgen.sampling.page import page
    from musicgen.sampling.sampler import Sampler

    keep_memory()
    length = {name: getattr(config, name) for name in ("bars", "seconds", "tokens")}
    if all(value is None for value in length.values()):
        length["tokens"] = TOKENS
    taste = {name: getattr(config, name) for name in ("temperature", "top_p", "top_k", "min_p")}
    request = Request(**length, **taste, grammar=config.grammar)
    constraints = request.constraints()
    corpus = GrooveCorpus.open(config.data or "")
    songs = choose_songs(corpus, config.split, config.styles)
    composer = load_composer(str(config.model))
    dialect = composer.dialect
    if dialect.language.name != corpus.language.name:
        raise UserError(f"model={config.model}: speaks {dialect.language.name}, and the corpus {corpus.language.name}")
    sampler = Sampler(composer.model, dialect, constraints, request.taste(composer.taste), config.draw, config.batch)
    prompts = read_prompts(corpus, songs, config.prompt_bars)
    continuations = Continuations(sampler, prompts, config.seed, config.continuations)
    try_sound(config.wav, config.soundfont)
    composed |= {**asdict(sampler.taste), "threads": set_threads(config.threads, composer.model)}

    make_folder(config.out, old)
    for name, prompt in continuations.prompts.items():
        whole = reference(corpus, songs[name])
        for kind, score in ((REFERENCES, whole), (PROMPTS, first_bars(whole, prompt.bars))):
            path = config.out / kind / f"{name}.mid"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_midi(score, path)
    record = {"model": composer.name, "bundle_sha256": composer.sha256, "config": composed}
    entries = _write(continuations, config, record)
    settings = {name: "–" if value is None else str(value) for name, value in composed.items()}
    title = f"Grooves by {Path(composer.name).name or composer.name}"
    notes = [f"{name}: not continued ({reason})" for name, reason in continuations.refused.items()]
    atomic_write(config.out / "index.html", page(title, settings, entries, notes).encode())
    for note in notes:
        print(f"musicgen: {note}", file=sys.stderr)
    total = len(continuations.prompts) * config.continuations
    print(f"{len(entries)} of {total} continuations: open {config.out / 'index.html'}")
    return len(entries) == total


def _write(continuations: Continuations, config: ContinueConfig, record: dict[str, Any]) -> list[Entry]:
    """Write all continuations, with a bar that shows how far they are. An interrupt leaves those that are complete."""
    from tqdm import tqdm

    from musicgen.sampling.continuation import save
    from musicgen.sampling.gallery import entry_of

    entries: dict[str, Entry] = {}
    tokens, total = 0, len(continuations.prompts) * config.continuations
    with tqdm(total=total, unit="piece", disable=None, dynamic_ncols=True) as progress:
        shown = began = time.monotonic()
        try:
            for name, piece in continuations.run():
                tokens += 1
                if piece is not None:
                    files = save(config.out, name, piece, record, config.picture, config.wav, config.soundfont)
                    entries[name] = entry_of(piece, name, files)
                    progress.update()
                now = time.monotonic()
                if now - shown > 0.5:
                    shown = now
                    progress.set_postfix_str(f"{tokens:,} tokens, {tokens / (now - began):,.0f} tokens/s")
        except KeyboardInterrupt:
            progress.write("interrupted: the continuations that are complete are kept", file=sys.stderr)
    return [entries[name] for name in sorted(entries)]
