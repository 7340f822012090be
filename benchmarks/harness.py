"""What the benchmarks share: measuring in separate processes, choosing threads, printing tables.

Design note: a benchmark reports ratios, never only seconds. Machines are shared and noisy. So the things that are
compared alternate in one run (A, B, A, B, …), each in a new process with its own peak memory, and the best turn counts,
because noise only adds time.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from musicgen.runtime import choose_threads, keep_memory

RESULTS = Path(__file__).parent / "results"
Measurement = Callable[..., dict[str, float]]


@dataclasses.dataclass
class Row:
    """One line of a table: what was measured, what came out, what was to be reached."""

    what: str
    value: float
    unit: str
    target: str
    met: bool
    note: str = ""


def best_time(function: Callable[[], object], repeats: int, warmup: int = 1) -> float:
    """Seconds of the fastest of several calls."""
    for _ in range(warmup):
        function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(script: str, name: str, **arguments: Any) -> dict[str, float]:
    """Run one of a script's measurements in a process of its own; adds that process's peak memory in GB.

    `threads` is torch's thread count there; `kept=False` leaves the allocator as it is (see `keep_memory`).
    """
    command = [sys.executable, script, "--measure", json.dumps({"name": name, "arguments": arguments})]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - ours
    result: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    print(f"  {name} {arguments}: " + ", ".join(f"{key} {value:.4g}" for key, value in result.items()), flush=True)
    return result


def main(script: str, measurements: dict[str, Measurement], benchmark: Callable[[int], list[Row]], title: str) -> None:
    """The body of a benchmark script: the whole benchmark, or (in a child) a single measurement of it."""
    if "--measure" in sys.argv:
        request = json.loads(sys.argv[sys.argv.index("--measure") + 1])
        arguments = request["arguments"]
        if arguments.pop("kept", True):
            keep_memory()
        torch.manual_seed(0)
        torch.set_num_threads(arguments.pop("threads"))
        result = measurements[request["name"]](**arguments)
        result["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps(result))
        return
    threads = choose_threads()
    print(f"{title}\n{machine()}, {threads} thread(s) by measurement\n", flush=True)
    report(Path(script).stem, title, threads, benchmark(threads))


def machine() -> str:
    """This machine in a few words."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, torch {torch.__version__}"


def report(name: str, title: str, threads: int, rows: list[Row]) -> None:
    """Print the table and write it as JSON."""
    width = max(len(row.what) for row in rows)
    print()
    for row in rows:
        reached = "reached" if row.met else "MISSED"
        print(f"{row.what:{width}}  {row.value:9.3g} {row.unit:4}  to reach {row.target:12} {reached:8} {row.note}")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    content = {"title": title, "machine": machine(), "threads": threads, "rows": [vars(row) for row in rows]}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\nwritten to {path}")
