"""Where every figure on a page comes from: committed results, or the runs that the page itself makes."""

from pathlib import Path

from figures import Quote

from quotes import choosing, measurements, readme, reproduction, tutorial

COMMITTED = {  # page → figures from results/, docs/plots and plans/
    "README.md": readme.QUOTES,
    "docs/choosing.md": choosing.QUOTES,
    "docs/measurements.md": measurements.QUOTES,
    "docs/reproduction.md": reproduction.QUOTES,
}
MADE = {"README.md": readme.made, "docs/tutorial.md": tutorial.made}  # page → figures from the runs it makes
FIXED = {  # figures that are no measurements: limits, sizes, settings
    "README.md": readme.FIXED,
    "docs/choosing.md": choosing.FIXED,
    "docs/measurements.md": measurements.FIXED,
    "docs/reproduction.md": reproduction.FIXED,
    "docs/tutorial.md": tutorial.FIXED,
    "docs/deployment.md": ("valid for 825 days",),
    "docs/experiments.md": ("2,000 draws",),
    "docs/predictions.md": ("a step of 20 answers lies between 0.05 and 0.95",),  # (k + 1) / (n + 2)
    "docs/inspect.md": ("at least 80 % of the entity pairs", "median, 90 % quantile"),
}


def of_runs(page: str, folder: Path) -> list[Quote]:
    """The figures of a page that come from the runs it makes in a folder."""
    return MADE[page](folder)
