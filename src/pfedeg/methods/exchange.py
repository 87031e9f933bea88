"""Uploads and downloads: tables of rows by aligned id, and scalars; and what a method declares about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from pfedeg.graphs.alignment import Rows
from pfedeg.graphs.triples import Ids


@dataclass(frozen=True, slots=True)
class Upload:
    """What a client sends after a round: rows by table name in `tables`, numbers by name in `scalars`."""

    tables: Mapping[str, Rows] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The size of the rows and scalars in bytes."""
        return sum(rows.nbytes for rows in self.tables.values()) + 8 * len(self.scalars)


@dataclass(frozen=True, slots=True)
class Download(Upload):
    """What a client receives before a round: rows by table name in `tables`, numbers by name in `scalars`."""


@dataclass(frozen=True, slots=True)
class SharedTable:
    """A table called `name` that a method exchanges: rows of entities shared with other clients.

    A row has `width` numbers (default: as many as the model has per entity). In a `partial` table rows may be missing.
    """

    name: str
    width: int | None = None  # numbers per row; None: as many as the model has per entity
    partial: bool = False  # whether some of the rows may be missing


ENTITY = SharedTable("entity")


@dataclass(frozen=True, slots=True)
class Contents:
    """The tables and scalars of an upload or a download, as a method declares them."""

    tables: tuple[SharedTable, ...] = (ENTITY,)
    scalars: tuple[str, ...] = ()

    def check(self, message: Upload, shared: Ids, entity_width: int) -> None:
        """Raise ValueError unless the message has exactly these contents, all finite and of the right shape and type.

        `shared` has the sorted ids of the entities that the client shares with others, `entity_width` the numbers per
        entity.
        """
        if not isinstance(message, Upload):
            raise ValueError(f"a {type(message).__name__}, not an Upload or a Download")
        for what, found in (("tables", message.tables), ("scalars", message.scalars)):
            if not isinstance(found, Mapping):
                raise ValueError(f"{what}: a {type(found).__name__}, not a mapping by name")
        _check_names("tables", message.tables, [table.name for table in self.tables])
        _check_names("scalars", message.scalars, self.scalars)
        for name, value in message.scalars.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                raise ValueError(f"scalar {name!r} is {value!r}, not a finite number")
        for table in self.tables:
            _check_rows(table, message.tables[table.name], shared, table.width or entity_width)


def _check_names(what: str, found: Mapping[str, object], declared: Sequence[str]) -> None:
    if set(found) != set(declared):
        raise ValueError(
            f"{what}: expected {', '.join(declared) or 'none'}, found {', '.join(map(str, found)) or 'none'}"
        )


def _check_rows(table: SharedTable, rows: Rows, shared: Ids, width: int) -> None:
    if not isinstance(rows, Rows):
        raise ValueError(f"table {table.name!r}: a {type(rows).__name__}, not Rows(ids, values)")
    ids, values = rows.ids, rows.values
    for what, array in (("ids", ids), ("values", values)):
        if not isinstance(array, np.ndarray):
            raise ValueError(f"table {table.name!r}: its {what} are a {type(array).__name__}, not a numpy array")
    if ids.dtype != np.int32 or ids.ndim != 1:
        raise ValueError(f"table {table.name!r}: its ids are not a list of int32")
    if values.dtype != np.float32 or values.shape != (len(ids), width):
        expected = f"float32 of shape ({len(ids)}, {width})"
        raise ValueError(f"table {table.name!r}: its values are {values.dtype} of shape {values.shape}, not {expected}")
    if table.partial:
        place = np.minimum(np.searchsorted(shared, ids), max(len(shared) - 1, 0))
        if (ids[1:] <= ids[:-1]).any() or (len(ids) and not (len(shared) and (shared[place] == ids).all())):
            raise ValueError(f"table {table.name!r}: ids that are not shared entities of this client, or not in order")
    elif ids is not shared and not np.array_equal(ids, shared):
        raise ValueError(f"table {table.name!r}: its ids are not those of the client's shared entities, in order")
    if not np.isfinite(values).all():
        raise ValueError(f"table {table.name!r}: values that are not finite")
