"""A picture of positional kernels: exact, and approximated by one draw of noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from musicgen.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from musicgen.spe import PositionalCode

SEED = 0
COLOURS = ("#0072b2", "#d55e00", "#009e73")  # colour-blind readers can tell them apart


def draw_kernels(path: Path) -> None:
    """Draw kernels of a sine and of a convolutional code: exact, and approximated by one draw of noise."""
    import torch
    from matplotlib.figure import Figure

    from musicgen.spe import ConvSPE, SineSPE

    torch.manual_seed(SEED)
    codes = {
        "SineSPE, 5 sines": SineSPE(num_heads=1, in_features=len(COLOURS), num_sines=5),
        "ConvSPE, 128 taps": ConvSPE(num_heads=1, in_features=len(COLOURS), kernel_size=128),
    }
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey="row")
    for row, (name, code) in zip(grid, codes.items(), strict=True):
        for axes, realizations in zip(row, (64, 4096), strict=True):
            _plot(axes, code, realizations)
            axes.set_title(f"{name}, R = {realizations:,}", loc="left")
        row[0].set_ylabel("kernel $P_d$")
    for axes in grid[-1]:
        axes.set_xlabel("lag in tokens, query − key")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("Positional kernels at initialisation: in expectation (lines) and from one draw of noise (dots)")
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=130)


def _plot(axes: Axes, code: PositionalCode, realizations: int) -> None:
    """Kernels of the first head: lines for the closed form, dots for Σ_r q̄_r(m)·k̄_r(n) with n in the middle."""
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
