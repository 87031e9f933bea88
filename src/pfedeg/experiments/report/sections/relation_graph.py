"""Who learns how much from whom in a setup: the client-wise relation graph of every method that has one."""

from functools import partial

from pfedeg.experiments.report.document import Part, Picture, Row, Table, TableCell
from pfedeg.experiments.report.figures import file_name
from pfedeg.experiments.report.figures import relation_graph as drawn
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.significance import PairedTests


def parts(results: Results, setup: Setup, tests: PairedTests) -> list[Part]:
    """Figures of every entry whose method has a relation graph."""
    return [part for entry in results.at(setup) for part in _parts(entry)]


def _parts(entry: Entry) -> list[Part]:
    kept = drawn.affinities(entry.runs[0])
    if not kept or not any(len(row) > 1 for row in kept[-1][1].values()):
        return []
    (first, start), (last, end) = kept[0], kept[-1]
    marked, changing = drawn.standing_out(entry), drawn.changes(kept)
    name, clients = partial(file_name, setup=entry.setup, method=entry.method), len(end)
    title = f"{entry.method.label}: who learns how much from whom"
    title += f", round {last}" if changing else ""
    title += f", seed {entry.runs[0].seed}" if len(entry.runs) > 1 else ""
    table = _shares(title, end, marked) if clients <= drawn.MAX_NUMBERS else None
    found: list[Part] = [Picture(name("graph"), title, partial(drawn.heat_map, end, marked), table)]
    if marked and clients <= drawn.MAX_NUMBERS:
        title = f"{entry.method.label}: the shares that stand out"
        found.append(Picture(name("arrows"), title, partial(drawn.arrows, end, marked)))
    if changing and clients <= drawn.MAX_LINES:
        title = f"{entry.method.label}: what each client learns from the others, by round"
        found.append(Picture(name("shares"), title, partial(drawn.shares_by_round, kept)))
    elif changing:
        title = f"{entry.method.label}: who learned how much from whom in round {first}"
        found.append(Picture(name("start"), title, partial(drawn.heat_map, start, set())))
    return found


def _shares(title: str, affinity: drawn.Affinity, marked: set[drawn.Arrow]) -> Table:
    names = list(affinity)
    rows: list[Row] = []
    for learner in names:
        shares = [(teacher, affinity[learner].get(teacher, 0.0)) for teacher in names]
        cells = [TableCell(f"{share:.1%}", "best" if (learner, name) in marked else "") for name, share in shares]
        rows.append([learner, *cells])
    return Table(title, ["learner", *names], rows)
