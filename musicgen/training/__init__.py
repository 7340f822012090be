"""Training a model: the Lightning module, schedules, checkpoints, and the run's folder."""
