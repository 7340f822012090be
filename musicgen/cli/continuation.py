"""`musicgen continue`: continues grooves, in styles that a model has not seen, from their first bars.

Design note: this is a separate command, and not many calls of `generate`, because it prepares an experiment:
references, prompts and continuations have the same names, ready for `musicgen evaluate style`.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from musicgen.cli.command import Command
from musicgen.cli.setup import (
    PieceOptions,
    SplitName,
    is_our_page,
    make_folder,
    set_threads,
    try_sound,
)
from musicgen.errors import UserError
from musicgen.files import UNFINISHED, check_output, only_writer
from musicgen.languages.song import RENAMED_SPLITS
from musicgen.options import option, options, plain
from musicgen.request import Choosing, Length, Sampling

if TYPE_CHECKING:
    from musicgen.sampling.continuation import Continuations
    from musicgen.sampling.gallery import Gallery

ABOUT = """\
usage: musicgen continue data=DIR [key=value ...]

Takes the first bars of accompaniments in a corpus of grooves and lets a model continue them, several times each. Writes
references, prompts, continuations and pieces (prompt and continuation together, with a marker between them) to out/,
and index.html, which shows them all. Instruments, velocities and tempo are those of the prompt.

The length is bars, seconds or tokens, prompt included; 1024 tokens, as in the paper, if none is given.

{keys}

To score them: musicgen evaluate style reference=continued/references generated=continued/continuations out=scores

example: musicgen continue data=data/groove styles=10
"""
TOKENS = 1024
INTERRUPTED = 130
PAGE = "index.html"


@dataclass(frozen=True)
class _First:
    """What help shows first."""

    model: str | None = option(
        "groove-small",
        needed=True,
        like="NAME or DIR",
        help="a built-in model of grooves, or a folder from `musicgen train` or `musicgen export`",
    )
    data: Path | None = option(needed=True, like="DIR", help="a corpus of grooves from `musicgen prepare`")
    split: SplitName = option(
        "test",
        renamed=RENAMED_SPLITS,
        help="test and valid have styles that training has not seen, the seen_style splits new files of its styles",
    )
    styles: int | None = option(least=1, help="how many styles, one accompaniment of each; all if not given")
    out: Path = option(Path("continued"), help="folder for the continuations")
    overwrite: bool = option(False, help="true deletes what an earlier call left in the folder")
    prompt_bars: int = option(2, least=1, help="bars that the model is given")
    continuations: int = option(3, least=1, help="how many continuations of each prompt")


@dataclass(frozen=True)
class ContinueConfig(PieceOptions, Sampling, Length, _First):
    """The options of `musicgen continue`."""


def _foreign(out: Path) -> list[str]:
    """Names in a folder that has no page of ours; or else names of files in it that do not belong to a prompt."""
    from musicgen.sampling.continuation import PROMPTS, belongs

    names = sorted(path.name for path in out.iterdir() if not UNFINISHED.fullmatch(path.name))
    if not is_our_page(out / PAGE):
        return names
    prompts = {path.relative_to(out / PROMPTS).as_posix() for path in (out / PROMPTS).rglob("*.mid")}
    found = [path for path in sorted(out.rglob("*")) if path.is_symlink() or not path.is_dir()]
    inside = [path.relative_to(out).as_posix() for path in found]
    return [
        name
        for path, name in zip(found, inside, strict=True)
        if path.is_symlink() or not (name == PAGE or UNFINISHED.fullmatch(path.name) or belongs(name, prompts))
    ]


def run_continue(config: ContinueConfig) -> int:
    """Continue the requested grooves. The exit status says if it was interrupted."""
    inputs = (config.data, config.soundfont)
    old = check_output(config.out, "continuations", _foreign, may_replace=config.overwrite, inputs=inputs)
    return 0 if continue_grooves(config, old) else INTERRUPTED


def continue_grooves(config: ContinueConfig, old: list[Path]) -> bool:
    """Write the continuations, say where they are, and return whether they are complete.

    Raises:
        UserError: The request cannot be met; the message says why.
    """
    from musicgen.data.corpus import Corpus
    from musicgen.midi.write import write_midi
    from musicgen.runtime import keep_memory
    from musicgen.sampling import Request, load_music_model
    from musicgen.sampling.continuation import (
        CONTINUATIONS,
        PIECES,
        PROMPTS,
        REFERENCES,
        Continuations,
        choose_songs,
        first_bars,
    )
    from musicgen.sampling.gallery import Gallery, Wanted

    keep_memory()
    length = {name: getattr(config, name) for name in ("bars", "seconds", "tokens")}
    if all(value is None for value in length.values()):
        length["tokens"] = TOKENS
    sampling = {name: getattr(config, name) for name in (*options(Choosing), "grammar")}
    request = Request(**length, **sampling)
    constraints = request.constraints()
    corpus = Corpus.open(config.data or "")
    songs = choose_songs(corpus, config.split, config.styles)
    music_model = load_music_model(str(config.model), config.engine)
    language, engine = music_model.language, music_model.engine
    if not language.reads(corpus.language):
        raise UserError(
            f"model={config.model}: has {language.name} tokens, and data={config.data} has {corpus.language.name} "
            "tokens; choose a model and a corpus with the same tokens"
        )
    prompts = {name: language.prompt_of(corpus[song], song, config.prompt_bars, name) for name, song in songs.items()}
    chosen = request.sampling(music_model.sampling)
    numbers = (config.seed, config.continuations, config.draw or 0)
    continuations = Continuations(music_model, prompts, constraints, chosen, *numbers)
    try_sound(config.wav, config.soundfont)
    threads = set_threads(config.threads, music_model.model)
    settings = (
        plain(config) | asdict(chosen) | {"draw": config.draw or 0, "threads": threads, "engine": engine.engine_name}
    )

    make_folder(config.out)
    wanted = Wanted(config.picture, config.wav, config.soundfont, pieces=PIECES, continuations=CONTINUATIONS)
    gallery = Gallery(config.out, music_model, settings, continuations.name, wanted)
    gallery.notes += [f"{name}: not continued ({reason})" for name, reason in continuations.refused.items()]
    total = len(continuations.prompts) * config.continuations
    with only_writer(config.out, "out"):
        make_folder(config.out, old)
        gallery.write_page()  # marks the folder as ours, whatever stops us
        for name, prompt in continuations.prompts.items():
            whole = corpus.score(songs[name])
            for kind, score in ((PROMPTS, first_bars(whole, prompt.bars)), (REFERENCES, whole)):
                path = config.out / kind / f"{name}.mid"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_midi(score, path)
        _write(continuations, gallery, config.batch, total)
        page = gallery.write_page()
    for note in gallery.notes:
        print(f"musicgen: {note}", file=sys.stderr)
    print(f"{len(gallery.complete)} of {total} continuations: open {page}")
    return len(gallery.complete) == total


def _write(continuations: Continuations, gallery: Gallery, batch: int, total: int) -> None:
    """Write all continuations, with a progress bar. An interrupt leaves those that are complete."""
    from tqdm import tqdm

    from musicgen.sampling import Sampler

    with tqdm(total=total, unit="piece", disable=None, dynamic_ncols=True) as progress:
        shown = began = time.monotonic()
        try:
            sampler = Sampler(continuations.music_model.engine, batch)
            for tokens, step in enumerate(sampler.run(continuations.pieces()), 1):
                gallery.add(step)
                progress.update(step.is_last)
                now = time.monotonic()
                if step.is_last or now - shown > 0.5:
                    shown = now
                    progress.set_postfix_str(f"{tokens:,} tokens, {tokens / (now - began):,.0f} tokens/s")
        except KeyboardInterrupt:
            progress.write("interrupted: the continuations that are complete are kept", file=sys.stderr)
        finally:
            gallery.close()


run = Command("continue", ABOUT, ContinueConfig, run_continue)
