"""Replays the recorded offline and unit-by-unit speech of the Talker under every recorded sampler."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.offline.verify.case_talker_inputs import UNIFORMS, loaded_talker, recorded_noise
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.pipeline.eager.talker import CodeStop, SpokenCodes, TalkerSequence

FILE = "06_talker/generate.safetensors"
_CHUNK = re.compile(r"chunk\.(?P<sampler>[a-z_]+)\.(?:(?P<index>\d+)|k0_last(?P<num_keys>\d+))")


@dataclass(frozen=True)
class ChunkRun:
    """All chunks of one sampler: their codes, position and cache length after each, and the first layer's keys."""

    spoken: list[SpokenCodes]
    positions: list[int]
    cache_lens: list[int]
    keys: Tensor


def generate_run(context: VerifyContext, sampler: str) -> SpokenCodes | None:
    noise = recorded_noise(context, sampler, "generate")
    if noise is None:
        return None
    limits = context.golden.inputs["06_talker"]["generate"]
    condition = context.golden.tensor(FILE, "generate.inputs_embeds")[0].to(context.device)
    sequence = TalkerSequence(loaded_talker(context), noise)
    return context.once(
        f"talker generate {sampler}",
        lambda: sequence.generate(condition, min_codes=limits["min_new_token"], max_draws=limits["max_new_token"]),
    )


def chunk_run(context: VerifyContext, sampler: str) -> ChunkRun | None:
    noise = recorded_noise(context, sampler, "generate_chunk")
    if noise is None:
        return None
    limits = context.golden.inputs["06_talker"]["generate_chunk"]

    def run() -> ChunkRun:
        sequence = TalkerSequence(loaded_talker(context), noise)
        spoken, positions, cache_lens = [], [], []
        for index, minimum in enumerate(limits["min_new_tokens"]):
            condition = context.golden.tensor(FILE, f"chunk.cond.{index}")[0].to(context.device)
            spoken.append(sequence.generate_chunk(condition, min_codes=minimum, max_draws=limits["max_new_token"]))
            positions.append(sequence.position)
            cache_lens.append(len(sequence.context.cache))
        return ChunkRun(spoken, positions, cache_lens, sequence.context.cache.layer(0)[0])

    return context.once(f"talker chunks {sampler}", run)


def replay_generate(context: VerifyContext, checks: CaseChecks) -> None:
    for name in checks.names():
        chunk = _CHUNK.fullmatch(name)
        if name in ("generate.inputs_embeds", UNIFORMS[1]):
            checks.tensor(name)
        elif name.startswith("generate."):
            spoken = generate_run(context, name.removeprefix("generate."))
            if spoken is None:
                checks.unknown(name)
            else:
                checks.close(name, _column(spoken))
        elif chunk is None:
            checks.unknown(name)
        elif chunk["sampler"] == "cond":
            tokens = context.golden.inputs["06_talker"]["generate_chunk"]["condition_tokens"]
            checks.equal(f"{name} rows", checks.tensor(name).shape[1], tokens[int(chunk["index"])] + 1)
        else:
            _compare_chunk(context, checks, name, chunk)


def _compare_chunk(context: VerifyContext, checks: CaseChecks, name: str, chunk: re.Match[str]) -> None:
    run = chunk_run(context, chunk["sampler"])
    if run is None:
        checks.unknown(name)
    elif chunk["index"] is not None:
        checks.close(name, _column(run.spoken[int(chunk["index"])]))
    else:
        checks.close(name, run.keys[:, -int(chunk["num_keys"]) :])


def replay_meta(context: VerifyContext, checks: CaseChecks, section: str, recorded: dict[str, Any]) -> None:
    """Lengths and ends of the runs. Margins of the recorded probabilities are the reference's own and not compared."""
    for sampler, values in recorded.items():
        label = f"{section}.{sampler}"
        if section == "generate":
            spoken = generate_run(context, sampler)
            if spoken is None:
                checks.unknown(label)
                continue
            checks.equal(f"{label}.n", len(spoken.codes), values["n"])
            checks.equal(f"{label}.finished", spoken.stop is CodeStop.EOS, values["finished"])
            continue
        run = chunk_run(context, sampler)
        if run is None:
            checks.unknown(label)
            continue
        minimums = context.golden.inputs["06_talker"]["generate_chunk"]["min_new_tokens"]
        checks.equal(f"{label}.min_new_tokens", [value["min_new_tokens"] for value in values], minimums)
        checks.equal(f"{label}.n", [len(spoken.codes) for spoken in run.spoken], [value["n"] for value in values])
        checks.equal(f"{label}.position", run.positions, [value["text_start_pos_after"] for value in values])
        checks.equal(f"{label}.cache", run.cache_lens, [value["kv_len"] for value in values])


def _column(spoken: SpokenCodes) -> Tensor:
    return torch.tensor(spoken.codes, dtype=torch.int64).reshape(1, -1, 1)


REPLAYS = ((FILE, replay_generate),)
