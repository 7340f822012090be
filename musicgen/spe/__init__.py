"""Stochastic positional encoding: relative positions for attention of linear complexity.

    code = SineSPE(num_heads=8, in_features=64, num_realizations=64, num_sines=5)
    spe = SPEFilter(gated=True, code_shape=code.code_shape)
    queries, keys = spe(queries, keys, code, code.draw(seed=0), torch.arange(length))

This package is pure torch, without music, attention or training.
"""

from musicgen.spe.apply import AppliedCode, Mix
from musicgen.spe.code import PositionalCode
from musicgen.spe.conv import ConvSPE
from musicgen.spe.draw import Draw, NoiseKind
from musicgen.spe.gate import SPEFilter
from musicgen.spe.shared import SharedCode
from musicgen.spe.sine import FactorisedSine, SineSPE

__all__ = [
    "AppliedCode",
    "ConvSPE",
    "Draw",
    "FactorisedSine",
    "Mix",
    "NoiseKind",
    "PositionalCode",
    "SPEFilter",
    "SharedCode",
    "SineSPE",
]
