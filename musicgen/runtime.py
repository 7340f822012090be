"""Threads and memory of a process that trains or generates. Commands call this; importing the library changes nothing.

Design note: glibc returns large blocks to the system as soon as they are freed, and a training step frees and
allocates gigabytes. The system then zeroes every page again, which in a virtual machine costs more than the
arithmetic of many layers. With `keep_memory`, a step of the gated sine model takes about a quarter less time.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from musicgen.subprocess_call import SubprocessCall, SubprocessError

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # numbers of glibc's options


def keep_memory() -> None:
    """Let the allocator keep the memory that this process frees. Does nothing without glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_TRIM_THRESHOLD, -1)  # never return the top of the heap
    mallopt(_MMAP_THRESHOLD, (1 << 31) - 1)  # allocate everything on the heap


def choose_threads(work: Callable[[], object] | None = None) -> int:
    """Try each thread count, set torch to the fastest one, and return it.

    More threads are not always faster: two virtual cores may share a real one, and small products do not profit.

    Args:
        work: The work to time. By default, a matrix product of a model's shape.
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


def peak_memory() -> float:
    """The peak memory of this process, in GB. If it used a GPU, the peak memory of the GPU."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() / 1e9
    status = Path("/proc/self/status")
    if status.is_file():  # on Linux, getrusage includes the peak of the parent
        (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(kilobytes) * 1024 / 1e9
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def bfloat16_works(device: str) -> bool:
    """Whether a device really multiplies in bfloat16.

    Some processors report support and then crash, so a child process tries it.
    """
    child = SubprocessCall(_multiply_in_bfloat16, seconds=120)
    try:
        return bool(child(device))
    except (SubprocessError, RuntimeError):
        return False
    finally:
        child.close()


def _multiply_in_bfloat16(device: str) -> bool:
    layer = torch.nn.Linear(64, 64, device=device, dtype=torch.bfloat16)
    product = layer(torch.ones(32, 64, device=device, dtype=torch.bfloat16))
    product.float().square().mean().backward()
    return bool(torch.isfinite(product).all())
