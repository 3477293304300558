"""Rotary position embedding, half-split layout, angles in float32."""

import torch
from torch import Tensor


class Rope:
    """Angles for one head size and base. `inv_freq` is float32 whatever the model's dtype."""

    def __init__(self, head_dim: int, theta: float) -> None:
        self.head_dim = head_dim
        self.inv_freq = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim)

    def cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine of *positions* [T], each [T, D] float32 on the device of *positions*."""
        if self.inv_freq.device != positions.device:
            self.inv_freq = self.inv_freq.to(positions.device)
        angles = positions.to(torch.float32)[:, None] * self.inv_freq[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate *x* [T, H, D] by the angles [T, D]; computed in the dtype of *x*, as the reference does."""
    cos, sin = cos[:, None, :].to(x.dtype), sin[:, None, :].to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
