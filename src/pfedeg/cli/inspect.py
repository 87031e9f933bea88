"""The command `inspect`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from pfedeg.cli.options import (
    CONTEXT,
    SettingsCommand,
    console,
    force_option,
    json_option,
    preset_option,
    print_note,
    threads_option,
)

if TYPE_CHECKING:
    from pfedeg.training.config import Config


class InspectCommand(SettingsCommand):
    """`inspect` estimates every method and model that is not named."""

    part_defaults: ClassVar[Mapping[str, str]] = {"method": "all", "model": "all"}


@click.command(cls=InspectCommand, context_settings=CONTEXT)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--picture", type=click.Path(path_type=Path), metavar="FILE", help="draw the overlap of clients as .png or .svg"
)
@click.option("--no-measure", is_flag=True, help="do not measure times; finishes in seconds")
@preset_option
@threads_option
@force_option
@json_option
def inspect(
    path: Path,
    picture: Path | None,
    no_measure: bool,
    preset: str | None,
    threads: int | None,
    force: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Check the federation at PATH before training.

    Shows sizes, overlap, leakage, spelling variants and the cost of training. PATH is as for `pfedeg train`. Memory
    and time are estimated for every method and model, unless --method and --model are given. Times are measured by
    training a few batches of this data.

    \b
    Examples:
      pfedeg inspect world
      pfedeg inspect my-folder --no-measure --picture overlap.png
      pfedeg inspect fb15k-237-fed3.parquet --model rotate --dim 256 --json
    """
    from dataclasses import asdict

    from pfedeg.cli.inspection_view import show, show_estimates
    from pfedeg.graphs.federation import Federation
    from pfedeg.inspection.cost_estimate import estimate, resident_bytes
    from pfedeg.inspection.findings import inspect_federation
    from pfedeg.inspection.heatmap import write_picture
    from pfedeg.plots import check_picture

    configs = list_configs(flags, preset)
    if picture:
        check_picture(picture, force)
    federation = Federation.read(path, configs[0].seed)
    resident = resident_bytes()
    entity, relation = federation.shared(), federation.shared("relation")
    inspection = inspect_federation(federation, entity, relation)
    if picture:
        write_picture(picture, inspection.overlap)
        print_note(f"wrote {picture}")
    if not as_json:
        show(inspection, console())
    estimates = estimate(federation, entity, relation, configs, resident, threads, not no_measure, print_note)
    if as_json:
        click.echo(json.dumps(asdict(inspection) | {"estimates": asdict(estimates)}, ensure_ascii=False))
    else:
        show_estimates(estimates, console())


def list_configs(flags: Mapping[str, Any], preset: str | None) -> list["Config"]:
    """The settings for every combination of method and model that the flags allow."""
    from pfedeg.methods.registry import METHODS
    from pfedeg.models.registry import MODELS
    from pfedeg.training.config import configure

    found = []
    for model in [flags["model"]] if flags.get("model") else MODELS:
        for method in [flags["method"]] if flags.get("method") else METHODS:
            given = {**flags, "model": model, "method": method}
            if not flags.get("method") and not METHODS.get(method).is_federated:
                given.pop("epochs", None)  # a round of these methods is always one epoch
            found.append(configure(given, preset)[0])
    return found
