"""Several clients on one machine: which run at the same time; results do not depend on it."""

import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from pfedeg.engine.interface import Knowledge, default_engine, positives
from pfedeg.errors import RunError
from pfedeg.methods.exchange import Download
from pfedeg.models.registry import MODELS
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from pfedeg.training.schedule import Work, concurrent, run_all
from recipes import fresh, recipe
from toy import toy_federation, toy_graph, toy_tables


class IdleEngine:
    """An engine that computes nothing and records the single-threaded engines that it made."""

    def __init__(self, threads):
        self.threads, self.singles, self.stopped = threads, [], threading.Event()

    def single(self):
        self.singles.append(IdleEngine(1))
        return self.singles[-1]

    def stop(self):
        self.stopped.set()

    def train(self):
        raise NotImplementedError

    scores = ranks = train


@pytest.mark.parametrize(
    ("sizes", "threads", "chosen"),
    [
        ([], 2, []),
        ([5], 2, []),  # a lone client gets all threads
        ([5, 6], 1, []),
        ([5, 6], 2, [1, 0]),
        ([5, 6, 4], 2, [1, 0]),  # the third would leave a thread idle
        ([90, 5, 6], 2, []),  # 90 beside 6 would too
        ([90, 5, 6, 80], 2, [0, 3, 2, 1]),
        ([5] * 7, 4, [0, 1, 2, 3, 4, 5, 6]),
        ([5] * 6, 64, [0, 1, 2, 3, 4, 5]),  # 64 threads inside each would wait for one most of the time
        ([0, 0], 2, []),  # nothing to do
    ],
)
def test_which_clients_run_concurrently(sizes, threads, chosen):
    assert concurrent(sizes, threads) == chosen


def test_results_keep_the_order_of_the_work():
    engine = IdleEngine(2)
    work_of = {
        name: Work(size, lambda single, name=name: (name, single)) for name, size in {"a": 3, "b": 5, "c": 4}.items()
    }
    done = run_all(work_of, engine)
    assert list(done) == ["a", "b", "c"]
    assert [name for name, _ in done.values()] == ["a", "b", "c"]
    assert done["a"][1] is engine
    assert {done["b"][1], done["c"][1]} <= set(engine.singles)


def test_at_most_one_client_per_thread_each_with_its_own_engine():
    engine, running, most = IdleEngine(3), [], []

    def work(single):
        running.append(single)
        most.append(len(running))
        assert len(set(map(id, running))) == len(running)
        time.sleep(0.002)
        running.remove(single)

    run_all({i: Work(1, work) for i in range(30)}, engine)
    assert len(most) == 30
    assert max(most) <= len(engine.singles) == 3


def test_the_first_error_in_order_is_raised_after_all_clients_end():
    ended = []

    def work(name, wait, single):
        time.sleep(wait)
        ended.append(name)
        if name != "c":
            raise RunError(name)

    work_of = {
        name: Work(1, partial(work, name, wait)) for name, wait in {"a": 0.05, "b": 0.0, "c": 0.1, "d": 0.0}.items()
    }
    with pytest.raises(RunError, match=r"^a$"):
        run_all(work_of, IdleEngine(4))
    assert sorted(ended) == ["a", "b", "c", "d"]


@pytest.mark.usefixtures("sigint_enabled")
def test_ctrl_c_stops_running_clients_and_starts_no_others():
    engine, begun = IdleEngine(2), []

    def work(name, single):
        begun.append(name)
        if len(begun) == 2:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        single.stopped.wait()

    with pytest.raises(KeyboardInterrupt):
        run_all({name: Work(1, partial(work, name)) for name in "abcdef"}, engine)
    assert sorted(begun) == ["a", "b"]


# --- with the compiled engine ---


@pytest.mark.parametrize("method", ["single", "collective", "fedec", "pfedeg-plus"])
def test_results_do_not_depend_on_concurrency(method, monkeypatch):
    federation = toy_federation(clients=5)
    config = Config(method=method, dim=8, batch=16, negatives=5, rounds=3, eval_every=1, lr=0.01)
    runs = []
    for threads in (1, 2, 3):
        engine, singles = default_engine(threads), []
        make = engine.single
        monkeypatch.setattr(engine, "single", lambda make=make, singles=singles: singles.append(make()) or singles[-1])
        run = Training(federation, config, engine=engine)
        runs.append(([(done.loss, done.metrics) for done in run], run.result["test"], run.tables))
        assert bool(singles) == (threads > 1 and method != "collective")  # which has one trainer
    for losses, result, tables in runs[1:]:
        assert (losses, result) == runs[0][:2]
        for name, (entity, relation) in tables.items():
            np.testing.assert_array_equal(entity, runs[0][2][name].entity)
            np.testing.assert_array_equal(relation, runs[0][2][name].relation)


def test_an_error_of_one_client_changes_no_client():
    run = Training(toy_federation(clients=4), Config(dim=4, rounds=2), engine=default_engine(2))
    transport = run._transport
    before = dict(transport.states)
    downloads = {name: Download(upload.tables) for name, upload in transport.uploads().items()}
    before["client-2"].tables.relation[0] = np.nan
    with pytest.raises(RunError, match="client 'client-2', round 1: training diverged"):
        transport.exchange(1, downloads)
    assert all(transport.states[name] is state for name, state in before.items())


def training_of(epochs):
    """Arguments of `train`, and the tables that it changes."""
    graph, model = toy_graph(0), MODELS["transe"](4)
    tables = toy_tables(0, model, graph)
    nothing = np.zeros((0, 4), np.float32)
    how = recipe(model, epochs=epochs, batch=2, negatives=8)
    return (how, tables, fresh(tables), Knowledge(nothing, nothing), positives(graph), 1), tables


def test_a_stopped_engine_changes_nothing():
    single, (arguments, tables) = default_engine(2).single(), training_of(2)
    before = tables.copy()
    single.stop()
    single.train(*arguments)
    np.testing.assert_array_equal(tables.entity, before.entity)


def test_an_engine_stops_while_it_trains():
    engine = default_engine(2)
    whole = engine.train(*training_of(1)[0])  # the mean loss over all epochs
    single, (arguments, tables) = engine.single(), training_of(8_000)
    before = tables.entity.copy()

    def stop_when_started():
        while (tables.entity == before).all():
            time.sleep(0.001)
        single.stop()

    watcher = threading.Thread(target=stop_when_started)
    watcher.start()
    assert single.train(*arguments) < whole / 2  # most epochs added nothing
    watcher.join()
