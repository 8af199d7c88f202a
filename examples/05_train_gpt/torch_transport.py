"""The transport for GPUs: torch.distributed with its NCCL backend, in the form that ZeRO-1 optimizers use."""
from __future__ import annotations

from typing import Optional, Sequence

import torch
import torch.distributed as dist

from transport import Unavailable, number_from


class TorchBuffer:
    def __init__(self, elements: int, dtype: torch.dtype, device: torch.device) -> None:
        self.memory = torch.zeros(elements, dtype=dtype, device=device)

    def store(self, start: int, values: torch.Tensor) -> None:
        self.memory[start : start + values.numel()].copy_(values)

    def load(self, part: slice) -> torch.Tensor:
        return self.memory[part].float()


class TorchTransport:
    def __init__(self) -> None:
        if not torch.cuda.is_available() or not hasattr(dist, "reduce_scatter_tensor"):
            raise Unavailable("this needs GPUs and torch 2 or later; without GPUs choose --transport ctypes")
        local = number_from("LOCAL_RANK")
        torch.cuda.set_device(local)
        self.compute = torch.device("cuda", local)
        dist.init_process_group("nccl")
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()

    def buffer(self, elements: int, dtype: torch.dtype) -> TorchBuffer:
        return TorchBuffer(elements, dtype, self.compute)

    def reduce_scatter(self, buffer: TorchBuffer, start: int, shard: int) -> None:
        whole = buffer.memory[start : start + shard * self.world]
        own = whole[self.rank * shard : (self.rank + 1) * shard]
        dist.reduce_scatter_tensor(own, whole, op=dist.ReduceOp.AVG)

    def all_gather(self, buffer: TorchBuffer, start: int, shard: int) -> None:
        whole = buffer.memory[start : start + shard * self.world]
        dist.all_gather_into_tensor(whole, whole[self.rank * shard : (self.rank + 1) * shard])

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        sums = torch.tensor(values, dtype=torch.float64, device=self.compute)
        dist.all_reduce(sums)
        return sums.tolist()

    def traffic(self) -> Optional[dict[str, int]]:
        return None

    def versions(self) -> dict[str, str]:
        return {"NCCL": ".".join(str(part) for part in torch.cuda.nccl.version()), "transport": "torch.distributed"}

    def close(self) -> None:
        dist.destroy_process_group()
