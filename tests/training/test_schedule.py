"""Several clients on one machine: who runs beside whom, and that nobody can tell from the results."""

import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from pfedeg.engine.interface import Absorb, Knowledge, default_engine, positives
from pfedeg.errors import RunError
from pfedeg.models.transe import TransE
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from pfedeg.training.schedule import Job, carry_out, side_by_side
from recipes import fresh
from toy import toy_federation, toy_graph, toy_tables


class Desk:
    """A crew that computes nothing; its solos remember that they were told to stop."""

    def __init__(self, threads):
        self.threads, self.solos = threads, []

    def solo(self):
        self.solos.append(Desk(1))
        self.solos[-1].stopped = threading.Event()
        self.solos[-1].stop = self.solos[-1].stopped.set
        return self.solos[-1]

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
def test_who_runs_side_by_side(sizes, threads, chosen):
    assert side_by_side(sizes, threads) == chosen


def test_results_are_in_the_order_given_whoever_computed_them():
    crew = Desk(2)
    jobs = {
        name: Job(size, lambda kernels, name=name: (name, kernels)) for name, size in {"a": 3, "b": 5, "c": 4}.items()
    }
    done = carry_out(jobs, crew)
    assert list(done) == ["a", "b", "c"]
    assert [name for name, _ in done.values()] == ["a", "b", "c"]
    assert done["a"][1] is crew
    assert {done["b"][1], done["c"][1]} <= set(crew.solos)


def test_never_more_at_once_than_threads_and_each_with_kernels_of_its_own():
    crew, running, most = Desk(3), [], []

    def work(kernels):
        running.append(kernels)
        most.append(len(running))
        assert len(set(map(id, running))) == len(running)
        time.sleep(0.002)
        running.remove(kernels)

    carry_out({i: Job(1, work) for i in range(30)}, crew)
    assert len(most) == 30
    assert max(most) <= len(crew.solos) == 3


def test_the_first_error_in_order_is_raised_and_only_after_all_have_ended():
    ended = []

    def work(name, wait, kernels):
        time.sleep(wait)
        ended.append(name)
        if name != "c":
            raise RunError(name)

    jobs = {name: Job(1, partial(work, name, wait)) for name, wait in {"a": 0.05, "b": 0.0, "c": 0.1, "d": 0.0}.items()}
    with pytest.raises(RunError, match=r"^a$"):
        carry_out(jobs, Desk(4))
    assert sorted(ended) == ["a", "b", "c", "d"]


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_stops_those_who_run_and_lets_nobody_begin():
    crew, begun = Desk(2), []

    def work(name, kernels):
        begun.append(name)
        if len(begun) == 2:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        kernels.stopped.wait()

    with pytest.raises(KeyboardInterrupt):
        carry_out({name: Job(1, partial(work, name)) for name in "abcdef"}, crew)
    assert sorted(begun) == ["a", "b"]


# --- with compiled kernels ---


@pytest.mark.parametrize("method", ["single", "collective", "fedec", "pfedeg-plus"])
def test_not_a_bit_changes_with_who_runs_beside_whom(method, monkeypatch):
    federation = toy_federation(clients=5)
    config = Config(method=method, dim=8, batch=16, negatives=5, rounds=3, eval_every=1, lr=0.01)
    runs = []
    for threads in (1, 2, 3):
        kernels, solos = default_engine(threads), []
        monkeypatch.setattr(kernels, "solo", lambda make=kernels.solo, solos=solos: solos.append(make()) or solos[-1])
        run = Training(federation, config, kernels=kernels)
        runs.append(([(done.loss, done.metrics) for done in run], run.result["test"], run.tables))
        assert bool(solos) == (threads > 1 and method != "collective")  # which has one trainer
    for losses, result, tables in runs[1:]:
        assert (losses, result) == runs[0][:2]
        for name, (entity, relation) in tables.items():
            np.testing.assert_array_equal(entity, runs[0][2][name].entity)
            np.testing.assert_array_equal(relation, runs[0][2][name].relation)


def test_an_error_of_one_client_leaves_all_as_they_were():
    run = Training(toy_federation(clients=4), Config(dim=4, rounds=2), kernels=default_engine(2))
    transport = run._transport
    before = dict(transport.states)
    before["client-2"].tables.entity[0] = np.nan
    with pytest.raises(RunError, match="client 'client-2', round 1: training diverged"):
        transport.exchange(1, transport.uploads())
    assert all(transport.states[name] is state for name, state in before.items())


def solo_training(epochs):
    """A call of `train`, and the tables that it changes."""
    graph, model = toy_graph(0), TransE(4)
    tables = toy_tables(0, model, graph)
    nothing = np.zeros((0, 4), np.float32)
    local, knowledge = dict(epochs=epochs, batch=2, negatives=8), Knowledge(nothing, nothing)
    arguments = (model, local, Absorb(), tables, fresh(tables), knowledge, positives(graph), 1)
    return arguments, tables


def test_a_solo_that_was_told_to_stop_changes_nothing():
    solo, (arguments, tables) = default_engine(2).solo(), solo_training(2)
    before = tables.copy()
    solo.stop()
    solo.train(*arguments)
    np.testing.assert_array_equal(tables.entity, before.entity)


def test_a_solo_stops_while_it_trains():
    kernels = default_engine(2)
    whole = kernels.train(*solo_training(1)[0])  # the mean loss, over all epochs asked for, is of some size
    solo, (arguments, tables) = kernels.solo(), solo_training(8_000)
    before = tables.entity.copy()

    def stop_when_begun():
        while (tables.entity == before).all():
            time.sleep(0.001)
        solo.stop()

    watcher = threading.Thread(target=stop_when_begun)
    watcher.start()
    assert solo.train(*arguments) < whole / 2  # most epochs added nothing
    watcher.join()
