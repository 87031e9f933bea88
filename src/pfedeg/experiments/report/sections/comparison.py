"""A section per setup: metrics, curves, clients, cost and relation graphs of the methods that can be compared."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from pfedeg.experiments.report.document import Section
from pfedeg.experiments.report.noise import best_entry, rivals
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.sections import clients, convergence, cost, metrics, relation_graph
from pfedeg.experiments.report.significance import PairedTests, untested

PARTS = (metrics, convergence, clients, cost, relation_graph)


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """A section for each setup that is compared."""
    said = bool(untested(tests))
    return [_section(results, setup, tests.get(setup, PairedTests()), said) for setup in results.compared]


def _section(results: Results, setup: Setup, tests: PairedTests, said: bool) -> Section:
    """`said`: whether the overview already says why nothing is tested."""
    texts = [_agreement(results, results.at(setup), tests)]
    if results.published_at(setup) and setup.scale:
        texts.append("The published results have other settings.")
    if tests.missing and not tests.differences and not said:
        texts.append(f"Significance is not tested: {'; '.join(tests.missing)}.")
    found = [part for module in PARTS for part in module.parts(results, setup, tests)]
    return Section(results.title(setup), " ".join(filter(None, texts)), found)


def _agreement(results: Results, entries: Sequence[Entry], tests: PairedTests) -> str:
    """Text on the best method here and in the publication, and on how many pairs have the same order."""
    both = [entry for entry in entries if "mrr" in results.published_for(entry) and entry.mean("mrr") is not None]
    first, text = best_entry(entries), ""
    if first:
        close = [entry.method.label for entry in rivals(first, entries, "mrr", tests)]
        text = f"Best here: {first.label}" + (f"; within noise of it: {', '.join(close)}." if close else ".")
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
