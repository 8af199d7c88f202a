"""What integer instructions compute."""

from __future__ import annotations

from typing import Callable, Dict, List

from .listing import Instruction
from .number import WORD, signed, signed64
from .operands import (
    Unsupported,
    integer,
    is_predicate,
    is_uniform,
    pair,
    predicate,
    predicate_number,
    register_number,
    ZERO_REGISTER,
)

Step = Callable[["Warp", int], None]  # noqa: F821


def set_register(text: str) -> Callable:
    number = register_number(text)
    if number == ZERO_REGISTER:
        return lambda w, t, value: None
    if is_uniform(text):

        def set_uniform(w, t, value):
            w.uniform_registers[number] = value & WORD

        return set_uniform

    def set_lane(w, t, value):
        w.registers[t][number] = value & WORD

    return set_lane


def set_pair(text: str) -> Callable:
    number = register_number(text)
    if number == ZERO_REGISTER:
        return lambda w, t, value: None
    if is_uniform(text):

        def set_uniform(w, t, value):
            w.uniform_registers[number] = value & WORD
            w.uniform_registers[number + 1] = value >> 32 & WORD

        return set_uniform

    def set_lane(w, t, value):
        registers = w.registers[t]
        registers[number] = value & WORD
        registers[number + 1] = value >> 32 & WORD

    return set_lane


def set_predicate(text: str) -> Callable:
    number = predicate_number(text)
    if number == 7:
        return lambda w, t, value: None
    if is_uniform(text):

        def set_uniform(w, t, value):
            w.uniform_predicates[number] = value

        return set_uniform

    def set_lane(w, t, value):
        w.predicates[t][number] = value

    return set_lane


def _split(instruction: Instruction) -> tuple:
    """Result register, predicates behind it, sources in front of trailing predicates, those predicates."""
    operands = list(instruction.operands)
    result = operands.pop(0)
    outs: List[str] = []
    while operands and is_predicate(operands[0]) and not operands[0].startswith("!"):
        outs.append(operands.pop(0))
    trailing: List[str] = []
    while operands and is_predicate(operands[-1]):
        trailing.insert(0, operands.pop())
    return result, outs, operands, trailing


def add3(instruction: Instruction) -> Step:
    result, outs, sources, carries = _split(instruction)
    put = set_register(result)
    reads = [integer(source) for source in sources]
    puts = [set_predicate(out) for out in outs]
    takes = [predicate(carry) for carry in carries]

    def step(w, t):
        total = sum(read(w, t) for read in reads) + sum(take(w, t) for take in takes)
        put(w, t, total)
        for i, put_carry in enumerate(puts):
            put_carry(w, t, total >> 32 > i)

    return step


def multiply(instruction: Instruction) -> Step:
    name = instruction.name
    result, outs, sources, carries = _split(instruction)
    takes = [predicate(carry) for carry in carries]
    is_signed = ".U32" not in name
    if ".WIDE" in name or ".HI" in name:
        a, b, c = integer(sources[0]), integer(sources[1]), pair(sources[2])
        put, puts = (set_register if ".HI" in name else set_pair)(result), [set_predicate(out) for out in outs]
        shift = 32 if ".HI" in name else 0

        def step(w, t):
            x, y = a(w, t) & WORD, b(w, t) & WORD
            product = signed(x) * signed(y) if is_signed else x * y
            total = (product & (1 << 64) - 1) + c(w, t) + sum(take(w, t) for take in takes)
            put(w, t, (total & (1 << 64) - 1) >> shift)
            for put_carry in puts:
                put_carry(w, t, total >> 64 > 0)

        return step
    put = set_register(result)
    a, b, c = (integer(source) for source in sources)

    def step(w, t):
        put(w, t, a(w, t) * b(w, t) + c(w, t) + sum(take(w, t) for take in takes))

    return step


def shifted_add(instruction: Instruction) -> Step:
    name = instruction.name
    result, outs, sources, carries = _split(instruction)
    put = set_register(result)
    takes = [predicate(carry) for carry in carries]
    puts = [set_predicate(out) for out in outs]
    shift = integer(sources[-1])
    a, b = integer(sources[0]), integer(sources[1])
    if ".HI" not in name:

        def step(w, t):
            total = ((a(w, t) << shift(w, t)) & WORD) + b(w, t) + sum(take(w, t) for take in takes)
            put(w, t, total)
            for put_carry in puts:
                put_carry(w, t, total >> 32 > 0)

        return step
    high = integer(sources[2]) if len(sources) > 3 else None

    def step(w, t):
        low = a(w, t) & WORD
        top = high(w, t) & WORD if high else (WORD if low & 0x80000000 else 0)
        wide = (top << 32 | low) << shift(w, t)
        total = (wide >> 32 & WORD) + b(w, t) + sum(take(w, t) for take in takes)
        put(w, t, total)
        for put_carry in puts:
            put_carry(w, t, total >> 32 > 0)

    return step


def funnel_shift(instruction: Instruction) -> Step:
    parts = instruction.name.split(".")
    put = set_register(instruction.operands[0])
    low, count, high = (integer(operand) for operand in instruction.operands[1:4])
    left, wraps, takes_high = "L" in parts, "W" in parts, "HI" in parts
    is_signed = "S32" in parts or "S64" in parts
    width = 64 if "U64" in parts or "S64" in parts else 32

    def step(w, t):
        value = high(w, t) << 32 | low(w, t)
        by = count(w, t)
        by = by & (width - 1) if wraps else min(by, 64 if width == 64 or takes_high or left else 32)
        if left:
            value <<= by
        else:
            value = (signed64(value) if is_signed else value) >> by
        put(w, t, value >> 32 if takes_high else value)

    return step


def logic3(instruction: Instruction) -> Step:
    operands = list(instruction.operands)
    put_predicate = set_predicate(operands.pop(0)) if is_predicate(operands[0]) else None
    put = set_register(operands[0])
    a, b, c = (integer(operand) for operand in operands[1:4])
    table = int(operands[4], 16)
    terms = [tuple(index >> bit & 1 for bit in (2, 1, 0)) for index in range(8) if table >> index & 1]

    def step(w, t):
        x, y, z = a(w, t), b(w, t), c(w, t)
        value = 0
        for in_x, in_y, in_z in terms:
            value |= (x if in_x else ~x) & (y if in_y else ~y) & (z if in_z else ~z)
        value &= WORD
        put(w, t, value)
        if put_predicate:
            put_predicate(w, t, value != 0)

    return step


def predicate_logic(instruction: Instruction) -> Step:
    operands = instruction.operands
    puts = [set_predicate(operand) for operand in operands[:2]]
    reads = [predicate(operand) for operand in operands[2:5]]
    tables = [int(operand, 16) for operand in operands[5:7]]

    def step(w, t):
        index = 0
        for read in reads:
            index = index << 1 | read(w, t)
        for put, table in zip(puts, tables):
            put(w, t, bool(table >> index & 1))

    return step


COMPARISONS: Dict[str, Callable] = {
    "LT": lambda a, b: a < b,
    "EQ": lambda a, b: a == b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "NE": lambda a, b: a != b,
    "GE": lambda a, b: a >= b,
}
COMBINATIONS: Dict[str, Callable] = {
    "AND": lambda a, b: a and b,
    "OR": lambda a, b: a or b,
    "XOR": lambda a, b: a != b,
}


def compare(instruction: Instruction) -> Step:
    parts = instruction.name.split(".")
    operands = instruction.operands
    puts = [set_predicate(operand) for operand in operands[:2]]
    a, b = integer(operands[2]), integer(operands[3])
    with_predicate = predicate(operands[4])
    is_signed = "U32" not in parts
    relation = COMPARISONS[parts[1]]
    combine = COMBINATIONS[next(part for part in parts[2:] if part in COMBINATIONS)]
    low = predicate(operands[5]) if "EX" in parts else None
    strict = {"LT": "LT", "LE": "LT", "GT": "GT", "GE": "GT"}.get(parts[1])

    def step(w, t):
        x, y = a(w, t) & WORD, b(w, t) & WORD
        if is_signed:
            x, y = signed(x), signed(y)
        if low is None:
            holds = relation(x, y)
        elif strict is not None:  # the low words decide where the high ones are equal
            holds = COMPARISONS[strict](x, y) or (x == y and low(w, t))
        elif parts[1] == "EQ":
            holds = x == y and low(w, t)
        else:
            holds = x != y or low(w, t)
        other = with_predicate(w, t)
        puts[0](w, t, bool(combine(holds, other)))
        puts[1](w, t, bool(combine(not holds, other)))

    return step


def extreme_of_integers(instruction: Instruction) -> Step:
    """VIMNMX and IMNMX: the least where the last predicate holds, else the largest; VIADDMNMX adds first."""
    operands = list(instruction.operands)
    is_signed = ".U32" not in instruction.name
    put = set_register(operands.pop(0))
    least = predicate(next(operand for operand in reversed(operands) if is_predicate(operand)))
    reads = [integer(operand) for operand in operands if not is_predicate(operand)]
    adds = "ADD" in instruction.base

    def step(w, t):
        values = [read(w, t) & WORD for read in reads]
        if adds:
            values = [(values[0] + values[1]) & WORD] + values[2:]
        if is_signed:
            values = [signed(value) for value in values]
        put(w, t, min(values) if least(w, t) else max(values))

    return step


def permute(instruction: Instruction) -> Step:
    if instruction.name not in ("PRMT", "UPRMT"):
        raise Unsupported(instruction.name)
    put = set_register(instruction.operands[0])
    a, selector, b = (integer(operand) for operand in instruction.operands[1:4])

    def step(w, t):
        both = (b(w, t) & WORD) << 32 | a(w, t) & WORD
        choice = selector(w, t)
        value = 0
        for i in range(4):
            nibble = choice >> (4 * i) & 15
            byte = both >> (8 * (nibble & 7)) & 0xFF
            if nibble & 8:
                byte = 0xFF if byte & 0x80 else 0
            value |= byte << (8 * i)
        put(w, t, value)

    return step


def dot_product(instruction: Instruction) -> Step:
    """IDP.4A: four bytes by four. IDP.2A: two halves by the two lower (LO) or upper (HI) bytes. Both add a word."""
    parts = instruction.name.split(".")[1:]
    if parts[-2:] not in (["U8", "U8"], ["U16", "U8"]):
        raise Unsupported(instruction.name)
    put = set_register(instruction.operands[0])
    a, b, c = (integer(operand) for operand in instruction.operands[1:4])
    if parts[0] == "4A" and len(parts) == 3:
        width, count, first = 8, 4, 0
    elif parts[0] == "2A" and parts[1] in ("LO", "HI"):
        width, count, first = 16, 2, 0 if parts[1] == "LO" else 2
    else:
        raise Unsupported(instruction.name)
    mask = (1 << width) - 1

    def step(w, t):
        x, y = a(w, t), b(w, t)
        products = ((x >> width * i & mask) * (y >> 8 * (first + i) & 0xFF) for i in range(count))
        put(w, t, sum(products) + c(w, t))

    return step


def select(instruction: Instruction) -> Step:
    put = set_register(instruction.operands[0])
    a, b, condition = integer(instruction.operands[1]), integer(instruction.operands[2]), predicate(instruction.operands[3])

    def step(w, t):
        put(w, t, a(w, t) if condition(w, t) else b(w, t))

    return step


def absolute(instruction: Instruction) -> Step:
    put, a = set_register(instruction.operands[0]), integer(instruction.operands[1])
    return lambda w, t: put(w, t, abs(signed(a(w, t))))


def population(instruction: Instruction) -> Step:
    put, a = set_register(instruction.operands[0]), integer(instruction.operands[1])
    return lambda w, t: put(w, t, bin(a(w, t) & WORD).count("1"))


def find_leading(instruction: Instruction) -> Step:
    put, a = set_register(instruction.operands[0]), integer(instruction.operands[1])
    if ".SH" in instruction.name or ".U32" not in instruction.name:
        raise Unsupported(instruction.name)
    return lambda w, t: put(w, t, (a(w, t) & WORD).bit_length() - 1)


def move(instruction: Instruction) -> Step:
    put, a = set_register(instruction.operands[0]), integer(instruction.operands[1])
    return lambda w, t: put(w, t, a(w, t))


def predicates_to_register(instruction: Instruction) -> Step:
    put, mask = set_register(instruction.operands[0]), int(instruction.operands[3], 16)

    def step(w, t):
        put(w, t, sum(w.predicates[t][i] << i for i in range(7)) & mask)

    return step


def register_to_predicates(instruction: Instruction) -> Step:
    read, mask = integer(instruction.operands[1]), int(instruction.operands[2], 16)

    def step(w, t):
        for i in range(7):
            if mask >> i & 1:
                w.predicates[t][i] = bool(read(w, t) >> i & 1)

    return step


OPERATIONS: Dict[str, Callable[[Instruction], Step]] = {
    "IADD3": add3,
    "IADD": add3,
    "VIADD": add3,
    "IMAD": multiply,
    "LEA": shifted_add,
    "SHF": funnel_shift,
    "LOP3": logic3,
    "PLOP3": predicate_logic,
    "ISETP": compare,
    "IMNMX": extreme_of_integers,
    "VIMNMX": extreme_of_integers,
    "VIMNMX3": extreme_of_integers,
    "VIADDMNMX": extreme_of_integers,
    "PRMT": permute,
    "IDP": dot_product,
    "SEL": select,
    "IABS": absolute,
    "POPC": population,
    "FLO": find_leading,
    "MOV": move,
    "P2R": predicates_to_register,
    "R2P": register_to_predicates,
}
