"""A browser that tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from studio_server import save_tiny_models

from musicgen.studio.models import Models

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("models")
    save_tiny_models(folder)
    return Models(folder, "tiny")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; tests are skipped where there is none, except under CI."""
    found = shutil.which("chromium")
    if found is None or not Path(found).exists():
        if os.environ.get("CI"):
            pytest.fail("there is no chromium (.ci/run installs it)")
        pytest.skip("there is no chromium (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()
