"""The S3 speech tokenizer (v2, 25 Hz) in torch: log-mel of 128 bins to codec ids. For verification.

Voices go through its ONNX graph.

Model specification, section 4.2. Sub-module names are those of the PyTorch port.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, scaled_dot_product_attention

from antiphon.layers.rope import Rope

HEAD_DIM = 64
ROPE_THETA = 10_000.0
# tanh times this before rounding. A fork clamps instead; the codes differ when some |tanh| lies in (0.5, 0.5005).
FSQ_SCALE = 0.9990000128746033


@dataclass(frozen=True, kw_only=True)
class S3Config:
    """Sizes of one tokenizer; `from_shapes` reads them from its weights."""

    num_mel_bins: int
    size: int
    num_blocks: int
    inner_size: int
    memory_kernel: int
    num_digits: int

    @staticmethod
    def from_shapes(shapes: Mapping[str, tuple[int, ...]]) -> "S3Config":
        size, num_mel_bins, _ = shapes["encoder.conv1.weight"]
        num_blocks = 0
        while f"encoder.blocks.{num_blocks}.attn_ln.weight" in shapes:
            num_blocks += 1
        return S3Config(
            num_mel_bins=num_mel_bins,
            size=size,
            num_blocks=num_blocks,
            inner_size=shapes["encoder.blocks.0.mlp.0.weight"][0],
            memory_kernel=shapes["encoder.blocks.0.attn.fsmn_block.weight"][2],
            num_digits=shapes["quantizer._codebook.project_down.weight"][0],
        )


def conv_len(length: Tensor) -> Tensor:
    """Length after one convolution of kernel 3, stride 2, padding 1."""
    return (length - 1) // 2 + 1


class MemoryAttention(nn.Module):
    """Attention with RoPE, plus a depthwise convolution over the values (the FSMN memory)."""

    def __init__(self, config: S3Config) -> None:
        super().__init__()
        size = config.size
        self.num_heads, self.reach = size // HEAD_DIM, config.memory_kernel // 2
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size)
        self.out = nn.Linear(size, size)
        self.fsmn_block = nn.Conv1d(size, size, config.memory_kernel, groups=size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, is_real: Tensor) -> Tensor:
        """*x* [B, T, C]; angles [T, D]; *is_real* [B, T] bool marks what belongs to a clip."""
        q, k = _rotate(self._heads(self.query(x)), cos, sin), _rotate(self._heads(self.key(x)), cos, sin)
        v = self.value(x)
        mixed = scaled_dot_product_attention(q, k, self._heads(v), attn_mask=is_real[:, None, None, :])
        real = is_real[..., None].to(x.dtype)
        v = v * real
        memory = self.fsmn_block(pad(v.transpose(1, 2), (self.reach, self.reach))).transpose(1, 2) + v
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2)) + memory * real
        return out

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.num_heads, HEAD_DIM).transpose(1, 2)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, config: S3Config) -> None:
        super().__init__()
        size, inner = config.size, config.inner_size
        self.attn = MemoryAttention(config)
        self.attn_ln = nn.LayerNorm(size, eps=1e-5)
        self.mlp = nn.Sequential(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))
        self.mlp_ln = nn.LayerNorm(size, eps=1e-5)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, is_real: Tensor) -> Tensor:
        x = x + self.attn(self.attn_ln(x), cos, sin, is_real)
        out: Tensor = x + self.mlp(self.mlp_ln(x))
        return out


class S3Encoder(nn.Module):
    def __init__(self, config: S3Config) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(config.num_mel_bins, config.size, 3, stride=2, padding=1)
        self.conv2 = nn.Conv1d(config.size, config.size, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_blocks))
        self.rope = Rope(HEAD_DIM, ROPE_THETA)

    def forward(self, mel: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """*mel* [B, bins, T] with *length* [B] real frames each → hidden [B, T', C] at 25 Hz and its lengths [B]."""
        x = gelu(self.conv1(mel * _real(length, mel.shape[2])[:, None]))
        length = conv_len(length)
        x = gelu(self.conv2(x * _real(length, x.shape[2])[:, None])).transpose(1, 2)
        length = conv_len(length)
        is_real = _real(length, x.shape[1])
        cos, sin = self.rope.cos_sin(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x, cos, sin, is_real)
        return x, length


def _real(length: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=length.device) < length[:, None]


class Codebook(nn.Module):
    """Finite scalar quantisation: each channel becomes a digit of 0, 1, 2; the first is the least significant."""

    def __init__(self, config: S3Config) -> None:
        super().__init__()
        self.project_down = nn.Linear(config.size, config.num_digits)

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """*hidden* [B, T, C] → codec ids [B, T] int64, and what was rounded, before tanh, [B, T, digits]."""
        low: Tensor = self.project_down(hidden)
        digits = (torch.tanh(low) * FSQ_SCALE).round().long() + 1
        weights = 3 ** torch.arange(low.shape[-1], device=low.device)
        return (digits * weights).sum(dim=-1), low


class Quantizer(nn.Module):
    def __init__(self, config: S3Config) -> None:
        super().__init__()
        self._codebook = Codebook(config)

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        codes, low = self._codebook(hidden)
        return codes, low


class S3Tokenizer(nn.Module):
    """Log-mel to codec ids. A clip has the same ids alone and in a batch; ids behind a clip's end mean nothing."""

    def __init__(self, config: S3Config) -> None:
        super().__init__()
        self.encoder = S3Encoder(config)
        self.quantizer = Quantizer(config)

    def forward(self, mel: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """*mel* [B, bins, T], *length* [B] → codec ids [B, T'] int64 and their lengths [B]."""
        hidden, code_len = self.encoder(mel, length)
        codes, _ = self.quantizer(hidden)
        return codes, code_len
