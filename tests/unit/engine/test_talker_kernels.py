"""The whole engine on interpreted kernels: the codes are those of the twins."""

import importlib.util
import sys

import pytest
import torch

from antiphon.config.checkpoint import DecoderConfig, TalkerConfig
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import TalkerSettings
from antiphon.engine.talker_engine import TalkerEngine
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.layers.kernels import has_triton
from antiphon.models.talker.talker import Talker

CONFIG = TalkerConfig(
    decoder=DecoderConfig(
        hidden_size=16,
        intermediate_size=24,
        num_layers=1,
        num_heads=2,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=512,
        has_qk_norm=False,
    ),
    llm_hidden_size=12,
    num_codec_ids=32,
    num_text_ids=40,
    audio_bos_id=38,
    text_eos_id=39,
    normalize_projected=True,
    attention_type="full_attention",
    window_chunks=2,
    recomputed_chunks=1,
    window_tokens=12,
)


@pytest.fixture
def interpret(monkeypatch):
    """Loads copies of kernel modules whose kernels are interpreted: the flag counts when they are decorated."""
    if not has_triton():
        pytest.skip("Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    def load(name):
        source = importlib.util.find_spec(f"antiphon.layers.kernels.{name}")
        spec = importlib.util.spec_from_file_location(f"interpreted_{name}", source.origin)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


def make_engine():
    torch.manual_seed(5)
    device = torch.device("cpu")
    return TalkerEngine(
        Talker(CONFIG).requires_grad_(False),
        TalkerSettings(num_slots=3, prefill_tokens=(16, 32)),
        device=device,
        dtype=torch.float32,
        counters=Counters(),
        stream=DeviceStream(device),
        clock=lambda: 0.0,
    )


def speak(engine):
    generator = torch.Generator().manual_seed(1)
    for seed, mode in enumerate(TalkerMode):
        job = TalkerJob(
            seq_id=mode.value, epoch=0, sampling=TalkerSampling(), seed=seed, mode=mode, min_codes=4, max_codes=12
        )
        engine.admit(job)
        for is_last in (False, True)[mode is TalkerMode.SPAN :]:
            hidden = torch.randn(3, 12, generator=generator)
            ends = {"has_text_eos": is_last and mode is not TalkerMode.UNIT, "is_last": is_last}
            engine.extend(job.seq_id, TalkerCondition(ids=(1, 2, 3), hidden=hidden, **ends, max_draws=6))
    outputs = []
    while engine.launch():
        outputs += engine.collect()
    return outputs


def test_codes_are_those_of_the_twins(interpret):
    with_kernels, twins = make_engine(), make_engine()
    parts = with_kernels._device
    parts._kernels = interpret("slot_attention").SlotKernels(parts.cache, 32)
    parts._sample = interpret("code_sampler").sample_codes
    parts.prompt_sizes = [16, 32]
    spoken = speak(with_kernels)
    assert {output.seq_id for output in spoken if output.finish_reason} == {mode.value for mode in TalkerMode}
    assert spoken == speak(twins)
