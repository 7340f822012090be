from __future__ import annotations

import math

import numpy as np
import pytest
from likelihood_oracle import close, evaluated, no_bar, plain_mean, slow_losses, small_model, songs

from musicgen.errors import UserError
from musicgen.evaluation.likelihood.positions import Targets, score_positions
from musicgen.evaluation.likelihood.realizations import Row, realizations_findings, try_realizations
from musicgen.evaluation.models import EvaluatedModel, group_by_seed
from musicgen.evaluation.report.findings import Spread
from musicgen.languages import Remi

SEEDS = [11, 12, 13]


def rows_of(
    models: list[EvaluatedModel], numbers: list[int], length: int | None = None, seeds: list[int] = SEEDS
) -> list[Row]:
    return try_realizations(group_by_seed(models), songs(), numbers, length, seeds, 2, no_bar)


def test_each_cell_is_the_loss_with_so_many_realisations() -> None:
    model = small_model(Remi())
    (row,) = rows_of([evaluated("a", model, Remi(), 20)], [3, 20])
    assert list(row.cells) == [3, 8, 20]  # that of training joins them
    assert (row.realizations, row.length) == (8, 20)
    for number, cell in row.cells.items():
        draws = [model.draw(seed, number) for seed in SEEDS]
        means = [np.mean([slow_losses(model, song[:20], song[1:21], draw) for song in songs()]) for draw in draws]
        assert close(cell, (np.mean(means), np.std(means, ddof=1)))


def test_with_its_own_number_a_model_has_the_loss_that_nll_says() -> None:
    models = [
        evaluated("a", small_model(Remi()), Remi(), 30),
        evaluated("b", small_model(Remi(), pe="conv"), Remi(), 50),
    ]
    targets = Targets.of(songs(), 100, Remi())
    followed = score_positions(group_by_seed(models), targets, None, SEEDS, 2, no_bar)
    for row, found in zip(rows_of(models, [4]), followed, strict=True):
        assert row.cells[8].mean == pytest.approx(found.full[targets.position < found.trained].mean(), abs=1e-5)


def test_seeds_are_averaged_and_rows_are_in_the_order_of_training() -> None:
    models = [evaluated(f"wide_s{seed}", small_model(Remi(), seed, num_realizations=16), Remi(), 30) for seed in (0, 1)]
    rows = rows_of([*models, evaluated("narrow", small_model(Remi()), Remi(), 30)], [4])
    assert [(row.name, row.realizations) for row in rows] == [("narrow", 8), ("wide", 16)]
    alone = [rows_of([model], [4])[0].cells[4].mean for model in models]
    assert rows[1].cells[4].mean == pytest.approx(plain_mean(alone), abs=1e-6)


def test_with_more_realisations_draws_agree_more() -> None:
    model = small_model(Remi(), feature_map="elu", d_model=32)
    (row,) = rows_of([evaluated("a", model, Remi(), 60)], [2, 512], seeds=list(range(12)))
    assert row.cells[512].deviation < row.cells[2].deviation / 4


def test_exact_noise_has_no_cell_with_too_few_and_no_spread_without_other_noise() -> None:
    shape = {"noise": "exact", "num_sines": 1, "feature_map": "elu", "gated": True}  # (2 + 1) x 8 features
    model = small_model(Remi(), num_realizations=24, **shape)
    (row,) = rows_of([evaluated("a", model, Remi(), 30)], [8, 23, 32])
    assert [math.isnan(cell.mean) for cell in row.cells.values()] == [True, True, False, False]
    assert row.cells[24].deviation == pytest.approx(0, abs=1e-5)
    findings = realizations_findings([row], 3, 3)
    assert findings.left_out == [f"a: R = {number} is too few for exact noise" for number in (8, 23)]
    assert findings.tables[0].rows[0][2] is None


def test_a_model_without_noise_or_without_a_length_is_refused() -> None:
    model = small_model(Remi())
    with pytest.raises(UserError, match=r"ape .*pe=ape"):
        rows_of([evaluated("a", model, Remi(), 30), evaluated("ape", small_model(Remi(), pe="ape"), Remi(), 30)], [4])
    with pytest.raises(UserError, match="length is missing"):
        rows_of([evaluated("a", model, Remi())], [4])
    assert rows_of([evaluated("a", model, Remi())], [8], length=7)[0].length == 7


def test_one_model_is_a_curve_and_several_are_a_map() -> None:
    cells = {4: Spread(2.5, 0.1), 8: Spread(2.0, 0.05), 16: Spread(math.nan, math.nan)}
    one = realizations_findings([Row("a", 8, 30, cells)], 3, 2)
    several, again = (realizations_findings([Row("a", 8, 30, cells), Row("b", 4, 30, cells)], 3, 2) for _ in range(2))
    assert "against R" in one.pictures[0].title
    assert "brighter is better" in several.pictures[0].title
    assert "2.000 nats per token with its training R = 8" in one.summary[1]
    assert "+0.500 with 4" in one.summary[1]
    assert "is 0.1000 with R = 4, and 0.0500 with R = 8" in one.summary[2]
    assert several.pictures == again.pictures
    single = {4: Spread(2.5, math.nan), 8: Spread(2.0, math.nan)}
    assert len(realizations_findings([Row("a", 8, 30, single)], 3, 1).summary) == 2
