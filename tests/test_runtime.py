"""Threads and memory of the process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import pytest
import torch

from musicgen.runtime import choose_threads


def test_the_fastest_thread_count_is_chosen_and_set() -> None:
    def work() -> None:  # slower, the more threads there are
        time.sleep(0.001 * torch.get_num_threads())

    assert choose_threads(work) == 1
    assert torch.get_num_threads() == 1
    assert 1 <= choose_threads() <= (os.cpu_count() or 1)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_kept_memory_is_not_faulted_in_again() -> None:
    program = """
import resource, torch
from musicgen.runtime import keep_memory
{}
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.zeros(100_000_000 // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
for _ in range(5):  # until the heap has found its size
    faults()
print(faults())
"""
    pages = 100_000_000 // resource.getpagesize()
    faults = {}
    for call in ("keep_memory()", ""):
        output = subprocess.run(
            [sys.executable, "-c", program.format(call)], capture_output=True, text=True, check=True
        )
        faults[call] = int(output.stdout)
    assert faults["keep_memory()"] < pages / 10
    assert faults[""] > faults["keep_memory()"]
