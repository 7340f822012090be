"""The models that the studio offers: built-in ones, and bundles in a folder. Each is loaded when it is first needed.

Design note: a request names a model of this list, never a path, so a web page cannot make the studio open files.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from musicgen.errors import UserError
from musicgen.inputs import read_document
from musicgen.languages.registry import load_tokenizer
from musicgen.model.bundle import CONFIG, DESCRIPTION
from musicgen.sampling.choose import SamplingConfig
from musicgen.sampling.music_model import BUILT_IN, OF_A_RUN, MusicModel, load_music_model


class Models:
    """Models by name.

    Args:
        folder: A folder with bundles or training runs; it need not exist.
        first: The name of the model that is used if a request names none.

    Raises:
        UserError: There is no such model.
    """

    def __init__(self, folder: Path | None = None, first: str = "pop-small") -> None:
        self._lock, self._loaded = threading.Lock(), dict[str, MusicModel]()
        self._folders = {path.name: path for path in sorted(BUILT_IN.iterdir()) if path.is_dir()}
        self._about: dict[str, dict[str, Any]] = {}
        for path in sorted(folder.iterdir()) if folder is not None and folder.is_dir() else ():
            bundle = path / OF_A_RUN if (path / OF_A_RUN).is_dir() else path
            if (bundle / "config.json").is_file():
                self._folders.setdefault(path.name, bundle)
        for name, path in list(self._folders.items()):
            try:
                self._about[name] = _about(name, path)
            except (UserError, OSError, ValueError):  # noqa: PERF203  (one bad folder hides no other)
                del self._folders[name]
        if first not in self._folders:
            raise UserError(f"model={first}: no such model (known: {', '.join(self._folders)})")
        self.first = first

    def get(self, name: str | None, sha256: str = "") -> MusicModel:
        """A model.

        Args:
            name: Its name; None for the first.
            sha256: The hash that its weights must have; empty for any.

        Raises:
            UserError: There is none, or it is another one.
        """
        name = name or self.first
        if name not in self._folders:
            raise UserError(f"model={name[:100]}: no such model (known: {', '.join(self._folders)})")
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = load_music_model(self._folders[name])
                self._loaded[name].name = name
        model = self._loaded[name]
        if sha256 and model.sha256 != sha256:
            raise UserError(f"model={name}: has changed since this take was written; write a new piece")
        return model

    def listed(self) -> list[dict[str, Any]]:
        """What is known about each, the first model first."""
        return sorted(self._about.values(), key=lambda about: about["name"] != self.first)


def _about(name: str, folder: Path) -> dict[str, Any]:
    language = load_tokenizer(folder)
    config = read_document(folder / CONFIG, DESCRIPTION)
    usual = {**vars(SamplingConfig()), **language.sampling, **(config.get("sampling") or {})}
    sees = language.infill is not None
    return {"name": name, "plays": language.title, "sampling": usual, "sees_what_follows": sees}
