"""What our pages share: how they look, how text gets into them safely, and that they need nothing from a network."""

from __future__ import annotations

import html
from collections.abc import Sequence

SIGNATURE = '<meta name="generator" content="musicgen">'
"""By which a page is known as one of ours."""


def escape(text: str) -> str:
    """Text for HTML, in quotes too. What came from a name that is no text becomes a question mark."""
    return html.escape(text.encode("utf-8", "replace").decode())


def wrapped(begin: str, items: Sequence[str], end: str) -> list[str]:
    """A list in its tags; nothing at all if it is empty, where a reader would hear of a list of nothing."""
    return [begin, *items, end] if items else []


def document(title: str, style: str, body: Sequence[str], script: str = "") -> str:
    """A whole page as HTML: one file, with its style and script inside."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        SIGNATURE,
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}{style}</style>",
        "</head>",
        "<body>",
        *body,
        *([f"<script>{script}</script>"] if script else []),
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


STYLE = """
:root {
  color-scheme: light dark;
  --paper: #f6f3ec; --card: #fff; --ink: #22252a; --faint: #62615c; --line: #e0dbd0; --link: #005f96;
}
@media (prefers-color-scheme: dark) {
  :root { --paper: #15171b; --card: #1f2227; --ink: #ebe8e1; --faint: #a5a39d; --line: #383c43; --link: #7cc4f2; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: clamp(1rem, 3vw, 3rem); max-width: 104rem;
  background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1, h2 { margin: 0; font-family: "Iowan Old Style", Palatino, "Palatino Linotype", "Book Antiqua", Georgia, serif; }
h1 { font-size: clamp(1.8rem, 4vw, 2.8rem); line-height: 1.15; }
h2 { font-size: 1.35rem; line-height: 1.2; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
header p { margin: 0.4rem 0 0; color: var(--faint); }
header::after {  /* a staff */
  content: ""; display: block; height: 33px; margin: 1.2rem 0 1.6rem;
  background: repeating-linear-gradient(var(--line) 0 1px, transparent 1px 8px);
}
figure { margin: 0; }
footer { margin-top: 2rem; color: var(--faint); font-size: 0.9rem; }
footer p { max-width: 80ch; }
summary { cursor: pointer; }
table { margin-top: 0.6rem; border-collapse: collapse; color: var(--ink); }
th, td { padding: 0.3rem 1.2rem 0.3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--faint); font-weight: normal; }
"""
