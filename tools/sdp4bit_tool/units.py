"""Numbers with units: what a user may write, and how numbers are shown."""

from __future__ import annotations

import argparse
import math
import re
from typing import Callable, Optional

_POWERS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_COUNTS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


def parse_bytes(text: str) -> int:
    """A whole number of bytes, with K, M or G for powers of 1024, as the library's own options take it."""
    match = re.fullmatch(r"(\d+)([KMG]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError(f"'{text}' is no size: a whole number of bytes, with K, M or G, is")
    return int(match[1]) * _POWERS[match[2].upper()]


def parse_number(text: str) -> float:
    """A finite number such as 7e9, 7B or 350M: K, M, B (or G) and T are powers of 1000."""
    match = re.fullmatch(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)([KMBGT]?)", text.strip(), re.IGNORECASE)
    value = float(match[1]) * _COUNTS[match[2].upper()] if match else math.nan
    if not math.isfinite(value):
        raise ValueError(f"'{text}' is no number: write it as 7e9 or 7B, without a unit")
    return value


def _argument(
    convert: Callable[[str], float], accepts: Callable[[float], bool], wanted: str
) -> Callable[[str], float]:
    """A type for argparse that says what is accepted."""

    def parse(text: str) -> float:
        try:
            value = convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if not accepts(value):
            raise argparse.ArgumentTypeError(f"'{text}' is out of range: {wanted} is accepted")
        return value

    return parse


def _whole(text: str) -> int:
    value = parse_number(text)
    if value != int(value):
        raise ValueError(f"'{text}' is no whole number")
    return int(value)


positive = _argument(parse_number, lambda value: value > 0, "a number above 0")
not_negative = _argument(parse_number, lambda value: value >= 0, "0 or more")
fraction = _argument(parse_number, lambda value: 0 <= value <= 1, "0 to 1")
count = _argument(_whole, lambda value: value >= 1, "a whole number from 1")
size = _argument(parse_bytes, lambda value: value >= 0, "a size")


def show_bytes(value: Optional[float]) -> str:
    """23.1 GB: decimal units, as network cards are sold."""
    if value is None:
        return "unknown"
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= power:
            scaled = value / power
            return (
                f"{scaled:.0f} {unit}"
                if scaled >= 100
                else f"{scaled:.1f} {unit}" if scaled >= 10 else f"{scaled:.2f} {unit}"
            )
    return f"{value:.0f} B"


def show_size(value: int) -> str:
    """A message's size in powers of 1024, as it is asked for: 4M."""
    for unit, power in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if value >= power and value % power == 0:
            return f"{value // power}{unit}"
    return str(value)


def show_percent(part: float, whole: float) -> str:
    """3.1 %; never a rounded 0 or 100 % that is none."""
    if whole <= 0:
        return "0 %"
    value = 100.0 * part / whole
    if 0 < value < 0.1:
        return "under 0.1 %"
    if 99.9 < value < 100:
        return "over 99.9 %"
    return f"{value:.0f} %" if value in (0, 100) or 10 <= value < 90 else f"{value:.1f} %"


def show_seconds(value: float) -> str:
    """A duration, as 812 ms or 2 h 5 min."""
    if value < 0.9995e-3:
        return f"{value * 1e6:.0f} µs"
    if value < 0.9995:
        return f"{value * 1e3:.0f} ms" if value >= 0.0995 else f"{value * 1e3:.1f} ms"
    if value < 120:
        return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"
    if value < 7200:
        return f"{value // 60:.0f} min"
    return f"{value // 3600:.0f} h {value % 3600 // 60:.0f} min"


def show_count(value: int) -> str:
    """1,234,567."""
    return f"{value:,}"


def plural(number: int, noun: str, many: str = "") -> str:
    """1 rank, 2 ranks; `many` where that is not the noun with an s."""
    return f"{show_count(number)} {noun if number == 1 else many or noun + 's'}"
