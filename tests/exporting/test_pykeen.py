"""Exported models in PyKEEN itself: `make test-all` installs it and runs these."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import ring
from pfedeg.exporting.registry import export
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.splitting import split_graph
from pfedeg.models.registry import MODELS
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from pfedeg.training.saved_run import Run

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(find_spec("pykeen") is None, reason="needs the pykeen extra"),
    pytest.mark.filterwarnings("ignore"),  # its own
]
SMALL: dict[str, Any] = {"rounds": 3, "dim": 8, "negatives": 4, "batch": 16, "lr": 0.05, "method": "fede", "gamma": 7.0}


@pytest.fixture(scope="module", params=MODELS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A run of each model, and the folder of a client: names that look like numbers and like nothing are names."""
    place = tmp_path_factory.mktemp(request.param)
    odd = [("007", "line\nbreak", "NA"), ("NA", "1", "e01"), ("e02", "1", "007"), ("e03", "1", "NA")]
    clients = {
        "ash": split_graph(ring(0, 20, ("near", "next")), 1),
        "odd": KnowledgeGraph.from_names(odd, valid=odd[:1]),
    }
    Training(Federation(clients), Config(**SMALL, model=request.param), out=place / "run").run()
    export(place / "run", place / "out", "pykeen")
    return Run(place / "run"), place / "out"


def load(folder: Path) -> tuple[Any, Any]:
    import torch

    model = torch.load(folder / "trained_model.pkl", weights_only=False)
    return model, torch.load(folder / "training_triples.pkl", weights_only=False)


def ours(run: Run, client: str) -> np.ndarray[Any, Any]:
    """The score of every (h, r, t)."""
    model, (entity, relation) = run.config.build_model(), run.tables(client)
    queries = model.compose(entity[:, None], relation[None])
    return model.score(queries[:, :, None], entity[None, None])


@pytest.mark.parametrize("client", ["ash", "odd"])
def test_scores_of_all_triples_are_ours(exported: tuple[Run, Path], client: str) -> None:
    import torch

    run, folder = exported
    model, _ = load(folder / client)
    expected = ours(run, client)
    entities, relations, _ = expected.shape
    pairs = torch.cartesian_prod(torch.arange(entities), torch.arange(relations))
    swapped = torch.cartesian_prod(torch.arange(relations), torch.arange(entities))
    triples = torch.cartesian_prod(torch.arange(entities), torch.arange(relations), torch.arange(entities))
    with torch.inference_mode():
        tails = model.score_t(pairs).numpy().reshape(expected.shape)
        heads = model.score_h(swapped).numpy().reshape(relations, entities, entities).transpose(2, 0, 1)
        each = model.score_hrt(triples).numpy().reshape(expected.shape)
    for scores in (tails, heads, each):
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert expected.std() > 0.01


def test_questions_by_name_have_our_answers(exported: tuple[Run, Path]) -> None:
    from pykeen.predict import predict_target

    run, folder = exported
    model, triples = load(folder / "odd")
    assert triples.entity_to_id == dict(run.graph("odd").entity_ids)
    assert triples.relation_to_id == dict(run.graph("odd").relation_ids)
    assert (triples.mapped_triples.numpy() == run.graph("odd").train).all()
    found = predict_target(model=model, head="007", relation="line\nbreak", triples_factory=triples).df
    scores = dict(zip(found["tail_label"], found["score"], strict=True))
    answers = run.predict("odd", "line\nbreak", head="007", k=100, known=True)
    assert scores == pytest.approx({answer.entity: answer.score for answer in answers}, rel=1e-5, abs=1e-5)


def test_tables_are_ours_to_the_last_bit(exported: tuple[Run, Path]) -> None:
    run, folder = exported
    model, _ = load(folder / "ash")
    entity = model.entity_representations[0]().detach().numpy()
    if entity.dtype == np.complex64:
        entity = np.concatenate([entity.real, entity.imag], -1)
    assert (entity == run.tables("ash").entity).all()


def test_nothing_of_ours_is_needed_to_load(exported: tuple[Run, Path]) -> None:
    _, folder = exported
    for path in folder.glob("*/*.pkl"):
        assert b"pfedeg" not in path.read_bytes()


def test_training_goes_on_in_pykeen(exported: tuple[Run, Path]) -> None:
    from pykeen.training import SLCWATrainingLoop
    from torch.optim import Adam

    run, folder = exported
    model, triples = load(folder / "ash")
    loop = SLCWATrainingLoop(model=model, triples_factory=triples, optimizer=Adam(model.parameters(), lr=1e-3))
    loop.train(triples_factory=triples, num_epochs=1, use_tqdm=False)
    loop.train(triples_factory=triples, num_epochs=2, batch_size=16, use_tqdm=False)  # begins again
    after = model.entity_representations[0]().detach().numpy()
    before = load(folder / "ash")[0].entity_representations[0]().detach().numpy()
    assert 0 < np.abs(after - before).max() < 0.1  # a step, not a start from elsewhere
    if run.config.model == "rotate":
        rotation, one = (part().detach().numpy() for part in model.relation_representations)
        np.testing.assert_allclose(np.abs(rotation), 1, rtol=1e-5)
        assert (one == 1).all()
