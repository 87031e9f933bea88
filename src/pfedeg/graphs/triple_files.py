"""Files of triples and labels: TSV and Parquet."""

from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.errors import InputError
from pfedeg.graphs.name_pairs import read_pairs
from pfedeg.graphs.triples import ROLES, Ids, Named, NameNumbers, Triples, normal


def find_triples(folder: Path, name: str) -> Path | None:
    """NAME.tsv or NAME.parquet in a folder; NAME is train, valid, test or triples."""
    found = [path for path in (folder / f"{name}.tsv", folder / f"{name}.parquet") if path.exists()]
    if len(found) > 1:
        raise InputError(f"{folder}: contains both {name}.tsv and {name}.parquet; keep one of them")
    return found[0] if found else None


def is_client_folder(folder: Path) -> bool:
    """Whether a folder contains the triples of a client."""
    return any(find_triples(folder, name) for name in ("triples", "train"))


def read_triples(path: Path) -> Triples:
    """Read a TSV or Parquet file."""
    return read_tsv(path) if path.suffix.lower() == ".tsv" else triples_of_columns(read_columns(path, ROLES))


def write_triples(folder: Path, name: str, triples: Triples) -> None:
    """Write NAME.tsv, or NAME.parquet if TSV cannot represent one of the names."""
    if all(map(fits_tsv, (*triples.entities, *triples.relations))):
        write_tsv(folder / f"{name}.tsv", triples)
    else:
        write_parquet(folder / f"{name}.parquet", triples)


def read_tsv(path: Path) -> Triples:
    """Read head, relation, tail from a tab-separated UTF-8 file without a header; blank lines are skipped."""
    entities, relations = NameNumbers(), NameNumbers()
    ids = array("i")
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
                except UnicodeDecodeError:
                    raise InputError(f"{path}, line {number}: not valid UTF-8; save the file as UTF-8") from None
                if not line:
                    continue
                fields = line.split("\t")
                if len(fields) != 3:
                    columns = f"{len(fields)} column(s) instead of head<TAB>relation<TAB>tail"
                    raise InputError(f"{path}, line {number}: {columns}")
                if "" in fields:
                    raise InputError(f"{path}, line {number}: the {ROLES[fields.index('')]} is empty")
                ids.extend((entities[fields[0]], relations[fields[1]], entities[fields[2]]))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if not ids:
        raise InputError(f"{path}: empty; expected one triple per line, head<TAB>relation<TAB>tail")
    return Triples(list(entities), list(relations), np.frombuffer(ids, np.int32).reshape(-1, 3))


def write_tsv(path: Path, triples: Named) -> None:
    """Write head<TAB>relation<TAB>tail lines."""
    for triple in triples:
        for name in triple:
            if not fits_tsv(name):
                problem = "it is empty, or has a tab, line break or byte order mark"
                raise InputError(f"the name {name!r} cannot be written to TSV: {problem}")
    path.write_text("".join(f"{h}\t{r}\t{t}\n" for h, r, t in triples), encoding="utf-8", newline="\n")


def fits_tsv(name: str) -> bool:
    """Whether TSV can represent a name."""
    return bool(name) and name[0] != "\ufeff" and not any(char in name for char in "\t\r\n")


def write_parquet(path: Path, triples: Triples) -> None:
    """Write columns head, relation and tail, dictionary-encoded."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    for role, codes in zip(ROLES, triples.ids.T, strict=True):
        names = triples.relations if role == "relation" else triples.entities
        columns[role] = pa.DictionaryArray.from_arrays(np.ascontiguousarray(codes), pa.array(names, pa.string()))
    pq.write_table(pa.table(columns), path, compression="zstd")


def read_columns(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Columns of a Parquet file as pyarrow strings, none of them missing or empty; optional ones if present."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        hint = "a federation is a folder with a subfolder per client, or a Parquet file"
        raise InputError(f"{path}: not a readable Parquet file ({reason}); {hint}") from None
    columns = {}
    for name in (*optional, *required):
        if name not in table.column_names:
            if name in optional:
                continue
            expected = f"[{', '.join(optional)},] {', '.join(required)}" if optional else ", ".join(required)
            found = ", ".join(table.column_names)
            raise InputError(f"{path}: no column {name!r} (found: {found}); expected columns: {expected}")
        column = table.column(name)
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            raise InputError(f"{path}, row {row}: the {name} is missing")
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
            raise InputError(f"{path}: column {name!r} has type {column.type}; expected text or integers")
        columns[name] = column.cast(pa.large_string())
        if (row := pc.index(columns[name], "").as_py()) >= 0:
            raise InputError(f"{path}, row {row + 1}: the {name} is empty")
    if not len(table):
        raise InputError(f"{path}: empty; it contains no triples")
    return columns


def number_names(*columns: Any) -> tuple[list[str], list[Ids]]:
    """The distinct names of pyarrow columns in order of first occurrence, and each column as numbers of them."""
    import pyarrow as pa

    chunks = [chunk for column in columns for chunk in column.chunks]
    whole = pa.chunked_array(chunks, pa.large_string()).dictionary_encode().combine_chunks()
    codes = whole.indices.to_numpy().astype(np.int32)
    ends = np.cumsum([len(column) for column in columns])
    return whole.dictionary.to_pylist(), np.split(codes, ends[:-1])


def triples_of_columns(columns: dict[str, Any]) -> Triples:
    """Triples from the columns head, relation and tail of `read_columns`."""
    entities, (heads, tails) = number_names(columns["head"], columns["tail"])
    relations, (kinds,) = number_names(columns["relation"])
    return Triples(entities, relations, np.stack([heads, kinds, tails], 1))


def read_labels(folder: Path) -> dict[str, str]:
    """The display labels in labels.parquet, .tsv or .csv, by name; empty if there is no such file."""
    found = [path for suffix in ("parquet", "tsv", "csv") if (path := folder / f"labels.{suffix}").exists()]
    if len(found) > 1:
        raise InputError(f"{folder}: contains both {found[0].name} and {found[1].name}; keep one of them")
    return {name: label for _, name, label in read_pairs(found[0], ("name", "label"))} if found else {}


def read_parquet_labels(path: Path) -> dict[str, str]:
    """The labels in the columns head_label, relation_label and tail_label of a Parquet file, if it has them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    present = pq.ParquetFile(path).schema_arrow.names
    labels: dict[str, str] = {}
    for role in ROLES:
        if f"{role}_label" not in present:
            continue
        pairs = pq.read_table(path, columns=[role, f"{role}_label"], partitioning=None)
        rows = pa.Table.from_arrays([column.cast(pa.string()) for column in pairs.columns], ["name", "label"])
        for row in rows.group_by("name").aggregate([("label", "min")]).to_pylist():  # nulls are ignored
            if (row["label_min"] or "").strip():
                labels.setdefault(normal(row["name"]), row["label_min"].strip())
    return labels


def write_labels(folder: Path, labels: Mapping[str, str]) -> None:
    """Write labels.parquet, unless there are no labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if labels:
        names = sorted(labels)
        table = pa.table({"name": names, "label": [labels[name] for name in names]})
        pq.write_table(table, folder / "labels.parquet", compression="zstd")
