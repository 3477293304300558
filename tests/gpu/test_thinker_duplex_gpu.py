"""On a GPU: duplex decisions captured against plain, with Triton against without, and what they cost."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import torch

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.duplex_decision import DecisionIds, DecisionSampling
from antiphon.engine.duplex_memory import DuplexMemory
from antiphon.engine.duplex_sampler import advance_rows, decide_rows
from antiphon.engine.duplex_sampler_state import DuplexState
from antiphon.engine.duplex_turn import DuplexTurn, duplex_ids
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.engine.thinker_messages import DuplexRule, ThinkerJob, ThinkerPiece, ThinkerSampling
from antiphon.layers.decision_rows import Column
from antiphon.models.dummy import dummy_value
from antiphon.models.placing import assign, build_empty, finish
from antiphon.models.thinker.thinker import Thinker

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

REAL_VOCAB = 151_748
IDS = DecisionIds(chunk_eos=1, turn_eos=2, tokenizer_eos=3, forbidden=(6, 7, 8))
SETTINGS = ThinkerSettings(
    num_audio_streams=16,
    max_batched_tokens=256,
    max_model_len=512,
    kv_cache_blocks=640,
    max_num_seqs=16,
    graph_batches=(1, 4, 16),
)
PLAIN = DecisionSampling()
SAMPLINGS = (PLAIN, DecisionSampling(is_greedy=True), replace(PLAIN, temperature=1.2, top_k=80, penalty_window=9))


def rule_for(sampling: DecisionSampling, seed: int) -> DuplexRule:
    return DuplexRule(
        sampling=sampling, ids=IDS, listen_id=4, tts_bos_id=5, chunk_tts_eos_id=9, max_tokens=12, seed=seed
    )


def make_thinker(dtype: torch.dtype) -> Thinker:
    """Small, of random weights; the ids below 30 are its favourites."""
    real = shipped_model_config()
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_layers": 1, "num_heads": 2}
    config = replace(
        real,
        vocab_size=2000,
        llm=replace(
            real.llm, hidden_size=256, intermediate_size=512, num_layers=3, num_heads=8, num_kv_heads=2, head_dim=64
        ),
        vision=replace(real.vision, **sizes, table_side=8),
        audio=replace(real.audio, **sizes),
    )
    device = torch.device("cuda")
    model = build_empty(lambda: Thinker(config))
    generator = torch.Generator(device).manual_seed(0)
    for name, empty in list(model.named_parameters()):
        assign(model, name, dummy_value(name, tuple(empty.shape), device, dtype, generator))
    model = finish(model, device)
    head = model.llm.lm_head.weight
    with torch.no_grad():
        head[:30] = torch.randn(30, head.shape[1], generator=generator, device=device) * (5.0 / head.shape[1] ** 0.5)
    return model


@dataclass
class Heard:
    """What came of one sequence."""

    units: list[tuple[int, ...]] = field(default_factory=list)  # each with its terminator
    ids: list[int] = field(default_factory=list)
    rows: list[torch.Tensor] = field(default_factory=list)


def answer(
    dtype: torch.dtype, num_sessions: int, *, num_units: int = 6, **switches: bool
) -> tuple[dict[str, Heard], Counters]:
    """Units of *num_sessions* sessions and a chat, whatever way they are run."""
    device, counters = torch.device("cuda"), Counters()
    engine = ThinkerEngine(
        make_thinker(dtype),
        replace(SETTINGS, **switches),  # type: ignore[arg-type]
        device=device,
        dtype=dtype,
        counters=counters,
        stream=DeviceStream(device),
        clock=lambda: 0.0,
    )
    engine.warm_up(lambda text: None)
    heard: dict[str, Heard] = {}
    for index in range(num_sessions):
        heard[f"s{index}"] = Heard()
        rule = rule_for(SAMPLINGS[index % len(SAMPLINGS)], 50 + index)
        engine.admit(
            ThinkerJob(
                seq_id=f"s{index}", ids=tuple(range(30, 60 + index)), duplex=rule, wants_hidden=True, is_resumable=True
            )
        )
    if num_sessions > 1:
        heard["chat"] = Heard()
        chat = ThinkerSampling(max_tokens=40, temperature=0.8, top_k=50, repetition_penalty=1.1, seed=3)
        engine.admit(ThinkerJob(seq_id="chat", ids=tuple(range(100, 140)), sampling=chat, wants_hidden=True))
    while engine.has_work:
        engine.launch()
        for output in engine.collect():
            record = heard[output.seq_id]
            record.ids += output.new_ids
            if output.hidden is not None:
                assert output.ready is not None
                output.ready.wait()
                record.rows.append(output.hidden)
            if output.has_ended_turn and output.seq_id != "chat" and not output.is_last:
                assert output.stop_id is not None
                record.units.append((*record.ids, output.stop_id))
                record.ids.clear()
                if len(record.units) == num_units:
                    engine.close_input(output.seq_id)
                else:
                    ids = (output.stop_id, *range(200, 212))
                    engine.extend(output.seq_id, ThinkerPiece(ids=ids, wants_hidden=True))
    assert engine.snapshot()["blocks_used"] == 0
    return heard, counters


@pytest.mark.parametrize("num_sessions", [1, 9])
@pytest.mark.parametrize("switch", ["use_graphs", "use_triton", "use_run_ahead"])
def test_a_switched_off_optimisation_decides_the_same(num_sessions: int, switch: str) -> None:
    heard, counters = answer(torch.float32, num_sessions)
    assert counters.used["thinker_graph"] > 0
    assert not counters.fell_back
    slow, _ = answer(torch.float32, num_sessions, **{switch: False})
    for name, wanted in slow.items():
        assert (heard[name].units, heard[name].ids) == (wanted.units, wanted.ids)
        if wanted.rows:
            torch.testing.assert_close(torch.cat(heard[name].rows), torch.cat(wanted.rows), atol=1e-3, rtol=1e-3)
    ends = {unit[-1] for record in heard.values() for unit in record.units}
    assert len(ends) > 1


def test_a_captured_session_is_the_plain_one_in_bfloat16() -> None:
    heard, _ = answer(torch.bfloat16, 1)
    plain, _ = answer(torch.bfloat16, 1, use_graphs=False)
    assert heard["s0"].units == plain["s0"].units


def real_state(num_rows: int) -> DuplexState:
    """Seats at real size, every third of them in a long session."""
    state = DuplexState(num_rows + 1, REAL_VOCAB, torch.device("cuda"))
    rules = [rule_for(SAMPLINGS[row % 3], 2**40 * row + 17) for row in range(num_rows)]
    state.set_ids(duplex_ids(replace(rules[0], ids=replace(IDS, forbidden=tuple(range(9000, 16_000))))))
    memories = [DuplexMemory() for _ in rules]
    for memory in memories[::3]:
        memory.history.extend(range(2000, 2600))
    state.load(
        range(num_rows),
        [DuplexTurn(rule, False).seat_rule(memory) for rule, memory in zip(rules, memories, strict=True)],
    )
    return state


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernels_decide_as_their_twin_at_real_size(dtype: torch.dtype) -> None:
    device, num_rows, num_equal = torch.device("cuda"), 64, 0
    generator, seats = torch.Generator(device).manual_seed(1), torch.arange(num_rows, device=device)
    slow, fast = real_state(num_rows), real_state(num_rows)
    for _ in range(8):
        logits = (torch.randn(num_rows, REAL_VOCAB, generator=generator, device=device) * 4).to(dtype)
        wanted = decide_rows(logits, seats, slow, sorts_all=False)
        came = decide_rows(logits, seats, fast, sorts_all=False, use_kernels=True)
        num_equal += int((came == wanted).sum())
        for state, decisions in ((slow, wanted), (fast, wanted)):
            advance_rows(decisions, seats, state, use_kernels=state is fast)
        assert torch.equal(slow.numbers[:num_rows], fast.numbers[:num_rows])
    assert num_equal >= 8 * num_rows - 3  # a near tie may fall either way
    assert int(fast.numbers[0, Column.DRAW_STEP]) >= 8


def test_decisions_of_64_sessions_cost_well_under_half_a_millisecond(capsys: pytest.CaptureFixture[str]) -> None:
    device, num_rows = torch.device("cuda"), 64
    generator = torch.Generator(device).manual_seed(1)
    logits = (torch.randn(num_rows, REAL_VOCAB, generator=generator, device=device) * 3).bfloat16()
    seats, state, scores = torch.arange(num_rows, device=device), real_state(num_rows), logits.float()

    def run() -> None:
        decisions = decide_rows(logits, seats, state, sorts_all=False, use_kernels=True)
        advance_rows(decisions, seats, state, use_kernels=True)

    time_ms = replayed_ms(run)
    with capsys.disabled():
        sys.stdout.write(
            f"\n64 decisions: {time_ms:.3f} ms; of that topk: {replayed_ms(lambda: scores.topk(128)):.3f} ms\n"
        )
    assert time_ms < 0.4


def replayed_ms(run: Callable[[], object]) -> float:
    """Milliseconds of one replay of *run* as a graph."""
    stream = torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(3):
            run()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph, stream=stream):
        run()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(5):
        graph.replay()
    start.record()
    for _ in range(50):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 50
