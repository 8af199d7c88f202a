"""32-bit words as the numbers they stand for: integers, floats and halves, with their rounding."""

from __future__ import annotations

import math
import struct

WORD = 0xFFFFFFFF
NAN = 0x7FFFFFFF


def signed(word: int) -> int:
    return word - (1 << 32) if word & 0x80000000 else word


def signed64(value: int) -> int:
    return value - (1 << 64) if value & (1 << 63) else value


def to_float(word: int) -> float:
    return struct.unpack("<f", struct.pack("<I", word))[0]


def to_word(value: float) -> int:
    """Rounds to the nearest float, ties to even."""
    if value != value:
        return NAN
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def fused(a: float, b: float, c: float) -> float:
    """a * b + c in a double whose last bit remembers what was lost, so that rounding it once more is right."""
    product = a * b  # of two floats: exact
    total = product + c
    if total != total or math.isinf(total):
        return total
    lost = (product - (total - (total - product))) + (c - (total - product))
    if lost == 0.0:
        return total
    bits = struct.unpack("<q", struct.pack("<d", total))[0]
    if bits & 1:
        return total
    toward = 1 if (lost > 0) == (total > 0) else -1
    # Truncated, then the last bit set: "round to odd".
    if toward < 0:
        bits -= 1
    return struct.unpack("<d", struct.pack("<q", bits | 1))[0]


def half_to_float(half: int, brain: bool) -> float:
    if brain:
        return to_float(half << 16)
    return struct.unpack("<e", struct.pack("<H", half))[0]


def to_half(value: float, brain: bool) -> int:
    """Rounds to the nearest half or bfloat16, ties to even."""
    if value != value:
        return 0x7FFF
    if not brain:
        try:
            return struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    word = to_word(value)
    if word & 0x7F800000 == 0x7F800000:
        return word >> 16
    # A tie that rounding to float made is none.
    if word & 0xFFFF == 0x8000 and to_float(word) != value:
        word += 1 if abs(to_float(word)) < abs(value) else -1
    return ((word + 0x7FFF + (word >> 16 & 1)) >> 16) & 0xFFFF


def half_toward_zero(value: float, brain: bool) -> int:
    """Cuts off what a half or bfloat16 does not hold."""
    nearest = to_half(value, brain)
    return nearest - (abs(half_to_float(nearest, brain)) > abs(value))
