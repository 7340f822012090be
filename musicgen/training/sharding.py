"""A model of which every process holds a part: FSDP2.

The hard choice: layers are the units, and what all layers share (embeddings, codes, gates, the output) is the root,
which stays whole for the length of a step. The codes' gradient is formed once, at the end of the backward pass, and
must find its parameters there.
"""

from __future__ import annotations

from typing import Any

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from musicgen.model import PerformerLM


def shard_model(model: PerformerLM, mesh: DeviceMesh | None = None) -> None:
    """Divide the parameters of a model among processes, in place.

    Args:
        model: The model.
        mesh: The processes; all of them by default.
    """
    options: dict[str, Any] = {} if mesh is None else {"mesh": mesh}
    for layer in model.layers:
        fully_shard(layer, **options)
    fully_shard(model, **options, reshard_after_forward=False)
