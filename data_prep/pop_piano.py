"""Pop piano: the data set of the paper, POP909, or any folder of piano MIDI.

    python data_prep/pop_piano.py input=DIR out=DIR

- Pop1K7 (the paper's): the folder `midi_analyzed` of its archive, with src_001 to src_004 in it.
- POP909 (MIT licence): the folder with 001 to 909 in it.
- Anything else: every MIDI file below the folder is a song.

This is the same as `musicgen prepare source=pop_piano input=DIR out=DIR`; `musicgen prepare --help` explains the
keys.
"""

from __future__ import annotations

import sys

from musicgen.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["prepare", "source=pop_piano", *sys.argv[1:]]))
