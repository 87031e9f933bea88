"""The command `calibrate`."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedeg.cli.options import CONTEXT, client_option, console, force_option, json_option, print_note, threads_option
from pfedeg.errors import InputError
from pfedeg.text import plural, printable

if TYPE_CHECKING:
    from pfedeg.graphs.knowledge_graph import Side
    from pfedeg.prediction.calibration import Bin, Fit
    from pfedeg.training.link_prediction import Calibration
    from pfedeg.training.saved_run import Run


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@client_option("calibrate only this client  [default: all clients]", required=False)
@click.option(
    "--method",
    "kind",
    type=click.Choice(["isotonic", "platt"]),
    default="isotonic",
    help="how to fit the curve",
)
@click.option("--picture", type=click.Path(path_type=Path), help="draw a reliability plot, NAME.png or NAME.svg")
@force_option
@threads_option
@json_option
def calibrate(
    run: Path, client: str | None, kind: Any, picture: Path | None, force: bool, threads: int | None, as_json: bool
) -> None:
    """Turn the scores of a RUN into probabilities.

    Each client gets two curves, for predicted tails and for predicted heads. They are fitted on valid triples and
    checked on test triples. A probability is the share of held-out triples among the ten best answers with similar
    scores, and n is the number of these answers. True answers that are not in the graph count as wrong. From then on,
    `pfedeg predict` shows probabilities.

    \b
    Example:
      pfedeg calibrate runs/mine --picture reliability.png
    """
    from pfedeg.cli.tables import progress_bar, time_left
    from pfedeg.engine.interface import default_engine
    from pfedeg.plots import check_picture, write_picture
    from pfedeg.prediction.calibration import as_rows, calibration_error, figure_of
    from pfedeg.training.saved_run import Run

    if picture is not None:
        check_picture(picture, force)
    opened = Run(run, default_engine(threads))
    opened.require_finished()
    fitted: dict[str, dict[Side, Calibration]] = {}
    checked: dict[str, dict[Side, list[Bin]]] = {}
    skipped: list[InputError] = []
    began, names = time.monotonic(), [opened.find_client(client)] if client else list(opened.clients)
    with progress_bar(console(stderr=True), "calibrating", len(names)) as show:
        for place, name in enumerate(names):
            note = f"{name}, {place + 1} of {plural(len(names), 'client')}{time_left(began, place, len(names))}"
            show(place, note, False)
            curves, measured, problems = _fit(opened, name, kind)
            skipped += problems
            if curves:
                fitted[name], checked[name] = curves, measured
    if not fitted:
        raise skipped[0]
    for problem in skipped:
        print_note(f"skipped: {problem}")
    if picture is not None:
        write_picture(picture, figure_of(checked))
    for name, curves in fitted.items():
        opened.calibrate(name, curves)
    if as_json:
        result = {
            name: {
                side: {"error": calibration_error(bins), "bins": list(as_rows(bins))} for side, bins in found.items()
            }
            for name, found in checked.items()
        }
        click.echo(json.dumps(result, ensure_ascii=False))
        return
    for name, found in checked.items():
        for direction, several in found.items():
            answers = plural(sum(each.answers for each in several), "test answer")
            click.echo(
                printable(f"{name}, {direction}s: calibration error {calibration_error(several):.3f} ({answers})")
            )
            for each in several:
                click.echo(f"  predicted {each.predicted:.2f}, observed {each.observed:.2f} (n = {each.answers:,})")


def _fit(
    run: "Run", client: str, kind: "Fit"
) -> "tuple[dict[Side, Calibration], dict[Side, list[Bin]], list[InputError]]":
    """A client's curves, how they fit test triples, and why a direction has no curve."""
    from pfedeg.prediction.calibration import collect, fit, reliability

    curves: dict[Side, Calibration] = {}
    checked: dict[Side, list[Bin]] = {}
    problems, graph = [], run.graph(client)
    sides: tuple[Side, ...] = ("tail", "head")
    for side in sides:
        answerer = run.answerer(client, side)
        try:
            where = f"{run.path}, client {client!r}, predicting {side}s"
            curves[side] = fit(collect(answerer, graph, "valid", ["train"]), kind, where)
        except InputError as error:
            problems.append(error)
            continue
        checked[side] = reliability(curves[side], collect(answerer, graph, "test", ["train", "valid"]))
    return curves, checked, problems
