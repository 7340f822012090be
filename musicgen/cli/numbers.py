"""Lists of numbers in one value of the command line: `1,3,12` and `0-1024,1024-2048`."""

from __future__ import annotations

from musicgen.errors import UserError


def whole_numbers(key: str, given: str | None, least: int = 1) -> list[int] | None:
    """Numbers with commas between them, each once; None for nothing.

    Raises:
        UserError: Something else, or a number that is too small.
    """
    if given is None:
        return None
    parts = [part.strip() for part in given.strip("[] ").split(",")]
    if not all(part.isdecimal() and int(part) >= least for part in parts):
        raise UserError(f"{key}={given}: takes whole numbers from {least} on, with commas between them")
    return list(dict.fromkeys(map(int, parts)))


def ranges(key: str, given: str | None) -> list[tuple[int, int]] | None:
    """Ranges with commas between them, from the first number to before the second; None for nothing.

    Raises:
        UserError: Something else, or a range with nothing in it.
    """
    if given is None:
        return None
    pairs = [part.strip().split("-") for part in given.strip("[] ").split(",")]
    if not all(
        len(pair) == 2 and all(end.isdecimal() for end in pair) and int(pair[0]) < int(pair[1]) for pair in pairs
    ):
        raise UserError(f"{key}={given}: takes ranges as in {key}=0-1024,1024-2048")
    return list(dict.fromkeys((int(low), int(high)) for low, high in pairs))
