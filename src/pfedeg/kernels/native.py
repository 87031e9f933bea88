"""Vectors as wide as this processor's registers, under the names of `vectors`: what tiles calculate with."""

from numba.core.registry import cpu_target

from pfedeg.kernels import vectors

_, _, features = cpu_target.target_context.codegen().magic_tuple()  # of the processor that numba compiles for
if "+avx512f" in features.split(","):
    LANES = vectors.WIDE
    load, fill, repeat, share = vectors.load_wide, vectors.fill_wide, vectors.repeat_wide, vectors.share_wide
else:
    LANES = vectors.LANES
    load, fill, repeat, share = vectors.load, vectors.fill, vectors.repeat, vectors.share
