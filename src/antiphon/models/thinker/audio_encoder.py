"""The whisper-style audio encoder: whole clips with a block mask, or a stream with a key/value cache.

Specification, sections 2.6 and 2.7.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, scaled_dot_product_attention

from antiphon.config.checkpoint import AudioConfig
from antiphon.core.errors import MediaError
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

    def forward(self, x: Tensor, mask: Tensor | None, layer: int, cache: KVCache | None) -> Tensor:
        """x [B, T, hidden]; with a cache B is 1 and all its frames are attended to as well."""
        batch, length, hidden = x.shape
        heads = (batch, length, self.num_heads, hidden // self.num_heads)
        q = self.q_proj(x).view(heads).transpose(1, 2)
        k = self.k_proj(x).view(heads)
        v = self.v_proj(x).view(heads)
        if cache is None:
            k, v = k.transpose(1, 2), v.transpose(1, 2)
        else:
            keys, values = cache.append(layer, k[0], v[0])
            k, v = keys[None], values[None]
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
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

    def forward(self, x: Tensor, mask: Tensor | None, layer: int, cache: KVCache | None) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), mask, layer, cache)
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
        return self._run(x, 0, mask, None)

    def step(self, mel: Tensor, state: AudioStreamState, *, trim_front: int, trim_end: int) -> Tensor:
        """One more chunk of a stream, [num_mel_bins, n] → [frames, hidden]; *state* changes in place.

        *trim_front* and *trim_end* count frames after the convolutions: context that only they saw.
        """
        x = self.convolve(mel.to(self.conv1.weight)[None])
        # The reference counts the frames before it trims them, so a duplex stream starts afresh in its 30th second.
        if len(state) + x.shape[1] >= self.config.max_positions:
            state.reset()
        x = x[:, trim_front : x.shape[1] - trim_end]
        return self._run(x, len(state), None, state.cache)[0]

    def convolve(self, mel: Tensor) -> Tensor:
        """[B, num_mel_bins, n] → [B, conv_frames(n), hidden], before positions."""
        return gelu(self.conv2(gelu(self.conv1(mel)))).transpose(1, 2)

    def _run(self, x: Tensor, start: int, mask: Tensor | None, cache: KVCache | None) -> Tensor:
        x = x + self.embed_positions.weight[start : start + x.shape[1]]
        for index, layer in enumerate(self.layers):
            x = layer(x, mask, index, cache)
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
