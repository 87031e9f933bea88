"""The export formats by name, and the export of a run in one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.exporting.arrays import write_numpy, write_parquet, write_safetensors
from pfedeg.exporting.pykeen import check_pykeen, write_pykeen
from pfedeg.exporting.text import write_projector, write_word2vec
from pfedeg.exporting.trained import Trained
from pfedeg.files import check_output, create_folder, safe_name
from pfedeg.settings import setting_fields
from pfedeg.text import suggest
from pfedeg.training.saved_run import Run


def _nothing() -> None:
    """Most formats need no further package."""


@dataclass(frozen=True)
class Format:
    """A format: how to write one client's tables into a folder."""

    write: Callable[[Trained, Path], None]
    check: Callable[[], None] = _nothing  # raises InputError if a package is missing


FORMATS = {
    "parquet": Format(write_parquet),
    "safetensors": Format(write_safetensors),
    "numpy": Format(write_numpy),
    "word2vec": Format(write_word2vec),
    "projector": Format(write_projector),
    "pykeen": Format(write_pykeen, check_pykeen),
}

FILES = (  # that some format writes
    "entities.parquet",
    "relations.parquet",
    "tables.safetensors",
    "tables.npz",
    "entities.txt",
    "tensors.tsv",
    "metadata.tsv",
    "projector_config.pbtxt",
    "trained_model.pkl",
    "training_triples.pkl",
)


def export(
    run: Run | str | Path, out: str | Path, format: str, client: str | None = None, force: bool = False
) -> list[Path]:
    """Write the tables of a finished `run` for other programs; returns the folder of every exported client.

    `out` is a new folder; `force` replaces an earlier export. It gets the tables of `client`, or a subfolder for each
    client. The `format` is parquet, safetensors, numpy, word2vec, projector or pykeen (docs/export.md).
    """
    out = Path(out)
    if format not in FORMATS:
        raise InputError(f"--to: unknown format {format!r}{suggest(format, FORMATS)}")
    FORMATS[format].check()
    if not isinstance(run, Run | str | Path):
        raise InputError(f"expected a run folder or a Run, not a {type(run).__name__}; `pfedeg.Run(path)` opens one")
    check_output(out, force, FILES)
    opened = run if isinstance(run, Run) else Run(run)
    clients = opened.clients if client is None else (opened.find_client(client),)
    opened.require_finished()
    model = opened.built_model  # the method is not needed, and may not be installed
    settings = {name: getattr(opened.model_settings, name) for name in setting_fields(opened.model_settings)}

    def fill(folder: Path) -> None:
        for name in clients:
            target = folder if client is not None else folder / safe_name(name)
            target.mkdir(exist_ok=True)
            graph, tables = opened.graph(name), opened.tables(name)
            FORMATS[format].write(Trained(name, opened.model, model, settings, graph, tables), target)

    create_folder(out, fill, FILES if force else ())
    return [out] if client is not None else [out / safe_name(name) for name in clients]
