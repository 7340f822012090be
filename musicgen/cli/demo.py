"""`musicgen demo`: hear the built-in models at once.

It writes pieces, continues grooves and scores their style, and shows how positional encoding works. With a corpus, it
writes the listening page instead.

Design note: it runs the commands that a user would type, with the built-in models and the built-in music. So it needs
no file, no network and no other program, and it shows how each thing is done.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

from musicgen.cli.setup import make_folder
from musicgen.errors import UserError
from musicgen.files import atomic_write

ABOUT = """\
usage: musicgen demo [out=FOLDER] [data=CORPUS [model=NAME]]

Writes piano pieces and continues grooves with the built-in models, draws them and renders their sound, scores the
style of the continuations, and checks that streaming gives the same result as parallel computation.
FOLDER/index.html (demo/index.html by default) links to everything. It takes a minute or two and needs no data.

With data=, a corpus from `musicgen prepare`, it writes a listening page instead, FOLDER/judged/listen.html: eight
pieces and eight continuations of held-out songs by a model (seeds 0 to 7, none picked by hand), and eight real songs
among them, all with sound, piano roll and numbers. The model is a name or a folder; if not given, it is a built-in one
with the token language of the corpus.

example: musicgen demo out=demo"""
PAGE = "index.html"
PARTS = {
    "pieces": ("Piano pieces", "Sixteen bars each, without a prompt, by the built-in model pop-small."),
    "continued": (
        "Grooves, continued",
        "The prompt is two bars by a small program that plays like a band. The built-in model groove-small, which was "
        "not trained on this music, continues it.",
    ),
    "style": (
        "How well the grooves keep their style",
        "Each quarter of the continuations is compared with what the band itself would have played. The ceiling is the "
        "similarity of the two halves of the band's own piece; the floor is the similarity to another style.",
    ),
}
GROOVES, KERNELS = "grooves", "kernels.png"
ABOUT_KERNELS = (
    "How attention may depend on distance: the exact kernels that the noise codes stand for (lines), and one draw of "
    "the noise (dots)."
)


def run(arguments: list[str]) -> int:
    """Run the demo. The exit code is 1 if streaming and parallel computation differ."""
    if "--help" in arguments or "-h" in arguments:
        print(ABOUT)
        return 0
    asked = _parse(arguments)
    folder = Path(asked["out"])
    if "data" in asked:
        return _run_all(_listening_commands(folder, asked["data"], asked.get("model") or _built_in(asked["data"])))
    make_folder(folder)
    from musicgen.demo.kernels import draw_kernels
    from musicgen.demo.streaming import TOLERANCE, stream

    began = time.monotonic()
    status = _run_all(_commands(folder))
    if status:
        return status
    difference, told = stream()
    print(f"\n{told}")
    draw_kernels(folder / KERNELS)
    atomic_write(folder / PAGE, _page(folder).encode("utf-8"))
    print(f"\n{time.monotonic() - began:.0f} s: open {folder / PAGE}")
    print("To write, hear and steer music yourself: .venv/bin/musicgen studio")
    return 0 if difference <= TOLERANCE else 1


def _commands(folder: Path) -> list[list[str]]:
    """The commands that it runs, as a user would type them."""
    pieces, grooves, continued = (folder / name for name in ("pieces", GROOVES, "continued"))
    return [
        ["generate", "n=3", "bars=16", "wav=true", f"out={pieces}", "overwrite=true"],
        ["prepare", "source=synthetic_grooves", "songs=80", "bars=16", f"out={grooves}", "overwrite=true"],
        [  # this split has styles of several families; all styles here are new to the model
            "continue", f"data={grooves}", "split=seen_style_test", "styles=3", "continuations=2", "bars=12",
            "wav=true", f"out={continued}", "overwrite=true",
        ],
        [
            "evaluate", "style", f"reference={continued / 'references'}", f"generated={continued / 'continuations'}",
            f"out={folder / 'style'}", "overwrite=true",
        ],
    ]  # fmt: skip


def _listening_commands(folder: Path, data: str, model: str) -> list[list[str]]:
    """The commands that lead to the listening page."""
    pieces, continued = folder / "new" / "pieces", folder / "continued"  # the sets are called `new` and `continued`
    each = [f"model={model}", "bars=16", "picture=false", "overwrite=true"]
    return [
        ["generate", "n=8", *each, f"out={pieces}"],
        ["continue", f"data={data}", "styles=8", "continuations=1", "prompt_bars=4", *each, f"out={continued}"],
        [
            "evaluate", "music", f"generated={pieces},{continued / 'pieces'}", f"reference={data}", "listen=8",
            f"out={folder / 'judged'}", "overwrite=true",
        ],
    ]  # fmt: skip


def _run_all(commands: list[list[str]]) -> int:
    """Run commands, each shown as a user would type it, until one fails."""
    from musicgen.cli.main import main

    for command in commands:
        print(f"\n$ {shlex.join(['musicgen', *command])}", flush=True)
        status = main(command)
        if status:
            return status
    return 0


def _parse(arguments: list[str]) -> dict[str, str]:
    """What was asked for, by key."""
    asked = {"out": "demo"}
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key not in ("out", "data", "model") or not value:
            raise UserError(f"cannot read {argument!r}: demo takes out=FOLDER, data=CORPUS and model=NAME")
        asked[key] = value
    if "model" in asked and "data" not in asked:
        raise UserError("model= needs data=CORPUS: without a corpus, the demo shows the built-in models")
    return asked


def _built_in(data: str) -> str:
    """The name of a built-in model with the token language of a corpus."""
    from musicgen.data.corpus import Corpus
    from musicgen.languages.registry import load_tokenizer
    from musicgen.sampling.music_model import BUILT_IN

    language = Corpus.open(data).language
    for folder in sorted(BUILT_IN.iterdir()):
        if load_tokenizer(folder).reads(language):
            return folder.name
    raise UserError(f"data={data}: no built-in model has its tokens ({language.name}); name a model with model=")


def _page(folder: Path) -> str:
    """The page: something to hear and to see of each part, and a link to the rest."""
    from musicgen.midi.read import read_midi
    from musicgen.sampling.bar_data import score_json
    from musicgen.sampling.gallery import title_of
    from musicgen.web import render_page

    parts: list[dict[str, Any]] = []
    for name, (title, about) in PARTS.items():
        sounds = sorted((folder / name).rglob("*.wav"))
        parts.append({"page": f"{name}/{PAGE}", "title": title, "about": about, "piece": None, "pictures": []})
        if sounds:
            paths = [sounds[0].with_suffix(suffix).relative_to(folder).as_posix() for suffix in (".png", ".wav")]
            music = score_json(read_midi(sounds[0].with_suffix(".mid")))
            words = sounds[0].with_suffix("").relative_to(folder / name).as_posix().removeprefix("pieces/")
            parts[-1]["piece"] = (title_of(words), music, *paths)
        else:
            pictures = sorted((folder / name).glob("*.png"))
            parts[-1]["pictures"] = [path.relative_to(folder).as_posix() for path in pictures]
    kernels = {"title": "Positional kernels", "about": ABOUT_KERNELS, "pictures": [KERNELS]}
    parts.append({"page": "", "piece": None, **kernels})
    return render_page("demo", "musicgen", with_pieces=any(part["piece"] for part in parts), parts=parts)
