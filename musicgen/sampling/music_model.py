"""A model that writes music: `musicgen.load("pop-small").generate(bars=8, seed=1).save("x.mid")`.

The options of a request are declared once, in `musicgen.request`. The command and these methods share them under the
same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.files import kind_of
from musicgen.languages.constraints import Constraints, parse_constraints
from musicgen.languages.language import Language, Prompt
from musicgen.languages.registry import load_tokenizer
from musicgen.midi.score import Score
from musicgen.model import PerformerLM, State
from musicgen.model.bundle import read_bundle
from musicgen.model.engine import Engine, EngineName, make_engine
from musicgen.options import fit, option, options
from musicgen.request import Choosing, RequestOptions
from musicgen.sampling.bookmark import Bookmark, bar_ends, check_bookmark, load_bookmark
from musicgen.sampling.choose import SamplingConfig
from musicgen.sampling.fills import FillSession
from musicgen.sampling.form import ALONE, Form, parse_form
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.live import bar_by_bar
from musicgen.sampling.piece import Piece
from musicgen.sampling.sampler import Sampler, Step, times

BUILT_IN = Path(__file__).parents[1] / "models"
OF_A_RUN = "bundle"
"""Where the folder of a training run has its bundle."""


_PROMPT, _FROM_STATE = (option(**vars(options(RequestOptions)[name])) for name in ("prompt", "from_state"))


@dataclass(frozen=True)
class Request(RequestOptions):
    """A request; `RequestOptions` explains its fields.

    In Python a prompt may also be a `Score`, and a state a `Bookmark`. (Commands need neither for their help.)
    """

    prompt: Path | str | Score | None = _PROMPT  # type: ignore[assignment]
    from_state: Path | str | Bookmark | None = _FROM_STATE  # type: ignore[assignment]

    def constraints(self) -> Constraints:
        """The constraints of the pieces."""
        names = {field.name for field in fields(Constraints)}
        asked = {name: value for name, value in vars(self).items() if name in names}
        return parse_constraints(**asked if self.form is None else {**asked, "bars": self.parsed_form.bars})

    @property
    def parsed_form(self) -> Form:
        """The form that is asked for.

        Raises:
            UserError: It is no form, or does not go with another option.
        """
        form = parse_form(str(self.form), self.section_bars)
        if (other := next((name for name in ALONE if getattr(self, name) is not None), "")) != "":
            raise UserError(f"{other}= and form={self.form}: a form is a whole piece from nothing; leave out one")
        if self.bars not in (None, form.bars):
            raise UserError(f"bars={self.bars} and form={self.form}: this form has {form.bars} bars; leave out bars")
        return form

    def sampling(self, usual: SamplingConfig) -> SamplingConfig:
        """How tokens are chosen: the default settings, changed by the request."""
        return usual.changed(**{name: getattr(self, name) for name in options(Choosing)})


class Session:
    """A request that is ready: everything is read and checked, and nothing is sampled yet.

    Attributes:
        constraints, sampling: What the pieces keep to, and how their tokens are chosen.
        prompt: The prompt that the pieces continue, if there is one.
        bars_begun: How many bars are complete before the first new token.
        first_bar: The first bar of new music.

    Raises:
        UserError: The request cannot be met; the message says why.
    """

    def __init__(self, music_model: MusicModel, request: Request, batch_size: int = 16) -> None:
        self.music_model, self.request, self.batch_size = music_model, request, batch_size
        _ = music_model.engine  # refuses one that cannot run here
        self.constraints, self.sampling = request.constraints(), request.sampling(music_model.sampling)
        language = music_model.language
        if request.fill is not None:
            raise UserError(f"fill={request.fill}: is for fill(...) and fill_many(...), which write bars anew")
        if request.rank is not None:
            raise UserError(f"rank={request.rank}: orders fills; say which bars are filled too, fill=BARS")
        self._bookmark = _open_bookmark(request, music_model)
        self._draw = request.draw or 0
        self.prompt: Prompt | None = None
        if request.prompt is not None and request.from_state is not None:
            raise UserError("prompt= and from_state=: a piece begins with one of them")
        if request.prompt is None and request.prompt_bars is not None:
            raise UserError(f"prompt_bars={request.prompt_bars}: give the file too, prompt=FILE.mid")
        tokens, prompt_bars, setting = [language.first], 0, dict[str, Any]()
        if request.prompt is not None:
            self.prompt = language.read_prompt(request.prompt, request.prompt_bars, request)
            tokens, prompt_bars, setting = list(self.prompt.tokens), self.prompt.bars, dict(self.prompt.setting)
        elif self._bookmark is not None:
            begun = self._bookmark
            tokens, prompt_bars, setting = list(begun.tokens), begun.prompt_bars, dict(begun.setting)
        language.mask(self.constraints, tokens, prompt_bars, setting)  # refuses what cannot be done
        self.bars_begun = int(language.complete_bars(tokens)[-1])
        self.first_bar = max(self.bars_begun, prompt_bars)
        self._check_fork(max(self.first_bar, 1))
        self._form = None if request.form is None else request.parsed_form
        if self._form is not None:
            self._form.check(self.constraints, language)

    def _check_fork(self, least: int) -> None:
        request, bars = self.request, self.constraints.bars
        if request.fork_at is None:
            if request.variations > 1:
                raise UserError(f"variations={request.variations}: also give the bar where they part, fork_at=BARS")
            return
        if request.fork_at < least:
            raise UserError(f"fork_at={request.fork_at}: takes {least} or more, the bars that there are")
        if bars is not None and request.fork_at >= bars:
            raise UserError(f"fork_at={request.fork_at}: takes less than the {bars} bars of the piece")
        if request.variations == 1:
            raise UserError(f"fork_at={request.fork_at}: also give the number of continuations, variations=N")

    def pieces(self, n: int = 1, keep_states: bool = False) -> Iterator[PieceInProgress]:
        """The pieces with `n` seeds in a row, ready to be written; see `PieceInProgress`."""
        request, language = self.request, self.music_model.language
        bookmark = self._bookmark or self.music_model.begin(self.prompt, self._draw)
        wishes = (self.constraints, self.sampling)
        for number in range(n):
            seed, fork = request.seed + number, (request.fork_at, request.variations)
            yield PieceInProgress(language, bookmark, *wishes, seed, None, *fork, keep_states)

    def run(self, n: int = 1, keep_states: bool = False) -> Iterator[Step]:
        """Write `n` pieces, each in its variations."""
        sampler, pieces = Sampler(self.music_model.engine, self.batch_size), self.pieces(n, keep_states)
        if self._form is None:
            return sampler.run(pieces)
        return self._form.run(sampler, pieces, self.music_model)

    def piece(self, step: Step) -> Piece:
        """The piece that a last step completed."""
        return Piece.from_progress(step.piece, self.prompt.report if self.prompt else "")

    def name(self, n: int) -> Callable[[PieceInProgress], str]:
        """Names for the pieces of `n` seeds, which sort: `piece_0`, or `piece_0_variation_2`."""
        request = self.request

        def name(piece: PieceInProgress) -> str:
            number = f"piece_{piece.seed - request.seed:0{len(str(n - 1))}d}"
            width = len(str(request.variations - 1))
            return f"{number}_variation_{piece.variation:0{width}d}" if request.variations > 1 else number

        return name


def _open_bookmark(request: Request, music_model: MusicModel) -> Bookmark | None:
    """The bookmark that a request continues, if there is one.

    Raises:
        UserError: It cannot be used.
    """
    state = request.from_state
    if state is None:
        return None
    if isinstance(state, Bookmark):
        check_bookmark(state, music_model.model, music_model.language)
        bookmark = state
    else:
        bookmark = load_bookmark(state, music_model.sha256, music_model.language, music_model.model)
    draw = bookmark.state.draw.seed
    if request.draw is not None and request.draw != draw:
        raise UserError(f"draw={request.draw}: the piece of the state has draw={draw}; leave it out")
    return bookmark


class MusicModel:
    """A model that writes music.

    Attributes:
        model: The model, in evaluation mode.
        language: Its token language.
        name: What it was loaded as.
        sha256: Hash of its weights.
        sampling: How it is sampled by default.
        training: How it was trained, as its bundle says; may be empty.
        engine: Runs the steps of the model.
    """

    def __init__(
        self,
        model: PerformerLM,
        language: Language,
        name: str = "",
        sha256: str = "",
        sampling: SamplingConfig | None = None,
        training: dict[str, Any] | None = None,
        engine: EngineName = "auto",
    ) -> None:
        if model.config.vocab_size != len(language.vocabulary):
            raise UserError(
                f"{name}: a model of {model.config.vocab_size} tokens does not speak {language.name}, "
                f"which has {len(language.vocabulary)}"
            )
        self.model, self.language, self.name, self.sha256 = model, language, name, sha256
        self._engine_name: EngineName = engine
        usual: Any = language.sampling
        self.sampling, self.training = sampling or SamplingConfig(**usual), training or {}

    @cached_property
    def engine(self) -> Engine:
        """Made at first use: an evaluation that writes no music needs none."""
        return make_engine(self.model, self._engine_name)

    def begin(self, prompt: Prompt | None = None, draw: int = 0) -> Bookmark:
        """The beginning of a piece: the first token, or a prompt that the model has read.

        Args:
            prompt: The prompt.
            draw: The seed of the positional noise.
        """
        if prompt is None:
            return Bookmark((self.language.first,), self.model.init_state(self.model.draw(draw)))
        nats, state = self.read(prompt.tokens, draw)
        complete = self.language.complete_bars(prompt.tokens)
        bars = int(complete[-1])
        # The token that completes a bar counts to it. Tokens of a bar that is not complete are not counted.
        likelihood = np.bincount(complete[:-1], nats, minlength=bars)[:bars].tolist()
        sums = (bar_ends(complete), tuple(likelihood), (0.0,) * bars)
        return Bookmark(tuple(prompt.tokens), state, *sums, prompt.bars, prompt.setting)

    def read(
        self, tokens: Sequence[int], draw: int = 0, state: State | None = None
    ) -> tuple[NDArray[np.float64], State]:
        """Read tokens from the beginning of a piece, all but the last.

        Args:
            tokens: The tokens.
            draw: The seed of the positional noise.
            state: The state after some of them, from which they are read on.

        Returns:
            The log-likelihood of each token after the first that is read in nats, and the state after them.
        """
        state = self.model.init_state(self.model.draw(draw)) if state is None else state
        ids, begun = torch.tensor(tokens)[None], state.positions[0]
        beats = (self.language.clock(row)[begun:-1] for row in [tokens])
        read = ids[:, begun:-1].to(next(self.model.parameters()).device)
        logits, state = self.model.prefill(read, state, **times(self.model, beats))
        losses = torch.nn.functional.cross_entropy(logits[0].cpu().double(), ids[0, begun + 1 :], reduction="none")
        return -losses.numpy(), state

    def fill(self, source: Path | str | Score, bars: tuple[int, int] | str, **request: Any) -> Piece:
        """A piece with some of its bars written anew, and everything else as it was.

        Args:
            source: The piece: a MIDI file or a score.
            bars: The first and the last bar, counted from 1; or as `fill=` takes them, `"9-12,drums:17-18"`.
            request: Options, as for `generate`. With `rank=8` it is the best of eight.

        Raises:
            UserError: The request cannot be met; the message says why.
        """
        return next(self.fill_many(1, source, bars, **request))

    def fill_many(
        self, n: int, source: Path | str | Score, bars: tuple[int, int] | str, **request: Any
    ) -> Iterator[Piece]:
        """The same with `n` seeds in a row; with `rank`, the best `n` of so many, the best first.

        Raises:
            UserError: The request cannot be met; the message says why.
        """
        _check_number(n)
        text = bars if isinstance(bars, str) else "-".join(map(str, bars))
        return FillSession(self, make_request(prompt=source, fill=text, **request)).pieces(n)

    def generate(self, **request: Any) -> Piece:
        """One piece; see `Request` for the options.

        Raises:
            UserError: The request cannot be met; the message says why.
        """
        session = self._session_of_one_piece(request)
        return next(session.piece(step) for step in session.run() if step.is_last)

    def generate_many(self, n: int, **request: Any) -> Iterator[Piece]:
        """Pieces with `n` seeds in a row, as they are finished.

        Raises:
            UserError: The request cannot be met; the message says why.
        """
        _check_number(n)
        session = Session(self, make_request(**request))
        return (session.piece(step) for step in session.run(n) if step.is_last)

    def stream(self, **request: Any) -> Iterator[int]:
        """The tokens of one piece, as they come, without the prompt or the token that every piece begins with."""
        session = self._session_of_one_piece(request)
        return (step.token for step in session.run())

    def stream_bars(self, **request: Any) -> Iterator[Score]:
        """The new bars of one piece, each when all its notes are known. Notes are where they are in the piece."""
        session = self._session_of_one_piece(request)
        return bar_by_bar(session.run(), session.first_bar)

    def _session_of_one_piece(self, request: dict[str, Any]) -> Session:
        """A session that writes one piece.

        Raises:
            UserError: Several are requested, or the request cannot be met.
        """
        if "n" in request:
            raise UserError(f"n={request['n']}: is for generate_many(n, ...), which gives several pieces")
        session = Session(self, make_request(**request))
        number = session.request.variations
        if number > 1:
            raise UserError(f"variations={number}: is for generate_many(1, ...), which gives several pieces")
        return session


def _check_number(n: Any) -> None:
    """Check how many pieces are requested.

    Raises:
        UserError: It is no such number.
    """
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise UserError(f"n={n}: takes a whole number (1 or more)")


def make_request(**values: Any) -> Request:
    """A request.

    Raises:
        UserError: A name is not known, or a value does not fit its name.
    """
    return Request(**fit(Request, values))


def load_music_model(name: str | Path, engine: EngineName = "auto") -> MusicModel:
    """A model from a bundle's folder, or a built-in one by its name.

    Args:
        name: The folder or the name.
        engine: What runs the model.

    Raises:
        UserError: There is none, or it cannot be used.
    """
    folder = find_bundle(name)
    bundle = read_bundle(folder)
    try:
        settings = {name: value for name, value in bundle.sampling.items() if value is not None}
        sampling = SamplingConfig(**settings) if settings else None
    except (TypeError, UserError) as error:
        raise UserError(f"{folder / 'config.json'}: sampling is not valid ({error})") from None
    described = (str(name), bundle.sha256, sampling, bundle.training)
    return MusicModel(bundle.model, load_tokenizer(folder), *described, engine)


def find_bundle(name: str | Path) -> Path:
    """The folder of a model, given that folder, the folder of its training run, or the name of a built-in model."""
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
