"""The test MRR of every client in a setup, and its difference to training alone."""

from collections.abc import Sequence
from functools import partial

from pfedeg.experiments.report.document import Part, Picture, Row, Table, TableCell
from pfedeg.experiments.report.figures import client_bars, file_name
from pfedeg.experiments.report.metric_cells import number
from pfedeg.experiments.report.noise import best_entry, clear_winner
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.significance import PairedTests


def parts(results: Results, setup: Setup, tests: PairedTests) -> list[Part]:
    """A table and a figure."""
    entries = results.at(setup)
    alone = next((entry for entry in entries if entry.method.trains == "alone"), None)
    first = alone or entries[0]
    clients = [name for name in first.runs[0].clients if first.mean("mrr", client=name) is not None]
    if len(clients) < 2:
        return []
    draw = partial(client_bars.client_mrr, clients, entries)
    picture = Picture(file_name("clients", setup), "Test MRR of each client", draw)
    return [_table(clients, entries, alone), picture]


def _table(clients: Sequence[str], entries: Sequence[Entry], alone: Entry | None) -> Table:
    rows: list[Row] = []
    for name in clients:
        best = clear_winner(entries, "mrr", client=name)
        cells = [_cell(name, entry, alone, entry is best) for entry in entries]
        rows.append([name, *cells, f"{entries[0].results[0]['test']['clients'][name]['triples']:,}"])
    columns = ["client", *(entry.method.label for entry in entries), "test triples"]
    note = _gainers(clients, entries, alone) if alone and best_entry(entries) else ""
    return Table("Clients: test MRR and number of test triples", columns, rows, note=note)


def _cell(client: str, entry: Entry, alone: Entry | None, best: bool) -> TableCell:
    """The MRR, with its difference to training alone in brackets."""
    mine = entry.mean("mrr", client=client)
    base = alone.mean("mrr", client=client) if alone and alone is not entry else None
    gain = "" if mine is None or base is None else f" ({mine - base:+.4f})"
    return TableCell(number(mine) + gain, "best" if best else "")


def _gainers(clients: Sequence[str], entries: Sequence[Entry], alone: Entry) -> str:
    """How many clients each method helps."""
    counts = []
    for entry in entries:
        if entry is not alone:
            more = [
                (entry.mean("mrr", client=name) or 0.0) > (alone.mean("mrr", client=name) or 0.0) for name in clients
            ]
            counts.append(f"{entry.method.label} {sum(more)}")
    text = f"In brackets: minus the MRR of {alone.method.label}."
    return f"{text} Clients above {alone.method.label}, of {len(clients)}: {', '.join(counts)}." if counts else ""
