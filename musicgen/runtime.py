"""How a process that trains or generates uses the machine: its threads and its memory. For commands, not for imports.

The hard choice: glibc gives large blocks back to the system as soon as they are freed, and a training step frees and
takes gigabytes of them. Every page then has to be faulted in and zeroed again, which in a virtual machine costs more
than the arithmetic of many layers: with memory kept, a step of the gated sine model takes about a quarter less time.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable

import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names for what is set


def keep_memory() -> None:
    """Let the allocator keep what this process frees, up to its own peak. Does nothing where there is no glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_TRIM_THRESHOLD, -1)  # never give the top of the heap back
    mallopt(_MMAP_THRESHOLD, (1 << 31) - 1)  # take everything from the heap


def choose_threads(work: Callable[[], object] | None = None) -> int:
    """Set torch's thread count to the fastest for some work, by trying each, and return it.

    More threads are not always faster: two virtual cores may be one real one, and small products only wait.

    Args:
        work: What to time; a matrix product of a model's shape by default.
    """
    if work is None:
        left, right = torch.randn(2048, 512), torch.randn(512, 2048)

        def work() -> object:
            return left @ right

    seconds = {}
    for threads in range(1, (os.cpu_count() or 1) + 1):
        torch.set_num_threads(threads)
        seconds[threads] = _best(work)
    fastest = min(seconds, key=lambda threads: seconds[threads])
    torch.set_num_threads(fastest)
    return fastest


def _best(work: Callable[[], object], repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
