from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.errors import UserError
from musicgen.languages.split import SPLITS, draw_splits, read_lists


def hashes(count: int) -> list[str]:
    return [f"{number:064x}" for number in range(count)]


def groups_of(sizes: list[int]) -> list[int]:
    """The number of the group of each song, for groups of given sizes, one after the other."""
    return [sum(sizes[:place]) for place, size in enumerate(sizes) for _ in range(size)]


@pytest.mark.parametrize(("songs", "held_out"), [(20, 1), (100, 5), (1000, 50), (1747, 87)])
def test_of_many_songs_nine_tenths_are_for_training(songs: int, held_out: int) -> None:
    counts = Counter(draw_splits(hashes(songs), list(range(songs)), 0))
    assert counts == {"train": songs - 2 * held_out, "valid": held_out, "test": held_out}


@pytest.mark.parametrize("songs", range(1, 21))
def test_few_songs_have_one_in_each_split_if_they_are_three(songs: int) -> None:
    counts = Counter(draw_splits(hashes(songs), list(range(songs)), 0))
    assert counts == ({"train": songs} if songs < 3 else {"train": songs - 2, "valid": 1, "test": 1})


def test_no_songs_have_no_splits() -> None:
    assert draw_splits([], [], 0) == []


@settings(deadline=None)
@given(st.lists(st.sampled_from([1, 1, 2, 3, 30, 60]), min_size=1, max_size=12), st.integers(-5, 5))
def test_songs_of_a_group_stay_together_and_every_split_has_some(sizes: list[int], seed: int) -> None:
    groups = groups_of(sizes)
    splits = draw_splits(hashes(len(groups)), groups, seed)
    assert len({(group, split) for group, split in zip(groups, splits, strict=True)}) == len(sizes)
    assert set(splits) == set(SPLITS) if len(sizes) >= 3 else set(splits) == {"train"}


@pytest.mark.parametrize("sizes", [[1, 1, 98], [98, 1, 1, 1], [2, 49, 49], [5, 45, 50, 100], [3] * 40, [1] * 60 + [40]])
def test_held_out_parts_are_no_larger_than_asked_but_for_a_group_that_cannot_be_divided(sizes: list[int]) -> None:
    groups = groups_of(sizes)
    for seed in range(5):
        counts = Counter(draw_splits(hashes(len(groups)), groups, seed))
        limit = max(round(0.05 * len(groups)), sorted(sizes)[1])  # two of the smallest groups serve
        assert 1 <= counts["valid"] <= limit
        assert 1 <= counts["test"] <= limit


def test_the_split_depends_on_contents_and_seed_and_not_on_the_order() -> None:
    names, groups = hashes(60), groups_of([2] * 30)
    drawn = dict(zip(names, draw_splits(names, groups, 3), strict=True))
    order = list(range(60))
    random.Random(0).shuffle(order)
    again = draw_splits([names[i] for i in order], [groups[i] for i in order], 3)
    assert {names[i]: split for i, split in zip(order, again, strict=True)} == drawn
    assert draw_splits(names, groups, 4) != list(drawn.values())


def test_a_corpus_that_grows_keeps_most_songs_where_they_were() -> None:
    before = draw_splits(hashes(400), list(range(400)), 0)
    after = draw_splits(hashes(420), list(range(420)), 0)[:400]
    assert sum(one != other for one, other in zip(before, after, strict=True)) <= 12


def lists(folder: Path, **names: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in names.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / f"{name.replace('_', '-')}.txt").write_bytes(data)
    return folder


PATHS = ["001/001.mid", "002/002.mid", "a b.mid", "ö.MID", "deep/er/x.midi"]


def test_lists_name_songs_with_and_without_extension(tmp_path: Path) -> None:
    folder = lists(tmp_path, train="001/001\n\n  002/002.mid \r\n", val="a b\n", test_names="ö.MID\ndeep/er/x\n")
    assert read_lists(folder, PATHS) == {
        "001/001.mid": "train",
        "002/002.mid": "train",
        "a b.mid": "valid",
        "ö.MID": "test",
        "deep/er/x.midi": "test",
    }


def test_a_song_twice_in_one_list_is_there_once(tmp_path: Path) -> None:
    assert read_lists(lists(tmp_path, train="001/001\n001/001.mid\n"), PATHS) == {"001/001.mid": "train"}


def test_a_whole_name_is_not_taken_for_another_without_its_extension(tmp_path: Path) -> None:
    folder = lists(tmp_path, train="a.mid\n", test="b.mid\n")
    assert read_lists(folder, ["a.mid", "a.mid.mid", "b.mid", "b.mid.mid"]) == {"a.mid": "train", "b.mid": "test"}


def test_a_name_that_two_songs_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train\.txt, line 1: 'a' "):
        read_lists(lists(tmp_path, train="a\n"), ["a.mid", "a.midi"])


def test_the_mark_that_windows_puts_before_a_text_is_not_part_of_a_name(tmp_path: Path) -> None:
    assert read_lists(lists(tmp_path, train="\ufeff001/001\n"), PATHS) == {"001/001.mid": "train"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"train": "001/001\n003/003\n"}, "train.txt, line 2: '003/003' is not a song"),
        ({"train": "001/001\n", "test": "001/001.mid\n"}, "test.txt, line 1: '001/001.mid' is also in .*'train'"),
        ({"train": "\n \n"}, "no lists of songs in it"),
        ({"training": "001/001\n"}, "no lists of songs in it"),
        ({"train": b"caf\xe9\n"}, "train.txt: "),
    ],
)
def test_a_list_that_cannot_be_used_is_one_sentence(
    content: dict[str, str | bytes], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        read_lists(lists(tmp_path, **content), PATHS)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_of_lists_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        read_lists(tmp_path / "nowhere", PATHS)
