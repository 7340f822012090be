"""A model that writes music: `musicgen.load("pop-small").generate(bars=8, seed=1).save("x.mid")`.

The hard choice: what can be asked for is said once, in `Request`. The command's config, its help and these methods all
take its fields, so that what works in a shell works in Python under the same name.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from musicgen.errors import UserError
from musicgen.files import kind_of
from musicgen.midi.score import Score
from musicgen.model import PerformerLM, load_bundle
from musicgen.model.bundle import read_remark
from musicgen.sampling.choose import Taste
from musicgen.sampling.constraints import Constraints, parse_constraints
from musicgen.sampling.dialect import Dialect, Prompt
from musicgen.sampling.groove_dialect import GrooveDialect
from musicgen.sampling.piece import Piece, bar_by_bar
from musicgen.sampling.remi_dialect import RemiDialect
from musicgen.sampling.sampler import Beginning, Sampler, Step, Take
from musicgen.sampling.state import load_beginning
from musicgen.tokens.language import Language
from musicgen.tokens.tokenizer import load_tokenizer

DIALECTS: dict[str, Callable[[], Dialect]] = {"remi": RemiDialect, "groove": GrooveDialect}
"""How to sample a token language, by its name."""
WHOLE = ("seed", "top_k", "bars", "tokens", "polyphony", "prompt_bars", "fork_at", "variations", "draw")
NUMBERS = ("temperature", "top_p", "min_p", "seconds")
BUILT_IN = Path(__file__).parents[1] / "models"
OF_A_RUN = "bundle"
"""Where the folder of a training run has its bundle."""


@dataclass(frozen=True)
class Request:
    """What is asked for. Lengths count the prompt; see `Constraints` and `Taste` for what is not said here.

    Attributes:
        seed: Of the first piece; the next has the next.
        temperature, top_p, top_k, min_p: How tokens are chosen; None is what the bundle says, or else what the paper
            did with such music.
        draw: Seed of the positional noise, which all pieces share; None is 0, or that of a state.
        prompt: A MIDI file, or a score, to go on from.
        prompt_bars: How many bars of it; None for all.
        from_state: A file that a piece was saved to, to go on from.
        fork_at: After so many bars a piece is continued in several ways.
        variations: In how many.
    """

    seed: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    grammar: bool = True
    bars: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    key: str | None = None
    pitches: str | None = None
    polyphony: int | None = None
    tempo: float | str | None = None
    chords: str | None = None
    tracks: str | None = None
    prompt: Path | str | Score | None = None
    prompt_bars: int | None = None
    from_state: Path | str | None = None
    fork_at: int | None = None
    variations: int = 1
    draw: int | None = None

    def constraints(self) -> Constraints:
        """Those of the pieces."""
        names = {field.name for field in fields(Constraints)}
        return parse_constraints(**{name: value for name, value in vars(self).items() if name in names})

    def taste(self, usual: Taste) -> Taste:
        """How tokens are chosen: as usual, but for what is asked for."""
        names = [field.name for field in fields(Taste)]
        try:
            chosen = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
            return replace(usual, **chosen)
        except ValueError as error:
            raise UserError(str(error)) from None


class Session:
    """One request made ready: everything has been read and checked, and nothing sampled.

    Args:
        composer: Who writes.
        request: What is asked for.
        batch_size: Pieces that are written at once.

    Raises:
        UserError: It cannot be done, and why.
    """

    def __init__(self, composer: Composer, request: Request, batch_size: int = 16) -> None:
        self.composer, self.request = composer, request
        constraints, dialect = request.constraints(), composer.dialect
        taste = request.taste(composer.taste)
        loaded = None if request.from_state is None else load_beginning(request.from_state, composer.sha256, dialect)
        draw = request.draw or 0
        if loaded is not None:
            draw = loaded.state.draw.seed
            if request.draw is not None and request.draw != draw:
                raise UserError(f"draw={request.draw}: the piece of the state has draw={draw}; leave it out")
        self._loaded = loaded
        self.sampler = Sampler(composer.model, dialect, constraints, taste, draw, batch_size)
        self.prompt: Prompt | None = None
        if request.prompt is not None and request.from_state is not None:
            raise UserError("prompt= and from_state=: a piece begins with one of them")
        if request.prompt is None and request.prompt_bars is not None:
            raise UserError(f"prompt_bars={request.prompt_bars}: give the file too, prompt=FILE.mid")
        if request.prompt is not None:
            self.prompt = dialect.read_prompt(request.prompt, request.prompt_bars)
        tokens, prompt_bars, setting = [dialect.first], 0, dict[str, Any]()
        if self.prompt is not None:
            tokens, prompt_bars, setting = list(self.prompt.tokens), self.prompt.bars, dict(self.prompt.setting)
        elif self._loaded is not None:
            begun = self._loaded
            tokens, prompt_bars, setting = list(begun.tokens), begun.prompt_bars, dict(begun.setting)
        dialect.guide(constraints, tokens, prompt_bars, setting)  # refuses what cannot be done
        self.bars_begun = int(dialect.complete_bars(tokens)[-1])
        self.first_bar = max(self.bars_begun, prompt_bars)  # of new music
        self._check_fork(self.first_bar)
        self.rendering = dialect.rendering(constraints, setting)

    def _check_fork(self, begun: int) -> None:
        request = self.request
        if request.variations < 1:
            raise UserError(f"variations={request.variations}: takes 1 or more")
        if request.fork_at is None:
            if request.variations > 1:
                raise UserError(f"variations={request.variations}: say where they part, fork_at=BARS")
            return
        bars = self.sampler.constraints.bars
        if request.fork_at < max(begun, 1):
            raise UserError(f"fork_at={request.fork_at}: takes {max(begun, 1)} or more, the bars that there are")
        if bars is not None and request.fork_at >= bars:
            raise UserError(f"fork_at={request.fork_at}: takes less than the {bars} bars of the piece")

    def begin(self) -> Beginning:
        """What all pieces begin with."""
        if self._loaded is not None:
            return self._loaded
        return self.sampler.begin(self.prompt)

    def run(self, n: int = 1, keep: bool = False) -> Iterator[Step]:
        """Write `n` pieces, each in its variations; see `Sampler.run`."""
        request, beginning = self.request, self.begin()
        takes = (self.sampler.take(beginning, request.seed + number) for number in range(n))
        yield from self.sampler.run(takes, request.fork_at, request.variations, keep)

    def piece(self, take: Take) -> Piece:
        """What has become of a take."""
        return Piece.from_take(take, self.composer.dialect, self.rendering)


class Composer:
    """A model, its token language and its name.

    Attributes:
        model: In evaluation mode.
        language: Its token language.
        name: What it was loaded as.
        sha256: Of its weights.
        taste: How it is sampled unless something else is asked for.
    """

    def __init__(
        self, model: PerformerLM, language: Language, name: str = "", sha256: str = "", taste: Taste | None = None
    ) -> None:
        if model.config.vocab_size != len(language.vocabulary):
            raise UserError(
                f"{name}: a model of {model.config.vocab_size} tokens does not speak {language.name}, "
                f"which has {len(language.vocabulary)}"
            )
        self.model, self.language, self.name, self.sha256 = model, language, name, sha256
        self.dialect: Dialect = DIALECTS[language.name]()
        self.taste = taste or self.dialect.taste

    def generate(self, **request: Any) -> Piece:
        """One piece; see `Request` for what can be asked for.

        Raises:
            UserError: It cannot be done, and why.
        """
        if "n" in request:
            raise UserError(f"n={request['n']}: is for generate_many(n, ...), which gives several pieces")
        return next(self.generate_many(1, **request))

    def generate_many(self, n: int, **request: Any) -> Iterator[Piece]:
        """Pieces with `n` seeds in a row, as they are finished.

        Raises:
            UserError: It cannot be done, and why.
        """
        if not isinstance(n, int) or n < 1:
            raise UserError(f"n={n}: takes a whole number, 1 or more")
        session = Session(self, make_request(**request))
        return (session.piece(take) for take, _, is_last in session.run(n) if is_last)

    def stream(self, **request: Any) -> Iterator[int]:
        """The tokens of one piece, as they come. The prompt, or what every piece begins with, is not among them."""
        session = Session(self, make_request(**request))
        return (token for _, token, _ in session.run())

    def stream_bars(self, **request: Any) -> Iterator[Score]:
        """The bars of one piece, each when all its notes are known, with the notes that begin in it where they are.

        The bars of a prompt are not among them.
        """
        session = Session(self, make_request(**request))
        decoder = session.rendering.decoder()
        return bar_by_bar(session.run(), decoder, self.dialect.bar_ticks, session.first_bar)


def make_request(**values: Any) -> Request:
    """A request, with a sentence for a name that is not known and a value that it cannot take."""
    known = [field.name for field in fields(Request)]
    for name in values:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            raise UserError(f"unknown {name!r}: " + (f"did you mean {close[0]!r}?" if close else ", ".join(known)))
    for name, value in values.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name in WHOLE and value is not None and not (is_number and isinstance(value, int)):
            raise UserError(f"{name}={value!r}: takes a whole number")
        if name in NUMBERS and value is not None and not is_number:
            raise UserError(f"{name}={value!r}: takes a number")
    return Request(**values)


def load_composer(name: str | Path) -> Composer:
    """A model from a bundle's folder, or a built-in one by its name.

    Raises:
        UserError: There is none, or it cannot be used.
    """
    folder = find_bundle(name)
    model = load_bundle(folder)
    description = json.loads((folder / "config.json").read_text("utf-8"))
    return Composer(model, load_tokenizer(folder), str(name), description["sha256"], _taste(folder))


def _taste(folder: Path) -> Taste | None:
    """How the maker of a bundle says that it is best sampled."""
    said = read_remark(folder, "sampling")
    try:
        return Taste(**said) if said else None
    except (TypeError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'}: sampling is not a taste ({error})") from None


def find_bundle(name: str | Path) -> Path:
    """The folder of a model that is named by it, by the folder of its run, or by the name of a built-in model."""
    path = Path(name).expanduser()
    built_in = sorted(folder.name for folder in BUILT_IN.glob("*") if folder.is_dir())
    if kind_of(path) == "folder":
        if kind_of(path / OF_A_RUN) == "folder":
            return path / OF_A_RUN
        if kind_of(path / "checkpoints") == "folder":
            raise UserError(
                f"model={name}: a training run that has no bundle yet; it makes one when it ends, "
                f"or `musicgen export checkpoint={name} out=DIR` does"
            )
        return path
    if str(name) in built_in:
        return BUILT_IN / str(name)
    known = f"; built in: {', '.join(built_in)}" if built_in else ""
    raise UserError(f"model={name}: no such folder with a model bundle{known}")
