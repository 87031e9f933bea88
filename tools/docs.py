"""Writes what in the docs derives from the code (settings, line numbers); --check only tells whether it is up to date.

A link like [`mix` strategies/affinity.py:46](../src/pfedeg/strategies/affinity.py#L46) follows what it names.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from pfedeg.training.config import PRESETS, Config, choices, users, value_type

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[`(?P<name>[\w.]+)` (?P<short>[\w/.]+):\d+\]\((?P<path>[\w/.]+\.py)#L\d+\)")


def settings_page() -> str:
    """docs/settings.md, from `Config`."""
    lines = [
        "# Settings",
        "",
        "Generated from `src/pfedeg/config.py` by `make docs`. Every setting is a flag of `pfedeg train`",
        "(`eval_every` is `--eval-every`), a line of a TOML file (`--config`), and an argument of `pfedeg.Config` and",
        "`pfedeg.train`. Flags go over the file, the file over the preset.",
        "",
        "| setting | values | default | meaning | used by |",
        "|---|---|---|---|---|",
    ]
    for item in fields(Config):
        meta = item.metadata
        allowed = choices(item)
        values = ", ".join(f"`{value}`" for value in allowed) if allowed else _range(value_type(item).__name__, meta)
        default = "see text" if item.default is None else f"`{item.default}`"
        lines.append(f"| `{item.name}` | {values} | {default} | {meta['help']} | {users(item)} |")
    lines += ["", "## Presets", ""]
    for name, preset in PRESETS.items():
        text = ", ".join(f"`{key} = {value}`" for key, value in preset.items()) or "the defaults, which are the paper's"
        lines.append(f"- `{name}`: {text}")
    lines += [
        "",
        "A file looks like this:",
        "",
        "```toml",
        'preset = "quick"',
        'method = "pfedeg-star"',
        'model = "rotate"',
        "p = 0.7",
        "```",
        "",
    ]
    return "\n".join(lines)


def _range(kind: str, meta: Mapping[str, float | None]) -> str:
    words = {"int": "whole number", "float": "number"}[kind]
    bounds = [
        f"{sign} {meta[name]}"
        for name, sign in (("least", "≥"), ("above", ">"), ("most", "≤"))
        if meta[name] is not None
    ]
    return " ".join([words, ", ".join(bounds)]).strip()


def follow_links(page: Path, text: str) -> str:
    """The text with every link's line number as it is now."""

    def update(match: re.Match[str]) -> str:
        name, path = match["name"], match["path"]
        source = (page.parent / path).read_text(encoding="utf-8").splitlines()
        leaf = name.rsplit(".", 1)[-1]
        definition = re.compile(rf"\s*(def|class) {leaf}\b|{leaf}\b.*[:=]")
        found = [number for number, line in enumerate(source, 1) if definition.match(line)]
        if not found:
            raise SystemExit(f"{page.relative_to(ROOT)}: {path} defines no {name}")
        return f"[`{name}` {match['short']}:{found[0]}]({path}#L{found[0]})"

    return LINK.sub(update, text)


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    pages = sorted(
        {ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "settings.md", *(ROOT / "docs").glob("*.md")}
    )
    for page in pages:
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        after = settings_page() if page.name == "settings.md" else follow_links(page, before)
        if after != before:
            stale.append(page.relative_to(ROOT))
            if not options.check:
                page.write_text(after, encoding="utf-8")
    if stale:
        verb = "stale, run `make docs`:" if options.check else "updated:"
        print(verb, ", ".join(map(str, stale)))
    sys.exit(1 if stale and options.check else 0)


if __name__ == "__main__":
    main()
