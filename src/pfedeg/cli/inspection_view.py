"""Prints the inspection of a federation as tables."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pfedeg.cli.naming_hints import naming_hints
from pfedeg.graphs.knowledge_graph import SPLITS
from pfedeg.inspection.client_sizes import ClientSize
from pfedeg.inspection.cost_estimate import Estimate, Estimates
from pfedeg.inspection.findings import Inspection
from pfedeg.inspection.leakage import KINDS
from pfedeg.inspection.overlap import Overlap
from pfedeg.inspection.related_relations import RelatedPair
from pfedeg.methods.registry import METHODS
from pfedeg.models.registry import MODELS
from pfedeg.text import duration, plural, printable

MAX_ROWS = 30  # of a table
MAX_ITEMS = 10  # in a line, and lines of long names
LEAKS = {
    ("same", "own"): "in train of the same client",
    ("same", "other"): "in train of another client",
    ("duplicate", "own"): "in train under a duplicate relation",
    ("duplicate", "other"): "in another's train under a duplicate relation",
    ("inverse", "own"): "in train as the inverse",
    ("inverse", "other"): "in another's train as the inverse",
    ("symmetric", "own"): "reversed in train, symmetric relation",
    ("symmetric", "other"): "reversed in another's train, symmetric relation",
}


class Labels:
    """Names as they are shown: by their display labels, followed by the name itself if others have the same label."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        """`labels` by name."""
        self._labels, self._uses = labels, Counter(labels.values())

    def __call__(self, name: str) -> str:
        """A name as it is shown."""
        label = self._labels.get(name, name)
        return f"{label} ({name})" if self._uses[label] > 1 else label


def show(inspection: Inspection, console: Console, labels: Mapping[str, str], path: Path) -> None:
    """Print everything except cost estimates of the federation at this path."""
    labelled = Labels(labels)
    for part in (
        *_clients(inspection, labelled),
        *_overlap(inspection.overlap, console, labelled),
        *_leakage(inspection, labelled),
        *_hints(inspection, path),
    ):
        if isinstance(part, Table):
            console.print(part)
        else:
            console.print(part, highlight=False, soft_wrap=True)


def show_estimates(estimates: Estimates, console: Console) -> None:
    """Print the estimated cost of training."""
    _print(console, _estimates(estimates))


def _print(console: Console, parts: Iterable[Table | Text]) -> None:
    for part in parts:
        console.print(part, highlight=False, soft_wrap=isinstance(part, Text))


def _table(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in texts:
        table.add_column(name, no_wrap=name == "method")
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _clients(inspection: Inspection, labelled: Labels) -> Iterator[Table | Text]:
    numbers = ("entities", "relations", "train", "valid", "test", "not in\ntrain", "in one\ntriple")
    table = _table("Clients", ("client",), numbers)
    degrees = _table("Triples per entity", ("client",), ("median", "90 %", "maximum"))
    degrees.add_column("most connected")
    for client, size in list(inspection.clients.items())[:MAX_ROWS]:
        name = Text(printable(client))
        table.add_row(name, *(f"{number:,}" for number in _numbers(size)))
        many = size.degrees
        top = ", ".join(f"{printable(labelled(each.name))} {each.triples:,}" for each in many.top)
        degrees.add_row(name, *(f"{number:,}" for number in (many.median, many.percentile_90, many.maximum)), Text(top))
    yield table
    yield degrees
    yield from _left_out(len(inspection.clients), "client")


def _numbers(size: ClientSize) -> tuple[int, ...]:
    held = (size.train, size.valid, size.test)
    return size.entities, size.relations, *held, size.not_in_train, size.in_one_triple


def _left_out(number: int, noun: str, shown: int = MAX_ROWS) -> Iterator[Text]:
    if number > shown:
        yield Text(f"… and {plural(number - shown, noun)} more; --json lists all")


def _overlap(overlap: Overlap, console: Console, labelled: Labels) -> Iterator[Table | Text]:
    if len(overlap.clients) == 1:
        return
    table = _matrix(overlap) if len(overlap.clients) <= MAX_ROWS else None
    if table is None or console.measure(table).maximum > console.width:
        table = _table("Most shared entities", ("client", "and"), ("entities",))
        for first, second, number in overlap.largest(MAX_ROWS):
            table.add_row(Text(printable(first)), Text(printable(second)), f"{number:,}")
    yield table
    one, many, of_all = overlap.owners[0], overlap.common, overlap.owners[-1]
    yield Text(
        f"{overlap.different:,} entities: {one:,} of one client only, {many:,} of at least two, "
        f"{of_all:,} of all {len(overlap.clients)}"
    )
    common = [
        f"{printable(labelled(name))} ({number} clients)" for name, number in overlap.common_relations[:MAX_ITEMS]
    ]
    if common:
        more = ", …" if len(overlap.common_relations) > MAX_ITEMS else ""
        number_of_names = plural(len(overlap.common_relations), "relation name")
        yield Text(f"{number_of_names} used by several clients: {', '.join(common)}{more}")
    else:
        yield Text("no relation name is used by two clients")


def _matrix(overlap: Overlap) -> Table:
    names = [printable(client) for client in overlap.clients]
    table = _table("Shared entities", ("",), names)
    table.box, table.padding = SIMPLE_HEAD, (0, 1, 0, 0)
    for place, (name, row) in enumerate(zip(names, overlap.entities, strict=True)):
        table.add_row(Text(name), *(Text(f"{number:,}", "dim" if at == place else "") for at, number in enumerate(row)))
    return table


def _leakage(inspection: Inspection, labelled: Labels) -> Iterator[Table | Text]:
    related = inspection.leakage.relations
    pairs = [each for each in related if each.kind != "symmetric"]
    yield from _related("Relations that connect nearly the same pairs", pairs, labelled)
    yield from _related("Symmetric relations", [each for each in related if each.kind == "symmetric"], labelled)
    leaks = inspection.leakage.leaks
    if not leaks:
        yield Text("no leakage: no held-out triple is in train, unchanged or reversed under an inverse relation")
        return
    table = _table("Leakage: held-out triples that are in training data", ("split", "where"), ("triples", "share"))
    table.add_column("most at client")
    examples = []
    for split, kind, where in product(SPLITS[1:], KINDS, ("own", "other")):
        found = [leak for leak in leaks if (leak.split, leak.kind, leak.where) == (split, kind, where)]
        if found:
            number, held = (
                sum(leak.triples for leak in found),
                sum(getattr(s, split) for s in inspection.clients.values()),
            )
            most = max(found, key=lambda leak: leak.triples)
            where_text = Text(LEAKS[kind, where], "" if kind == "symmetric" else "yellow")
            at = Text(printable(f"{most.client} ({most.share:.1%})"))
            table.add_row(split, where_text, f"{number:,}", f"{number / held:.1%}", at)
            examples.append(most)
    yield table
    for leak in examples:
        if leak.split == examples[-1].split and leak.kind != "symmetric":
            held_out, trained = (
                f"({', '.join(map(labelled, triple))})" for triple in (leak.example, leak.train_triple)
            )
            yield Text(printable(f"  e.g. {held_out} of {leak.client} is {trained} in train of {leak.train_client}"))


def _related(title: str, related: Sequence[RelatedPair], labelled: Labels) -> Iterator[Text]:
    if related:
        yield Text(title, "bold")
    for each in related[:MAX_ITEMS]:
        first, second = labelled(each.first), labelled(each.second)
        names = first if each.kind == "symmetric" else f"{first} and {second}"
        where = f" at {' and '.join(each.clients)}" if each.clients else ""
        yield Text(printable(f"  {each.kind}, {each.share:.0%} = {each.pairs:,} common pairs{where}: {names}"))
    yield from _left_out(len(related), "relation" if related and related[0].kind == "symmetric" else "pair", MAX_ITEMS)


def _hints(inspection: Inspection, path: Path) -> Iterator[Text]:
    if not inspection.hints:
        yield Text("no hints: all clients share entities and can be trained and evaluated")
        return
    yield Text("Hints", "bold")
    for hint in inspection.hints[:MAX_ROWS]:
        yield Text(f"  {printable(hint.client) + ': ' if hint.client is not None else ''}{hint.text}", "yellow")
    yield from _left_out(len(inspection.hints), "hint")
    for line in naming_hints(inspection, path):
        yield Text(line, "" if line.startswith(" ") else "bold")


def _estimates(estimates: Estimates) -> Iterator[Table | Text]:
    models = list(dict.fromkeys(MODELS.get(run.model).label for run in estimates.runs))
    methods: dict[str, list[Estimate]] = {}
    for run in estimates.runs:
        methods.setdefault(METHODS.get(run.method).label, []).append(run)
    free = estimates.bytes_available
    memory = _table("Memory, at most (estimate)", ("method",), models)
    times = _table("Time per round (estimate)", ("method",), models)
    totals = _table("Time for all rounds, at most (estimate)", ("method",), models)
    rounds: dict[int, list[str]] = {}
    for method, runs in methods.items():
        rounds.setdefault(runs[0].rounds, []).append(method)
        sizes = [Text(_bytes(run.bytes), "bold red" if free and run.bytes > free else "") for run in runs]
        memory.add_row(method, *sizes)
        times.add_row(method, *(_time(run.seconds_per_round) for run in runs))
        totals.add_row(method, *(_time(run.seconds_per_round, run.rounds) for run in runs))
    yield memory
    if any(run.seconds_per_round is not None for run in estimates.runs):
        yield times
        yield totals
    settings = ", ".join(f"{name} {value}" for name, value in estimates.settings.items())
    room = f"; {_bytes(free)} of memory available" if free else ""
    yield Text(f"with {settings}, {plural(estimates.threads, 'thread')}{room}")
    most = "; ".join(f"{plural(number, 'round')} of {', '.join(names)}" for number, names in rounds.items())
    yield Text(f"at most {most}; early stopping may end training sooner")
    if estimates.busy:
        yield Text("other programs were using the processor during the measurement, so the times are less certain")


def _bytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:,.0f} MB"


def _time(seconds: float | None, rounds: int = 1) -> str:
    if seconds is None:
        return "not measured"
    return f"{max(seconds, 0.001):.2g} s" if rounds == 1 and seconds < 10 else duration(rounds * seconds)
