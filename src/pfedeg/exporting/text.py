"""Entities as lines of text: word2vec, and the pair of files that TensorBoard's projector shows."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from pfedeg.errors import InputError
from pfedeg.exporting.trained import Trained
from pfedeg.models.base import Mat

CONTROLS = r"\x00-\x1f\x7f-\x9f"
IN_WORDS = re.compile(rf"[%\s{CONTROLS}]")  # what would end a word, and the sign that escapes
IN_LINES = re.compile(rf"[%{CONTROLS}]|[^\S ]|\A | \Z")  # the same of a line, in which single words may stand apart
PROJECTOR = """embeddings {
  tensor_name: "entities"
  tensor_path: "tensors.tsv"
  metadata_path: "metadata.tsv"
}
"""


def escaped(name: str, signs: re.Pattern[str] = IN_WORDS) -> str:
    """A name as a single word: white space, control characters and % as in addresses of the web."""
    return signs.sub(lambda found: quote(found[0], safe=""), name)


def unescaped(word: str) -> str:
    """The counterpart of `escaped`."""
    return unquote(word, errors="strict")


def write_word2vec(trained: Trained, folder: Path) -> None:
    """entities.txt: a line with the number of entities and the width, then a line per entity."""
    table = trained.tables.entity
    with open(folder / "entities.txt", "w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(table)} {table.shape[1]}\n")
        for name, numbers in zip(_names(trained, IN_WORDS), _rows(table), strict=True):
            file.write(f"{name} {' '.join(numbers)}\n")


def write_projector(trained: Trained, folder: Path) -> None:
    """tensors.tsv, metadata.tsv and the file by which TensorBoard finds them."""
    with open(folder / "tensors.tsv", "w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(numbers) + "\n" for numbers in _rows(trained.tables.entity))
    with open(folder / "metadata.tsv", "w", encoding="utf-8", newline="\n") as file:
        if trained.graph.labels:  # several columns have a heading, a single one has none
            file.write("name\tlabel\n")
            labels = (escaped(trained.graph.shown(name), IN_LINES) for name in trained.graph.entities)
            pairs = zip(_names(trained, IN_LINES), labels, strict=True)
            file.writelines(f"{name}\t{label}\n" for name, label in pairs)
        else:
            file.writelines(f"{name}\n" for name in _names(trained, IN_LINES))
    (folder / "projector_config.pbtxt").write_text(PROJECTOR, encoding="utf-8", newline="\n")


def _names(trained: Trained, signs: re.Pattern[str]) -> Iterator[str]:
    for name in trained.graph.entities:
        if not name:
            text = "an entity has an empty name, which a text file cannot carry; export to parquet"
            raise InputError(f"client {trained.client!r}: {text}")
        yield escaped(name, signs)


def _rows(table: Mat) -> Iterator[list[str]]:
    """The numbers of each row, in as few digits as tell them from all other float32."""
    import pyarrow as pa

    for row in table:
        yield pa.array(row).cast(pa.string()).to_pylist()
