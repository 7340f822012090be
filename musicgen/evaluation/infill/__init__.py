"""How well models fill bars: the likelihood of the true bars, and what sampled fills have in common with them."""
