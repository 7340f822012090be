"""The gated delta rule: a memory that replaces what it holds under a key, where linear attention only adds to it.

Each token reads what the memory holds under its key, writes a share β of the difference to its own value, and lets
the memory decay by γ: S_t = γ_t·S_{t−1} + β_t·k_t·(v_t − γ_t·S_{t−1}ᵀ·k_t)ᵀ, and the output is S_tᵀ·q_t. Keys are unit
vectors, so with β = 1 a key that comes again finds exactly the last value written under it. That is what a model needs
to repeat what it heard. (Schlag et al. 2021; Yang et al. 2024, arXiv 2406.06484 and 2412.06464.)

Design note: inside a chunk, what each token writes depends on what the earlier ones wrote. Written out, that is a
triangular system of equations, solved for all chunks at once. Only the memory goes from chunk to chunk.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 32


def delta_rule(
    queries: Tensor, keys: Tensor, values: Tensor, strength: Tensor, log_decay: Tensor, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """A sequence, from a memory to a memory, in chunks.

    Args:
        queries: `(batch, length, heads, E)`.
        keys: `(batch, length, heads, E)`, unit vectors.
        values: `(batch, length, heads, V)`.
        strength: β, from 0 to 1, `(batch, length, heads)`.
        log_decay: log γ ≤ 0 of each token, `(batch, length, heads)`.
        memory: S before these tokens, `(batch, heads, E, V)`.

    Returns:
        The output `(batch, length, heads, V)` and the memory after it.
    """
    inputs = [tensor.transpose(1, 2) for tensor in (queries, keys, values, strength, log_decay)]
    length = values.shape[1]
    whole = length - length % CHUNK
    outputs = []
    for start, end in ((0, whole), (whole, length)):
        if start < end:
            chunk = min(CHUNK, end - start)
            pieces = (tensor[:, :, start:end].unflatten(2, (-1, chunk)) for tensor in inputs)
            output, memory = _chunks(memory, *pieces)
            outputs.append(output.flatten(2, 3))
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs, 2)).transpose(1, 2), memory


def _chunks(
    memory: Tensor, queries: Tensor, keys: Tensor, values: Tensor, strength: Tensor, log_decay: Tensor
) -> tuple[Tensor, Tensor]:
    """From the memory `(B, H, E, V)` through c chunks of C tokens, `(B, H, c, C, ...)`."""
    size, width = values.shape[-2], values.shape[-1]
    passed = log_decay.cumsum(-1)  # since the memory before the chunk
    later = torch.ones(size, size, dtype=torch.bool, device=keys.device).triu_(1)
    decay = (passed.unsqueeze(-1) - passed.unsqueeze(-2)).masked_fill(later, -torch.inf).exp()
    strength, kept = strength.unsqueeze(-1), passed.exp().unsqueeze(-1)

    # What token m writes: β_m·(v_m − what it reads), where it reads the memory and all that was written before it.
    system = (strength * (keys @ keys.transpose(-1, -2)) * decay).tril(-1)
    right = strength * torch.cat([values, kept * keys], -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    alone, read = solved[..., :width], solved[..., width:]

    written_keys = (keys * (passed[..., -1:] - passed).exp().unsqueeze(-1)).transpose(-1, -2)
    before, written = [], []
    # `unbind` and not indices: the gradient of an index is a tensor of zeros as large as all chunks.
    parts = (alone, read, kept[..., -1:, :], written_keys)
    for own, reading, remains, keys_of_chunk in zip(*(part.unbind(2) for part in parts), strict=True):
        before.append(memory)
        written.append(own - reading @ memory)
        memory = remains * memory + keys_of_chunk @ written[-1]
    scores = (queries @ keys.transpose(-1, -2)) * decay
    return (kept * queries) @ torch.stack(before, 2) + scores @ torch.stack(written, 2), memory


def delta_step(
    query: Tensor, key: Tensor, value: Tensor, strength: Tensor, log_decay: Tensor, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """One token: write, then read. No row's bits depend on the other rows.

    Args:
        query: `(batch, heads, E)`.
        key: `(batch, heads, E)`, unit vectors.
        value: `(batch, heads, V)`.
        strength: β, `(batch, heads)`.
        log_decay: log γ, `(batch, heads)`, or `(heads,)` if it is the same for all.
        memory: S before the token, `(batch, heads, E, V)`.

    Returns:
        The output `(batch, heads, V)` and the memory after it.
    """
    memory = memory * log_decay.exp()[..., None, None]
    key = key.unsqueeze(-1)
    # Not matrix products: their rounding depends on where a matrix begins in memory, which differs between rows.
    written = (value - (memory * key).sum(-2)) * strength.unsqueeze(-1)
    memory = torch.addcmul(memory, key, written.unsqueeze(-2))
    return (memory * query.unsqueeze(-1)).sum(-2), memory


def recurrent_delta_rule(
    queries: Tensor, keys: Tensor, values: Tensor, strength: Tensor, log_decay: Tensor, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """`delta_rule` as a loop over tokens."""
    outputs = []
    for token in range(values.shape[1]):
        query, key, value, beta, decay = (tensor[:, token] for tensor in (queries, keys, values, strength, log_decay))
        output, memory = delta_step(query, key, value, beta, decay, memory)
        outputs.append(output)
    return torch.stack(outputs, 1), memory
