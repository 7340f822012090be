"""Training: the general half (steps, checkpoints, the log, the folder of a run) and the musical half (songs)."""
