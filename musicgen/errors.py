"""The exception for mistakes that the user can correct."""


class UserError(Exception):
    """Bad input. The message names it in one sentence and says what to do; the command prints it and exits with 2."""
