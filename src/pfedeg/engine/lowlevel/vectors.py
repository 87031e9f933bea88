"""A vector register of float32 numbers as a type of compiled code: what the kernels calculate with.

Compilers vectorise loops when they see fit, if they may reorder sums. Here vectors are written down and nothing is
reordered: the same sums are rounded in the same way wherever arrays lie in memory and however code was inlined. A
vector has as many lanes as this processor's registers; rows are padded to whole cache lines.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.registry import cpu_target
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, register_model

from pfedeg.engine.lowlevel.compile import jit

_, _, _features = cpu_target.target_context.codegen().magic_tuple()  # of the processor that numba compiles for
LANES = 16 if "+avx512f" in _features.split(",") else 8
LINE = 16  # float32 numbers in a cache line, which are whole vectors of any processor
ZERO, ONE = np.float32(0.0), np.float32(1.0)
_INT = ir.IntType(32)


class Vector(types.Type):
    """Some float32, as many as fit into a register."""

    floats = ir.VectorType(ir.FloatType(), LANES)


vector = Vector("float32s")


@register_model(Vector)
class _InOneRegister(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, Vector.floats)


def _register(symbol: Callable[..., Any], instruction: str) -> None:
    """Make a Python operator an instruction on two vectors."""

    @infer_global(symbol)
    class Typed(ConcreteTemplate):
        cases = (signature(vector, vector, vector),)

    @lower_builtin(symbol, Vector, Vector)
    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)


_register(operator.add, "fadd")
_register(operator.sub, "fsub")
_register(operator.mul, "fmul")
_register(operator.truediv, "fdiv")


def _pointer(context: Any, builder: Any, kind: Any, array: Any, place: Any, to: Any) -> Any:
    """A pointer to array[place], without numba's test for negative indices."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), to.as_pointer())


def _constant(kind: Any, number: float) -> Any:
    return ir.Constant(kind, [number] * kind.count)


def _broadcast(builder: Any, number: Any) -> Any:
    one = builder.insert_element(_constant(Vector.floats, 0.0), number, _INT(0))
    return builder.shuffle_vector(one, one, _constant(ir.VectorType(_INT, LANES), 0))


@intrinsic
def load(typing: Any, row: Any, place: Any) -> Any:
    """The numbers row[place : place + LANES]."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, sig.args[0], *arguments, Vector.floats), align=4)

    return vector(row, types.intp), generate


@intrinsic
def store(typing: Any, row: Any, place: Any, value: Any) -> Any:
    """row[place : place + LANES] = value."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
        builder.store(arguments[2], _pointer(context, builder, sig.args[0], *arguments[:2], Vector.floats), align=4)

    return types.void(row, types.intp, vector), generate


@intrinsic
def repeat(typing: Any, row: Any, place: Any) -> Any:
    """The number row[place] in every lane."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        number = builder.load(_pointer(context, builder, sig.args[0], *arguments, ir.FloatType()))
        return _broadcast(builder, number)

    return vector(row, types.intp), generate


@intrinsic
def fill(typing: Any, number: Any) -> Any:
    """The same number in every lane."""
    return vector(types.float32), lambda _, builder, sig, arguments: _broadcast(builder, *arguments)


@intrinsic
def prefetch_line(typing: Any, row: Any, place: Any) -> Any:
    """Begin to read the cache line of row[place]."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
        line = _pointer(context, builder, sig.args[0], *arguments, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [line.type, _INT, _INT, _INT])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [line, *(_INT(n) for n in (0, 2, 1))])  # to be read, into the second cache, data

    return types.void(row, types.intp), generate


def _call(builder: Any, name: str, *arguments: Any, flags: tuple[str, ...] = ()) -> Any:
    """Call a function of LLVM's on every lane."""
    kind = ir.FunctionType(Vector.floats, [Vector.floats] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32")
    return builder.call(function, arguments, fastmath=flags)


def _library(name: str, doc: str) -> Any:
    """One of LLVM's functions of one vector as an operation of compiled code."""

    def operation(typing: Any, a: Any) -> Any:
        return vector(vector), lambda context, builder, sig, arguments: _call(builder, name, *arguments)

    operation.__doc__ = doc
    return intrinsic(operation)


magnitude = _library("fabs", "|a|.")
root = _library("sqrt", "√a.")
floor = _library("floor", "⌊a⌋.")


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """A · b + c, rounded once where the processor can."""
    return vector(a, b, c), lambda context, builder, sig, arguments: _call(builder, "fmuladd", *arguments)


@intrinsic
def inverse_root(typing: Any, a: Any) -> Any:
    """1 / √a, with a taken as tiny where it is 0: the processor's estimate and a step of Newton's, to about 1e-7."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        estimate, tiny = ("arcp", "contract", "afn"), _constant(Vector.floats, float(np.float32(1e-37)))
        kept = _select_greater(builder, arguments[0], tiny, arguments[0], tiny)
        return builder.fdiv(_constant(Vector.floats, 1.0), _call(builder, "sqrt", kept, flags=estimate), flags=estimate)

    return a(a), generate


def _select_greater(builder: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), yes, no)


@intrinsic
def choose(typing: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    """`yes` in the lanes where a > b, `no` in the others."""
    return yes(a, b, yes, no), lambda context, builder, sig, arguments: _select_greater(builder, *arguments)


@intrinsic
def signed(typing: Any, weight: Any, a: Any) -> Any:
    """The weight times sign(a): the weight, minus the weight, or 0 where a is 0."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        weight, a = arguments
        bits = ir.VectorType(_INT, a.type.count)
        sign = builder.and_(builder.bitcast(a, bits), _constant(bits, -(2**31)))
        flipped = builder.xor(builder.bitcast(weight, bits), sign)
        there = builder.fcmp_unordered("!=", a, _constant(a.type, 0.0))
        return builder.bitcast(builder.select(there, flipped, _constant(bits, 0)), a.type)

    return a(weight, a), generate


@intrinsic
def power_of_two(typing: Any, a: Any) -> Any:
    """2^a for whole numbers a from −126 to 127: after adding a large number, a + 127 stands in the lowest bits."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        bits = ir.VectorType(_INT, LANES)
        shifted = builder.fadd(arguments[0], _constant(Vector.floats, float(3 * 2**22 + 127)))
        return builder.bitcast(builder.shl(builder.bitcast(shifted, bits), _constant(bits, 23)), Vector.floats)

    return vector(vector), generate


def _shuffle(builder: Any, a: Any, b: Any, places: Sequence[int]) -> Any:
    """These places of two vectors side by side."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT, len(places)), [*places]))


def _halves(builder: Any, a: Any) -> tuple[Any, Any]:
    n = a.type.count // 2
    return _shuffle(builder, a, a, range(n)), _shuffle(builder, a, a, range(n, 2 * n))


def _reduce(builder: Any, a: Any, join: Callable[[Any, Any], Any]) -> Any:
    """All lanes joined into one number: halves, quarters, neighbours."""
    while a.type.count > 1:
        a = join(*_halves(builder, a))
    return builder.extract_element(a, _INT(0))


@intrinsic
def store_totals(
    typing: Any, row: Any, place: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any
) -> Any:
    """row[place : place + 8] = the sums of the lanes of eight vectors."""

    def neighbours(builder: Any, a: Any, b: Any) -> Any:
        """Neighbours summed within each half, a's results beside b's."""
        even, odd = ([i + n for i in (0, 2, 8, 10, 4, 6, 12, 14)] for n in (0, 1))
        return builder.fadd(*(_shuffle(builder, a, b, places) for places in (even, odd)))

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
        row, place, *rest = arguments
        rest = [each if LANES == 8 else builder.fadd(*_halves(builder, each)) for each in rest]
        for _ in range(2):
            rest = [neighbours(builder, rest[i], rest[i + 1]) for i in range(0, len(rest), 2)]
        places = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
        sums = builder.fadd(*(_shuffle(builder, *rest, half) for half in places))
        builder.store(sums, _pointer(context, builder, sig.args[0], row, place, sums.type), align=4)

    return types.void(row, types.intp, *[vector] * 8), generate


@intrinsic
def total(typing: Any, a: Any) -> Any:
    """The sum of the lanes."""
    return types.float32(a), lambda context, builder, sig, arguments: _reduce(builder, arguments[0], builder.fadd)


@intrinsic
def largest(typing: Any, a: Any) -> Any:
    """The largest lane."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return _reduce(builder, arguments[0], lambda a, b: _select_greater(builder, a, b, a, b))

    return types.float32(vector), generate


@jit
def exp(a):
    """e^a for a ≤ 87 to about 1e-7 relative (as far as a itself allows), 0 below −87."""
    least = fill(np.float32(-87.0))
    y = choose(least, a, least, a) * fill(np.float32(1.4426950408889634))
    n = floor(y + fill(np.float32(0.5)))
    f, p = (y - n) * fill(np.float32(0.6931471805599453)), fill(np.float32(1 / 720))
    for divisor in (120, 24, 6, 2, 1, 1):
        p = fma(p, f, fill(np.float32(1 / divisor)))
    return choose(least, a, fill(ZERO), p * power_of_two(n))


@jit
def log1p(a):
    """log(1 + a) for 0 ≤ a ≤ 1 to about 1e-7, by 2 · artanh(a / (2 + a))."""
    z = a / (fill(np.float32(2.0)) + a)
    y, p = z * z, fill(np.float32(2 / 15))
    for divisor in (13, 11, 9, 7, 5, 3, 1):
        p = fma(p, y, fill(np.float32(2 / divisor)))
    return z * p


@jit
def prefetch(row):
    """Begin to read a row."""
    for k in range(0, len(row), LINE):
        prefetch_line(row, k)


@jit
def clear(row):
    """Set to zero."""
    for k in range(0, len(row), LANES):
        store(row, k, fill(ZERO))


@jit
def scale(row, factor):
    """Row ← factor · row."""
    by = fill(factor)
    for k in range(0, len(row), LANES):
        store(row, k, by * load(row, k))


@jit
def add(row, other):
    """Row ← row + other."""
    for k in range(0, len(row), LANES):
        store(row, k, load(row, k) + load(other, k))
