"""Dot products of float32 rows in float64, in explicit vectors: the order of summation is written down."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _dot_products(builder, rows, pairs, width, lanes):
    """The dot products of pairs of rows, which are given by address: so many lanes, then what is left of the rows."""

    def add(sums, at, single, double, suffix):
        """One step at a place of the rows; the product of two float32 is exact in float64."""
        values = []
        for row in rows:
            pointer = builder.inttoptr(row, single.as_pointer())
            values.append(builder.fpext(builder.load(builder.gep(pointer, [at]), align=4), double))
        kind = ir.FunctionType(double, [double] * 3)
        fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.{suffix}")
        for total, (a, b) in zip(sums, pairs, strict=True):
            builder.store(builder.call(fma, [values[a], values[b], builder.load(total)]), total)

    single, double = ir.VectorType(ir.FloatType(), lanes), ir.VectorType(ir.DoubleType(), lanes)
    vectors = [cgutils.alloca_once(builder, double) for _ in pairs]
    for vector in vectors:
        builder.store(ir.Constant(double, [0.0] * lanes), vector)
    whole = builder.udiv(width, width.type(lanes))
    with cgutils.for_range(builder, whole) as loop:
        add(vectors, loop.index, single, double, f"v{lanes}f64")
    sums = [cgutils.alloca_once(builder, ir.DoubleType()) for _ in pairs]
    for vector, total in zip(vectors, sums, strict=True):
        builder.store(_fold(builder, builder.load(vector), lanes), total)
    with cgutils.for_range_slice(builder, builder.mul(whole, width.type(lanes)), width, width.type(1)) as (place, _):
        add(sums, place, ir.FloatType(), ir.DoubleType(), "f64")
    return [builder.load(total) for total in sums]


def _fold(builder, vector, lanes):
    """The sum of the lanes: halves, quarters, neighbours."""
    while lanes > 1:
        lanes //= 2
        kind = ir.VectorType(ir.IntType(32), lanes)
        low, high = ir.Constant(kind, [*range(lanes)]), ir.Constant(kind, [*range(lanes, 2 * lanes)])
        halves = (builder.shuffle_vector(vector, vector, half) for half in (low, high))
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, ir.IntType(32)(0))


@intrinsic
def dot(typing, a, b, width):
    """The product of two rows, given by their addresses."""

    def generate(context, builder, signature, arguments):
        return _dot_products(builder, arguments[:2], [(0, 1)], arguments[2], 8)[0]

    return types.float64(types.uintp, types.uintp, types.intp), generate


@intrinsic
def four_dots(typing, a, b, c, d, e, width):
    """The products of one row with four others."""

    def generate(context, builder, signature, arguments):
        sums = _dot_products(builder, arguments[:5], [(0, other) for other in range(1, 5)], arguments[5], 8)
        return context.make_tuple(builder, signature.return_type, sums)

    return types.UniTuple(types.float64, 4)(*[types.uintp] * 5, types.intp), generate


@intrinsic
def all_dots(typing, a, b, c, d, width):
    """The products of four rows with each other and themselves: aa, ab, ac, ad, bb, bc, bd, cc, cd, dd."""

    def generate(context, builder, signature, arguments):
        pairs = [(one, other) for one in range(4) for other in range(one, 4)]
        sums = _dot_products(builder, arguments[:4], pairs, arguments[4], 4)  # lanes: all sums stay in registers
        return context.make_tuple(builder, signature.return_type, sums)

    return types.UniTuple(types.float64, 10)(*[types.uintp] * 4, types.intp), generate
