"""The Talker's weights, caches and row states on the device, and the pieces that every launch is made of."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from antiphon.engine.counters import Counters
from antiphon.engine.settings import TalkerSettings
from antiphon.engine.talker_job import TalkerModel
from antiphon.engine.talker_record import draw_and_record
from antiphon.engine.talker_rows import IDLE_RULES, idle_columns
from antiphon.layers.code_rows import NUM_COLUMNS
from antiphon.layers.code_sampling import load_sampler
from antiphon.layers.few_rows import load_few_rows
from antiphon.layers.slot_attention import (
    DecodeTwin,
    ExtendTwin,
    Extension,
    KernelAttends,
    SlotTokens,
    load_kernels,
)
from antiphon.layers.slot_cache import HeadSizes, SlotCache
from antiphon.layers.stacked_decoder import StackedAttend, StackedDecoder


class TalkerDevice:
    """Slots and what they hold.

    Attributes:
        ints: state of all slots, [S + 1, NUM_COLUMNS] int64; the last row is for padding and always done.
        rules: the same for temperature, penalty and tail, [S + 1, 3] float32.
        batches: the numbers of rows that launches are padded to.
        prompt_sizes: the numbers of prompt tokens that launches are padded to; above them nothing is captured.
    """

    def __init__(
        self,
        model: TalkerModel,
        settings: TalkerSettings,
        *,
        device: torch.device,
        dtype: torch.dtype,
        counters: Counters,
    ) -> None:
        config = model.config
        self.model, self.config, self.counters = model, config, counters
        self.device, self.dtype = device, dtype
        self.max_positions = min(settings.max_positions, config.decoder.max_positions)
        self.batches = sorted({*(b for b in settings.graph_batches if b < settings.num_slots), settings.num_slots})
        self.max_top_k = min(settings.max_top_k, config.num_codec_ids)
        self._decoder = StackedDecoder(model.model, device=device)
        head = model.head_code[0]
        assert isinstance(head, nn.Linear)
        self._head = head.weight.detach()
        heads = HeadSizes(config.decoder.num_heads, config.decoder.num_kv_heads, config.decoder.head_dim)
        self.cache = SlotCache(
            config.decoder.num_layers, settings.num_slots, self.max_positions, heads, device=device, dtype=dtype
        )
        self._cos, self._sin = self._decoder.rope.cos_sin(torch.arange(self.max_positions, device=device))
        idle = idle_columns(self.cache.scratch_slot)[:NUM_COLUMNS]
        self.ints = torch.tensor([idle] * (settings.num_slots + 1), device=device)
        self.rules = torch.tensor([IDLE_RULES] * (settings.num_slots + 1), device=device)
        self._kernels: KernelAttends | None = None
        reason = "switched off" if not settings.use_triton else "no CUDA device" if device.type != "cuda" else ""
        if not reason:
            self._kernels = load_kernels(self.cache, max(self.batches[-1], *settings.prefill_tokens))
            reason = "" if self._kernels else "Triton is not installed"
        self._sample = load_sampler() if self._kernels else None
        if self._kernels and settings.use_fused_products:
            self._decoder.few_rows = load_few_rows(config.decoder.hidden_size, device=device)
        self.prompt_sizes = sorted(settings.prefill_tokens) if self._kernels else []
        self._no_kernel_reason = reason

    def batch_size(self, num_rows: int) -> int:
        """What *num_rows* rows are padded to."""
        return next(size for size in self.batches if size >= num_rows)

    def num_candidates(self, max_top_k: int) -> int:
        """Scores that the filters sort: as captured, or for a larger top-k all of them."""
        return self.max_top_k if max_top_k <= self.max_top_k else self.config.num_codec_ids

    def tokens_at(self, slots: Tensor, places: Tensor, positions: Tensor) -> SlotTokens:
        """Tokens of *slots* at cache entries *places* and at *positions*, each [T] int64."""
        return SlotTokens(slots, places.contiguous(), self._cos[positions], self._sin[positions])

    def decode(self, embeds: Tensor, tokens: SlotTokens, *, span: int) -> Tensor:
        """One token for each row: final-norm hidden [B, H] of *embeds* [B, H]."""
        attend: StackedAttend
        attend = self._kernels.decode(tokens) if self._kernels else DecodeTwin(self.cache, tokens, span=span)
        return self._decoder.forward(embeds, attend)

    def extend(self, embeds: Tensor, tokens: SlotTokens, extensions: Sequence[Extension]) -> Tensor:
        """Several tokens for each slot: final-norm hidden [T, H] of *embeds* [T, H]."""
        attend: StackedAttend
        if self._kernels and len(embeds) in self.prompt_sizes:
            attend = self._kernels.extend(tokens)
        else:
            attend = ExtendTwin(self.cache, tokens, extensions)
        return self._decoder.forward(embeds, attend)

    def draw(
        self, hidden: Tensor, rows: Tensor, rules: Tensor, out: Tensor, *, num_candidates: int, has_fed: bool
    ) -> None:
        """Score final-norm *hidden* [B, H] and draw into *out* [B]; arguments as of `draw_and_record`."""
        logits = linear(hidden, self._head)
        if self._sample and num_candidates == self.max_top_k:
            self._sample(logits, rows, rules, out, has_fed=has_fed)
        else:
            drawn = draw_and_record(logits.float(), rows, rules, num_candidates=num_candidates, has_fed=has_fed)
            out.copy_(drawn)

    def count_launch(self) -> None:
        """Note which attention a decode launch used."""
        if self._kernels:
            self.counters.use("talker_triton")
        else:
            self.counters.fall_back("talker_triton", self._no_kernel_reason)
        if self._decoder.few_rows is not None:
            self.counters.use("fused_products")
        else:
            self.counters.fall_back("fused_products", self._no_kernel_reason or "switched off")
