"""The command `inspect`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from pfedeg.cli.options import (
    CONTEXT,
    SettingsCommand,
    config_option,
    console,
    force_option,
    json_option,
    preset_option,
    print_note,
    threads_option,
)
from pfedeg.text import plural

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
@click.option(
    "--write-map",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="write names that seem to mean the same as .tsv or .csv, to review and to pass to `pfedeg import --map`",
)
@click.option("--no-measure", is_flag=True, help="do not measure times; finishes in seconds")
@preset_option
@config_option
@threads_option
@force_option
@json_option
def inspect(
    path: Path,
    picture: Path | None,
    write_map: Path | None,
    no_measure: bool,
    preset: str | None,
    file: Path | None,
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
      pfedeg inspect my-folder --config settings.toml --write-map names.tsv
      pfedeg inspect fb15k-237-fed3.parquet --model rotate --dim 256 --json
    """
    from dataclasses import asdict

    from pfedeg.cli.inspection_view import show, show_estimates
    from pfedeg.files import check_output
    from pfedeg.graphs.federation import Federation
    from pfedeg.inspection.cost_estimate import estimate, resident_bytes
    from pfedeg.inspection.findings import inspect_federation
    from pfedeg.inspection.heatmap import write_picture
    from pfedeg.inspection.name_mending import check_map, map_names
    from pfedeg.inspection.name_mending import write_map as write_names
    from pfedeg.inspection.spelling_variants import find_groups
    from pfedeg.plots import check_picture

    configs = list_configs(flags, preset, file)
    if picture:
        check_picture(picture, force)
    if write_map:
        check_map(write_map)
        check_output(write_map, force)
    federation = Federation.read(path, configs[0].seed)
    resident = resident_bytes()
    entity, relation = federation.shared(), federation.shared("relation")
    inspection = inspect_federation(federation, entity, relation)
    if picture:
        write_picture(picture, inspection.overlap)
        print_note(f"wrote {picture}")
    if write_map:
        new_names = map_names(federation, find_groups(federation))
        check_map(write_map, new_names)
        write_names(write_map, new_names)
        print_note(f"wrote {plural(len(new_names), 'name')} to {write_map}; review them before pfedeg import --map")
    if not as_json:
        show(inspection, console(), federation.labels, path)
    estimates = estimate(federation, entity, relation, configs, resident, threads, not no_measure, print_note)
    if as_json:
        click.echo(json.dumps(asdict(inspection) | {"estimates": asdict(estimates)}, ensure_ascii=False))
    else:
        show_estimates(estimates, console())


def list_configs(flags: Mapping[str, Any], preset: str | None, file: Path | None = None) -> list["Config"]:
    """The settings for every combination of method and model that the flags and the file allow."""
    from pfedeg.files import read_toml
    from pfedeg.methods.registry import METHODS
    from pfedeg.models.registry import MODELS
    from pfedeg.training.config import configure

    if file:
        configure(flags, preset, file)  # checks it
        saved = read_toml(file)
        preset = preset or saved.pop("preset", None)
        saved.pop("preset", None)
        flags = saved | {name: value for name, value in flags.items() if value is not None}
    found = []
    for model in [flags["model"]] if flags.get("model") else MODELS:
        for method in [flags["method"]] if flags.get("method") else METHODS:
            given = {**flags, "model": model, "method": method}
            if not flags.get("method") and not METHODS.get(method).is_federated:
                given.pop("epochs", None)  # a round of these methods is always one epoch
            found.append(configure(given, preset)[0])
    return found
