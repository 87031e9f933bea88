"""Chooses the display label of each imported name: from a file of labels, else a table's label column, else RDF."""

from collections.abc import Iterable

from pfedeg.graphs.triples import normal

LABELS = {  # preference as display labels, lower is better
    "http://www.w3.org/2004/02/skos/core#prefLabel": 0,
    "http://www.w3.org/2000/01/rdf-schema#label": 1,
}
FILE, COLUMN = (-2, 0), (-1, 0)  # ranks before any of RDF


class LabelChoice:
    """Labels seen so far; of several labels of a name, that of the best rank is kept, and the first of that rank."""

    def __init__(self, language: str) -> None:
        """Start empty, with a preferred language."""
        self._language = language.lower()
        self._best: dict[str, tuple[tuple[int, int], str]] = {}
        self.other: dict[str, str] = {}  # names with another label in a label column, which is not used
        self.in_file: set[str] = set()

    def add_literal(self, name: str, relation: str, value: str, language: str | None) -> None:
        """A label in RDF; the preferred language comes first."""
        tag, wanted = (language or "").lower(), self._language
        related = tag.split("-")[0] == wanted.split("-")[0]
        self._add(name, value, (0 if tag == wanted else 1 if related else 2 if not tag else 3, LABELS[relation]))

    def add_cell(self, name: str, label: str) -> None:
        """A label in the label column of a table."""
        name, label = normal(name), label.strip()
        before = self._best.get(name)
        if before and before[0] == COLUMN and label and label != before[1]:
            self.other.setdefault(name, label)
        self._add(name, label, COLUMN)

    def add_file(self, labels: Iterable[tuple[int, str, str]]) -> None:
        """The lines of a file of labels."""
        for _, name, label in labels:
            self.in_file.add(name)
            self._add(name, label, FILE)

    def chosen(self) -> dict[str, str]:
        """The label of each name."""
        return {name: label for name, (_, label) in self._best.items()}

    def _add(self, name: str, label: str, rank: tuple[int, int]) -> None:
        if label.strip() and (name not in self._best or rank < self._best[name][0]):
            self._best[name] = rank, label
