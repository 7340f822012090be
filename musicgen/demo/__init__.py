"""What `musicgen demo` shows besides the commands that it runs: positional kernels, and streaming."""
