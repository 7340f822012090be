"""A per-head exponential decay γ_h^(m−n): nearer keys weigh more, at a rate that differs between heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Decay(nn.Module):
    """log γ of each head, fixed or learnt.

    Half-lives double from head to head, as in RetNet: γ_h = 1 − 2^(−e_h), with e_h evenly spaced.

    Args:
        num_heads: H.
        exponents: First and last e_h.
        learnable: Whether the rates train; then γ = exp(−exp(rate)), which stays between 0 and 1.
    """

    rate: Tensor

    def __init__(self, num_heads: int, exponents: tuple[float, float] = (5.0, 12.0), learnable: bool = False) -> None:
        super().__init__()
        spaced = torch.linspace(*exponents, num_heads, dtype=torch.float64, device="cpu")
        rate = torch.empty(num_heads).copy_((-torch.log1p(-(2.0**-spaced))).log())
        if learnable:
            self.rate = nn.Parameter(rate)
        else:
            self.register_buffer("rate", rate)

    def forward(self) -> Tensor:
        """log γ < 0, `(H,)`."""
        return -self.rate.exp()
