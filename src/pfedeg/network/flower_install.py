"""Flower as installed, without importing it: which versions work, how to start a SuperLink that runs no code."""

import sys
from importlib.metadata import PackageNotFoundError, version

from pfedeg.errors import InputError

TESTED = ("1.41", "1.42")  # as in pyproject.toml
INSTALL = "pip install 'pfedeg[flower]'"
OFFLINE = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}  # environment


def check_flower_version() -> None:
    """Refuse to work without Flower, or with a version that was not tested: we use private parts of it."""
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise InputError(f"a federation over a network needs the `flower` extra: {INSTALL}") from None
    if ".".join(found.split(".")[:2]) not in TESTED:
        raise InputError(f"flwr {found} is installed; pfedeg works with flwr {' and '.join(TESTED)} only: {INSTALL}")


def superlink_command(*options: str) -> list[str]:
    """Run the console script `flower-superlink` with this interpreter, wherever the script was installed."""
    find = "next(iter(entry_points(group='console_scripts', name='flower-superlink')))"
    code = f"from importlib.metadata import entry_points; {find}.load()()"
    safe = [
        "--enable-supernode-auth",  # only registered clients join
        "--isolation",
        "process",  # it runs no code that it receives
        "--disable-runtime-dependency-installation",  # and installs nothing
    ]
    return [sys.executable, "-c", code, *safe, *options]
