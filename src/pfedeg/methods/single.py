"""Single: each client trains alone. Its strategy exchanges nothing; Collective uses it, too."""

from collections.abc import Mapping, Sequence

from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.methods.base import NO_CONTENTS, ClientView, Method, State, Strategy
from pfedeg.methods.exchange import Download, Upload
from pfedeg.settings import Value

EPOCHS: dict[str, Value] = {"epochs": 1, "rounds": 900, "moments": "keep", "eval_every": 10}  # a round is one epoch


class Alone(Strategy):
    """Exchanges nothing."""

    uploads = NO_CONTENTS
    downloads = NO_CONTENTS

    def aggregate(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Download]]:
        """Nothing to exchange."""
        return state, dict.fromkeys(selected, Download())

    def upload(self, client: ClientView) -> Upload:
        """Nothing to exchange."""
        return Upload()


METHOD = Method(
    name="single",
    label="Single",
    summary="each client alone",
    build=lambda settings, threads: Alone(),
    trains="alone",
    role="baseline",
    defaults=EPOCHS,
    color="#222222",
)
