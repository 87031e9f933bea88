"""Aggregation: its properties, and its formulas against the paper's dense matrices."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfedeg.engine.interface import Absorb
from pfedeg.graphs.alignment import Rows, Shared
from pfedeg.methods.affinity import distance_weights, overlap_weights
from pfedeg.methods.exchange import Upload
from pfedeg.methods.fede import FedE
from pfedeg.methods.pfedeg import PFedEGPlus, PFedEGStar
from pfedeg.methods.single import Alone
from pfedeg.training.rounds import select

WIDTH = 3
STRATEGIES = {
    "fede": FedE(),
    "star": PFedEGStar(Absorb(replace=True), p=0.7),
    "plus": PFedEGPlus(Absorb(replace=True), p=0.6),
    "plus-mean": PFedEGPlus(Absorb(replace=True), p=0.5, reduce="mean"),
}
all_strategies = pytest.mark.parametrize("name", list(STRATEGIES))
few = settings(max_examples=40, deadline=None, derandomize=True)


def federation(seed, clients, ids, share=0.5):
    """Random owners, in a random order of rows at each client; also the paper's M (C × N) and G (C × N × m)."""
    rng = np.random.default_rng(seed)
    M = rng.random((clients, ids)) < share
    M[np.arange(clients), rng.integers(0, ids, clients)] = True  # every client owns an id
    G = rng.standard_normal((clients, ids, WIDTH)).astype(np.float32) * M[..., None]
    owned = {f"c{i}": rng.permutation(np.flatnonzero(row)).astype(np.int32) for i, row in enumerate(M)}
    return SimpleNamespace(shared=Shared(owned), M=M.astype(np.float64), G=G, latest=uploads(Shared(owned), G))


def uploads(shared, G):
    """The uploaded rows, read-only, since no method may change them."""
    latest = {}
    for i, client in enumerate(shared.clients):
        rows = Rows(shared.travelling[client], G[i, shared.travelling[client]])
        rows.ids.flags.writeable = rows.values.flags.writeable = False
        latest[client] = rows
    return latest


federations = st.builds(
    federation,
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.integers(1, 14),
    st.sampled_from([0.1, 0.5, 1.0]),
)


def aggregate(strategy, shared, latest, selected=None):
    """The relation graph, and the downloaded rows of each selected client."""
    sent = {client: Upload({"entity": rows}) for client, rows in latest.items()}
    state, downloads = strategy.aggregate(strategy.init(shared), shared, sent, selected or shared.clients)
    return strategy.relation_graph(state), {client: one.tables["entity"] for client, one in downloads.items()}


def dense_weights(name, M, G):
    """W as the paper writes it."""
    C = len(M)
    W = np.zeros((C, C))
    for i in range(C):
        for j in range(C):
            both = np.flatnonzero(M[i] * M[j])
            if i == j:
                continue
            if name == "star":
                W[i, j] = len(both) / np.maximum(M[i], M[j]).sum()
            elif len(both):
                a, b = G[i, both].astype(np.float64), G[j, both].astype(np.float64)
                terms = np.exp((a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)))
                W[i, j] = terms.mean() if name == "plus-mean" else terms.sum()
        W[i, i] = np.exp(-1) if name != "star" else min((W[i, k] for k in range(C) if k != i), default=1.0)
    total = W.sum(1, keepdims=True)
    return W / np.where(total > 0, total, 1)


def dense_knowledge(W, M, G, p):
    """K = p · Norm(W × G, W × M) + (1 − p) · G, and G where the denominator is 0."""
    total = (W @ M)[..., None]
    mixed = np.einsum("ij,jnm->inm", W, G.astype(np.float64))
    mixed = np.where(total > 0, mixed / np.where(total > 0, total, 1), G)
    return p * mixed + (1 - p) * G


@pytest.mark.parametrize("name", ["star", "plus", "plus-mean"])
@few
@given(f=federations)
def test_pfedeg_is_the_papers_matrix_form(name, f):
    W, downloads = aggregate(STRATEGIES[name], f.shared, f.latest)
    expected = dense_weights(name, f.M, f.G)
    np.testing.assert_allclose(W, expected, rtol=1e-6, atol=1e-12)
    K = dense_knowledge(expected, f.M, f.G, STRATEGIES[name].p)
    for i, client in enumerate(f.shared.clients):
        np.testing.assert_allclose(downloads[client].values, K[i, downloads[client].ids], rtol=1e-5, atol=1e-5)


@few
@given(f=federations)
def test_fede_is_the_mean_over_owners(f):
    _, downloads = aggregate(FedE(), f.shared, f.latest)
    mean = f.G.sum(0, dtype=np.float64) / np.maximum(f.M.sum(0), 1)[:, None]
    for rows in downloads.values():
        np.testing.assert_allclose(rows.values, mean[rows.ids], rtol=1e-6, atol=1e-7)


@all_strategies
@few
@given(f=federations)
def test_downloads_have_exactly_the_shared_ids(name, f):
    _, downloads = aggregate(STRATEGIES[name], f.shared, f.latest)
    owners = f.M.sum(0)
    for i, client in enumerate(f.shared.clients):
        rows = downloads[client]
        assert rows.ids.tolist() == [e for e in range(f.M.shape[1]) if f.M[i, e] and owners[e] > 1]
        assert rows.values.shape == (len(rows.ids), WIDTH)
        assert rows.values.dtype == np.float32


@pytest.mark.parametrize("name", ["star", "plus", "plus-mean"])
@few
@given(f=federations)
def test_weight_rows_sum_to_one(name, f):
    W, _ = aggregate(STRATEGIES[name], f.shared, f.latest)
    assert (W >= 0).all()
    for i, row in enumerate(W):
        shares_any = ((f.M[i] * f.M).sum(1) > 0).sum() > 1
        nothing = name == "star" and not shares_any and len(W) > 1  # all of its weights are 0
        assert row.sum() == pytest.approx(0.0 if nothing else 1.0)


@all_strategies
@few
@given(f=federations, order=st.randoms(use_true_random=False))
def test_client_order_does_not_matter(name, f, order):
    _, expected = aggregate(STRATEGIES[name], f.shared, f.latest)
    names = list(f.shared.clients)
    order.shuffle(names)
    shuffled = Shared({client: f.shared.ids[client] for client in names})
    _, found = aggregate(STRATEGIES[name], shuffled, {client: f.latest[client] for client in names}, names)
    for client, rows in expected.items():
        np.testing.assert_array_equal(found[client].values, rows.values)
    # Under other names, clients are summed in another order: equal up to rounding.
    new = dict(zip(f.shared.clients, names, strict=True))
    renamed = Shared({new[client]: ids for client, ids in f.shared.ids.items()})
    _, found = aggregate(STRATEGIES[name], renamed, {new[client]: rows for client, rows in f.latest.items()})
    for client, rows in expected.items():
        np.testing.assert_allclose(found[new[client]].values, rows.values, rtol=1e-5, atol=1e-6)


@all_strategies
@few
@given(f=federations, seed=st.integers(0, 2**32))
def test_identical_uploads_are_a_fixed_point(name, f, seed):
    same = np.random.default_rng(seed).standard_normal((f.M.shape[1], WIDTH)).astype(np.float32)
    latest = uploads(f.shared, np.broadcast_to(same, f.G.shape))
    _, downloads = aggregate(STRATEGIES[name], f.shared, latest)
    for client, rows in downloads.items():
        np.testing.assert_array_equal(rows.values, latest[client].values)


@all_strategies
@few
@given(f=federations, data=st.data())
def test_selecting_fewer_clients_does_not_change_their_rows(name, f, data):
    selected = data.draw(st.lists(st.sampled_from(f.shared.clients), min_size=1, unique=True))
    W, everybody = aggregate(STRATEGIES[name], f.shared, f.latest)
    V, some = aggregate(STRATEGIES[name], f.shared, f.latest, selected)
    assert set(some) == set(selected)
    for client, rows in some.items():
        np.testing.assert_array_equal(rows.values, everybody[client].values)
    np.testing.assert_array_equal(W, V)


@all_strategies
def test_downloads_do_not_alias_uploads(name):
    f = federation(0, 3, 8)
    _, downloads = aggregate(STRATEGIES[name], f.shared, f.latest)
    for client, rows in downloads.items():
        assert not any(np.shares_memory(rows.values, other.values) for other in f.latest.values()), client
        rows.values[:] = 0  # a client may write to what it received


@all_strategies
def test_single_client_federation(name):
    shared = Shared({"only": np.array([2, 0, 1], np.int32)})
    W, downloads = aggregate(STRATEGIES[name], shared, uploads(shared, np.ones((1, 3, WIDTH), np.float32)))
    assert downloads["only"].values.shape == (0, WIDTH)
    if W is not None:
        assert W.tolist() == [[1.0]]


@all_strategies
def test_disjoint_clients(name):
    shared = Shared({"a": np.array([0, 1], np.int32), "b": np.array([2], np.int32)})
    W, downloads = aggregate(STRATEGIES[name], shared, uploads(shared, np.ones((2, 3, WIDTH), np.float32)))
    assert [len(rows.ids) for rows in downloads.values()] == [0, 0]
    if name == "star":
        assert not W.any()
    elif W is not None:
        np.testing.assert_array_equal(W, np.eye(2))


def test_a_disjoint_pair_sets_the_self_weight_of_star_to_zero():
    """a shares one id with b and none with c: a's self weight is 0, and its knowledge is b's row."""
    owned = {"a": [0, 1], "b": [1, 2], "c": [2, 3]}
    shared = Shared({client: np.array(ids, np.int32) for client, ids in owned.items()})
    G = np.random.default_rng(0).standard_normal((3, 4, WIDTH)).astype(np.float32)
    W = overlap_weights(shared)
    np.testing.assert_allclose(W[0], [0, 1, 0])
    np.testing.assert_allclose(W[1], [1 / 3, 1 / 3, 1 / 3])
    _, downloads = aggregate(PFedEGStar(Absorb(), p=1.0), shared, uploads(shared, G))
    np.testing.assert_allclose(downloads["a"].values[0], G[1, 1], rtol=1e-6)


@pytest.mark.parametrize(("reduce", "expected"), [("sum", np.e + 1.0), ("mean", (np.e + 1.0) / 2)])
def test_cosine_with_a_zero_row_is_zero(reduce, expected):
    """Two shared ids: equal rows (cosine 1) and a zero row (cosine 0)."""
    shared = Shared({"a": np.array([0, 1], np.int32), "b": np.array([1, 0], np.int32)})
    G = np.ones((2, 2, WIDTH), np.float32)
    G[0, 1] = 0
    W = distance_weights(shared, uploads(shared, G), reduce)
    assert W[0, 1] / W[0, 0] == pytest.approx(expected * np.e)  # the self weight is 1 / e


def test_star_computes_its_weights_once():
    f = federation(1, 4, 10)
    strategy = STRATEGIES["star"]
    state = strategy.init(f.shared)
    sent = {client: Upload({"entity": rows}) for client, rows in f.latest.items()}
    after, _ = strategy.aggregate(state, f.shared, sent, f.shared.clients)
    assert after is state


def test_single_exchanges_nothing():
    f = federation(1, 3, 10)
    _, downloads = Alone().aggregate({}, f.shared, {client: Upload() for client in f.shared.clients}, f.shared.clients)
    assert [(dict(one.tables), dict(one.scalars)) for one in downloads.values()] == [({}, {})] * 3


# --- selection ---


@few
@given(clients=st.integers(1, 12), fraction=st.floats(0.01, 1.0), seed=st.integers(0, 9), number=st.integers(1, 9))
def test_selection_size_and_order(clients, fraction, seed, number):
    shared = Shared({f"c{i:02}": np.array([i], np.int32) for i in range(clients)})
    chosen = select(shared, fraction, seed, number)
    assert len(chosen) == max(1, round(fraction * clients))
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(shared.clients)
    assert chosen == select(shared, fraction, seed, number)  # no state


def test_selection_changes_with_round_and_seed_and_covers_all_clients():
    shared = Shared({f"c{i}": np.array([i], np.int32) for i in range(10)})
    rounds = [tuple(select(shared, 0.3, 0, number)) for number in range(1, 200)]
    assert len(set(rounds)) > 60  # of 120
    assert rounds != [tuple(select(shared, 0.3, 1, number)) for number in range(1, 200)]
    counts = [sum(client in chosen for chosen in rounds) for client in shared.clients]
    assert min(counts) > 35  # about 60 each
    assert max(counts) < 85
