"""The sections of a report, one module each, in order; the parts of a setup's section are modules too."""

from collections.abc import Mapping

from pfedeg.experiments.report.document import Section
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.sections import (
    client_data,
    comparison,
    overview,
    provenance,
    settings_compared,
    settings_used,
)
from pfedeg.experiments.report.significance import PairedTests

ORDER = (overview, comparison, client_data, settings_compared, settings_used, provenance)


def build_sections(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """All sections that are not empty."""
    return [section for module in ORDER for section in module.build(results, tests) if section.parts]
