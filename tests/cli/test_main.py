"""The command line: output, error messages and exit codes."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pfedeg.checked_files import read_arrays, read_json, write_arrays
from pfedeg.cli import main as cli
from pfedeg.cli import tables as terminal
from pfedeg.engine.interface import default_engine
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.triple_files import write_tsv
from pfedeg.training.config import REGISTRIES, Config, all_settings
from pfedeg.training.local_run import Training

pytestmark = pytest.mark.filterwarnings("default::pfedeg.errors.DataWarning")
SETTINGS: dict[str, Any] = {
    "dim": 8,
    "negatives": 4,
    "batch": 16,
    "lr": 0.02,
    "rounds": 4,
    "epochs": 1,
    "eval_every": 2,
}
QUICK = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
Call = Callable[..., SimpleNamespace]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command in this process; returns its exit code and output."""

    def run(*words: object) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["pfedeg", *map(str, words)])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as error:
            code = error.code
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, out=printed.out, err=printed.err, lines=printed.err.splitlines())

    return run


@pytest.fixture(scope="module")
def finished(synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    Training(synthetic, Config(**SETTINGS), out=out, engine=default_engine(1), source="woods").run()
    return out


@pytest.fixture(scope="module")
def unfinished(synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run interrupted after two rounds."""
    out = tmp_path_factory.mktemp("runs") / "unfinished"
    for done in Training(synthetic, Config(**SETTINGS), out=out, engine=default_engine(1)):
        if done.number == 2:
            break
    return out


# Help


@pytest.mark.parametrize("words", [["--help"], [], ["--version"]])
def test_help_needs_no_heavy_library(words: list[str]) -> None:
    code = f"""
import sys
from pfedeg.cli.main import main
sys.argv = ["pfedeg", *{words!r}]
try:
    main()
finally:
    print(sorted({{"numpy", "numba", "rich", "pyarrow", "safetensors"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, heavy = done.stdout.splitlines()
    assert heavy == "[]"
    assert text[0].startswith("pfedeg " if words == ["--version"] else "Usage: pfedeg")
    assert done.stderr == ""


def test_show_does_not_load_the_compiler(finished: Path) -> None:
    code = f"""
import sys
from pfedeg.cli.main import main
sys.argv = ["pfedeg", "show", {str(finished)!r}]
main()
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("command", ["demo", "partition", "train", "evaluate", "predict", "show"])
def test_every_command_has_help_with_an_example(call: Call, command: str) -> None:
    done = call(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"pfedeg {command} " in done.out.split("Example", 1)[1]


@pytest.mark.parametrize("group", [(), ("server",), ("client",)])
def test_short_help_is_not_truncated(call: Call, monkeypatch: pytest.MonkeyPatch, group: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = call(*group, "--help").out.partition("Commands:\n")[2].splitlines()
    assert len(commands) > 5
    assert [line for line in commands if line.endswith("...") or not line.startswith("  ")] == []


def test_train_has_a_flag_for_every_setting(call: Call) -> None:
    text = call("train", "-h").out
    for name in [*REGISTRIES, *all_settings()]:
        assert f"--{name.replace('_', '-')} " in text
    for flag in ("--threads", "--preset", "--config", "--out", "--resume", "--json"):
        assert f"{flag} " in text


# Bad input


@pytest.fixture
def place(folder: Path, finished: Path, unfinished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with good data, bad data, good runs and bad runs."""
    here = folder.parent
    monkeypatch.chdir(here)
    for name, content in {
        "empty": b"",
        "two": b"a\tr\tb\na\tr\n",
        "latin": b"a\tr\tb\nM\xfcnchen\tr\tb\n",
        "gap": b"a\t\tb\n",
    }.items():
        (here / name / "one").mkdir(parents=True)
        (here / name / "one" / "train.tsv").write_bytes(content)
    (here / "idle" / "one").mkdir(parents=True)
    write_tsv(here / "idle" / "one" / "valid.tsv", [("a", "r", "b")])
    (here / "nothing").mkdir()
    (here / "broken.parquet").write_bytes(b"PAR1")
    columns = {"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "a"]}
    pq.write_table(pa.table({"client": ["x", "y"], "split": ["test", "train"], **columns}), here / "idle.parquet")
    names = ["Kraków", "Krako\u0301w"]
    pq.write_table(pa.table({"client": names, **columns}), here / "twice.parquet")
    (here / "bad.toml").write_text("dmi = 3")
    shutil.copytree(finished, here / "run")
    shutil.copytree(unfinished, here / "part")
    for name in ("odd", "cut"):
        shutil.copytree(finished, here / name)
    (here / "odd" / "provenance.json").write_text("{}")
    (here / "cut" / "config.json").write_text("{")
    return here


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


BAD = [
    ("train none", "none: no such file or folder"),
    ("train nothing", "nothing: no clients found; a client is a subfolder"),
    ("train empty", "empty/one/train.tsv: empty"),
    ("train two", "two/one/train.tsv, line 2: 2 column(s) instead of"),
    ("train latin", "latin/one/train.tsv, line 2: not valid UTF-8"),
    ("train gap", "gap/one/train.tsv, line 1: the relation is empty"),
    ("train idle", "idle/one: contains neither train.tsv nor triples.tsv"),
    ("train idle.parquet", "client 'x' has no training triples"),
    ("train twice.parquet", "two clients are called 'Kraków'"),
    ("train broken.parquet", "broken.parquet: not a readable Parquet file"),
    ("train data/ash/train.tsv", "train.tsv: not a readable Parquet file"),
    (f"train {'x' * 300}", "File name too long"),
    ("train 'line\nbreak'", "line\\nbreak: no such file or folder"),
    ("train data --method fedavg", "unknown method 'fedavg'"),
    ("train data --method pfedeg", "did you mean 'pfedeg-star' or 'pfedeg-plus'"),
    ("train data --model transd", "unknown model 'transd'; did you mean 'transe'"),
    ("train data --dim 0", "dim: 0 is out of range; it must be at least 1"),
    ("train data --dim x", "Invalid value for '--dim'"),
    ("train data --lr nan", "lr: nan is out of range"),
    ("train data --p 2", "p: 2.0 is out of range; it must be at least 0 and at most 1"),
    ("train data --fraction 0", "fraction: 0.0 is out of range"),
    ("train data --seed -1", "seed: -1 is out of range"),
    ("train data --threads 0", "Invalid value for '--threads'"),
    ("train data --preset slow", "unknown preset 'slow'; choose from paper, quick"),
    ("train data --config none.toml", "none.toml: cannot be read: No such file"),
    ("train data --config bad.toml", "bad.toml: unknown setting 'dmi'; did you mean 'dim'"),
    ("train data --method single --epochs 2", "epochs: a round of Single is one epoch"),
    ("train data --dmi 3", "No such option"),
    ("train", "Missing argument 'PATH'"),
    ("trian data", "No such command"),
    ("train data --out run", "run: already contains a run; add --resume"),
    ("train data --out data", "data: already exists; choose another --out"),
    ("train data --out bad.toml --resume", "bad.toml: already exists"),
    ("train data --out bad.toml/run", "cannot be created"),
    ("train data --out run --resume", "run: contains a run on other data (woods)"),
    ("partition none --clients 2 --out new", "none: no such file or folder"),
    ("partition data/ash --clients 9 --out new", "--clients 9: the graph has 2 relations, so 1 to 2 clients"),
    ("partition data/ash --clients 2 --out data", "data: already exists"),
    ("partition data/ash --clients 2 --by client --out new", "Invalid value for '--by'"),
    ("partition data/ash --clients 2 --seed -1 --out new", "Invalid value for '--seed'"),
    ("partition empty/one --clients 1 --out new", "train.tsv: empty"),
    ("partition nothing --clients 1 --out new", "contains neither train.tsv nor triples.tsv"),
    ("evaluate none", "none: no such folder"),
    ("evaluate data", "data: not a run"),
    ("evaluate part", "part: the run is not finished; repeat the"),
    ("evaluate run --split dev", "Invalid value for '--split'"),
    ("show data/ash/train.tsv", "not a folder"),
    ("show nothing", "nothing: not a run"),
    ("show odd", "odd: damaged, or made by another version of pfedeg"),
    ("show cut", "cut/config.json: damaged"),
    ("predict data --client ash --head e00 --relation near", "data: not a run"),
    ("predict run --client Ash --head e00 --relation near", "unknown client 'Ash'; did you mean 'ash'?"),
    ("predict run --client ash --head e00 --relation naer", "unknown relation 'naer'; did you mean 'near'?"),
    ("predict run --client ash --head E01 --relation near", "unknown entity 'E01'; did you mean 'e01'?"),
    ("predict run --client ash --head '' --relation near", "the entity is missing"),
    ("predict run --client ash --relation near", "too many for a terminal; write the answers to a file"),
    ("predict run --client ash --head e00 --tail e01 --relation near", "give either a head or a tail"),
    (
        "predict run --client ash --head e00 --relation near -k 0",
        "'--top': 0 is not in the range x>=1",
    ),
    ("predict run --head e00 --relation near", "Missing option '--client'"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line[:60] for line, _ in BAD])
def test_bad_input_gives_one_line_exit_code_2_and_no_files(call: Call, place: Path, line: str, message: str) -> None:
    before = everything(place)
    done = call(*shlex.split(line))
    assert done.code == 2
    assert done.out == ""
    assert len(done.lines) == 1, done.err
    assert done.lines[0].startswith("error: ")
    assert message in done.lines[0]
    assert everything(place) == before


def test_resuming_with_other_settings_is_refused(call: Call, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert call("train", folder, *QUICK, "--threads", 1, "--out", out).code == 0
    done = call("train", folder, *QUICK, "--out", out, "--resume", "--p", 0.7)
    assert done.code == 2
    assert done.lines == [
        f"error: {out}: contains a run with p = 0.5, not 0.7; choose another --out, or give the same settings"
    ]


def test_a_damaged_table_is_refused(call: Call, place: Path) -> None:
    path = place / "run" / "clients" / "ash" / "tables.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    done = call("predict", "run", "--client", "ash", "--head", "e00", "--relation", "near")
    assert done.code == 2
    assert "tables.safetensors: damaged" in done.lines[0]
    arrays, about = read_arrays(place / "odd" / "clients" / "ash" / "tables.safetensors")
    write_arrays(path, arrays | {"entity": arrays["entity"][:-1]}, about)
    done = call("evaluate", "run")
    assert done.code == 2
    assert done.lines == ["error: run: client 'ash': the entity table does not fit the graph and model"]


# Failure


def test_divergence_ends_with_exit_code_1(call: Call, folder: Path, tmp_path: Path) -> None:
    done = call("train", folder, *QUICK, "--lr", 1e38, "--threads", 1, "--out", tmp_path / "run")
    assert (done.code, done.out) == (1, "")
    assert done.lines[-1].startswith("error: client '")
    assert "round 1: training diverged" in done.lines[-1]
    assert not (tmp_path / "run").exists()  # no round is worth resuming


@pytest.mark.parametrize(
    ("trouble", "code", "message"),
    [
        (MemoryError("Unable to allocate 9 TiB"), 1, "error: out of memory (Unable to allocate 9 TiB)"),
        (OSError(28, "No space left on device", "x"), 1, "error: x: No space left on device"),
        (OSError(13, "Permission denied", "x"), 2, "error: x: Permission denied"),
        (ValueError("two\nlines"), 1, "error: internal error: ValueError: two\\nlines; run again with"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_failure_gives_one_line(
    call: Call, monkeypatch: pytest.MonkeyPatch, trouble: BaseException, code: int, message: str
) -> None:
    def fail(*arguments: Any) -> None:
        raise trouble

    monkeypatch.setattr(Federation, "read", fail)
    done = call("train", "x")
    assert (done.code, done.out) == (code, "")
    (line,) = filter(None, done.lines)  # Ctrl-C prints an empty line first
    assert line.startswith(message)


def test_traceback_option_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pfedeg", "--traceback", "show", "/none"])
    with pytest.raises(Exception, match="no such folder"):
        cli.main()


# Successful commands


def test_train_evaluate_predict_show(call: Call, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "my run"
    done = call("train", folder, *QUICK, "--threads", 1, "--out", out)
    assert done.code == 0
    assert done.lines[0].startswith("PFedEG+, TransE: 3 clients, ")
    assert "PFedEG+: round 4/4, loss " in done.err
    assert "test metrics of round" in done.out
    assert done.out.splitlines()[-1] == f"saved the run in {out}; next: pfedeg show '{out}'"
    result = read_json(out / "result.json")

    again = call("train", folder, *QUICK, "--out", out, "--resume")
    assert again.code == 0
    assert "already finished; showing its result" in again.err
    assert again.out == done.out

    as_json = call("train", folder, *QUICK, "--out", out, "--resume", "--json")
    assert json.loads(as_json.out) == result

    for split in ("valid", "test"):
        done = call("evaluate", out, "--split", split, "--json")
        assert json.loads(done.out) == {"split": split, "side": "tail", **result[split]}
    both = json.loads(call("evaluate", out, "--side", "both", "--json").out)
    assert both["clients"]["ash"]["triples"] == result["test"]["clients"]["ash"]["triples"]
    assert "test metrics, tail prediction" in call("evaluate", out).out


def test_default_run_folder_is_below_runs(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = call("train", ".", *QUICK, "--method", "fede", "--threads", 1)
    assert done.code == 0
    assert (folder / "runs" / "data-fede-transe-0" / "result.json").exists()


def test_settings_from_a_file(call: Call, folder: Path, tmp_path: Path) -> None:
    lines = [f"{name} = {value}" for name, value in SETTINGS.items()]
    (tmp_path / "my.toml").write_text("\n".join([*lines, "method = 'single'", "p = 0.7"]).replace("epochs = 1\n", ""))
    done = call("train", folder, "--config", tmp_path / "my.toml", "--seed", 3, "--out", tmp_path / "run", "--json")
    assert done.code == 0
    assert "note: p is not used by single" in done.lines
    assert [json.loads(done.out)[name] for name in ("method", "seed", "rounds")] == ["single", 3, 4]


def test_predict_answers_with_names(call: Call, finished: Path, synthetic: Federation) -> None:
    question = ["predict", finished, "--client", "Čedar [x]", "--relation", "left"]
    done = call(*question, "--head", "e14", "--json", "-k", 99)
    answer = json.loads(done.out)
    assert {name: answer[name] for name in ("client", "head", "relation", "tail")} == {
        "client": "Čedar [x]",
        "head": "e14",
        "relation": "left",
        "tail": None,
    }
    graph = synthetic.graphs["Čedar [x]"]
    names = [line["entity"] for line in answer["predictions"]]
    known = {t for split in ("train", "valid", "test") for h, r, t in graph.named(split) if (h, r) == ("e14", "left")}
    assert known == {"e15"}
    assert sorted(names) == sorted(set(graph.entities) - known)
    assert [line["rank"] for line in answer["predictions"]] == list(range(1, len(names) + 1))
    scores = [line["score"] for line in answer["predictions"]]
    assert scores == sorted(scores, reverse=True)

    everything = json.loads(call(*question, "--head", "e14", "--json", "-k", 99, "--known").out)["predictions"]
    assert {line["entity"] for line in everything if line["known"]} == known
    assert len(everything) == len(graph.entities)

    shown = call(*question, "--tail", "e15", "-k", 2, "--known").out
    assert "Čedar [x]: (?, left, e15)" in shown
    heads = json.loads(call(*question, "--tail", "e15", "--json").out)["predictions"]
    assert len(heads) == 10
    assert "e14" not in [line["entity"] for line in heads]


def test_show_a_finished_run(call: Call, finished: Path) -> None:
    done = call("show", finished)
    assert (done.code, done.err) == (0, "")
    assert f"{finished}: PFedEG+, TransE, seed 0, finished" in done.out
    assert "data woods (fingerprint " in done.out
    for text in ("4 rounds, best round ", "MB exchanged in process", "Čedar [x]", "valid MRR by round", "learner"):
        assert text in done.out
    content = json.loads(call("show", finished, "--json").out)
    assert set(content) == {"config", "provenance", "result", "history"}
    assert content["result"] == read_json(finished / "result.json")
    assert [line["round"] for line in content["history"]] == [1, 2, 3, 4]


def test_show_an_unfinished_run(call: Call, unfinished: Path) -> None:
    done = call("show", unfinished)
    assert (done.code, done.err) == (0, "")
    assert "not finished; repeat the train command with --resume" in done.out
    assert "Metrics of round 2" in done.out
    content = json.loads(call("show", unfinished, "--json").out)
    assert content["result"] is None
    assert len(content["history"]) == 2


def test_partition_makes_a_federation_that_trains(call: Call, folder: Path, tmp_path: Path) -> None:
    done = call("partition", folder / "ash", "--clients", 2, "--by", "relation", "--seed", 4, "--out", tmp_path / "new")
    assert (done.code, done.out) == (0, f"wrote 2 clients to {tmp_path / 'new'}\n")
    assert [line.split(":")[0] for line in done.lines] == ["client-0", "client-1"]
    made = Federation.read(tmp_path / "new")
    assert {name: graph.relations for name, graph in made.graphs.items()} in (
        {"client-0": ("near",), "client-1": ("next",)},
        {"client-0": ("next",), "client-1": ("near",)},
    )
    assert call("train", tmp_path / "new", *QUICK, "--threads", 1, "--out", tmp_path / "run").code == 0


def test_warnings_about_data_are_printed_on_stderr(call: Call, tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", [("a", "r", "b"), ("b", "r", "c"), ("a", "r", "b")])
    done = call("train", tmp_path, *QUICK, "--threads", 1, "--out", tmp_path / "run")
    name = tmp_path.name
    assert done.code == 0
    assert [line for line in done.lines if line.startswith("warning: ")] == [
        f"warning: {tmp_path}: dropped 1 duplicate triple(s)",
        f"warning: client {name!r} has no valid and test triples: it trains without evaluation",
        "warning: no client has valid triples: no early stopping, the last tables are kept",
        "warning: a federation of one client: it has no other client to learn from",
    ]
    assert call("show", tmp_path / "run").code == 0


def test_names_are_printed_literally(call: Call, tmp_path: Path) -> None:
    odd = "[/b]:smile:\x1b[31m\u2028"
    graph = KnowledgeGraph.from_names([(odd, "[/r]", "b"), ("b", "[/r]", "c")], [("c", "[/r]", odd)])
    other = KnowledgeGraph.from_names([("b", "s", "c"), ("c", "s", "d")], [("d", "s", "b")])
    out = tmp_path / "[/run]"
    config = Config(**SETTINGS)
    Training(Federation({odd: graph, "plain": other}), config, out=out, engine=default_engine(1)).run()
    question = ["--client", odd, "--head", odd, "--relation", "[/r]", "--known"]
    for words in (["show", out], ["evaluate", out, "--split", "valid"], ["predict", out, *question]):
        done = call(*words)
        assert (done.code, done.err) == (0, "")
        assert "[/b]:smile:" in done.out
        assert "\x1b" not in done.out
        assert "\u2028" not in done.out
    assert str(out) in call("show", out).out
    done = call("predict", out, "--client", "none", "--head", odd, "--relation", "[/r]")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "\x1b" not in done.err


def test_non_unicode_path(call: Call, folder: Path, tmp_path: Path) -> None:
    data = os.fsdecode(os.fsencode(tmp_path) + b"/d\xff")
    shutil.copytree(folder, data)
    out = tmp_path / "run"
    assert call("train", data, *QUICK, "--threads", 1, "--out", out).code == 0
    assert read_json(out / "provenance.json")["data"].endswith("/d�")
    assert call("show", out).code == 0


# The terminal


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "under 1 s"),
        (0.6, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599.7, "1 h 00 min"),
        (7320, "2 h 02 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert terminal.duration(seconds) == text


def test_curve_shows_first_last_best_and_worst() -> None:
    assert terminal.curve([(5, 0.1)]) == ""
    *rows, axis, scale = terminal.curve([(5, 0.1), (10, 0.3), (15, 0.2)], width=21, height=3).splitlines()
    assert rows[0] == "  0.3000 ┤" + " " * 10 + "•"
    assert rows[1] == "         ┤" + " " * 20 + "•"
    assert rows[2] == "  0.1000 ┤•"
    assert axis.endswith("└" + "─" * 21)
    assert scale == " " * 10 + "5" + "15".rjust(20)
    flat = terminal.curve([(1, 0.5), (2, 0.5)], width=5, height=2).splitlines()
    assert flat[0] == "  0.5000 ┤•   •"
