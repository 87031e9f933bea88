"""The options --names, --map and --prefix, and the lines that say what became of names."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

NAME_LENGTH = 80  # longest printed name
FORMS = {"label": "label", "local": "local name"}


def naming_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that rewrite names before clients are compared."""
    names = click.option(
        "--names",
        type=click.Choice(["full", "local", "label"]),
        default="full",
        help="keep names, or replace IRIs by their local name or by their label",
    )
    map_ = click.option(
        "--map",
        "map_",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="new names: a TSV, CSV or Parquet file with an old and a new name per line",
    )
    prefix = click.option(
        "--prefix",
        "prefixes",
        multiple=True,
        metavar="P:IRI",
        help="declare a prefix, as in ex:http://example.org/, for names such as ex:Peru; may be repeated",
    )
    return names(map_(prefix(function)))


def naming_lines(report: Mapping[str, Mapping[str, Any]], form: str) -> Iterator[str]:
    """What became of the names of a client, from `report_naming`."""
    texts = {
        "trimmed": "names trimmed (surrounding spaces)",
        "expanded": "names with a declared prefix expanded",
        "mapped": "names changed by the map",
        "formed": f"names replaced by their {FORMS.get(form, 'label')}",
        "ambiguous": f"{FORMS.get(form, 'label')}s of several names, which keep their own",
        "merged": "names that several names became",
        "unknown_in_map": "names in the map that do not occur",
    }
    for kind, text in texts.items():
        if kind in report:
            hint = "; name them with --map" if kind == "ambiguous" else ""
            yield f"{text}: {report[kind]['names']:,}, e.g. {_example(report[kind]['example'])}{hint}"


def _example(example: Any) -> str:
    """A name, an old and a new name, or a name with those that became it."""
    if isinstance(example, str):
        return brief(repr(example))
    first, second = example
    if isinstance(second, str):
        return f"{brief(repr(first))} → {brief(repr(second))}"
    more = ", …" if len(second) > 3 else ""
    return f"{brief(repr(first))} ({', '.join(brief(repr(name)) for name in second[:3])}{more})"


def brief(name: str) -> str:
    """A name, cut if it is long."""
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"
