from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
import torch
from likelihood_oracle import (
    close,
    constant_model,
    evaluated,
    no_bar,
    pieces_of,
    plain_mean,
    slow_losses,
    small_model,
    songs,
)

from musicgen.data.corpus import Corpus
from musicgen.evaluation.likelihood import position_findings as module
from musicgen.evaluation.likelihood.position_findings import nll_findings
from musicgen.evaluation.likelihood.positions import (
    MemberMeans,
    PositionLosses,
    Targets,
    curve,
    default_bin,
    score_positions,
    types_of,
)
from musicgen.evaluation.likelihood.restarts import restarted_windows
from musicgen.evaluation.models import EvaluatedModel, group_by_seed
from musicgen.evaluation.report.findings import Picture, Spread, Table
from musicgen.languages import Groove, Remi, Tokens
from musicgen.languages.song import TokenSong
from musicgen.training.loaders import FixedWindows
from musicgen.training.schedule import validation_seed
from musicgen.training.validation import validate

SEEDS = [validation_seed(4, number) for number in range(2)]
UNIFORM = torch.zeros(len(Remi.vocabulary))


@pytest.fixture
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all the rest."""
    for name in ("draw_curves", "draw_types"):
        monkeypatch.setattr(module, name, lambda *_: Picture("none", "", b"", b""))


def targets_of(pieces: list[Tokens], length: int, language: Remi | Groove | None = None) -> Targets:
    language = language or Remi()
    return Targets.of(pieces, length, language)


def followed_by(models: list[EvaluatedModel], targets: Targets, trained: int | None = None) -> list[PositionLosses]:
    return score_positions(group_by_seed(models), targets, trained, SEEDS, 2, no_bar)


def table(found: list[PositionLosses], targets: Targets, name: str) -> dict[str, dict[str, object]]:
    tables: dict[str, Table] = {each.name: each for each in nll_findings(found, targets, None, 0).tables}
    chosen = tables[name]
    return {str(row[0]): dict(zip(chosen.columns, row, strict=True)) for row in chosen.rows}


@pytest.mark.parametrize("language", [Remi(), Groove()], ids=lambda language: language.name)
def test_each_target_is_scored_with_the_whole_song_and_in_its_restarted_window(language: Remi | Groove) -> None:
    pieces = [piece[:130] for piece in pieces_of(language)[:2]]
    model = small_model(language)
    targets = targets_of(pieces, 110, language)
    (found,) = followed_by([evaluated("a", model, language, 50)], targets)
    full, restarted = [], []
    for piece in pieces:
        draws = [model.draw(seed) for seed in SEEDS]
        whole = np.mean([slow_losses(model, piece[:110], piece[1:111], draw) for draw in draws], 0)
        again = whole.copy()
        for window in restarted_windows(language, piece, 110, 50):
            inputs, wanted, given = window.passage
            values = [slow_losses(model, inputs, wanted, draw)[given:] for draw in draws]
            again[window.first : window.first + len(wanted) - given] = np.mean(values, 0)
        full.append(whole)
        restarted.append(again)
    assert close(found.full, np.concatenate(full))
    assert close(found.restarted, np.concatenate(restarted))
    assert not close(found.full, found.restarted, 1e-2)
    assert found.windows == sum(len(restarted_windows(language, piece, 110, 50)) for piece in pieces)


@pytest.mark.usefixtures("_no_pictures")
def test_at_trained_positions_the_loss_is_what_validation_says() -> None:
    pieces = [piece[: 90 + 40 * number] for number, piece in enumerate(songs(4))]
    offsets = np.cumsum([0, *map(len, pieces)])
    index = tuple(
        TokenSong(path=str(number), sha256="", split="valid", offset=int(offset), tokens=len(piece))
        for number, (offset, piece) in enumerate(zip(offsets, pieces, strict=False))
    )
    corpus = Corpus(np.concatenate(pieces), index, Remi(), {})
    model = small_model(Remi())
    expected = validate(model, FixedWindows(corpus, "valid", 160, 3), 100, 2, 4, lambda tensor: tensor)
    targets = targets_of(corpus.pieces("valid"), 160)
    found = followed_by([evaluated("a", model, Remi(), 100)], targets)
    row = table(found, targets, "summary")["a"]
    assert isinstance(row["trained"], Spread)
    assert isinstance(row["beyond"], Spread)
    assert row["trained"].mean == pytest.approx(expected["val/loss"], abs=1e-5)
    assert row["beyond"].mean == pytest.approx(expected["val/loss_extrapolated"], abs=1e-5)
    by_draw = found[0].members["a"].trained
    assert float(np.std(by_draw)) == pytest.approx(expected["val/loss_spread"], abs=1e-5)
    assert row["extrapolated"].mean == pytest.approx(
        found[0].full[(targets.position >= 100) & (targets.position < 150)].mean()
    )


@pytest.mark.usefixtures("_no_pictures")
def test_a_model_that_knows_nothing_has_the_same_loss_everywhere() -> None:
    targets = targets_of(songs(), 200)
    found = followed_by([evaluated("a", constant_model(Remi(), UNIFORM), Remi(), 50)], targets)
    nothing = pytest.approx(math.log(361), rel=1e-6)
    row = table(found, targets, "summary")["a"]
    for region in ("trained", "extrapolated", "beyond"):
        assert row[region] == (nothing, pytest.approx(0, abs=1e-6))
    assert row["restarted"] == nothing
    assert [row[name] for name in ("gap", "difference", "lower", "upper")] == pytest.approx([0, 0, 0, 0], abs=1e-6)
    assert row["context"] == "unclear"
    found_curve = curve(found[0], targets, None)
    assert close(found_curve.full.mean(), math.log(361), 1e-5)
    assert close(found_curve.restarted.mean(), math.log(361), 1e-5)


@pytest.mark.usefixtures("_no_pictures")
def test_a_model_that_learnt_frequencies_has_their_entropy_in_each_type_note_and_bar() -> None:
    pieces = songs()
    tokens = np.concatenate([piece[1:] for piece in pieces])
    counts = np.bincount(tokens, minlength=361)
    model = constant_model(Remi(), torch.log(torch.tensor(counts + 1e-30)).float())
    targets = targets_of(pieces, 10**6)
    trained = 10**5  # all positions are
    found = followed_by([evaluated("a", model, Remi(), trained)], targets)
    chances = counts / counts.sum()
    entropy = -sum(chance * math.log(chance) for chance in chances if chance)
    row = table(found, targets, "summary")["a"]
    assert row["trained"][0] == pytest.approx(entropy, rel=1e-6)
    assert (row["context"], row["restarted"]) == ("none", pytest.approx(math.nan, nan_ok=True))
    names = [Remi.vocabulary.names[token].split("_")[0] for token in tokens]
    types = types_of(found[0], targets)
    for number, family in enumerate(Remi.vocabulary.families):
        own = [-math.log(chances[token]) for token, name in zip(tokens, names, strict=True) if name == family]
        assert types.counts[number].tolist() == [len(own), 0]
        assert types.losses[number, 0] == pytest.approx(plain_mean(own), rel=1e-5, nan_ok=True)
    bits = entropy * len(tokens) / math.log(2)
    units = table(found, targets, "units")["a"]
    assert units["bits a note, trained"] == pytest.approx(bits / names.count("Pitch"), rel=1e-6)
    bars = sum(len(Remi().window_starts(piece)) for piece in pieces)
    assert units["bits a bar, trained"] == pytest.approx(bits / bars, rel=1e-6)


@pytest.mark.parametrize("language", [Remi(), Groove()], ids=lambda language: language.name)
def test_the_parts_of_a_bar_come_to_one(language: Remi | Groove) -> None:
    targets = targets_of(pieces_of(language), 10**6, language)
    for number in range(len(targets.pieces)):
        total = targets.bars[targets.song == number].sum()
        assert total == pytest.approx(6 if language.name == "remi" else 8)
    short = targets_of(pieces_of(language), 100, language)
    np.testing.assert_array_equal(short.bars[:100], targets.bars[:100])


def test_the_curve_is_what_plain_lists_give_and_no_bin_crosses_the_trained_length() -> None:
    targets = targets_of(songs(), 200)
    (found,) = followed_by([evaluated("a", small_model(Remi()), Remi(), 50)], targets)
    curved = curve(found, targets, 30)
    edges = curved.edges.tolist()
    assert edges == [0, 30, 50, 60, 90, 120, 150, 180, 200]
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        for totals, values in ((curved.full, found.full), (curved.restarted, found.restarted)):
            chosen = [value for value, at in zip(values, targets.position, strict=True) if low <= at < high]
            assert totals.mean()[number] == pytest.approx(plain_mean(chosen))
            assert totals.counts.sum(0)[number] == len(chosen)


def test_bins_are_the_papers_and_never_too_many() -> None:
    assert default_bin(2048, 8192) == 128
    assert default_bin(256, 1024) == 32
    assert default_bin(24, 96) == 24
    assert 100_000 / default_bin(256, 100_000) <= 256


@pytest.mark.usefixtures("_no_pictures")
def test_seeds_of_one_model_are_one_row_with_their_spread() -> None:
    targets = targets_of(songs(), 120)
    models = [evaluated(f"sine_s{seed}", small_model(Remi(), seed), Remi(), 50) for seed in range(3)]
    models.append(evaluated("ape", small_model(Remi(), pe="ape"), Remi(), 50))
    found = followed_by(models, targets)
    assert [family.name for family in found] == ["sine", "ape"]
    alone = [followed_by([model], targets)[0] for model in models[:3]]
    assert close(found[0].full, np.mean([each.full for each in alone], 0), 1e-5)
    assert close(found[0].restarted, np.mean([each.restarted for each in alone], 0), 1e-5)
    rows = table(found, targets, "spread")
    assert list(rows) == ["sine_s0", "sine_s1", "sine_s2", "sine", "ape"]
    means = [rows[f"sine_s{seed}"]["beyond"][0] for seed in range(3)]
    assert rows["sine"]["beyond"] == (pytest.approx(plain_mean(means)), pytest.approx(statistics.stdev(means)))
    assert rows["sine"]["over"] == "models"
    spread = rows["sine_s1"]["trained"]
    assert spread == (pytest.approx(alone[1].members["sine_s1"].trained.mean()), pytest.approx(
        statistics.stdev(alone[1].members["sine_s1"].trained)
    ))  # fmt: skip


def test_models_may_have_trained_lengths_of_their_own_or_a_given_one() -> None:
    targets = targets_of(songs(), 120)
    models = [evaluated("a", small_model(Remi()), Remi(), 30), evaluated("b", small_model(Remi()), Remi(), 60)]
    assert [family.trained for family in followed_by(models, targets)] == [30, 60]
    assert [family.trained for family in followed_by(models, targets, 40)] == [30, 60]


@pytest.mark.usefixtures("_no_pictures")
def test_context_is_judged_by_the_paired_difference_over_songs() -> None:
    targets = targets_of(songs(6), 150)
    random = np.random.default_rng(0)
    restarted = 2 + random.random(len(targets.song)) + targets.song  # songs differ far more than the two do
    for shift, verdict in ((-0.1, "helps"), (0.1, "harms"), (0.0, "unclear")):
        noise = 0.02 * np.array([1, -1, 1, -1, 1, -1])[targets.song]
        found = PositionLosses(
            "a", 50, restarted + shift + noise, restarted, {"a": MemberMeans(np.ones(2), np.ones(2))}, 9, 0, 0
        )
        row = table([found], targets, "summary")["a"]
        assert row["context"] == verdict
        beyond = targets.position >= 50
        assert row["difference"] == pytest.approx((found.full - found.restarted)[beyond].mean())
        assert row["lower"] <= row["difference"] <= row["upper"]
        findings = nll_findings([found], targets, None, 0)
        assert any(verdict in line for line in findings.summary)


@pytest.mark.usefixtures("_no_pictures")
def test_of_few_songs_nothing_is_called_sure() -> None:
    targets = targets_of(songs(5), 150)
    losses = 2 + np.random.default_rng(0).random(len(targets.song))
    means = {"a": MemberMeans(np.ones(2), np.ones(2))}
    found = [PositionLosses(name, 50, losses + more, losses + 9, means, 9, 0, 0) for name, more in (("a", 0), ("b", 1))]
    assert {row["context"] for row in table(found, targets, "summary").values()} == {"unclear"}
    summary = nll_findings(found, targets, None, 0).summary
    assert summary[1].endswith("loss minus restarted loss is -9.000 in 5 songs.")
    assert summary[-1].endswith("a has the lowest loss of the 2, but there are too few songs to be sure.")


@pytest.mark.usefixtures("_no_pictures")
def test_the_best_is_named_among_models_of_one_trained_length_and_only_if_it_is_sure() -> None:
    targets = targets_of(songs(6), 150)
    means = {"a": MemberMeans(np.ones(2), np.ones(2))}
    base = 2 + np.random.default_rng(0).random(len(targets.song)) + targets.song
    scattered = 0.1 * np.array([1, -1, 1, -1, 1, -1])[targets.song]

    def told(**losses: tuple[int, np.ndarray]) -> list[str]:
        found = [PositionLosses(name, trained, full, full, means, 9, 0, 0) for name, (trained, full) in losses.items()]
        return [line for line in nll_findings(found, targets, None, 0).summary if "lowest" in line]

    assert told(a=(50, base)) == []
    first, second = told(a=(50, base + 0.2), b=(50, base), c=(50, base + 0.1))
    assert first.startswith("At positions 1–50 b has the lowest loss of the 3: ")
    assert first.endswith("0.100 lower than c, the next.")
    assert second.startswith("At positions 51–150 b has")
    assert all("a and b have the lowest loss of the 2, and neither is surely better" in line or "b and a" in line
               for line in told(a=(50, base), b=(50, base + scattered)))  # fmt: skip
    assert told(a=(50, base), b=(60, base - 1)) == []  # other tokens


@pytest.mark.usefixtures("_no_pictures")
@pytest.mark.parametrize(("length", "trained", "words"), [(40, 50, "no song goes beyond"), (20, 1, "2–20")])
def test_regions_with_nothing_in_them_are_told_of_as_they_are(length: int, trained: int, words: str) -> None:
    targets = targets_of(songs(), length)
    found = followed_by([evaluated("a", small_model(Remi()), Remi(), trained)], targets)
    assert words in nll_findings(found, targets, None, 0).summary[1]


def test_what_is_found_is_told_in_words_and_drawn() -> None:
    targets = targets_of(songs(), 120)
    found = followed_by([evaluated("a", small_model(Remi()), Remi(), 8)], targets)
    first = nll_findings(found, targets, None, 1)
    assert "3 songs" in first.summary[0]
    assert (
        f"Of the {found[0].windows:,} restarted windows of a, {found[0].cut:,} begin inside a bar" in first.summary[-1]
    )
    assert first.details["windows"] == {"a": {"restarted": found[0].windows, "cut": found[0].cut, "amid": 0}}
    assert [picture.name for picture in first.pictures] == ["nll", "types"]
