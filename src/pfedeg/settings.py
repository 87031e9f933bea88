"""Settings as fields of frozen dataclasses: default, range and meaning in one place, checked for every source.

Methods, models, objectives and optimisers each declare their own settings this way; command-line flags, TOML keys and
the docs are derived from the fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from pfedeg.errors import InputError
from pfedeg.text import suggest

Value = int | float | str
LARGEST = 2**63 - 1  # of whole numbers: what arrays and TOML can hold


def setting(
    default: Value,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    candidates: Sequence[Value] = (),
) -> Any:
    """A field of settings with its `default` and `help` text.

    A number must be at `least`, at `most` or `above` these bounds; `candidates` are tried by `pfedeg tune` by default.
    """
    metadata = {"help": help, "least": least, "most": most, "above": above, "candidates": tuple(candidates)}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class NoSettings:
    """For methods, models and so on without settings."""


def setting_fields(of: Any) -> dict[str, "Field[Any]"]:
    """The settings of a dataclass, or of one of its instances, by name."""
    return {item.name: item for item in fields(of) if "help" in item.metadata}


def build_settings(kind: type, values: Mapping[str, Any]) -> Any:
    """An instance of a settings dataclass; values of unknown names are ignored, the others are checked."""
    known = setting_fields(kind)
    given = {name: value for name, value in values.items() if name in known}
    for name, value in given.items():
        given[name] = check_setting(kind, known[name], value)
    return kind(**given)


def choices(kind: type, item: "Field[Any]") -> tuple[str, ...] | None:
    """The allowed values of a choice; None for other settings."""
    hint = get_type_hints(kind)[item.name]
    return get_args(hint) if get_origin(hint) is Literal else None


def value_type(kind: type, item: "Field[Any]") -> type[Value]:
    """The type of a setting: int, float or str."""
    hint = get_type_hints(kind)[item.name]
    return str if get_origin(hint) is Literal else hint


def check_setting(kind: type, item: "Field[Any]", value: Any) -> Value:
    """The value if it is allowed, else InputError; a whole number is allowed for a real one."""
    name, meta = item.name, item.metadata
    allowed = choices(kind, item)
    if allowed is not None:
        if value not in allowed:
            raise InputError(f"unknown {name} {value!r}{suggest(str(value), allowed)}")
        return str(value)
    wanted = value_type(kind, item)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float) if wanted is float else wanted):
        what = {float: "a number", int: "a whole number", str: "a text"}[wanted]
        raise InputError(f"{name}: {value!r} is not {what}")
    if not isinstance(value, int | float):
        return value
    if isinstance(value, int) and abs(value) > LARGEST:
        raise InputError(f"{name}: out of range; no number may be larger than {LARGEST}")
    bounds = [] if isinstance(value, int) or isfinite(value) else [(False, "finite")]
    if meta["least"] is not None:
        bounds.append((value >= meta["least"], f"at least {meta['least']}"))
    if meta["above"] is not None:
        bounds.append((value > meta["above"], f"above {meta['above']}"))
    if meta["most"] is not None:
        bounds.append((value <= meta["most"], f"at most {meta['most']}"))
    if not all(good for good, _ in bounds):
        raise InputError(f"{name}: {value} is out of range; it must be {' and '.join(text for _, text in bounds)}")
    return value
