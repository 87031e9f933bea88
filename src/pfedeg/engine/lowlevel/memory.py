"""Memory by its address, for compiled code: rows that lie anywhere, reading in advance, writing past the caches."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

LANE = 4  # numbers that are written at once


@intrinsic
def row_at(typing, address, width):
    """The float32 numbers at an address as an array; numba's `carray` would count references to it."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.return_type)(context, builder)
        data = builder.inttoptr(arguments[0], array.data.type)
        step = context.get_constant(types.intp, 4)
        populate_array(array, data, [arguments[1]], [step], step, None)
        return array._getvalue()

    return types.Array(types.float32, 1, "C")(types.uintp, types.intp), generate


@intrinsic
def address_of(typing, array):
    """Where an array's numbers begin."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.uintp))

    return types.uintp(array), generate


@intrinsic
def stream(typing, source, target, width):
    """Write a row past the caches: nobody reads it soon, and its memory need not be read first."""

    def generate(context, builder, signature, arguments):
        lane = ir.VectorType(ir.FloatType(), LANE)
        old, new = (builder.inttoptr(address, lane.as_pointer()) for address in arguments[:2])
        lanes = builder.udiv(arguments[2], ir.Constant(arguments[2].type, LANE))
        past_caches = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        with cgutils.for_range(builder, lanes) as loop:
            value = builder.load(builder.gep(old, [loop.index]), align=4)
            store = builder.store(value, builder.gep(new, [loop.index]), align=4 * LANE)
            store.set_metadata("nontemporal", past_caches)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.intp), generate


@intrinsic
def fetch(typing, address):
    """Begin to read the cache line at an address."""

    def generate(context, builder, signature, arguments):
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        hints = [ir.Constant(number, value) for value in (0, 3, 1)]  # to read, soon, data
        builder.call(prefetch, [builder.inttoptr(arguments[0], pointer), *hints])
        return context.get_dummy_value()

    return types.void(types.uintp), generate
