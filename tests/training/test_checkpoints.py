from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch

from musicgen.errors import UserError
from musicgen.training import checkpoints
from musicgen.training.checkpoints import AtomicCheckpointIO, load_checkpoint

CONFIG = {
    "model": {},
    "pe": {},
    "trainer": {},
    "optimizer": {},
    "batch_size": 1,
    "seed": 0,
    "data": {"source": "synthetic", "length": 8},
}
CONTENT = {
    "musicgen": {"step": 3, "config": CONFIG, "corpus": "", "language": "remi", "metrics": {}},
    "state_dict": {"weight": torch.arange(1000.0)},
    "optimizer_states": [],
    "loops": {},
    "global_step": 3,
}


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    AtomicCheckpointIO().save_checkpoint(CONTENT, tmp_path / "last.ckpt")
    loaded = load_checkpoint(tmp_path / "last.ckpt")
    assert loaded["musicgen"] == CONTENT["musicgen"]
    assert torch.equal(loaded["state_dict"]["weight"], CONTENT["state_dict"]["weight"])
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("moment", ["save", "fsync"])
def test_a_full_disk_is_a_sentence_and_the_old_checkpoint_stays(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(CONTENT, path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(*((checkpoints.torch, "save") if moment == "save" else (checkpoints.os, "fsync")), fail)
    with pytest.raises(UserError, match=r"last.ckpt: .*No space left on device.* the previous one is kept"):
        AtomicCheckpointIO().save_checkpoint({**CONTENT, "more": 1}, path)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["last.ckpt"]


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch executed",)


@pytest.mark.parametrize(
    "data",
    [b"", b"not a checkpoint", pickle.dumps(Evil()), b"PK\3\4" + bytes(100)],
    ids=["empty", "text", "evil", "zip"],
)
def test_what_is_no_checkpoint_is_refused_and_not_executed(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.ckpt").write_bytes(data)
    with pytest.raises(UserError, match=r"bad.ckpt: not a checkpoint that can be read; it is damaged, or another kind"):
        load_checkpoint(tmp_path / "bad.ckpt")
    assert not (tmp_path / "executed").exists()


def test_a_checkpoint_cut_short_or_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(CONTENT, path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(UserError, match="not a checkpoint that can be read"):
        load_checkpoint(path)
    torch.save({"state_dict": {}}, path)
    with pytest.raises(UserError, match="not a checkpoint of `musicgen train`"):
        load_checkpoint(path)
    with pytest.raises(UserError, match="no such checkpoint"):
        load_checkpoint(tmp_path / "none.ckpt")
