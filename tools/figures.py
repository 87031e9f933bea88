"""Figures that a page quotes from results: compared with their source, updated, and searched for ones without a source.

A `Quote` is a piece of a page with `{}` for every figure, and the figures. Everything that looks like a measurement
(decimals with at least two digits, percentages, factors, counts above 999) must be part of a quote, of a shown output,
or of a section marked `<!-- machine: COMMAND -->`, or what follows `<!-- machine page: COMMAND -->`: speed and memory,
which no other machine repeats.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

NUMBER = r"[+−-]?\d+(?:,\d{3})*(?:\.\d+)?"
NOTHING = r"not run|–"
FIGURE = re.compile(
    r"(?<![\w.,/])(?:[+−-]?\d+\.\d{2,}(?![\w.])|\d+(?:\.\d+)?(?: %|×| times as fast)|\d{1,3}(?:,\d{3})+)(?![\w])"
)
OTHER = re.compile(  # what only looks like a measurement: code, comments, targets of links, versions, licences
    r"^```.*?^```|^ {4,}\S.*?$|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)"
    r"|(?:PyKEEN|Flower|Python|numba|torch|gensim|TensorBoard|BigGraph|CC BY)\S*\s+[\d.]+(?: (?:and|or) [\d.]+)?"
    r"|95 %(?= ?[:\w]* interval| margin|:)",
    re.M | re.S,
)
MACHINE = re.compile(r"<!-- machine: [^>]+-->.*?(?=^#|\Z)|<!-- machine page: [^>]+-->.*", re.M | re.S)


@dataclass(frozen=True)
class Quote:
    """A piece of a page and the figures in it; None stands for "not run" or a dash, `…` in the piece for any text."""

    template: str
    values: tuple[float | None, ...]
    tolerance: float = 0.0  # 0: the figure is the value, rounded to its digits
    holds: bool = True  # whether what the piece says is true

    @property
    def start(self) -> str:
        """How the piece begins, to name it in a message."""
        return self.template if len(self.template) <= 80 else f"{self.template[:79]}…"

    @property
    def pattern(self) -> re.Pattern[str]:
        """The piece with any figures; white space may differ, and figures may be bold."""
        parts = (re.split(r"\s+", part) for part in self.template.split("{}"))
        texts = [r"\s+".join(re.escape(word).replace("…", ".*?") for word in words) for words in parts]
        return re.compile(rf"(?:\*\*)?({NUMBER}|{NOTHING})(?:\*\*)?".join(texts), re.S)


class Checked(NamedTuple):
    """A page's text with current figures, what was wrong, and where quoted figures stand."""

    text: str
    problems: list[str]
    spans: list[tuple[int, int]]


def quote(template: str, *values: float | None, tolerance: float = 0.0) -> Quote:
    """A piece of a page, with `{}` for each of the values."""
    assert template.count("{}") == len(values), template
    return Quote(template, values, tolerance)


def claim(text: str, holds: bool) -> Quote:
    """A piece of a page without figures, and whether it is true."""
    return Quote(text, (), holds=bool(holds))


def row(label: str, *values: float | None, tolerance: float = 0.0) -> Quote:
    """A row of a table with one figure in each cell after the label."""
    return quote(f"| {label} | " + " | ".join(["{}"] * len(values)) + " |", *values, tolerance=tolerance)


def table(before: str, *rows: Quote) -> Quote:
    """Rows that follow one another below some text; for tables that have the same labels."""
    values = tuple(value for each in rows for value in each.values)
    return Quote("…".join([before, *(each.template for each in rows)]), values)


def spread_row(label: str, *cells: Sequence[float]) -> Quote:
    """A row of a table with mean ± standard deviation in each cell."""
    template = f"| {label} | " + " | ".join(["{} ± {}"] * len(cells)) + " |"
    return quote(template, *(value for cell in cells for value in cell))


def shown(value: float | None, like: str) -> str:
    """A value in the form of the figure that stands there: its digits, its sign, commas."""
    if value is None:
        return like if re.fullmatch(NOTHING, like) else "not run"
    digits = len(like.partition(".")[2]) if re.fullmatch(NUMBER, like) else 4
    text = f"{abs(value):,.{digits}f}"
    zero = not text.strip("0.,")
    sign = "−" if value < 0 and not zero else "+" if like.startswith("+") and not zero else ""
    return sign + text


def agrees(there: str, value: float | None, tolerance: float) -> bool:
    """Whether a figure on a page is that of its source."""
    if value is None or re.fullmatch(NOTHING, there):
        return value is None and re.fullmatch(NOTHING, there) is not None
    if shown(value, there).lstrip("+") == there.lstrip("+").replace("-", "−"):
        return True
    number = float(there.replace(",", "").replace("−", "-"))
    return abs(number - value) <= tolerance


def check(text: str, quotes: Iterable[Quote]) -> Checked:
    """Compare all quotes with a page."""
    problems, edits, spans = [], [], []
    for each in quotes:
        found = list(each.pattern.finditer(text))
        if len(found) != 1:
            problems.append(f"{'not' if not found else 'more than once'} on the page: {each.start}")
            continue
        if not each.values:
            spans.append(found[0].span())
        if not each.holds:
            problems.append(f"no longer true: {each.start}")
        for group, value in enumerate(each.values, 1):
            there = found[0][group]
            spans.append(found[0].span(group))
            if not agrees(there, value, each.tolerance):
                problems.append(f"{there} is now {shown(value, there)}: {each.start}")
                edits.append((found[0].span(group), shown(value, there)))
    for (start, end), new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return Checked(text, problems, spans)


def without_source(text: str, quotes: Iterable[Quote], fixed: Iterable[str] = ()) -> list[str]:
    """The figures of a page that are in no quote, each with the text around it.

    `fixed` are phrases whose figures are no measurements, such as the limits of a check.
    """
    spans = check(text, quotes).spans
    spans += [match.span() for pattern in (OTHER, MACHINE) for match in pattern.finditer(text)]
    for phrase in fixed:
        place = re.search(r"\s+".join(map(re.escape, phrase.split())), text)
        assert place, f"not on the page: {phrase!r}"
        spans.append(place.span())
    found = [match for match in FIGURE.finditer(text) if not any(a <= match.start() < b for a, b in spans)]
    return [" ".join(text[max(0, each.start() - 40) : each.end() + 30].split()) for each in found]
