"""The paper's results and our reproduction of them, as the files in results/ have them."""

import re
from functools import cache, partial

from results import ROOT, result

LABELS = {
    "single": "Single",
    "fede": "FedE",
    "fedec": "FedEC",
    "collective": "Collective",
    "pfedeg-star": "PFedEG\\*",
    "pfedeg-plus": "PFedEG+",
    "pfedeg-plus-reg": "PFedEG+\\_Reg",
    "pfedeg-plus-init": "PFedEG+\\_Init",
}


@cache
def markdown_table(path: str, start: str) -> list[list[str]]:
    """The cells of the table that begins with a header."""
    text = (ROOT / "results" / path).read_text(encoding="utf-8")
    lines = text[text.index(start) :].split("\n\n")[0].splitlines()
    return [[cell.strip().replace("**", "") for cell in line.strip("|").split(" | ")] for line in lines]


@cache
def _published() -> dict[str, dict[str, float]]:
    """The paper's test MRR by data/model and method, as results/small/report.md lists it in brackets."""
    header, _, *rows = markdown_table("small/report.md", "|  | Collective |")
    methods = [next(name for name, label in LABELS.items() if label == each) for each in header[1:]]
    found: dict[str, dict[str, float]] = {}
    for label, *cells in rows:
        key = "/".join(label.split(" (")[0].lower().split(", "))
        for method, cell in zip(methods, cells, strict=True):
            if match := re.search(r"\((0\.\d+)\)", cell):
                found.setdefault(key, {})[method] = float(match[1])
    return found


PAPER = _published()


def kept(name: str, method: str, metric: str = "mrr", folder: str = "paper-tables") -> float:
    """A weighted test metric of a kept run."""
    return float(result(f"{folder}/{name}/{method}/seed-0")["test"]["weighted"][metric])


small = partial(kept, folder="small/tables")
