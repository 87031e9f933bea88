"""A vector register of float32 numbers as a type of compiled code: what the kernels calculate with.

Compilers vectorise loops when they see fit, if they may reorder sums. Here vectors are written down and nothing is
reordered: the same sums are rounded in the same way wherever arrays lie in memory and however code was inlined. A
vector has as many lanes as this processor's registers; rows are padded to multiples of `PADDING`.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.registry import cpu_target
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, register_model
from numba.np.arrayobj import populate_array

from pfedeg.engine.lowlevel.compile import inline, jit

_, _, _features = cpu_target.target_context.codegen().magic_tuple()  # of the processor that numba compiles for
LANES = 16 if "+avx512f" in _features.split(",") else 8
EIGHT = 8  # rows whose scores form one vector
PADDING = 16  # rows are padded to whole vectors of any processor, and to whole cache lines
ZERO, ONE = np.float32(0.0), np.float32(1.0)
_INT = ir.IntType(32)


class Vector(types.Type):
    """Some float32."""

    def __init__(self, lanes: int) -> None:
        """Sixteen, or eight."""
        super().__init__(f"float32x{lanes}")
        self.lanes, self.floats = lanes, ir.VectorType(ir.FloatType(), lanes)


vector = Vector(LANES)
eight = Vector(EIGHT) if LANES != EIGHT else vector


@register_model(Vector)
class _InOneRegister(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.floats)


def _register(symbol: Callable[..., Any], instruction: str) -> None:
    """Make a Python operator an instruction on two vectors."""

    @infer_global(symbol)
    class Typed(ConcreteTemplate):
        cases = (signature(vector, vector, vector), signature(eight, eight, eight))

    @lower_builtin(symbol, Vector, Vector)
    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)


for _name, _instruction in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("truediv", "fdiv")):
    _register(getattr(operator, _name), _instruction)
    _register(getattr(operator, f"i{_name}"), _instruction)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, place: Any, to: Any) -> Any:
    """A pointer to array[place], without numba's test for negative indices."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), to.as_pointer())


def _constant(kind: Any, number: float) -> Any:
    return ir.Constant(kind, [number] * kind.count)


def broadcast(builder: Any, number: Any, lanes: int) -> Any:
    """A number in every lane of a vector."""
    one = builder.insert_element(_constant(ir.VectorType(ir.FloatType(), lanes), 0.0), number, _INT(0))
    return builder.shuffle_vector(one, one, _constant(ir.VectorType(_INT, lanes), 0))


@intrinsic
def load(typing: Any, row: Any, place: Any) -> Any:
    """The numbers row[place : place + LANES]."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, sig.args[0], *arguments, vector.floats), align=4)

    return vector(row, types.intp), generate


@intrinsic
def store(typing: Any, row: Any, place: Any, value: Any) -> Any:
    """row[place : place + the lanes of value] = value."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
        floats = sig.args[2].floats
        builder.store(arguments[2], _pointer(context, builder, sig.args[0], *arguments[:2], floats), align=4)

    return types.void(row, types.intp, value), generate


@intrinsic
def repeat(typing: Any, row: Any, place: Any) -> Any:
    """The number row[place] in every lane."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        number = builder.load(_pointer(context, builder, sig.args[0], *arguments, ir.FloatType()))
        return broadcast(builder, number, LANES)

    return vector(row, types.intp), generate


def _filling(kind: Vector, doc: str) -> Any:
    def operation(typing: Any, number: Any) -> Any:
        return kind(types.float32), lambda _, builder, sig, arguments: broadcast(builder, arguments[0], kind.lanes)

    operation.__doc__ = doc
    return intrinsic(operation)


fill = _filling(vector, "The same number in every lane.")
fill_eight = _filling(eight, "The same number in eight lanes.")


@intrinsic
def pick(typing: Any, table: Any, ids: Any, place: Any) -> Any:
    """The row table[ids[place]]."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        view = context.make_array(sig.args[0])(context, builder, arguments[0])
        (_, width), (step, number) = (cgutils.unpack_tuple(builder, sizes) for sizes in (view.shape, view.strides))
        chosen = context.make_array(sig.args[1])(context, builder, arguments[1]).data
        which = builder.sext(builder.load(builder.gep(chosen, [arguments[2]])), step.type)
        start = builder.add(builder.ptrtoint(view.data, step.type), builder.mul(which, step))
        row = context.make_array(sig.return_type)(context, builder)
        populate_array(row, builder.inttoptr(start, row.data.type), [width], [number], number, None)
        return row._getvalue()

    return types.Array(table.dtype, 1, "C")(table, ids, types.intp), generate


@intrinsic
def prefetch_line(typing: Any, row: Any, place: Any) -> Any:
    """Begin to read the cache line of row[place]."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
        line = _pointer(context, builder, sig.args[0], *arguments, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [line.type, _INT, _INT, _INT])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [line, *(_INT(n) for n in (0, 2, 1))])  # to be read, into the second cache, data

    return types.void(row, types.intp), generate


def call(builder: Any, name: str, *arguments: Any, flags: tuple[str, ...] = ()) -> Any:
    """Call a function of LLVM's on every lane."""
    floats = arguments[0].type
    kind = ir.FunctionType(floats, [floats] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{floats.count}f32")
    return builder.call(function, arguments, fastmath=flags)


def _library(name: str, doc: str) -> Any:
    """One of LLVM's functions of one vector as an operation of compiled code."""

    def operation(typing: Any, a: Any) -> Any:
        return a(a), lambda context, builder, sig, arguments: call(builder, name, *arguments)

    operation.__doc__ = doc
    return intrinsic(operation)


magnitude = _library("fabs", "|a|.")
root = _library("sqrt", "√a.")
floor = _library("floor", "⌊a⌋.")


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """A · b + c, rounded once where the processor can."""
    return a(a, a, a), lambda context, builder, sig, arguments: call(builder, "fmuladd", *arguments)


@intrinsic
def inverse_root(typing: Any, a: Any) -> Any:
    """1 / √a, with a taken as tiny where it is 0: the processor's estimate and a step of Newton's, to about 1e-7."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        floats, estimate = sig.return_type.floats, ("arcp", "contract", "afn")
        tiny = _constant(floats, float(np.float32(1e-37)))
        kept = _select_greater(builder, arguments[0], tiny, arguments[0], tiny)
        return builder.fdiv(_constant(floats, 1.0), call(builder, "sqrt", kept, flags=estimate), flags=estimate)

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
        shifted = builder.fadd(arguments[0], _constant(vector.floats, float(3 * 2**22 + 127)))
        return builder.bitcast(builder.shl(builder.bitcast(shifted, bits), _constant(bits, 23)), vector.floats)

    return vector(vector), generate


def _halves(builder: Any, a: Any) -> tuple[Any, Any]:
    n = a.type.count // 2
    kind = ir.VectorType(_INT, n)
    low, high = ir.Constant(kind, [*range(n)]), ir.Constant(kind, [*range(n, 2 * n)])
    return builder.shuffle_vector(a, a, low), builder.shuffle_vector(a, a, high)


def _reduce(builder: Any, a: Any, join: Callable[[Any, Any], Any]) -> Any:
    """All lanes joined into one number: halves, quarters, neighbours."""
    while a.type.count > 1:
        a = join(*_halves(builder, a))
    return builder.extract_element(a, _INT(0))


@intrinsic
def totals(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """The sums of eight vectors, as one vector of eight."""

    def neighbours(builder: Any, a: Any, b: Any) -> Any:
        """Neighbours summed within each half, a's results beside b's."""
        bits = ir.VectorType(_INT, EIGHT)
        even, odd = ([i + n for i in (0, 2, 8, 10, 4, 6, 12, 14)] for n in (0, 1))
        return builder.fadd(*(builder.shuffle_vector(a, b, ir.Constant(bits, places)) for places in (even, odd)))

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        rest = [each if LANES == EIGHT else builder.fadd(*_halves(builder, each)) for each in arguments]
        for _ in range(2):
            rest = [neighbours(builder, rest[i], rest[i + 1]) for i in range(0, len(rest), 2)]
        bits = ir.VectorType(_INT, EIGHT)
        places = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
        return builder.fadd(*(builder.shuffle_vector(*rest, ir.Constant(bits, part)) for part in places))

    return eight(*[vector] * 8), generate


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


@inline
def four_rows(table, ids, place):
    """The rows table[ids[place]] … table[ids[place + 3]]."""
    first, second = pick(table, ids, place), pick(table, ids, place + 1)
    return first, second, pick(table, ids, place + 2), pick(table, ids, place + 3)


@inline
def eight_rows(table, ids, place):
    """The rows table[ids[place]] … table[ids[place + 7]]."""
    return four_rows(table, ids, place) + four_rows(table, ids, place + 4)


@inline
def prefetch_rows(rows, place):
    """Begin to read a line of some rows."""
    for n in range(len(rows)):
        prefetch_line(rows[n], place)


@jit
def prefetch(row):
    """Begin to read a row."""
    for k in range(0, len(row), PADDING):
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
