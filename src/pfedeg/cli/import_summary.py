"""Prints what an import read, kept and left out."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pfedeg.cli.naming import brief, naming_lines
from pfedeg.text import plural, printable

MAX_BUCKETED = 10  # relations that are listed


def show_summary(out: Path, report: Mapping[str, Any], labels: Mapping[str, str], form: str) -> None:
    """Print the summary of a client that was made from files."""
    for line in _lines(out, report, labels, form):
        click.echo(printable(line))


def show_clients(out: Path, reports: Mapping[str, Mapping[str, Any]], unknown: Sequence[str], form: str) -> None:
    """Print what became of the names of existing clients, and which names in the map no client has."""
    click.echo(printable(f"{out}: {plural(len(reports), 'client')}"))
    for line in naming_lines(
        {"unknown_in_map": {"names": len(unknown), "example": unknown[0]}} if unknown else {}, form
    ):
        click.echo(printable(f"  {line}"))
    for client, report in reports.items():
        sizes = f"{plural(report['triples'], 'triple')}, {plural(report['entities'], 'entity')}"
        click.echo(printable(f"  {client}: {sizes}"))
        lines = list(naming_lines(report["renamed"], form))
        if report["duplicates"]:
            lines.append(f"duplicates dropped: {report['duplicates']:,}")
        for line in lines or ["no name changed"]:
            click.echo(printable(f"    {line}"))


def _lines(out: Path, report: Mapping[str, Any], labels: Mapping[str, str], form: str) -> Iterator[str]:
    yield (
        f"{out}: {plural(report['triples'], 'triple')}, {plural(report['entities'], 'entity')}, "
        f"{plural(report['relations'], 'relation')}, from {plural(report['statements'], 'statement')}"
    )
    yield from (f"  {remark}" for remark in report["remarks"])
    if report["labels"]:
        lost = " (not written; use a folder as --out to keep them)" if out.is_file() else ""
        yield f"  display labels: {report['labels']:,}{lost}"
    for kind, text in (
        ("other_labels", "names with several labels, of which the first is kept"),
        ("labels_without_name", "names in --labels that do not occur"),
    ):
        if report[kind]["names"]:
            example = report[kind]["example"]
            shown = example if isinstance(example, str) else example[0]
            yield f"  {text}: {report[kind]['names']:,}, e.g. {brief(repr(shown))}"
    if report["cells_trimmed"]:
        example = brief(repr(report["trimmed_example"]))
        yield f"  cells trimmed (surrounding spaces): {report['cells_trimmed']:,}, e.g. {example}"
    yield from (f"  {line}" for line in naming_lines(report["renamed"], form))
    if report["bucketed"]:
        yield f"  put into buckets: {_bucketed(report['bucketed'])}"
    if report["duplicates"]:
        yield f"  duplicates dropped: {report['duplicates']:,}"
    for kind, many in report["dropped"].items():
        example = f", e.g. {report['examples'][kind]}" if kind in report["examples"] else ""
        hint = "; --literals bucket keeps them" if kind == "numbers and dates" else ""
        yield f"  {kind} dropped: {many:,}{example}{hint}"
    if report["isolated_entities"]:
        yield f"  entities without remaining triples: {report['isolated_entities']:,}"
    if report["names_normalized"]:
        many, example = report["names_normalized"], report["normalized_example"]
        yield f"  names changed to Unicode normal form C: {many:,}, e.g. {example!a}"
    if report["relations"] == 1:
        yield "  only one relation: little can be learned from it"
    for what in ("relations", "entities"):
        yield f"  most frequent {what}: {_frequent(report[f'frequent_{what}'], labels)}"


def _bucketed(relations: Mapping[str, Mapping[str, int]]) -> str:
    """The relations whose values were put into buckets, with their numbers of values and buckets."""
    most = sorted(relations.items(), key=lambda item: (-item[1]["values"], item[0]))
    listed = [
        f"{brief(name)} ({plural(found['values'], 'value')}, {plural(found['buckets'], 'bucket')})"
        for name, found in most[:MAX_BUCKETED]
    ]
    more = len(most) - len(listed)
    return ", ".join(listed) + (f" and {plural(more, 'relation')} more" if more else "")


def _frequent(frequent: Mapping[str, int], labels: Mapping[str, str]) -> str:
    shown = [labels.get(name, name) for name in frequent]
    ambiguous = {label for label in shown if shown.count(label) > 1}
    titles = [f"{label}, {name}" if label in ambiguous else label for label, name in zip(shown, frequent, strict=True)]
    return ", ".join(f"{brief(name)} ({many:,})" for name, many in zip(titles, frequent.values(), strict=True))
