"""PyTorch-BigGraph with as many shared negatives per positive as ours: triples per second of its training.

Only tails are corrupted, as in ours. 256 positives share 256 negatives, in two ways: uniform ones, as ours are, or each
other's tails; which is faster varies, and the faster one counts. Our chunks are of 64 by default, which makes more
different negatives and more work, so ours are also measured in chunks of 256. Its negatives are not filtered. Softmax
loss, row Adagrad, one process per thread without locks.
"""

import logging
import os
import warnings
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np

from ours import BATCH, DIM, NEGATIVES
from pfedeg.graphs.knowledge_graph import KnowledgeGraph

SHARING = NEGATIVES  # positives that share negatives
LARGE_BATCH = 4096  # beside ours: its speed comes from large matrix products
NEGATIVE_KINDS = {"uniform": (NEGATIVES, 0), "batch": (0, NEGATIVES)}  # uniform ones, tails of the batch
KINDS = {  # operator, comparator, real numbers per entity
    "transe": ("translation", "l2", DIM),
    "complex": ("complex_diagonal", "dot", 2 * DIM),
}


class Watch(logging.Handler):
    """Takes the times of epochs from its log: loading, start-up and checkpoints lie outside."""

    def __init__(self) -> None:
        """No times yet."""
        super().__init__()
        self.marks: list[tuple[bool, float]] = []  # (whether an epoch begins, when)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the begin and the end of what workers do."""
        text = record.getMessage()
        if "Waiting for workers to perform training" in text or "Processed" in text:
            self.marks.append(("Waiting" in text, record.created))

    def seconds(self) -> list[float]:
        """Of each epoch."""
        return [after[1] - before[1] for before, after in pairwise(self.marks) if before[0] and not after[0]]


def missing() -> str:
    """Why it cannot be measured; empty if it can."""
    os.environ["PYTHONWARNINGS"] = "ignore"  # of its workers: it uses what is deprecated today
    warnings.simplefilter("ignore")
    try:
        import torchbiggraph.train  # noqa: F401 (whether it can be imported is the question)
    except ImportError as error:
        return f"PyTorch-BigGraph is left out: {error}"
    return ""


def _unpack_optional(kind: Any) -> Any:
    """X of Optional[X]. Its own version asks by `is`, which fails once Python's cache of types has dropped one."""
    inner, *rest = get_args(kind) or (None,)
    if rest != [type(None)]:
        raise TypeError("Not an optional type")
    return inner


def rate(graph: KnowledgeGraph, name: str, threads: int, epochs: int, batch: int = BATCH) -> tuple[float, str]:
    """Triples per second with the faster kind of negatives, and which that is."""
    return max((_rate(graph, name, threads, epochs, batch, kind), kind) for kind in NEGATIVE_KINDS)


def _rate(graph: KnowledgeGraph, name: str, threads: int, epochs: int, batch: int, negatives: str) -> float:
    """Of the best of some epochs; the first one, in which its processes start, never is."""
    import torch
    from torchbiggraph import schema
    from torchbiggraph.config import ConfigSchema
    from torchbiggraph.train import train

    schema.unpack_optional = _unpack_optional
    before = torch.get_num_threads()
    log, watch = logging.getLogger("torchbiggraph"), Watch()
    log.setLevel(logging.DEBUG)
    log.propagate = False
    log.addHandler(watch)
    with TemporaryDirectory() as folder:
        _write(graph, Path(folder))
        train(ConfigSchema.from_dict(_settings(name, folder, threads, epochs, batch, negatives)))
    log.removeHandler(watch)
    torch.set_num_threads(before)
    times = watch.seconds()
    assert len(times) == epochs, "its log reads differently"
    return len(graph.train) / min(times)


def _settings(name: str, folder: str, threads: int, epochs: int, batch: int, negatives: str) -> dict[str, Any]:
    operator, comparator, width = KINDS[name]
    uniform, from_batch = NEGATIVE_KINDS[negatives]
    return {
        "entity_path": folder,
        "edge_paths": [f"{folder}/edges"],
        "checkpoint_path": f"{folder}/model",
        "entities": {"all": {"num_partitions": 1}},
        "relations": [{"name": "all", "lhs": "all", "rhs": "all", "operator": operator}],
        "dynamic_relations": True,
        "dimension": width,
        "comparator": comparator,
        "global_emb": False,
        "loss_fn": "softmax",
        "lr": 0.1,
        "num_epochs": epochs,
        "batch_size": batch,
        "num_uniform_negs": uniform,
        "num_batch_negs": from_batch,
        "disable_lhs_negs": True,
        "eval_fraction": 0.0,
        "workers": threads,
        "hogwild_delay": 0.0,
    }


def _write(graph: KnowledgeGraph, folder: Path) -> None:
    """The training triples as it reads them."""
    import h5py

    (folder / "entity_count_all_0.txt").write_text(f"{len(graph.entities)}\n")
    (folder / "dynamic_rel_count.txt").write_text(f"{len(graph.relations)}\n")
    (folder / "edges").mkdir()
    with h5py.File(folder / "edges" / "edges_0_0.h5", "w") as file:
        file.attrs["format_version"] = 1
        for column, part in zip(("lhs", "rel", "rhs"), graph.train.T, strict=True):
            file.create_dataset(column, data=part.astype(np.int64))
