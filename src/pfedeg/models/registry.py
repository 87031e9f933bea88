"""The models by name."""

from pfedeg.models.complex import ComplEx
from pfedeg.models.distmult import DistMult
from pfedeg.models.rotate import RotatE
from pfedeg.models.transe import TransE

MODELS: dict[str, type[TransE] | type[RotatE] | type[ComplEx] | type[DistMult]] = {
    "transe": TransE,
    "rotate": RotatE,
    "complex": ComplEx,
    "distmult": DistMult,
}
