"""What `evaluate attention` finds: the pieces, layers and heads that were asked for, and words that are true."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from evaluated_models import evaluated

from musicgen.errors import UserError
from musicgen.evaluation.encoding import attention
from musicgen.evaluation.encoding import attention_findings as attention_findings_module
from musicgen.evaluation.encoding.attention import (
    piece_of,
    read_pieces,
    subject_of,
    usual_layers,
)
from musicgen.evaluation.encoding.attention_findings import attention_findings
from musicgen.evaluation.encoding.attention_options import AttentionOptions
from musicgen.evaluation.report.findings import Findings
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import write_midi

PLAIN = AttentionOptions(templates=3, draws=2)


def silent(items: Iterable[Any], total: int, unit: str) -> Iterable[Any]:  # noqa: ARG001
    return items


def found(wish: AttentionOptions, *models: Any) -> Findings:
    subjects = [subject_of(model, wish) for model in models]
    return attention_findings(subjects, read_pieces(subjects, wish, silent), wish)


@pytest.fixture
def song(tmp_path: Path) -> Path:
    write_midi(compose(0, 8), tmp_path / "song.mid")
    return tmp_path / "song.mid"


def test_layers_are_the_papers_in_proportion() -> None:
    assert usual_layers(24) == [1, 3, 12, 20, 24]
    assert usual_layers(3) == [1, 2, 3]
    assert usual_layers(12) == [1, 2, 6, 10, 12]
    assert usual_layers(48) == [1, 6, 24, 40, 48]


def test_a_given_piece_is_read_and_cut(song: Path) -> None:
    model = evaluated()
    wish = dataclasses.replace(PLAIN, midi=song, tokens=50)
    subject = subject_of(model, wish)
    expected = model.music_model.language.read_prompt(song, None).tokens
    assert piece_of(subject, wish)[0] == expected[:50]
    usual = dataclasses.replace(PLAIN, midi=song)
    assert len(piece_of(subject, usual)[0]) == 96  # 1.5 times 64
    findings = found(wish, model)
    (explorer,) = findings.explorers
    assert list(explorer.labels) == model.language.vocabulary.to_names(expected[:50])
    assert explorer.extent == (50, 50)
    assert "(song.mid)" in findings.summary[0]
    assert findings.summary[1] == "The piece is not longer than the training windows of small."


def test_a_written_piece_is_the_first_of_some_seeds_that_is_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    model = evaluated()
    lengths, asked = [30, 50, 96, 96], list[dict[str, Any]]()

    class Written:
        def __init__(self, length: int) -> None:
            self.tokens = (3,) * length

    def generate(**request: Any) -> Written:
        asked.append(request)
        return Written(lengths[request["seed"]])

    monkeypatch.setattr(model.music_model, "generate", generate)
    tokens, seed = piece_of(subject_of(model, PLAIN), PLAIN)
    assert (len(tokens), seed) == (96, 2)
    assert asked == [{"tokens": 96, "seed": seed, "draw": 0} for seed in range(3)]
    lengths[2:] = [20] * 6
    tokens, seed = piece_of(subject_of(model, PLAIN), PLAIN)
    assert (len(tokens), seed) == (50, 1)


def test_findings_of_several_models_have_what_each_has() -> None:
    wish = dataclasses.replace(PLAIN, tokens=80, layers=[2], heads=[1, 2])
    models = [evaluated("a/sine"), evaluated("a.none", pe="none", decay="fixed", decay_exponents=(1.0, 3.0))]
    findings = found(wish, *models)
    names = [picture.name for picture in findings.pictures]
    expected = ["templates_a-sine", "matrices_a-sine", "decay", "gates", "maps_a-sine", "maps_a-none"]
    assert names == expected
    assert all(picture.png.startswith(b"\x89PNG") and len(picture.svg) < 1_000_000 for picture in findings.pictures)
    tables = {table.name: table for table in findings.tables}
    assert {row[0] for row in tables["gates"].rows} == {"a/sine"}
    assert len(tables["gates"].rows) == 2 * 2
    assert tables["decay"].rows[0][:3] == ["a.none", "all", 1]
    assert tables["decay"].rows[0][3:] == pytest.approx([0.5, 1.0], rel=1e-5)
    assert len(tables["templates"].rows) == 3
    assert [row[:3] for row in tables["looks"].rows[:2]] == [
        ["a/sine", "within", "2"],
        ["a/sine", "within", "even spread"],
    ]
    assert len(tables["looks_heads"].rows) == 2 * 2 * 2
    for explorer in findings.explorers:
        assert dict(explorer.choices) == {"layer": ["2"], "head": ["1", "2"]}
        assert set(explorer.maps) == {("2", "1"), ("2", "2")}
    heads = [row for row in tables["looks_heads"].rows if row[:2] == ["a/sine", "within"]]
    mean = math.fsum(row[4] for row in heads) / 2
    assert tables["looks"].rows[0][3] == pytest.approx(mean)


def test_names_that_become_the_same_file_are_numbered() -> None:
    assert attention_findings_module._file_names(["a/b", "a.b"]) == ["_a-b-1", "_a-b-2"]
    assert attention_findings_module._file_names(["a/b"]) == [""]


def test_maps_are_made_small_enough_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "PAGE_BYTES", 2 * 2 * 20 * 20 // 2)  # four maps of 20 × 20, half of it empty
    wish = dataclasses.replace(PLAIN, tokens=80)
    subject = subject_of(evaluated(pe="none"), wish)
    (read,) = read_pieces([subject], wish, silent)
    assert {levels.shape for levels in read.maps.values()} == {(20, 20)}


def test_exact_maps_and_those_of_features_differ() -> None:
    wishes = [dataclasses.replace(PLAIN, tokens=70, kind=kind) for kind in ("exact", "features")]
    exact, features = (read_pieces([subject_of(evaluated(), wish)], wish, silent)[0] for wish in wishes)
    assert exact.tokens == features.tokens
    assert any((exact.maps[place] != features.maps[place]).any() for place in exact.maps)


@pytest.mark.parametrize(
    ("changes", "naming"),
    [
        ({"layers": [1, 3]}, "layers=3: small has 2"),
        ({"heads": [3]}, "heads=3: small has 2"),
        ({"features": [9]}, "features=9: small has 8"),
        ({"tokens": 9000}, "tokens="),
    ],
)
def test_what_a_model_does_not_have_is_refused(changes: dict[str, Any], naming: str) -> None:
    with pytest.raises(UserError, match=naming):
        subject_of(evaluated(), dataclasses.replace(PLAIN, **changes))


def test_the_trained_length_has_to_be_known() -> None:
    with pytest.raises(UserError, match="trained=NUMBER"):
        subject_of(evaluated(length=None), PLAIN)
    assert subject_of(evaluated(length=None), dataclasses.replace(PLAIN, trained=32)).trained == 32
