"""Replays the turn-based session: prompts, rounds and the text window, answers as text and as speech."""

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.simplex_replay import (
    BIAS_NAME,
    FOLDER,
    OperationTrace,
    replay_session,
    unknown_arguments,
)
from antiphon.pipeline.eager.simplex_window import RoundEntry
from antiphon.prompt.tokenizer import Tokenizer


def _replay_log(context: VerifyContext, checks: CaseChecks) -> None:
    recorded = context.golden.json(checks.file)
    log = recorded["log"]
    # `note` says in words how the recording was steered; the replay reads the amount from it.
    for key in recorded:
        if key not in ("log", "note"):
            checks.unknown(key)
    traces = replay_session(context, checks.file)
    checks.equal("operations", len(traces), sum(entry["op"] != "window" for entry in log))
    answers: dict[RoundEntry, str] = {}
    for index, entry in enumerate(log):
        if entry["op"] == "window":
            _compare(checks, index, entry, _window_facts(traces[-1]), ("op",))
            continue
        trace = traces[index]
        for key in unknown_arguments(entry):
            checks.unknown(f"{index}.{key}")
        if trace.segment is not None:
            facts = _segment_facts(context.model.tokenizer, trace, answers)
            _compare(checks, index, entry, facts, ("op", "role", "kwargs"))
        else:
            text = context.model.tokenizer.decode(trace.ids, skip_special=True)
            if trace.rounds[-1].role == "assistant" and trace.spoken:
                answers[trace.rounds[-1]] = text
            facts = _answer_facts(trace, text)
            _compare(checks, index, entry, facts, ("op", "kwargs", "forced", "generate_audio"))


def _compare(
    checks: CaseChecks, index: int, recorded: Mapping[str, Any], facts: Mapping[str, object], inputs: tuple[str, ...]
) -> None:
    for key, value in recorded.items():
        if key in facts:
            checks.equal(f"{index}.{key}", facts[key], value)
        elif key not in inputs:
            checks.unknown(f"{index}.{key}")


def _segment_facts(tokenizer: Tokenizer, trace: OperationTrace, answers: Mapping[RoundEntry, str]) -> dict[str, object]:
    assert trace.segment is not None
    ids = trace.segment.ids
    if trace.has_dropped:
        # The recording listened to the tokenizer; the last thing encoded then is the latest answer that is left, for
        # the books of its round.
        ids = tokenizer.encode_plain(next(answers[entry] for entry in reversed(trace.rounds) if entry in answers))
    return {
        "content": trace.content,
        "prompt": trace.segment.text,
        "input_ids_rle": [[token_id, len(list(group))] for token_id, group in groupby(ids)],
        "cache_len": trace.keys.shape[1],
        "audio_cache": trace.num_audio_frames or None,
        "audio_chunk_idx": trace.num_audio_segments,
        "round": trace.rounds[-1].round_id,
        "preserve": trace.system_len,
    }


def _answer_facts(trace: OperationTrace, text: str) -> dict[str, object]:
    assert trace.chunks is not None
    return {
        "cache_len": trace.keys.shape[1],
        "rounds": _rounds(trace),
        "new_user_msg": trace.is_new_turn,
        "llm_generated": trace.has_answered,
        "llm_generate_completed": False,  # the reference never sets it, which is why every turn closes the answer
        "chunks": [
            {"text": chunk.text, "finished": chunk.is_final}
            if chunk.waveform is None
            else {"samples": len(chunk.waveform), "text": chunk.text}
            for chunk in trace.chunks
        ],
        "token_ids": list(trace.ids),
        "text": text,
        "conditions": [[[1, *piece.rows.shape], piece.is_last_text] for piece in trace.spoken],
    }


def _window_facts(trace: OperationTrace) -> dict[str, object]:
    return {
        "high": trace.limits[0],
        "low": trace.limits[1],
        "rounds": _rounds(trace),
        "position_offset": trace.num_dropped_tokens,
        "cache_len": trace.keys.shape[1],
    }


def _rounds(trace: OperationTrace) -> list[list[object]]:
    return [[entry.role, entry.length, entry.round_id] for entry in trace.rounds]


def _replay_tensors(context: VerifyContext, checks: CaseChecks) -> None:
    traces = replay_session(context, checks.file)
    for name in checks.names():
        if name == BIAS_NAME:  # an input of every draw
            checks.equal(name, tuple(checks.tensor(name).shape), (context.model.config.vocab_size,))
            continue
        ours = _tensor(traces, name)
        if ours is None:
            checks.unknown(name)
        else:
            checks.close(name, ours)


def _tensor(traces: list[OperationTrace], name: str) -> Tensor | None:
    """Our counterpart of a recorded tensor, cut as its name says; None for a name this version does not know."""
    if found := re.fullmatch(r"final\.k0_every(\d+)", name):
        return traces[-1].keys[:, :: int(found[1])]
    found = re.fullmatch(r"(\d+)\.(\w+)", name)
    if found is None or int(found[1]) >= len(traces):
        return None
    trace, kind = traces[int(found[1])], found[2]
    if found := re.fullmatch(r"k0_last(\d+)", kind):
        return trace.keys[:, -int(found[1]) :]
    if found := re.fullmatch(r"cond(\d+)", kind):
        index = int(found[1])
        return trace.spoken[index].rows if index < len(trace.spoken) else None
    if found := re.fullmatch(r"wav(\d+)_first(\d+)_last(\d+)", kind):
        index, head, tail = map(int, found.groups())
        waveform = trace.chunks[index].waveform if trace.chunks is not None and index < len(trace.chunks) else None
        return None if waveform is None else torch.cat((waveform[:head], waveform[-tail:]))
    return None


REPLAYS = (
    (f"{FOLDER}/*.json", _replay_log),
    (f"{FOLDER}/*.safetensors", _replay_tensors),
)
