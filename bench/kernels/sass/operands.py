"""Operands of instructions as functions of a warp and a lane."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Callable

from .number import WORD, half_to_float, to_float, to_word

if TYPE_CHECKING:
    from .warp import Warp

Reader = Callable[["Warp", int], int]
FloatReader = Callable[["Warp", int], float]

ZERO_REGISTER = 255
_REGISTER = re.compile(r"^(U?)R(\d+|Z)((?:\.\w+)*)$")
_PREDICATE = re.compile(r"^(U?)P(\d|T)$")
CONSTANT = re.compile(r"^c\[0x([02])\]\[(.+)\]$")


class Unsupported(Exception):
    """An operand or instruction that this reader of machine code does not know."""


def register_number(text: str) -> int:
    """Of R12, UR12, RZ and URZ, with or without suffixes."""
    found = _REGISTER.match(text)
    if not found:
        raise Unsupported(f"the register {text}")
    return ZERO_REGISTER if found[2] == "Z" else int(found[2])


def is_uniform(text: str) -> bool:
    return text.lstrip("-~|!").startswith("U")


def is_predicate(text: str) -> bool:
    return bool(_PREDICATE.match(text.lstrip("!")))


def predicate_number(text: str) -> int:
    found = _PREDICATE.match(text)
    if not found:
        raise Unsupported(f"the predicate {text}")
    return 7 if found[2] == "T" else int(found[2])


def predicate(text: str) -> Callable[["Warp", int], bool]:
    negated = text.startswith("!")
    number = predicate_number(text.lstrip("!"))
    if is_uniform(text):
        return lambda w, t: w.uniform_predicates[number] != negated
    return lambda w, t: w.predicates[t][number] != negated


def _plain(text: str) -> Reader:
    """A register, constant or immediate without sign."""
    text = text.replace(".reuse", "")
    found = _REGISTER.match(text)
    if found:
        number = register_number(text)
        if found[1]:
            return lambda w, t: w.uniform_registers[number]
        return lambda w, t: w.registers[t][number]
    found = CONSTANT.match(text)
    if found:
        bank, place = int(found[1]), address("[" + found[2] + "]")
        return lambda w, t: w.constant(bank, place(w, t), 4)
    if re.match(r"^-?0x[0-9a-f]+$", text):
        value = int(text, 16) & WORD
        return lambda w, t: value
    if re.match(r"^\d+$", text):
        number = int(text)
        return lambda w, t: number
    if text == "SRZ":
        return lambda w, t: 0
    raise Unsupported(f"the operand {text}")


def _body(text: str) -> str:
    """Without sign, complement and magnitude bars."""
    text = text.lstrip("-~")
    if text.startswith("|"):
        text = text[1:].replace("|", "", 1)
    return text


def integer(text: str) -> Reader:
    """A word; -x is not reduced to 32 bits, so that sums show the carry that the machine makes."""
    if re.match(r"^-0x", text):
        return _plain(text)
    body = _plain(_body(text))
    if text.startswith("~"):
        return lambda w, t: body(w, t) ^ WORD
    if text.startswith("-"):
        return lambda w, t: (body(w, t) ^ WORD) + 1
    return body


def pair(text: str) -> Reader:
    """64 bits: a register and the next one."""
    text = text.replace(".reuse", "").replace(".64", "")
    found = _REGISTER.match(text)
    if found:
        number = register_number(text)
        if number == ZERO_REGISTER:
            return lambda w, t: 0
        if found[1]:
            return lambda w, t: w.uniform_registers[number] | w.uniform_registers[number + 1] << 32
        return lambda w, t: w.registers[t][number] | w.registers[t][number + 1] << 32
    found = CONSTANT.match(text)
    if found:
        bank, place = int(found[1]), address("[" + found[2] + "]")
        return lambda w, t: w.constant(bank, place(w, t), 8)
    return _plain(text)


def _float_immediate(text: str) -> int:
    special = {"+INF": 0x7F800000, "-INF": 0xFF800000, "+QNAN": 0x7FFFFFFF, "-QNAN": 0xFFFFFFFF}
    if text in special:
        return special[text]
    return to_word(float(text))


def float_bits(text: str) -> Reader:
    """The word of a float, with its sign and magnitude applied."""
    text = text.strip()
    body_text = _body(text).replace(".reuse", "").strip()
    if re.match(r"^[-+]?(\d+(\.\d+)?(e[-+]?\d+)?|INF|QNAN)$", text):
        value = _float_immediate(text if text[0] in "+-" or text[0].isdigit() else "+" + text)
        return lambda w, t: value
    body = _plain(body_text)
    magnitude = "|" in text
    negated = text.startswith("-")
    if magnitude and negated:
        return lambda w, t: body(w, t) | 0x80000000
    if magnitude:
        return lambda w, t: body(w, t) & 0x7FFFFFFF
    if negated:
        return lambda w, t: body(w, t) ^ 0x80000000
    return body


def number(text: str) -> FloatReader:
    bits = float_bits(text)
    return lambda w, t: to_float(bits(w, t))


def halves(text: str, brain: bool) -> Callable[["Warp", int], tuple]:
    """Both halves of a word, low first, as floats."""
    if re.match(r"^[-+]?(\d|INF|QNAN)", text):
        raise Unsupported(f"the packed immediate {text}")
    select = re.search(r"\.H([01])_H([01])", text)
    low, high = (int(select[1]), int(select[2])) if select else (0, 1)
    body_text = re.sub(r"\.H\d_H\d", "", _body(text))
    body = _plain(body_text)
    negated, magnitude = text.startswith("-"), "|" in text

    def read(w: "Warp", t: int) -> tuple:
        word = body(w, t)
        values = []
        for half in (low, high):
            value = half_to_float(word >> (16 * half) & 0xFFFF, brain)
            if magnitude:
                value = abs(value)
            values.append(-value if negated else value)
        return tuple(values)

    return read


def half_immediate(text: str, brain: bool) -> int:
    value = float(text.replace("+INF", "inf").replace("-INF", "-inf").replace("QNAN", "nan"))
    if brain:
        return to_word(value) >> 16
    return struct.unpack("<H", struct.pack("<e", value))[0]


def address(text: str) -> Reader:
    """[R2.64+UR4+-0x10], desc[UR4][R2.64+0x8], [R5.X4+0x20]: the sum of its terms."""
    inner = text[text.rindex("[") + 1 : text.rindex("]")]
    terms = []
    for term in re.sub(r"\+-", "+~", inner).split("+"):
        term = term.strip()
        if term.startswith("~"):
            value = -int(term[1:], 16)
            terms.append(lambda w, t, value=value: value)
        elif term.endswith(".64"):
            terms.append(pair(term))
        elif ".X" in term:
            name, factor = term.split(".X")
            body, scale = _plain(name), int(factor)
            terms.append(lambda w, t, body=body, scale=scale: body(w, t) * scale)
        elif term.endswith(".U32"):
            terms.append(_plain(term[:-4]))
        else:
            terms.append(_plain(term))
    if len(terms) == 1:
        return terms[0]
    return lambda w, t: sum(term(w, t) for term in terms)
