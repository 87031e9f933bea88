"""The command that hands trained tables to other programs."""

from pathlib import Path

import click

from pfedeg.cli.options import CONTEXT
from pfedeg.text import plural


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--client", metavar="NAME", help="whose tables  [all clients, a subfolder each]")
@click.option("--to", "kind", required=True, metavar="FORMAT", help="one of the formats above")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="the new folder")
def export(run: Path, client: str | None, kind: str, out: Path) -> None:
    """Write the tables of a finished RUN, with names, for other programs.

    \b
    Formats, and what is in the folder:
      parquet       entities.parquet, relations.parquet: name, vector
      safetensors   tables.safetensors, as in the run directory
      numpy         tables.npz: tables and names
      word2vec      entities.txt: a line per entity
      projector     tensors.tsv, metadata.tsv and a configuration, for TensorBoard
      pykeen        trained_model.pkl, which gives the same scores, and the client's training triples

    \b
    Examples:
      pfedeg export runs/mine --client atlas --to parquet --out tables
      pfedeg export runs/mine --to pykeen --out for-pykeen
    """
    from pfedeg.exporting import write

    click.echo(f"wrote {plural(write(run, out, kind, client), 'client')} to {out}")
