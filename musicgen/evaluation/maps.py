"""Maps as grey images: what an `Explorer` shows, as files and in the page."""

from __future__ import annotations

import io
import re

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.findings import Explorer

LARGEST_SIDE = 1 << 13  # of a map that is read: a small file may hold a huge one
DIGITS = 7
"""Of numbers in files: enough for what is measured, and the same bytes wherever they are added up."""


def map_name(explorer: Explorer, options: tuple[str, ...]) -> str:
    """The file of one map."""
    return "_".join([explorer.name, *(re.sub(r"[^0-9A-Za-z.-]+", "-", option) for option in options)]) + ".png"


def png_bytes(levels: NDArray[np.uint8]) -> bytes:
    """A map as a grey PNG, small without loss."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(levels).save(file, format="PNG", optimize=True)
    return file.getvalue()


def read_png(data: bytes) -> NDArray[np.uint8]:
    """The levels of a grey PNG."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            if max(image.size) <= LARGEST_SIDE:
                return np.asarray(image.convert("L"))
            size = f"{image.width} × {image.height}"
    except Image.DecompressionBombError:
        size = "so many pixels"
    raise ValueError(f"a map of {size} is too large")
