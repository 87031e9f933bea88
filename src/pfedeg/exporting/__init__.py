"""Trained tables in the formats of other programs."""

from collections.abc import Callable
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.exporting.arrays import write_numpy, write_parquet, write_safetensors
from pfedeg.exporting.pykeen import need_pykeen, write_pykeen
from pfedeg.exporting.text import write_projector, write_word2vec
from pfedeg.exporting.trained import Trained
from pfedeg.files import create_folder, safe_name
from pfedeg.text import suggest
from pfedeg.training.saved_run import Run

FORMATS: dict[str, Callable[[Trained, Path], None]] = {
    "parquet": write_parquet,
    "safetensors": write_safetensors,
    "numpy": write_numpy,
    "word2vec": write_word2vec,
    "projector": write_projector,
    "pykeen": write_pykeen,
}


def write(run: str | Path, out: Path, kind: str, client: str | None = None) -> int:
    """Write the tables of a client to a new folder, or of all clients to a subfolder each; returns their number."""
    if kind not in FORMATS:
        raise InputError(f"--to: unknown format {kind!r}{suggest(kind, FORMATS)}")
    if kind == "pykeen":
        need_pykeen()
    opened = Run(run)
    clients = opened.clients if client is None else (opened.named(client),)
    opened.must_be_finished()

    def trained(name: str) -> Trained:
        config = opened.config
        return Trained(name, config.model, config.build_model(), opened.graph(name), opened.tables(name))

    def fill(folder: Path) -> None:
        for name in clients:
            home = folder if client is not None else folder / safe_name(name)
            home.mkdir(exist_ok=True)
            FORMATS[kind](trained(name), home)

    create_folder(out, fill)
    return len(clients)
