"""Tensor parallelism: which part of a weight a rank keeps, and the sums and joins between ranks."""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from antiphon.core.errors import ConfigError


@dataclass(frozen=True)
class ParallelGroup:
    """The ranks that hold one model together. Alone (size 1) every operation is free.

    Attributes:
        group: carries tensors of the model's device (NCCL or gloo); None is the default group.
        control: carries small tensors on the host (gloo); None is the default group.
    """

    rank: int = 0
    size: int = 1
    group: dist.ProcessGroup | None = None
    control: dist.ProcessGroup | None = None

    def sum(self, x: Tensor) -> Tensor:
        """Add up the ranks' *x*, in place."""
        if self.size > 1:
            dist.all_reduce(x, group=self.group)
        return x

    def join(self, x: Tensor) -> Tensor:
        """Concatenate the ranks' *x* [..., n] along the last dimension, in the order of ranks: [..., n · size]."""
        if self.size == 1:
            return x
        parts = torch.empty(self.size * x.shape[0], *x.shape[1:], dtype=x.dtype, device=x.device)
        dist.all_gather_into_tensor(parts, x.contiguous(), group=self.group)
        return parts.view(self.size, *x.shape).movedim(0, -2).flatten(-2)

    def agree(self, x: Tensor) -> Tensor:
        """Everyone takes rank 0's *x*, in place."""
        if self.size > 1:
            dist.broadcast(x, src=0, group=self.group)
        return x

    def send(self, x: Tensor) -> None:
        """Rank 0 gives the others a tensor on the host, whose shape and dtype they know."""
        if self.size > 1:
            dist.broadcast(x, src=0, group=self.control)

    receive = send


ALONE = ParallelGroup()
_EVER = timedelta(days=3650)  # the ranks after 0 wait for orders as long as nobody asks for anything


def join_group(store: Store, *, rank: int, size: int, device: torch.device) -> ParallelGroup:
    """Meet the other ranks at *store*. Blocks until all have come; a process is in one group only."""
    if device.type != "cuda":
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_EVER)
        return ParallelGroup(rank=rank, size=size)
    # Multicast over NVLink needs rights that containers often lack, and small sums gain nothing by it.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=size, timeout=_EVER, device_id=device)
    control = dist.new_group(backend="gloo", timeout=_EVER)
    return ParallelGroup(rank=rank, size=size, control=control)


def require_divisible(what: str, number: int, group: ParallelGroup) -> int:
    """The share of one rank.

    Raises:
        ConfigError: *number* does not divide evenly.
    """
    if number % group.size:
        raise ConfigError(f"tensor parallel {group.size}: {what} {number} does not divide by it; choose another size")
    return number // group.size


def shard_columns(weight: Tensor, group: ParallelGroup) -> Tensor:
    """The rank's outputs of a weight [out, in]: its matrix product gives a part of the columns."""
    share = require_divisible("outputs", weight.shape[0], group)
    return weight[group.rank * share : (group.rank + 1) * share]


def shard_rows(weight: Tensor, group: ParallelGroup) -> Tensor:
    """The rank's inputs of a weight [out, in]: the ranks' products must be summed."""
    share = require_divisible("inputs", weight.shape[1], group)
    return weight[:, group.rank * share : (group.rank + 1) * share]


def shard_vocabulary(weight: Tensor, group: ParallelGroup) -> Tensor:
    """The rank's ids of an output head [V, in]; the last ranks are filled up with zeros to equal sizes."""
    if group.size == 1:
        return weight
    share = -(-weight.shape[0] // group.size)
    part = weight[group.rank * share : (group.rank + 1) * share]
    return torch.cat((part, part.new_zeros(share - len(part), weight.shape[1])))
