"""Inspection from Python: `pfedeg.inspect` and `pfedeg.estimate_cost`."""

from pfedeg.engine.interface import check_threads
from pfedeg.graphs.federation import Federation, require_federation
from pfedeg.inspection.cost_estimate import Estimates, estimate, resident_bytes
from pfedeg.inspection.findings import Inspection, inspect_federation
from pfedeg.training.config import Config, require_config
from pfedeg.training.progress import ProgressLine


def inspect(federation: Federation) -> Inspection:
    """Check a `federation` before training: sizes, overlap, leakage, spelling variants and hints, as `pfedeg inspect`.

    Nothing is trained; `estimate_cost` says what training would cost.
    """
    return inspect_federation(require_federation(federation))


def estimate_cost(
    federation: Federation,
    *configs: Config,
    measure: bool = True,
    threads: int | None = None,
    progress: bool = False,
) -> Estimates:
    """The memory and time that training on a `federation` would take, for each of the `configs` (default: one).

    With `measure`, times are measured by training a few batches on so many `threads` (default: all cores). Without,
    only memory is estimated. `progress` shows on stderr what is measured.
    """
    federation, chosen = require_federation(federation), [require_config(config) for config in configs or (None,)]
    check_threads(threads)
    resident, line = resident_bytes(), ProgressLine("estimating")
    entity, relation = federation.shared(), federation.shared("relation")

    def report(text: str) -> None:
        if progress:
            line.show(text, True)

    try:
        return estimate(federation, entity, relation, chosen, resident, threads, measure, report)
    finally:
        line.clear()
