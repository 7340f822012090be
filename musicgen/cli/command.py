"""What a command is: its name, its help, its options and what it does. Arguments become a typed config here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from musicgen.options import build, check_needed, help_table, read_arguments

T = TypeVar("T")


@dataclass(frozen=True)
class Command(Generic[T]):
    """A command whose options are the fields of one dataclass. It is called with what follows its name.

    Attributes:
        name: As it is typed: `generate`, `evaluate nll`.
        about: The text of `--help`; `{keys}` in it becomes the table of options.
        config: The dataclass.
        work: Runs the command with a config, and returns the exit status (None means 0).
    """

    name: str
    about: str
    config: type[T]
    work: Callable[[T], int | None]

    def __call__(self, arguments: list[str]) -> int:
        """Run the command, and return the exit status."""
        config = self.read(arguments)
        if config is None:
            return 0
        check_needed(config, self.name)
        return self.work(config) or 0

    def read(self, arguments: list[str]) -> T | None:
        """The config; None after printing what `--help` or `--cfg` asked to see."""
        if "--help" in arguments or "-h" in arguments:
            print(self.help())
            return None
        given = [argument for argument in arguments if argument not in ("--cfg", "job")]
        if len(given) == len(arguments) or "--cfg" not in arguments:
            return build(self.config, read_arguments(self.config, arguments, self.name))
        import yaml  # type: ignore[import-untyped]

        values = read_arguments(self.config, given, self.name)
        print(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000), end="")
        return None

    def help(self) -> str:
        """The text of `--help`."""
        return self.about.strip().replace("{keys}", help_table(self.config))
