"""What nvdisasm prints of a cubin: kernels with their resources and instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\S+?),")
_CONSTANTS = re.compile(r"^\s*\.section\s+\.nv\.constant2\.(\S+?),")
_DATA = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*\.(byte|short|word|dword)\s+(0x[0-9a-f, x]+)")
_SIZES = {"byte": 1, "short": 2, "word": 4, "dword": 8}
_LABEL = re.compile(r"^(\.L_x_\d+|\S+):\s*$")
_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_COMMENT = re.compile(r"\s*\(\*.*?\*\)")  # such as (*"SpillRefill"*)
_ATTRIBUTE = re.compile(r"nvinfo : EIATTR_(REGCOUNT|FRAME_SIZE)")
_WORD_INDEX = re.compile(r"\.word\s+index@\((\S+?)\)")
_WORD = re.compile(r"\.word\s+(0x[0-9a-f]+)")
# The part of an anonymous namespace's name that depends on the compiler's command line.
_PRIVATE = re.compile(r"\d+_GLOBAL__N__[0-9a-f]+_\d+_(\w+?)_cu_[0-9a-f]{8}")


@dataclass(frozen=True)
class Instruction:
    address: int
    guard: str  # "", "P0", "!UP1"
    name: str  # with its suffixes: IMAD.WIDE.U32
    operands: Tuple[str, ...]

    @property
    def base(self) -> str:
        return self.name.split(".")[0]


@dataclass
class Kernel:
    name: str
    registers: int = 0
    stack_bytes: int = 0
    constants: bytes = b""  # that the compiler put into bank 2
    instructions: List[Instruction] = field(default_factory=list)
    labels: Dict[str, int] = field(default_factory=dict)  # to indices of instructions


def stable_name(mangled: str) -> str:
    """The name without what a change of the compiler's command line changes."""
    return _PRIVATE.sub("_private_", mangled)


def source_of(mangled: str) -> str:
    """The file of kernels/, without .cu, whose anonymous namespace the kernel is in."""
    found = _PRIVATE.search(mangled)
    if not found:
        raise ValueError(f"the kernel {mangled} is in no anonymous namespace, so its source is not known")
    return found[1]


def split_operands(text: str) -> Tuple[str, ...]:
    """Splits at commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[begin:position].strip())
            begin = position + 1
    last = text[begin:].strip()
    return tuple(parts + [last]) if last else tuple(parts)


def parse(text: str) -> Dict[str, Kernel]:
    """The kernels of a listing, by their mangled names."""
    kernels: Dict[str, Kernel] = {}
    resources: Dict[Tuple[str, str], int] = {}
    constants: Dict[str, bytearray] = {}
    kernel = data = None
    attribute = owner = ""
    for line in text.splitlines():
        if line.startswith("//-"):
            kernel = data = None
        if kernel is None:
            bank = _CONSTANTS.match(line)
            if bank:
                data = constants.setdefault(bank[1], bytearray())
            elif data is not None and (values := _DATA.match(line)):
                for value in values[2].split(","):
                    data += int(value, 16).to_bytes(_SIZES[values[1]], "little")
            section = _SECTION.match(line)
            if section:
                kernel = kernels.setdefault(section[1], Kernel(section[1]))
                continue
            found = _ATTRIBUTE.search(line)
            if found:
                attribute, owner = found[1], ""
            elif "nvinfo :" in line:
                attribute = ""
            elif attribute:
                index, word = _WORD_INDEX.search(line), _WORD.search(line)
                if index:
                    owner = index[1]
                elif word and owner:
                    resources[attribute, owner] = int(word[1], 16)
                    attribute = ""
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction:
            address, guard, name, operands = instruction.groups()
            operands = _COMMENT.sub("", operands)
            kernel.instructions.append(Instruction(int(address, 16), guard or "", name, split_operands(operands)))
            continue
        label = _LABEL.match(line)
        if label:
            kernel.labels[label[1]] = len(kernel.instructions)
    for kernel in kernels.values():
        kernel.registers = resources.get(("REGCOUNT", kernel.name), 0)
        kernel.constants = bytes(constants.get(kernel.name, b""))
        kernel.stack_bytes = resources.get(("FRAME_SIZE", kernel.name), 0)
    return kernels
