"""Settings: ranges, defaults per method and model, and sources."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfedeg.engine.interface import Absorb, Batches
from pfedeg.errors import InputError, RunError
from pfedeg.methods.base import Method
from pfedeg.methods.pfedeg import PFedEGPlus, PFedEGStar
from pfedeg.methods.registry import METHODS
from pfedeg.methods.single import Alone
from pfedeg.models.registry import MODELS
from pfedeg.objectives.self_adversarial import SelfAdversarial
from pfedeg.optimizers.adam import Adam
from pfedeg.settings import setting
from pfedeg.text import suggest
from pfedeg.training.config import PRESETS, Config, all_settings, configure, uses


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dim", 0, "dim: 0 is out of range; it must be at least 1"),
        ("rounds", 0, "rounds: 0 is out of range; it must be at least 1"),
        ("epochs", 0, "epochs: 0 is out of range; it must be at least 1"),
        ("batch", -5, "batch: -5 is out of range; it must be at least 1"),
        ("negatives", 0, "negatives: 0 is out of range; it must be at least 1"),
        ("chunk", 0, "chunk: 0 is out of range; it must be at least 1"),
        ("eval_every", 0, "eval_every: 0 is out of range; it must be at least 1"),
        ("patience", 0, "patience: 0 is out of range; it must be at least 1"),
        ("seed", -1, "seed: -1 is out of range; it must be at least 0"),
        ("lr", 0.0, "lr: 0.0 is out of range; it must be above 0"),
        ("lr", float("nan"), "lr: nan is out of range; it must be finite and above 0"),
        ("lr", float("inf"), "lr: inf is out of range; it must be finite and above 0"),
        ("gamma", 0, "gamma: 0 is out of range; it must be above 0"),
        ("alpha", -0.1, "alpha: -0.1 is out of range; it must be at least 0"),
        ("beta", -1e-9, "beta: -1e-09 is out of range; it must be at least 0"),
        ("p", 1.1, "p: 1.1 is out of range; it must be at least 0 and at most 1"),
        ("p", -0.1, "p: -0.1 is out of range; it must be at least 0 and at most 1"),
        ("fraction", 0, "fraction: 0 is out of range; it must be above 0 and at most 1"),
        ("fraction", 1.5, "fraction: 1.5 is out of range; it must be above 0 and at most 1"),
        ("mu", 0, "mu: 0 is out of range; it must be above 0"),
        ("tau", 0, "tau: 0 is out of range; it must be above 0"),
        ("dim", 1.5, "dim: 1.5 is not a whole number"),
        ("dim", True, "dim: True is not a whole number"),
        ("dim", "8", "dim: '8' is not a whole number"),
        ("lr", "fast", "lr: 'fast' is not a number"),
        ("lr", [1], "lr: [1] is not a number"),
        ("sampling", "mine", "unknown sampling 'mine'; choose from own, shared"),
        ("method", 3, "method: expected a name, package.module:NAME or a Method"),
        ("model", ["transe"], "model: expected a name, package.module:NAME or a ModelType"),
        ("method", "pfedeg", "unknown method 'pfedeg'; did you mean 'pfedeg-star' or 'pfedeg-plus'"),
        ("model", "TransF", "unknown model 'TransF'; did you mean 'transe'?"),
    ],
)
def test_invalid_settings_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Config(**{field: value})
    assert str(caught.value).startswith(message)


def test_range_limits_are_allowed() -> None:
    Config(p=0, beta=0.0, fraction=1, alpha=0, seed=0, dim=1, lr=1e30, rounds=2**63 - 1)
    Config(p=1.0, fraction=1e-9, gamma=1)


def test_suggestions() -> None:
    assert suggest("Polnad", ["Poland", "Germany"]) == "; did you mean 'Poland'?"
    assert suggest("germ", ["Poland", "Germany"]) == "; did you mean 'Germany'?"
    assert suggest("pfedeg", METHODS).startswith("; did you mean 'pfedeg-star' or 'pfedeg-plus' or ")
    assert suggest("", ["Poland", "Germany"]) == "; choose from Poland, Germany"
    assert suggest("x", ["Poland", "Germany"]) == "; choose from Poland, Germany"
    assert suggest("x", map(str, range(100))) == ""
    assert len(suggest("learning_rate", all_settings())) < 80  # not a list of all


def test_paper_defaults() -> None:
    resolved = Config()
    expected = {
        "method": "pfedeg-plus",
        "model": "transe",
        "rounds": 300,
        "epochs": 3,
        "batch": 512,
        "dim": 128,
        "negatives": 256,
        "sampling": "own",
        "lr": 1e-3,
        "gamma": 10.0,
        "alpha": 1.0,
        "loss": "mean",
        "moments": "reset",
        "start": "shared",
        "beta": 3e-3,
        "p": 0.5,
        "reduce": "sum",
        "fraction": 1.0,
        "evaluate": "after_training",
        "eval_every": 5,
        "patience": 5,
    }
    assert {name: resolved.as_dict()[name] for name in expected} == expected


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("model", list(MODELS))
def test_defaults_follow_method_and_model(method: str, model: str) -> None:
    config = Config(method=method, model=model)
    found = config.as_dict()
    alone = method in ("single", "collective")
    assert (config.rounds, config.epochs, config.eval_every) == ((900, 1, 10) if alone else (300, 3, 5))
    assert config.moments == ("keep" if alone else "reset")
    own: dict[str, Any] = {}
    if method.startswith("pfedeg"):
        own["p"] = 0.5
        if not method.endswith("init"):
            own["beta"] = 5e-4 if model in ("complex", "distmult") else 3e-3
        if "plus" in method:
            own["reduce"] = "sum"
    if method == "fedec":
        own = {"mu": 0.1, "tau": 0.2, "contrast": "per_entity"}
    if not alone:
        own |= {"fraction": 1.0, "evaluate": "after_aggregation" if "fede" in method[:4] else "after_training"}
    names = ("p", "beta", "reduce", "mu", "tau", "contrast", "fraction", "evaluate")
    assert {name: found[name] for name in names if name in found} == own
    assert None not in found.values()
    assert Config(**found) == config


def test_given_settings_override_defaults() -> None:
    config = Config(rounds=7, epochs=2, moments="keep", beta=0.5, evaluate="after_aggregation", eval_every=3)
    values = (
        config.rounds,
        config.epochs,
        config.moments,
        config.method_settings.beta,
        config.evaluate,
        config.eval_every,
    )
    assert values == (7, 2, "keep", 0.5, "after_aggregation", 3)


@dataclass(frozen=True)
class Clashing:
    """Settings of a method, one of which every run has."""

    dim: int = setting(3, "something else")


@dataclass(frozen=True)
class Reserved:
    """Settings of a method, one of which is an option of `pfedeg train`."""

    threads: int = setting(3, "something else")


@dataclass(frozen=True)
class BadDefault:
    """Settings of a method, one of which is out of its own range."""

    power: float = setting(-1.0, "a power", least=0)


RESERVED = Method("reserved", "Reserved", lambda settings, threads: Alone(), Reserved)
BAD_DEFAULT = Method("bad-default", "Bad default", lambda settings, threads: Alone(), BadDefault)
MISSPELT = Method("misspelt", "Misspelt", lambda settings, threads: Alone(), defaults={"rouns": 3})


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (RESERVED, "the command line has a setting 'threads' too; rename it"),
        (BAD_DEFAULT, "default of power: -1.0 is out of range; it must be at least 0"),
        (MISSPELT, "a default for an unknown setting, 'rouns'; did you mean 'rounds'"),
    ],
)
def test_methods_with_impossible_settings_are_refused(method: Method, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Config(method)
    assert message in str(caught.value)


def test_a_refused_method_changes_no_flag() -> None:
    before = {name: (one.kind, one.users) for name, one in all_settings().items()}
    for method in (RESERVED, CLASHING):
        with pytest.raises(InputError):
            Config(method)
    after = {name: (one.kind, one.users) for name, one in all_settings().items()}
    assert {name: after[name] for name in before} == before
    assert "threads" not in after


@pytest.mark.parametrize("wrong", [{"color": "blue"}, {"trains": "together"}, {"role": "best"}], ids=str)
def test_methods_that_a_report_could_not_show_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=f"^method 'mine': {name} is "):
        Method("mine", "Mine", lambda settings, threads: Alone(), **wrong)


def test_numbers_of_numpy_are_numbers() -> None:
    config = Config(rounds=np.int64(3), lr=np.float32(0.5))
    assert (config.rounds, config.optimizer_settings.lr) == (3, 0.5)
    assert type(config.rounds) is int


CLASHING = Method("clashing", "Clashing", lambda settings, threads: Alone(), Clashing)
UNBUILDABLE = Method("unbuildable", "Unbuildable", lambda settings: Alone())  # type: ignore[arg-type, misc]


def test_two_settings_of_the_same_name_are_refused() -> None:
    with pytest.raises(InputError, match=r"^method '.*:CLASHING': every run has a setting 'dim' too; rename it$"):
        Config(CLASHING)


def test_a_part_that_cannot_be_built_is_named() -> None:
    with pytest.raises(RunError, match=r"^method .*:UNBUILDABLE: build failed: TypeError: "):
        Config(UNBUILDABLE).build_strategy()


def test_a_round_of_single_is_one_epoch() -> None:
    assert Config(method="single", epochs=1).epochs == 1
    with pytest.raises(InputError, match="epochs: a round of Single is one epoch; set rounds instead"):
        Config(method="single", epochs=3)


@pytest.mark.parametrize(
    ("method", "replace", "pull"),
    [
        ("pfedeg-plus", True, 0.25),
        ("pfedeg-plus-reg", False, 0.25),
        ("pfedeg-plus-init", True, 0.0),
        ("pfedeg-star", True, 0.25),
        ("pfedeg-star-reg", False, 0.25),
        ("pfedeg-star-init", True, 0.0),
    ],
)
def test_ablations_omit_init_or_reg(method: str, replace: bool, pull: float) -> None:
    strategy = Config(method=method, beta=0.25, p=0.75).build_strategy()
    assert isinstance(strategy, PFedEGPlus if "plus" in method else PFedEGStar)
    assert (strategy.absorb.replace, strategy.absorb.pull, strategy.p) == (replace, pull, 0.75)


def test_baselines_are_built_from_their_settings() -> None:
    assert Config(method="single").build_strategy().uploads.tables == ()
    assert Config(method="fede").build_strategy().absorb.contrast == 0
    fedec = Config(method="fedec", mu=0.3, tau=0.4, contrast="pooled").build_strategy().absorb
    assert (fedec.replace, fedec.contrast, fedec.temperature, fedec.pooled) == (True, 0.3, 0.4, True)


def test_local_training_is_built_from_their_settings() -> None:
    local = Config(epochs=2, batch=3, negatives=4, sampling="shared", chunk=5, lr=6.0, alpha=7.0, loss="sum")
    built = local.build_recipe(Absorb())
    assert built.batches == Batches(2, 3, 4, "shared", 5, "sum")
    assert (built.optimizer, built.objective) == (Adam(lr=6.0), SelfAdversarial(alpha=7.0))


# Flags, files, presets


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_override_the_file_which_overrides_the_preset(tmp_path: Path) -> None:
    file = toml(tmp_path, "dim = 32\nlr = 1\nmethod = 'fede'")
    config, remarks = configure({"lr": 2.0, "batch": None}, "quick", file)
    assert (config.method, config.dim, config.optimizer_settings.lr, config.batch) == (
        "fede",
        32,
        2.0,
        PRESETS["quick"]["batch"],
    )
    assert remarks == []


def test_a_preset_flag_overrides_the_preset_in_the_file(tmp_path: Path) -> None:
    file = toml(tmp_path, "\ufeffpreset = 'quick'")
    assert configure({}, None, file)[0].rounds == PRESETS["quick"]["rounds"]
    assert configure({}, "paper", file)[0].rounds == 300
    assert configure({})[0] == Config()


def test_quick_preset_gives_single_as_many_epochs() -> None:
    assert configure({"method": "single"}, "quick")[0].rounds == 120
    assert configure({"method": "single", "rounds": 7}, "quick")[0].rounds == 7


def test_settings_that_the_method_does_not_use_are_dropped_with_a_remark(tmp_path: Path) -> None:
    file = toml(tmp_path, "tau = 0.5")
    config, remarks = configure({"method": "single", "p": 0.7}, None, file)
    assert not uses(config, "p")
    assert not uses(config, "tau")
    assert remarks == ["tau is not used by single", "p is not used by single"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dim = ", "settings.toml: not valid TOML: "),
        ("dmi = 3", "settings.toml: unknown setting 'dmi'; did you mean 'dim'?"),
        ("[train]\ndim = 3", "settings.toml: [train] is a table; put settings at the top level"),
        ("dim = 0", "settings.toml: dim: 0 is out of range"),
        ("preset = 'fast'", "settings.toml: unknown preset 'fast'"),
        ("dim = 'x'", "dim: 'x' is not a whole number"),
        ("lr = nan", "lr: nan is out of range; it must be finite"),
        ("preset = 'slow'", "unknown preset 'slow'; choose from paper, quick"),
        ("preset = ['quick']", "unknown preset ['quick']"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        configure({}, None, toml(tmp_path, text))
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read: No such file or directory"):
        configure({}, None, tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"bytes\.toml: not valid UTF-8"):
        configure({}, None, tmp_path / "bytes.toml")
    with pytest.raises(InputError, match="unknown preset 'quik'; did you mean 'quick'"):
        configure({}, "quik")
