"""Image: grey pixels of CIFAR-10, row by row, 32 × 32 or 16 × 16 of them.

A tenth of the training images is kept for validation. Colours become grey as TensorFlow does it, which the published
experiments use. Files of the Python version are pickles; nothing but arrays is read from them.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.arena.dataset import About, Dataset
from musicgen.arena.sources import Say, content, held_out, note_count, note_hash
from musicgen.errors import UserError

WHERE = "https://www.cs.toronto.edu/~kriz/cifar.html"
SIDE, CLASSES = 32, 10
VALID = 0.1
WHOLE = {"train": 50_000, "test": 10_000}
MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
BATCHES = {"train": [name for name in MD5 if name != "test_batch"], "test": ["test_batch"]}
GREY = np.array([0.2989, 0.5870, 0.1140], np.float32)

Images = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Grey images `(images, 32, 32)`, and their classes."""


def load_image(folder: Path, seed: int, say: Say, side: int = SIDE) -> Dataset:
    """The images of a folder: CIFAR-10's Python or binary version, or PNGs of grey images with `cifar10_labels.npz`."""
    inner = next(
        (path for path in (folder / "cifar-10-batches-py", folder / "cifar-10-batches-bin") if path.is_dir()), folder
    )
    parts = {part: _batches(inner, part, say) or _strips(folder, part) for part in ("train", "test")}
    tokens: list[bytes] = []
    examples: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    for part, images in parts.items():
        if images is None:
            raise UserError(
                f"{folder}: has no {part} images of CIFAR-10; get its Python or binary version from {WHERE}"
            )
        pixels, labels = images
        note_count(f"images in {part}", len(labels), WHOLE[part], say)
        first = len(tokens)
        tokens += [image.tobytes() for image in shrunk(pixels, side)]
        examples[part] = [((first + place,), int(label)) for place, label in enumerate(labels)]
    examples["train"], examples["valid"] = held_out(examples["train"], lambda item: str(item[0][0]), VALID, seed)
    name = "image" if side == SIDE else f"image{side}"
    return Dataset.gather(About(name, 256, CLASSES, side, f"grey images of {folder.name}"), tokens, examples)


def grey(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Red, green and blue `(images, 3, …)` to grey, rounded as TensorFlow rounds."""
    scaled = np.tensordot(colours.astype(np.float32) / 255, GREY, (1, 0))
    return np.minimum(scaled * 255.5, 255).astype(np.uint8)


def shrunk(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Images with a smaller side, which divides the larger: means of squares of pixels."""
    block = images.shape[-1] // side
    squares = images.reshape(len(images), side, block, side, block)
    return (squares.mean((2, 4)) + 0.5).astype(np.uint8) if block > 1 else images


def _batches(folder: Path, part: str, say: Say) -> Images | None:
    """The published files: pickles, or a byte for the class and 3 × 1,024 for the colours of each image."""
    found = []
    for name in BATCHES[part]:
        if (folder / name).is_file():
            data = content(folder / name)
            note_hash(folder / name, data, MD5[name], say)
            found.append(_unpickled(folder / name, data))
        elif (folder / f"{name}.bin").is_file():
            rows = np.frombuffer(content(folder / f"{name}.bin"), np.uint8)
            if not len(rows) or len(rows) % 3073:
                raise UserError(f"{folder / name}.bin: is not made of images of 3,073 bytes; it may be incomplete")
            rows = rows.reshape(-1, 3073)
            found.append((rows[:, 1:], rows[:, 0].astype(np.int64)))
    if not found:
        return None
    labels = np.concatenate([labels for _, labels in found])
    if labels.max() >= CLASSES:
        raise UserError(f"{folder}: an image of {part} has class {labels.max()}; CIFAR-10 has 0 to 9")
    pixels = np.concatenate([pixels for pixels, _ in found])
    return grey(pixels.reshape(-1, 3, SIDE, SIDE)), labels


class _Arrays(pickle.Unpickler):
    """Reads arrays and plain data; whatever else a pickle asks for is refused."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"_reconstruct": "multiarray", "ndarray": "numpy", "dtype": "numpy", "encode": "_codecs"}
        if known.get(name) != module.removeprefix("numpy.core.").removeprefix("numpy._core."):
            raise pickle.UnpicklingError(f"{module}.{name} does not belong in it")
        return super().find_class(module, name)


def _unpickled(path: Path, data: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        batch = _Arrays(io.BytesIO(data), encoding="bytes").load()
        pixels, labels = batch[b"data"], np.array(batch[b"labels"], np.int64)
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3 * SIDE * SIDE) or labels.min() < 0:
            raise ValueError("it has another shape")  # noqa: TRY301
    except Exception as error:  # a damaged pickle raises many kinds of errors
        raise UserError(f"{path}: not a batch of CIFAR-10 ({error})") from None
    return pixels, labels


def _strips(folder: Path, part: str) -> Images | None:
    """Grey images below one another in a PNG."""
    from PIL import Image

    path = next(iter(sorted(folder.glob(f"cifar10_grey32_{part}*.png"))), None)
    if path is None:
        return None
    try:
        with Image.open(io.BytesIO(content(path))) as picture:
            pixels = np.asarray(picture.convert("L")).reshape(-1, SIDE, SIDE)
        with np.load(io.BytesIO(content(folder / "cifar10_labels.npz")), allow_pickle=False) as arrays:
            labels = arrays[f"y_{part}"][: len(pixels)].astype(np.int64)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, Image.DecompressionBombError) as error:
        raise UserError(f"{path}: cannot be read with its labels in cifar10_labels.npz ({error})") from None
    if len(labels) < len(pixels) or labels.max() >= CLASSES:
        raise UserError(f"{path}: cifar10_labels.npz has too few labels for it, or a wrong one")
    return pixels, labels
