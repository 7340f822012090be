"""A short slice of `make soak`, and that a fault would be seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from soak.__main__ import Attack, attacks, main
from soak.cases import Fault, isolated

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.filterwarnings("ignore:This process")  # it has threads, and forks only what is simple
QUICK = "bundle,state,python,options,read"


def test_a_slice_of_the_campaign_finds_no_fault() -> None:
    """In a process of its own: a campaign forks, and this one has threads."""
    command = [sys.executable, "-m", "soak", f"only={QUICK}", "scale=0.005", "seconds=60"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "; 0 faults." in done.stdout


def test_every_attack_can_be_repeated_by_its_name() -> None:
    known = attacks()
    assert {"read", "bundle", "kill", "full disk", "studio"} <= known.keys()
    units = {
        unit: sum(attack.cases for attack in known.values() if attack.unit == unit)
        for unit in ("hostile artefacts", "kills")
    }
    assert units["hostile artefacts"] >= 2000
    assert units["kills"] >= 100
    assert main(["nonsense=1"]) == 2


def crash() -> int:
    import os

    os.abort()


def hang() -> int:
    import time

    time.sleep(60)
    return 1


def raise_error() -> int:
    raise KeyError("x")


@pytest.mark.parametrize(("work", "words"), [(crash, "no answer"), (hang, "took more"), (raise_error, "KeyError")])
def test_a_case_that_crashes_hangs_or_raises_is_a_fault(work: object, words: str) -> None:
    with pytest.raises(Fault, match=words):
        isolated(work, 1.0)  # type: ignore[arg-type]
    assert isolated(lambda: 3, 30) == 3


def test_the_table_counts_faults_and_says_how_to_repeat_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from soak.__main__ import recall, remember, run_case, table

    attack = Attack(lambda *_: raise_error(), "kills", 1)
    run_case("broken", attack, 7, 3, tmp_path, tmp_path)
    assert 'python -m soak only="broken" case=3 seed=7' in capsys.readouterr().out
    assert "| broken | 1 | 0 kills | 1 |" in table({"broken": attack}, 7)
    remember({"broken": attack}, tmp_path / "log.json")
    again = Attack(lambda *_: 1, "kills", 1)
    recall({"broken": again}, tmp_path / "log.json")
    assert (again.done, again.faults) == (1, attack.faults)
