"""A warp that executes machine code: lanes at their own places, the lowest place first."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Callable, DefaultDict, Dict, List, Optional, Set

from .launch import Launch, Memory
from .listing import Instruction, Kernel
from .operands import Unsupported, predicate

LANES = 32
SHARED_WINDOW = 0x00A50000  # upper word of generic addresses of shared memory
PARAMETER_OFFSETS = {80: 0x160, 86: 0x160, 89: 0x160, 90: 0x210, 100: 0x380, 103: 0x380, 120: 0x380}
_MOST_STEPS = 2_000_000


class Block:
    """What the warps of a thread block share."""

    def __init__(self, launch: Launch, kernel: Kernel, architecture: int, place: tuple) -> None:
        self.launch = launch
        self.place = place
        self.shared: Dict[int, int] = {}
        self.memory: Memory = launch.memory
        begin = PARAMETER_OFFSETS[architecture]
        constants = bytearray(begin + len(launch.parameters) + 256)
        block_at, grid_at = (0, 12) if architecture < 100 else (0x360, 0x370)
        for at, extents in ((block_at, launch.block), (grid_at, launch.grid)):
            for i, extent in enumerate(extents):
                constants[at + 4 * i : at + 4 * i + 4] = extent.to_bytes(4, "little")
        constants[begin : begin + len(launch.parameters)] = launch.parameters
        self.constants = {0: bytes(constants), 2: kernel.constants}


class Warp:
    """Registers and places of 32 lanes."""

    def __init__(self, block: Block, number: int, code: List["Decoded"]) -> None:
        self.block = block
        self.number = number
        self.code = code
        self.registers = [[0] * 257 for _ in range(LANES)]
        self.predicates = [[False] * 7 + [True] for _ in range(LANES)]
        self.local: List[Dict[int, int]] = [{} for _ in range(LANES)]
        self.uniform_registers = [0] * 257
        self.uniform_predicates = [False] * 7 + [True]
        self.places: List[Optional[int]] = [0] * LANES
        self.executed: Counter = Counter()  # by index of the instruction: times issued
        self.performed: Counter = Counter()  # ... and lanes for which its guard held
        self.touched: DefaultDict[int, Set[int]] = defaultdict(set)  # ... and addresses in global memory
        self.at_barrier = False
        self.active: List[int] = []
        self.place = 0  # of the instruction that is executed

    def constant(self, bank: int, offset: int, size: int) -> int:
        return int.from_bytes(self.block.constants[bank][offset : offset + size], "little")

    def special(self, name: str, lane: int) -> int:
        thread = self.number * LANES + lane
        axes = {"X": 0, "Y": 1, "Z": 2}
        if name.startswith("SR_TID."):
            return thread if name.endswith("X") else 0
        if name.startswith("SR_CTAID."):
            return self.block.place[axes[name[-1]]]
        if name == "SR_LANEID":
            return lane
        if name == "SR_SWINHI":
            return SHARED_WINDOW
        if name in ("SR_CgaCtaId", "SRZ"):
            return 0
        if name == "SR_SWINHI":
            return 0x7F00  # upper half of shared memory's generic addresses, which are only compared with null
        raise Unsupported(f"the special register {name}")

    def run(self) -> None:
        """To the next barrier or the end."""
        self.at_barrier = False
        for _ in range(_MOST_STEPS):
            here = [place for place in self.places if place is not None]
            if not here:
                return
            place = min(here)
            self.active = [lane for lane in range(LANES) if self.places[lane] == place]
            instruction = self.code[place]
            self.place = place
            self.executed[place] += 1
            for lane in self.active:
                self.places[lane] = place + 1
            self.performed[place] += instruction.execute(self)
            if self.at_barrier:
                return
        raise Unsupported("a launch that does not end")

    @property
    def done(self) -> bool:
        return all(place is None for place in self.places)


class Decoded:
    """An instruction ready to be executed by the active lanes of a warp."""

    def __init__(self, instruction: Instruction, step: Callable[[Warp, int], None], once: bool) -> None:
        self.instruction = instruction
        self._step = step
        self._once = once  # uniform: one result a warp
        self._guard = predicate(instruction.guard) if instruction.guard else None

    def execute(self, warp: Warp) -> int:
        """Returns for how many lanes the guard held."""
        step, guard = self._step, self._guard
        lanes = warp.active[:1] if self._once else warp.active
        if guard is not None:
            lanes = [lane for lane in lanes if guard(warp, lane)]
        for lane in lanes:
            step(warp, lane)
        return len(lanes)


def run_block(launch: Launch, kernel: Kernel, architecture: int, place: tuple, decode, numbers) -> List[Warp]:
    """Executes these warps of a thread block; their stores are in launch.memory.written."""
    block = Block(launch, kernel, architecture, place)
    code = [decode(kernel, instruction) for instruction in kernel.instructions]
    warps = [Warp(block, number, code) for number in numbers]
    while not all(warp.done for warp in warps):
        for warp in warps:
            if not warp.done:
                warp.run()
    return warps
