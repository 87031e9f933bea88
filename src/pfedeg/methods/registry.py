"""The registry of methods, in the order of the paper's tables."""

from pfedeg.methods.base import Method
from pfedeg.registry import Registry

METHODS = Registry(
    "method",
    Method,
    {
        "collective": "pfedeg.methods.collective:METHOD",
        "single": "pfedeg.methods.single:METHOD",
        "fede": "pfedeg.methods.fede:METHOD",
        "fedec": "pfedeg.methods.fedec:METHOD",
        "pfedeg-star": "pfedeg.methods.pfedeg:STAR",
        "pfedeg-star-reg": "pfedeg.methods.pfedeg:STAR_REG",
        "pfedeg-star-init": "pfedeg.methods.pfedeg:STAR_INIT",
        "pfedeg-plus": "pfedeg.methods.pfedeg:PLUS",
        "pfedeg-plus-reg": "pfedeg.methods.pfedeg:PLUS_REG",
        "pfedeg-plus-init": "pfedeg.methods.pfedeg:PLUS_INIT",
    },
)
