"""Words to numbers, the same on every platform: MurmurHash3 (x86, 32 bits) of their UTF-8.

Appleby, "MurmurHash3", 2011. Weinberger et al., "Feature hashing for large scale multitask
learning", ICML 2009, for what it is good for: categories become features without a dictionary.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def murmur3(data: bytes, seed: int = 0) -> int:
    """An unsigned number of 32 bits."""
    h = seed & _MASK
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        h ^= _scramble(int.from_bytes(data[i : i + 4], "little"))
        h = (_rotated(h, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        h ^= _scramble(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def _scramble(k: int) -> int:
    return (_rotated((k * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotated(k: int, by: int) -> int:
    return ((k << by) | (k >> (32 - by))) & _MASK
