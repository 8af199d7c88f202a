"""What floating-point instructions compute."""

from __future__ import annotations

import math
from typing import Callable, Dict

from .listing import Instruction
from .number import WORD, fused, half_to_float, half_toward_zero, signed, to_float, to_half, to_word
from .operands import Unsupported, float_bits, half_immediate, halves, integer, number, predicate
from .operations_integer import COMBINATIONS, COMPARISONS, Step, set_predicate, set_register


def add(instruction: Instruction) -> Step:
    put = set_register(instruction.operands[0])
    a, b = number(instruction.operands[1]), number(instruction.operands[2])
    return lambda w, t: put(w, t, to_word(a(w, t) + b(w, t)))


def multiply(instruction: Instruction) -> Step:
    put = set_register(instruction.operands[0])
    a, b = number(instruction.operands[1]), number(instruction.operands[2])
    return lambda w, t: put(w, t, to_word(a(w, t) * b(w, t)))


def fused_multiply_add(instruction: Instruction) -> Step:
    if any(suffix in instruction.name for suffix in (".RP", ".RM", ".RZ")):
        raise Unsupported(instruction.name)
    put = set_register(instruction.operands[0])
    a, b, c = (number(operand) for operand in instruction.operands[1:4])
    return lambda w, t: put(w, t, to_word(fused(a(w, t), b(w, t), c(w, t))))


def ordered(value: float) -> tuple:
    """Sorts numbers as minima and maxima do: -0 is below +0."""
    return value, math.copysign(1.0, value)


def extreme_of_floats(instruction: Instruction) -> Step:
    operands = instruction.operands
    put = set_register(operands[0])
    reads = [float_bits(operand) for operand in operands[1:-1]]
    least = predicate(operands[-1])
    keeps_nan = ".NAN" in instruction.name

    def step(w, t):
        words = [read(w, t) for read in reads]
        numbers = [word for word in words if word & 0x7FFFFFFF <= 0x7F800000]
        if not numbers or (keeps_nan and len(numbers) < len(words)):
            put(w, t, 0x7FFFFFFF)
            return
        pick = min if least(w, t) else max
        put(w, t, pick(numbers, key=lambda word: ordered(to_float(word))))

    return step


def extreme_of_pairs(instruction: Instruction) -> Step:
    """HMNMX2, of two words, and VHMNMX, of three: each half is the least or the largest of the words' halves."""
    operands = instruction.operands
    brain = "BF16_V2" in instruction.name
    if not set(instruction.name.split(".")[1:]) <= {"BF16_V2", "NAN"}:
        raise Unsupported(instruction.name)
    put, least = set_register(operands[0]), predicate(operands[-1])
    reads = [halves(operand, brain) for operand in operands[1:-1]]
    keeps_nan = ".NAN" in instruction.name

    def step(w, t):
        pick = min if least(w, t) else max
        words = [read(w, t) for read in reads]
        result = 0
        for half in (0, 1):
            values = [word[half] for word in words]
            numbers = [value for value in values if value == value]
            if not numbers or (keeps_nan and len(numbers) < len(values)):
                result |= 0x7FFF << 16 * half
            else:
                result |= to_half(pick(numbers, key=ordered), brain) << 16 * half
        put(w, t, result)

    return step


def select(instruction: Instruction) -> Step:
    operands = instruction.operands
    put, condition = set_register(operands[0]), predicate(operands[3])
    a, b = float_bits(operands[1]), float_bits(operands[2])
    return lambda w, t: put(w, t, a(w, t) if condition(w, t) else b(w, t))


def compare(instruction: Instruction) -> Step:
    parts = instruction.name.split(".")
    operands = instruction.operands
    puts = [set_predicate(operand) for operand in operands[:2]]
    a, b, with_predicate = number(operands[2]), number(operands[3]), predicate(operands[4])
    relation = parts[1]
    combine = COMBINATIONS[next(part for part in parts[2:] if part in COMBINATIONS)]
    unordered = relation.endswith("U") and relation != "NUM"
    base = relation[:-1] if unordered else relation

    def step(w, t):
        x, y = a(w, t), b(w, t)
        has_nan = x != x or y != y
        if relation == "NAN":
            holds = has_nan
        elif relation == "NUM":
            holds = not has_nan
        else:
            holds = unordered if has_nan else COMPARISONS[base](x, y)
        other = with_predicate(w, t)
        puts[0](w, t, bool(combine(holds, other)))
        puts[1](w, t, bool(combine(not holds, other)))

    return step


def special_function(instruction: Instruction) -> Step:
    put, a = set_register(instruction.operands[0]), number(instruction.operands[1])
    if instruction.name != "MUFU.RCP":
        raise Unsupported(instruction.name)

    def step(w, t):
        value = a(w, t)
        put(w, t, to_word(math.copysign(math.inf, value) if value == 0 else 1.0 / value))

    return step


def division_check(instruction: Instruction) -> Step:
    """True where the short division would not be exact: exponents near an end."""
    put = set_predicate(instruction.operands[0])
    a, b = float_bits(instruction.operands[1]), float_bits(instruction.operands[2])

    def step(w, t):
        x, y = (a(w, t) >> 23 & 0xFF), (b(w, t) >> 23 & 0xFF)
        put(w, t, y in (0, 255) or x == 255 or y > 252 or not -125 < x - y < 126 or x < 25)

    return step


def float_to_float(instruction: Instruction) -> Step:
    put, a = set_register(instruction.operands[0]), number(instruction.operands[1])
    if instruction.name not in ("F2F.BF16.F32", "F2F.F16.F32"):
        raise Unsupported(instruction.name)
    brain = "BF16" in instruction.name
    return lambda w, t: put(w, t, to_half(a(w, t), brain))


def pack_halves(instruction: Instruction) -> Step:
    name, toward_zero = instruction.name.removesuffix(".RZ"), instruction.name.endswith(".RZ")
    if name not in ("F2FP.BF16.F32.PACK_AB", "F2FP.BF16.PACK_AB", "F2FP.F16.F32.PACK_AB", "F2FP.PACK_AB"):
        raise Unsupported(instruction.name)
    put = set_register(instruction.operands[0])
    high, low = number(instruction.operands[1]), number(instruction.operands[2])
    brain = "BF16" in instruction.name
    convert = half_toward_zero if toward_zero else to_half
    return lambda w, t: put(w, t, convert(high(w, t), brain) << 16 | convert(low(w, t), brain))


def float_to_integer(instruction: Instruction) -> Step:
    put, a = set_register(instruction.operands[0]), number(instruction.operands[1])
    parts = instruction.name.split(".")
    if "F16" in parts or "F64" in parts or "U64" in parts or "S64" in parts:
        raise Unsupported(instruction.name)
    low, high = (0, WORD) if "U32" in parts else (-(1 << 31), (1 << 31) - 1)

    def step(w, t):
        value = a(w, t)
        if value != value:
            put(w, t, 0)
        elif math.isinf(value):
            put(w, t, high if value > 0 else low)
        else:
            rounded = (
                math.trunc(value)
                if "TRUNC" in parts
                else math.floor(value) if "FLOOR" in parts else math.ceil(value) if "CEIL" in parts else round(value)
            )
            put(w, t, min(max(rounded, low), high))

    return step


def integer_to_float(instruction: Instruction) -> Step:
    parts = instruction.name.split(".")
    put, a = set_register(instruction.operands[0]), integer(instruction.operands[1])
    if any(part in parts for part in ("F16", "F64", "U8", "S8", "U16", "S16", "U64", "S64", "RP", "RM", "RZ")):
        raise Unsupported(instruction.name)
    is_unsigned = "U32" in parts
    return lambda w, t: put(w, t, to_word(float(a(w, t) if is_unsigned else signed(a(w, t)))))


def half_arithmetic(instruction: Instruction) -> Step:
    """HADD2, HMUL2, HFMA2 on pairs of halves or bfloat16, HADD2.F32 to one float, and constants made by HFMA2."""
    operands = instruction.operands
    put = set_register(operands[0])
    brain = "BF16" in instruction.name
    if instruction.name == "HADD2.F32":
        body = halves(operands[2], False)
        if operands[1] != "-RZ":
            raise Unsupported(f"{instruction.name} of {operands[1]}")
        return lambda w, t: put(w, t, to_word(body(w, t)[0]))
    if any(suffix in instruction.name for suffix in (".SAT", ".FTZ", ".F32")):
        raise Unsupported(instruction.name)
    not_negative = ".RELU" in instruction.name  # what is below zero, or -0, becomes +0; a NaN stays
    if instruction.base == "HFMA2" and operands[1] == "-RZ" and operands[2] == "RZ" and len(operands) == 5:
        value = half_immediate(operands[3], brain) << 16 | half_immediate(operands[4], brain)
        return lambda w, t: put(w, t, value)
    reads, rest = [], list(operands[1:])
    while rest:
        if rest[0].lstrip("+-")[0].isdigit():  # an immediate is two operands, high half first
            high, low = (half_immediate(text, brain) for text in rest[:2])
            value = (half_to_float(low, brain), half_to_float(high, brain))
            reads.append(lambda w, t, value=value: value)
            rest = rest[2:]
        else:
            reads.append(halves(rest.pop(0), brain))

    def combine(values):
        if instruction.base == "HADD2":
            return values[0] + values[1]
        if instruction.base == "HMUL2":
            return values[0] * values[1]
        return fused(*values)

    def step(w, t):
        both = [read(w, t) for read in reads]
        low, high = (to_half(combine([value[half] for value in both]), brain) for half in (0, 1))
        if not_negative:
            low, high = (0 if half & 0x8000 else half for half in (low, high))
        put(w, t, high << 16 | low)

    return step


OPERATIONS: Dict[str, Callable[[Instruction], Step]] = {
    "FADD": add,
    "FMUL": multiply,
    "FFMA": fused_multiply_add,
    "FMNMX": extreme_of_floats,
    "FMNMX3": extreme_of_floats,
    "HMNMX2": extreme_of_pairs,
    "VHMNMX": extreme_of_pairs,
    "FSEL": select,
    "FSETP": compare,
    "MUFU": special_function,
    "FCHK": division_check,
    "F2F": float_to_float,
    "F2FP": pack_halves,
    "F2I": float_to_integer,
    "I2F": integer_to_float,
    "I2FP": integer_to_float,
    "HADD2": half_arithmetic,
    "HMUL2": half_arithmetic,
    "HFMA2": half_arithmetic,
}
