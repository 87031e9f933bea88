"""Section "Overview": the test MRR of every method on every setup, and how often it beats the baselines."""

from collections.abc import Mapping

from pfedeg.experiments.report.document import Row, Section, Table, TableCell
from pfedeg.experiments.report.metric_cells import NOT_RUN, number
from pfedeg.experiments.report.noise import clear_winner, differs
from pfedeg.experiments.report.parts import ReportMethod, load, report_method
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.significance import DRAWS, PairedTests, untested
from pfedeg.settings import setting_fields
from pfedeg.training.config import DEFAULT_PARTS, REGISTRIES, Config

DEFAULTS = {part: REGISTRIES[part].get(DEFAULT_PARTS[part]).label for part in ("objective", "optimizer")}
SHOWN = ("rounds", "epochs", "lr")  # settings of a method's own that the overview states if all runs have them


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """One section."""
    return [
        Section(
            "Overview",
            _text(results, tests),
            [_test_mrr(results, tests), *_choices(results), *_against_baselines(results, tests)],
        )
    ]


def _text(results: Results, tests: Mapping[Setup, PairedTests]) -> str:
    """What holds for the whole report, said once."""
    lines = [_common_settings(results)]
    metrics = "Metrics are weighted over clients."
    if any(len(entry.runs) > 1 for entry in results.entries):
        metrics += " Methods with several seeds: mean ± standard deviation; curves have a line per seed."
    lines.append(
        f"{metrics} Bold: better than all other methods that do not pool data, beyond noise. A difference is beyond "
        "noise if it is significant or, where that is not tested, larger than the 95 % margin between independent "
        "samples of as many test triples."
    )
    if any(each.differences for each in tests.values()):
        lines.append(
            f"Significance: a paired bootstrap with {DRAWS:,} draws of the test triples, over the seeds that both "
            "methods share; p is two-sided and not corrected for multiple comparisons. Other seeds and splits may "
            "give other differences."
        )
    if reason := untested(tests):
        lines.append(f"Significance is not tested: {reason}.")
    if any(line.get("affinity") for entry in results.entries for line in entry.runs[0].history):
        lines.append(
            "Relation graphs: the row of a client shows the share of each other one in what it receives. A share "
            "stands out if it is, with every seed, a fifth above the mean of those from others."
        )
    return "\n".join(lines)


def _common_settings(results: Results) -> str:
    """The settings that headings leave out."""
    entries = results.entries
    values: dict[str, set[str]] = {}
    for entry in entries:
        for name in entry.settings:
            if name not in REGISTRIES and name not in results.usual:
                values.setdefault(name, set()).add(entry.setting_text(name))
    same = {name: found.pop() for name, found in values.items() if len(found) == 1 and name in SHOWN}
    listed = ", ".join(f"{name} {value}" for name, value in (results.usual | same).items() if value != _default(name))
    seeds = sorted({run.seed for entry in entries for run in entry.runs})
    listed += f"{', ' if listed else ''}{'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}"
    return f"Settings, unless a heading says otherwise: {listed}; the others are under Settings."


def _default(name: str) -> str:
    item = setting_fields(Config).get(name)
    return str(item.default) if item else DEFAULTS.get(name, "")


def _test_mrr(results: Results, tests: Mapping[Setup, PairedTests]) -> Table:
    methods = methods_of(results)
    rows: list[Row] = []
    for setup in results.setups:
        entries = {entry.method.identifier: entry for entry in results.at(setup)}
        best = clear_winner(list(entries.values()), "mrr", tests.get(setup, PairedTests()))
        published = results.published_at(setup)
        row: list[TableCell | str] = [results.title(setup)]
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
    notes = []
    if all(len(found) == 1 for setup in results.setups for found in results.tried(setup).values()):
        notes.append("One combination of settings was tried for each method.")
    if any("mrr" in values for setup in results.setups for values in results.published_at(setup).values()):
        notes.append("In brackets: published results with the publication's settings.")
    if only := results.published_only():
        notes.append(f"Published, but not run: {'; '.join(setup.title for setup in only)}.")
    notes += [f"{line}." for line in results.missing]
    return notes


def _choices(results: Results) -> list[Table]:
    """How many settings were tried, and which of them are shown; empty if every method has one."""
    rows: list[Row] = []
    for setup in results.setups:
        shown = {entry.method.identifier: entry for entry in results.at(setup)}
        for method, tried in results.tried(setup).items():
            if len(tried) > 1:
                rows.append([results.title(setup), shown[method].label, str(len(tried))])
    note = "Those with the best validation MRR are shown. The other methods had one; trying more is an advantage."
    return [Table("Settings tried", ["", "shown", "tried"], rows, text_columns=2, note=note)] if rows else []


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
    """Such as "better: 3 of 4, beyond noise: 2 of 4"; empty if no setup has both."""
    found = [{entry.method: entry for entry in results.at(setup)} for setup in results.setups]
    pairs = [(entries[method], entries[baseline]) for entries in found if method in entries and baseline in entries]
    if not pairs:
        return ""
    better = [(one, two) for one, two in pairs if (one.mean("mrr") or 0) > (two.mean("mrr") or 0)]
    clear = [differs(one, two, "mrr", tests.get(one.setup, PairedTests())) for one, two in better]
    return f"better: {len(better)} of {len(pairs)}" + (
        f", beyond noise: {sum(clear)} of {len(pairs)}" if better else ""
    )
