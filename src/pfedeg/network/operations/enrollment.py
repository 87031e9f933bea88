"""Who may take part in a federation: the enrolled clients' names and public keys, in files of the server's folder."""

import time
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.files import load_json, safe_name, write_bytes, write_json
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.triples import normal
from pfedeg.network.operations import certificates as keys
from pfedeg.text import suggest


class Enrollment:
    """The folder `enrolled` of a server."""

    def __init__(self, path: Path) -> None:
        """An existing folder."""
        self._path = path

    def keys(self) -> dict[ClientId, Any]:
        """The public key of every enrolled client, by name."""
        found = {entry["name"]: keys.read_public(file.with_suffix(".pub")) for file, entry in self._entries().items()}
        return dict(sorted(found.items()))

    def triples(self) -> dict[ClientId, int]:
        """How many training triples the clients may have, for those that were enrolled with a number."""
        return {entry["name"]: entry["triples"] for entry in self._entries().values() if "triples" in entry}

    def _entries(self) -> dict[Path, dict[str, Any]]:
        """What is known of each client, by file."""
        found = {}
        for file in sorted(self._path.glob("*.json")):
            hint = "remove it and enroll the client again"
            try:
                entry = load_json(file)
                name, triples = entry["name"], entry.get("triples", 1)
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                raise InputError(f"{file}: damaged ({error}); {hint}") from None
            if not isinstance(name, str):
                raise InputError(f"{file}: damaged (the name is not a text); {hint}")
            if type(triples) is not int or triples < 1:
                raise InputError(f"{file}: damaged (triples is {triples!r:.80}, not a number of them); {hint}")
            found[file] = entry
        return found

    def contains(self, name: ClientId) -> bool:
        """Whether a client may take part."""
        return Path(f"{self._path / safe_name(name)}.json").exists()

    def add(self, name: ClientId, public: Path, triples: int | None = None) -> tuple[ClientId, Any]:
        """Enroll the owner of a public key under a name; the name in its normal form, and the key.

        It may have as many training `triples` as given, by default any number.
        """
        name, key = check_name(name), keys.read_public(public)
        for other, known in self.keys().items():
            if other == name:
                raise InputError(f"{name!r} is already enrolled; to change its key, `pfedeg server remove` it first")
            if keys.identity(known) == keys.identity(key):
                raise InputError(f"{public}: this key already belongs to {other!r}; every client makes its own")
        file = self._path / safe_name(name)
        write_bytes(Path(f"{file}.pub"), keys.public_line(key, safe_name(name)).encode())
        most = {} if triples is None else {"triples": triples}
        write_json(Path(f"{file}.json"), {"name": name, "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")} | most)
        return name, key

    def remove(self, name: ClientId) -> Any:
        """Remove a client; its public key."""
        name, enrolled = normal(name), self.keys()
        if name not in enrolled:
            raise InputError(f"{name!r} is not enrolled{suggest(name, enrolled)}")
        file = self._path / safe_name(name)
        Path(f"{file}.json").unlink()
        Path(f"{file}.pub").unlink(missing_ok=True)
        return enrolled[name]


def check_name(name: str) -> ClientId:
    """A client's name in its normal form."""
    name = normal(name)
    if not name.strip() or len(name) > 200:
        raise InputError(f"{name!r}: a client needs a name of 1 to 200 characters")
    return name
