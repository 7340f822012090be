"""The delta rule: its chunks are its definition, its gradients too, and it finds what was written under a key."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from musicgen.attention import delta_rule, recurrent_delta_rule
from musicgen.attention.delta import CHUNK

BATCH, HEADS, FEATURES, VALUES = 2, 3, 6, 4


def inputs(length: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    queries, keys = normal(BATCH, length, HEADS, FEATURES), F.normalize(normal(BATCH, length, HEADS, FEATURES), dim=-1)
    strength = torch.sigmoid(normal(BATCH, length, HEADS))
    log_decay = -normal(BATCH, length, HEADS).abs() / 8
    memory = normal(BATCH, HEADS, FEATURES, VALUES)
    tensors = [queries, keys, normal(BATCH, length, HEADS, VALUES), strength, log_decay, memory]
    return [tensor.requires_grad_() for tensor in tensors]


def defined(
    queries: Tensor, keys: Tensor, values: Tensor, strength: Tensor, log_decay: Tensor, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """S_t = γ·(1 − β·k·kᵀ)·S + β·k·vᵀ, with the matrices written out."""
    outputs = []
    for token in range(queries.shape[1]):
        key, beta = keys[:, token].unsqueeze(-1), strength[:, token, :, None, None]
        forget = torch.eye(FEATURES, dtype=key.dtype) - beta * key @ key.transpose(-1, -2)
        memory = log_decay[:, token, :, None, None].exp() * forget @ memory
        memory = memory + beta * key @ values[:, token].unsqueeze(-2)
        outputs.append((queries[:, token].unsqueeze(-2) @ memory).squeeze(-2))
    return torch.stack(outputs, 1), memory


@pytest.mark.parametrize("form", [delta_rule, recurrent_delta_rule])
@pytest.mark.parametrize("length", [1, CHUNK - 1, CHUNK, 2 * CHUNK + 7])
def test_outputs_memories_and_gradients_are_those_of_the_definition(form: object, length: int) -> None:
    results = []
    for rule in (form, defined):
        tensors = inputs(length)
        output, memory = rule(*tensors)  # type: ignore[operator]
        weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
        ((output * weights).sum() + memory.square().sum()).backward()
        results.append([output, memory, *(tensor.grad for tensor in tensors)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_the_memory_goes_on_from_any_cut() -> None:
    *sequences, memory = (tensor.detach() for tensor in inputs(150))
    whole, last = delta_rule(*sequences, memory)
    parts = []
    for start, end in ((0, 40), (40, 41), (41, 150)):
        output, memory = delta_rule(*(tensor[:, start:end] for tensor in sequences), memory)
        parts.append(output)
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    torch.testing.assert_close(memory, last)


def test_a_key_that_comes_again_finds_the_last_value_written_under_it() -> None:
    *sequences, memory = (tensor.detach() for tensor in inputs(20))
    queries, keys, values, strength, log_decay = sequences
    keys[:, 12] = keys[:, 5]
    strength = torch.ones_like(strength)
    queries[:, 12] = keys[:, 12]
    output, _ = delta_rule(queries, keys, values, strength, torch.zeros_like(log_decay), memory)
    torch.testing.assert_close(output[:, 12], values[:, 12])
