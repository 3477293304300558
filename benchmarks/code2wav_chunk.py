"""What one second of speech costs in the vocoding engine, at real size with random weights.

    python benchmarks/code2wav_chunk.py --json code2wav.json

Prints, for float32 and TF32, with and without captured graphs, and for each batch: ms per launch of one steady chunk
(28 codec ids, 1 s of speech) of every stream, host work and copies included, and what flow and vocoder alone take on
the device; then a turn's last chunk, the time to make a voice ready, the warm-up, and memory per stream and voice.
Needs a CUDA device, torch and numpy.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch

from antiphon.config.checkpoint import DiTConfig, FlowConfig, FlowEncoderConfig
from antiphon.engine.code2wav_engine import Code2WavEngine
from antiphon.engine.code2wav_streams import SpeechJob, SpeechOutput
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.float32_precision import float32_precision
from antiphon.engine.settings import Code2WavSettings
from antiphon.layers.speech_shapes import VocoderShape
from antiphon.models.code2wav.cfm import make_noise_table
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.code2wav.flow import VoicePrompt
from antiphon.models.dummy import dummy_value
from antiphon.models.placing import assign, build_empty, finish
from antiphon.pipeline.code2wav_engine import build_code2wav_engine

STEADY_CODES, TAIL_CODES = 28, 15
STEADY_FRAMES = 50
WIDTH = 25
REAL_FLOW = FlowConfig(
    num_codec_ids=6561,
    embedding_size=512,
    num_mel_bins=80,
    speaker_size=192,
    cfg_rate=0.7,
    encoder=FlowEncoderConfig(
        input_size=512,
        output_size=512,
        num_heads=8,
        linear_units=2048,
        num_blocks=6,
        num_up_blocks=4,
        up_stride=2,
        lookahead=3,
    ),
    dit=DiTConfig(in_channels=320, out_channels=80, hidden_size=512, depth=16, num_heads=8, head_dim=64, mlp_ratio=4.0),
)


def build_model(device: torch.device) -> Code2Wav:
    model = build_empty(partial(Code2Wav, REAL_FLOW, HiFTConfig.real()))
    generator = torch.Generator(device).manual_seed(0)
    for name, empty in list(model.named_parameters()):
        assign(model, name, dummy_value(name, tuple(empty.shape), device, torch.float32, generator))
    return finish(model, device)


def random_voice(num_codes: int) -> VoicePrompt:
    draw = np.random.default_rng(0)
    mel = draw.standard_normal((1, 80, 2 * num_codes)).astype(np.float32) - 6
    return VoicePrompt(
        codes=torch.from_numpy(draw.integers(0, 6561, (1, num_codes))),
        xvector=torch.from_numpy(draw.standard_normal((1, 192)).astype(np.float32)),
        mel=torch.from_numpy(mel),
    )


def random_codes(count: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(count).integers(0, 6561, count).tolist())


def launch_and_wait(engine: Code2WavEngine) -> list[SpeechOutput]:
    """One launch, from the choice of streams to samples on the host."""
    assert engine.launch()
    torch.cuda.synchronize()
    return engine.collect()


def time_chunks(engine: Code2WavEngine, batch: int, num_chunks: int) -> tuple[list[float], float]:
    """Seconds of launches of *batch* steady chunks, and of one of as many last chunks."""
    names = [f"b{batch}-{index}" for index in range(batch)]
    for name in names:
        engine.admit(SpeechJob(name, 1, "voice", 0, 0.0))
    seconds = []
    for _ in range(num_chunks):
        for name in names:
            engine.push(name, random_codes(STEADY_CODES), is_last=False)
        start_s = perf_counter()
        outputs = launch_and_wait(engine)
        seconds.append(perf_counter() - start_s)
        assert len(outputs) == batch
    for name in names:
        engine.push(name, random_codes(TAIL_CODES), is_last=True)
        engine.close_input(name)
    start_s = perf_counter()
    launch_and_wait(engine)
    return seconds[4:], perf_counter() - start_s  # the first ones trim no caches yet


def time_on_device(stream: DeviceStream, run: Callable[[], None], repeats: int) -> float:
    """Median ms of *run* between two events of its stream."""
    times_ms: list[float] = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        with stream.active():
            start.record()
            run()
            end.record()
        end.synchronize()
        times_ms.append(start.elapsed_time(end))
    return median(times_ms)


def measure(
    model: Code2Wav, settings: Code2WavSettings, batches: list[int], num_chunks: int, voice: VoicePrompt
) -> dict[str, float]:
    device = torch.device("cuda")
    counters, stream = Counters(), DeviceStream(device, priority=-1)
    torch.cuda.synchronize()
    free_bytes = torch.cuda.mem_get_info()[0]
    start_s = perf_counter()
    engine = build_code2wav_engine(
        model,
        settings,
        device=device,
        counters=counters,
        stream=stream,
        noise_table=make_noise_table(),
        clock=perf_counter,
    )
    engine.warm_up(lambda _: None)
    torch.cuda.synchronize()
    figures = {"warm-up, s": perf_counter() - start_s}
    figures["engine memory, MiB"] = (free_bytes - torch.cuda.mem_get_info()[0]) / 2**20
    for key in ("first voice, ms", "voice, ms"):
        start_s = perf_counter()
        engine.add_voice(key, voice)
        torch.cuda.synchronize()
        figures[key] = 1e3 * (perf_counter() - start_s)
    engine.add_voice("voice", voice)
    figures["voice memory, MiB"] = engine.voices.num_bytes / len(engine.voices) / 2**20
    runner, steady = engine.runner, VocoderShape(STEADY_FRAMES, has_past=True)
    for batch in batches:
        seconds, tail_s = time_chunks(engine, batch, num_chunks)
        figures[f"steady chunk, batch {batch}, ms"] = 1e3 * median(seconds)
        figures[f"last chunk, batch {batch}, ms"] = 1e3 * tail_s

        def run_flow(batch: int = batch) -> None:
            runner.cfm_graphs.run((0, WIDTH, batch), partial(engine.model.run_flow, 0, WIDTH, batch))

        def run_hift(batch: int = batch) -> None:
            runner.hift_graphs.run((steady, batch), partial(engine.model.run_vocoder, steady, batch))

        with float32_precision(tf32=settings.use_tf32):
            figures[f"flow, batch {batch}, ms"] = time_on_device(stream, run_flow, num_chunks)
            figures[f"vocoder, batch {batch}, ms"] = time_on_device(stream, run_hift, num_chunks)
    print("  counters:", counters.snapshot())
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--chunks", type=int, default=24, help="steady chunks timed per batch")
    parser.add_argument("--steps", type=int, default=10, help="of the flow's ODE")
    parser.add_argument("--voice-codes", type=int, default=150, help="length of the reference voice, 25 a second")
    parser.add_argument("--skip-plain", action="store_true", help="measure captured graphs only")
    parser.add_argument("--no-triton", action="store_true", help="the torch twins of the flow's kernels")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, {options.steps} ODE steps")
    model, voice = build_model(torch.device("cuda")), random_voice(options.voice_codes)
    report = {}
    for use_tf32 in (False, True):
        for use_graphs in (True,) if options.skip_plain else (True, False):
            title = f"{'TF32' if use_tf32 else 'float32'}, {'graphs' if use_graphs else 'plain'}"
            settings = Code2WavSettings(
                num_slots=max(options.batches),
                num_long_slots=0,
                num_steps=options.steps,
                use_tf32=use_tf32,
                use_graphs=use_graphs,
                use_triton=not options.no_triton,
                use_hift_graph=use_graphs,
                graph_batches=tuple(options.batches),
            )
            print(title)
            report[title] = measure(model, settings, options.batches, options.chunks, voice)
            for name, value in report[title].items():
                print(f"  {name:32} {value:10.2f}")
            torch.cuda.empty_cache()
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
