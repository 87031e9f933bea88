"""What each method costs in a setup: rounds, time, and bytes that travel over a network."""

from statistics import fmean

from pfedeg.experiments.report.document import Part, Row, Table
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.significance import PairedTests
from pfedeg.text import duration

UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def parts(results: Results, setup: Setup, tests: PairedTests) -> list[Part]:
    """One table."""
    rows: list[Row] = []
    for entry in results.at(setup):
        sent, received = (_bytes(entry, name) for name in ("bytes_up", "bytes_down"))
        rounds, best, seconds = (
            fmean(result[name] for result in entry.results) for name in ("rounds", "best_round", "seconds")
        )
        cells = [f"{rounds:.0f}", f"{best:.0f}", _time(seconds), _volume(sent), _volume(received)]
        rows.append([entry.method.label, *cells, _volume((sent + received) / rounds if rounds else 0)])
    columns = ["", "rounds", "best round", "time", "sent by clients", "received", "both per round"]
    several = any(len(entry.runs) > 1 for entry in results.at(setup))
    return [Table("Cost", columns, rows, note="Means over seeds." if several else "")]


def _bytes(entry: Entry, name: str) -> float:
    """All bytes of a run, of all clients together; the mean over seeds."""
    return fmean(sum(line.get(name, 0) for line in run.history) for run in entry.runs)


def _time(seconds: float) -> str:
    return duration(seconds) if seconds >= 10 else f"{seconds:.1f} s"


def _volume(size: float) -> str:
    """Such as 22.4 MB; a dash for nothing."""
    if not size:
        return "–"
    return next((f"{size / unit:.3g} {name}" for unit, name in UNITS if size >= unit), f"{size:.0f} B")
