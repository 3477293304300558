"""Replays the recorded audio features and encoder runs: offline, ragged batch, stages, streams."""

import re
import wave
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.audio.mel import (
    HOP_SAMPLES,
    REDUNDANCY_FRAMES,
    SAMPLE_RATE_HZ,
    MelChunk,
    StreamingMel,
    UnitSamples,
    offline_mels,
)
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal
from antiphon.prompt.placeholders import audio_placeholder, audio_runs

_OFFLINE = re.compile(r"mel(?:_every(\d+)|_head(\d+)|_tail(\d+)_of_first)?\.(.+)")
_EMBEDS = re.compile(r"emb_(chunkoff|chunk1)\.(.+)\.(\d+)")
_SLICE = re.compile(r"x\[(\d+):(\d+)\]")
_LONG = re.compile(r"(?:mel_every(\d+)|emb)\.(\d+)")
_THINNED_EMBEDS, _THINNED_MEL = 6, 6  # what the manifest's description says of long tensors


@dataclass(frozen=True)
class StreamStep:
    """One chunk of a recorded stream, replayed."""

    chunk: MelChunk
    rows: Tensor  # [t, hidden]
    cached_frames: int


def _signal(context: VerifyContext) -> NDArray[np.float32]:
    spec = context.golden.inputs["audio"]["03_audio"]
    return audio_signal(spec["samples"], spec["seed"])


def _mels(context: VerifyContext, samples: NDArray[np.float32]) -> list[Tensor]:
    return [torch.from_numpy(mel).to(context.device) for mel in offline_mels(samples)]


def _pad_stack(mels: list[Tensor]) -> Tensor:
    longest = max(mel.shape[1] for mel in mels)
    return torch.stack([torch.nn.functional.pad(mel, (0, longest - mel.shape[1])) for mel in mels])


def _thin(ours: Tensor, num_recorded: int, step: int) -> Tensor:
    """The recorded subset of rows (first dimension): all of them, or every *step*-th."""
    return ours if len(ours) == num_recorded else ours[::step]


def _replay_wav(context: VerifyContext, checks: CaseChecks) -> None:
    with wave.open(str(context.golden.folder / checks.file)) as reader:
        form = (reader.getframerate(), reader.getnchannels(), reader.getsampwidth())
        samples = np.frombuffer(reader.readframes(reader.getnframes()), dtype="<i2")
    checks.equal("rate, channels, bytes", (SAMPLE_RATE_HZ, 1, 2), form)
    generated = np.round(_signal(context)[: len(samples)] * 32768).astype(np.int16)
    checks.equal("samples", np.array_equal(generated, samples), True)


def _replay_offline(context: VerifyContext, checks: CaseChecks) -> None:
    meta = context.golden.json("03_audio/offline_meta.json")
    mels = {label: _mels(context, _signal(context)[: entry["samples"]]) for label, entry in meta.items()}
    rows = {
        (mode, label): context.model.thinker.encode_audio(clips, block_mask=mode == "chunk1")
        for label, clips in mels.items()
        for mode in ("chunkoff", "chunk1")
    }
    for name in checks.names():
        if match := _OFFLINE.fullmatch(name):
            every, head, tail, label = match.groups()
            batch = _pad_stack(mels[label])
            if tail:
                batch = batch[:1, :, -int(tail) :]
            checks.close(name, batch[:, :, :: int(every or 1)][:, :, : int(head) if head else None])
        elif match := _EMBEDS.fullmatch(name):
            mode, label, piece = match.groups()
            ours = rows[mode, label][int(piece)]
            checks.close(name, _thin(ours, len(checks.tensor(name)), _THINNED_EMBEDS))


def _replay_offline_meta(context: VerifyContext, checks: CaseChecks) -> None:
    meta: dict[str, dict[str, Any]] = context.golden.json(checks.file)
    pool_step = context.model.config.audio.pool_step
    for label, entry in meta.items():
        mels = _mels(context, _signal(context)[: entry["samples"]])
        batch = _pad_stack(mels)
        num_rows = [len(rows) for rows in context.model.thinker.encode_audio(mels)]
        ours = {
            "samples": entry["samples"],
            "feature_shape": list(batch.shape),
            "feature_lens": [mel.shape[1] for mel in mels],
            "placeholder": audio_placeholder(audio_runs(entry["samples"], pool_step=pool_step, chunked=False)),
            "placeholder_chunked": audio_placeholder(audio_runs(entry["samples"], pool_step=pool_step, chunked=True)),
            "embed_rows_chunkoff": num_rows,
            "embed_rows_chunk1": num_rows,
        }
        for field, recorded in entry.items():
            if field in ("mean", "std"):
                statistic = batch.double().mean() if field == "mean" else batch.double().std()
                checks.equal(f"{label}.{field}", abs(float(statistic) - recorded) < 1e-4, True)
            elif field in ours:
                checks.equal(f"{label}.{field}", ours[field], recorded)
            else:
                checks.unknown(f"{label}.{field}")


def _replay_ragged(context: VerifyContext, checks: CaseChecks) -> None:
    lens = [int(length) for length in checks.tensor("lens")]
    batch = checks.tensor("mel").to(context.device)
    # The clips' sample ranges stand only in the file's description.
    spans = _SLICE.findall(context.golden.entries[checks.file].get("desc", ""))
    if len(spans) == len(lens):
        mels = [mel for start, end in spans for mel in _mels(context, _signal(context)[int(start) : int(end)])]
        checks.equal("lens", [mel.shape[1] for mel in mels], lens)
        checks.close("mel", _pad_stack(mels))
    clips = [mel[:, :length] for mel, length in zip(batch, lens, strict=True)]
    for index, rows in enumerate(context.model.thinker.encode_audio(clips)):
        checks.close(f"emb.{index}", rows)


def _replay_stages(context: VerifyContext, checks: CaseChecks) -> None:
    """Stage outputs of the one-second clip; convolutions before their activation."""
    thinker, name = context.model.thinker, checks.file
    seconds = re.fullmatch(r".*stages_(\d+)s\.safetensors", name)
    if seconds is None:
        checks.unknown(name)
        return
    mels = _mels(context, _signal(context)[: int(seconds[1]) * SAMPLE_RATE_HZ])
    first = thinker.apm.conv1(mels[0][None])
    last = thinker.apm(mels, block_mask=True)
    ours = {
        "conv1": first,
        "conv2": thinker.apm.conv2(torch.nn.functional.gelu(first)),
        "apm_last": last,
        "projected": thinker.audio_projection_layer.project(last),
    }
    for tensor in checks.names():
        if tensor in ("conv1", "conv2"):
            ours[tensor] = ours[tensor][:, :, : checks.tensor(tensor).shape[-1]]
        if tensor in ours:
            checks.close(tensor, ours[tensor])


def _stream(context: VerifyContext, units: list[NDArray[np.float32]], redundancy_frames: int) -> list[StreamStep]:
    thinker = context.model.thinker
    mel, state = StreamingMel(redundancy_frames=redundancy_frames), thinker.new_audio_stream()
    steps = []
    for unit in units:
        chunk = mel.push(unit)
        frames = torch.from_numpy(chunk.mel).to(context.device)
        rows = thinker.encode_audio_step(frames, state, trim_front=chunk.trim_front, trim_end=chunk.trim_end)
        steps.append(StreamStep(chunk, rows, len(state)))
    return steps


def _recorded_streams(context: VerifyContext) -> dict[str, list[StreamStep]]:
    def replay() -> dict[str, list[StreamStep]]:
        streams = {}
        for name, entries in context.golden.json("03_audio/streaming_meta.json").items():
            spans = [(entry["start_sample"], entry["start_sample"] + entry["samples"]) for entry in entries]
            units = [_signal(context)[start:end] for start, end in spans]
            streams[name] = _stream(context, units, REDUNDANCY_FRAMES if name == "duplex" else 0)
        return streams

    return context.once("03_audio/streaming", replay)


def _long_stream(context: VerifyContext) -> list[StreamStep]:
    """The signal, followed by itself, for as many units as the books list."""

    def replay() -> list[StreamStep]:
        num_units = len(context.golden.json("03_audio/streaming_long_meta.json"))
        pending, signal = UnitSamples(), _signal(context)
        units: list[NDArray[np.float32]] = []
        while len(units) < num_units:
            unit = pending.take() if len(pending) >= pending.required else None
            if unit is None:
                pending.append(signal)
            else:
                units.append(unit)
        return _stream(context, units, REDUNDANCY_FRAMES)

    return context.once("03_audio/streaming_long", replay)


def _replay_streaming(context: VerifyContext, checks: CaseChecks) -> None:
    streams = _recorded_streams(context)
    for name in checks.names():
        stream, kind, index = name.split(".")
        step = streams[stream][int(index)]
        if kind == "mel":
            frames = torch.from_numpy(step.chunk.mel).T
            checks.close(name, _thin(frames, checks.tensor(name).shape[-1], _THINNED_MEL).T)
        elif kind == "emb":
            checks.close(name, step.rows)


def _replay_long(context: VerifyContext, checks: CaseChecks) -> None:
    steps = _long_stream(context)
    for name in checks.names():
        if match := _LONG.fullmatch(name):
            step = steps[int(match[2])]
            checks.close(name, torch.from_numpy(step.chunk.mel[:, :: int(match[1])]) if match[1] else step.rows)


def _books(step: StreamStep) -> dict[str, object]:
    """The bookkeeping of one step under the recorded names."""
    chunk = step.chunk
    return {
        "type": "exact_chunk",
        "mel_frames": chunk.mel.shape[1],
        "emitted_frames": chunk.mel.shape[1],
        "emb_rows": len(step.rows),
        "audio_cache_len": step.cached_frames,
        "floor": chunk.floor.value,
        "base_T": chunk.buffer_start_frame,
        "left_samples_dropped": chunk.buffer_start_frame * HOP_SAMPLES,
        "stable_T": chunk.stable_frames,
        "stable_T_global": chunk.stable_frames + chunk.buffer_start_frame,
        "T_full": chunk.buffer_frames,
        "buffer_len_samples": chunk.buffer_samples,
        "core_start": chunk.core_start,
        "core_end": chunk.core_end,
    }


def _replay_streaming_meta(context: VerifyContext, checks: CaseChecks) -> None:
    recorded = context.golden.json(checks.file)
    for name, steps in _recorded_streams(context).items():
        for number, (step, entry) in enumerate(zip(steps, recorded[name], strict=True), start=1):
            ours = {**_books(step), "chunk_number": number}
            given = {"samples": entry["samples"], "start_sample": entry["start_sample"]}
            flat = {**{key: value for key, value in entry.items() if key != "info"}, **entry["info"]}
            _compare_books(checks, f"{name}[{number - 1}]", {**ours, **given}, flat)


def _replay_long_meta(context: VerifyContext, checks: CaseChecks) -> None:
    for number, (step, entry) in enumerate(zip(_long_stream(context), context.golden.json(checks.file), strict=True)):
        _compare_books(checks, f"[{number}]", {**_books(step), "c": number}, entry)


def _compare_books(checks: CaseChecks, label: str, ours: dict[str, object], recorded: dict[str, object]) -> None:
    for field, value in recorded.items():
        if field in ours:
            checks.equal(f"{label}.{field}", ours[field], value)
        else:
            checks.unknown(f"{label}.{field}")


REPLAYS = (
    ("03_audio/*.wav", _replay_wav),
    ("03_audio/offline.safetensors", _replay_offline),
    ("03_audio/offline_meta.json", _replay_offline_meta),
    ("03_audio/ragged.safetensors", _replay_ragged),
    ("03_audio/stages_*.safetensors", _replay_stages),
    ("03_audio/streaming.safetensors", _replay_streaming),
    ("03_audio/streaming_meta.json", _replay_streaming_meta),
    ("03_audio/streaming_long.safetensors", _replay_long),
    ("03_audio/streaming_long_meta.json", _replay_long_meta),
)
