from dataclasses import replace

import torch

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.engine.block_table import BlockMove, CutPlan
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.paged_cache import PagedCache
from antiphon.layers.rope import Rope, rotate


def make_cache() -> PagedCache:
    config = replace(shipped_model_config().llm, num_layers=3, num_kv_heads=2, head_dim=8)
    cache = PagedCache(
        config,
        num_kv_heads=2,
        num_blocks=6,
        block_size=4,
        num_host_blocks=100,
        rope=Rope(8, 10_000.0),
        dtype=torch.float32,
        stream=DeviceStream(torch.device("cpu")),
    )
    cache.pages.normal_(generator=torch.Generator().manual_seed(0))
    return cache


def test_what_goes_to_the_host_comes_back_in_other_blocks() -> None:
    cache = make_cache()
    before = cache.pages.clone()
    cache.move([BlockMove(True, ((1, 90), (4, 3)))])
    cache.pages.zero_()
    cache.move([BlockMove(False, ((0, 3), (5, 90)))])
    assert torch.equal(cache.pages[:, :, [0, 5]], before[:, :, [4, 1]])
    assert not cache.pages[:, :, [1, 2, 3, 4]].any()


def test_a_move_larger_than_the_staging_is_done_in_parts() -> None:
    cache = make_cache()
    pairs = tuple((block, 10 + block) for block in range(6)) * 15
    cache.move([BlockMove(True, pairs)])
    assert torch.equal(cache.host_pages[12], cache.pages[:, :, 2])


def test_a_cut_turns_keys_and_copies_values() -> None:
    cache = make_cache()
    before = cache.pages.flatten(2, 3).clone()
    cache.cut(CutPlan(sources=(3, 9, 10), destinations=(12, 13, 3), shifts=(0, -5, 4)))
    after = cache.pages.flatten(2, 3)
    cos, sin = Rope(8, 10_000.0).cos_sin(torch.tensor([0, -5, 4]))
    for layer in range(3):
        torch.testing.assert_close(after[layer, 0, [12, 13, 3]], rotate(before[layer, 0, [3, 9, 10]], cos, sin))
    assert torch.equal(after[:, 1, [12, 13, 3]], before[:, 1, [3, 9, 10]])
    untouched = [place for place in range(28) if place not in (12, 13, 3)]
    assert torch.equal(after[:, :, untouched], before[:, :, untouched])


def test_an_empty_cut_changes_nothing() -> None:
    cache = make_cache()
    before = cache.pages.clone()
    cache.cut(CutPlan())
    assert torch.equal(cache.pages, before)
