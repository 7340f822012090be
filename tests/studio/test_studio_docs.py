"""The page on the interface: every curl line runs, and every address is described."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route
from studio_server import Client, serving

from musicgen.languages.remi.synthetic import compose
from musicgen.midi.write import write_midi
from musicgen.studio.app import make_app
from musicgen.studio.models import Models
from musicgen.studio.openapi import PATHS

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
BLOCKS = re.findall(r"^```curl\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def client(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("takes"), models) as client:
        yield client


@pytest.mark.parametrize("block", BLOCKS)
def test_curl_lines_run(client: Client, block: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    (tmp_path / "my_midi").mkdir()
    write_midi(compose(1, 4), tmp_path / "my_midi" / "song 1.mid")
    client.finished(client.write(bars=1))
    script = block.replace("http://127.0.0.1:8765", client.address).replace("curl ", "curl --fail-with-body ")
    run = subprocess.run(
        [shutil.which("bash") or "bash", "-ec", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "error" not in re.findall(r'^\{"(\w+)"', run.stdout, re.MULTILINE)


def test_every_address_is_described_and_named_on_the_page(client: Client) -> None:
    routes = make_app(client.studio)._app.routes  # type: ignore[attr-defined]
    known = {route.path.replace(".{kind:str}", ".{kind}") for route in routes if isinstance(route, Route)}
    described = {path for path in PATHS if not re.search(r"\.\w+$", path)}
    assert known - described == {"/", "/page/{name}", "/soundfont.sf2", "/api", "/api/pieces/{id}.{kind}"}
    for path in PATHS:
        assert re.search(re.escape(path).replace(r"\{id\}", r"\$?ID"), PAGE), path


def test_the_description_has_the_texts_of_the_options(client: Client) -> None:
    served = client.get("/api").json
    schema = served["paths"]["/api/pieces"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for option in client.get("/api/options").json:
        assert schema["properties"][option["key"]]["description"] == option["help"]
