"""From a model to music: choosing tokens, constraints as masks, pieces, and the page that shows them."""

from musicgen.sampling.choose import Taste
from musicgen.sampling.composer import Composer, Request, Session, load_composer
from musicgen.sampling.constraints import Constraints, parse_constraints
from musicgen.sampling.piece import Piece
from musicgen.sampling.sampler import Sampler

__all__ = [
    "Composer",
    "Constraints",
    "Piece",
    "Request",
    "Sampler",
    "Session",
    "Taste",
    "load_composer",
    "parse_constraints",
]
