"""What a launch costs in machine code: instructions an element, by pipe, and the width of its accesses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Set

from .launch import Launch, read
from .listing import Instruction, Kernel
from .operands import Unsupported, is_predicate
from .operations import access_bytes, decode, label_of
from .warp import LANES, run_block

CONVERSIONS = {"F2F", "F2I", "I2F", "MUFU", "POPC", "FLO", "FRND"}
FUSED_PIPE = {"FADD", "FMUL", "FFMA", "IMAD", "HADD2", "HMUL2", "HFMA2", "IDP", "FADD2", "FMUL2", "FFMA2", "I2FP", "F2FP"}
MEMORY = {"LDG", "STG", "LDS", "STS", "LDC", "LDCU", "ULDC", "LD", "ST", "RED", "REDG", "ATOMG", "ATOMS", "LDL", "STL"}
CONTROL = {"BRA", "BSSY", "BSYNC", "EXIT", "BAR", "NOP", "BREAK", "WARPSYNC", "YIELD", "CALL", "RET", "BMOV"}


class Mismatch(Exception):
    """The machine code did not write what the emulated machine wrote: the count would be of another path."""


@dataclass
class Cost:
    row: str
    kernel: str
    registers: int
    local_accesses: int  # LDL and STL anywhere in the kernel
    stack_bytes: int
    elements_per_lane: float
    per_element: float  # within the loop over tiles
    entry_per_element: float  # outside of it: once a thread block
    pipes: Dict[str, float] = field(default_factory=dict)
    wide_share: float = 0.0  # of the places in global memory that are moved in the loop, in bytes: by 16 at a time


def pipe_of(instruction: Instruction) -> str:
    base = instruction.base
    if base in MEMORY:
        return "memory"
    if base in CONTROL:
        return "control"
    if base in CONVERSIONS:
        return "conversion"
    if base in FUSED_PIPE:
        return "fma"
    if base.startswith("U") or base in ("S2UR", "R2UR", "REDUX", "CREDUX"):
        return "uniform"
    return "alu"


def loop_body(kernel: Kernel, inside: Set[int]) -> Set[int]:
    """The instructions of the innermost loop that contains all of `inside`; all instructions if there is none."""
    successors = _successors(kernel)
    found = set(range(len(kernel.instructions)))
    while True:
        loops = [each for each in _components(successors) if len(each) > 1 and inside <= each]
        if not loops:
            return found
        (found,) = loops
        # A loop within is one that goes on without the way back to where this one begins, its lowest place.
        first = min(found)
        successors = [
            [target for target in targets if source in found and target in found and target != first]
            for source, targets in enumerate(successors)
        ]


def _successors(kernel: Kernel) -> List[List[int]]:
    """Where execution may go after each instruction."""
    successors: List[List[int]] = []
    for index, instruction in enumerate(kernel.instructions):
        after = [index + 1] if index + 1 < len(kernel.instructions) else []
        if instruction.base in ("BRA", "CALL"):
            conditional = instruction.guard or any(is_predicate(operand) for operand in instruction.operands)
            try:
                target = [label_of(kernel, instruction)]
            except Unsupported:
                target = []
            after = (after if conditional or ".DIV" in instruction.name else []) + target
        elif instruction.base in ("EXIT", "RET") and not instruction.guard:
            after = []
        successors.append(after)
    return successors


def _components(successors: List[List[int]]) -> List[Set[int]]:
    """Strongly connected components (Tarjan 1972), without recursion."""
    order: Dict[int, int] = {}
    low: Dict[int, int] = {}
    stack: List[int] = []
    on_stack: Set[int] = set()
    found: List[Set[int]] = []
    for root in range(len(successors)):
        if root in order:
            continue
        work = [(root, iter(successors[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(successors[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component: Set[int] = set()
                    while node not in component:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.add(member)
                    found.append(component)
    return found


def check_stores(launch: Launch) -> int:
    """Every byte that was stored is what the emulated machine left. Returns how many there are."""
    for address, byte in launch.memory.written.items():
        expected = launch.after.load(address, 1)
        if byte != expected:
            raise Mismatch(f"{launch.row}: the byte at {address:#x} is {byte:#x}, the emulated machine has {expected:#x}")
    if not launch.memory.written:
        raise Mismatch(f"{launch.row}: nothing was stored")
    return len(launch.memory.written)


def measure(record: Path, kernel: Kernel, architecture: int) -> Cost:
    """Of a warp in the middle of a block in the middle of the launch: neither the first, which also writes headers,
    nor the last. Only the warps that it shares a group with run, and the first; all of them where that is too few."""
    launch = read(record)
    count = launch.block[0] // LANES
    middle = count // 2
    place = (launch.grid[0] // 2, 0, 0)
    for numbers in (sorted({0, middle, min(middle + 1, count - 1)}), range(count)):
        launch = read(record)
        warps = run_block(launch, kernel, architecture, place, decode, numbers)
        try:
            check_stores(launch)
            break
        except Mismatch:
            if len(numbers) == count:
                raise
    warp = next(each for each in warps if each.number == middle)
    elements = launch.elements / (launch.grid[0] * launch.grid[1] * launch.grid[2] * count)  # of a warp
    code = kernel.instructions
    moved = [index for index in warp.executed if code[index].base in ("LDG", "STG")]
    wide = {index for index in moved if access_bytes(code[index]) >= 16}
    body = loop_body(kernel, wide)
    pipes: Counter = Counter()
    bytes_moved: Counter = Counter()
    inside = outside = 0
    for index, times in warp.executed.items():
        if index not in body:
            outside += times
            continue
        inside += times
        pipes[pipe_of(code[index])] += times
        if index in moved:
            size = access_bytes(code[index])
            bytes_moved[size >= 16] += len(warp.touched[index]) * size
    total_bytes = sum(bytes_moved.values())
    return Cost(
        row=launch.row,
        kernel=kernel.name,
        registers=kernel.registers,
        local_accesses=sum(instruction.base in ("LDL", "STL") for instruction in code),
        stack_bytes=kernel.stack_bytes,
        elements_per_lane=elements / LANES,
        per_element=inside * LANES / elements,
        entry_per_element=outside * LANES / elements,
        pipes={pipe: count * LANES / elements for pipe, count in sorted(pipes.items())},
        wide_share=bytes_moved[True] / total_bytes if total_bytes else 0.0,
    )
