"""What a report says, in sections of text, tables and pictures, whatever it is written as."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from math import ceil, log10
from typing import TYPE_CHECKING, Any

from pfedeg.experiments.report import figures
from pfedeg.experiments.report.results import METHODS, METRICS, MODEL_LABELS, Entry, Place, Results, in_order
from pfedeg.experiments.report.significance import TIMES, Findings
from pfedeg.text import duration
from pfedeg.training.config import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_RUN = "not run"
LEAST = 1e-9  # a difference in MRR below it is a matter of rounding
MOST_SHOWN = 12  # clients in a table of who learns from whom
METRIC_LABELS = {name: "MRR" if name == "mrr" else name.capitalize() for name in METRICS}


@dataclass(frozen=True)
class Cell:
    """What stands in a table: text, what it is for the eye (best, faint), and what it says on a closer look."""

    text: str
    kind: str = ""
    hint: str = ""


Row = Sequence[Cell | str]


@dataclass
class Table:
    """Rows under columns; the first `names` columns are words, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    names: int = 1
    note: str = ""


@dataclass
class Picture:
    """A drawing, made when it is needed."""

    name: str
    title: str
    make: Callable[[], "Figure"]


@dataclass
class Section:
    """A part of the report; `folded` is for those who want to know all."""

    title: str
    text: str = ""
    parts: list[Table | Picture] = field(default_factory=list)
    folded: bool = False


Differences = Mapping[Place, Findings]


def sections(results: Results, differences: Differences) -> list[Section]:
    """The whole report."""
    made = [_overview(results, differences)]
    made += [_comparison(results, place, differences.get(place, Findings())) for place in results.compared]
    made += [_convergence(results), _relation_graph(results), _clients(results), _studies(results)]
    made += [_settings(results), _provenance(results)]
    return [section for section in made if section.parts]


def title_of(place: Place) -> str:
    """A place in words."""
    data, model, scale = place
    return f"{data}, {MODEL_LABELS[model]}" + (f" ({scale})" if scale else "")


def _overview(results: Results, differences: Differences) -> Section:
    """All cells at a glance."""
    present = {entry.method for entry in results.entries}
    present |= {method for place in results.places for method in results.told(place)}
    methods = [method for method in METHODS if method in present]
    rows: list[Row] = []
    for place in results.places:
        entries, told = {entry.method: entry for entry in results.at(place)}, results.told(place)
        best = winner(list(entries.values()))
        row: list[Cell | str] = [title_of(place)]
        for method in methods:
            entry, theirs = entries.get(method), told.get(method, {}).get("mrr")
            text = NOT_RUN if entry is None else _number(entry.mean("mrr"))
            kind = "faint" if entry is None else "best" if entry is best else ""
            row.append(Cell(text if theirs is None else f"{text} ({theirs:.4f})", kind))
        rows.append(row)
    table = Table("Test MRR", ["", *(LABELS[m] for m in methods)], rows, note=" ".join(_remarks(results)))
    return Section("At a glance", "", [table, *filter(None, [_verdicts(results, differences)])])


def _remarks(results: Results) -> list[str]:
    """What is shown at a glance, and what is not."""
    notes = ["Weighted over clients; the best method that keeps data apart is marked (Collective does not)."]
    if any("mrr" in values for place in results.places for values in results.told(place).values()):
        notes.append("In brackets what the paper reports, at its own settings.")
    chosen = {place: [entry.label for entry in results.at(place) if entry.special] for place in results.places}
    told = "; ".join(f"{title_of(place)}: {', '.join(labels)}" for place, labels in chosen.items() if labels)
    if told:
        notes.append(f"Of several settings of a method the most usual are shown, then the best by validation: {told}.")
    run = {(data.lower(), model) for data, model, _ in results.places}
    left = {(data, model, "") for data, model, _ in results.paper if (data, model) not in run}
    if left:
        notes.append(f"Reported, but not run: {'; '.join(map(title_of, sorted(left, key=in_order)))}.")
    return notes


def _verdicts(results: Results, differences: Differences) -> Table | None:
    """In how many places PFedEG is ahead of others, and in how many of these clearly."""
    others = ("single", "fede", "fedec", "collective")
    rows: list[Row] = []
    for ours in ("pfedeg-star", "pfedeg-plus"):
        row: list[Cell | str] = [LABELS[ours]]
        for other in others:
            found = [{entry.method: entry for entry in results.at(place)} for place in results.places]
            pairs = [(each[ours], each[other]) for each in found if ours in each and other in each]
            ahead = [one for one, two in pairs if (one.mean("mrr") or 0) > (two.mean("mrr") or 0)]
            tested = [
                each
                for one in ahead
                for each in differences.get(one.place, Findings()).differences
                if {each.first.method, each.second.method} == {ours, other}
            ]
            clearly = f", {sum(each.clear for each in tested)} clearly"
            sure = clearly if ahead and len(tested) == len(ahead) else ""
            row.append(f"{len(ahead)} of {len(pairs)}{sure}" if pairs else "–")
        rows.append(row)
    if all(cell == "–" for row in rows for cell in row[1:]):
        return None
    return Table("Ahead of the others in test MRR", ["", *(LABELS[other] for other in others)], rows)


def winner(entries: Sequence[Entry]) -> Entry | None:
    """The best of the methods that keep data apart, if there are several."""
    apart = [entry for entry in entries if entry.method != "collective" and entry.mean("mrr") is not None]
    return max(apart, key=lambda entry: entry.mean("mrr") or 0.0) if len(apart) > 1 else None


def _comparison(results: Results, place: Place, tested: Findings) -> Section:
    """One of the paper's tables, beside the paper's own numbers."""
    entries, told = {entry.method: entry for entry in results.at(place)}, results.told(place)
    best = {name: _best(list(entries.values()), name) for name in METRICS}
    alike = not place[2]  # the same settings as the paper's, so that numbers and not only orders can be compared
    columns = ["", *(METRIC_LABELS[name] for name in METRICS)]
    columns += ["paper's MRR"] if told else []
    columns += ["difference", "paper's Hits@1", "Hits@5", "Hits@10"] if told and alike else []
    rows: list[Row] = []
    others = [values["mrr"] for method, values in told.items() if method != "collective" and "mrr" in values]
    for method in sorted({*entries, *told}, key=METHODS.index):
        entry, reported = entries.get(method), told.get(method, {})
        row: list[Cell | str] = [entry.label if entry else LABELS[method]]
        for name in METRICS:
            row.append(_metric(entry, name, best[name]) if entry else Cell(NOT_RUN, "faint"))
        mine, theirs = entry.mean("mrr") if entry else None, reported.get("mrr")
        if told:
            leading = method != "collective" and theirs is not None and theirs == max(others)
            row.append(Cell(_number(theirs), "best" if leading else ""))
        if told and alike:
            row.append(f"{mine - theirs:+.4f}" if mine is not None and theirs is not None else "–")
            row += [_number(reported.get(name)) for name in METRICS[1:]]
        rows.append(row)
    texts = [_agreement(results, list(entries.values()))]
    if told and not alike:
        texts.append("The paper's numbers are at its own settings.")
    if tested.missing and not tested.differences:
        texts.append(f"Whether differences may be chance is not shown: {'; '.join(tested.missing)}.")
    section = Section(title_of(place), " ".join(filter(None, texts)), [Table("Test metrics", columns, rows)])
    if tested.differences:
        section.parts.append(_significance(tested))
    return section


def _best(entries: Sequence[Entry], metric: str) -> float | None:
    values = [entry.mean(metric) for entry in entries if entry.method != "collective"]
    known = [value for value in values if value is not None]
    return max(known) if len(known) > 1 else None


def _metric(entry: Entry, name: str, best: float | None) -> Cell:
    mean, sd = entry.mean(name), entry.sd(name)
    spread = f" ± {sd:.4f}" if sd is not None else ""
    leading = entry.method != "collective" and best is not None and mean == best
    return Cell(_number(mean) + spread, "best" if leading else "", f"{len(entry.runs)} seeds" if sd is not None else "")


def _agreement(results: Results, entries: Sequence[Entry]) -> str:
    """Who wins here and in the paper, and how many pairs of methods stand in the same order."""
    both = [entry for entry in entries if "mrr" in results.reported(entry) and entry.mean("mrr") is not None]
    first = winner(entries)
    text = f"Best here: {first.label}." if first else ""
    apart = [entry for entry in both if entry.method != "collective"]
    if len(apart) > 1:
        theirs = max(apart, key=lambda entry: results.reported(entry)["mrr"])
        text += f" Best of these in the paper: {LABELS[theirs.method]}."
    if len(both) > 1:
        pairs = list(combinations(both, 2))
        same = [
            ((a.mean("mrr") or 0) > (b.mean("mrr") or 0)) == (results.reported(a)["mrr"] > results.reported(b)["mrr"])
            for a, b in pairs
        ]
        text += f" {sum(same)} of {len(pairs)} pairs of methods stand in the paper's order."
    return text


def _significance(tested: Findings) -> Table:
    rows: list[Row] = []
    for each in sorted(tested.differences, key=lambda difference: -abs(difference.mean)):
        one, two, sign = each.first, each.second, 1
        if each.mean < 0:
            one, two, sign = each.second, each.first, -1
        low, high = sorted((sign * each.low, sign * each.high))
        verdict = Cell("clear", "best") if each.clear else Cell("may be chance", "faint")
        p = f"< {2 / TIMES:.3f}" if each.p < 2 / TIMES else f"{each.p:.3f}"
        digits = _digits(each.mean, low, high)
        by, interval = f"{abs(each.mean):.{digits}f}", f"{low:+.{digits}f} … {high:+.{digits}f}"
        rows.append([one.label, two.label, by, interval, p, verdict])
    note = (
        f"Paired bootstrap, {TIMES:,} draws of the test triples, over the seeds that both have; intervals of 95 %; p "
        "two-sided, not corrected for the number of pairs. It says nothing about other seeds or other splits."
    )
    note += f" Left out: {'; '.join(tested.missing)}." if tested.missing else ""
    return Table("Who is ahead, and is it luck?", ["ahead", "of", "MRR by", "95 %", "p", ""], rows, names=2, note=note)


def _digits(*values: float) -> int:
    """So many that what is not zero does not look like it, four at least."""
    smallest = min((abs(value) for value in values if abs(value) > LEAST), default=1.0)
    return max(4, ceil(-log10(smallest)))


def _convergence(results: Results) -> Section:
    pictures: list[Table | Picture] = []
    for place in results.compared:
        entries = [entry for entry in results.at(place) if any(figures.evaluated(run) for run in entry.runs)]
        if entries:
            pictures.append(
                Picture(_name("convergence", place), title_of(place), partial(figures.convergence, entries))
            )
    text = "Validation MRR, weighted over clients, as training goes on; a dot marks the tables that are kept."
    if any(len(entry.runs) > 1 for entry in results.entries):
        text += " Each seed has a line of its own."
    return Section("Convergence", text, pictures)


def _relation_graph(results: Results) -> Section:
    parts: list[Table | Picture] = []
    for place in results.compared:
        for entry in results.at(place):
            kept = figures.affinities(entry)
            if kept and any(len(row) > 1 for row in kept[-1][1].values()):
                what = f"{title_of(place)}, {entry.label}"
                what += f", seed {entry.runs[0].config.seed} of {len(entry.runs)} seeds" if len(entry.runs) > 1 else ""
                draw = partial(figures.relation_graph, kept)
                parts.append(Picture(_name("graph", place, entry.method), f"{what}: who learns from whom", draw))
                if len(kept[-1][1]) <= MOST_SHOWN:
                    parts.append(_shares(what, *kept[-1]))
                if len(kept) > 1 and figures.changes(kept):
                    draw = partial(figures.relation_course, kept)
                    parts.append(
                        Picture(_name("course", place, entry.method), f"{what}: how the shares developed", draw)
                    )
    text = (
        "The client-wise relation graph W. An arrow points from who is learned from to who learns; the broader and "
        "darker, the larger its share in what the learner is sent (among many clients, each learner's three largest "
        "are drawn). Weights of PFedEG* follow from the entities that clients share and do not change; those of "
        "PFedEG+ follow from the embeddings."
    )
    return Section("Who learns from whom", text, parts)


def _shares(what: str, number: int, affinity: figures.Affinity) -> Table:
    names = list(affinity)
    rows: list[Row] = []
    for learner in names:
        shares = [affinity[learner].get(teacher, 0.0) for teacher in names]
        shown, most = [f"{share:.1%}" for share in shares], f"{max(shares):.1%}"
        rows.append(
            [learner, *(Cell(each, "best" if each == most and shown.count(most) == 1 else "") for each in shown)]
        )
    return Table(f"{what}: shares, round {number}", ["learner", *names], rows)


def _clients(results: Results) -> Section:
    parts: list[Table | Picture] = []
    for place in results.places:
        entries = results.at(place)
        single = next((entry for entry in entries if entry.method == "single"), None)
        rest = [entry for entry in entries if entry.method != "single"]
        if single is None or not rest:
            continue
        names = [name for name in single.runs[0].clients if single.mean("mrr", client=name) is not None]
        rows: list[Row] = []
        for name in names:
            alone = single.mean("mrr", client=name) or 0.0
            values = [entry.mean("mrr", client=name) for entry in rest]
            most = max((value - alone for value in values if value is not None), default=0.0)
            row: list[Cell | str] = [name, f"{alone:.4f}"]
            for value in values:
                gain = None if value is None else value - alone
                row.append(
                    Cell(f"{gain:+.4f}", "best" if gain == most and round(gain, 4) > 0 else "")
                    if gain is not None
                    else "–"
                )
            triples = single.results[0]["test"]["clients"][name]["triples"]
            rows.append([*row, f"{triples:,}"])
        columns = ["client", "Single", *(entry.label for entry in rest), "test triples"]
        parts.append(Table(f"{title_of(place)}: test MRR over Single", columns, rows))
        draw = partial(figures.gains, names, single, rest)
        parts.append(Picture(_name("gains", place), f"{title_of(place)}: gain of each client", draw))
    return Section("What each client gains over being alone", "", parts)


def _studies(results: Results) -> Section:
    parts: list[Table | Picture] = []
    for group in results.studies():
        first = group[0]
        scale = first.scale if all(entry.scale == first.scale for entry in group) else ""
        what = f"{title_of((first.data, first.model, scale))}, {LABELS[first.method]}"
        best = max(entry.mean("mrr", "valid") or 0 for entry in group)
        rows: list[Row] = []
        for entry in group:
            valid = entry.mean("mrr", "valid")
            rows.append(
                [
                    *(str(entry.settings[name]) for name in first.varied),
                    Cell(_number(valid), "best" if valid == best else ""),
                    *(_metric(entry, name, None) for name in METRICS),
                    _rounds(entry, "best_round"),
                ]
            )
        columns = [*first.varied, "valid MRR", *(f"test {METRIC_LABELS[name]}" for name in METRICS), "best round"]
        parts.append(Table(f"{what}: {' × '.join(first.varied)}", columns, rows, names=len(first.varied)))
        slug = f"study-{first.data}-{first.model}-{first.method}"
        parts.append(Picture(slug, f"{what}: validation MRR by round", partial(figures.study, group)))
    return Section(
        "Settings compared", "Runs that differ only in these settings; the best by validation is marked.", parts
    )


def _settings(results: Results) -> Section:
    rows: list[Row] = []
    for entry in results.entries:
        used = {name: value for name, value in entry.settings.items() if value is not None}
        shown = ", ".join(f"{name} {value}" for name, value in used.items() if name not in ("method", "model"))
        seeds = ", ".join(str(run.config.seed) for run in entry.runs)
        rows.append([title_of(entry.place), LABELS[entry.method], seeds, shown])
    table = Table("", ["", "method", "seeds", "settings"], rows, names=4)
    return Section("Settings", "", [table], folded=True)


def _provenance(results: Results) -> Section:
    rows: list[Row] = []
    for entry in results.entries:
        for run, result in zip(entry.runs, entry.results, strict=True):
            origin = run.provenance
            libraries = ", ".join(f"{name} {value}" for name, value in origin.get("libraries", {}).items())
            rows.append(
                [
                    f"{title_of(entry.place)}, {entry.label}, seed {run.config.seed}",
                    f"{origin.get('package')} {str(origin.get('git_revision') or '')[:10]}",
                    str(origin.get("data_fingerprint", ""))[:12],
                    f"Python {origin.get('python')}, {libraries}, {origin.get('machine')}",
                    str(result["rounds"]),
                    str(result["best_round"]),
                    duration(result["seconds"]),
                ]
            )
    columns = ["run", "pfedeg", "data (SHA-256)", "on", "rounds", "best", "time in rounds"]
    total = sum(result["seconds"] for entry in results.entries for result in entry.results)
    note = (
        f"{duration(total)} in all. Each round's seconds were taken on a machine that may have done other work as well."
    )
    left_out = {
        "Not finished": map(str, results.unfinished),
        "Damaged": results.damaged,
        "The same as another": results.same,
    }
    for why, which in left_out.items():
        note += f" {why} and left out: {'; '.join(named)}." if (named := list(which)) else ""
    return Section("Provenance", "", [Table("", columns, rows, names=4, note=note)], folded=True)


def _name(what: str, place: Place, method: str = "") -> str:
    """What the file of a picture is called."""
    return "-".join(filter(None, (what, *place, method)))


def _rounds(entry: Entry, what: str) -> str:
    return ", ".join(str(result[what]) for result in entry.results)


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.4f}"
