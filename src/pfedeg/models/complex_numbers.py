"""Rows of complex numbers: all real parts, then all imaginary parts."""

import numpy as np

from pfedeg.models.base import Array


def halves(x: Array) -> tuple[Array, Array]:
    """The real and the imaginary parts of complex rows."""
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def times(x: Array, re: Array, im: Array) -> Array:
    """The complex product of x with re + i · im."""
    x_re, x_im = halves(x)
    return np.concatenate([x_re * re - x_im * im, x_re * im + x_im * re], -1)
