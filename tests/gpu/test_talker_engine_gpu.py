"""The Talker engine on a GPU: kernels against twins, captured launches against plain ones."""

import pytest
import torch

from antiphon.config.checkpoint import DecoderConfig, TalkerConfig
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import TalkerSettings
from antiphon.engine.talker_engine import TalkerEngine
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode
from antiphon.engine.talker_record import draw_and_record
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.layers.code_rows import NUM_COLUMNS, Column
from antiphon.layers.code_sampling import load_sampler
from antiphon.layers.kernels import has_triton
from antiphon.layers.rope import Rope
from antiphon.layers.slot_attention import DecodeTwin, ExtendTwin, Extension, SlotTokens, load_kernels
from antiphon.layers.slot_cache import HeadSizes, SlotCache
from antiphon.models.talker.talker import Talker

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = torch.device("cuda")
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
PIECE_DRAWS = (26, 7, 40)


def make_talker(dtype):
    """Four layers of the real width."""
    torch.manual_seed(5)
    config = TalkerConfig(
        decoder=DecoderConfig(
            hidden_size=768,
            intermediate_size=3072,
            num_layers=4,
            num_heads=12,
            num_kv_heads=12,
            head_dim=64,
            rms_norm_eps=1e-6,
            rope_theta=10_000.0,
            max_positions=4096,
            has_qk_norm=False,
        ),
        llm_hidden_size=256,
        num_codec_ids=6562,
        num_text_ids=1000,
        audio_bos_id=998,
        text_eos_id=999,
        normalize_projected=True,
        attention_type="full_attention",
        window_chunks=2,
        recomputed_chunks=1,
        window_tokens=300,
    )
    return Talker(config).requires_grad_(False).to(DEVICE, dtype)


def make_engine(dtype, *, counters=None, **settings):
    engine = TalkerEngine(
        make_talker(dtype),
        TalkerSettings(
            num_slots=5, graph_batches=(1, 2, 4), windows=(1, 4, 25), prefill_tokens=(16, 64, 192), **settings
        ),
        device=DEVICE,
        dtype=dtype,
        counters=counters or Counters(),
        stream=DeviceStream(DEVICE),
        clock=lambda: 0.0,
    )
    engine.warm_up(lambda _: None)
    return engine


def scripts(count):
    for seed in range(count):
        mode = list(TalkerMode)[seed % 3]
        generator = torch.Generator().manual_seed(seed)
        job = TalkerJob(
            seq_id=str(seed), epoch=0, sampling=TalkerSampling(), seed=seed, mode=mode, min_codes=20, max_codes=90
        )
        num_pieces = 1 if mode is TalkerMode.SPAN else 3
        conditions = []
        for index in range(num_pieces):
            length = int(torch.randint(1, 30, (1,), generator=generator))
            conditions.append(
                TalkerCondition(
                    ids=tuple(torch.randint(0, 990, (length,), generator=generator).tolist()),
                    hidden=torch.randn(length, 256, generator=generator).to(DEVICE),
                    has_text_eos=mode is not TalkerMode.UNIT and index == num_pieces - 1,
                    is_last=index == num_pieces - 1,
                    max_draws=PIECE_DRAWS[index] if mode is TalkerMode.STREAM else None,
                )
            )
        yield job, conditions


def speak(engine, count):
    codes = {}
    finished = {}
    for job, conditions in scripts(count):
        engine.admit(job)
        codes[job.seq_id] = []
        for condition in conditions:
            engine.extend(job.seq_id, condition)
    while len(finished) < count:
        engine.launch()
        for output in engine.collect():
            codes[output.seq_id] += output.codes
            if output.finish_reason is not None:
                finished[output.seq_id] = output.finish_reason
    return codes, finished


def test_captured_launches_draw_the_codes_of_plain_ones():
    counters = Counters()
    captured = speak(make_engine(torch.float32, counters=counters), 9)
    assert counters.used["talker_graph"] > 0
    assert not [key for key in counters.fell_back if key[0] == "talker_graph"]
    assert captured == speak(make_engine(torch.float32, use_graphs=False), 9)


def test_kernels_draw_the_codes_of_the_twins():
    if not has_triton():
        pytest.skip("Triton is not installed")
    counters = Counters()
    with_kernels = speak(make_engine(torch.float32, counters=counters), 9)
    assert counters.used["talker_triton"] > 0
    assert with_kernels == speak(make_engine(torch.float32, use_triton=False, use_graphs=False), 9)


def test_codes_do_not_depend_on_the_window():
    assert speak(make_engine(torch.float32), 6) == speak(make_engine(torch.float32, use_step_window=False), 6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_captured_and_plain_agree_in_the_serving_dtype(dtype):
    """The same kernels on the same shapes: equal to the last bit, so equal codes."""
    assert speak(make_engine(dtype), 4) == speak(make_engine(dtype, use_graphs=False), 4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("lengths", [[0], [5, 0, 255, 256, 600, 4095], [600] * 16])
def test_the_decode_kernel_is_its_twin(dtype, lengths):
    heads = HeadSizes(12, 12, 64)
    cache, twin_cache = (SlotCache(1, 16, 4096, heads, device=DEVICE, dtype=dtype) for _ in range(2))
    cache.pages.normal_()
    twin_cache.pages.copy_(cache.pages)
    kernels = load_kernels(cache, 16)
    assert kernels is not None
    places = torch.tensor(lengths, device=DEVICE)
    cos, sin = Rope(64, 10_000.0).cos_sin(places)
    tokens = SlotTokens(torch.randperm(16, device=DEVICE)[: len(lengths)], places, cos, sin)
    for _ in range(20):  # what one launch leaves in the scratch must not reach the next
        qkv = torch.randn(len(lengths), 36 * 64, device=DEVICE, dtype=dtype)
        mixed = kernels.decode(tokens)(0, qkv, None, None)
        expected = DecodeTwin(twin_cache, tokens, span=4096)(0, qkv, None, None)
        torch.testing.assert_close(mixed, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
        torch.testing.assert_close(cache.pages, twin_cache.pages, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_extension_kernel_is_its_twin(dtype):
    heads = HeadSizes(12, 12, 64)
    cache, twin_cache = (SlotCache(1, 4, 1024, heads, device=DEVICE, dtype=dtype) for _ in range(2))
    kernels = load_kernels(cache, 64)
    assert kernels is not None
    places = torch.cat((torch.arange(40), torch.arange(500, 520))).to(DEVICE)
    slots = torch.tensor([1] * 40 + [3] * 20, device=DEVICE)
    cos, sin = Rope(64, 10_000.0).cos_sin(places)
    tokens = SlotTokens(slots, places, cos, sin)
    qkv = torch.randn(60, 36 * 64, device=DEVICE, dtype=dtype)
    mixed = kernels.extend(tokens)(0, qkv, None, None)
    expected = ExtendTwin(twin_cache, tokens, [Extension(1, 0, 0, 40), Extension(3, 500, 40, 60)])(0, qkv, None, None)
    torch.testing.assert_close(mixed, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("has_filters", [True, False])
def test_the_sampling_kernel_is_its_twin(dtype, has_filters):
    sample = load_sampler()
    assert sample is not None
    num_rows, num_ids, num_steps = 16, 6562, 40
    generator = torch.Generator(DEVICE).manual_seed(3)
    rows = torch.zeros(num_rows, NUM_COLUMNS, dtype=torch.int64, device=DEVICE)
    rows[:, Column.MAX_DRAWS] = 1000
    rows[:, Column.MIN_DRAWS] = 10
    rows[:, Column.HAS_FILTERS] = int(has_filters)
    rows[:, Column.TOP_K], rows[:, Column.MIN_KEEP], rows[:, Column.WINDOW] = 25, 3, 16
    rows[:, Column.SEED] = torch.arange(num_rows, device=DEVICE) * 7919
    rules = torch.tensor([[0.8, 1.05, 0.15]] * num_rows, device=DEVICE)
    num_equal = 0
    for step in range(num_steps):
        logits = (torch.randn(num_rows, num_ids, device=DEVICE, generator=generator) * 3).to(dtype)
        twin_rows = rows.clone()
        drawn = torch.zeros(num_rows, dtype=torch.int64, device=DEVICE)
        sample(logits, rows, rules, drawn, has_fed=step > 0)
        twin = draw_and_record(logits.float(), twin_rows, rules, num_candidates=25, has_fed=step > 0)
        is_equal = drawn == twin
        num_equal += int(is_equal.sum())
        assert torch.equal(rows[is_equal], twin_rows[is_equal])
    # The last bits of a division or an exponential may decide a race or a cut between neighbours once in a while.
    assert num_equal >= num_rows * num_steps - 2
