"""Replays the recorded streaming speech: every attention type and sampler, block by block, and the interleaved runs."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.core.errors import ConfigError
from antiphon.engine.noise import InverseCdf, Scripted
from antiphon.offline.verify.case_talker_inputs import loaded_talker, recorded_noise, script
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.pipeline.eager.talker_interleaved import InterleavedChunk, interleaved_generate
from antiphon.pipeline.eager.talker_stream import CodeBlock, TalkerStream

FILE = "06_talker/streaming_generator.safetensors"
INTERLEAVED_META = "06_talker_interleaved/meta.json"
INTERLEAVED_FILE = "06_talker_interleaved/interleaved.safetensors"
_STREAM = re.compile(
    r"stream\.(?P<run>[a-z_]+\.[a-z_]+)\.(?:(?P<index>\d+)\.(?:yield(?P<block>\d+)|(?P<tail>k0_tail))|(?P<whole>all_tokens|k0))"
)


@dataclass(frozen=True)
class StreamStep:
    """State after one condition."""

    blocks: list[CodeBlock]
    num_buffered: int
    position: int
    num_codes: int
    num_draws: int
    keys: Tensor  # of the first layer, [H_kv, T, D]


@dataclass(frozen=True)
class StreamRun:
    steps: list[StreamStep]
    codes: list[int]


def stream_run(context: VerifyContext, run: str) -> StreamRun | None:
    """One recorded run, named attention type, dot, sampler; None if either is unknown."""
    attention_type, _, sampler = run.partition(".")
    noise = recorded_noise(context, sampler, "streaming")
    if not isinstance(noise, (Scripted, InverseCdf)):
        return None
    settings = context.golden.inputs["06_talker"]["streaming_generator"]

    def speak() -> StreamRun:
        stream = TalkerStream(
            loaded_talker(context),
            noise,
            attention_type=attention_type,
            window_tokens=settings["token_window_size"],
            block_size=settings["chunk_size"],
            max_codes=settings["max_new_token"],
        )
        steps = []
        for index in range(len(settings["condition_tokens"])):
            rows = context.golden.tensor(FILE, f"stream.cond.{index}")[0].to(context.device)
            blocks = list(stream.speak(rows, is_last_text=index == settings["text_finished_on"]))
            keys = stream.context.cache.layer(0)[0]
            steps.append(
                StreamStep(blocks, stream.num_buffered, stream.position, len(stream.codes), noise.num_draws, keys)
            )
        return StreamRun(steps, stream.codes)

    return context.once(f"talker stream {run}", speak)


def replay_stream(context: VerifyContext, checks: CaseChecks) -> None:
    tokens = context.golden.inputs["06_talker"]["streaming_generator"]["condition_tokens"]
    for name in checks.names():
        condition = re.fullmatch(r"stream\.cond\.(\d+)", name)
        match = _STREAM.fullmatch(name)
        run = stream_run(context, match["run"]) if match else None
        if condition:
            checks.equal(f"{name} rows", checks.tensor(name).shape[1], tokens[int(condition[1])])
        elif match is None or run is None:
            checks.unknown(name)
        elif match["whole"] == "all_tokens":
            checks.close(name, torch.tensor(run.codes))
        elif match["whole"] == "k0":
            checks.close(name, run.steps[-1].keys)
        elif match["tail"]:
            checks.close(name, run.steps[int(match["index"])].keys[:, -checks.tensor(name).shape[1] :])
        else:
            blocks, block = run.steps[int(match["index"])].blocks, int(match["block"])
            codes = blocks[block].codes if block < len(blocks) else ()
            checks.close(name, torch.tensor(codes, dtype=torch.int64))


def replay_meta(context: VerifyContext, checks: CaseChecks, recorded: dict[str, Any]) -> None:
    for name, steps in recorded.items():
        run = stream_run(context, name)
        if run is None:
            checks.unknown(name)
            continue
        checks.equal(f"{name}: conditions", len(run.steps), len(steps))
        for index, (ours, theirs) in enumerate(zip(run.steps, steps, strict=False)):
            label = f"{name}.{index}"
            blocks = [[[1, len(block.codes)], block.is_final] for block in ours.blocks]
            checks.equal(f"{label}.yields", blocks, theirs["yields"])
            checks.equal(f"{label}.buffer_left", ours.num_buffered, theirs["buffer_left"])
            checks.equal(f"{label}.text_start_pos", ours.position, theirs["text_start_pos"])
            checks.equal(f"{label}.kv_len", ours.keys.shape[1], theirs["kv_len"])
            checks.equal(f"{label}.total_tokens", ours.num_codes, theirs["total_tokens"])
            checks.equal(f"{label}.sampler_calls", ours.num_draws, theirs["sampler_calls"])


def interleaved_run(context: VerifyContext, attention_type: str) -> list[InterleavedChunk]:
    def speak() -> list[InterleavedChunk]:
        names = [name for name in context.golden.tensor_names(INTERLEAVED_FILE) if name.startswith("cond.")]
        conditions = [
            context.golden.tensor(INTERLEAVED_FILE, name)[0].to(context.device)
            for name in sorted(names, key=lambda name: int(name.partition(".")[2]))
        ]
        noise = Scripted(script(context.golden.json(INTERLEAVED_META)["script"]))
        return list(interleaved_generate(loaded_talker(context), conditions, noise, attention_type=attention_type))

    return context.once(f"talker interleaved {attention_type}", speak)


def replay_interleaved(context: VerifyContext, checks: CaseChecks) -> None:
    for name in checks.names():
        kind, _, part = name.partition(".")
        if kind == "cond":
            checks.tensor(name)
        elif part == "codes":
            codes = [code for chunk in interleaved_run(context, kind) for code in chunk.spoken.codes]
            checks.close(name, torch.tensor(codes))
        else:
            checks.unknown(name)


def replay_interleaved_meta(context: VerifyContext, checks: CaseChecks) -> None:
    for kind, recorded in context.golden.json(INTERLEAVED_META)["runs"].items():
        if "error" in recorded:  # fails in the reference: we refuse it by name
            try:
                interleaved_run(context, kind)
                checks.equal(f"{kind} is refused", False, True)
            except ConfigError:
                checks.equal(f"{kind} is refused", True, True)
            continue
        chunks = interleaved_run(context, kind)
        ours = [
            {
                "cond_len": chunk.prompt_len,
                "text_start_pos": chunk.start_position,
                "kv_before": chunk.start_position,
                "n": len(chunk.spoken.codes),
            }
            for chunk in chunks
        ]
        checks.equal(f"{kind} calls", ours, recorded["calls"])


REPLAYS = (
    (FILE, replay_stream),
    (INTERLEAVED_FILE, replay_interleaved),
    (INTERLEAVED_META, replay_interleaved_meta),
)
