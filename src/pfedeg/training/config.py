"""The settings of a run: common ones, and those of its method, model, objective and optimiser.

No setting is ever None. The default of a setting is that of the method, else of the model, else of the field.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pfedeg.engine.interface import Absorb, Batches, Recipe
from pfedeg.errors import InputError, named_failure
from pfedeg.files import read_toml
from pfedeg.methods.base import Method, Strategy
from pfedeg.methods.registry import METHODS
from pfedeg.models.base import Model, ModelType
from pfedeg.models.registry import MODELS
from pfedeg.objectives.base import Objective, ObjectiveType
from pfedeg.objectives.registry import OBJECTIVES
from pfedeg.optimizers.base import Optimizer, OptimizerType
from pfedeg.optimizers.registry import OPTIMIZERS
from pfedeg.registry import Registry
from pfedeg.settings import Value, build_settings, check_setting, choices, setting, setting_fields, value_type
from pfedeg.text import similar, suggest

REGISTRIES: Mapping[str, Registry[Any]] = {
    "method": METHODS,
    "model": MODELS,
    "objective": OBJECTIVES,
    "optimizer": OPTIMIZERS,
}
DEFAULT_PARTS = {"method": "pfedeg-plus", "model": "transe", "objective": "self-adversarial", "optimizer": "adam"}
PART_HELP = {
    "method": "the federated method or baseline",
    "model": "the embedding model",
    "objective": "the training objective",
    "optimizer": "the optimiser",
}
OPTIONS = "preset config file path out resume secret threads json as_json over minutes choices help"  # of commands
RESERVED = {*REGISTRIES, "schema", *OPTIONS.split()}  # names that no setting may have
FEDERATED_ONLY = ("fraction", "evaluate", "robust")  # unused by methods that are not federated


@dataclass(frozen=True, init=False)
class Config:
    """The settings of a run. `Config(method="fede", rounds=20, lr=0.005)`: any setting by its name.

    Method, model, objective and optimiser are a built-in name, `package.module:NAME`, or the object itself. Settings
    that these do not use are ignored.
    """

    method: str
    model: str
    objective: str
    optimizer: str
    method_settings: Any = field(repr=False)  # an instance of `Method.settings`, and so on
    model_settings: Any = field(repr=False)
    objective_settings: Any = field(repr=False)
    optimizer_settings: Any = field(repr=False)
    seed: int = setting(0, "random seed", least=0)
    rounds: int = setting(300, "maximum number of rounds; a round of Single and Collective is one epoch", least=1)
    epochs: int = setting(3, "local epochs per round", least=1)
    batch: int = setting(512, "triples per batch", least=1)
    dim: int = setting(
        128, "embedding dimension m; RotatE and ComplEx have 2m real numbers per entity", least=1, most=1_000_000
    )
    negatives: int = setting(256, "corrupted tails per triple", least=1)
    sampling: Literal["own", "shared"] = setting(
        "own", "each triple has its own negatives, or a chunk of triples shares them"
    )
    chunk: int = setting(64, "triples that share negatives, with sampling = shared", least=1)
    loss: Literal["mean", "sum"] = setting("mean", "mean or sum of the loss over the batch")
    moments: Literal["reset", "keep"] = setting("reset", "the optimiser's state at the start of a round")
    start: Literal["shared", "independent"] = setting(
        "shared", "aligned entities start from the same values on every client, or each client draws its own"
    )
    fraction: float = setting(1.0, "share F of the clients selected per round", above=0, most=1)
    evaluate: Literal["after_training", "after_aggregation"] = setting(
        "after_training", "which tables are evaluated and kept"
    )
    robust: Literal["none", "trimmed", "median"] = setting(
        "none", "which outlying numbers, among those of three or more owners of an entity, the mix replaces"
    )
    eval_every: int = setting(5, "rounds between evaluations", least=1)
    patience: int = setting(5, "evaluations in a row without a new best after which training stops", least=1)

    def __init__(self, method: Any = None, model: Any = None, **given: Any) -> None:
        """Check the given settings and fill in the defaults."""
        wanted = {
            "method": method,
            "model": model,
            **{name: given.pop(name, None) for name in ("objective", "optimizer")},
        }
        names = {
            part: registry.identify(DEFAULT_PARTS[part] if wanted[part] is None else wanted[part])
            for part, registry in REGISTRIES.items()
        }
        parts = {part: registry.get(names[part]) for part, registry in REGISTRIES.items()}
        chosen: Method = parts["method"]
        unused = FEDERATED_ONLY if not chosen.is_federated else ()
        common = setting_fields(Config)
        types = {part: found.settings for part, found in parts.items()}
        known = _check_distinct({part: (names[part], types[part]) for part in parts})
        # Settings of other methods and models are checked, then ignored.
        for name in [name for name in given if name not in known]:
            other = all_settings().get(name)
            if other is None:
                raise InputError(f"unknown setting {name!r}{suggest_setting(name, all_settings())}")
            check_setting(other.kind, other.item, given[name])
        if not chosen.is_federated and given.get("epochs", 1) != 1:
            raise InputError(f"epochs: a round of {chosen.label} is one epoch; set rounds instead")
        defaults: dict[str, Value] = {}
        for part in ("optimizer", "objective", "model", "method"):
            defaults |= parts[part].defaults
        for name in [name for name in defaults if name not in known]:
            if name not in all_settings():
                raise InputError(f"a default for an unknown setting, {name!r}{suggest(name, all_settings())}")
        values = {**defaults, **given}
        for part, name in names.items():
            object.__setattr__(self, part, name)
            object.__setattr__(self, f"{part}_settings", build_settings(types[part], values))
        for name, item in common.items():
            value = item.default if name in unused else values.get(name, item.default)
            object.__setattr__(self, name, check_setting(Config, item, value))

    def as_dict(self) -> dict[str, Value]:
        """All settings that the run depends on, by name; this is what run folders store."""
        found: dict[str, Value] = {part: getattr(self, part) for part in REGISTRIES}
        unused = FEDERATED_ONLY if not self.method_type.is_federated else ()
        found |= {name: getattr(self, name) for name in setting_fields(Config) if name not in unused}
        for part in REGISTRIES:
            own = getattr(self, f"{part}_settings")
            found |= {name: getattr(own, name) for name in setting_fields(own)}
        return found

    def replace(self, **changes: Any) -> Self:
        """A copy with `changes` of some settings by name."""
        return type(self)(**{**self.as_dict(), **changes})

    @property
    def method_type(self) -> Method:
        """The method object."""
        return METHODS.get(self.method)

    @property
    def model_type(self) -> ModelType:
        """The model type."""
        return MODELS.get(self.model)

    @property
    def objective_type(self) -> ObjectiveType:
        """The objective type."""
        return OBJECTIVES.get(self.objective)

    @property
    def optimizer_type(self) -> OptimizerType:
        """The optimiser type."""
        return OPTIMIZERS.get(self.optimizer)

    @property
    def title(self) -> str:
        """The labels of method and model."""
        return f"{self.method_type.label}, {self.model_type.label}"

    def labels(self) -> dict[str, str]:
        """The labels of method, model, objective and optimiser, saved for readers that cannot load them."""
        return {part: registry.get(getattr(self, part)).label for part, registry in REGISTRIES.items()}

    def traits(self) -> dict[str, str]:
        """What reports must know about the method, saved like the labels."""
        return {name: getattr(self.method_type, name) for name in ("role", "trains", "color")}

    def build_model(self) -> Model:
        """The model with its dimension and settings."""
        return _built(f"model {self.model}", Model, lambda: self.model_type.build(self.dim, self.model_settings))

    def build_objective(self) -> Objective:
        """The objective with its settings."""
        build = self.objective_type.build
        return _built(f"objective {self.objective}", Objective, lambda: build(self.objective_settings))

    def build_optimizer(self) -> Optimizer:
        """The optimiser with its settings."""
        build = self.optimizer_type.build
        return _built(f"optimizer {self.optimizer}", Optimizer, lambda: build(self.optimizer_settings))

    def build_strategy(self, threads: int | None = None) -> Strategy:
        """The method's strategy; its server side uses this many threads, by default all cores."""
        build = self.method_type.build
        return _built(f"method {self.method}", Strategy, lambda: build(self.method_settings, threads))

    def build_recipe(self, absorb: Absorb) -> Recipe:
        """How clients train, and `absorb` what they receive."""
        batches = Batches(self.epochs, self.batch, self.negatives, self.sampling, self.chunk, self.loss)
        return Recipe(self.build_model(), self.build_objective(), self.build_optimizer(), batches, absorb)


def require_config(value: Any) -> Config:
    """The settings, by default all defaults; InputError with the likely fix if it is something else."""
    if value is None or isinstance(value, Config):
        return value or Config()
    example = f"pfedeg.Config({value!r})" if isinstance(value, str) else "pfedeg.Config(method='fede', rounds=20)"
    raise InputError(f"expected a Config, not {value!r:.80}; `{example}` makes one")


Part = TypeVar("Part")


def _built(name: str, kind: type[Any], build: Callable[[], Part]) -> Part:
    """What a part's `build` returns, if it is an object with the attributes of its kind."""
    with named_failure(f"{name}: build"):
        found = build()
    missing = [each for each in vars(kind) if not each.startswith("_") and not hasattr(found, each)]
    if isinstance(found, type) or missing:
        without = f" without {', '.join(missing)}" if missing and found is not None else ""
        call = ", which is a class; call it" if isinstance(found, type) else ""
        raise InputError(f"{name}: build returned {found!r:.80}{call or without}; expected a {kind.__name__}")
    return found


def suggest_setting(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown setting: settings with a similar name, else a similar meaning."""
    names, found = list(known), all_settings()
    wanted = re.sub("[_ -]", "", name).casefold()
    meant = [each for each, one in found.items() if wanted in re.sub("[_ -]", "", one.help).casefold()]
    if similar(name, names) or not meant or len(wanted) < 4:
        return suggest(name, names)
    return f"; did you mean {' or '.join(repr(each) for each in meant[:3])}?"


def _check_distinct(parts: Mapping[str, tuple[str, type]]) -> set[str]:
    """The names of all settings; InputError if two parts of a run, or a part and every run, share one."""
    owner = dict.fromkeys(setting_fields(Config), "every run") | dict.fromkeys(RESERVED, "the command line")
    for part, (identifier, kind) in parts.items():
        for name, item in setting_fields(kind).items():
            if name in owner:
                raise InputError(f"{part} {identifier!r}: {owner[name]} has a setting {name!r} too; rename it")
            owner[name] = f"{part} {identifier!r}"
            try:
                check_setting(kind, item, item.default)
            except InputError as error:
                raise InputError(f"{part} {identifier!r}: default of {error}") from None
    return set(owner) - set(RESERVED)


PRESETS: Mapping[str, Mapping[str, Value]] = {
    "paper": {},
    "quick": {"dim": 64, "negatives": 64, "batch": 128, "lr": 5e-3, "rounds": 40},
}


@dataclass(frozen=True)
class Setting:
    """A setting with its name, its declaration and the methods, models and so on that use it."""

    name: str
    kind: type  # the dataclass that declares it
    item: "Field[Any]"
    users: tuple[str, ...]  # labels of the methods, models and so on that use it; empty: all runs

    @property
    def help(self) -> str:
        """The help text."""
        return str(self.item.metadata["help"])

    @property
    def type(self) -> type[Value]:
        """int, float or str."""
        return value_type(self.kind, self.item)

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The allowed values of a choice; None for other settings."""
        return choices(self.kind, self.item)

    @property
    def default(self) -> Value:
        """The default; some methods and models have another (`other_defaults`)."""
        default: Any = self.item.default
        return default  # type: ignore[no-any-return]  # dataclasses type defaults as Any

    def other_defaults(self) -> dict[str, Value]:
        """Other defaults, by label of the method or model."""
        found = [part for registry in REGISTRIES.values() for part in registry.loaded().values()]
        return {part.label: part.defaults[self.name] for part in found if self.name in part.defaults}


def all_settings() -> dict[str, Setting]:
    """All settings by name: common ones, and those of built-in parts and of plug-ins loaded so far."""
    found, common = {}, setting_fields(Config)
    for name, item in common.items():
        users = ("federated methods",) if name in FEDERATED_ONLY else ()
        found[name] = Setting(name, Config, item, users)
    for registry in REGISTRIES.values():
        parts = registry.loaded().values()
        for part in parts:
            for name, item in setting_fields(part.settings).items():
                if name in common or name in RESERVED:  # `Config` refuses this part
                    continue
                before = found.get(name)
                users = (*(before.users if before else ()), part.label)
                found[name] = Setting(name, part.settings, item, users)
        for name, one in found.items():  # used by all parts of a kind
            if len(parts) == len(one.users) and one.users == tuple(part.label for part in parts):
                found[name] = Setting(name, one.kind, one.item, ())
    return found


def uses(config_or_method: "str | Config", name: str) -> bool:
    """Whether a run of a method depends on a setting."""
    config = config_or_method if isinstance(config_or_method, Config) else Config(method=config_or_method)
    return name in config.as_dict()


def configure(
    flags: Mapping[str, Value | None], preset: str | None = None, file: Path | None = None
) -> tuple[Config, list[str]]:
    """The settings, and remarks for the user. Flags override the file, the file overrides the preset.

    The file may name the preset: `preset = "quick"`.
    """
    saved = _read(file) if file else {}
    preset = preset or saved.pop("preset", None) or "paper"
    _check_preset(preset)
    saved.pop("preset", None)
    given = {**saved, **{name: value for name, value in flags.items() if value is not None}}
    values: dict[str, Any] = {**PRESETS[preset], **given}
    method = METHODS.get(METHODS.identify(values.get("method", DEFAULT_PARTS["method"])))
    if "rounds" in method.defaults and "rounds" in PRESETS[preset] and "rounds" not in given:
        usual = all_settings()["rounds"].default  # scale as in the paper's settings
        values["rounds"] = int(PRESETS[preset]["rounds"]) * int(method.defaults["rounds"]) // int(usual)
    config = Config(**values)
    used = config.as_dict()
    return config, [f"{name} is not used by {_unused_by(config, name)}" for name in given if name not in used]


def _unused_by(config: Config, name: str) -> str:
    for part, registry in REGISTRIES.items():
        if any(name in setting_fields(other.settings) for other in registry.loaded().values()):
            return str(getattr(config, part))
    return config.method


def _names() -> Iterator[str]:
    yield from ("preset", *REGISTRIES, *all_settings())


def _read(file: Path) -> dict[str, Any]:
    saved = read_toml(file)
    for name, value in saved.items():
        if isinstance(value, dict):
            raise InputError(f"{file}: [{name}] is a table; put settings at the top level, as in dim = 64")
    try:
        for part, registry in REGISTRIES.items():  # loads plug-ins, so that their settings are known
            if part in saved:
                registry.get(registry.identify(saved[part]))
        for name in saved:
            if name not in _names():
                raise InputError(f"unknown setting {name!r}{suggest_setting(name, _names())}")
        _check_preset(saved.get("preset", "paper"))
        Config(**{name: value for name, value in saved.items() if name != "preset"})
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return saved


def _check_preset(name: Any) -> None:
    if name not in list(PRESETS):
        raise InputError(f"unknown preset {name!r}{suggest(str(name), PRESETS)}")
