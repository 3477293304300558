"""Puts the vocoding engine together: model, slots of the sizes that the settings ask for, engine."""

from collections.abc import Callable

import torch
from torch import Tensor

from antiphon.engine.code2wav_engine import Code2WavEngine
from antiphon.engine.code2wav_runner import batch_buckets, chunk_widths, slot_classes
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.float32_precision import float32_precision
from antiphon.engine.settings import Code2WavSettings
from antiphon.layers.flow_kernels import load_flow_kernels
from antiphon.models.code2wav.batched.batched import BatchedCode2Wav
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.flow import KEPT_TAIL_FRAMES


def build_code2wav_engine(
    code2wav: Code2Wav,
    settings: Code2WavSettings,
    *,
    device: torch.device,
    counters: Counters,
    stream: DeviceStream,
    noise_table: Tensor,
    clock: Callable[[], float],
) -> Code2WavEngine:
    """An engine for *code2wav*; allocates all slots. Call `warm_up` before it is used.

    Args:
        noise_table: start noise of the flow, [1, mel, n] float32, on any device.
        clock: seconds.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # the weights came on another stream
    lookahead = code2wav.flow.config.encoder.lookahead
    # Tables are computed once, so they may as well be exact.
    with stream.active(), float32_precision(tf32=False):
        model = BatchedCode2Wav(
            code2wav,
            num_steps=settings.num_steps,
            noise=noise_table.to(device),
            capacities=slot_classes(settings, lookahead, KEPT_TAIL_FRAMES),
            widths=chunk_widths(settings, lookahead),
            max_batch=batch_buckets(settings)[-1],
            kernels=load_flow_kernels() if settings.use_triton and device.type == "cuda" else None,
        )
    return Code2WavEngine(model, settings, counters=counters, stream=stream, clock=clock)
