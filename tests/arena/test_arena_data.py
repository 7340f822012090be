from __future__ import annotations

import json
import lzma
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from arena_files import write_cifar, write_citations, write_reviews

from musicgen.arena.dataset import Dataset
from musicgen.arena.image import grey, shrunk
from musicgen.arena.tasks import generate_listops, load
from musicgen.errors import UserError

NONE = (None, None, None)


def examples(dataset: Dataset, split: str) -> set[tuple[bytes, ...]]:
    rows = dataset.splits[split].sequences
    return {tuple(dataset.sequence(number).tobytes() for number in row) for row in rows}


def test_data_come_back_from_their_folder(tmp_path: Path) -> None:
    dataset = generate_listops("listops_tiny", (30, 10, 10), 0)
    dataset.write(tmp_path / "data")
    again = Dataset.open(tmp_path / "data")
    assert (again.about, again.fingerprint) == (dataset.about, dataset.fingerprint)
    assert all(examples(again, split) == examples(dataset, split) for split in dataset.splits)


@pytest.mark.parametrize("name", ["task.json", "tokens.npy", "starts.npy", "splits.npz"])
@pytest.mark.parametrize("damage", ["missing", "short", "other"])
def test_a_damaged_folder_is_a_sentence(name: str, damage: str, tmp_path: Path) -> None:
    generate_listops("listops_tiny", (30, 10, 10), 0).write(tmp_path / "data")
    path = tmp_path / "data" / name
    data = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(data[: len(data) // 2] if damage == "short" else b"x" * len(data))
    with pytest.raises(UserError, match="`musicgen arena prepare` makes such a folder"):
        Dataset.open(tmp_path / "data")


def test_reviews_are_read_from_both_layouts_with_a_split_for_validation(tmp_path: Path) -> None:
    write_reviews(tmp_path / "aclImdb", 40)
    notes: list[str] = []
    filed = load("text", tmp_path / "aclImdb", NONE, 0, notes.append)
    assert notes == [f"note: 40 reviews in {part}; the whole data set has 25,000" for part in ("train", "test")]
    assert {name: len(split) for name, split in filed.splits.items()} == {"train": 36, "valid": 4, "test": 40}
    for part in ("train", "test"):
        items = [
            {"id": f"{part}/{label}/{path.stem}", "label": int(label == "pos"), "text": path.read_text("utf-8")}
            for label in ("pos", "neg")
            for path in (tmp_path / "aclImdb" / part / label).iterdir()
        ]
        lines = "".join(json.dumps(item) + "\n" for item in items)
        (tmp_path / f"imdb_{part}.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    listed = load("text", tmp_path, NONE, 0, notes.append)
    for split in ("train", "valid", "test"):
        assert examples(listed, split) == examples(filed, split)
        assert listed.splits[split].labels.sum() == filed.splits[split].labels.sum()
    everything = [examples(filed, split) for split in ("train", "valid", "test")]
    assert sum(map(len, everything)) == len(set.union(*everything))


def test_pairs_of_papers_are_split_by_who_cites_and_balanced(tmp_path: Path) -> None:
    citations = write_citations(tmp_path, papers=60)
    dataset = load("retrieval", tmp_path, NONE, 0, print)
    names = [f"paper {number:03d}".encode() for number in range(60)]
    citing: list[set[bytes]] = []
    for split in dataset.splits.values():
        assert split.labels.mean() == 0.5
        pairs = [tuple(dataset.sequence(number).tobytes()[:9] for number in row) for row in split.sequences]
        for (one, other), label in zip(pairs, split.labels, strict=True):
            known = (names.index(one), names.index(other)) in citations
            assert known == bool(label)
            assert one != other
        citing.append({one for one, _ in pairs})
    assert not (citing[0] & citing[1]) | (citing[0] & citing[2]) | (citing[1] & citing[2])


def test_published_pairs_are_read(tmp_path: Path) -> None:
    for name in ("train", "eval", "test"):
        lines = [f"{label}\tA1\tB{label}\tone text\tother {label} {name}\n" for label in ("1.0", "0")]
        (tmp_path / f"new_aan_pairs.{name}.tsv").write_text("".join(lines))
    notes: list[str] = []
    dataset = load("retrieval", tmp_path, NONE, 0, notes.append)
    assert dataset.is_paired
    assert dataset.splits["train"].labels.tolist() == [1, 0]
    assert examples(dataset, "valid") == {(b"one text", b"other 1.0 eval"), (b"one text", b"other 0 eval")}
    assert "note: 2 pairs in train; the whole data set has 147,086" in notes
    with (tmp_path / "new_aan_pairs.test.tsv").open("a") as file:
        file.write("2\tA\tB\tx\ty\n")
    with pytest.raises(UserError, match=r"test.tsv, line 3: not a label"):
        load("retrieval", tmp_path, NONE, 0, print)


@pytest.mark.parametrize("version", ["python", "binary"])
def test_images_are_read_from_both_versions(version: str, tmp_path: Path) -> None:
    colours, labels = write_cifar(tmp_path, version, 20)
    notes: list[str] = []
    dataset = load("image", tmp_path, NONE, 0, notes.append)
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 90, "valid": 10, "test": 20}
    first = dataset.sequence(0).reshape(32, 32)
    assert np.array_equal(first, grey(colours[:1])[0])
    by_number = {
        int(row[0]): int(label)
        for split in dataset.splits.values()
        for row, label in zip(split.sequences, split.labels, strict=True)
    }
    assert [by_number[number] for number in range(120)] == labels.tolist()
    assert sum("is not the published file" in note for note in notes) == (6 if version == "python" else 0)
    small = load("image16", tmp_path, NONE, 0, print)
    assert small.about.side == 16
    assert small.sequence(0)[0] == pytest.approx(first[:2, :2].mean(), abs=0.5)


def test_grey_is_rounded_as_published() -> None:
    assert grey(np.array([[255, 255, 255], [0, 0, 0], [255, 0, 0]], np.uint8)).tolist() == [255, 0, 76]
    image = np.arange(16, dtype=np.uint8).reshape(1, 4, 4)
    assert shrunk(image, 2).tolist() == [[[3, 5], [11, 13]]]  # 2.5, 4.5, 10.5, 12.5, rounded up
    assert shrunk(image, 4) is image


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch executed",)


def test_a_pickle_of_something_else_is_refused_and_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_cifar(tmp_path, "python", 4)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(pickle.dumps({b"data": Evil(), b"labels": [1]}))
    with pytest.raises(UserError, match=r"data_batch_3: not a batch of CIFAR-10 \(.*system does not belong in it\)"):
        load("image", tmp_path, NONE, 0, print)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("text", "there are no reviews in train/pos and train/neg; get aclImdb from http"),
        ("retrieval", "has neither new_aan_pairs.train.tsv nor"),
        ("image", "has no train images of CIFAR-10; get its Python or binary version from"),
        ("listops", "basic_train.tsv: there is no such file; ListOps needs none"),
    ],
)
def test_a_folder_without_the_data_says_where_they_are(task: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        load(task, tmp_path, NONE, 0, print)


def test_published_listops_is_read_and_checked(tmp_path: Path) -> None:
    for name, answer in (("train", 4), ("val", 5), ("test", 6)):
        lines = ["Source\tTarget\n", f"( ( ( [MAX {answer} ) 2 ) ] )\t{answer}\n", "( [MIN 1 2 ] )\t1\n"]
        (tmp_path / f"basic_{name}.tsv").write_text("".join(lines))
    dataset = load("listops_paper", tmp_path, NONE, 0, print)
    assert dataset.splits["valid"].labels.tolist() == [5, 1]
    (tmp_path / "basic_val.tsv").write_text("( [MIN 1 2 ] )\t2\n")
    with pytest.raises(UserError, match=r"basic_val.tsv, line 1: .*its value is 1, not 2"):
        load("listops_paper", tmp_path, NONE, 0, print)
