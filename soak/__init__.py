"""Attacks on every command with random faults from a seed, which check the promises of `docs/reliability.md`."""
