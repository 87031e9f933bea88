"""Section "Relation graph": who learns how much from whom."""

from collections.abc import Mapping
from functools import partial

from pfedeg.experiments.report import figures
from pfedeg.experiments.report.document import Picture, Row, Section, Table, TableCell
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.significance import PairedTests

MAX_CLIENTS = 12  # in a table of shares
TEXT = (
    "The client-wise relation graph W. An arrow points from the teacher to the learner; wider and darker arrows "
    "are larger shares in what the learner receives. With many clients, only the three largest shares of each learner "
    "are drawn. A graph that changes during training is drawn at its start, in the middle and at the end."
)


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """Figures and shares of every entry whose method has a relation graph."""
    entries = [entry for setup in results.compared for entry in results.at(setup)]
    return [Section("Relation graph: who learns from whom", TEXT, [part for e in entries for part in _parts(e)])]


def _parts(entry: Entry) -> list[Table | Picture]:
    kept = figures.affinities(entry)
    if not kept or not any(len(row) > 1 for row in kept[-1][1].values()):
        return []
    title = f"{entry.setup.title}, {entry.label}"
    title += f", seed {entry.runs[0].seed} of {len(entry.runs)} seeds" if len(entry.runs) > 1 else ""
    name = figures.file_name("graph", entry.setup, entry.method)
    parts: list[Table | Picture] = [Picture(name, f"{title}: relation graph", partial(figures.relation_graph, kept))]
    if len(kept[-1][1]) <= MAX_CLIENTS:
        parts.append(_shares(title, *kept[-1]))
    if len(kept) > 1 and figures.changes(kept):
        name = figures.file_name("shares", entry.setup, entry.method)
        parts.append(Picture(name, f"{title}: shares during training", partial(figures.shares_by_round, kept)))
    return parts


def _shares(title: str, number: int, affinity: figures.Affinity) -> Table:
    names = list(affinity)
    rows: list[Row] = []
    for learner in names:
        shares = [affinity[learner].get(teacher, 0.0) for teacher in names]
        texts, largest = [f"{share:.1%}" for share in shares], f"{max(shares):.1%}"
        unique = texts.count(largest) == 1
        rows.append([learner, *(TableCell(text, "best" if unique and text == largest else "") for text in texts)])
    return Table(f"{title}: shares in round {number}", ["learner", *names], rows)
