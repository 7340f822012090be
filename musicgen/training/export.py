"""From a checkpoint to a bundle: the weights and what is needed to use them, without what is needed to resume.

A checkpoint stores its own config, so export needs nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from musicgen.errors import UserError
from musicgen.inputs import conform
from musicgen.languages.registry import FILE, LANGUAGES, tokenizer_json
from musicgen.model import PerformerConfig, PerformerLM, save_bundle
from musicgen.model.bundle import model_that_fits
from musicgen.training.checkpoints import load_checkpoint

PREFIX = "model."
RECORD = {"config": {"data": {"source": str, "folder?": (str, None), "length": int}}, "language": str}
"""What a checkpoint of a language model stores about its run, besides what every checkpoint does."""


def export_checkpoint(
    path: Path, folder: Path, half: bool = False, sampling: dict[str, float] | None = None, onnx: bool = False
) -> PerformerLM:
    """Write the bundle of a checkpoint, and return the model; `half` stores matrices in 16 bits.

    Sampling settings are stored if they differ from the default. `onnx` adds the model's step as a graph, for other
    programs.
    """
    checkpoint = load_checkpoint(path)
    record = checkpoint["musicgen"]
    try:
        conform(record, RECORD)
    except ValueError as error:
        raise UserError(f"{path}: not a checkpoint of `musicgen train` ({error})") from None
    language = LANGUAGES.get(record["language"])
    if language is None:
        raise UserError(f"{path}: unknown token language {record['language']!r} (known: {', '.join(LANGUAGES)})")
    config = record["config"]
    size = PerformerConfig.from_groups(len(language.vocabulary), config["model"], config["pe"], str(path))
    weights = {
        name.removeprefix(PREFIX).replace("_orig_mod.", ""): value for name, value in checkpoint["state_dict"].items()
    }
    kinds = {name: "F32" if value.dtype == torch.float32 else str(value.dtype) for name, value in weights.items()}
    try:
        model = model_that_fits(size, {name: (tuple(value.shape), kinds[name]) for name, value in weights.items()})
    except UserError as error:
        raise UserError(f"{path}: its weights do not fit its config ({error})") from None
    for name, value in weights.items():
        if not bool(torch.isfinite(value).all()):
            raise UserError(f"{path}: {name} holds numbers that are not finite: training diverged, or it is damaged")
    model.load_state_dict(weights, assign=True)
    card, files = model_card(model, record), {FILE: tokenizer_json(language)}
    if onnx:
        from musicgen.model.graph.export import graph_files  # loads a package that nothing else here needs

        files |= graph_files(model, half=half)
    save_bundle(model, folder, card, files, training_record(record), half, sampling)
    return model


def training_record(record: dict[str, Any]) -> dict[str, Any]:
    """What a bundle stores about its training: enough to evaluate it, and to find models that differ only in seed."""
    config = record["config"]
    return {
        "length": config["data"]["length"],
        "batch_size": config["batch_size"],
        "steps": record["step"],
        "seed": config["seed"],
        "corpus": record["corpus"],
        "metrics": record["metrics"],
    }


def model_card(model: PerformerLM, record: dict[str, Any]) -> str:
    """The model card, in Markdown: size, training and losses."""
    config, metrics = record["config"], record["metrics"]
    data = config["data"]
    source = str(data["folder"]) if data["source"] == "corpus" else "synthetic pieces"
    size, decay = model.config, model.config.decay
    lines = [
        "# A musicgen model",
        "",
        f"- tokens: {record['language']}, {size.vocab_size} of them",
        f"- size: {size.num_layers} layers of width {size.d_model}, {model.num_parameters():,} parameters",
        f"- positional encoding: {size.pe}" + ("" if decay == "none" else f", decay {decay}"),
        f"- trained on: {source}, in windows of {data['length']} tokens (SHA-256 of all: {record['corpus']})",
        f"- steps: {record['step']}, each of {config['batch_size']} windows; seed {config['seed']}",
    ]
    names = {
        "val/loss": "validation loss (nats per token)",
        "val/loss_extrapolated": "validation loss beyond the trained length",
        "train/loss": "training loss of the last step",
    }
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    lines += [f"- {title}: {numbers[name]:.4f}" for name, title in names.items() if name in numbers]
    return "\n".join(lines) + "\n"
