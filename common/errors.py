"""The one exception that users see as a single line."""


class UserError(Exception):
    """Bad input, flag, file or checkpoint.

    The message says what was expected, what was found and how to fix it, and
    names the file and the line or record. Commands print it without a stack
    trace and exit with status 1 (`flags.app.run`).
    """
