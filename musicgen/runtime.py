"""How a process that trains or generates uses the machine: its threads and its memory. For commands, not for imports.

The hard choice: glibc gives large blocks back to the system as soon as they are freed, and a training step frees and
takes gigabytes of them. Every page then has to be faulted in and zeroed again, which in a virtual machine costs more
than the arithmetic of many layers: with memory kept, a step of the gated sine model takes about a quarter less time.
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

from musicgen.guard import Guarded, GuardError

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


def peak_memory() -> float:
    """The most memory that this process has had, in GB: of the GPU if it used one."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() / 1e9
    status = Path("/proc/self/status")
    if status.is_file():  # what Linux tells of the resources of a process has the peak of its parent in it
        (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(kilobytes) * 1024 / 1e9
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def bfloat16_works(device: str) -> bool:
    """Whether a device really multiplies in bfloat16, by trying it where nothing is lost if it does not.

    A processor may say that it can and die of it.
    """
    child = Guarded(_multiply_in_bfloat16, seconds=120)
    try:
        return bool(child(device))
    except (GuardError, RuntimeError):
        return False
    finally:
        child.close()


def _multiply_in_bfloat16(device: str) -> bool:
    layer = torch.nn.Linear(64, 64, device=device, dtype=torch.bfloat16)
    product = layer(torch.ones(32, 64, device=device, dtype=torch.bfloat16))
    product.float().square().mean().backward()
    return bool(torch.isfinite(product).all())
