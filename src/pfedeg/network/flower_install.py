"""Flower as installed, without importing it: which versions work, how to start a SuperLink that runs no code."""

import sys
from importlib.metadata import PackageNotFoundError, version

from pfedeg.errors import InputError
from pfedeg.extras import install_line, require

TESTED = ("1.41", "1.42")  # as in pyproject.toml
OFFLINE = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}  # environment


def check_flower_version() -> None:
    """Refuse to work without Flower, or with a version that was not tested: we use private parts of it."""
    require("flower", "a federation over a network")
    try:
        found = version("flwr")
    except PackageNotFoundError:
        found = "of an unknown version"
    if ".".join(found.split(".")[:2]) not in TESTED:
        works = f"pfedeg works with flwr {' and '.join(TESTED)} only"
        raise InputError(f"flwr {found} is installed; {works}: {install_line('flower')}")


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
