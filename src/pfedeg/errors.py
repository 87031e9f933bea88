"""What can go wrong, as one line for the person who can mend it."""


class PfedegError(Exception):
    """Base of all errors that carry a message for the user; `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(PfedegError):
    """The user's data, settings or arguments are not usable; nothing was written."""

    exit_code = 2


class RunError(PfedegError):
    """A run failed although its input was fine; what was saved before stays usable."""


class DataWarning(UserWarning):
    """Something about the data that the user should know, although work goes on."""
