"""A model on disk: a folder of weights, plain JSON and a card for people.

    model.safetensors   weights
    config.json         the model's config, the SHA-256 of the weights, how it was trained and is best sampled
    MODEL_CARD.md       what it is

The hard choice: loading trusts nothing. The config is checked key by key, the weights' header is compared with what
that config would need before any memory is taken, and the hash tells a damaged or swapped file. Nothing in the
folder is executed: no pickle, no import path.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from musicgen.errors import UserError
from musicgen.files import atomic_folder, hash_file
from musicgen.model.config import PerformerConfig
from musicgen.model.performer import PerformerLM

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "MODEL_CARD.md"
FORMAT = 1


def save_bundle(
    model: PerformerLM,
    folder: str | os.PathLike[str],
    card: str | None = None,
    files: Mapping[str, bytes] | None = None,
    training: Mapping[str, Any] | None = None,
    half: bool = False,
    sampling: Mapping[str, float] | None = None,
) -> None:
    """Write a model to a folder, whole or not at all; a bundle that is there already is replaced.

    Args:
        model: The model.
        folder: Where to. A folder that holds anything but a bundle is refused.
        card: The model card, in Markdown; a short one is written if none is given.
        files: Other files that belong to the model, by name: `tokenizer.json`.
        training: How it was trained, as JSON has it; `length` is that of the windows.
        half: Whether matrices are rounded to 16 bits, to take half the room. Codes and gates are not: a frequency that
            is off by a thousandth is another kernel a thousand tokens away.
        sampling: How it is best sampled, where that is not as usual: `temperature`, `top_p`.
    """
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and {path.name for path in folder.iterdir()} <= _FILES):
        raise UserError(f"{folder}: exists and is not a model bundle; give a new folder")
    with atomic_folder(folder) as partial:
        tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
        if half:
            tensors = {
                name: tensor.half() if _may_be_rounded(name, tensor) else tensor for name, tensor in tensors.items()
            }
        save_file(tensors, partial / WEIGHTS)
        description = {
            "format": FORMAT,
            "model": dataclasses.asdict(model.config),
            "sha256": hash_file(partial / WEIGHTS),
            **({} if training is None else {"training": dict(training)}),
            **({"sampling": dict(sampling)} if sampling else {}),
        }
        (partial / CONFIG).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        (partial / CARD).write_text(card or _default_card(model), encoding="utf-8")
        for name, data in (files or {}).items():
            (partial / name).write_bytes(data)


def read_remark(folder: str | os.PathLike[str], name: Literal["training", "sampling"]) -> dict[str, Any]:
    """What a bundle says beside what the model is; empty if nothing. The values are whatever its maker wrote."""
    remark = _read_description(Path(folder) / CONFIG).get(name)
    return remark if isinstance(remark, dict) else {}


def load_bundle(folder: str | os.PathLike[str]) -> PerformerLM:
    """Read a model from a folder, on the CPU and in evaluation mode."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such model bundle (a folder with {CONFIG} and {WEIGHTS})")
    description = _read_description(folder / CONFIG)
    config = PerformerConfig.from_dict(description.get("model"), str(folder / CONFIG))
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise UserError(f"{weights}: the file is missing")
    model = _model_that_fits(config, weights)
    if hash_file(weights) != description.get("sha256"):
        raise UserError(f"{weights}: its contents are not what {CONFIG} says was saved; get the bundle again")
    with safe_open(weights, "pt") as file:
        # assign: the tensors of the file become the parameters, with no second copy of those that need no widening
        tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        model.load_state_dict(tensors, assign=True)
    return model.eval()


_FILES = {WEIGHTS, CONFIG, CARD, "tokenizer.json"}


def _read_description(path: Path) -> dict[str, Any]:
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: the file is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise UserError(f"{path}: not the description of a model bundle of format {FORMAT}")
    return description


def _model_that_fits(config: PerformerConfig, weights: Path) -> PerformerLM:
    """A model of that config without memory yet, once the weights' header is seen to match it."""
    try:
        with safe_open(weights, "pt") as file:
            found = {
                name: (tuple(file.get_slice(name).get_shape()), file.get_slice(name).get_dtype())
                for name in file.keys()  # noqa: SIM118
            }
    except (SafetensorError, OSError) as error:
        raise UserError(f"{weights}: not a safetensors file, or a damaged one ({error})") from None
    layers = {name.split(".")[1] for name in found if name.startswith("layers.")}
    if len(layers) != config.num_layers:
        raise UserError(f"{weights}: holds {len(layers)} layers where the config says {config.num_layers}")
    with torch.device("meta"):
        model = PerformerLM(config)
    tensors = model.state_dict()
    for name in sorted(tensors.keys() | found.keys()):
        dtypes = ("F32", "F16") if name in tensors and _may_be_rounded(name, tensors[name]) else ("F32",)
        fitting = [(tuple(tensors[name].shape), dtype) for dtype in dtypes] if name in tensors else []
        if found.get(name) not in fitting:
            wanted = " or ".join(map(str, fitting)) or "nothing"
            raise UserError(f"{weights}: {name} is {found.get(name, 'nothing')} where the config needs {wanted}")
    return model


def _may_be_rounded(name: str, tensor: torch.Tensor) -> bool:
    return tensor.dim() > 1 and not name.startswith("encoding.")


def _default_card(model: PerformerLM) -> str:
    config = model.config
    return (
        f"# A musicgen model\n\n{config.num_layers} layers of width {config.d_model}, "
        f"{model.num_parameters():,} parameters, positional encoding `{config.pe}`, "
        f"{config.vocab_size} tokens.\n"
    )
