"""Eight float32 numbers in one register, as a type of compiled code: what the kernels calculate with.

Compilers vectorise loops when they see fit, if they may reorder sums; here it is written down, and nothing may be
reordered. So the same sums are rounded in the same way wherever arrays lie in memory and however code was inlined, and
tiles use the registers as meant. LLVM turns the eight lanes into what the processor has. There are also sixteen
("wide"), which newer processors take as one; `native` has as many as this one takes.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, register_model
from numba.np.arrayobj import populate_array

from pfedeg.engine.lowlevel.compile import inline, jit

LANES, WIDE = 8, 16
ZERO = np.float32(0.0)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_BITS = ir.VectorType(ir.IntType(32), LANES)
_ESTIMATE = ("arcp", "contract", "afn")  # what lets the processor estimate
_FIRST = ir.IntType(32)(0)


class Vector(types.Type):
    """Some float32."""

    def __init__(self, lanes: int) -> None:
        """Eight or sixteen."""
        super().__init__(f"float32x{lanes}")
        self.floats = ir.VectorType(ir.FloatType(), lanes)


vector, wide = Vector(LANES), Vector(WIDE)


@register_model(Vector)
class _InOneRegister(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.floats)


def _register(symbol: Callable[..., Any], instruction: str) -> None:
    """Make a Python operator an instruction on two vectors."""

    @infer_global(symbol)
    class Typed(ConcreteTemplate):
        cases = (signature(vector, vector, vector), signature(wide, wide, wide))

    @lower_builtin(symbol, Vector, Vector)
    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)


for _symbols, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _symbol in _symbols:
        _register(_symbol, _instruction)


def _address(context: Any, builder: Any, kind: Any, array: Any, place: Any, floats: Any = _FLOATS) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), floats.as_pointer())


def _loading(kind: Vector, doc: str) -> Any:
    def operation(typing: Any, row: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            return builder.load(_address(context, builder, sig.args[0], *arguments, kind.floats), align=4)

        return kind(row, types.intp), generate

    operation.__doc__ = doc
    return intrinsic(operation)


load = _loading(vector, "The eight numbers row[place : place + 8].")
load_wide = _loading(wide, "The sixteen numbers row[place : place + 16].")


@intrinsic
def load_like(typing: Any, row: Any, place: Any, other: Any) -> Any:
    """As many numbers from row[place] on as the other vector has."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, sig.args[0], *arguments[:2], sig.return_type.floats), align=4)

    return other(row, types.intp, other), generate


@intrinsic
def store(typing: Any, row: Any, place: Any, value: Any) -> Any:
    """Write: row[place : place + 8] = value; if the value is wide, sixteen."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
        floats = sig.args[2].floats
        builder.store(arguments[2], _address(context, builder, sig.args[0], *arguments[:2], floats), align=4)

    return types.void(row, types.intp, value), generate


@intrinsic
def send(typing: Any, row: Any, place: Any, value: Any) -> Any:
    """Write like `store`, past the caches; others see it when threads have met."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
        floats = sig.args[2].floats
        place = _address(context, builder, sig.args[0], *arguments[:2], floats)
        written = builder.store(arguments[2], place, align=4 * floats.count)
        written.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))

    return types.void(row, types.intp, value), generate


@intrinsic
def expect_line(typing: Any, row: Any, place: Any) -> Any:
    """Ask for the line of the cache with row[place], without waiting for it."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
        line = builder.bitcast(_address(context, builder, sig.args[0], *arguments), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [line.type, *[ir.IntType(32)] * 3])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [line, *(ir.IntType(32)(n) for n in (0, 2, 1))])  # to be read, from the second cache, data

    return types.void(row, types.intp), generate


def _constant(kind: Any, number: float) -> Any:
    """A number in every lane."""
    return ir.Constant(kind, [number] * kind.count)


def fill_vector(builder: Any, number: Any, lanes: int) -> Any:
    """A number in so many lanes."""
    one = builder.insert_element(ir.Constant(ir.VectorType(ir.FloatType(), lanes), [0.0] * lanes), number, _FIRST)
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _filling(kind: Vector, doc: str) -> Any:
    def operation(typing: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            return fill_vector(builder, arguments[0], kind.floats.count)

        return kind(types.float32), generate

    operation.__doc__ = doc
    return intrinsic(operation)


fill = _filling(vector, "The same number in every lane.")
fill_wide = _filling(wide, "The same number in every lane of sixteen.")


@intrinsic
def fill_like(typing: Any, number: Any, other: Any) -> Any:
    """The same number in as many lanes as the other vector has."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return fill_vector(builder, arguments[0], sig.return_type.floats.count)

    return other(types.float32, other), generate


def _halving(first: int, doc: str) -> Any:
    def operation(typing: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            kept = ir.Constant(_BITS, [*range(first, first + LANES)])
            return builder.shuffle_vector(arguments[0], arguments[0], kept)

        return vector(wide), generate

    operation.__doc__ = doc
    return intrinsic(operation)


low = _halving(0, "The first eight of sixteen numbers.")
high = _halving(LANES, "The last eight of sixteen numbers.")


def _repeating(kind: Vector, doc: str) -> Any:
    def operation(typing: Any, row: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            data = context.make_array(sig.args[0])(context, builder, arguments[0]).data
            return fill_vector(builder, builder.load(builder.gep(data, [arguments[1]])), kind.floats.count)

        return kind(row, types.intp), generate

    operation.__doc__ = doc
    return intrinsic(operation)


repeat = _repeating(
    vector,
    "The number row[place] in every lane; unlike `fill(row[place])` it need not ask whether the place is negative.",
)
repeat_wide = _repeating(wide, "The same in every lane of sixteen.")


def _sharing(kind: Vector, doc: str) -> Any:
    def operation(typing: Any, weights: Any, factor: Any, ids: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            weights, factor, ids = (
                context.make_array(array)(context, builder, value).data
                for array, value in zip(sig.args[:3], arguments[:3], strict=True)
            )
            which = builder.load(builder.gep(ids, [arguments[3]]))
            weight = builder.load(builder.gep(weights, [arguments[3]]))
            number = builder.fmul(weight, builder.load(builder.gep(factor, [which])))
            return fill_vector(builder, number, kind.floats.count)

        return kind(weights, factor, ids, types.intp), generate

    operation.__doc__ = doc
    return intrinsic(operation)


share = _sharing(vector, "The number weights[place] · factor[ids[place]] in every lane.")
share_wide = _sharing(wide, "The same in every lane of sixteen.")


@intrinsic
def pick(typing: Any, table: Any, ids: Any, place: Any) -> Any:
    """The row table[ids[place]], without asking whether either number is negative."""

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


def call(builder: Any, name: str, *arguments: Any, flags: tuple[str, ...] = ()) -> Any:
    """Call a function of LLVM's on every lane."""
    floats = arguments[0].type
    kind = ir.FunctionType(floats, [floats] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{floats.count}f32")
    return builder.call(function, arguments, fastmath=flags)


def _library(name: str, operands: int, doc: str) -> Any:
    """The same as an operation of compiled code."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return call(builder, name, *arguments)

    def one(typing: Any, a: Any) -> Any:
        return a(a), generate

    def three(typing: Any, a: Any, b: Any, c: Any) -> Any:
        return a(a, a, a), generate

    operation = one if operands == 1 else three
    operation.__doc__ = doc
    return intrinsic(operation)


magnitude = _library("fabs", 1, "|a|.")
root = _library("sqrt", 1, "√a.")
floor = _library("floor", 1, "⌊a⌋.")
fma = _library("fmuladd", 3, "a · b + c, rounded once where the processor can.")


@intrinsic
def inverse_root(typing: Any, a: Any) -> Any:
    """1 / √a, with a taken as tiny where it is 0: the processor's estimate and a step of Newton's, to about 1e-7."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        floats = sig.return_type.floats
        tiny = _constant(floats, float(np.float32(1e-37)))
        kept = builder.select(builder.fcmp_ordered(">", arguments[0], tiny), arguments[0], tiny)
        length = call(builder, "sqrt", kept, flags=_ESTIMATE)
        return builder.fdiv(_constant(floats, 1.0), length, flags=_ESTIMATE)

    return a(a), generate


@intrinsic
def choose(typing: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    """`yes` in the lanes where a > b, `no` in the others."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        a, b, yes, no = arguments
        return builder.select(builder.fcmp_ordered(">", a, b), yes, no)

    return yes(a, b, yes, no), generate


@intrinsic
def signed(typing: Any, weight: Any, a: Any) -> Any:
    """The weight times sign(a): the weight, minus the weight, or 0 where a is 0."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        weight, a = arguments
        floats = a.type
        bits = ir.VectorType(ir.IntType(32), floats.count)
        flipped = builder.xor(
            builder.bitcast(weight, bits), builder.and_(builder.bitcast(a, bits), _constant(bits, -(2**31)))
        )
        there = builder.fcmp_unordered("!=", a, _constant(floats, 0.0))
        return builder.bitcast(builder.select(there, flipped, _constant(bits, 0)), floats)

    return a(weight, a), generate


@intrinsic
def power_of_two(typing: Any, a: Any) -> Any:
    """2^a for whole numbers a from −126 to 127: after adding a large number, a + 127 stands in the lowest bits."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        large = ir.Constant(_FLOATS, [float(3 * 2**22 + 127)] * LANES)
        bits = builder.bitcast(builder.fadd(arguments[0], large), _BITS)
        return builder.bitcast(builder.shl(bits, ir.Constant(_BITS, [23] * LANES)), _FLOATS)

    return vector(vector), generate


def _pairs(builder: Any, a: Any, b: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Neighbours joined within each half, a's results beside b's; three such steps join eight vectors lane by lane."""
    even, odd = [0, 2, 8, 10, 4, 6, 12, 14], [1, 3, 9, 11, 5, 7, 13, 15]
    first = builder.shuffle_vector(a, b, ir.Constant(_BITS, even))
    return join(first, builder.shuffle_vector(a, b, ir.Constant(_BITS, odd)))


@intrinsic
def totals(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """The sums of eight vectors, as one vector of eight."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        rest = [_eight(builder, each) for each in arguments]
        for _ in range(2):
            rest = [_pairs(builder, rest[i], rest[i + 1], builder.fadd) for i in range(0, len(rest), 2)]
        low, high = ir.Constant(_BITS, [0, 1, 2, 3, 8, 9, 10, 11]), ir.Constant(_BITS, [4, 5, 6, 7, 12, 13, 14, 15])
        return builder.fadd(builder.shuffle_vector(*rest, low), builder.shuffle_vector(*rest, high))

    return vector(*[a] * 8), generate


def _eight(builder: Any, a: Any) -> Any:
    """Sixteen lanes as eight sums of two."""
    if a.type.count == LANES:
        return a
    halves = (ir.Constant(_BITS, [*range(first, first + LANES)]) for first in (0, LANES))
    return builder.fadd(*(builder.shuffle_vector(a, a, half) for half in halves))


def _fold(builder: Any, a: Any, join: Callable[[Any, Any], Any]) -> Any:
    """All lanes joined into one number: halves, quarters, neighbours."""
    for n in (4, 2, 1):
        kind = ir.VectorType(ir.IntType(32), n)
        low, high = ir.Constant(kind, [*range(n)]), ir.Constant(kind, [*range(n, 2 * n)])
        a = join(builder.shuffle_vector(a, a, low), builder.shuffle_vector(a, a, high))
    return builder.extract_element(a, ir.IntType(32)(0))


@intrinsic
def total(typing: Any, a: Any) -> Any:
    """The sum of the lanes."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return _fold(builder, _eight(builder, arguments[0]), builder.fadd)

    return types.float32(a), generate


@intrinsic
def largest(typing: Any, a: Any) -> Any:
    """The largest lane."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        def larger(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        return _fold(builder, arguments[0], larger)

    return types.float32(vector), generate


@jit
def exp(a):
    """e^a for a ≤ 87 to about 1e-7 relative (as far as a itself allows), 0 below −87."""
    least = fill(np.float32(-87.0))
    y = choose(least, a, least, a) * fill(np.float32(1.4426950408889634))
    n = floor(y + fill(np.float32(0.5)))
    f = (y - n) * fill(np.float32(0.6931471805599453))
    p = fill(np.float32(1 / 720))
    p = fma(p, f, fill(np.float32(1 / 120)))
    p = fma(p, f, fill(np.float32(1 / 24)))
    p = fma(p, f, fill(np.float32(1 / 6)))
    p = fma(p, f, fill(np.float32(0.5)))
    p = fma(p, f, fill(np.float32(1.0)))
    p = fma(p, f, fill(np.float32(1.0)))
    return choose(least, a, fill(np.float32(0.0)), p * power_of_two(n))


@jit
def log1p(a):
    """log(1 + a) for 0 ≤ a ≤ 1 to about 1e-7, by 2 · artanh(a / (2 + a))."""
    z = a / (fill(np.float32(2.0)) + a)
    y = z * z
    p = fill(np.float32(2 / 15))
    p = fma(p, y, fill(np.float32(2 / 13)))
    p = fma(p, y, fill(np.float32(2 / 11)))
    p = fma(p, y, fill(np.float32(2 / 9)))
    p = fma(p, y, fill(np.float32(2 / 7)))
    p = fma(p, y, fill(np.float32(2 / 5)))
    p = fma(p, y, fill(np.float32(2 / 3)))
    p = fma(p, y, fill(np.float32(2.0)))
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
def expect_rows(rows, place):
    """Ask for a line of some rows."""
    for n in range(len(rows)):
        expect_line(rows[n], place)


@inline
def expect_eight(table, ids, j, place):
    """Ask for a line of the rows table[ids[j]] … table[ids[j + 7]], if there are such."""
    if j < len(ids) and place < table.shape[1]:
        expect_rows(eight_rows(table, ids, j), place)


@jit
def expect(row):
    """Ask for a row that is read soon, without waiting for it."""
    for k in range(0, len(row), 2 * LANES):
        expect_line(row, k)


@jit
def clear(row):
    """Set to zero."""
    for k in range(0, len(row), WIDE):
        store(row, k, fill_wide(np.float32(0.0)))


@jit
def scale(row, factor):
    """Multiply: row ← factor · row."""
    by = fill(factor)
    for k in range(0, len(row), LANES):
        store(row, k, by * load(row, k))


@jit
def add(row, other, soon):
    """Add: row ← row + other; meanwhile ask for what is added soon."""
    for k in range(0, len(row), WIDE):
        if k % WIDE == 0:
            expect_line(soon, k)
        store(row, k, load_wide(row, k) + load_wide(other, k))


@jit
def store_four(row, place, lanes, a, b, c, d):
    """Write four vectors of so many lanes side by side."""
    store(row, place, a)
    store(row, place + lanes, b)
    store(row, place + 2 * lanes, c)
    store(row, place + 3 * lanes, d)
