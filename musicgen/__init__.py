"""Symbolic music with a linear-complexity Transformer and stochastic positional encoding."""

__version__ = "0.1.0"
