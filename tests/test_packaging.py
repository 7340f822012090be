from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("musicgen-*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that holds the wheel and none of its dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    return folder / "bin"


def test_the_wheel_holds_the_package_its_types_its_configs_its_templates_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    configs = {f"musicgen/{file.relative_to(ROOT)}" for file in (ROOT / "conf").rglob("*.yaml")}
    assert configs <= set(names)
    templates = {str(file.relative_to(ROOT)) for file in (ROOT / "musicgen" / "templates").iterdir()}
    assert {Path(name).suffix for name in templates} == {".j2", ".css", ".js"}
    assert templates <= set(names)
    assert {str(file.relative_to(ROOT)) for file in (ROOT / "musicgen" / "studio" / "page").iterdir()} <= set(names)
    assert "musicgen/py.typed" in names
    assert {name.split("/")[0].removesuffix(".dist-info").partition("-")[0] for name in names} == {"musicgen"}


def test_an_installed_command_answers_without_dependencies_and_then_uses_its_own_configs(
    installed: Path, tmp_path: Path
) -> None:
    assert "describe" in run(installed / "musicgen", "--help", cwd=tmp_path)

    # Lend it our dependencies. A .pth file inside a folder that a .pth file names is not read, so the editable
    # install of this checkout, which is such a file, stays out of sight.
    (site_packages,) = (installed.parent / "lib").glob("python*/site-packages")
    (site_packages / "lent.pth").write_text(sysconfig.get_path("purelib"))
    probe = "import musicgen; from musicgen.cli.config import config_folder; print(musicgen.__file__, config_folder())"
    for place in run(installed / "python", "-c", probe, cwd=tmp_path).split():
        assert Path(place).is_relative_to(site_packages / "musicgen")
    assert "num_layers: 24" in run(installed / "musicgen", "describe", "--cfg", "model=paper_24l", cwd=tmp_path)
