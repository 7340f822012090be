"""From a model to music: choosing tokens, constraints as masks, pieces, and the page that shows them."""

from musicgen.languages.constraints import Constraints, parse_constraints
from musicgen.sampling.bookmark import Bookmark, load_bookmark, save_bookmark
from musicgen.sampling.choose import SamplingConfig
from musicgen.sampling.fills import FillSession
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.music_model import MusicModel, Request, Session, load_music_model
from musicgen.sampling.piece import Piece
from musicgen.sampling.sampler import Sampler, Step

__all__ = [
    "Bookmark",
    "Constraints",
    "FillSession",
    "MusicModel",
    "Piece",
    "PieceInProgress",
    "Request",
    "Sampler",
    "SamplingConfig",
    "Session",
    "Step",
    "load_bookmark",
    "load_music_model",
    "parse_constraints",
    "save_bookmark",
]
