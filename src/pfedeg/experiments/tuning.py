"""Choosing settings on validation triples: short runs of every candidate, of which the better half goes on."""

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError, RunError
from pfedeg.files import read_toml, write_bytes
from pfedeg.graphs.federation import Federation
from pfedeg.text import suggest
from pfedeg.training.config import Config, uses, value_type
from pfedeg.training.local_run import Training
from pfedeg.training.rounds import Round

BETAS = (3e-4, 4e-4, 5e-4, 6e-4, 1e-3)  # the paper's sets
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)


def papers_candidates(data: str, config: Config) -> dict[str, list[Any]]:
    """What the paper chose from: β where it is not given, and p."""
    given = config.model in ("transe", "rotate") and data.startswith("fb15k-237-fed")
    found: dict[str, list[Any]] = {"beta": [3e-3] if given else list(BETAS), "p": list(SHARES)}
    return {name: values for name, values in found.items() if uses(config.method, name)}


def read_candidates(texts: Sequence[str], method: str) -> dict[str, list[Any]]:
    """--over NAME=VALUE,VALUE as a mapping."""
    known = {item.name: item for item in fields(Config) if item.name not in ("method", "model", "seed", "rounds")}
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not sign or name not in known:
            raise InputError(f"--over {text}: expected NAME=VALUE,VALUE of a setting{suggest(name, known)}")
        if name in found:
            raise InputError(f"--over {text}: {name} is there twice; name all its values at once")
        if not uses(method, name):
            raise InputError(f"--over {text}: {name} is not used by {method}")
        try:
            found[name] = [value_type(known[name])(value) for value in values.split(",")]
        except ValueError:
            raise InputError(f"--over {text}: not values of {name}") from None
    return found


@dataclass
class Candidate:
    """One choice of settings, and how far its run has come."""

    chosen: Mapping[str, Any]
    training: Training
    rounds: Iterator[Round] = field(init=False)
    best: float = float("-inf")
    done: int = 0
    failed: str = ""

    def __post_init__(self) -> None:
        """A run that stands still until it is asked to go on."""
        self.rounds = iter(self.training)

    def advance(self, until: int) -> Iterator[int]:
        """Train up to a round, and tell each; a run that has stopped or failed stays where it is."""
        try:
            while self.done < until:
                done = next(self.rounds, None)
                if done is None:
                    break
                self.done = done.number
                yield self.done
        except RunError as error:
            self.failed = str(error)
            self.best = float("-inf")
            return
        evaluated = [line["valid"]["weighted"]["mrr"] for line in self.training.history if "valid" in line]
        self.best = max((mrr for mrr in evaluated if mrr is not None), default=float("-inf"))

    def evidence(self) -> dict[str, Any]:
        """What is recorded of it."""
        told = {"rounds": self.done, "valid_mrr": round(self.best, 6) if self.best > 0 else 0.0}
        return {**self.chosen, **told, **({"failed": self.failed} if self.failed else {})}


def describe(chosen: Mapping[str, Any]) -> str:
    """Settings and their values, as people read them."""
    return ", ".join(f"{name} {value}" for name, value in chosen.items())


def halve(
    federation: Federation,
    config: Config,
    candidates: Mapping[str, Sequence[Any]],
    seconds: float,
    threads: int | None = None,
    tell: Callable[[str], None] = lambda note: None,
    warn: Callable[[str], None] = lambda note: None,
) -> Iterator[tuple[int, list[Candidate]]]:
    """Successive halving (Jamieson and Talwalkar 2016): yields the rounds so far and all candidates, best first.

    Who goes on is before who was left behind, whatever their MRR. The first rung is as long as the time allows for all
    rungs to take the same time, at least a round. What happens in between is told round by round.
    """
    began, names = time.monotonic(), list(candidates)
    choices = [dict(zip(names, values, strict=True)) for values in itertools.product(*candidates.values())]
    rungs = max(1, (len(choices) - 1).bit_length())

    def rounds_in_time(pace: float) -> int:
        return int(seconds / pace / len(choices) / (rungs + 1))

    tell(f"how long a round takes, by one with {describe(choices[0])}")
    with suppress(RunError):  # a candidate that fails is told of later
        next(iter(Training(federation, replace(config, **choices[0]), threads=threads)))
    fitting = rounds_in_time(time.monotonic() - began)
    if fitting < 1 and len(choices) > 1:
        warn(f"{len(choices)} candidates are many for the time: each gets a round at least; fewer tell more (--over)")
    config = _evaluated_every(config, fitting)
    until = every = config.resolved().eval_every or 1
    runs = [Candidate(chosen, Training(federation, replace(config, **chosen), threads=threads)) for chosen in choices]
    going, behind, first_rung = list(runs), list[Candidate](), time.monotonic()
    while True:
        for number, run in enumerate(going, 1):
            for done in run.advance(until):
                tell(f"candidate {number} of {len(going)} ({describe(run.chosen)}), round {done} of {until}")
        if first_rung:  # the one round before may have compiled engine: now it is known
            fair = rounds_in_time((time.monotonic() - first_rung) / (every * len(runs))) // every * every
            first_rung = 0.0
            if fair > until:
                until = fair
                continue
        going.sort(key=lambda run: -run.best)
        if going[0].best == float("-inf"):
            raise RunError(f"there is nothing to choose by: {going[0].failed or 'no client has valid triples'}")
        yield until, [*going, *behind]
        half = max(1, (len(going) + 1) // 2)
        going, behind = going[:half], [*going[half:], *behind]
        spent = time.monotonic() - began
        if len(going) == 1 or spent > seconds:
            return
        until *= 2


def _evaluated_every(config: Config, rounds: int) -> Config:
    """With evaluations at least so often, and patience for as many rounds as before."""
    resolved = config.resolved()
    before, now = resolved.eval_every or 1, max(1, min(resolved.eval_every or 1, rounds))
    return replace(config, eval_every=now, patience=-(-resolved.patience * before // now))


def check_choices(path: Path) -> None:
    """Whether a choice could be added to a file, before it is made."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} is not there")
    if path.exists():
        read_toml(path)


def write_choice(path: Path, axes: Mapping[str, Any], best: Mapping[str, Any], evidence: Sequence[Any]) -> None:
    """Add a choice and its evidence to a file that plans refer to; an earlier one for the same cells is replaced."""
    head = "# Chosen on validation triples by `pfedeg tune`; plans refer to this file.\n"
    intro, *blocks = re.split(r"(?m)^\[\[where\]\]\n", path.read_text(encoding="utf-8") if path.exists() else head)
    same = "".join(f"{axis} = {_toml(value)}\n" for axis, value in axes.items())
    blocks = [block.rstrip("\n") + "\n" for block in blocks if not block.startswith(same)]
    lines = "".join(f"    {_toml(entry)},\n" for entry in evidence)
    blocks.append(f"{same}set = {_toml(best)}\nevidence = [\n{lines}]\n")
    write_bytes(path, "\n[[where]]\n".join([intro.rstrip("\n") + "\n", *blocks]).lstrip("\n").encode())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
    return repr(value)
