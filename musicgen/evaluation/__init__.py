"""Evaluations of models and of music.

- `likelihood`: how well models predict songs, by position, by type of token, and by the number of noise realisations.
- `encoding`: what positional encodings do to attention, and what models attend to.
- `music`: statistics of generated music, and passages that it shares with training songs.
- `style`: how well continuations keep the style of their references.
- `report`: findings as tables, figures, files and pages; every evaluation ends there.

Besides these, `models` loads the models, `midi_input` reads the files, `resampling` computes intervals and quartiles,
and `resources` measures what models cost on this machine.
"""

from collections.abc import Callable, Iterable
from typing import Any

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]
"""Takes items, their number and their name, and gives the same items with a progress bar."""
