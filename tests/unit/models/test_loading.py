import shutil
import weakref
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from antiphon.config.checkpoint_files import TOKEN2WAV, load_model_config, shipped_model_config
from antiphon.config.flow_files import read_flow_config, shipped_flow_config
from antiphon.core.errors import CheckpointError
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.loading import UNUSED, choose_dtype, load_stages, talker_filler, thinker_filler
from antiphon.models.placing import Filler, build_empty
from antiphon.models.stages import Stages
from antiphon.models.weight_norm import HIFT_NORMED, fold

CPU = torch.device("cpu")
META = torch.device("meta")
THINKER_SHARD, TALKER_SHARD = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def load(folder: Path, *, dtype: torch.dtype = torch.float32, with_speech: bool = True) -> Stages:
    flow = read_flow_config(folder) if with_speech else None
    return load_stages(folder, load_model_config(folder), device=CPU, dtype=dtype, flow_config=flow)


@pytest.fixture
def copy(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


def rewrite(path: Path, change: dict[str, Tensor | None]) -> None:
    """Replace tensors of a single-file copy of a shard (None: drop)."""
    tensors = {name: value.clone() for name, value in load_file(path).items()} | change
    save_file({name: value for name, value in tensors.items() if value is not None}, path)


def merge_shards(folder: Path) -> Path:
    """Make one file without an index of the two shards."""
    merged = {
        name: value.clone()
        for shard in (THINKER_SHARD, TALKER_SHARD)
        for name, value in load_file(folder / shard).items()
    }
    save_file(merged, folder / "model.safetensors")
    (folder / "model.safetensors.index.json").unlink()
    return folder / "model.safetensors"


def test_the_real_checkpoint_has_1414_names() -> None:
    config = shipped_model_config()
    expected = (
        thinker_filler(config, META, torch.bfloat16)[1].expected
        | talker_filler(config, META, torch.bfloat16)[1].expected
    )
    names = set(expected) | UNUSED
    counts = Counter(name.split(".")[0] for name in names)
    assert counts == {"llm": 399, "vpm": 437, "resampler": 13, "apm": 367, "audio_projection_layer": 4, "tts": 194}
    assert len(names) == 1414


def test_the_real_token2wav_files_have_605_and_328_names() -> None:
    stage = build_empty(lambda: Code2Wav(shipped_flow_config(), HiFTConfig.real()))
    flow = Filler(stage.flow, device=META, dtype=torch.float32).expected
    hift = Filler(stage.hift, device=META, dtype=torch.float32, normed=HIFT_NORMED).expected
    assert (len(flow), len(hift)) == (605, 328)
    assert sum(name.endswith("original0") for name in hift) == 82
    assert sum(torch.Size(shape).numel() for shape in flow.values()) == 155_802_352
    assert sum(torch.Size(shape).numel() for shape in hift.values()) == 20_821_295


def test_a_loaded_checkpoint_computes(tiny_checkpoint: Path) -> None:
    stages = load(tiny_checkpoint)
    assert stages.talker is not None
    assert stages.code2wav is not None
    hidden = stages.thinker(stages.thinker.embed(torch.arange(5)), torch.arange(5), CausalAttend(KVCache(2)))
    codes = stages.talker.condition(torch.arange(5), hidden)
    assert stages.talker.logits(stages.talker(codes, torch.arange(5), CausalAttend(KVCache(2)))).isfinite().all()
    assert not any(
        value.requires_grad
        for stage in (stages.thinker, stages.talker, stages.code2wav)
        for value in stage.parameters()
    )


def test_weights_are_those_of_the_files(tiny_checkpoint: Path) -> None:
    stages = load(tiny_checkpoint)
    assert stages.talker is not None
    assert stages.code2wav is not None
    stored = load_file(tiny_checkpoint / TALKER_SHARD)
    head = "tts.head_code.0.parametrizations.weight.original"
    assert torch.equal(stages.talker.head_code[0].weight, fold(stored[head + "0"], stored[head + "1"]))
    assert torch.equal(stages.talker.emb_text.weight, stored["tts.emb_text.weight"].float())
    flow = torch.load(tiny_checkpoint / TOKEN2WAV / "flow.pt", weights_only=True)
    assert torch.equal(stages.code2wav.flow.get_parameter("encoder_proj.weight"), flow["encoder_proj.weight"])


def test_the_head_is_folded_before_it_is_cast(tiny_checkpoint: Path) -> None:
    wide, narrow = load(tiny_checkpoint).talker, load(tiny_checkpoint, dtype=torch.bfloat16).talker
    assert wide is not None
    assert narrow is not None
    assert torch.equal(narrow.head_code[0].weight, wide.head_code[0].weight.bfloat16())


def test_code2wav_stays_float32(tiny_checkpoint: Path) -> None:
    stages = load(tiny_checkpoint, dtype=torch.bfloat16)
    assert stages.code2wav is not None
    assert {value.dtype for value in stages.thinker.parameters()} == {torch.bfloat16}
    assert {value.dtype for value in stages.code2wav.parameters()} == {torch.float32}


def test_there_is_no_second_copy_of_the_model(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Placed in their own type, parameters are views of the mapped files: none is copied."""
    given: dict[int, str] = {}
    put = Filler.put

    def watched(self: Filler, stored: str, value: Tensor) -> None:
        given[value.data_ptr()] = stored
        put(self, stored, value)

    monkeypatch.setattr(Filler, "put", watched)
    stages = load(tiny_checkpoint, dtype=torch.bfloat16)
    assert stages.code2wav is not None
    for stage in (stages.thinker, stages.code2wav.flow):
        assert all(value.data_ptr() in given for value in stage.parameters())


def test_a_source_tensor_is_released_before_the_next_but_one(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cast to another type, no more than one tensor of the file and one waiting half are held beside the model."""
    sources: list[weakref.ref[Tensor]] = []
    most_alive = 0
    put = Filler.put

    def watched(self: Filler, stored: str, value: Tensor) -> None:
        nonlocal most_alive
        sources.append(weakref.ref(value))
        most_alive = max(most_alive, sum(source() is not None for source in sources))
        put(self, stored, value)

    monkeypatch.setattr(Filler, "put", watched)
    load(tiny_checkpoint, with_speech=False)
    assert len(sources) > 100
    assert most_alive <= 2


def test_text_only_reads_neither_talker_nor_token2wav(copy: Path) -> None:
    shutil.rmtree(copy / "assets")
    stages = load(copy, with_speech=False)
    assert stages.talker is None
    assert stages.code2wav is None


def test_text_only_still_accounts_for_the_talkers_names(copy: Path) -> None:
    rewrite(merge_shards(copy), {"tts.model.norm.weight": None})
    with pytest.raises(CheckpointError, match=r"1 missing \(tts\.model\.norm\.weight\)"):
        load(copy, with_speech=False)


def test_all_wrong_names_of_all_files_are_one_error(copy: Path) -> None:
    path = merge_shards(copy)
    rewrite(path, {"llm.model.norm.weight": None, "llm.extra": torch.ones(1), "vpm.post_layernorm.bias": torch.ones(3)})
    flow = torch.load(copy / TOKEN2WAV / "flow.pt", weights_only=True)
    del flow["encoder_proj.bias"]
    torch.save(flow, copy / TOKEN2WAV / "flow.pt")
    with pytest.raises(CheckpointError) as caught:
        load(copy)
    message = str(caught.value)
    assert "1 missing (llm.model.norm.weight), 1 unexpected (llm.extra)" in message
    assert "1 mis-shaped (vpm.post_layernorm.bias has [3], expected [48])" in message
    assert "flow.pt: 1 missing (encoder_proj.bias)" in message


def test_unused_names_may_be_absent_or_of_any_shape(copy: Path) -> None:
    change: dict[str, Tensor | None] = dict.fromkeys(UNUSED)
    rewrite(merge_shards(copy), change | {"tts.model.embed_tokens.weight": torch.ones(2, 2)})
    assert load(copy).talker is not None


def test_the_vocoders_prefix_is_stripped(copy: Path) -> None:
    path = copy / TOKEN2WAV / "hift.pt"
    torch.save({f"generator.{name}": value for name, value in torch.load(path, weights_only=True).items()}, path)
    assert load(copy).code2wav is not None


def test_another_vocoder_is_refused_with_its_file(copy: Path) -> None:
    path = copy / TOKEN2WAV / "hift.pt"
    torch.save({"conv_in.weight": torch.ones(1)}, path)
    with pytest.raises(CheckpointError, match=r"hift\.pt: .*missing"):
        load(copy)


def test_progress_rises_to_the_total(tiny_checkpoint: Path) -> None:
    seen: list[tuple[int, int]] = []
    load_stages(
        tiny_checkpoint,
        load_model_config(tiny_checkpoint),
        device=CPU,
        dtype=torch.float32,
        flow_config=read_flow_config(tiny_checkpoint),
        progress=lambda done, total: seen.append((done, total)),
    )
    done = [entry for entry, _ in seen]
    assert done == sorted(done)
    assert seen[-1][0] == seen[-1][1]
    assert len({total for _, total in seen}) == 1


def test_the_type_is_the_checkpoints_own_except_on_a_cpu(tiny_checkpoint: Path) -> None:
    config = load_model_config(tiny_checkpoint)
    assert choose_dtype(config, torch.device("cuda"), None) == torch.bfloat16
    assert choose_dtype(config, CPU, None) == torch.float32
    assert choose_dtype(config, CPU, torch.float16) == torch.float16
