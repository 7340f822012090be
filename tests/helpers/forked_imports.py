"""What the server of `forked` imports once for all of its processes."""

from __future__ import annotations

import importlib
import warnings

MODULES = (
    "lightning.pytorch",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "musicgen.cli.config",
    "musicgen.cli.main",
    "musicgen.sampling",
    "musicgen.training.run",
)
for _name in MODULES:
    with warnings.catch_warnings():
        if _name.startswith("musicgen."):
            warnings.simplefilter("error")
        importlib.import_module(_name)
