import torch

from antiphon.config.checkpoint import parse_model_config
from antiphon.config.flow_files import shipped_flow_config
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.dummy import build_dummy_stages, dummy_value
from antiphon.pipeline.tiny_checkpoint.configs import model_config
from antiphon.pipeline.tiny_checkpoint.vocabulary import build_vocabulary

CPU = torch.device("cpu")
CONFIG = parse_model_config(model_config(build_vocabulary()))


def test_dummy_text_stages_compute_at_a_sensible_scale() -> None:
    stages = build_dummy_stages(CONFIG, device=CPU, dtype=torch.float32, flow_config=None)
    assert stages.talker is None
    thinker = stages.thinker
    hidden = thinker(thinker.embed(torch.arange(6)), torch.arange(6), CausalAttend(KVCache(CONFIG.llm.num_layers)))
    logits = thinker.logits(hidden)
    assert 0.1 < logits.std() < 10.0
    rows = thinker.encode_audio([torch.randn(80, 100)])
    assert rows[0].isfinite().all()


def test_the_same_seed_gives_the_same_values() -> None:
    first, second, other = (
        build_dummy_stages(CONFIG, device=CPU, dtype=torch.float32, flow_config=None, seed=seed).thinker
        for seed in (1, 1, 2)
    )
    assert torch.equal(first.llm.lm_head.weight, second.llm.lm_head.weight)
    assert not torch.equal(first.llm.lm_head.weight, other.llm.lm_head.weight)


def test_no_matrix_is_zero_and_norms_are_identities() -> None:
    generator = torch.Generator().manual_seed(0)
    modulation = dummy_value("blocks.0.adaLN_modulation.1.weight", (36, 4), CPU, torch.float32, generator)
    assert modulation.abs().min() > 0
    assert torch.equal(dummy_value("norm.weight", (4,), CPU, torch.float32, generator), torch.ones(4))
    assert torch.equal(dummy_value("fc1.bias", (4,), CPU, torch.float32, generator), torch.zeros(4))


def test_progress_counts_every_byte() -> None:
    seen: list[tuple[int, int]] = []
    stages = build_dummy_stages(
        CONFIG,
        device=CPU,
        dtype=torch.bfloat16,
        flow_config=None,
        progress=lambda done, total: seen.append((done, total)),
    )
    total = sum(value.nbytes for value in stages.thinker.parameters())
    assert seen[-1] == (total, total)


def test_dummy_speech_is_finite() -> None:
    stages = build_dummy_stages(CONFIG, device=CPU, dtype=torch.float32, flow_config=shipped_flow_config())
    assert stages.code2wav is not None
    mel = torch.randn(1, 80, 4) - 5.0
    samples, _ = stages.code2wav.hift(mel, None)
    assert samples.shape == (1, 4 * 480)
    assert samples.isfinite().all()
    assert samples.std() > 1e-4
