"""Vectors as wide as this processor's registers, under the names of `vectors`: what tiles calculate with."""

from numba.core.registry import cpu_target

from pfedeg.kernels import vectors

_name, _processor, _features = cpu_target.target_context.codegen().magic_tuple()  # what numba compiles for
_WIDE = "+avx512f" in _features.split(",")
LANES = vectors.WIDE if _WIDE else vectors.LANES
load, fill, repeat, share = (
    (vectors.load_wide, vectors.fill_wide, vectors.repeat_wide, vectors.share_wide)
    if _WIDE
    else (vectors.load, vectors.fill, vectors.repeat, vectors.share)
)
