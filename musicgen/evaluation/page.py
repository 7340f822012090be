"""A page of findings (to be written)."""

from __future__ import annotations

from collections.abc import Sequence

from musicgen.evaluation.findings import Findings


def findings_page(title: str, sections: Sequence[Findings]) -> str:
    """The page."""
    return title + str(len(sections))
