"""Milliseconds per codec token of the Talker engine's captured windows, at real sizes with random weights.

    python benchmarks/talker_step.py --json talker.json

Needs nothing but torch, triton, numpy and this package. Prints one table line per batch, context and window; the last
columns are the floor of weight and cache bytes at 4.3 TB/s and the ratio to it. Then a speech of 310 codes through the
engine's own loop.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from antiphon.config.checkpoint import DecoderConfig, TalkerConfig
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import TalkerSettings
from antiphon.engine.talker_engine import TalkerEngine
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.layers.code_rows import Column
from antiphon.models.talker.talker import Talker

BANDWIDTH = 4.3e12  # bytes a second
BATCHES, CONTEXTS, REPEATS = (1, 4, 16), (200, 600), 20


def real_config() -> TalkerConfig:
    decoder = DecoderConfig(
        hidden_size=768,
        intermediate_size=3072,
        num_layers=20,
        num_heads=12,
        num_kv_heads=12,
        head_dim=64,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=4096,
        has_qk_norm=False,
    )
    return TalkerConfig(
        decoder=decoder,
        llm_hidden_size=4096,
        num_codec_ids=6562,
        num_text_ids=152_064,
        audio_bos_id=151_687,
        text_eos_id=151_692,
        normalize_projected=True,
        attention_type="full_attention",
        window_chunks=2,
        recomputed_chunks=1,
        window_tokens=300,
    )


def build_talker(device: torch.device, dtype: torch.dtype) -> Talker:
    with torch.device(device):
        talker = Talker(real_config()).requires_grad_(False).to(dtype)
    generator = torch.Generator(device).manual_seed(0)
    for weight in talker.parameters():
        if weight.dim() > 1:
            weight.normal_(0.0, weight[0].numel() ** -0.5, generator=generator)
    return talker


def floor_ms(batch: int, context: int, num_bytes: int) -> float:
    weights = 20 * (4 * 768 * 768 + 3 * 768 * 3072) + 6562 * 768
    cache = batch * context * 20 * 2 * 768
    return (weights + cache) * num_bytes / BANDWIDTH * 1e3


def set_rows(engine: TalkerEngine, batch: int, context: int) -> None:
    """All slots in the middle of a long speech that never ends."""
    ints = engine._device.ints
    ints[:batch, Column.IS_DONE] = 0
    ints[:batch, Column.POSITION] = ints[:batch, Column.LENGTH] = context
    ints[:batch, Column.MIN_DRAWS] = ints[:batch, Column.MAX_DRAWS] = 1 << 40
    ints[:batch, Column.NUM_HISTORY], ints[:batch, Column.HAS_FILTERS] = 16, 1
    ints[:batch, Column.TOP_K], ints[:batch, Column.MIN_KEEP], ints[:batch, Column.WINDOW] = 25, 3, 16
    ints[:batch, Column.SEED] = torch.arange(batch, device=ints.device)
    engine._device.rules[:batch] = torch.tensor([0.8, 1.05, 0.15], device=ints.device)


def measure(engine: TalkerEngine, batch: int, context: int, num_steps: int) -> float:
    """Median milliseconds of one window, from the device's own clock."""
    times = []
    for _ in range(REPEATS + 3):
        set_rows(engine, batch, context)
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with engine.stream.active():
            start.record()
            engine._windows.launch(range(batch), num_steps, longest=context, max_top_k=25)
            end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[3:])


def speak(engine: TalkerEngine, batch: int, num_codes: int) -> tuple[float, float]:
    """Seconds to the first 28 codes of every row, and to all codes, through admit, launch and collect."""
    device = engine._device.device
    hidden = torch.randn(32, 4096, device=device, dtype=engine._device.dtype)
    begin = time.perf_counter()
    for index in range(batch):
        name = f"{batch}-{index}"
        job = TalkerJob(
            seq_id=name,
            epoch=0,
            sampling=TalkerSampling(),
            seed=index,
            mode=TalkerMode.SPAN,
            min_codes=num_codes,
            max_codes=num_codes,
        )
        engine.admit(job)
        engine.extend(name, TalkerCondition(ids=tuple(range(32)), hidden=hidden, has_text_eos=True, is_last=True))
    counts: dict[str, int] = {}
    num_finished, first = 0, 0.0
    while num_finished < batch:
        engine.launch()
        for output in engine.collect():
            counts[output.seq_id] = counts.get(output.seq_id, 0) + len(output.codes)
            num_finished += output.finish_reason is not None
        if not first and len(counts) == batch and min(counts.values()) >= 28:
            first = time.perf_counter() - begin
    return first, time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-triton", action="store_true")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--profile", action="store_true", help="print the kernels of one step at batch 1")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    figures: dict[str, float] = {}
    device, dtype = torch.device("cuda"), getattr(torch, options.dtype)
    counters = Counters()
    settings = TalkerSettings(use_triton=not options.no_triton, use_graphs=not options.no_graphs)
    with torch.inference_mode():
        engine = TalkerEngine(
            build_talker(device, dtype),
            settings,
            device=device,
            dtype=dtype,
            counters=counters,
            stream=DeviceStream(device, priority=-1),
            clock=time.monotonic,
        )
        begin = time.perf_counter()
        engine.warm_up(lambda _: None)
        torch.cuda.synchronize()
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.dtype}, {settings}")
        print(f"warm-up {time.perf_counter() - begin:.1f} s, {torch.cuda.memory_allocated() / 2**30:.1f} GiB")
        print(f"{'batch':>5} {'context':>7} {'steps':>5} {'ms/step':>8} {'floor':>6} {'ratio':>5}")
        for batch in BATCHES:
            for context in CONTEXTS:
                floor = floor_ms(batch, context, dtype.itemsize)
                for num_steps in (1, 25):
                    per_step = measure(engine, batch, context, num_steps) / num_steps
                    row = f"{batch:5} {context:7} {num_steps:5} {per_step:8.3f} {floor:6.3f} {per_step / floor:5.1f}"
                    print(row)
                    label = f"codec id, batch {batch}, context {context}, windows of {num_steps}"
                    figures |= {f"{label}: ms": per_step, f"{label}: floor, ms": floor}
        engine._device.ints[:, Column.IS_DONE] = 1
        for batch in BATCHES:
            speak(engine, batch, 40)
            first, whole = speak(engine, batch, 310)
            figures[f"310 codes, batch {batch}: first 28, ms"] = 1e3 * first
            figures[f"310 codes, batch {batch}: all, ms"] = 1e3 * whole
            print(f"310 codes x {batch:2}: first 28 after {first * 1e3:6.1f} ms, all after {whole * 1e3:7.1f} ms")
        if options.profile:
            set_rows(engine, 1, 600)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                with engine.stream.active():
                    engine._windows.launch([0], 1, longest=600, max_top_k=25)
                torch.cuda.synchronize()
            print(profile.key_averages().table(sort_by="cuda_time_total", row_limit=40, max_name_column_width=80))
        print(counters.snapshot())
        figures |= {f"counter {name}": float(count) for name, count in counters.snapshot().items()}
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
