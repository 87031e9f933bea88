"""Reads pickles of lists, dicts, texts, numbers and plain numpy arrays without unpickling: no code of theirs is run."""

import io
import pickletools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

DTYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")  # without references to objects
GLOBALS = {
    **{f"numpy.{core}.multiarray _reconstruct": "array" for core in ("core", "_core")},
    **{f"numpy.{core}.numeric _frombuffer": "frombuffer" for core in ("core", "_core")},
    "numpy dtype": "dtype",
    "numpy ndarray": "ndarray",
    "_codecs encode": "encode",
    "builtins bytes": "bytes",
    "__builtin__ bytes": "bytes",
}
DTYPE_STATE = (None, None, None, -1, -1, 0)  # no subarray, no fields, no size of its own, no flags
VALUES = (  # opcodes that push what they carry
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("BYTEARRAY8", "FLOAT", "BINFLOAT"),
)
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
NOT_PLAIN = "it contains more than plain arrays"


class PickleError(ValueError):
    """A pickle that is damaged, or contains more than is allowed."""


@dataclass(frozen=True)
class Global:
    """A function or type of GLOBALS, which is never called."""

    name: str


@dataclass
class Dtype:
    """A type of numbers by its name; numpy sees it when an array of it is complete."""

    name: str
    order: str = "="

    def checked(self) -> np.dtype[Any]:
        """The dtype, if it is one of plain numbers."""
        if self.name not in DTYPES or self.order not in ("<", ">", "|", "="):
            raise PickleError(NOT_PLAIN)
        return np.dtype(self.name).newbyteorder(self.order)  # type: ignore[arg-type]  # the order is checked


@dataclass
class Array:
    """An array, empty until its content is read."""

    values: np.ndarray[Any, Any] | None = None

    def fill(self, content: Any, dtype: Any, shape: Any, order: str) -> "Array":
        """Take the numbers from bytes of the file, which must be as many as the shape says."""
        if not (isinstance(content, bytes | bytearray) and isinstance(dtype, Dtype) and isinstance(shape, tuple)):
            raise PickleError(NOT_PLAIN)
        kind = dtype.checked()
        if len(shape) > 2 or not all(type(each) is int and each >= 0 for each in shape):
            raise PickleError(f"an array of shape {str(shape)[:40]}")
        if prod(shape) * kind.itemsize != len(content):
            raise PickleError(f"an array of shape {shape} and type {kind} with {len(content):,} bytes")
        flat = np.frombuffer(content, kind)
        self.values = flat.reshape(shape, order="F" if order == "F" else "C")
        return self


class _Stack(list[Any]):
    """The values so far; a mark begins a new list of them."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[int] = []

    def since_mark(self) -> list[Any]:
        start = self.marks.pop()
        found = self[start:]
        del self[start:]
        return found


def read_pickle(content: bytes) -> Any:
    """The value in a pickle; PickleError for anything but the opcodes, types and functions that are named here."""
    stack, memo, free = _Stack(), dict[int, Any](), [len(content)]
    try:
        for name, argument in _opcodes(content):
            if name == "STOP":
                return stack.pop()
            if name in VALUES:
                stack.append(argument)
            elif name in CONSTANTS:
                stack.append(CONSTANTS[name]())
            elif name == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
                memo[int(argument)] = stack[-1]
            elif name in ("GET", "BINGET", "LONG_BINGET"):
                stack.append(memo[int(argument)])
            elif name == "GLOBAL":
                stack.append(_global(argument))
            elif name not in ("PROTO", "FRAME"):
                _apply(name, stack, free)
    except PickleError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise PickleError(f"damaged: {str(error)[:80] or type(error).__name__}") from None
    raise PickleError("damaged: it has no end")


def _opcodes(content: bytes) -> Iterator[tuple[str, Any]]:
    argument: Any
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of unusual escapes in texts
        for opcode, argument, _ in pickletools.genops(io.BytesIO(content)):
            yield opcode.name, argument


def _apply(name: str, stack: _Stack, free: list[int]) -> None:
    """An opcode that works on the values of the stack."""
    if name == "MARK":
        stack.marks.append(len(stack))
    elif name in TUPLES:
        stack[-TUPLES[name] :] = [tuple(stack[-TUPLES[name] :])]
    elif name == "TUPLE":
        stack.append(tuple(stack.since_mark()))
    elif name == "LIST":
        stack.append(stack.since_mark())
    elif name in ("APPEND", "APPENDS"):
        items = stack.since_mark() if name == "APPENDS" else [stack.pop()]
        _require(stack[-1], list).extend(items)
    elif name in ("DICT", "SETITEM", "SETITEMS"):
        items = [stack.pop(-2), stack.pop()] if name == "SETITEM" else stack.since_mark()
        if name == "DICT":
            stack.append({})
        for key, value in zip(items[::2], items[1::2], strict=True):
            _require(stack[-1], dict)[_require(key, str, int)] = value
    elif name == "STACK_GLOBAL":
        module, attribute = stack.pop(-2), stack.pop()
        stack.append(_global(f"{module} {attribute}"))
    elif name == "REDUCE":
        function, arguments = _require(stack.pop(-2), Global), stack.pop()
        stack.append(_call(function.name, _require(arguments, tuple), free))
    elif name == "BUILD":
        state = _require(stack.pop(), tuple)
        _build(stack[-1], state)
    else:
        raise PickleError(NOT_PLAIN)


def _require(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise PickleError(NOT_PLAIN)
    return value


def _global(name: str) -> Global:
    if name not in GLOBALS:
        raise PickleError(f"it contains {'.'.join(name.split())[:80]}")
    return Global(GLOBALS[name])


def _call(function: str, arguments: tuple[Any, ...], free: list[int]) -> Any:
    """What stands for the result of a function."""
    if function == "array" and arguments[:1] == (Global("ndarray"),) and arguments[1:2] == ((0,),):
        return Array()
    if function == "dtype" and isinstance(arguments[0], str):
        return Dtype(arguments[0])
    if function == "frombuffer" and len(arguments) == 4:
        content, dtype, shape, order = arguments
        return Array().fill(content, dtype, shape, order)
    if function == "encode" and isinstance(arguments[0], str) and arguments[1:] in ((), ("latin1",)):
        free[0] -= len(arguments[0])  # every text is encoded once, so all of them are shorter than the file
        if free[0] < 0:
            raise PickleError("it asks for more memory than it brings")
        return arguments[0].encode("latin1")
    if function == "bytes" and arguments == ():
        return b""
    raise PickleError(NOT_PLAIN)


def _build(value: Any, state: tuple[Any, ...]) -> None:
    """Complete a dtype or an array."""
    if type(value) is Dtype and len(state) == 8 and isinstance(state[1], str) and state[2:] == DTYPE_STATE:
        value.order = state[1]
    elif type(value) is Dtype and value.name not in DTYPES:
        pass  # refused with the array, or never used
    elif type(value) is Array and len(state) == 5:
        _, shape, dtype, is_fortran, content = state
        value.fill(content, dtype, shape, "F" if is_fortran is True else "C")
    else:
        raise PickleError(NOT_PLAIN)
