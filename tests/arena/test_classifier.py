from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.arena.classifier import SequenceClassifier
from musicgen.arena.config import ClassifierConfig
from musicgen.arena.options import SizeConfig
from musicgen.arena.tasks import about
from musicgen.errors import UserError

SIZE = SizeConfig(num_layers=2, num_heads=2, d_model=16, d_ff=24, num_features=16)
ENCODINGS: dict[str, dict[str, Any]] = {
    "none": {"name": "none"},
    "ape": {"name": "ape"},
    "rope": {"name": "rope"},
    "sine": {"name": "sine", "num_realizations": 12, "num_sines": 2},
    "sine of each layer": {"name": "sine", "num_realizations": 12, "num_sines": 2, "shared": False},
    "sine exact": {"name": "sine", "num_realizations": 24, "num_sines": 1, "noise": "exact"},
    "sine ungated": {"name": "sine", "num_realizations": 12, "gated": False},
    "conv": {"name": "conv", "num_realizations": 12, "kernel_size": 4},
}


def classifier(
    pe: str = "none", task: str = "listops_tiny", length: int = 20, paired: bool = False, **size: Any
) -> SequenceClassifier:
    torch.manual_seed(0)
    config = ClassifierConfig.of(about(task), paired, length, dataclasses.replace(SIZE, **size), ENCODINGS[pe])
    model = SequenceClassifier(config)
    if model.cls is not None:
        model.cls.data.normal_()  # a new one is zero, and would hide what happens to it
    return model


def logits(model: SequenceClassifier, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return model.eval()(tokens, lengths, model.draw(7))


@settings(max_examples=25, deadline=None)
@given(
    pe=st.sampled_from([*ENCODINGS, "learnt"]),
    attention=st.sampled_from(["favor", "relu", "softmax"]),
    pooling=st.sampled_from(["cls", "mean", "first"]),
    paired=st.booleans(),
    lengths=st.lists(st.integers(1, 12), min_size=2, max_size=4),
    more=st.integers(1, 8),
    noise=st.integers(0, 15),
)
def test_padding_never_changes_a_logit(
    pe: str, attention: str, pooling: str, paired: bool, lengths: list[int], more: int, noise: int
) -> None:
    learnt = pe == "learnt"
    options = {"attention": attention, "pooling": pooling, "learnt_positions": learnt}
    model = classifier("ape" if learnt else pe, paired=paired, **options)
    sequences = 2 if paired else 1
    rows = [[torch.randint(1, 16, (length,)) for _ in range(sequences)] for length in lengths]
    width = max(lengths) + more
    padded = torch.full((len(rows), sequences, width), noise)  # whatever stands there
    for place, row in enumerate(rows):
        for column, sequence in enumerate(row):
            padded[place, column, : len(sequence)] = sequence
    together = logits(model, padded, torch.tensor(lengths).unsqueeze(-1).expand(-1, sequences))
    for place, row in enumerate(rows):
        own = torch.stack(row).unsqueeze(0)
        alone = logits(model, own, torch.full((1, sequences), lengths[place]))
        assert torch.allclose(together[place], alone[0], atol=2e-5)


@pytest.mark.parametrize("pe", ENCODINGS)
def test_only_an_encoding_tells_orders_apart(pe: str) -> None:
    model = classifier(pe)
    tokens = torch.randint(1, 16, (1, 1, 12))
    lengths = torch.tensor([[12]])
    is_same = torch.allclose(logits(model, tokens, lengths), logits(model, tokens.flip(-1), lengths), atol=1e-5)
    assert is_same == (pe == "none")


@pytest.mark.parametrize("pe", ["ape", "rope", "sine", "sine exact", "conv"])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_with_two_axes_rows_and_columns_are_alike_and_cls_has_no_place(pe: str, pooling: str) -> None:
    model = classifier(pe, "image16", 256, axes=2, pooling=pooling)
    image, lengths = torch.randint(0, 256, (1, 1, 256)), torch.tensor([[256]])
    before = logits(model, image, lengths)
    assert not torch.allclose(before, logits(model, image.flip(-1), lengths), atol=1e-4)
    assert before.shape == (1, 10)
    encode = model.encoding.encoder(model.draw(1), model.config.places, before)
    queries, keys = torch.randn(2, 1, model.config.places, 2, 8)
    cls = model.config.places - 256
    encoded = encode(0, queries, keys)
    assert encoded[0].shape[:3] == queries.shape[:3]
    queries[:, :cls] = queries[:, cls : 2 * cls]
    if cls and pe != "ape":
        placed = encode(0, queries, keys)[0]
        assert not torch.allclose(placed[:, 0], placed[:, 1]) or pe == "rope"  # rope leaves the first corner as it is
        assert torch.allclose(placed[:, 1:], encoded[0][:, 1:])


def test_an_average_over_draws_of_spe_depends_on_the_distance_on_both_axes() -> None:
    """Logits of queries and keys in a grid are those of the code's kernel, for any two pixels."""
    model = classifier("sine exact", "image16", 256, axes=2, pooling="mean", num_layers=1)
    (code, gate) = model.encoding.codes[0], model.encoding.filters[0]
    queries = torch.randn(1, 1, 2, 8).expand(1, 256, 2, 8)
    keys = torch.randn(1, 1, 2, 8).expand(1, 256, 2, 8)
    encoded = model.encoding.encoder(model.draw(0), 256, queries)(0, queries, keys)
    products = torch.einsum("bmhr,bnhr->bhmn", *encoded)[0] / 24**0.5
    kernel = code.kernel((torch.tensor([3]), torch.tensor([-5])), gate)[..., 0, 0]
    expected = (queries[0, 0] * keys[0, 0] * kernel).sum(-1) / 8**0.5
    for row, column in ((4, 9), (12, 5)):
        place, other = row * 16 + column, (row - 3) * 16 + column + 5
        assert torch.allclose(products[:, place, other], expected, atol=1e-5)


@pytest.mark.parametrize("pe", [*ENCODINGS, "learnt"])
def test_every_parameter_has_a_gradient(pe: str) -> None:
    learnt = pe == "learnt"
    model = classifier("ape" if learnt else pe, paired=True, learnt_positions=learnt).train()
    tokens = torch.randint(1, 16, (3, 2, 9))
    model(tokens, torch.full((3, 2), 9), model.draw(1)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_batch_and_its_parts_have_the_same_dropout() -> None:
    model = classifier("sine").train()
    tokens, lengths, draw = torch.randint(1, 16, (4, 1, 9)), torch.full((4, 1), 9), model.draw(3)
    whole = model(tokens, lengths, draw)
    parts = [model(tokens[first : first + 2], lengths[:2], draw, first_row=first) for first in (0, 2)]
    assert torch.allclose(whole, torch.cat(parts), atol=1e-5)
    assert not torch.allclose(whole[:2], model(tokens[:2], lengths[:2], draw, first_row=2), atol=1e-3)


def test_the_published_quirks_read_padding_and_skip_black_pixels() -> None:
    model = classifier("none", published=True)
    tokens = torch.randint(1, 16, (1, 1, 6))
    padded = torch.cat([tokens, torch.zeros(1, 1, 5, dtype=torch.long)], -1)
    lengths = torch.tensor([[6]])
    assert not torch.allclose(logits(model, tokens, lengths), logits(model, padded, lengths), atol=1e-4)
    images = classifier("none", "image16", 256, published=True, attention="softmax")
    image = torch.randint(1, 256, (1, 1, 256))
    black = image.clone()
    black[..., 128:] = 0
    lengths = torch.tensor([[256]])
    half = logits(images, image[..., :128], torch.tensor([[128]]))
    assert torch.allclose(logits(images, black, lengths), half, atol=1e-5)


@pytest.mark.parametrize(
    ("pe", "task", "length", "size", "sentence"),
    [
        ("sine", "listops", 20, {"axes": 2}, "model.axes=2: is for images; sequences of listops have one axis"),
        ("sine", "image16", 200, {"axes": 2}, "use task.length=256"),
        ("sine", "listops", 20, {"learnt_positions": True}, "is for pe=ape, not pe=sine"),
        ("rope", "image16", 256, {"axes": 2, "num_heads": 8}, "needs a width that is a multiple of 4, not 2"),
    ],
)
def test_what_does_not_go_together_is_a_sentence(
    pe: str, task: str, length: int, size: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        classifier(pe, task, length, **size)


def test_positions_by_musical_time_are_refused() -> None:
    with pytest.raises(UserError, match="classifiers count tokens"):
        ClassifierConfig.of(about("text"), False, 9, SIZE, {"name": "rope", "positions": "time"})
