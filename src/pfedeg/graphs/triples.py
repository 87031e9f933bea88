"""Triples with names, each name held once: as they come from files, before they are a graph."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError

Ids = NDArray[np.int32]
Named = Sequence[tuple[str, str, str]]
ROLES = ("head", "relation", "tail")


class Triples(Sequence[tuple[str, str, str]]):
    """A sequence of (head, relation, tail) that holds numbers: ids (n, 3) are places in `entities` and `relations`."""

    def __init__(self, entities: Sequence[str], relations: Sequence[str], ids: Ids) -> None:
        """Some names may not occur."""
        self.entities, self.relations, self.ids = entities, relations, ids

    @classmethod
    def of(cls, named: Named) -> "Triples":
        """The same triples in this form."""
        if isinstance(named, cls):
            return named
        entities, relations = Numbers(), Numbers()
        ids = array("i")
        for head, relation, tail in named:
            ids.extend((entities[head], relations[relation], entities[tail]))
        return cls(list(entities), list(relations), np.frombuffer(ids, np.int32).reshape(-1, 3))

    @classmethod
    def joined(cls, parts: Sequence["Triples"]) -> "Triples":
        """All triples of several parts, one part after the other."""
        first = parts[0]
        if all(part.entities is first.entities and part.relations is first.relations for part in parts):
            return cls(first.entities, first.relations, np.concatenate([part.ids for part in parts]))
        entities, relations = Numbers(), Numbers()
        ids = []
        for part in parts:
            entity, relation = (
                np.fromiter(map(numbers.__getitem__, names), np.int32, len(names))
                for numbers, names in ((entities, part.entities), (relations, part.relations))
            )
            h, r, t = part.ids.T
            ids.append(np.stack([entity[h], relation[r], entity[t]], 1))
        return cls(list(entities), list(relations), np.concatenate(ids))

    def at(self, rows: NDArray[Any]) -> "Triples":
        """Some of them, by places or by a mask."""
        return Triples(self.entities, self.relations, self.ids[rows])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        entities, relations = self.entities, self.relations
        return ((entities[h], relations[r], entities[t]) for h, r, t in self.ids.tolist())

    @overload
    def __getitem__(self, place: int) -> tuple[str, str, str]: ...
    @overload
    def __getitem__(self, place: slice) -> "Triples": ...
    def __getitem__(self, place: int | slice) -> "tuple[str, str, str] | Triples":
        if isinstance(place, slice):
            return Triples(self.entities, self.relations, self.ids[place])
        h, r, t = self.ids[place].tolist()
        return self.entities[h], self.relations[r], self.entities[t]


class Numbers(dict[str, int]):
    """Name → number, in the order in which names are asked for."""

    def __missing__(self, name: str) -> int:
        """The number of a new name."""
        return self.setdefault(name, len(self))


def in_order(names: Sequence[str], used: Ids, final: Callable[[str], str]) -> tuple[tuple[str, ...], Ids]:
    """The final forms of the names that are used, sorted, and every number's place among them (−1 for unused ones)."""
    is_used = np.zeros(len(names), np.bool_)
    is_used[used.ravel()] = True
    numbers = np.flatnonzero(is_used)
    forms = [final(names[number]) for number in numbers.tolist()]
    ordered = tuple(sorted(set(forms)))
    position = {name: place for place, name in enumerate(ordered)}
    places = np.full(len(names), -1, np.int32)
    places[numbers] = np.fromiter(map(position.__getitem__, forms), np.int32, len(forms))
    return ordered, places


def read_tsv(path: Path) -> Triples:
    """Triples from a tab-separated UTF-8 file without header: head, relation, tail; blank lines are skipped."""
    entities, relations = Numbers(), Numbers()
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
        raise InputError(f"{path}: empty; a triples file has a line head<TAB>relation<TAB>tail per fact")
    return Triples(list(entities), list(relations), np.frombuffer(ids, np.int32).reshape(-1, 3))


def write_part(folder: Path, name: str, triples: Triples) -> None:
    """The counterpart of `read_part`: NAME.tsv, or NAME.parquet if there is a name that TSV cannot carry."""
    if all(map(fits_tsv, (*triples.entities, *triples.relations))):
        write_tsv(folder / f"{name}.tsv", triples)
    else:
        write_parquet(folder / f"{name}.parquet", triples)


def write_tsv(path: Path, triples: Named) -> None:
    """The counterpart of `read_tsv`."""
    for triple in triples:
        for name in triple:
            if not fits_tsv(name):
                raise InputError(
                    f"TSV cannot carry the name {name!r}: empty, or with a tab, line break or byte order mark"
                )
    path.write_text("".join(f"{h}\t{r}\t{t}\n" for h, r, t in triples), encoding="utf-8", newline="\n")


def fits_tsv(name: str) -> bool:
    """Whether a name would be read from TSV as it was written."""
    return bool(name) and name[0] != "\ufeff" and not any(sign in name for sign in "\t\r\n")


def write_parquet(path: Path, triples: Triples) -> None:
    """Columns head, relation and tail, in which each name is stored once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    for role, codes in zip(ROLES, triples.ids.T, strict=True):
        names = triples.relations if role == "relation" else triples.entities
        columns[role] = pa.DictionaryArray.from_arrays(np.ascontiguousarray(codes), pa.array(names, pa.string()))
    pq.write_table(pa.table(columns), path, compression="zstd")


def read_columns(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Some columns of a Parquet file, and others where present, as pyarrow's strings, none missing or empty."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        hint = "a federation is a folder with a subfolder per client, or a Parquet file"
        raise InputError(f"{path}: not a readable Parquet file ({reason}); {hint}") from None
    columns = {}
    for name in (*optional, *needed):
        if name not in table.column_names:
            if name in optional:
                continue
            known = f"[{', '.join(optional)},] {', '.join(needed)}" if optional else ", ".join(needed)
            raise InputError(f"{path}: no column {name!r} (found: {', '.join(table.column_names)}); needed: {known}")
        column = table.column(name)
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            raise InputError(f"{path}, row {row}: the {name} is missing")
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
            raise InputError(f"{path}: column {name!r} is {column.type}, not text or integers")
        columns[name] = column.cast(pa.large_string())
        if (row := pc.index(columns[name], "").as_py()) >= 0:
            raise InputError(f"{path}, row {row + 1}: the {name} is empty")
    if not len(table):
        raise InputError(f"{path}: empty; it holds no triples")
    return columns


def numbered(*columns: Any) -> tuple[list[str], list[Ids]]:
    """The different names of pyarrow's columns, in the order in which they come, and each column as numbers of them."""
    import pyarrow as pa

    chunks = [chunk for column in columns for chunk in column.chunks]
    whole = pa.chunked_array(chunks, pa.large_string()).dictionary_encode().combine_chunks()
    codes = whole.indices.to_numpy().astype(np.int32)
    ends = np.cumsum([len(column) for column in columns])
    return whole.dictionary.to_pylist(), np.split(codes, ends[:-1])


def of_columns(columns: dict[str, Any]) -> Triples:
    """Triples from the columns head, relation and tail of a Parquet file."""
    entities, (heads, tails) = numbered(columns["head"], columns["tail"])
    relations, (kinds,) = numbered(columns["relation"])
    return Triples(entities, relations, np.stack([heads, kinds, tails], 1))


def read_part(path: Path) -> Triples:
    """Triples from a TSV or Parquet file."""
    return read_tsv(path) if path.suffix.lower() == ".tsv" else of_columns(read_columns(path, ROLES))
