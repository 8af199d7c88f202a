"""The transport without torch.distributed: NCCL and CUDA's runtime called as a C program would, by ctypes.

Torch computes on the CPU; buffers are in device memory and are copied to and from it, so nothing here depends on
whether the device is real or emulated.
"""
from __future__ import annotations

import ctypes
import os
import tempfile
import time
from pathlib import Path
from typing import Optional, Sequence

import torch

from transport import Unavailable, number_from

_TYPES = {torch.float32: 7, torch.float64: 8, torch.bfloat16: 9}  # ncclDataType_t
_SUM, _AVERAGE = 0, 4  # ncclRedOp_t
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2
_PATIENCE = 60.0  # seconds that a rank waits for rank 0's identifier


class _UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


def _load() -> ctypes.CDLL:
    """All functions by the global scope, as a linked program would be bound: what is preloaded comes first."""
    for name in ("libcudart.so.13", "libnccl.so.2"):
        try:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise Unavailable(f"{name} could not be loaded ({error}): put its folder into LD_LIBRARY_PATH") from None
    functions = ctypes.CDLL(None)
    functions.cudaGetErrorString.restype = ctypes.c_char_p
    functions.ncclGetErrorString.restype = ctypes.c_char_p
    functions.ncclGetLastError.restype = ctypes.c_char_p
    return functions


class CtypesBuffer:
    def __init__(self, transport: CtypesTransport, elements: int, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.item_bytes = torch.empty((), dtype=dtype).element_size()
        self.memory = ctypes.c_void_p()
        self._transport = transport
        transport.cuda("cudaMalloc", ctypes.byref(self.memory), ctypes.c_size_t(elements * self.item_bytes))
        self.store(0, torch.zeros(elements))

    def address(self, element: int) -> ctypes.c_void_p:
        return ctypes.c_void_p((self.memory.value or 0) + element * self.item_bytes)

    def store(self, start: int, values: torch.Tensor) -> None:
        rounded = values.to(self.dtype).contiguous()
        self._copy(self.address(start), ctypes.c_void_p(rounded.data_ptr()), rounded.numel(), _HOST_TO_DEVICE)

    def load(self, part: slice) -> torch.Tensor:
        values = torch.empty(part.stop - part.start, dtype=self.dtype)
        self._copy(ctypes.c_void_p(values.data_ptr()), self.address(part.start), values.numel(), _DEVICE_TO_HOST)
        return values if self.dtype is torch.float64 else values.float()

    def _copy(self, target: ctypes.c_void_p, source: ctypes.c_void_p, elements: int, kind: int) -> None:
        stream = self._transport.stream
        self._transport.cuda(
            "cudaMemcpyAsync", target, source, ctypes.c_size_t(elements * self.item_bytes), ctypes.c_int(kind), stream
        )
        self._transport.cuda("cudaStreamSynchronize", stream)


class CtypesTransport:
    """RANK, WORLD_SIZE and LOCAL_RANK as torchrun sets them; the ranks meet through the file named by NCCL_ID_FILE."""

    compute = torch.device("cpu")

    def __init__(self) -> None:
        self.rank, self.world = number_from("RANK"), number_from("WORLD_SIZE")
        self._functions = _load()
        self.stream = ctypes.c_void_p()
        self._communicator = ctypes.c_void_p()
        self._choose_device(number_from("LOCAL_RANK"))
        self.cuda("cudaStreamCreate", ctypes.byref(self.stream))
        identifier = self._meet()
        self._nccl(
            "ncclCommInitRank", ctypes.byref(self._communicator), ctypes.c_int(self.world), identifier, ctypes.c_int(self.rank)
        )
        self._numbers = CtypesBuffer(self, 64, torch.float64)

    def _choose_device(self, device: int) -> None:
        try:
            self.cuda("cudaSetDevice", ctypes.c_int(device))
        except RuntimeError as error:
            if torch.version.cuda is None:
                raise
            raise Unavailable(
                f"{error}. This torch brought a CUDA of its own ({torch.version.cuda}), which was loaded first: on the emulated "
                "cluster use a torch without CUDA, such as Debian's python3-torch by /usr/bin/python3"
            ) from None

    def _meet(self) -> _UniqueId:
        place = os.environ.get("NCCL_ID_FILE", "")
        if not place:
            raise Unavailable("the variable NCCL_ID_FILE is not set: name a file that all ranks see and that is not there")
        file = Path(place)
        identifier = _UniqueId()
        if self.rank == 0:
            self._nccl("ncclGetUniqueId", ctypes.byref(identifier))
            with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as draft:
                draft.write(bytes(identifier))
            os.replace(draft.name, file)  # others see all of it or nothing
            return identifier
        patient_until = time.monotonic() + _PATIENCE
        while not file.exists():
            if time.monotonic() > patient_until:
                raise Unavailable(f"rank 0 has not written {file} for {_PATIENCE:.0f} s: look at what rank 0 says")
            time.sleep(0.02)
        return _UniqueId.from_buffer_copy(file.read_bytes())

    def cuda(self, name: str, *arguments: object) -> None:
        result = getattr(self._functions, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name} on rank {self.rank}: {self._functions.cudaGetErrorString(result).decode()}")

    def _nccl(self, name: str, *arguments: object) -> None:
        result = getattr(self._functions, name)(*arguments)
        if result != 0:
            text = self._functions.ncclGetErrorString(result).decode()
            detail = self._functions.ncclGetLastError(self._communicator) or b""
            raise RuntimeError(f"{name}: {text} {detail.decode(errors='replace')}".strip())

    def buffer(self, elements: int, dtype: torch.dtype) -> CtypesBuffer:
        return CtypesBuffer(self, elements, dtype)

    def reduce_scatter(self, buffer: CtypesBuffer, start: int, shard: int) -> None:
        own = buffer.address(start + self.rank * shard)
        self._nccl(
            "ncclReduceScatter", buffer.address(start), own, ctypes.c_size_t(shard), ctypes.c_int(_TYPES[buffer.dtype]),
            ctypes.c_int(_AVERAGE), self._communicator, self.stream,
        )

    def all_gather(self, buffer: CtypesBuffer, start: int, shard: int) -> None:
        own = buffer.address(start + self.rank * shard)
        self._nccl(
            "ncclAllGather", own, buffer.address(start), ctypes.c_size_t(shard), ctypes.c_int(_TYPES[buffer.dtype]),
            self._communicator, self.stream,
        )

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        numbers = self._numbers
        numbers.store(0, torch.tensor(values, dtype=torch.float64))
        self._nccl(
            "ncclAllReduce", numbers.memory, numbers.memory, ctypes.c_size_t(len(values)),
            ctypes.c_int(_TYPES[torch.float64]), ctypes.c_int(_SUM), self._communicator, self.stream,
        )
        return numbers.load(slice(0, len(values))).tolist()

    def traffic(self) -> Optional[dict[str, int]]:
        """The emulated cluster counts; NVIDIA's NCCL does not."""
        count = getattr(self._functions, "sandboxNcclGetTraffic", None)
        if count is None:
            return None
        numbers = (ctypes.c_uint64 * 3)()
        count(numbers)
        return {"in_node": numbers[0], "between_nodes": numbers[1]}

    def versions(self) -> dict[str, str]:
        version = ctypes.c_int()
        self._nccl("ncclGetVersion", ctypes.byref(version))
        value = version.value
        kind = "emulated" if hasattr(self._functions, "sandboxNcclGetTraffic") else "NVIDIA's"
        return {
            "NCCL": f"{value // 10000}.{value // 100 % 100}.{value % 100} ({kind})",
            "transport": "ncclReduceScatter and ncclAllGather by ctypes",
        }

    def close(self) -> None:
        self.cuda("cudaStreamSynchronize", self.stream)
        self._nccl("ncclCommDestroy", self._communicator)
