"""What a gate is run on: a loaded model, perhaps another one in the fast path's place, and the engines' settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from antiphon.config.deploy import DeployConfig, DuplexSessionConfig, MediaIO, MediaLimits, StageConfig
from antiphon.config.optimizations import OptimizationsConfig, SwitchValue
from antiphon.core.errors import ConfigError
from antiphon.core.sampling import STAGE_NAMES, SamplingParams
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.engine_settings import EngineSettings, MemoryFacts, engine_settings
from antiphon.pipeline.omni_model import OmniModel

NUM_ROWS = 4  # that run together
MAX_MODEL_LEN = 1024  # tokens of the Thinker's context


@dataclass(frozen=True)
class Subject:
    """The slow path always computes with *model*, the fast one with *candidate*.

    They are one and the same, unless somebody wants to see a gate fail, or to compare two checkpoints.
    """

    model: OmniModel
    candidate: OmniModel
    num_draws: int

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"


def talker_of(model: OmniModel) -> Talker:
    if model.talker is None:
        raise ConfigError("the model was loaded without its talker; load it with speech")
    return model.talker


def code2wav_of(model: OmniModel) -> Code2Wav:
    if model.code2wav is None:
        raise ConfigError("the model was loaded without code2wav; load it with speech")
    return model.code2wav


def settings_with(model: OmniModel, **switches: SwitchValue) -> EngineSettings:
    """The engines' settings under the default switches but for *switches*, sized for a handful of rows.

    Raises:
        DeployError: the engine refuses a value.
    """
    config = DeployConfig(
        pipeline="minicpmo_4_5",
        platform=model.device.type,
        session_mode="turn",
        async_chunk=True,
        stages=tuple(_stage(index, name) for index, name in enumerate(STAGE_NAMES)),
        connectors={},
        duplex_session=DuplexSessionConfig(),
        optimizations=replace(OptimizationsConfig(), **switches),  # type: ignore[arg-type]
    )
    memory = MemoryFacts(device_bytes=None, thinker_weight_bytes=0, talker_weight_bytes=0, item_bytes=4)
    settings = engine_settings(config, model.config, memory)
    code2wav = replace(settings.code2wav, short_prompt_frames=120, max_prompt_frames=120, num_long_slots=0)
    return replace(settings, code2wav=code2wav)


def say_nothing(line: str) -> None:
    """Report to nobody."""


def stopped_clock() -> float:
    """Nothing in a gate depends on time."""
    return 0.0


def settle(device: torch.device) -> None:
    """Wait for the device, so that what is collected, and so the next batch, never depends on its speed."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def run_dry(device: torch.device, launch: Callable[[], bool], collect: Callable[[], bool]) -> None:
    """Launch and collect in turn until *collect* says that nothing is left."""
    is_left = True
    while is_left:
        while launch():
            pass
        settle(device)
        is_left = collect()


def _stage(index: int, name: str) -> StageConfig:
    return StageConfig(
        stage_id=index,
        name=name,
        devices=(0,),
        num_replicas=1,
        tensor_parallel_size=1,
        gpu_memory_utilization=0.5,
        kv_cache_memory_bytes=None,
        max_num_seqs=NUM_ROWS,
        max_num_batched_tokens=MAX_MODEL_LEN,
        max_model_len=MAX_MODEL_LEN,
        dtype="auto",
        load_format="auto",
        enforce_eager=False,
        enable_chunked_prefill=True,
        enable_prefix_caching=False,
        async_chunk=True,
        interleave_mm_strings=False,
        media_io_kwargs=MediaIO(),
        limit_mm_per_prompt=MediaLimits(),
        default_sampling_params=SamplingParams(),
        output_connectors={},
        input_connectors={},
        env={},
    )
