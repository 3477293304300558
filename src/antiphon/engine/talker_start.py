"""Launches that start conditions: prompts of several slots are built from ids and Thinker rows, fed, and drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from antiphon.engine.graph_cache import GraphCache
from antiphon.engine.staging import Download, Upload
from antiphon.engine.talker_device import TalkerDevice
from antiphon.engine.talker_rows import (
    IDLE_RULES,
    LAST_COLUMN,
    NUM_START_COLUMNS,
    SLOT_COLUMN,
    Rules,
    idle_columns,
)
from antiphon.layers.code_rows import NUM_COLUMNS
from antiphon.layers.slot_attention import Extension


@dataclass(frozen=True)
class StartToken:
    """One token of a prompt: a text id, alone or with a Thinker row, or a code that is fed again.

    Attributes:
        place: its cache entry.
        is_normalised: its projected row is brought to length 1.
    """

    slot: int
    place: int
    position: int
    text_id: int = 0
    code: int = 0
    is_code: bool = False
    is_spoken: bool = False
    is_normalised: bool = False

    def columns(self) -> list[int]:
        flags = (int(self.is_code), int(self.is_spoken), int(self.is_normalised))
        return [self.slot, self.place, self.position, self.text_id, self.code, *flags]


_NUM_TOKEN_COLUMNS = 8


@dataclass(frozen=True)
class StartBatch:
    """Conditions of different slots that start together.

    Attributes:
        tokens: all prompts, one behind the other.
        extensions: where each of them lies among the tokens.
        hidden: blocks of Thinker rows, each with the token that its first row belongs to.
        rows: `start_columns` of each condition.
        rules: `rules_of` each condition's job.
    """

    tokens: Sequence[StartToken]
    extensions: Sequence[Extension]
    hidden: Sequence[tuple[int, Tensor]]
    rows: Sequence[Sequence[int]]
    rules: Sequence[Rules]


class StartLauncher:
    """One start at a time: its buffers are in use until the fence behind it has passed."""

    def __init__(self, device: TalkerDevice, graphs: GraphCache, max_tokens: int) -> None:
        self._device, self._graphs = device, graphs
        self.max_tokens = max(max_tokens, device.max_positions)
        most, place = device.batches[-1], device.device
        self._tokens = Upload(self.max_tokens * _NUM_TOKEN_COLUMNS, device=place, dtype=torch.int64)
        self._hidden = torch.zeros(self.max_tokens, device.config.llm_hidden_size, device=place, dtype=device.dtype)
        self._rows = Upload(most * NUM_START_COLUMNS, device=place, dtype=torch.int64)
        self._rules = Upload(most * len(IDLE_RULES), device=place, dtype=torch.float32)
        self._drawn = Download(most, 1, device=place, dtype=torch.int64)
        self._padding = StartToken(device.cache.scratch_slot, 0, 0)

    def prepare(self, num_rows: int, num_tokens: int) -> None:
        """Capture starts of this size, of padding only."""
        with self._graphs.stream.active():
            self._send(StartBatch((), (), (), (), ()), num_rows, num_tokens)
        candidates = self._device.num_candidates(0)
        self._graphs.prepare(
            ("start", num_rows, num_tokens, candidates), lambda: self._run(num_rows, num_tokens, candidates, ())
        )

    def launch(self, batch: StartBatch, *, max_top_k: int) -> None:
        """Queue the start of *batch*; must be called inside `stream.active()`."""
        device = self._device
        num_rows = device.batch_size(len(batch.rows))
        num_tokens = next((size for size in device.prompt_sizes if size >= len(batch.tokens)), len(batch.tokens))
        self._send(batch, num_rows, num_tokens)
        candidates = device.num_candidates(max_top_k)
        key = ("start", num_rows, num_tokens, candidates)
        self._graphs.run(key, lambda: self._run(num_rows, num_tokens, candidates, batch.extensions))
        self._drawn.fetch()

    def read(self, num_rows: int) -> list[int]:
        """The first codes drawn; the launch's fence must have passed."""
        return [drawn for (drawn,) in self._drawn.read(num_rows, 1)]

    def _send(self, batch: StartBatch, num_rows: int, num_tokens: int) -> None:
        tokens = [*batch.tokens, *[self._padding] * (num_tokens - len(batch.tokens))]
        self._tokens.send([*zip(*(token.columns() for token in tokens), strict=True)])
        for first, hidden in batch.hidden:
            self._hidden[first : first + len(hidden)].copy_(hidden, non_blocking=True)
        num_idle = num_rows - len(batch.rows)
        self._rows.send([*batch.rows, *[idle_columns(self._device.cache.scratch_slot)] * num_idle])
        self._rules.send([*batch.rules, *[IDLE_RULES] * num_idle])

    def _run(self, num_rows: int, num_tokens: int, num_candidates: int, extensions: Sequence[Extension]) -> None:
        device = self._device
        slots, places, positions, *content = self._tokens.view(_NUM_TOKEN_COLUMNS, num_tokens)
        embeds = self._embed(*content)
        hidden = device.extend(embeds, device.tokens_at(slots, places, positions), extensions)
        starts = self._rows.view(num_rows, NUM_START_COLUMNS)
        rows, rules = starts[:, :NUM_COLUMNS].clone(), self._rules.view(num_rows, len(IDLE_RULES))
        last = hidden[starts[:, LAST_COLUMN]]
        out = self._drawn.device[:num_rows, 0]
        device.draw(last, rows, rules, out, num_candidates=num_candidates, has_fed=False)
        row_slots = starts[:, SLOT_COLUMN]
        device.ints[row_slots] = rows
        device.rules[row_slots] = rules

    def _embed(
        self, text_ids: Tensor, codes: Tensor, is_code: Tensor, is_spoken: Tensor, is_normalised: Tensor
    ) -> Tensor:
        """Embeddings [T, H] of a launch's tokens (model specification, 3.1), each argument [T] int64."""
        model = self._device.model
        projected = model.projector_semantic(self._hidden[: len(text_ids)])
        projected = torch.where(is_normalised[:, None] != 0, normalize(projected, dim=-1), projected)
        text: Tensor = model.emb_text(text_ids)
        # Chosen, not multiplied: rows of former launches may be NaN.
        spoken = torch.where(is_spoken[:, None] != 0, text + projected, text)
        return torch.where(is_code[:, None] != 0, model.emb_code[0](codes), spoken)
