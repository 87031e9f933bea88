"""Optional packages: checked before work begins, with the line to type if one is missing."""

from importlib.util import find_spec

from pfedeg.errors import InputError

# The modules that an extra of pyproject.toml installs and that this package, its tools and its benchmarks import.
EXTRAS = {
    "plot": ("matplotlib",),
    "flower": ("flwr", "cryptography", "httpx"),
    "pykeen": ("torch", "pykeen"),
    "pandas": ("pandas",),
    "bench": ("torch", "pykeen"),
}


def require(extra: str, what: str, instead: str = "") -> None:
    """Raise InputError if a package of an extra is missing. Call this before any work, and before files are written.

    `what` needs the extra; `instead` may name what works without it.
    """
    missing = [name for name in EXTRAS[extra] if not is_installed(name)]
    if missing:
        text = f"{what} needs {' and '.join(missing)}: {install_line(extra)}"
        raise InputError(f"{text}; {instead}" if instead else text)


def install_line(extra: str) -> str:
    """What to type to install an extra."""
    return f"pip install 'pfedeg[{extra}]'"


def is_installed(module: str) -> bool:
    """Whether a top-level module can be found; it is not imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # an import hook refuses it
        return False
