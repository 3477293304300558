"""Launches of several decode steps for a batch of slots, captured whole: embed, layers, head, sampler, bookkeeping."""

from collections.abc import Sequence

import torch

from antiphon.engine.graph_cache import GraphCache
from antiphon.engine.staging import Download, Upload
from antiphon.engine.talker_device import TalkerDevice
from antiphon.layers.code_rows import Column


class WindowLauncher:
    """One window at a time: its buffers are in use until the fence behind it has passed."""

    def __init__(self, device: TalkerDevice, graphs: GraphCache, lengths: Sequence[int]) -> None:
        self._device, self._graphs = device, graphs
        self._lengths = sorted(lengths)
        most = device.batches[-1]
        self._slots = Upload(most, device=device.device, dtype=torch.int64)
        self._drawn = Download(most, self._lengths[-1], device=device.device, dtype=torch.int64)
        self._slots.device.fill_(device.cache.scratch_slot)

    def prepare(self, num_rows: int, num_steps: int) -> None:
        """Capture windows of this size. The rows are padding while it runs."""
        device = self._device
        self._slots.device.fill_(device.cache.scratch_slot)
        candidates = device.num_candidates(0)
        self._graphs.prepare(
            ("window", num_rows, num_steps, candidates),
            lambda: self._run(num_rows, num_steps, candidates, device.max_positions),
        )

    def launch(self, slots: Sequence[int], num_steps: int, *, longest: int, max_top_k: int) -> None:
        """Queue *num_steps* steps of *slots*; must be called inside `stream.active()`.

        Args:
            slots: the rows.
            num_steps: steps of each; a row that ends earlier idles.
            longest: cache entries of the longest row now.
            max_top_k: the largest of the rows.
        """
        device = self._device
        num_rows = device.batch_size(len(slots))
        self._slots.send([[*slots, *[device.cache.scratch_slot] * (num_rows - len(slots))]])
        candidates = device.num_candidates(max_top_k)
        span = min(longest + num_steps, device.max_positions)
        key = ("window", num_rows, num_steps, candidates)
        self._graphs.run(key, lambda: self._run(num_rows, num_steps, candidates, span))
        self._drawn.fetch()
        device.count_launch()

    def read(self, num_rows: int, num_steps: int) -> list[list[int]]:
        """What the window drew, row by row; its fence must have passed."""
        return self._drawn.read(num_rows, num_steps)

    def _run(self, num_rows: int, num_steps: int, num_candidates: int, span: int) -> None:
        device = self._device
        slots = self._slots.view(num_rows)
        rows, rules = device.ints[slots], device.rules[slots]
        for step in range(num_steps):
            embeds = device.model.emb_code[0](rows[:, Column.CODE])
            tokens = device.tokens_at(slots, rows[:, Column.LENGTH], rows[:, Column.POSITION])
            hidden = device.decode(embeds, tokens, span=span)
            out = self._drawn.device[:num_rows, step]
            device.draw(hidden, rows, rules, out, num_candidates=num_candidates, has_fed=True)
        device.ints[slots] = rows  # padding rows are all the same, so it does not matter which of them is written last
