"""A plan of runs, read from a TOML file with suspicion: datasets × models × methods × seeds × settings."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.files import read_toml
from pfedeg.models.registry import MODELS
from pfedeg.text import suggest
from pfedeg.training.config import METHODS, Config, configure, uses

GRID = ("data", "models", "methods", "seeds", "preset", "settings")  # what a [[grid]] may have of its own
KEYS = (*GRID, "title", "vary", "where", "choices", "grid")
AXES = ("data", "model", "method", "seed")
SETTINGS = tuple(item.name for item in fields(Config) if item.name not in AXES)


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    data: str
    model: str
    method: str
    seed: int
    varied: Mapping[str, Any]  # without what the method does not use
    config: Config

    @property
    def name(self) -> str:
        """Where it is, below the grid's folder."""
        parts = [self.data, self.model, self.method, f"seed-{self.seed}"]
        varied = "-".join(f"{name}-{value}" for name, value in self.varied.items())
        return "/".join([*parts, varied] if varied else parts)

    def fits(self, wanted: Mapping[str, Sequence[str]]) -> bool:
        """Whether it is one of those that are wanted."""
        return all(str(self.axis(name)) in values for name, values in wanted.items())

    def axis(self, name: str) -> Any:
        """Where it stands on an axis of the grid."""
        return getattr(self, name) if name in AXES else self.varied.get(name)


@dataclass(frozen=True)
class Plan:
    """What to run, in this order."""

    title: str
    cells: tuple[Cell, ...]
    varied: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """From a TOML file; docs/experiments.md describes it."""
        raw = read_toml(path)
        _check_names(path, raw, KEYS, "entry")
        title = _typed(path, "title", raw.get("title", path.stem), str, "a text")
        vary = _typed(path, "vary", raw.get("vary", {}), dict, "a table")
        _check_names(f"{path}: vary", vary, SETTINGS, "setting")
        if not all(isinstance(values, list) and values for values in vary.values()):
            raise InputError(f"{path}: vary: expected lists, as in epochs = [1, 3, 5]")
        chosen, remarks = _choices(path, raw.get("choices"))
        own = _rules(path, raw.get("where", []))
        cells: dict[str, Cell] = {}
        for part in _grids(path, raw):
            for cell in _cells(path, part, vary, [*chosen, *own]):
                before = cells.setdefault(cell.name, cell)
                if before.config != cell.config:
                    raise InputError(
                        f"{path}: {cell.name} is meant twice, with other settings; [vary] tells them apart"
                    )
        datasets = {cell.data for cell in cells.values()}
        for name in (name for rule in own for name in _names(rule.get("data", []))):
            if name not in datasets:
                raise InputError(f"{path}: [[where]]: data: no such dataset {name!r} here{suggest(name, datasets)}")
        return cls(title, tuple(cells.values()), tuple(vary), remarks)


def _grids(path: Path, raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What each [[grid]] has of its own, over what stands before them; settings are taken one by one."""
    grids = raw.get("grid", [{}])
    if not isinstance(grids, list) or not grids or not all(isinstance(grid, dict) for grid in grids):
        raise InputError(f"{path}: grid: expected tables that begin with [[grid]]")
    common = {"seeds": [0], **{key: value for key, value in raw.items() if key in GRID}}
    for grid in grids:
        _check_names(f"{path}: [[grid]]", grid, GRID, "entry")
        settings: dict[str, Any] = {}
        for table in (common.get("settings", {}), grid.get("settings", {})):
            settings |= _typed(path, "settings", table, dict, "a table, as in settings = { dim = 64 }")
        _check_names(f"{path}: settings", settings, SETTINGS, "setting")
        yield {**common, **grid, "settings": settings}


def _cells(path: Path, raw: Mapping[str, Any], vary: Mapping[str, list[Any]], rules: list[Any]) -> Iterator[Cell]:
    """The cells of one grid, dataset by dataset; settings that a method does not use make no cell of their own."""
    seeds, datasets = _list(path, raw, "seeds", int), _list(path, raw, "data", str)
    models, methods = _list(path, raw, "models", str), _list(path, raw, "methods", str)
    _check_known(path, "models", models, MODELS)
    _check_known(path, "methods", methods, METHODS)
    for name in datasets:
        if name in ("", ".", "..") or "/" in name or "\\" in name:
            raise InputError(f"{path}: data: {name!r} is no name; the folder is said by --data, as in data = ['world']")
    for seed, data, model, method in itertools.product(seeds, datasets, models, methods):
        for values in itertools.product(*vary.values()):
            varied = dict(zip(vary, values, strict=True))
            flags = {**raw["settings"], "model": model, "method": method, "seed": seed}
            for rule in rules:
                flags |= _applies(rule, {"data": data, "model": model, "method": method})
            try:
                config = configure({**flags, **varied}, raw.get("preset"))[0]
            except InputError as error:
                raise InputError(f"{path}: {data}, {model}, {method}: {error}") from None
            used = {name: value for name, value in varied.items() if uses(method, name)}
            yield Cell(data, model, method, seed, used, config)


def _typed(path: Path, key: str, value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"{path}: {key}: expected {expected}")
    return value


def _list(path: Path, raw: Mapping[str, Any], key: str, kind: type) -> list[Any]:
    values = raw.get(key)
    if not isinstance(values, list) or not values or not all(type(value) is kind for value in values):
        raise InputError(f"{path}: {key}: expected a list of {'names' if kind is str else 'whole numbers'}")
    return values


def _check_names(where: object, names: Iterable[str], known: Sequence[str], what: str) -> None:
    for name in names:
        if what == "setting" and name in AXES:
            raise InputError(
                f"{where}: {name} is no setting here; the plan's lists of data, models, methods, seeds say it"
            )
        if name not in known:
            raise InputError(f"{where}: unknown {what} {name!r}{suggest(name, known)}")


def _check_known(where: object, key: str, names: Iterable[Any], known: Iterable[str]) -> None:
    for name in names:
        if name not in list(known):
            raise InputError(f"{where}: {key}: unknown {name!r}{suggest(str(name), known)}")


def _choices(path: Path, name: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Settings that were chosen on validation data, from a file beside the plan; a remark if it is not there yet."""
    if name is None:
        return [], ()
    file = path.parent / _typed(path, "choices", name, str, "the name of a file beside the plan")
    if not file.exists():
        return [], (f"{file} is not there yet (`pfedeg tune --choices` makes it): nothing is chosen",)
    return _rules(file, read_toml(file).get("where")), ()


def _rules(path: Path, rules: Any) -> list[dict[str, Any]]:
    """[[where]] tables, each checked whether it applies or not."""
    if not isinstance(rules, list):
        raise InputError(f"{path}: expected tables that begin with [[where]]")
    for rule in rules:
        if (
            not isinstance(rule, dict)
            or not isinstance(rule.get("set"), dict)
            or set(rule) - {*AXES[:3], "set", "evidence"}
        ):
            raise InputError(f"{path}: [[where]]: expected data, model, method (a name or a list) and set = {{…}}")
        for key, known in (("model", MODELS), ("method", METHODS)):
            _check_known(path, f"[[where]]: {key}", _names(rule.get(key, [])), known)
        if not all(isinstance(name, str) for name in _names(rule.get("data", []))):
            raise InputError(f"{path}: [[where]]: data: expected a name or a list of names")
        _check_names(f"{path}: [[where]]: set", rule["set"], SETTINGS, "setting")
    return rules


def _names(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _applies(rule: Mapping[str, Any], cell: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a [[where]] for a cell, if it is meant."""
    meant = all(value in _names(rule[axis]) for axis, value in cell.items() if axis in rule)
    return dict(rule["set"]) if meant else {}


def read_only(texts: Sequence[str], plan: Plan) -> dict[str, list[str]]:
    """--only AXIS=VALUE,VALUE as a mapping."""
    axes = (*AXES, *plan.varied)
    wanted: dict[str, list[str]] = {}
    for text in texts:
        axis, sign, values = text.partition("=")
        if not sign or axis not in axes:
            raise InputError(f"--only {text}: expected AXIS=VALUE, where AXIS is one of {', '.join(axes)}")
        known = sorted({str(value) for cell in plan.cells if (value := cell.axis(axis)) is not None})
        for value in values.split(","):
            if value not in known:
                raise InputError(f"--only {text}: no cell has {axis} {value!r}{suggest(value, known)}")
        wanted.setdefault(axis, []).extend(values.split(","))
    return wanted
