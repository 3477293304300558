"""Builds the stages of one device from a loaded model and the engines' settings."""

from collections.abc import Callable, Sequence

import torch

from antiphon.core.errors import ConfigError
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.talker_engine import TalkerEngine
from antiphon.engine.thinker_audio_streams import ThinkerAudioStreams
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.layers.parallel import ALONE, ParallelGroup
from antiphon.models.code2wav.cfm import make_noise_table
from antiphon.pipeline.code2wav_engine import build_code2wav_engine
from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.engine_settings import EngineSettings, MemoryFacts
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.stage import Stage
from antiphon.pipeline.stages.code2wav import Code2WavStage
from antiphon.pipeline.stages.media import MediaEncoder
from antiphon.pipeline.stages.talker import TalkerStage
from antiphon.pipeline.stages.thinker import ThinkerStage
from antiphon.pipeline.stages.thinker_sessions import ThinkerSessions
from antiphon.pipeline.voice_book import PreparedVoice

# CUDA priorities, the lower the sooner: speech that someone waits for, before codes, before text.
_PRIORITY = {CODE2WAV: -3, TALKER: -2, THINKER: -1}


def build_stages(
    names: Sequence[str],
    model: OmniModel,
    settings: EngineSettings,
    *,
    counters: Counters,
    clock: Callable[[], float],
    default_voice: PreparedVoice | None = None,
    is_chunked: bool = True,
    thinker_group: ParallelGroup = ALONE,
) -> list[Stage]:
    """The stages *names*, in the order of the pipeline.

    Args:
        default_voice: made ready in the warm-up of Code2Wav.
        is_chunked: codes go to Code2Wav while they are drawn; otherwise at the end of a turn.
        thinker_group: the ranks that hold the Thinker; this process is rank 0.

    Raises:
        ConfigError: the model was loaded without a stage that is asked for.
    """
    device = model.device
    stages: list[Stage] = []
    if THINKER in names:
        stream = DeviceStream(device, priority=_PRIORITY[THINKER])
        dtype = model.thinker.llm.lm_head.weight.dtype
        engine = ThinkerEngine(
            model.thinker,
            settings.thinker,
            device=device,
            dtype=dtype,
            counters=counters,
            stream=stream,
            clock=clock,
            group=thinker_group,
        )
        stages.append(
            ThinkerStage(
                engine,
                MediaEncoder(model.thinker, stream),
                model.tokenizer,
                stream=stream,
                hidden_size=model.config.llm.hidden_size,
                early_stop=settings.thinker.early_stop,
                counters=counters,
                sessions=ThinkerSessions(
                    engine,
                    model.thinker,
                    ThinkerAudioStreams(model.thinker, settings.thinker, dtype=dtype, counters=counters, stream=stream),
                    model.tokenizer,
                    stream=stream,
                    hidden_size=model.config.llm.hidden_size,
                    max_positions=settings.thinker.max_model_len,
                    clock=clock,
                ),
            )
        )
    if TALKER in names:
        if model.talker is None:
            raise ConfigError("the model was loaded without its talker; load it with speech")
        stream = DeviceStream(device, priority=_PRIORITY[TALKER])
        talker = TalkerEngine(
            model.talker,
            settings.talker,
            device=device,
            dtype=model.talker.emb_text.weight.dtype,
            counters=counters,
            stream=stream,
            clock=clock,
        )
        stages.append(TalkerStage(talker, stream=stream, is_chunked=is_chunked, clock=clock))
    if CODE2WAV in names:
        if model.code2wav is None:
            raise ConfigError("the model was loaded without code2wav; load it with speech")
        vocoder = build_code2wav_engine(
            model.code2wav,
            settings.code2wav,
            device=device,
            counters=counters,
            stream=DeviceStream(device, priority=_PRIORITY[CODE2WAV]),
            noise_table=make_noise_table(model.code2wav.flow.config.num_mel_bins),
            clock=clock,
        )
        stages.append(Code2WavStage(vocoder, device=device, default_voice=default_voice, clock=clock))
    return stages


def memory_facts(model: OmniModel, *, thinker_ranks: int = 1) -> MemoryFacts:
    """What the loaded model and its device say about memory, once each of *thinker_ranks* has taken its share."""
    device_bytes = torch.cuda.mem_get_info(model.device)[1] if model.device.type == "cuda" else None
    return MemoryFacts(
        device_bytes=device_bytes,
        thinker_weight_bytes=_weight_bytes(model.thinker)
        - _weight_bytes(model.thinker.llm) * (thinker_ranks - 1) // thinker_ranks,
        talker_weight_bytes=0 if model.talker is None else _weight_bytes(model.talker),
        item_bytes=model.thinker.llm.lm_head.weight.element_size(),
    )


def _weight_bytes(module: torch.nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
