"""What positional encodings do to attention.

`pe` measures translation invariance and monotonicity (`metrics`) on pieces of one repeated token (`probing`).
`attention` reads a piece with a model: its attention maps (`maps`), where the attention goes (`focus`), and the learned
positional kernels, gates and decays (`kernels`).
"""
