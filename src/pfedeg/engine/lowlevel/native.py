"""Vectors as wide as this processor's registers, under the names of `vectors`: what tiles calculate with."""

from numba.core.registry import cpu_target

from pfedeg.engine.lowlevel import vectors
from pfedeg.engine.lowlevel.compile import inline

_, _, features = cpu_target.target_context.codegen().magic_tuple()  # of the processor that numba compiles for
if "+avx512f" in features.split(","):
    LANES = vectors.WIDE
    load, fill, repeat, share = vectors.load_wide, vectors.fill_wide, vectors.repeat_wide, vectors.share_wide
else:
    LANES = vectors.LANES
    load, fill, repeat, share = vectors.load, vectors.fill, vectors.repeat, vectors.share


@inline
def repeat_eight(row, place):
    """The numbers row[place] … row[place + 7], each in every lane of a vector of its own."""
    a, b, c, d = repeat(row, place), repeat(row, place + 1), repeat(row, place + 2), repeat(row, place + 3)
    return a, b, c, d, repeat(row, place + 4), repeat(row, place + 5), repeat(row, place + 6), repeat(row, place + 7)
