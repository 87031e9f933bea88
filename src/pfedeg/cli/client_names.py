"""The command `pfedeg client names`, and the check of a client's names before they become alignment tokens."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pfedeg.cli.federation import FOLDER, check_flower
from pfedeg.cli.naming import brief, naming_lines, naming_options
from pfedeg.cli.options import CONTEXT, print_note
from pfedeg.text import plural, printable

if TYPE_CHECKING:
    from pfedeg.network.operations.client_folder import ClientConfig


@click.command("names", context_settings=CONTEXT)
@FOLDER
@naming_options
def client_names(folder: Path, names: str, map_: Path | None, prefixes: tuple[str, ...]) -> None:
    """Check how this client writes names, or change it.

    Clients align only names that they write alike. With --names, --map or --prefix, names are rewritten before tokens
    are made, from the next run on; the client must be stopped. Without these options, shows the names as they are now.

    \b
    Examples:
      pfedeg client names me
      pfedeg client names me --names label --map names.tsv
    """
    check_flower()
    from pfedeg.network.operations.client_folder import ClientFolder

    home, context = ClientFolder(folder), click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    if any(context.get_parameter_source(name) != default for name in ("names", "map_", "prefixes")):
        home.set_naming(names, map_, prefixes)
    for line in names_check(home.config):
        click.echo(printable(line))
    print_note("all clients must write names alike; agree on --names with the others")


def names_check(config: "ClientConfig") -> Iterator[str]:
    """How a client writes names, what its options change, and names that may mean the same."""
    from pfedeg.cli.naming_hints import inside_lines
    from pfedeg.graphs.federation import Federation
    from pfedeg.graphs.naming import Naming, is_iri, is_shortened, report_naming
    from pfedeg.inspection.spelling_variants import find_groups, find_variants
    from pfedeg.network.operations.client_folder import read_graph

    before = read_graph(replace(config, names="full", map=None, prefixes=()), 0)
    graph = read_graph(config, 0)
    iris = [name for name in graph.entities if is_iri(name)]
    labelled = [name for name in iris if name in graph.labels and not is_shortened(name, graph.labels[name])]
    text = f"{plural(len(graph.entities), 'entity')}, of which {len(iris):,} have an IRI as name"
    yield f"{text}, {len(labelled):,} of these with a label; e.g. {brief(repr(next(iter(iris or graph.entities))))}"
    naming = Naming.of(config.names, config.prefixes, config.map)
    if not naming.is_plain:
        entities, relations = (naming.rename(part, before.labels) for part in (before.entities, before.relations))
        yield from (f"  {line}" for line in naming_lines(report_naming(naming, entities, relations), config.names))
    elif spaced := [name for name in graph.entities if name != name.strip()]:
        yield f"  names with surrounding spaces: {len(spaced):,}, e.g. {brief(repr(spaced[0]))}"
    if config.names == "full" and labelled:
        yield "  if other clients use labels as names: --names label"
    elif config.names == "full" and iris:
        yield "  if other clients use local names: --names local"
    yield from inside_lines(find_variants(find_groups(Federation({config.name: graph}))))
