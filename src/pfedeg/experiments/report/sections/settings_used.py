"""Section "Settings": all settings of every entry, those of all entries once."""

from collections.abc import Mapping

from pfedeg.experiments.report.document import Row, Section, Table
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.significance import PairedTests


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """One table."""
    values: dict[str, set[str]] = {}
    for entry in results.entries:
        for name in entry.settings:
            values.setdefault(name, set()).add(entry.setting_text(name))
    everywhere = [name for name in values if all(name in entry.settings for entry in results.entries)]
    same = {name: values[name].pop() for name in everywhere if len(values[name]) == 1}
    common = {"method", "model", *same}
    note = ", ".join(f"{name} {value}" for name, value in same.items() if name not in ("method", "model"))
    rows: list[Row] = []
    for entry in results.entries:
        listed = ", ".join(f"{name} {entry.setting_text(name)}" for name in entry.settings if name not in common)
        seeds = ", ".join(str(run.seed) for run in entry.runs)
        rows.append([results.title(entry.setup), entry.method.label, seeds, listed])
    table = Table("", ["", "method", "seeds", "settings"], rows, text_columns=4, note=f"All: {note}." if note else "")
    return [Section("Settings", "", [table], collapsed=True)]
