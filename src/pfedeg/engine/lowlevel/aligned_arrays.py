"""Arrays that begin with a line of the cache: eight numbers that lie across two lines cost two reads."""

from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

LINE = 64  # bytes
Number = TypeVar("Number", bound=np.generic)


def empty(shape: tuple[int, ...], kind: type[Number] | np.dtype[Number]) -> NDArray[Number]:
    """Numbers yet to be written."""
    return _begin_line(np.empty(prod(shape) + LINE // np.dtype(kind).itemsize, kind), shape)


def zeros(shape: tuple[int, ...], kind: type[Number] | np.dtype[Number]) -> NDArray[Number]:
    """Zeros."""
    return _begin_line(np.zeros(prod(shape) + LINE // np.dtype(kind).itemsize, kind), shape)


def copy(array: NDArray[Number]) -> NDArray[Number]:
    """The same numbers."""
    result = empty(array.shape, array.dtype)
    result[...] = array
    return result


def begins_line(array: NDArray[Any]) -> bool:
    """Whether an array is as those that are made here."""
    return array.size == 0 or (array.flags.c_contiguous and array.ctypes.data % LINE == 0)


def _begin_line(memory: NDArray[Number], shape: tuple[int, ...]) -> NDArray[Number]:
    first = -memory.ctypes.data % LINE // memory.itemsize
    return memory[first : first + prod(shape)].reshape(shape)
