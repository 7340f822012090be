"""`musicgen studio`: prints one line, serves its page, and ends with Ctrl-C."""

from __future__ import annotations

import ipaddress
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

import pytest

from musicgen.cli.main import main
from musicgen.cli.studio import _address


def test_it_prints_its_address_serves_its_page_and_ends_with_an_interrupt(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "musicgen", "studio", "port=0", "open=false", f"folder={tmp_path / 'takes'}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"studio: (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n", line)
        try:
            assert found, line
            with urllib.request.urlopen(found[1]) as answer:  # noqa: S310  (our own address)
                assert b"musicgen studio" in answer.read()
        finally:
            process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=60)
    assert (process.returncode, rest, problems) == (0, "", "")


def test_a_port_that_is_taken_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["studio", f"port={taken.getsockname()[1]}", "open=false"]) == 2
    assert "cannot be used (Address already in use); is a studio open already? Try port=0" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "port=0", "open=false", "model=none", f"folder={tmp_path}"]) == 2
    assert "model=none: no such model (known: groove-small, pop-small)" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_the_address_that_is_printed_can_be_opened_on_another_machine(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Debian, the name of a machine stands for 127.0.1.1."""

    def lost(*_: object) -> str:
        raise socket.gaierror

    monkeypatch.setattr("socket.gethostbyname", lost)
    address = urlparse(_address(host, 8765, "secret"))
    assert (address.port, address.query) == (8765, "token=secret")
    assert ipaddress.ip_address(address.hostname or "") not in ipaddress.ip_network("127.0.1.0/24")
