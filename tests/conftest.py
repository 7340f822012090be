"""What tests share: one thread and fixed seeds, so that results and times repeat; helpers for comparing."""

from __future__ import annotations

import os

import pytest
import torch

from musicgen.attention.fast_transformers import available


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
