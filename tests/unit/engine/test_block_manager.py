import random

import pytest

from antiphon.core.errors import ConfigError
from antiphon.engine.block_manager import BlockManager
from antiphon.engine.block_table import BlockTable
from antiphon.engine.prefix_hash import MediaSpan


def build(num_blocks=8, *, host=0, cache=True):
    return BlockManager(num_blocks, block_size=4, num_host_blocks=host, use_prefix_cache=cache)


def fill(blocks, ids, media=()):
    """A table whose tokens are all computed, its cached prefix taken over."""
    table = BlockTable()
    blocks.match(table, ids, media)
    assert blocks.grow(table, len(ids))
    blocks.record(table, ids, media, len(ids))
    return table


def test_blocks_are_given_for_positions_and_counted():
    blocks, table = build(), BlockTable()
    assert blocks.grow(table, 9)
    assert blocks.grow(table, 7)  # has room already
    assert (len(table.blocks), blocks.num_free, blocks.num_used) == (3, 5, 3)
    assert blocks.kv_index(table, 6) == table.blocks[1] * 4 + 2
    blocks.trim(table, 4)
    assert (len(table.blocks), blocks.num_free) == (1, 7)


def test_growing_past_the_pool_changes_nothing():
    blocks, table = build(), BlockTable()
    assert not blocks.grow(table, 33)
    assert (table.blocks, blocks.num_free) == ([], 8)


def test_full_computed_blocks_are_shared_and_the_last_token_is_not():
    blocks = build()
    first = fill(blocks, range(10))
    second = BlockTable()
    assert blocks.match(second, list(range(10)), ()) == 8
    assert second.blocks == first.blocks[:2]
    assert blocks.match(BlockTable(), range(8), ()) == 4
    assert blocks.match(BlockTable(), [0, 1, 2, 9, 9], ()) == 0


def test_what_is_not_computed_is_not_found():
    blocks, table = build(), BlockTable()
    blocks.grow(table, 8)
    blocks.record(table, range(8), (), 7)
    assert blocks.match(BlockTable(), range(9), ()) == 4


def test_other_media_under_equal_tokens_are_not_shared():
    blocks = build(20)
    fill(blocks, range(9), [MediaSpan(5, 6, b"cat")])
    assert blocks.match(BlockTable(), range(9), [MediaSpan(5, 6, b"cat")]) == 8
    assert blocks.match(BlockTable(), range(9), [MediaSpan(5, 6, b"dog")]) == 4


def test_nothing_is_shared_from_media_of_unknown_content_on():
    blocks = build()
    media = [MediaSpan(5, 6, b"")]
    table = fill(blocks, range(16), media)
    assert table.shareable_tokens == 4
    blocks.record(table, range(16), media, 16)
    assert blocks.match(BlockTable(), range(16), media) == 4


def test_freed_blocks_are_found_until_needed_and_a_prefix_outlives_its_end():
    blocks = build(4)
    blocks.release(fill(blocks, range(12)))
    assert blocks.num_free == 4
    other = BlockTable()
    blocks.grow(other, 8)  # the empty block, then the least useful of the cached ones
    found = BlockTable()
    assert blocks.match(found, range(13), ()) == 8
    assert blocks.num_free == 0
    assert not blocks.grow(found, 13)


def test_a_second_block_of_equal_content_stays_its_owners():
    blocks = build()
    tables = [BlockTable(), BlockTable()]
    for table in tables:  # both computed before either was recorded
        blocks.grow(table, 4)
    for table in tables:
        blocks.record(table, range(4), (), 4)
    assert tables[0].blocks != tables[1].blocks
    blocks.release(tables[1])
    blocks.release(tables[0])
    assert (blocks.num_free, blocks.match(BlockTable(), range(5), ())) == (8, 4)


def test_without_the_cache_nothing_is_found():
    blocks = build(cache=False)
    fill(blocks, range(10))
    assert blocks.match(BlockTable(), range(10), ()) == 0


def test_a_shared_block_is_spilled_once_and_restored_without_a_copy():
    blocks = build(host=5)
    first, second = fill(blocks, range(10)), fill(blocks, [*range(8), 50])
    assert len(blocks.spill(first).pairs) == 3
    move = blocks.spill(second)
    assert (move.to_host, len(move.pairs), blocks.num_host_used, blocks.num_used) == (True, 1, 4, 0)
    blocks.release(second)
    assert blocks.num_host_used == 3
    move = blocks.restore(first)
    assert (move.to_host, len(move.pairs)) == (False, 1)  # the two full ones were still on the device
    assert blocks.num_host_used == 0


def test_a_restored_block_is_found_again():
    blocks = build(4, host=4)
    table = fill(blocks, range(8))
    blocks.spill(table)
    other = BlockTable()
    blocks.grow(other, 16)
    assert blocks.restore(table) is None
    blocks.release(other)
    assert len(blocks.restore(table).pairs) == 2
    assert blocks.match(BlockTable(), range(9), ()) == 8


def test_spilling_without_room_changes_nothing():
    blocks = build(host=1)
    table = fill(blocks, range(8))
    assert blocks.spill(table) is None
    assert (len(table.blocks), table.host_blocks, blocks.num_host_used) == (2, [], 0)


def test_a_cut_copies_into_fresh_blocks_and_leaves_shared_ones_alone():
    blocks = build(12)
    first, second = fill(blocks, range(14)), fill(blocks, [*range(8), *range(50, 56)])
    old = list(second.blocks)
    plan = blocks.cut(second, prefix_len=6, gap_len=1, tail_start=9, num_computed=14)
    assert second.blocks[0] == old[0]
    assert set(second.blocks[1:]).isdisjoint(old + first.blocks)
    assert plan.shifts == (0, 0, -2, -2, -2, -2, -2)
    assert plan.sources == tuple(old[at // 4] * 4 + at % 4 for at in (4, 5, 9, 10, 11, 12, 13))
    assert plan.destinations == tuple(blocks.kv_index(second, at) for at in (4, 5, 7, 8, 9, 10, 11))
    blocks.record(second, range(12), (), 12)
    assert (len(second.hashes), second.shareable_tokens) == (1, 4)
    blocks.cut(second, prefix_len=9, gap_len=0, tail_start=10, num_computed=10)
    assert second.shareable_tokens == 4


def test_a_cut_without_room_changes_nothing():
    blocks = build(4)
    table = fill(blocks, range(16))
    before = list(table.blocks)
    assert blocks.cut(table, prefix_len=1, gap_len=0, tail_start=2, num_computed=16) is None
    assert (table.blocks, table.shareable_tokens) == (before, None)


@pytest.mark.parametrize("bad", [(0, 4, 0), (1, 0, 0), (1, 4, -1)])
def test_impossible_sizes_are_refused(bad):
    with pytest.raises(ConfigError, match="KV cache"):
        BlockManager(bad[0], block_size=bad[1], num_host_blocks=bad[2])


@pytest.mark.parametrize("seed", range(8))
def test_random_operations_share_only_equal_content_and_lose_nothing(seed):
    chance = random.Random(seed)
    blocks = build(24, host=10, cache=bool(seed % 4))
    tables, content = [], {}
    for _ in range(1500):
        action = chance.choice(["new", "release", "spill", "restore", "grow"])
        if action == "new":
            ids = [chance.randrange(2) for _ in range(chance.randrange(1, 20))]
            table = BlockTable()
            num_cached = blocks.match(table, ids, ())
            if not blocks.grow(table, len(ids)):
                blocks.release(table)
                continue
            for position in range(num_cached):
                assert content[blocks.kv_index(table, position)] == tuple(ids[: position + 1])
            for position in range(num_cached, len(ids)):
                content[blocks.kv_index(table, position)] = tuple(ids[: position + 1])
            blocks.record(table, ids, (), len(ids))
            tables.append((table, ids))
        elif tables:
            index = chance.randrange(len(tables))
            table, ids = tables[index]
            if action == "release":
                blocks.release(table)
                del tables[index]
            elif action == "spill" and table.blocks:
                for block, host in getattr(blocks.spill(table), "pairs", ()):
                    for offset in range(4):
                        content["host", host, offset] = content.get(block * 4 + offset)
            elif action == "restore" and table.host_blocks:
                for block, host in getattr(blocks.restore(table), "pairs", ()):
                    for offset in range(4):
                        content[block * 4 + offset] = content["host", host, offset]
            if table.blocks:
                for position in range(len(ids)):
                    assert content[blocks.kv_index(table, position)] == tuple(ids[: position + 1])
        held = [block for table, _ in tables for block in table.blocks]
        host = [block for table, _ in tables for block in table.host_blocks]
        assert blocks._refs == [held.count(block) for block in range(24)]
        assert blocks._host_refs == [host.count(block) for block in range(10)]
        assert (blocks.num_used, blocks.num_host_used) == (len(set(held)), len(set(host)))
    for table, _ in tables:
        blocks.release(table)
    assert (blocks.num_free, blocks.num_host_used) == (24, 0)
