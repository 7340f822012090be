"""`musicgen evaluate nll`, `realizations`, `pe`, `attention` and `resources`: what models can do, and what they cost.

Design note: songs and draws of noise are those of validation in training. So the loss at trained positions is
`val/loss` of the run, and what is new lies beyond the trained length. Positions are chosen in proportion to the length
that a model was trained on, so models of any size are measured as the paper measured its own. For resources, a config
is measured, not a trained model, so that the cost is known before training; for a bundle, its config is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from musicgen.cli.evaluate import Evaluation, Models, Songs, kind
from musicgen.cli.setup import progress
from musicgen.errors import UserError
from musicgen.evaluation.encoding.attention_options import AttentionOptions
from musicgen.options import option

if TYPE_CHECKING:
    from musicgen.data.corpus import Corpus
    from musicgen.evaluation.models import EvaluatedModel
    from musicgen.evaluation.report.findings import Findings
    from musicgen.evaluation.resources import Subject
    from musicgen.languages import Tokens

ABOUT_NLL = """\
usage: musicgen evaluate nll model=NAME|DIR[,...] data=DIR out=DIR [key=value ...]

Measures how well models predict the next token of songs at each position, also far beyond the length that they were
trained on. For comparison, the same tokens are predicted in a restarted window: it begins again at a bar line and is
never longer than a training window. Where the restarted window is better, more context does harm. Models that differ
only in their seed are one curve.

{keys}

example: musicgen evaluate nll model=runs/ape,runs/sine data=corpus out=nll
"""


@dataclass(frozen=True)
class NllConfig(Evaluation, Songs):
    """The options of `musicgen evaluate nll`."""

    length: int | None = option(
        least=1, help="tokens of each song to predict, any number; 4 times the trained length if not given"
    )
    trained: int | None = option(least=1, help="tokens of a training window, for bundles that do not say it")
    bin: int | None = option(
        least=1, help="positions in a point of the curve; if not given, 32 or a sixteenth of a long trained length"
    )


@kind(ABOUT_NLL, NllConfig)
def nll(config: NllConfig) -> Findings:
    """The loss of models at each position, at any length."""
    from musicgen.evaluation.likelihood.position_findings import nll_findings
    from musicgen.evaluation.likelihood.positions import Targets, score_positions
    from musicgen.evaluation.models import group_by_seed, strangers, window_of

    models, corpus, pieces, seeds = _load(config)
    named = group_by_seed(models)
    longest = max(window_of(members[0], config.trained) for members in named.values())
    targets = Targets.of(pieces, config.length or 4 * longest, corpus.language)
    losses = score_positions(named, targets, config.trained, seeds, config.batch, progress)
    found = nll_findings(losses, targets, config.bin, config.seed)
    return replace(found, summary=[*found.summary, *strangers(models, corpus)])


def _load(config: Songs) -> tuple[list[EvaluatedModel], Corpus, list[Tokens], list[int]]:
    """The models, the corpus, its songs that they predict, and the seeds of the draws."""
    from musicgen.data.corpus import Corpus
    from musicgen.evaluation.likelihood.losses import split_pieces
    from musicgen.evaluation.models import load_models, one_language
    from musicgen.training.schedule import validation_seed

    models, corpus = load_models(config.model or ""), Corpus.open(config.data or "")
    one_language(models, corpus)
    draws = config.draws if any(model.model.config.has_noise for model in models) else 1
    seeds = [validation_seed(config.seed, number) for number in range(draws)]
    return models, corpus, split_pieces(corpus, config.split, config.songs), seeds


ABOUT_INFILL = """\
usage: musicgen evaluate infill model=NAME|DIR[,...] data=DIR out=DIR [key=value ...]

Takes bars out of the middle of songs and measures how well models fill them. Likelihood: the loss of the true bars
given both sides, beside that given the left side alone (the same model, without a gap) and that of trigrams counted in
the bars around. Likeness: notes and pitch classes that sampled fills share with the true bars, beside a continuation of
what comes before, and the bar before, repeated. Seams: the loss of the four bars that follow. The best of several fills
is the one after which these bars are likeliest.

{keys}

example: musicgen evaluate infill model=runs/groove_infill data=data/groove split=test out=infill
"""


@dataclass(frozen=True)
class InfillConfig(Evaluation, Songs):
    """The options of `musicgen evaluate infill`."""

    gap: int = option(4, least=1, most=16, help="bars that are taken out")
    context: int = option(4, least=1, help="bars before the gap, and after it, where there are at least four")
    rank: int = option(
        8, least=1, most=64, help="also measure the best of so many fills, by the likelihood of what follows"
    )


@kind(ABOUT_INFILL, InfillConfig)
def infill(config: InfillConfig) -> Findings:
    """How well models fill bars."""
    from musicgen.evaluation.infill.excerpts import make_excerpt
    from musicgen.evaluation.infill.fills import measure
    from musicgen.evaluation.infill.findings import infill_findings
    from musicgen.evaluation.models import strangers

    models, corpus, pieces, seeds = _load(config)
    for model in models:
        if model.language.infill is None:
            raise UserError(f"model={model.name}: was trained without gaps; take one that was trained with data.infill")
    language = models[0].language
    made = [make_excerpt(language, number, piece, config.gap, config.context) for number, piece in enumerate(pieces)]
    excerpts = [excerpt for excerpt in made if excerpt is not None]
    left_out = [f"song {number + 1}: too short, or without notes" for number, item in enumerate(made) if item is None]
    if not excerpts:
        raise UserError(f"data={config.data}: no song is long enough; choose smaller gap= and context=")
    measured = {
        model.name: measure(model.music_model, excerpts, seeds, config.batch, config.seed, config.rank, progress)
        for model in models
    }
    found = infill_findings(measured, excerpts, left_out, config.seed)
    return replace(found, summary=[*found.summary, *strangers(models, corpus)])


ABOUT_REALIZATIONS = """\
usage: musicgen evaluate realizations model=DIR[,DIR...] data=DIR out=DIR [key=value ...]

Measures how well models with stochastic positional encoding (pe=sine or pe=conv) predict songs when they use more or
fewer noise realisations than in training. No parameter depends on their number R. More realisations cost time and
memory, and bring the encoding closer to its expectation. Several models, trained with different R, give the paper's
map. Models that differ only in their seed are averaged.

{keys}

example: musicgen evaluate realizations model=runs/r16,runs/r64 data=corpus out=realizations
"""


@dataclass(frozen=True)
class RealizationsConfig(Evaluation, Songs):
    """The options of `musicgen evaluate realizations`."""

    realizations: tuple[int, ...] | None = option(
        (4, 8, 16, 32, 64, 128),
        needed=True,
        like="16,64",
        least=1,
        most=4096,
        help="the R to try; that of each model's training is added",
    )
    length: int | None = option(least=1, help="tokens of each song to predict; the trained length if not given")


@kind(ABOUT_REALIZATIONS, RealizationsConfig)
def realizations(config: RealizationsConfig) -> Findings:
    """The loss of models for each number of noise realisations, and for that of their training."""
    from musicgen.evaluation.likelihood.realizations import realizations_findings, try_realizations
    from musicgen.evaluation.models import group_by_seed

    models, _, pieces, seeds = _load(config)
    numbers = config.realizations or ()
    rows = try_realizations(group_by_seed(models), pieces, numbers, config.length, seeds, config.batch, progress)
    return realizations_findings(rows, len(pieces), config.draws)


ABOUT_PE = """\
usage: musicgen evaluate pe model=NAME|DIR[,...] out=DIR [key=value ...]

Measures what the positional encodings of models do to attention. Each token of the vocabulary is repeated to make a
piece in which only positions differ. The unnormalised attention of the first layer, exp(q·k/√E), then has a translation
invariance T (0: attention depends on distance alone; 1: not on distance) and a monotonicity M (0: it fades steadily
with distance; ½: it is random). Both are given for the best head and for all, for queries within the trained length N
and beyond it, as means over tokens. With SPE they differ from draw to draw; the spread says how much.

{keys}

Time grows with the square of the trained length. On one core, a token takes about 5 s per draw with the paper's 8 heads
and 2,048 tokens, and 0.02 s with 4 heads and 256 tokens. tokens=20 gives a first look.

example: musicgen evaluate pe model=runs/sine,runs/ape out=pe
"""


@dataclass(frozen=True)
class PeConfig(Evaluation, Models):
    """The options of `musicgen evaluate pe`."""

    trained: int | None = option(least=1, help="tokens of a training window, for bundles that do not say it")
    positions: str | None = option(
        like="A-B,C-D", help="ranges of query positions; if not given, the paper's: 0-N/2, N/2-N and N-1.25N"
    )
    offsets: tuple[int, ...] | None = option(
        like="N,N", least=2, help="query-key offsets below these; if not given, the paper's: N/16, N/4 and N/2"
    )
    tokens: int | None = option(least=1, help="only this many tokens of the vocabulary, evenly spaced")
    draws: int = option(3, least=1, help="draws of noise")
    seed: int = option(0, least=0, help="seed of the first draw; the next draw has the next seed")


@kind(ABOUT_PE, PeConfig)
def pe(config: PeConfig) -> Findings:
    """What a positional encoding does to attention, within the trained length and beyond."""
    positions = _ranges("positions", config.positions)

    from musicgen.evaluation.encoding.pe import grid_of, measure
    from musicgen.evaluation.encoding.pe_findings import pe_findings
    from musicgen.evaluation.models import load_models

    models = load_models(config.model or "")
    grids = [grid_of(model, config.trained, positions, config.offsets) for model in models]
    return pe_findings(measure(models, grids, config.tokens, config.draws, config.seed, progress), models)


def _ranges(key: str, given: str | None) -> list[tuple[int, int]] | None:
    """Ranges with commas between them, each up to but not including its second number; None if none are given."""
    if given is None:
        return None
    pairs = [part.strip().split("-") for part in given.strip("[] ").split(",")]
    if not all(
        len(pair) == 2 and all(end.isdecimal() for end in pair) and int(pair[0]) < int(pair[1]) for pair in pairs
    ):
        raise UserError(f"{key}={given}: takes ranges as in {key}=0-1024,1024-2048")
    return list(dict.fromkeys((int(low), int(high)) for low, high in pairs))


ABOUT_ATTENTION = """\
usage: musicgen evaluate attention model=NAME|DIR[,...] [midi=FILE] out=DIR [key=value ...]

Shows what models attend to: the positional kernels that SPE has learned, in closed form and as one draw of noise gives
them; attention maps of a piece, which you can explore by layer and head on a page; gates and decays. Each model writes
the piece itself, half as long again as its training windows, or you give a MIDI file. Tables say where queries look,
within the trained length and beyond it. All models must have the same token language. Layers, heads and features are
counted from 1.

{keys}

example: musicgen evaluate attention model=runs/sine,runs/ape out=attention
"""


@dataclass(frozen=True)
class AttentionConfig(AttentionOptions, Evaluation, Models):
    """The options of `musicgen evaluate attention`."""


@kind(ABOUT_ATTENTION, AttentionConfig)
def attention(config: AttentionConfig) -> Findings:
    """Pictures of learned kernels, gates and attention maps."""
    from musicgen.evaluation.encoding.attention import read_pieces, subject_of
    from musicgen.evaluation.encoding.attention_findings import attention_findings
    from musicgen.evaluation.models import load_models, one_language

    models = load_models(config.model or "")
    one_language(models)
    subjects = [subject_of(model, config) for model in models]
    return attention_findings(subjects, read_pieces(subjects, config, progress), config)


ABOUT_RESOURCES = """\
usage: musicgen evaluate resources [experiments=NAME,...] [model=NAME|DIR,...] out=DIR [key=value ...]

Measures what models cost on this machine: parameters, the state that a piece needs, the time and memory of a training
step, and the time of a generated token. Models are measured one at a time, in turns, each in its own process.

{keys}

The paper's own models are pop_piano/ape, pop_piano/sine and so on; with batch=1 threads=2 each takes minutes and 6 GB.

example: musicgen evaluate resources experiments=small/ape,small/sine out=cost
"""
USUAL = "small/ape,small/sine,small/sine_ungated,small/conv,small/conv_ungated"


@dataclass(frozen=True)
class ResourcesConfig(Evaluation):
    """The options of `musicgen evaluate resources`."""

    experiments: str | None = option(
        like="NAMES",
        help="experiments with commas between them, as `musicgen train --help` lists them; if no model is given, "
        "small/ape, small/sine, small/sine_ungated, small/conv and small/conv_ungated",
    )
    model: str | None = option(like="NAME or DIR", help="trained models, with commas between them")
    batch: int | None = option(least=1, help="windows in a training step; if not given, as each was trained")
    length: int | None = option(least=1, help="tokens in a window; if not given, as each was trained")
    vocab_size: int = option(361, least=1, help="size of the vocabulary, for experiments; grooves have 794")
    repeats: int = option(3, least=1, help="steps that are timed in a turn")
    rounds: int = option(2, least=1, help="turns of each model; the best counts")
    threads: int = option(1, least=1, help="threads of the CPU")


@kind(ABOUT_RESOURCES, ResourcesConfig)
def resources(config: ResourcesConfig) -> Findings:
    """What models cost on this machine, like the paper's table of resources."""
    from musicgen.evaluation.resources import findings, measure_all

    subjects = [*_experiments(config), *_models(config)]
    if not subjects:
        raise UserError("experiments is empty: write experiments=NAME or model=DIR")
    costs = measure_all(subjects, config.repeats, config.rounds, config.threads, progress)
    return findings(subjects, costs, config.rounds, config.threads)


def _experiments(config: ResourcesConfig) -> list[Subject]:
    from musicgen.cli.config import compose, groups
    from musicgen.evaluation.resources import Subject
    from musicgen.model import PerformerConfig

    given = config.experiments or ("" if config.model else USUAL)
    known = groups("train")["experiment"]
    subjects = []
    for name in filter(None, map(str.strip, given.split(","))):
        if name not in known:
            raise UserError(f"experiments={name}: there is no such experiment; `musicgen train --help` lists them")
        values = compose("train", [f"experiment={name}"])
        size = PerformerConfig.from_groups(config.vocab_size, values["model"], values["pe"], name)
        length, batch = config.length or values["data"]["length"], config.batch or values["batch_size"]
        subjects.append(Subject(name, size, length, batch))
    return subjects


def _models(config: ResourcesConfig) -> list[Subject]:
    from musicgen.evaluation.models import load_models
    from musicgen.evaluation.resources import Subject

    subjects = []
    for model in load_models(config.model) if config.model else []:
        length, batch = config.length or model.trained_length, config.batch or model.training.get("batch_size")
        if length is None or type(batch) is not int or batch < 1:
            raise UserError(f"model={model.name}: does not say what it was trained with; write length=N and batch=N")
        subjects.append(Subject(model.name, model.model.config, length, batch))
    return subjects
