"""Reads and writes calibration.json: the points of a client's curves from scores to probabilities."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.checked_files import parse_json, write_json
from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import Side
from pfedeg.training.link_prediction import Calibration


def write_calibrations(path: Path, curves: Mapping[Side, Calibration]) -> None:
    """Write the curves for predicted tails and heads."""
    content = {str(side): {name: list(points) for name, points in vars(curves[side]).items()} for side in curves}
    write_json(path, content)


def read_calibrations(path: Path) -> dict[Side, Calibration]:
    """The curves in a file, checked; none if there is no file."""
    if not path.exists():
        return {}
    try:
        content: dict[str, Any] = parse_json(path.read_bytes())
        if "scores" in content:  # written by a version that calibrated tails only
            content = {"tail": content}
        sides: tuple[Side, ...] = ("tail", "head")
        return {side: _curve(content[side]) for side in sides if side in content}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: damaged ({error}); remove it, or run `pfedeg calibrate` again") from None


def _curve(content: Mapping[str, Any]) -> Calibration:
    """A curve from its points; ValueError if it is none."""
    points = np.array([content["scores"], content["probabilities"]], np.float64)
    rising = points.shape[1] > 0 and bool((np.diff(points) >= 0).all())
    if not np.isfinite(points).all() or not rising or points[1, 0] < 0 or points[1, -1] > 1:
        raise ValueError("not a rising curve of probabilities")
    cases = tuple(content.get("cases", ()))
    if len(cases) not in (0, points.shape[1]) or not all(isinstance(each, int) and each > 0 for each in cases):
        raise ValueError("cases are not a number of answers for each point")
    return Calibration(tuple(points[0].tolist()), tuple(points[1].tolist()), cases)
