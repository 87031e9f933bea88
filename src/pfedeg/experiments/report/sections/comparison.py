"""A section per setup: test metrics of all methods, published metrics, significance of differences."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import ceil, log10

from pfedeg.experiments.report.document import Row, Section, Table, TableCell
from pfedeg.experiments.report.metric_cells import METRIC_LABELS, NOT_RUN, best_entry, best_value, metric_cell, number
from pfedeg.experiments.report.parts import ReportMethod
from pfedeg.experiments.report.published import METRICS
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.sections.overview import methods_of
from pfedeg.experiments.report.significance import DRAWS, PairedTests

ROUNDING = 1e-9  # a smaller difference in MRR is due to rounding


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """A section for each setup that is compared."""
    return [_section(results, setup, tests.get(setup, PairedTests())) for setup in results.compared]


def _section(results: Results, setup: Setup, tests: PairedTests) -> Section:
    entries, published = results.at(setup), results.published_at(setup)
    texts = [_agreement(results, entries)]
    if published and setup.scale:
        texts.append("The published results have other settings.")
    if tests.missing and not tests.differences:
        texts.append(f"Significance is not tested: {'; '.join(tests.missing)}.")
    section = Section(setup.title, " ".join(filter(None, texts)), [_metrics(results, setup)])
    if tests.differences:
        section.parts.append(_significance(tests))
    return section


def _metrics(results: Results, setup: Setup) -> Table:
    entries = {entry.method.identifier: entry for entry in results.at(setup)}
    published, same_settings = results.published_at(setup), not setup.scale
    methods = [method for method in methods_of(results) if method.identifier in {*entries, *published}]
    best = {name: best_value(list(entries.values()), name) for name in METRICS}
    theirs_best = _best_published(methods, published)
    columns = ["", *(METRIC_LABELS[name] for name in METRICS)]
    columns += ["published MRR"] if published else []
    columns += ["difference", "published Hits@1", "Hits@5", "Hits@10"] if published and same_settings else []
    rows: list[Row] = []
    for method in methods:
        entry, reported = entries.get(method.identifier), published.get(method.identifier, {})
        row: list[TableCell | str] = [entry.label if entry else method.label]
        for name in METRICS:
            row.append(metric_cell(entry, name, best[name]) if entry else TableCell(NOT_RUN, "faint"))
        mine, theirs = entry.mean("mrr") if entry else None, reported.get("mrr")
        if published:
            bold = not method.pools_data and theirs is not None and theirs == theirs_best
            row.append(TableCell(number(theirs), "best" if bold else ""))
        if published and same_settings:
            row.append(f"{mine - theirs:+.4f}" if mine is not None and theirs is not None else "–")
            row += [number(reported.get(name)) for name in METRICS[1:]]
        rows.append(row)
    return Table("Test metrics", columns, rows)


def _best_published(methods: Sequence[ReportMethod], published: Mapping[str, Mapping[str, float]]) -> float | None:
    found = [published.get(method.identifier, {}).get("mrr") for method in methods if not method.pools_data]
    return max((value for value in found if value is not None), default=None)


def _agreement(results: Results, entries: Sequence[Entry]) -> str:
    """Text on the best method here and in the publication, and on how many pairs have the same order."""
    both = [entry for entry in entries if "mrr" in results.published_for(entry) and entry.mean("mrr") is not None]
    first = best_entry(entries)
    text = f"Best here: {first.label}." if first else ""
    comparable = [entry for entry in both if not entry.method.pools_data]
    if len(comparable) > 1:
        theirs = max(comparable, key=lambda entry: results.published_for(entry)["mrr"])
        text += f" Best as published: {theirs.method.label}."
    if len(both) > 1:
        pairs = list(combinations(both, 2))
        same = [
            ((a.mean("mrr") or 0) > (b.mean("mrr") or 0))
            == (results.published_for(a)["mrr"] > results.published_for(b)["mrr"])
            for a, b in pairs
        ]
        text += f" {sum(same)} of {len(pairs)} pairs of methods are in the published order."
    return text


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
    note = (
        f"Paired bootstrap with {DRAWS:,} draws of the test triples, over the seeds that both methods share; p is "
        "two-sided and not corrected for multiple comparisons. Other seeds and splits may give other differences."
    )
    note += f" Not tested: {'; '.join(tests.missing)}." if tests.missing else ""
    columns = ["better", "worse", "difference", "95 % interval", "p", ""]
    return Table("Differences in test MRR", columns, rows, text_columns=2, note=note)


def _digits(*values: float) -> int:
    """Four digits, or more if a difference would be shown as zero."""
    smallest = min((abs(value) for value in values if abs(value) > ROUNDING), default=1.0)
    return max(4, ceil(-log10(smallest)))
