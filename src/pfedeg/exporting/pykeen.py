"""Export to PyKEEN: a model with the same scores, and a triples factory with the names and training triples."""

from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.errors import InputError
from pfedeg.exporting.trained import Trained
from pfedeg.extras import require
from pfedeg.models.base import Mat
from pfedeg.models.complex import ComplEx
from pfedeg.models.distmult import DistMult
from pfedeg.models.rotate import RotatE
from pfedeg.models.transe import TransE


def check_pykeen() -> None:
    """Raise InputError unless PyKEEN is installed."""
    require("pykeen", "--to pykeen")


def write_pykeen(trained: Trained, folder: Path) -> None:
    """trained_model.pkl and training_triples.pkl, for torch.load."""
    import torch
    from pykeen.triples import TriplesFactory

    graph = trained.graph
    triples = TriplesFactory(
        mapped_triples=torch.from_numpy(graph.train.astype(np.int64)),
        entity_to_id=dict(graph.entity_ids),
        relation_to_id=dict(graph.relation_ids),
    )
    torch.save(triples, folder / "training_triples.pkl")
    torch.save(_model(trained, triples), folder / "trained_model.pkl")


def _model(trained: Trained, triples: Any) -> Any:
    from pykeen.models import ERModel
    from pykeen.nn import modules
    from pykeen.utils import NoRandomSeedNecessary, complex_normalize

    entity, relation = trained.tables
    score: Any
    match trained.model:
        case TransE():
            score, tables = modules.TransEInteraction(p=1), [_real(entity), _real(relation)]
        case RotatE():  # PyKEEN's RotatE has the Euclidean norm; PairRE with r′ = 1 is ours: ‖h · r − t · r′‖₁
            score, angle = modules.PairREInteraction(p=1, power_norm=False), relation * trained.model.phase
            turn, one = (np.concatenate([np.cos(x), np.sin(x)], -1) for x in (angle, np.zeros_like(angle)))
            tables = [_complex(entity), _complex(turn, constrainer=complex_normalize), _complex(one, trainable=False)]
        case ComplEx():
            score, tables = modules.ComplExInteraction(), [_complex(entity), _complex(relation)]
        case DistMult():
            score, tables = modules.DistMultInteraction(), [_real(entity), _real(relation)]
        case _:
            raise InputError(
                f"--to pykeen: no PyKEEN counterpart of the model {trained.model_name!r}; choose another format"
            )
    if isinstance(trained.model, TransE | RotatE):
        score = modules.MonotonicAffineTransformationInteraction(
            score, initial_bias=trained.model.gamma, trainable_bias=False, trainable_scale=False
        )
    model = ERModel(
        triples_factory=triples,
        interaction=score,
        entity_representations_kwargs=tables[0],
        relation_representations_kwargs=tables[1:],
        random_seed=NoRandomSeedNecessary,
    )
    model._random_seed = None  # PyKEEN reads this when it saves a checkpoint
    return model.eval()


def _real(table: Mat) -> dict[str, Any]:
    """A table as PyKEEN's arguments. PyKEEN initialises its tables before training; the initializer copies ours."""
    import torch

    return {"shape": table.shape[1], "initializer": methodcaller("copy_", torch.from_numpy(table))}


def _complex(table: Mat, **more: Any) -> dict[str, Any]:
    """The same for complex numbers, which PyKEEN stores as interleaved real and imaginary parts."""
    import torch

    pairs = np.ascontiguousarray(table.reshape(len(table), 2, -1).swapaxes(1, 2))
    numbers = torch.from_numpy(pairs)
    return {"shape": pairs.shape[1], "dtype": torch.cfloat, "initializer": methodcaller("copy_", numbers), **more}
