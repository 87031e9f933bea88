"""The compiled server update against the plain numpy reference."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pfedeg.graphs.alignment import Rows, Shared
from pfedeg.methods import affinity, mixing
from pfedeg.methods import mixing_reference as reference

many = settings(max_examples=150, deadline=None, derandomize=True)
THREADS = (1, 2, 5)


def federation(seed, clients, ids, share, width, shift):
    """Random owners; some rows zero, some equal to another owner's, some weights zero; memory at odd places."""
    rng = np.random.default_rng(seed)
    owned = rng.random((clients, ids)) < share
    owned[rng.random(clients) < 0.1] = False  # a client that shares nothing
    shared = Shared({f"c{i:02}": rng.permutation(np.flatnonzero(row)).astype(np.int32) for i, row in enumerate(owned)})
    common = rng.standard_normal((ids, width)).astype(np.float32)
    latest = {}
    for client, own in shared.travelling.items():
        memory = np.zeros(len(own) * width + shift, np.float32)
        values = memory[shift:].reshape(len(own), width)
        values[:] = rng.standard_normal(values.shape)
        equal, zero = rng.random(len(own)) < 0.3, rng.random(len(own)) < 0.1
        values[equal] = common[own[equal]]
        values[zero] = 0
        values.flags.writeable = False
        latest[client] = Rows(own, values)
    weights = rng.random((clients, clients)) * (rng.random((clients, clients)) < 0.7)
    chosen = [client for client in shared.clients if rng.random() < 0.7]
    return SimpleNamespace(shared=shared, latest=latest, weights=weights, selected=chosen, p=float(rng.random()))


federations = st.builds(
    federation,
    st.integers(0, 2**32),
    st.integers(1, 40),  # more owners than a tile holds
    st.integers(1, 150),  # more ids than a thread takes at a time
    st.sampled_from([0.02, 0.1, 0.5, 1.0]),
    st.sampled_from([1, 3, 4, 8, 19, 64]),  # multiples of four are written past the caches
    st.integers(0, 4),
)


MANY = federation(3, 20, 300, 0.1, 64, 0)  # rows in many places, most ids with two to four owners, whole lines


def every(f, threads):
    """The results of all compiled functions, as named arrays."""
    rows = {
        "mix": mixing.mix(f.shared, f.latest, f.weights, f.p, f.selected, threads),
        "mean": mixing.mean(f.shared, f.latest, f.selected, threads),
    }
    result = {
        "overlaps": affinity.overlaps(f.shared, threads),
        "similarities": affinity.similarities(f.shared, f.latest, threads),
    }
    return result | {f"{kind} {client}": part.values for kind, by in rows.items() for client, part in by.items()}


@many
@given(f=federations)
def test_weights_equal_the_reference(f):
    np.testing.assert_array_equal(affinity.overlaps(f.shared, 1), reference.overlaps(f.shared))
    expected = reference.similarities(f.shared, f.latest)
    np.testing.assert_allclose(affinity.similarities(f.shared, f.latest, 1), expected, rtol=2e-14, atol=0)


@many
@given(f=federations)
@example(f=MANY)
def test_rows_equal_the_reference(f):
    mixed = mixing.mix(f.shared, f.latest, f.weights, f.p, f.selected, 1)
    expected = reference.mix(f.shared, f.latest, f.weights, f.p, f.selected)
    means, plain = mixing.mean(f.shared, f.latest, f.selected, 1), reference.mean(f.shared, f.latest, f.selected)
    assert set(mixed) == set(means) == set(f.selected)
    for client in f.selected:
        for found, right in ((mixed, expected), (means, plain)):
            np.testing.assert_array_equal(found[client].ids, right[client].ids)
        np.testing.assert_allclose(mixed[client].values, expected[client].values, rtol=0, atol=2e-6)
        np.testing.assert_allclose(means[client].values, plain[client].values, rtol=1.2e-7, atol=0)


@many
@given(f=federations)
@example(f=MANY)
def test_results_do_not_depend_on_threads(f):
    expected = {name: array.tobytes() for name, array in every(f, THREADS[0]).items()}
    for threads in THREADS[1:]:
        assert {name: array.tobytes() for name, array in every(f, threads).items()} == expected


@many
@given(f=federations, rows=st.integers(0, 2**32))
def test_equal_rows_are_unchanged(f, rows):
    width = next(iter(f.latest.values())).values.shape[1]
    same = np.random.default_rng(rows).standard_normal((len(f.shared.owners), width)).astype(np.float32)
    latest = {client: Rows(ids, same[ids]) for client, ids in f.shared.travelling.items()}
    for found in (
        mixing.mix(f.shared, latest, f.weights, f.p, f.shared.clients, 1),
        mixing.mean(f.shared, latest, f.shared.clients, 1),
    ):
        for client, rows_ in found.items():
            np.testing.assert_array_equal(rows_.values, latest[client].values)


def test_table_memory_is_limited_for_many_clients(monkeypatch):
    f = federation(2, 12, 100, 0.5, 8, 0)
    expected = affinity.overlaps(f.shared, 3), affinity.similarities(f.shared, f.latest, 3)
    monkeypatch.setattr(affinity, "TABLES", 1)
    assert len(affinity._tables(12, 3)) == 1
    np.testing.assert_array_equal(affinity.overlaps(f.shared, 3), expected[0])
    np.testing.assert_array_equal(affinity.similarities(f.shared, f.latest, 3), expected[1])


def test_sums_of_many_ids_do_not_overflow():
    """The worst case: all rows are equal, so every id adds e."""
    ids = np.arange(300_000, dtype=np.int32)
    shared = Shared({"a": ids, "b": ids})
    rows = Rows(ids, np.ones((len(ids), 1), np.float32))
    found = affinity.similarities(shared, {"a": rows, "b": rows}, 1)
    np.testing.assert_allclose(found, len(ids) * np.e * (1 - np.eye(2)), rtol=1e-11)


def test_rows_are_written_to_out():
    f = federation(3, 4, 50, 0.6, 8, 0)
    total = sum(len(f.shared.travelling[client]) for client in f.selected)
    for update in (
        lambda out: mixing.mix(f.shared, f.latest, f.weights, f.p, f.selected, 1, out),
        lambda out: mixing.mean(f.shared, f.latest, f.selected, 1, out),
    ):
        out = np.zeros((total, 8), np.float32)
        there, new = update(out), update(None)
        np.testing.assert_array_equal(out, np.concatenate([rows.values for rows in new.values()]))
        assert all(np.shares_memory(out, rows.values) for rows in there.values() if len(rows.ids))
        with pytest.raises(ValueError, match=f"{total} × 8"):
            update(out[1:])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda ids: Rows(ids, np.zeros((3, 2), np.float64)), "contiguous float32"),
        (lambda ids: Rows(ids, np.zeros((2, 3), np.float32).T), "contiguous float32"),
        (lambda ids: Rows(ids[:2], np.zeros((2, 2), np.float32)), "3 × 2"),
        (lambda ids: Rows(ids + 1, np.zeros((3, 2), np.float32)), "travelling ids"),
    ],
)
def test_invalid_uploads_are_refused_before_compiled_code(rows, message):
    ids = np.arange(3, dtype=np.int32)
    shared = Shared({"a": ids, "b": ids})
    latest = {"a": Rows(ids, np.zeros((3, 2), np.float32)), "b": rows(ids)}
    with pytest.raises(ValueError, match=message):
        mixing.mix(shared, latest, np.ones((2, 2)), 0.5, ["a"], 1)
