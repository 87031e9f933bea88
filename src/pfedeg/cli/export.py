"""The command `export`."""

from pathlib import Path

import click

from pfedeg.cli.options import CONTEXT
from pfedeg.text import plural


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--client", metavar="NAME", help="export only this client  [all clients, a subfolder each]")
@click.option("--to", "format", required=True, metavar="FORMAT", help="one of the formats above")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="a new folder")
def export(run: Path, client: str | None, format: str, out: Path) -> None:
    """Export the tables of a RUN to other programs.

    RUN must be finished. Tables are written with the names of entities and relations.

    \b
    Formats and their files:
      parquet       entities.parquet, relations.parquet: columns name, vector
      safetensors   tables.safetensors, as in the run folder
      numpy         tables.npz: tables and names
      word2vec      entities.txt: one line per entity
      projector     tensors.tsv, metadata.tsv and a configuration for TensorBoard
      pykeen        trained_model.pkl with the same scores, and the client's training triples

    \b
    Examples:
      pfedeg export runs/mine --client atlas --to parquet --out tables
      pfedeg export runs/mine --to pykeen --out for-pykeen
    """
    from pfedeg.exporting.registry import export as export_run

    click.echo(f"wrote {plural(len(export_run(run, out, format, client)), 'client')} to {out}")
