"""A model's step as files that leave Python: `step.onnx`, and `step.json` with what else a host has to know.

They are for other programs. musicgen itself never loads them: it builds the graph from the weights.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from musicgen.attention.state import NOTHING
from musicgen.errors import UserError
from musicgen.model.engine import why_not_onnx
from musicgen.model.graph.step import step_graph

if TYPE_CHECKING:
    from musicgen.model.performer import PerformerLM

GRAPH, DESCRIPTION = "step.onnx", "step.json"
FORMAT = 1


def graph_files(model: PerformerLM, seed: int = 0, half: bool = False) -> dict[str, bytes]:
    """The files by name.

    Args:
        model: The model.
        seed: The seed of the positional noise, which is part of the graph.
        half: Whether weights are stored in 16 bits.

    Raises:
        UserError: The model cannot be a graph.
    """
    reason = why_not_onnx(model)
    if reason:
        raise UserError(f"onnx=true: {reason}")
    config, graph = model.config, step_graph(model, model.draw(seed), half)
    sides = {
        side: {name: {"type": kind, "shape": list(shape)} for name, (kind, shape) in values.items()}
        for side, values in (("inputs", graph.inputs), ("outputs", graph.outputs))
    }
    description = {
        "format": FORMAT,
        "draw": seed,
        **sides,
        "position": f"beats times {config.time_resolution}" if config.positions == "time" else "index of the token",
        "elapsed": f"beats since the token before times {config.time_resolution}, at least 0",
        "state": "the output next_NAME is the input NAME of the next token",
        "start": {"memory": 0.0, "log_scale": NOTHING, "recent": 0.0},
        "by_host": dict.fromkeys(graph.feeds, "codes at the position, noise of the draw"),
    }
    if "elapsed" not in graph.inputs:
        del description["elapsed"]
    return {
        GRAPH: graph.model().SerializeToString(deterministic=True),
        DESCRIPTION: (json.dumps(description, indent=1) + "\n").encode(),
    }
