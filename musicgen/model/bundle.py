"""A model on disk: a folder of weights, plain JSON and a card for people.

    model.safetensors   weights
    config.json         the model's config, the SHA-256 of the weights, training and sampling settings
    MODEL_CARD.md       a description for people
    step.onnx, .json    a step of the model as a graph, if it was exported; only other programs read it

Design note: loading trusts nothing. The config is checked key by key, the weights' header is compared with what
that config would need before any memory is taken, and the hash detects a damaged or swapped file. Nothing in the
folder is executed: no pickle, no import path.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from musicgen.errors import UserError
from musicgen.files import atomic_folder, check_output, kind_of, strangers
from musicgen.inputs import hash_file, is_document, read_document
from musicgen.model.config import PerformerConfig
from musicgen.model.performer import PerformerLM
from musicgen.model.size import model_without_memory
from musicgen.model.tensors import open_tensors, write_tensors

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "MODEL_CARD.md"
FORMAT = 1
DESCRIPTION = {
    "format": FORMAT,
    "model": dict,
    "sha256": str,
    "training?": object,
    "sampling?": {
        "temperature?": (float, None),
        "top_p?": (float, None),
        "top_k?": (int, None),
        "min_p?": (float, None),
        "rhythm_temperature?": (float, None),
        "rhythm_top_p?": (float, None),
        "rhythm_min_p?": (float, None),
    },
}
"""The shape of `config.json`."""


def save_bundle(
    model: PerformerLM,
    folder: str | os.PathLike[str],
    card: str | None = None,
    files: Mapping[str, bytes] | None = None,
    training: Mapping[str, Any] | None = None,
    half: bool = False,
    sampling: Mapping[str, float] | None = None,
) -> None:
    """Write a model to a folder, completely or not at all. An existing bundle is replaced.

    Args:
        model: The model.
        folder: The folder. If it holds anything but a bundle, it is refused.
        card: The model card, in Markdown; a short one is written if none is given.
        files: Other files that belong to the model, by name: `tokenizer.json`.
        training: How it was trained, as plain data; `length` is the length of the windows.
        half: Whether matrices are rounded to 16 bits, to halve the size. Codes and gates are not rounded: a frequency
            that is off by a thousandth gives another kernel a thousand tokens away.
        sampling: The best sampling settings, if not the default ones: `temperature`, `top_p` ...
    """
    folder = Path(folder)
    check_output(folder, "a model bundle", foreign_to_bundle, may_replace=True, as_one=True)
    with atomic_folder(folder, foreign_to_bundle) as partial:
        tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
        if half:
            tensors = {
                name: tensor.half() if _may_be_rounded(name, tensor) else tensor for name, tensor in tensors.items()
            }
        write_tensors(partial / WEIGHTS, tensors)
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


@dataclasses.dataclass(frozen=True)
class Bundle:
    """Everything that is in a bundle.

    Attributes:
        model: The model, on the CPU and in evaluation mode.
        sha256: Hash of its weights.
        training: How it was trained, as its maker wrote it; may be empty.
        sampling: How it is best sampled, as its maker wrote it; may be empty.
    """

    model: PerformerLM
    sha256: str
    training: dict[str, Any]
    sampling: dict[str, Any]


def read_bundle(folder: str | os.PathLike[str]) -> Bundle:
    """Read a bundle from a folder.

    Raises:
        UserError: There is none, or it is damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such model bundle (a folder with {CONFIG} and {WEIGHTS})")
    if kind_of(folder / CONFIG) is None:
        raise UserError(f"{folder}: not a model ({CONFIG} is missing); give a run or a bundle")
    description = read_document(folder / CONFIG, DESCRIPTION, f"give a model bundle of format {FORMAT}")
    config = PerformerConfig.from_dict(description.get("model"), str(folder / CONFIG))
    weights = folder / WEIGHTS
    try:
        with open_tensors(weights) as file:
            names = list(file.keys())
            slices = {name: file.get_slice(name) for name in names}
            model = model_that_fits(
                config, {name: (tuple(item.get_shape()), item.get_dtype()) for name, item in slices.items()}
            )
            _check_hash(weights, description["sha256"])
            tensors = {name: file.get_tensor(name).float() for name in names}
    except FileNotFoundError:
        raise UserError(f"{weights}: the file is missing") from None
    except UserError as error:
        raise UserError(f"{weights}: {error}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{weights}: not a safetensors file, or a damaged one ({error})") from None
    # assign: the tensors of the file become the parameters, with no second copy of those that need no widening
    model.load_state_dict(tensors, assign=True)
    training, sampling = description.get("training"), description.get("sampling", {})
    return Bundle(model.eval(), description["sha256"], training if isinstance(training, dict) else {}, sampling)


def _check_hash(weights: Path, sha256: str) -> None:
    if hash_file(weights) != sha256:
        raise UserError(f"its contents are not what {CONFIG} says was saved; get the bundle again")


def load_bundle(folder: str | os.PathLike[str]) -> PerformerLM:
    """Read a model from a folder, on the CPU and in evaluation mode."""
    return read_bundle(folder).model


_FILES = {WEIGHTS, CONFIG, CARD, "tokenizer.json", "step.onnx", "step.json"}


def foreign_to_bundle(folder: Path) -> list[str]:
    """Names in a folder that are not part of a bundle. Folders of other programs have files of the same names."""
    ours = _FILES if is_document(folder / CONFIG, DESCRIPTION) else set()
    return strangers(folder, lambda path: path.name in ours)


Header = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape and the type of each tensor in a file: `F32`, `F16` or another."""


def model_that_fits(config: PerformerConfig, found: Header) -> PerformerLM:
    """A model without memory, after the tensors of a file were compared with what the config needs.

    All layers are alike, so they are compared with one layer before a model of that many layers is built.

    Raises:
        UserError: They do not fit.
    """
    layers = {name.split(".")[1] for name in found if name.startswith("layers.")}
    if len(layers) != config.num_layers:
        raise UserError(f"holds {len(layers)} layers where the config says {config.num_layers}")
    one = _needs(dataclasses.replace(config, num_layers=1))[1]
    inside = {name.removeprefix("layers.0."): fit for name, fit in one.items() if name.startswith("layers.0.")}
    _compare({f"layers.{layer}.{name}": fit for layer in range(len(layers)) for name, fit in inside.items()}, found)
    model, needed = _needs(config)
    _compare(needed, found)
    if others := sorted(found.keys() - needed.keys()):
        raise UserError(f"{others[0]} is {found[others[0]]} where the config needs nothing")
    return model


def _needs(config: PerformerConfig) -> tuple[PerformerLM, dict[str, list[tuple[tuple[int, ...], str]]]]:
    """A model without memory, and the shapes and types that each of its tensors may have."""
    model = model_without_memory(config)
    return model, {
        name: [(tuple(tensor.shape), kind) for kind in (("F32", "F16") if _may_be_rounded(name, tensor) else ("F32",))]
        for name, tensor in model.state_dict().items()
    }


def _compare(needed: Mapping[str, list[tuple[tuple[int, ...], str]]], found: Header) -> None:
    for name, fitting in needed.items():
        if found.get(name) not in fitting:
            wanted = " or ".join(map(str, fitting))
            raise UserError(f"{name} is {found.get(name, 'nothing')} where the config needs {wanted}")


def _may_be_rounded(name: str, tensor: torch.Tensor) -> bool:
    return tensor.dim() > 1 and not name.startswith("encoding.")


def _default_card(model: PerformerLM) -> str:
    config = model.config
    return (
        f"# A musicgen model\n\n{config.num_layers} layers of width {config.d_model}, "
        f"{model.num_parameters():,} parameters, positional encoding `{config.pe}`, "
        f"{config.vocab_size} tokens.\n"
    )
