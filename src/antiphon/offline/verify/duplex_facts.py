"""What the log of a recorded duplex session says, told by our own session: recorded field name → our value."""

import re
from collections.abc import Mapping
from typing import Any

from antiphon.engine.context_window import Unit, WindowMode
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.duplex_replay import SessionTrace, UnitTrace
from antiphon.prompt.duplex_markup import session_start
from antiphon.prompt.tokenizer import Tokenizer


def session_facts(context: VerifyContext, trace: SessionTrace, recorded: Mapping[str, Any]) -> dict[str, object]:
    tokenizer = context.model.tokenizer
    start = session_start(tokenizer, trace.instructions, has_reference=trace.has_reference)
    prefix = tokenizer.decode(start.prefix, skip_special=False)
    suffix = tokenizer.decode(start.suffix, skip_special=False)
    fed = [token_id for unit in trace.units for token_id in _fed_ids(unit)]
    # What a forced listen feeds to close a turn was not decided, and not recorded as such.
    decided = [token_id for unit in trace.units if not unit.is_forced for token_id in _fed_ids(unit)]
    special = tokenizer.special
    silent = (special.speak, special.listen, special.chunk_eos, special.unit_end)
    # A bracketed word stands for the reference voice; the variants word it differently.
    middle = re.escape(prefix) + (r"\[[^\]]*\]" if trace.has_reference else "") + re.escape(suffix)
    is_whole = re.fullmatch(middle, recorded["full_prompt"]) is not None
    assert trace.prepare_keys is not None
    return {
        "prefix": prefix,
        "suffix": suffix,
        "full_prompt": recorded["full_prompt"] if is_whole else prefix + suffix,
        "prepare_feeds": [len(hidden) for hidden in trace.prepare_fed],
        "cache_after_prepare": trace.prepare_keys.shape[1],
        "preserve": trace.num_preserved,
        "schedule_tokens": [
            {
                **entry,
                "add": {
                    tokenizer.decode([int(token_id)], skip_special=False): amount
                    for token_id, amount in entry["add"].items()
                },
            }
            for entry in recorded["schedule"]
        ],
        "session_schema": "".join(_unit_schema(tokenizer, unit) for unit in trace.units if unit.prefill.is_success),
        "total_ids": fed,
        "res_ids": [token_id for token_id in decided if token_id not in silent],
    }


def _unit_schema(tokenizer: Tokenizer, unit: UnitTrace) -> str:
    text, ids = "", list[int]()
    for item in unit.prefill.fed:
        if isinstance(item, int):
            ids.append(item)
            continue
        text += tokenizer.decode(ids, skip_special=False) + f"[{item[0]}_embed_{item[1]}]"
        ids = []
    return text + tokenizer.decode(ids, skip_special=False) + tokenizer.decode(_fed_ids(unit), skip_special=False)


def _fed_ids(unit: UnitTrace) -> list[int]:
    result = unit.result
    if result.terminator is None or result.end is None:
        return []
    # Whether the terminator is fed with `</unit>` or before it is the variants' difference, and seen in the lengths.
    return [*result.decided_ids, result.terminator, result.end.fed_ids[-1]]


def unit_facts(tokenizer: Tokenizer, unit: UnitTrace, trace: SessionTrace) -> dict[str, object]:
    result, speech = unit.result, unit.result.speech
    is_basic = trace.options.window.mode is WindowMode.BASIC
    return {
        "text": result.text,
        "prefill_success": unit.prefill.is_success,
        "prefill_reason": unit.prefill.reason,
        "prefill_schema": [item if isinstance(item, int) else list(item) for item in unit.prefill.fed],
        "cache_after_prefill": unit.len_after_prefill,
        "prefill_feed_lengths": [len(hidden) for hidden in unit.prefill_fed],
        "generated_feed_lengths": [len(hidden) for hidden in unit.generate_fed],
        "fed_token_ids": _fed_ids(unit),
        "fed_text": tokenizer.decode(_fed_ids(unit), skip_special=False),
        "is_listen": result.is_listen,
        "end_of_turn": result.end_of_turn,
        "current_time": unit.num_media_units,
        "n_tokens": len(result.ids),
        "n_tts_tokens": 0 if speech is None else len(speech.codes),
        "cache_len": unit.cache_len,
        # Counted by one mode only, and never used for feeding.
        "position_offset": unit.num_dropped_tokens if is_basic else 0,
        "preserve": unit.num_preserved,
        "previous_token_ids": list(unit.previous_ids),
        "previous_text": tokenizer.decode(unit.content_ids, skip_special=True),
        "previous_len": len(unit.previous_ids),
        "audio_buffer_left": unit.num_waiting_samples,
        "tts_text_start_pos": unit.talker_position,
        "token2wav_buffer": unit.waiting_codes,
        "current_turn_ended": not unit.is_turn_open,
        "sliding_events": unit.num_cuts,
        "dropped_tokens": unit.num_dropped_tokens,
        "tts": _speech_facts(unit, trace),
        "wav_samples": None if result.waveform is None else len(result.waveform),
        "wav_all_zero": result.waveform is not None and not bool(result.waveform.any()),
        "sampler_calls_total": unit.num_draws,
        "cache_before_finalize": unit.len_before_end,
        "needs_finalize": trace.options.rules.defers_end and result.terminator is not None,
        "feeds_before_finalize": unit.num_fed_before_end,
    }


def _speech_facts(unit: UnitTrace, trace: SessionTrace) -> dict[str, object] | None:
    speech = unit.result.speech
    if speech is None:
        return None
    sampling = trace.talker_sampling
    return {
        "max_new_token": speech.max_codes,
        "min_new_tokens": speech.min_codes,
        "text_start_pos": speech.start,
        "repetition_penalty": sampling.repetition_penalty,
        "force_no_stop": False,  # a switch of the reference that its sessions never set
        # Read after the call: nothing for a turn's first unit, else the length that the unit left.
        "kv_before": 0 if speech.start == 0 else speech.start + len(speech.condition) + len(speech.codes),
        "codes": list(speech.codes),
    }


def history_entry(unit: Unit) -> dict[str, object]:
    return {
        "id": unit.id,
        "length": unit.length,
        "type": unit.kind,
        "is_listen": unit.is_listen,
        "generated_tokens": list(unit.content_ids),
        "generated_text": unit.text,
    }
