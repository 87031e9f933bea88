"""Section "Data of the clients": sizes of their graphs, and how many entities they share."""

from collections.abc import Mapping
from functools import partial

from pfedeg.errors import InputError
from pfedeg.experiments.report.document import Part, Picture, Row, Section, Table
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.significance import PairedTests
from pfedeg.graphs.alignment import Shared
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS
from pfedeg.inspection.heatmap import picture
from pfedeg.inspection.overlap import overlap
from pfedeg.training.saved_run import Run

MAX_CLIENTS = 100  # with a picture


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """A table for each dataset, and a heat map of its overlap where a run folder has the graphs."""
    runs: dict[str, list[Run]] = {}
    for entry in results.entries:
        runs.setdefault(entry.data, []).extend(entry.runs)
    parts = [part for data, found in runs.items() for part in _parts(data, found, len(runs) > 1)]
    return [Section("Data of the clients", "", parts)]


def _parts(data: str, runs: list[Run], several: bool) -> list[Part]:
    run = next((run for run in runs if run.has_tables), None)
    title = data if several else ""
    if run is None:  # copies of the small files, or runs of a server
        return [_evaluated(title, runs[0], "the run folders contain no graphs")]
    try:
        federation = Federation({client: run.graph(client) for client in run.clients})
    except InputError as error:
        return [_evaluated(title, run, str(error))]
    shared = federation.shared()
    parts: list[Part] = [_sizes(title, federation, shared)]
    if 1 < len(federation.graphs) <= MAX_CLIENTS:
        found = overlap(federation, shared, federation.shared("relation"))
        caption = "Entities that the clients of the row and the column share"
        parts.append(Picture(f"overlap-{data}", f"{data}: {caption}" if several else caption, partial(picture, found)))
    return parts


def _sizes(title: str, federation: Federation, shared: Shared) -> Table:
    rows: list[Row] = []
    for client, graph in federation.graphs.items():
        counts = [len(graph.triples(split)) for split in SPLITS]
        common = int((shared.owners[shared.ids[client]] > 1).sum())
        share = f"{common / len(graph.entities):.0%}" if len(graph.entities) else "–"
        numbers = [*counts, len(graph.entities), len(graph.relations), common]
        rows.append([client, *(f"{number:,}" for number in numbers), share])
    columns = ["client", *SPLITS, "entities", "relations", "shared entities", "share"]
    return Table(title, columns, rows, note="Train, valid and test are triples; an entity is shared if others have it.")


def _evaluated(title: str, run: Run, reason: str) -> Table:
    """The numbers of evaluated triples, which every run has."""
    result = run.result or {}
    counts = [[result[split]["clients"][client]["triples"] for split in SPLITS[1:]] for client in run.clients]
    rows: list[Row] = [
        [client, *(f"{number:,}" for number in numbers)] for client, numbers in zip(run.clients, counts, strict=True)
    ]
    return Table(title, ["client", *SPLITS[1:]], rows, note=f"Triples. Other sizes are unknown: {reason}.")
