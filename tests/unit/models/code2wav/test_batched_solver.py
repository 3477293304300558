"""The solver through interpreted kernels against the solver through their torch twins."""

import importlib
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from antiphon.engine.code2wav_positions import StreamPositions
from antiphon.layers.flow_kernels import FlowKernels, load_flow_kernels
from antiphon.layers.flow_rows import RowLayout
from antiphon.layers.kernels import has_triton
from antiphon.layers.speech_shapes import FlowCapacity
from antiphon.models.code2wav.batched.solver import BatchedSolver
from antiphon.models.code2wav.batched.state import FlowState
from antiphon.models.code2wav.code2wav import Code2Wav

CAPACITY = FlowCapacity(max_prompt_frames=20, num_tail_frames=10, max_chunk_codes=7, num_slots=3)
NUM_STEPS = 2


@pytest.fixture(scope="module")
def kernels() -> Iterator[FlowKernels]:
    if not has_triton():
        pytest.skip("Triton is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        modules = [
            importlib.reload(importlib.import_module(f"antiphon.layers.kernels.{name}"))
            for name in ("flow_norms", "flow_attention")
        ]
        found = load_flow_kernels()
        assert found is not None
        yield found
    for module in modules:
        importlib.reload(module)


def fill_prompt(state: FlowState, num_frames: int) -> None:
    """Random entries for a prompt in every slot, and what an earlier stream left behind."""
    generator = torch.Generator().manual_seed(6)
    state.speaker.normal_(generator=generator)
    state.solver_conv.normal_(generator=generator)
    state.solver_kv[:, :, :, :, :, :num_frames].normal_(generator=generator)


def test_kernels_solve_as_their_twins_chunk_after_chunk(
    kernels: FlowKernels, code2wav: Code2Wav, noise: torch.Tensor
) -> None:
    flow, layout = code2wav.flow, RowLayout(CAPACITY, width=2, lookahead=3)
    states = [FlowState(flow, CAPACITY, NUM_STEPS) for _ in range(2)]
    for state in states:
        fill_prompt(state, 12)
    states[1].solver_kv[:, :, :, :, :, 12:] = torch.nan
    solvers = [BatchedSolver(flow.decoder, NUM_STEPS, noise, which) for which in (None, kernels)]
    streams = [StreamPositions(CAPACITY, 12) for _ in range(2)]
    for chunk, num_voiced in enumerate(([2, 1], [1, 2])):
        host = np.zeros((3, layout.size), np.int64)
        for slot, (stream, count) in enumerate(zip(streams, num_voiced, strict=True)):
            layout.fill(host[slot], 2 - slot, [1] * count, count, stream.advance(count))
        padding = StreamPositions(CAPACITY, 0).advance(2)
        layout.fill(host[2], CAPACITY.num_slots, [0] * 5, 2, padding)
        rows = layout.split(torch.from_numpy(host))
        mu = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(chunk))
        twin, mel = (solver(mu, rows, state) for solver, state in zip(solvers, states, strict=True))
        for row, count in enumerate(num_voiced):
            torch.testing.assert_close(mel[row, : 2 * count], twin[row, : 2 * count], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(states[1].solver_conv[..., 1:3, :, :, :], states[0].solver_conv[..., 1:3, :, :, :])
