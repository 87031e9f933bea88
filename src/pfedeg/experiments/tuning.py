"""Chooses settings by validation MRR with successive halving."""

import itertools
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pfedeg.engine.interface import check_threads
from pfedeg.errors import InputError, RunError
from pfedeg.files import read_toml, write_bytes
from pfedeg.graphs.federation import Federation, require_federation
from pfedeg.methods.base import Method
from pfedeg.models.base import ModelType
from pfedeg.result_table import ResultTable
from pfedeg.settings import setting_fields
from pfedeg.text import plural, printable, suggest
from pfedeg.training.config import DEFAULT_PARTS, REGISTRIES, Config, all_settings
from pfedeg.training.local_run import Training
from pfedeg.training.progress import ProgressLine
from pfedeg.training.rounds import Round

MAX_MINUTES = 100_000
NOT_TUNED = (*REGISTRIES, "seed", "rounds")


def default_candidates(config: Config, given: Collection[str] = ()) -> dict[str, list[Any]]:
    """The values that settings suggest, and the current value; without the settings `given` by the user."""
    found: dict[str, list[Any]] = {}
    for part in REGISTRIES:
        settings = getattr(config, f"{part}_settings")
        for name, item in setting_fields(settings).items():
            if item.metadata["candidates"] and name not in given:
                found[name] = list(dict.fromkeys([getattr(settings, name), *item.metadata["candidates"]]))
    return found


def read_candidates(texts: Sequence[str], config: Config) -> dict[str, list[Any]]:
    """`--over NAME=VALUE,VALUE` as a mapping."""
    settings = {name: one for name, one in all_settings().items() if name not in NOT_TUNED}
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not sign or name not in settings:
            raise InputError(f"--over {text}: expected NAME=VALUE,VALUE of a setting{suggest(name, settings)}")
        if name in found:
            raise InputError(f"--over {text}: {name} is given twice; list all values in one --over")
        if name not in config.as_dict():
            raise InputError(f"--over {text}: {name} is not used by {config.title}")
        try:
            found[name] = [settings[name].type(value) for value in values.split(",")]
        except ValueError:
            raise InputError(f"--over {text}: not values of {name}") from None
        for value in found[name]:
            try:
                config.replace(**{name: value})
            except InputError as error:
                raise InputError(f"--over {text}: {error}") from None
    return found


@dataclass
class Candidate:
    """A combination of settings and the run that tries it."""

    values: Mapping[str, Any]
    training: Training
    rounds: Iterator[Round] = field(init=False)
    best_mrr: float = float("-inf")
    rounds_done: int = 0
    error: str = ""

    def __post_init__(self) -> None:
        """Prepare the run; `advance` starts it."""
        self.rounds = iter(self.training)

    def advance(self, until: int) -> Iterator[int]:
        """Train up to a round and yield each round's number, unless the run has stopped or failed."""
        try:
            while self.rounds_done < until:
                done = next(self.rounds, None)
                if done is None:
                    break
                self.rounds_done = done.number
                yield self.rounds_done
        except RunError as error:
            self.error = str(error)
            self.best_mrr = float("-inf")
            return
        evaluated = [line["valid"]["weighted"]["mrr"] for line in self.training.history if "valid" in line]
        self.best_mrr = max((mrr for mrr in evaluated if mrr is not None), default=float("-inf"))

    def evidence(self) -> dict[str, Any]:
        """Settings, rounds and validation MRR, for the choices file."""
        outcome = {"rounds": self.rounds_done, "valid_mrr": round(self.best_mrr, 6) if self.best_mrr > 0 else 0.0}
        return {**self.values, **outcome, **({"failed": self.error} if self.error else {})}


def check_candidates(over: Mapping[str, Sequence[Any]], config: Config) -> dict[str, list[Any]]:
    """The values to try of each setting, checked."""
    settings = [name for name in config.as_dict() if name not in NOT_TUNED]
    if not isinstance(over, Mapping):
        raise InputError(f"over: expected values by setting, as in {{'lr': [0.001, 0.01]}}, not {over!r:.80}")
    found: dict[str, list[Any]] = {}
    for name, values in over.items():
        if name not in settings:
            raise InputError(f"over: no setting {name!r} of {config.title}{suggest(name, settings)}")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise InputError(f"over: {name}: expected a list of values, not {values!r:.80}")
        found[name] = [config.replace(**{name: value}).as_dict()[name] for value in values]
    return found


@dataclass(frozen=True)
class Tuning:
    """The outcome of tuning: the best `config`, the values `chosen` for the tuned settings, and the `evidence`.

    `evidence` has the settings, rounds and validation MRR of every candidate, best first.
    """

    config: Config
    chosen: Mapping[str, Any]
    evidence: tuple[Mapping[str, Any], ...]

    def table(self) -> ResultTable:
        """The evidence as a table."""
        columns = list(dict.fromkeys(name for entry in self.evidence for name in entry))
        return ResultTable.of(columns, [[entry.get(name) for name in columns] for entry in self.evidence])


def tune(
    federation: Federation,
    method: str | Method = "pfedeg-plus",
    model: str | ModelType = "transe",
    *,
    over: Mapping[str, Sequence[Any]] | None = None,
    minutes: float = 30.0,
    threads: int | None = None,
    progress: bool = False,
    **settings: Any,
) -> Tuning:
    """Choose settings by validation MRR: `tune(federation, "pfedeg-plus", over={"beta": [0.001, 0.003]}, minutes=5)`.

    `federation`, `method`, `model`, `threads` and `settings` are as in `train`. `over` has the values to try of each
    setting (default: those that the method and model suggest, except for given `settings`). All combinations compete
    for about so many `minutes`. `progress` shows on stderr how far it is. Afterwards train with
    `Training(federation, tuning.config)`.
    """
    federation, config = require_federation(federation), Config(method=method, model=model, **settings)
    check_threads(threads)
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes < MAX_MINUTES:
        raise InputError(f"minutes: {minutes!r} is out of range; it must be above 0 and below {MAX_MINUTES:,}")
    candidates = check_candidates(over, config) if over else default_candidates(config, settings)
    if not candidates:
        raise InputError(f"{config.title}: no default values to try; name some with over={{...}}")
    line = ProgressLine("tuning")

    def show(text: str, important: bool = False) -> None:
        if progress:
            line.show(text, important)

    halving = successive_halving(
        federation, config, candidates, 60 * minutes, threads, show, lambda text: show(text, True)
    )
    try:
        for rounds, runs in halving:
            best = runs[0]
            show(f"round {rounds}: best so far {describe(best.values)}, valid MRR {best.best_mrr:.4f}", True)
    finally:
        line.clear()
    return Tuning(config.replace(**best.values), dict(best.values), tuple(run.evidence() for run in runs))


def describe(values: Mapping[str, Any]) -> str:
    """Settings and their values for a message."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def successive_halving(
    federation: Federation,
    config: Config,
    candidates: Mapping[str, Sequence[Any]],
    seconds: float,
    threads: int | None = None,
    notify: Callable[[str], None] = lambda text: None,
    warn: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[int, list[Candidate]]]:
    """Successive halving (Jamieson and Talwalkar 2016): yields the rounds so far and all candidates, best first.

    Remaining candidates come before dropped ones, regardless of MRR. All stages take about the same time; the first
    has as many rounds as `seconds` allow, but at least one. `notify` reports every round.
    """
    began, names = time.monotonic(), list(candidates)
    choices = [dict(zip(names, values, strict=True)) for values in itertools.product(*candidates.values())]
    stages = max(1, (len(choices) - 1).bit_length())

    def rounds_in_time(seconds_per_round: float) -> int:
        return int(seconds / seconds_per_round / len(choices) / (stages + 1))

    notify(f"measuring the time of a round with {describe(choices[0])}")
    with suppress(RunError):  # reported when this candidate runs
        next(iter(Training(federation, config.replace(**choices[0]), threads=threads)))
    possible = rounds_in_time(time.monotonic() - began)
    config = _evaluated_every(config, possible)
    until = every = config.eval_every
    runs = [Candidate(values, Training(federation, config.replace(**values), threads=threads)) for values in choices]
    continuing, dropped, first_stage = list(runs), list[Candidate](), time.monotonic()
    while True:
        for number, run in enumerate(continuing, 1):
            for done in run.advance(until):
                notify(f"candidate {number} of {len(continuing)} ({describe(run.values)}), round {done} of {until}")
        if first_stage:  # measure again: the first timed round may have included compilation
            possible = rounds_in_time((time.monotonic() - first_stage) / (every * len(runs))) // every * every
            first_stage = 0.0
            if possible < 1 and len(choices) > 1:
                after = f"they are first compared after {plural(until, 'round')}, which favours fast starters"
                hint = "give more --minutes, or name fewer with --over"
                warn(f"too little time for {len(choices)} candidates: {after}; {hint}")
            if possible > until:
                until = possible
                continue
        continuing.sort(key=lambda run: -run.best_mrr)
        if continuing[0].best_mrr == float("-inf"):
            raise RunError(f"no candidate can be chosen: {continuing[0].error or 'no client has valid triples'}")
        yield until, [*continuing, *dropped]
        half = max(1, (len(continuing) + 1) // 2)
        continuing, dropped = continuing[:half], [*continuing[half:], *dropped]
        spent = time.monotonic() - began
        if len(continuing) == 1 or spent > seconds:
            return
        until *= 2


def _evaluated_every(config: Config, rounds: int) -> Config:
    """A copy with an evaluation at least every `rounds` rounds, and patience for the same number of rounds."""
    every = max(1, min(config.eval_every, rounds))
    return config.replace(eval_every=every, patience=-(-config.patience * config.eval_every // every))


def check_choices(path: Path) -> None:
    """Check that a choice can be added to this file."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: no such folder: {path.parent}")
    if path.exists():
        read_toml(path)


def write_choice(path: Path, axes: Mapping[str, Any], best: Mapping[str, Any], evidence: Sequence[Any]) -> None:
    """Add a choice to a choices file, replacing an earlier one for the same runs."""
    head = "# Chosen on validation triples by `pfedeg tune`; plans refer to this file.\n"
    intro, *blocks = re.split(r"(?m)^\[\[where\]\]\n", path.read_text(encoding="utf-8") if path.exists() else head)
    same = "".join(f"{axis} = {_toml(value)}\n" for axis, value in axes.items())
    blocks = [block.rstrip("\n") + "\n" for block in blocks if not block.startswith(same)]
    lines = "".join(f"    {_toml(entry)},\n" for entry in evidence)
    blocks.append(f"{same}set = {_toml(best)}\nevidence = [\n{lines}]\n")
    write_bytes(path, "\n[[where]]\n".join([intro.rstrip("\n") + "\n", *blocks]).lstrip("\n").encode())


def chosen_settings(
    config: Config, preset: str | None, given: Mapping[str, Any], best: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings to train with: the preset, the parts that are not the default, what the user gave, what was chosen.

    They are what a settings file (`pfedeg train --config`) contains.
    """
    parts = {part: getattr(config, part) for part in REGISTRIES}
    needed = {part: name for part, name in parts.items() if part in ("method", "model") or name != DEFAULT_PARTS[part]}
    own = {name: value for name, value in given.items() if value is not None and name not in REGISTRIES}
    return {**({"preset": preset} if preset else {}), **needed, **own, **best}


def write_settings(path: Path, settings: Mapping[str, Any], data: str, evidence: Sequence[Any]) -> None:
    """Write a settings file, with all candidates as comments."""
    head = [f"Chosen on validation triples of {printable(data)} by `pfedeg tune`, from:", *map(describe, evidence)]
    lines = [*(f"# {line}" for line in head), *(f"{name} = {_toml(value)}" for name, value in settings.items())]
    write_bytes(path, ("\n".join(lines) + "\n").encode())


def train_command(data: str, settings: Mapping[str, Any], file: Path | None) -> str:
    """The command that trains with these settings, from their file if there is one."""
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return shlex.join(["pfedeg", "train", data, *(["--config", str(file)] if file else flags)])


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
    return repr(value)
