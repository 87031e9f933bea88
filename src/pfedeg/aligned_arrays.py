"""Arrays aligned to cache lines, as compiled code needs them."""

from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

CACHE_LINE = 64  # bytes
Number = TypeVar("Number", bound=np.generic)


def empty(shape: tuple[int, ...], kind: type[Number] | np.dtype[Number]) -> NDArray[Number]:
    """An uninitialised array."""
    return _align(np.empty(prod(shape) + CACHE_LINE // np.dtype(kind).itemsize, kind), shape)


def zeros(shape: tuple[int, ...], kind: type[Number] | np.dtype[Number]) -> NDArray[Number]:
    """An array of zeros."""
    return _align(np.zeros(prod(shape) + CACHE_LINE // np.dtype(kind).itemsize, kind), shape)


def zeros_like(array: NDArray[Number]) -> NDArray[Number]:
    """Zeros in the shape of an array."""
    return zeros(array.shape, array.dtype)


def copy(array: NDArray[Number]) -> NDArray[Number]:
    """An aligned copy."""
    result = empty(array.shape, array.dtype)
    result[...] = array
    return result


def is_aligned(array: NDArray[Any]) -> bool:
    """Whether an array is contiguous and starts on a cache line."""
    return array.size == 0 or (array.flags.c_contiguous and array.ctypes.data % CACHE_LINE == 0)


def _align(memory: NDArray[Number], shape: tuple[int, ...]) -> NDArray[Number]:
    first = -memory.ctypes.data % CACHE_LINE // memory.itemsize
    return memory[first : first + prod(shape)].reshape(shape)
