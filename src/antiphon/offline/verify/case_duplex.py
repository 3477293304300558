"""Replays the duplex sessions of both reference variants, and the key rotation of their windows alone."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import torch
from torch import Tensor

from antiphon.engine.context_window import Cut
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.duplex_facts import history_entry, session_facts, unit_facts
from antiphon.offline.verify.duplex_replay import STATIC_BIAS, SessionTrace, UnitTrace, replay_session, uniforms_file
from antiphon.pipeline.eager.duplex_window import apply_cut
from antiphon.pipeline.eager.thinker import ThinkerSequence

# Read as inputs of the replay, or statements about the recording itself: margins between the two best ids, and which
# samples of a waveform were saved (the tensor comparison reads that one).
_SESSION_INPUTS = (
    *("init_kwargs", "generate_kwargs", "ref_audio", "schedule", "probe_ids"),
    *("decode_log_min_margin", "min_prob_margin"),
)
_UNIT_INPUTS = ("audio", "frames", "wav_saved")


def _replay_log(context: VerifyContext, checks: CaseChecks) -> None:
    recorded, trace = context.golden.json(checks.file), replay_session(context, checks.file)
    for label in trace.unknown:
        checks.unknown(label)
    checks.equal("units", len(trace.units), len(recorded["units"]))
    facts = session_facts(context, trace, recorded)
    for key, value in recorded.items():
        if key in facts:
            checks.equal(key, facts[key], value)
        elif key not in _SESSION_INPUTS and key != "units":
            checks.unknown(key)
    for index, (unit, ours) in enumerate(zip(recorded["units"], trace.units, strict=False)):
        _compare_unit(context, checks, index, unit, ours, trace)


def _compare_unit(
    context: VerifyContext,
    checks: CaseChecks,
    index: int,
    recorded: Mapping[str, Any],
    ours: UnitTrace,
    trace: SessionTrace,
) -> None:
    facts = {"unit": index, **unit_facts(context.model.tokenizer, ours, trace)}
    for key, value in recorded.items():
        if key == "unit_history":  # some sessions record more fields of a unit than others
            mine = [history_entry(unit) for unit in ours.units]
            shown = [{name: entry.get(name) for name in theirs} for entry, theirs in zip(mine, value, strict=False)]
            checks.equal(f"{index}.unit_history", (len(mine), shown), (len(value), value))
        elif key in facts:
            checks.equal(f"{index}.{key}", facts[key], value)
        elif key not in _UNIT_INPUTS:
            checks.unknown(f"{index}.{key}")
    if "tts" not in recorded:
        checks.equal(f"{index}.tts", ours.result.speech is None, True)


def _replay_tensors(context: VerifyContext, checks: CaseChecks) -> None:
    folder = PurePosixPath(checks.file).parent.name
    if checks.file == STATIC_BIAS[0]:
        _check_static_bias(context, checks)
        return
    sources = {uniforms_file(folder, arguments) for arguments in context.golden.inputs[folder].values()}
    for source in sources:
        if source is not None and source[0] == checks.file:
            _check_uniforms(checks, source[1])
            return
    trace = replay_session(context, checks.file)
    recorded = context.golden.json(str(PurePosixPath(checks.file).with_suffix(".json")))
    assert trace.prepare_keys is not None
    assert trace.probe_hidden is not None
    assert trace.probe_logits is not None
    num_shown = context.golden.shape(checks.file, "prepare.k0")[1]  # all positions, or the last two
    checks.close("prepare.k0", trace.prepare_keys[:, -num_shown:])
    checks.close("probe.hidden", trace.probe_hidden)
    checks.close("probe.logits", trace.probe_logits)
    for index, unit in enumerate(trace.units):
        _compare_unit_tensors(context, checks, f"u{index}", unit, trace, recorded["units"][index])


def _compare_unit_tensors(
    context: VerifyContext,
    checks: CaseChecks,
    name: str,
    unit: UnitTrace,
    trace: SessionTrace,
    recorded: Mapping[str, Any],
) -> None:
    rows = _generated_rows(unit, trace)
    ours: dict[str, Tensor | None] = {
        "pending_logits": unit.pending_logits,
        "prefill_last_hidden": unit.pending_hidden,
        "gen_hidden": rows,
        "gen_logits_first_last": None if rows is None else context.model.thinker.logits(rows[[0, -1]]),
        "tts_cond": None if unit.result.speech is None else unit.result.speech.condition,
        "wav": None if unit.result.waveform is None else _saved(unit.result.waveform, recorded.get("wav_saved")),
    }
    for key, value in ours.items():
        if not checks.has(f"{name}.{key}"):
            continue
        if value is None:
            checks.unknown(f"{name}.{key}: recorded, but our unit has none")
        else:
            checks.close(f"{name}.{key}", value)
    key = f"{name}.k0_every4"
    if checks.has(key):
        is_last_only = context.golden.shape(checks.file, key)[1] == 1
        checks.close(key, unit.keys[:, -1:] if is_last_only else unit.keys[:, ::4])


def _generated_rows(unit: UnitTrace, trace: SessionTrace) -> Tensor | None:
    """Hidden rows [n, hidden] of the ids that had a forward of their own and gave logits; None if there are none.

    Base: the terminator too, unless the last step forced it. Unified: no terminator, it goes with `</unit>`.
    """
    num_rows = len(unit.result.decided_ids)
    is_forced = num_rows == trace.options.max_tokens - 1
    if unit.result.terminator is not None and not trace.options.rules.defers_end and not is_forced:
        num_rows += 1
    return torch.cat(unit.generate_fed[:num_rows]) if num_rows else None


def _saved(waveform: Tensor, recorded: str | None) -> Tensor:
    """The samples that were recorded: all of them, or both ends joined."""
    found = re.fullmatch(r"first (\d+) \+ last (\d+)", recorded or "")
    return waveform if found is None else torch.cat((waveform[: int(found[1])], waveform[-int(found[2]) :]))


def _check_static_bias(context: VerifyContext, checks: CaseChecks) -> None:
    """An input of all sessions: one number for each id of the vocabulary."""
    checks.equal("shape", tuple(checks.tensor(STATIC_BIAS[1]).shape), (context.model.config.vocab_size,))


def _check_uniforms(checks: CaseChecks, name: str) -> None:
    """An input of one session, which must not run out of them (the noise source would say so)."""
    uniforms = checks.tensor(name)
    checks.equal("dimensions", uniforms.dim(), 1)
    checks.equal("range", bool(((uniforms >= 0) & (uniforms < 1)).all()), True)


def _replay_rope_drop(context: VerifyContext, checks: CaseChecks) -> None:
    """A cut alone; its place and the two ids fed afterwards stand in the file's description only."""
    found = re.search(
        r"length (\d+), preserve (\d+)\).* ids (\d+),(\d+) at", context.golden.entries[checks.file]["desc"]
    )
    if found is None:
        checks.unknown("description without the cut's place")
        return
    length, preserve, *next_ids = map(int, found.groups())
    sequence = ThinkerSequence(context.model.thinker)
    sequence.feed_ids(checks.tensor("ids")[0].tolist())
    keys, values = sequence.cache.layer(0)
    checks.close("k0_before", keys)
    checks.close("v0_before", values)
    tail, new_length = (preserve + length, len(sequence)), len(sequence) - length
    apply_cut(sequence, Cut((0, preserve), (), tail, new_length, ()))
    keys, values = sequence.cache.layer(0)
    checks.close("k0_after", keys)
    checks.close("v0_after", values)
    checks.close("klast_after", sequence.cache.layer(len(sequence.cache.keys) - 1)[0])
    checks.close("logits_next2", context.model.thinker.logits(sequence.feed_ids(next_ids)))


REPLAYS = (
    ("08_duplex/*.json", _replay_log),
    ("08_duplex_unified/*.json", _replay_log),
    ("08_duplex/*.safetensors", _replay_tensors),
    ("08_duplex_unified/*.safetensors", _replay_tensors),
    ("08_duplex_decode/rope_drop.safetensors", _replay_rope_drop),
)
