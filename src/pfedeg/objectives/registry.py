"""The registry of objectives."""

from pfedeg.objectives.base import ObjectiveType
from pfedeg.registry import Registry

OBJECTIVES = Registry("objective", ObjectiveType, {"self-adversarial": "pfedeg.objectives.self_adversarial:OBJECTIVE"})
