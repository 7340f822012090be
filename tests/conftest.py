"""What tests share: one thread and fixed seeds, so that results and times repeat; helpers for comparing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from musicgen.attention.fast_transformers import available

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

# New examples on every desk, the same ones on every machine that checks a change.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    torch.set_num_threads(1)  # small tensors: a second thread only waits
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def fast_transformers() -> None:
    """Skips where pytorch-fast-transformers could not be built; under CI its absence is a failure."""
    if not available():
        reason = "pytorch-fast-transformers is not installed (make fast-transformers)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """A folder of real music by name (`pop1k7`, `pop909`, `grooves`); the test is skipped where there is none.

    They are looked for in the folder that MUSICGEN_DATA names, or else in ../shared/data.
    """
    root = Path(os.environ.get("MUSICGEN_DATA", Path(__file__).parents[2] / "shared" / "data"))

    def find(name: str) -> Path:
        if not (root / name).is_dir():
            pytest.skip(f"no folder {root / name} (MUSICGEN_DATA says where real music is)")
        return root / name

    return find
