"""The kernels of duplex decisions, interpreted on the CPU, against their torch twin."""

import importlib.util
import sys
from types import ModuleType

import pytest
import torch

from antiphon.engine.duplex_decision import DecisionIds, DecisionSampling
from antiphon.engine.duplex_memory import DuplexMemory
from antiphon.engine.duplex_sampler import advance_rows, decide_rows
from antiphon.engine.duplex_sampler_state import DuplexState
from antiphon.engine.duplex_turn import DuplexTurn, duplex_ids
from antiphon.engine.thinker_messages import DuplexRule
from antiphon.layers.decision_rows import ID_MASK
from antiphon.layers.kernels import has_triton

VOCAB = 700
IDS = DecisionIds(chunk_eos=1, turn_eos=2, tokenizer_eos=3, forbidden=(6, 7, 8))
SAMPLINGS = (
    DecisionSampling(),
    DecisionSampling(is_greedy=True),
    DecisionSampling(temperature=1.4, top_k=100, top_p=1.0, length_penalty=0.7, penalty_window=3),
    DecisionSampling(top_p=0.0, repetition_penalty=1.6, penalty_window=40),
    DecisionSampling(listen_prob_scale=0.3, listen_top_k=4),
)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A copy of the kernel module whose kernels are interpreted: the flag counts when they are decorated."""
    if not has_triton():
        pytest.skip("Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    source = importlib.util.find_spec("antiphon.layers.kernels.duplex_decision")
    assert source is not None
    assert source.origin is not None
    spec = importlib.util.spec_from_file_location("interpreted_duplex_decision", source.origin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_BLOCK", 256)
    return module


def test_the_kernels_decide_and_go_on_as_the_twin_does(kernels: ModuleType) -> None:
    turns = [
        DuplexTurn(
            DuplexRule(sampling=sampling, ids=IDS, listen_id=4, tts_bos_id=5, chunk_tts_eos_id=9, seed=2**40 + index),
            wants_hidden=False,
        )
        for index, sampling in enumerate(SAMPLINGS)
    ]
    slow, fast = (DuplexState(len(turns) + 1, VOCAB, torch.device("cpu")) for _ in range(2))
    for state in (slow, fast):
        state.set_ids(duplex_ids(turns[0].sampling))
        state.load(range(1, len(turns) + 1), [turn.seat_rule(DuplexMemory()) for turn in turns])
    seats, generator = torch.arange(1, len(turns) + 1), torch.Generator().manual_seed(1)
    drawn: set[int] = set()
    for _ in range(150):
        logits = torch.randn(len(turns), VOCAB + 5, generator=generator)[:, :VOCAB] * 2
        logits[:, 20:30] += 5
        logits[:, :10] += 4
        wanted = decide_rows(logits, seats, slow, sorts_all=False)
        came = kernels.decide(logits, seats, fast.numbers, fast.rules, fast.roles, fast.forbidden)
        assert came.tolist() == wanted.tolist()
        advance_rows(wanted, seats, slow)
        kernels.advance(came, seats, fast.numbers, fast.roles)
        assert torch.equal(slow.numbers, fast.numbers)
        drawn.update((wanted & ID_MASK).tolist())
    assert {1, 2, 3, 5, 9} <= drawn
