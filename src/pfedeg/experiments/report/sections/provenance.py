"""Section "Provenance": the origin of every run, and the skipped runs."""

from collections.abc import Mapping

from pfedeg.experiments.report.document import Row, Section, Table
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.significance import PairedTests
from pfedeg.text import duration


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """One table."""
    rows: list[Row] = []
    for entry in results.entries:
        for run, result in zip(entry.runs, entry.results, strict=True):
            origin = run.provenance
            libraries = ", ".join(f"{name} {value}" for name, value in origin.get("libraries", {}).items())
            rows.append(
                [
                    f"{results.title(entry.setup)}, {entry.label}, seed {run.seed}",
                    f"{origin.get('package')} {str(origin.get('git_revision') or '')[:10]}",
                    str(origin.get("data_fingerprint", ""))[:12],
                    f"Python {origin.get('python')}, {libraries}, {origin.get('machine')}",
                    str(result["rounds"]),
                    str(result["best_round"]),
                    duration(result["seconds"]),
                ]
            )
    columns = ["run", "pfedeg", "data (SHA-256)", "system", "rounds", "best round", "time"]
    table = Table("", columns, rows, text_columns=4, note=_note(results))
    return [Section("Provenance", "", [table], collapsed=True)]


def _note(results: Results) -> str:
    total = sum(result["seconds"] for entry in results.entries for result in entry.results)
    note = f"{duration(total)} of training in total; other programs may have run at the same time."
    left_out = {
        "not finished": [str(path) for path in results.unfinished],
        "damaged": results.damaged,
        "same data, settings and seed as another run": results.duplicates,
    }
    for reason, runs in left_out.items():
        note += f" Skipped ({reason}): {'; '.join(runs)}." if runs else ""
    return note
