"""`musicgen demo`: hear it at once. Pieces, grooves that are continued and judged, and what the model is made of.

The hard choice: it is the commands that anybody could type, with the models that are built in and music that the
built-in band plays, so that it needs no file, no network and no second program, and shows how each thing is done.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from urllib.parse import quote

from musicgen.errors import UserError
from musicgen.files import atomic_write

ABOUT = """\
usage: musicgen demo [out=FOLDER]

Writes piano pieces and continues grooves with the models that are built in, draws and plays them, judges the style of
the continuations, and shows that a model streams what it would write in parallel. FOLDER/index.html (by default
demo/index.html) leads to all of it. It takes a minute or two and needs no data.

example: musicgen demo out=demo"""
PAGE = "index.html"
PARTS = {
    "pieces": ("Piano pieces", "Sixteen bars from nothing, by the built-in model pop-small."),
    "continued": (
        "Grooves, continued",
        "Two bars are given, by a band that is a small program; groove-small, which has never heard it, plays on.",
    ),
    "style": (
        "How much the grooves keep to their style",
        "Each quarter of the continuations beside what the band itself would have played. The ceiling is how like its "
        "two halves are to each other, the floor how like another of its styles is.",
    ),
}
GROOVES, KERNELS = "grooves", "kernels.png"


def run(arguments: list[str]) -> int:
    """Show everything. The status is 1 if streaming and parallel should ever differ."""
    if "--help" in arguments or "-h" in arguments:
        print(ABOUT)
        return 0
    folder = _folder(arguments)
    from musicgen.cli.main import main
    from musicgen.evaluation.kernels import draw_kernels
    from musicgen.evaluation.streaming import TOLERANCE, stream

    began = time.monotonic()
    for command in _commands(folder):
        print(f"\n$ {shlex.join(['musicgen', *command])}", flush=True)
        status = main(command)
        if status:
            return status
    difference, told = stream()
    print(f"\n{told}")
    picture = folder / KERNELS
    try:
        draw_kernels(picture)
    except OSError as error:
        raise UserError(f"{picture}: cannot write this file ({error.strerror}), give another out=") from None
    atomic_write(folder / PAGE, _page(folder).encode("utf-8"))
    print(f"\n{time.monotonic() - began:.0f} s: open {folder / PAGE}")
    return 0 if difference <= TOLERANCE else 1


def _commands(folder: Path) -> list[list[str]]:
    """What is shown, as it would be typed."""
    pieces, grooves, continued = (folder / name for name in ("pieces", GROOVES, "continued"))
    return [
        ["generate", "n=3", "bars=16", "wav=true", f"out={pieces}", "overwrite=true"],
        ["prepare", "source=synthetic_grooves", "songs=80", "bars=16", f"output={grooves}", "overwrite=true"],
        [  # styles of this split are of several families, and new to the model whatever the split
            "continue", f"data={grooves}", "split=itest", "styles=3", "continuations=2", "bars=12", "wav=true",
            f"out={continued}", "overwrite=true",
        ],
        [
            "evaluate", "style", f"reference={continued / 'references'}", f"generated={continued / 'continuations'}",
            f"out={folder / 'style'}", "overwrite=true",
        ],
    ]  # fmt: skip


def _folder(arguments: list[str]) -> Path:
    """The folder that `out=` names, made."""
    folder = Path("demo")
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key != "out" or not value:
            raise UserError(f"cannot read {argument!r}: demo takes out=FOLDER and nothing else")
        folder = Path(value)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"out={folder}: cannot make this folder ({error.strerror}), give another") from None
    return folder


def _page(folder: Path) -> str:
    """The page: of each part something to hear and to see, and the way to the rest."""
    from musicgen.web import document, escape

    body = ["<header><h1>musicgen</h1><p>What it writes, and what it is made of.</p></header>"]
    for name, (title, about) in PARTS.items():
        body.append(f'<h2><a href="{name}/{PAGE}">{escape(title)}</a></h2><p>{escape(about)}</p>')
        sounds = sorted((folder / name).rglob("*.wav"))
        pictures = [sounds[0].with_suffix(".png")] if sounds else sorted((folder / name).glob("*.png"))
        if sounds:
            body.append(f'<audio controls src="{_link(folder, sounds[0])}" style="width: 100%"></audio>')
        body += [_picture(_link(folder, path), title) for path in pictures]
    about = (
        "How attention may depend on distance: what codes of random noise mean (lines), and one draw of them (dots)."
    )
    body += [f"<h2>Positional kernels</h2><p>{escape(about)}</p>", _picture(KERNELS, "Positional kernels")]
    return document("musicgen", "", body)


def _link(folder: Path, path: Path) -> str:
    return quote(path.relative_to(folder).as_posix())


def _picture(link: str, title: str) -> str:
    return f'<p><img src="{link}" alt="{title}" style="max-width: 100%; background: #fff"></p>'
