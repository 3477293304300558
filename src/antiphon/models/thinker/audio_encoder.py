"""The whisper-style audio encoder: whole clips with a block mask, or a stream with a key/value cache.

Specification, sections 2.6 and 2.7.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, scaled_dot_product_attention

from antiphon.config.checkpoint import AudioConfig
from antiphon.core.errors import MediaError
from antiphon.layers.audio_slots import STREAM_MEL_FRAMES, UNIT_FRAMES
from antiphon.layers.kv_cache import KVCache

_CONV_FRAMES_PER_S = 50  # mel frames of 10 ms, halved by the second convolution


def conv_frames(mel_frames: int) -> int:
    """Frames the convolutions make of *mel_frames*."""
    return (mel_frames - 1) // 2 + 1


class AudioStreamState:
    """Keys and values of one stream's frames so far. Invariant: never more frames than the encoder has positions."""

    def __init__(self, num_layers: int) -> None:
        self.cache = KVCache(num_layers)

    def __len__(self) -> int:
        """Frames in the cache."""
        return len(self.cache)

    def reset(self) -> None:
        self.cache.clear()


class AudioAttend(Protocol):
    """Mixes values for queries, keys and values [B, T, H, D] of layer number *layer*: [B, T, H, D]."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor: ...


class ClipAttend:
    """Within whole clips. *mask*: see `AudioEncoder._offline_mask`."""

    def __init__(self, mask: Tensor | None) -> None:
        self.mask = mask

    def __call__(self, _layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _attend(q, k, v, self.mask)


class StreamAttend:
    """One stream, B = 1: its new frames attend to each other and to all that are in its cache."""

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.cache.append(layer, k[0], v[0])
        return _attend(q, keys.transpose(0, 1)[None], values.transpose(0, 1)[None], None)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


class AudioAttention(nn.Module):
    """Multi-head attention; the key projection has no bias."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.num_heads = config.num_heads
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden)
        self.out_proj = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor, layer: int, attend: AudioAttend) -> Tensor:
        """x [B, T, hidden]."""
        batch, length, hidden = x.shape
        heads = (batch, length, self.num_heads, hidden // self.num_heads)
        mixed = attend(layer, self.q_proj(x).view(heads), self.k_proj(x).view(heads), self.v_proj(x).view(heads))
        out: Tensor = self.out_proj(mixed.flatten(2))
        return out


class AudioLayer(nn.Module):
    """One pre-norm block."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.self_attn_layer_norm = nn.LayerNorm(config.hidden_size)
        self.self_attn = AudioAttention(config)
        self.final_layer_norm = nn.LayerNorm(config.hidden_size)
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor, layer: int, attend: AudioAttend) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), layer, attend)
        out: Tensor = x + self.fc2(gelu(self.fc1(self.final_layer_norm(x))))
        return out


class AudioEncoder(nn.Module):
    """`apm`: log-mel to one state per 20 ms, after the last norm."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.config = config
        self.conv1 = nn.Conv1d(config.num_mel_bins, config.hidden_size, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(config.hidden_size, config.hidden_size, kernel_size=3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(config.max_positions, config.hidden_size)
        self.layers = nn.ModuleList(AudioLayer(config) for _ in range(config.num_layers))
        self.layer_norm = nn.LayerNorm(config.hidden_size)

    def forward(self, mels: Sequence[Tensor], *, block_mask: bool) -> Tensor:
        """Whole clips [num_mel_bins, n] as one batch, zero-padded to the longest → [B, frames, hidden].

        *block_mask*: a frame attends to its own block of `chunk_s` seconds and to earlier ones, else to all.
        """
        longest = max(mel.shape[1] for mel in mels)
        batch = torch.stack([pad(mel.to(self.conv1.weight), (0, longest - mel.shape[1])) for mel in mels])
        x = self.convolve(batch)
        if x.shape[1] > self.config.max_positions:
            raise MediaError(
                f"an audio clip of {longest} mel frames does not fit the encoder's {self.config.max_positions}"
                " positions; cut it into pieces"
            )
        mask = self._offline_mask([mel.shape[1] for mel in mels], x.shape[1], block_mask, x.device)
        return self._run(x, self.embed_positions.weight[: x.shape[1]], ClipAttend(mask))

    def step(self, mel: Tensor, state: AudioStreamState, *, trim_front: int, trim_end: int) -> Tensor:
        """One more chunk of a stream, [num_mel_bins, n] → [frames, hidden]; *state* changes in place.

        *trim_front* and *trim_end* count frames after the convolutions: context that only they saw.
        """
        x = self.convolve(mel.to(self.conv1.weight)[None])
        # The reference counts the frames before it trims them, so a duplex stream starts afresh in its 30th second.
        if len(state) + x.shape[1] >= self.config.max_positions:
            state.reset()
        x = x[:, trim_front : x.shape[1] - trim_end]
        positions = self.embed_positions.weight[len(state) : len(state) + x.shape[1]]
        return self._run(x, positions, StreamAttend(state.cache))[0]

    def step_units(self, mel: Tensor, is_first: Tensor, lengths: Tensor, attend: AudioAttend) -> Tensor:
        """One unit of each of several streams: what `step` gives for them one by one.

        Args:
            mel: [B, num_mel_bins, STREAM_MEL_FRAMES]; a stream's first unit has two frames less, and zeros in front.
            is_first: [B] bool, the stream's first unit.
            lengths: [B] int64, frames of the stream so far, and so the position of its next one.
            attend: keeps the streams' caches.

        Returns:
            [B, UNIT_FRAMES, hidden]
        """
        x = gelu(self.conv1(mel.to(self.conv1.weight)))
        # The second convolution must see zeros in front of a first unit, not what the first made of them.
        is_padding = torch.arange(STREAM_MEL_FRAMES, device=x.device) < STREAM_MEL_FRAMES - 2 * UNIT_FRAMES - 2
        x = x.masked_fill((is_first[:, None] & is_padding)[:, None], 0.0)
        x = gelu(self.conv2(x)).transpose(1, 2)[:, 1 : 1 + UNIT_FRAMES]
        places = lengths[:, None] + torch.arange(UNIT_FRAMES, device=x.device)
        return self._run(x, self.embed_positions.weight[places], attend)

    def convolve(self, mel: Tensor) -> Tensor:
        """[B, num_mel_bins, n] → [B, conv_frames(n), hidden], before positions."""
        return gelu(self.conv2(gelu(self.conv1(mel)))).transpose(1, 2)

    def _run(self, x: Tensor, positions: Tensor, attend: AudioAttend) -> Tensor:
        x = x + positions
        for index, layer in enumerate(self.layers):
            x = layer(x, index, attend)
        out: Tensor = self.layer_norm(x)
        return out

    def _offline_mask(
        self, mel_frames: Sequence[int], num_frames: int, block_mask: bool, device: torch.device
    ) -> Tensor | None:
        """Which key each query may see: bool, broadcastable to [B, H, frames, frames]; None when it is all of them.

        Quirk of the reference: padding is told by comparing a frame after the convolutions with the length in mel
        frames (twice as many), so padded frames stay visible in a batch of unequal lengths.
        """
        block_frames = int(self.config.chunk_s * _CONV_FRAMES_PER_S)
        keys = torch.arange(num_frames, device=device)
        mask: Tensor | None = None
        if min(mel_frames) < num_frames:
            mask = (keys < torch.tensor(mel_frames, device=device)[:, None])[:, None, None, :]
        if block_mask and block_frames > 0 and num_frames > block_frames:
            ends = (keys // block_frames + 1) * block_frames
            blocks = keys[None, :] < ends[:, None]
            mask = blocks if mask is None else blocks & mask
        return mask
