"""Who owns which KV block, on the device and in host memory: reference counts, prefix cache, spilling.

Freed blocks may be handed out at once: everything that touches them runs on the stage's one stream, in the order it was
decided in. Only full, computed blocks are shared, and no position of a full block is written again, so sharing never
copies.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence

from antiphon.core.errors import ConfigError
from antiphon.engine.block_table import BlockMove, BlockTable, CutPlan
from antiphon.engine.prefix_hash import MediaSpan, block_hash


class BlockManager:
    """The blocks of one device.

    Invariant: a block has as many references as tables hold it; one without references is free. A free block may still
    be found by its hash until it is handed out anew, the longest unused first.
    """

    def __init__(
        self, num_blocks: int, *, block_size: int = 16, num_host_blocks: int = 0, use_prefix_cache: bool = False
    ) -> None:
        if num_blocks < 1 or block_size < 1 or num_host_blocks < 0:
            raise ConfigError(
                f"KV cache: {num_blocks} blocks of {block_size} tokens, {num_host_blocks} on the host; raise them"
            )
        self.num_blocks, self.block_size, self.num_host_blocks = num_blocks, block_size, num_host_blocks
        self.use_prefix_cache = use_prefix_cache
        self._refs = [0] * num_blocks
        self._empty = deque(range(num_blocks))  # free, nothing in them
        self._reusable: OrderedDict[int, None] = OrderedDict()  # free, findable; longest unused first
        self._by_hash: dict[bytes, int] = {}
        self._hash_of: dict[int, bytes] = {}
        self._host_refs = [0] * num_host_blocks
        self._host_empty = deque(range(num_host_blocks))
        self._host_by_hash: dict[bytes, int] = {}
        self._host_hash_of: dict[int, bytes] = {}

    @property
    def num_free(self) -> int:
        return len(self._empty) + len(self._reusable)

    @property
    def num_used(self) -> int:
        return self.num_blocks - self.num_free

    @property
    def num_host_used(self) -> int:
        return self.num_host_blocks - len(self._host_empty)

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def kv_index(self, table: BlockTable, position: int) -> int:
        return table.blocks[position // self.block_size] * self.block_size + position % self.block_size

    def grow(self, table: BlockTable, num_tokens: int) -> bool:
        """Make room for *num_tokens* positions in all; False, and nothing changed, if there are too few blocks."""
        num_new = self.blocks_for(num_tokens) - len(table.blocks)
        if num_new > self.num_free:
            return False
        table.blocks += [self._take() for _ in range(num_new)]
        return True

    def trim(self, table: BlockTable, num_tokens: int) -> None:
        """Give back the blocks past *num_tokens* positions."""
        num_kept = self.blocks_for(num_tokens)
        self._give_back(table.blocks[num_kept:])
        del table.blocks[num_kept:]

    def release(self, table: BlockTable) -> None:
        """Give back everything, here and on the host. What is cached stays findable until its block is needed."""
        self._give_back(table.blocks)
        self._give_back_host(table.host_blocks)
        table.blocks, table.hashes, table.host_blocks, table.shareable_tokens = [], [], [], None

    def match(self, table: BlockTable, ids: Sequence[int], media: Sequence[MediaSpan]) -> int:
        """Give an empty *table* the cached blocks that *ids* begins with.

        Returns:
            How many tokens they hold; always less than all, because the last token must be forwarded to draw the next.
        """
        if not self.use_prefix_cache:
            return 0
        parent = b""
        for start in range(0, len(ids) - self.block_size, self.block_size):
            name = block_hash(parent, ids[start : start + self.block_size], start, media)
            block = None if name is None else self._by_hash.get(name)
            if name is None or block is None:
                break
            self._refer(block)
            table.blocks.append(block)
            table.hashes.append(name)
            parent = name
        return len(table.blocks) * self.block_size

    def record(self, table: BlockTable, ids: Sequence[int], media: Sequence[MediaSpan], num_computed: int) -> None:
        """Make the blocks findable that became full with *num_computed* positions. Call it when a launch is done."""
        if not self.use_prefix_cache:
            return
        limit = num_computed if table.shareable_tokens is None else min(num_computed, table.shareable_tokens)
        while (len(table.hashes) + 1) * self.block_size <= limit:
            start = len(table.hashes) * self.block_size
            parent = table.hashes[-1] if table.hashes else b""
            name = block_hash(parent, ids[start : start + self.block_size], start, media)
            if name is None:
                table.shareable_tokens = start
                return
            table.hashes.append(name)
            self._publish(table.blocks[start // self.block_size], name)

    def spill(self, table: BlockTable) -> BlockMove | None:
        """Move *table* to the host; None, and nothing changed, if it does not fit there.

        A shared block is copied by the first table that leaves only; later ones refer to its copy.
        """
        found = [self._host_by_hash.get(name) for name in table.hashes]
        found += [None] * (len(table.blocks) - len(found))
        if found.count(None) > len(self._host_empty):
            return None
        pairs = []
        for index, (block, host) in enumerate(zip(table.blocks, found, strict=True)):
            if host is None:
                host = self._host_empty.popleft()
                pairs.append((block, host))
                name = table.hash_at(index)
                if name is not None:
                    self._host_by_hash[name], self._host_hash_of[host] = host, name
            self._host_refs[host] += 1
            table.host_blocks.append(host)
        self._give_back(table.blocks)
        table.blocks = []
        return BlockMove(True, tuple(pairs))

    def restore(self, table: BlockTable) -> BlockMove | None:
        """Move *table* back to the device; None, and nothing changed, if there are too few blocks.

        Blocks whose content is still, or again, on the device are not copied.
        """
        found = [self._by_hash.get(name) for name in table.hashes]
        found += [None] * (len(table.host_blocks) - len(found))
        num_taken = sum(block is None or self._refs[block] == 0 for block in found)
        if num_taken > self.num_free:
            return None
        for block in found:
            if block is not None:  # first, lest one of them is handed out below
                self._refer(block)
        pairs = []
        for index, (host, block) in enumerate(zip(table.host_blocks, found, strict=True)):
            if block is None:
                block = self._take()
                pairs.append((block, host))
                name = table.hash_at(index)
                if name is not None:
                    self._publish(block, name)
            table.blocks.append(block)
        self._give_back_host(table.host_blocks)
        table.host_blocks = []
        return BlockMove(False, tuple(pairs))

    def cut(
        self, table: BlockTable, *, prefix_len: int, gap_len: int, tail_start: int, num_computed: int
    ) -> CutPlan | None:
        """Keep positions [0, prefix_len), leave *gap_len* free, and append [tail_start, num_computed).

        All blocks but the whole ones of the prefix are replaced by fresh ones: source and destination never overlap,
        and a block that others share is not written. None, and nothing changed, if there are too few blocks.
        """
        num_kept = prefix_len // self.block_size
        tail_len = max(0, num_computed - tail_start)
        length = prefix_len + gap_len + tail_len if tail_len else prefix_len
        if self.blocks_for(length) - num_kept > self.num_free:
            return None
        fresh = BlockTable(table.blocks[:num_kept])
        self.grow(fresh, length)
        head = range(num_kept * self.block_size, prefix_len)
        sources = [*head, *range(tail_start, tail_start + tail_len)]
        shift = prefix_len + gap_len - tail_start
        shifts = [0] * len(head) + [shift] * tail_len
        plan = CutPlan(
            tuple(self.kv_index(table, source) for source in sources),
            tuple(self.kv_index(fresh, source + turn) for source, turn in zip(sources, shifts, strict=True)),
            tuple(shifts),
        )
        self._give_back(table.blocks[num_kept:])
        table.blocks = fresh.blocks
        del table.hashes[num_kept:]
        # What follows was computed while it saw the dropped tokens: a fresh prefill would not give it.
        limit = num_kept * self.block_size
        table.shareable_tokens = limit if table.shareable_tokens is None else min(limit, table.shareable_tokens)
        return plan

    def _take(self) -> int:
        if self._empty:
            block = self._empty.popleft()
        else:
            block, _ = self._reusable.popitem(last=False)
            del self._by_hash[self._hash_of.pop(block)]
        self._refs[block] = 1
        return block

    def _refer(self, block: int) -> None:
        if self._refs[block] == 0:
            del self._reusable[block]
        self._refs[block] += 1

    def _publish(self, block: int, name: bytes) -> None:
        if self._by_hash.setdefault(name, block) == block:  # else another block with this content came first
            self._hash_of[block] = name

    def _give_back(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):  # the end of a prefix is of less use than its start, so it leaves first
            assert self._refs[block] > 0, f"block {block} given back twice"
            self._refs[block] -= 1
            if self._refs[block] == 0 and block in self._hash_of:
                self._reusable[block] = None
            elif self._refs[block] == 0:
                self._empty.append(block)

    def _give_back_host(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            assert self._host_refs[block] > 0, f"host block {block} given back twice"
            self._host_refs[block] -= 1
            if self._host_refs[block] == 0:
                self._host_empty.append(block)
                if block in self._host_hash_of:
                    del self._host_by_hash[self._host_hash_of.pop(block)]
