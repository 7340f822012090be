"""`musicgen demo`: what the model can do before it has learnt anything.

It writes tokens one by one, reads them again all at once and compares; and it draws positional kernels beside the
noise that stands for them. The hard choice: nothing is trained, downloaded or configured, so what it shows holds
for every model and takes seconds.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from musicgen.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from musicgen.model import PerformerLM, State
    from musicgen.spe import Draw, PositionalCode

ABOUT = """\
usage: musicgen demo [out=FOLDER]

Streams an untrained model, checks that it equals the same model run in parallel, and draws positional kernels to
FOLDER/kernels.png (by default demo/kernels.png). Takes some seconds and needs no data.

example: musicgen demo out=demo"""

SEED = 0
EARLY, LATE = 100, 2000  # positions whose cost is compared; the piece ends at the later one
REPEATS = 100  # steps timed at each
TOLERANCE = 1e-5  # of logits, which are of the order of 0.1 before training
COLOURS = ("#0072b2", "#d55e00", "#009e73")  # told apart by colour-blind readers too


def run(arguments: list[str]) -> int:
    """Stream, compare, draw. The status is 1 if streaming and parallel should ever differ."""
    if "--help" in arguments or "-h" in arguments:
        print(ABOUT)
        return 0
    folder = _folder(arguments)
    difference = stream()
    picture = folder / "kernels.png"
    try:
        draw_kernels(picture)
    except OSError as error:
        raise UserError(f"{picture}: cannot write this file ({error.strerror}), give another out=") from None
    print(f"positional kernels drawn to {picture}")
    return 0 if difference <= TOLERANCE else 1


def _folder(arguments: list[str]) -> Path:
    """The folder that `out=` names, made."""
    folder = Path("demo")
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key != "out" or not value:
            raise UserError(f"cannot read {argument!r}: demo takes out=FOLDER and nothing else")
        folder = Path(value)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"out={folder}: cannot make this folder ({error.strerror}), give another") from None
    return folder


def stream() -> float:
    """Stream tokens, print what it took, and return the largest difference from the parallel model."""
    import torch

    from musicgen.model import PerformerConfig, PerformerLM

    torch.set_num_threads(1)  # one token is too little work to share
    torch.manual_seed(SEED)
    config = PerformerConfig(
        vocab_size=333, num_layers=2, num_heads=4, d_model=128, d_ff=512, num_features=64, decay="fixed"
    )
    model = PerformerLM(config).eval()
    draw = model.draw(SEED)
    states, difference = _compare(model, draw)
    early, late = _milliseconds(model, [states[EARLY], states[LATE]])
    verdict = "equal" if difference <= TOLERANCE else "NOT equal"
    print(f"a model of {model.num_parameters():,} untrained parameters wrote {LATE:,} tokens one by one")
    print(f"  streaming and parallel are {verdict}: logits differ by at most {difference:.1e}")
    print(f"  what it remembers of the piece: {states[LATE].nbytes / 1e3:.0f} kB, at any length")
    print(f"  time of a token: {early:.2f} ms at position {EARLY:,}, {late:.2f} ms at position {LATE:,}")
    return difference


def _compare(model: PerformerLM, draw: Draw) -> tuple[dict[int, State], float]:
    """The states at the two positions of interest, and by how much streamed and parallel logits differ."""
    import torch

    sampling = torch.Generator().manual_seed(SEED)
    state = model.init_state(draw)
    states = {}
    tokens = [torch.zeros(1, dtype=torch.long)]
    streamed = []
    for position in range(1, LATE + 1):
        logits, state = model.step(tokens[-1], state)
        if position in (EARLY, LATE):
            states[position] = state
        streamed.append(logits)
        tokens.append(torch.multinomial(logits.softmax(-1), 1, generator=sampling)[:, 0])
    with torch.no_grad():
        parallel = model(torch.stack(tokens[:-1], 1), draw)
    return states, (torch.stack(streamed, 1) - parallel).abs().max().item()


def _milliseconds(model: PerformerLM, states: list[State]) -> list[float]:
    """The median time of a step from each state, in turns, so that a busy moment of the machine hits all alike."""
    import torch

    token = torch.zeros(1, dtype=torch.long)
    times: list[list[float]] = [[] for _ in states]
    for _ in range(REPEATS):
        for state, own in zip(states, times, strict=True):
            start = time.perf_counter()
            model.step(token, state)
            own.append(1000 * (time.perf_counter() - start))
    return [statistics.median(own) for own in times]


def draw_kernels(path: Path) -> None:
    """Draw kernels of a sine and of a convolutional code as they are in expectation and as noise realises them."""
    import matplotlib as mpl

    mpl.use("agg")
    import torch
    from matplotlib import pyplot

    from musicgen.spe import ConvSPE, SineSPE

    torch.manual_seed(SEED)
    codes = {
        "SineSPE, 5 sines": SineSPE(num_heads=1, in_features=len(COLOURS), num_sines=5),
        "ConvSPE, 128 taps": ConvSPE(num_heads=1, in_features=len(COLOURS), kernel_size=128),
    }
    figure, grid = pyplot.subplots(2, 2, figsize=(11, 6.4), sharex=True, sharey="row", layout="constrained")
    for row, (name, code) in zip(grid, codes.items(), strict=True):
        for axes, realizations in zip(row, (64, 4096), strict=True):
            _plot(axes, code, realizations)
            axes.set_title(f"{name}, R = {realizations:,}", loc="left")
        row[0].set_ylabel("kernel $P_d$")
    for axes in grid[-1]:
        axes.set_xlabel("lag in tokens, query − key")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("Positional kernels at initialisation: in expectation (lines) and from one draw of noise (dots)")
    partial = path.with_name(path.name + ".partial")
    try:
        figure.savefig(partial, format="png", dpi=130)
        partial.replace(path)
    finally:
        pyplot.close(figure)
        partial.unlink(missing_ok=True)


def _plot(axes: Axes, code: PositionalCode, realizations: int) -> None:
    """Kernels of the first head: lines of their closed form, dots of Σ_r q̄_r(m)·k̄_r(n) at n in the middle."""
    import torch

    reach = 200
    lags = torch.arange(-reach, reach + 1)
    with torch.no_grad():
        kernels = code.kernel(lags)[0]
        queries, keys = code.codes(code.draw(SEED, realizations), lags + reach)
        scale = (code.in_features / realizations) ** 0.5  # codes are scaled for attention: √(R/D)·P_d
        estimates = scale * torch.einsum("mdr,dr->dm", queries[:, 0], keys[reach, 0])
    axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    for feature, colour in enumerate(COLOURS):
        axes.plot(lags, kernels[feature], color=colour, linewidth=1.8, label=f"feature {feature + 1}")
        axes.plot(lags[::4], estimates[feature, ::4], ".", color=colour, markersize=4, alpha=0.55)
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)
