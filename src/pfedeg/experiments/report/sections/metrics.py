"""Tables of a setup: test metrics of every method beside published ones, and the significance of differences."""

from math import ceil, log10

from pfedeg.experiments.report.document import Part, Row, Table, TableCell
from pfedeg.experiments.report.metric_cells import METRIC_LABELS, NOT_RUN, metric_cell, number
from pfedeg.experiments.report.noise import clear_winner
from pfedeg.experiments.report.published import METRICS
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.sections.overview import methods_of
from pfedeg.experiments.report.significance import DRAWS, PairedTests

ROUNDING = 1e-9  # a smaller difference in MRR is due to rounding


def parts(results: Results, setup: Setup, tests: PairedTests) -> list[Part]:
    """The metrics, and the differences that were tested."""
    return [_metrics(results, setup, tests), *([_significance(tests)] if tests.differences else [])]


def _metrics(results: Results, setup: Setup, tests: PairedTests) -> Table:
    entries = {entry.method.identifier: entry for entry in results.at(setup)}
    published, same_settings = results.published_at(setup), not setup.scale
    tried = {method: len(found) for method, found in results.tried(setup).items()}
    counted = max(tried.values()) > 1
    best = {name: clear_winner(list(entries.values()), name, tests) for name in METRICS}
    methods = [method for method in methods_of(results) if method.identifier in {*entries, *published}]
    columns = ["", *(["settings tried"] if counted else []), "valid MRR"]
    columns += [f"test {METRIC_LABELS['mrr']}", *(METRIC_LABELS[name] for name in METRICS[1:])]
    columns += ["published MRR"] if published else []
    columns += ["difference", "published Hits@1", "Hits@5", "Hits@10"] if published and same_settings else []
    rows: list[Row] = []
    for method in methods:
        entry, reported = entries.get(method.identifier), published.get(method.identifier, {})
        row: list[TableCell | str] = [entry.label if entry else method.label]
        row += [str(tried.get(method.identifier, "–"))] if counted else []
        row.append(number(entry.mean("mrr", "valid")) if entry else TableCell(NOT_RUN, "faint"))
        for name in METRICS:
            row.append(metric_cell(entry, name, entry is best[name]) if entry else TableCell(NOT_RUN, "faint"))
        mine, theirs = entry.mean("mrr") if entry else None, reported.get("mrr")
        if published:
            row.append(number(theirs))
        if published and same_settings:
            row.append(f"{mine - theirs:+.4f}" if mine is not None and theirs is not None else "–")
            row += [number(reported.get(name)) for name in METRICS[1:]]
        rows.append(row)
    return Table("Metrics", columns, rows)


def _significance(tests: PairedTests) -> Table:
    rows: list[Row] = []
    for each in sorted(tests.differences, key=lambda difference: -abs(difference.mean)):
        one, two, sign = (each.first, each.second, 1) if each.mean >= 0 else (each.second, each.first, -1)
        low, high = sorted((sign * each.low, sign * each.high))
        verdict = TableCell("significant", "best") if each.significant else TableCell("not significant", "faint")
        p = f"< {2 / DRAWS:.3f}" if each.p < 2 / DRAWS else f"{each.p:.3f}"
        digits = _digits(each.mean, low, high)
        mean, interval = f"{abs(each.mean):.{digits}f}", f"{low:+.{digits}f} … {high:+.{digits}f}"
        rows.append([one.label, two.label, mean, interval, p, verdict])
    note = f"Not tested: {'; '.join(tests.missing)}." if tests.missing else ""
    columns = ["better", "worse", "difference", "95 % interval", "p", ""]
    return Table("Differences in test MRR", columns, rows, text_columns=2, note=note)


def _digits(*values: float) -> int:
    """Four digits, or more if a difference would be shown as zero."""
    smallest = min((abs(value) for value in values if abs(value) > ROUNDING), default=1.0)
    return max(4, ceil(-log10(smallest)))
