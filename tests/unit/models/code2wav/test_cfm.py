from math import cos, pi

import pytest
import torch

from antiphon.core.errors import CapacityError
from antiphon.models.code2wav.cfm import SolverCache, euler_steps, make_noise_table, time_grid
from antiphon.models.code2wav.code2wav import Code2Wav


def test_the_grid_is_a_quarter_cosine() -> None:
    torch.testing.assert_close(time_grid(5), torch.tensor([1 - cos(pi * k / 10) for k in range(6)]), atol=1e-6, rtol=0)


def test_steps_start_at_the_grids_points_and_end_at_one() -> None:
    times, lengths = euler_steps(time_grid(10))
    torch.testing.assert_close(times, time_grid(10)[:-1])
    assert float(times[-1]) + lengths[-1] == pytest.approx(1.0, abs=1e-6)


def test_the_noise_table_is_the_same_in_every_process() -> None:
    table = make_noise_table(4, num_frames=8)
    assert torch.equal(table, make_noise_table(4, num_frames=8))
    assert not torch.equal(table, make_noise_table(4, num_frames=8, seed=1))


def test_noise_columns_start_at_the_caches_length(code2wav: Code2Wav, noise: torch.Tensor) -> None:
    flow = code2wav.flow.decoder
    mu, cond, speaker = torch.zeros(1, 6, 5), torch.zeros(1, 6, 5), torch.zeros(1, 6)
    _, cache = flow.solve_chunk(mu, speaker, cond, noise, flow.empty_cache(2))
    ahead, _ = flow.solve_chunk(mu, speaker, cond, noise, cache)
    shifted = torch.cat((torch.zeros(1, 6, 5), noise[:, :, 5:10]), dim=2)
    again, _ = flow.solve_chunk(mu, speaker, cond, shifted, cache)
    assert torch.equal(ahead, again)


def test_speech_beyond_the_noise_table_is_refused(code2wav: Code2Wav, noise: torch.Tensor) -> None:
    mu = torch.zeros(1, 6, 401)
    with pytest.raises(CapacityError, match="401 mel frames"):
        code2wav.flow.decoder.solve(mu, torch.zeros(1, 6), mu, noise, 1)


def test_streams_of_a_batch_do_not_see_each_other(code2wav: Code2Wav, noise: torch.Tensor) -> None:
    flow = code2wav.flow.decoder
    mu, cond, speaker = torch.randn(2, 6, 7), torch.randn(2, 6, 7), torch.randn(2, 6)
    both, _ = flow.solve_chunk(mu, speaker, cond, noise, flow.empty_cache(3, 2))
    one, _ = flow.solve_chunk(mu[1:], speaker[1:], cond[1:], noise, flow.empty_cache(3))
    torch.testing.assert_close(both[1:], one)


def test_a_trimmed_cache_is_its_newest_entries_and_the_prompts_tail() -> None:
    entries = torch.arange(250.0).view(1, 1, 1, 1, -1, 1)
    trimmed = SolverCache(entries, entries, torch.zeros(1)).trimmed(60, 100)
    assert trimmed.keys.flatten().tolist() == [*range(60), *range(150, 250)]
    assert len(trimmed) == 160


def test_new_entries_stand_before_the_old_ones(code2wav: Code2Wav, noise: torch.Tensor) -> None:
    flow = code2wav.flow.decoder
    mu, speaker = torch.randn(1, 6, 4), torch.randn(1, 6)
    _, old = flow.solve_chunk(mu, speaker, mu, noise, flow.empty_cache(2))
    _, new = flow.solve_chunk(mu[:, :, :3], speaker, mu[:, :, :3], noise, old)
    assert len(new) == 7
    assert torch.equal(new.keys[:, :, :, :, 3:], old.keys)
    assert not torch.equal(new.values[0, 0, 0, :, :3], old.values[0, 0, 0, :, :3])
