"""The flow's ODE: time grid, classifier-free guidance, Euler steps, and what each step of a stream remembers.

Model specification, section 4.5 (solver) and 4.6 (caches).
"""

from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from antiphon.config.checkpoint import DiTConfig
from antiphon.core.errors import CapacityError
from antiphon.models.code2wav.dit import DiT, FullAttend, Modulation, StreamAttend

NOISE_SEED = 20_250_425
NOISE_FRAMES = 30_000  # 600 s of mel


def make_noise_table(num_mel_bins: int = 80, *, seed: int = NOISE_SEED, num_frames: int = NOISE_FRAMES) -> Tensor:
    """The fixed start noise of the flow, [1, mel, num_frames] standard normal float32 on the CPU.

    The reference draws it unseeded at construction and no checkpoint holds it, so every process would sound a little
    different. Ours comes from `torch.Generator().manual_seed(NOISE_SEED)`; move it to the device once and share it
    between all streams.
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, num_mel_bins, num_frames, generator=generator)


def time_grid(num_steps: int) -> Tensor:
    """τ_k = 1 − cos(π k / 2N) for k = 0 … N: [N + 1] float32 on the CPU."""
    return 1 - torch.cos(torch.linspace(0, 1, num_steps + 1) * 0.5 * pi)


def euler_steps(grid: Tensor) -> tuple[Tensor, list[float]]:
    """Time and length of every step: [N] float32 and N numbers.

    Time is accumulated in float32 and each length is measured from the accumulated time, as in the reference.
    """
    t, dt = grid[0], grid[1] - grid[0]
    times, lengths = [], []
    for step in range(1, grid.shape[0]):
        times.append(t)
        lengths.append(float(dt))
        t = t + dt
        if step + 1 < grid.shape[0]:
            dt = grid[step + 1] - t
    return torch.stack(times), lengths


@dataclass(frozen=True)
class SolverCache:
    """What each of N Euler steps remembers of a stream; R = 2B rows, the conditional ones before the unconditional.

    Keys and values lie newest chunk first (frames inside a chunk in order). Attention has no positions, so the order
    matters only to the trimming rule.
    """

    keys: Tensor  # [N, depth, R, H, L, D]
    values: Tensor  # [N, depth, R, H, L, D]
    conv: Tensor  # [N, depth, R, 2 · hidden, 2]

    def __len__(self) -> int:
        """Mel frames remembered."""
        return self.keys.shape[4]

    @property
    def num_steps(self) -> int:
        return self.keys.shape[0]

    def trimmed(self, num_head: int, num_tail: int) -> "SolverCache":
        """Keep the first *num_head* and last *num_tail* entries: the newest frames and the tail of the prompt."""

        def cut(x: Tensor) -> Tensor:
            return torch.cat((x[:, :, :, :, :num_head], x[:, :, :, :, -num_tail:]), dim=4)

        return SolverCache(cut(self.keys), cut(self.values), self.conv)

    def clone(self) -> "SolverCache":
        return SolverCache(self.keys.clone(), self.values.clone(), self.conv.clone())


@dataclass(frozen=True)
class Schedule:
    """The steps of one solver run. It depends on their number alone, so one serves every chunk of every stream."""

    lengths: tuple[float, ...]  # N
    modulation: Modulation  # of N rows, one a step


class PrependAttend:
    """Attention of new frames over themselves and one step's past; writes new keys and values before the past ones.

    *keys* and *values* [depth, R, H, T + L, D] are the step's own storage with the past already at [T:].
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values

    def __call__(self, block: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        num_new = q.shape[2]
        keys, values = self.keys[block], self.values[block]
        keys[:, :, :num_new] = k
        values[:, :, :num_new] = v
        return scaled_dot_product_attention(q, keys, values)


class ConditionalFlow(nn.Module):
    """Solves the flow from noise to mel with guidance."""

    def __init__(self, config: DiTConfig, guidance: float) -> None:
        super().__init__()
        self.guidance = guidance
        self.estimator = DiT(config)

    def empty_cache(self, num_steps: int, num_streams: int = 1) -> SolverCache:
        config, rows = self.estimator.config, 2 * num_streams
        conv = self.estimator.empty_conv_past(rows)
        kv = conv.new_zeros(num_steps, config.depth, rows, config.num_heads, 0, config.head_dim)
        return SolverCache(kv, kv.clone(), conv[None].repeat(num_steps, 1, 1, 1, 1))

    def schedule(self, num_steps: int) -> Schedule:
        """The steps' lengths and the modulation of every block at each of them."""
        times, lengths = euler_steps(time_grid(num_steps))
        modulation = self.estimator.modulation(times.to(self.estimator.in_proj.weight.device))
        return Schedule(tuple(lengths), modulation)

    def solve(self, mu: Tensor, speaker: Tensor, cond: Tensor, noise: Tensor, num_steps: int) -> Tensor:
        """Solve a whole utterance. *mu*, *cond* [B, mel, T]; *speaker* [B, mel]; *noise* the table [1, mel, n].

        → [B, mel, T].
        """
        rows = _guided(mu, speaker, cond)
        schedule = self.schedule(num_steps)
        conv_past = self.estimator.empty_conv_past(rows[0].shape[0])
        x = _start(noise, 0, mu)
        for step, length in enumerate(schedule.lengths):
            modulation = schedule.modulation.row(step)
            velocity, _ = self.estimator(torch.cat((x, x)), *rows, modulation, FullAttend(), conv_past)
            x = x + length * self._mix(velocity)
        return x

    def solve_chunk(
        self,
        mu: Tensor,
        speaker: Tensor,
        cond: Tensor,
        noise: Tensor,
        cache: SolverCache,
        schedule: Schedule | None = None,
    ) -> tuple[Tensor, SolverCache]:
        """Solve the next T frames of streams with a past; arguments as for `solve`.

        The number of steps is the cache's; *schedule* is what `schedule` gave for it, and saves its computation.
        Trap: the noise columns start at the *current cache length*, so once the cache is being trimmed all chunks start
        from the same noise.
        """
        rows = _guided(mu, speaker, cond)
        if schedule is None:
            schedule = self.schedule(cache.num_steps)
        num_new = mu.shape[2]
        keys, values = _room_before(cache.keys, num_new), _room_before(cache.values, num_new)
        conv = torch.empty_like(cache.conv)
        x = _start(noise, len(cache), mu)
        for step, length in enumerate(schedule.lengths):
            attend: StreamAttend = PrependAttend(keys[step], values[step])
            modulation = schedule.modulation.row(step)
            velocity, conv[step] = self.estimator(torch.cat((x, x)), *rows, modulation, attend, cache.conv[step])
            x = x + length * self._mix(velocity)
        return x, SolverCache(keys, values, conv)

    def _mix(self, velocity: Tensor) -> Tensor:
        conditional, unconditional = velocity.chunk(2)
        return (1.0 + self.guidance) * conditional - self.guidance * unconditional


def _guided(mu: Tensor, speaker: Tensor, cond: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Append the unconditional rows: encoder output, speaker *and* known mel are zero there."""
    return (
        torch.cat((mu, torch.zeros_like(mu))),
        torch.cat((speaker, torch.zeros_like(speaker))),
        torch.cat((cond, torch.zeros_like(cond))),
    )


def _start(noise: Tensor, offset: int, like: Tensor) -> Tensor:
    """Columns [offset, offset + T) of the noise table, the same for every stream: [B, mel, T]."""
    num_streams, _, num_frames = like.shape
    if offset + num_frames > noise.shape[2]:
        raise CapacityError(
            f"code2wav: {offset + num_frames} mel frames in one piece, the noise table holds {noise.shape[2]}; "
            "synthesise the speech in several pieces"
        )
    return noise[:, :, offset : offset + num_frames].to(like.dtype).expand(num_streams, -1, -1)


def _room_before(past: Tensor, num_new: int) -> Tensor:
    """A private copy of *past* [N, depth, R, H, L, D] with room for *num_new* entries before it."""
    *front, length, size = past.shape
    buffer = past.new_empty(*front, num_new + length, size)
    buffer[..., num_new:, :] = past
    return buffer
