"""The sampling kernel, interpreted on the CPU, against its torch twin."""

import importlib.util
import sys

import pytest
import torch

from antiphon.engine.talker_draw import tail_of, top_k_of
from antiphon.engine.talker_record import draw_and_record
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.layers.code_rows import NUM_COLUMNS, POISON, RING_CODES, Column
from antiphon.layers.kernels import has_triton

NUM_IDS = 48
SAMPLINGS = [
    TalkerSampling(),
    TalkerSampling(top_p=1.0),
    TalkerSampling(top_k=4, top_p=0.5, min_keep=1),
    TalkerSampling(top_k=2, min_keep=5, top_p=0.01),
    TalkerSampling(top_p=0.0, temperature=1.3, repetition_penalty=1.4, penalty_window=5),
    TalkerSampling(top_k=0),
]


@pytest.fixture
def kernels(monkeypatch):
    """A copy of the kernel module whose kernels are interpreted: the flag counts when they are decorated."""
    if not has_triton():
        pytest.skip("Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    source = importlib.util.find_spec("antiphon.layers.kernels.code_sampler")
    spec = importlib.util.spec_from_file_location("interpreted_code_sampler", source.origin)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def state(generator, num_rows):
    rows = torch.zeros(num_rows, NUM_COLUMNS, dtype=torch.int64)
    rules = torch.zeros(num_rows, 3)
    for index in range(num_rows):
        sampling = SAMPLINGS[index % len(SAMPLINGS)]
        rows[index, Column.NUM_HISTORY] = int(torch.randint(0, 40, (1,), generator=generator)) * (index % 7 != 3)
        rows[index, Column.MIN_DRAWS] = 3 * (index % 2)
        rows[index, Column.MAX_DRAWS] = 4 + index % 3
        rows[index, Column.SEED] = index * 2**33 + 5
        rows[index, Column.DRAW] = index * 10
        rows[index, Column.HAS_FILTERS] = index % 5 != 4
        rows[index, Column.IS_GREEDY] = index % 11 == 10
        rows[index, Column.IS_DONE] = index % 13 == 12
        rows[index, Column.TOP_K] = top_k_of(sampling, NUM_IDS)
        rows[index, Column.MIN_KEEP] = sampling.min_keep
        rows[index, Column.WINDOW] = sampling.penalty_window
        rules[index] = torch.tensor([sampling.temperature, sampling.repetition_penalty, tail_of(sampling)])
    rows[:, Column.RING :] = torch.randint(0, NUM_IDS, (num_rows, RING_CODES), generator=generator)
    return rows, rules


@pytest.mark.parametrize("spread", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_draws_and_records_as_its_twin(kernels, spread, dtype):
    generator = torch.Generator().manual_seed(round(spread * 10))
    rows, rules = state(generator, 14)
    twin_rows = rows.clone()
    drawn, twin_drawn = (torch.zeros(14, 6, dtype=torch.int64) for _ in range(2))
    for step in range(6):
        logits = (torch.randn(14, NUM_IDS, generator=generator) * spread).to(dtype)
        logits[::3, -1] = logits.float().amax() + 1  # the end code is likely
        kernels.sample_codes(logits, rows, rules, drawn[:, step], has_fed=step > 0)
        twin_drawn[:, step] = draw_and_record(
            logits.float(), twin_rows, rules, num_candidates=NUM_IDS, has_fed=step > 0
        )
        assert torch.equal(rows, twin_rows)
    assert torch.equal(drawn, twin_drawn)


def test_equal_scores_at_either_cut_are_kept_as_by_the_twin(kernels):
    generator = torch.Generator().manual_seed(1)
    levels = torch.tensor([-3.0, -0.5, 0.0, 0.4, 1.1])
    rows, rules = state(generator, 12)
    rows[:, Column.IS_DONE] = 0
    rows[:, Column.MAX_DRAWS] = 1000
    twin_rows = rows.clone()
    for _ in range(12):
        logits = levels[torch.randint(0, 5, (12, NUM_IDS), generator=generator)]
        drawn = torch.zeros(12, dtype=torch.int64)
        kernels.sample_codes(logits, rows, rules, drawn, has_fed=True)
        assert torch.equal(drawn, draw_and_record(logits, twin_rows, rules, num_candidates=NUM_IDS, has_fed=True))


def test_scores_that_are_not_finite_are_reported(kernels):
    rows, rules = state(torch.Generator().manual_seed(1), 3)
    twin_rows, logits = rows.clone(), torch.zeros(3, NUM_IDS)
    logits[1, 7] = torch.nan
    drawn = torch.zeros(3, dtype=torch.int64)
    kernels.sample_codes(logits, rows, rules, drawn, has_fed=True)
    assert torch.equal(drawn, draw_and_record(logits, twin_rows, rules, num_candidates=NUM_IDS, has_fed=True))
    assert drawn[1] == POISON
    assert rows[1, Column.IS_DONE] == 1
