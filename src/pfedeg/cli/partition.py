"""The command `partition`."""

from pathlib import Path

import click

from pfedeg.cli.options import CONTEXT, force_option, print_note
from pfedeg.text import plural


@click.command(context_settings=CONTEXT)
@click.argument("graph", type=click.Path(path_type=Path))
@click.option("--clients", type=int, required=True, metavar="N", help="number of clients")
@click.option("--by", type=click.Choice(["relation"]), default="relation", help="how triples are assigned to clients")
@click.option("--seed", type=click.IntRange(0), default=0, metavar="N", help="random seed")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="folder to create, with a subfolder per client"
)
@force_option
def partition(graph: Path, clients: int, by: str, seed: int, out: Path, force: bool) -> None:
    """Divide one GRAPH into a federation.

    All splits are pooled, the relations are divided evenly at random, and each client gets new splits.

    GRAPH is a TSV file, a folder with train.tsv (valid.tsv, test.tsv) or triples.tsv, or a Parquet file.

    \b
    Example:
      pfedeg partition fb15k-237.parquet --clients 3 --seed 0 --out fb15k-237-fed3
    """
    from pfedeg.files import check_output
    from pfedeg.graphs.federation import partition as divide
    from pfedeg.graphs.federation_files import FILES, read_pooled
    from pfedeg.graphs.triple_files import read_labels

    check_output(out, force, FILES)
    federation = divide(read_pooled(graph), clients, seed, read_labels(graph))
    federation.write(out, force)
    for name, part in federation.graphs.items():
        sizes = f"{len(part.train):,} train, {len(part.valid):,} valid, {len(part.test):,} test"
        print_note(f"{name}: {len(part.entities):,} entities, {plural(len(part.relations), 'relation')}, {sizes}")
    click.echo(f"wrote {plural(len(federation.graphs), 'client')} to {out}")
