"""`python -m soak`: attacks every command with random faults for some time, and prints what was tried.

    python -m soak seconds=300 seed=0            # what `make soak` runs
    python -m soak only=state case=17 seed=0     # one case again
    python -m soak seconds=3600 log=soak.json    # again, to go on after a stop

Each case follows from the seed, the name of the attack and its number. A fault is printed with the call that
repeats it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from musicgen.files import atomic_write
from soak import inputs, processes, requests, studio
from soak.cases import Fault, isolated, tree, warm_up
from soak.world import build

Work = Callable[[Random, Path, Path], int]


@dataclass
class Attack:
    """A kind of attack.

    Attributes:
        work: One case. It returns how many things it tried.
        unit: What it counts: `damaged files`, `hostile artefacts`, `kills`, `requests` or `other`.
        cases: How many cases a whole campaign has.
        seconds: Time limit of a case.
        needs_run: Whether it attacks a training run.
    """

    work: Work
    unit: str
    cases: int
    seconds: float = 90.0
    needs_run: bool = False
    done: int = 0
    tried: int = 0
    took: float = 0.0
    faults: list[str] = field(default_factory=list)


def attacks() -> dict[str, Attack]:
    """Every attack, with its share of a whole campaign."""
    files, artefacts, kills, asked = "damaged files", "hostile artefacts", "kills", "random requests"
    return {
        "read": Attack(inputs.read_files, files, 80, 300),
        "prepare": Attack(inputs.prepare_folder, files, 12, 600),
        "prompt": Attack(inputs.prompt_file, files, 40),
        "render": Attack(inputs.render_file, files, 40),
        "evaluate": Attack(inputs.evaluate_files, files, 10, 180),
        "bundle": Attack(inputs.bundle, artefacts, 800),
        "state": Attack(inputs.state, artefacts, 700),
        "corpus": Attack(inputs.corpus, artefacts, 260),
        "checkpoint": Attack(inputs.checkpoint, artefacts, 160, needs_run=True),
        "record": Attack(inputs.record, artefacts, 100, needs_run=True),
        "kill": Attack(processes.kill, kills, 105, needs_run=True),
        "stop": Attack(processes.stop, kills, 40, needs_run=True),
        "python": Attack(requests.python, asked, 45, 180),
        "options": Attack(requests.options, asked, 90),
        "verbs": Attack(requests.verbs, asked, 6, 180),
        "studio": Attack(studio.requests, asked, 20, 120),
        "studio kill": Attack(studio.kill, kills, 10),
        "full disk": Attack(processes.full_disk, "other", 40, needs_run=True),
        "read only": Attack(processes.read_only, "other", 7, needs_run=True),
        "vanish": Attack(processes.vanish, "other", 20, needs_run=True),
        "two writers": Attack(processes.two_writers, "other", 15, 180, needs_run=True),
        "gone folder": Attack(processes.gone_folder, "other", 7, needs_run=True),
        "output": Attack(processes.output, "other", 10, 150, needs_run=True),
    }


def run_case(name: str, attack: Attack, seed: int, number: int, world: Path, root: Path) -> None:
    """Run one case and note what came of it."""
    place = root / "case"
    place.mkdir()
    began = time.monotonic()
    try:
        attack.tried += isolated(partial(attack.work, Random(f"{seed}/{name}/{number}"), world, place), attack.seconds)
    except Fault as fault:
        again = f'python -m soak only="{name}" case={number} seed={seed}'
        attack.faults.append(f"{again}\n{str(fault).strip()[-1500:]}")
        print(f"FAULT in {name}, case {number}: {attack.faults[-1]}\n", flush=True)
    attack.done += 1
    attack.took += time.monotonic() - began
    shutil.rmtree(place, ignore_errors=True)


def recall(chosen: dict[str, Attack], log: Path) -> None:
    """Go on where an earlier campaign with the same seed was stopped."""
    kept = json.loads(log.read_text()) if log.is_file() else {}
    for name, values in kept.items():
        if name in chosen:
            vars(chosen[name]).update(values)


def remember(chosen: dict[str, Attack], log: Path) -> None:
    """Write down what was done so far."""
    counts = ("done", "tried", "took", "faults")
    kept = {name: {count: getattr(attack, count) for count in counts} for name, attack in chosen.items()}
    atomic_write(log, json.dumps(kept, indent=1).encode())


def campaign(
    chosen: dict[str, Attack],
    seconds: float,
    seed: int,
    scale: float = 1.0,
    first: int = 0,
    log: Path | None = None,
) -> bool:
    """Attack for some time; print a table; return whether there was no fault.

    Args:
        chosen: The attacks.
        seconds: When to stop.
        seed: The seed.
        scale: The part of a whole campaign to make. A whole one begins again while there is time.
        first: The number of the first case of each attack.
        log: Where to keep what was done, to go on after a stop.
    """
    began = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="soak."))
    try:
        build(root / "world", any(attack.needs_run for attack in chosen.values()))
        before = tree(root / "world")
        with contextlib.suppress(KeyboardInterrupt):  # the table is printed all the same
            for name in itertools.cycle(_order(chosen, scale)) if scale == 1 and not first else _order(chosen, scale):
                if time.monotonic() - began > seconds:
                    break
                run_case(name, chosen[name], seed, first + chosen[name].done, root / "world", root)
                if log is not None:
                    remember(chosen, log)
        is_unchanged = tree(root / "world") == before
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(table(chosen, seed))
    if not is_unchanged:
        print("FAULT: a command changed what it only had to read")
    return is_unchanged and not any(attack.faults for attack in chosen.values())


def _order(chosen: dict[str, Attack], scale: float) -> list[str]:
    """The names of the attacks, each as often as it has cases, evenly mixed."""
    counts = {name: max(1, round(attack.cases * scale)) for name, attack in chosen.items()}
    done = {name: attack.done % counts[name] for name, attack in chosen.items()}  # more than 0 after a stop
    mixed = [(place / count, name) for name, count in counts.items() for place in range(done[name], count)]
    return [name for _, name in sorted(mixed)]


def table(chosen: dict[str, Attack], seed: int) -> str:
    """What was tried, in Markdown."""
    lines = ["| attack | cases | what was tried | faults | seconds |", "|---|---:|---:|---:|---:|"]
    for name, attack in chosen.items():
        tried = f"{attack.tried:,} {attack.unit}" if attack.unit != "other" else ""
        lines.append(f"| {name} | {attack.done:,} | {tried} | {len(attack.faults)} | {attack.took:.0f} |")
    units = dict.fromkeys(attack.unit for attack in chosen.values() if attack.unit != "other")
    sums = {unit: sum(attack.tried for attack in chosen.values() if attack.unit == unit) for unit in units}
    told = ", ".join(f"{number:,} {unit}" for unit, number in sums.items())
    faults = sum(len(attack.faults) for attack in chosen.values())
    done = sum(attack.done for attack in chosen.values())
    seconds = sum(attack.took for attack in chosen.values())
    lines += ["", f"{done:,} cases in {seconds / 60:.0f} minutes (seed {seed}): {told}; {faults} faults."]
    return "\n".join(lines)


def _seconds(text: str) -> float:
    """`90`, `90s`, `10m` and `2h` as seconds."""
    return float(text.rstrip("smh")) * {"m": 60, "h": 3600}.get(text[-1:], 1)


def main(arguments: list[str]) -> int:
    """Run a campaign; the exit status is 1 if there was a fault."""
    options = dict(argument.partition("=")[::2] for argument in arguments)
    seed, known = int(options.get("seed", "0")), attacks()
    if unknown := set(options) - {"seconds", "seed", "only", "case", "scale", "log"}:
        print(f"soak: unknown option {unknown.pop()}; see python -c 'import soak.__main__ as s; print(s.__doc__)'")
        return 2
    names = options["only"].split(",") if "only" in options else list(known)
    chosen = {name: known[name] for name in names}
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warm_up()
    if "case" in options:
        for attack in chosen.values():
            attack.cases = 1
        return 0 if campaign(chosen, 3600, seed, 1, int(options["case"])) else 1
    scale, log = float(options.get("scale", "1")), Path(options["log"]) if "log" in options else None
    if log is not None:
        recall(chosen, log)
    seconds = _seconds(options.get("seconds", "300"))
    return 0 if campaign(chosen, seconds, seed, scale, log=log) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
