"""Every setting of a run: name, default, range and meaning in one place; flags, files and docs derive from it."""

import tomllib
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pfedeg.engine.interface import Absorb, Local
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.triples import Ids
from pfedeg.methods.base import Strategy
from pfedeg.methods.baselines import FedE, Single
from pfedeg.methods.pfedeg import PFedEGPlus, PFedEGStar
from pfedeg.models.base import Model
from pfedeg.models.registry import MODELS
from pfedeg.text import suggest
from pfedeg.training.client import Client

Value = int | float | str
PFEDEG = ("pfedeg-star", "pfedeg-star-reg", "pfedeg-star-init", "pfedeg-plus", "pfedeg-plus-reg", "pfedeg-plus-init")
PLUS = PFEDEG[3:]
PULLED = tuple(name for name in PFEDEG if not name.endswith("-init"))
FEDERATED = ("fede", "fedec", *PFEDEG)
METHODS = ("single", "collective", *FEDERATED)
LABELS = {  # as the paper writes them
    "single": "Single",
    "collective": "Collective",
    "fede": "FedE",
    "fedec": "FedEC",
    "pfedeg-star": "PFedEG*",
    "pfedeg-star-reg": "PFedEG*_Reg",
    "pfedeg-star-init": "PFedEG*_Init",
    "pfedeg-plus": "PFedEG+",
    "pfedeg-plus-reg": "PFedEG+_Reg",
    "pfedeg-plus-init": "PFedEG+_Init",
}


def setting(
    default: Value | None,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    only: tuple[str, ...] = METHODS,
) -> Any:
    """A field of `Config`: `only` names the methods that use it; default None means that it depends on the method."""
    metadata = {"help": help, "least": least, "most": most, "above": above, "only": only}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of a run. `resolved()` fills in what depends on method and model and drops what they do not use."""

    method: str = setting("pfedeg-plus", "the method")
    model: str = setting("transe", "the embedding model")
    seed: int = setting(0, "all random numbers follow from it", least=0)
    rounds: int | None = setting(
        None, "most rounds; a round of single and collective is one epoch (300; single and collective: 900)", least=1
    )
    epochs: int | None = setting(None, "local epochs per round (3; single and collective: 1)", least=1)
    batch: int = setting(512, "triples per batch", least=1)
    dim: int = setting(128, "embedding dimension m; rotate and complex have 2m real numbers per entity", least=1)
    negatives: int = setting(256, "corrupted tails per triple", least=1)
    sampling: Literal["own", "shared"] = setting(
        "own", "each triple has its own negatives, or a chunk of triples shares them"
    )
    chunk: int = setting(64, "triples that share negatives, with sampling = shared", least=1)
    lr: float = setting(1e-3, "learning rate of Adam", above=0)
    gamma: float = setting(10.0, "margin γ of the distance models; tables start uniform in ± (γ + 2) / m", above=0)
    alpha: float = setting(1.0, "temperature α of the self-adversarial weights; 0 weighs all negatives alike", least=0)
    loss: Literal["mean", "sum"] = setting("mean", "mean or sum of L_KGE over the batch")
    moments: Literal["reset", "keep"] | None = setting(
        None, "Adam's moments at the start of a round (reset; single and collective: keep)"
    )
    start: Literal["shared", "independent"] = setting(
        "shared", "aligned entities start from the same values on every client, or each client draws its own"
    )
    beta: float | None = setting(
        None, "strength β of the pull towards the knowledge (3e-3; complex and distmult: 5e-4)", least=0, only=PULLED
    )
    p: float = setting(0.5, "share of the others in a client's knowledge", least=0, most=1, only=PFEDEG)
    reduce: Literal["sum", "mean"] = setting("sum", "how pfedeg-plus reduces exp(cos) over shared entities", only=PLUS)
    fraction: float = setting(1.0, "share F of the clients selected per round", above=0, most=1, only=FEDERATED)
    mu: float = setting(0.1, "weight μ of fedec's contrastive term", above=0, only=("fedec",))
    tau: float = setting(0.2, "temperature τ of fedec's contrastive term", above=0, only=("fedec",))
    contrast: Literal["per_entity", "pooled"] = setting(
        "per_entity", "fedec's cosines per entity, or averaged over entities first", only=("fedec",)
    )
    evaluate: Literal["after_training", "after_aggregation"] | None = setting(
        None, "which tables are evaluated and kept (after_training; fede and fedec: after_aggregation)", only=FEDERATED
    )
    eval_every: int | None = setting(None, "rounds between evaluations (5; single and collective: 10)", least=1)
    patience: int = setting(5, "evaluations in a row without a new best after which training stops", least=1)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None:
                _check(item, value)

    def resolved(self) -> "Config":
        """With every open field set as method and model prescribe, and None where the method does not use a field."""
        alone = self.method in ("single", "collective")
        epochs = self.epochs or (1 if alone else 3)
        if alone and epochs != 1:
            raise InputError(f"epochs: a round of {self.method} is one epoch; set rounds instead")
        prescribed: dict[str, Value] = {
            "epochs": epochs,
            "rounds": 900 if alone else 300,
            "moments": "keep" if alone else "reset",
            "beta": 5e-4 if self.model in ("complex", "distmult") else 3e-3,
            "evaluate": "after_aggregation" if self.method in ("fede", "fedec") else "after_training",
            "eval_every": 10 if alone else 5,
        }
        filled = {name: value for name, value in prescribed.items() if getattr(self, name) is None}
        unused = {item.name: None for item in fields(self) if self.method not in item.metadata["only"]}
        return replace(self, **(filled | unused))  # type: ignore[arg-type]  # the fields' values are checked at run time

    def as_dict(self) -> dict[str, Value | None]:
        """The fields by name."""
        return asdict(self)

    def build_model(self) -> Model:
        """The model with its dimensions."""
        return MODELS[self.model](self.dim, self.gamma)

    def build_local(self) -> Local:
        """How clients train."""
        assert self.epochs is not None, "resolve the config first"
        return Local(
            epochs=self.epochs,
            batch=self.batch,
            negatives=self.negatives,
            sampling=self.sampling,
            chunk=self.chunk,
            lr=self.lr,
            alpha=self.alpha,
            loss=self.loss,
        )

    def build_client(
        self, name: ClientId, graph: KnowledgeGraph, aligned: Ids, travelling: Ids, absorb: Absorb
    ) -> Client:
        """A client that trains by these settings."""
        return Client(
            name,
            graph,
            aligned,
            travelling,
            model=self.build_model(),
            local=self.build_local(),
            absorb=absorb,
            seed=self.seed,
            start=self.start,
            moments=self.moments or "reset",
        )

    def build_strategy(self, threads: int | None = None) -> Strategy:
        """The method; its server's half runs on so many threads, by default on all cores."""
        if self.method in ("single", "collective"):
            return Single()
        if self.method == "fede":
            return FedE(threads=threads)
        if self.method == "fedec":
            pooled = self.contrast == "pooled"
            return FedE(Absorb(True, contrast=self.mu, temperature=self.tau, pooled=pooled), threads=threads)
        absorb = Absorb(replace=not self.method.endswith("-reg"), pull=self.beta or 0.0)
        if self.method in PLUS:
            return PFedEGPlus(absorb, self.p, self.reduce, threads=threads)
        return PFedEGStar(absorb, self.p, threads=threads)


PRESETS: Mapping[str, Mapping[str, Value]] = {
    "paper": {},
    "quick": {"dim": 64, "negatives": 64, "batch": 128, "lr": 5e-3, "rounds": 40},
}


def configure(
    flags: Mapping[str, Value | None], preset: str | None = None, file: Path | None = None
) -> tuple[Config, list[str]]:
    """Settings from preset, then file, then flags, each over the one before; also remarks for the user.

    A file may name a preset of its own by `preset = "quick"`.
    """
    settings = _read(file) if file else {}
    preset = preset or settings.pop("preset", None) or "paper"
    _check_preset(preset)
    settings.pop("preset", None)
    given = {**settings, **{name: value for name, value in flags.items() if value is not None}}
    values: dict[str, Any] = {**PRESETS[preset], **given}
    if values.get("method") in ("single", "collective") and "rounds" in PRESETS[preset] and "rounds" not in given:
        values["rounds"] = 3 * int(PRESETS[preset]["rounds"])  # as many epochs as a federated run of the preset
    config = Config(**values)
    unused = [f"{name} is not used by {config.method}" for name in given if not uses(config.method, name)]
    return config.resolved(), unused


def uses(method: str, name: str) -> bool:
    """Whether a method depends on a setting."""
    return method in next(item.metadata["only"] for item in fields(Config) if item.name == name)


def users(item: "Field[Any]") -> str:
    """Who uses a field, in few words."""
    names = {METHODS: "all", FEDERATED: "federated methods", PFEDEG: "pfedeg-*", PLUS: "pfedeg-plus*"}
    only = item.metadata["only"]
    return "pfedeg-* except -init" if only == PULLED else names.get(only, ", ".join(only))


def choices(item: "Field[Any]") -> tuple[str, ...] | None:
    """The values that a field admits, if it is a choice."""
    if item.name == "method":
        return METHODS
    if item.name == "model":
        return tuple(MODELS)
    options = _kind(item)
    return get_args(options) if get_origin(options) is Literal else None


def value_type(item: "Field[Any]") -> type[Value]:
    """int, float or str."""
    kind: type[Value] = str if get_origin(_kind(item)) is Literal else _kind(item)
    return kind


def _kind(item: "Field[Any]") -> Any:
    hint = get_type_hints(Config)[item.name]
    parts = [part for part in get_args(hint) if part is not type(None)]
    return hint if get_origin(hint) is Literal or not parts else parts[0]


def _check(item: "Field[Any]", value: Any) -> None:
    name, meta = item.name, item.metadata
    allowed = choices(item)
    if allowed is not None:
        if value not in allowed:
            raise InputError(f"unknown {name} {value!r}{suggest(str(value), allowed)}")
        return
    kind = value_type(item)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
        raise InputError(f"{name}: {value!r} is not {'a number' if kind is float else 'a whole number'}")
    bounds = [] if abs(value) < inf else [(False, "finite")]
    if meta["least"] is not None:
        bounds.append((value >= meta["least"], f"at least {meta['least']}"))
    if meta["above"] is not None:
        bounds.append((value > meta["above"], f"above {meta['above']}"))
    if meta["most"] is not None:
        bounds.append((value <= meta["most"], f"at most {meta['most']}"))
    if not all(good for good, _ in bounds):
        raise InputError(f"{name}: {value} is out of range; it must be {' and '.join(text for _, text in bounds)}")


def _read(file: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not valid UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: not valid TOML: {error}") from None
    known = ["preset", *(item.name for item in fields(Config))]
    for name, value in settings.items():
        if isinstance(value, dict):
            raise InputError(f"{file}: [{name}] is a table; settings stand at the top level, as in dim = 64")
        if name not in known:
            raise InputError(f"{file}: unknown setting {name!r}{suggest(name, known)}")
    try:
        _check_preset(settings.get("preset", "paper"))
        Config(**{name: value for name, value in settings.items() if name != "preset"})
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return settings


def _check_preset(name: Any) -> None:
    if name not in list(PRESETS):
        raise InputError(f"unknown preset {name!r}{suggest(str(name), PRESETS)}")
