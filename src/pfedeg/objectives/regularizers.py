"""Regularisers towards the rows received from the server: PFedEG's pull and FedEC's contrast."""

import numpy as np

from pfedeg.models.base import Array
from pfedeg.objectives.base import sigmoid


def pull_gradient(entity: Array, received: Array, strength: float) -> Array:
    """Gradient of β · D(E, K), D the Frobenius norm of E − K: β · (E − K) / D, and 0 where E = K."""
    difference = entity - received
    distance = float(np.sqrt((difference.astype(np.float64) ** 2).sum()))
    scaled: Array = difference * (strength / distance if distance else 0.0)
    return scaled


def contrast_gradient(
    entity: Array, received: Array, previous: Array, weight: float, temperature: float, pooled: bool
) -> Array:
    """Gradient of μ · mean over entities of softplus((s_l − s_g) / τ), s_g = cos(E, G), s_l = cos(E, P).

    Pooled: of μ · softplus((mean s_l − mean s_g) / τ).
    """
    s_g, by_s_g = _cosine(entity, received)
    s_l, by_s_l = _cosine(entity, previous)
    z = (s_l - s_g) / temperature
    if pooled:
        z = np.full_like(z, z.mean(dtype=np.float64))
    share = weight / (len(entity) * temperature) * sigmoid(z)
    gradient: Array = share[:, None] * (by_s_l - by_s_g)
    return gradient


def _cosine(e: Array, other: Array) -> tuple[Array, Array]:
    """Cosines of paired rows and their gradient with respect to e; both are 0 for zero rows."""
    length_e, length = np.sqrt((e * e).sum(-1)), np.sqrt((other * other).sum(-1))
    product = length_e * length
    positive = product > 0
    inverse = np.divide(1, product, out=np.zeros_like(product), where=positive)
    cosine = (e * other).sum(-1) * inverse
    square = np.divide(1, length_e**2, out=np.zeros_like(product), where=positive)
    return cosine, other * inverse[:, None] - e * (cosine * square)[:, None]
