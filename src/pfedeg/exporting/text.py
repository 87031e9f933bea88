"""Export of entities as text: word2vec, and the files of TensorBoard's embedding projector."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from pfedeg.errors import InputError
from pfedeg.exporting.trained import Trained
from pfedeg.models.base import Mat

CONTROLS = r"\x00-\x1f\x7f-\x9f"
IN_WORDS = re.compile(rf"[%\s{CONTROLS}]")  # what would end a word, and the escape character
IN_LINES = re.compile(rf"[%{CONTROLS}]|[^\S ]|\A | \Z")  # the same for a line, which may contain single spaces
PROJECTOR = """embeddings {
  tensor_name: "entities"
  tensor_path: "tensors.tsv"
  metadata_path: "metadata.tsv"
}
"""


def escaped(name: str, special: re.Pattern[str] = IN_WORDS) -> str:
    """A name as a single word: white space, control characters and % are percent-encoded."""
    return special.sub(lambda found: quote(found[0], safe=""), name)


def unescaped(word: str) -> str:
    """The inverse of `escaped`."""
    return unquote(word, errors="strict")


def write_word2vec(trained: Trained, folder: Path) -> None:
    """entities.txt: a line with the number of entities and the width, then a line per entity."""
    table = trained.tables.entity
    with open(folder / "entities.txt", "w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(table)} {table.shape[1]}\n")
        for name, numbers in zip(_names(trained, IN_WORDS), _rows(table), strict=True):
            file.write(f"{name} {' '.join(numbers)}\n")


def write_projector(trained: Trained, folder: Path) -> None:
    """tensors.tsv, metadata.tsv and the configuration that TensorBoard reads."""
    with open(folder / "tensors.tsv", "w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(numbers) + "\n" for numbers in _rows(trained.tables.entity))
    with open(folder / "metadata.tsv", "w", encoding="utf-8", newline="\n") as file:
        if trained.graph.labels:  # the projector expects a header only if there are several columns
            file.write("name\tlabel\n")
            labels = (escaped(trained.graph.display_name(name), IN_LINES) for name in trained.graph.entities)
            pairs = zip(_names(trained, IN_LINES), labels, strict=True)
            file.writelines(f"{name}\t{label}\n" for name, label in pairs)
        else:
            file.writelines(f"{name}\n" for name in _names(trained, IN_LINES))
    (folder / "projector_config.pbtxt").write_text(PROJECTOR, encoding="utf-8", newline="\n")


def _names(trained: Trained, special: re.Pattern[str]) -> Iterator[str]:
    for name in trained.graph.entities:
        if not name:
            text = "an entity has an empty name, which a text file cannot represent; export to parquet"
            raise InputError(f"client {trained.client!r}: {text}")
        yield escaped(name, special)


def _rows(table: Mat) -> Iterator[list[str]]:
    """The numbers of each row, with the fewest digits that identify each float32."""
    import pyarrow as pa

    for row in table:
        yield pa.array(row).cast(pa.string()).to_pylist()
