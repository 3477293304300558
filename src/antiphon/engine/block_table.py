"""Where one sequence's keys and values lie, and the orders to move them that a kernel carries out."""

from dataclasses import dataclass, field


@dataclass
class BlockTable:
    """Blocks of one sequence, changed by the block manager only.

    Attributes:
        blocks: on the device; position p lies in `blocks[p // block_size]`.
        hashes: content of its first blocks, as far as they are full, computed and may be shared.
        host_blocks: in host memory, in the same order, while `blocks` is empty.
        shareable_tokens: after a cut, how many tokens' cache is still what a fresh prefill would give; None for all.
    """

    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    host_blocks: list[int] = field(default_factory=list)
    shareable_tokens: int | None = None

    def hash_at(self, index: int) -> bytes | None:
        return self.hashes[index] if index < len(self.hashes) else None


@dataclass(frozen=True)
class BlockMove:
    """Whole blocks to copy between device and host. Moves are issued in the order they were decided in."""

    to_host: bool
    pairs: tuple[tuple[int, int], ...]  # (device block, host block)


@dataclass(frozen=True)
class CutPlan:
    """Rows to copy into fresh blocks, all layers alike, once *moves* are issued: *sources* may be reused by any later
    write.

    The i-th key turns by `shifts[i]` positions (RoPE; negative turns back), values are copied as they are. The lists
    are in kv indices: block · block_size + offset. Empty where nothing was computed yet.
    """

    sources: tuple[int, ...] = ()
    destinations: tuple[int, ...] = ()
    shifts: tuple[int, ...] = ()
    moves: tuple[BlockMove, ...] = ()
