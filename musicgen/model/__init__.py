"""The Performer language model, its config, its streaming state and its bundle on disk."""

from musicgen.model.bundle import load_bundle, save_bundle
from musicgen.model.config import PerformerConfig
from musicgen.model.performer import PerformerLM
from musicgen.model.state import State

__all__ = ["PerformerConfig", "PerformerLM", "State", "load_bundle", "save_bundle"]
