"""Kept machine code: where it goes, what is cleared away, and that no process gets another's code."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from pfedeg.engine.lowlevel import code_cache as cache

STATE = cache.folder().name
NOWHERE = os.devnull  # nothing can be made below it, by root neither
# A module with a kernel, and a program that calls it for types in a given order and tells what was compiled.
TWICE = """
from pfedeg.engine.lowlevel.compile import kernel

@kernel
def twice(number):
    return number + number
"""
CALL = """
import sys, tempfile
from pfedeg.engine.lowlevel import code_cache as cache
if sys.argv[1] == "nowhere":
    tempfile.tempdir = "/dev/null"
from twice import twice
results = [twice({"int": 3, "float": 0.75, "complex": 1j}[kind]) for kind in sys.argv[2:]]
print(results, sum(twice.stats.cache_misses.values()), "compiled,", "kept" if cache.folder() else "not kept")
"""


@pytest.fixture
def find(monkeypatch, tmp_path):
    """The folder that is found with environment variables like these."""

    def folder(**variables):
        for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        return cache.folder.__wrapped__()

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return folder


def test_the_first_place_that_can_be_written_is_used(find, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    temporary = tmp_path / "temporary" / f"pfedeg-{os.getuid()}"
    assert find(NUMBA_CACHE_DIR=a, XDG_CACHE_HOME=b, HOME=b) == a / "pfedeg" / STATE
    assert find(NUMBA_CACHE_DIR=NOWHERE, XDG_CACHE_HOME=b, HOME=a) == b / "pfedeg" / STATE
    assert find(HOME=b) == b / ".cache" / "pfedeg" / STATE
    assert find(XDG_CACHE_HOME=NOWHERE, HOME=NOWHERE) == temporary / STATE
    assert temporary.stat().st_mode & 0o777 == 0o700


def test_code_is_not_taken_from_where_others_could_have_put_it(find, tmp_path):
    temporary = tmp_path / "temporary" / f"pfedeg-{os.getuid()}"
    temporary.mkdir()
    temporary.chmod(0o777)
    assert find(HOME=NOWHERE) is None
    temporary.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    temporary.symlink_to(tmp_path / "elsewhere")
    assert find(HOME=NOWHERE) is None


def test_only_former_states_that_were_unused_for_long_are_removed(find, tmp_path):
    place = tmp_path / "pfedeg"
    long_ago = time.time() - (cache.UNUSED_DAYS + 1) * 86400
    for name in (STATE, "0" * 12, "1" * 12, "keep-this-one"):
        (place / name / "inner").mkdir(parents=True)
        (place / name / "inner" / "code.nbi").touch()
        if name != "1" * 12:
            os.utime(place / name, (long_ago, long_ago))
    assert find(XDG_CACHE_HOME=tmp_path) == place / STATE
    assert sorted(path.name for path in place.iterdir()) == sorted([STATE, "1" * 12, "keep-this-one"])
    assert (place / STATE).stat().st_mtime > long_ago + 86400  # in use, and so not removed by another


# With processes of their own


@pytest.fixture
def start(tmp_path):
    """Begin to call the kernel in a new process, with the cache in `tmp_path`."""
    (tmp_path / "twice.py").write_text(TWICE)
    path = os.pathsep.join([str(tmp_path), *sys.path])

    def begin(*kinds, keep=True):
        words = [sys.executable, "-c", CALL, "tmp" if keep else "nowhere", *kinds]
        home = str(tmp_path) if keep else NOWHERE
        places = {"PYTHONPATH": path, "XDG_CACHE_HOME": home, "HOME": home, "NUMBA_CACHE_DIR": ""}
        return subprocess.Popen(
            words, env=os.environ | places, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return begin


def said(process):
    text = process.communicate()[0]
    assert process.returncode == 0, text
    return text.strip()


def test_where_nothing_can_be_kept_kernels_work_nevertheless(start):
    assert said(start("int", "float", keep=False)) == "[6, 1.5] 2 compiled, not kept"


def test_processes_that_compile_at_the_same_time_one_of_them_killed(start, tmp_path):
    victim = start("int", "float", "complex")
    others = {start("int", "float"): "[6, 1.5]", start("complex", "int"): "[2j, 6]", start("float"): "[1.5]"}
    while victim.poll() is None and not any(tmp_path.rglob("*.nbi*")):
        time.sleep(0.001)
    victim.kill()
    victim.communicate()
    for process, right in others.items():
        assert said(process).startswith(right)
    assert said(start("float", "complex", "int")).startswith("[1.5, 2j, 6] ")
    assert said(start("complex", "int", "float")) == "[2j, 6, 1.5] 0 compiled, kept"


def test_no_process_gets_code_that_another_compiled_for_other_types(start, tmp_path):
    said(start("int"))
    (index,) = tmp_path.rglob("*.nbi")
    of_first = index.read_bytes()
    index.unlink()  # the second reads the index before the first has written it …
    said(start("float"))
    index.write_bytes(of_first)  # … and the first writes it last
    assert said(start("int")) == "[6] 0 compiled, kept"


TRAIN = """
import hashlib
import numpy as np
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.engine.interface import Absorb, Batches, Knowledge, Recipe, positives
from pfedeg.engine.compiled.engine import CompiledEngine
from pfedeg.engine.compiled.training_loop import train
from pfedeg.models.base import Tables, start_rows
from pfedeg.models.registry import MODELS
from pfedeg.objectives.self_adversarial import SelfAdversarial
from pfedeg.optimizers.adam import Adam

graph = KnowledgeGraph.from_names([(f"e{i * i % 97}", f"r{i % 3}", f"e{(i * i + 5 * i) % 89}") for i in range(90)])
model = MODELS["complex"](36)
tables = Tables(
    start_rows(model, model.entity_width, 1, np.arange(len(graph.entities))),
    start_rows(model, model.relation_width, 2, np.arange(len(graph.relations))),
)
knowledge = Knowledge(tables.entity + np.float32(0.1), tables.entity[:0])
adam = Adam(lr=0.01)
recipe = Recipe(model, SelfAdversarial(), adam, Batches(epochs=9, size=32, negatives=50), Absorb(pull=0.1))
state = adam.init(tables)
CompiledEngine(1).train(recipe, tables, state, knowledge, positives(graph), 5)
print(hashlib.sha256(b"".join(array.tobytes() for array in (*tables, *state.values()))).hexdigest())
print(sum(train.stats.cache_misses.values()))
"""


@pytest.mark.full
def test_the_process_that_compiles_computes_the_same_bits_as_those_that_load(tmp_path):
    (tmp_path / "program.py").write_text(TRAIN)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONWARNINGS": "ignore"}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, str(tmp_path / "program.py")]
    outputs = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout.split()
        for _ in range(2)
    ]
    assert [compiled for _, compiled in outputs] == ["1", "0"]
    assert outputs[0][0] == outputs[1][0]
