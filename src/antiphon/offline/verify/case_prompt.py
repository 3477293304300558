"""Replays the prompt cases: chat pre-processing, the template's switches, encoding, placeholders, system prompts.

The recorded columns `real_*` come from the real vocabulary, which a recorded set does not hold: its checkpoint has a
small one. They are neither compared nor counted here; the parity tests rebuild the real tokenizer and compare with it.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from antiphon.audio.mel import HOP_SAMPLES, PIECE_SAMPLES
from antiphon.core.errors import PromptError
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal
from antiphon.offline.verify.prompt_inputs import (
    recorded_image_config,
    recorded_messages,
    recorded_model_config,
    recorded_tokenizer,
)
from antiphon.prompt.chat_prompt import IMAGE_MARK, ChatPrompt, build_chat_prompt
from antiphon.prompt.duplex_markup import SIMPLEX_FORBIDDEN, simplex_forbidden_ids
from antiphon.prompt.messages import AudioPart, TextPart
from antiphon.prompt.placeholders import audio_placeholder, audio_runs, find_spans, image_placeholder
from antiphon.prompt.segments import Markup
from antiphon.prompt.special_tokens import UNK_TOKEN
from antiphon.prompt.system_prompt import system_prompt
from antiphon.prompt.template import render_chat

# The reference's chat arguments that shape the prompt, under our names where the value is taken as it is.
_PASSED_ON = {
    "max_slice_nums": "max_slices",
    "use_image_id": "use_image_id",
    "use_tts_template": "use_tts_template",
    "enable_thinking": "enable_thinking",
    "merge_audio_from_same_content": "merge_audio",
}
_TRANSLATED = {"omni_mode", "stream_input", "teacher_forcing", "max_inp_length"}
_TEMPLATE_SWITCHES = {"add_generation_prompt", "enable_thinking", "use_tts_template", "tools"}
_CHAT_TOKENS = 8192  # the reference's longest chat prompt, where a case does not say


def chat_prompt_like_reference(
    context: VerifyContext, messages: Sequence[Mapping[str, Any]], kwargs: Mapping[str, Any]
) -> ChatPrompt:
    """What the reference's chat builds of recorded *messages* and call arguments: text is parsed, a tail is cut."""
    unknown = set(kwargs) - set(_PASSED_ON) - _TRANSLATED
    if unknown:
        raise PromptError(f"recorded chat arguments this version does not know: {', '.join(sorted(unknown))}")
    passed_on: dict[str, Any] = {ours: kwargs[theirs] for theirs, ours in _PASSED_ON.items() if theirs in kwargs}
    streamed = bool(kwargs.get("stream_input"))
    return build_chat_prompt(
        recorded_messages(messages),
        recorded_tokenizer(context),
        recorded_image_config(context),
        join="" if streamed or kwargs.get("omni_mode") else "\n",
        add_generation_prompt=not kwargs.get("teacher_forcing"),
        protect_text=False,
        chunked_audio=streamed,
        pool_step=recorded_model_config(context).audio.pool_step,
        max_tokens=kwargs.get("max_inp_length", _CHAT_TOKENS),
        overflow="cut",
        **passed_on,
    )


def _check_chat(context: VerifyContext, checks: CaseChecks) -> None:
    for case in context.golden.json(checks.file):
        name = case["name"]
        prompt = chat_prompt_like_reference(context, case["msgs"], case["kwargs"])
        checks.equal(f"{name}.prompt", prompt.text, case["prompt"])
        checks.equal(f"{name}.ids", _run_lengths(prompt.ids), case["tiny_input_ids_rle"])
        checks.equal(f"{name}.length", len(prompt.ids), case["tiny_len"])
        # Bounds, lengths and sizes are recorded for a batch of one conversation; bounds are positions of the tiny ids.
        checks.equal(f"{name}.image_bound", [_lists(prompt.image_bounds)], case["image_bound"])
        checks.equal(f"{name}.audio_bounds", [_lists(prompt.audio_bounds)], case["audio_bounds"])
        checks.equal(f"{name}.tgt_sizes", [_lists(prompt.patch_grids)], case["tgt_sizes"])
        frames = [num for clip in prompt.clips for num in _piece_frames(len(clip))]
        checks.equal(f"{name}.audio_feature_lens", [frames], case["audio_feature_lens"])
        checks.equal(f"{name}.strips", len(prompt.strips), len(prompt.image_bounds))
        checks.equal(f"{name}.spk_bounds", [[]], case["spk_bounds"])  # no message can ask for speaker embeddings
        if not case["attention_mask_all_true"]:
            checks.unknown(f"{name}: a chat prompt with padding")


def _check_batch(context: VerifyContext, checks: CaseChecks) -> None:
    """Several prompts, padded on the left with id 0; of the messages only their rendered prompts are recorded."""
    recorded = context.golden.json(checks.file)
    tokenizer, image_config = recorded_tokenizer(context), recorded_image_config(context)
    length = max(len(row) for row in recorded["input_ids"])
    for place, text in enumerate(recorded["prompts"]):
        pieces = text.split(IMAGE_MARK)
        expanded = pieces[0]
        for number, piece in enumerate(pieces[1:]):
            image_id = number if image_config.use_image_id else None
            expanded += image_placeholder(None, image_config.num_queries, image_id) + piece
        ids = tokenizer.encode(expanded)
        shift = length - len(ids)
        spans = [[start + shift, end + shift] for start, end in find_spans(ids, tokenizer.special)]
        checks.equal(f"{place}.input_ids", [0] * shift + ids, recorded["input_ids"][place])
        checks.equal(f"{place}.attention_mask", [0] * shift + [1] * len(ids), recorded["attention_mask"][place])
        checks.equal(f"{place}.image_bound", spans, recorded["image_bound"][place])


def _check_template(context: VerifyContext, checks: CaseChecks) -> None:
    for place, case in enumerate(context.golden.json(checks.file)):
        given = {name: value for name, value in case.items() if name not in ("msgs", "prompt")}
        if not set(given) <= _TEMPLATE_SWITCHES:
            checks.unknown(f"{place}: {sorted(set(given) - _TEMPLATE_SWITCHES)}")
            continue
        checks.equal(f"{place}.prompt", render_chat(case["msgs"], **given), case["prompt"])


def _check_encode(context: VerifyContext, checks: CaseChecks) -> None:
    tokenizer = recorded_tokenizer(context)
    for case in context.golden.json(checks.file):
        label = repr(case["text"][:20])
        ids = tokenizer.encode(case["text"])
        checks.equal(f"{label}.ids", ids, case["tiny"])
        checks.equal(f"{label}.decoded", tokenizer.decode(ids, skip_special=False), case["tiny_decoded"])
        # The same ids must come out where text is protected and the special tokens are our own markup.
        checks.equal(f"{label}.segments", tokenizer.encode_segments([Markup(case["text"])]), case["tiny"])


def _check_special_ids(context: VerifyContext, checks: CaseChecks) -> None:
    tokenizer, recorded = recorded_tokenizer(context), context.golden.json(checks.file)
    checks.equal("ids", {token: tokenizer.id(token) for token in recorded["tiny"]}, recorded["tiny"])
    checks.equal("forbidden tokens", list(SIMPLEX_FORBIDDEN), recorded["forbidden_literal_tokens"])
    forbidden = recorded["tiny_forbidden_ids"] + recorded["tiny_bad_token_ids"]
    checks.equal("forbidden ids", list(simplex_forbidden_ids(tokenizer)), forbidden)
    checks.equal("bad ids", list(tokenizer.bad_ids), recorded["tiny_bad_token_ids"])
    checks.equal("length", tokenizer.vocab_size, recorded["tiny_len"])


def _check_audio_placeholder(context: VerifyContext, checks: CaseChecks) -> None:
    pool_step = recorded_model_config(context).audio.pool_step
    for case in context.golden.json(checks.file):
        num_samples = case["samples"]
        runs = audio_runs(num_samples, pool_step=pool_step, chunked=False)
        checks.equal(f"{num_samples}", runs, [case["n_unk"]])
        checks.equal(f"{num_samples}.text", audio_placeholder(runs).count(UNK_TOKEN), case["n_unk"])
        chunked = audio_runs(num_samples, pool_step=pool_step, chunked=True)
        checks.equal(f"{num_samples}.chunked", chunked, case["chunked"])


def _check_system_prompts(context: VerifyContext, checks: CaseChecks) -> None:
    audio = context.golden.inputs["audio"]["reference_audio"]
    reference = AudioPart(audio_signal(audio["samples"], audio["seed"]))
    for case in context.golden.json(checks.file):
        label = f"{case['mode']}/{case['language']}/{case['ref_audio']}"
        try:
            message = system_prompt(case["mode"], case["language"], reference if case["ref_audio"] else None)
        except PromptError:
            checks.equal(f"{label}.refused", True, "error" in case)
            continue
        content = [part.text if isinstance(part, TextPart) else "<AUDIO>" for part in message.parts]
        checks.equal(label, (message.role, content), (case.get("role"), case.get("content")))


def _run_lengths(ids: Sequence[int]) -> list[list[int]]:
    return [[token_id, len(list(run))] for token_id, run in groupby(ids)]


def _lists(pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    return [list(pair) for pair in pairs]


def _piece_frames(num_samples: int) -> list[int]:
    """Mel frames of a clip's pieces of up to 30 s."""
    pieces = [min(PIECE_SAMPLES, num_samples - start) for start in range(0, num_samples, PIECE_SAMPLES)]
    return [-(-piece // HOP_SAMPLES) for piece in pieces]


REPLAYS = (
    ("05_prompt/chat_cases.json", _check_chat),
    ("05_prompt/batch_left_pad.json", _check_batch),
    ("05_prompt/template_grid.json", _check_template),
    ("05_prompt/encode.json", _check_encode),
    ("05_prompt/special_ids.json", _check_special_ids),
    ("05_prompt_audio_placeholder/*.json", _check_audio_placeholder),
    ("09_sys_prompt/*.json", _check_system_prompts),
)
