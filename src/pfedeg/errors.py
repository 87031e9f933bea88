"""The exceptions and warnings of pfedeg. Each carries a one-line message for the user."""


class PfedegError(Exception):
    """Base class; `exit_code` is the exit code of the command line."""

    exit_code = 1


class InputError(PfedegError):
    """Invalid data, settings or arguments. Nothing was written."""

    exit_code = 2


class RunError(PfedegError):
    """A run failed although its input was valid. Files saved before stay usable."""


class DataWarning(UserWarning):
    """A property of the data that the user should know about; the program continues."""
