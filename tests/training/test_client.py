"""A client's part of a round, and the round loop: arguments of the engine, uploads and downloads."""

from dataclasses import dataclass

import numpy as np
import pytest

from pfedeg.engine.interface import Absorb
from pfedeg.errors import InputError, RunError
from pfedeg.graphs.alignment import Rows, Shared
from pfedeg.methods.exchange import Contents, Download, SharedTable, Upload
from pfedeg.methods.fede import FedE
from pfedeg.training.client import Client
from pfedeg.training.config import Config
from pfedeg.training.evaluation import Metrics
from pfedeg.training.rounds import Update, run, select
from recipes import copied
from toy import toy_graph

ALIGNED = np.array([7, 2, 9, 4, 0, 5], np.int32)  # of the six local rows
TRAVELLING = np.array([2, 4, 7], np.int32)  # local rows 1, 3, 0
DOWNLOAD = Download({"entity": Rows(np.array([4, 7], np.int32), np.array([[4, 4], [7, 7]], np.float32))})


@dataclass(frozen=True)
class Absorbing(FedE):
    """FedE with a different `absorb`."""

    absorb: Absorb = Absorb()


class Spy:
    """An engine that records its arguments and adds 1 to the tables."""

    def __init__(self, loss=0.5, spoil=0.0):
        self.calls, self._loss, self._spoil = [], loss, spoil

    def train(self, recipe, tables, state, knowledge, positives, key):
        self.calls.append((tables.copy(), copied(state), knowledge, key))
        for table in tables:
            table += 1 + self._spoil
        state["steps"][0] += 1
        return self._loss


def client(absorb=None, name="c", aligned=ALIGNED, strategy=None, **settings):
    graph = toy_graph(0, entities=6, relations=2, triples=9)
    config = Config("fede", "transe", **{"seed": 3, "dim": 2, **settings})
    return Client(name, graph, aligned, TRAVELLING, config, strategy or Absorbing(absorb or Absorb()))


def test_upload_has_the_shared_rows_by_id():
    one = client()
    state = one.start()
    upload = one.upload(state)
    rows = upload.tables["entity"]
    assert rows.ids.tolist() == [2, 4, 7]
    np.testing.assert_array_equal(rows.values, state.tables.entity[[1, 3, 0]])


def test_init_replaces_received_rows_only():
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


def test_reg_keeps_own_rows_and_pulls_towards_received_ones():
    spy = Spy()
    one = client(Absorb(pull=0.1))
    state = one.start()
    one.step(state, 1, DOWNLOAD, spy)
    tables, _, knowledge, _ = spy.calls[0]
    np.testing.assert_array_equal(tables.entity, state.tables.entity)
    assert knowledge.received[[3, 0]].tolist() == [[4, 4], [7, 7]]


def test_contrast_uses_the_table_after_the_previous_round():
    spy = Spy()
    one = client(Absorb(replace=True, contrast=0.1))
    state, _ = one.step(one.start(), 1, DOWNLOAD, spy)
    one.step(state, 2, DOWNLOAD, spy)
    (_, _, first, _), (_, _, second, _) = spy.calls
    np.testing.assert_array_equal(first.previous, first.received)  # nothing came before
    np.testing.assert_array_equal(second.previous, state.tables.entity)
    assert (second.previous != second.received).any()


def test_unused_knowledge_is_not_copied():
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
    assert [int(call[1]["steps"][0]) for call in spy.calls] == steps
    assert len({call[3] for call in spy.calls}) == 3  # every round has different random numbers


def test_aligned_rows_have_equal_or_independent_initial_values():
    def start(name, aligned, **settings):
        return client(name=name, aligned=aligned, **settings).start().tables

    one, other = start("a", ALIGNED), start("b", ALIGNED[::-1])
    np.testing.assert_array_equal(one.entity, other.entity[::-1])
    assert (one.relation != other.relation).all()  # relations are each client's own
    assert (one.entity != start("a", ALIGNED, seed=4).entity).all()
    lonely = start("a", ALIGNED, start="independent")
    assert (lonely.entity != start("b", ALIGNED, start="independent").entity).all()


@pytest.mark.parametrize("engine", [Spy(loss=float("nan")), Spy(spoil=np.inf)], ids=["loss", "tables"])
def test_divergence_names_client_and_round(engine):
    one = client()
    with pytest.raises(RunError, match=r"client 'c', round 7: training diverged"):
        one.step(one.start(), 7, DOWNLOAD, engine)


class Declares(FedE):
    """FedE that declares a scalar but does not send it."""

    uploads = Contents((SharedTable("entity"),), ("loss",))


class UsesUnsharedEntities(FedE):
    """FedE whose `knowledge` has rows of unshared entities."""

    def knowledge(self, client, download):
        return Rows(np.array([9], np.int32), np.zeros((1, 2), np.float32))


def test_declared_contents_are_checked_at_the_client():
    with pytest.raises(InputError, match=r"method FedE, client 'c': invalid upload: scalars: expected loss"):
        (one := client(strategy=Declares())).upload(one.start())
    one = client(strategy=UsesUnsharedEntities())
    with pytest.raises(InputError, match=r"client 'c': invalid knowledge.* not shared entities"):
        one.step(one.start(), 1, DOWNLOAD, Spy())


# --- the round loop ---


class Loopback:
    """A transport whose clients return their download plus 1."""

    def __init__(self, shared):
        zero = np.zeros((1, 1), np.float32)
        self.sent = {c: Upload({"entity": Rows(shared.travelling[c], zero)}) for c in shared.clients}
        self.evaluated = []

    @property
    def values(self):
        return {client: value_of(upload) for client, upload in self.sent.items()}

    def uploads(self):
        return dict(self.sent)

    def exchange(self, number, downloads):
        new = {}
        for client, download in downloads.items():
            rows = download.tables["entity"]
            new[client] = Upload({"entity": Rows(rows.ids, rows.values + 1)})
        self.sent |= new
        return {client: Update(upload, 0.1) for client, upload in new.items()}

    def evaluate(self, number, split, downloads):
        self.evaluated.append((number, split, downloads))
        return {client: Metrics.of(np.array([2.0])) for client in self.sent}


def value_of(message):
    return message.tables["entity"].values.item()


def everybody_owns_id_0(clients):
    return Shared({f"c{i}": np.array([0], np.int32) for i in range(clients)})


def rounds_of(shared, transport=None, strategy=None, seed=1, **how):
    return run(strategy or FedE(), transport or Loopback(shared), shared, width=1, seed=seed, **how)


def test_latest_uploads_of_unselected_clients_are_aggregated_too():
    shared = everybody_owns_id_0(4)
    value = dict.fromkeys(shared.clients, 0.0)
    for done in rounds_of(shared, transport := Loopback(shared), rounds=6, fraction=0.5):
        mean = sum(value.values()) / 4
        assert list(done.selected) == select(shared, 0.5, 1, done.number)
        value |= dict.fromkeys(done.selected, mean + 1)
        assert transport.values == pytest.approx(value)
        assert (done.bytes_up, done.bytes_down) == (2 * 8, 2 * 8)  # two clients, an int32 and a float32 each


def test_evaluation_every_k_rounds_and_at_the_end():
    shared = everybody_owns_id_0(2)
    rounds = list(rounds_of(shared, transport := Loopback(shared), rounds=7, eval_every=3))
    assert [done.number for done in rounds if done.metrics] == [3, 6, 7]
    assert [(number, split) for number, split, _ in transport.evaluated] == [(3, "valid"), (6, "valid"), (7, "valid")]
    assert all(downloads is None for *_, downloads in transport.evaluated)


def test_evaluation_after_aggregation_covers_all_clients_with_latest_uploads():
    shared = everybody_owns_id_0(4)
    list(rounds_of(shared, transport := Loopback(shared), rounds=1, fraction=0.25, evaluate="after_aggregation"))
    downloads = transport.evaluated[0][2]
    assert {client: value_of(one) for client, one in downloads.items()} == dict.fromkeys(shared.clients, 0.25)


def test_rounds_resume():
    shared = everybody_owns_id_0(3)
    whole = [done.selected for done in rounds_of(shared, rounds=6, fraction=0.4)]
    rest = [done.selected for done in rounds_of(shared, rounds=6, fraction=0.4, done=4)]
    assert rest == whole[4:]


def test_retired_clients_are_not_selected():
    shared = everybody_owns_id_0(2)
    retired = set()
    seen = []
    for done in rounds_of(shared, rounds=9, retired=retired):
        seen.append(done.selected)
        retired.add(f"c{done.number - 1}")
    assert seen == [("c0", "c1"), ("c1",)]


class InvalidDownloads(FedE):
    """FedE that omits a client's download, or sends numbers that are not finite."""

    def aggregate(self, state, shared, uploads, selected):
        state, downloads = super().aggregate(state, shared, uploads, selected)
        rows = downloads["c1"].tables["entity"]
        return state, {"c0": downloads["c0"], **self.instead(rows)}


class LeavesOut(InvalidDownloads):
    def instead(self, rows):
        return {}


class NotFinite(InvalidDownloads):
    def instead(self, rows):
        return {"c1": Download({"entity": Rows(rows.ids, rows.values * np.float32(np.nan))})}


class Raises(FedE):
    def aggregate(self, state, shared, uploads, selected):
        raise KeyError("boom")


class ReturnsNothing(FedE):
    def aggregate(self, state, shared, uploads, selected):
        return None


class ForgetsToName(FedE):
    def aggregate(self, state, shared, uploads, selected):
        return {"count": 3}, super().aggregate(state, shared, uploads, selected)[1]


@pytest.mark.parametrize(
    ("strategy", "kind", "message"),
    [
        (Raises(), RunError, "^Raises.aggregate failed: KeyError: 'boom'; `pfedeg --traceback …` shows where$"),
        (ReturnsNothing(), InputError, "^ReturnsNothing.aggregate: expected the state and the downloads"),
        (ForgetsToName(), InputError, "^ForgetsToName.aggregate: state 'count' is a int, not an array"),
    ],
)
def test_failures_of_a_method_name_it(strategy, kind, message):
    with pytest.raises(kind, match=message):
        list(rounds_of(everybody_owns_id_0(2), strategy=strategy, rounds=1))


@pytest.mark.parametrize("error", [MemoryError("4 TiB"), OSError(28, "No space left on device")], ids=repr)
def test_a_lack_of_memory_or_disk_space_is_no_failure_of_the_code(error):
    class Broken(Spy):
        def train(self, *arguments):
            raise error

    with pytest.raises(type(error)):
        (one := client()).step(one.start(), 1, DOWNLOAD, Broken())


def test_failures_of_an_engine_name_client_and_round():
    class Broken(Spy):
        def train(self, *arguments):
            raise ValueError("operands could not be broadcast")

    with pytest.raises(RunError, match=r"^client 'c', round 4: training failed: ValueError: operands could not"):
        (one := client()).step(one.start(), 4, DOWNLOAD, Broken())


@pytest.mark.parametrize(
    ("strategy", "said"),
    [(LeavesOut(), "client 'c1' is missing"), (NotFinite(), "client 'c1' is invalid: table 'entity': values that are")],
)
def test_invalid_downloads_are_refused(strategy, said):
    with pytest.raises(InputError, match=said):
        list(rounds_of(everybody_owns_id_0(2), strategy=strategy, rounds=1))
