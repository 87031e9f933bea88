"""The alignment secret, which the clients of a federation share and the server must not have."""

import base64
import secrets
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.files import write_private

SECRET = "pfedeg-secret-1:"


def make_secret(path: Path) -> None:
    """A new secret for the clients of a federation: 256 random bits."""
    if path.exists():
        raise InputError(f"{path}: already exists; a secret is never overwritten")
    write_private(path, f"{SECRET}{base64.b64encode(secrets.token_bytes(32)).decode()}\n".encode())


def read_secret(path: Path) -> bytes:
    """The secret in a file."""
    try:
        text = path.read_bytes()[:1000].decode(errors="replace").strip()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        found = base64.b64decode(text.removeprefix(SECRET), validate=True)
    except ValueError:
        found = b""
    if not text.startswith(SECRET) or len(found) < 32:
        raise InputError(f"{path}: not an alignment secret; `pfedeg secret FILE` makes one for all clients")
    return found
