"""A federated method of one's own: FedE's mean, but a client with more entities has more to say."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

import pfedeg

State = Mapping[str, Any]
Uploads = Mapping[str, pfedeg.Rows]


class BySize:
    """The server's half is `aggregate`; `absorb` says what clients do with the rows they receive."""

    absorb = pfedeg.Absorb(replace=True)  # start the round from them
    shares: Literal["entity"] = "entity"

    def init(self, shared: pfedeg.Shared) -> State:
        """Nothing to remember from round to round."""
        return {}

    def aggregate(
        self, state: State, shared: pfedeg.Shared, latest: Uploads, selected: Sequence[str]
    ) -> tuple[State, Uploads]:
        """From the latest rows of every client, new rows for the selected ones."""
        width = latest[selected[0]].values.shape[1]
        total, weight = np.zeros((len(shared.owners), width)), np.zeros((len(shared.owners), 1))
        for client, rows in latest.items():
            size = len(shared.ids[client])
            total[rows.ids] += size * rows.values
            weight[rows.ids] += size
        ids = {client: latest[client].ids for client in selected}
        mean = {client: (total[own] / weight[own]).astype(np.float32) for client, own in ids.items()}
        return state, {client: pfedeg.Rows(ids[client], mean[client]) for client in selected}


def compare(federation: pfedeg.Federation, **settings: Any) -> dict[str, float]:
    """Test MRR of FedE, and of FedE's settings with the strategy above."""
    result = {}
    for name, strategy in {"FedE": None, "BySize": BySize()}.items():
        training = pfedeg.train(federation, "fede", "transe", strategy=strategy, **settings)
        assert training.result is not None
        result[name] = training.result["test"]["weighted"]["mrr"]
    return result


if __name__ == "__main__":
    for name, mrr in compare(pfedeg.Federation.world(), rounds=20, dim=32, negatives=32, lr=0.005).items():
        print(f"{name:6} test MRR {mrr:.4f}")
