"""A client's half of a round, and the round loop: what reaches the kernels, and what leaves the client."""

import numpy as np
import pytest
from pfedeg.methods.baselines import FedE

from pfedeg.engine.interface import Absorb
from pfedeg.errors import RunError
from pfedeg.graphs.alignment import Rows, Shared
from pfedeg.models.transe import TransE
from pfedeg.training.client import Client
from pfedeg.training.evaluation import Metrics
from pfedeg.training.rounds import Update, run, select
from toy import toy_graph

ALIGNED = np.array([7, 2, 9, 4, 0, 5], np.int32)  # of the six local rows
TRAVELLING = np.array([2, 4, 7], np.int32)  # local rows 1, 3, 0
DOWNLOAD = Rows(np.array([4, 7], np.int32), np.array([[4, 4], [7, 7]], np.float32))


class Spy:
    """Engine that remember what they get, and add 1 to the tables."""

    def __init__(self, loss=0.5, spoil=0.0):
        self.calls, self._loss, self._spoil = [], loss, spoil

    def train(self, model, local, absorb, tables, moments, knowledge, positives, key):
        self.calls.append((tables.copy(), copied(moments), knowledge, key))
        for table in tables:
            table += 1 + self._spoil
        moments["steps"][0] += 1
        return self._loss


def client(absorb=None, **settings):
    graph = toy_graph(0, entities=6, relations=2, triples=9)
    settings = {"seed": 3, "local": dict(), "model": TransE(2), **settings}
    return Client("c", graph, ALIGNED, TRAVELLING, absorb=absorb or Absorb(), **settings)


def test_upload_has_the_travelling_rows_by_id():
    one = client()
    state = one.start()
    upload = one.upload(state)
    assert upload.ids.tolist() == [2, 4, 7]
    np.testing.assert_array_equal(upload.values, state.tables.entity[[1, 3, 0]])


def test_init_starts_from_what_was_received_and_keeps_the_rest():
    spy = Spy()
    one = client(Absorb(replace=True, pull=0.1))
    state = one.start()
    before = state.tables.copy()
    one.step(state, 1, DOWNLOAD, spy)
    expected = before.entity.copy()
    expected[3], expected[0] = 4, 7
    tables, _, knowledge, _ = spy.calls[0]
    np.testing.assert_array_equal(tables.entity, expected)
    np.testing.assert_array_equal(knowledge.received, expected)  # an absent row: K is its own
    np.testing.assert_array_equal(state.tables.entity, before.entity)  # the state that went in is as it was
    np.testing.assert_array_equal(state.tables.relation, before.relation)


def test_reg_keeps_its_own_rows_and_is_pulled_towards_what_was_received():
    spy = Spy()
    one = client(Absorb(pull=0.1))
    state = one.start()
    one.step(state, 1, DOWNLOAD, spy)
    tables, _, knowledge, _ = spy.calls[0]
    np.testing.assert_array_equal(tables.entity, state.tables.entity)
    assert knowledge.received[[3, 0]].tolist() == [[4, 4], [7, 7]]


def test_contrast_is_with_the_end_of_the_previous_round():
    spy = Spy()
    one = client(Absorb(replace=True, contrast=0.1))
    state, _ = one.step(one.start(), 1, DOWNLOAD, spy)
    one.step(state, 2, DOWNLOAD, spy)
    (_, _, first, _), (_, _, second, _) = spy.calls
    np.testing.assert_array_equal(first.previous, first.received)  # nothing came before
    np.testing.assert_array_equal(second.previous, state.tables.entity)
    assert (second.previous != second.received).any()


def test_without_a_use_for_it_no_knowledge_is_kept():
    spy = Spy()
    one = client(Absorb(replace=True))
    one.step(one.start(), 1, DOWNLOAD, spy)
    assert [table.shape for table in spy.calls[0][2]] == [(0, 2), (0, 2)]


@pytest.mark.parametrize(("moments", "steps"), [("keep", [0, 1, 2]), ("reset", [0, 0, 0])])
def test_moments_are_kept_or_reset(moments, steps):
    spy = Spy()
    one = client(moments=moments)
    state = one.start()
    for number in (1, 2, 3):
        state, _ = one.step(state, number, DOWNLOAD, spy)
    assert [int(call[1].steps[0]) for call in spy.calls] == steps
    assert len({call[3] for call in spy.calls}) == 3  # every round has random numbers of its own


def test_aligned_rows_start_alike_or_not():
    graph = toy_graph(0, entities=6, relations=2, triples=9)

    def start(name, aligned, seed=3, **how):
        settings = {"model": TransE(2), "local": dict(), "absorb": Absorb(), "seed": seed, **how}
        return Client(name, graph, aligned, TRAVELLING, **settings).start().tables

    one, other = start("a", ALIGNED), start("b", ALIGNED[::-1])
    np.testing.assert_array_equal(one.entity, other.entity[::-1])
    assert (one.relation != other.relation).all()  # relations are each client's own
    assert (one.entity != start("a", ALIGNED, seed=4).entity).all()
    lonely = start("a", ALIGNED, start="independent")
    assert (lonely.entity != start("b", ALIGNED, start="independent").entity).all()


@pytest.mark.parametrize("kernels", [Spy(loss=float("nan")), Spy(spoil=np.inf)], ids=["loss", "tables"])
def test_divergence_names_client_and_round(kernels):
    one = client()
    with pytest.raises(RunError, match=r"client 'c', round 7: training diverged"):
        one.step(one.start(), 7, DOWNLOAD, kernels)


# --- the round loop ---


class Desk:
    """A transport whose clients send back what they got, plus 1."""

    def __init__(self, shared):
        self.rows = {c: Rows(shared.travelling[c], np.zeros((1, 1), np.float32)) for c in shared.clients}
        self.evaluated = []

    def uploads(self):
        return dict(self.rows)

    def exchange(self, number, downloads):
        new = {client: Rows(rows.ids, rows.values + 1) for client, rows in downloads.items()}
        self.rows |= new
        return {client: Update(rows, 0.1) for client, rows in new.items()}

    def evaluate(self, number, split, downloads):
        self.evaluated.append((number, split, downloads))
        return {client: Metrics.of(np.array([2.0])) for client in self.rows}


def everybody_owns_id_0(clients):
    return Shared({f"c{i}": np.array([0], np.int32) for i in range(clients)})


def test_latest_uploads_of_all_clients_are_aggregated_selected_or_not():
    shared = everybody_owns_id_0(4)
    value = dict.fromkeys(shared.clients, 0.0)
    for done in run(FedE(), desk := Desk(shared), shared, rounds=6, seed=1, fraction=0.5):
        mean = sum(value.values()) / 4
        assert list(done.selected) == select(shared, 0.5, 1, done.number)
        value |= dict.fromkeys(done.selected, mean + 1)
        assert {client: rows.values.item() for client, rows in desk.rows.items()} == pytest.approx(value)
        assert (done.bytes_up, done.bytes_down) == (2 * 8, 2 * 8)  # two clients, an int32 and a float32 each


def test_evaluation_every_k_rounds_and_at_the_end():
    shared = everybody_owns_id_0(2)
    rounds = list(run(FedE(), desk := Desk(shared), shared, rounds=7, seed=1, eval_every=3))
    assert [done.number for done in rounds if done.metrics] == [3, 6, 7]
    assert [(number, split) for number, split, _ in desk.evaluated] == [(3, "valid"), (6, "valid"), (7, "valid")]
    assert all(downloads is None for *_, downloads in desk.evaluated)


def test_evaluation_after_aggregation_is_of_all_clients_with_the_latest_uploads():
    shared = everybody_owns_id_0(4)
    how = {"rounds": 1, "seed": 1, "fraction": 0.25, "evaluate": "after_aggregation"}
    list(run(FedE(), desk := Desk(shared), shared, **how))
    downloads = desk.evaluated[0][2]
    assert {client: rows.values.item() for client, rows in downloads.items()} == dict.fromkeys(shared.clients, 0.25)


def test_rounds_go_on_where_they_were():
    shared = everybody_owns_id_0(3)
    whole = [done.selected for done in run(FedE(), Desk(shared), shared, rounds=6, seed=1, fraction=0.4)]
    rest = [done.selected for done in run(FedE(), Desk(shared), shared, rounds=6, seed=1, fraction=0.4, done=4)]
    assert rest == whole[4:]


def test_retired_clients_are_selected_no_more():
    shared = everybody_owns_id_0(2)
    retired = set()
    seen = []
    for done in run(FedE(), Desk(shared), shared, rounds=9, seed=1, retired=retired):
        seen.append(done.selected)
        retired.add(f"c{done.number - 1}")
    assert seen == [("c0", "c1"), ("c1",)]
