"""The pre-norm decoder stack that the Thinker (Qwen3) and the Talker (Llama) share."""

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from antiphon.config.checkpoint import DecoderConfig
from antiphon.layers.kv_cache import Attend
from antiphon.layers.rope import Rope, rotate


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension; variance in float32, weight applied after the cast back."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class Attention(nn.Module):
    """Projections, optional per-head q/k norms, RoPE; what is attended to is the caller's `Attend`."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        hidden, head_dim = config.hidden_size, config.head_dim
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden, config.num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, config.num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, config.num_kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(config.num_heads * head_dim, hidden, bias=False)
        self.q_norm = RMSNorm(head_dim, config.rms_norm_eps) if config.has_qk_norm else None
        self.k_norm = RMSNorm(head_dim, config.rms_norm_eps) if config.has_qk_norm else None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, layer: int, attend: Attend) -> Tensor:
        num_tokens = x.shape[0]
        q = self.q_proj(x).view(num_tokens, -1, self.head_dim)
        k = self.k_proj(x).view(num_tokens, -1, self.head_dim)
        v = self.v_proj(x).view(num_tokens, -1, self.head_dim)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        mixed = attend(layer, rotate(q, cos, sin), rotate(k, cos, sin), v)
        out: Tensor = self.o_proj(mixed.reshape(num_tokens, -1))
        return out


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class DecoderLayer(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, layer: int, attend: Attend) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, layer, attend)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """Embedded tokens in, final-norm hidden states out. Sub-module names are the checkpoint's.

    The model never knows where keys and values live: `attend` does.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rope = Rope(config.head_dim, config.rope_theta)

    def forward(self, embeds: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Run the stack over *embeds* [T, hidden] at *positions* [T] int64; returns final-norm hidden [T, hidden]."""
        cos, sin = self.rope.cos_sin(positions)
        x = embeds
        for index, layer in enumerate(self.layers):
            x = layer(x, cos, sin, index, attend)
        out: Tensor = self.norm(x)
        return out
