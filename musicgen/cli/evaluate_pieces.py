"""`musicgen evaluate music`, `novelty` and `style`: generated music, compared with real music.

Design note: the reference of `music` says how music is counted. If it is a prepared corpus, generated pieces are first
moved to the nearest notes that its tokens can express, so that no difference comes from a grid. Files are compared
unchanged. In a prepared corpus, `novelty` compares pieces with the training songs, and the held-out songs are the
yardstick: one key is enough, and nobody compares a model with the wrong songs. A file that cannot be used is a line in
the report, not an error: folders of music often have such files. If nothing can be compared, that is an error and
nothing is written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from musicgen.cli.evaluate import Evaluation, kind, parse_paths
from musicgen.cli.setup import progress
from musicgen.languages.song import RENAMED_SPLITS
from musicgen.options import option

if TYPE_CHECKING:
    from musicgen.evaluation.report.findings import Findings

ABOUT_MUSIC = """\
usage: musicgen evaluate music generated=FILE|DIR reference=FILE|DIR|PREPARED out=DIR [key=value ...]

Compares generated music with real music by muspy's metrics (pitches, entropies, scale, polyphony, empty beats, drums,
groove) and others: groove similarity of all bars, notes per bar, durations, repeated bars, how similar bars are at each
distance, and how many tokens break the grammar, as recorded by `musicgen generate` next to its pieces.

It also looks at what makes music a piece: how much bars take up from earlier bars, chords and the notes in them, the
bass against the other instruments, how pieces end, and, after a prompt, jumps of density and tempo and drums that keep
their pattern.

Each metric has its distribution over the pieces of both sets; the overlap of the two, from 0 to 1; the overlap of two
parts of the reference, which is what a perfect model would get; and Cliff's delta, which says in which direction they
differ. Notes before the marker "Continuation", which `musicgen generate` writes at the end of a prompt, count only for
what happens there; songs without a prompt are divided after as many bars. Files that tokens cannot say or that cannot
be read are left out and named.

{keys}

example: musicgen evaluate music generated=pieces reference=corpus out=music
"""


@dataclass(frozen=True)
class _MusicSets:
    """What is compared."""

    generated: str | None = option(
        needed=True, like="FILE or DIR", help="generated music; DIR,DIR for several sets, for example one per model"
    )
    reference: Path | None = option(
        needed=True, like="FILE, DIR or PREPARED", help="real music: MIDI files, or a corpus from `musicgen prepare`"
    )
    split: Literal["held_out", "train", "valid", "test", "seen_style_valid", "seen_style_test", "all"] = option(
        "held_out", renamed=RENAMED_SPLITS, help="which songs of a prepared reference; held_out is valid and test"
    )


@dataclass(frozen=True)
class MusicConfig(Evaluation, _MusicSets):
    """The options of `musicgen evaluate music`."""

    bars: int | None = option(
        least=1, most=2048, help="only the first N bars of a piece count; if not given, the smallest median of all sets"
    )
    listen: int = option(
        0, least=0, most=64, help="put N pieces of each set and N real songs on listen.html: sound, piano roll, numbers"
    )
    seed: int = option(0, least=0, help="seed of the two parts of the reference, and of the intervals")


@kind(ABOUT_MUSIC, MusicConfig)
def music(config: MusicConfig) -> Findings:
    """Statistics of generated music, compared with real music."""
    from musicgen.evaluation.music.songs import gather
    from musicgen.evaluation.music.statistics_findings import REFERENCE, music_findings

    read = partial(gather, progress=progress, trios=True)
    places = parse_paths(config.generated or "", "generated", REFERENCE)
    generated = {name: read(place, "generated", "all") for name, place in places.items()}
    real = read(config.reference or Path(), "reference", config.split)
    return music_findings(generated, real, config.bars, config.seed, progress, config.listen)


ABOUT_NOVELTY = """\
usage: musicgen evaluate novelty generated=FILE|DIR data=PREPARED|DIR out=DIR [key=value ...]

Searches the songs that a model was trained on for passages of generated music. For each piece it gives the longest
shared passage, in notes, with the song and the bars of both, and the share of notes that are in such passages. The same
is done with real songs that were held out, because unrelated songs share passages too. What a model copied is what goes
beyond that.

Notes are compared by onset and pitch, from each note to the next, whatever the transposition and the tempo; passages in
notes of twice or half the length are found as well. Durations, velocities and drums do not count. The top notes, which
are the melody, are also searched alone. In grooves each instrument is compared alone, in other music all together.
Notes before the marker "Continuation" do not count: `musicgen generate` writes it at the end of a prompt.

{keys}

example: musicgen evaluate novelty generated=pieces data=corpus out=novelty
"""


@dataclass(frozen=True)
class _NoveltySets:
    """What is compared."""

    generated: str | None = option(
        needed=True, like="FILE or DIR", help="generated music; DIR,DIR for several sets, for example one per model"
    )
    data: Path | None = option(
        needed=True,
        like="PREPARED or DIR",
        aliases=("training",),
        help="what the model was trained on: a corpus from `musicgen prepare`, of which the training songs count, "
        "or a folder of MIDI files",
    )
    held_out: Path | None = option(
        like="DIR", help="real songs for comparison; if not given, those that a prepared corpus holds out"
    )


@dataclass(frozen=True)
class NoveltyConfig(Evaluation, _NoveltySets):
    """The options of `musicgen evaluate novelty`."""

    shortest: int = option(16, least=2, help="notes of the shortest passage that counts for the share")


@kind(ABOUT_NOVELTY, NoveltyConfig)
def novelty(config: NoveltyConfig) -> Findings:
    """The longest passages that generated music shares with a corpus."""
    from musicgen.evaluation.music.novelty_findings import HELD_OUT, novelty_findings
    from musicgen.evaluation.music.songs import gather, has_split, is_prepared

    read, data = partial(gather, progress=progress), config.data or Path()
    places = parse_paths(config.generated or "", "generated", HELD_OUT)
    generated = {name: read(place, "generated", "all") for name, place in places.items()}
    songs = read(data, "data", "train")
    held_out = None
    if config.held_out is not None:
        held_out = read(config.held_out, "held_out", "held_out")
    elif is_prepared(data) and has_split(data, "held_out"):
        held_out = read(data, "data", "held_out")
    return novelty_findings(generated, songs, held_out, config.shortest)


ABOUT_STYLE = """\
usage: musicgen evaluate style reference=FILE|DIR generated=FILE|DIR[,...] out=DIR [key=value ...]

Measures how similar generated music is to the style of the references that it continues. It gives cosine similarities,
from 0 to 1, of which notes follow which (time-pitch), where in the bar notes begin and how long they last
(onset-duration), and where drums are hit (onset-drum), for each quarter of the continuations. There are two yardsticks:
the ceiling is the similarity of the two halves of a reference, the floor is that to a reference in another style.

X.mid among the references is continued by X.mid, X.cont_0.mid, X_piece_0.mid, X/piece_0.mid and so on among the
generated files; several continuations are counted together. Notes before the marker "Continuation" do not count:
`musicgen generate` writes it at the end of a prompt. A track is the bass, the drums or another instrument if the track
with the same name and program is that in the reference. Music is taken to be in 4/4; files that are not are named.

{keys}

example: musicgen evaluate style reference=test_pieces generated=continued out=style
"""


@dataclass(frozen=True)
class _StyleSets:
    """What is compared."""

    reference: Path | None = option(
        needed=True, like="FILE or DIR", help="music in the style; one file is the reference of everything"
    )
    generated: str | None = option(
        needed=True, like="FILE or DIR", help="continuations; DIR,DIR for several sets, for example one per model"
    )


@dataclass(frozen=True)
class StyleConfig(Evaluation, _StyleSets):
    """The options of `musicgen evaluate style`."""

    published: bool = option(
        False,
        help="true counts as the paper's published code does, mistakes included, to compare with its figures "
        "(but without the rounding of its bins, see docs/evaluation.md)",
    )
    seed: int = option(0, least=0, help="seed of the choice of other styles, and of the intervals")


@kind(ABOUT_STYLE, StyleConfig)
def style(config: StyleConfig) -> Findings:
    """How similar continuations are to the style of their references."""
    from musicgen.evaluation.style.comparison import compare, match
    from musicgen.evaluation.style.findings import findings

    results = {}
    for name, path in parse_paths(config.generated or "", "generated").items():
        matches = match(config.reference or Path(), path)
        files = len(matches.groups) + sum(map(len, matches.groups.values()))
        workers = min(os.cpu_count() or 1, files)
        results[name] = compare(matches, config.published, config.seed, workers, progress)
    return findings(results, config.seed)
