"""Reads and checks plans: TOML files with datasets × models × methods × seeds × settings."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.files import read_toml
from pfedeg.text import suggest
from pfedeg.training.config import REGISTRIES, Config, all_settings, configure

GRID_KEYS = ("data", "models", "methods", "seeds", "preset", "settings")  # allowed in a [[grid]] table
PLAN_KEYS = (*GRID_KEYS, "title", "vary", "where", "choices", "grid")
AXES = ("data", "model", "method", "seed")
RULE_KEYS = {"data", "model", "method", "set", "evidence"}
PARTS_AS_SETTINGS = ("objective", "optimizer")  # chosen in [settings], [vary] and set


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan: a point of its grid, with all its settings."""

    data: str
    model: str
    method: str
    seed: int
    varied: Mapping[str, Any]  # the values of [vary] that this run uses
    config: Config
    source: str  # the data as the plan names it: a name or a path

    @property
    def name(self) -> str:
        """Its folder, relative to the experiment's."""
        parts = [self.data, self.model, self.method, f"seed-{self.seed}"]
        varied = "-".join(f"{name}-{value}" for name, value in self.varied.items())
        return "/".join(part.replace(":", "-") for part in ([*parts, varied] if varied else parts))

    def matches(self, only: Mapping[str, Sequence[str]]) -> bool:
        """Whether the run has one of the listed values on each axis."""
        return all(str(self.value_of(axis)) in values for axis, values in only.items())

    def value_of(self, axis: str) -> Any:
        """The value on an axis; None if the run does not use this setting."""
        return getattr(self, axis) if axis in AXES else self.varied.get(axis)


@dataclass(frozen=True)
class Plan:
    """The runs of a plan, in order."""

    title: str
    runs: tuple[PlannedRun, ...]
    varied: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """Read a TOML file; docs/experiments.md describes the format."""
        raw = read_toml(path)
        _check_names(path, raw, PLAN_KEYS, "entry")
        title = _check_type(path, "title", raw.get("title", path.stem), str, "a text")
        tables = _grid_tables(path, raw)
        _load_models_and_methods(path, [raw, *tables])
        vary = _check_type(path, "vary", raw.get("vary", {}), dict, "a table")
        _check_settings(path, "vary", vary)
        if not all(isinstance(values, list) and values for values in vary.values()):
            raise InputError(f"{path}: vary: expected lists, as in epochs = [1, 3, 5]")
        chosen, remarks = _read_choices(path, raw.get("choices"), [raw, *tables])
        rules = _check_rules(path, raw.get("where", []))
        runs: dict[str, PlannedRun] = {}
        sources: dict[str, str] = {}
        for grid in _merged_grids(path, raw, tables):
            for run in _runs(path, grid, vary, [*chosen, *rules]):
                if sources.setdefault(run.data, run.source) != run.source:
                    both = f"{sources[run.data]!r} and {run.source!r}"
                    raise InputError(f"{path}: data: {both} would have the same run folders; rename one of them")
                if runs.setdefault(run.name, run).config != run.config:
                    raise InputError(f"{path}: {run.name} appears twice with different settings; list them in [vary]")
        datasets = {run.data for run in runs.values()}
        for name in (data_name(name) for rule in rules for name in _as_list(rule.get("data", []))):
            if name not in datasets:
                raise InputError(f"{path}: [[where]]: data: no dataset {name!r} in this plan{suggest(name, datasets)}")
        return cls(title, tuple(runs.values()), tuple(vary), remarks)


def read_only(texts: Sequence[str], plan: Plan) -> dict[str, list[str]]:
    """The filters `--only AXIS=VALUE,VALUE` as a mapping."""
    axes = (*AXES, *plan.varied)
    only: dict[str, list[str]] = {}
    for text in texts:
        axis, sign, values = text.partition("=")
        if not sign or axis not in axes:
            raise InputError(f"--only {text}: expected AXIS=VALUE, where AXIS is one of {', '.join(axes)}")
        known = sorted({str(value) for run in plan.runs if (value := run.value_of(axis)) is not None})
        wanted = [_identified(axis, value) for value in values.split(",")]
        for value in wanted:
            if value not in known:
                raise InputError(f"--only {text}: no run has {axis} {value!r}{suggest(value, known)}")
        only.setdefault(axis, []).extend(wanted)
    return only


def data_name(text: str) -> str:
    """The name of a dataset in a plan, which may be a path: `data/mine.parquet` is called mine."""
    return Path(text).name.removesuffix(".parquet")


def _identified(axis: str, value: Any) -> Any:
    """The value of an axis or setting, with a method, model and so on by its identifier, data by their name."""
    if axis == "data" and isinstance(value, str):
        return data_name(value)
    return REGISTRIES[axis].identify(value) if axis in REGISTRIES and isinstance(value, str) else value


def _grid_tables(path: Path, raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The [[grid]] tables; one empty table if the plan has none."""
    tables = raw.get("grid", [{}])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: grid: expected tables that begin with [[grid]]")
    for table in tables:
        _check_names(f"{path}: [[grid]]", table, GRID_KEYS, "entry")
    return tables


def _load_models_and_methods(path: Path, tables: Sequence[Mapping[str, Any]]) -> None:
    """Load models and methods, so that the settings of plug-ins are known."""
    for table in tables:
        for key, part in (("models", "model"), ("methods", "method")):
            if isinstance(table.get(key), list):
                _check_part(path, key, part, table[key])


def _merged_grids(path: Path, raw: Mapping[str, Any], tables: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Each [[grid]] table merged with the top-level entries, settings one by one."""
    common = {"seeds": [0], **{key: value for key, value in raw.items() if key in GRID_KEYS}}
    for grid in tables:
        settings: dict[str, Any] = {}
        for table in (common.get("settings", {}), grid.get("settings", {})):
            settings |= _check_type(path, "settings", table, dict, "a table, as in settings = { dim = 64 }")
        _check_settings(path, "settings", settings)
        yield {**common, **grid, "settings": settings}


def _runs(path: Path, grid: Mapping[str, Any], vary: Mapping[str, Any], rules: Sequence[Any]) -> Iterator[PlannedRun]:
    """The runs of one grid, with varied settings in the name only if the run uses them."""
    seeds, datasets = _list_of(path, grid, "seeds", int), _list_of(path, grid, "data", str)
    models, methods = _list_of(path, grid, "models", str), _list_of(path, grid, "methods", str)
    for name in datasets:
        if data_name(name) in ("", ".", ".."):
            raise InputError(f"{path}: data: {name!r} has no name; expected a name or a path, as in data = ['world']")
    models, methods = (
        [_identified(axis, name) for name in names] for axis, names in (("model", models), ("method", methods))
    )
    vary = {name: [_identified(name, value) for value in values] for name, values in vary.items()}
    for seed, source, model, method in itertools.product(seeds, datasets, models, methods):
        data = data_name(source)
        for values in itertools.product(*vary.values()):
            varied = dict(zip(vary, values, strict=True))
            flags = {**grid["settings"], "model": model, "method": method, "seed": seed}
            for rule in rules:
                flags |= _settings_of_rule(rule, {"data": data, "model": model, "method": method})
            try:
                config = configure({**flags, **varied}, grid.get("preset"))[0]
            except InputError as error:
                raise InputError(f"{path}: {data}, {model}, {method}: {error}") from None
            used = config.as_dict()
            own = {name: value for name, value in varied.items() if name in used}
            yield PlannedRun(data, model, method, seed, own, config, source)


def _check_type(path: Path, key: str, value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"{path}: {key}: expected {expected}")
    return value


def _list_of(path: Path, grid: Mapping[str, Any], key: str, kind: type) -> list[Any]:
    values = grid.get(key)
    if not isinstance(values, list) or not values or not all(type(value) is kind for value in values):
        raise InputError(f"{path}: {key}: expected a list of {'names' if kind is str else 'whole numbers'}")
    return values


def _check_names(where: object, names: Iterable[str], known: Iterable[str], what: str) -> None:
    for name in names:
        if name not in list(known):
            raise InputError(f"{where}: unknown {what} {name!r}{suggest(name, known)}")


def _check_settings(path: Path, where: str, settings: Mapping[str, Any]) -> None:
    """Check the names of settings; values are checked with the runs that use them."""
    for part in PARTS_AS_SETTINGS:
        _check_part(path, f"{where}: {part}", part, _as_list(settings.get(part, [])))
    for name in settings:
        if name in AXES:
            raise InputError(f"{path}: {where}: {name} cannot be set here; use the plan's data, models, methods, seeds")
    _check_names(f"{path}: {where}", settings, [*all_settings(), *PARTS_AS_SETTINGS], "setting")


def _check_part(path: Path, where: str, part: str, names: Iterable[Any]) -> None:
    """Check that models, methods, objectives or optimisers can be loaded."""
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{path}: {where}: {name!r} is not a name")
        try:
            REGISTRIES[part].get(name)
        except InputError as error:
            raise InputError(f"{path}: {where}: {error}") from None


def _read_choices(path: Path, name: Any, tables: Sequence[Mapping[str, Any]]) -> tuple[list[Any], tuple[str, ...]]:
    """The rules in the choices file beside the plan; a remark if there is no such file."""
    if name is None:
        return [], ()
    file = path.parent / _check_type(path, "choices", name, str, "the name of a file beside the plan")
    if not file.exists():
        return [], (f"{file} does not exist yet (`pfedeg tune --choices` creates it): default settings are used",)
    rules = read_toml(file).get("where")
    if isinstance(rules, list):  # those for other models and methods may need plug-ins that are not here
        planned = {part: _identifiers(part, [table.get(f"{part}s", []) for table in tables]) for part in AXES[1:3]}
        rules = [rule for rule in rules if not isinstance(rule, dict) or _may_match(rule, planned)]
    return _check_rules(file, rules), ()


def _may_match(rule: Mapping[str, Any], planned: Mapping[str, set[Any]]) -> bool:
    """Whether some model and method of a plan are those of a [[where]] table."""
    return all(part not in rule or _identifiers(part, [rule[part]]) & planned[part] for part in planned)


def _identifiers(part: str, values: Iterable[Any]) -> set[str]:
    """The identifiers of names or lists of names of methods or models; nothing is loaded."""
    names = [name for value in values for name in _as_list(value)]
    return {REGISTRIES[part].identify(name) for name in names if isinstance(name, str)}


def _check_rules(path: Path, rules: Any) -> list[dict[str, Any]]:
    """The [[where]] tables, all checked, also those that match no run."""
    if not isinstance(rules, list):
        raise InputError(f"{path}: expected tables that begin with [[where]]")
    for rule in rules:
        if not isinstance(rule, dict) or not isinstance(rule.get("set"), dict) or set(rule) - RULE_KEYS:
            raise InputError(f"{path}: [[where]]: expected data, model, method (a name or a list) and set = {{…}}")
        for part in ("model", "method"):
            _check_part(path, f"[[where]]: {part}", part, _as_list(rule.get(part, [])))
        if not all(isinstance(name, str) for name in _as_list(rule.get("data", []))):
            raise InputError(f"{path}: [[where]]: data: expected a name or a list of names")
        _check_settings(path, "[[where]]: set", rule["set"])
    return rules


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _settings_of_rule(rule: Mapping[str, Any], run: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a [[where]] table if it matches the run."""
    wanted = {axis: [_identified(axis, value) for value in _as_list(rule[axis])] for axis in run if axis in rule}
    matches = all(run[axis] in values for axis, values in wanted.items())
    return dict(rule["set"]) if matches else {}
