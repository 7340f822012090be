"""How a language model of songs is judged between steps: its loss on other songs, and a piece to hear."""

from __future__ import annotations

from musicgen.files import atomic_write
from musicgen.sampling import MusicModel
from musicgen.training.config import TrainConfig
from musicgen.training.folder import SAMPLES
from musicgen.training.loaders import FixedWindows, GapWindows
from musicgen.training.step import StepModule
from musicgen.training.validation import validate, validate_fills


class SongJudge:
    """Validates on songs.

    Args:
        config: The config of the run.
        windows: The validation songs.
        gaps: The validation songs with gaps; None if none are trained on.
    """

    def __init__(self, config: TrainConfig, windows: FixedWindows, gaps: GapWindows | None) -> None:
        self.config, self.windows, self.gaps = config, windows, gaps

    def measure(self, module: StepModule) -> dict[str, float]:
        """The loss on songs, at trained positions and beyond them, and on fills."""
        if not self.windows.songs:
            return {}
        shared = (self.config.validation.draws, self.config.seed, module.sum_over_processes)
        metrics = validate(module.model, self.windows, self.config.data.length, *shared)
        if self.gaps is not None:
            metrics |= validate_fills(module.model, self.gaps, *shared)
        return metrics

    def words(self, metrics: dict[str, float]) -> str:
        """The loss beyond the trained length, if there is one."""
        beyond = metrics.get("val/loss_extrapolated")
        return "" if beyond is None else f"{beyond:.4f} beyond the trained length"

    def show(self, module: StepModule, step: int) -> None:
        """Write a piece to hear what the model has learned: `step_000250.mid`, `step_000250.png`.

        The seed is always the same, so a piece differs from the previous one only because the model has changed.
        """
        bars = self.config.validation.sample_bars
        if bars is None or self.config.trainer.strategy == "fsdp":  # one process has only a part of the model then
            return
        piece = MusicModel(module.model, self.windows.language, engine="torch").generate(bars=bars, seed=0)
        folder = self.config.run_dir / SAMPLES
        folder.mkdir(exist_ok=True)
        piece.save(folder / f"step_{step:06d}.mid")
        atomic_write(folder / f"step_{step:06d}.png", piece.picture(f"step {step:,}"))
