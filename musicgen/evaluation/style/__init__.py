"""How well continuations keep the style of their references.

`comparison` matches and reads files, `similarity` compares two styles, and `histograms` are what a style is made of.
"""
