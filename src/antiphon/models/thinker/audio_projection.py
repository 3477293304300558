"""Audio encoder states to rows of the language model's input: project first, then average over time."""

from torch import Tensor, nn
from torch.nn.functional import relu


class AudioProjection(nn.Module):
    """`audio_projection_layer`, with the pooling that follows it. The ReLU makes the order matter."""

    def __init__(self, audio_size: int, hidden_size: int, pool_step: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(audio_size, hidden_size)
        self.linear2 = nn.Linear(hidden_size, hidden_size)
        self.pool_step = pool_step

    def rows(self, num_frames: int) -> int:
        """Rows that come out of *num_frames* encoder states."""
        return num_frames // self.pool_step

    def project(self, x: Tensor) -> Tensor:
        """[..., audio] → [..., hidden]."""
        out: Tensor = self.linear2(relu(self.linear1(x)))
        return out

    def forward(self, x: Tensor) -> Tensor:
        """[..., T, audio] → [..., T // pool_step, hidden]; states that fill no whole step are dropped."""
        num_rows = self.rows(x.shape[-2])
        projected = self.project(x[..., : num_rows * self.pool_step, :])
        return projected.view(*x.shape[:-2], num_rows, self.pool_step, projected.shape[-1]).mean(-2)
