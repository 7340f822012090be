"""Everything random about one piece, addressed by seed instead of stored.

A `Draw` is three numbers and a word. Every noise value it stands for is a function of (seed, what it is for,
where it is), never of earlier requests. Code noise at position 10 000 000 does not need the ten million before
it, and positions can be requested in any order and any chunks. So streaming equals parallel, pieces are
resumable and evaluations repeatable. A draw saved with a piece costs a few bytes.

Design note: noise is made on the CPU by torch's generator, re-seeded for each block with a hash of the
address, and then moved to the device. The numbers are the same on every device; a counter-based generator
written in tensor operations would not need the move, but is several times slower here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from enum import IntEnum
from typing import Literal, get_args

import torch
from torch import Tensor

NoiseKind = Literal["gaussian", "orthogonal", "exact"]


class Stream(IntEnum):
    """What a noise value is for. Part of its address, so that streams are independent."""

    CODE = 0
    GATE = 1
    FEATURES = 2
    CHILD = 3
    DROPOUT = 4
    CHOICE = 5


@dataclasses.dataclass(frozen=True)
class Draw:
    """One frozen realisation of the noise.

    Attributes:
        seed: Addresses the code noise and the gate noise.
        num_realizations: R, the number of noise realisations (the dimension of encoded queries and keys).
        noise: `gaussian`; `orthogonal` (rows orthogonal in blocks of R, a little less variance); or `exact`
            (no randomness: the code's kernel is met exactly; needs R to be at least the number of rows).
        feature_seed: Addresses the random features of attention. Training may hold them for longer than
            the codes; by default they follow `seed`.
    """

    seed: int
    num_realizations: int
    noise: NoiseKind = "gaussian"
    feature_seed: int | None = None

    def __post_init__(self) -> None:
        if self.num_realizations < 1:
            raise ValueError(f"num_realizations must be at least 1, not {self.num_realizations}")
        if self.noise not in get_args(NoiseKind):
            raise ValueError(f"noise must be one of {', '.join(get_args(NoiseKind))}, not {self.noise!r}")

    def rows(self, stream: Stream, index: tuple[int, ...], groups: int, rows: int, first: int = 0) -> Tensor:
        """Noise rows z with E[z zᵀ]/R = identity within each group, independent between addresses.

        Args:
            stream: What the rows are for.
            index: Where they are: a block of positions, a layer.
            groups: How many independent sets of rows (heads).
            rows: Rows in a set (all the features of a head that are summed together).
            first: In `exact` noise, the first of R coordinates these rows take, so that rows of different
                streams can be exactly orthogonal too.

        Returns:
            `(groups, rows, R)`, float32, on the CPU.
        """
        realizations = self.num_realizations
        if self.noise == "exact":
            return self._coordinates(groups, rows, first)
        generator = address(self.seed, stream, *index)
        if self.noise == "gaussian":
            return torch.randn(groups, rows, realizations, generator=generator)
        blocks = -(-rows // realizations)
        noise = torch.randn(groups * blocks, realizations, realizations, generator=generator)
        rotations = uniform_rotations(noise) * math.sqrt(realizations)
        return rotations.reshape(groups, blocks * realizations, realizations)[:, :rows]

    def _coordinates(self, groups: int, rows: int, first: int) -> Tensor:
        needed = first + rows
        if needed > self.num_realizations:
            raise ValueError(
                f"exact noise needs num_realizations >= {needed} here (one for each row), not "
                f"{self.num_realizations}: raise it, or use noise='orthogonal'"
            )
        identity = torch.eye(self.num_realizations)[first:needed] * math.sqrt(self.num_realizations)
        return identity.expand(groups, -1, -1)

    def child(self, index: int) -> Draw:
        """A draw of independent code and gate noise and the same features, for the index-th of several codes."""
        seed = int(torch.randint(1 << 62, (), generator=address(self.seed, Stream.CHILD, index)))
        features = self.seed if self.feature_seed is None else self.feature_seed
        return dataclasses.replace(self, seed=seed, feature_seed=features)

    def feature_generator(self, layer: int) -> torch.Generator:
        """The generator of a layer's random features."""
        seed = self.seed if self.feature_seed is None else self.feature_seed
        return address(seed, Stream.FEATURES, layer)


def address(*key: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose numbers are a function of the integers in `key` (and of the kind of device) alone."""
    digest = hashlib.blake2b(repr(tuple(int(part) for part in key)).encode(), digest_size=8).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "little", signed=True))


def uniform_rotations(noise: Tensor) -> Tensor:
    """Orthogonal matrices, uniform on the group, from square Gaussian ones `(..., n, n)`."""
    rotation, triangle = torch.linalg.qr(noise)
    # Without the signs QR's own convention would favour some rotations.
    return rotation * torch.diagonal(triangle, dim1=-2, dim2=-1).sign().unsqueeze(-2)
