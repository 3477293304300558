"""Rows that the audio encoder makes of several live streams, some of which begin later than others."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from antiphon.audio.mel import REDUNDANCY_FRAMES, StreamingMel, UnitSamples
from antiphon.engine.audio_messages import AudioStep
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_audio_streams import ThinkerAudioStreams
from antiphon.offline.gate.limits import max_row_difference
from antiphon.offline.gate.subject import NUM_ROWS, say_nothing
from antiphon.offline.gate.verdict import Check
from antiphon.pipeline.omni_model import OmniModel

_NUM_UNITS = 5
_UNIT_SAMPLES = 16_000


class _Microphone:
    """A noisy room, unit by unit."""

    def __init__(self, name: str, seed: int, num_bins: int) -> None:
        self._name, self._chance = name, np.random.default_rng(seed)
        self._samples = UnitSamples()
        self._mel = StreamingMel(redundancy_frames=REDUNDANCY_FRAMES, num_bins=num_bins)

    def step(self) -> AudioStep:
        self._samples.append(self._chance.normal(0, 0.1, _UNIT_SAMPLES).astype(np.float32))
        samples = self._samples.take()
        assert samples is not None
        chunk = self._mel.push(samples)
        return AudioStep(
            stream_id=self._name,
            mel=torch.from_numpy(chunk.mel),
            trim_front=chunk.trim_front,
            trim_end=chunk.trim_end,
        )


def encode_streams(model: OmniModel, settings: ThinkerSettings, counters: Counters) -> list[Tensor]:
    """Rows [10, hidden] float32 of every unit; stream i begins with unit i, so that batches of all sizes occur."""
    stream = DeviceStream(model.device)
    streams = ThinkerAudioStreams(
        model.thinker,
        replace(settings, num_audio_streams=NUM_ROWS),
        dtype=model.thinker.llm.lm_head.weight.dtype,
        counters=counters,
        stream=stream,
    )
    streams.warm_up(say_nothing)
    num_bins = model.config.audio.num_mel_bins
    microphones: list[_Microphone] = []
    found: list[Tensor] = []
    for unit in range(_NUM_UNITS):
        if unit < NUM_ROWS:
            streams.open(str(unit))
            microphones.append(_Microphone(str(unit), unit, num_bins))
        came = streams.step([microphone.step() for microphone in microphones])
        came.ready.wait()
        found += [rows.float().cpu() for rows in came.rows]
    return found


def close_rows(plain: list[Tensor], fast: list[Tensor], dtype: torch.dtype) -> list[Check]:
    """Rows differ by rounding alone, measured against the largest number in them."""
    largest = max(float(rows.abs().max()) for rows in plain)
    apart = max(float((one - other).abs().max()) for one, other in zip(plain, fast, strict=True))
    return [
        Check(
            name="largest difference of a row ÷ largest number", value=apart / largest, limit=max_row_difference(dtype)
        ),
        Check(name="units compared", value=len(plain), limit=10, is_at_least=True),
    ]
