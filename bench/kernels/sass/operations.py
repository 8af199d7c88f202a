"""From an instruction to what it does: movement and control here, numbers in the modules beside."""

from __future__ import annotations

import re
from functools import reduce
from operator import add, and_, or_, xor
from typing import Callable, Dict

from . import operations_float, operations_integer
from .listing import Instruction, Kernel
from .number import WORD
from .operands import CONSTANT, Unsupported, address, integer, is_predicate, is_uniform, pair, predicate, register_number
from .operations_integer import Step, set_predicate, set_register
from .warp import LANES, SHARED_WINDOW, Decoded

_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


def access_bytes(instruction: Instruction) -> int:
    """Of a load or store, for one lane."""
    return next((_WIDTHS[part] for part in instruction.name.split(".") if part in _WIDTHS), 4)


def _spread(text: str, size: int, narrow_sign: bool) -> Callable:
    """Puts `size` bytes into a register and its neighbours."""
    number = register_number(text)
    uniform = is_uniform(text)

    def put(w, t, value):
        if narrow_sign and value >> (8 * size - 1):
            value |= WORD & ~((1 << 8 * size) - 1)
        if number == 255:
            return
        target = w.uniform_registers if uniform else w.registers[t]
        for i in range(max(size // 4, 1)):
            target[number + i] = value >> (32 * i) & WORD

    return put


def _gather(text: str, size: int) -> Callable:
    text = text.replace(".reuse", "")
    number = register_number(text)
    mask = (1 << 8 * size) - 1
    if number == 255:
        return lambda w, t: 0
    uniform = is_uniform(text)

    def get(w, t):
        source = w.uniform_registers if uniform else w.registers[t]
        value = 0
        for i in range(max(size // 4, 1)):
            value |= source[number + i] << (32 * i)
        return value & mask

    return get


def load_global(instruction: Instruction) -> Step:
    size = access_bytes(instruction)
    operands = [operand for operand in instruction.operands if not is_predicate(operand)]
    put = _spread(operands[0], size, ".S8" in instruction.name or ".S16" in instruction.name)
    at = address(operands[1])

    def step(w, t):
        begin = at(w, t)
        if begin >> 32 == SHARED_WINDOW:
            shared, begin = w.block.shared, begin & WORD
            put(w, t, sum(shared.get(begin + i, 0) << (8 * i) for i in range(size)))
        else:
            w.touched[w.place].add(begin)
            put(w, t, w.block.memory.load(begin, size))

    return step


def store_global(instruction: Instruction) -> Step:
    size = access_bytes(instruction)
    at, get = address(instruction.operands[0]), _gather(instruction.operands[1], size)

    def step(w, t):
        begin = at(w, t)
        w.touched[w.place].add(begin)
        w.block.memory.store(begin, size, get(w, t))

    return step


def load_shared(instruction: Instruction) -> Step:
    size = access_bytes(instruction)
    put = _spread(instruction.operands[0], size, ".S8" in instruction.name or ".S16" in instruction.name)
    at = address(instruction.operands[1])

    def step(w, t):
        begin, shared = at(w, t), w.block.shared
        put(w, t, sum(shared.get(begin + i, 0) << (8 * i) for i in range(size)))

    return step


def store_shared(instruction: Instruction) -> Step:
    size = access_bytes(instruction)
    at, get = address(instruction.operands[0]), _gather(instruction.operands[1], size)

    def step(w, t):
        begin, value = at(w, t), get(w, t)
        for i in range(size):
            w.block.shared[begin + i] = value >> (8 * i) & 0xFF

    return step


def load_local(instruction: Instruction) -> Step:
    size = access_bytes(instruction)
    put, at = _spread(instruction.operands[0], size, ".S8" in instruction.name), address(instruction.operands[1])

    def step(w, t):
        begin, local = at(w, t), w.local[t]
        put(w, t, sum(local.get(begin + i, 0) << (8 * i) for i in range(size)))

    return step


def store_local(instruction: Instruction) -> Step:
    size = access_bytes(instruction)
    at, get = address(instruction.operands[0]), _gather(instruction.operands[1], size)

    def step(w, t):
        begin, value = at(w, t), get(w, t)
        for i in range(size):
            w.local[t][begin + i] = value >> (8 * i) & 0xFF

    return step


def load_constant(instruction: Instruction) -> Step:
    size = access_bytes(instruction)
    put = _spread(instruction.operands[0], size, ".S8" in instruction.name or ".S16" in instruction.name)
    found = CONSTANT.match(instruction.operands[1])
    if not found:
        raise Unsupported(f"{instruction.name} {instruction.operands[1]}")
    bank, at = int(found[1]), address("[" + found[2] + "]")
    return lambda w, t: put(w, t, w.constant(bank, at(w, t), size))


def special_register(instruction: Instruction) -> Step:
    name = instruction.operands[1]
    if instruction.base == "CS2R":
        if name != "SRZ":
            raise Unsupported(f"{instruction.name} {name}")
        put = _spread(instruction.operands[0], 4 if ".32" in instruction.name else 8, False)
        return lambda w, t: put(w, t, 0)
    put = set_register(instruction.operands[0])
    return lambda w, t: put(w, t, w.special(name, t))


def lane_to_uniform(instruction: Instruction) -> Step:
    operands = [operand for operand in instruction.operands if not is_predicate(operand)]
    put, read = set_register(operands[0]), integer(operands[1])
    return lambda w, t: put(w, t, read(w, t))


def reduce_lanes(instruction: Instruction) -> Step:
    """REDUX and CREDUX: one word of the active lanes' words."""
    operations = {(): "AND", ("OR",): "OR", ("XOR",): "XOR", ("SUM",): "SUM", ("MAX",): "MAX", ("MIN",): "MIN"}
    mode = operations.get(tuple(instruction.name.split(".")[1:]))
    if mode is None or (instruction.guard and not is_uniform(instruction.guard)):
        raise Unsupported(instruction.name)
    combine = {"AND": and_, "OR": or_, "XOR": xor, "SUM": add, "MAX": max, "MIN": min}[mode]
    put, read = set_register(instruction.operands[0]), integer(instruction.operands[1])
    return lambda w, t: put(w, t, reduce(combine, (read(w, lane) & WORD for lane in w.active)))


def label_of(kernel: Kernel, instruction: Instruction) -> int:
    found = re.search(r"`\((\S+?)\)", instruction.operands[-1])
    if not found or found[1] not in kernel.labels:
        raise Unsupported(f"{instruction.name} {' '.join(instruction.operands)}")
    return kernel.labels[found[1]]


def branch(kernel: Kernel, instruction: Instruction) -> Step:
    if ".DIV" in instruction.name or ".CONV" in instruction.name:
        return diverged_branch(kernel, instruction)
    target = label_of(kernel, instruction)
    conditions = [predicate(operand) for operand in instruction.operands[:-1] if is_predicate(operand)]

    def step(w, t):
        if all(condition(w, t) for condition in conditions):
            w.places[t] = target

    return step


def diverged_branch(kernel: Kernel, instruction: Instruction) -> Step:
    target = label_of(kernel, instruction)
    wanted = ".DIV" in instruction.name

    def step(w, t):
        diverged = len(w.active) != sum(place is not None for place in w.places)
        if diverged == wanted:
            w.places[t] = target

    return step


def leave_function(kernel: Kernel, instruction: Instruction) -> Step:
    back = integer(instruction.operands[0])
    places = {each.address: index for index, each in enumerate(kernel.instructions)}

    def step(w, t):
        w.places[t] = places[back(w, t)]

    return step


def leave(w, t) -> None:
    w.places[t] = None


def barrier(w, t) -> None:
    w.at_barrier = True


def nothing(w, t) -> None:
    pass


class Shuffle(Decoded):
    """SHFL.BFLY and SHFL.IDX within the whole warp: all lanes read before any is written."""

    def __init__(self, instruction: Instruction) -> None:
        super().__init__(instruction, nothing, False)
        put_predicate, result, value, lane, _ = instruction.operands
        self._mode = instruction.name.split(".")[1]
        if self._mode not in ("BFLY", "IDX", "DOWN", "UP"):
            raise Unsupported(instruction.name)
        self._put, self._put_predicate = set_register(result), set_predicate(put_predicate)
        self._value, self._lane = integer(value), integer(lane)

    def execute(self, warp) -> int:
        values = {lane: self._value(warp, lane) for lane in warp.active}
        lanes = [lane for lane in warp.active if self._guard is None or self._guard(warp, lane)]
        for lane in lanes:
            by = self._lane(warp, lane)
            source = {"BFLY": lane ^ by, "IDX": by, "DOWN": lane + by, "UP": lane - by}[self._mode]
            inside = 0 <= source < LANES and source in values
            self._put(warp, lane, values[source] if inside else values[lane])
            self._put_predicate(warp, lane, inside)
        return len(lanes)


class Vote(Decoded):
    """A mask of the active lanes for which the last predicate holds, or whether it holds for any or all: all lanes
    read before any is written."""

    def __init__(self, instruction: Instruction) -> None:
        uniform = instruction.base == "VOTEU"
        super().__init__(instruction, nothing, uniform)
        self._mode = instruction.name.split(".")[1]
        if self._mode not in ("ANY", "ALL"):
            raise Unsupported(instruction.name)
        outs, self._condition = instruction.operands[:-1], predicate(instruction.operands[-1])
        self._masks = [set_register(out) for out in outs if not is_predicate(out)]
        self._answers = [set_predicate(out) for out in outs if is_predicate(out)]

    def execute(self, warp) -> int:
        holds = [lane for lane in warp.active if self._condition(warp, lane)]
        answer = len(holds) > 0 if self._mode == "ANY" else len(holds) == len(warp.active)
        lanes = warp.active[:1] if self._once else warp.active
        lanes = [lane for lane in lanes if self._guard is None or self._guard(warp, lane)]
        for lane in lanes:
            for put in self._masks:
                put(warp, lane, sum(1 << each for each in holds))
            for put in self._answers:
                put(warp, lane, answer)
        return len(lanes)


_MOVEMENT: Dict[str, Callable[[Instruction], Step]] = {
    "LDG": load_global,
    "LD": load_global,
    "STG": store_global,
    "ST": store_global,
    "LDS": load_shared,
    "STS": store_shared,
    "LDL": load_local,
    "STL": store_local,
    "LDC": load_constant,
    "LDCU": load_constant,
    "ULDC": load_constant,
    "S2R": special_register,
    "S2UR": special_register,
    "CS2R": special_register,
    "R2UR": lane_to_uniform,
    "REDUX": reduce_lanes,
    "CREDUX": reduce_lanes,
}
_CONTROL: Dict[str, Step] = {"EXIT": leave, "BAR": barrier}
_NOTHING = {
    "NOP", "BSSY", "BSYNC", "BREAK", "BMOV", "WARPSYNC", "YIELD", "DEPBAR", "MEMBAR", "ERRBAR", "CCTL", "ACQBULK",
    "CGAERRBAR", "PREEXIT", "UCGABAR_ARV", "UCGABAR_WAIT", "NANOSLEEP", "ENDCOLLECTIVE",
}  # fmt: skip


def decode(kernel: Kernel, instruction: Instruction) -> Decoded:
    """Never fails: an instruction that is not known fails when it is executed."""
    base = instruction.base
    uniform = base.startswith("U") or base in ("S2UR", "LDCU", "R2UR", "REDUX", "CREDUX")
    try:
        if base == "SHFL":
            return Shuffle(instruction)
        if base in ("VOTE", "VOTEU"):
            return Vote(instruction)
        if base in _NOTHING:
            return Decoded(instruction, nothing, True)
        if base == "RET":
            return Decoded(instruction, leave_function(kernel, instruction), False)
        if base in _CONTROL:
            return Decoded(instruction, _CONTROL[base], False)
        if base in ("BRA", "CALL"):  # the caller puts the way back into a register
            return Decoded(instruction, branch(kernel, instruction), False)
        number = base[1:] if base.startswith("U") and base != "ULDC" else base
        for table in (_MOVEMENT, operations_integer.OPERATIONS, operations_float.OPERATIONS):
            for name in (base, number):
                if name in table:
                    return Decoded(instruction, table[name](instruction), uniform)
        raise Unsupported(instruction.name)
    except (Unsupported, ValueError, IndexError, KeyError, StopIteration) as error:
        reason = f"{instruction.name} {', '.join(instruction.operands)}: {error}"

        def fail(w, t, reason=reason):
            raise Unsupported(f"this instruction is not known: {reason}")

        return Decoded(instruction, fail, False)
