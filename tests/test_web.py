"""Pages run only their own style and script, and templates escape what they show."""

from __future__ import annotations

import base64
import hashlib
import html
import re

import pytest
from jinja2 import UndefinedError

from musicgen.sampling.page import Entry, page
from musicgen.web import SIGNATURE, render_page


def policy(text: str) -> dict[str, str]:
    (found,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    return dict(part.split(" ", 1) for part in html.unescape(found).split("; "))


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("sounds", [1, 2])
def test_the_policy_allows_the_style_and_the_script_of_the_page_and_nothing_else(sounds: int) -> None:
    text = page("Night", {}, [Entry(f"{number}", {"wav": "a.wav"}, {}, [], []) for number in range(sounds)])
    found = policy(text)
    assert found["default-src"] == "'none'"
    assert found["style-src"] == digest(re.findall(r"<style>(.*?)</style>", text, re.DOTALL)[0])
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert found["script-src"] == (digest(scripts[0]) if scripts else "'none'")
    assert len(scripts) == sounds - 1
    assert "unsafe" not in " ".join(found.values())
    assert " style=" not in text  # the policy would ignore it


def test_every_page_is_known_as_ours() -> None:
    assert SIGNATURE in render_page("demo", "Title", parts=[])[:4000]


def test_a_value_that_is_missing_is_an_error_and_not_an_empty_place() -> None:
    with pytest.raises(UndefinedError, match="parts"):
        render_page("demo", "Title")
