"""Section "Overview": the test MRR of every method on every setup, and how often it beats the baselines."""

from collections.abc import Mapping

from pfedeg.experiments.report.document import Row, Section, Table, TableCell
from pfedeg.experiments.report.metric_cells import NOT_RUN, best_entry, number
from pfedeg.experiments.report.parts import ReportMethod, load, report_method
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.significance import PairedTests


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """One section."""
    return [Section("Overview", "", [_test_mrr(results), *_against_baselines(results, tests)])]


def _test_mrr(results: Results) -> Table:
    methods = methods_of(results)
    rows: list[Row] = []
    for setup in results.setups:
        entries = {entry.method.identifier: entry for entry in results.at(setup)}
        published, best = results.published_at(setup), best_entry(list(entries.values()))
        row: list[TableCell | str] = [setup.title]
        for method in methods:
            entry, theirs = entries.get(method.identifier), published.get(method.identifier, {}).get("mrr")
            text = NOT_RUN if entry is None else number(entry.mean("mrr"))
            emphasis = "faint" if entry is None else "best" if entry is best else ""
            row.append(TableCell(text if theirs is None else f"{text} ({theirs:.4f})", emphasis))
        rows.append(row)
    return Table("Test MRR", ["", *(method.label for method in methods)], rows, note=" ".join(_notes(results)))


def methods_of(results: Results) -> list[ReportMethod]:
    """The methods that were run or published, in order."""
    found = {entry.method.identifier: entry.method for entry in results.entries}
    for setup in results.setups:
        for identifier in results.published_at(setup):
            if identifier not in found and (method := load("method", identifier)):
                found[identifier] = report_method(identifier, method)
    return sorted(found.values(), key=lambda method: method.position)


def _notes(results: Results) -> list[str]:
    notes = ["Weighted over clients. Bold: the best of the methods that do not pool data."]
    if any("mrr" in values for setup in results.setups for values in results.published_at(setup).values()):
        notes.append("In brackets: published results with the publication's settings.")
    chosen = {setup: [entry.label for entry in results.at(setup) if entry.varied_in_setup] for setup in results.setups}
    listed = "; ".join(f"{setup.title}: {', '.join(labels)}" for setup, labels in chosen.items() if labels)
    if listed:
        notes.append(
            f"If a method has several settings, the ones closest to its defaults are shown, then the best by "
            f"validation: {listed}."
        )
    if only := results.published_only():
        notes.append(f"Published, but not run: {'; '.join(setup.title for setup in only)}.")
    notes += [f"{line}." for line in results.missing]
    return notes


def _against_baselines(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Table]:
    """For every proposed or user-defined method: on how many setups it beats each baseline."""
    present = sorted({entry.method for entry in results.entries}, key=lambda method: method.position)
    baselines = [method for method in present if method.role == "baseline"]
    rows: list[Row] = []
    for method in present:
        if method.role in ("proposed", "other"):
            cells = [_wins(results, tests, method, baseline) for baseline in baselines]
            if any(cells):
                rows.append([method.label, *(cell or "–" for cell in cells)])
    columns = ["", *(method.label for method in baselines)]
    return [Table("Comparison with the baselines, by test MRR", columns, rows)] if rows else []


def _wins(results: Results, tests: Mapping[Setup, PairedTests], method: ReportMethod, baseline: ReportMethod) -> str:
    """Such as "better: 3 of 4, significantly better: 2 of 4"; empty if no setup has both."""
    found = [{entry.method: entry for entry in results.at(setup)} for setup in results.setups]
    pairs = [(entries[method], entries[baseline]) for entries in found if method in entries and baseline in entries]
    if not pairs:
        return ""
    better = [one for one, two in pairs if (one.mean("mrr") or 0) > (two.mean("mrr") or 0)]
    tested = [
        difference
        for one in better
        for difference in tests.get(one.setup, PairedTests()).differences
        if {difference.first.method, difference.second.method} == {method, baseline}
    ]
    text = f"better: {len(better)} of {len(pairs)}"
    if better and len(tested) == len(better):
        text += f", significantly better: {sum(each.significant for each in tested)} of {len(pairs)}"
    return text
