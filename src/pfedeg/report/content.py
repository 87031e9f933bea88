"""What a report says, in sections of text, tables and pictures, whatever it is written as."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pfedeg.config import LABELS
from pfedeg.report import figures
from pfedeg.report.results import METHODS, METRICS, MODEL_LABELS, Entry, Place, Results, in_order
from pfedeg.report.significance import TIMES, Difference
from pfedeg.terminal import duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_RUN = "not run"
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


Differences = Mapping[Place, Sequence[Difference]]


def sections(results: Results, differences: Differences) -> list[Section]:
    """The whole report."""
    made = [_overview(results, differences)]
    made += [_comparison(results, place, differences.get(place, ())) for place in results.places]
    made += [_convergence(results), _relation_graph(results), _clients(results), _studies(results)]
    made += [_settings(results), _provenance(results)]
    return [section for section in made if section.parts]


def title_of(place: Place) -> str:
    """A place in words."""
    return f"{place[0]}, {MODEL_LABELS[place[1]]}"


def _overview(results: Results, differences: Differences) -> Section:
    """All cells at a glance."""
    told = [(data, model) for data, model, _ in results.paper]
    places = sorted({*results.places, *told}, key=in_order)
    present = [entry.method for place in places for entry in results.at(place)]
    methods = [m for m in METHODS if m in present or any(key[2] == m for key in results.paper)]
    rows = []
    for place in places:
        row: list[Cell | str] = [title_of(place)]
        entries = {entry.method: entry for entry in results.at(place)}
        best = winner(list(entries.values()))
        for method in methods:
            entry, paper = entries.get(method), results.paper.get((*place, method), {}).get("mrr")
            hint = f"the paper: {paper:.4f}" if paper is not None else ""
            if entry is None:
                row.append(Cell(NOT_RUN, "faint", hint))
            else:
                row.append(Cell(_number(entry.mean("mrr")), "best" if entry is best else "", hint))
        rows.append(row)
    note = "Weighted over clients; the best method that keeps data apart is marked (Collective does not)."
    table = Table("Test MRR", ["", *(LABELS[m] for m in methods)], rows, note=note)
    return Section("At a glance", "", [table, *filter(None, [_verdicts(results, differences)])])


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
                for each in differences.get((one.data, one.model), ())
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


def _comparison(results: Results, place: Place, found: Sequence[Difference]) -> Section:
    """One of the paper's tables, beside the paper's own numbers."""
    entries = results.at(place)
    best = {name: _best(entries, name) for name in METRICS}
    told = any(results.reported(entry) for entry in entries)
    columns = ["", *(METRIC_LABELS[name] for name in METRICS)]
    columns += ["paper's MRR", "difference", "paper's Hits@1", "Hits@5", "Hits@10"] if told else []
    rows: list[Row] = []
    missing = [m for d, k, m in results.paper if (d, k) == place and m not in [entry.method for entry in entries]]
    reports = {entry.method: results.reported(entry) for entry in entries}
    reports |= {method: results.paper[*place, method] for method in missing}
    others = [values["mrr"] for method, values in reports.items() if method != "collective" and "mrr" in values]
    for method in sorted(reports, key=METHODS.index):
        entry = next((entry for entry in entries if entry.method == method), None)
        row: list[Cell | str] = [entry.label if entry else LABELS[method]]
        for name in METRICS:
            row.append(_metric(entry, name, best[name]) if entry else Cell(NOT_RUN, "faint"))
        if told:
            reported, mine = reports[method], entry.mean("mrr") if entry else None
            theirs = reported.get("mrr")
            leading = method != "collective" and theirs is not None and theirs == max(others)
            row.append(Cell(_number(theirs), "best" if leading else ""))
            row.append(f"{mine - theirs:+.4f}" if mine is not None and theirs is not None else "–")
            row += [_number(reported.get(name)) for name in METRICS[1:]]
        rows.append(row)
    section = Section(title_of(place), _agreement(results, entries), [Table("Test metrics", columns, rows)])
    if found:
        section.parts.append(_significance(found))
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


def _significance(found: Sequence[Difference]) -> Table:
    rows: list[Row] = []
    for each in sorted(found, key=lambda difference: -abs(difference.mean)):
        one, two, sign = each.first, each.second, 1
        if each.mean < 0:
            one, two, sign = each.second, each.first, -1
        low, high = sorted((sign * each.low, sign * each.high))
        verdict = Cell("clear", "best") if each.clear else Cell("may be chance", "faint")
        p = f"< {2 / TIMES:.3f}" if each.p < 2 / TIMES else f"{each.p:.3f}"
        rows.append([one.label, two.label, f"{abs(each.mean):.4f}", f"{low:+.4f} … {high:+.4f}", p, verdict])
    note = (
        f"Paired bootstrap, {TIMES:,} draws of the test triples; intervals of 95 %; p two-sided, not corrected for the "
        "number of pairs. It says nothing about other seeds or other splits."
    )
    return Table("Who is ahead, and is it luck?", ["ahead", "of", "MRR by", "95 %", "p", ""], rows, names=2, note=note)


def _convergence(results: Results) -> Section:
    pictures: list[Table | Picture] = []
    for place in results.places:
        entries = [entry for entry in results.at(place) if figures.evaluated(entry)]
        if entries:
            name = f"convergence-{place[0]}-{place[1]}"
            pictures.append(Picture(name, title_of(place), partial(figures.convergence, entries)))
    text = "Validation MRR, weighted over clients, as training goes on; a dot marks the tables that are kept."
    return Section("Convergence", text, pictures)


def _relation_graph(results: Results) -> Section:
    parts: list[Table | Picture] = []
    for place in results.places:
        for entry in results.at(place):
            kept = figures.affinities(entry)
            if kept and any(len(row) > 1 for row in kept[-1][1].values()):
                name = f"{place[0]}-{place[1]}-{entry.method}"
                what = f"{title_of(place)}, {entry.label}"
                draw = partial(figures.relation_graph, kept)
                parts.append(Picture(f"graph-{name}", f"{what}: who learns from whom", draw))
                if len(kept[-1][1]) <= MOST_SHOWN:
                    parts.append(_shares(what, *kept[-1]))
                if len(kept) > 1 and figures.changes(kept):
                    draw = partial(figures.relation_course, kept)
                    parts.append(Picture(f"course-{name}", f"{what}: how the shares developed", draw))
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
        cells = [Cell(f"{share:.1%}", "best" if share == max(shares) else "") for share in shares]
        rows.append([learner, *cells])
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
            gains = [value - alone for value in values if value is not None]
            row: list[Cell | str] = [name, f"{alone:.4f}"]
            for value in values:
                gain = None if value is None else value - alone
                row.append(Cell(f"{gain:+.4f}", "best" if gain == max(gains) else "") if gain is not None else "–")
            triples = single.results[0]["test"]["clients"][name]["triples"]
            rows.append([*row, f"{triples:,}"])
        columns = ["client", "Single", *(entry.label for entry in rest), "test triples"]
        parts.append(Table(f"{title_of(place)}: test MRR over Single", columns, rows))
        draw = partial(figures.gains, names, single, rest)
        parts.append(Picture(f"gains-{place[0]}-{place[1]}", f"{title_of(place)}: gain of each client", draw))
    return Section("What each client gains over being alone", "", parts)


def _studies(results: Results) -> Section:
    parts: list[Table | Picture] = []
    for group in results.studies():
        first = group[0]
        what = f"{title_of((first.data, first.model))}, {LABELS[first.method]}"
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
        rows.append([title_of((entry.data, entry.model)), LABELS[entry.method], seeds, shown])
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
                    f"{title_of((entry.data, entry.model))}, {entry.label}, seed {run.config.seed}",
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
    if results.unfinished:
        note += " Not finished and left out: " + ", ".join(str(path) for path in results.unfinished) + "."
    return Section("Provenance", "", [Table("", columns, rows, names=4, note=note)], folded=True)


def _rounds(entry: Entry, what: str) -> str:
    return ", ".join(str(result[what]) for result in entry.results)


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.4f}"
