"""The command `export`."""

from pathlib import Path

import click

from pfedeg.cli.options import CONTEXT, client_option, force_option
from pfedeg.text import plural


def complete_format(context: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """The formats that a shell may complete."""
    from pfedeg.exporting.registry import FORMATS

    return [name for name in FORMATS if name.startswith(begun)]


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@client_option("export only this client  [default: all clients, a subfolder each]", required=False)
@click.option(
    "--to",
    "format",
    required=True,
    metavar="FORMAT",
    help="one of the formats above",
    shell_complete=complete_format,
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="a new folder")
@force_option
def export(run: Path, client: str | None, format: str, out: Path, force: bool) -> None:
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

    click.echo(f"wrote {plural(len(export_run(run, out, format, client, force)), 'client')} to {out}")
