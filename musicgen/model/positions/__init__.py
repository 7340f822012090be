"""Positional encodings, one file each. `pe=name` chooses the class of that name.

To add one, write a file here with a subclass of `PositionalEncoding`, a config file in `conf/pe` and a test.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from musicgen.errors import UserError
from musicgen.model.positions.base import REGISTRY, Encoder, GraphEncoder, PositionalEncoding, StepEncoder, Stream

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig

__all__ = ["Encoder", "GraphEncoder", "PositionalEncoding", "StepEncoder", "Stream", "encoding_class", "make_encoding"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def encoding_class(name: str) -> type[PositionalEncoding]:
    """The class of an encoding."""
    if not isinstance(name, str) or name not in REGISTRY:
        raise UserError(f"pe must be one of {', '.join(sorted(REGISTRY))}, not {name!r}")
    return REGISTRY[name]


def make_encoding(config: PerformerConfig) -> PositionalEncoding:
    """The positional encoding of a model."""
    return encoding_class(config.pe)(config)
