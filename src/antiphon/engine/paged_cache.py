"""The Thinker's keys and values on the device, their copies in host memory, and the moves between and within them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.config.checkpoint import DecoderConfig
from antiphon.engine.block_table import BlockMove, CutPlan
from antiphon.engine.device_stream import DeviceStream
from antiphon.layers.rope import Rope, rotate

_BLOCKS_PER_COPY = 64  # a real block is 2.4 MB in bfloat16: this bounds the staging memory


class PagedCache:
    """Carries out what the block manager decided, in the order it was decided in.

    One block more than asked for exists: the *scratch* block takes what padding rows of a captured step write.

    Attributes:
        pages: [layers, 2, blocks + 1, block_size, H_kv, D], keys after RoPE and values.
        host_pages: [host blocks, layers, 2, block_size, H_kv, D], page-locked on a GPU.
        scratch_block: number of the block nobody reads.
    """

    def __init__(
        self,
        config: DecoderConfig,
        *,
        num_kv_heads: int,
        num_blocks: int,
        block_size: int,
        num_host_blocks: int,
        rope: Rope,
        dtype: torch.dtype,
        stream: DeviceStream,
    ) -> None:
        device = stream.device
        self.block_size, self.scratch_block = block_size, num_blocks
        self.pages = torch.zeros(
            (config.num_layers, 2, num_blocks + 1, block_size, num_kv_heads, config.head_dim),
            dtype=dtype,
            device=device,
        )
        self.host_pages = torch.zeros(
            (num_host_blocks, config.num_layers, 2, block_size, num_kv_heads, config.head_dim),
            dtype=dtype,
            pin_memory=device.type == "cuda" and num_host_blocks > 0,
        )
        self._rope = rope
        self._stream = stream
        self._copies = DeviceStream(device)

    def move(self, moves: Sequence[BlockMove]) -> None:
        """Copy whole blocks to or from the host, beside the stage's work; call it inside the stage's stream.

        Work issued on the stage's stream afterwards sees restored blocks, and may overwrite spilled ones.
        """
        for move in moves:
            for start in range(0, len(move.pairs), _BLOCKS_PER_COPY):
                pairs = move.pairs[start : start + _BLOCKS_PER_COPY]
                blocks = self._index([block for block, _ in pairs])
                hosts = [host for _, host in pairs]
                if move.to_host:
                    self._spill(blocks, hosts)
                else:
                    self._restore(blocks, hosts)

    def cut(self, plan: CutPlan) -> None:
        """Move rows within the device's blocks and turn their keys; call it inside the stage's stream."""
        if not plan.sources:
            return
        sources, destinations = self._index(plan.sources), self._index(plan.destinations)
        cos, sin = self._rope.cos_sin(self._index(plan.shifts))
        for layer in self.pages:
            keys, values = (side.flatten(0, 1) for side in layer)
            # Indexing copies, so a source may be a destination too.
            keys[destinations] = rotate(keys[sources], cos, sin)
            values[destinations] = values[sources]

    def _spill(self, blocks: Tensor, hosts: Sequence[int]) -> None:
        staged = self.pages[:, :, blocks].movedim(2, 0).contiguous()
        self._copies.follow(self._stream.fence())
        with self._copies.active():
            for host, block in zip(hosts, staged, strict=True):
                self.host_pages[host].copy_(block, non_blocking=True)
        if self._copies.cuda is not None:
            staged.record_stream(self._copies.cuda)

    def _restore(self, blocks: Tensor, hosts: Sequence[int]) -> None:
        with self._copies.active():
            staged = torch.empty((len(hosts), *self.host_pages.shape[1:]), dtype=self.pages.dtype, device=blocks.device)
            for host, block in zip(hosts, staged, strict=True):
                block.copy_(self.host_pages[host], non_blocking=True)
        self._stream.follow(self._copies.fence())
        self.pages[:, :, blocks] = staged.movedim(0, 2)
        if self._stream.cuda is not None:
            staged.record_stream(self._stream.cuda)

    def _index(self, numbers: Sequence[int]) -> Tensor:
        return upload(numbers, torch.int64, self._stream.device)


def upload(numbers: Sequence[int] | Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Bring numbers to *device* without waiting for it: torch keeps the page-locked memory until the copy is done."""
    if device.type != "cuda":
        return torch.tensor(numbers, dtype=dtype)
    return torch.tensor(numbers, dtype=dtype, pin_memory=True).to(device, non_blocking=True)
