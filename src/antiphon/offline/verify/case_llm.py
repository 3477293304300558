"""Replays the recorded language-model runs: a merged prompt through the decoder, and greedy answers to it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.audio.mel import offline_mels
from antiphon.core.errors import PromptError
from antiphon.engine.chat_sampling import ChatSampling, chat_scores
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal, image_pattern
from antiphon.pipeline.eager.merge import merge_images, merge_media
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.prompt.chat_prompt import ChatPrompt, build_chat_prompt
from antiphon.prompt.messages import AudioPart, ImagePart, Message, Part, TextPart

_META = "04_omni_llm/meta.json"
_GREEDY = re.compile(r".*/(.+)_greedy_rp([\d.]+)\.safetensors")
_NAMED = re.compile(r"(inputs_embeds|last_hidden|logits)_(every|last)(\d+)")
_LAYER0_EVERY, _CACHE_EVERY = 4, 8  # positions the set keeps of tensors whose names do not say so
_MARGIN_TOLERANCE = 1e-3


@dataclass(frozen=True)
class PromptRun:
    """One recorded prompt, built and fed. Tensors are [T, …]."""

    prompt: ChatPrompt
    embeds: Tensor
    hidden: Tensor
    cache: KVCache


@dataclass(frozen=True)
class GreedyRun:
    """A greedy answer. `hidden` has a row for each id that was fed, which the last one was not."""

    ids: list[int]
    raw_logits: Tensor
    scores: Tensor
    hidden: Tensor


def _messages(recorded: Sequence[dict[str, Any]]) -> list[Message]:
    return [Message(entry["role"], _parts(entry["content"])) for entry in recorded]


def _parts(content: str | list[Any]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for item in [content] if isinstance(content, str) else content:
        match item:
            case str():
                parts.append(TextPart(item))
            case ["aud", num_samples, seed]:
                parts.append(AudioPart(audio_signal(num_samples, seed)))
            case ["img", width, height, seed]:
                parts.append(ImagePart(image_pattern(width, height, seed)))
            case _:
                raise PromptError(f"a recorded part this version does not know: {item!r}")
    return tuple(parts)


def _build_prompt(context: VerifyContext, case: str) -> ChatPrompt:
    recorded = context.golden.json(_META)[case]
    given: dict[str, Any] = dict(recorded["kwargs"])
    joined = [given.pop(name, False) for name in ("omni_mode", "stream_input")]
    prompt = build_chat_prompt(
        _messages(recorded["msgs"]),
        context.model.tokenizer,
        context.model.image_config,
        join="" if any(joined) else "\n",
        max_slices=given.pop("max_slice_nums", None),
        use_image_id=given.pop("use_image_id", None),
        use_tts_template=given.pop("use_tts_template", False),
        enable_thinking=given.pop("enable_thinking", False),
        pool_step=context.model.config.audio.pool_step,
        protect_text=False,  # as the reference does
    )
    if given:
        raise PromptError(f"recorded call arguments this version does not know: {', '.join(given)}")
    return prompt


def _prompt_run(context: VerifyContext, case: str) -> PromptRun:
    def run() -> PromptRun:
        thinker, prompt = context.model.thinker, _build_prompt(context, case)
        embeds = thinker.embed(torch.tensor(prompt.ids, device=context.device))
        images = thinker.encode_images([torch.from_numpy(strip) for strip in prompt.strips], prompt.patch_grids)
        mels = [torch.from_numpy(mel) for clip in prompt.clips for mel in offline_mels(clip)]
        embeds = merge_images(embeds, prompt.image_bounds, images)
        embeds = merge_media(embeds, prompt.audio_bounds, thinker.encode_audio(mels))
        sequence = ThinkerSequence(thinker)
        return PromptRun(prompt, embeds, sequence.feed(embeds), sequence.cache)

    return context.once(f"04_omni_llm/{case}", run)


def _greedy_run(context: VerifyContext, case: str, penalty: str, num_ids: int) -> GreedyRun:
    def run() -> GreedyRun:
        thinker, start = context.model.thinker, _prompt_run(context, case)
        sequence = ThinkerSequence(thinker)
        sequence.cache = start.cache.clone()
        sampling = ChatSampling(is_greedy=True, repetition_penalty=float(penalty))
        ids: list[int] = []
        raw, scores, rows = [], [], [start.hidden[-1:]]
        while len(ids) < num_ids:
            if ids:
                rows.append(sequence.feed_ids(ids[-1:]))
            raw.append(thinker.logits(rows[-1])[0])
            scores.append(chat_scores(raw[-1], torch.tensor(ids, dtype=torch.int64, device=context.device), sampling))
            ids.append(int(scores[-1].argmax()))
        return GreedyRun(ids, torch.stack(raw), torch.stack(scores), torch.cat(rows)[1:])

    return context.once(f"04_omni_llm/{case}/{penalty}/{num_ids}", run)


def _replay_prompt(context: VerifyContext, checks: CaseChecks) -> None:
    case = checks.file.rsplit("/", 1)[-1].removesuffix(".safetensors")
    if case not in context.golden.json(_META):
        checks.unknown(case)
        return
    thinker, run = context.model.thinker, _prompt_run(context, case)
    checks.close("input_ids", torch.tensor(run.prompt.ids))
    last = {"inputs_embeds": run.embeds, "last_hidden": run.hidden, "logits": thinker.logits(run.hidden)}
    whole = {
        "last_hidden_final": run.hidden[-1],
        "hidden_after_layer0": _after_layer0(context, run.embeds)[::_LAYER0_EVERY],
        "k_cache_layer0": run.cache.layer(0)[0][:, ::_CACHE_EVERY],
        "v_cache_last": run.cache.layer(-1)[1][:, ::_CACHE_EVERY],
    }
    for name in checks.names():
        if name in whole:
            checks.close(name, whole[name])
        elif match := _NAMED.fullmatch(name):
            rows, count = last[match[1]], int(match[3])
            checks.close(name, rows[::count] if match[2] == "every" else rows[-count:])


def _after_layer0(context: VerifyContext, embeds: Tensor) -> Tensor:
    decoder = context.model.thinker.llm.model
    cos, sin = decoder.rope.cos_sin(torch.arange(len(embeds), device=embeds.device))
    out: Tensor = decoder.layers[0](embeds, cos, sin, 0, CausalAttend(KVCache(1)))
    return out


def _replay_greedy(context: VerifyContext, checks: CaseChecks) -> None:
    match = _GREEDY.fullmatch(checks.file)
    if match is None or match[1] not in context.golden.json(_META):
        checks.unknown(checks.file)
        return
    run = _greedy_run(context, match[1], match[2], len(checks.tensor("sequences")))
    checks.close("sequences", torch.tensor(run.ids))
    checks.close("raw_logits", run.raw_logits)
    checks.close("processed_scores", run.scores)
    checks.close("last_hidden", run.hidden)


def _replay_plain(context: VerifyContext, checks: CaseChecks) -> None:
    sequence = ThinkerSequence(context.model.thinker)
    hidden = sequence.feed_ids(checks.tensor("ids").flatten().tolist())
    keys, values = sequence.cache.layer(0)
    checks.close("hidden", hidden)
    checks.close("logits", context.model.thinker.logits(hidden))
    checks.close("k0", keys)
    checks.close("v0", values)


def _replay_meta(context: VerifyContext, checks: CaseChecks) -> None:
    for case, recorded in context.golden.json(checks.file).items():
        prompt = _prompt_run(context, case).prompt
        checks.equal(f"{case}.prompt", prompt.text, recorded["prompt"])
        checks.equal(f"{case}.length", len(prompt.ids), recorded["length"])
        answers = {}
        for penalty, answer in recorded["greedy"].items():
            run = _greedy_run(context, case, penalty, len(answer["ids"]))
            best = run.scores.topk(2, dim=-1).values
            margin = float((best[:, 0] - best[:, 1]).min())
            answers[penalty] = context.model.tokenizer.decode(run.ids, skip_special=True)
            checks.equal(f"{case}.{penalty}.ids", run.ids, answer["ids"])
            checks.equal(f"{case}.{penalty}.text", answers[penalty], answer["text"])
            checks.equal(f"{case}.{penalty}.margin", abs(margin - answer["min_margin"]) < _MARGIN_TOLERANCE, True)
        for field, value in recorded.items():
            if field.startswith("chat_answer_greedy_rp"):
                checks.equal(f"{case}.{field}", answers[field.removeprefix("chat_answer_greedy_rp")], value)
            elif field not in ("msgs", "kwargs", "prompt", "length", "greedy"):
                checks.unknown(f"{case}.{field}")


REPLAYS = (
    (_META, _replay_meta),
    ("04_omni_llm/plain_ids.safetensors", _replay_plain),
    ("04_omni_llm/*_greedy_rp*.safetensors", _replay_greedy),
    ("04_omni_llm/*.safetensors", _replay_prompt),
)
