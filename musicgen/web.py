"""HTML pages from templates: each is one file that needs no network and runs only its own code.

Templates, styles and scripts are the files in `musicgen/templates`. A page `NAME` is made of `NAME.html.j2`, `page.css`
and `NAME.css`, and `NAME.js` where it needs a script. Every value is escaped, and a Content-Security-Policy lets the
browser run only the style and the script that are part of the page.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

SIGNATURE = '<meta name="generator" content="musicgen">'
"""Marks a page as one of ours."""
TEMPLATES = Path(__file__).parent / "templates"
STUDIO = Path(__file__).parent / "studio" / "page"
PIECE = STUDIO / "song.js", STUDIO / "roll.js", STUDIO / "player.js", STUDIO / "synth.js", TEMPLATES / "piece.js"
"""The scripts of a page with pieces: the roll and the player of the studio, and what uses them without a server."""


def render_page(name: str, title: str, with_script: bool = False, with_pieces: bool = False, **content: Any) -> str:
    """A whole page as HTML. The same arguments give the same text.

    Characters that UTF-8 cannot encode, as in a file name that is not text, become question marks.

    Args:
        name: The template.
        title: The title of the page.
        with_script: Whether the page gets its script.
        with_pieces: Whether `show_piece` gets the piano roll and the player of the studio.
        content: What the template shows.
    """
    style = _read("page.css") + (_read(STUDIO / "roll.css") if with_pieces else "")
    style += "".join(_read(f"{part}.css") for part in ("piece", name))
    # Its modules are one script, because a page that is opened from a disk cannot import others.
    scripts = [re.sub(r"^export ", "", _read(file), flags=re.MULTILINE) for file in PIECE if with_pieces]
    script = "".join([*scripts, *([_read(f"{name}.js")] if with_script else [])])
    text = (
        _environment()
        .get_template(f"{name}.html.j2")
        .render(
            title=title,
            signature=Markup(SIGNATURE),  # noqa: S704  (our own constant)
            policy=Markup(_policy(style, script)),  # noqa: S704  (hashes of our own files)
            style=Markup(style),  # noqa: S704  (our own file)
            script=Markup(script),  # noqa: S704  (our own file)
            **content,
        )
    )
    return text.encode("utf-8", "replace").decode()


def link(file: str) -> str:
    """A relative path for `src` and `href`: a colon does not begin a scheme, and names need not be valid text."""
    return quote(file, errors="surrogateescape")


def _policy(style: str, script: str) -> str:
    """The page's Content-Security-Policy. `file:` is there for pages that are opened from a disk."""
    sources = {
        "default-src": "'none'",
        "img-src": "'self' file: data:",
        "media-src": "'self' file:",
        "style-src": _hash(style),
        "script-src": _hash(script) if script else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {source}" for name, source in sources.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str | Path) -> str:
    return (TEMPLATES / name).read_text("utf-8")


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["link"] = link
    return environment
