"""Export of tables as named arrays: Parquet, safetensors and numpy."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.checked_files import write_arrays
from pfedeg.errors import InputError
from pfedeg.exporting.trained import Trained
from pfedeg.models.base import Mat
from pfedeg.training.run_folder import pack_tables


def write_parquet(trained: Trained, folder: Path) -> None:
    """entities.parquet and relations.parquet: columns name, label (if the graph has labels) and vector."""
    _write_table(folder / "entities.parquet", trained, trained.graph.entities, trained.tables.entity)
    _write_table(folder / "relations.parquet", trained, trained.graph.relations, trained.tables.relation)


def _write_table(path: Path, trained: Trained, names: tuple[str, ...], table: Mat) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), table.shape[1])
    shown = {"label": pa.array(map(trained.graph.display_name, names), pa.string())} if trained.graph.labels else {}
    columns = pa.table({"name": pa.array(names, pa.string()), **shown, "vector": vectors})
    about = {key: str(value) for key, value in trained.about.items()}
    pq.write_table(
        columns.replace_schema_metadata(about), path, use_dictionary=False
    )  # a dictionary would save nothing: hardly any two numbers are equal


def write_safetensors(trained: Trained, folder: Path) -> None:
    """tables.safetensors as in the run folder, with a description of the model in the metadata."""
    about = {"about": json.dumps(trained.about)}  # one entry: the order of several would vary from file to file
    write_arrays(folder / "tables.safetensors", pack_tables(trained.tables, trained.graph), about)


def write_numpy(trained: Trained, folder: Path) -> None:
    """tables.npz: tables, names as text arrays, and a description of the model."""
    graph = trained.graph
    for name in (*graph.entities, *graph.relations, trained.client):
        if name.endswith("\0"):
            text = "numpy would drop the NUL at the end of this name; export to parquet or safetensors"
            raise InputError(f"client {trained.client!r}, name {name!r}: {text}")
    arrays: dict[str, Any] = {"entity": trained.tables.entity, "relation": trained.tables.relation}
    arrays |= {"entity_names": np.array(graph.entities, np.str_), "relation_names": np.array(graph.relations, np.str_)}
    np.savez(folder / "tables.npz", **(arrays | trained.about))
