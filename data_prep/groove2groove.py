"""Grooves: the Groove2Groove data set of the paper, or any folder of accompaniments.

    python data_prep/groove2groove.py input=DIR out=DIR
    python data_prep/groove2groove.py download=true input=DIR out=DIR

- Groove2Groove (Zenodo record 3958000): the unpacked archive, or its folder midi/train/fixed. With download=true it is
  downloaded to DIR (236 MB; an interrupted download resumes) and unpacked there.
- Other folders: FAMILY/STYLE.a.mid and STYLE.b.mid, with or without an index.tsv; or any MIDI files, where each folder
  is a family of styles.

This is the same as `musicgen prepare source=groove input=DIR out=DIR`; `musicgen prepare --help` explains the keys.
"""

from __future__ import annotations

import sys
from pathlib import Path

from musicgen.cli.main import main
from musicgen.data.download import GROOVE2GROOVE, fetch
from musicgen.errors import UserError

DOWNLOAD = "download=true"


def run(arguments: list[str]) -> int:
    """Download the data set if download=true, and prepare it."""
    words = [word for word in arguments if word != DOWNLOAD]
    if DOWNLOAD in arguments:
        folder = next((word.removeprefix("input=") for word in words if word.startswith("input=")), None)
        if folder is None:
            sys.stderr.write("musicgen: download=true needs a folder for the archive: write input=DIR\n")
            return 2
        try:
            fetched = fetch(GROOVE2GROOVE, Path(folder))
        except UserError as error:
            sys.stderr.write(f"musicgen: {error}\n")
            return 2
        words = [f"input={fetched}" if word.startswith("input=") else word for word in words]
    return main(["prepare", "source=groove", *words])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
