"""Random numbers as pure functions of a key and a counter: no state, so order and threads do not matter."""

import hashlib

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15
MIX1 = 0xBF58476D1CE4E5B9
MIX2 = 0x94D049BB133111EB


def key(*parts: str | int) -> int:
    """A 64-bit key from parts that identify its use, such as key("negatives", seed, client, round)."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        raw = f"{type(part).__name__}:{part}".encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return int.from_bytes(digest.digest(), "little")


def bits(key: int, counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 random bits for each counter (SplitMix64, Steele, Lea and Flood 2014, read at position counter + 1)."""
    with np.errstate(over="ignore"):
        x = np.uint64(key) + (counters + np.uint64(1)) * np.uint64(GOLDEN)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(MIX1)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(MIX2)
        return x ^ (x >> np.uint64(31))


def counters(n: int) -> NDArray[np.uint64]:
    """The counters 0 … n − 1."""
    return np.arange(n, dtype=np.uint64)


def uniform(key: int, counters: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) with 53 random bits."""
    return (bits(key, counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(key: int, counters: NDArray[np.uint64], bound: NDArray[np.uint64] | int) -> NDArray[np.int32]:
    """Integers in [0, bound), bound < 2³¹: the upper 32 bits, scaled (bias at most bound · 2⁻³²)."""
    return (((bits(key, counters) >> np.uint64(32)) * np.asarray(bound, np.uint64)) >> np.uint64(32)).astype(np.int32)


def permutation(key: int, n: int) -> NDArray[np.int32]:
    """A random order of 0 … n − 1.

    Sorts random numbers whose lowest bits are replaced by the index: no ties, and faster than an argsort.
    """
    numbers, low = counters(n), np.uint64(max(n - 1, 0).bit_length())
    mixed = (bits(key, numbers) >> low << low) | numbers
    mixed.sort()
    return (mixed & ((np.uint64(1) << low) - np.uint64(1))).astype(np.int32)


def derive(key: int, index: int) -> int:
    """The key of part `index` of what `key` is used for."""
    return int(bits(key, np.array([index], np.uint64))[0])
