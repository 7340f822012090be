"""From a checkpoint to a bundle: the weights and what is needed to use them, without what is needed to go on.

The hard choice: a checkpoint says itself which model it is of. No config has to be found that fits it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from musicgen.errors import UserError
from musicgen.model import PerformerConfig, PerformerLM, save_bundle
from musicgen.tokens.tokenizer import FILE, LANGUAGES, tokenizer_json
from musicgen.training.checkpoints import load_checkpoint

PREFIX = "model."


def export_checkpoint(
    path: Path, folder: Path, half: bool = False, sampling: dict[str, float] | None = None
) -> PerformerLM:
    """Write the bundle of a checkpoint, and return the model.

    Args:
        path: The checkpoint.
        folder: That becomes the bundle.
        half: Whether matrices are rounded to half the bits.
        sampling: How it is best sampled, where that is not as usual.

    Raises:
        UserError: It is not a checkpoint of ours.
    """
    checkpoint = load_checkpoint(path)
    record = checkpoint["musicgen"]
    language = LANGUAGES[record["language"]]()
    config = record["config"]
    size = PerformerConfig.from_groups(len(language.vocabulary), config["model"], config["pe"], str(path))
    model = PerformerLM(size)
    weights = {
        name.removeprefix(PREFIX).replace("_orig_mod.", ""): value
        for name, value in checkpoint["state_dict"].items()
        if isinstance(value, torch.Tensor)
    }
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{path}: its weights are not those of its config ({str(error).splitlines()[0]})") from None
    card, files = model_card(model, record), {FILE: tokenizer_json(language)}
    save_bundle(model, folder, card, files, training_record(record), half, sampling)
    return model


def training_record(record: dict[str, Any]) -> dict[str, Any]:
    """What a bundle says of its training to programs: enough to judge it, and to know its like by."""
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
    """What the model is, in Markdown: its size, its training and its losses."""
    config, metrics = record["config"], record["metrics"]
    data = config["data"]
    source = str(data["folder"]) if data["source"] == "corpus" else "synthetic pieces of the built-in composer"
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
        "val/loss": "validation loss (nats a token)",
        "val/loss_extrapolated": "validation loss beyond the trained length",
        "train/loss": "training loss of the last step",
    }
    lines += [f"- {title}: {metrics[name]:.4f}" for name, title in names.items() if name in metrics]
    return "\n".join(lines) + "\n"
