"""Section "Settings": all settings of every entry."""

from collections.abc import Mapping

from pfedeg.experiments.report.document import Row, Section, Table
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.significance import PairedTests


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """One table."""
    rows: list[Row] = []
    for entry in results.entries:
        listed = ", ".join(
            f"{name} {entry.setting_text(name)}" for name in entry.settings if name not in ("method", "model")
        )
        seeds = ", ".join(str(run.seed) for run in entry.runs)
        rows.append([entry.setup.title, entry.method.label, seeds, listed])
    table = Table("", ["", "method", "seeds", "settings"], rows, text_columns=4)
    return [Section("Settings", "", [table], collapsed=True)]
