"""A training step of the paper's models: against the published recipe, and of SPE against added sinusoids.

python benchmarks/training_step.py            # everything, about 15 minutes, up to 20 GB
python benchmarks/training_step.py --layers 4 # fewer layers: quicker, and SPE's fixed cost weighs more
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, best_time, main, measure
from musicgen.model import PerformerConfig, PerformerLM

LENGTH = 2048


def step_time(model: torch.nn.Module, config: PerformerConfig, batch: int, repeats: int) -> dict[str, float]:
    """Seconds of forward, backward and Adam, and a check that the loss is a number."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(config.vocab_size, (batch, LENGTH + 1))
    losses: list[float] = []

    def step() -> None:
        draw = (model.draw(len(losses)),) if isinstance(model, PerformerLM) else ()
        logits = model(tokens[:, :-1], *draw)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))

    seconds = best_time(step, repeats)
    return {"seconds": seconds, "loss": losses[-1]}


def ours(pe: str, layers: int, batch: int, repeats: int = 2) -> dict[str, float]:
    """Our model's step."""
    config = dataclasses.replace(PerformerConfig.paper(pe), num_layers=layers)  # type: ignore[arg-type]
    return step_time(PerformerLM(config), config, batch, repeats)


def recipe(layers: int, batch: int, repeats: int = 1) -> dict[str, float]:
    """The published recipe's step, gated sine."""
    from benchmarks.recipe import RecipeLM

    config = dataclasses.replace(PerformerConfig.paper("sine"), num_layers=layers)
    return step_time(RecipeLM(config), config, batch, repeats)


def matmul_share(layers: int, batch: int) -> dict[str, float]:
    """Time of the bare matrix products of an APE step, next to the step, measured turn by turn in one process."""
    config = dataclasses.replace(PerformerConfig.paper("ape"), num_layers=layers)
    model = PerformerLM(config)
    rows = batch * LENGTH
    width, inner = config.d_model, config.d_ff
    shapes = [(width, 2 * width), (width, width), (width, width), (width, inner), (inner, width)]
    operands = [(torch.randn(rows, i), torch.randn(o, i), torch.randn(rows, o)) for i, o in shapes]
    products = 6 * rows * sum(i * o for i, o in shapes) * layers
    chunk, features, values = 64, config.num_features, config.head_features + 1
    per_token = 3 * 2 * (chunk * (features + values) + 2 * features * values) + 2 * 3 * 2 * 64 * features // 2
    other = rows * config.num_heads * per_token * layers + 6 * rows * width * config.vocab_size

    def plain() -> None:
        for inputs, weight, gradient in operands:
            inputs @ weight.T  # forward
            gradient @ weight  # gradient of the input
            gradient.T @ inputs  # gradient of the weight

    # Alternate, so that a busy neighbour slows both.
    plain_times, step_times = [], []
    for _ in range(3):
        plain_times.append(best_time(plain, 3, warmup=0) * layers)
        step_times.append(step_time(model, config, batch, 1)["seconds"])
    plain_seconds, step_seconds = min(plain_times), min(step_times)
    plain_rate = products / plain_seconds
    step_rate = (products + other) / step_seconds
    return {"plain_gflops": plain_rate / 1e9, "step_gflops": step_rate / 1e9, "share": step_rate / plain_rate}


def benchmark(threads: int) -> list[Row]:
    """All rows; models are measured in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=24)
    layers = parser.parse_args().layers
    shared = {"threads": threads, "layers": layers}

    first = measure(__file__, "ours", pe="sine", batch=1, **shared)
    # With freed memory kept, the recipe's 24 layers do not fit 24 GB: it runs as it always did.
    published = measure(__file__, "recipe", batch=1, kept=False, **shared)
    second = measure(__file__, "ours", pe="sine", batch=1, **shared)
    speedup = published["seconds"] / min(first["seconds"], second["seconds"])
    memory = first["peak_gb"] / published["peak_gb"]
    rows = [
        Row(f"gated sine, {layers} layers, batch 1: speed against the recipe", speedup, "x", ">= 4", speedup >= 4),
        Row("  peak memory against the recipe", memory, "x", "<= 0.333", memory <= 1 / 3),
    ]
    few = {"threads": threads, "layers": min(layers, 8), "batch": 1}
    kept = measure(__file__, "recipe", **few)["seconds"] / measure(__file__, "ours", pe="sine", **few)["seconds"]
    what = f"  speed at {few['layers']} layers, with freed memory kept for both"
    rows.append(Row(what, kept, "x", ">= 4", kept >= 4))

    turns: dict[str, list[dict[str, float]]] = {"ape": [], "sine": [], "conv": []}
    for _ in range(2):
        for pe, measured in turns.items():
            measured.append(measure(__file__, "ours", pe=pe, batch=4, repeats=1, **shared))
    seconds = {pe: min(turn["seconds"] for turn in measured) for pe, measured in turns.items()}
    peaks = {pe: min(turn["peak_gb"] for turn in measured) for pe, measured in turns.items()}
    for pe, most_time, most_memory in (("sine", 1.25, 1.2), ("conv", 1.5, 1.3)):
        slower, larger = seconds[pe] / seconds["ape"], peaks[pe] / peaks["ape"]
        rows += [
            Row(f"gated {pe} against ape, batch 4: time", slower, "x", f"<= {most_time}", slower <= most_time),
            Row(
                "  peak memory", larger, "x", f"<= {most_memory}", larger <= most_memory, f"ape: {peaks['ape']:.1f} GB"
            ),
        ]

    share = measure(__file__, "matmul_share", batch=1, threads=threads, layers=min(layers, 8))
    note = f"{share['step_gflops']:.0f} of {share['plain_gflops']:.0f} GFLOP/s"
    rows.append(Row("ape step: share of plain matmul speed", share["share"], "", ">= 0.7", share["share"] >= 0.7, note))
    return rows


if __name__ == "__main__":
    main(
        __file__,
        {"ours": ours, "recipe": recipe, "matmul_share": matmul_share},
        benchmark,
        "Training step of the paper's model, 2,048 tokens",
    )
