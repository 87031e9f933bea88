"""The exceptions and warnings of pfedeg. Each carries a one-line message for the user."""

from collections.abc import Iterator
from contextlib import contextmanager


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


@contextmanager
def named_failure(what: str) -> Iterator[None]:
    """Turn an exception in a plug-in's code into a RunError that names the code and says where to look.

    Running out of memory or disk space is not the code's fault: the command line has its own advice for these.
    """
    try:
        yield
    except (PfedegError, MemoryError, OSError):
        raise
    except Exception as error:
        text = f"{what} failed: {type(error).__name__}: {error}; `pfedeg --traceback …` shows where"
        raise RunError(text) from error
