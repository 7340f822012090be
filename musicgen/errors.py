"""The one exception for what a user can put right."""


class UserError(Exception):
    """Bad input, in one sentence that names it and says what to do. The command prints it and exits with 2."""
