"""The robust mix: trimmed mean and median through every method's own aggregation, and clients that were left out."""

import numpy as np
import pytest

from pfedeg.graphs.alignment import Rows, Shared
from pfedeg.methods.exchange import Upload
from pfedeg.methods.fede import FedE
from pfedeg.methods.robust import robust_uploads
from pfedeg.training.config import Config
from pfedeg.training.rounds import aggregate

NAMES = "abcde"


def make(owners: int, rows: int = 4) -> tuple[Shared, dict[str, Upload]]:
    """Every client owns all ids; the last client's numbers are far away."""
    ids, rng = np.arange(rows, dtype=np.int32), np.random.default_rng(0)
    values = {name: rng.normal(size=(rows, 3)).astype(np.float32) for name in NAMES[:owners]}
    values[NAMES[owners - 1]] += 1000
    return Shared(dict.fromkeys(values, ids)), {name: Upload({"entity": Rows(ids, v)}) for name, v in values.items()}


def stacked(uploads: dict[str, Upload]) -> np.ndarray:
    return np.stack([upload.tables["entity"].values for upload in uploads.values()])


@pytest.mark.parametrize("owners", [3, 4, 5])
@pytest.mark.parametrize("robust", ["median", "trimmed"])
def test_the_mean_becomes_the_median_or_the_trimmed_mean(owners: int, robust: str) -> None:
    shared, uploads = make(owners)
    _, downloads = FedE().aggregate({}, shared, robust_uploads(uploads, robust), shared.clients)  # type: ignore[arg-type]
    rows = stacked(uploads)
    expected = np.median(rows, 0) if robust == "median" else np.sort(rows, 0)[1:-1].mean(0)
    for download in downloads.values():
        assert np.allclose(download.tables["entity"].values, expected, atol=1e-5)


def test_two_owners_are_mixed_as_before() -> None:
    _, uploads = make(2)
    found = robust_uploads(uploads, "median")
    assert all(found[name].tables["entity"] == uploads[name].tables["entity"] for name in uploads)


def test_without_anything_to_do_the_uploads_are_the_same_object() -> None:
    _, uploads = make(3)
    assert robust_uploads(uploads, "none") is uploads


def test_a_client_that_was_left_out_has_no_influence() -> None:
    shared, uploads = make(4)
    changed = robust_uploads(uploads, "none", ["d"])
    _, downloads = FedE().aggregate({}, shared, changed, ["a"])
    assert np.allclose(downloads["a"].tables["entity"].values, stacked(uploads)[:3].mean(0), atol=1e-5)
    assert np.abs(stacked(uploads)[3]).max() > 900  # arguments are not changed


def test_rows_that_nobody_else_has_stay_and_ids_differ_between_clients() -> None:
    ids = {"a": [0, 1, 2], "b": [1, 2, 3], "c": [1, 3, 4], "d": [1, 4, 5]}
    rows = {n: Rows(np.array(i, np.int32), np.array(i, np.float32)[:, None] + "abcd".index(n)) for n, i in ids.items()}
    found = robust_uploads({name: Upload({"entity": each}) for name, each in rows.items()}, "median", ["d"])
    assert found["a"].tables["entity"].values[:, 0].tolist() == [0, 2, 2]  # id 1: the median of 1, 2, 3
    assert found["d"].tables["entity"].values[:, 0].tolist() == [2, 6, 8]  # of the others: 2, and c's 6; 5 is its own


@pytest.mark.parametrize("method", ["fede", "fedec", "pfedeg-star", "pfedeg-plus", "pfedeg-plus-reg"])
def test_every_method_resists_one_client_that_sends_anything(method: str) -> None:
    shared, uploads = make(4)
    strategy = Config(method=method).build_strategy(1)
    state = strategy.init(shared)
    _, plain = aggregate(strategy, state, shared, uploads, ["a"], 3)
    _, robust = aggregate(strategy, state, shared, robust_uploads(uploads, "trimmed"), ["a"], 3)
    assert np.abs(plain["a"].tables["entity"].values).max() > 50
    assert np.abs(robust["a"].tables["entity"].values).max() < 5
