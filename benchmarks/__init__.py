"""Benchmarks: one command each, which prints a table and writes the same as JSON into benchmarks/results/."""
